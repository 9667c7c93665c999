// One panel alone, for a frame in another page: `?panel=queue#...` shows what the address says, with nothing around it
// but a link to the whole.

import { CaptureFile } from "../capture/capture";
import { ExploredFigure } from "../explore/explore";
import { namesFile } from "../model/address";
import { useStore } from "../model/store";
import { Results } from "../play/results";
import { Replay } from "../replay/replay";

export function Embedded({ panel, theme }: { panel: string; theme: string }) {
  const { failure, broken, note, view } = useStore("failure", "broken", "note", "view");
  const wrong = broken ?? failure?.text;
  const shown = {
    capture: <CaptureFile theme={theme} only={panel} />, explore: <ExploredFigure />,
    replay: <Replay theme={theme} only={panel} />, play: <Results theme={theme} only={panel} />,
  };
  const isOfFile = view === "capture" || view === "explore";
  return (
    <main id="main" class="embedded" tabIndex={-1}>
      <h1 class="hidden">lasthop, {panel}</h1>
      {note && !isOfFile && <p class="message note" role="status">{note}</p>}
      {isOfFile && !namesFile() && <p class="message bad" role="alert">This address names no {view === "capture" ? "capture: capture=" : "study: table="} says which file beside the page is meant.</p>}
      {wrong ? <pre class="message bad" role="alert">{wrong}</pre> : shown[view]}
      <p class="foot"><a href={`${location.pathname}${location.hash}`} target="_blank" rel="noopener">Open in lasthop</a></p>
    </main>
  );
}
