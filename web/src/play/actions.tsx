// What to take along: a link, the command, the Python, and files.

import { useState } from "preact/hooks";
import { command, fileName, needsFile, python, resultsCsv, resultsJson } from "../model/commands";
import { offered, panels, spanOf, type Panel, type Span } from "../model/curves";
import { download, escape, png, svg } from "../model/figure";
import { get, shownSender, useStore, type State } from "../model/store";
import { link, reachOf } from "../model/address";
import { styles } from "../model/style";
import type { RunResult } from "../engine/types";
import { marksOf, type Mark } from "../model/marks";
import { comparisonOf, namesOf } from "./results";

/** The panels that Play shows, their title and span, and what is marked. */
function shownPanels(state: State): { panels: Panel[]; span: Span; marks: Mark[] } {
  const of = state.resultsOf;
  if (!of) return { panels: [], span: [0, 1], marks: [] };
  const names = namesOf(state);
  const style = styles([...names.values()], state.keys.transports);
  const runs = new Map<string, RunResult>();
  for (const [sender, list] of state.results) if (list[0]) runs.set(names.get(sender) ?? sender, list[0]);
  const { description } = of.checked;
  const own = offered(runs, description.flows.length);
  const wished = Number(state.chosen["flow"] ?? Number.NaN);
  const flow = wished === -1 || own.includes(wished) ? wished : (own[0] ?? 0);
  const span = spanOf(state.chosen["span"] ?? null, description.duration_s);
  const made = panels(runs, of.checked, style, { flow, link: state.chosen["link"] ?? null, span });
  return { panels: made, span: span ?? [0, description.duration_s], marks: marksOf(description, state.interruptions, flow) };
}

/** The figure of what is shown, as SVG. */
function figure(): string {
  const state = get();
  const of = state.resultsOf;
  if (!of) return "";
  const { panels: shown, span, marks } = shownPanels(state);
  return svg(shown, `${of.checked.description.name}, seed ${of.seed}`, span, marks);
}

/** What another page needs to show a panel in a frame. */
function frameOf(address: string, panel: string): string {
  const [page, fragment] = address.split("#");
  const source = escape(`${page?.split("?")[0]}?panel=${panel}#${fragment}`);
  return `<iframe src="${source}" title="lasthop" width="720" height="320" style="border: 0"></iframe>`;
}

/** The points of a panel: a row per time, a column per line. */
function panelCsv(curves: Panel[], id: string): string {
  const panel = curves.find((one) => one.id === id);
  if (!panel) return "";
  const head = ["time_s", ...panel.lines.map((line) => `${line.name} (${panel.unit})`)].map((name) => `"${name.replaceAll('"', '""')}"`);
  const rows = panel.time.map((time, row) => [Number(time.toPrecision(12)), ...panel.lines.map((line) => line.values[row] ?? "")].join(","));
  return `${[head.join(","), ...rows].join("\n")}\n`;
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
  const [asked, setPanel] = useState("");
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
  const curves = hasResults ? shownPanels(state).panels : [];
  const panelNames: [string, string][] = hasResults ? [...curves.map(({ id, title }): [string, string] => [id, title]), ["path", "The path"], ["verdicts", "Verdicts"], ["figures", "Table"]] : [];
  const panel = panelNames.some(([id]) => id === asked) ? asked : (panelNames[0]?.[0] ?? "");
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
      {panelNames.length > 0 && (
        <div class="row">
          <label class="field inline"><span>One panel</span>
            <select value={panel} onChange={(event) => setPanel(event.currentTarget.value)}>
              {panelNames.map(([id, name]) => <option key={id} value={id}>{name}</option>)}
            </select>
          </label>
          <button type="button" onClick={async () => copy("Frame", frameOf(await link(), panel))}>Copy frame</button>
          <button type="button" disabled={!curves.some((one) => one.id === panel)} onClick={() => { download(`${fileName(state).replace(/\.toml$/, "")}.${panel}.csv`, panelCsv(curves, panel), "text/csv"); setSaid("downloaded"); }}>Data (CSV)</button>
        </div>
      )}
      {shown && (
        <div class="taken">
          <pre tabIndex={0} aria-label={shown.title}>{shown.text}</pre>
          {shown.title === "Link" && reachOf(shown.text) && <p class="foot">{reachOf(shown.text)}</p>}
          {needsFile(state) && shown.title !== "Link" && <p class="foot">The scenario is your own: download it first, as {fileName(state)}{Object.keys(state.source.files).length > 0 ? ", beside the files that it names" : ""}.</p>}
        </div>
      )}
      <p class="foot" role="status">{said}</p>
    </section>
  );
}
