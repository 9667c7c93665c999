// The ready scenarios, as they lie in scenarios/: the page shows each with the first sentence of its own comment.

import ABOUT from "../../engine/about.json";
import type { Source } from "../engine/types";

const FILES = import.meta.glob("../../../scenarios/*", { query: "?raw", import: "default", eager: true }) as Record<string, string | (() => string)>;

export interface Ready {
  /** Name of the file without its ending. */
  id: string;
  about: string;
  source: Source;
}

function aboutOf(text: string): string {
  const words: string[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith("#")) break;
    const rest = line.slice(1).trim();
    if (rest === "") break;
    words.push(rest);
  }
  return words.join(" ");
}

const names = Object.keys(FILES).map((path) => path.split("/").pop() ?? path);
const textOf = (name: string): string => {
  const found = Object.entries(FILES).find(([path]) => path.endsWith(`/${name}`))?.[1] ?? "";
  return typeof found === "string" ? found : found();
};
const inputs = names.filter((name) => !/\.(toml|md)$/.test(name));

/** The files among `inputs` that a scenario names. */
export function filesOf(text: string): Record<string, string> {
  return Object.fromEntries(inputs.filter((name) => text.includes(`"${name}"`)).map((name) => [name, textOf(name)]));
}

export const READY: Ready[] = names
  .filter((name) => name.endsWith(".toml"))
  .sort()
  .map((name) => {
    const text = textOf(name);
    let source: Source | null = null;
    return { id: name.slice(0, -5), about: aboutOf(text), get source() { return (source ??= { name, text, files: filesOf(text) }); } };
  });

/** Chosen in web/tools/about.mjs, which has it read by the engine when the page is built. */
export const FIRST: string = ABOUT.first.id;
