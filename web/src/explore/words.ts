// What the file of a paper's series says of them itself: labels, units and the names of values, as `lasthop reproduce`
// writes them (python/lasthop/papers/words.py). A file of others may say anything: what is no text is left out.

import type { ReadTable } from "../engine/types";
import { SETTING, type Axis, type Metric, type Value } from "./table";

type Said = Record<string, unknown>;

const isSaid = (value: unknown): value is Said => typeof value === "object" && value !== null && !Array.isArray(value);
const entries = (value: unknown): Said[] => (Array.isArray(value) ? value.filter(isSaid) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const isValue = (value: unknown): value is Value => typeof value === "string" || typeof value === "number";
/** What is kept of samples over time, such as `cv(queue)`, and how it is called; of the functions of claims. */
const AGGREGATE = /^(\w+)\((\w+)\)$/;
const CALLED: Record<string, string> = { cv: "coefficient of variation", std: "standard deviation", max: "greatest", min: "least" };

function parsed(words: string | null): Said {
  try {
    const said: unknown = words === null ? null : JSON.parse(words);
    return isSaid(said) ? said : {};
  } catch {
    return {};
  }
}

export function wordsOf({ columns, words }: Pick<ReadTable, "columns" | "words">): { about: string; axes: Axis[]; metrics: Metric[] } {
  const said = parsed(words);
  const axes = entries(said["axes"]).map((one): Axis => {
    const values = Array.isArray(one["values"]) ? one["values"].filter(isValue) : [];
    const labels = Array.isArray(one["labels"]) ? one["labels"] : [];
    return { name: text(one["name"]), label: text(one["label"]) || text(one["name"]), unit: text(one["unit"]), values, labels: values.map((value, place) => text(labels[place]) || String(value)) };
  });
  const settings = isSaid(said["settings"]) ? Object.entries(said["settings"]) : [];
  axes.push({ name: SETTING, label: "setting", unit: "", values: settings.map(([name]) => name), labels: settings.map(([name, title]) => text(title) || name) });
  const known = new Map(entries(said["series"]).map((one) => [text(one["name"]), one]));
  const named = columns["series"];
  const metrics = (named && !(named instanceof Float64Array) ? named.texts : []).map((name): Metric => {
    const [, how = "", of = name] = AGGREGATE.exec(name) ?? [];
    const one = known.get(of) ?? {};
    const label = text(one["label"]) || of;
    // A coefficient of variation has no unit.
    return { name, label: how ? `${label}, ${CALLED[how] ?? how}` : label, unit: how === "cv" ? "" : text(one["unit"]), scale: 1, most: null, help: text(one["help"]) };
  });
  // Those with a name first, in its order: what is kept of samples over time is behind claims.
  metrics.sort((one, other) => Number(AGGREGATE.test(one.name)) - Number(AGGREGATE.test(other.name)));
  const title = text(said["title"]);
  return { about: title ? `Paper ${text(said["paper"])}: ${title}` : "", axes, metrics };
}
