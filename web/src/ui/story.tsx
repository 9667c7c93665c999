// Guided stories (stories/stories.json): each a row of views, as their addresses say them, with a few sentences, and
// questions to try at the end. The step stands in the address, so a story can be linked to and left with the browser.

import { useEffect, useRef } from "preact/hooks";
import { goTo } from "../model/address";
import { choose, useStore } from "../model/store";
import STORIES from "../stories/stories.json";

interface Step {
  title: string;
  text: string;
  /** The fragment of the address that it shows. */
  look: string;
  /** What it speaks of, by selector. */
  about: string;
}

interface Story {
  id: string;
  title: string;
  steps: Step[];
  ask: string[];
}

const stories: Story[] = STORIES;

function enter(story: Story, step: number): void {
  const look = story.steps[step]?.look;
  if (look !== undefined) goTo(`${look}&story=${story.id}&step=${step + 1}`);
}

function leave(): void {
  choose("step", null);
  choose("story", null);
}

/** How often to look for what is not there yet, in ms. */
const LOOK = 200;

/** Marks what a step speaks of, as soon as it is there and as long as it is. */
function useLight(about: string | undefined, key: string): void {
  useEffect(() => {
    let lit: Element | null = null;
    const look = () => {
      const target = about ? document.querySelector(about) : null;
      if (target === lit) return;
      lit?.classList.remove("lit");
      target?.classList.add("lit");
      if (lit === null) target?.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      lit = target;
    };
    look();
    const timer = window.setInterval(look, LOOK);
    return () => {
      window.clearInterval(timer);
      lit?.classList.remove("lit");
    };
  }, [about, key]);
}

/** The card of the step that the address names. */
export function StoryCard() {
  const { chosen, view } = useStore("chosen", "view");
  const story = stories.find((one) => one.id === chosen["story"]);
  const at = Math.min(Math.max(1, Number(chosen["step"] ?? 1) || 1), story?.steps.length ?? 1) - 1;
  const step = story?.steps[at];
  const key = `${story?.id} ${at}`;
  const box = useRef<HTMLDialogElement>(null);
  useLight(step?.about, key);
  useEffect(() => {
    if (!step) return;
    if (!box.current?.open) box.current?.show();
    box.current?.focus();
  }, [key]);
  if (!story || !step) return null;
  const isLast = at === story.steps.length - 1;
  return (
    <dialog class={view === "play" ? "tour aside" : "tour"} ref={box} tabIndex={-1} aria-labelledby="story-title" onKeyDown={(event) => event.key === "Escape" && leave()}>
      <p class="count">{story.title}: step {at + 1} of {story.steps.length}</p>
      <h2 id="story-title">{step.title}</h2>
      <p aria-live="polite">{step.text}</p>
      {isLast && (
        <>
          <p class="count">To try</p>
          <ul class="ask">{story.ask.map((one) => <li key={one}>{one}</li>)}</ul>
        </>
      )}
      <div class="row">
        <button type="button" class="quiet" onClick={leave}>End</button>
        {at > 0 && <button type="button" onClick={() => enter(story, at - 1)}>Back</button>}
        <button type="button" class="main" onClick={() => (isLast ? leave() : enter(story, at + 1))}>{isLast ? "Done" : "Next"}</button>
      </div>
    </dialog>
  );
}

/** The list to choose a story from. */
export function StoryList({ close }: { close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  return (
    <dialog class="stories" ref={box} aria-labelledby="stories-title" onClose={close} onClick={(event) => event.target === box.current && close()}>
      <h2 id="stories-title">Stories of two minutes</h2>
      <ol>
        {stories.map((story) => (
          <li key={story.id}>
            <button type="button" class="link" onClick={() => { close(); enter(story, 0); }}>{story.title}</button>
          </li>
        ))}
      </ol>
      <div class="row"><button type="button" onClick={close}>Close</button></div>
    </dialog>
  );
}
