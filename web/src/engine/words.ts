// Figures and verdicts in words, as the command says them: the engine's own functions (crates/lasthop-sim/src/shown.rs),
// called in the page itself, for they take microseconds. Ready before any job of a worker is.

import init, { meanTexts, multiple as multipleOf, verdict as verdictOf } from "../../engine/lasthop_web.js";

/** Begins: nothing below may be called before. */
export async function begin(module: WebAssembly.Module): Promise<void> {
  await init({ module_or_path: module });
}

/** The factor and the multiple of the unit in which a quantity of this size reads well. */
export function multiple(size: number, unit: string): [number, string] {
  return multipleOf(size, unit) as [number, string];
}

/** A mean and half the width of its interval, both divided by `factor`. */
export function meanText(mean: number, high: number | null, n: number, factor: number): { value: string; half: string | null } {
  const [value = "", half = null] = meanTexts(mean, high ?? Number.NaN, n, factor);
  return { value, half };
}

/** The fields of `Difference` in shown.rs. */
export interface Difference {
  words: { label: string; unit: string; share: boolean; more: string; less: string; times: string };
  sender: string;
  baseline: string;
  estimate: { mean: number; low: number | null; high: number | null; n: number } | null;
  relative: { mean: number; low: number | null; high: number | null; n: number } | null;
  same: boolean;
}

/** A difference in words. */
export function verdict(difference: Difference): string {
  return verdictOf(JSON.stringify(difference))[0] ?? "";
}
