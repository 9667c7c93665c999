// One sentence or two on what to look at first, made of what the run measured: how packets were lost, and the figure in
// which most happens. Of every scenario, the user's own included.

import type { Checked, Summary } from "../engine/types";
import { bottleneckName } from "./compare";
import type { Panel } from "./curves";
import type { Mark } from "./marks";

/** Causes of loss that lie in a queue; all others but the last lie on the way. */
const IN_QUEUES = ["queue-overflow", "early-drop", "policed"];
/** What a helper takes off the path on purpose is not lost. */
const SUPPRESSED = "withheld";
/** Which helpers do so, by their names in the results of a link, and what each does. */
const SUPPRESSING: [name: string, does: (count: string) => string][] = [
  ["snoop", (count) => `Snoop suppresses ${count} duplicate and late ACKs`],
  ["wtcp", (count) => `WTCP suppresses ${count} duplicate ACKs`],
  ["fastack", (count) => `FastACK acknowledges in place of the stations and suppresses ${count} ACKs of theirs`],
  ["ack_filter", (count) => `the ACK filter suppresses ${count} ACKs that newer ones cover`],
];
/** A queue that is as full as this on average stands. */
const STANDING = 0.3;

const percent = (share: number): string => (share > 0 && share < 0.01 ? "less than 1 %" : share < 1 && share > 0.99 ? "more than 99 %" : `${Math.round(share * 100)} %`);

function losses(totals: Record<string, unknown>): { lost: number; queued: number } {
  const counts = Object.entries((totals["packets_lost"] ?? {}) as Record<string, number>);
  const of = (names: (name: string) => boolean) => counts.filter(([name]) => names(name)).reduce((total, [, count]) => total + count, 0);
  return { lost: of((name) => name !== SUPPRESSED), queued: of((name) => IN_QUEUES.includes(name)) };
}

/** What became of the packets. */
function ofLosses(totals: Record<string, unknown>): string {
  const { lost, queued } = losses(totals);
  if (lost === 0) return "No packet is lost.";
  const count = `${lost.toLocaleString("en-GB")} packets are lost`;
  if (queued === lost) return `${count}, all of them in queues.`;
  if (queued === 0) return `${count}, none of them in a queue.`;
  return `${count}: ${percent(queued / lost)} in queues, the others on the path.`;
}

/** How long what waits at the busiest link takes through it. */
function ofQueue(summary: Summary, { description: { links } }: Checked): string | null {
  const name = bottleneckName([summary]);
  const row = summary.links.find((link) => link["name"] === name);
  const place = links.flatMap((link) => [link.name, `${link.name} (reverse)`]).indexOf(name);
  const side = links[place >> 1]?.[place % 2 === 0 ? "forward" : "reverse"];
  const [waiting, bytes, packets] = ["avg_queue_packets", "bytes_sent", "packets_sent"].map((key) => Number(row?.[key] ?? 0)) as [number, number, number];
  if (!side || !(side.rate_bit_s > 0) || packets === 0 || !(waiting > 1)) return null;
  if (side.queue_limit_packets !== null && waiting < STANDING * side.queue_limit_packets) return null;
  const seconds = (waiting * (bytes / packets) * 8) / side.rate_bit_s;
  return `Look at the queue at ${name}: it holds ${waiting.toFixed(waiting < 10 ? 1 : 0)} packets on average, so each packet waits ${seconds < 1 ? `${(seconds * 1000).toFixed(0)} ms` : `${seconds.toFixed(1)} s`}.`;
}

/** What helpers did about losses, and which ACKs each of them suppressed. */
function ofHelpers({ totals, links }: Summary): string | null {
  const repaired = Number(totals["helper_retransmissions"] ?? 0);
  if (!(repaired > 0)) return null;
  const suppressed = SUPPRESSING.flatMap(([name, does]) => {
    const count = links.reduce((total, link) => total + Number((link[name] as { withheld?: number } | null | undefined)?.withheld ?? 0), 0);
    return count > 0 ? [does(count.toLocaleString("en-GB"))] : [];
  });
  return `Look at the repairs: helpers in the network retransmit ${repaired.toLocaleString("en-GB")} packets${suppressed.map((one) => `; ${one}`).join("")}.`;
}

/** Share of retransmissions on radio links; what the results have is told per packet. */
function repetitions({ totals, links }: Summary): number {
  const attempts = links.reduce((total, { radio }) => total + Number((radio as { attempts?: number } | null | undefined)?.attempts ?? 0), 0);
  return attempts > 0 ? Number(totals["link_retransmissions"] ?? 0) / attempts : 0;
}

/** The first of a run to be seen: in words, and the panels that show it. */
export interface Look {
  text: string;
  panels: Panel["id"][];
}

/** The panels, those first that the first sentence speaks of. */
export function foremost(panels: Panel[], look: Look | null): Panel[] {
  const rank = ({ id }: Panel) => {
    const place = look?.panels.indexOf(id) ?? -1;
    return place < 0 ? Number.POSITIVE_INFINITY : place;
  };
  return panels.map((panel, place) => ({ panel, place })).sort((a, b) => Math.sign(rank(a.panel) - rank(b.panel)) || a.place - b.place).map(({ panel }) => panel);
}

/** What to look at in a run; `name` says of which sender it is, if there are several. */
export function lookAt(summary: Summary, checked: Checked, marks: Mark[], name: string | null): Look {
  const { totals } = summary;
  const { lost, queued } = losses(totals);
  const down = marks.filter((mark) => mark.kind === "outage").length;
  const moves = marks.filter((mark) => mark.kind === "handoff").length;
  const again = repetitions(summary);
  const stalls = totals["stall_share"];
  const of = name === null ? ofLosses(totals) : `With ${name}: ${ofLosses(totals)}`;
  const times = (count: number) => (count === 1 ? "once" : `${count} times`);
  if (typeof stalls === "number" && stalls > 0.001) return { text: `${of} Playback stalls for ${percent(stalls)} of the time.`, panels: ["stall", "buffer", "timely"] };
  if (down > 0) return { text: `${of} Look at the shaded times: a link of the path goes down ${times(down)}.`, panels: [] };
  if (moves > 0) return { text: `${of} Look at the shaded times: the path changes ${times(moves)}.`, panels: [] };
  const repairs = ofHelpers(summary);
  if (repairs !== null) return { text: `${of} ${repairs}`, panels: ["repairs", "held"] };
  if (again > 0.02) return { text: `${of} Look at the radio links: ${percent(again)} of their transmissions are retransmissions.`, panels: ["collisions", "air", "airtime"] };
  if (lost > 0 && queued < lost / 2 && checked.description.flows.some((flow) => flow.windowed)) return { text: `${of} Look at what each of those losses does to the congestion window.`, panels: ["cwnd"] };
  const queue = ofQueue(summary, checked);
  return { text: [of, queue].filter(Boolean).join(" "), panels: queue ? ["queue"] : [] };
}
