// One panel alone, for a frame in another page: `?panel=queue#...` shows what the address says, with nothing around it
// but a link to the whole.

import { CaptureFile } from "../capture/capture";
import { ExploredFigure } from "../explore/explore";
import { useStore } from "../model/store";
import { Results } from "../play/results";

export function Embedded({ panel, theme }: { panel: string; theme: string }) {
  const { failure, broken, view } = useStore();
  const wrong = broken ?? failure?.text;
  const shown = view === "capture" ? <CaptureFile theme={theme} only={panel} /> : view === "explore" ? <ExploredFigure /> : <Results theme={theme} only={panel} />;
  return (
    <main id="main" class="embedded" tabIndex={-1}>
      <h1 class="hidden">lasthop, {panel}</h1>
      {wrong ? <pre class="message bad" role="alert">{wrong}</pre> : shown}
      <p class="foot"><a href={`${location.pathname}${location.hash}`} target="_blank" rel="noopener">Open in lasthop</a></p>
    </main>
  );
}
