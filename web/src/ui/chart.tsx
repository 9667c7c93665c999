// One panel of curves: uPlot with the colours of the theme, labels at the ends of the lines instead of a legend, and a
// cursor that all panels share. Arrow keys move the cursor.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { extent, type Panel } from "../model/curves";
import { apart } from "../model/figure";
import { COLOURS, DASHES, textScale, USUAL } from "../model/style";

const SYNC = "time";
/** Height in units of the text: four panels fill a high window. */
const LEAST_HEIGHT = 9.9;
const MOST_HEIGHT = 16;
const AROUND = 24;

function heightOf(rem: number): number {
  return Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, (innerHeight / rem - AROUND) / 4 - 2)) * rem;
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
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
    ctx.fillText(line.name.length > 13 ? `${line.name.slice(0, 12)}…` : line.name, left + width + 8 * ratio, place);
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

export function Chart({ panel, duration, theme, isLast }: { panel: Panel; duration: number; theme: string; isLast: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const rem = USUAL * textScale();
    const grid = { stroke: variable("--grid"), width: 1 };
    const axis = { stroke: variable("--muted"), grid, ticks: { show: false }, font: `${0.8 * rem}px system-ui, sans-serif` };
    const options: uPlot.Options & { height: number } = {
      width: Math.max(240, element.clientWidth),
      height: Math.round(heightOf(rem) + (isLast ? 1.5 * rem : 0)),
      padding: [8, 6.4 * rem, isLast ? 0 : 6, 0],
      legend: { show: false },
      cursor: { sync: { key: SYNC, setSeries: false }, drag: { x: false, y: false }, points: { size: 0.4 * rem }, y: false },
      scales: { x: { time: false, range: [0, duration] }, y: { range: extent(panel) } },
      axes: [
        { ...axis, show: isLast, size: 1.75 * rem, values: (_, ticks) => ticks.map((tick) => `${tick} s`) },
        { ...axis, size: 3.1 * rem, space: 2.1 * rem },
      ],
      series: [
        {},
        ...panel.lines.map((line) => ({
          label: line.name,
          stroke: variable(`--sender-${line.style}`) || COLOURS[line.style] || "#000",
          width: 0.1 * rem,
          dash: DASHES[line.style] ?? [],
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: {
        draw: [(drawn) => labels(drawn, panel)],
        setCursor: [(drawn) => setAt(drawn.cursor.idx ?? null)],
      },
    };
    const data = [panel.time, ...panel.lines.map((line) => line.values)] as uPlot.AlignedData;
    const made = new uPlot(options, data, element);
    chart.current = made;
    const watch = new ResizeObserver(() => {
      const width = Math.max(240, element.clientWidth);
      if (Math.abs(width - made.width) > 1) made.setSize({ width, height: options.height });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [panel, duration, theme, isLast]);

  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20 }[event.key];
    const drawn = chart.current;
    if (!step || !drawn) return;
    event.preventDefault();
    const next = Math.min(panel.time.length - 1, Math.max(0, (drawn.cursor.idx ?? 0) + step));
    drawn.setCursor({ left: drawn.valToPos(panel.time[next] ?? 0, "x"), top: 10 });
  };

  const readout = at === null ? null : panel.lines.map((line) => ({ line, value: line.values[at] ?? null }));
  const summary = panel.lines.map((line) => {
    const known = line.values.filter((value): value is number => value !== null);
    const mean = known.reduce((total, value) => total + value, 0) / Math.max(1, known.length);
    return `${line.name} ${number(mean)}`;
  });
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{panel.title}</span> <span class="unit">{panel.unit}</span>
        <span class="readout" aria-live="polite">
          {readout && <span class="when">{(panel.time[at ?? 0] ?? 0).toFixed(1)} s</span>}
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
        onKeyDown={move}
        aria-label={`${panel.title} over ${duration} s in ${panel.unit}; means: ${summary.join(", ")}. Arrow keys move the cursor.`}
      />
    </figure>
  );
}
