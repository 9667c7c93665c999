// A log of a stack (qlog): what its connection sent, what was acknowledged or declared lost, and its window, RTT and bytes
// in flight as it said them; beside it, when asked for, the scenario that is open in Play.

import { useMemo } from "preact/hooks";
import type { QlogRead } from "../engine/types";
import { loggedPanels, SIMULATED } from "../model/captured";
import { spanOf } from "../model/curves";
import { setSpan } from "../model/span";
import { choose, pool, useChosen, type State } from "../model/store";
import { Zoom } from "../ui/zoom";
import { Beside, Charts, IN_PLAY, inPlay, Legend, NO_LAW, shown, TakeAlong, useJob } from "./parts";

function inWords(read: QlogRead): string {
  const count = (value: number) => value.toLocaleString("en-GB");
  const share = read.sent > 0 ? ` (${Number(((100 * read.lost) / read.sent).toPrecision(2))} %)` : "";
  const lost = read.is_sender ? `, ${read.lost === 0 ? "none declared lost" : `${count(read.lost)} declared lost${share}`}` : "";
  const rate = read.length_s > 0 ? `, ${shown((read.bytes * 8) / read.length_s, "bit/s")} ${read.is_sender ? "sent" : "received"}` : "";
  const cut = read.truncated ? "; the file ends within a record: it was cut while it was written" : "";
  return `${count(read.sent)} packets sent${lost}, ${count(read.received)} received, ${shown(read.length_s, "s")}${rate}${cut}`;
}

function Shown({ read, state, theme, only }: { read: QlogRead; state: State; theme: string; only: string | null }) {
  const [askedLaw] = useChosen("law");
  const [askedFlow] = useChosen("beside");
  const [askedSpan] = useChosen("span");
  const law = askedLaw === IN_PLAY ? IN_PLAY : NO_LAW;
  const played = law === IN_PLAY ? inPlay(state, askedFlow, read.is_sender, null) : null;
  const job = useJob(played?.start ?? null, `${state.capture?.key} ${read.chosen} ${played?.key}`);
  const way = job.value?.way ?? null;
  const duration = Math.max(read.length_s, job.value?.found.length_s ?? 0, 1e-6);
  const span = useMemo(() => spanOf(askedSpan, duration), [askedSpan, duration]);
  const drawn = useMemo(() => loggedPanels(read, way, span ?? [0, duration]), [read, way, span, duration, theme]);
  if (only !== null) return <Charts {...{ drawn, only, duration, span, theme }} />;
  return (
    <>
      <p class="took">{inWords(read)}</p>
      <p class="look" role="status">{played && !job.value && !job.failure ? "Simulating the scenario in Play …" : ""}</p>
      {job.failure && <pre class="message bad" role="alert">the scenario in Play cannot be simulated: {job.failure.text}</pre>}
      {job.value && !way && <p class="message note">The flow of the scenario sent nothing that a capture at the node {played?.node} would show.</p>}
      <section class="charts" aria-label="Curves">
        <div class="toolbar" role="group" aria-label="What the curves show">
          {read.traces.length > 1 && (
            <label class="field inline">
              <span>Trace</span>
              <select value={String(read.chosen)} onChange={(event) => choose("trace", event.currentTarget.value)}>
                {read.traces.map((title, place) => <option key={place} value={String(place)}>{title}</option>)}
              </select>
            </label>
          )}
          <Beside state={state} law={law} laws={[]} />
          <Zoom span={span} duration={duration} whole="Whole log" show={setSpan} />
        </div>
        <Charts {...{ drawn, only, duration, span, theme }} />
        <Legend again="declared lost" isLog />
        <p class="foot">Bytes are those of packets in the order in which they {read.is_sender ? "left" : "came"}, headers and retransmissions included; windows and RTTs are as the stack logged them.</p>
        {way && played && <p class="foot">{SIMULATED}: the scenario {played.name} as it stands in Play, seed {state.seed}, captured at the node {played.node}. Time 0 is the first packet of each.</p>}
      </section>
      <TakeAlong name={read.name} drawn={drawn} span={span ?? [0, duration]} found={null} />
    </>
  );
}

/** The view of a log, or one panel of it. */
export function QlogView({ state, theme, only }: { state: State; theme: string; only: string | null }) {
  const { capture } = state;
  const [asked] = useChosen("trace");
  const trace = /^\d+$/.test(asked ?? "") ? Number(asked) : 0;
  const read = capture && (() => pool.qlog({ file: capture.blob, name: capture.name, trace }));
  const { value, failure } = useJob(read, `${capture?.key} ${trace}`);
  return (
    <div aria-busy={!value && !failure}>
      {!value && !failure && <p class="took" role="status">Reading {capture?.name} …</p>}
      {failure && <pre class="message bad" role="alert">cannot read the log '{capture?.name}': {failure.text}</pre>}
      {value && <Shown read={value} state={state} theme={theme} only={only} />}
    </div>
  );
}
