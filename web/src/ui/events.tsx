// Marks of single moments under the curves, on their axis of time: a row for each kind, with what leads to the one before
// and the next. A click into a row goes to the nearest.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { clock } from "../model/clock";
import type { Span } from "../model/curves";
import type { Kind } from "../model/events";
import { upTo } from "../model/trace";
import { fit, inkOf } from "../replay/scene";

/** Told to the clock as what moved it. */
const SELF = {};

interface RowProps {
  kind: Kind;
  span: Span;
  theme: string;
}

/** The nearest of ascending times. */
function nearest(times: Float64Array, at: number): number {
  const place = upTo(times, at);
  const [before, after] = [times[place - 1] ?? Number.NEGATIVE_INFINITY, times[place] ?? Number.POSITIVE_INFINITY];
  return at - before < after - at ? before : after;
}

function Row({ kind: { one, many, times, colour }, span: [from, to], theme }: RowProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const paint = () => {
      const fitted = canvas.current && fit(canvas.current);
      if (!fitted) return;
      const [context, width, height] = fitted;
      const ink = inkOf();
      context.clearRect(0, 0, width, height);
      context.fillStyle = ink.rule;
      context.fillRect(0, height - 1, width, 1);
      context.fillStyle = ink[colour];
      let last = -2;
      for (let place = upTo(times, from - 1e-12); place < times.length && (times[place] ?? 0) <= to; place += 1) {
        const x = Math.round((((times[place] ?? 0) - from) / (to - from)) * width);
        if (x > last) context.fillRect(x - 0.75, 2, 1.5, height - 4);
        last = x;
      }
    };
    paint();
    if (!canvas.current) return;
    const watch = new ResizeObserver(paint);
    watch.observe(canvas.current);
    return () => watch.disconnect();
  }, [times, from, to, theme, colour]);
  const jump = (way: number) => {
    const next = times[way > 0 ? upTo(times, clock.seconds + 1e-9) : upTo(times, clock.seconds - 1e-9) - 1];
    if (next !== undefined) clock.set(next, SELF);
  };
  const click = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLCanvasElement).getBoundingClientRect();
    clock.set(nearest(times, from + ((event.clientX - box.left) / Math.max(1, box.width)) * (to - from)), SELF);
  };
  return (
    <li>
      <span class="jump">
        <button type="button" aria-label={`${one} before`} title={`${one} before`} onClick={() => jump(-1)}>‹</button>
        <button type="button" aria-label={`${one} after`} title={`${one} after`} onClick={() => jump(1)}>›</button>
      </span>
      <canvas ref={canvas} onClick={click} aria-hidden="true" />
      <span class="many">{many} <b>{times.length.toLocaleString("en-GB")}</b></span>
    </li>
  );
}

/** `of` says of which flow and sender. */
export function Events({ kinds, span, of, theme }: { kinds: Kind[]; span: Span; of: string; theme: string }) {
  const cursor = useRef<HTMLSpanElement>(null);
  const [from, to] = span;
  useEffect(() => {
    const follow = () => {
      const share = (clock.seconds - from) / (to - from);
      if (!cursor.current) return;
      cursor.current.hidden = !clock.isSet || share < 0 || share > 1;
      cursor.current.style.left = `${share * 100}%`;
    };
    follow();
    return clock.listen(follow);
  }, [from, to, kinds]);
  if (kinds.length === 0) return null;
  return (
    <section class="events" aria-label={`Events of ${of}`}>
      <h3 class="title">Events of {of}</h3>
      <div class="rows">
        <ul>{kinds.map((kind) => <Row key={kind.one} kind={kind} span={span} theme={theme} />)}</ul>
        <span class="over" aria-hidden="true"><span ref={cursor} hidden /></span>
      </div>
    </section>
  );
}
