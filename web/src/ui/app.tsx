// The frame of the page: what is shown, light or dark, and the tour.

import { useEffect, useState } from "preact/hooks";
import { panelAsked } from "../model/address";
import { update, useChosen, useStore, type View } from "../model/store";
import { CaptureView } from "../capture/capture";
import { openFiles } from "../model/files";
import { Explore } from "../explore/explore";
import { Play } from "../play/play";
import { Replay } from "../replay/replay";
import { Embedded } from "./embedded";
import { StoryCard, StoryList } from "./story";

/** As the system has it, unless it was chosen. */
function useTheme(): [string, () => void] {
  const [asked, choose] = useChosen("theme");
  const usual = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = asked === "dark" || asked === "light" ? asked : usual;
  // Before anything is drawn, for figures ask the style sheet for their colours.
  if (document.documentElement.dataset["theme"] !== theme) document.documentElement.dataset["theme"] = theme;
  const other = theme === "dark" ? "light" : "dark";
  return [theme, () => choose(other === usual ? null : other)];
}

/** Files may be dropped anywhere. */
function useDrop(): void {
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      void openFiles(event.dataTransfer.files);
    };
    window.addEventListener("dragover", over);
    window.addEventListener("drop", drop);
    return () => {
      window.removeEventListener("dragover", over);
      window.removeEventListener("drop", drop);
    };
  }, []);
}

export function App() {
  useDrop();
  const state = useStore("view", "broken", "about");
  const { view } = state;
  const setView = (next: View) => update({ view: next });
  const [theme, turn] = useTheme();
  const [isListed, list] = useState(false);
  const panel = panelAsked();
  if (panel !== null) return <Embedded panel={panel} theme={theme} />;
  const views: [View, string][] = [["play", "Play"], ["replay", "Replay"], ["explore", "Explore"], ["capture", "Capture"]];
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        To the results
      </a>
      <header class="top">
        <h1>
          <svg viewBox="0 0 34 20" aria-hidden="true">
            <path d="M2 15h15" />
            <path class="air" d="M19 15q8-1 8-10" />
            <circle cx="27" cy="4" r="3" />
          </svg>
          <span>lasthop</span>
        </h1>
        <nav aria-label="Views">
          {views.map(([id, name]) => (
            <button key={id} type="button" aria-current={view === id ? "page" : undefined} onClick={() => setView(id)}>
              {name}
            </button>
          ))}
        </nav>
        <div class="tools">
          <button type="button" class="quiet" onClick={() => list(true)}>Stories</button>
          <button type="button" class="quiet" onClick={turn} aria-label={theme === "dark" ? "Light colours" : "Dark colours"}>
            {theme === "dark" ? "Light" : "Dark"}
          </button>
        </div>
      </header>
      {state.broken !== null ? (
        <main id="main" tabIndex={-1}>
          <p class="message bad" role="alert">The page cannot start: {state.broken}. Load it from a web server, or with lasthop view.</p>
        </main>
      ) : view === "play" ? (
        <Play theme={theme} />
      ) : view === "explore" ? (
        <Explore />
      ) : view === "capture" ? (
        <CaptureView theme={theme} />
      ) : (
        <Replay theme={theme} />
      )}
      <footer>
        <span>lasthop {state.about.version}</span>
        <span>The simulator runs in this page; nothing leaves your browser.</span>
      </footer>
      <StoryCard />
      {isListed && <StoryList close={() => list(false)} />}
    </>
  );
}
