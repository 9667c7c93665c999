// The address of what the page shows: all that was chosen stands in the fragment, so that reloading, going back and
// sending the link to somebody lead to the same. A ready scenario is named, with the values that were set in it; a
// scenario of the user's own is packed into it. None of it is ever sent to a server.

import { ofParquet } from "../explore/alone";
import type { ExploreGiven } from "../explore/given";
import { clock } from "./clock";
import { READY } from "./ready";
import { pack, unpack, type Shared } from "./share";
import { CAPTURES, openedBefore } from "./files";
import { AS_WRITTEN, MOST_SEEDS, MOST_SENDERS, get, listen, open, pool, refresh, sendersOf, update, type Capture, type Given, type State, type View } from "./store";

/** Between a change and the address that says it, in ms: browsers allow 100 changes in 30 s. */
const DELAY = 400;
/** A longer text stays out of the address bar; the link that is copied has it all the same. */
const LONGEST = 100_000;
const VIEWS: View[] = ["play", "replay", "explore", "capture"];
/** A change of one of these is a step that the browser goes back. */
const STEPS = ["scenario", "s", "view", "senders", "helpers", "figure", "panel", "file", "capture", "table", "connection", "law"];

/** Names of the fragment that are not `chosen`. */
const OWN = ["scenario", "s", "set", "senders", "helpers", "seeds", "view", "at", "file", "capture", "table"];
/** Captures and tables that a link may load: those in the page's own folder or below it. */
const BELOW = /^[\w-][\w .-]*(?:\/[\w-][\w .-]*)*$/;

/** The panel that the address asks for; null for the whole page. */
export function panelAsked(): string | null {
  return new URLSearchParams(location.search).get("panel") || null;
}

/** Whether the address names a file, or `lasthop view` gave one. */
export function namesFile(): boolean {
  return !!document.getElementById("lasthop-given")?.textContent || ["capture", "file", "table"].some((name) => new URLSearchParams(location.hash.slice(1)).has(name));
}

function sameList(mine: string[], theirs: string[]): boolean {
  return mine.length === theirs.length && mine.every((one, place) => one === theirs[place]);
}

/** What the page began with, which need not be said. */
let began: { text: string; ready: string | null; senders: string[]; helpers: string[]; seed: number; seeds: number; view: View } | null = null;

function range(seed: number, seeds: number): string {
  return seeds === 1 ? String(seed) : `${seed}-${seed + seeds - 1}`;
}

/** The fragment of what is shown now; `whole` names also what the page of `lasthop view` began with. */
async function fragment(state: State, whole: boolean): Promise<string> {
  const { source, ready, edited, changed, senders, helpers, seed, seeds, view, chosen, capture, wanted, explore } = state;
  const said = new URLSearchParams();
  const same = !whole && began !== null && began.text === source.text && began.ready === ready;
  if (!same && ready !== null && !edited) {
    said.set("scenario", ready);
    for (const [path, value] of changed) said.append("set", `${path}=${value}`);
  } else if (!same) {
    const packed = await pack({ name: source.name, text: source.text, files: source.files, ...(source.json ? { json: true } : {}) });
    said.set("s", packed.slice(2));
  }
  const usual = same && began ? began : { senders: ready === null ? [AS_WRITTEN] : sendersOf(ready), helpers: [], seed: 1, seeds: 5, view: "play" };
  if (!sameList(senders, usual.senders)) said.set("senders", senders.join(","));
  if (!sameList(helpers, usual.helpers)) said.set("helpers", helpers.join(","));
  if (seed !== usual.seed || seeds !== usual.seeds) said.set("seeds", range(seed, seeds));
  if (view !== usual.view) said.set("view", view);
  const file = capture?.where === "opened" ? capture.name : wanted;
  if (view === "capture" && capture?.where === "beside") said.set("capture", capture.name);
  else if (view === "capture" && file !== null) said.set("file", file);
  // The name of an opened file is asked of no server.
  if (view === "explore" && explore?.alone?.where === "beside") said.set("table", explore.alone.name);
  if (clock.isSet && view !== "explore") said.set("at", String(Number(clock.seconds.toFixed(6))));
  for (const [name, value] of Object.entries(chosen)) said.set(name, value);
  return said.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** A link that shows elsewhere what is shown here. */
export async function link(): Promise<string> {
  return `${location.href.split("#")[0]}#${await fragment(get(), true)}`;
}

/** What to say of a link: whether it leads somewhere for others too. */
export function reachOf(address: string): string {
  const { protocol, hostname, hash } = new URL(address);
  const file = new URLSearchParams(hash.slice(1)).get("file");
  if (file !== null) return `The file ${file} is not included: the page asks for it. On a web server, put it beside the page and write capture= for file= in the link.`;
  if (protocol === "file:") return "This link opens this file on this computer. What follows # opens in every lasthop page.";
  if (["127.0.0.1", "localhost", "[::1]"].includes(hostname)) {
    return "This link works on this computer while lasthop view runs. For others, put the folder that make page builds on a web server: what follows # opens there as well.";
  }
  return "";
}

let writing = 0;
let written = "";

async function write(): Promise<void> {
  const number = ++writing;
  // A panel in a frame says all: its link leads to the whole page, whatever that begins with.
  const now = await fragment(get(), panelAsked() !== null);
  if (number !== writing || now === written || now.length > LONGEST) return;
  const [before, after] = [new URLSearchParams(written), new URLSearchParams(now)];
  const isStep = STEPS.some((name) => before.get(name) !== after.get(name)) && !(before.has("s") && after.has("s") && before.get("view") === after.get("view"));
  written = now;
  const address = now === "" ? location.href.split("#")[0] : `#${now}`;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

let show: () => Promise<void> = async () => {};

/** Goes to what a fragment says, as a link would; the browser's way back leads to what was shown before. */
export function goTo(fragment: string): void {
  history.pushState(null, "", `#${fragment}`);
  void show();
}

/** Seeds as in `--seeds`: 3 or 1-5. */
function seedsOf(text: string | null): { seed: number; seeds: number } | null {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text ?? "");
  if (!found) return null;
  const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
  if (!Number.isSafeInteger(first)) return null;
  return { seed: first, seeds: Math.min(MOST_SEEDS, Math.max(1, last - first + 1)) };
}

const listOf = (text: string | null): string[] => (text ?? "").split(",").filter(Boolean).slice(0, MOST_SENDERS);

/** What a fragment of ours says beside the scenario. */
function restOf(said: URLSearchParams, usual: { senders: string[]; helpers: string[]; seed: number; seeds: number; view: View }): Partial<State> {
  const chosen = Object.fromEntries([...said].filter(([name, value]) => !OWN.includes(name) && value.length < 2000));
  const view = VIEWS.find((one) => one === said.get("view")) ?? usual.view;
  const { seed, seeds } = seedsOf(said.get("seeds")) ?? usual;
  return {
    chosen, view, seed, seeds,
    senders: said.has("senders") ? listOf(said.get("senders")) : usual.senders,
    helpers: said.has("helpers") ? listOf(said.get("helpers")) : usual.helpers,
  };
}

/** The text of a ready scenario with values set in it. */
async function withValues(text: string, sets: string[]): Promise<{ text: string; changed: [string, string][] }> {
  const changed: [string, string][] = [];
  let made = text;
  for (const one of sets) {
    const [path, ...value] = one.split("=");
    if (!path) continue;
    made = await pool.set(made, path, value.join("="));
    changed.push([path, value.join("=")]);
  }
  return { text: made, changed };
}

/** Links that were copied before hold all of it packed. */
function ofPacked(found: Shared): URLSearchParams {
  const said = new URLSearchParams();
  if (found.ready) said.set("scenario", found.ready);
  if (found.senders?.length) said.set("senders", found.senders.join(","));
  if (found.helpers?.length) said.set("helpers", found.helpers.join(","));
  if (found.seed !== undefined || found.seeds !== undefined) said.set("seeds", range(found.seed ?? 1, found.seeds ?? 5));
  return said;
}

/** Shows what the fragment says; false if it says nothing of what to show. */
async function read(): Promise<boolean> {
  const now = location.hash.replace(/^#/, "");
  if (now === written && now !== "") return true;
  written = now;
  const said = new URLSearchParams(now);
  try {
    const packed = said.has("s") ? await unpack(`s=${said.get("s")}`) : null;
    if (packed) for (const [name, value] of ofPacked(packed)) if (!said.has(name)) said.set(name, value);
    const ready = READY.find((one) => one.id === said.get("scenario"));
    if (said.has("scenario") && !ready) throw new Error(`there is no scenario ${said.get("scenario")}`);
    const usual = { senders: ready ? sendersOf(ready.id) : [AS_WRITTEN], helpers: [], seed: 1, seeds: 5, view: "play" as View };
    if (ready) {
      const { text, changed } = await withValues(ready.source.text, said.getAll("set"));
      take({ ...ready.source, text }, ready.id, { ...restOf(said, usual), changed });
    } else if (packed?.text !== undefined) {
      take({ name: packed.name ?? "shared.toml", text: packed.text, files: packed.files ?? {}, ...(packed.json ? { json: true } : {}) }, null, restOf(said, usual));
    } else {
      return false;
    }
    setClock(said);
    return true;
  } catch {
    update({ note: "The link is damaged: it does not hold a scenario. The first ready scenario is shown instead." });
    return false;
  }
}

/** Opens it, or changes what is chosen if it is open already. */
function take(source: State["source"], ready: string | null, more: Partial<State>): void {
  const before = get();
  if (before.source.text !== source.text || before.ready !== ready || before.checked === null) {
    open(source, ready, more);
    return;
  }
  update(more);
  const after = get();
  const isOther = !sameList(before.senders, after.senders) || !sameList(before.helpers, after.helpers) || before.seed !== after.seed || before.seeds !== after.seeds;
  if (isOther) refresh(0);
}

function setClock(said: URLSearchParams): void {
  const at = Number(said.get("at") ?? Number.NaN);
  if (Number.isFinite(at)) clock.set(Math.max(0, at));
}

/** A capture: beside the page, or in it. */
interface CaptureGiven {
  kind: "capture";
  name: string;
  file?: string;
  /** In base64. */
  bytes?: string;
}

/** A capture that grows is fetched again after this time, in milliseconds, and one more for each 30 kB of it. */
const AGAIN = 1000;
const BYTES_A_MS = 30_000;
/** The header of a capture that a run still writes (`lasthop emulate --watch`). */
const GROWS = "Lasthop-Growing";
const GIVEN = "given";

/** What `lasthop view` gave, to which the way back leads. */
let givenCapture: Capture | null = null;

/** Shows what was given, unless another file was opened or is asked for meanwhile. */
function takeGiven(capture: Capture): void {
  givenCapture = capture;
  const { capture: shown, wanted } = get();
  if (wanted === null && (shown === null || shown.where === "given")) update({ capture });
}

async function openGiven({ name, file, bytes }: CaptureGiven): Promise<void> {
  if (file === undefined) {
    const blob = new Blob([Uint8Array.from(atob(bytes ?? ""), (letter) => letter.charCodeAt(0))]);
    takeGiven({ name, blob, key: GIVEN, version: 0, grows: false, where: "given" });
    return;
  }
  for (let version = 0; ; version += 1) {
    const answer = await fetch(`./${file}`).catch(() => null);
    const grows = answer?.headers.has(GROWS) ?? false;
    const blob = answer?.ok ? await answer.blob().catch(() => null) : null;
    // Another file was opened meanwhile.
    if (get().capture && get().capture?.where !== "given") return;
    if (blob || (grows && !givenCapture)) {
      takeGiven({ name, blob: blob ?? new Blob(), key: GIVEN, version, grows, where: "given" });
    } else if (!grows) {
      if (givenCapture) takeGiven({ ...givenCapture, version, grows });
      else update({ note: `The capture ${name} cannot be loaded: lasthop has ended, or the file is gone. Start it again, or open the file here.` });
    }
    if (!grows) return;
    await new Promise((resolve) => window.setTimeout(resolve, AGAIN + (blob?.size ?? 0) / BYTES_A_MS));
  }
}

/** A file that stands beside the page on its web server, as a frame in a paper shows one; null if there is none, which is
 * said. */
async function besideOf(what: string, name: string, endings: string[]): Promise<Blob | null> {
  const isBelow = BELOW.test(name) && endings.some((one) => name.toLowerCase().endsWith(one));
  const answer = isBelow ? await fetch(name.split("/").map(encodeURIComponent).join("/")).catch(() => null) : null;
  const blob = answer?.ok ? await answer.blob().catch(() => null) : null;
  const listed = [endings.slice(0, -1).join(", "), endings.at(-1)].filter(Boolean).join(" or ");
  if (!blob) update({ note: isBelow ? `The ${what} ${name} cannot be loaded: it is not beside the page.` : `The link names the ${what} ${name}: it may name one in the folder of the page, or below it, that ends in ${listed}.` });
  return blob;
}

async function openBeside(name: string): Promise<void> {
  const blob = await besideOf("capture", name, CAPTURES);
  if (blob) update({ capture: { name, blob, key: `beside ${name}`, version: 0, grows: false, where: "beside" }, wanted: null });
}

/** What `lasthop view` gave to explore, to which the way back leads. */
let givenExplore: ExploreGiven | null = null;

/** Shows the table of which a fragment speaks. */
async function showTable(said: URLSearchParams): Promise<void> {
  const { explore, view } = get();
  const name = said.get("table");
  if (name === null) {
    if (view === "explore" && explore?.alone?.where === "beside") update({ explore: givenExplore });
    return;
  }
  if (explore?.alone?.name === name) return;
  const blob = await besideOf("table", name, [".parquet"]);
  if (!blob) return;
  try {
    update({ explore: await ofParquet(name, blob, "beside") });
  } catch (error) {
    update({ note: error instanceof Error ? error.message : String(error) });
  }
}

/** Shows the capture of which a fragment speaks. */
async function showCapture(said: URLSearchParams): Promise<void> {
  const { capture, view } = get();
  const [beside, file] = [said.get("capture"), said.get("file")];
  if (beside !== null) {
    if (capture?.where !== "beside" || capture.name !== beside) await openBeside(beside);
  } else if (file !== null) {
    if (capture?.where === "opened" && capture.name === file) return;
    const before = openedBefore(file);
    update(before ? { capture: before, wanted: null } : { capture: null, wanted: file });
  } else if (view === "capture" && (capture?.where ?? "given") !== "given") {
    update({ capture: givenCapture, wanted: null });
  }
}

/** What `lasthop view` was asked to show; null for nothing in particular. */
function given(): Given | ExploreGiven | CaptureGiven | null {
  const text = document.getElementById("lasthop-given")?.textContent;
  return text ? (JSON.parse(text) as Given | ExploreGiven | CaptureGiven) : null;
}

/** What the page shows without a fragment. */
function beginning(shown: Given | ExploreGiven | CaptureGiven | null): { source: State["source"]; ready: string | null; more: Partial<State> } {
  const { source, ready } = get();
  if (shown === null || shown.kind === "explore" || shown.kind === "capture") {
    return { source, ready, more: { senders: ready === null ? [AS_WRITTEN] : sendersOf(ready), seed: 1, seeds: 5, helpers: [], view: shown?.kind ?? "play" } };
  }
  const seeds = shown.seeds ?? [];
  const more = {
    given: shown,
    senders: shown.senders?.length ? shown.senders.slice(0, MOST_SENDERS) : [AS_WRITTEN],
    helpers: shown.helpers ?? [],
    seed: seeds[0] ?? 1,
    seeds: Math.min(MOST_SEEDS, Math.max(1, seeds.length || 5)),
    view: "play" as View,
  };
  return { source: shown.source, ready: null, more };
}

export async function start(): Promise<void> {
  pool.loaded().catch((error: unknown) => update({ broken: error instanceof Error ? error.message : String(error) }));
  const shown = given();
  if (shown?.kind === "explore") {
    givenExplore = shown;
    update({ explore: shown });
  }
  if (shown?.kind === "capture") void openGiven(shown);
  const { source, ready, more } = beginning(shown);
  began = { text: source.text, ready, ...(more as Required<Pick<State, "senders" | "helpers" | "seed" | "seeds" | "view">>) };
  const usual = began;
  show = async () => {
    if (!(await read())) {
      const said = new URLSearchParams(get().note === null ? written : "");
      const { note } = get();
      take(source, ready, { ...more, ...restOf(said, usual), note });
      setClock(said);
    }
    await showCapture(new URLSearchParams(written));
    await showTable(new URLSearchParams(written));
  };
  await show();
  let timer: number | undefined;
  // Later changes do not put it off: runs that go on change the state all the time.
  const later = () => {
    timer ??= window.setTimeout(() => {
      timer = undefined;
      void write();
    }, DELAY);
  };
  listen(later);
  clock.listen(later);
  window.addEventListener("popstate", () => {
    window.clearTimeout(timer);
    timer = undefined;
    void show();
  });
}
