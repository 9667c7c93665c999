// The one clock of the page: a time in the run at which the cursor stands in every curve, the path is drawn, and Replay
// begins. It may change with every frame, so it is no part of the state that components draw themselves anew for.

type Heard = (seconds: number, from: unknown) => void;

const listeners = new Set<Heard>();

export const clock = {
  seconds: 0,
  /** Whether a time was chosen, by the reader or by a link. */
  isSet: false,

  /** `from` is told to the listeners, so that what moved the clock need not follow itself. */
  set(seconds: number, from: unknown = null): void {
    this.seconds = seconds;
    this.isSet = true;
    for (const listener of listeners) listener(seconds, from);
  },

  /** Where to stand before a time has been chosen. */
  suggest(seconds: number): void {
    if (this.isSet || this.seconds === seconds) return;
    this.seconds = seconds;
    for (const listener of listeners) listener(seconds, null);
  },

  /** Nothing of a run that has just been opened has been seen. */
  reset(): void {
    this.seconds = 0;
    this.isSet = false;
  },

  listen(listener: Heard): () => void {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
};
