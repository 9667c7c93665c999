// Results that the command or the page has written as JSON: the scenario that was run, with what, and the fingerprints of
// its runs. They open as `lasthop view` opens saved runs (`_of_folder` in view.py).

import type { Source } from "../engine/types";
import { filesOf } from "./ready";
import { AS_WRITTEN, MOST_SEEDS, MOST_SENDERS, NO_HELPER, type Given, type State } from "./store";
import { tomlOf, type Table } from "./toml";

/** A record of `runs` as far as it is read here. */
interface Run {
  transport?: string;
  seed: number;
  fingerprint: string;
  /** Of real packets, which cannot be met again. */
  live?: unknown;
}

interface Saved {
  scenario: Table;
  runs: Run[];
  transports?: string[];
  senders?: string[];
  helpers?: string[];
}

const isTable = (value: unknown): value is Table => typeof value === "object" && value !== null && !Array.isArray(value);
const isRun = (value: unknown): value is Run => isTable(value) && typeof value["seed"] === "number" && typeof value["fingerprint"] === "string";
const isNames = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every((one) => typeof one === "string"));

/** What a text holds, if it is results. */
function read(text: string): Saved | null {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isTable(found) || !isTable(found["scenario"])) return null;
  const { runs, transports, senders, helpers } = found;
  if (!Array.isArray(runs) || runs.length === 0 || !runs.every(isRun) || ![transports, senders, helpers].every(isNames)) return null;
  return found as unknown as Saved;
}

/** What the page calls a run of these results: helpers alone are compared with the senders of the scenario. */
function keyOf({ transports, senders, helpers }: Saved, name: string | undefined): string {
  if (!transports || name === undefined) return AS_WRITTEN;
  if (!helpers || senders?.length) return name;
  return name === NO_HELPER ? AS_WRITTEN : `${AS_WRITTEN}+${name}`;
}

/** What the page shows of results; null if the text is none. */
export function savedOf(name: string, text: string): { source: Source; more: Partial<State> } | null {
  const saved = read(text);
  if (!saved) return null;
  const { scenario, runs, transports, senders, helpers } = saved;
  const isLive = runs.some(({ live }) => live !== undefined);
  const fingerprints: NonNullable<Given["fingerprints"]> = {};
  for (const run of runs.filter(({ live }) => live === undefined)) {
    const key = keyOf(saved, run.transport);
    fingerprints[key] = { ...fingerprints[key], [String(run.seed)]: run.fingerprint };
  }
  const title = isLive ? `Scenario of the live run in ${name}, simulated` : `${transports ? "Comparison" : "Run"} saved in ${name}`;
  const written = tomlOf(scenario);
  const source: Source = { name: name.replace(/(\.results)?\.json$/i, ".toml"), text: written, files: filesOf(written) };
  const seeds = runs.map(({ seed }) => seed);
  const [seed, last] = [Math.min(...seeds), Math.max(...seeds)];
  const asked = helpers ? (senders?.length ? senders : [AS_WRITTEN]) : (transports ?? [AS_WRITTEN]);
  return {
    source,
    more: {
      given: { kind: transports ? "comparison" : "run", title, source, fingerprints },
      senders: asked.slice(0, MOST_SENDERS), helpers: (helpers ?? []).slice(0, MOST_SENDERS), seed, seeds: Math.min(MOST_SEEDS, last - seed + 1),
    },
  };
}
