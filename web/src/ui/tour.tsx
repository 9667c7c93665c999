// Five steps through the scenario of the README: why Reno starves on a lossy last hop.

import { useEffect, useRef, useState } from "preact/hooks";
import { AS_WRITTEN, get, open } from "../model/store";
import { FIRST, READY } from "../model/ready";

interface Step {
  title: string;
  text: string;
  /** What the step is about, by selector. */
  about: string;
  before?: () => void;
}

const first = () => {
  const ready = READY.find((one) => one.id === FIRST);
  if (ready && get().ready !== FIRST) open(ready.source, FIRST, { senders: [AS_WRITTEN, "vegas", "cubic"] });
};

const STEPS: Step[] = [
  {
    title: "A lossy last hop",
    text: "Twenty flows share 10 Mbit/s. Each ends in a wireless hop that loses one packet in a hundred and goes down five times for a second. The simulator is running it now, in this page.",
    about: ".scenario", before: first,
  },
  {
    title: "Three senders, one channel",
    text: "Reno, Vegas and CUBIC meet the same losses at the same times. What differs is what they make of them: add a sender, or take one away.",
    about: ".senders",
  },
  {
    title: "Every loss halves the window",
    text: "Reno takes each loss for congestion. Its window never grows to what the path holds. Move over a curve: one cursor runs through all of them.",
    about: ".charts",
  },
  {
    title: "Drag the error rate to zero",
    text: "Under “channel, error” lower the packet error rate. Without losses in the air the queue fills, and Reno gets its share.",
    about: ".controls",
  },
  {
    title: "Is the difference real?",
    text: "Each verdict stands on several seeds and says its interval. Raise the number of seeds to make it narrower. Replay shows the packets of one run.",
    about: ".verdicts",
  },
];

export function Tour({ onEnd }: { onEnd: () => void }) {
  const [number, setNumber] = useState(0);
  const box = useRef<HTMLDialogElement>(null);
  const step = STEPS[number];
  useEffect(() => {
    box.current?.show();
    box.current?.focus();
  }, []);
  useEffect(() => {
    if (!step) return;
    step.before?.();
    const target = document.querySelector(step.about);
    target?.classList.add("lit");
    target?.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    return () => target?.classList.remove("lit");
  }, [number, step]);
  if (!step) return null;
  const isLast = number === STEPS.length - 1;
  return (
    <dialog class="tour" ref={box} tabIndex={-1} aria-labelledby="tour-title" onKeyDown={(event) => event.key === "Escape" && onEnd()}>
      <p class="count">Step {number + 1} of {STEPS.length}</p>
      <h2 id="tour-title">{step.title}</h2>
      <p aria-live="polite">{step.text}</p>
      <div class="row">
        <button type="button" class="quiet" onClick={onEnd}>End</button>
        {number > 0 && <button type="button" onClick={() => setNumber(number - 1)}>Back</button>}
        <button type="button" class="main" onClick={() => (isLast ? onEnd() : setNumber(number + 1))}>{isLast ? "Done" : "Next"}</button>
      </div>
    </dialog>
  );
}
