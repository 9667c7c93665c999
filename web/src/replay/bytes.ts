// The time-sequence graph of one connection at its sender: bytes that were sent, acknowledged and reported by SACK over
// time, and how far the windows allow to send. Time runs to the right; the drawing asks the trace and keeps nothing.

import type { Pen } from "../model/curves";
import { ticks } from "../model/figure";
import { columnOf, upTo, type Journey, type Trace } from "../model/trace";
import type { Ink } from "./scene";
import { PAST } from "./sequence";

const TOP = 8;
const BOTTOM = 24;
const LEFT = 72;
const RIGHT = 8;
/** The picture is at most this many times as high as what is in flight, however far a window reaches. */
const MOST_ROOM = 2.5;
/** How much is to be seen of what has not happened yet. */
const FUTURE = 0.25;

/** The sender at a time: its first byte that is not acknowledged, and up to where each window lets it send. */
interface Edge {
  time: number;
  acked: number;
  congestion: number;
  receiver: number;
}

/** What a sender sent and heard between two times. */
export interface Seen {
  from: number;
  to: number;
  sent: Journey[];
  acks: Journey[];
  edges: Edge[];
  low: number;
  high: number;
}

export interface Bytes {
  trace: Trace;
  flow: number;
  time: number;
  /** Seconds from left to right. */
  span: number;
}

/** From when to when the picture of a time is. */
export function timesOf(time: number, span: number): [number, number] {
  const from = Math.max(0, time - span * PAST);
  return [from, from + span];
}

/** The time at a place of a picture of this width. */
export function timeAt(x: number, width: number, [from, to]: [number, number]): number {
  return from + Math.min(1, Math.max(0, (x - LEFT) / Math.max(1, width - LEFT - RIGHT))) * (to - from);
}

/** The windows after each ACK and after each change of the congestion window. */
function edgesOf(trace: Trace, flow: number, acks: Journey[], segment: number): Edge[] {
  const { windows } = trace.window;
  const [times, flows, cwnd] = [columnOf(windows, "time_s"), columnOf(windows, "flow"), columnOf(windows, "cwnd_segments")];
  const edges: Edge[] = [];
  let [acked, allowed, segments] = [Number.NaN, Number.NaN, Number.NaN];
  let row = 0;
  const put = (time: number) => edges.push({ time, acked, congestion: acked + segments * segment, receiver: acked + allowed });
  const change = (until: number) => {
    for (; row < times.length && (times[row] ?? 0) <= until; row += 1) {
      if (flows[row] !== flow) continue;
      segments = cwnd[row] ?? Number.NaN;
      put(times[row] ?? 0);
    }
  };
  for (const ack of acks) {
    change(ack.ended);
    acked = Number.isNaN(acked) ? ack.ack : Math.max(acked, ack.ack);
    allowed = ack.window || Number.NaN;
    put(ack.ended);
  }
  change(Number.POSITIVE_INFINITY);
  return edges;
}

/** Each list ascends by the times beside it. */
interface Connection {
  sent: Journey[];
  starts: Float64Array;
  acks: Journey[];
  heard: Float64Array;
  edges: Edge[];
  changes: Float64Array;
}

const known = new WeakMap<Trace, Map<number, Connection>>();

/** All that a trace has of a connection, sorted once. */
function connection(trace: Trace, flow: number): Connection {
  const flows = known.get(trace) ?? new Map<number, Connection>();
  known.set(trace, flows);
  let found = flows.get(flow);
  if (!found) {
    const all = trace.journeys(flow);
    const sent = all.filter((one) => !one.back && one.payload > 0);
    const acks = all.filter((one) => one.back && one.outcome === 0).sort((a, b) => a.ended - b.ended);
    const segment = sent.reduce((most, one) => Math.max(most, one.payload), 1);
    const edges = edgesOf(trace, flow, acks, segment);
    found = {
      sent, starts: Float64Array.from(sent, (one) => one.sent), acks, heard: Float64Array.from(acks, (one) => one.ended),
      edges, changes: Float64Array.from(edges, (one) => one.time),
    };
    flows.set(flow, found);
  }
  return found;
}

export function seenOf({ trace, flow, time, span }: Bytes): Seen {
  const [from, to] = timesOf(time, span);
  const all = connection(trace, flow);
  const sent = all.sent.slice(upTo(all.starts, from), upTo(all.starts, to));
  const acks = all.acks.slice(upTo(all.heard, from), upTo(all.heard, to));
  // The state at the left edge is that after the last event before it.
  const edges = all.edges.slice(Math.max(0, upTo(all.changes, from) - 1), upTo(all.changes, to));
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  for (const one of sent) [low, high] = [Math.min(low, one.seq), Math.max(high, one.seq + one.payload)];
  for (const one of edges) if (one.acked > 0) [low, high] = [Math.min(low, one.acked), Math.max(high, one.acked)];
  if (!Number.isFinite(low)) low = 0;
  const room = low + (high - low) * MOST_ROOM;
  for (const one of edges) if (one.congestion <= room) high = Math.max(high, one.congestion);
  return { from, to, sent, acks, edges, low, high: Math.max(high, low + 1) };
}

/** The picture in words. */
export function describe(seen: Seen, blocks: (ack: Journey) => readonly unknown[]): string {
  const count = (list: Journey[], what: string) => `${list.length.toLocaleString("en-GB")} ${what}`;
  const again = seen.sent.filter((one) => one.again);
  const lost = seen.sent.filter((one) => one.outcome >= 2);
  const last = seen.edges.at(-1);
  const flight = last && seen.sent.length > 0 ? seen.sent.reduce((most, one) => Math.max(most, one.seq + one.payload), 0) - last.acked : 0;
  return [
    `from ${seen.from.toFixed(3)} to ${seen.to.toFixed(3)} s: ${count(seen.sent, "segments sent")}`,
    count(again, "of them again"), count(lost, "lost"), count(seen.acks, "ACKs"), count(seen.acks.filter((one) => blocks(one).length > 0), "with SACK blocks"),
    `${(Math.max(0, flight) / 1000).toFixed(1)} kB not acknowledged at the end`,
  ].join(", ");
}

export function drawBytes(context: Pen, width: number, height: number, bytes: Bytes, ink: Ink): void {
  const { trace, flow, time } = bytes;
  context.clearRect(0, 0, width, height);
  if (height <= TOP + BOTTOM || width <= LEFT + RIGHT) return;
  const seen = seenOf(bytes);
  const { from, to, low, high } = seen;
  const x = (at: number) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (at: number) => height - BOTTOM - ((at - low) / (high - low)) * (height - TOP - BOTTOM);
  const colour = ink.flows[flow % ink.flows.length] ?? ink.ink;
  drawAxes(context, seen, x, y, [width, height], ink);
  context.save();
  context.beginPath();
  context.rect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM);
  context.clip();
  for (const [start, end, alpha] of [[LEFT, x(time), 1], [x(time), width - RIGHT, FUTURE]] as const) {
    if (end <= start) continue;
    context.save();
    context.beginPath();
    context.rect(start, TOP, end - start, height - TOP - BOTTOM);
    context.clip();
    context.globalAlpha = alpha;
    drawWindows(context, seen, x, y, alpha, colour, ink);
    drawSegments(context, seen, trace, x, y, colour, ink);
    context.restore();
  }
  context.restore();
  context.strokeStyle = ink.ink;
  context.setLineDash([1, 3]);
  context.beginPath();
  context.moveTo(x(time), TOP);
  context.lineTo(x(time), height - BOTTOM);
  context.stroke();
  context.setLineDash([]);
}

type Scale = (at: number) => number;

function drawAxes(context: Pen, { from, to, low, high }: Seen, x: Scale, y: Scale, [width, height]: [number, number], ink: Ink): void {
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 1;
  context.strokeStyle = ink.rule;
  context.fillStyle = ink.muted;
  const line = (...points: [number, number, number, number]) => {
    context.beginPath();
    context.moveTo(points[0], points[1]);
    context.lineTo(points[2], points[3]);
    context.stroke();
  };
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { value, label } of ticks(low / 1000, high / 1000, 5)) {
    line(LEFT, y(value * 1000), width - RIGHT, y(value * 1000));
    context.fillText(`${label} kB`, LEFT - 6, y(value * 1000));
  }
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  for (const { value, label } of ticks(from, to, 5)) {
    if (x(value) > LEFT + 14 && x(value) < width - 20) context.fillText(`${label} s`, x(value), height - 6);
  }
}

/** Up to where was acknowledged, what was in flight above it, and how far the windows reached. */
function drawWindows(context: Pen, { edges, to }: Seen, x: Scale, y: Scale, alpha: number, colour: string, ink: Ink): void {
  const steps = (of: (edge: Edge) => number) => {
    let before = Number.NaN;
    context.beginPath();
    for (const edge of edges) {
      const value = of(edge);
      if (Number.isNaN(value)) continue;
      if (Number.isNaN(before)) context.moveTo(x(edge.time), y(value));
      else {
        context.lineTo(x(edge.time), y(before));
        context.lineTo(x(edge.time), y(value));
      }
      before = value;
    }
    if (!Number.isNaN(before)) context.lineTo(x(to), y(before));
  };
  // The congestion window as a band above what is acknowledged.
  context.fillStyle = colour;
  context.globalAlpha = alpha * 0.12;
  for (const [place, edge] of edges.entries()) {
    if (Number.isNaN(edge.congestion)) continue;
    const [start, end] = [x(edge.time), x(edges[place + 1]?.time ?? to)];
    context.fillRect(start, y(edge.congestion), end - start, y(edge.acked) - y(edge.congestion));
  }
  context.globalAlpha = alpha;
  context.lineWidth = 1.4;
  context.strokeStyle = ink.muted;
  steps((edge) => edge.acked);
  context.stroke();
  context.lineWidth = 1;
  context.strokeStyle = ink.accent;
  context.setLineDash([5, 3]);
  steps((edge) => edge.receiver);
  context.stroke();
  context.setLineDash([]);
}

/** Segments where they were sent, with a cross where they were lost, and SACK blocks where they were heard. */
function drawSegments(context: Pen, { sent, acks }: Seen, trace: Trace, x: Scale, y: Scale, colour: string, ink: Ink): void {
  const bars = (list: Journey[], stroke: string, thick: number) => {
    context.strokeStyle = stroke;
    context.lineWidth = thick;
    context.beginPath();
    for (const one of list) {
      const foot = y(one.seq);
      context.moveTo(x(one.sent), foot);
      context.lineTo(x(one.sent), Math.min(foot - 1.5, y(one.seq + one.payload)));
    }
    context.stroke();
  };
  bars(sent.filter((one) => !one.again), colour, 1.6);
  bars(sent.filter((one) => one.again), ink.ink, 3.2);
  context.strokeStyle = ink.bad;
  context.lineWidth = 1.6;
  context.beginPath();
  for (const one of sent) {
    if (one.outcome < 2) continue;
    const [left, middle] = [x(one.sent), y(one.seq + one.payload / 2)];
    context.moveTo(left - 4, middle - 4);
    context.lineTo(left + 4, middle + 4);
    context.moveTo(left + 4, middle - 4);
    context.lineTo(left - 4, middle + 4);
  }
  context.stroke();
  context.strokeStyle = ink.accent;
  context.lineWidth = 1.4;
  context.beginPath();
  for (const ack of acks) {
    for (const [start, end] of trace.blocks(ack)) {
      context.moveTo(x(ack.ended), y(start));
      context.lineTo(x(ack.ended), y(end));
    }
  }
  context.stroke();
}
