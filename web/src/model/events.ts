// What happened in a run at single moments, by kind: losses by where they were, what the sender decided, collisions,
// marks, repairs, and when links were down. Marks on the axis of time, and what can be jumped to.

import type { Declarations, Description, Interruptions, Table, Window } from "../engine/types";
import { directionsOf } from "./marks";
import { columnOf, momentsOf, placeOf } from "./trace";

export interface Kind {
  /** One of them, and many, in words. */
  one: string;
  many: string;
  /** In seconds, ascending. */
  times: Float64Array;
  colour: "bad" | "ink" | "accent";
}

/** Those of the flow with this number, or of all flows if it is negative; a kind of which there are none is left out. */
export function eventsOf(window: Window, description: Description, { causes }: Pick<Declarations, "causes">, { outages, handoffs }: Interruptions, flow: number): Kind[] {
  const declarations = { columns: [], causes, kinds: [] };
  const { losses, collisions, marks, repairs } = window;
  const [whose, cause] = [columnOf(losses, "flow"), columnOf(losses, "cause")];
  const lost = (place: number) => columnOf(losses, "time_s").filter((_, row) => (flow < 0 || whose[row] === flow) && placeOf((cause[row] ?? 0) + 1, declarations) === place);
  const moments = momentsOf(window.decisions, flow < 0 ? null : flow);
  const decided = (decision: number) => Float64Array.from(moments.filter((one) => one.decision === decision), (one) => one.time);
  const ends = description.flows[flow];
  const [mine, starts, meets] = ["flow", "from", "at"].map((name) => columnOf(collisions, name));
  // Acknowledgements of the MAC and RTS carry no packet of a flow: those at its ends count.
  const isMine = (row: number) => flow < 0 || mine?.[row] === flow || (Number.isNaN(mine?.[row]) && [ends?.source, ends?.sink].some((end) => end === starts?.[row] || end === meets?.[row]));
  const ofFlow = (table: Table) => columnOf(table, "time_s").filter((_, row) => flow < 0 || columnOf(table, "flow")[row] === flow);
  const { passes, isOn } = directionsOf(description, flow);
  const all: Kind[] = [
    { one: "loss in the air", many: "air losses", times: lost(1), colour: "bad" },
    { one: "loss in a queue", many: "queue losses", times: lost(0), colour: "ink" },
    { one: "timeout", many: "timeouts", times: decided(1), colour: "bad" },
    { one: "recovery", many: "recoveries", times: decided(0), colour: "accent" },
    { one: "reduction undone", many: "undone", times: decided(2), colour: "accent" },
    { one: "mark", many: "marks", times: ofFlow(marks), colour: "accent" },
    { one: "repair by the network", many: "repairs", times: ofFlow(repairs), colour: "accent" },
    { one: "collision", many: "collisions", times: columnOf(collisions, "time_s").filter((_, row) => isMine(row)), colour: "bad" },
    { one: "outage", many: "outages", times: Float64Array.from(new Set(outages.filter(([direction]) => passes(direction)).map(([, start]) => start))), colour: "ink" },
    { one: "handoff", many: "handoffs", times: Float64Array.from(new Set(handoffs.filter(([host]) => isOn(host)).map(([, start]) => start))), colour: "accent" },
  ];
  return all.filter((kind) => kind.times.length > 0).map((kind) => ({ ...kind, times: kind.times.sort() }));
}
