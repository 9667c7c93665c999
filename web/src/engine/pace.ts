// How often what goes on is shown, in the engine's thread and in the page's: to show it must not take what it shows;
// and of how much of a long run there are figures first.

export class Pace {
  private next: number;

  /** Between two times at least `least` ms, and at least `rest` times what the last one took. */
  constructor(private readonly least: number, private readonly rest: number, begin: number) {
    this.next = begin;
  }

  isDue(now: number): boolean {
    return now >= this.next;
  }

  /** It was shown from then to now. */
  took(from: number, now: number): void {
    this.next = now + Math.max(this.least, this.rest * (now - from));
  }
}

/** What the figures of the first seconds of a long run may take, in ms, and of how many seconds they may be. */
const FORETASTE = 3000;
const STRETCHES = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
/** Of this many warm-ups at least, and of at most this share of the run: less would be no figure, more no foretaste. */
const LEAST_WARMUPS = 2;
const MOST_OF_RUN = 0.5;
/** Of how many seconds the first figures of a run are that takes `pace` ms for each: of as many as do not take long, or
 * else of as few as there can be; null if the run has no such part. */
export function stretchOf(pace: number, { warmup_s, duration_s }: { warmup_s: number; duration_s: number }): number | null {
  const possible = STRETCHES.filter((seconds) => seconds >= LEAST_WARMUPS * warmup_s && seconds <= MOST_OF_RUN * duration_s);
  return possible.findLast((seconds) => seconds * pace <= FORETASTE) ?? possible[0] ?? null;
}
