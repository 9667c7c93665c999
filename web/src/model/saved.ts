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

/** Longer names of senders and helpers are none. */
const LONGEST_NAME = 1000;
/** A scenario that is longer is no scenario; the engine takes less. */
const LONGEST_SCENARIO = 4 << 20;

const isTable = (value: unknown): value is Table => typeof value === "object" && value !== null && !Array.isArray(value);
const isName = (value: unknown): value is string => typeof value === "string" && value.length <= LONGEST_NAME;
const isRun = (value: unknown): value is Run => isTable(value) && typeof value["seed"] === "number" && typeof value["fingerprint"] === "string" && isName(value["transport"] ?? "");
const isNames = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isName));
/** What the engine takes, as far as a number of this page can say it. */
const isSeed = (seed: number): boolean => Number.isSafeInteger(seed) && seed >= 0;

/** What a text holds, if it is results. Throws for results that cannot be run again. */
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
  const wrong = runs.find(({ seed }) => !isSeed(seed));
  if (wrong) throw new Error(`it has a run of seed ${wrong.seed}, and seeds are whole numbers from 0 to ${Number.MAX_SAFE_INTEGER}`);
  if (Array.isArray(transports) && transports.length === 0) throw new Error("it compares no senders");
  return found as unknown as Saved;
}

/** What the page calls a run of these results: helpers alone are compared with the senders of the scenario. */
function keyOf({ transports, senders, helpers }: Saved, name: string | undefined): string {
  if (!transports || name === undefined) return AS_WRITTEN;
  if (!helpers || senders?.length) return name;
  return name === NO_HELPER ? AS_WRITTEN : `${AS_WRITTEN}+${name}`;
}

/** What the page shows of results; null if the text is none. Throws, with words, if they cannot be shown. */
export function savedOf(name: string, text: string): { source: Source; more: Partial<State> } | null {
  const saved = read(text);
  if (!saved) return null;
  const { scenario, runs, transports, senders, helpers } = saved;
  const isLive = runs.some(({ live }) => live !== undefined);
  // Names are those of the file, and one may be that of something that every object has.
  const fingerprints: NonNullable<Given["fingerprints"]> = Object.create(null);
  let [seed, last] = [Number.POSITIVE_INFINITY, 0];
  for (const run of runs) {
    [seed, last] = [Math.min(seed, run.seed), Math.max(last, run.seed)];
    if (run.live === undefined) (fingerprints[keyOf(saved, run.transport)] ??= {})[String(run.seed)] = run.fingerprint;
  }
  const title = isLive ? `Scenario of the live run in ${name}, simulated` : `${transports ? "Comparison" : "Run"} saved in ${name}`;
  const written = tomlOf(scenario);
  if (written.length > LONGEST_SCENARIO) throw new Error("its scenario is too large");
  const source: Source = { name: name.replace(/(\.results)?\.json$/i, ".toml"), text: written, files: filesOf(written) };
  const asked = helpers ? (senders?.length ? senders : [AS_WRITTEN]) : (transports ?? [AS_WRITTEN]);
  return {
    source,
    more: {
      given: { kind: transports ? "comparison" : "run", title, source, fingerprints },
      senders: asked.slice(0, MOST_SENDERS), helpers: (helpers ?? []).slice(0, MOST_SENDERS), seed, seeds: Math.min(MOST_SEEDS, last - seed + 1),
    },
  };
}
