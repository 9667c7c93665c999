// Reads qlog (draft-ietf-quic-qlog-main-schema, version 0.3, and the two drafts before it that stacks still write): one
// JSON text, records apart by lines or by RS (RFC 7464). Of a trace it takes what a connection sent, what was
// acknowledged or declared lost, and what its controller said. It knows no other events, and no file is too odd for an
// error in words.
//
// Two things that quinn writes otherwise than the schema has them are read as they are meant: the length of a packet
// stands in its header, and RTT were in seconds until May 2026 (quinn-rs/quinn#2631), as those of noq.

import type { CapturedWay, Columns, QlogRead } from "./types";

/** Longest text that is read: it is held whole. */
const MOST_BYTES = 256 << 20;
/** Packets below the newest of a range that an acknowledgement may be the first to name. */
const MOST_OLD = 2000;
/** Kinds of packets whose numbers count by themselves. */
const SPACES: Record<string, string> = { initial: "initial", handshake: "handshake" };

/** What the event with window, RTT and flight has been called. */
const METRICS = /^(recovery_)?metrics?_updated?$/;

type Json = Record<string, unknown>;

/** What is wrong with a file, in words. */
export class QlogError extends Error {}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);
const objectOf = (value: unknown): Json => (isObject(value) ? value : {});
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function numberOf(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" && value !== "" ? Number(value) : Number.NaN;
}

/** The records of a file; one that was cut while it was written lacks the end of its last. */
function recordsOf(text: string): { records: unknown[]; truncated: boolean } {
  const begins = text.replace(/^\ufeff?\s*/, "");
  const apart = begins.startsWith("\u001e") ? "\u001e" : "\n";
  if (apart === "\n") {
    try {
      return { records: [JSON.parse(begins)], truncated: false };
    } catch {
      // Lines, or not JSON at all: the first line tells.
    }
  }
  const parts = begins.split(apart).map((part) => part.trim()).filter((part) => part !== "");
  const records: unknown[] = [];
  for (const [place, part] of parts.entries()) {
    try {
      records.push(JSON.parse(part));
    } catch (error) {
      if (place === parts.length - 1 && records.length > 0) return { records, truncated: true };
      throw new QlogError(`record ${place + 1} is no JSON: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { records, truncated: false };
}

interface Trace {
  title: string;
  events: unknown[];
  fields: string[] | null;
  common: Json;
  /** Seconds of a unit of time. */
  unit: number;
}

function traceOf(described: Json, title: string, events: unknown[]): Trace {
  const common = objectOf(described["common_fields"]);
  const configuration = objectOf(described["configuration"]);
  const units = textOf(configuration["time_units"] ?? common["time_units"]);
  const fields = described["event_fields"];
  return {
    title: textOf(described["title"]) || textOf(objectOf(described["vantage_point"])["name"]) || textOf(common["group_id"]) || textOf(common["ODCID"]) || title,
    events,
    fields: Array.isArray(fields) ? fields.map((one) => textOf(one).toLowerCase()) : null,
    common,
    unit: units === "us" ? 1e-6 : units === "s" ? 1 : 1e-3,
  };
}

function tracesOf(text: string): { traces: Trace[]; truncated: boolean } {
  const { records, truncated } = recordsOf(text);
  const head = objectOf(records[0]);
  if (!("qlog_version" in head) && !("qlog_format" in head) && !("file_schema" in head) && !("traces" in head)) {
    throw new QlogError("it does not begin with qlog_version: it is JSON of another kind");
  }
  const title = textOf(head["title"]);
  if (Array.isArray(head["traces"])) {
    const traces = head["traces"].filter(isObject).filter((one) => Array.isArray(one["events"]));
    return { traces: traces.map((one, place) => traceOf(one, title || `trace ${place + 1}`, one["events"] as unknown[])), truncated };
  }
  return { traces: [traceOf(objectOf(head["trace"]), title || "trace 1", records.slice(1))], truncated };
}

interface Event {
  /** In seconds, from the first. */
  at: number;
  name: string;
  data: Json;
}

/** Events in the order of the file, with names without their category. */
function* eventsOf({ events, fields, common, unit }: Trace): Generator<Event> {
  const format = textOf(common["time_format"]) || textOf(objectOf(common["time_format"])["format"]);
  const isDelta = format === "delta" || format === "relative_to_previous_event";
  const places = fields && { time: fields.findIndex((one) => /time$/.test(one)), name: fields.findIndex((one) => one === "event" || one === "event_type"), data: fields.indexOf("data") };
  let [clock, first] = [0, Number.NaN];
  for (const event of events) {
    const of = Array.isArray(event) && places
      ? { time: event[places.time], name: event[places.name], data: event[places.data] }
      : { time: objectOf(event)["time"], name: objectOf(event)["name"], data: objectOf(event)["data"] };
    const time = numberOf(of.time) * unit;
    if (!Number.isFinite(time) || !isObject(of.data)) continue;
    clock = isDelta ? clock + time : time;
    if (Number.isNaN(first)) first = clock;
    yield { at: clock - first, name: textOf(of.name).toLowerCase().replace(/^.*:/, ""), data: of.data };
  }
}

/** Adds a row to columns. */
function put(columns: number[][], row: number[]): void {
  row.forEach((value, place) => columns[place]?.push(value));
}

const tableOf = <Name extends string>(names: Name[], columns: number[][]) => Object.fromEntries(names.map((one, place) => [one, Float64Array.from(columns[place] ?? [])])) as Columns<Name>;

/** Which packet an event is about: numbers count in three spaces. */
function keyOf(data: Json): string {
  const header = objectOf(data["header"]);
  const kind = textOf(header["packet_type"] ?? data["packet_type"]).toLowerCase();
  return `${SPACES[kind] ?? "data"} ${String(header["packet_number"] ?? data["packet_number"] ?? "")}`;
}

function framesOf(data: Json): Json[] {
  return Array.isArray(data["frames"]) ? data["frames"].filter(isObject) : [];
}

/** The length of a packet where quinn writes it. In the schema it is that field of a long header, without what stands before it. */
const lengthInHeader = (data: Json): unknown => (isObject(data["raw"]) ? undefined : objectOf(data["header"])["length"]);

function sizeOf(data: Json): number {
  const header = objectOf(data["header"]);
  const told = [objectOf(data["raw"])["length"], header["packet_size"], data["packet_size"], header["payload_length"], lengthInHeader(data)].map(numberOf).find((one) => one > 0);
  return told ?? framesOf(data).reduce((sum, frame) => sum + (numberOf(frame["length"]) || 0), 0);
}

/** The first and last numbers of acknowledged ranges; drafts before wrote them as texts. */
function rangesOf(frame: Json): [number, number][] {
  const ranges = frame["acked_ranges"];
  if (!Array.isArray(ranges)) return [];
  return ranges.filter(Array.isArray).map((one): [number, number] => [numberOf(one[0]), numberOf(one[one.length - 1])]).filter(([from, to]) => Number.isSafeInteger(from) && Number.isSafeInteger(to) && from <= to);
}

/** What went one way: packets in the order in which they left, each at the bytes that had gone before it. */
class Way {
  private readonly segments: number[][] = [[], [], [], []];
  private readonly acks: number[][] = [[], []];
  private readonly sacks: number[][] = [[], [], []];
  /** Where a packet stands, by its number, and whether it was acknowledged. */
  private readonly places = new Map<string, number>();
  private readonly acked = new Set<string>();
  private highest = -1;
  bytes = 0;
  packets = 0;
  losses = 0;

  /** The size may be 0: some logs do not tell it of what came. */
  take(key: string, at: number, size: number): void {
    this.places.set(key, this.packets);
    put(this.segments, [at, this.bytes, this.bytes + size, 0]);
    this.bytes += size;
    this.packets += 1;
  }

  acknowledge(space: string, at: number, ranges: [number, number][]): void {
    for (const [from, to] of ranges) {
      // From the newest down, as far as anything is new: what lies below was acknowledged before.
      for (let number = to; number >= from && number > to - MOST_OLD; number -= 1) {
        const key = `${space} ${number}`;
        const place = this.places.get(key);
        if (place === undefined || this.acked.has(key)) continue;
        this.acked.add(key);
        const end = this.segments[2]?.[place] ?? 0;
        put(this.sacks, [at, this.segments[1]?.[place] ?? 0, end]);
        if (end > this.highest) put(this.acks, [at, (this.highest = end)]);
      }
    }
  }

  lose(key: string): void {
    const place = this.places.get(key);
    const lost = this.segments[3];
    if (place === undefined || !lost || lost[place]) return;
    lost[place] = 1;
    this.losses += 1;
  }

  tables(trips: CapturedWay["trips"]): CapturedWay {
    return {
      segments: tableOf(["time_s", "begin", "end", "again"], this.segments),
      // A log says nothing of the receiver's window.
      acks: tableOf(["time_s", "ack", "limit"], this.acks),
      sacks: tableOf(["time_s", "begin", "end"], this.sacks),
      trips,
    };
  }
}

/** Reads a file; `asked` is the number of the trace that is shown. */
export function readQlog(bytes: { size: number; text: () => string }, name: string, asked: number): QlogRead {
  if (bytes.size > MOST_BYTES) throw new QlogError(`it has ${Math.round(bytes.size / (1 << 20))} MiB: up to ${MOST_BYTES >> 20} MiB are read`);
  const { traces, truncated } = tracesOf(bytes.text());
  if (traces.length === 0) throw new QlogError("it has no trace");
  const chosen = asked < traces.length ? asked : 0;
  const trace = traces[chosen] as Trace;
  const [sent, received] = [new Way(), new Way()];
  const trips: number[][] = [[], []];
  const said: number[][] = [[], [], []];
  let length = 0;
  let known = [Number.NaN, Number.NaN, Number.NaN];
  let [begun, isOfQuinn] = [Number.NaN, false];
  for (const { at, name: event, data } of eventsOf(trace)) {
    length = Math.max(length, at);
    if (event === "packet_sent" || event === "packet_received") {
      const [own, other] = event === "packet_sent" ? [sent, received] : [received, sent];
      const key = keyOf(data);
      own.take(key, at, sizeOf(data));
      if (event === "packet_sent") {
        if (Number.isNaN(begun)) begun = at;
        isOfQuinn ||= lengthInHeader(data) !== undefined;
      }
      for (const frame of framesOf(data)) if (textOf(frame["frame_type"]).toLowerCase() === "ack") other.acknowledge(key.split(" ")[0] ?? "", at, rangesOf(frame));
    } else if (event === "packet_lost") {
      sent.lose(keyOf(data));
    } else if (METRICS.test(event)) {
      const told = [data["congestion_window"] ?? data["cwnd"], data["bytes_in_flight"], data["latest_rtt"]].map(numberOf);
      // A log says what has changed.
      known = known.map((value, place) => (Number.isFinite(told[place]) ? (told[place] ?? value) : value));
      const [window, flight, rtt] = known;
      if (rtt) put(trips, [at, rtt]);
      put(said, [at, window ?? Number.NaN, flight ?? Number.NaN]);
    }
  }
  if (sent.packets + received.packets === 0) throw new QlogError("its trace has no packet_sent and no packet_received: ask the stack to log the events of transport");
  // No round trip is longer than the time since the first packet left: RTT of which one would be so are not in seconds.
  // What is told first is quinn's guess, and counts only if nothing else is told.
  const [times = [], told = []] = trips;
  const fits = told.map((trip, place) => trip <= (times[place] ?? 0) - begun + 1e-6);
  const measured = fits.filter((_, place) => told[place] !== told[0]);
  const inSeconds = isOfQuinn && (measured.length > 0 ? measured : fits.slice(0, 1)).every((fit) => fit);
  trips[1] = told.map((trip) => trip * (inSeconds ? 1 : trace.unit));
  const isSender = sent.bytes >= received.bytes;
  const way = isSender ? sent : received;
  return {
    name, chosen, truncated, length_s: length, traces: traces.map(({ title }, place) => (traces.length > 1 ? `${place + 1}: ${title}` : title)),
    sent: sent.packets, received: received.packets, lost: sent.losses, bytes: way.bytes, is_sender: isSender,
    way: way.tables(tableOf(["time_s", "rtt_s"], trips)),
    said: tableOf(["time_s", "window", "flight"], said),
  };
}
