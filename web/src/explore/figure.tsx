// The figure of Explore: means with their intervals, a line per value of an axis; every point can be chosen, by mouse or
// by keyboard. Drawn as SVG, which is also what is downloaded.

import { useEffect, useRef, useState } from "preact/hooks";
import { shownMean } from "../model/compare";
import { greatest } from "../model/extent";
import { apart, fitted, ticks } from "../model/figure";
import { DASHES, textScale } from "../model/style";
import { shownValue, type Axis, type Curve, type Point, type Value } from "./table";

const LEFT = 64;
const TOP = 14;
const BOTTOM = 44;
/** Longest label of a tick, in letters; what a letter takes, and the angle of labels that would not fit side by side. */
const LETTERS = 22;
const LETTER = 6.6;
const SLANT = 60;
/** Slanted labels that are nearer than this would lie over each other. */
const LINE = 13;
const MOST_STYLES = 6;
/** A click within this many px of a point selects it. */
const REACH = 24;

export interface Chosen {
  curve: number;
  point: Point;
}

interface Scales {
  x: (point: Point) => number;
  y: (value: number) => number;
  xTicks: { at: number; label: string }[];
  /** Labels along x are turned, because they do not fit side by side. */
  slanted: boolean;
  bottom: number;
  yTicks: { at: number; label: string }[];
}

/** Whether values have an order in which a line may lead from one to the next: names have none. */
function isOrdered(values: Value[]): boolean {
  return values.length > 1 && values.every((value) => typeof value === "number");
}

/** Where the values of an axis stand, and their labels. */
function alongX(curves: Curve[], axis: Axis | null, width: number, right: number) {
  const present = new Set(curves.flatMap((curve) => curve.points.map((point) => point.x)));
  const values = axis ? axis.values.filter((value) => present.has(value)) : [...present];
  const room = width - LEFT - right;
  const numbers = values as number[];
  const [first, last] = [numbers[0] ?? 0, numbers.at(-1) ?? 1];
  const ordered = isOrdered(values);
  const place = (value: Value) =>
    ordered ? LEFT + 14 + (((value as number) - first) / (last - first)) * (room - 28) : LEFT + ((values.indexOf(value) + 0.5) / Math.max(1, values.length)) * room;
  const labels = values.map((value) => {
    const label = axis?.labels[axis.values.indexOf(value)] ?? shownValue(value);
    return { at: place(value), label: fitted(label, (text) => text.length <= LETTERS) };
  });
  const half = ({ label }: { label: string }) => (label.length * LETTER) / 2 + 4;
  const slanted = labels.some((one, index) => index > 0 && one.at - half(one) < (labels[index - 1]?.at ?? 0) + half(labels[index - 1] ?? one));
  let taken = Number.NEGATIVE_INFINITY;
  const xTicks = labels.filter(({ at }) => {
    if (at - taken < LINE) return false;
    taken = at;
    return true;
  });
  // What is not turned stays within the picture.
  if (!slanted) for (const one of xTicks) one.at = Math.min(one.at, width - half(one));
  const longest = greatest(labels.map(({ label }) => label.length * LETTER), 0);
  return { place, xTicks, slanted, deep: slanted ? longest * Math.sin((SLANT * Math.PI) / 180) : 0 };
}

/** From zero, unless everything lies far from it. */
function scalesOf(curves: Curve[], axis: Axis | null, width: number, height: number, right: number, possible: number | null): Scales {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const { estimate } of curves.flatMap((curve) => curve.points)) {
    least = Math.min(least, estimate.low ?? estimate.mean, estimate.mean);
    most = Math.max(most, estimate.high ?? estimate.mean, estimate.mean);
  }
  if (!Number.isFinite(least)) [least, most] = [0, 1];
  const span = most - least || Math.abs(most) || 1;
  let low = least >= 0 && least < 0.6 * most ? 0 : least - span * 0.08;
  let high = most + span * 0.08;
  if (least >= 0) low = Math.max(0, low);
  // An interval may reach beyond what is possible, an axis must not.
  if (possible !== null && curves.every((curve) => curve.points.every((point) => point.estimate.mean <= possible))) high = Math.min(high, possible);
  if (high === low) high = low + 1;
  const { place, xTicks, slanted, deep } = alongX(curves, axis, width, right);
  const bottom = height - BOTTOM - deep;
  const y = (value: number) => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const yTicks = ticks(low, high, 7).map(({ value, label }) => ({ at: y(value), label }));
  return { x: (point) => place(point.x), y, xTicks, yTicks, slanted, bottom };
}

export function shownEstimate(point: Point): string {
  const { value, half } = shownMean(point.estimate, 1);
  return half === null ? value : `${value} ± ${half}`;
}

export function Figure({ curves, axis, metric, unit, most, chosen, choose }: { curves: Curve[]; axis: Axis | null; metric: string; unit: string; most: number | null; chosen: Chosen | null; choose: (one: Chosen) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setWidth(Math.max(280, Math.round(element.clientWidth / textScale())));
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const usual = Math.round(Math.min(620, Math.max(280, width * 0.44)));
  const larger = textScale();
  const isNarrow = width < 560;
  const longest = greatest(curves.map((curve) => curve.name.length), 0);
  const right = isNarrow ? 12 : Math.min(210, 24 + Math.min(25, longest) * 7.6);
  // Turned labels take from below, not from the picture.
  const height = Math.round(usual + alongX(curves, axis, width, right).deep);
  const scales = scalesOf(curves, axis, width, height, right, most);
  const { bottom } = scales;
  const ends = apart(curves.map((curve) => scales.y(curve.points.at(-1)?.estimate.mean ?? 0)), 16, TOP + 4, bottom - 4);
  const joined = isOrdered(axis?.values ?? []);
  // Points at one place stand a little apart, so that intervals can be told from each other.
  const aside = (index: number) => (index - (curves.length - 1) / 2) * (joined ? Math.min(4, 24 / curves.length) : 12);
  // Where points lie over each other, the nearest is meant.
  const nearest = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const corner = event.currentTarget.getBoundingClientRect();
    const [x, y] = [(event.clientX - corner.left) / larger, (event.clientY - corner.top) / larger];
    let best: Chosen | null = null;
    let least = REACH;
    curves.forEach((curve, index) => {
      for (const point of curve.points) {
        const far = Math.hypot(scales.x(point) + aside(index) - x, scales.y(point.estimate.mean) - y);
        if (far < least) [least, best] = [far, { curve: index, point }];
      }
    });
    if (best) choose(best);
  };
  return (
    <div ref={box} class="explored">
      <svg viewBox={`0 0 ${width} ${height}`} width={width * larger} height={height * larger} role="group" onClick={nearest} aria-label={`${metric}${unit ? ` in ${unit}` : ""}${axis ? ` along ${axis.label}` : ""}: ${curves.map((curve) => curve.name).join("; ")}. The table below has the figures.`}>
        {scales.yTicks.map((tick) => (
          <g key={tick.label} class="tick"><path d={`M${LEFT} ${tick.at.toFixed(1)}H${width - right}`} /><text x={LEFT - 8} y={tick.at + 4} text-anchor="end">{tick.label}</text></g>
        ))}
        {scales.xTicks.map((tick) => scales.slanted
          ? <text key={tick.label} class="ticktext" transform={`translate(${tick.at + 4} ${bottom + 14}) rotate(${-SLANT})`} text-anchor="end">{tick.label}</text>
          : <text key={tick.label} class="ticktext" x={tick.at} y={bottom + 18} text-anchor="middle">{tick.label}</text>)}
        {axis && <text class="ticktext" x={(LEFT + width - right) / 2} y={height - 6} text-anchor="middle">{axis.label}{axis.unit ? ` (${axis.unit})` : ""}</text>}
        {curves.map((curve, index) => {
          const style = index % MOST_STYLES;
          // Beyond the colours, lines have other dashes and their dots are hollow.
          const round = Math.floor(index / MOST_STYLES);
          const dashes = DASHES[(style + round * 3) % MOST_STYLES] ?? [];
          const at = (point: Point) => scales.x(point) + aside(index);
          const path = curve.points.map((point, place) => `${place ? "L" : "M"}${at(point).toFixed(1)} ${scales.y(point.estimate.mean).toFixed(1)}`).join("");
          return (
            <g key={curve.name} class={`curve stroke-${style}${round > 0 ? " hollow" : ""}`}>
              {joined && <path class="line" d={path} stroke-dasharray={dashes.join(" ") || undefined} />}
              {curve.points.map((point) => {
                const { low, high, mean } = point.estimate;
                const [x, y] = [at(point), scales.y(mean)];
                const isChosen = chosen?.point === point;
                const name = `${curve.name}${axis ? `, ${axis.label} ${axis.labels[axis.values.indexOf(point.x)] ?? shownValue(point.x)}` : ""}: ${shownEstimate(point)}${unit ? ` ${unit}` : ""}`;
                return (
                  <g
                    key={String(point.x)} class={isChosen ? "point chosen" : "point"} role="button" tabindex={0} aria-pressed={isChosen} aria-label={name}
                    onKeyDown={(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose({ curve: index, point }); } }}
                  >
                    <title>{name}</title>
                    <circle class="reach" cx={x} cy={y} r={12} />
                    {low !== null && high !== null && <path class="interval" d={`M${x} ${scales.y(low).toFixed(1)}V${scales.y(most === null ? high : Math.min(most, high)).toFixed(1)}M${x - 4} ${scales.y(low).toFixed(1)}h8M${x - 4} ${scales.y(most === null ? high : Math.min(most, high)).toFixed(1)}h8`} />}
                    <circle class="dot" cx={x} cy={y} r={isChosen ? 6 : 3.6} />
                  </g>
                );
              })}
              {!isNarrow && curves.length > 1 && <text class="name" x={width - right + 12} y={(ends[index] ?? 0) + 4}>{curve.name.length > 25 ? `${curve.name.slice(0, 24)}…` : curve.name}</text>}
            </g>
          );
        })}
      </svg>
      {isNarrow && curves.length > 1 && (
        <ul class="keys">
          {curves.map((curve, index) => <li key={curve.name} class={`sender-${index % MOST_STYLES}`}><svg viewBox="0 0 22 6" aria-hidden="true"><path d="M0 3h22" /></svg> {curve.name}</li>)}
        </ul>
      )}
    </div>
  );
}
