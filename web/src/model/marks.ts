// What is marked on the axis of time: the warm-up, outages of the links that the shown flow passes, and changes of its
// access point or path. `lasthop plot` marks the same (`Marks` in plot.py).

import type { Description, Interruptions } from "../engine/types";
import { ways } from "../replay/layout";

export interface Mark {
  from: number;
  to: number;
  kind: "warm-up" | "outage" | "handoff";
}

/** More of them would be a pattern, not a mark. */
const MOST = 40;

/** Those that overlap become one. */
function merged(spans: [number, number][]): [number, number][] {
  const made: [number, number][] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = made.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else made.push([from, to]);
  }
  return made;
}

/** Which directions of links a flow passes, and which nodes are on its way; all if its number is negative. */
export function directionsOf(description: Description, flow: number): { passes: (direction: number) => boolean; isOn: (node: number) => boolean } {
  const way = flow < 0 ? null : ways(description)[flow];
  const passes = (direction: number) => {
    const link = description.links[direction >> 1];
    return !way || !link || (way.includes(link.from) && way.includes(link.to));
  };
  return { passes, isOn: (node) => !way || way.includes(node) };
}

/** `flow` is the number of one, or -1 for all. */
export function marksOf(description: Description, { outages, handoffs }: Interruptions, flow: number): Mark[] {
  const { passes, isOn } = directionsOf(description, flow);
  const down = merged(outages.filter(([direction]) => passes(direction)).map(([, from, to]) => [from, to]));
  const moves = merged(handoffs.filter(([host]) => isOn(host)).map(([, from, to]) => [from, to]));
  const marks: Mark[] = [];
  if (description.warmup_s > 0) marks.push({ from: 0, to: description.warmup_s, kind: "warm-up" });
  if (down.length <= MOST) for (const [from, to] of down) marks.push({ from, to, kind: "outage" });
  if (moves.length <= MOST) for (const [from, to] of moves) marks.push({ from, to, kind: "handoff" });
  return marks;
}

/** What the shades mean, in words; nothing if there are none. */
export function meaningOf(marks: Mark[]): string {
  const words = {
    "warm-up": "warm-up, which does not count",
    outage: "a link of the path is down",
    handoff: "the host changes its access point, or the flow its path",
  };
  const kinds = [...new Set(marks.map((mark) => mark.kind))];
  return kinds.length === 0 ? "" : `Shaded: ${kinds.map((kind) => words[kind]).join("; ")}.`;
}
