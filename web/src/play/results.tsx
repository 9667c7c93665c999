// What comes of a scenario: verdicts, curves, and a table with an interval for every figure.

import { useMemo, useState } from "preact/hooks";
import { Comparison, prefixFor, shownMean, type Metric } from "../model/compare";
import { wholeSeeds } from "../model/commands";
import { panels, type Drawn } from "../model/curves";
import { shownVariant, useStore, type State } from "../model/store";
import { styles } from "../model/style";
import { Chart } from "../ui/chart";

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

function Bar({ state }: { state: State }) {
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
  return <p class="took">{runs} runs, {(packets / 1e6).toLocaleString("en-GB", { maximumFractionDigits: 1 })} million packet-hops, {took}</p>;
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

function Verdicts({ comparison }: { comparison: Comparison }) {
  const verdicts = comparison.verdicts();
  if (verdicts.length === 0) return null;
  const shown = verdicts.filter((one) => one.shown);
  const rest = verdicts.filter((one) => !one.shown);
  const word = (better: boolean | null) => (better === null ? "" : better ? "better" : "worse");
  return (
    <section class="verdicts" aria-labelledby="verdicts-title">
      <h2 id="verdicts-title">Against {comparison.baseline}</h2>
      <ul>
        {shown.map((one) => (
          <li key={one.text} class={word(one.better)}><span>{word(one.better)}</span> {one.text}</li>
        ))}
      </ul>
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} without a difference{comparison.same ? "" : " shown"}</summary>
          <ul>{rest.map((one) => <li key={one.text}>{one.text}</li>)}</ul>
        </details>
      )}
      <p class="foot">
        {comparison.same
          ? "The seeds change nothing in this scenario: the differences are exact."
          : `Differences are taken seed by seed; each interval holds with 95 % on its own, percentages are relative to the ${comparison.baseline} mean.`}
      </p>
    </section>
  );
}

function Figures({ comparison, style }: { comparison: Comparison; style: Map<string, number> }) {
  const count = comparison.runs.get(comparison.baseline)?.length ?? 0;
  const unit = (metric: Metric): [number, string] => {
    const sizes = comparison.senders.map((sender) => Math.abs(comparison.estimate(sender, metric)?.mean ?? 0));
    return prefixFor(Math.max(...sizes), metric.unit, metric.share);
  };
  return (
    <section class="figures" aria-labelledby="figures-title">
      <h2 id="figures-title">{comparison.same ? `All ${count} seeds gave the same run` : count > 1 ? `Means of ${count} seeds and their 95 % intervals` : "One seed"}</h2>
      <div class="scroll" role="region" aria-labelledby="figures-title" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col"><span class="hidden">Measure</span></th>
              {comparison.senders.map((sender) => <th key={sender} scope="col" class={`sender-text-${style.get(sender) ?? 0}`}>{sender}</th>)}
              <th scope="col" class="unit"><span class="hidden">Unit</span></th>
            </tr>
          </thead>
          <tbody>
            {comparison.metrics.map((metric) => {
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
      <p class="foot">
        Fingerprints of seed {comparison.runs.get(comparison.baseline)?.[0]?.seed}:{" "}
        {comparison.senders.map((sender) => <span key={sender} class="fingerprint" data-sender={sender}>{sender} <code>{comparison.runs.get(sender)?.[0]?.fingerprint}</code> </span>)}
      </p>
    </section>
  );
}

export function Results({ theme }: { theme: string }) {
  const state = useStore();
  const [flow, setFlow] = useState(0);
  const { resultsOf, results, partial, keys } = state;
  const names = namesOf(state);
  const style = useMemo(() => styles([...names.values()], keys.transports), [[...names.values()].join(), keys]);
  // Of a run that goes on, its beginning.
  const firsts = new Map<string, Drawn>();
  for (const [key, runs] of results) {
    const found: Drawn | undefined = runs[0] ?? partial.get(key);
    if (found) firsts.set(names.get(key) ?? key, found);
  }
  const identity = [...firsts].map(([name, run]) => `${name}${run.summary?.fingerprint ?? run.seconds}`).join();
  const drawn = useMemo(() => (resultsOf && firsts.size > 0 ? panels(firsts, resultsOf.checked, style, flow) : []), [identity, resultsOf?.checked, style, flow]);
  const comparison = useMemo(() => comparisonOf(state), [results, resultsOf]);
  const flows = resultsOf?.checked.description.flows ?? [];
  const stale = state.failure !== null;
  return (
    <div class="results" aria-busy={state.running}>
      <div class="head">
        <h2 class="name">{resultsOf?.checked.description.name ?? (state.failure ? "" : "Loading the simulator …")}</h2>
        <Bar state={state} />
      </div>
      {stale && resultsOf && <p class="message note">What follows is of the scenario before the mistake.</p>}
      <Saved state={state} />
      {drawn.length > 0 && resultsOf && (
        <section class="charts" aria-label="Curves">
          {flows.length > 1 && (
            <label class="field inline">
              <span>Window and RTT of</span>
              <select value={flow} onChange={(event) => setFlow(Number(event.currentTarget.value))}>
                {flows.slice(0, 200).map((one, index) => <option key={one.name} value={index}>{one.name}</option>)}
                <option value={-1}>mean of all flows</option>
              </select>
              <span class="seed">seed {resultsOf.seed}</span>
            </label>
          )}
          {drawn.map((panel, index) => <Chart key={panel.id} panel={panel} duration={resultsOf.checked.description.duration_s} theme={theme} isLast={index === drawn.length - 1} />)}
        </section>
      )}
      {comparison && (
        <div class="findings">
          <Verdicts comparison={comparison} />
          <Figures comparison={comparison} style={style} />
        </div>
      )}
    </div>
  );
}
