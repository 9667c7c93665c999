// The engine's own thread: reads scenarios, runs them and hands arrays over. One call at a time; to cancel one, the page
// ends the worker.

import init, { Capture, Scenario, beside, removeValue, setValue } from "../../engine/lasthop_web.js";
import { Pace } from "./pace";
import { readTable, TableError } from "./parquet";
import { QlogError, readQlog } from "./qlog";
import type { CapturedWay, CaptureFound, CaptureRead, Failure, Interruptions, Job, Overrides, QlogRead, RunResult, Series, SimulatedRead, Source, Summary, Table, Window } from "./types";

const FLOW_COLUMNS = ["cwnd_segments", "ssthresh_segments", "srtt_s", "rtt_s", "flight_segments", "allowed_rate_bit_s", "throughput_bit_s", "goodput_bit_s",
  "arrived_packets", "delay_s", "lost_packets", "settled_packets", "timely_packets", "stall_s",
  "video_rate_bit_s", "frame_delay_s", "video_buffer_s", "shown_frames"];
const RADIO_COLUMNS = ["direction", "attempts", "repetitions", "collisions"];
const LINK_COLUMNS = ["queue_packets", "throughput_bit_s", "utilisation"];
const WINDOW_COLUMNS: Record<string, string[]> = {
  hops: ["packet", "flow", "direction", "kind", "seq", "ack", "payload_bytes", "wire_bytes", "window_bytes", "back", "again", "marked",
    "enqueue_s", "transmit_s", "arrive_s", "outcome"],
  sacks: ["hop", "from", "to"],
  windows: ["time_s", "flow", "cwnd_segments", "ssthresh_segments"],
  losses: ["time_s", "flow", "direction", "seq", "cause", "data"],
  decisions: ["time_s", "flow", "seq", "before", "after", "decision", "belief", "truth"],
  collisions: ["time_s", "from", "at", "flow"],
  marks: ["time_s", "flow"],
  repairs: ["time_s", "flow"],
};

type Told = (seconds: number, begun?: Series | Window) => void;

let ready: ReturnType<typeof init> | null = null;
let memory: WebAssembly.Memory | null = null;

function open(source: Source, overrides: Overrides): Scenario {
  return new Scenario(source.text, source.json ?? false, source.name, JSON.stringify(overrides), JSON.stringify(source.files));
}

function table(of: string[], get: (name: string) => Float64Array | undefined): Table {
  return Object.fromEntries(of.map((name) => [name, get(name) ?? new Float64Array()]));
}

/** The pace of looks at a run that goes on. */
const LOOK = 100;
const REST = 30;
/** A window is shown so far after this time, in ms, once a sender has decided on anything; after the longer one anyhow. */
const FIRST = 600;
const ANYHOW = 1000;

function run(job: Extract<Job, { op: "run" }>, told: Told): RunResult {
  const started = performance.now();
  const scenario = open(job.source, job.overrides);
  const pace = new Pace(LOOK, REST, started + LOOK);
  let asked = started;
  const watch = (seconds: number, begun?: Pick<Series, "flows" | "links">): boolean => {
    const series = begun && { ...begun, radios: {}, helpers: {} };
    told(seconds, series);
    const now = performance.now();
    if (series) pace.took(asked, now);
    asked = now;
    return !series && job.series && pace.isDue(now);
  };
  try {
    const made = scenario.run(BigInt(job.seed), watch, job.series ? FLOW_COLUMNS : [], job.series ? LINK_COLUMNS : []);
    const summary = JSON.parse(made.summary()) as Summary;
    const series = job.series
      ? {
          flows: table(FLOW_COLUMNS, (name) => made.flowSeries(name)),
          links: table(LINK_COLUMNS, (name) => made.linkSeries(name)),
          radios: table(RADIO_COLUMNS, (name) => made.radioSeries(name)),
          helpers: made.helperSeries() as Table,
        }
      : null;
    made.free();
    return { summary, series, took_ms: performance.now() - started };
  } finally {
    scenario.free();
  }
}

function windowOf(job: Extract<Job, { op: "window" }>, told: Told): Window {
  const started = performance.now();
  const scenario = open(job.source, job.overrides);
  let isShown = !job.so_far;
  const watch = (seconds: number, known_s?: number, begun?: Record<string, Table>): number => {
    if (begun && known_s !== undefined) {
      isShown = true;
      // Of a run that goes on it is not known how many packets it has, nor which run it will have been.
      told(seconds, { fingerprint: "", from_s: job.from_s, to_s: known_s, seen: Number.POSITIVE_INFINITY, memory_bytes: 0, took_ms: performance.now() - started, ...begun } as Window);
      return 0;
    }
    told(seconds);
    const passed = performance.now() - started;
    return isShown || passed < FIRST ? 0 : passed < ANYHOW ? 1 : 2;
  };
  try {
    const made = scenario.replay(BigInt(job.seed), job.from_s, job.to_s, job.most, job.looks_at_all, watch, JSON.stringify(WINDOW_COLUMNS));
    const tables = Object.entries(WINDOW_COLUMNS).map(([name, columns]) => [name, table(columns, (column) => made.column(name, column))]);
    const window = { fingerprint: made.fingerprint, from_s: job.from_s, to_s: made.endS, seen: made.seen } as Window;
    Object.assign(window, Object.fromEntries(tables));
    made.free();
    window.memory_bytes = memory?.buffer.byteLength ?? 0;
    window.took_ms = performance.now() - started;
    return window;
  } finally {
    scenario.free();
  }
}

/** What was read last stays, for the next connection of it. */
let held: { key: string; capture: Capture } | null = null;

function captureOf(key: string, make: () => Capture): Capture {
  if (held?.key === key) return held.capture;
  held?.capture.free();
  held = null;
  held = { key, capture: make() };
  return held.capture;
}

function capture({ file, name, key, only, way }: Extract<Job, { op: "capture" }>): CaptureRead {
  const reader = new FileReaderSync();
  const piece = (at: number, size: number) => {
    try {
      return new Uint8Array(reader.readAsArrayBuffer(file.slice(at, at + size)));
    } catch {
      throw "the file cannot be read; it may have been moved or changed: open it again";
    }
  };
  const read = captureOf(`file ${key}`, () => new Capture(piece, only ?? undefined));
  const found = JSON.parse(read.found()) as CaptureFound;
  const sizes = found.flows.flatMap(({ payload }, flow) => [true, false].map((forward) => ({ flow, forward, size: payload[forward ? 0 : 1] ?? 0 })));
  const most = sizes.reduce((best, one) => (one.size > best.size ? one : best), { flow: 0, forward: true, size: -1 });
  const { flow, forward } = way && way.flow < found.flows.length ? way : most;
  return { name, found, figures: JSON.parse(read.figures()), scenario: JSON.parse(read.scenario(name)), chosen: { flow, forward }, way: read.way(flow, forward) as CapturedWay };
}

function qlog({ file, name, trace }: Extract<Job, { op: "qlog" }>): QlogRead {
  return readQlog({ size: file.size, text: () => new TextDecoder().decode(new FileReaderSync().readAsArrayBuffer(file)) }, name, trace);
}

function simulated({ source, overrides, seed, node, flow, found }: Extract<Job, { op: "simulated" }>): SimulatedRead {
  const read = captureOf(`simulated ${JSON.stringify([source.text, overrides, seed, node])}`, () => {
    const scenario = open(source, overrides);
    try {
      return scenario.capture(BigInt(seed), node);
    } finally {
      scenario.free();
    }
  });
  const [number, forward] = read.flowOf(flow);
  return {
    found: JSON.parse(read.found()),
    beside: found === null ? [] : JSON.parse(beside(found, read.found())),
    way: number === undefined ? null : (read.way(number, forward === 1) as CapturedWay),
  };
}

function answer(job: Job, told: Told): unknown {
  switch (job.op) {
    case "table":
      return readTable(job.bytes);
    case "capture":
      return capture(job);
    case "qlog":
      return qlog(job);
    case "simulated":
      return simulated(job);
    case "set":
      return job.value === null ? removeValue(job.text, job.path) : setValue(job.text, job.path, job.value);
    case "run":
      return run(job, told);
    case "window":
      return windowOf(job, told);
    case "interruptions": {
      const scenario = open(job.source, job.overrides);
      try {
        const seed = BigInt(job.seed);
        return { outages: JSON.parse(scenario.outages(seed)), handoffs: JSON.parse(scenario.handoffs(seed)) } satisfies Interruptions;
      } finally {
        scenario.free();
      }
    }
    case "check": {
      const scenario = open(job.source, job.overrides);
      try {
        return { description: JSON.parse(scenario.describe()), json: scenario.toJson() };
      } finally {
        scenario.free();
      }
    }
  }
}

/** The buffers in a value, to be handed over instead of copied. */
function buffers(value: unknown, found: Set<ArrayBuffer> = new Set()): Set<ArrayBuffer> {
  if (value instanceof Float64Array || value instanceof Int32Array) found.add(value.buffer as ArrayBuffer);
  else if (value && typeof value === "object") for (const inner of Object.values(value)) buffers(inner, found);
  return found;
}

function failureOf(error: unknown): Failure {
  if (typeof error === "string") return JSON.parse(error) as Failure;
  if (error instanceof QlogError) return { kind: "capture", message: error.message, text: error.message };
  if (error instanceof TableError) return { kind: "table", message: error.message, text: error.message };
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "call", message, text: `the engine stopped: ${message}` };
}

self.onmessage = async (event: MessageEvent<{ module: WebAssembly.Module } | { id: number; job: Job }>) => {
  const { data } = event;
  if ("module" in data) {
    ready = init({ module_or_path: data.module });
    return;
  }
  memory = (await ready)?.memory ?? null;
  const { id, job } = data;
  const started = performance.now();
  try {
    const value = await answer(job, (seconds, begun) => self.postMessage({ id, kind: "progress", seconds, begun, passed_ms: performance.now() - started }, { transfer: [...buffers(begun)] }));
    self.postMessage({ id, kind: "done", value }, { transfer: [...buffers(value)] });
  } catch (error) {
    self.postMessage({ id, kind: "failed", failure: failureOf(error) });
  }
};
