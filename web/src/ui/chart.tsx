// One panel of curves: uPlot with the colours of the theme, labels at the ends of the lines instead of a legend, and the
// cursor of the one clock. To drag over it looks closer, a double click shows all again; arrow keys move the cursor, +
// and - look closer and wider, 0 shows all.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "../model/clock";
import { extent, type Panel, type Span } from "../model/curves";
import { apart, fitted, ticks } from "../model/figure";
import type { Mark } from "../model/marks";
import { useChosen } from "../model/store";
import { COLOURS, dashesOf, textScale, USUAL } from "../model/style";

/** A drag of fewer px is a click. */
const LEAST_DRAG = 6;
/** Height in units of the text: four panels fill a high window. */
const LEAST_HEIGHT = 9.9;
const MOST_HEIGHT = 16;
const AROUND = 36;
/** How much higher a picture of single packets is. */
const PAINTED = 1.5;

function heightOf(rem: number): number {
  return Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, (innerHeight / rem - AROUND) / 4 - 2)) * rem;
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Shades what is marked, under the curves. */
function shade(chart: uPlot, marks: Mark[]): void {
  const { ctx } = chart;
  const { left, top, width, height } = chart.bbox;
  ctx.save();
  for (const { from, to, kind } of marks) {
    const start = Math.max(left, chart.valToPos(from, "x", true));
    const end = Math.min(left + width, chart.valToPos(to, "x", true));
    if (end < left || start > left + width) continue;
    ctx.fillStyle = variable(kind === "handoff" ? "--shade-move" : kind === "outage" ? "--shade" : "--shade-light");
    ctx.fillRect(start, top, Math.max(devicePixelRatio, end - start), height);
  }
  ctx.restore();
}

/** Half or twice of what is seen, around the cursor. */
export function nearer([from, to]: Span, around: number, factor: number, duration: number): Span | null {
  const size = (to - from) * factor;
  if (size >= duration) return null;
  const share = Math.min(1, Math.max(0, (around - from) / (to - from)));
  const start = Math.min(duration - size, Math.max(0, around - share * size));
  return [start, start + size];
}

function labels(chart: uPlot, panel: Panel): void {
  const { ctx } = chart;
  const ratio = devicePixelRatio * textScale();
  const { left, top, width, height } = chart.bbox;
  const ends = panel.lines.map((_, index) => {
    const values = chart.data[index + 1] as (number | null)[] | undefined;
    let last: number | null = null;
    for (let place = (values?.length ?? 0) - 1; place >= 0 && last === null; place -= 1) last = values?.[place] ?? null;
    return last === null ? top + height / 2 : chart.valToPos(last, "y", true);
  });
  ctx.save();
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  apart(ends, 14 * ratio, top + 6 * ratio, top + height - 4 * ratio).forEach((place, index) => {
    const line = panel.lines[index];
    if (!line) return;
    ctx.fillStyle = variable(`--sender-${line.style}`) || (COLOURS[line.style] ?? "#000");
    const room = ctx.canvas.width - left - width - 10 * ratio;
    ctx.fillText(fitted(line.name, (text) => ctx.measureText(text).width <= room), left + width + 8 * ratio, place);
  });
  if (panel.limit !== null) {
    const place = chart.valToPos(panel.limit, "y", true);
    ctx.strokeStyle = variable("--faint");
    ctx.setLineDash([2 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, place);
    ctx.lineTo(left + width, place);
    ctx.stroke();
    ctx.fillStyle = variable("--muted");
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.fillText("room", left + width - 4 * ratio, place - 8 * ratio);
  }
  ctx.restore();
}

function number(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export interface ChartProps {
  panel: Panel;
  duration: number;
  /** From when to when; the whole run if null. */
  span: Span | null;
  marks: Mark[];
  theme: string;
  isLast: boolean;
  zoom: (span: Span | null) => void;
  /** A click moves the clock, and not where the mouse is: where to move it costs a run. */
  byClick?: boolean;
}

/** Decimals that tell all of these times, up to microseconds. */
function decimalsOf(times: number[]): number {
  const isTold = (places: number) => times.every((time) => Math.abs(time * 10 ** places - Math.round(time * 10 ** places)) < 1e-3);
  return [0, 1, 2, 3, 4, 5].find(isTold) ?? 6;
}

/** What a label on the axis of time takes, in units of the text: some ten of them are there. */
function labelWidth([from, to]: Span): number {
  const letters = Math.floor(to).toString().length + Math.max(0, Math.ceil(-Math.log10((to - from) / 10))) + 5;
  return letters * 0.5;
}

/** Makes the chart; the clock moves its cursor, and its cursor the clock. */
function make(element: HTMLDivElement, { panel, duration, span, marks, isLast, zoom, byClick }: ChartProps, told: (place: number | null) => void): { chart: uPlot; end: () => void } {
  const rem = USUAL * textScale();
  const grid = { stroke: variable("--grid"), width: 1 };
  const axis = { stroke: variable("--muted"), grid, ticks: { show: false }, font: `${0.8 * rem}px system-ui, sans-serif` };
  const [from, to] = span ?? [0, duration];
  const along = (drawn: uPlot) => ticks(from, to, Math.max(2, drawn.bbox.width / devicePixelRatio / (labelWidth([from, to]) * rem)));
  const options: uPlot.Options & { height: number } = {
    width: Math.max(240, element.clientWidth),
    height: Math.round(heightOf(rem) * (panel.paint ? PAINTED : 1) + (isLast ? 1.5 * rem : 0)),
    padding: [8, 6.4 * rem, isLast ? 0 : 6, 0],
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG }, bind: { dblclick: () => () => { zoom(null); return null; } }, points: { size: 0.4 * rem }, y: false },
    scales: { x: { time: false, range: [from, to] }, y: { range: extent(panel) } },
    axes: [
      { ...axis, show: isLast, size: 1.75 * rem, splits: (drawn) => along(drawn).map(({ value }) => value), values: (drawn) => along(drawn).map(({ label }) => `${label} s`) },
      { ...axis, size: 3.1 * rem, space: 2.1 * rem },
    ],
    series: [
      {},
      ...panel.lines.map((line) => ({
        label: line.name,
        stroke: panel.paint ? "transparent" : variable(`--sender-${line.style}`) || COLOURS[line.style] || "#000",
        width: 0.1 * rem,
        dash: dashesOf(line.style, panel.lines.length),
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: {
      drawClear: [(drawn) => shade(drawn, marks)],
      draw: [(drawn) => {
        panel.paint?.(drawn.ctx, { box: drawn.bbox, ratio: devicePixelRatio, colour: variable });
        labels(drawn, panel);
      }],
      setCursor: [(drawn) => told(drawn.cursor.idx ?? null)],
      setSelect: [(drawn) => {
        const { left, width } = drawn.select;
        if (width < LEAST_DRAG) return;
        const chosen: Span = [drawn.posToVal(left, "x"), drawn.posToVal(left + width, "x")];
        drawn.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        zoom([Math.max(0, chosen[0]), Math.min(duration, chosen[1])]);
      }],
    },
  };
  const data = [panel.time, ...panel.lines.map((line) => line.values)] as uPlot.AlignedData;
  const chart = new uPlot(options, data, element);
  const follow = () => {
    const isSeen = clock.isSet && clock.seconds >= from && clock.seconds <= to;
    chart.setCursor(isSeen ? { left: chart.valToPos(clock.seconds, "x"), top: 10 } : { left: -10, top: -10 });
  };
  let isThere = true;
  // The mouse moves the clock; when it has gone, the cursor goes back to where the clock stands.
  chart.over.addEventListener(byClick ? "click" : "mousemove", (event) => clock.set(Math.min(to, Math.max(from, chart.posToVal(event.offsetX, "x"))), chart));
  chart.over.addEventListener("mouseleave", () => requestAnimationFrame(() => isThere && follow()));
  const forget = clock.listen((_, source) => source !== chart && follow());
  if (clock.isSet) queueMicrotask(() => isThere && follow());
  const watch = new ResizeObserver(() => {
    const width = Math.max(240, element.clientWidth);
    if (Math.abs(width - chart.width) > 1) chart.setSize({ width, height: options.height });
  });
  watch.observe(element);
  const end = () => {
    isThere = false;
    forget();
    watch.disconnect();
    chart.destroy();
  };
  return { chart, end };
}

/** Rows of the table of a panel. */
const ROWS = 20;

/** Figures of a panel at times that lie evenly in what is seen. */
function Figures({ panel, span: [from, to] }: { panel: Panel; span: Span }) {
  const seen = panel.time.map((_, place) => place).filter((place) => (panel.time[place] ?? 0) >= from && (panel.time[place] ?? 0) <= to);
  const rows = seen.filter((_, place) => place % Math.ceil(seen.length / ROWS) === 0);
  const places = decimalsOf(rows.map((place) => panel.time[place] ?? 0));
  return (
    <div class="scroll" role="group" aria-label={`Figures of ${panel.title}`} tabIndex={0}>
      <table class="plain numbers">
        <thead><tr><th scope="col">s</th>{panel.lines.map((line) => <th key={line.name} scope="col" class={`sender-text-${line.style}`}>{line.name} ({panel.unit})</th>)}</tr></thead>
        <tbody>
          {rows.map((place) => (
            <tr key={place}>
              <th scope="row">{(panel.time[place] ?? 0).toFixed(places)}</th>
              {panel.lines.map((line) => <td key={line.name}>{line.values[place] === null || line.values[place] === undefined ? "–" : number(line.values[place] ?? 0)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Chart(props: ChartProps) {
  const { panel, duration, span, marks, theme, isLast, zoom } = props;
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [tables] = useChosen("tables");
  const [from, to] = span ?? [0, duration];

  useEffect(() => {
    if (!place.current) return;
    const made = make(place.current, props, setAt);
    chart.current = made.chart;
    return () => {
      made.end();
      chart.current = null;
    };
  }, [panel, duration, from, to, marks, theme, isLast]);

  const press = (event: KeyboardEvent) => {
    const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (factor || event.key === "0") {
      event.preventDefault();
      zoom(factor ? nearer([from, to], clock.isSet ? clock.seconds : (from + to) / 2, factor, duration) : null);
      return;
    }
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20 }[event.key];
    const drawn = chart.current;
    if (!step || !drawn) return;
    event.preventDefault();
    const next = Math.min(panel.time.length - 1, Math.max(0, (drawn.cursor.idx ?? 0) + step));
    clock.set(panel.time[next] ?? 0, panel);
  };

  const readout = at === null ? null : panel.lines.map((line) => ({ line, value: line.values[at] ?? null }));
  const summary = panel.lines.map((line) => {
    const known = line.values.filter((value): value is number => value !== null);
    const mean = known.reduce((total, value) => total + value, 0) / Math.max(1, known.length);
    return `${line.name} ${number(mean)}`;
  });
  const when = span ? `from ${Number(from.toFixed(6))} to ${Number(to.toFixed(6))} s` : `over ${duration} s`;
  return (
    <figure class="chart" data-panel={panel.id}>
      <figcaption>
        <span class="title">{panel.title}</span> <span class="unit">{panel.unit}</span>
        <span class="readout" aria-live="polite">
          {readout && <span class="when">{(panel.time[at ?? 0] ?? 0).toFixed(to - from < 5 ? Math.max(3, Math.ceil(3 - Math.log10(to - from))) : 1)} s</span>}
          {readout?.map(({ line, value }) => (
            <span key={line.name} class={`sender-text-${line.style}`}>
              {line.name} {value === null ? "–" : number(value)}
            </span>
          ))}
        </span>
      </figcaption>
      <div
        ref={place}
        class="canvas"
        role="img"
        tabIndex={0}
        onKeyDown={press}
        aria-label={`${panel.title} ${when} in ${panel.unit}; means: ${summary.join(", ")}. Arrow keys move the cursor, plus and minus look closer and wider, 0 shows the whole run.`}
      />
      {tables !== null && <Figures panel={panel} span={[from, to]} />}
    </figure>
  );
}
