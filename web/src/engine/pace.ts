// How often what goes on is shown, in the engine's thread and in the page's: to show it must not take what it shows.

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
