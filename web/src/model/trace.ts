// A window of the trace, indexed for drawing: what is on which link at a time, the packets of a flow from end to end,
// and the moments to jump to.

import type { Declarations, Description, Table, Window } from "../engine/types";

const EMPTY = new Float64Array();

export function columnOf(table: Table, name: string): Float64Array {
  return table[name] ?? EMPTY;
}

/** How many of `values`, which ascend, are at most `limit`. */
export function upTo(values: ArrayLike<number>, limit: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Packets of one direction of a link, in the order of their arrival at it. */
export interface Lane {
  rows: Int32Array;
  enqueued: Float64Array;
  /** Longest time that one of them is to be seen. */
  longest: number;
}

/** One packet from end to end. */
export interface Journey {
  kind: number;
  back: boolean;
  again: boolean;
  marked: boolean;
  seq: number;
  ack: number;
  payload: number;
  /** Receiver window in bytes, where it was last on a link, and the row there. */
  window: number;
  row: number;
  sent: number;
  /** When it was there, or was lost. */
  ended: number;
  /** 0 there, 1 on its way, from 2 on the cause of its loss. */
  outcome: number;
  /** Share of its way that it has behind it where it was lost. */
  share: number;
}

/** Data that come to a link once more in a packet that did not come from their sender: a helper or link made it. */
function copiesOf({ hops, from_s }: Window, description: Description): Uint8Array {
  const column = (name: string) => columnOf(hops, name);
  const [flow, direction, seq, back, payload, outcome, packet, enqueued] = ["flow", "direction", "seq", "back", "payload_bytes", "outcome", "packet", "enqueue_s"].map(column);
  const count = seq?.length ?? 0;
  const copies = new Uint8Array(count);
  const fromSender = new Set<number>();
  const lanes = new Map<number, { bySeq: Map<number, number>; packets: Set<number> }>();
  for (let row = 0; row < count; row += 1) {
    if (back?.[row] === 1 || !payload?.[row]) continue;
    const [lane, number, whose] = [direction?.[row] ?? 0, packet?.[row] ?? 0, flow?.[row] ?? 0];
    const link = description.links[lane >> 1];
    // Where a packet came from is unknown if it was in flight before the window began.
    if ((lane % 2 === 0 ? link?.from : link?.to) === description.flows[whose]?.source || (enqueued?.[row] ?? 0) <= from_s) fromSender.add(number);
    const key = whose * description.links.length * 2 + lane;
    let known = lanes.get(key);
    if (!known) lanes.set(key, (known = { bySeq: new Map(), packets: new Set() }));
    const earlier = known.bySeq.get(seq?.[row] ?? 0);
    if (earlier !== undefined && (known.packets.has(number) || !fromSender.has(number))) copies[row] = (outcome?.[earlier] ?? 0) >= 2 ? 1 : 2;
    known.bySeq.set(seq?.[row] ?? 0, row);
    known.packets.add(number);
  }
  return copies;
}

export class Trace {
  readonly lanes: Lane[];
  /** When each row is over: there, lost, or at the end of the window. */
  readonly over: Float64Array;
  /** Copies that the network made: 1 of what was lost here before, so a local repair; 2 of what was not, a duplicate. */
  readonly copies: Uint8Array;

  constructor(readonly window: Window, private readonly description: Description) {
    const { hops } = window;
    const enqueued = columnOf(hops, "enqueue_s");
    const transmitted = columnOf(hops, "transmit_s");
    const arrived = columnOf(hops, "arrive_s");
    const direction = columnOf(hops, "direction");
    const bytes = columnOf(hops, "wire_bytes");
    const outcome = columnOf(hops, "outcome");
    const count = enqueued.length;
    this.over = new Float64Array(count);
    const rows: number[][] = Array.from({ length: description.links.length * 2 }, () => []);
    const longest = new Float64Array(rows.length);
    for (let row = 0; row < count; row += 1) {
      const lane = direction[row] ?? 0;
      const start = transmitted[row] ?? Number.NaN;
      const end = arrived[row] ?? Number.NaN;
      const from = enqueued[row] ?? 0;
      let over = end;
      if (Number.isNaN(end)) {
        const link = description.links[lane >> 1];
        const side = lane % 2 === 0 ? link?.forward : link?.reverse;
        const flight = (side?.delay_s ?? 0) + ((bytes[row] ?? 0) * 8) / Math.max(1, side?.rate_bit_s ?? 1);
        over = (outcome[row] ?? 0) >= 2 ? (Number.isNaN(start) ? from : start + flight) : window.to_s;
      }
      this.over[row] = over;
      rows[lane]?.push(row);
      longest[lane] = Math.max(longest[lane] ?? 0, over - from);
    }
    this.copies = copiesOf(window, description);
    this.lanes = rows.map((list, lane) => {
      const order = Int32Array.from(list);
      return { rows: order, enqueued: Float64Array.from(order, (row) => enqueued[row] ?? 0), longest: longest[lane] ?? 0 };
    });
  }

  private eventsKnown: Float64Array | null = null;

  /** When anything happens, ascending. Sorted on demand, for that takes as long as all the rest. */
  get events(): Float64Array {
    if (this.eventsKnown) return this.eventsKnown;
    const times = ["enqueue_s", "transmit_s", "arrive_s"].map((name) => columnOf(this.window.hops, name));
    const all = new Float64Array(times.reduce((total, list) => total + list.length, 0));
    let at = 0;
    for (const list of times) for (const time of list) if (!Number.isNaN(time)) all[at++] = time;
    this.eventsKnown = all.subarray(0, at).sort();
    return this.eventsKnown;
  }

  /** Calls `draw` with every packet that is on a link at `time`, or has been until `after` before. */
  present(lane: Lane, time: number, after: number, draw: (row: number) => void): void {
    const earliest = time - lane.longest - after;
    for (let place = upTo(lane.enqueued, time) - 1; place >= 0; place -= 1) {
      if ((lane.enqueued[place] ?? 0) < earliest) return;
      const row = lane.rows[place] ?? 0;
      if ((this.over[row] ?? 0) + after >= time) draw(row);
    }
  }

  private readonly momentsKnown = new Map<number, Moment[]>();

  /** The decisions of a flow. */
  moments(flow: number): Moment[] {
    const known = this.momentsKnown.get(flow) ?? momentsOf(this.window.decisions, flow);
    this.momentsKnown.set(flow, known);
    return known;
  }

  private readonly journeysOf = new Map<number, Journey[]>();

  /** The packets of a flow that the window has, in the order in which they were sent. */
  journeys(flow: number): Journey[] {
    const known = this.journeysOf.get(flow);
    if (known) return known;
    const { hops } = this.window;
    const column = (name: string) => columnOf(hops, name);
    const [packet, flows, lane, back, outcome] = [column("packet"), column("flow"), column("direction"), column("back"), column("outcome")];
    const enqueued = column("enqueue_s");
    const made = new Map<number, Journey & { hops: number }>();
    const known_ = this.description.flows[flow];
    const lengths: [number, number] = [1, 1];
    const all: (Journey & { hops: number })[] = [];
    for (let row = 0; row < enqueued.length; row += 1) {
      if (flows[row] !== flow) continue;
      const number = packet[row] ?? 0;
      const link = this.description.links[(lane[row] ?? 0) >> 1];
      const isBack = back[row] === 1;
      const start = (lane[row] ?? 0) % 2 === 0 ? link?.from : link?.to;
      const end = (lane[row] ?? 0) % 2 === 0 ? link?.to : link?.from;
      const isFirst = start === (isBack ? known_?.sink : known_?.source);
      const isLast = end === (isBack ? known_?.source : known_?.sink);
      let one = made.get(number);
      if (!one || isFirst) {
        one = {
          kind: column("kind")[row] ?? 0, back: isBack, again: column("again")[row] === 1, marked: false, seq: column("seq")[row] ?? 0,
          ack: column("ack")[row] ?? 0, payload: column("payload_bytes")[row] ?? 0, window: 0, row, sent: enqueued[row] ?? 0, ended: 0, outcome: 1, share: 0, hops: 0,
        };
        made.set(number, one);
        // Those that the window meets on their way have no beginning to draw.
        if (isFirst) all.push(one);
      }
      one.hops += 1;
      // Helpers may change an ACK on its way: what its end gets is what it was on the last link.
      one.row = row;
      one.ack = column("ack")[row] ?? 0;
      one.window = column("window_bytes")[row] ?? 0;
      one.marked ||= column("marked")[row] === 1;
      one.ended = this.over[row] ?? 0;
      const result = outcome[row] ?? 0;
      one.outcome = result === 0 ? (isLast ? 0 : 1) : result;
      if (isLast) lengths[isBack ? 1 : 0] = Math.max(lengths[isBack ? 1 : 0], one.hops);
    }
    for (const one of all) one.share = one.outcome === 0 ? 1 : Math.max(0.15, (one.hops - 0.5) / lengths[one.back ? 1 : 0]);
    this.journeysOf.set(flow, all);
    return all;
  }

  private blocksKnown: Map<number, [from: number, to: number][]> | null = null;

  /** The SACK blocks of an ACK, as its end gets them. */
  blocks(ack: Journey): readonly [from: number, to: number][] {
    if (!this.blocksKnown) {
      this.blocksKnown = new Map();
      const [rows, from, to] = ["hop", "from", "to"].map((name) => columnOf(this.window.sacks, name));
      rows?.forEach((row, place) => {
        const list = this.blocksKnown?.get(row) ?? [];
        list.push([from?.[place] ?? 0, to?.[place] ?? 0]);
        this.blocksKnown?.set(row, list);
      });
    }
    return this.blocksKnown.get(ack.row) ?? [];
  }
}

export interface Moment {
  time: number;
  flow: number;
  decision: number;
  before: number;
  after: number;
  belief: number;
  truth: number;
}

/** The decisions of a flow, in the order of time. */
export function momentsOf(decisions: Table, flow: number | null): Moment[] {
  const column = (name: string) => columnOf(decisions, name);
  const flows = column("flow");
  const made: Moment[] = [];
  for (let row = 0; row < flows.length; row += 1) {
    if (flow !== null && flows[row] !== flow) continue;
    made.push({
      time: column("time_s")[row] ?? 0, flow: flows[row] ?? 0, decision: column("decision")[row] ?? 0, before: column("before")[row] ?? 0,
      after: column("after")[row] ?? 0, belief: column("belief")[row] ?? 0, truth: column("truth")[row] ?? 0,
    });
  }
  return made;
}

const AIR = ["channel-error", "outage", "link-gave-up", "route-changed"];

/** Whether the cause of a decision lies in the air (1), in a queue (0), or nothing was lost (2). */
export function placeOf(truth: number, declarations: Declarations): number {
  if (truth === 0) return 2;
  return AIR.includes(declarations.causes[truth - 1]?.name ?? "") ? 1 : 0;
}

/** A decision in words: what the sender saw, what it took it for, what it did, and what it really was. */
export function inWords(moment: Moment, declarations: Declarations): { what: string; believed: string; really: string; right: boolean | null } {
  const change = `cwnd ${moment.before.toFixed(1)} → ${moment.after.toFixed(1)}`;
  const what = [`duplicate ACKs or SACK, ${change}`, `timeout, ${change}`, `reduction undone, ${change}`][moment.decision] ?? change;
  const place = placeOf(moment.truth, declarations);
  const cause = declarations.causes[moment.truth - 1]?.name ?? "";
  const really = place === 2 ? "the segment was not lost" : place === 1 ? `lost in the air: ${cause}` : `lost in a queue: ${cause}`;
  if (moment.decision === 2) return { what, believed: "not lost after all", really, right: place === 2 };
  const believed = moment.belief === 2 ? "a loss in the air" : "congestion";
  return { what, believed, really, right: place === 2 ? false : (moment.belief === 2) === (place === 1) };
}
