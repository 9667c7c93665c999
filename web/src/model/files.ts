// Files that are opened or dropped: captures, logs of stacks, tables of studies, scenarios and the files that scenarios
// name.

import { ofParquet } from "../explore/alone";
import { savedOf } from "./saved";
import { choose, get, open, update, type Capture } from "./store";

/** What the engine reads at most, and a little more, so that the engine itself can say so. */
const MOST_FILE = 16 << 20;
/** Results have a record for each run, and in it for each flow and link. */
const MOST_RESULTS = 256 << 20;
/** How the names of captures end. */
export const CAPTURES = [".pcap", ".pcapng", ".cap", ".qlog", ".sqlog"];
const IS_JSON = /\.json$/i;
/** Files in which a stack logged its connection. */
export const IS_QLOG = /\.s?qlog$/i;
/** How captures begin: pcapng; pcap with either order of bytes and either unit of time. */
const MAGIC = ["0a0d0d0a", "d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d"];

let opened = 0;

/** What was opened before, by name: the way back leads to it. */
const before = new Map<string, Capture>();

/** The file of this name, if it was opened since the page was loaded. */
export function openedBefore(name: string): Capture | null {
  return before.get(name) ?? null;
}

/** Shows a capture; what is wrong with it the engine says. What was chosen for the file that the address names stays. */
export function openCapture(name: string, blob: Blob): void {
  if (get().wanted !== name) for (const one of ["connection", "interface", "span", "trace"]) choose(one, null);
  const capture: Capture = { name, blob, key: `${(opened += 1)}`, version: 0, grows: false, where: "opened" };
  before.set(name, capture);
  update({ capture, wanted: null, view: "capture" });
}

async function isCapture(file: File): Promise<boolean> {
  if (CAPTURES.some((one) => file.name.toLowerCase().endsWith(one))) return true;
  const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  return MAGIC.includes([...head].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
}

/** Shows the table of a study; what is chosen of another is no choice of this one. */
export async function openTable(file: File): Promise<void> {
  try {
    const explore = await ofParquet(file.name, file, "opened");
    for (const one of ["study", "axes", "figure", "verdict"]) choose(one, null);
    update({ explore, view: "explore", note: null });
  } catch (error) {
    update({ view: "explore", note: error instanceof Error ? error.message : String(error) });
  }
}

/** Opens what was chosen or dropped, or says why it cannot be opened. */
export async function openFiles(files: FileList | null): Promise<void> {
  const list = [...(files ?? [])];
  try {
    await openAll(list);
  } catch (error) {
    const names = list.map(({ name }) => name).join(", ");
    update({ view: "play", note: `${names} cannot be opened: ${error instanceof Error ? error.message : String(error)}.` });
  }
}

/** The results in a file, if it is that. */
async function resultsOf(file: File): Promise<ReturnType<typeof savedOf>> {
  return IS_JSON.test(file.name) && file.size <= MOST_RESULTS ? savedOf(file.name, await file.text()) : null;
}

/** The first capture or table, or else a scenario with its files, or results. */
async function openAll(list: File[]): Promise<void> {
  for (const file of list) {
    if (await isCapture(file)) {
      openCapture(file.name, file);
      return;
    }
  }
  if (list.length === 0) return;
  const table = list.find(({ name }) => /\.parquet$/i.test(name));
  if (table) return openTable(table);
  const chosen = list.find(({ name }) => /\.(toml|json)$/i.test(name));
  const saved = chosen ? await resultsOf(chosen) : null;
  // What is no results is less: all of it comes into the editor.
  const textOf = (file: File): Promise<string> => file.slice(0, MOST_FILE).text();
  const inputs: Record<string, string> = {};
  for (const file of list) if (file.name !== chosen?.name) inputs[file.name] = await textOf(file);
  const text = chosen && !saved ? await textOf(chosen) : "";
  const state = get();
  const more = { view: "play" as const };
  if (saved) {
    open({ ...saved.source, files: { ...saved.source.files, ...inputs } }, null, { ...more, ...saved.more });
  } else if (chosen) {
    open({ name: chosen.name, text, json: IS_JSON.test(chosen.name), files: { ...state.source.files, ...inputs } }, null, more);
  } else {
    open({ ...state.source, files: { ...state.source.files, ...inputs } }, state.ready, { ...more, senders: state.senders, helpers: state.helpers });
  }
  choose("tab", null);
  const strange = Object.keys(inputs).filter((name) => !get().source.text.includes(name));
  if (strange.length > 0) {
    update({ note: `${strange.join(", ")}: the scenario does not name ${strange.length > 1 ? "them" : "it"}. Opened are scenarios (.toml, .json) with the files that they name, results (.json), captures (.pcap, .pcapng), logs of stacks (.qlog, .sqlog) and tables of studies (.parquet).` });
  }
}
