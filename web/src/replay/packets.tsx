// The packets of a run around a time, as Replay and the path of Play draw them: how fast time runs for that, windows of
// the trace, and what the marks mean. The run is repeated in a worker for each window, so that no trace is kept.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Cancelled, EngineError } from "../engine/pool";
import type { Description, Overrides, Source, Window } from "../engine/types";
import { pool } from "../model/store";
import { columnOf, Trace } from "../model/trace";

/** Simulated seconds in one of real time. */
export const SPEEDS: [string, number][] = [["real time", 1], ["1/10", 0.1], ["1/100", 0.01], ["1/1000", 0.001]];
/** Where time runs no faster than this, packets can be followed. */
export const SLOW = 0.1;
/** A loss is visible for this many seconds of real time. */
export const LINGER = 0.6;
/** Packets on links of one window. */
const MOST = 200_000;

/** The speed that was chosen, if it is one of them. */
export function speedOf(asked: string | null): number | undefined {
  return SPEEDS.find(([, value]) => String(value) === asked)?.[1];
}

/** The run whose packets are wanted. */
export interface RunOf {
  source: Source;
  overrides: Overrides;
  seed: number;
  description: Description;
}

/** What is told while a window is loaded, and what is done with it before it is shown. */
interface More {
  told?: (seconds: number) => void;
  before?: (window: Window, isWhole: boolean) => void;
}

export interface Packets {
  trace: Trace | null;
  failure: string | null;
  /** Whether a window is on its way. */
  isLoading: boolean;
  /** Loads the window that begins at a time, unless one is on its way. The first of a run has also what the whole run had;
   * if that takes long, its beginning is shown meanwhile. */
  load: (from: number, more?: More) => Promise<void>;
  /** Loads the window of a time, with this much before it, unless it is there. */
  need: (time: number, behind: number) => void;
}

/** Whether a trace has what happens at a time. */
export function covers({ window: { from_s, to_s } }: Trace, time: number, duration: number): boolean {
  return time >= from_s && (time < to_s || to_s >= duration);
}

/** `run` keeps its identity as long as it is the same run. Only `group` of the jobs is taken back. */
export function usePackets(run: RunOf | null, group: "window" | "packets"): Packets {
  const [trace, setTrace] = useState<Trace | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(false);
  const loading = useRef<object | null>(null);
  const shown = useRef<Trace | null>(null);
  const asked = useRef(Number.NaN);
  useEffect(() => {
    shown.current = null;
    asked.current = Number.NaN;
    setTrace(null);
    setFailure(null);
    return () => {
      loading.current = null;
      setLoading(false);
      pool.cancel(group);
    };
  }, [run, group]);
  const load = useCallback(async (from: number, { told, before }: More = {}) => {
    if (!run || loading.current) return;
    const mine = {};
    loading.current = mine;
    setLoading(true);
    const { source, overrides, seed, description } = run;
    // What the first window says of the whole run holds for all of them, and takes long.
    const first = shown.current?.window;
    const job = { source, overrides, seed, from_s: from, to_s: description.duration_s, most: MOST, looks_at_all: !first, so_far: !first };
    const take = (window: Window, isWhole: boolean) => {
      before?.(window, isWhole);
      shown.current = new Trace(window, description);
      setTrace(shown.current);
    };
    try {
      const loaded = await pool.window(job, group, (seconds, begun) => {
        if (loading.current !== mine) return;
        told?.(seconds);
        if (begun) take(begun, false);
      });
      if (loading.current !== mine) return;
      take(first ? { ...loaded, collisions: first.collisions, marks: first.marks, repairs: first.repairs } : loaded, true);
    } catch (error) {
      if (!(error instanceof Cancelled)) setFailure(error instanceof EngineError ? error.failure.text : String(error));
    } finally {
      if (loading.current === mine) {
        loading.current = null;
        setLoading(false);
      }
    }
  }, [run, group]);
  const need = useCallback((time: number, behind: number) => {
    const { current } = shown;
    if (!run || loading.current || (current && covers(current, time, run.description.duration_s))) return;
    // A run that fits into one window is had as a whole.
    const from = current && current.window.seen <= MOST ? 0 : Math.max(0, time - behind);
    // Of too many packets not even those of this time fit: to ask again would give the same.
    if (asked.current === from) return;
    asked.current = from;
    void load(from);
  }, [run, load]);
  return { trace, failure, isLoading, load, need };
}

/** What the marks on the links mean; without a trace, before the first is there, so that nothing moves when it comes. */
export function PacketLegend({ trace, flow }: { trace: Trace | null; flow: string | undefined }) {
  const [repairs, duplicates] = useMemo(() => [1, 2].map((kind) => trace?.copies.reduce((total, one) => total + (one === kind ? 1 : 0), 0).toLocaleString("en-GB") ?? "–"), [trace]);
  return (
    <p class="legend">
      <span><i class="dot" /> data</span><span><i class="dot small" /> ACK</span><span><i class="square" /> retransmission</span>
      <span><i class="diamond" /> marked</span><span><i class="triangle" /> retransmitted by the network: <b data-copies="repairs">{repairs}</b> in this window</span><span><i class="twice" /> duplicated: <b data-copies="duplicates">{duplicates}</b></span><span><i class="cross">×</i> lost</span>{trace && columnOf(trace.window.collisions, "time_s").length > 0 && <span><i class="cross">✳</i> a frame met another</span>}<span>colour: flow{flow && `; ringed: ${flow}`}</span>
    </p>
  );
}
