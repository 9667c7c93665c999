// What to take along: a link, the command, the Python, and files.

import { useState } from "preact/hooks";
import { command, fileName, needsFile, python, resultsCsv, resultsJson } from "../model/commands";
import { panels } from "../model/curves";
import { download, png, svg } from "../model/figure";
import { get, link, shownSender, useStore, type State } from "../model/store";
import { styles } from "../model/style";
import type { RunResult } from "../engine/types";
import { comparisonOf, namesOf } from "./results";

/** The figure of what is shown, as SVG. */
function figure(): string {
  const state = get();
  const of = state.resultsOf;
  if (!of) return "";
  const names = namesOf(state);
  const style = styles([...names.values()], state.keys.transports);
  const runs = new Map<string, RunResult>();
  for (const [sender, list] of state.results) if (list[0]) runs.set(names.get(sender) ?? sender, list[0]);
  const { description } = of.checked;
  return svg(panels(runs, of.checked, style, 0), `${description.name}, seed ${of.seed}`, description.duration_s);
}

/** Senders and helpers, as the results of the command have them, if helpers were compared. */
function axesOf(state: State): { senders: string[]; helpers: string[] } | null {
  const variants = state.resultsOf?.variants ?? [];
  const helpers = [...new Set(variants.flatMap((one) => (one.helper === null ? [] : [one.helper])))];
  if (helpers.length === 0) return null;
  return { senders: [...new Set(variants.map((one) => shownSender(one.sender, state.resultsOf?.checked ?? null)))], helpers };
}

export function Actions() {
  const state = useStore();
  const [said, setSaid] = useState("");
  const [shown, setShown] = useState<{ title: string; text: string } | null>(null);
  const copy = async (title: string, text: string) => {
    setShown({ title, text });
    try {
      await navigator.clipboard.writeText(text);
      setSaid(`${title} copied`);
    } catch {
      setSaid(`${title}: the browser does not let the page copy; take it from the box`);
    }
  };
  const hasResults = comparisonOf(state) !== null;
  const save = async (what: "svg" | "png" | "json" | "csv") => {
    const stem = fileName(state).replace(/\.toml$/, "");
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
      {shown && (
        <div class="taken">
          <pre tabIndex={0} aria-label={shown.title}>{shown.text}</pre>
          {needsFile(state) && shown.title !== "Link" && <p class="foot">The scenario is your own: download it first, as {fileName(state)}{Object.keys(state.source.files).length > 0 ? ", beside the files that it names" : ""}.</p>}
        </div>
      )}
      <p class="foot" role="status">{said}</p>
    </section>
  );
}
