// What is taken along of a view, in every view alike: text to copy, and one panel as a frame for another page or as data.

import { useState } from "preact/hooks";
import { link, reachOf } from "../model/address";
import type { Panel, Span } from "../model/curves";
import { download, escape } from "../model/figure";

/** What was copied, and what became of it. */
export interface Copied {
  said: string;
  setSaid: (text: string) => void;
  shown: { title: string; text: string } | null;
  copy: (title: string, text: string) => Promise<void>;
}

export function useCopied(): Copied {
  const [said, setSaid] = useState("");
  const [shown, setShown] = useState<Copied["shown"]>(null);
  const copy = async (title: string, text: string) => {
    setShown({ title, text });
    try {
      await navigator.clipboard.writeText(text);
      setSaid(`${title} copied`);
    } catch {
      setSaid(`${title}: the browser does not allow copying; take it from the box`);
    }
  };
  return { said, setSaid, shown, copy };
}

/** The text that was copied; `more` says what else it needs. */
export function Taken({ copied: { said, shown }, more }: { copied: Copied; more?: string }) {
  return (
    <>
      {shown && (
        <div class="taken">
          <pre tabIndex={0} aria-label={shown.title}>{shown.text}</pre>
          {shown.title === "Link" && reachOf(shown.text) && <p class="foot">{reachOf(shown.text)}</p>}
          {more && <p class="foot">{more}</p>}
        </div>
      )}
      <p class="foot" role="status">{said}</p>
    </>
  );
}

/** What another page needs to show a panel in a frame. */
export function frameOf(address: string, panel: string): string {
  const [page, fragment] = address.split("#");
  const source = escape(`${page?.split("?")[0]}?panel=${panel}#${fragment}`);
  return `<iframe src="${source}" title="lasthop" width="720" height="320" style="border: 0"></iframe>`;
}

/** In a frame that asks for a panel which is not there: those that are. */
export function NoPanel({ asked, known }: { asked: string | null; known: string[] }) {
  if (asked === null || known.length === 0 || known.includes(asked)) return null;
  return <p class="message bad" role="alert">There is no panel “{asked}” here. There {known.length > 1 ? "are" : "is"}: {known.join(", ")}.</p>;
}

/** The points of a panel: a row per time, a column per line; of single packets, a row for each within the span. */
function panelCsv({ time, lines, unit, data }: Panel, [from, to]: Span): string {
  if (data) {
    const names = Object.keys(data);
    const times = data["time_s"] ?? new Float64Array();
    const rows = [...times.keys()].filter((row) => (times[row] ?? 0) >= from && (times[row] ?? 0) <= to);
    return `${[names.join(","), ...rows.map((row) => names.map((name) => data[name]?.[row] ?? "").join(","))].join("\n")}\n`;
  }
  const head = ["time_s", ...lines.map((line) => `${line.name}${unit && ` (${unit})`}`)].map((name) => `"${name.replaceAll('"', '""')}"`);
  const rows = time.map((one, row) => [Number(one.toPrecision(12)), ...lines.map((line) => line.values[row] ?? "")].join(","));
  return `${[head.join(","), ...rows].join("\n")}\n`;
}

interface OnePanelProps {
  curves: Panel[];
  span: Span;
  /** Panels that are no curves: the name in the address, and for people. */
  others: [id: string, title: string][];
  /** How files are called. */
  stem: string;
  /** A panel as SVG; nothing if it has no picture. */
  picture: (panel: string) => string;
  /** Panels without a picture. */
  told?: string[];
  copied: Copied;
}

/** One panel, for another page or as data. */
export function OnePanel({ curves, span, others, stem, picture, told = [], copied }: OnePanelProps) {
  const [asked, ask] = useState("");
  const names = [...curves.map(({ id, title }): [string, string] => [id, title]), ...others];
  const panel = names.some(([id]) => id === asked) ? asked : (names[0]?.[0] ?? "");
  const curve = curves.find((one) => one.id === panel);
  if (names.length === 0) return null;
  return (
    <div class="row">
      <label class="field inline"><span>One panel</span>
        <select value={panel} onChange={(event) => ask(event.currentTarget.value)}>
          {names.map(([id, name]) => <option key={id} value={id}>{name}</option>)}
        </select>
      </label>
      <button type="button" onClick={async () => copied.copy("Frame", frameOf(await link(), panel))}>Copy frame</button>
      <button type="button" disabled={!curve} onClick={() => { if (curve) download(`${stem}.${panel}.csv`, panelCsv(curve, span), "text/csv"); copied.setSaid("downloaded"); }}>Data (CSV)</button>
      <button type="button" disabled={told.includes(panel)} onClick={() => { download(`${stem}.${panel}.svg`, picture(panel), "image/svg+xml"); copied.setSaid("downloaded"); }}>Panel (SVG)</button>
    </div>
  );
}
