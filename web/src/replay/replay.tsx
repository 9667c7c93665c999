// Replay: the packets of one run on their way, and what a sender made of what it saw. The run is repeated in a worker for
// each window of time, so that no trace is kept.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Cancelled, EngineError } from "../engine/pool";
import type { Checked, Interruptions, Table, Window } from "../engine/types";
import { overridesFor, pool, shownVariant, useStore, variantsOf } from "../model/store";
import { columnOf, inWords, momentsOf, placeOf, Trace, upTo, type Moment } from "../model/trace";
import { COLOURS, textScale } from "../model/style";
import { Layout } from "./layout";
import { draw, type Ink } from "./scene";
import { drawSequence } from "./sequence";

/** Packets on links of one window. */
const MOST = 200_000;
const SPEEDS: [string, number][] = [["real time", 1], ["1/10", 0.1], ["1/100", 0.01], ["1/1000", 0.001]];
const SPANS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
/** Packets that a sequence diagram holds and can still be read. */
const READABLE = 90;
/** Rows of the table of decisions. */
const SHOWN = 8;
/** A loss is visible for this many seconds of real time. */
const LINGER = 0.6;

const NONE: Interruptions = { outages: [], handoffs: [] };

function inkOf(): Ink {
  const of = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { paper: of("--card"), ink: of("--ink"), muted: of("--muted"), faint: of("--faint"), rule: of("--rule"), bad: of("--bad"), flows: COLOURS.map((_, style) => of(`--line-${style}`)) };
}

/** Fits a canvas to its box; returns its context and size in pixels of a page whose text has the usual size. */
function fit(canvas: HTMLCanvasElement): [CanvasRenderingContext2D, number, number] | null {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [wide, high] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const larger = textScale();
  context.setTransform(devicePixelRatio * larger, 0, 0, devicePixelRatio * larger, 0, 0);
  return [context, width / larger, height / larger];
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
  const most = Math.max(1, ...bins.map((list) => list.reduce((best, one) => Math.max(best, one), 0)));
  const middle = height / 2;
  bins.forEach((list, side) => {
    context.fillStyle = side === 0 ? ink.ink : ink.bad;
    list.forEach((count, place) => {
      const size = Math.sqrt(count / most) * (middle - 3);
      if (count > 0) context.fillRect(place, side === 0 ? middle - size : middle, 1, Math.max(1.5, size));
    });
  });
}

function Beliefs({ decisions, checked, names, time, go, flow }: { decisions: Table; checked: Checked; names: { name: string; help: string }[]; time: number; go: (time: number) => void; flow: number }) {
  const declarations = { columns: [], steps: {}, causes: names, kinds: [] };
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
        <div class="scroll" role="region" aria-labelledby="decisions-title" tabIndex={0}>
          <table class="plain">
            <thead><tr><th scope="col">Time</th><th scope="col">Saw</th><th scope="col">Took it for</th><th scope="col">Really</th></tr></thead>
            <tbody>{shown.map(row)}{shown.length === 0 && <tr><td colSpan={4}>No loss was noticed before this time.</td></tr>}</tbody>
          </table>
        </div>
      </section>
      <section aria-labelledby="truth-title">
        <h2 id="truth-title">All flows, the whole run: what their reactions answered</h2>
        <div class="scroll" role="region" aria-labelledby="truth-title" tabIndex={0}>
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

export function Replay({ theme }: { theme: string }) {
  const state = useStore();
  const { checked, source, about } = state;
  const [sender, setSender] = useState("");
  const [whole, setWhole] = useState<Window | null>(null);
  const [trace, setTrace] = useState<Trace | null>(null);
  const [{ outages, handoffs }, setInterruptions] = useState<Interruptions>(NONE);
  const [copies, setCopies] = useState<number[]>([0, 0]);
  const [share, setShare] = useState(0);
  const [failure, setFailure] = useState<string | null>(null);
  const [flow, setFlow] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(0.01);
  const [asked, setSpan] = useState<number | null>(null);
  const [time, setTime] = useState(0);
  const clock = useRef(0);
  const loading = useRef(false);
  const scene = useRef<HTMLCanvasElement>(null);
  const strip = useRef<HTMLCanvasElement>(null);
  const shown = useRef<HTMLOutputElement>(null);
  const head = useRef<HTMLSpanElement>(null);
  const diagram = useRef<HTMLCanvasElement>(null);
  const variants = variantsOf(state);
  const variant = variants.find((one) => one.key === sender) ?? variants[0] ?? { key: "", sender: "", helper: null };
  const used = variant.key;
  const duration = checked?.description.duration_s ?? 1;
  const layout = useMemo(() => (checked ? new Layout(checked.description) : null), [checked]);
  const ink = useMemo(inkOf, [theme]);
  // Unless the user changes it, the diagram is as high as can be read.
  const usual = useMemo(() => {
    if (!trace) return 0.5;
    const sent = trace.journeys(flow).filter((one) => !one.back);
    const rate = sent.length / Math.max(1e-9, (sent.at(-1)?.sent ?? 1) - (sent[0]?.sent ?? 0));
    return [...SPANS].reverse().find((one) => one * rate <= READABLE / 2) ?? (SPANS[0] as number);
  }, [trace, flow]);
  const span = asked ?? usual;

  const load = useCallback(
    async (from: number, isFirst: boolean) => {
      if (!checked || loading.current) return;
      loading.current = true;
      const job = { source, overrides: overridesFor(checked, variant), seed: state.seed, from_s: from, to_s: duration, most: MOST };
      try {
        const window = await pool.window(job, (seconds) => isFirst && setShare(seconds / duration));
        if (isFirst) {
          setWhole(window);
          // Begin where something is about to happen.
          const [first] = columnOf(window.decisions, "time_s");
          clock.current = first === undefined ? 0 : Math.max(0, first - 0.05);
          setTime(clock.current);
        }
        const made = new Trace(window, checked.description);
        setTrace(made);
        setCopies([1, 2].map((kind) => made.copies.reduce((total, one) => total + (one === kind ? 1 : 0), 0)));
      } catch (error) {
        if (!(error instanceof Cancelled)) setFailure(error instanceof EngineError ? error.failure.text : String(error));
      } finally {
        loading.current = false;
      }
    },
    [checked, source, used, state.seed, duration],
  );

  useEffect(() => {
    setWhole(null);
    setTrace(null);
    setFailure(null);
    setShare(0);
    setInterruptions(NONE);
    if (!checked) return;
    clock.current = 0;
    setTime(0);
    void load(0, true);
    pool.interruptions({ source, overrides: overridesFor(checked, variant), seed: state.seed }).then(setInterruptions, () => setInterruptions(NONE));
    return () => {
      pool.cancel("window");
      loading.current = false;
    };
  }, [checked, used, state.seed]);

  const go = useCallback((to: number) => {
    clock.current = Math.min(duration, Math.max(0, to));
    setTime(clock.current);
  }, [duration]);

  // What is needed next is fetched before the clock gets there.
  useEffect(() => {
    if (!trace || loading.current) return;
    const { from_s, to_s } = trace.window;
    const isOutside = time < from_s || (time >= to_s && to_s < duration);
    if (isOutside) void load(Math.max(0, time - Math.min(span, 1)), false);
  }, [time, trace, span, duration, load]);

  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    let before = performance.now();
    let told = 0;
    const tick = (now: number) => {
      const passed = Math.min(0.1, (now - before) / 1000) * speed;
      before = now;
      // The clock stands while packets are fetched.
      const known = trace ? trace.window.to_s : 0;
      clock.current = Math.min(clock.current + passed, Math.max(clock.current, known), duration);
      paint();
      if (now - told > 250) {
        told = now;
        setTime(clock.current);
      }
      if (clock.current >= duration) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, trace, span, flow, ink, outages, duration]);

  const paint = () => {
    if (!trace || !checked || !layout) return;
    const fitted = scene.current && fit(scene.current);
    if (fitted && scene.current) {
      const drawn = draw(...fitted, { trace, description: checked.description, layout, outages, time: clock.current, fade: LINGER * speed, flow }, ink);
      scene.current.dataset["packets"] = String(drawn);
    }
    const other = diagram.current && fit(diagram.current);
    if (other) drawSequence(...other, { trace, declarations: about.declarations, flow, time: clock.current, span }, ink);
    if (shown.current) shown.current.textContent = `${clock.current.toFixed(speed < 0.05 ? 4 : 2)} s`;
    // What moves by a transform needs no new layout.
    if (head.current) head.current.style.transform = `translateX(${(clock.current / duration) * 100}%)`;
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

  const stepOn = (way: number) => {
    if (!trace) return;
    setPlaying(false);
    const place = way > 0 ? upTo(trace.events, clock.current + 1e-10) : upTo(trace.events, clock.current - 1e-10) - 1;
    const next = trace.events[place];
    if (next !== undefined) go(next);
  };
  const jump = (times: Float64Array) => {
    const next = times[upTo(times, clock.current + 1e-9)];
    if (next !== undefined) go(next);
  };
  const moments = useMemo(() => {
    if (!whole) return null;
    const timeouts = momentsOf(whole.decisions, null).filter((moment) => moment.decision === 1).map((moment) => moment.time);
    return {
      losses: Float64Array.from(columnOf(whole.losses, "time_s")).sort(),
      timeouts: Float64Array.from(timeouts).sort(),
      handoffs: Float64Array.from(new Set([...outages, ...handoffs].map(([, start]) => start))).sort(),
    };
  }, [whole, outages, handoffs]);

  if (!checked || state.failure) {
    return <main id="main" class="replay" tabIndex={-1}><p class="message note">{state.failure ? "The scenario has a mistake: see Play." : "Loading the simulator …"}</p></main>;
  }
  const { flows, nodes } = checked.description;
  const isAway = trace !== null && (time < trace.window.from_s || (time >= trace.window.to_s && trace.window.to_s < duration));
  return (
    <main id="main" class="replay" tabIndex={-1}>
      <div class="head">
        <h2 class="name">{checked.description.name}</h2>
        <label class="field inline"><span>Sender</span>
          <select value={used} onChange={(event) => setSender(event.currentTarget.value)}>
            {variants.map((one) => <option key={one.key} value={one.key}>{shownVariant(one, checked)}</option>)}
          </select>
        </label>
        <label class="field inline"><span>Flow</span>
          <select value={flow} onChange={(event) => setFlow(Number(event.currentTarget.value))}>
            {flows.slice(0, 200).map((one, index) => <option key={one.name} value={index}>{one.name}</option>)}
          </select>
        </label>
        <span class="took">seed {state.seed}</span>
      </div>
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
              <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
                {SPEEDS.map(([name, value]) => <option key={name} value={value}>{name}</option>)}
              </select>
            </label>
            <button type="button" disabled={moments.losses.length === 0} onClick={() => jump(moments.losses)}>Next loss</button>
            <button type="button" disabled={moments.timeouts.length === 0} onClick={() => jump(moments.timeouts)}>Next timeout</button>
            <button type="button" disabled={moments.handoffs.length === 0} onClick={() => jump(moments.handoffs)}>Next handoff</button>
            <output class="clock" ref={shown} />
          </div>
          {isAway && <p class="took" role="status">Running to this time …</p>}
          <canvas ref={scene} class="scene" role="img" aria-label={`The path: ${nodes.length} nodes, ${checked.description.links.length} links, ${flows.length} flows, at ${time.toFixed(2)} s`} />
          <p class="legend">
            <span><i class="dot" /> data</span><span><i class="dot small" /> ACK</span><span><i class="square" /> sent again</span>
            <span><i class="diamond" /> marked</span><span><i class="triangle" /> sent again by the network: <b data-copies="repairs">{copies[0]?.toLocaleString("en-GB")}</b> in this window</span><span><i class="twice" /> duplicated: <b data-copies="duplicates">{copies[1]?.toLocaleString("en-GB")}</b></span><span><i class="cross">×</i> lost</span><span>colour: flow; ringed: {flows[flow]?.name}</span>
          </p>
          <div class="timeline">
            <div class="strip" aria-hidden="true"><canvas ref={strip} /><span ref={head} /></div>
            <input type="range" min={0} max={duration} step={10 ** Math.floor(Math.log10(duration / 1000))} value={time} aria-label="Time in the run" aria-valuetext={`${time.toFixed(3)} seconds`} onInput={(event) => { setPlaying(false); go(Number(event.currentTarget.value)); }} />
            <p class="foot">Losses in queues above the middle, in the air below; grey where a link is down or a host changes its access point.</p>
          </div>
          <section aria-labelledby="sequence-title">
            <div class="head">
              <h2 id="sequence-title">{flows[flow]?.name}, packet by packet</h2>
              <label class="field inline"><span>Height</span>
                <select value={span} onChange={(event) => setSpan(Number(event.currentTarget.value))}>{SPANS.map((one) => <option key={one} value={one}>{one} s</option>)}</select>
              </label>
            </div>
            <canvas ref={diagram} class="diagram" role="img" aria-label={`Sequence diagram of ${flows[flow]?.name} around ${time.toFixed(3)} s; the table below has its decisions in words`} />
          </section>
          {whole && <Beliefs decisions={whole.decisions} checked={checked} names={about.declarations.causes} time={time} go={go} flow={flow} />}
        </>
      )}
    </main>
  );
}
