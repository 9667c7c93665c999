// The curves of the page: series of the first seed, cut to as many points as a figure can show. The figures on the page
// and the ones that are downloaded are made of these.

import ABOUT from "../../engine/about.json";
import type { About, Checked, Series, Summary } from "../engine/types";
import { bottleneckName, prefixFor } from "./compare";

export interface Line {
  name: string;
  style: number;
  values: (number | null)[];
}

/** What draws single packets: a canvas, or a file. */
export type Pen = Pick<CanvasRenderingContext2D, "save" | "restore" | "beginPath" | "rect" | "clip" | "moveTo" | "lineTo" | "stroke" | "fillRect" | "setLineDash" | "lineWidth" | "strokeStyle" | "fillStyle"
  | "globalAlpha" | "font" | "textAlign" | "textBaseline" | "fillText" | "measureText" | "arc" | "fill" | "clearRect" | "closePath" | "strokeRect" | "strokeText" | "lineDashOffset" | "lineJoin">;

/** Its box and the size of a px in it, and its colours by the names that the style sheet has for them. */
export interface Paper {
  box: { left: number; top: number; width: number; height: number };
  ratio: number;
  colour: (name: string) => string;
}

export interface Panel {
  id: "cwnd" | "rtt" | "queue" | "throughput" | "delay" | "loss" | "timely" | "stall" | "buffer" | "frames" | "frame-delay" | "video-rate" | "air" | "collisions" | "repairs" | "held" | "flow-rate" | "allowed" | "sequence" | "sequence-simulated" | "flight" | "airtime" | "air-rate" | "air-repeats" | "air-queue" | "diagram" | "scene" | "path";
  title: string;
  unit: string;
  time: number[];
  lines: Line[];
  /** Room in the queue, if this is one with a limit in packets. */
  limit: number | null;
  /** What is drawn in place of the lines, the range of its axis, and what it is drawn of. */
  paint?: (pen: Pen, paper: Paper) => void;
  range?: [number, number];
  data?: Record<string, Float64Array>;
}

/** What curves are drawn of: a run, or the beginning of one that goes on. */
export interface Drawn {
  series: Series | null;
  summary?: Summary;
  seconds?: number;
}

/** The lowest and highest value that the axis of a panel shows: from zero, but for RTTs, which never come near it. */
export function extent(panel: Panel): [number, number] {
  if (panel.range) return panel.range;
  let least = Number.POSITIVE_INFINITY;
  let most = panel.limit ?? 0;
  for (const line of panel.lines) {
    for (const value of line.values) {
      if (value === null) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  if (!(most > 0)) return [0, 1];
  if (panel.id !== "rtt" || !Number.isFinite(least)) return [0, most * 1.06];
  const margin = Math.max(most - least, most * 0.1) * 0.08;
  return [Math.max(0, least - margin), most + margin];
}

const MOST_POINTS = 900;
const RATE_POINTS = 120;
// Of a few packets in an interval a share says nothing.
const SHARE_POINTS = 60;
/** Radio links that are drawn beside each other: those with most of the air. */
const MOST_STATIONS = 6;
/** Least share of the air, in percent, of which a rate is told. */
const LEAST_AIR = 0.5;

const sumOf = (values: Float64Array | null): number => values?.reduce((sum, one) => sum + (one || 0), 0) ?? 0;

/** Means of this many consecutive rows; what is absent does not count. */
function binned(values: ArrayLike<number>, bin: number): (number | null)[] {
  const count = Math.floor(values.length / bin);
  const out: (number | null)[] = new Array(count);
  for (let place = 0; place < count; place += 1) {
    let total = 0;
    let known = 0;
    for (let inner = place * bin; inner < (place + 1) * bin; inner += 1) {
      const value = values[inner] ?? Number.NaN;
      if (!Number.isNaN(value)) {
        total += value;
        known += 1;
      }
    }
    out[place] = known ? total / known : null;
  }
  return out;
}

/** One flow of a column, or a sum or mean over all. */
function column(values: Float64Array, width: number, flow: number | "sum" | "mean"): Float64Array {
  const rows = Math.floor(values.length / Math.max(1, width));
  const out = new Float64Array(rows);
  for (let row = 0; row < rows; row += 1) {
    if (typeof flow === "number") {
      out[row] = values[row * width + flow] ?? Number.NaN;
      continue;
    }
    let total = 0;
    let known = 0;
    for (let place = row * width; place < (row + 1) * width; place += 1) {
      const value = values[place] ?? Number.NaN;
      if (!Number.isNaN(value)) {
        total += value;
        known += 1;
      }
    }
    out[row] = known === 0 ? Number.NaN : flow === "sum" ? total : total / known;
  }
  return out;
}

/** The directions of a description by name: twice the number of the link, plus one for the reverse. */
export function directionNames(links: { name: string }[]): string[] {
  return links.flatMap((link) => [link.name, `${link.name} (reverse)`]);
}

/** The sum of each direction, in one pass over what are thousands of short columns in a large network. */
function sumsByDirection(values: Float64Array | undefined, directions: number): Float64Array {
  const sums = new Float64Array(directions);
  values?.forEach((value, at) => { sums[at % directions] = (sums[at % directions] ?? 0) + (value || 0); });
  return sums;
}

/** How busy each direction was so far, in the form of a summary. */
function busyLinks(series: Series | null, names: string[]): Record<string, unknown>[] {
  const sums = sumsByDirection(series?.links["utilisation"], names.length);
  return names.map((name, place) => ({ name, utilisation: sums[place] }));
}

function largest(lines: Line[]): number {
  return lines.reduce((most, line) => line.values.reduce<number>((best, value) => Math.max(best, value ?? 0), most), 0);
}

/** The flows that have a window or an RTT in one of these runs: those of TCP. Datagrams have neither. */
export function windowed(runs: Map<string, Drawn>, flows: number): number[] {
  const measured = (values: Float64Array | undefined, flow: number): boolean => {
    for (let place = flow; values && place < values.length; place += flows) if (!Number.isNaN(values[place])) return true;
    return false;
  };
  const has = (flow: number) => [...runs.values()].some(({ series }) => measured(series?.flows["cwnd_segments"], flow) || measured(series?.flows["rtt_s"], flow));
  return Array.from({ length: flows }, (_, flow) => flow).filter(has);
}

/** The flows in the order in which they are offered: those of TCP first, for they have most to show. */
export function offered(runs: Map<string, Drawn>, flows: number): number[] {
  const first = windowed(runs, flows);
  return [...first, ...Array.from({ length: flows }, (_, flow) => flow).filter((flow) => !first.includes(flow))];
}

/** Counters of what a helper, or a link by itself, has retransmitted or rebuilt: as in plot.py (`REPAIRS`). */
const REPAIRS = /^.+?_(?:repeats|retransmissions|rebuilt)(?:_.+)?$/;

/** What is counted, and so declared for each link; what a helper has beside it is what it holds: as in plot.py. */
const COUNTED = new Set((ABOUT as unknown as About).declarations.columns.filter((one) => one.table === "links").map((one) => one.name));

/** How many radio directions each interval has. */
function radiosOf(series: Series | null, rows: number): number {
  const count = series?.radios["direction"]?.length ?? 0;
  return rows > 0 ? Math.round(count / rows) : 0;
}

const isRepair = (name: string): boolean => REPAIRS.test(name);
const isHeld = (name: string): boolean => !isRepair(name) && !COUNTED.has(name);

/** The sum of what all helpers and links say of these names, interval by interval; null if none of them does. */
function helpersOf(series: Series | null, rows: number, is: (name: string) => boolean): Float64Array | null {
  const counters = Object.entries(series?.helpers ?? {}).filter(([name]) => is(name));
  if (counters.length === 0) return null;
  const total = new Float64Array(rows);
  for (const [, values] of counters) for (let row = 0; row < rows; row += 1) total[row] = (total[row] ?? 0) + (values[row] ?? 0);
  return total;
}

/** The values of lines in percent of those of others with their names. */
function percentOf(parts: Line[], wholes: Line[]): Line[] {
  return parts.map((line) => {
    const whole = wholes.find((one) => one.name === line.name)?.values;
    return { ...line, values: line.values.map((value, place) => (value === null || !whole?.[place] ? null : (100 * value) / (whole[place] ?? 1))) };
  });
}

/** The sums of lines with the same names. */
function sumsOf(some: Line[], others: Line[]): Line[] {
  return some.map((line) => {
    const other = others.find((one) => one.name === line.name)?.values;
    return { ...line, values: line.values.map((value, place) => (value === null ? null : value + (other?.[place] ?? 0))) };
  });
}

/** The directions in whose queues something waited, the busiest first: what may be chosen. */
export function queued(runs: Map<string, Drawn>, links: { name: string }[]): string[] {
  const names = directionNames(links);
  const waited = [...runs.values()].map(({ series }) => sumsByDirection(series?.links["queue_packets"], names.length));
  return names.map((name, place) => ({ name, size: waited.reduce((total, sums) => total + (sums[place] ?? 0), 0) })).filter(({ size }) => size > 0).sort((a, b) => b.size - a.size).map(({ name }) => name);
}

/** What of the runs is drawn. */
export interface Shown {
  /** The number of a flow, or -1 for the mean of all. */
  flow: number;
  /** The direction whose queue is drawn; the bottleneck's if there is none of this name. */
  link: string | null;
  /** From when to when; the whole run if null. */
  span: Span | null;
}

export type Span = [from: number, to: number];

/** The panels of what these runs measured: one without a value is left out, and so is a line. `lasthop plot` has the
 * same rule (`Panel.is_measured` in plot.py). */
export function panels(runs: Map<string, Drawn>, checked: Checked, style: Map<string, number>, { flow, link, span }: Shown): Panel[] {
  const { description } = checked;
  const { flows, links, series_interval_s: interval } = description;
  const which = flow < 0 ? "mean" : Math.min(flow, flows.length - 1);
  const whose = flow < 0 ? "mean of all flows" : flows.length > 1 ? (flows[Number(which)]?.name ?? "") : "";
  const all = Math.max(0, Math.floor(description.duration_s / interval + 1e-9));
  // A row more at each side, so that lines reach the edges.
  const begin = span ? Math.max(0, Math.floor(span[0] / interval) - 1) : 0;
  const end = span ? Math.min(all, Math.ceil(span[1] / interval) + 1) : all;
  const rows = Math.max(0, end - begin);
  const bin = Math.max(1, Math.ceil(rows / MOST_POINTS));
  const rateBin = Math.max(1, Math.round(rows / RATE_POINTS));
  const shareBin = Math.max(1, Math.round(rows / SHARE_POINTS));
  const names = directionNames(links);
  const wished = link !== null && names.includes(link) ? link : null;
  const bottleneck = wished ?? bottleneckName([...runs.values()].map((run) => run.summary ?? { links: busyLinks(run.series, names) }));
  const direction = Math.max(0, names.indexOf(bottleneck));
  const room = links[direction >> 1]?.[direction % 2 === 0 ? "forward" : "reverse"].queue_limit_packets ?? null;

  const known = new Map<number, number[]>();
  const times = (step: number): number[] => {
    const made = known.get(step) ?? Array.from({ length: Math.floor(rows / step) }, (_, place) => (begin + (place + 0.5) * step) * interval);
    known.set(step, made);
    return made;
  };
  const lines = (step: number, get: (run: Drawn) => Float64Array | null): Line[] =>
    [...runs].flatMap(([name, run]) => {
      const values = get(run);
      const drawn = values && binned(values.subarray(begin, Math.min(end, values.length)), step);
      if (!drawn?.some((value) => value !== null)) return [];
      while (drawn.length < Math.floor(rows / step)) drawn.push(null);
      return [{ name, style: style.get(name) ?? 0, values: drawn }];
    });
  const ofFlow = (name: string) => (run: Drawn) => {
    const values = run.series?.flows[name];
    return values ? column(values, flows.length, which) : null;
  };

  const cwnd = lines(bin, ofFlow("cwnd_segments"));
  // RTT samples are rarer than intervals: one line instead of many short ones.
  const rtt = lines(rateBin, ofFlow("rtt_s"));
  const queue = lines(bin, (run) => {
    const values = run.series?.links["queue_packets"];
    return values ? column(values, names.length, direction) : null;
  });
  const throughput = lines(rateBin, (run) => {
    const values = run.series?.flows["throughput_bit_s"];
    return values ? column(values, flows.length, "sum") : null;
  });
  // Of a rate-based sender, what it may send; of datagrams, whose sender shows nothing, what arrived.
  const allowed = lines(bin, ofFlow("allowed_rate_bit_s"));
  const isAlone = typeof which === "number" && flows.length > 1 && cwnd.length === 0 && rtt.length === 0;
  const flowRate = isAlone ? lines(rateBin, ofFlow("throughput_bit_s")) : [];
  // Datagrams have no window and no RTT: how long they take, and how many are lost of those whose fate is known.
  const isDatagrams = cwnd.length === 0 && rtt.length === 0;
  const delay = isDatagrams ? lines(rateBin, ofFlow("delay_s")) : [];
  const lost = isDatagrams ? lines(shareBin, ofFlow("lost_packets")) : [];
  const loss = percentOf(lost, sumsOf(lost, lines(shareBin, ofFlow("arrived_packets"))));
  // What viewers and listeners had.
  const timely = percentOf(lines(shareBin, ofFlow("timely_packets")), lines(shareBin, ofFlow("settled_packets")));
  const stall = lines(bin, ofFlow("stall_s")).filter((line) => line.values.some((value) => value));
  const buffer = lines(bin, ofFlow("video_buffer_s"));
  const frameDelay = lines(rateBin, ofFlow("frame_delay_s"));
  const videoRate = lines(rateBin, ofFlow("video_rate_bit_s"));
  const perSecond = (of: Line[]): Line[] => of.filter((line) => line.values.some((value) => value)).map((line) => ({ ...line, values: line.values.map((value) => (value === null ? null : value / interval)) }));
  const frames = perSecond(lines(rateBin, ofFlow("shown_frames")));
  // What the air and helpers did, over all links: how many of the transmissions were retransmissions, frames that met another, repairs.
  const radioWidth = (run: Drawn) => radiosOf(run.series, all);
  const ofRadios = (name: string) => (run: Drawn) => {
    const values = run.series?.radios[name];
    return values && radioWidth(run) > 0 ? column(values, radioWidth(run), "sum") : null;
  };
  const attempts = lines(rateBin, ofRadios("attempts"));
  const air = percentOf(lines(rateBin, ofRadios("repetitions")), attempts);
  const collisions = perSecond(lines(rateBin, ofRadios("collisions")));
  const repairs = perSecond(lines(rateBin, (run) => helpersOf(run.series, all, isRepair)));
  const held = lines(bin, (run) => helpersOf(run.series, all, isHeld)).filter((line) => line.values.some((value) => value));
  // Stations beside each other, in the first run: who has the air, how fast it is used, and what waits for it.
  const [[leader, lead] = ["", null]] = [...runs] as [string, Drawn | null][];
  const ofLink = (name: string, place: number): Float64Array | null => {
    const values = lead?.series?.links[name];
    return values ? column(values, names.length, place) : null;
  };
  const between = (place: number): string => {
    const ends = [links[place >> 1]?.from, links[place >> 1]?.to].map((node) => description.nodes[node ?? 0] ?? "");
    return (place % 2 === 0 ? ends : ends.reverse()).join("→");
  };
  const onAir = names.map((_, place) => ({ name: between(place), place, busy: links[place >> 1]?.radio ? sumOf(ofLink("utilisation", place)) : 0 })).filter(({ busy }) => busy > 0);
  const stations = onAir.sort((a, b) => b.busy - a.busy).slice(0, MOST_STATIONS).sort((a, b) => a.place - b.place);
  const byStation = (step: number, get: (place: number) => Float64Array | null): Line[] =>
    stations.length < 2 ? [] : stations.flatMap(({ name, place }, style) => {
      const values = get(place);
      const drawn = values && binned(values.subarray(begin, Math.min(end, values.length)), step);
      return drawn?.some((value) => value) ? [{ name, style, values: drawn }] : [];
    });
  const airtime = byStation(rateBin, (place) => ofLink("utilisation", place)?.map((share) => 100 * share) ?? null);
  const airRate = byStation(rateBin, (place) => ofLink("throughput_bit_s", place)).map((line) => {
    const busy = airtime.find((one) => one.name === line.name)?.values;
    // Of a few frames in an interval the rate says nothing.
    return { ...line, values: line.values.map((value, at) => ((busy?.[at] ?? 0) >= LEAST_AIR ? (100 * (value ?? 0)) / (busy?.[at] ?? 1) : null)) };
  }).filter((line) => line.values.some((value) => value !== null));
  const ofRadio = (name: string, place: number): Float64Array | null => {
    const width = lead ? radioWidth(lead) : 0;
    const at = lead?.series?.radios["direction"]?.subarray(0, width).indexOf(place) ?? -1;
    const values = lead?.series?.radios[name];
    return values && at >= 0 ? column(values, width, at) : null;
  };
  const tries = byStation(shareBin, (place) => ofRadio("attempts", place));
  const airRepeats = percentOf(byStation(shareBin, (place) => ofRadio("repetitions", place)), tries);
  const airQueue = byStation(bin, (place) => ofLink("queue_packets", place));
  const scale = (of: Line[], unit: string): string => {
    const [factor, shown] = prefixFor(largest(of), unit);
    for (const line of of) line.values = line.values.map((value) => (value === null ? null : value / factor));
    return shown;
  };
  const about = (text: string, more: string) => (more ? `${text}, ${more}` : text);
  const of = runs.size > 1 ? leader : "";
  const made: Panel[] = [
    { id: "cwnd", title: about("Congestion window", whose), unit: "segments", time: times(bin), lines: cwnd, limit: null },
    { id: "rtt", title: about("Round-trip time", whose), unit: scale(rtt, "s"), time: times(rateBin), lines: rtt, limit: null },
    { id: "allowed", title: about("Allowed rate", whose), unit: scale(allowed, "bit/s"), time: times(bin), lines: allowed, limit: null },
    { id: "flow-rate", title: about("Throughput", whose), unit: scale(flowRate, "bit/s"), time: times(rateBin), lines: flowRate, limit: null },
    { id: "delay", title: about("One-way delay", whose), unit: scale(delay, "s"), time: times(rateBin), lines: delay, limit: null },
    { id: "loss", title: about("Packets lost in the network", whose), unit: "%", time: times(shareBin), lines: loss.filter((line) => line.values.some((value) => value)), limit: null },
    { id: "queue", title: `Queue at ${bottleneck}`, unit: "packets", time: times(bin), lines: queue, limit: room },
    { id: "throughput", title: about("Throughput", flows.length > 1 ? "all flows" : ""), unit: scale(throughput, "bit/s"), time: times(rateBin), lines: throughput, limit: null },
    { id: "timely", title: about("Packets in time", whose), unit: "%", time: times(shareBin), lines: timely.filter((line) => line.values.some((value) => value !== null)), limit: null },
    { id: "stall", title: about("Stall time so far", whose), unit: "s", time: times(bin), lines: stall, limit: null },
    { id: "buffer", title: about("Playback buffer", whose), unit: scale(buffer, "s"), time: times(bin), lines: buffer, limit: null },
    { id: "frames", title: about("Frames shown", whose), unit: "frames/s", time: times(rateBin), lines: frames, limit: null },
    { id: "frame-delay", title: about("Frame delay, camera to screen", whose), unit: scale(frameDelay, "s"), time: times(rateBin), lines: frameDelay, limit: null },
    { id: "video-rate", title: about("Video rate", whose), unit: scale(videoRate, "bit/s"), time: times(rateBin), lines: videoRate, limit: null },
    { id: "airtime", title: about("Airtime of radio links", of), unit: "%", time: times(rateBin), lines: airtime, limit: null },
    { id: "air-rate", title: about("Rate of radio links while they send", of), unit: scale(airRate, "bit/s"), time: times(rateBin), lines: airRate, limit: null },
    { id: "air-repeats", title: about("Retransmissions by radio links", of), unit: "%", time: times(shareBin), lines: airRepeats, limit: null },
    { id: "air-queue", title: about("Queues of radio links", of), unit: "packets", time: times(bin), lines: airQueue.length > 1 ? airQueue : [], limit: null },
    { id: "air", title: "Share of retransmissions on radio links", unit: "%", time: times(rateBin), lines: air.filter((line) => line.values.some((value) => value)), limit: null },
    { id: "collisions", title: "Collisions on radio links", unit: "frames/s", time: times(rateBin), lines: collisions, limit: null },
    { id: "repairs", title: "Repairs by helpers and links", unit: "per s", time: times(rateBin), lines: repairs, limit: null },
    { id: "held", title: "Held by helpers and links", unit: "packets", time: times(bin), lines: held, limit: null },
  ];
  return made.filter((panel) => panel.lines.length > 0);
}

/** A span of time as the address has it: 12.5-30. */
export function spanOf(text: string | null, duration: number): Span | null {
  const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Math.min(duration, Number(found[2]))];
  return to > from ? [from, to] : null;
}
