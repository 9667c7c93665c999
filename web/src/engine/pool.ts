// The workers of the page: as many as there are cores to spare, each with the engine compiled once for all. Jobs wait
// in line; cancelling ends the workers that are at it and takes the rest out of the line.

import wasmUrl from "../../engine/lasthop_web_bg.wasm?url";
import workerUrl from "./worker?worker&url";
import { begin } from "./words";
import type { Answer, CaptureRead, Checked, Failure, Interruptions, Job, QlogRead, ReadTable, RunResult, Series, SimulatedRead, Window } from "./types";

export class EngineError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

/** The job was taken back. */
export class Cancelled extends Error {}

/** What is told of a run that goes on: how far it is, what there is of it, and how long its worker has been at it. */
export type Told<Begun> = (seconds: number, begun: Begun | undefined, passed_ms: number) => void;

/** What may be cancelled together: runs of the first seeds and of the rest, windows of packets, and each kind of the other
 * jobs. */
type Group = Job["op"] | "rest" | "packets";
const isLong = (group: Group): boolean => group === "run" || group === "rest";

interface Waiting {
  job: Job;
  group: Group;
  told: Told<never> | undefined;
  resolve: (value: never) => void;
  reject: (error: Error) => void;
}

interface Hand {
  worker: Worker;
  busy: { id: number; waiting: Waiting } | null;
}

const MOST_HANDS = 8;

/** What the page loads beside its script and style. */
export const FILES = [wasmUrl, workerUrl];

/** What `lasthop view --out` puts into a page of one file. */
interface Embedded {
  worker: string;
  wasm: string;
}

function embedded(): Embedded | null {
  const element = document.getElementById("lasthop-engine");
  return element?.textContent ? (JSON.parse(element.textContent) as Embedded) : null;
}

async function compile(inside: Embedded | null): Promise<WebAssembly.Module> {
  if (inside) return WebAssembly.compile(Uint8Array.from(atob(inside.wasm), (letter) => letter.charCodeAt(0)));
  const response = await fetch(wasmUrl);
  if (!response.ok) throw new Error(`the engine could not be loaded: ${response.status} ${response.statusText}`);
  // Not every server says what it is, which compiling while it comes needs.
  if (response.headers.get("Content-Type") === "application/wasm") return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

export class Pool {
  private hands: Hand[] = [];
  private line: Waiting[] = [];
  private next = 0;
  private address: string;
  /** A page that comes from a file has no origin, and without one there are no modules. */
  private type: WorkerType;
  private module: Promise<WebAssembly.Module>;
  private words: Promise<void>;
  private compiled: WebAssembly.Module | null = null;
  readonly size: number;

  constructor() {
    const inside = embedded();
    this.address = inside ? URL.createObjectURL(new Blob([inside.worker], { type: "text/javascript" })) : workerUrl;
    this.type = inside ? "classic" : "module";
    this.module = compile(inside);
    this.size = Math.max(1, Math.min(MOST_HANDS, navigator.hardwareConcurrency || 2));
    // The first hand starts while the engine comes.
    this.hire();
    this.words = this.module.then(
      async (module) => {
        // There is work for two at once: the second hand does not start when it is needed.
        if (this.size > 1) this.hire();
        for (const { worker } of this.hands) worker.postMessage({ module });
        // What comes out of a job is shown in the engine's words.
        await begin(module);
        this.compiled = module;
        this.move();
      },
      (error: Error) => {
        for (const waiting of this.line.splice(0)) waiting.reject(error);
        // It is told where it is waited for.
        return new Promise(() => {});
      },
    );
  }

  /** Fails if there is no engine to be had. */
  async loaded(): Promise<void> {
    await this.module;
  }

  /** Until figures can be told in the engine's words; for ever, if there is no engine. */
  async speaks(): Promise<void> {
    await this.words;
  }

  check(job: Omit<Extract<Job, { op: "check" }>, "op">): Promise<Checked> {
    return this.ask({ op: "check", ...job }, "check");
  }

  set(text: string, path: string, value: string | null): Promise<string> {
    return this.ask({ op: "set", text, path, value }, "set");
  }

  run(job: Omit<Extract<Job, { op: "run" }>, "op">, group: "run" | "rest", told?: Told<Series>): Promise<RunResult> {
    return this.ask({ op: "run", ...job }, group, told);
  }

  window(job: Omit<Extract<Job, { op: "window" }>, "op">, group: "window" | "packets", told?: Told<Window>): Promise<Window> {
    return this.ask({ op: "window", ...job }, group, told);
  }

  interruptions(job: Omit<Extract<Job, { op: "interruptions" }>, "op">): Promise<Interruptions> {
    return this.ask({ op: "interruptions", ...job }, "interruptions");
  }

  table(bytes: ArrayBuffer): Promise<ReadTable> {
    return this.ask({ op: "table", bytes }, "table");
  }

  capture(job: Omit<Extract<Job, { op: "capture" }>, "op">): Promise<CaptureRead> {
    return this.ask({ op: "capture", ...job }, "capture");
  }

  qlog(job: Omit<Extract<Job, { op: "qlog" }>, "op">): Promise<QlogRead> {
    return this.ask({ op: "qlog", ...job }, "capture");
  }

  simulated(job: Omit<Extract<Job, { op: "simulated" }>, "op">): Promise<SimulatedRead> {
    // Only the last one is of use.
    this.cancel("simulated");
    return this.ask({ op: "simulated", ...job }, "simulated");
  }

  /** Takes back every job of this kind. */
  cancel(group: Group): void {
    const staying: Waiting[] = [];
    for (const waiting of this.line) {
      if (waiting.group === group) waiting.reject(new Cancelled());
      else staying.push(waiting);
    }
    this.line = staying;
    for (const hand of [...this.hands]) {
      if (hand.busy?.waiting.group !== group) continue;
      hand.worker.terminate();
      this.hands.splice(this.hands.indexOf(hand), 1);
      hand.busy.waiting.reject(new Cancelled());
    }
    this.move();
  }

  private ask<T>(job: Job, group: Group, told?: Told<never>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const waiting: Waiting = { job, group, told, resolve: resolve as (value: never) => void, reject };
      // What a person waits for at the keyboard goes before long runs.
      if (isLong(group)) this.line.push(waiting);
      else this.line.unshift(waiting);
      this.move();
    });
  }

  private move(): void {
    if (!this.compiled) return;
    while (this.line.length > 0) {
      // Who looks at packets waits for them; further seeds can come later.
      const isWatched = this.hands.some(({ busy }) => busy?.waiting.group === "window");
      const place = this.line.findIndex(({ group }) => !isWatched || group !== "rest");
      const waiting = this.line[place];
      if (!waiting) return;
      let hand = this.hands.find((one) => one.busy === null);
      if (!hand) {
        // One more than there are cores, so that a check never waits for a long run.
        if (this.hands.length >= this.size + (isLong(waiting.group) ? 0 : 1)) return;
        hand = this.hire();
      }
      this.line.splice(place, 1);
      const id = this.next++;
      hand.busy = { id, waiting };
      hand.worker.postMessage({ id, job: waiting.job });
    }
  }

  private hire(): Hand {
    const worker = new Worker(this.address, { type: this.type });
    const hand: Hand = { worker, busy: null };
    if (this.compiled) worker.postMessage({ module: this.compiled });
    worker.onmessage = (event: MessageEvent<Answer>) => this.hear(hand, event.data);
    worker.onerror = (event) => {
      // A script that does not come has no words for it.
      const text = event.message ? `the engine stopped: ${event.message}` : "a part of the page could not be loaded: reload the page while its server is running";
      const failure: Failure = { kind: "call", message: event.message ?? text, text };
      hand.busy?.waiting.reject(new EngineError(failure));
      this.dismiss(hand);
    };
    this.hands.push(hand);
    return hand;
  }

  private dismiss(hand: Hand): void {
    hand.worker.terminate();
    const place = this.hands.indexOf(hand);
    if (place >= 0) this.hands.splice(place, 1);
    this.move();
  }

  private hear(hand: Hand, answer: Answer): void {
    const { busy } = hand;
    if (!busy || busy.id !== answer.id) return;
    if (answer.kind === "progress") {
      busy.waiting.told?.(answer.seconds, answer.begun as never, answer.passed_ms);
      return;
    }
    hand.busy = null;
    if (answer.kind === "done") {
      busy.waiting.resolve(answer.value as never);
      this.move();
      return;
    }
    busy.waiting.reject(new EngineError(answer.failure));
    // An engine that has panicked is in no state to go on.
    if (answer.failure.kind === "call") this.dismiss(hand);
    else this.move();
  }
}
