// Means and intervals over seeds: the formulas of python/lasthop/stats.py, which says why they are these. A test holds
// the page's numbers against `lasthop compare --json`.

export interface Estimate {
  mean: number;
  low: number | null;
  high: number | null;
  n: number;
}

/** A sum without rounding errors that add up (Neumaier). */
export function sum(values: number[]): number {
  let total = 0;
  let lost = 0;
  for (const value of values) {
    const next = total + value;
    lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
    total = next;
  }
  return total + lost;
}

export class Statistics {
  constructor(private readonly student: number[]) {}

  private quantile(degrees: number): number {
    return this.student[Math.min(degrees, this.student.length) - 1] ?? Number.NaN;
  }

  estimate(given: (number | null)[]): Estimate | null {
    const values = given.filter((value): value is number => value !== null && Number.isFinite(value));
    const n = values.length;
    if (n === 0) return null;
    const mean = sum(values) / n;
    if (n === 1) return { mean, low: null, high: null, n };
    const variance = sum(values.map((value) => (value - mean) ** 2)) / (n - 1);
    const half = this.quantile(n - 1) * Math.sqrt(variance / n);
    return { mean, low: mean - half, high: mean + half, n };
  }

  paired(values: (number | null)[], baseline: (number | null)[]): Estimate | null {
    return this.estimate(values.map((value, index) => {
      const other = baseline[index] ?? null;
      return value === null || other === null ? null : value - other;
    }));
  }

  /** Fieller's interval of the ratio of two means, less one. */
  relative(values: (number | null)[], baseline: (number | null)[]): Estimate | null {
    const pairs = values
      .map((value, index) => [value, baseline[index] ?? null] as const)
      .filter((pair): pair is readonly [number, number] => pair.every((one) => one !== null && Number.isFinite(one)));
    const n = pairs.length;
    if (n === 0) return null;
    const above = sum(pairs.map(([a]) => a)) / n;
    const below = sum(pairs.map(([, b]) => b)) / n;
    if (below === 0) return null;
    if (n === 1) return { mean: (above - below) / Math.abs(below), low: null, high: null, n };
    const factor = this.quantile(n - 1) ** 2 / (n * (n - 1));
    const inAbove = factor * sum(pairs.map(([a]) => (a - above) ** 2));
    const inBelow = factor * sum(pairs.map(([, b]) => (b - below) ** 2));
    const inBoth = factor * sum(pairs.map(([a, b]) => (a - above) * (b - below)));
    const square = below ** 2 - inBelow;
    const middle = above * below - inBoth;
    const rest = above ** 2 - inAbove;
    if (square <= 0) return null;
    const root = Math.sqrt(Math.max(0, middle ** 2 - square * rest));
    let low = (middle - root) / square;
    const high = (middle + root) / square;
    if (pairs.every(([a, b]) => a >= 0 && b >= 0)) low = Math.max(low, 0);
    const found = { mean: above / below - 1, low: low - 1, high: high - 1, n };
    return below > 0 ? found : scaled(found, -1);
  }
}

function scaled(of: Estimate, factor: number): Estimate {
  const ends = of.low === null || of.high === null ? [null, null] : [of.low * factor, of.high * factor].sort((a, b) => a - b);
  return { mean: of.mean * factor, low: ends[0] ?? null, high: ends[1] ?? null, n: of.n };
}

export function excludesZero(of: Estimate): boolean {
  return of.low !== null && of.high !== null && (of.low > 0 || of.high < 0);
}
