// How close curves are looked at, and whether tables with their figures stand below them.

import { clock } from "../model/clock";
import type { Span } from "../model/curves";
import { useChosen } from "../model/store";
import { nearer } from "./chart";

/** Figures below each curve, for those who read better than they see. */
export function Tabled() {
  const [tables, choose] = useChosen("tables");
  return <button type="button" aria-pressed={tables !== null} title="Figures below each curve" onClick={() => choose(tables === null ? "1" : null)}>Tables</button>;
}

/** `whole` is what the button is called that shows all. */
export function Zoom({ span, duration, whole, show }: { span: Span | null; duration: number; whole: string; show: (span: Span | null) => void }) {
  const look = (factor: number) => show(nearer(span ?? [0, duration], clock.isSet ? clock.seconds : duration / 2, factor, duration));
  return (
    <span class="zoom">
      <Tabled />
      <button type="button" aria-label="Look closer" title="Look closer: or drag over a curve" onClick={() => look(0.5)}>+</button>
      <button type="button" aria-label="Look wider" disabled={!span} onClick={() => look(2)}>−</button>
      {span && <button type="button" class="quiet" onClick={() => show(null)}>{whole}</button>}
    </span>
  );
}
