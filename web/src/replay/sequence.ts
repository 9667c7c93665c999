// The sequence diagram of one connection: time runs down, sender at the left, receiver at the right; the congestion
// window grows to the left of the sender, its decisions stand beside it.

import { columnOf, inWords, upTo, type Journey, type Trace } from "../model/trace";
import type { Declarations } from "../engine/types";
import type { Pen } from "../model/curves";
import type { Ink } from "./scene";

const TOP = 30;
const BOTTOM = 6;
/** A strip holds this many times what is visible. */
const STRIP = 2.5;
/** How much is to be seen of what has not happened yet. */
const FUTURE = 0.17;
/** Share of the diagram above the present. */
export const PAST = 0.8;
/** Width of the window's silhouette, and of the words of decisions beside it. */
const WINDOW = 90;
const WORDS = 200;

/** Packets drawn once, with room above and below, and then only shifted: lines are what takes most of the time. */
interface Strip {
  canvas: HTMLCanvasElement;
  from: number;
  to: number;
  /** What it was drawn of. */
  of: unknown[];
}
let known: Strip | null = null;

export interface Sequence {
  trace: Trace;
  declarations: Declarations;
  flow: number;
  /** Names of the nodes at its two ends. */
  ends: [string, string];
  time: number;
  /** Seconds from top to bottom. */
  span: number;
}

/** Draws the packets of a flow between two times; `y` places a time, and only what reaches into the picture counts. */
function drawPackets(context: Pen, journeys: Journey[], [from, to]: [number, number], [sender, receiver]: [number, number], y: (at: number) => number, ink: Ink, colour: string, alpha = 1): void {
  for (const one of journeys) {
    if (one.ended < from) continue;
    if (one.sent > to) break;
    const [start, end] = one.back ? [receiver, sender] : [sender, receiver];
    const isLost = one.outcome >= 2;
    const stop = isLost || one.outcome === 1 ? start + (end - start) * one.share : end;
    context.globalAlpha = alpha * (one.back ? 0.55 : 0.95);
    context.strokeStyle = isLost ? ink.bad : one.back ? ink.muted : colour;
    context.lineWidth = one.again ? 2.4 : 1;
    context.setLineDash(one.back ? [3, 3] : []);
    context.beginPath();
    context.moveTo(start, y(one.sent));
    context.lineTo(stop, y(one.ended));
    context.stroke();
    if (isLost) {
      context.setLineDash([]);
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(stop - 4, y(one.ended) - 4);
      context.lineTo(stop + 4, y(one.ended) + 4);
      context.moveTo(stop + 4, y(one.ended) - 4);
      context.lineTo(stop - 4, y(one.ended) + 4);
      context.stroke();
    }
    if (one.marked) {
      context.fillStyle = ink.bad;
      context.beginPath();
      context.arc(stop, y(one.ended), 3, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

/** The strip that holds the packets of this time, or a new one; `scale` is that of the canvas. */
function stripOf(width: number, height: number, scale: number, { trace, flow, span, time }: Sequence, ends: [number, number], ink: Ink, colour: string): Strip {
  const from = Math.max(0, time - span * PAST);
  const of = [trace, flow, span, width, height, scale, ink, ...ends];
  if (known && known.from <= from && known.to >= from + span && known.of.every((one, place) => one === of[place])) return known;
  const begin = Math.max(0, from - span * 0.25);
  const pace = (height - TOP - BOTTOM) / span;
  const canvas = known?.canvas ?? document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(pace * span * STRIP * scale);
  known = { canvas, from: begin, to: begin + span * STRIP, of };
  const context = canvas.getContext("2d");
  if (context) {
    context.setTransform(scale, 0, 0, scale, 0, 0);
    drawPackets(context, trace.journeys(flow), [begin, known.to], ends, (at) => (at - begin) * pace, ink, colour);
  }
  return known;
}

/** Copies the packets onto the canvas. Whole pixels are shifted, which costs no more than to copy them. */
function copyPackets(context: CanvasRenderingContext2D, width: number, height: number, sequence: Sequence, ends: [number, number], y: (at: number) => number, ink: Ink, colour: string): void {
  const { time, span } = sequence;
  const from = Math.max(0, time - span * PAST);
  const scale = context.getTransform().a;
  const strip = stripOf(width, height, scale, sequence, ends, ink, colour);
  const top = Math.round(TOP * scale);
  const bottom = Math.round(height * scale);
  const now = Math.min(bottom, Math.max(top, Math.round(y(time) * scale)));
  const shift = Math.round((from - strip.from) * ((height - TOP - BOTTOM) / span) * scale);
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  for (const [start, end, alpha] of [[top, now, 1], [now, bottom, FUTURE]] as const) {
    const rows = Math.min(end - start, strip.canvas.height - (shift + start - top));
    if (rows <= 0) continue;
    context.globalAlpha = alpha;
    context.drawImage(strip.canvas, 0, shift + start - top, strip.canvas.width, rows, 0, start, strip.canvas.width, rows);
  }
  context.restore();
}

export function drawSequence(context: Pen, width: number, height: number, sequence: Sequence, ink: Ink): void {
  const { trace, declarations, flow, time, span } = sequence;
  context.clearRect(0, 0, width, height);
  if (height <= TOP + BOTTOM) return;
  const from = Math.max(0, time - span * PAST);
  const to = from + span;
  const narrow = width < 560;
  // Only a flow that has a window needs room for it, and only one that decides for the words.
  const windows = trace.window.windows;
  const [times, flows, cwnd] = [columnOf(windows, "time_s"), columnOf(windows, "flow"), columnOf(windows, "cwnd_segments")];
  const hasWindow = flows.includes(flow);
  const decides = trace.moments(flow).length > 0;
  const sender = Math.min(narrow ? width * 0.3 : width * 0.36, 60 + (hasWindow ? WINDOW : 0) + (decides ? WORDS - 30 : 0));
  const receiver = width - (narrow ? 30 : 70);
  const y = (at: number) => TOP + ((at - from) / span) * (height - TOP - BOTTOM);
  const colour = ink.flows[flow % ink.flows.length] ?? ink.ink;

  context.font = "12px system-ui, sans-serif";
  context.fillStyle = ink.ink;
  context.textBaseline = "alphabetic";
  context.textAlign = "center";
  const [source, sink] = sequence.ends;
  context.fillText(source, sender, 16);
  context.textAlign = "right";
  context.fillText(sink, Math.min(width - 4, receiver + context.measureText(sink).width / 2), 16);
  context.strokeStyle = ink.faint;
  context.lineWidth = 1;
  context.beginPath();
  for (const x of [sender, receiver]) {
    context.moveTo(x, TOP);
    context.lineTo(x, height);
  }
  context.stroke();
  const step = 10 ** Math.floor(Math.log10(span / 2));
  context.fillStyle = ink.muted;
  context.textAlign = "right";
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    context.fillText(`${at.toFixed(Math.max(0, -Math.floor(Math.log10(step))))} s`, width - 2, y(at) + 4);
    context.strokeStyle = ink.rule;
    context.beginPath();
    context.moveTo(sender, y(at));
    context.lineTo(receiver, y(at));
    context.stroke();
  }

  context.save();
  context.beginPath();
  context.rect(0, TOP, width, height - TOP);
  context.clip();

  // The window: a silhouette at the left of the sender.
  const begin = Math.max(0, upTo(times, from) - 1);
  let last = Number.NaN;
  for (let row = begin; row >= 0; row -= 1) {
    if (flows[row] !== flow) continue;
    last = cwnd[row] ?? Number.NaN;
    break;
  }
  const steps: [number, number][] = [[from, last]];
  let most = Number.isNaN(last) ? 1 : last;
  for (let row = begin; row < times.length && (times[row] ?? 0) <= to; row += 1) {
    if (flows[row] !== flow || (times[row] ?? 0) < from) continue;
    steps.push([times[row] ?? 0, cwnd[row] ?? 0]);
    most = Math.max(most, cwnd[row] ?? 0);
  }
  const room = narrow ? sender - 30 : WINDOW;
  const x = (segments: number) => sender - 8 - (segments / Math.max(1, most)) * (room - 16);
  context.fillStyle = colour;
  context.globalAlpha = 0.18;
  context.beginPath();
  context.moveTo(sender - 8, TOP);
  let before = steps[0]?.[1] ?? Number.NaN;
  for (const [at, value] of steps) {
    if (!Number.isNaN(before)) context.lineTo(x(before), Math.min(height, y(at)));
    if (!Number.isNaN(value)) context.lineTo(x(value), Math.min(height, y(at)));
    before = value;
  }
  if (!Number.isNaN(before)) context.lineTo(x(before), height);
  context.lineTo(sender - 8, height);
  context.fill();
  context.globalAlpha = 1;
  context.restore();
  context.fillStyle = ink.muted;
  context.textAlign = "right";
  if (hasWindow) context.fillText(`cwnd ≤ ${most.toFixed(0)}`, sender - 14 - context.measureText(source).width / 2, 16);

  // Packets: what has not happened yet is faint.
  if (context instanceof CanvasRenderingContext2D) copyPackets(context, width, height, sequence, [sender, receiver], y, ink, colour);
  else {
    for (const [start, end] of [[TOP, y(time)], [y(time), height]] as const) {
      context.save();
      context.beginPath();
      context.rect(0, start, width, Math.max(0, end - start));
      context.clip();
      drawPackets(context, trace.journeys(flow), [from, to], [sender, receiver], y, ink, colour, start > TOP ? FUTURE : 1);
      context.restore();
    }
  }

  // Decisions, each with what it was taken for and what it was.
  let lowest = TOP;
  for (const moment of trace.moments(flow)) {
    if (moment.time < from || moment.time > Math.min(to, time)) continue;
    const words = inWords(moment, declarations);
    const place = y(moment.time);
    context.fillStyle = words.right === false ? ink.bad : ink.ink;
    context.beginPath();
    context.arc(sender, place, 4, 0, 2 * Math.PI);
    context.fill();
    if (narrow || place < lowest) continue;
    context.textAlign = "right";
    const edge = sender - room - 6;
    const change = moment.before === moment.after ? "" : `cwnd ${moment.before.toFixed(0)} → ${moment.after.toFixed(0)}: `;
    context.fillText(change + (["duplicate ACKs", "timeout", "undone"][moment.decision] ?? ""), edge, place + 2);
    context.fillStyle = ink.muted;
    context.fillText(`taken for ${words.believed}`, edge, place + 17);
    context.fillText(words.really, edge, place + 32);
    lowest = place + 50;
  }

  context.strokeStyle = ink.ink;
  context.setLineDash([1, 3]);
  context.beginPath();
  context.moveTo(sender - room, y(time));
  context.lineTo(receiver + 8, y(time));
  context.stroke();
  context.setLineDash([]);
}
