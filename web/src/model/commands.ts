// What to type for the same on the command line and in Python, and the results as the command writes them.

import type { About, Checked, RunResult, Summary } from "../engine/types";
import { Comparison, metricValue } from "./compare";
import { greatest } from "./extent";
import type { Statistics } from "./stats";
import { AS_WRITTEN, shownSender, type State } from "./store";

/** A word of a shell command, quoted where it must be. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A file name that no shell or file system minds. */
export function fileName(state: State): string {
  const stem = state.source.name.replace(/\.(toml|json)$/, "").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `${stem || "scenario"}.toml`;
}

/** Whether the text must be downloaded first: it is not that of a ready scenario with some values set. */
export function needsFile(state: State): boolean {
  return state.ready === null || state.edited;
}

function file(state: State): string {
  return needsFile(state) ? fileName(state) : `scenarios/${state.ready}.toml`;
}

function isPlain(state: State): boolean {
  const known = state.keys.transports;
  return state.senders.every((sender) => sender !== AS_WRITTEN || known.includes(shownSender(sender, state.checked)));
}

function isCompared({ senders, helpers }: State): boolean {
  return senders.length * Math.max(1, helpers.length) > 1;
}

export function command(state: State): string {
  const { seed, seeds, senders, helpers } = state;
  const sets = needsFile(state) ? [] : state.changed.flatMap(([path, value]) => ["--set", quoted(`${path}=${value}`)]);
  const range = seeds === 1 ? String(seed) : `${seed}-${seed + seeds - 1}`;
  const names = senders.map((sender) => shownSender(sender, state.checked));
  if (isCompared(state) && isPlain(state)) {
    const helped = helpers.length > 0 ? ["--helpers", helpers.join(",")] : [];
    return ["lasthop compare", quoted(file(state)), "--transport", names.join(","), ...helped, "--seeds", range, ...sets].join(" ");
  }
  if (helpers.length > 0) return ["lasthop compare", quoted(file(state)), "--helpers", helpers.join(","), "--seeds", range, ...sets].join(" ");
  const alone = (sender: string) => {
    const own = sender === AS_WRITTEN ? [] : ["--set", `flows.0.transport=${sender}`];
    return ["lasthop run", quoted(file(state)), "--seeds", range, ...sets, ...own].join(" ");
  };
  return senders.map(alone).join("\n");
}

export function python(state: State): string {
  const { seed, seeds, senders, helpers } = state;
  const names = senders.map((sender) => shownSender(sender, state.checked));
  const lines = ["import lasthop as lh", "", `scenario = lh.Scenario.load(${JSON.stringify(file(state))})`];
  if (!needsFile(state) && state.changed.length > 0) {
    const pairs = state.changed.map(([path, value]) => `    ${JSON.stringify(path)}: ${value === "true" ? "True" : value === "false" ? "False" : value},`);
    lines.push("scenario = scenario.replace({", ...pairs, "})");
  }
  const range = `range(${seed}, ${seed + seeds})`;
  const helped = helpers.length > 0 ? `, helpers=${JSON.stringify(helpers)}` : "";
  if (isCompared(state) && isPlain(state)) {
    lines.push(`result = lh.compare(scenario, ${JSON.stringify(names)}${helped}, seeds=${range})`, "print(result)");
  } else if (helped) {
    lines.push(`result = lh.compare(scenario${helped}, seeds=${range})`, "print(result)");
  } else {
    lines.push(`for seed in ${range}:`, "    print(lh.run(scenario, seed=seed).totals)");
  }
  return `${lines.join("\n")}\n`;
}

/** Runs that have finished, seed by seed for every sender. */
export function wholeSeeds(results: Map<string, (RunResult | null)[]>, senders: string[]): Map<string, Summary[]> {
  const count = greatest(senders.map((sender) => results.get(sender)?.length ?? 0), 0);
  const whole = Array.from({ length: count }, (_, index) => index).filter((index) => senders.every((sender) => results.get(sender)?.[index]));
  return new Map(senders.map((sender) => [sender, whole.map((index) => results.get(sender)?.[index]?.summary as Summary)]));
}

/** The JSON object of `lasthop run --json` or `lasthop compare --json`. */
export function resultsJson(about: About, checked: Checked, runs: Map<string, Summary[]>, statistics: Statistics, axes: { senders: string[]; helpers: string[] } | null): object {
  const scenario = JSON.parse(checked.json) as object;
  const names = [...runs.keys()];
  const head = { scenario, engine_version: about.version };
  const [only] = names;
  if (names.length <= 1) return { ...head, runs: only === undefined ? [] : (runs.get(only) ?? []) };
  const comparison = new Comparison(runs, names[0] ?? "", about.declarations.columns, statistics);
  return {
    ...head,
    baseline: comparison.baseline,
    transports: names,
    ...axes,
    seeds: (runs.get(comparison.baseline) ?? []).map((run) => run.seed),
    bottleneck: comparison.bottleneck,
    means: comparison.metrics.flatMap((metric) =>
      names.map((transport) => {
        const found = comparison.estimate(transport, metric);
        return { metric: metric.name, unit: metric.unit, transport, mean: found?.mean ?? null, low: found?.low ?? null, high: found?.high ?? null, n: found?.n ?? 0 };
      }),
    ),
    differences: comparison.verdicts().map((one) => ({
      metric: one.metric.name, unit: one.metric.unit, transport: one.sender, baseline: one.baseline,
      difference: one.estimate?.mean ?? null, low: one.estimate?.low ?? null, high: one.estimate?.high ?? null, n: one.estimate?.n ?? 0,
      relative_difference: one.relative?.mean ?? null, relative_low: one.relative?.low ?? null, relative_high: one.relative?.high ?? null,
      better: one.better, verdict: one.text,
    })),
    runs: names.flatMap((transport) => (runs.get(transport) ?? []).map((run) => ({ transport, ...run }))),
  };
}

/** The compared metrics of every run, in units of the SI: a row per run. */
export function resultsCsv(comparison: Comparison): string {
  const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [["transport", "seed", ...comparison.metrics.map((metric) => metric.name), "fingerprint"]];
  for (const [name, runs] of comparison.runs) {
    for (const run of runs) {
      const values = comparison.metrics.map((metric) => String(metricValue(run, metric, comparison.bottleneck) ?? ""));
      rows.push([name, String(run.seed), ...values, run.fingerprint]);
    }
  }
  return `${rows.map((row) => row.map(quoted).join(",")).join("\n")}\n`;
}
