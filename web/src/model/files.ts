// Files that are opened or dropped: captures, logs of stacks, scenarios and the files that scenarios name.

import { choose, get, open, update, type Capture } from "./store";

/** What the engine reads at most, and a little more, so that the engine itself can say so. */
const MOST_FILE = 16 << 20;
/** How the names of captures end. */
export const CAPTURES = [".pcap", ".pcapng", ".cap", ".qlog", ".sqlog"];
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

/** Opens what was chosen or dropped: the first capture, or else a scenario with its files. */
export async function openFiles(files: FileList | null): Promise<void> {
  const list = [...(files ?? [])];
  for (const file of list) {
    if (await isCapture(file)) {
      openCapture(file.name, file);
      return;
    }
  }
  if (list.length === 0) return;
  const texts = new Map<string, string>();
  for (const file of list) texts.set(file.name, await file.slice(0, MOST_FILE).text());
  const state = get();
  const scenario = [...texts.keys()].find((name) => /\.(toml|json)$/i.test(name));
  const inputs = Object.fromEntries([...texts].filter(([name]) => name !== scenario));
  const more = { view: "play" as const };
  if (scenario) {
    open({ name: scenario, text: texts.get(scenario) ?? "", json: /\.json$/i.test(scenario), files: { ...state.source.files, ...inputs } }, null, more);
  } else {
    open({ ...state.source, files: { ...state.source.files, ...inputs } }, state.ready, { ...more, senders: state.senders, helpers: state.helpers });
  }
  choose("tab", null);
}
