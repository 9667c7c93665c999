// What comes of a scenario: what to look at, verdicts, the path, curves, and a table with an interval for every figure.

import { useCallback, useEffect, useMemo } from "preact/hooks";
import type { Description, Interruptions } from "../engine/types";
import { Comparison, prefixFor, shownMean, type Metric, type Verdict } from "../model/compare";
import { wholeSeeds } from "../model/commands";
import { clock } from "../model/clock";
import { offered, panels, queued, windowed, type Drawn, type Span } from "../model/curves";
import { greatest } from "../model/extent";
import { foremost, lookAt, type Look } from "../model/look";
import { marksOf, meaningOf, type Mark } from "../model/marks";
import { seenSpan, setSpan, usualSpan } from "../model/span";
import { choose, overridesFor, run, shownVariant, update, useChosen, useStore, type State } from "../model/store";
import { styles } from "../model/style";
import { Chart } from "../ui/chart";
import { NoPanel } from "../ui/take";
import { Zoom } from "../ui/zoom";
import type { RunOf } from "../replay/packets";
import { Flows } from "./flows";
import { Happened } from "./happened";
import { PathPicture } from "./path";

/** Flows that are asked whether something happens to their path. */
const LOOKED_AT = 50;
/** Verdicts that are seen without a click: what counts most comes first. */
const FOREMOST = 3;

/** Names for people, by the key of what is compared. */
export function namesOf(state: State): Map<string, string> {
  const of = state.resultsOf;
  return new Map((of?.variants ?? []).map((variant) => [variant.key, shownVariant(variant, of?.checked ?? null)]));
}

export function comparisonOf(state: State): Comparison | null {
  const { about, statistics, resultsOf } = state;
  if (!resultsOf) return null;
  const names = namesOf(state);
  const runs = new Map([...wholeSeeds(state.results, resultsOf.variants.map((one) => one.key))].map(([sender, list]) => [names.get(sender) ?? sender, list]));
  const [first] = runs.keys();
  if (first === undefined || (runs.get(first)?.length ?? 0) === 0) return null;
  return new Comparison(runs, first, about.declarations.columns, statistics);
}

/** The figures of the first seconds, until those of the whole run are there. */
function earlyOf({ about, statistics, resultsOf, early }: State, names: Map<string, string>): Comparison | null {
  const [first] = early?.results.keys() ?? [];
  if (!resultsOf || !early || first === undefined) return null;
  const runs = new Map([...early.results].map(([key, { summary }]) => [names.get(key) ?? key, [summary]]));
  return new Comparison(runs, names.get(first) ?? first, about.declarations.columns, statistics);
}

function Bar() {
  const state = useStore("results", "running", "done", "took");
  const packets = [...state.results.values()].flat().reduce((total, run) => total + (run?.summary.packet_hops ?? 0), 0);
  const runs = [...state.results.values()].flat().filter(Boolean).length;
  if (state.running) {
    return (
      <div class="progress">
        <progress max={1} value={state.done} aria-label="Progress of the runs" />
        <span>{Math.round(state.done * 100)} %</span>
      </div>
    );
  }
  if (runs === 0) return null;
  const took = state.took < 1000 ? `${state.took.toFixed(0)} ms` : `${(state.took / 1000).toFixed(1)} s`;
  const hops = packets < 1e6 ? Number(packets.toPrecision(2)).toLocaleString("en-GB") : `${(packets / 1e6).toLocaleString("en-GB", { maximumSignificantDigits: 2 })} million`;
  return <p class="took">{runs} {runs === 1 ? "run" : "runs"}, {hops} packet-hops, {took}</p>;
}

/** Seeds that wait because a run takes long. */
function Held({ state }: { state: State }) {
  if (!state.held) return null;
  const { seeds, seconds } = state.held;
  const about = seconds < 90 ? `${Math.ceil(seconds / 5) * 5} s` : `${Math.ceil(seconds / 60)} min`;
  return (
    <p class="message note" role="status">
      A run takes long: the figures are of one seed, without intervals. <button type="button" onClick={() => void run(true)}>Run {seeds} more {seeds === 1 ? "seed" : "seeds"}, about {about}</button>
    </p>
  );
}

/** What there is of runs that go on, before any of them is over. */
function SoFar({ firsts, flows }: { firsts: Map<string, Drawn>; flows: number }) {
  const rates = [...firsts].flatMap(([name, { series, seconds, summary }]) => {
    const bits = summary ? null : series?.flows["throughput_bit_s"];
    if (!bits?.length || !seconds) return [];
    const rate = bits.reduce((total, one) => total + one, 0) / (bits.length / flows);
    const [factor, unit] = prefixFor(rate, "bit/s");
    return [`${name} ${(rate / factor).toFixed(1)} ${unit} in ${seconds.toFixed(0)} s`];
  });
  return rates.length === 0 ? null : <p class="look">Throughput of all flows so far: {rates.join(", ")}.</p>;
}

function Saved({ state }: { state: State }) {
  const saved = state.given?.fingerprints;
  if (!saved) return null;
  const compared = [...state.results].flatMap(([sender, runs]) => runs.map((run) => [saved[sender]?.[String(run?.summary.seed)], run?.summary.fingerprint]));
  const known = compared.filter(([before, now]) => before !== undefined && now !== undefined);
  if (known.length === 0) return null;
  const other = known.filter(([before, now]) => before !== now).length;
  if (other === 0) return <p class="took">The same runs as saved: {known.length} of {known.length} fingerprints agree.</p>;
  return <p class="message note">{other} of {known.length} runs differ from those saved: they were made by another version of the engine, or the scenario was changed.</p>;
}

const word = (better: boolean | null) => (better === null ? "" : better ? "better" : "worse");

function VerdictList({ of }: { of: Verdict[] }) {
  return <ul>{of.map((one) => <li key={one.text} class={word(one.better)}><span>{word(one.better)}</span> {one.text}</li>)}</ul>;
}

function Verdicts({ comparison }: { comparison: Comparison }) {
  const verdicts = comparison.verdicts();
  if (verdicts.length === 0) return null;
  const shown = verdicts.filter((one) => one.shown);
  const rest = verdicts.filter((one) => !one.shown);
  const more = shown.slice(FOREMOST);
  // As the command says it: once, not for every measure.
  const isAlone = comparison.runs.get(comparison.baseline)?.length === 1;
  if (isAlone && shown.length === 0) {
    return (
      <section class="verdicts" aria-labelledby="verdicts-title">
        <h2 id="verdicts-title">Against {comparison.baseline}</h2>
        <p>One seed cannot show a difference: use more seeds.</p>
      </section>
    );
  }
  return (
    <section class="verdicts" aria-labelledby="verdicts-title">
      <h2 id="verdicts-title">Against {comparison.baseline}</h2>
      <VerdictList of={shown.slice(0, FOREMOST)} />
      <div class="row">
        {more.length > 0 && (
          <details>
            <summary>{more.length} more</summary>
            <VerdictList of={more} />
            <p class="foot">
              {comparison.same
                ? "The seeds change nothing in this scenario: the differences are exact."
                : `Differences are taken seed by seed; each interval holds with 95 % on its own; 100 % is the mean of ${comparison.baseline}.`}
            </p>
          </details>
        )}
        {rest.length > 0 && (
          <details>
            <summary>{rest.length} without a difference{comparison.same ? "" : " shown"}</summary>
            <ul>{rest.map((one) => <li key={one.text}>{one.text}</li>)}</ul>
          </details>
        )}
      </div>
    </section>
  );
}

/** `early`: of which seconds they are, if not of the whole run, and how long that is. */
function Figures({ comparison, style, early = null }: { comparison: Comparison; style: Map<string, number>; early?: { seconds: number; of: number } | null }) {
  const count = comparison.runs.get(comparison.baseline)?.length ?? 0;
  const unit = (metric: Metric): [number, string] => {
    const sizes = comparison.senders.map((sender) => Math.abs(comparison.estimate(sender, metric)?.mean ?? 0));
    return prefixFor(greatest(sizes), metric.unit, metric.share);
  };
  return (
    <section class="figures" aria-labelledby="figures-title">
      <h2 id="figures-title">{early ? `One seed, the first ${early.seconds} s` : comparison.same ? `All ${count} seeds gave the same run` : count > 1 ? `Means of ${count} seeds and their 95 % intervals` : "One seed"}</h2>
      <div class="scroll" role="group" aria-labelledby="figures-title" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col"><span class="hidden">Measure</span></th>
              {comparison.senders.map((sender) => <th key={sender} scope="col" class={`sender-text-${style.get(sender) ?? 0}`}>{sender}</th>)}
              <th scope="col" class="unit"><span class="hidden">Unit</span></th>
            </tr>
          </thead>
          <tbody>
            {[...comparison.metrics, ...comparison.lengths].map((metric) => {
              const [factor, shown] = unit(metric);
              return (
                <tr key={metric.name}>
                  <th scope="row" title={metric.column.help}>{metric.label}</th>
                  {comparison.senders.map((sender) => {
                    const { value, half } = shownMean(comparison.estimate(sender, metric), factor);
                    return <td key={sender} data-metric={metric.name} data-sender={sender}>{value}{half !== null && <span class="half"> ± {half}</span>}</td>;
                  })}
                  <td class="unit">{shown}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {early ? <p class="foot">A run of {early.seconds} s, as with <code>--set duration='{early.seconds} s'</code>. The figures of all {early.of} s replace these when they are there.</p> : <p class="foot">
        Fingerprints of seed {comparison.runs.get(comparison.baseline)?.[0]?.seed}:{" "}
        {comparison.senders.map((sender) => <span key={sender} class="fingerprint" data-sender={sender}>{sender} <code>{comparison.runs.get(sender)?.[0]?.fingerprint}</code> </span>)}
      </p>}
    </section>
  );
}

interface ViewProps {
  own: number[];
  /** Whether all of them have a window. */
  hasWindows: boolean;
  flow: number;
  flows: { name: string }[];
  links: string[];
  link: string | null;
  span: Span | null;
  duration: number;
  seed: number;
  show: (span: Span | null) => void;
}

/** Which flow, which queue, and how near. */
function Toolbar({ own, hasWindows, flow, flows, links, link, span, duration, seed, show }: ViewProps) {
  return (
    <div class="toolbar" role="group" aria-label="What the curves show">
      {own.length > 1 && (
        <label class="field inline">
          <span>{hasWindows ? "Window and RTT of" : "Flow"}</span>
          <select value={flow} onChange={(event) => choose("flow", event.currentTarget.value)}>
            {own.slice(0, 200).map((index) => <option key={index} value={index}>{flows[index]?.name}</option>)}
            <option value={-1}>mean of all flows</option>
          </select>
        </label>
      )}
      {links.length > 1 && (
        <label class="field inline">
          <span>Queue at</span>
          <select value={link ?? ""} onChange={(event) => choose("link", event.currentTarget.value)}>
            {links.slice(0, 200).map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
      )}
      <Zoom span={span} duration={duration} whole="Whole run" show={show} />
      <span class="seed">seed {seed}</span>
    </div>
  );
}

/** The flow that is looked at: the chosen one, or else the first whose path changes or goes down, or else the first. */
export function flowOf(asked: string | null, own: number[], description: Description | undefined, interruptions: Interruptions): number {
  const wished = Number(asked ?? Number.NaN);
  if (wished === -1 || own.includes(wished)) return wished;
  const isMarked = (flow: number) => description !== undefined && marksOf(description, interruptions, flow).some(({ kind }) => kind !== "warm-up");
  return own.slice(0, LOOKED_AT).find(isMarked) ?? own[0] ?? 0;
}

/** Flow, queue and span as they were chosen, as far as this run has them. */
function useView(state: State, firsts: Map<string, Drawn>, identity: string) {
  const { interruptions } = state;
  const [askedFlow] = useChosen("flow");
  const [askedLink] = useChosen("link");
  const [askedSpan] = useChosen("span");
  const { description } = state.resultsOf?.checked ?? {};
  const flows = description?.flows ?? [];
  const own = useMemo(() => offered(firsts, flows.length), [identity, flows]);
  const hasWindows = useMemo(() => windowed(firsts, flows.length).length === flows.length, [identity, flows]);
  const links = useMemo(() => queued(firsts, description?.links ?? []), [identity, description]);
  const flow = useMemo(() => flowOf(askedFlow, own, description, interruptions), [askedFlow, own, description, interruptions]);
  const marks = useMemo(() => (description ? marksOf(description, interruptions, flow) : []), [description, interruptions, flow]);
  const duration = description?.duration_s ?? 1;
  const usual = useMemo(() => usualSpan(marks, duration), [marks, duration]);
  const span = useMemo(() => seenSpan(askedSpan, usual, duration), [askedSpan, usual, duration]);
  const show = useCallback((next: Span | null) => setSpan(next, usual), [usual]);
  return { own, hasWindows, links, flow, flows, link: askedLink, span, duration, marks, show, isClose: askedSpan === null && usual !== null };
}

/** What to look at first. */
export function lookOf(state: State, marks: Mark[]): Look | null {
  const { resultsOf, results } = state;
  const [variant] = resultsOf?.variants ?? [];
  const summary = variant && results.get(variant.key)?.[0]?.summary;
  if (!resultsOf || !variant || !summary) return null;
  const name = resultsOf.variants.length > 1 ? shownVariant(variant, resultsOf.checked) : null;
  return lookAt(summary, resultsOf.checked, marks, name);
}

/** Panels that are no curves, by the names that an address may ask for alone. */
export const OTHER_PANELS = ["path", "verdicts", "figures"];

/** `only` is the name of a panel that is shown alone. */
export function Results({ theme, only = null }: { theme: string; only?: string | null }) {
  // Not the progress: it changes many times a second.
  const state = useStore("resultsOf", "results", "partial", "keys", "interruptions", "checked", "failure", "running", "held", "early", "given", "about", "statistics", "chosen");
  const { resultsOf, results, partial, keys, interruptions } = state;
  const names = namesOf(state);
  const style = useMemo(() => styles([...names.values()], keys.transports), [[...names.values()].join(), keys]);
  // Of a run that goes on, its beginning.
  const firsts = new Map<string, Drawn>();
  for (const [key, runs] of results) {
    const found: Drawn | undefined = runs[0] ?? partial.get(key);
    if (found) firsts.set(names.get(key) ?? key, found);
  }
  const identity = [...firsts].map(([name, run]) => `${name}${run.summary?.fingerprint ?? run.seconds}`).join();
  const seen = useView(state, firsts, identity);
  const { flow, link, span, duration, marks, show } = seen;
  const look = lookOf(state, marks);
  const drawn = useMemo(() => (resultsOf && firsts.size > 0 ? foremost(panels(firsts, resultsOf.checked, style, { flow, link, span }), look) : []), [identity, resultsOf?.checked, style, flow, link, span, look?.text]);
  const comparison = useMemo(() => comparisonOf(state), [results, resultsOf]);
  const foretaste = useMemo(() => earlyOf(state, names), [state.early, resultsOf]);
  const [leading] = firsts;
  const { source, seed } = resultsOf ?? {};
  const [variant] = resultsOf?.variants ?? [];
  // While the text is another one, its packets are not known.
  const isOurs = resultsOf !== null && resultsOf.checked === state.checked;
  const followed = useMemo(
    (): RunOf | null => (isOurs && resultsOf && source && seed !== undefined && variant ? { source, overrides: overridesFor(resultsOf.checked, variant), seed, description: resultsOf.checked.description } : null),
    [isOurs, resultsOf?.checked, variant?.key, seed],
  );
  useEffect(() => {
    // Where something happens, if it is known where.
    const event = marks.find(({ kind, from }) => kind !== "warm-up" && (!span || (from >= span[0] && from <= span[1])));
    const [begin, end] = span ?? [0, duration];
    if (resultsOf) clock.suggest(event ? (event.from + event.to) / 2 : begin + (end - begin) * 0.6);
  }, [marks, resultsOf?.checked, duration, span]);
  const shownLink = drawn.find((panel) => panel.id === "queue")?.title.replace(/^Queue at /, "") ?? null;
  const toReplay = () => {
    clock.set(clock.seconds);
    update({ view: "replay" });
    window.scrollTo(0, 0);
  };
  const has = (panel: string) => only === null || only === panel;
  const curves = only === null ? drawn : drawn.filter((panel) => panel.id === only);
  return (
    <div class="results" aria-busy={state.running}>
      <div class="head">
        <h2 class="name">{resultsOf?.checked.description.name ?? (state.failure ? "" : "Loading the simulator …")}</h2>
        <Bar />
      </div>
      {state.failure !== null && resultsOf && <p class="message note">These results are of the scenario before the mistake.</p>}
      <Saved state={state} />
      <Held state={state} />
      {state.checked && OTHER_PANELS.slice(0, 2).some(has) && (
        <div class="short">
          {has("verdicts") && <div class="told">
            {look && <p class="look">{look.text}{seen.isClose && " The curves show the first time; “Whole run” shows all."}</p>}
            {!comparison && resultsOf && <SoFar firsts={firsts} flows={Math.max(1, seen.flows.length)} />}
            {comparison && <Verdicts comparison={comparison} />}
          </div>}
          {has("path") && <PathPicture checked={state.checked} series={state.checked.description.links.length === resultsOf?.checked.description.links.length ? (leading?.[1].series ?? null) : null} interruptions={interruptions} flow={flow} theme={theme} run={followed} of={firsts.size > 1 ? `with ${leading?.[0]}` : ""} toReplay={only === null ? toReplay : null} />}
        </div>
      )}
      {!state.running && drawn.length > 0 && <NoPanel asked={only} known={[...drawn.map(({ id }) => id), ...OTHER_PANELS]} />}
      {curves.length > 0 && resultsOf && (
        <section class="charts" aria-label="Curves">
          {only === null && <Toolbar {...seen} link={shownLink} seed={resultsOf.seed} />}
          {curves.map((panel, index) => <Chart key={panel.id} panel={panel} duration={duration} span={span} marks={marks} theme={theme} isLast={index === curves.length - 1} zoom={show} />)}
          {only === null && <Happened flow={flow} span={span ?? [0, duration]} theme={theme} />}
          {meaningOf(marks) && <p class="foot">{meaningOf(marks)}</p>}
        </section>
      )}
      {!comparison && foretaste && state.early && has("figures") && (
        <div class="findings">
          <Figures comparison={foretaste} style={style} early={{ seconds: state.early.seconds, of: duration }} />
        </div>
      )}
      {comparison && has("figures") && (
        <div class="findings">
          <Figures comparison={comparison} style={style} />
          <Flows comparison={comparison} style={style} />
        </div>
      )}
    </div>
  );
}
