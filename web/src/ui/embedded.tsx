// One panel alone, for a frame in another page: `?panel=queue#...` shows what the address says, with nothing around it
// but a link to the whole.

import { useStore } from "../model/store";
import { Results } from "../play/results";

export function Embedded({ panel, theme }: { panel: string; theme: string }) {
  const { failure, broken } = useStore();
  const wrong = broken ?? failure?.text;
  return (
    <main id="main" class="embedded" tabIndex={-1}>
      {wrong ? <pre class="message bad" role="alert">{wrong}</pre> : <Results theme={theme} only={panel} />}
      <p class="foot"><a href={`${location.pathname}${location.hash}`} target="_blank" rel="noopener">Open in lasthop</a></p>
    </main>
  );
}
