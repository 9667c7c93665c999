// The path that the scenario describes, and what is on it at the time where the cursor stands: how busy each link is, what
// waits for it, and whether it is down. Time runs as fast as the whole run takes twenty seconds, or so slowly that packets
// can be followed: then they are on it instead, drawn as in Replay, which begins at the same time.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Checked, Description, Interruptions, LinkDescription, Series } from "../engine/types";
import { clock } from "../model/clock";
import { prefixFor } from "../model/compare";
import type { Line, Panel, Pen } from "../model/curves";
import { SvgPen } from "../model/figure";
import { useChosen } from "../model/store";
import type { Trace } from "../model/trace";
import { Layout, type Place } from "../replay/layout";
import { covers, LINGER, PacketLegend, SLOW, speedOf, SPEEDS, usePackets, type RunOf } from "../replay/packets";
import { draw as drawPackets, drawCells, drawNodes, fit, inkOf, isBesideOthers, Once, Texts, way, type Ink, type Way } from "../replay/scene";

/** In a window as high as this, in px, the path stays in sight while its curves are read; they keep this much of it. */
const LEAST_WINDOW = 640;
const LEAST_CURVES = 240;
/** Seconds in which the whole run goes by. */
const WHOLE = 20;
/** How much of what was before is loaded with packets, in seconds of real time. */
const BEHIND = 2;
/** How far below a link its words stand, in px, and with packets beside it. */
const BELOW = 7;
const BELOW_PACKETS = 12;
/** Highest queue that is drawn, in px; one without a limit is full at this number of packets. */
const HIGH = 30;
const UNLIMITED = 100;
/** How far the light of a busy link moves in a second, and the length of its dashes, in px. */
const PACE = 60;
const DASH = 14;

interface Load {
  series: Series | null;
  interruptions: Interruptions;
  /** The one whose packets are marked, or -1. */
  flow: number;
}

/** The picture, and how fast time runs in it. */
interface Picture {
  description: Description;
  layout: Layout;
  speed: number;
  /** The packets, where time runs slowly and they are there. */
  trace: Trace | null;
}

/** What a direction had at a time; NaN where nothing is known. */
function valueAt(series: Series | null, name: string, direction: number, { links, series_interval_s }: Description, time: number): number {
  const values = series?.links[name];
  if (!values) return Number.NaN;
  const width = links.length * 2;
  const row = Math.min(Math.floor(values.length / width) - 1, Math.max(0, Math.floor(time / series_interval_s)));
  return values[row * width + direction] ?? Number.NaN;
}

/** A quantity with its unit, as short as it can be. */
function brief(value: number, unit: string): string {
  const [factor, name] = prefixFor(value, unit);
  return `${Number((value / factor).toPrecision(3))} ${name}`;
}

const toldLinks = new WeakMap<LinkDescription, string>();

/** Rate and delay of a link, in words. */
function aboutLink(link: LinkDescription): string {
  const told = toldLinks.get(link) ?? tellLink(link);
  toldLinks.set(link, told);
  return told;
}

function tellLink({ forward, reverse }: LinkDescription): string {
  const of = (side: LinkDescription["forward"]) => [side.rate_bit_s > 0 ? brief(side.rate_bit_s, "bit/s") : "", side.delay_s > 0 ? brief(side.delay_s, "s") : ""].filter(Boolean).join(", ");
  const [there, back] = [of(forward), of(reverse)];
  return there === back ? there : `${there} / ${back}`;
}

/** A link: as thick and bright as it is busy, in each direction at its own side. */
function drawLink(context: Pen, line: Way, link: LinkDescription, busy: [number, number], isDown: boolean, thin: boolean, moved: number, ink: Ink): void {
  context.globalAlpha = isDown ? 1 : 0.55;
  context.strokeStyle = isDown ? ink.bad : ink.faint;
  context.lineWidth = thin ? 1 : 2;
  context.setLineDash(isDown ? [2, 5] : link.radio ? [5, 4] : []);
  context.beginPath();
  context.moveTo(line.from.x, line.from.y);
  context.lineTo(line.to.x, line.to.y);
  context.stroke();
  busy.forEach((share, side) => {
    if (!(share > 0.005) || isDown) return;
    const aside = (side === 0 ? -1 : 1) * (thin ? 1 : 3);
    const [x, y] = [line.across.x * aside, line.across.y * aside];
    context.strokeStyle = ink.accent;
    context.globalAlpha = 0.25 + 0.65 * Math.min(1, share);
    context.lineWidth = (thin ? 1 : 1.2) + (thin ? 1 : 2.6) * Math.min(1, share);
    context.setLineDash([DASH, DASH * 0.45]);
    context.lineDashOffset = (side === 0 ? -1 : 1) * moved;
    context.beginPath();
    context.moveTo(line.from.x + x, line.from.y + y);
    context.lineTo(line.to.x + x, line.to.y + y);
    context.stroke();
  });
  context.setLineDash([]);
  context.lineDashOffset = 0;
  context.globalAlpha = 1;
}

/** A queue at the head of its direction: as high as it is full. */
function drawQueue(context: Pen, line: Way, side: number, packets: number, room: number | null, ink: Ink, texts: Texts): void {
  if (!(packets >= 0.5)) return;
  const [at, along] = side === 0 ? [line.from, 1] : [line.to, -1];
  const x = at.x + along * line.along.x * 17;
  const upward = side === 0 ? -1 : 1;
  const y = at.y + along * line.along.y * 17 + upward * 8;
  const full = Math.min(1, packets / (room ?? UNLIMITED));
  context.strokeStyle = ink.rule;
  context.lineWidth = 1;
  const top = upward < 0 ? y - HIGH : y;
  // Where things stand close together, only some of them can be shown.
  if (!texts.takeIfFree(x - 5, top, x + 5, top + HIGH)) return;
  context.strokeRect(x - 4.5, top, 9, HIGH);
  context.fillStyle = full > 0.95 && room !== null ? ink.bad : ink.ink;
  context.fillRect(x - 4, upward < 0 ? y - HIGH * full : y, 8, HIGH * full);
  context.fillStyle = ink.muted;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  const text = room === null ? packets.toFixed(0) : `${packets.toFixed(0)} of ${room}`;
  const height = y + upward * HIGH * 0.8;
  if (texts.takeIfFree(x + 7, height - 6, x + 9 + context.measureText(text).width, height + 6)) context.fillText(text, x + 8, height);
}

/** What each link is, so far below it; links of one kind between the same columns are told once, below the lowest. */
function drawLabels(context: Pen, labelled: { line: Way; text: string }[], below: number, ink: Ink, taken: Texts): void {
  const groups = new Map<string, { x: number; y: number; room: number; texts: Set<string> }>();
  for (const { line, text } of labelled) {
    const [x, y, room] = [(line.from.x + line.to.x) / 2, (line.from.y + line.to.y) / 2, Math.abs(line.to.x - line.from.x) - 24];
    const group = groups.get(x.toFixed(0)) ?? { x, y, room, texts: new Set() };
    groups.set(x.toFixed(0), group);
    group.texts.add(text);
    group.y = Math.max(group.y, y);
  }
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "top";
  context.fillStyle = ink.muted;
  // The edges of what is behind the letters would reach far beyond them at their corners.
  context.lineJoin = "round";
  for (const { x, y, room, texts } of groups.values()) {
    const [text = ""] = texts;
    const half = context.measureText(text).width / 2;
    if (texts.size !== 1 || 2 * half >= room) continue;
    const top = [y + below, y + below + 13].find((one) => taken.takeIfFree(x - half, one, x + half, one + 12));
    if (top === undefined) continue;
    context.lineWidth = 4;
    context.strokeStyle = ink.ground;
    context.strokeText(text, x, top);
    context.fillText(text, x, top);
  }
}

/** Links as busy as they are, and what waits for them; `moved` is how far the light has come. */
function drawLight(context: Pen, size: [number, number], { description, layout }: Picture, { series, interruptions, flow }: Load, time: number, places: Place[], moved: number, ink: Ink, texts: Texts): void {
  const thin = layout.isCrowded;
  const down = new Set(interruptions.outages.filter(([, from, to]) => from <= time && time < to).map(([direction]) => direction));
  const still = { description, layout, flow };
  drawCells(context, size, still, places, ink);
  const lines = linesOf(description, places);
  const once = new Once();
  lines.forEach(({ link, line }, index) => {
    const busy = [0, 1].map((side) => valueAt(series, "utilisation", 2 * index + side, description, time)) as [number, number];
    if (thin && !once.isFirst(line.from.x, line.from.y, line.to.x, line.to.y, down.has(2 * index) || down.has(2 * index + 1), link.radio, ...busy.map((share) => share > 0.005))) return;
    drawLink(context, line, link, busy, down.has(2 * index) || down.has(2 * index + 1), thin, moved, ink);
  });
  if (!thin) texts.takeNodes(places);
  drawNodes(context, size[0], still, places, ink, texts);
  lines.forEach(({ link, line }, index) => {
    if (thin && isBesideOthers(places, line.from, [line.from, line.to], HIGH + 10)) return;
    for (const side of [0, 1]) {
      const limit = (side === 0 ? link.forward : link.reverse).queue_limit_packets;
      drawQueue(context, line, side, valueAt(series, "queue_packets", 2 * index + side, description, time), limit, ink, texts);
    }
  });
}

const linesOf = ({ links }: Description, places: Place[]): { link: LinkDescription; line: Way }[] =>
  links.map((link) => ({ link, line: way(places[link.from] ?? { x: 0, y: 0 }, places[link.to] ?? { x: 0, y: 0 }) }));

/** Draws it all at a time; returns how many packets there are, or null for flows of light. */
function paint(context: Pen, [width, height]: [number, number], picture: Picture, load: Load, time: number, moved: number, ink: Ink): number | null {
  const { description, layout, speed, trace } = picture;
  context.clearRect(0, 0, width, height);
  const places = layout.places(width, height, time);
  const texts = new Texts();
  const { flow, interruptions: { outages } } = load;
  const drawn = trace && drawPackets(context, width, height, { trace, description, layout, outages, time, fade: LINGER * speed, flow }, ink, texts);
  if (!trace) drawLight(context, [width, height], picture, load, time, places, moved, ink, texts);
  drawLabels(context, linesOf(description, places).map(({ link, line }) => ({ line, text: aboutLink(link) })), trace ? BELOW_PACKETS : BELOW, ink, texts);
  return drawn;
}

/** How busy each direction is and what waits for it, over the whole run: those that carried anything. */
function dataOf({ links, series_interval_s: interval }: Description, series: Series | null): Pick<Panel, "time" | "lines"> {
  const width = links.length * 2;
  const rows = Math.floor((series?.links["utilisation"]?.length ?? 0) / Math.max(1, width));
  const names = links.flatMap(({ name }) => [name, `${name} (reverse)`]);
  const lines = names.flatMap((name, direction) => ["utilisation", "queue_packets"].map((measure): Line => {
    const values = series?.links[measure];
    return { name: `${name}: ${measure}`, style: 0, values: Array.from({ length: rows }, (_, row) => values?.[row * width + direction] ?? null) };
  }));
  return { time: Array.from({ length: rows }, (_, row) => (row + 0.5) * interval), lines: lines.filter(({ values }) => values.some((value) => value)) };
}

/** What the path shows now, to be taken along: as SVG, and what it is drawn of. */
let taken: { svg: () => string; data: () => Pick<Panel, "time" | "lines"> } | null = null;

/** The path as it stands, as SVG; nothing where it is not shown. */
export const pathSvg = (): string => taken?.svg() ?? "";

/** What it is drawn of. */
export const pathPanel: Panel = {
  id: "path", title: "The path", unit: "", limit: null,
  get time() { return taken?.data().time ?? []; },
  get lines() { return taken?.data().lines ?? []; },
};

/** What is at a time, in words, for those who do not see it. */
function inWords(description: Description, { series, interruptions }: Load, time: number, packets: number | null): string {
  const names = description.links.flatMap((link) => [link.name, `${link.name} (reverse)`]);
  const busy = names.map((name, place) => ({ name, share: valueAt(series, "utilisation", place, description, time) })).filter(({ share }) => share > 0.02);
  busy.sort((a, b) => b.share - a.share);
  const down = new Set(interruptions.outages.filter(([, from, to]) => from <= time && time < to).map(([direction]) => names[direction & ~1]));
  const parts = busy.slice(0, 3).map(({ name, share }) => `${name} busy to ${Math.round(share * 100)} %`);
  return [`The path at ${time.toFixed(1)} s: ${description.nodes.length} nodes, ${description.links.length} links`, ...(packets === null ? [] : [`${packets} packets on them`]), ...parts, ...(down.size > 0 ? [`${down.size} links down`] : [])].join("; ");
}

/** Holds the path at the top of the window as long as it would be above it while curves of its run are in it. */
function useHeld(section: { current: HTMLElement | null }, isWished: boolean): boolean {
  const [isHeld, hold] = useState(false);
  useEffect(() => {
    if (!isWished) return;
    const look = () => {
      const own = section.current;
      const results = own?.closest<HTMLElement>(".results");
      if (!own || !results) return;
      const box = own.getBoundingClientRect();
      // There are none while the first run of another text goes on.
      const below = results.querySelector(".charts")?.getBoundingClientRect().bottom ?? 0;
      const next = box.bottom < 0 && below > LEAST_CURVES && innerHeight >= LEAST_WINDOW;
      // What is below must not move up when the picture leaves its place.
      if (!next || !own.style.minHeight) own.style.minHeight = next ? `${box.height}px` : "";
      const { left, width } = results.getBoundingClientRect();
      own.style.setProperty("--held-left", `${left}px`);
      own.style.setProperty("--held-width", `${width}px`);
      // What the keyboard comes to stands below it.
      document.documentElement.style.scrollPaddingTop = next ? `${LEAST_CURVES}px` : "";
      hold(next);
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    // Nothing is scrolled where what stands above or below becomes shorter.
    const observer = new ResizeObserver(look);
    observer.observe(document.body);
    return () => {
      observer.disconnect();
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
      document.documentElement.style.scrollPaddingTop = "";
    };
  }, [isWished]);
  return isHeld;
}

interface PathProps {
  checked: Checked;
  series: Series | null;
  interruptions: Interruptions;
  flow: number;
  theme: string;
  of: string;
  /** Whose packets are drawn: the same object as long as it is the same run; null while the run is of another text. */
  run: RunOf | null;
  toReplay: (() => void) | null;
}

export function PathPicture({ checked, series, interruptions, flow, theme, of, run, toReplay }: PathProps) {
  const section = useRef<HTMLElement>(null);
  const isHeld = useHeld(section, toReplay !== null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useRef<HTMLOutputElement>(null);
  const slider = useRef<HTMLInputElement>(null);
  const [playing, setPlaying] = useState(false);
  const [askedSpeed, chooseSpeed] = useChosen("speed");
  const { description } = checked;
  const { duration_s: duration } = description;
  const speed = speedOf(askedSpeed) ?? duration / WHOLE;
  const isSlow = speed <= SLOW;
  const { trace, failure, isLoading, need } = usePackets(isSlow ? run : null, "packets");
  const layout = useMemo(() => new Layout(description), [description]);
  const ink = useMemo(inkOf, [theme]);
  const moved = useRef(0);

  useEffect(() => {
    const load = { series, interruptions, flow };
    const draw = (): number | null => {
      const time = Math.min(clock.seconds, duration);
      const there = trace && covers(trace, time, duration) ? trace : null;
      const fitted = canvas.current && fit(canvas.current);
      const drawn = fitted && paint(fitted[0], [fitted[1], fitted[2]], { description, layout, speed, trace: there }, load, time, moved.current, ink);
      if (canvas.current) canvas.current.dataset["packets"] = drawn === null ? "" : String(drawn);
      if (shown.current) shown.current.textContent = `${time.toFixed(!isSlow ? 1 : speed < 0.05 ? 4 : 2)} s`;
      if (slider.current) slider.current.value = String(time);
      return drawn;
    };
    const svg = () => {
      const [, width, height] = (canvas.current && fit(canvas.current)) ?? [];
      const time = Math.min(clock.seconds, duration);
      const there = trace && covers(trace, time, duration) ? trace : null;
      const pen = new SvgPen();
      if (!width || !height) return "";
      paint(pen, [width, height], { description, layout, speed, trace: there }, load, time, moved.current, ink);
      return pen.picture(width, height, ink.ground);
    };
    const own = (taken = { svg, data: () => dataOf(description, series) });
    canvas.current?.setAttribute("aria-label", inWords(description, load, clock.seconds, draw()));
    let frame = 0;
    const later = () => {
      if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; draw(); });
    };
    const forget = clock.listen(later);
    // Not the window alone changes its size: the text of the scenario takes half of it.
    const watch = new ResizeObserver(later);
    if (canvas.current) watch.observe(canvas.current);
    // Nor does a window that moves to a finer screen change it.
    window.addEventListener("resize", later);
    return () => {
      if (taken === own) taken = null;
      forget();
      cancelAnimationFrame(frame);
      watch.disconnect();
      window.removeEventListener("resize", later);
    };
  }, [description, layout, series, interruptions, flow, ink, isHeld, trace, speed, isSlow]);
  useEffect(() => {
    if (!isSlow) return;
    const look = () => need(Math.min(clock.seconds, duration), BEHIND * speed);
    look();
    return clock.listen(look);
  }, [isSlow, need, trace, speed, duration]);
  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    let before = performance.now();
    const tick = (now: number) => {
      const passed = Math.min(0.1, Math.max(0, now - before) / 1000);
      before = now;
      moved.current += passed * PACE;
      // The clock stands while packets are fetched; where there are too many to have them, light goes on.
      const known = trace && covers(trace, clock.seconds, duration) ? trace.window.to_s : isLoading ? clock.seconds : duration;
      const next = Math.min(duration, known, clock.seconds + passed * speed);
      clock.set(next);
      if (next >= duration) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing, duration, speed, trace, isLoading]);
  const start = () => {
    if (!playing && clock.seconds >= duration) clock.set(0);
    setPlaying(!playing);
  };
  return (
    <section class={isHeld ? "path held" : "path"} aria-label="The path" ref={section}>
      <div class="drawn">
        <canvas ref={canvas} role="img" aria-label="The path" />
        <div class="player">
          <button type="button" onClick={start} disabled={!series} aria-label={playing ? "Stop the time" : "Let time run"}>{playing ? "❚❚" : "►"}</button>
          <input ref={slider} type="range" min={0} max={duration} step={Math.min(speed, duration / 1000)} aria-label="Time in the run" onInput={(event) => { setPlaying(false); clock.set(Number(event.currentTarget.value)); }} />
          <output class="clock" ref={shown} />
          <select value={askedSpeed ?? ""} aria-label="Speed of time" onChange={(event) => chooseSpeed(event.currentTarget.value || null)}>
            <option value="">all in {WHOLE} s</option>
            {SPEEDS.map(([name, value]) => <option key={name} value={value}>{name}</option>)}
          </select>
          {of && <span class="foot">{of}</span>}
          {toReplay && <button type="button" class="quiet" disabled={!series} onClick={toReplay}>Replay from here</button>}
        </div>
        {isLoading && <p class="took" role="status">Running to this time …</p>}
        {failure && <pre class="message bad" role="alert">{failure}</pre>}
        {isSlow && !isHeld && <PacketLegend trace={trace} flow={description.flows[flow]?.name} />}
      </div>
    </section>
  );
}
