// Play: a scenario at the left, what comes of it at the right.

import { useState } from "preact/hooks";
import { openFiles } from "../model/files";
import { READY } from "../model/ready";
import { open, openReady, refresh, setSeeds, stop, useChosen, useStore, AS_WRITTEN, MOST_SEEDS } from "../model/store";
import { textScale } from "../model/style";
import { useTyped } from "../ui/box";
import { Actions } from "./actions";
import { Controls } from "./controls";
import { Editor } from "./editor";
import { Results } from "./results";
import { Helpers, Senders } from "./senders";

/** Width that a text needs, in letters of the editor; nothing where it is not shown. */
const LETTERS_MOST = 110;
const LETTER = 7.9;
const AROUND = 110;
function textWidth(text: string, isShown: boolean): number {
  if (!isShown) return 0;
  const longest = text.length > 100_000 ? LETTERS_MOST : text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);
  return Math.round((Math.min(LETTERS_MOST, longest) * LETTER + AROUND) * textScale());
}

/** How many runs, and of which seeds. */
function Seeds() {
  const state = useStore("seed", "seeds", "running", "failure");
  const [wrong, setWrong] = useState<string | null>(null);
  const [seeds, typeSeeds] = useTyped(String(state.seeds));
  const [seed, typeSeed] = useTyped(String(state.seed));
  const set = (seed: number, seeds: number) => {
    const isSeed = Number.isInteger(seed) && seed >= 0 && seed <= Number.MAX_SAFE_INTEGER;
    const isCount = Number.isInteger(seeds) && seeds >= 1 && seeds <= MOST_SEEDS;
    setWrong(!isCount ? `The page runs 1 to ${MOST_SEEDS} seeds; the command runs any number of them.` : !isSeed ? "A seed is a whole number from 0 on." : null);
    if (isSeed && isCount) setSeeds(seed, seeds);
  };
  // What cannot be stays in its box, beside the words that say so.
  const end = () => {
    if (wrong) return;
    typeSeeds(null);
    typeSeed(null);
  };
  return (
    <section class="seeds">
      <div class="pair">
        <label class="field">
          <span>Seeds</span>
          <input type="number" min={1} max={MOST_SEEDS} value={seeds} aria-invalid={wrong !== null} onInput={(event) => { typeSeeds(event.currentTarget.value); set(Number(seed), event.currentTarget.valueAsNumber); }} onChange={end} />
        </label>
        <label class="field">
          <span>from</span>
          <input type="number" min={0} max={Number.MAX_SAFE_INTEGER} value={seed} aria-invalid={wrong !== null} onInput={(event) => { typeSeed(event.currentTarget.value); set(event.currentTarget.valueAsNumber, Number(seeds)); }} onChange={end} />
        </label>
        {state.running ? (
          <button type="button" class="main" onClick={stop}>Cancel</button>
        ) : (
          <button type="button" class="main" disabled={state.failure !== null} onClick={() => refresh(0)}>Run</button>
        )}
      </div>
      {wrong && <p class="wrong" role="alert">{wrong}</p>}
    </section>
  );
}

type Tab = "controls" | "text";
const TABS: [Tab, string][] = [["controls", "Controls"], ["text", "Text"]];

/** The keyboard comes to the chosen tab, and arrows choose another. */
function Tabs({ tab, choose }: { tab: Tab; choose: (tab: Tab) => void }) {
  const press = (event: KeyboardEvent) => {
    const place = TABS.findIndex(([id]) => id === tab);
    const next = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: TABS.length - 1 }[event.key];
    const found = next === undefined ? undefined : TABS[(next + TABS.length) % TABS.length];
    if (!found) return;
    event.preventDefault();
    choose(found[0]);
    document.getElementById(`tab-${found[0]}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="How to change the scenario" onKeyDown={press}>
      {TABS.map(([id, name]) => (
        <button key={id} type="button" role="tab" id={`tab-${id}`} aria-controls="panel" aria-selected={tab === id} tabIndex={tab === id ? 0 : -1} onClick={() => choose(id)}>{name}</button>
      ))}
    </div>
  );
}

export function Play({ theme }: { theme: string }) {
  const state = useStore("ready", "source", "given", "checked", "senders", "note", "cancelled", "runFailure");
  const [asked, setAsked] = useChosen("tab");
  const [isOpen, setOpen] = useState(false);
  const tab: Tab = asked === "text" ? "text" : "controls";
  const setTab = (next: "controls" | "text") => setAsked(next === "text" ? next : null);
  const ready = READY.find((one) => one.id === state.ready);

  return (
    <div class="play" ref={(element) => element?.style.setProperty("--text-width", `${textWidth(state.source.text, tab === "text")}px`)}>
      <aside aria-label="Scenario">
        <section class="scenario">
          <label class="field">
            <span>Scenario</span>
            <select value={state.ready ?? ""} onChange={(event) => (event.currentTarget.value ? openReady(event.currentTarget.value) : open({ name: "scenario.toml", text: "", files: {} }, null))}>
              {READY.map((one) => <option key={one.id} value={one.id}>{one.id}</option>)}
              <option value="">{state.ready === null ? state.source.name : "my own …"}</option>
            </select>
          </label>
          <p class="about">{ready?.about ?? state.given?.title ?? "Write or paste a scenario under “Text”, or open files."}</p>
          <label class="file">
            Open files
            <input type="file" multiple onChange={(event) => { void openFiles(event.currentTarget.files); event.currentTarget.value = ""; }} />
          </label>
        </section>
        <Senders />
        <Helpers />
        <Seeds />
        <Tabs tab={tab} choose={setTab} />
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class={isOpen ? "open" : ""}>
          {tab === "controls" ? <Controls /> : <Editor />}
        </div>
        <button type="button" class="unfold quiet" aria-expanded={isOpen} aria-controls="panel" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fewer settings" : "Change the scenario"}
        </button>
      </aside>
      <main id="main" tabIndex={-1}>
        {state.checked && state.senders.includes(AS_WRITTEN) && state.checked.description.advice.map((one) => <p key={one} class="message note">{one}</p>)}
        {state.note && <p class="message note" role="status">{state.note}</p>}
        {state.cancelled && <p class="message note" role="status">Cancelled. What had finished is shown.</p>}
        {state.runFailure && <pre class="message bad" role="alert">{state.runFailure.text}</pre>}
        <Results theme={theme} />
        <Actions />
      </main>
    </div>
  );
}
