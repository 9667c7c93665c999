// Explore: a study or a reproduced paper, its figures with their intervals, the claims beside them, and the way from a
// point to the run behind it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { EngineError } from "../engine/pool";
import type { Overrides, Source } from "../engine/types";
import { link } from "../model/address";
import { download } from "../model/figure";
import { openFiles } from "../model/files";
import { AS_WRITTEN, choose, get, open, pool, update, useChosen, useStore } from "../model/store";
import { Figure, shownEstimate, type Chosen } from "./figure";
import { begin, completed, csv, curves as curvesOf, fitting, ofSeries, prefixed, scenarioOf, SETTING, shownValue, tidy, varies, varying, type Choice, type Curve, type Defaults, type DrawnCurve, type Explored, type Value } from "./table";
import type { Statistics } from "../model/stats";
import { frameOf, Taken, useCopied } from "../ui/take";
import type { Claim, ExploreGiven, PaperFigure, PaperGiven, TableGiven } from "./given";

const MOST_LINES = 12;
/** Stands for the curves of the paper's own figure among the axes that lines may be of. */
const PAPER = " ";

function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer;
}

function messageOf(error: unknown): string {
  if (error instanceof EngineError) return error.failure.message;
  return error instanceof Error ? error.message : String(error);
}

/** The text of a scenario with the overrides in it; JSON where that cannot be. */
async function applied(source: Source, overrides: Overrides): Promise<Source> {
  const { json } = await pool.check({ source, overrides });
  try {
    let { text } = source;
    for (const [path, value] of overrides) text = await pool.set(text, path, value);
    const made = { ...source, text };
    if ((await pool.check({ source: made, overrides: [] })).json === json) return made;
  } catch {
    // The text cannot take them one by one: all of them together can.
  }
  return { ...source, name: source.name.replace(/\.toml$/, ".json"), text: JSON.stringify(JSON.parse(json), null, 2), json: true };
}

function VerdictMark({ verdict }: { verdict: string }) {
  return <b class={`verdict ${verdict.replaceAll(" ", "-")}`}>{verdict}</b>;
}

/** What a report says of a claim has some Markdown: code and emphasis. */
function plainText(text: string): string {
  return text.replaceAll("<br>", " ").replaceAll("**", "").replaceAll("`", "").replace(/\*([^*]+)\*/g, "$1");
}

function Claims({ claims, figures, go }: { claims: Claim[]; figures: PaperFigure[]; go?: (figure: PaperFigure) => void }) {
  return (
    <ul class="claims">
      {claims.map((claim) => {
        const target = go && figures.find((figure) => claim.figures.includes(figure.id));
        return (
          <li key={claim.id}>
            <p><VerdictMark verdict={claim.verdict} /> {claim.text}</p>
            {claim.measured && <p class="foot">{plainText(claim.measured)}</p>}
            <p class="foot">
              <code>{claim.predicate}</code>{" "}
              {claim.strength === "headline" && "headline claim; "}{claim.figure}
              {target && <> <button type="button" class="link" onClick={() => go(target)}>show {target.figure}</button></>}
            </p>
          </li>
        );
      })}
    </ul>
  );
}

/** Axes that the curves of a figure speak of, and values that all of them share. */
/** What a figure draws, or else what its claims measure: curves over time are not kept. */
function metricsOf(figure: PaperFigure, of: Explored, claims: Claim[]): string[] {
  const words = claims.filter((claim) => claim.figures.includes(figure.id)).flatMap((claim) => claim.predicate.split(/\W+/));
  return [...new Set([...figure.y, ...words])].filter((name) => of.metrics.some((one) => one.name === name));
}

function wishOf(figure: PaperFigure, of: Explored, given: ExploreGiven, metric: string | undefined) {
  const paper = paperDefaults(given);
  const held: Record<string, Value> = { ...figure.fixed };
  const standard = paper ? completed(figure.fixed, paper) : {};
  const words = figure.curves.map((curve) => curve.split(/[^\w.]+/));
  const lines: string[] = [];
  for (const axis of of.axes) {
    if (axis.name in held || axis.name === figure.x || axis.name === SETTING) continue;
    const named = new Set(words.map((list) => axis.values.find((value) => list.includes(String(value))) ?? (list.includes(axis.name) ? "on" : undefined)));
    if (named.size > 1) lines.push(axis.name);
    else {
      const [only] = named;
      const value = only ?? standard[axis.name];
      if (value !== undefined) held[axis.name] = value;
    }
  }
  return { ...(metric === undefined ? {} : { metric }), x: figure.x, lines, held };
}

/** The curves of a figure, with what else each of them has by the paper; none if their runs are not kept. */
function drawnOf(figure: PaperFigure | null, of: Explored, given: ExploreGiven): DrawnCurve[] {
  // Of a figure over time only what its claims measure is kept: that has no such curves.
  if (!of.axes.some((axis) => axis.name === figure?.x)) return [];
  const conditional = given.paper?.conditional ?? {};
  const made = (figure?.drawn ?? []).map((curve) => ({ ...curve, at: completed(curve.at, { defaults: {}, conditional }) }));
  return made.filter((curve) => of.rows.some((row) => Object.entries(curve.at).every(([axis, value]) => row.at[axis] === undefined || row.at[axis] === value)));
}

/** What is shown first: the first metric that differs from point to point. */
function beginning(of: Explored, table: TableGiven, given: ExploreGiven, figure: PaperFigure | null, statistics: Statistics): Choice {
  const metrics = figure ? metricsOf(figure, of, given.paper?.claims ?? []) : of.metrics.map((one) => one.name);
  const choiceOf = (metric: string | undefined) =>
    figure ? ofFigure(of, given, figure, metric, statistics) : begin(of, { x: table.x, lines: table.lines, ...(metric === undefined ? {} : { metric }) });
  for (const metric of metrics) {
    const choice = choiceOf(metric);
    if (varies(curvesOf(of, choice, statistics))) return choice;
  }
  return choiceOf(metrics[0]);
}

/** A figure with its own curves, or a line for each value of the axes that it speaks of. */
function ofFigure(of: Explored, given: ExploreGiven, figure: PaperFigure, metric: string | undefined, statistics: Statistics): Choice {
  const wish = wishOf(figure, of, given, metric);
  const drawn = drawnOf(figure, of, given);
  if (drawn.length > 0) {
    const held = Object.fromEntries(Object.entries(wish.held).filter(([axis]) => !drawn.some((curve) => axis in curve.at)));
    const choice = begin(of, { ...wish, lines: [], held, drawn });
    if (curvesOf(of, choice, statistics).length > 1) return choice;
  }
  return begin(of, wish);
}

function Held({ of, choice, change }: { of: Explored; choice: Choice; change: (choice: Choice) => void }) {
  const axes = of.axes.filter((axis) => axis.name !== choice.x && !choice.lines.includes(axis.name) && axis.values.length > 1);
  const possible = (name: string) => {
    const { [name]: _, ...rest } = choice.held;
    return new Set(fitting(of, choice.metric, rest).map((row) => row.at[name]));
  };
  return (
    <>
      {axes.map((axis) => {
        const there = possible(axis.name);
        const values = axis.values.filter((value) => there.has(value));
        if (values.length < 2) return null;
        return (
          <label key={axis.name} class="field">
            <span>{axis.label}{axis.unit ? ` (${axis.unit})` : ""}</span>
            <select value={String(axis.values.indexOf(choice.held[axis.name] as Value))} onChange={(event) => {
              const value = axis.values[Number(event.currentTarget.value)];
              if (value !== undefined) change({ ...choice, held: { ...choice.held, [axis.name]: value } });
            }}>
              {values.map((value) => <option key={String(value)} value={String(axis.values.indexOf(value))}>{axis.labels[axis.values.indexOf(value)]}</option>)}
            </select>
          </label>
        );
      })}
    </>
  );
}

function Figures({ found, axisLabel, labelOf, unit, choose }: { found: Curve[]; axisLabel: string; labelOf: (value: Value) => string; unit: string; choose: (one: Chosen) => void }) {
  const values = [...new Set(found.flatMap((curve) => curve.points.map((point) => point.x)))];
  const order = found.flatMap((curve) => curve.points.map((point) => point.x));
  values.sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : order.indexOf(a) - order.indexOf(b)));
  return (
    <section class="figures" aria-labelledby="explored-title">
      <h2 id="explored-title">Means and 95 % intervals{unit ? `, ${unit}` : ""}</h2>
      <div class="scroll" role="group" aria-labelledby="explored-title" tabIndex={0}>
        <table>
          <thead><tr><th scope="col">{axisLabel}</th>{found.map((curve, index) => <th key={curve.name} scope="col" class={`sender-text-${index % 6}`}>{curve.name}</th>)}</tr></thead>
          <tbody>
            {values.map((value) => (
              <tr key={String(value)}>
                <th scope="row">{labelOf(value)}</th>
                {found.map((curve, index) => {
                  const point = curve.points.find((one) => one.x === value);
                  return <td key={curve.name}>{point ? <button type="button" class="cell" onClick={() => choose({ curve: index, point })}>{shownEstimate(point)}</button> : "–"}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** An axis and its value by their names. */
function inWords(of: Explored, name: string, value: Value): string {
  const axis = of.axes.find((one) => one.name === name);
  return `${axis?.label ?? name} ${axis?.labels[axis.values.indexOf(value)] ?? shownValue(value)}${axis?.unit ? ` ${axis.unit}` : ""}`;
}

function OnePoint({ of, chosen, curve, table, given, unit }: { of: Explored; chosen: Chosen; curve: Curve; table: TableGiven; given: ExploreGiven; unit: string }) {
  const [said, setSaid] = useState<string | null>(null);
  const { point } = chosen;
  const [seed, setSeed] = useState(point.samples[0]?.seed ?? 1);
  useEffect(() => {
    setSaid(null);
    setSeed(point.samples[0]?.seed ?? 1);
  }, [point]);
  const behind = useMemo(() => scenarioOf(table.studies, point.at, paperDefaults(given)), [table, point]);
  const sample = point.samples.find((one) => one.seed === seed) ?? point.samples[0];
  const play = async () => {
    const source = behind && given.sources[behind.source];
    if (!source || !sample) return;
    try {
      const made = await applied(source, behind.overrides);
      const prints = sample.fingerprint ? { [AS_WRITTEN]: { [String(sample.seed)]: sample.fingerprint } } : null;
      open(made, null, {
        seed: sample.seed, seeds: 1, senders: [AS_WRITTEN], view: "play",
        given: { kind: "run", title: `${given.title}: ${curve.name}, seed ${sample.seed}`, source: made, ...(prints ? { fingerprints: prints } : {}) },
      });
      window.scrollTo(0, 0);
    } catch (error) {
      setSaid(messageOf(error));
    }
  };
  return (
    <section class="onepoint" aria-labelledby="point-title">
      <h2 id="point-title">{curve.name}: {shownEstimate(point)} {unit}</h2>
      <p class="foot">{Object.entries(point.at).map(([name, value]) => inWords(of, name, value)).join(" · ")}</p>
      <div class="row">
        <label class="field inline"><span>Seed</span>
          <select value={seed} onChange={(event) => setSeed(Number(event.currentTarget.value))}>
            {point.samples.map((one) => <option key={one.seed} value={one.seed}>{one.seed}: {Number(one.value.toPrecision(5)).toLocaleString("en-GB", { maximumFractionDigits: 6 })} {unit}</option>)}
          </select>
        </label>
        <button type="button" class="main" disabled={!behind} onClick={() => void play()}>Open in Play</button>
        {!behind && <span class="foot">{table.studies.length === 0 ? "The table does not say of which scenario it is." : "This value is computed from others and has no run of its own."}</span>}
      </div>
      {said && <pre class="message bad" role="alert">{said}</pre>}
    </section>
  );
}

function paperDefaults(given: ExploreGiven): Defaults | null {
  return given.paper ? { defaults: given.paper.defaults, conditional: given.paper.conditional } : null;
}

/** What is looked at, as the address has it; null if it says nothing, or nothing that can be read. */
function chosenAxes(asked: string | null, of: Explored, own: DrawnCurve[]): Choice | null {
  if (asked === null) return null;
  try {
    const { metric, x, lines, held, paper } = JSON.parse(asked) as Partial<Choice> & { paper?: boolean };
    const isRight = typeof metric === "string" && typeof x === "string" && Array.isArray(lines) && lines.every((one) => typeof one === "string") && typeof held === "object" && held !== null;
    return isRight ? begin(of, { metric, x, lines, held, drawn: paper ? own : [] }) : null;
  } catch {
    return null;
  }
}

function TableView({ of, table, given, figure, isAlone = false }: { of: Explored; table: TableGiven; given: ExploreGiven; figure: PaperFigure | null; isAlone?: boolean }) {
  const { statistics } = useStore("statistics");
  const [asked, ask] = useChosen("axes");
  const own = useMemo(() => drawnOf(figure, of, given), [figure, of, given]);
  const choice = useMemo(() => chosenAxes(asked, of, own) ?? beginning(of, table, given, figure, statistics), [asked, of, table, figure]);
  const mixed = choice.drawn.some((curve) => curve.series !== null);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const change = (next: Choice) => {
    // What is free now must be held, and what is held must be there.
    const held = Object.fromEntries(Object.entries(next.held).filter(([name]) => name !== next.x && !next.lines.includes(name)));
    const { metric, x, lines, held: kept, drawn } = begin(of, { ...next, held });
    ask(JSON.stringify({ metric, x, lines, held: kept, ...(drawn.length > 0 ? { paper: true } : {}) }));
    setChosen(null);
  };
  const metric = of.metrics.find((one) => one.name === choice.metric);
  const plain = useMemo(() => curvesOf(of, choice, statistics), [of, choice]);
  const { curves: found, unit } = useMemo(() => prefixed(plain, metric?.unit === "ratio" ? "" : (metric?.unit ?? "")), [plain, metric]);
  const axis = of.axes.find((one) => one.name === choice.x) ?? null;
  const free = varying(of, choice.metric, Object.fromEntries(Object.entries(choice.held).filter(([name]) => name === SETTING)));
  const labelOf = (value: Value) => axis?.labels[axis.values.indexOf(value)] ?? shownValue(value);
  const shown = found.slice(0, MOST_LINES);
  const curve = chosen ? shown[chosen.curve] : undefined;
  const stem = `${table.file.replace(/\.parquet$/, "")}-${choice.metric}`;
  const saveSvg = () => {
    const drawn = document.querySelector(".explored svg");
    if (!drawn) return;
    const copy = drawn.cloneNode(true) as SVGElement;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("font-family", "system-ui, sans-serif");
    copy.setAttribute("font-size", "12");
    // The style sheet stays behind: what it says goes into the elements.
    const originals = drawn.querySelectorAll("path, circle, text");
    copy.querySelectorAll("path, circle, text").forEach((element, place) => {
      const from = originals[place];
      if (!from) return;
      const style = getComputedStyle(from);
      for (const name of ["fill", "stroke", "stroke-width", "opacity", "font-weight"]) element.setAttribute(name, style.getPropertyValue(name));
      if (element.classList.contains("reach")) element.remove();
    });
    download(`${stem}.svg`, `${new XMLSerializer().serializeToString(copy)}\n`, "image/svg+xml");
  };
  const copied = useCopied();
  const opened = given.alone?.where === "opened" ? given.alone.name : "";
  const drawing = <Figure curves={shown} axis={axis} metric={mixed ? (figure?.title ?? "") : (metric?.label ?? "")} unit={unit} most={mixed ? null : (metric?.most ?? null)} chosen={chosen} choose={setChosen} />;
  if (isAlone) {
    return (
      <>
        <p class="look">{mixed ? figure?.title : metric?.label}{unit ? `, ${unit}` : ""}</p>
        {drawing}
        {chosen && curve && <p class="foot" role="status">{curve.name}: {shownEstimate(chosen.point)} {unit}</p>}
      </>
    );
  }
  return (
    <>
      <div class="choices">
        {(figure === null || of.metrics.length > 1) && (
          <label class="field"><span>Measure</span>
            <select value={choice.metric} onChange={(event) => change({ ...choice, metric: event.currentTarget.value, drawn: mixed ? [] : choice.drawn })}>
              {of.metrics.map((one) => <option key={one.name} value={one.name} title={one.help}>{one.label}{one.unit ? ` (${one.unit})` : ""}</option>)}
            </select>
          </label>
        )}
        <label class="field"><span>Along</span>
          <select value={choice.x} onChange={(event) => { const x = event.currentTarget.value; change({ ...choice, x, lines: choice.lines.filter((one) => one !== x), drawn: choice.drawn.some((curve) => x in curve.at) ? [] : choice.drawn }); }}>
            {choice.x === "" && <option value="">–</option>}
            {free.filter((one) => one.name !== SETTING || choice.held[SETTING] === undefined).map((one) => <option key={one.name} value={one.name}>{one.label}</option>)}
          </select>
        </label>
        <label class="field"><span>A line for each</span>
          <select value={choice.drawn.length > 0 ? PAPER : choice.lines.join(" ")} onChange={(event) => {
            const names = event.currentTarget.value;
            if (names === PAPER) change({ ...choice, lines: [], drawn: own });
            else change({ ...choice, lines: names.split(" ").filter(Boolean), drawn: [] });
          }}>
            {choice.drawn.length === 0 && choice.lines.length === 0 && <option value="">–</option>}
            {own.length > 0 && <option value={PAPER}>curve of the paper</option>}
            {[...new Set([...free.filter((one) => one.name !== choice.x && one.name !== SETTING).map((one) => one.name), choice.lines.join(" "), ...(of.axes.some((one) => one.name === SETTING && one.values.length > 1) ? [SETTING] : [])])].filter(Boolean).map((names) => (
              <option key={names} value={names}>{names.split(" ").map((name) => of.axes.find((one) => one.name === name)?.label ?? name).join(" and ")}</option>
            ))}
            {free.length > 2 && <option value={free.filter((one) => one.name !== choice.x && one.name !== SETTING).map((one) => one.name).join(" ")}>all others together</option>}
          </select>
        </label>
        <Held of={of} choice={choice} change={change} />
      </div>
      {metric?.help && !mixed && <p class="foot">{metric.label}: {metric.help}</p>}
      {given.paper && choice.held[SETTING] !== undefined && choice.held[SETTING] !== "main" && <p class="foot">Setting {String(choice.held[SETTING])}: {given.paper.settings[String(choice.held[SETTING])]}; where it changes nothing, the main one holds.</p>}
      {found.length > MOST_LINES && <p class="message note">{found.length} lines are too many to tell apart: the first {MOST_LINES} are shown. Hold an axis, or choose another for the lines.</p>}
      {found.length === 0 ? <p class="message note" role="status">No run has this metric here.</p> : (
        <>
          {drawing}
          {chosen && curve ? <OnePoint of={of} chosen={chosen} curve={curve} table={table} given={given} unit={unit} /> : <p class="foot">Choose a point to see its seeds and to open the run behind it in Play.</p>}
          <Figures found={shown} axisLabel={axis ? `${axis.label}${axis.unit ? ` (${axis.unit})` : ""}` : ""} labelOf={labelOf} unit={unit} choose={setChosen} />
          <div class="row downloads">
            <button type="button" onClick={() => download(`${stem}.csv`, csv(found, choice, unit), "text/csv")}>Shown figures (CSV)</button>
            <button type="button" disabled={!table.parquet} onClick={() => download(table.file, new Blob([bytesOf(table.parquet)], { type: "application/vnd.apache.parquet" }))}>All runs (Parquet)</button>
            <button type="button" onClick={saveSvg}>Figure (SVG)</button>
            <button type="button" onClick={async () => copied.copy("Link", await link())}>Copy link</button>
            <button type="button" onClick={async () => copied.copy("Frame", frameOf(`${await link()}${opened && `&table=${encodeURIComponent(opened)}`}`, "figure"))}>Copy frame</button>
          </div>
          <Taken copied={copied} {...(opened && { more: `The file ${opened} is not included: put it beside the page on a web server, which the frame asks for it.` })} />
        </>
      )}
    </>
  );
}

function count(claims: Claim[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const claim of claims) counts.set(claim.verdict, (counts.get(claim.verdict) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

/** The figures of a paper that can be shown. */
function figuresOf(paper: PaperGiven, of: Explored): PaperFigure[] {
  return paper.figures.filter((figure) => metricsOf(figure, of, paper.claims).length > 0 || paper.claims.some((claim) => claim.figures.includes(figure.id)));
}

function Paper({ paper, of, given, table }: { paper: PaperGiven; of: Explored; given: ExploreGiven; table: TableGiven }) {
  const drawn = figuresOf(paper, of);
  const { chosen } = useStore("chosen");
  const at = Math.max(0, drawn.findIndex((one) => one.id === chosen["figure"]));
  const verdict = chosen["verdict"] ?? null;
  const setVerdict = (next: string | null) => choose("verdict", next);
  const figure = drawn[at] ?? null;
  const claims = figure ? paper.claims.filter((claim) => claim.figures.includes(figure.id)) : [];
  const listed = paper.claims.filter((claim) => claim.verdict === verdict);
  const go = (to: number) => {
    const { axes: _axes, verdict: _verdict, ...rest } = chosen;
    update({ chosen: { ...rest, figure: drawn[to]?.id ?? "" } });
  };
  return (
    <>
      <p class="tally" role="group" aria-label="Claims by verdict">
        {count(paper.claims).map(([name, number]) => (
          <button key={name} type="button" aria-pressed={verdict === name} onClick={() => setVerdict(verdict === name ? null : name)}>{number} <VerdictMark verdict={name} /></button>
        ))}
      </p>
      {verdict !== null ? (
        <section aria-labelledby="listed-title">
          <h2 id="listed-title">{listed.length} claims: {verdict}</h2>
          <Claims claims={listed} figures={drawn} go={(target) => go(drawn.indexOf(target))} />
        </section>
      ) : figure && (
        <>
          <div class="figurehead">
            <button type="button" disabled={at === 0} aria-label="Figure before" onClick={() => go(at - 1)}>‹</button>
            <label class="field inline"><span class="hidden">Figure</span>
              <select class="which" value={at} onChange={(event) => go(Number(event.currentTarget.value))}>
                {drawn.map((one, place) => <option key={one.id} value={place}>{one.figure}{one.title ? `: ${one.title}` : ""}</option>)}
              </select>
            </label>
            <button type="button" disabled={at === drawn.length - 1} aria-label="Next figure" onClick={() => go(at + 1)}>›</button>
          </div>
          {figure.note && <p class="foot">{figure.note}</p>}
          <div class="beside">
            <div class="picture">
              {metricsOf(figure, of, paper.claims).length === 0
                ? <p class="message note">Nothing was simulated for it: its claims follow from formulas.</p>
                : <TableView key={figure.id} of={of} table={table} given={given} figure={figure} />}
            </div>
            <section class="said" aria-labelledby="claims-title">
              <h2 id="claims-title">{claims.length === 0 ? "The paper claims nothing of it" : `Claims of the paper, with their verdicts`}</h2>
              <Claims claims={claims} figures={drawn} />
            </section>
          </div>
        </>
      )}
    </>
  );
}

/** The table that is chosen, and what was read of it. */
function useTable() {
  const { explore } = useStore("explore");
  const [study] = useChosen("study");
  const which = Math.min(Math.max(0, (Number(study ?? 1) || 1) - 1), Math.max(0, (explore?.tables.length ?? 1) - 1));
  const [of, setOf] = useState<Explored | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const table = explore?.tables[which] ?? null;

  useEffect(() => {
    setOf(null);
    setFailure(null);
    if (!table) return;
    let isOver = false;
    const read = async () => {
      try {
        const raw = await pool.table(bytesOf(table.parquet));
        const made = table.form === "series" ? ofSeries(raw, table.metrics, table.axes) : tidy(raw, table.axes.length + table.metrics.length > 0 ? { axes: table.axes, metrics: table.metrics } : null);
        if (made.rows.length === 0) throw new Error("it has no finished run");
        if (!isOver) setOf(made);
      } catch (error) {
        if (!isOver) setFailure(`${table.file} cannot be shown: ${messageOf(error)}`);
      }
    };
    void read();
    return () => { isOver = true; };
  }, [table]);
  return { explore, which, table, of, failure };
}

/** The figure alone, for a frame in another page. */
export function ExploredFigure() {
  const { explore, table, of, failure } = useTable();
  const { chosen, note } = useStore("chosen", "note");
  if (failure) return <pre class="message bad" role="alert">{failure}</pre>;
  if (note && !explore) return <p class="message note" role="status">{note}</p>;
  if (!explore || !table || !of) return null;
  const drawn = explore.paper ? figuresOf(explore.paper, of) : [];
  return <TableView of={of} table={table} given={explore} figure={drawn.find((one) => one.id === chosen["figure"]) ?? drawn[0] ?? null} isAlone />;
}

export function Explore() {
  const { broken, note } = useStore("broken", "note");
  const { explore, which, table, of, failure } = useTable();
  const setWhich = (next: number) => update({ chosen: Object.fromEntries(Object.entries({ ...get().chosen, study: String(next + 1) }).filter(([name]) => !["axes", "figure", "verdict"].includes(name))) });

  const about = table?.about;
  return (
    <main id="main" class="explore" tabIndex={-1}>
      <div class="head">
        <h2 class="name">{explore?.title ?? "Explore results"}</h2>
        {explore && explore.tables.length > 1 && (
          <label class="field inline"><span>Study</span>
            <select value={which} onChange={(event) => setWhich(Number(event.currentTarget.value))}>{explore.tables.map((one, place) => <option key={one.title} value={place}>{one.title}</option>)}</select>
          </label>
        )}
        {about && <span class="took">{about}</span>}
        <label class="file">Open a Parquet file<input type="file" accept=".parquet" onChange={(event) => { void openFiles(event.currentTarget.files); event.currentTarget.value = ""; }} /></label>
      </div>
      {broken && <p class="message bad" role="alert">{broken}</p>}
      {note && <p class="message note" role="status">{note}</p>}
      {failure && <pre class="message bad" role="alert">{failure}</pre>}
      {!explore && !failure && (
        <div class="empty">
          <p>Studies and reproduced papers are shown here: figures along any axis, with intervals, and the run behind each point.</p>
          <pre tabIndex={0}>{"lasthop view studies/per-sweep.toml\nlasthop view out/papers/000"}</pre>
          <p>open one together with its scenarios. The table of a study alone, <code>results.parquet</code>, or of a paper, <code>series.parquet</code>, can be opened above; it stays in this browser.</p>
        </div>
      )}
      {table && !of && !failure && <p class="took" role="status">Reading {table.file} …</p>}
      {explore && table && of && (explore.paper
        ? <Paper paper={explore.paper} of={of} given={explore} table={table} />
        : <TableView of={of} table={table} given={explore} figure={null} />)}
    </main>
  );
}
