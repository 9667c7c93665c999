// The colour and line of each sender: those of python/lasthop/drawing.py (Okabe and Ito without yellow), so that a sender
// looks alike in every figure. Line styles differ too, for print in grey.

export const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
export const DASHES: number[][] = [[], [7, 3], [2, 3], [7, 3, 2, 3], [12, 4], [5, 2, 2, 2, 2, 2]];

/** How a line is drawn among this many: dashes tell lines apart, and would be gaps in one that is alone. */
export const dashesOf = (style: number, lines: number): number[] => (lines > 1 ? (DASHES[style] ?? []) : []);

const WELL_KNOWN = ["reno", "cubic", "vegas", "bbr", "newreno", "sack"];

/** The style of each sender: its own in every figure, unless another one there has it already. */
export function styles(names: string[], known: string[]): Map<string, number> {
  const order = [...WELL_KNOWN, ...known.filter((name) => !WELL_KNOWN.includes(name))];
  const rank = (name: string) => {
    const place = order.indexOf(name.split("/")[0] ?? name);
    return place < 0 ? order.length : place;
  };
  const chosen = new Map<string, number>();
  for (const name of [...new Set(names)].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))) {
    const first = rank(name) % COLOURS.length;
    const free = COLOURS.map((_, step) => (first + step) % COLOURS.length).find((one) => ![...chosen.values()].includes(one));
    chosen.set(name, free ?? first);
  }
  return chosen;
}

/** Size of text on a usual screen, in px, as the style sheet has it. */
export const USUAL = 15;

let scale: { at: number; value: number } | null = null;

/** How much larger text is than usual: on large screens, figures grow with it. */
export function textScale(): number {
  // Asked for every frame; it changes with the width of the window alone.
  if (scale?.at !== window.innerWidth) scale = { at: window.innerWidth, value: (Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || USUAL) / USUAL };
  return scale.value;
}
