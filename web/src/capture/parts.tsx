// What captures and logs of stacks share in their views: jobs of the engine, curves, what is taken along, and the choice of
// what is simulated beside them.

import { useEffect, useState } from "preact/hooks";
import { Cancelled, EngineError } from "../engine/pool";
import type { Failure, SimulatedRead } from "../engine/types";
import { prefixFor } from "../model/compare";
import type { Panel, Span } from "../model/curves";
import { download, png, svg } from "../model/figure";
import { link } from "../model/address";
import { setSpan } from "../model/span";
import { choose, pool, useChosen, type State } from "../model/store";
import { Chart } from "../ui/chart";
import { NoPanel, OnePanel, Taken, useCopied } from "../ui/take";

/** Beside it is nothing, or the scenario that is open in Play. */
export const NO_LAW = "none";
export const IN_PLAY = "play";

export function shown(value: number, unit: string): string {
  if (unit === "B") return `${value.toLocaleString("en-GB")} B`;
  const [factor, name] = prefixFor(value, unit);
  return `${Number((value / factor).toPrecision(3)).toLocaleString("en-GB")} ${name}`;
}

function failureOf(error: unknown): Failure {
  if (error instanceof EngineError) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "call", message, text: message };
}

/** What a job of the engine gave, or why it did not; the last of several calls counts. */
export function useJob<T>(start: (() => Promise<T>) | null, key: string): { value: T | null; failure: Failure | null } {
  const [state, setState] = useState<{ key: string; value: T | null; failure: Failure | null }>({ key: "", value: null, failure: null });
  useEffect(() => {
    let isOver = false;
    if (!start) return;
    start().then(
      (value) => !isOver && setState({ key, value, failure: null }),
      (error: unknown) => !isOver && !(error instanceof Cancelled) && setState({ key, value: null, failure: failureOf(error) }),
    );
    return () => { isOver = true; };
  }, [key]);
  return start && state.key === key ? state : { value: null, failure: null };
}

/** The senders that a simulation may have. */
export function lawsOf(state: State): string[] {
  return state.keys.transports.filter((name) => name !== "udp");
}

/** The choice of what is simulated beside a file: nothing, the path that it shows with a sender, the scenario in Play. */
export function Beside({ state, law, laws }: { state: State; law: string; laws: string[] }) {
  const [flow] = useChosen("beside");
  const flows = state.checked?.description.flows ?? [];
  return (
    <>
      <label class="field inline">
        <span>Beside it, simulated</span>
        <select value={law} onChange={(event) => choose("law", event.currentTarget.value)}>
          <option value={NO_LAW}>nothing</option>
          {laws.length > 0 && <optgroup label="The path that it shows">{laws.map((name) => <option key={name} value={name}>{name}</option>)}</optgroup>}
          <optgroup label="The scenario in Play"><option value={IN_PLAY} disabled={flows.length === 0}>{state.ready ?? state.source.name}</option></optgroup>
        </select>
      </label>
      {law === IN_PLAY && flows.length > 1 && (
        <label class="field inline">
          <span>Its flow</span>
          <select value={flow ?? "0"} onChange={(event) => choose("beside", event.currentTarget.value)}>
            {flows.slice(0, MOST_FLOWS).map((one, place) => <option key={place} value={String(place)}>{one.name}</option>)}
          </select>
        </label>
      )}
    </>
  );
}

/** Flows of a scenario that are listed. */
const MOST_FLOWS = 200;

/** Simulates the scenario in Play and reads what its flow sent, or received, as a capture at that end has it. */
export function inPlay(state: State, flow: string | null, isSender: boolean, found: string | null): { start: () => Promise<SimulatedRead>; key: string; node: string; name: string } | null {
  const { checked, source } = state;
  const place = Number(flow ?? 0);
  const chosen = checked?.description.flows[place] ?? checked?.description.flows[0];
  const node = chosen && checked?.description.nodes[isSender ? chosen.source : chosen.sink];
  if (!checked || !chosen || node === undefined) return null;
  const number = checked.description.flows.indexOf(chosen);
  return {
    start: () => pool.simulated({ source, overrides: state.changed, seed: state.seed, node, flow: number, found }),
    key: `${node} ${number} ${state.seed} ${JSON.stringify([source.text, state.changed])}`,
    node, name: state.ready ?? source.name,
  };
}

/** What colours and lines of the time-sequence graph mean. */
export function Legend({ again, isLog }: { again: string; isLog: boolean }) {
  return (
    <p class="legend">
      <span><i class="bar" style={{ background: "var(--sender-0)" }} />sent</span>
      <span><i class="bar" style={{ background: "var(--bad)" }} />{again}</span>
      <span><i class="bar" style={{ background: "var(--sender-3)" }} />{isLog ? "acknowledged" : "selectively acknowledged"}</span>
      <span><i class="line" style={{ background: "var(--sender-2)" }} />{isLog ? "the latest acknowledged" : "acknowledged"}</span>
      {!isLog && <span><i class="dashes" style={{ borderColor: "var(--muted)" }} />end of the receiver's window</span>}
    </p>
  );
}

const NO_MARKS: never[] = [];

/** The curves, or the one with the name `only`. */
export function Charts({ drawn, only, duration, span, theme }: { drawn: Panel[]; only: string | null; duration: number; span: Span | null; theme: string }) {
  const curves = only === null ? drawn : drawn.filter(({ id }) => id === only);
  return (
    <>
      <NoPanel asked={only} known={drawn.map(({ id }) => id)} />
      {curves.map((panel, index) => <Chart key={panel.id} panel={panel} duration={duration} span={span} marks={NO_MARKS} theme={theme} isLast={index === curves.length - 1} zoom={setSpan} />)}
    </>
  );
}

/** What is taken along of a file: a link, its figure, one panel; `found` is what `lasthop from-capture --json` prints. */
export function TakeAlong({ name, drawn, span, found }: { name: string; drawn: Panel[]; span: Span; found: unknown }) {
  const copied = useCopied();
  const stem = name.replace(/^.*\//, "").replace(/\.[^.]*$/, "");
  const save = async (what: "svg" | "png" | "json") => {
    const figure = () => svg(drawn, name, span);
    if (what === "svg") download(`${stem}.svg`, figure(), "image/svg+xml");
    else if (what === "png") download(`${stem}.png`, await png(figure()));
    else download(`${stem}.json`, `${JSON.stringify(found)}\n`, "application/json");
    copied.setSaid("downloaded");
  };
  return (
    <section class="actions" aria-labelledby="actions-title">
      <h2 id="actions-title">Take it along</h2>
      <div class="row">
        <button type="button" onClick={async () => copied.copy("Link", await link())}>Copy link</button>
        <span class="gap" />
        {found !== null && <button type="button" onClick={() => save("json")}>Figures (JSON)</button>}
        <button type="button" onClick={() => save("svg")}>Figure (SVG)</button>
        <button type="button" onClick={() => save("png")}>Figure (PNG)</button>
      </div>
      <OnePanel curves={drawn} span={span} others={[]} stem={stem} picture={(panel) => svg(drawn.filter(({ id }) => id === panel), name, span)} copied={copied} />
      <Taken copied={copied} />
    </section>
  );
}
