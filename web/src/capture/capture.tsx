// Capture: a file of real packets, connection by connection, beside a simulation of the path that it shows. Both are read
// by the same reader, at the same place of the path; what is of the file and what of the simulation is named everywhere.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { CaptureRead, CapturedFlow, Overrides, SimulatedRead } from "../engine/types";
import { panelsOf, CAPTURED, SIMULATED, type Chosen } from "../model/captured";
import { spanOf, type Span } from "../model/curves";
import { IS_QLOG, openFiles } from "../model/files";
import { setSpan } from "../model/span";
import { choose, open, pool, useChosen, useStore, type State } from "../model/store";
import { Zoom } from "../ui/zoom";
import { Beside, Charts, IN_PLAY, inPlay, Legend, lawsOf, NO_LAW, shown, TakeAlong, useJob } from "./parts";
import { QlogView } from "./qlog";

/** Connections that are listed; the others are in the file all the same. */
const LISTED = 200;
/** Differences that are named in the first sentence. */
const FOREMOST = 3;
/** Where the simulation is captured if it is not seen where the file was. */
const USUAL_NODE = "server";

const endsOf = (one: CapturedFlow, forward: boolean): string => {
  const [from, to] = [`${one.from}:${one.from_port}`, `${one.to}:${one.to_port}`];
  return forward ? `${from} → ${to}` : `${to} → ${from}`;
};

/** The ways of connections that carry something, most payload first. */
function waysOf(flows: CapturedFlow[]): (Chosen & { payload: number })[] {
  const ways = flows.flatMap((one, flow) => [true, false].map((forward) => ({ flow, forward, payload: one.payload[forward ? 0 : 1] ?? 0 })));
  return ways.filter((way) => way.payload > 0).sort((a, b) => b.payload - a.payload);
}

/** The way that was chosen, as far as the file has it. */
function chosenOf(asked: string | null, flows: CapturedFlow[]): Chosen {
  const found = /^(\d+)([fb])$/.exec(asked ?? "");
  const flow = Number(found?.[1] ?? -1);
  if (found && flow < flows.length) return { flow, forward: found[2] === "f" };
  return waysOf(flows)[0] ?? { flow: 0, forward: true };
}

const keyOf = ({ flow, forward }: Chosen): string => `${flow}${forward ? "f" : "b"}`;

function Connections({ read, chosen }: { read: CaptureRead; chosen: Chosen }) {
  const ways = waysOf(read.found.flows);
  return (
    <section class="figures" aria-labelledby="connections-title">
      <h2 id="connections-title">Connections</h2>
      <div class="scroll" role="group" aria-label="Table of connections" tabIndex={0}>
        <table class="plain">
          <thead><tr><th scope="col">from and to</th><th scope="col">protocol</th><th scope="col">begins</th><th scope="col">lasts</th><th scope="col">packets</th><th scope="col">payload</th></tr></thead>
          <tbody>
            {ways.slice(0, LISTED).map((way) => {
              const one = read.found.flows[way.flow];
              if (!one) return null;
              const isChosen = way.flow === chosen.flow && way.forward === chosen.forward;
              return (
                <tr key={keyOf(way)}>
                  <th scope="row"><button type="button" class="cell" aria-pressed={isChosen} onClick={() => choose("connection", keyOf(way))}>{isChosen ? <b>{endsOf(one, way.forward)}</b> : endsOf(one, way.forward)}</button></th>
                  <td>{one.transport.toUpperCase()}</td>
                  <td>{shown(one.start_s, "s")}</td>
                  <td>{shown(one.length_s, "s")}</td>
                  <td>{(one.packets[way.forward ? 0 : 1] ?? 0).toLocaleString("en-GB")}</td>
                  <td>{shown(way.payload, "B")}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {ways.length > LISTED && <p class="foot">and {(ways.length - LISTED).toLocaleString("en-GB")} more</p>}
    </section>
  );
}

/** What the capture says of its path, as lasthop from-capture has it. */
function Path({ read }: { read: CaptureRead }) {
  const { from, to, path } = read.found;
  const side = path.captured_near ? `, captured nearer to the ${path.captured_near} of the data` : "";
  return (
    <section class="figures" aria-labelledby="path-title">
      <h2 id="path-title">The path from {from} to {to}{side}</h2>
      <div class="scroll" role="group" aria-label="Table of the path" tabIndex={0}>
        <table class="plain">
          <thead><tr><th scope="col">captured</th><th scope="col">value</th><th scope="col">how sure</th></tr></thead>
          <tbody>{read.figures.map((row) => <tr key={row.name}><th scope="row">{row.name}</th><td>{row.value}</td><td>{row.surely}</td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}

function Differences({ beside }: { beside: SimulatedRead["beside"] }) {
  return (
    <section class="figures" aria-labelledby="beside-title">
      <h2 id="beside-title">Captured and simulated</h2>
      <div class="scroll" role="group" aria-label="Table of differences" tabIndex={0}>
        <table class="plain">
          <thead><tr><th scope="col">of all connections on the path</th><th scope="col" class="sender-text-0">{CAPTURED}</th><th scope="col" class="sender-text-1">{SIMULATED}</th><th scope="col">the simulation</th></tr></thead>
          <tbody>{beside.map((row) => <tr key={row.name}><th scope="row">{row.name}</th><td>{row.first}</td><td>{row.second}</td><td>{row.said}</td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}

/** The largest differences in a sentence. */
function inWords(beside: SimulatedRead["beside"]): string {
  const most = beside.filter((row) => row.apart > 0).sort((a, b) => b.apart - a.apart).slice(0, FOREMOST);
  if (most.length === 0) return "The simulation shows no difference.";
  return `The simulation differs most in: ${most.map((row) => `${row.name}, ${row.first} captured, ${row.second} simulated`).join("; ")}.`;
}

interface ToolProps {
  state: State;
  read: CaptureRead;
  chosen: Chosen;
  law: string;
  span: Span | null;
  duration: number;
}

function Toolbar({ state, read, chosen, law, span, duration }: ToolProps) {
  const ways = waysOf(read.found.flows);
  return (
    <div class="toolbar" role="group" aria-label="What the curves show">
      {ways.length > 1 && (
        <label class="field inline">
          <span>Connection</span>
          <select value={keyOf(chosen)} onChange={(event) => choose("connection", event.currentTarget.value)}>
            {ways.slice(0, LISTED).map((way) => {
              const one = read.found.flows[way.flow];
              return one && <option key={keyOf(way)} value={keyOf(way)}>{endsOf(one, way.forward)}</option>;
            })}
          </select>
        </label>
      )}
      {!state.capture?.grows && <Beside state={state} law={law} laws={lawsOf(state)} />}
      <button type="button" disabled={read.scenario.flows.length === 0} onClick={() => open({ name: `${read.name.replace(/\.[^.]*$/, "")}.toml`, text: read.scenario.text, files: {} }, null, { view: "play" })}>Open the path in Play</button>
      <Zoom span={span} duration={duration} whole="Whole capture" show={setSpan} />
    </div>
  );
}

function Shown({ read, state, theme, only }: { read: CaptureRead; state: State; theme: string; only: string | null }) {
  const [askedLaw] = useChosen("law");
  const [askedSpan] = useChosen("span");
  const { capture } = state;
  const { found, scenario, chosen } = read;
  const laws = lawsOf(state);
  const grows = capture?.grows ?? false;
  const law = grows ? NO_LAW : [NO_LAW, IN_PLAY, ...laws].includes(askedLaw ?? "") ? (askedLaw ?? NO_LAW) : "cubic";
  const [askedFlow] = useChosen("beside");
  const played = law === IN_PLAY ? inPlay(state, askedFlow, found.path.captured_near !== "receiver", JSON.stringify(found)) : null;
  // Which flow of the scenario the connection is; those of other hosts are none.
  const place = scenario.flows.indexOf(chosen.flow);
  const isWritten = place >= 0 && found.flows[chosen.flow]?.data_forward === chosen.forward;
  const isAsked = law !== NO_LAW && (law === IN_PLAY ? played !== null : isWritten);
  const simulate = () => {
    const overrides = scenario.flows.flatMap((flow, index): Overrides => (found.flows[flow]?.transport === "tcp" ? [[`flows.${index}.transport`, law]] : []));
    return pool.simulated({ source: { name: "path.toml", text: scenario.text, files: {} }, overrides, seed: 1, node: scenario.node ?? USUAL_NODE, flow: place, found: JSON.stringify(found) });
  };
  const job = useJob(isAsked ? (played?.start ?? simulate) : null, `${capture?.key} ${capture?.version} ${keyOf(chosen)} ${law} ${played?.key ?? scenario.text.length}`);
  const simulated = job.value;
  const duration = Math.max(found.length_s, simulated?.found.length_s ?? 0, 1e-6);
  const span = useMemo(() => spanOf(askedSpan, duration), [askedSpan, duration]);
  const isTcp = found.flows[chosen.flow]?.transport === "tcp";
  const drawn = useMemo(() => panelsOf(read.way, simulated?.way ?? null, span ?? [0, duration], isTcp), [read, simulated, span, duration, isTcp, theme]);
  if (only !== null) return <Charts {...{ drawn, only, duration, span, theme }} />;
  const assumed = [...(found.path["rate_bit_s"] === null ? ["the rate"] : []), ...(found.path["base_rtt_s"] === null ? ["the delay"] : [])];
  const others = found.others > 0 ? `, ${found.others.toLocaleString("en-GB")} of other protocols` : "";
  return (
    <>
      <p class="took">{found.packets.toLocaleString("en-GB")} packets of TCP and UDP{others}, {shown(found.length_s, "s")}{grows ? "; the run goes on" : found.truncated ? "; the file ends within a packet: it was cut while it was written" : ""}</p>
      {scenario.lacks && <p class="message note">What this capture cannot show: {scenario.lacks}.</p>}
      <p class="look" role="status">
        {simulated ? inWords(simulated.beside) : isAsked && !job.failure ? (played ? "Simulating the scenario in Play …" : "Simulating the path that the packets show …") : !isWritten && law !== NO_LAW ? "This direction of the connection is not part of the path below, so it is not simulated." : ""}
      </p>
      {isAsked && !played && assumed.length > 0 && <p class="message note">Not seen in the capture, and so assumed in the simulation: {assumed.join(" and ")}. The scenario says with which value.</p>}
      {job.failure && <pre class="message bad" role="alert">{played ? "the scenario in Play" : "the path of the capture"} cannot be simulated: {job.failure.text}</pre>}
      <section class="charts" aria-label="Curves">
        <Toolbar {...{ state, read, chosen, law, span, duration }} />
        <Charts {...{ drawn, only, duration, span, theme }} />
        {isTcp && <Legend again="retransmitted, or late" isLog={false} />}
        {simulated && played && <p class="foot">Simulated: the scenario {played.name} as it stands in Play, seed {state.seed}; its packets are captured at the node {played.node} and read like those of the file. Time 0 is the first packet of each.</p>}
        {simulated && !played && <p class="foot">Simulated: the path below, as lasthop from-capture writes it, with {law}; its packets are captured at the node {scenario.node ?? USUAL_NODE} and read like those of the file. Time 0 is the first packet of each.</p>}
      </section>
      {simulated && <Differences beside={simulated.beside} />}
      <Path read={read} />
      <Connections read={read} chosen={chosen} />
      <TakeAlong name={read.name} drawn={drawn} span={span ?? [0, duration]} found={found} />
    </>
  );
}

/** A file of packets, read connection by connection. */
function PacketView({ state, theme, panel }: { state: State; theme: string; panel: string | null }) {
  const { capture } = state;
  const [asked] = useChosen("connection");
  const [askedInterface] = useChosen("interface");
  const only = /^\d+$/.test(askedInterface ?? "") ? Number(askedInterface) : null;
  const key = capture ? `${capture.key} ${capture.version} ${only} ${asked}` : "";
  const read = async (): Promise<CaptureRead> => {
    if (!capture) throw new Error("there is no capture");
    const found = /^(\d+)([fb])$/.exec(asked ?? "");
    const way = found ? { flow: Number(found[1]), forward: found[2] === "f" } : null;
    return { ...(await pool.capture({ file: capture.blob, name: capture.name, key: `${capture.key} ${capture.version} ${only}`, only, way })) };
  };
  const job = useJob(capture ? read : null, key);
  const { value } = job;
  // A file in which a run still writes may have no packet yet.
  const failure = capture?.grows ? null : job.failure;
  // Until the next connection is there, or what has been added, the one before stays.
  const [kept, keep] = useState<{ of: string; read: CaptureRead } | null>(null);
  useEffect(() => { if (value) keep({ of: `${capture?.key} ${only}`, read: value }); }, [value]);
  const shownRead = value ?? (kept?.of === `${capture?.key} ${only}` && !failure ? kept.read : null);
  const several = shownRead?.found.seen_twice_on ?? [];
  return (
    <div aria-busy={capture !== null && !value && !failure}>
      {capture && !shownRead && !failure && <p class="took" role="status">{capture.grows ? "Waiting for the first packets of the run …" : `Reading ${capture.name} …`}</p>}
      {failure && <pre class="message bad" role="alert">{failure.kind === "capture" ? `cannot read the capture '${capture?.name}': ${failure.text}` : failure.text}</pre>}
      {several.length === 1 && <p class="message bad" role="alert">'{capture?.name}' has the same packets twice, as of two places in one file, or of tcpdump -i any: take the capture of one place.</p>}
      {several.length > 1 && (
        <p class="message bad" role="alert">
          '{capture?.name}' has the same packets on the interfaces {several.join(", ")}: choose one.{" "}
          {several.map((one) => <button key={one} type="button" onClick={() => choose("interface", String(one))}>Interface {one}</button>)}
        </p>
      )}
      {shownRead && several.length === 0 && <Shown read={{ ...shownRead, chosen: value ? chosenOf(asked, shownRead.found.flows) : shownRead.chosen }} state={state} theme={theme} only={panel} />}
    </div>
  );
}

/** The file that is open; `only` names the one panel of it that is shown. */
export function CaptureFile({ theme, only = null }: { theme: string; only?: string | null }) {
  const state = useStore();
  const { capture, note, wanted } = state;
  return (
    <>
      {note && <p class="message note" role="status">{note}</p>}
      {wanted !== null && <p class="message note" role="status">This address is of the file {wanted}: {only === null ? "open it above. A page may not read files by itself; what was chosen is kept." : "put it beside the page, and write capture= for file=. A page may not read files by itself."}</p>}
      {capture && (IS_QLOG.test(capture.name) ? <QlogView state={state} theme={theme} only={only} /> : <PacketView state={state} theme={theme} panel={only} />)}
    </>
  );
}

export function CaptureView({ theme }: { theme: string }) {
  const { capture, wanted } = useStore();
  return (
    <main id="main" class="explore capture" tabIndex={-1}>
      <div class="head">
        <h2 class="name">{capture?.name ?? wanted ?? "Open a capture"}</h2>
        <label class="file">Open a capture<input type="file" accept=".pcap,.pcapng,.cap,.qlog,.sqlog" onChange={(event) => { void openFiles(event.currentTarget.files); event.currentTarget.value = ""; }} /></label>
      </div>
      {!capture && wanted === null && (
        <div class="empty">
          <p>A capture of a transfer (pcap, pcapng) is shown here beside a simulation of its path, and a log of a QUIC stack (qlog) beside a scenario of yours. Drop it anywhere on the page, or open it above; it stays in this browser.</p>
          <pre tabIndex={0}>{"tcpdump -i eth0 -s 96 -w transfer.pcap host ADDRESS\nlasthop view transfer.pcap"}</pre>
        </div>
      )}
      <CaptureFile theme={theme} />
    </main>
  );
}
