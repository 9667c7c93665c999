// Play: a scenario at the left, what comes of it at the right.

import { useState } from "preact/hooks";
import { READY } from "../model/ready";
import { open, openReady, refresh, setSeeds, stop, useStore, AS_WRITTEN, MOST_SEEDS } from "../model/store";
import { Actions } from "./actions";
import { Controls } from "./controls";
import { Editor } from "./editor";
import { Results } from "./results";
import { Helpers, Senders } from "./senders";

/** What the engine reads at most, and a little more, so that the engine itself can say so. */
const MOST_FILE = 16 << 20;

export function Play({ theme }: { theme: string }) {
  const state = useStore();
  const [tab, setTab] = useState<"controls" | "text">("controls");
  const ready = READY.find((one) => one.id === state.ready);

  const load = async (files: FileList | null) => {
    if (!files?.length) return;
    const texts = new Map<string, string>();
    for (const file of files) texts.set(file.name, await file.slice(0, MOST_FILE).text());
    const scenario = [...texts.keys()].find((name) => /\.(toml|json)$/i.test(name));
    const inputs = Object.fromEntries([...texts].filter(([name]) => name !== scenario));
    if (scenario) {
      open({ name: scenario, text: texts.get(scenario) ?? "", json: /\.json$/i.test(scenario), files: { ...state.source.files, ...inputs } }, null);
    } else {
      open({ ...state.source, files: { ...state.source.files, ...inputs } }, state.ready, { senders: state.senders, helpers: state.helpers });
    }
    setTab("controls");
  };

  return (
    <div class="play">
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
            <input type="file" multiple onChange={(event) => { void load(event.currentTarget.files); event.currentTarget.value = ""; }} />
          </label>
        </section>
        <Senders />
        <Helpers />
        <section class="seeds">
          <div class="pair">
            <label class="field">
              <span>Seeds</span>
              <input type="number" min={1} max={MOST_SEEDS} value={state.seeds} onInput={(event) => event.currentTarget.value !== "" && setSeeds(state.seed, Number(event.currentTarget.value) || 1)} />
            </label>
            <label class="field">
              <span>from</span>
              <input type="number" min={0} max={Number.MAX_SAFE_INTEGER} value={state.seed} onInput={(event) => event.currentTarget.value !== "" && setSeeds(Math.max(0, Math.floor(Number(event.currentTarget.value) || 0)), state.seeds)} />
            </label>
            {state.running ? (
              <button type="button" class="main" onClick={stop}>Cancel</button>
            ) : (
              <button type="button" class="main" disabled={state.failure !== null} onClick={() => refresh(0)}>Run</button>
            )}
          </div>
        </section>
        <div class="tabs" role="tablist" aria-label="How to change the scenario">
          <button type="button" role="tab" id="tab-controls" aria-controls="panel" aria-selected={tab === "controls"} onClick={() => setTab("controls")}>Controls</button>
          <button type="button" role="tab" id="tab-text" aria-controls="panel" aria-selected={tab === "text"} onClick={() => setTab("text")}>Text</button>
        </div>
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
          {tab === "controls" && !state.failure ? <Controls /> : <Editor />}
        </div>
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
