// The frame of the page: what is shown, light or dark, and the tour.

import { useEffect, useState } from "preact/hooks";
import { update, useStore, type View } from "../model/store";
import { Explore } from "../explore/explore";
import { Play } from "../play/play";
import { Replay } from "../replay/replay";
import { Tour } from "./tour";

function useTheme(): [string, () => void] {
  const system = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const [theme, setTheme] = useState(system);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  return [theme, () => setTheme(theme === "dark" ? "light" : "dark")];
}

export function App() {
  const state = useStore();
  const { view } = state;
  const setView = (next: View) => update({ view: next });
  const [theme, turn] = useTheme();
  const [tour, setTour] = useState(false);
  const views: [View, string][] = [["play", "Play"], ["replay", "Replay"], ["explore", "Explore"]];
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
          <button type="button" class="quiet" onClick={() => { setView("play"); setTour(true); }}>Tour</button>
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
      ) : (
        <Replay theme={theme} />
      )}
      <footer>
        <span>lasthop {state.about.version}</span>
        <span>The simulator runs in this page; nothing leaves your browser.</span>
      </footer>
      {tour && <Tour onEnd={() => setTour(false)} />}
    </>
  );
}
