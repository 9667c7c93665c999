// What happened in the first run of Play, moment by moment, under its curves. The run is repeated for that, with nothing
// else kept of it; one that takes long is repeated when it is asked for.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Cancelled } from "../engine/pool";
import type { Window } from "../engine/types";
import type { Span } from "../model/curves";
import { eventsOf } from "../model/events";
import { overridesFor, pool, shownVariant, useStore } from "../model/store";
import { Events } from "../ui/events";

/** A run that took less, in ms, is repeated unasked. */
const SOON = 4_000;

export function Happened({ flow, span, theme }: { flow: number; span: Span; theme: string }) {
  const { resultsOf, results, running, checked, about, interruptions } = useStore("resultsOf", "results", "running", "checked", "about", "interruptions");
  const [found, setFound] = useState<Window | null>(null);
  const [asked, ask] = useState("");
  const [variant] = resultsOf?.variants ?? [];
  const run = variant && results.get(variant.key)?.[0];
  const print = run?.summary.fingerprint ?? "";
  const isOurs = resultsOf !== null && resultsOf.checked === checked;
  const isKnown = found?.fingerprint === print;
  const isDue = isOurs && run != null && !running && !isKnown && (run.took_ms < SOON || asked === print);
  useEffect(() => {
    if (!isDue || !resultsOf || !variant) return;
    pool.window({ source: resultsOf.source, overrides: overridesFor(resultsOf.checked, variant), seed: resultsOf.seed, from_s: 0, to_s: 0, most: 1, looks_at_all: true, so_far: false }, "window").then(setFound, (error) => {
      // Without them the curves say what they did before.
      if (!(error instanceof Cancelled)) ask("");
    });
    return () => pool.cancel("window");
  }, [isDue, print]);
  const description = resultsOf?.checked.description;
  const kinds = useMemo(() => (found && description ? eventsOf(found, description, about.declarations, interruptions, flow) : []), [found, description, interruptions, flow]);
  if (!run || !description || !variant) return null;
  if (!isKnown) {
    if (isDue || running || run.took_ms < SOON) return null;
    return <p class="foot"><button type="button" onClick={() => ask(print)}>Mark losses and timeouts, about {Math.ceil(run.took_ms / 1000)} s</button></p>;
  }
  const whose = flow < 0 || description.flows.length < 2 ? "" : `${description.flows[flow]?.name}, `;
  return <Events kinds={kinds} span={span} of={`${whose}${shownVariant(variant, resultsOf?.checked ?? null)}`} theme={theme} />;
}
