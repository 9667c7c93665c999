// Replay: the packets of one run on their way, and what a sender made of what it saw. The run is repeated in a worker for
// each window of time, so that no trace is kept.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Checked, Interruptions, Table, Window } from "../engine/types";
import { link } from "../model/address";
import { clock } from "../model/clock";
import { panels, type Drawn, type Panel, type Span } from "../model/curves";
import { eventsOf } from "../model/events";
import { greatest } from "../model/extent";
import { download, png, SvgPen } from "../model/figure";
import { marksOf } from "../model/marks";
import { seenSpan, setSpan as showSpan, usualSpan } from "../model/span";
import { overridesFor, pool, shownVariant, useChosen, useStore, variantsOf, type Variant } from "../model/store";
import { styles, textScale } from "../model/style";
import { columnOf, inWords, momentsOf, placeOf, upTo, type Moment, type Trace } from "../model/trace";
import { Layout } from "./layout";
import { Chart } from "../ui/chart";
import { Events } from "../ui/events";
import { NoPanel, OnePanel, Taken, useCopied } from "../ui/take";
import { Zoom } from "../ui/zoom";
import { covers, LINGER, PacketLegend, speedOf, SPEEDS, usePackets, type RunOf } from "./packets";
import { describe, drawBytes, seenOf, timeAt, timesOf } from "./bytes";
import { draw, fit, inkOf, type Ink } from "./scene";
import { drawSequence, PAST } from "./sequence";

const USUAL_SPEED = 0.01;
const SPANS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
/** Packets that a sequence diagram holds and can still be read. */
const READABLE = 90;
/** Segments that a time-sequence graph holds. */
const READABLE_BYTES = 200;
/** A drag of fewer px is a click. */
const LEAST_DRAG = 6;
/** Rows of the table of decisions. */
const SHOWN = 8;

/** Where a run is first looked at: the time and the flow of its first decision, or else collision, loss or packet. */
function beginning(window: Window): { time: number; flow: number } {
  for (const [table, name, before] of [[window.decisions, "time_s", 0], [window.collisions, "time_s", 0], [window.losses, "time_s", 0.05], [window.hops, "enqueue_s", -0.05]] as const) {
    const [time] = columnOf(table, name);
    const [flow] = columnOf(table, "flow");
    // A frame without a packet of a flow is of the first.
    if (time !== undefined && flow !== undefined) return { time: Math.max(0, time - before), flow: flow || 0 };
  }
  return { time: 0, flow: 0 };
}

/** The longest time around `time` in which the packets of a flow can be told apart. */
function readable(trace: Trace, flow: number, time: number, most: number): number {
  const sent = Float64Array.from(trace.journeys(flow).filter((one) => !one.back), (one) => one.sent);
  const within = (span: number) => {
    const from = Math.max(0, time - PAST * span);
    return upTo(sent, from + span) - upTo(sent, from);
  };
  return [...SPANS].reverse().find((one) => within(one) <= most / 2) ?? (SPANS[0] as number);
}

/** Panels of curves that stand under the packets. */
const IN_REPLAY = ["cwnd", "queue", "collisions"];

const NONE: Interruptions = { outages: [], handoffs: [] };

/** Datagrams and rate-based senders have no window to decide on. */
function hasDecisions({ description: { flows } }: Checked, flow: number): boolean {
  return flows[flow]?.windowed ?? false;
}

/** What stands at the two ends of a flow: a split makes two flows of one, and its proxy is an end of both. */
function endsOf({ description: { flows, nodes } }: Checked, flow: number): [string, string] {
  const own = flows[flow];
  return [nodes[own?.source ?? 0] ?? "", nodes[own?.sink ?? 0] ?? ""];
}

/** Losses of the whole run and when links are down, as a strip over the slider; drawn once, not for every frame. */
function drawStrip(canvas: HTMLCanvasElement, whole: Window, duration: number, gone: [number, number, number][], causes: string[], ink: Ink): void {
  const fitted = fit(canvas);
  if (!fitted) return;
  const [context, width, height] = fitted;
  context.clearRect(0, 0, width, height);
  context.fillStyle = ink.rule;
  for (const [, start, end] of gone) context.fillRect((start / duration) * width, 0, Math.max(1, ((end - start) / duration) * width), height);
  const bins = [new Float64Array(Math.ceil(width) + 1), new Float64Array(Math.ceil(width) + 1)];
  const [times, cause] = [columnOf(whole.losses, "time_s"), columnOf(whole.losses, "cause")];
  const inQueue = causes.map((name) => ["queue-overflow", "early-drop", "policed"].includes(name));
  for (let row = 0; row < times.length; row += 1) {
    const list = bins[inQueue[cause[row] ?? 0] ? 0 : 1];
    const place = Math.floor(((times[row] ?? 0) / duration) * width);
    if (list) list[place] = (list[place] ?? 0) + 1;
  }
  const most = greatest(bins.map((list) => greatest(list)), 1);
  const middle = height / 2;
  bins.forEach((list, side) => {
    context.fillStyle = side === 0 ? ink.ink : ink.bad;
    list.forEach((count, place) => {
      const size = Math.sqrt(count / most) * (middle - 3);
      if (count > 0) context.fillRect(place, side === 0 ? middle - size : middle, 1, Math.max(1.5, size));
    });
  });
}

function Beliefs({ decisions, isWhole, checked, names, time, go, flow }: { decisions: Table; isWhole: boolean; checked: Checked; names: { name: string; help: string }[]; time: number; go: (time: number) => void; flow: number }) {
  const declarations = { columns: [], causes: names, kinds: [] };
  const moments = useMemo(() => momentsOf(decisions, flow), [decisions, flow]);
  const all = useMemo(() => momentsOf(decisions, null).filter((moment) => moment.decision !== 2), [decisions]);
  const past = upTo(moments.map((moment) => moment.time), time + 1e-9);
  const shown = moments.slice(Math.max(0, past - SHOWN), past).reverse();
  const count = (decision: number, place: number) => all.filter((moment) => moment.decision === decision && placeOf(moment.truth, declarations) === place).length;
  const row = (moment: Moment) => {
    const words = inWords(moment, declarations);
    return (
      <tr key={`${moment.time} ${moment.decision}`}>
        <td><button type="button" class="quiet" onClick={() => go(moment.time)}>{moment.time.toFixed(3)} s</button></td>
        <td>{words.what}</td>
        <td>{words.believed}</td>
        <td class={words.right === false ? "wrong" : ""}>{words.really}</td>
      </tr>
    );
  };
  return (
    <>
      <section aria-labelledby="decisions-title">
        <h2 id="decisions-title">What {checked.description.flows[flow]?.name} believed, and what it was</h2>
        <div class="scroll" role="group" aria-labelledby="decisions-title" tabIndex={0}>
          <table class="plain">
            <thead><tr><th scope="col">Time</th><th scope="col">Saw</th><th scope="col">Taken for</th><th scope="col">Really</th></tr></thead>
            <tbody>{shown.map(row)}{shown.length === 0 && <tr><td colSpan={4}>No loss was noticed before this time.</td></tr>}</tbody>
          </table>
        </div>
      </section>
      <section aria-labelledby="truth-title">
        <h2 id="truth-title">All flows, {isWhole ? "the whole run" : "so far"}: what their reactions answered</h2>
        <div class="scroll" role="group" aria-labelledby="truth-title" tabIndex={0}>
          <table class="plain numbers">
            <thead><tr><th scope="col"><span class="hidden">Reaction</span></th><th scope="col">a queue was full</th><th scope="col">lost in the air</th><th scope="col">segment not lost</th></tr></thead>
            <tbody>
              {["recoveries", "timeouts"].map((name, decision) => (
                <tr key={name}><th scope="row">{name}</th>{[0, 1, 2].map((place) => <td key={place}>{count(decision, place).toLocaleString("en-GB")}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

/** Panels of Replay that are no curves: the names that an address may ask for alone, and for people. */
const OTHER_PANELS: [["scene", string], ["diagram", string]] = [["scene", "The path with its packets"], ["diagram", "The diagram of the flow"]];

/** Curves of the whole run of this sender, under its packets: the same clock runs through both, and a click moves it. */
function Curves({ variant, flow, interruptions, theme, span, show, only }: { variant: Variant; flow: number; interruptions: Interruptions; theme: string; span: Span | null; show: (span: Span | null) => void; only: string | null }) {
  const { results, resultsOf, keys } = useStore("results", "resultsOf", "keys");
  const run = results.get(variant.key)?.[0];
  const made = useMemo(() => {
    if (!run?.series || !resultsOf) return null;
    const { description } = resultsOf.checked;
    const name = shownVariant(variant, resultsOf.checked);
    const runs = new Map<string, Drawn>([[name, run]]);
    const shown = panels(runs, resultsOf.checked, styles([name], keys.transports), { flow, link: null, span });
    return { shown: shown.filter((panel) => IN_REPLAY.includes(panel.id)), marks: marksOf(description, interruptions, flow), duration: description.duration_s };
  }, [run, resultsOf, variant.key, flow, interruptions.outages, interruptions.handoffs, span, keys]);
  if (!made || made.shown.length === 0) return null;
  const { marks, duration } = made;
  const shown = made.shown.filter(({ id }) => only === null || id === only);
  if (shown.length === 0) return <NoPanel asked={only} known={[...OTHER_PANELS.map(([id]) => id), ...made.shown.map(({ id }) => id)]} />;
  return (
    <section class="charts" aria-label="Curves">
      {only === null && <div class="toolbar"><Zoom span={span} duration={duration} whole="Whole run" show={show} /></div>}
      {shown.map((panel, place) => (
        <Chart key={panel.id} panel={panel} duration={duration} span={span} marks={marks} theme={theme} isLast={place === shown.length - 1} byClick zoom={show} />
      ))}
    </section>
  );
}

/** `only` is the name of a panel that is shown alone, in a frame. */
/** Packets on links, of one flow or of all: data that are made when they are asked for. */
function packetsOf([id, title]: [Panel["id"], string], trace: Trace, flow: number | null): Panel {
  const { flow: whose, enqueue_s: entered, ...columns } = trace.window.hops as Table;
  return {
    id, title, unit: "", time: [], lines: [], limit: null,
    get data() {
      const rows = [...(whose ?? []).keys()].filter((row) => flow === null || whose?.[row] === flow);
      return Object.fromEntries(Object.entries({ time_s: entered, ...(flow === null && { flow: whose }), ...columns }).map(([name, values]) => [name, Float64Array.from(rows, (row) => values?.[row] ?? Number.NaN)]));
    },
  };
}

/** What is taken along of Replay: a link, the diagram as it stands, one panel for another page. */
function TakeAlong({ stem, figure, packets, span }: { stem: string; figure: (panel: string) => string; packets: Panel[]; span: Span }) {
  const copied = useCopied();
  const save = async (isVector: boolean) => {
    const diagram = figure(OTHER_PANELS[1][0]);
    if (isVector) download(`${stem}.svg`, diagram, "image/svg+xml");
    else download(`${stem}.png`, await png(diagram));
    copied.setSaid("downloaded");
  };
  return (
    <section class="actions" aria-labelledby="actions-title">
      <h2 id="actions-title">Take it along</h2>
      <div class="row">
        <button type="button" onClick={async () => copied.copy("Link", await link())}>Copy link</button>
        <span class="gap" />
        <button type="button" onClick={() => save(true)}>Diagram (SVG)</button>
        <button type="button" onClick={() => save(false)}>Diagram (PNG)</button>
      </div>
      <OnePanel curves={packets} span={span} others={[]} stem={stem} picture={figure} copied={copied} />
      <Taken copied={copied} />
    </section>
  );
}

export function Replay({ theme, only = null }: { theme: string; only?: string | null }) {
  const state = useStore("checked", "source", "about", "seed", "senders", "helpers", "failure", "chosen");
  const { checked, source, about } = state;
  const [sender, setSender] = useChosen("sender");
  const [whole, setWhole] = useState<Window | null>(null);
  const [isWhole, setIsWhole] = useState(false);
  const [{ outages, handoffs }, setInterruptions] = useState<Interruptions>(NONE);
  const [share, setShare] = useState(0);
  const [askedFlow, chooseFlow] = useChosen("flow");
  const [first, setFirst] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [askedSpeed, chooseSpeed] = useChosen("speed");
  const [asked, setSpan] = useChosen("height");
  const [askedWhen] = useChosen("span");
  const [askedDiagram, setDiagram] = useChosen("diagram");
  const [time, setTime] = useState(clock.isSet ? clock.seconds : 0);
  const scene = useRef<HTMLCanvasElement>(null);
  const strip = useRef<HTMLCanvasElement>(null);
  const shown = useRef<HTMLOutputElement>(null);
  const head = useRef<HTMLSpanElement>(null);
  const diagram = useRef<HTMLCanvasElement>(null);
  const variants = variantsOf(state);
  const variant = variants.find((one) => one.key === sender) ?? variants[0] ?? { key: "", sender: "", helper: null };
  const used = variant.key;
  const duration = checked?.description.duration_s ?? 1;
  // Play may show the mean of all; here one is looked at.
  const wished = Number(askedFlow ?? Number.NaN);
  const flow = Number.isInteger(wished) && wished >= 0 && wished < (checked?.description.flows.length ?? 0) ? wished : first;
  const speed = speedOf(askedSpeed) ?? USUAL_SPEED;
  const run = useMemo((): RunOf | null => checked && { source, overrides: overridesFor(checked, variant), seed: state.seed, description: checked.description }, [checked, used, state.seed]);
  const { trace, failure, load, need } = usePackets(run, "window");
  const layout = useMemo(() => (checked ? new Layout(checked.description) : null), [checked]);
  const ink = useMemo(inkOf, [theme]);
  const isBytes = askedDiagram === "bytes" && checked !== null && hasDecisions(checked, flow);
  // Unless the user changes it, the diagram is as high as can be read.
  const usual = useMemo(() => {
    return trace ? readable(trace, flow, clock.seconds, isBytes ? READABLE_BYTES : READABLE) : 0.5;
  }, [trace, flow, isBytes]);
  const span = SPANS.find((one) => String(one) === asked) ?? usual;

  useEffect(() => {
    setWhole(null);
    setIsWhole(false);
    setShare(0);
    setInterruptions(NONE);
    if (!run) return;
    // A link, or a run that was longer, may have set a time that this one has not.
    if (clock.isSet && clock.seconds > duration) clock.set(duration);
    setTime(clock.isSet ? clock.seconds : 0);
    let isBegun = false;
    const before = (window: Window, isAll: boolean) => {
      setWhole(window);
      setIsWhole(isAll);
      if (isBegun) return;
      isBegun = true;
      // Begin where something is about to happen.
      const found = beginning(window);
      setFirst(found.flow);
      if (!clock.isSet) clock.suggest(found.time);
      setTime(Math.min(duration, clock.seconds));
    };
    void load(0, { told: (seconds) => setShare(seconds / duration), before });
    const { overrides, seed } = run;
    pool.interruptions({ source: run.source, overrides, seed }).then(setInterruptions, () => setInterruptions(NONE));
  }, [run]);

  const go = useCallback((to: number) => {
    clock.set(Math.min(duration, Math.max(0, to)));
    setTime(clock.seconds);
  }, [duration]);

  // A click into a curve moves the clock from outside.
  useEffect(() => clock.listen((seconds, from) => {
    if (from === null) return;
    setPlaying(false);
    setTime(Math.min(duration, seconds));
  }), [duration]);

  useEffect(() => {
    if (trace) need(time, Math.min(span, 1));
  }, [time, trace, span, need]);

  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    let before = performance.now();
    let told = 0;
    const tick = (now: number) => {
      const passed = Math.min(0.1, Math.max(0, now - before) / 1000) * speed;
      before = now;
      // The clock stands while packets are fetched.
      const known = trace ? trace.window.to_s : 0;
      clock.set(Math.min(clock.seconds + passed, Math.max(clock.seconds, known), duration));
      paint();
      if (now - told > 250) {
        told = now;
        setTime(clock.seconds);
      }
      if (clock.seconds >= duration) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, trace, span, flow, isBytes, ink, outages, duration]);

  const paint = () => {
    if (!trace || !checked || !layout) return;
    const fitted = scene.current && fit(scene.current);
    if (fitted && scene.current) {
      const drawn = draw(...fitted, { trace, description: checked.description, layout, outages, time: clock.seconds, fade: LINGER * speed, flow }, ink);
      scene.current.dataset["packets"] = String(drawn);
    }
    const other = diagram.current && fit(diagram.current);
    if (other && isBytes) drawBytes(...other, { trace, flow, time: clock.seconds, span }, ink);
    else if (other) drawSequence(...other, { trace, declarations: about.declarations, flow, ends: endsOf(checked, flow), time: clock.seconds, span }, ink);
    if (shown.current) shown.current.textContent = `${clock.seconds.toFixed(speed < 0.05 ? 4 : 2)} s`;
    // What moves by a transform needs no new layout.
    if (head.current) head.current.style.transform = `translateX(${(clock.seconds / duration) * 100}%)`;
  };
  /** The path or the diagram as it stands, as SVG. */
  const picture = (panel: string): string => {
    const isPath = panel === OTHER_PANELS[0][0];
    const canvas = isPath ? scene.current : diagram.current;
    const box = canvas && fit(canvas);
    if (!box || !trace || !checked || !layout) return "";
    const [, width, height] = box;
    const pen = new SvgPen();
    if (isPath) draw(pen, width, height, { trace, description: checked.description, layout, outages, time: clock.seconds, fade: LINGER * speed, flow }, ink);
    else if (isBytes) drawBytes(pen, width, height, { trace, flow, time: clock.seconds, span }, ink);
    else drawSequence(pen, width, height, { trace, declarations: about.declarations, flow, ends: endsOf(checked, flow), time: clock.seconds, span }, ink);
    return pen.picture(width, height, ink.paper);
  };
  const paintStrip = () => {
    if (strip.current && whole) drawStrip(strip.current, whole, duration, [...outages, ...handoffs], about.declarations.causes.map((one) => one.name), ink);
  };
  // While it plays, every frame paints by itself. The picture and the page around it change in one frame.
  useLayoutEffect(() => {
    if (!playing) paint();
  });
  useEffect(paintStrip, [whole, trace !== null, outages, handoffs, ink]);
  useEffect(() => {
    const again = () => {
      paint();
      paintStrip();
    };
    window.addEventListener("resize", again);
    return () => window.removeEventListener("resize", again);
  });

  // To drag over the bytes shows what was dragged over; a click moves the clock.
  const drag = (event: PointerEvent) => {
    const canvas = diagram.current;
    if (!canvas) return;
    canvas.setPointerCapture(event.pointerId);
    const box = canvas.getBoundingClientRect();
    const [from, to] = timesOf(clock.seconds, span);
    const at = (x: number) => timeAt((x - box.left) / textScale(), box.width / textScale(), [from, to]);
    const begin = event.clientX;
    canvas.addEventListener("pointerup", ({ clientX }) => {
      const [least, most] = [Math.min(at(begin), at(clientX)), Math.max(at(begin), at(clientX))];
      if (Math.abs(clientX - begin) < LEAST_DRAG) return go(most);
      const wide = SPANS.find((one) => one >= most - least) ?? span;
      setSpan(String(wide));
      go(least + PAST * wide);
    }, { once: true });
  };
  const stepOn = (way: number) => {
    if (!trace) return;
    setPlaying(false);
    const place = way > 0 ? upTo(trace.events, clock.seconds + 1e-10) : upTo(trace.events, clock.seconds - 1e-10) - 1;
    const next = trace.events[place];
    if (next !== undefined) go(next);
  };
  const jump = (times: Float64Array, way: number) => {
    const next = times[way > 0 ? upTo(times, clock.seconds + 1e-9) : upTo(times, clock.seconds - 1e-9) - 1];
    if (next === undefined) return;
    setPlaying(false);
    go(next);
  };
  const kinds = useMemo(
    () => (whole && checked ? eventsOf(whole, checked.description, about.declarations, { outages, handoffs }, flow) : []),
    [whole, checked, outages, handoffs, flow],
  );
  const usualWhen = useMemo(() => (checked ? usualSpan(marksOf(checked.description, { outages, handoffs }, flow), duration) : null), [checked, outages, handoffs, flow, duration]);
  const seen = useMemo(() => seenSpan(askedWhen, usualWhen, duration), [askedWhen, usualWhen, duration]);
  const show = useCallback((next: Span | null) => showSpan(next, usualWhen), [usualWhen]);
  const moments = useMemo(() => {
    if (!whole) return null;
    const timeouts = momentsOf(whole.decisions, flow).filter((moment) => moment.decision === 1).map((moment) => moment.time);
    const whose = columnOf(whole.losses, "flow");
    const ends = state.checked?.description.flows[flow];
    const mine = columnOf(whole.collisions, "flow");
    const [starts, meets] = [columnOf(whole.collisions, "from"), columnOf(whole.collisions, "at")];
    return {
      // Of the frames of a flow those with its packets, and the others of its ends: acknowledgements and RTS have none.
      collisions: columnOf(whole.collisions, "time_s").filter((_, row) => mine[row] === flow || (Number.isNaN(mine[row]) && [ends?.source, ends?.sink].some((end) => end === starts[row] || end === meets[row]))).sort(),
      hasCollisions: columnOf(whole.collisions, "time_s").length > 0,
      losses: columnOf(whole.losses, "time_s").filter((_, row) => whose[row] === flow).sort(),
      timeouts: Float64Array.from(timeouts).sort(),
      handoffs: Float64Array.from(new Set([...outages, ...handoffs].map(([, start]) => start))).sort(),
    };
  }, [whole, outages, handoffs, flow]);

  if (!checked || state.failure) {
    const words = <p class="message note">{state.failure ? "The scenario has a mistake: see Play." : "Loading the simulator …"}</p>;
    return only === null ? <main id="main" class="replay" tabIndex={-1}>{words}</main> : words;
  }
  const { flows, nodes } = checked.description;
  const isAway = trace !== null && !covers(trace, time, duration);
  const has = (panel: string) => only === null || only === panel;
  const Whole = only === null ? "main" : "div";
  return (
    <Whole {...(only === null && { id: "main", tabIndex: -1 })} class="replay">
      {only === null && <div class="head">
        <h2 class="name">{checked.description.name}</h2>
        <label class="field inline"><span>Sender</span>
          <select value={used} onChange={(event) => setSender(event.currentTarget.value)}>
            {variants.map((one) => <option key={one.key} value={one.key}>{shownVariant(one, checked)}</option>)}
          </select>
        </label>
        <label class="field inline"><span>Flow</span>
          <select value={flow} onChange={(event) => chooseFlow(event.currentTarget.value)}>
            {flows.slice(0, 200).map((one, index) => <option key={one.name} value={index}>{one.name}</option>)}
          </select>
        </label>
        <span class="took">seed {state.seed}</span>
        {trace && !isWhole && (
          <div class="progress"><progress max={1} value={share} aria-label="Progress of the run" /><span role="status">The run continues: this is its beginning.</span></div>
        )}
      </div>}
      {failure && <pre class="message bad" role="alert">{failure}</pre>}
      {!trace && !failure && (
        <div class="progress"><progress max={1} value={share} aria-label="Progress of the run" /><span>{Math.round(share * 100)} %</span></div>
      )}
      {trace && moments && (
        <>
          <div class="player" role="group" aria-label="Player">
            <button type="button" class="main" onClick={() => setPlaying(!playing)}>{playing ? "Pause" : "Play"}</button>
            <button type="button" onClick={() => stepOn(-1)} aria-label="One event back">‹</button>
            <button type="button" onClick={() => stepOn(1)} aria-label="One event on">›</button>
            <label class="field inline"><span>Speed</span>
              <select value={speed} onChange={(event) => chooseSpeed(event.currentTarget.value)}>
                {SPEEDS.map(([name, value]) => <option key={name} value={value}>{name}</option>)}
              </select>
            </label>
            {([["loss", moments.losses], ["timeout", moments.timeouts], ["handoff", moments.handoffs], ...(moments.hasCollisions ? [["collision", moments.collisions] as const] : [])] as const).map(([what, times]) => (
              <span key={what} class="jump">
                <button type="button" disabled={times.length === 0} aria-label={`Previous ${what}`} title={`Previous ${what}`} onClick={() => jump(times, -1)}>‹</button>
                <button type="button" disabled={times.length === 0} onClick={() => jump(times, 1)}>Next {what}</button>
              </span>
            ))}
            <output class="clock" ref={shown} />
          </div>
          {isAway && isWhole && <p class="took" role="status">Running to this time …</p>}
          {has("scene") && <canvas ref={scene} class="scene" role="img" aria-label={`The path: ${nodes.length} nodes, ${checked.description.links.length} links, ${flows.length} flows, at ${time.toFixed(2)} s`} />}
          {has("scene") && <PacketLegend trace={trace} flow={flows[flow]?.name} />}
          <div class="timeline">
            <div class="strip" aria-hidden="true"><canvas ref={strip} /><span ref={head} /></div>
            <input type="range" min={0} max={duration} step={10 ** Math.floor(Math.log10(duration / 1000))} value={time} aria-label="Time in the run" aria-valuetext={`${time.toFixed(3)} seconds`} onInput={(event) => { setPlaying(false); go(Number(event.currentTarget.value)); }} />
            <p class="foot">Losses in queues above the middle, in the air below; grey where a link is down, a host changes its access point, or a flow its path.</p>
          </div>
          {has("diagram") && <section aria-labelledby="sequence-title">
            <div class="head">
              <h2 id="sequence-title">{flows[flow]?.name}, {isBytes ? "bytes over time" : "packet by packet"}</h2>
              {hasDecisions(checked, flow) && (
                <label class="field inline"><span>Diagram</span>
                  <select value={isBytes ? "bytes" : ""} onChange={(event) => { setDiagram(event.currentTarget.value || null); setSpan(null); }}>
                    <option value="">packets between the ends</option>
                    <option value="bytes">bytes over time</option>
                  </select>
                </label>
              )}
              <label class="field inline"><span>{isBytes ? "Width" : "Height"}</span>
                <select value={span} onChange={(event) => setSpan(event.currentTarget.value)}>{SPANS.map((one) => <option key={one} value={one}>{one} s</option>)}</select>
              </label>
            </div>
            <canvas
              ref={diagram} class="diagram" role="img" onPointerDown={isBytes ? drag : undefined}
              aria-label={isBytes ? `Bytes of ${flows[flow]?.name} over time, ${describe(seenOf({ trace, flow, time, span }), (ack) => trace.blocks(ack))}` : `Sequence diagram of ${flows[flow]?.name} around ${time.toFixed(3)} s${only === null ? "; the table below has its decisions in words" : ""}`}
            />
            {isBytes && (
              <p class="legend">
                <span><i class="bar" /> sent</span><span><i class="bar thick" /> retransmitted</span><span><i class="cross">×</i> lost</span><span><i class="line" /> acknowledged up to here</span>
                <span><i class="band" /> congestion window</span><span><i class="dashes" /> receiver window</span><span><i class="bar accent" /> reported by SACK</span><span>as the sender sees it; drag to look closer</span>
              </p>
            )}
          </section>}
          <Curves variant={variant} flow={flow} interruptions={{ outages, handoffs }} theme={theme} span={seen} show={show} only={only} />
          {only === null && <Events kinds={kinds} span={seen ?? [0, duration]} of={flows[flow]?.name ?? ""} theme={theme} />}
          {only === null && whole && hasDecisions(checked, flow) && <Beliefs decisions={whole.decisions} isWhole={isWhole} checked={checked} names={about.declarations.causes} time={time} go={go} flow={flow} />}
          {only === null && <TakeAlong stem={`${checked.description.name}-${time.toFixed(3)}`} figure={picture} packets={[packetsOf(OTHER_PANELS[1], trace, flow), packetsOf(OTHER_PANELS[0], trace, null)]} span={timesOf(clock.seconds, span)} />}
        </>
      )}
    </Whole>
  );
}
