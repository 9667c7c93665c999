// Where the nodes of a path are drawn: in columns along the ways of the flows, and stations of a cell where they are.

import type { Description } from "../engine/types";
import { greatest, least } from "../model/extent";

/** Most nodes in a column that are drawn as single ones, the height of a name, and the room above and below all, in px. */
const MOST_NODES = 14;
const NAME = 15;
const MARGIN = 34;

export interface Place {
  x: number;
  y: number;
}

const waysKnown = new WeakMap<Description, number[][]>();

/** The nodes on the shortest way of each flow; found once for each description. */
export function ways(description: Description): number[][] {
  const known = waysKnown.get(description) ?? findWays(description);
  waysKnown.set(description, known);
  return known;
}

/** The neighbours of each node: a hub of a thousand links has a thousand. */
function neighbours({ nodes, links }: Description): number[][] {
  const next: number[][] = nodes.map(() => []);
  for (const { from, to } of links) {
    next[from]?.push(to);
    next[to]?.push(from);
  }
  return next;
}

function findWays(description: Description): number[][] {
  const next = neighbours(description);
  const known = new Map<number, Map<number, number>>();
  const from = (source: number) => {
    const before = known.get(source) ?? new Map<number, number>([[source, source]]);
    if (!known.has(source)) {
      const line = [source];
      for (const node of line) {
        for (const other of next[node] ?? []) {
          if (before.has(other)) continue;
          before.set(other, node);
          line.push(other);
        }
      }
      known.set(source, before);
    }
    return before;
  };
  return description.flows.slice(0, 400).map((flow) => {
    const before = from(flow.source);
    const way = [flow.sink];
    for (let node = flow.sink; node !== flow.source; ) {
      const previous = before.get(node);
      if (previous === undefined || way.length > description.nodes.length) break;
      node = previous;
      way.unshift(node);
    }
    return way;
  });
}

/** The column of each node. */
function columns(description: Description): number[] {
  const edges = new Map<string, [number, number]>();
  for (const way of ways(description)) {
    for (let place = 1; place < way.length; place += 1) {
      const [from, to] = [way[place - 1] ?? 0, way[place] ?? 0];
      if (!edges.has(`${to} ${from}`)) edges.set(`${from} ${to}`, [from, to]);
    }
  }
  const column = description.nodes.map(() => 0);
  for (let round = 0; round < Math.min(60, description.nodes.length); round += 1) {
    let changed = false;
    for (const [from, to] of edges.values()) {
      if ((column[to] ?? 0) >= (column[from] ?? 0) + 1) continue;
      column[to] = (column[from] ?? 0) + 1;
      changed = true;
    }
    if (!changed) break;
  }
  // A node that no flow passes at first stands among its neighbours.
  const used = new Set([...edges.values()].flat());
  const next = neighbours(description);
  description.nodes.forEach((_, node) => {
    if (used.has(node)) return;
    const near = (next[node] ?? []).map((other) => column[other] ?? 0);
    if (near.length > 0) column[node] = Math.round(near.reduce((total, one) => total + one, 0) / near.length);
  });
  return column;
}

/** Positions of all nodes within a box of this size, at this time. */
export class Layout {
  private readonly column: number[];
  private readonly rows: number[][];
  /** The place of each node in its column. */
  private readonly order: number[];

  /** Pixels of a metre among the stations, once they have places. */
  scale = 0;

  constructor(private readonly description: Description) {
    this.column = columns(description);
    const most = greatest(this.column, 0);
    this.rows = Array.from({ length: most + 1 }, (_, at) => description.nodes.map((_name, node) => node).filter((node) => this.column[node] === at));
    this.order = description.nodes.map((_, node) => this.rows[this.column[node] ?? 0]?.indexOf(node) ?? 0);
  }

  /** How many nodes the fullest column has. */
  get height(): number {
    return greatest(this.rows.map((row) => row.length), 1);
  }

  /** Whether nodes stand too close together for a name beside each. Stations stand where they are, not in their columns. */
  get isCrowded(): boolean {
    const { length } = this.description.stations;
    return this.height > MOST_NODES || (length === 0 && this.last !== null && (this.last.height - 2 * MARGIN) / this.height < NAME);
  }

  /** The last answer, which holds while no station moves. */
  private last: { width: number; height: number; placed: Place[] } | null = null;

  /** Whether a station changes its place during the run. */
  private get moves(): boolean {
    return this.description.stations.some(({ track }) => track.length > 1);
  }

  /** The same array as before where nothing has changed. */
  places(width: number, height: number, time: number): Place[] {
    if (this.last && this.last.width === width && this.last.height === height && !this.moves) return this.last.placed;
    const placed = this.placesAt(width, height, time);
    this.last = { width, height, placed };
    return placed;
  }

  private placesAt(width: number, height: number, time: number): Place[] {
    // Few stations leave room for the queues that stand upright at them.
    const { length } = this.description.stations;
    const margin = { x: Math.min(104, width * 0.13), y: length > 0 && length <= 4 ? Math.max(MARGIN, Math.min(96, height * 0.25)) : MARGIN };
    const placed = this.description.nodes.map((_, node) => {
      const at = this.column[node] ?? 0;
      const row = this.rows[at] ?? [];
      const share = this.rows.length > 1 ? at / (this.rows.length - 1) : 0.5;
      return { x: margin.x + share * (width - 2 * margin.x), y: margin.y + (((this.order[node] ?? 0) + 0.5) / row.length) * (height - 2 * margin.y) };
    });
    this.placeStations(placed, width, height, time, margin);
    return placed;
  }

  /** Stations are drawn to scale in a part of the picture of their own; wired nodes keep the rest. */
  private placeStations(placed: Place[], width: number, height: number, time: number, margin: Place): void {
    const { stations } = this.description;
    if (stations.length === 0) return;
    const points = stations.flatMap((station) => station.track.map(([, x, y]) => ({ x, y })));
    const [left, right] = [least(points.map((p) => p.x)), greatest(points.map((p) => p.x))];
    const [top, bottom] = [least(points.map((p) => p.y)), greatest(points.map((p) => p.y))];
    const isWired = placed.length > stations.length;
    const share = isWired ? 0.62 : 1;
    const span = Math.max(right - left, bottom - top, 1e-9);
    const room = { x: width * share - 2 * margin.x, y: height - 2 * margin.y };
    const scale = Math.min(room.x / Math.max(right - left, span * 0.05), room.y / Math.max(bottom - top, span * 0.05));
    this.scale = scale;
    // Stations stand on the side of their column among the wired nodes.
    const own = stations.map((station) => this.column[station.node] ?? 0);
    const wired = placed.map((_, node) => node).filter((node) => !stations.some((station) => station.node === node));
    const before = own.reduce((total, one) => total + one, 0) / own.length <= wired.reduce((total, node) => total + (this.column[node] ?? 0), 0) / Math.max(1, wired.length);
    const middle = { x: before ? (width * share) / 2 : width * (1 - share / 2), y: height / 2 };
    for (const station of stations) {
      const { x, y } = at(station.track, time);
      placed[station.node] = { x: middle.x + (x - (left + right) / 2) * scale, y: middle.y + (y - (top + bottom) / 2) * scale };
    }
    for (const node of wired) {
      const place = placed[node];
      if (place) place.x = before ? width * share + (place.x / width) * width * (1 - share) : (place.x / width) * width * (1 - share);
    }
  }
}

/** Where a station is on its track. */
function at(track: [number, number, number][], time: number): Place {
  const [first] = track;
  if (!first) return { x: 0, y: 0 };
  let [before, x, y] = first;
  for (const [until, nextX, nextY] of track) {
    if (until > time) {
      const share = until > before ? Math.max(0, (time - before) / (until - before)) : 1;
      return { x: x + (nextX - x) * share, y: y + (nextY - y) * share };
    }
    [before, x, y] = [until, nextX, nextY];
  }
  return { x, y };
}
