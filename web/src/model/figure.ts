// The figure as a file: the panels of the page as SVG, and as PNG drawn from it. Always on white, for papers.

import { extent, type Panel, type Pen, type Span } from "./curves";
import type { Mark } from "./marks";
import { COLOURS, dashesOf } from "./style";

const WIDTH = 960;
const HEIGHT = 190;
const LEFT = 62;
const RIGHT = 110;
const TOP = 30;
const BOTTOM = 30;
/** A letter of the names of lines is no wider on average. */
const LETTER = 8;
/** How much higher a picture of single packets is, and into how many parts a px is divided there. */
const PAINTED = 1.6;
const PARTS = 4;
/** Colours of single packets on white, by the names of the style sheet. */
const ON_WHITE: Record<string, string> = { "--sender-0": "#0072b2", "--sender-2": "#00825f", "--sender-3": "#b0548a", "--bad": "#a63a00", "--muted": "#5b6670" };
/** Grey, as in the figures of the command. */
const SHADES = { "warm-up": "#f2f2f2", outage: "#dcdcdc", handoff: "#e6e0ec" };

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
}

/** Round values from `low` to `high`, in about this many steps, with labels that tell all their digits. */
export function ticks(low: number, high: number, about: number): { value: number; label: string }[] {
  if (!(high > low)) return [];
  const power = Math.floor(Math.log10((high - low) / about));
  const rough = (high - low) / about / 10 ** power;
  const step = ([1, 2, 5].find((one) => one >= rough * (1 - 1e-9)) ?? 10) * 10 ** power;
  const digits = Math.floor(Math.log10(step) + 1e-9);
  const label = (value: number) => {
    if (digits >= -6 && digits < 5) return value.toLocaleString("en-GB", { minimumFractionDigits: Math.max(0, -digits), maximumFractionDigits: Math.max(0, -digits) });
    return value.toExponential(value === 0 ? 0 : Math.max(0, Math.floor(Math.log10(Math.abs(value)) + 1e-9) - digits));
  };
  const out = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count += 1) {
    const value = Number((count * step).toPrecision(12)) || 0;
    out.push({ value, label: label(value) });
  }
  return out;
}

/** Places of labels that are apart by at least `gap`. */
export function apart(places: number[], gap: number, least: number, most: number): number[] {
  const order = places.map((place, index) => ({ place, index })).sort((a, b) => a.place - b.place);
  let before = least - gap;
  for (const one of order) {
    one.place = Math.max(one.place, before + gap);
    before = one.place;
  }
  let after = most + gap;
  for (const one of [...order].reverse()) {
    one.place = Math.min(one.place, after - gap);
    after = one.place;
  }
  const out = [...places];
  for (const one of order) out[one.index] = one.place;
  return out;
}

/** A name that fits: of its parts between arrows and plus signs, the longest give way in their middle, so that names that
 * differ at an end do so still. */
export function fitted(name: string, fits: (text: string) => boolean): string {
  const parts = name.split(/([→+])/).map((text) => ({ text, kept: text.length }));
  const shown = () => parts.map(({ text, kept }) => (kept < text.length ? `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}` : text)).join("");
  while (!fits(shown())) {
    const longest = parts.reduce((most, one) => (one.kept > most.kept ? one : most));
    if (longest.kept <= 1) break;
    longest.kept -= 1;
  }
  return shown();
}

/** What a pen draws with, which `save` keeps. */
interface Set {
  lineWidth: number;
  strokeStyle: Pen["strokeStyle"];
  fillStyle: Pen["fillStyle"];
  globalAlpha: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
  dash: Iterable<number>;
  lineDashOffset: number;
  lineJoin: CanvasLineJoin;
  /** Groups that are open, each with a frame that cuts off what lies outside. */
  groups: number;
}
const BEGIN: Set = { lineWidth: 1, strokeStyle: "#000", fillStyle: "#000", globalAlpha: 1, font: "12px system-ui, sans-serif", textAlign: "left", textBaseline: "alphabetic", dash: [], lineDashOffset: 0, lineJoin: "miter", groups: 0 };
const ANCHORS: Record<string, string> = { center: "middle", right: "end" };
/** How far below the place of a text its base line is, in parts of the size of its letters. */
const BASES: Record<string, number> = { top: 0.8, middle: 0.35, bottom: -0.2 };
/** Size of letters of a file. */
const SIZE = 12;

let ruler: CanvasRenderingContext2D | null = null;

/** Draws into SVG what a canvas would show. */
export class SvgPen implements Pen {
  lineWidth = 1;
  strokeStyle: Pen["strokeStyle"] = "#000";
  fillStyle: Pen["fillStyle"] = "#000";
  globalAlpha = 1;
  font = BEGIN.font;
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  lineDashOffset = 0;
  lineJoin: CanvasLineJoin = "miter";
  private dash: Iterable<number> = [];
  private groups = 0;
  private frames = 0;
  private line = "";
  private bars = { style: "", d: "" };
  private readonly parts: string[] = [];
  private readonly kept: Set[] = [];

  /** `name` tells its frames from those of others in one file. */
  constructor(private readonly name = "") {}

  save(): void {
    this.kept.push({ ...BEGIN, ...this });
    this.groups = 0;
  }

  restore(): void {
    this.end();
    this.parts.push("</g>".repeat(this.groups));
    const { lineWidth, strokeStyle, fillStyle, globalAlpha, font, textAlign, textBaseline, dash, lineDashOffset, lineJoin, groups } = this.kept.pop() ?? BEGIN;
    Object.assign(this, { lineWidth, strokeStyle, fillStyle, globalAlpha, font, textAlign, textBaseline, dash, lineDashOffset, lineJoin, groups });
  }

  clearRect(): void {}

  /** Of a path of rectangles; nothing else is cut by. */
  clip(): void {
    this.end();
    const name = `frame${this.name}-${(this.frames += 1)}`;
    this.groups += 1;
    this.parts.push(`<clipPath id="${name}"><path d="${this.line}"/></clipPath><g clip-path="url(#${name})">`);
  }

  beginPath(): void {
    this.line = "";
  }

  moveTo(x: number, y: number): void {
    this.line += `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }

  lineTo(x: number, y: number): void {
    this.line += `${this.line ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.line += `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;
  }

  /** Of whole circles. */
  arc(x: number, y: number, radius: number): void {
    const size = Number(radius.toFixed(2));
    this.line += `M${(x - radius).toFixed(1)} ${y.toFixed(1)}a${size} ${size} 0 1 1 0 .01z`;
  }

  closePath(): void {
    this.line += "z";
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.stroke();
  }

  setLineDash(dash: Iterable<number>): void {
    this.dash = dash;
  }

  stroke(): void {
    this.end();
    const dash = [...this.dash].join(" ");
    if (this.line) this.parts.push(`<path d="${this.line}" fill="none" stroke="${this.strokeStyle}" stroke-width="${Number(this.lineWidth.toFixed(2))}"${dash && ` stroke-dasharray="${dash}"`}${dash && this.lineDashOffset ? ` stroke-dashoffset="${this.lineDashOffset.toFixed(1)}"` : ""}${this.faint}/>`);
  }

  fill(): void {
    this.end();
    if (this.line) this.parts.push(`<path d="${this.line}" fill="${this.fillStyle}"${this.faint}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    const style = `fill="${this.fillStyle}"${this.faint}`;
    if (this.bars.style !== style) this.end();
    this.bars.style = style;
    this.bars.d += `M${x} ${y}h${width}v${height}h${-width}z`;
  }

  fillText(text: string, x: number, y: number): void {
    this.put(text, x, y, `fill="${this.fillStyle}"`);
  }

  strokeText(text: string, x: number, y: number): void {
    this.put(text, x, y, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="${this.lineJoin}"`);
  }

  private put(text: string, x: number, y: number, style: string): void {
    this.end();
    const size = Number(/([\d.]+)px/.exec(this.font)?.[1] ?? SIZE);
    const base = y + (BASES[this.textBaseline] ?? 0) * size;
    const letters = size === SIZE ? "" : ` font-size="${Number(size.toFixed(1))}"`;
    this.parts.push(`<text x="${x.toFixed(1)}" y="${base.toFixed(1)}" text-anchor="${ANCHORS[this.textAlign] ?? "start"}"${letters} ${style}${this.faint}>${escape(text)}</text>`);
  }

  /** As wide as on a canvas, so that the same texts find room. */
  measureText(text: string): TextMetrics {
    ruler ??= document.createElement("canvas").getContext("2d");
    if (!ruler) return { width: text.length * LETTER * 0.85 } as TextMetrics;
    ruler.font = this.font;
    return ruler.measureText(text);
  }

  private get faint(): string {
    return this.globalAlpha < 1 ? ` opacity="${Number(this.globalAlpha.toFixed(3))}"` : "";
  }

  /** Bars of one colour are one path. */
  private end(): void {
    if (this.bars.d) this.parts.push(`<path d="${this.bars.d}" ${this.bars.style}/>`);
    this.bars = { style: "", d: "" };
  }

  get text(): string {
    this.end();
    return this.parts.join("");
  }

  /** As a file. */
  picture(width: number, height: number, ground: string): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="${ground}"/>${this.text}</svg>\n`;
  }
}

export function svg(panels: Panel[], title: string, [from, to]: Span, marks: Mark[] = []): string {
  const parts: string[] = [];
  const x = (time: number) => LEFT + ((time - from) / (to - from)) * (WIDTH - LEFT - RIGHT);
  let bottom = TOP;
  panels.forEach((panel, index) => {
    const top = bottom;
    const tall = panel.paint ? HEIGHT * PAINTED : HEIGHT;
    bottom += tall;
    const [least, most] = extent(panel);
    const y = (value: number) => top + tall - BOTTOM - ((value - least) / (most - least)) * (tall - TOP - BOTTOM);
    parts.push(`<text x="${LEFT}" y="${top + 18}" font-weight="600">${escape(panel.title)} <tspan fill="#666" font-weight="400">${escape(panel.unit)}</tspan></text>`);
    for (const mark of marks.filter((one) => one.to > from && one.from < to)) {
      const [start, end] = [x(Math.max(from, mark.from)), x(Math.min(to, mark.to))];
      parts.push(`<rect x="${start.toFixed(1)}" y="${top + TOP}" width="${Math.max(1, end - start).toFixed(1)}" height="${tall - TOP - BOTTOM}" fill="${SHADES[mark.kind]}"/>`);
    }
    for (const { value, label } of ticks(least, most, 4)) {
      parts.push(`<path d="M${LEFT} ${y(value).toFixed(1)}H${WIDTH - RIGHT}" stroke="#e4e4e4"/><text x="${LEFT - 8}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end" fill="#555">${label}</text>`);
    }
    if (index === panels.length - 1) {
      for (const { value, label } of ticks(from, to, 8)) parts.push(`<text x="${x(value).toFixed(1)}" y="${top + tall - 10}" text-anchor="middle" fill="#555">${label}</text>`);
      parts.push(`<text x="${WIDTH - RIGHT + 12}" y="${top + tall - 10}" fill="#555">s</text>`);
    }
    if (panel.limit !== null) parts.push(`<path d="M${LEFT} ${y(panel.limit).toFixed(1)}H${WIDTH - RIGHT}" stroke="#999" stroke-dasharray="1 3"/>`);
    if (panel.paint) {
      const pen = new SvgPen(panel.id);
      const [width, high] = [WIDTH - LEFT - RIGHT, tall - TOP - BOTTOM];
      panel.paint(pen, { box: { left: 0, top: 0, width: width * PARTS, height: high * PARTS }, ratio: PARTS, colour: (name) => ON_WHITE[name] ?? "#000" });
      parts.push(`<svg x="${LEFT}" y="${top + TOP}" width="${width}" height="${high}" viewBox="0 0 ${width * PARTS} ${high * PARTS}">${pen.text}</svg>`);
    }
    const ends: number[] = [];
    for (const line of panel.lines) {
      let path = "";
      let pen = false;
      let last = (least + most) / 2;
      line.values.forEach((value, place) => {
        const time = panel.time[place] ?? 0;
        if (value === null || time < from || time > to) {
          pen = false;
          return;
        }
        path += `${pen ? "L" : "M"}${x(panel.time[place] ?? 0).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
        last = value;
      });
      ends.push(y(last));
      if (panel.paint) continue;
      const dash = dashesOf(line.style, panel.lines.length);
      parts.push(`<path d="${path}" fill="none" stroke="${COLOURS[line.style]}" stroke-width="1.5"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`);
    }
    apart(ends, 15, top + TOP, top + tall - BOTTOM).forEach((place, number) => {
      const line = panel.lines[number];
      if (line) parts.push(`<text x="${WIDTH - RIGHT + 8}" y="${(place + 4).toFixed(1)}" fill="${COLOURS[line.style]}" font-weight="600">${escape(fitted(line.name, (text) => text.length * LETTER < RIGHT - 8))}</text>`);
    });
  });
  const height = bottom + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/><text x="${LEFT}" y="22" font-size="14" font-weight="600">${escape(title)}</text>${parts.join("")}</svg>\n`;
}

export async function png(text: string): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * 2;
    canvas.height = image.height * 2;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("the browser could not draw the figure");
    return blob;
  } finally {
    URL.revokeObjectURL(address);
  }
}

export function download(name: string, content: string | Blob, type = "text/plain"): void {
  const address = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
