// What the page shows and how it changes: the scenario, the senders, the seeds, and the runs made of them. Components
// read the state with `useStore` and call the functions below; nothing else starts a run.

import { useEffect, useState } from "preact/hooks";
import { Cancelled, EngineError, Pool } from "../engine/pool";
import type { About, Checked, Failure, Overrides, RunResult, Source } from "../engine/types";
import type { ExploreGiven } from "../explore/given";
import { Keys } from "./controls";
import { FIRST, READY } from "./ready";
import { pack, unpack, type Shared } from "./share";
import { Statistics } from "./stats";

export const AS_WRITTEN = "as written";
export const MOST_SENDERS = 6;
export const MOST_SEEDS = 50;

/** What `lasthop view` was asked to show. */
export interface Given {
  kind: "scenario" | "run" | "comparison";
  title: string;
  source: Source;
  senders?: string[];
  seeds?: number[];
  /** Fingerprints of the saved runs, by sender and seed. */
  fingerprints?: Record<string, Record<string, string>>;
}

export type View = "play" | "replay" | "explore";

export interface State {
  view: View;
  explore: ExploreGiven | null;
  about: About | null;
  keys: Keys | null;
  statistics: Statistics | null;
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
  seed: number;
  seeds: number;
  running: boolean;
  /** Share of the work done, 0 to 1. */
  done: number;
  results: Map<string, (RunResult | null)[]>;
  /** What the results were made of. */
  resultsOf: { checked: Checked; senders: string[]; seed: number; seeds: number } | null;
  took: number;
  runFailure: Failure | null;
  given: Given | null;
  note: string | null;
  /** The last runs were cancelled. */
  cancelled: boolean;
}

const first = READY.find((one) => one.id === FIRST) ?? READY[0];

let state: State = {
  view: "play", explore: null,
  about: null, keys: null, statistics: null, broken: null,
  ready: first?.id ?? null,
  source: first?.source ?? { name: "scenario.toml", text: "", files: {} },
  changed: [], edited: false, checked: null, failure: null,
  senders: [AS_WRITTEN], seed: 1, seeds: 5, running: false, done: 0, results: new Map(), resultsOf: null, took: 0,
  runFailure: null, given: null, note: null, cancelled: false,
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

export function useStore(): State {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** The overrides that give every flow that is not UDP the sender, as `lasthop compare` does. */
export function overridesFor(checked: Checked, sender: string): Overrides {
  if (sender === AS_WRITTEN) return [];
  const flows = (JSON.parse(checked.json) as { flows: { transport?: unknown }[] }).flows;
  return flows.flatMap((flow, index): Overrides => (flow.transport === "udp" ? [] : [[`flows.${index}.transport`, sender]]));
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

let checks = 0;
let runs = 0;
let timer: number | undefined;

function failureOf(error: unknown): Failure {
  if (error instanceof EngineError) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "call", message, text: message };
}

async function check(): Promise<boolean> {
  const number = ++checks;
  try {
    const checked = await pool.check({ source: state.source, overrides: [] });
    if (number !== checks) return false;
    update({ checked, failure: null });
    return true;
  } catch (error) {
    if (number === checks && !(error instanceof Cancelled)) update({ failure: failureOf(error) });
    return false;
  }
}

/** Checks the scenario and, if it holds, runs it; the last of several calls in short order counts. */
export function refresh(delay = 200): void {
  window.clearTimeout(timer);
  timer = window.setTimeout(async () => {
    if (await check()) void run();
  }, delay);
}

export function stop(): void {
  runs += 1;
  pool.cancel("run");
  update({ running: false, cancelled: true });
}

/** Runs every sender with every seed: the first seed of each sender first, for the curves. */
export async function run(): Promise<void> {
  const { checked, source, senders, seed, seeds } = state;
  if (!checked) return;
  const number = ++runs;
  if (state.running) pool.cancel("run");
  const results = new Map<string, (RunResult | null)[]>(senders.map((sender) => [sender, Array.from({ length: seeds }, () => null)]));
  update({ running: true, done: 0, runFailure: null, cancelled: false });
  const started = performance.now();
  const progress = new Map<string, number>();
  const { duration_s } = checked.description;
  let shown = 0;
  const tell = () => {
    const now = performance.now();
    if (number !== runs || now - shown < 60) return;
    shown = now;
    let total = 0;
    for (const share of progress.values()) total += share;
    update({ done: total / (senders.length * seeds) });
  };
  let isFirst = true;
  const show = () => {
    if (number !== runs) return;
    update({ results: new Map(results), resultsOf: { checked, senders, seed, seeds } });
    isFirst = false;
  };
  const jobs: Promise<void>[] = [];
  for (let index = 0; index < seeds; index += 1) {
    for (const sender of senders) {
      const name = `${sender} ${index}`;
      const job = { source, overrides: overridesFor(checked, sender), seed: seed + index, series: index === 0 };
      const made = pool.run(job, (seconds) => {
        progress.set(name, seconds / duration_s);
        tell();
      });
      jobs.push(
        made.then((result) => {
          const list = results.get(sender);
          if (list) list[index] = result;
          progress.set(name, 1);
          tell();
          // Curves appear as soon as those of all senders are there; figures follow seed by seed.
          if (index === 0 && (isFirst || senders.every((one) => results.get(one)?.[0]))) show();
        }),
      );
    }
  }
  const ended = await Promise.allSettled(jobs);
  if (number !== runs) {
    if (!state.running) show();
    return;
  }
  const failed = ended.find((one) => one.status === "rejected" && !(one.reason instanceof Cancelled));
  show();
  update({
    running: false, done: 1, took: performance.now() - started,
    runFailure: failed?.status === "rejected" ? failureOf(failed.reason) : null,
  });
}

export function open(source: Source, ready: string | null, more: Partial<State> = {}): void {
  update({
    ready, source, changed: [], edited: false, senders: [AS_WRITTEN], seed: 1, checked: null, failure: null,
    results: new Map(), resultsOf: null, note: null, given: null, ...more,
  });
  refresh(0);
}

export function openReady(id: string): void {
  const found = READY.find((one) => one.id === id);
  if (found) open(found.source, id);
}

/** The text was edited. */
export function edit(text: string): void {
  update({ source: { ...state.source, text }, edited: true });
  refresh(350);
}

let sets: Promise<void> = Promise.resolve();

/** A control was moved: changes the text at this place. `value` is TOML; null takes the key out. */
export function setKey(path: string, value: string | null): void {
  sets = sets.then(async () => {
    try {
      const text = await pool.set(state.source.text, path, value);
      const changed = state.changed.filter(([key]) => key !== path);
      if (value !== null) changed.push([path, value]);
      update({ source: { ...state.source, text }, changed, edited: state.edited || value === null });
      refresh(120);
    } catch (error) {
      update({ failure: failureOf(error) });
    }
  });
}

export function setSenders(senders: string[]): void {
  update({ senders });
  refresh(0);
}

export function setSeeds(seed: number, seeds: number): void {
  update({ seed, seeds: Math.min(MOST_SEEDS, Math.max(1, seeds)) });
  refresh(150);
}

export function shared(): Shared {
  const { source, ready, edited, changed, senders, seeds, seed } = state;
  const common = { senders, seeds, seed };
  if (ready && !edited && changed.length === 0) return { ready, ...common };
  return { name: source.name, text: source.text, files: source.files, ...common };
}

export async function link(): Promise<string> {
  return `${location.href.split("#")[0]}#${await pack(shared())}`;
}

async function openShared(): Promise<boolean> {
  try {
    const found = await unpack(location.hash);
    if (!found) return false;
    const more: Partial<State> = { senders: found.senders?.length ? found.senders : [AS_WRITTEN], seeds: found.seeds ?? 5, seed: found.seed ?? 1 };
    const ready = READY.find((one) => one.id === found.ready);
    if (ready) open(ready.source, ready.id, more);
    else if (found.text !== undefined) open({ name: found.name ?? "shared.toml", text: found.text, files: found.files ?? {} }, null, more);
    else return false;
    return true;
  } catch {
    update({ note: "The link is damaged: it does not hold a scenario. The first ready scenario is shown instead." });
    return false;
  }
}

function openGiven(): boolean {
  const text = document.getElementById("lasthop-given")?.textContent;
  if (!text) return false;
  const found = JSON.parse(text) as Given | ExploreGiven;
  if (found.kind === "explore") {
    update({ explore: found, view: "explore" });
    return false;
  }
  const given = found;
  const seeds = given.seeds ?? [];
  open(given.source, null, {
    given,
    senders: given.senders?.length ? given.senders.slice(0, MOST_SENDERS) : [AS_WRITTEN],
    seed: seeds[0] ?? 1,
    seeds: Math.min(MOST_SEEDS, Math.max(1, seeds.length || 5)),
  });
  return true;
}

export async function start(): Promise<void> {
  window.addEventListener("hashchange", () => void openShared());
  try {
    const about = await pool.about();
    update({ about, keys: new Keys(about.schema), statistics: new Statistics(about.student) });
  } catch (error) {
    update({ broken: failureOf(error).message });
    return;
  }
  if (await openShared()) return;
  if (openGiven()) return;
  // The first thing to see is a comparison: what the page is for.
  if (state.ready) open(state.source, state.ready, { senders: [AS_WRITTEN, "vegas", "cubic"], note: state.note });
}
