// What the page shows and how it changes: the scenario, the senders, the seeds, and the runs made of them. Components
// read the state with `useStore` and call the functions below; nothing else starts a run.

import { useEffect, useRef, useState } from "preact/hooks";
import { Pace, stretchOf } from "../engine/pace";
import { Cancelled, EngineError, Pool } from "../engine/pool";
import ABOUT from "../../engine/about.json";
import type { About, Checked, Failure, Interruptions, Overrides, RunResult, Series, Source } from "../engine/types";
import type { ExploreGiven } from "../explore/given";
import { Keys } from "./controls";
import { clock } from "./clock";
import { greatest } from "./extent";
import { marksOf } from "./marks";
import { seenSpan, usualSpan } from "./span";
import { FIRST, READY } from "./ready";
import { Statistics } from "./stats";
import { toml } from "./toml";

export const AS_WRITTEN = "as written";
export const MOST_SENDERS = 6;
export const MOST_SEEDS = 50;

/** What `lasthop view` was asked to show. */
export interface Given {
  kind: "scenario" | "run" | "comparison";
  title: string;
  source: Source;
  senders?: string[];
  helpers?: string[];
  seeds?: number[];
  /** Fingerprints of the saved runs, by sender and seed. */
  fingerprints?: Record<string, Record<string, string>>;
}

export type View = "play" | "replay" | "explore" | "capture";

export interface State {
  view: View;
  explore: ExploreGiven | null;
  /** A file of real packets; `key` tells it from those before it. */
  /** `version`: how often it was read anew, since a run still writes it as long as it grows. */
  capture: Capture | null;
  /** The name of a file that the address speaks of and that is not open: no page may read files by itself. */
  wanted: string | null;
  about: About;
  keys: Keys;
  statistics: Statistics;
  /** The engine could not be loaded at all. */
  broken: string | null;
  ready: string | null;
  source: Source;
  /** What controls have changed since the scenario was loaded, for the command. */
  changed: Overrides;
  /** Whether the text was edited by hand. */
  edited: boolean;
  checked: Checked | null;
  failure: Failure | null;
  senders: string[];
  /** Helpers in the network that are compared; empty if the scenario's own stay as they are. */
  helpers: string[];
  seed: number;
  seeds: number;
  running: boolean;
  /** Share of the work done, 0 to 1. */
  done: number;
  results: Map<string, (RunResult | null)[]>;
  /** What the results were made of. */
  resultsOf: { checked: Checked; source: Source; variants: Variant[]; seed: number; seeds: number } | null;
  /** Series so far of runs of the first seed that go on. */
  partial: Map<string, { series: Series; seconds: number }>;
  took: number;
  runFailure: Failure | null;
  given: Given | null;
  note: string | null;
  /** The last runs were cancelled. */
  cancelled: boolean;
  /** Seeds that wait because runs take long, and about how long they would need. */
  held: { seeds: number; seconds: number } | null;
  /** Figures of the first seconds alone, from runs of no more than those, while the whole ones go on. */
  early: { seconds: number; results: Map<string, RunResult> } | null;
  /** When links are down and hosts change, in the run of the first seed with the first sender. */
  interruptions: Interruptions;
  /** What was chosen of how to look at it all, by the names that it has in the address: flow, link, span and so on. */
  chosen: Readonly<Record<string, string>>;
}

export interface Capture {
  name: string;
  blob: Blob;
  key: string;
  version: number;
  grows: boolean;
  /** Given by `lasthop view`, a file beside the page, or one that was opened. */
  where: "given" | "beside" | "opened";
}

export const NOTHING: Interruptions = { outages: [], handoffs: [] };

const first = READY.find((one) => one.id === FIRST) ?? READY[0];

const about = ABOUT as unknown as About;

let state: State = {
  view: "play", explore: null, capture: null, wanted: null,
  about, keys: new Keys(about.schema), statistics: new Statistics(about.student), broken: null,
  ready: first?.id ?? null,
  source: first?.source ?? { name: "scenario.toml", text: "", files: {} },
  changed: [], edited: false, checked: null, failure: null,
  senders: [AS_WRITTEN], helpers: [], seed: 1, seeds: 5, partial: new Map(), running: false, done: 0, results: new Map(), resultsOf: null, took: 0,
  runFailure: null, given: null, note: null, cancelled: false, held: null, early: null, interruptions: NOTHING, chosen: {},
};

const listeners = new Set<() => void>();
export const pool = new Pool();

export function get(): State {
  return state;
}

export function update(change: Partial<State>): void {
  state = { ...state, ...change };
  for (const listener of listeners) listener();
}

/** Calls `heard` after every change of the state. */
export function listen(heard: () => void): void {
  listeners.add(heard);
}

/** The state, for a component that is drawn anew when any of these parts of it changes; without names, whatever changes. */
export function useStore(...names: (keyof State)[]): State {
  const [, redraw] = useState(0);
  const drawn = useRef(state);
  drawn.current = state;
  useEffect(() => {
    const listener = () => {
      const isSame = names.length > 0 ? names.every((name) => drawn.current[name] === state[name]) : drawn.current === state;
      if (!isSame) redraw((count) => count + 1);
    };
    listeners.add(listener);
    // What changed before this listened would not be drawn.
    listener();
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** Chooses how to look at it; null goes back to what is usual. */
export function choose(name: string, value: string | null): void {
  if ((state.chosen[name] ?? null) === value) return;
  const { [name]: _, ...rest } = state.chosen;
  update({ chosen: value === null ? rest : { ...rest, [name]: value } });
}

/** What is chosen under a name, and how to choose it. */
export function useChosen(name: string): [string | null, (value: string | null) => void] {
  return [useStore("chosen").chosen[name] ?? null, (value) => choose(name, value)];
}

export const NO_HELPER = "none";

/** One of what is compared: a sender, and a helper if helpers are compared. */
export interface Variant {
  /** As in the results of the command: reno, reno+snoop. */
  key: string;
  sender: string;
  helper: string | null;
}

export function variantsOf({ senders, helpers }: Pick<State, "senders" | "helpers">): Variant[] {
  if (helpers.length === 0) return senders.map((sender) => ({ key: sender, sender, helper: null }));
  return senders.flatMap((sender) => helpers.map((helper) => ({ key: helper === NO_HELPER ? sender : `${sender}+${helper}`, sender, helper })));
}

/** The overrides of a variant: its sender for every flow that is not UDP, and its helpers, as `lasthop compare` does. */
export function overridesFor(checked: Checked, { sender, helper }: Variant): Overrides {
  const scenario = JSON.parse(checked.json) as { flows: { transport?: unknown }[]; helpers?: (string | { kind: string })[] };
  const ofFlows = scenario.flows.flatMap((flow, index): Overrides => (sender === AS_WRITTEN || flow.transport === "udp" ? [] : [[`flows.${index}.transport`, sender]]));
  if (helper === null) return ofFlows;
  // A helper that the scenario has itself keeps the keys that it has there.
  const own = (scenario.helpers ?? []).map((entry) => (typeof entry === "string" ? { kind: entry } : entry));
  const kinds = helper === NO_HELPER ? [] : helper.split("+");
  const entries = kinds.flatMap((kind) => {
    const found = own.filter((entry) => entry.kind === kind);
    return found.length > 0 ? found : [{ kind }];
  });
  return [...ofFlows, ["helpers", toml(entries)]];
}

/** What a variant is called in figures and tables. */
export function shownVariant({ sender, helper }: Variant, checked: Checked | null): string {
  const name = shownSender(sender, checked);
  return helper === null || helper === NO_HELPER ? name : `${name}+${helper}`;
}

/** The one sender of all flows that are not UDP, if there is one. */
export function writtenSender(checked: Checked): string | null {
  const names = new Set(checked.description.flows.map((flow) => flow.transport).filter((name) => name !== "udp"));
  const [only, ...rest] = names;
  return only && rest.length === 0 ? only : null;
}

/** What a sender is called in figures and tables. */
export function shownSender(sender: string, checked: Checked | null): string {
  if (sender !== AS_WRITTEN || !checked) return sender;
  return writtenSender(checked) ?? AS_WRITTEN;
}

/** If the first seeds take longer than this, in ms, the others wait: figures of one seed are better than none. */
const PATIENCE = 4000;
/** From this time on, in ms, they wait too if by its pace a run needs this many times as long. */
const EARLY = 700;
const SLOW = 1.5;
/** The pace of drawings of results while runs go on. */
const SHOW = 100;
const REST = 5;

/** Share of the part that is seen that a run must have reached to be shown. */
const LEAST_SEEN = 0.05;

let checks = 0;
let runs = 0;
/** Until a scenario is checked, and until one that has been checked is run. */
let checking: number | undefined;
let starting: number | undefined;

function failureOf(error: unknown): Failure {
  if (error instanceof EngineError) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "call", message, text: message };
}

/** What the engine said of the first scenario when the page was built: its run need not wait for that. */
const isFirst = (source: Source): boolean => source.text === first?.source.text && source.name === first.source.name && !source.json;

async function read(source: Source): Promise<Checked> {
  if (!isFirst(source)) return pool.check({ source, overrides: [] });
  await pool.speaks();
  return about.first.checked;
}

/** Checks the scenario and, if it holds, runs it. The run begins before what was read is drawn. */
async function checkAndRun(): Promise<void> {
  const number = ++checks;
  try {
    const checked = await read(state.source);
    if (number !== checks) return;
    update({ checked, failure: null });
    void run();
  } catch (error) {
    if (number === checks && !(error instanceof Cancelled)) update({ failure: failureOf(error) });
  }
}

/** Checks the scenario and, if it holds, runs it; the last of several calls in short order counts. */
export function refresh(delay = 200): void {
  window.clearTimeout(checking);
  window.clearTimeout(starting);
  checking = window.setTimeout(() => void checkAndRun(), delay);
}

/** Runs what has been checked; the last of several calls in short order counts, and a run that begins before it. */
function runSoon(delay: number): void {
  window.clearTimeout(starting);
  starting = window.setTimeout(() => void run(), delay);
}

function cancelRuns(): void {
  pool.cancel("run");
  pool.cancel("rest");
}

export function stop(): void {
  runs += 1;
  window.clearTimeout(starting);
  cancelRuns();
  update({ running: false, cancelled: true, early: null });
}

/** Runs every sender with every seed: the first seed of each sender first, for the curves. If those take long, the other
 * seeds wait until they are asked for; `isPatient` asks. */
export async function run(isPatient = false): Promise<void> {
  window.clearTimeout(starting);
  const { checked, source, seed, seeds } = state;
  if (!checked) return;
  const variants = variantsOf(state);
  const number = ++runs;
  if (state.running) cancelRuns();
  const known = isPatient && state.resultsOf?.checked === checked ? state.results : null;
  const results = new Map(variants.map(({ key }): [string, (RunResult | null)[]] => [key, Array.from({ length: seeds }, (_, index) => known?.get(key)?.[index] ?? null)]));
  const partial: State["partial"] = new Map();
  const of = { checked, source, variants, seed, seeds };
  const [leading] = variants;
  const isKnown = isFirst(source) && seed === 1 && leading?.key === AS_WRITTEN;
  update({ running: true, done: 0, runFailure: null, cancelled: false, held: null, early: null, partial, ...(isKnown && { interruptions: about.first.interruptions }) });
  if (leading && !isKnown) {
    pool.interruptions({ source, overrides: overridesFor(checked, leading), seed }).then(
      (interruptions) => number === runs && update({ interruptions }),
      // What cannot be run is said by the run itself.
      () => number === runs && update({ interruptions: NOTHING }),
    );
  }
  const started = performance.now();
  const progress = new Map<string, number>();
  const { duration_s } = checked.description;
  let told = 0;
  const tell = () => {
    const now = performance.now();
    if (number !== runs || now - told < 60) return;
    told = now;
    let total = 0;
    for (const share of progress.values()) total += share;
    update({ done: total / (variants.length * seeds) });
  };
  const pace = new Pace(SHOW, REST, 0);
  const show = (isLast: boolean) => {
    const now = performance.now();
    if (number !== runs || (!isLast && !pace.isDue(now))) return;
    pace.took(now, now);
    // What it took is known once it is drawn.
    requestAnimationFrame(() => window.setTimeout(() => {
      pace.took(now, performance.now());
      go();
    }));
    update({ results: new Map([...results].map(([key, list]) => [key, [...list]])), resultsOf: of, partial: new Map(partial) });
  };
  /** From when on a run has something in the part that is seen. */
  const begin = () => {
    const [from, to] = seenSpan(state.chosen["span"] ?? null, usualSpan(marksOf(checked.description, state.interruptions, -1), duration_s), duration_s) ?? [0, duration_s];
    return from + (to - from) * LEAST_SEEN;
  };
  // On two cores the page draws its first picture with one of them: the first run has the other to itself until then.
  let go: () => void = () => {};
  const ahead = new Promise<void>((resolve) => (go = resolve));
  const hasFirsts = () => variants.every((one) => results.get(one.key)?.[0]);
  const one = async (variant: Variant, index: number): Promise<void> => {
    const { key } = variant;
    const name = `${key} ${index}`;
    const job = { source, overrides: overridesFor(checked, variant), seed: seed + index, series: index === 0 };
    const result = await pool.run(job, index === 0 ? "run" : "rest", (seconds, series, own) => {
      progress.set(name, seconds / duration_s);
      const passed = performance.now() - started;
      // By its own pace a long run is known early; the others leave it the machine. Some begin later than the first, and
      // what they tell waits while the page draws.
      if (index === 0 && !isHeld && own > EARLY && own * duration_s > SLOW * PATIENCE * seconds) hold(own / seconds);
      if (series) {
        partial.set(key, { series, seconds });
        // What has not reached the part that is seen has no curve yet, and to draw its words would only put off the first.
        if (seconds >= begin() || passed > EARLY) show(false);
      } else tell();
    });
    const list = results.get(key);
    if (list) list[index] = result;
    if (index === 0) partial.delete(key);
    progress.set(name, 1);
    tell();
    // Curves appear as soon as those of all are there, if not before; figures follow seed by seed.
    show(index === 0 && hasFirsts());
  };
  let isHeld = false;
  const hold = (pace: number | null = null) => {
    if (isPatient || isHeld || number !== runs || hasFirsts()) return;
    isHeld = true;
    pool.cancel("rest");
    if (pace !== null && variants.length < pool.size) void foretaste(pace);
  };
  /** What the whole run says last, the first seconds of it say soon; they run where the other seeds would. */
  const foretaste = async (pace: number) => {
    const stretch = stretchOf(pace, checked.description);
    if (stretch === null) return;
    const duration: Overrides = [["duration", toml(`${stretch} s`)]];
    const jobs = variants.map(async (variant) => [variant.key, await pool.run({ source, overrides: [...overridesFor(checked, variant), ...duration], seed, series: false }, "run")] as const);
    // A scenario may need all of its time; then it has no such figures.
    const made = await Promise.all(jobs).catch(() => null);
    if (made && number === runs && !hasFirsts()) update({ early: { seconds: stretch, results: new Map(made) } });
  };
  const later = async (variant: Variant, index: number): Promise<void> => {
    await ahead;
    if (number !== runs || (isHeld && index > 0)) throw new Cancelled();
    await one(variant, index);
  };
  const isAlone = pool.size <= 2 && leading !== undefined && !results.get(leading.key)?.[0];
  if (isAlone) window.setTimeout(go, EARLY);
  else go();
  const jobs: Promise<void>[] = [];
  for (let index = 0; index < seeds; index += 1) {
    for (const variant of variants) {
      if (results.get(variant.key)?.[index]) progress.set(`${variant.key} ${index}`, 1);
      else if (isAlone && index === 0 && variant === leading) jobs.push(one(variant, index).finally(go));
      else jobs.push(later(variant, index));
    }
  }
  const patience = window.setTimeout(() => hold(), PATIENCE);
  const ended = await Promise.allSettled(jobs);
  window.clearTimeout(patience);
  partial.clear();
  if (number !== runs) {
    if (!state.running) update({ results, resultsOf: of, partial });
    return;
  }
  const failed = ended.find((one) => one.status === "rejected" && !(one.reason instanceof Cancelled));
  const left = [...results.values()].flat().filter((result) => result === null).length;
  const slowest = greatest([...results.values()].map((list) => list[0]?.took_ms ?? 0), 0);
  show(true);
  update({
    running: false, done: 1, took: performance.now() - started,
    early: null, held: isHeld && seeds > 1 && left > 0 ? { seeds: seeds - 1, seconds: (left * slowest) / 1000 / pool.size } : null,
    runFailure: failed?.status === "rejected" ? failureOf(failed.reason) : null,
  });
}

/** What stays chosen when another scenario is opened. */
const OF_THE_PAGE = ["theme", "tab"];

export function open(source: Source, ready: string | null, more: Partial<State> = {}): void {
  update({
    ready, source, changed: [], edited: false, senders: [AS_WRITTEN], helpers: [], seed: 1, checked: null, failure: null,
    results: new Map(), resultsOf: null, partial: new Map(), note: null, given: null, interruptions: NOTHING, held: null, early: null,
    chosen: Object.fromEntries(Object.entries(state.chosen).filter(([name]) => OF_THE_PAGE.includes(name))), ...more,
  });
  clock.reset();
  refresh(0);
}

export function openReady(id: string): void {
  const found = READY.find((one) => one.id === id);
  if (found) open(found.source, id, { senders: sendersOf(id) });
}

/** Whom a ready scenario opens with: the first thing to see is a comparison, which is what the page is for. */
export function sendersOf(id: string): string[] {
  return id === FIRST ? [AS_WRITTEN, "vegas", "cubic"] : [AS_WRITTEN];
}

/** The text was edited. */
export function edit(text: string): void {
  update({ source: { ...state.source, text }, edited: true });
  refresh(350);
}

let sets: Promise<unknown> = Promise.resolve();
const newest = new Map<string, number>();
let given = 0;

/** Changes the text at this place; `value` is TOML, and null takes the key out. What the engine refuses is not done, and
 * is the answer: it belongs where it was typed. */
export function setKey(path: string, value: string | null): Promise<Failure | null> {
  const number = ++given;
  newest.set(path, number);
  const done = sets.then(async (): Promise<Failure | null> => {
    // A slider moves faster than scenarios are read: only where it stands now counts.
    if (newest.get(path) !== number) return null;
    try {
      const text = await pool.set(state.source.text, path, value);
      const source = { ...state.source, text };
      const checked = await pool.check({ source, overrides: [] });
      const changed = state.changed.filter(([key]) => key !== path);
      if (value !== null) changed.push([path, value]);
      checks += 1;
      // What was to be checked has been, as part of this text.
      window.clearTimeout(checking);
      update({ source, changed, edited: state.edited || value === null, checked, failure: null });
      // The first figure comes at once; a slider that moves on waits until it rests.
      if (state.running) runSoon(120);
      else void run();
      return null;
    } catch (error) {
      return error instanceof Cancelled ? null : failureOf(error);
    }
  });
  sets = done;
  return done;
}

export function setSenders(senders: string[]): void {
  update({ senders });
  refresh(0);
}

export function setHelpers(helpers: string[]): void {
  update({ helpers });
  refresh(0);
}

export function setSeeds(seed: number, seeds: number): void {
  update({ seed, seeds: Math.min(MOST_SEEDS, Math.max(1, seeds)) });
  refresh(150);
}
