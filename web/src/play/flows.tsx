// How flows fared, each for itself: boxes of each class of flows, or the distribution over all of them.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Column } from "../engine/types";
import { prefixFor, type Comparison } from "../model/compare";
import { greatest, least } from "../model/extent";
import { corners, measuresOf, samplesOf, type Sample } from "../model/flows";
import { ticks } from "../model/figure";
import { useChosen, useStore } from "../model/store";
import { dashesOf, textScale } from "../model/style";

const RIGHT = 24;
const TOP = 8;
const BOTTOM = 42;
/** Height of a box with the room around it, and of the room between two classes. */
const ROW = 24;
const GAP = 10;
/** What a letter takes at most. */
const LETTER = 6.8;
/** Height of a distribution, and room for its shares. */
const HEIGHT = 260;
const LEFT = 52;
/** The axis is logarithmic where values differ by more than this: as in boxes.py. */
const WIDE = 50;

interface Scale {
  x: (value: number) => number;
  ticks: { at: number; label: string }[];
}

/** The axis of what is drawn between these values; `from` and `to` are its ends in the picture. */
function scaleOf(ends: number[], factor: number, [from, to]: [number, number]): Scale {
  const [lowest, most] = [least(ends) / factor, greatest(ends) / factor];
  const shown = (value: number) => value.toLocaleString("en-GB", { maximumSignificantDigits: 3 });
  if (lowest > 0 && most / lowest > WIDE) {
    const [low, high] = [Math.floor(Math.log10(lowest)), Math.ceil(Math.log10(most))];
    const x = (value: number) => from + ((Math.log10(value) - low) / (high - low)) * (to - from);
    const powers = Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step));
    const values = powers.flatMap((power) => (high - low > 3 ? [power] : [power, 3 * power])).filter((value) => value <= 10 ** high);
    return { x: (value) => x(value / factor), ticks: values.map((value) => ({ at: x(value), label: shown(value) })) };
  }
  // From zero, unless everything lies far from it.
  const first = lowest >= 0 && lowest < 0.6 * most ? 0 : lowest;
  const span = most - first || Math.abs(most) || 1;
  const x = (value: number) => from + ((value - first) / span) * (to - from);
  return { x: (value) => x(value / factor), ticks: ticks(first, first + span, 6).map(({ value, label }) => ({ at: x(value), label })) };
}

function Axis({ scale, top, bottom, label, middle }: { scale: Scale; top: number; bottom: number; label: string; middle: number }) {
  return (
    <>
      {scale.ticks.map((tick) => (
        <g key={tick.label} class="tick">
          <path d={`M${tick.at.toFixed(1)} ${top}V${bottom}`} />
          <text x={tick.at} y={bottom + 16} text-anchor="middle">{tick.label}</text>
        </g>
      ))}
      <text x={middle} y={bottom + 35} text-anchor="middle">{label}</text>
    </>
  );
}

interface DrawnProps {
  samples: Sample[];
  column: Column;
  style: Map<string, number>;
  width: number;
}

function unitOf(samples: Sample[], column: Column): [number, string] {
  return prefixFor(greatest(samples.map((one) => Math.abs(one.values.at(-1) ?? 0))), column.unit, column.share);
}

function counted({ values, missing }: Sample): string {
  return missing > 0 ? `${values.length} of ${values.length + missing}` : String(values.length);
}

function labelOf(one: Sample): string {
  return `${["", "all flows"].includes(one.name) ? "" : `${one.name}, `}${one.sender} (${counted(one)})`;
}

function Boxes({ samples, column, style, width }: DrawnProps) {
  const [factor, unit] = unitOf(samples, column);
  const labels = samples.map(labelOf);
  const left = Math.min(width * 0.45, 16 + LETTER * greatest(labels.map((one) => one.length)));
  const found = samples.map((one) => corners(one.values));
  const scale = scaleOf(found.flat(), factor, [left, width - RIGHT]);
  let at = TOP;
  const places = samples.map((one, index) => {
    if (index > 0 && samples[index - 1]?.name !== one.name) at += GAP;
    at += ROW;
    return at - ROW / 2;
  });
  const bottom = at + TOP;
  const number = (value: number) => (value / factor).toLocaleString("en-GB", { maximumSignificantDigits: 3 });
  const told = found.map((values, index) => `${labels[index]}: median ${number(values[2] ?? 0)}, 5 to 95 % ${number(values[0] ?? 0)} to ${number(values[4] ?? 0)}${unit ? ` ${unit}` : ""}`);
  return (
    <svg class="boxes" role="img" viewBox={`0 0 ${width} ${bottom + BOTTOM}`} width={width * textScale()} height={(bottom + BOTTOM) * textScale()} aria-label={`${column.label} of flows. ${told.join("; ")}`}>
      <Axis scale={scale} top={TOP} bottom={bottom} label={unit ? `${column.label} (${unit})` : column.label} middle={(left + width - RIGHT) / 2} />
      {samples.map((one, index) => {
        const [p5, p25, p50, p75, p95] = (found[index] ?? []).map(scale.x) as [number, number, number, number, number];
        const y = places[index] ?? 0;
        return (
          <g key={labels[index]} class={`curve stroke-${style.get(one.sender) ?? 0}`}>
            <title>{told[index]}</title>
            <path class="interval" d={`M${p5.toFixed(1)} ${y}H${p25.toFixed(1)}M${p75.toFixed(1)} ${y}H${p95.toFixed(1)}M${p5.toFixed(1)} ${y - 4}v8M${p95.toFixed(1)} ${y - 4}v8`} />
            <rect class="box" x={p25.toFixed(1)} y={y - 7} width={Math.max(1, p75 - p25).toFixed(1)} height={14} />
            <path class="median" d={`M${p50.toFixed(1)} ${y - 7}v14`} />
            <text class="name" x={left - 10} y={y + 4} text-anchor="end">{labels[index]}</text>
          </g>
        );
      })}
    </svg>
  );
}

function Shares({ samples, column, style, width }: DrawnProps) {
  const [factor, unit] = unitOf(samples, column);
  const scale = scaleOf(samples.flatMap((one) => [one.values[0] ?? 0, one.values.at(-1) ?? 0]), factor, [LEFT, width - RIGHT]);
  const bottom = HEIGHT - BOTTOM;
  const y = (share: number) => bottom - share * (bottom - TOP);
  return (
    <>
      <svg class="shares" role="img" viewBox={`0 0 ${width} ${HEIGHT}`} width={width * textScale()} height={HEIGHT * textScale()} aria-label={`Share of flows with at most this ${column.label}: ${samples.map((one) => `${one.sender}, ${counted(one)} flows`).join("; ")}`}>
        <Axis scale={scale} top={TOP} bottom={bottom} label={`${unit ? `${column.label} (${unit})` : column.label}: share of flows with at most this value`} middle={(LEFT + width - RIGHT) / 2} />
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <g key={share} class="tick"><path d={`M${LEFT} ${y(share)}H${width - RIGHT}`} /><text x={LEFT - 8} y={y(share) + 4} text-anchor="end">{100 * share} %</text></g>
        ))}
        {samples.map(({ sender, values, missing }) => {
          const place = style.get(sender) ?? 0;
          // Flows without a value never get there: the curve ends below 100 %.
          const whole = values.length + missing;
          const path = values.map((value, step) => `H${scale.x(value).toFixed(1)}V${y((step + 1) / whole).toFixed(1)}`).join("");
          return (
            <g key={sender} class={`curve stroke-${place}`}>
              <path class="line" d={`M${scale.x(values[0] ?? 0).toFixed(1)} ${bottom}${path}`} stroke-dasharray={dashesOf(place, samples.length).join(" ") || undefined} />
            </g>
          );
        })}
      </svg>
      <ul class="keys">
        {samples.map((one) => <li key={one.sender} class={`sender-${style.get(one.sender) ?? 0}`}><svg viewBox="0 0 22 6" aria-hidden="true"><path d="M0 3h22" /></svg> {one.sender} ({counted(one)})</li>)}
      </ul>
    </>
  );
}

/** The figures behind either picture. */
function Percentiles({ samples, column }: Pick<DrawnProps, "samples" | "column">) {
  const [factor, unit] = unitOf(samples, column);
  const title = `${column.label} of flows${unit ? `, ${unit}` : ""}`;
  return (
    <div class="scroll" role="group" aria-label={title} tabIndex={0}>
      <table class="plain numbers">
        <thead><tr><th scope="col">{title}</th>{["5 %", "25 %", "median", "75 %", "95 %"].map((one) => <th key={one} scope="col">{one}</th>)}</tr></thead>
        <tbody>
          {samples.map((one) => (
            <tr key={labelOf(one)}>
              <th scope="row">{labelOf(one)}</th>
              {corners(one.values).map((value, place) => <td key={place}>{(value / factor).toLocaleString("en-GB", { maximumSignificantDigits: 3 })}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Flows({ comparison, style }: { comparison: Comparison; style: Map<string, number> }) {
  const { about } = useStore("about");
  const [asked, ask] = useChosen("measure");
  const [form, setForm] = useChosen("spread");
  const [tables] = useChosen("tables");
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const measures = useMemo(() => measuresOf(about.declarations.columns, comparison.runs), [comparison]);
  const column = measures.find((one) => one.name === asked) ?? measures[0];
  const isShares = form === "shares";
  const samples = useMemo(() => (column ? samplesOf(comparison.runs, column, !isShares) : []), [comparison, column, isShares]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setWidth(Math.max(280, Math.min(900, Math.round(element.clientWidth / textScale()))));
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [column === undefined]);
  if (!column) return null;
  return (
    <section class="flows" aria-labelledby="flows-title">
      <h2 id="flows-title">Individual flows</h2>
      <div class="toolbar" role="group" aria-label="Metric of flows">
        <label class="field inline">
          <span>Measure</span>
          <select value={column.name} onChange={(event) => ask(event.currentTarget.value === measures[0]?.name ? null : event.currentTarget.value)}>
            {measures.map((one) => <option key={one.name} value={one.name}>{one.label}</option>)}
          </select>
        </label>
        <label class="field inline">
          <span>Drawn as</span>
          <select value={isShares ? "shares" : "boxes"} onChange={(event) => setForm(event.currentTarget.value === "boxes" ? null : "shares")}>
            <option value="boxes">boxes of classes</option>
            <option value="shares">distribution</option>
          </select>
        </label>
      </div>
      <div ref={box} class="explored">
        {isShares ? <Shares {...{ samples, column, style, width }} /> : <Boxes {...{ samples, column, style, width }} />}
      </div>
      <p class="foot">{isShares ? "All flows of all seeds." : "All seeds. A box holds the middle half of the flows, its line is the median; whiskers reach from 5 to 95 %."}</p>
      {tables !== null && <Percentiles samples={samples} column={column} />}
    </section>
  );
}
