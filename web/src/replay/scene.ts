// Draws the path with what is on it at a time: nodes, links, queues, packets, losses. Called for every frame; it asks
// the trace and keeps nothing.

import type { Description } from "../engine/types";
import type { Pen } from "../model/curves";
import { COLOURS, textScale } from "../model/style";
import { columnOf, upTo, type Trace } from "../model/trace";
import type { Layout, Place } from "./layout";

/** The path without what is on it. */
export interface Still {
  description: Description;
  layout: Layout;
  flow: number;
}

export interface Scene extends Still {
  trace: Trace;
  outages: [number, number, number][];
  time: number;
  /** Simulated seconds for which a loss stays to be seen. */
  fade: number;
}

/** Colours of the theme, for what is drawn on a canvas. */
export function inkOf(): Ink {
  const of = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { paper: of("--card"), ground: of("--paper"), ink: of("--ink"), muted: of("--muted"), faint: of("--faint"), rule: of("--rule"), bad: of("--bad"), accent: of("--accent"), flows: COLOURS.map((_, style) => of(`--line-${style}`)) };
}

/** Fits a canvas to its box; returns its context and size in pixels of a page whose text has the usual size. */
export function fit(canvas: HTMLCanvasElement): [CanvasRenderingContext2D, number, number] | null {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [wide, high] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  // Before the first layout, and in a window that is nearly closed, there is nothing to draw on.
  if (wide === 0 || high === 0) return null;
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const larger = textScale();
  context.setTransform(devicePixelRatio * larger, 0, 0, devicePixelRatio * larger, 0, 0);
  return [context, width / larger, height / larger];
}

export interface Ink {
  paper: string;
  ground: string;
  ink: string;
  muted: string;
  faint: string;
  rule: string;
  bad: string;
  accent: string;
  /** Of flows. */
  flows: string[];
}

/** Share of the width in which the outermost nodes stand, and a little more. */
const EDGE = 0.14;
/** Squares of a queue in a column; beyond them a number says how many. */
const SQUARES = 30;
/** Between a node and the foot of its queue, and what the number above it takes, in px. */
const FOOT = 9;
const NUMBER = 16;
/** Most of a queue that lies, in px. */
const LYING = 34;
const GAP = 5;
/** Nodes nearer than this stand together, in px. */
const NEAR = 40;

export interface Way {
  from: Place;
  to: Place;
  /** Unit vectors along and across. */
  along: Place;
  across: Place;
  length: number;
}

export function way(from: Place, to: Place): Way {
  const length = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
  const along = { x: (to.x - from.x) / length, y: (to.y - from.y) / length };
  return { from, to, along, across: { x: -along.y, y: along.x }, length };
}

function on(line: Way, share: number, aside: number): Place {
  const start = 9;
  const far = start + share * (line.length - 2 * start);
  return { x: line.from.x + line.along.x * far + line.across.x * aside, y: line.from.y + line.along.y * far + line.across.y * aside };
}

function cross(context: Pen, place: Place, size: number): void {
  context.beginPath();
  context.moveTo(place.x - size, place.y - size);
  context.lineTo(place.x + size, place.y + size);
  context.moveTo(place.x + size, place.y - size);
  context.lineTo(place.x - size, place.y + size);
  context.stroke();
}

/** A picture that is drawn once and copied while what it was drawn `of` stays the same. */
interface Copied {
  canvas: HTMLCanvasElement;
  of: unknown[];
}
let ground: Copied | null = null;

/** How opaque a packet of another flow than the chosen one is. */
const OTHERS = 0.7;

/** What packets move on: cells and links, and in a crowd the nodes. */
function drawStill(context: Pen, [width, height]: [number, number], scene: Scene, places: Place[], down: Set<number>, ink: Ink): void {
  drawCells(context, [width, height], scene, places, ink);
  drawLinks(context, scene, places, down, ink);
  context.globalAlpha = 1;
  context.setLineDash([]);
  if (scene.layout.isCrowded) drawNodes(context, width, scene, places, ink);
}

/** The same on a canvas: drawn once and copied. */
function copyStill(context: CanvasRenderingContext2D, size: [number, number], scene: Scene, places: Place[], down: Set<number>, ink: Ink): void {
  const { description, layout, flow } = scene;
  const { canvas } = context;
  const of = [places, description, flow, layout.scale, ink, canvas.width, canvas.height, [...down].sort().join()];
  if (!ground?.of.every((one, place) => one === of[place])) {
    const copy = ground?.canvas ?? document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    ground = { canvas: copy, of };
    const drawn = copy.getContext("2d");
    if (!drawn) return;
    drawn.setTransform(context.getTransform());
    drawStill(drawn, size, scene, places, down, ink);
  }
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.globalCompositeOperation = "copy";
  context.drawImage(ground.canvas, 0, 0);
  context.restore();
}

/** Links, and which of them are down. */
function drawLinks(context: Pen, { description, layout }: Scene, places: Place[], down: Set<number>, ink: Ink): void {
  const once = new Once();
  description.links.forEach((link, index) => {
    const line = way(places[link.from] ?? { x: 0, y: 0 }, places[link.to] ?? { x: 0, y: 0 });
    const isDown = down.has(2 * index) || down.has(2 * index + 1);
    if (layout.isCrowded && !once.isFirst(line.from.x, line.from.y, line.to.x, line.to.y, isDown, link.radio)) return;
    context.strokeStyle = isDown ? ink.bad : ink.faint;
    context.globalAlpha = isDown ? 1 : 0.55;
    context.lineWidth = layout.isCrowded ? 1 : 2;
    context.setLineDash(isDown ? [2, 5] : link.radio ? [5, 4] : []);
    context.beginPath();
    context.moveTo(line.from.x, line.from.y);
    context.lineTo(line.to.x, line.to.y);
    context.stroke();
  });
}

/** Where texts stand already: a text goes only where there is room. */
export class Texts {
  private readonly taken: [left: number, top: number, right: number, bottom: number][] = [];

  /** Keeps a box free of texts. */
  take(left: number, top: number, right: number, bottom: number): void {
    this.taken.push([left, top, right, bottom]);
  }

  /** Keeps nodes free of them. */
  takeNodes(places: Place[]): void {
    for (const { x, y } of places) this.take(x - 8, y - 8, x + 8, y + 8);
  }

  /** Takes a box if it is free. */
  takeIfFree(left: number, top: number, right: number, bottom: number): boolean {
    if (this.taken.some((box) => left < box[2] && right > box[0] && top < box[3] && bottom > box[1])) return false;
    this.take(left, top, right, bottom);
    return true;
  }
}

/** What is seen of a link or a queue behind the name of a node: they are there still, and the name is read. */
const BEHIND = 0.75;

/** A name of a node in the middle of a picture: below it if there is room, or above it. */
function nameNode(context: Pen, text: string, place: Place, size: number, texts: Texts, ink: Ink): void {
  const half = context.measureText(text).width / 2;
  for (const top of [place.y + size + 4, place.y - size - 18]) {
    if (!texts.takeIfFree(place.x - half, top, place.x + half, top + 12)) continue;
    context.globalAlpha = BEHIND;
    context.fillStyle = ink.paper;
    context.fillRect(place.x - half - 1, top - 1, 2 * half + 2, 13);
    context.globalAlpha = 1;
    context.fillStyle = ink.muted;
    context.fillText(text, place.x, top);
    return;
  }
}

/** Nodes and their names. */
export function drawNodes(context: Pen, width: number, { description, layout, flow }: Still, places: Place[], ink: Ink, texts = new Texts()): void {
  const crowded = layout.isCrowded;
  const stations = new Map(description.stations.map((one) => [one.node, one]));
  const once = new Once();
  description.nodes.forEach((name, node) => {
    const place = places[node];
    if (!place) return;
    const station = stations.get(node);
    const ends = description.flows[flow];
    const isEnd = [ends?.source, ends?.sink].includes(node);
    if (crowded && !once.isFirst(place.x, place.y, station?.access_point ?? false) && !isEnd) return;
    context.fillStyle = ink.paper;
    context.strokeStyle = ink.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    const size = crowded ? 3.5 : 7;
    if (station?.access_point) context.rect(place.x - size, place.y - size, 2 * size, 2 * size);
    else context.arc(place.x, place.y, size, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    const isNamed = !crowded || (isEnd && width >= 700) || isAlone(places, place);
    if (!isNamed) return;
    context.fillStyle = ink.muted;
    context.font = "12px system-ui, sans-serif";
    const edge = place.x < width * EDGE ? "left" : place.x > width * (1 - EDGE) ? "right" : "center";
    const shown = name.length > 18 ? `${name.slice(0, 17)}…` : name;
    // At the edges there is room outside the path.
    context.textAlign = edge === "left" ? "right" : edge === "right" ? "left" : "center";
    context.textBaseline = edge === "center" ? "top" : "middle";
    if (edge === "center") nameNode(context, shown, place, size, texts, ink);
    else {
      const { width: wide } = context.measureText(shown);
      if (wide < (edge === "left" ? place.x : width - place.x) - size - (crowded ? LYING : 0) - 8) {
        context.fillText(shown, place.x + (edge === "left" ? -1 : 1) * (size + 6 + (crowded ? LYING : 0)), place.y);
        return;
      }
      context.textAlign = edge;
      context.textBaseline = "top";
      const [x, top] = [edge === "left" ? 4 : width - 4, place.y + size + 4];
      context.fillText(shown, x, top);
      texts.take(edge === "left" ? x : x - wide, top, edge === "left" ? x + wide : x, top + 12);
    }
  });
}

/** How a queue of this many packets stands in this room: closer together, and where that is not enough fewer squares. */
function stacked(packets: number, room: number, usual: number): { step: number; shown: number } {
  const wanted = Math.min(packets, SQUARES);
  const step = Math.max(2, Math.min(usual, Math.floor(room / Math.max(1, wanted))));
  return { step, shown: Math.max(0, Math.min(wanted, Math.floor(room / step))) };
}

/** Returns how many packets were drawn; `texts` gets where words stand. */
export function draw(context: Pen, width: number, height: number, scene: Scene, ink: Ink, texts = new Texts()): number {
  const { trace, description, layout, time, fade, flow } = scene;
  const places = layout.places(width, height, time);
  const crowded = layout.isCrowded;
  const down = new Set(scene.outages.filter(([, start, end]) => start <= time && time < end).map(([direction]) => direction));
  const hops = trace.window.hops;
  const column = (name: string) => columnOf(hops, name);
  const [flows, transmitted, arrived, outcome] = [column("flow"), column("transmit_s"), column("arrive_s"), column("outcome")];
  const [back, again, marked, enqueued] = [column("back"), column("again"), column("marked"), column("enqueue_s")];
  let drawn = 0;

  if (context instanceof CanvasRenderingContext2D) copyStill(context, [width, height], scene, places, down, ink);
  else drawStill(context, [width, height], scene, places, down, ink);

  const radius = crowded ? 2.6 : 3.6;
  const lost: { place: Place; left: number }[] = [];
  /** Plain dots of each colour, and of the chosen flow (""): x, y, and radius, one after the other. */
  const dots = new Map<string, number[]>();
  const queues: { place: Place; line: Way; rows: number[]; room: number | null; side: number }[] = [];
  description.links.forEach((link, index) => {
    for (const side of [0, 1]) {
      const lane = trace.lanes[2 * index + side];
      if (!lane || lane.rows.length === 0) continue;
      const ends = side === 0 ? [link.from, link.to] : [link.to, link.from];
      const line = way(places[ends[0] ?? 0] ?? { x: 0, y: 0 }, places[ends[1] ?? 0] ?? { x: 0, y: 0 });
      const waiting: number[] = [];
      trace.present(lane, time, fade, (row) => {
        const start = transmitted[row] ?? Number.NaN;
        const over = trace.over[row] ?? 0;
        const isLost = (outcome[row] ?? 0) >= 2;
        if (isLost && time >= over) {
          const share = Number.isNaN(start) ? 0 : 0.72;
          lost.push({ place: on(line, share, GAP), left: 1 - (time - over) / Math.max(1e-12, fade) });
          return;
        }
        if (time > over) return;
        if (Number.isNaN(start) || time < start) {
          if (!isLost || !Number.isNaN(start)) waiting.push(row);
          return;
        }
        const end = Number.isNaN(arrived[row] ?? Number.NaN) ? over : (arrived[row] ?? over);
        const share = ((time - start) / Math.max(1e-12, end - start)) * (isLost ? 0.72 : 1);
        const place = on(line, share, GAP);
        const mine = flows[row] === flow;
        const size = radius * (back[row] === 1 ? 0.62 : 1) * (mine ? 1.45 : 1);
        const colour = ink.flows[(flows[row] ?? 0) % ink.flows.length] ?? ink.ink;
        if (crowded && marked[row] !== 1 && again[row] !== 1 && trace.copies[row] === 0) {
          const key = mine ? "" : colour;
          const list = dots.get(key);
          if (list) list.push(place.x, place.y, size);
          else dots.set(key, [place.x, place.y, size]);
          drawn += 1;
          return;
        }
        context.fillStyle = colour;
        context.globalAlpha = mine ? 1 : OTHERS;
        context.beginPath();
        if (marked[row] === 1) {
          context.moveTo(place.x, place.y - size * 1.5);
          context.lineTo(place.x + size * 1.5, place.y);
          context.lineTo(place.x, place.y + size * 1.5);
          context.lineTo(place.x - size * 1.5, place.y);
          context.closePath();
        } else if (trace.copies[row] === 1) {
          context.moveTo(place.x, place.y - size * 1.5);
          context.lineTo(place.x + size * 1.4, place.y + size);
          context.lineTo(place.x - size * 1.4, place.y + size);
          context.closePath();
        } else if (trace.copies[row] === 2) {
          context.arc(place.x, place.y, size, 0, 2 * Math.PI);
          context.moveTo(place.x + size * 2.1, place.y);
          context.arc(place.x + size * 1.1, place.y, size, 0, 2 * Math.PI);
        } else if (again[row] === 1) context.rect(place.x - size, place.y - size, 2 * size, 2 * size);
        else context.arc(place.x, place.y, size, 0, 2 * Math.PI);
        context.fill();
        if (mine) {
          context.strokeStyle = ink.ink;
          context.lineWidth = 1;
          context.stroke();
        }
        drawn += 1;
      });
      if (waiting.length > 0) {
        waiting.sort((a, b) => (enqueued[a] ?? 0) - (enqueued[b] ?? 0));
        const room = (side === 0 ? link.forward : link.reverse).queue_limit_packets;
        queues.push({ place: on(line, 0, 0), line, rows: waiting, room, side });
      }
      context.globalAlpha = 1;
    }
  });

  // In a crowd all of a colour are filled at once, the chosen flow's above them.
  context.strokeStyle = ink.ink;
  context.lineWidth = 1;
  for (const [colour, list] of [...dots].sort(([a], [b]) => Number(a === "") - Number(b === ""))) {
    context.globalAlpha = colour === "" ? 1 : OTHERS;
    context.fillStyle = colour || (ink.flows[flow % ink.flows.length] ?? ink.ink);
    context.beginPath();
    for (let at = 0; at < list.length; at += 3) {
      const [x, y, size] = [list[at] ?? 0, list[at + 1] ?? 0, list[at + 2] ?? 0];
      context.moveTo(x + size, y);
      context.arc(x, y, size, 0, 2 * Math.PI);
    }
    context.fill();
    if (colour === "") context.stroke();
  }
  context.globalAlpha = 1;

  // Queues stand upright at the heads of their links, the next to leave at the foot.
  const numbers: { text: string; x: number; y: number; upward: number }[] = [];
  for (const { place, line, rows, room, side } of queues) {
    // Where nodes stand close together, they lie, away from the link.
    const close = places.some((other) => other.x === line.from.x && other !== line.from && Math.abs(other.y - line.from.y) < 70);
    if (close) {
      const outward = line.along.x < 0 ? 1 : -1;
      const wide = Math.min(1.5, LYING / Math.max(1, room ?? rows.length));
      rows.slice(0, Math.floor(LYING / wide)).forEach((row, number) => {
        context.fillStyle = ink.flows[(flows[row] ?? 0) % ink.flows.length] ?? ink.ink;
        context.fillRect(line.from.x + outward * (7 + number * wide) - (outward < 0 ? wide : 0), line.from.y - 2.5, wide, 5);
        drawn += 1;
      });
      continue;
    }
    const upward = side === 0 ? -1 : 1;
    const { step, shown } = stacked(rows.length, (upward < 0 ? place.y : height - place.y) - FOOT - NUMBER, crowded ? 3 : 4);
    for (let number = 0; number < shown; number += 1) {
      const row = rows[number] ?? 0;
      context.fillStyle = ink.flows[(flows[row] ?? 0) % ink.flows.length] ?? ink.ink;
      context.fillRect(place.x - 5, place.y + upward * (FOOT + number * step), 10, step - 1);
      drawn += 1;
    }
    if ((rows.length >= 4 || rows.length > shown) && !(crowded && room === null)) {
      numbers.push({ text: room === null ? String(rows.length) : `${rows.length} of ${room}`, x: place.x, y: place.y + upward * (FOOT + 3 + shown * step), upward });
    }
  }

  drawCollisions(context, scene, places, ink);
  context.strokeStyle = ink.bad;
  context.lineWidth = 2;
  for (const { place, left } of lost) {
    context.globalAlpha = Math.max(0.15, Math.min(1, left));
    cross(context, place, crowded ? 4 : 5);
  }
  context.globalAlpha = 1;

  // Nodes last, so that packets go in and out of them; in a crowd they do not come so near.
  if (!crowded) {
    texts.takeNodes(places);
    drawNodes(context, width, scene, places, ink, texts);
  }
  // Where things stand close together, names count more than numbers.
  context.fillStyle = ink.muted;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (const { text, x, y, upward } of numbers) {
    const half = context.measureText(text).width / 2;
    const top = upward < 0 ? y - 12 : y;
    if (!texts.takeIfFree(x - half, top, x + half, top + 12)) continue;
    context.textBaseline = upward < 0 ? "bottom" : "top";
    context.fillText(text, x, y);
  }
  return drawn;
}

/** Frames that met another: a star where they should have been read, with a ray to where they came from. */
function drawCollisions(context: Pen, { trace, time, fade }: Scene, places: Place[], ink: Ink): void {
  const { collisions } = trace.window;
  const [times, from, at] = [columnOf(collisions, "time_s"), columnOf(collisions, "from"), columnOf(collisions, "at")];
  context.strokeStyle = ink.bad;
  for (let row = upTo(times, time) - 1; row >= 0 && (times[row] ?? 0) >= time - fade; row -= 1) {
    const [start, end] = [places[from[row] ?? 0], places[at[row] ?? 0]];
    if (!start || !end) continue;
    const line = way(start, end);
    const where = on(line, 1, 0);
    context.globalAlpha = Math.max(0.15, 1 - (time - (times[row] ?? 0)) / Math.max(1e-12, fade));
    context.lineWidth = 1;
    context.setLineDash([1, 3]);
    context.beginPath();
    context.moveTo(start.x, start.y);
    context.lineTo(where.x, where.y);
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1.6;
    context.beginPath();
    for (let ray = 0; ray < 8; ray += 1) {
      const [x, y] = [Math.cos((ray * Math.PI) / 4), Math.sin((ray * Math.PI) / 4)];
      context.moveTo(where.x + 2.5 * x, where.y + 2.5 * y);
      context.lineTo(where.x + 7 * x, where.y + 7 * y);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** How far each access point reaches, to scale. */
export function drawCells(context: Pen, [width, height]: [number, number], { description, layout }: Still, places: Place[], ink: Ink): void {
  context.save();
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "bottom";
  for (const cell of description.cells) {
    const place = places[cell.node];
    const radius = cell.range_m * layout.scale;
    if (!place || !(radius > 0)) continue;
    // One that reaches beyond the picture on all sides would be nothing but a grey ground.
    if ([0, width].every((x) => [0, height].every((y) => Math.hypot(x - place.x, y - place.y) < radius))) continue;
    context.strokeStyle = ink.rule;
    context.fillStyle = ink.muted;
    context.lineWidth = 1.5;
    context.setLineDash([2, 4]);
    context.beginPath();
    context.arc(place.x, place.y, radius, 0, 2 * Math.PI);
    context.stroke();
    context.save();
    context.globalAlpha = 0.06;
    context.fill();
    context.restore();
    context.fillText(`${cell.name}: ${Math.round(cell.range_m)} m`, place.x, Math.max(14, place.y - radius - 3));
  }
  context.restore();
}

/** Nodes by the squares of the picture in which they stand: what is near is found without a look at all of them. */
class Squares {
  private readonly squares = new Map<string, Place[]>();
  private readonly columns = new Map<number, Place[]>();

  constructor(places: Place[]) {
    for (const place of places) {
      const [column, row] = [Math.floor(place.x / NEAR), Math.floor(place.y / NEAR)];
      this.columns.set(column, this.columns.get(column) ?? []);
      this.columns.get(column)?.push(place);
      this.squares.set(`${column} ${row}`, this.squares.get(`${column} ${row}`) ?? []);
      this.squares.get(`${column} ${row}`)?.push(place);
    }
  }

  /** Whether more of those around a place are meant than `most`. Those in its own square come first: in a crowd they are
   * the answer. */
  hasMore({ x, y }: Place, most: number, isMeant: (other: Place) => boolean, isWholeColumn = false): boolean {
    const [column, row] = [Math.floor(x / NEAR), Math.floor(y / NEAR)];
    const around = [0, -1, 1];
    let found = 0;
    return around.some((right) =>
      (isWholeColumn ? [this.columns.get(column + right)] : around.map((down) => this.squares.get(`${column + right} ${row + down}`))).some((square) =>
        square?.some((other) => isMeant(other) && ++found > most)));
  }
}

const known = new WeakMap<Place[], Squares>();

function squaresOf(places: Place[]): Squares {
  const squares = known.get(places) ?? new Squares(places);
  known.set(places, squares);
  return squares;
}

/** Whether no more than one other node stands near, and none above or below among more than one. */
function isAlone(places: Place[], own: Place): boolean {
  const squares = squaresOf(places);
  return !squares.hasMore(own, 2, ({ x }) => Math.abs(x - own.x) < 2, true) && !squares.hasMore(own, 2, ({ x, y }) => Math.hypot(x - own.x, y - own.y) < NEAR);
}

/** Whether another node but these stands so close above or below a place, at most `NEAR`. */
export function isBesideOthers(places: Place[], own: Place, ends: Place[], above: number): boolean {
  return squaresOf(places).hasMore(own, 0, (other) => !ends.includes(other) && Math.abs(other.x - own.x) < 2 && Math.abs(other.y - own.y) < above);
}

/** Tells what would be drawn over its like, at the same px: in a crowd that is most. */
export class Once {
  private readonly drawn = new Set<string>();

  isFirst(...of: (number | boolean)[]): boolean {
    const key = of.map(Number).map(Math.round).join();
    if (this.drawn.has(key)) return false;
    this.drawn.add(key);
    return true;
  }
}
