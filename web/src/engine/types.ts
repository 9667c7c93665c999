// What the page and its workers tell each other, and the objects that the engine makes.

/** A scenario as the reader of the engine takes it. */
export interface Source {
  /** Stands for the file in messages, and names the run unless the scenario does. */
  name: string;
  text: string;
  /** Whether the text is JSON. */
  json?: boolean;
  /** Texts of the files that it names. */
  files: Record<string, string>;
}

export type Overrides = [path: string, value: string][];

export interface Failure {
  kind: "scenario" | "run" | "edit" | "table" | "capture" | "call";
  message: string;
  text: string;
  place?: string;
}

export interface Description {
  name: string;
  seed: number;
  duration_s: number;
  warmup_s: number;
  series_interval_s: number;
  nodes: string[];
  /** `windowed`: it has a congestion window, and decides on it. */
  flows: { name: string; source: number; sink: number; transport: string; windowed: boolean }[];
  links: LinkDescription[];
  stations: { node: number; medium: string; access_point: boolean; track: [number, number, number][] }[];
  /** Access points and how far they reach. */
  cells: { node: number; name: string; range_m: number }[];
  advice: string[];
}

export interface LinkDescription {
  name: string;
  from: number;
  to: number;
  radio: boolean;
  forward: DirectionDescription;
  reverse: DirectionDescription;
}

export interface DirectionDescription {
  rate_bit_s: number;
  delay_s: number;
  queue_limit_packets: number | null;
}

export interface Column {
  table: string;
  name: string;
  path: string[];
  group: string | null;
  kind: string;
  unit: string;
  share: boolean;
  label: string;
  help: string;
  higher_is_better: boolean | null;
  over: string;
  compared: boolean;
  shown: boolean;
  more: string;
  less: string;
  times: string;
  whole: string;
}

export interface Declarations {
  columns: Column[];
  causes: { name: string; help: string }[];
  kinds: string[];
}

/** The summary of a run, as in `runs` of `lasthop run --json`. */
export type Summary = {
  seed: number;
  fingerprint: string;
  wall_s: number;
  packet_hops: number;
  duration_s: number;
  totals: Record<string, unknown>;
  flows: Record<string, unknown>[];
  links: Record<string, unknown>[];
} & Record<string, unknown>;

export interface Series {
  flows: Record<string, Float64Array>;
  links: Record<string, Float64Array>;
  /** Of radio directions, all of an interval one after the other; of a finished run alone. */
  radios: Record<string, Float64Array>;
  /** What devices counted, over all directions, interval by interval; of a finished run alone. */
  helpers: Record<string, Float64Array>;
}

export interface RunResult {
  summary: Summary;
  series: Series | null;
  /** What the worker needed, in ms. */
  took_ms: number;
}

export type Table = Record<string, Float64Array>;

export interface Window {
  fingerprint: string;
  from_s: number;
  to_s: number;
  hops: Table;
  /** SACK blocks: the row in `hops` of their ACK, the first byte and the one behind the last. */
  sacks: Table;
  windows: Table;
  losses: Table;
  decisions: Table;
  /** Of the whole run, or so far while it goes on, if they were asked for: frames that met another where they were to be read, packets that were
   * marked, and data that the network sent again. */
  collisions: Table;
  marks: Table;
  repairs: Table;
  /** Of the engine, which never gives any back. */
  memory_bytes: number;
  /** Packets on links in the whole run. */
  seen: number;
  took_ms: number;
}

/** Of a run: when which direction is down, and when which host changes its access point. In seconds. */
export interface Interruptions {
  outages: [direction: number, start: number, end: number][];
  handoffs: [host: number, leaves: number, joins: number][];
}

export interface Checked {
  description: Description;
  json: string;
}

/** A column of numbers, with NaN where there is none; or of texts, with -1. */
export type ReadColumn = Float64Array | { codes: Int32Array; texts: string[] };

/** A Parquet table. */
export interface ReadTable {
  rows: number;
  columns: Record<string, ReadColumn>;
  /** Label, unit and so on of each column, as far as the file says them. */
  said: Record<string, Record<string, string>>;
  /** What a paper's file says of its axes and series, as JSON; null if it says nothing. */
  words: string | null;
}

/** A connection of a capture, as `lasthop from-capture --json` has it: pairs are of the way of its first packet, and back. */
export interface CapturedFlow {
  from: string;
  from_port: number;
  to: string;
  to_port: number;
  transport: "tcp" | "udp";
  start_s: number;
  length_s: number;
  packets: [number, number];
  payload: [number, number];
  data_forward: boolean;
}

/** What `lasthop from-capture --json` prints, as far as the page reads it. */
export interface CaptureFound {
  packets: number;
  others: number;
  truncated: boolean;
  seen_twice_on: number[];
  length_s: number;
  from: string;
  to: string;
  flows: CapturedFlow[];
  path: { captured_near: "sender" | "receiver" | null } & Record<string, unknown>;
}

/** A table whose columns are known. */
export type Columns<Name extends string> = Record<Name, Float64Array>;

/** One way of a connection over time, as the engine hands it over (`Way::tables` in over_time.rs): segments, with whether
 * they were sent once more or late; acknowledgements, with the end of the window; SACK blocks; round trips. */
export interface CapturedWay {
  segments: Columns<"time_s" | "begin" | "end" | "again">;
  acks: Columns<"time_s" | "ack" | "limit">;
  sacks: Columns<"time_s" | "begin" | "end">;
  trips: Columns<"time_s" | "rtt_s">;
}

export interface CaptureRead {
  name: string;
  found: CaptureFound;
  figures: { name: string; value: string; surely: string }[];
  /** The path as a scenario, the connections that its flows are, and the node where the capture was taken. */
  scenario: { text: string; flows: number[]; node: string | null; lacks: string };
  chosen: { flow: number; forward: boolean };
  way: CapturedWay;
}

/** A connection as a stack logged it. */
export interface QlogRead {
  name: string;
  /** The traces of the file, and the number of the one that is shown. */
  traces: string[];
  chosen: number;
  truncated: boolean;
  length_s: number;
  sent: number;
  received: number;
  lost: number;
  bytes: number;
  /** Whether `way` is what was sent, not what was received: whichever is more. */
  is_sender: boolean;
  /** Bytes of packets in the order in which they left; `again` says that a packet was declared lost. */
  way: CapturedWay;
  /** Congestion window and bytes in flight. */
  said: Columns<"time_s" | "window" | "flight">;
}

/** A simulation, captured and read like the file. */
export interface SimulatedRead {
  found: CaptureFound;
  beside: { name: string; first: string; second: string; said: string; apart: number }[];
  way: CapturedWay | null;
}

export type Job =
  | { op: "capture"; file: Blob; name: string; key: string; only: number | null; way: { flow: number; forward: boolean } | null }
  | { op: "qlog"; file: Blob; name: string; trace: number }
  | { op: "simulated"; source: Source; overrides: Overrides; seed: number; node: string; flow: number; found: string | null }
  | { op: "check"; source: Source; overrides: Overrides }
  | { op: "run"; source: Source; overrides: Overrides; seed: number; series: boolean }
  | { op: "window"; source: Source; overrides: Overrides; seed: number; from_s: number; to_s: number; most: number; looks_at_all: boolean; so_far: boolean }
  | { op: "interruptions"; source: Source; overrides: Overrides; seed: number }
  | { op: "set"; text: string; path: string; value: string | null }
  | { op: "table"; bytes: ArrayBuffer };

/** What the engine says of itself: web/engine/about.json, written by web/tools/about.mjs. */
export interface About {
  version: string;
  schema: Record<string, unknown>;
  declarations: Declarations;
  helpers: { name: string; summary: string; stands: string }[];
  /** Quantiles 0.975 of Student's t for 1, 2, ... degrees of freedom. */
  student: number[];
  /** The scenario that is shown first, as the engine reads it, and what interrupts the run of its seed 1. */
  first: { id: string; checked: Checked; interruptions: Interruptions };
}

export type Answer =
  | { id: number; kind: "progress"; seconds: number; passed_ms: number; begun?: Series | Window }
  | { id: number; kind: "done"; value: unknown }
  | { id: number; kind: "failed"; failure: Failure };
