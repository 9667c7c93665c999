// What to take along: a link, the command, the Python, and files.

import { useMemo } from "preact/hooks";
import { command, fileName, needsFile, python, resultsCsv, resultsJson } from "../model/commands";
import { offered, panels, type Panel, type Span } from "../model/curves";
import { download, png, svg } from "../model/figure";
import { get, shownSender, useStore, type State } from "../model/store";
import { link } from "../model/address";
import { styles } from "../model/style";
import type { RunResult } from "../engine/types";
import { marksOf, type Mark } from "../model/marks";
import { seenSpan, usualSpan } from "../model/span";
import { OnePanel, Taken, useCopied } from "../ui/take";
import { comparisonOf, flowOf, lookOf, namesOf } from "./results";
import { foremost } from "../model/look";
import { pathPanel, pathSvg } from "./path";

interface ShownPanels {
  panels: Panel[];
  span: Span;
  marks: Mark[];
}

const NOTHING_SHOWN: ShownPanels = { panels: [], span: [0, 1], marks: [] };

/** Panels that are no curves. */
const OTHERS: [string, string][] = [["verdicts", "Verdicts"], ["figures", "Table"]];

/** The panels that Play shows, their title and span, and what is marked. */
function shownPanels(state: State): ShownPanels {
  const of = state.resultsOf;
  if (!of) return NOTHING_SHOWN;
  const names = namesOf(state);
  const style = styles([...names.values()], state.keys.transports);
  const runs = new Map<string, RunResult>();
  for (const [sender, list] of state.results) if (list[0]) runs.set(names.get(sender) ?? sender, list[0]);
  const { description } = of.checked;
  const own = offered(runs, description.flows.length);
  const flow = flowOf(state.chosen["flow"] ?? null, own, description, state.interruptions);
  const marks = marksOf(description, state.interruptions, flow);
  const span = seenSpan(state.chosen["span"] ?? null, usualSpan(marks, description.duration_s), description.duration_s);
  const made = panels(runs, of.checked, style, { flow, link: state.chosen["link"] ?? null, span });
  return { panels: foremost(made, lookOf(state, marks)), span: span ?? [0, description.duration_s], marks };
}

/** The figure of what is shown, as SVG; of one panel, if it is named. */
function figure(only: string | null = null): string {
  const state = get();
  const of = state.resultsOf;
  if (!of) return "";
  if (only === pathPanel.id) return pathSvg();
  const { panels, span, marks } = shownPanels(state);
  const shown = only === null ? panels : panels.filter(({ id }) => id === only);
  return svg(shown, `${of.checked.description.name}, seed ${of.seed}`, span, marks);
}

/** Senders and helpers, as the results of the command have them, if helpers were compared. */
function axesOf(state: State): { senders: string[]; helpers: string[] } | null {
  const variants = state.resultsOf?.variants ?? [];
  const helpers = [...new Set(variants.flatMap((one) => (one.helper === null ? [] : [one.helper])))];
  if (helpers.length === 0) return null;
  return { senders: [...new Set(variants.map((one) => shownSender(one.sender, state.resultsOf?.checked ?? null)))], helpers };
}

export function Actions() {
  const state = useStore("about", "statistics", "keys", "ready", "source", "changed", "edited", "checked", "senders", "helpers", "seed", "seeds", "results", "resultsOf", "interruptions", "chosen");
  const copied = useCopied();
  const { copy, setSaid, shown } = copied;
  const hasResults = useMemo(() => comparisonOf(state) !== null, [state.results, state.resultsOf]);
  const { panels: curves, span } = useMemo(() => (hasResults ? shownPanels(state) : NOTHING_SHOWN), [hasResults, state.results, state.resultsOf, state.interruptions, state.chosen]);
  const stem = fileName(state).replace(/\.toml$/, "");
  const save = async (what: "svg" | "png" | "json" | "csv") => {
    if (what === "svg") download(`${stem}.svg`, figure(), "image/svg+xml");
    else if (what === "png") download(`${stem}.png`, await png(figure()));
    else if (what === "csv") {
      const comparison = comparisonOf(state);
      if (comparison) download(`${stem}.results.csv`, resultsCsv(comparison), "text/csv");
    } else {
      const comparison = comparisonOf(state);
      if (!comparison || !state.resultsOf) return;
      const made = resultsJson(state.about, state.resultsOf.checked, comparison.runs, state.statistics, axesOf(state));
      download(`${stem}.results.json`, `${JSON.stringify(made)}\n`, "application/json");
    }
    setSaid("downloaded");
  };
  const files = Object.keys(state.source.files).length > 0 ? ", beside the files that it names" : "";
  return (
    <section class="actions" aria-labelledby="actions-title">
      <h2 id="actions-title">Take it along</h2>
      <div class="row">
        <button type="button" onClick={async () => copy("Link", await link())}>Copy link</button>
        <button type="button" disabled={!state.checked} onClick={() => copy("Command", command(state))}>Copy command</button>
        <button type="button" disabled={!state.checked} onClick={() => copy("Python", python(state))}>Copy Python</button>
        <span class="gap" />
        <button type="button" onClick={() => { download(fileName(state), state.source.text, "application/toml"); setSaid("downloaded"); }}>Scenario</button>
        <button type="button" disabled={!hasResults} onClick={() => save("json")}>Results (JSON)</button>
        <button type="button" disabled={!hasResults} onClick={() => save("csv")}>Results (CSV)</button>
        <button type="button" disabled={!hasResults} onClick={() => save("svg")}>Figure (SVG)</button>
        <button type="button" disabled={!hasResults} onClick={() => save("png")}>Figure (PNG)</button>
      </div>
      {hasResults && <OnePanel curves={[...curves, pathPanel]} span={span} others={OTHERS} stem={stem} picture={figure} told={OTHERS.map(([id]) => id)} copied={copied} />}
      <Taken copied={copied} {...(needsFile(state) && shown?.title !== "Link" ? { more: `The scenario is your own: download it first, as ${fileName(state)}${files}.` } : {})} />
    </section>
  );
}
