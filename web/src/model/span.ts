// From when to when curves are looked at: as it was chosen, or else where something happens first.

import { spanOf, type Span } from "./curves";
import type { Mark } from "./marks";
import { choose } from "./store";

/** Stands in the address for all of a run that is looked at more closely at first. */
const WHOLE = "whole";
/** How much of a run is seen before and after what happens first, and how often its own length. */
const BEFORE = { share: 1 / 30, times: 2 };
const AFTER = { share: 1 / 12, times: 4 };
/** A part that is larger than this share is no closer look. */
const MOST = 0.5;

/** The first outage or change of the path, with what leads to it and what comes of it; null if there is none. */
export function usualSpan(marks: Mark[], duration: number): Span | null {
  const counts = marks.find(({ kind }) => kind === "warm-up")?.to ?? 0;
  const first = marks.find(({ kind, from }) => kind !== "warm-up" && from >= counts);
  if (!first) return null;
  const length = first.to - first.from;
  const round = (time: number) => Number(time.toPrecision(3));
  const from = Math.max(0, first.from - Math.max(BEFORE.share * duration, BEFORE.times * length));
  const to = Math.min(duration, first.to + Math.max(AFTER.share * duration, AFTER.times * length));
  return to - from > MOST * duration ? null : [round(from), Math.min(duration, round(to))];
}

/** What is seen of a run: what was asked for, or else what is usual; null is all of it. */
export function seenSpan(asked: string | null, usual: Span | null, duration: number): Span | null {
  return asked === WHOLE ? null : (spanOf(asked, duration) ?? usual);
}

/** Looks at a part, or at all; `usual` is what is seen unasked. */
export function setSpan(span: Span | null, usual: Span | null = null): void {
  choose("span", span ? span.map((one) => String(Number(one.toPrecision(9)))).join("-") : usual && WHOLE);
}
