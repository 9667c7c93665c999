// How fast the page is, measured in Chromium from the server of `lasthop view`; writes bench/PAGE.md. `make bench-page`.
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import os from "node:os";
import path from "node:path";
import { ROOT, done, lasthop, launch, open, view, write } from "../tests/helpers.mjs";

const BUILT = path.join(ROOT, "python/lasthop/page");
const ROUNDS = 7;
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const server = await view();
const browser = await launch();

/** A capture of one connection: half a million segments of 1,448 bytes, each acknowledged 20 ms later. */
function million() {
  const [count, size] = [500_000, 16 + 54];
  const file = Buffer.alloc(24 + 2 * count * size);
  [0xa1b23c4d, 0x00040002, 0, 0, 65_535, 1].forEach((word, place) => file.writeUInt32LE(word, 4 * place));
  let at = 24;
  const put = (nanos, [from, to], seq, ack, payload) => {
    [Math.floor(nanos / 1e9), nanos % 1e9, 54, 54 + payload].forEach((word, place) => file.writeUInt32LE(word, at + 4 * place));
    const ip = at + 16 + 14;
    file.writeUInt16BE(0x0800, ip - 2);
    file.writeUInt8(0x45, ip);
    file.writeUInt16BE(40 + payload, ip + 2);
    file.writeUInt16BE(0x4006, ip + 8);
    file.writeUInt32BE(0x0a000000 + from, ip + 12);
    file.writeUInt32BE(0x0a000000 + to, ip + 16);
    file.writeUInt16BE(from === 1 ? 80 : 5000, ip + 20);
    file.writeUInt16BE(to === 1 ? 80 : 5000, ip + 22);
    file.writeUInt32BE(seq, ip + 24);
    file.writeUInt32BE(ack, ip + 28);
    file.writeUInt32BE(0x5010ffff, ip + 32);
    at += size;
  };
  // 10,000 segments a second, 200 of them on their way.
  for (let step = 0; step < count + 200; step += 1) {
    if (step < count) put(step * 100_000, [1, 2], 1 + 1448 * step, 1, 1448);
    if (step >= 200) put(step * 100_000 + 1, [2, 1], 1, 1 + 1448 * (step - 199), 0);
  }
  return file;
}

// The page itself sees when its controls, which take an answer of the engine, are painted, and when the first curves of
// its first runs are: to ask it from outside takes as long again while its workers are at their first runs.
const watch = () => {
  const awaited = new Map([["readyAt", ".controls .control"], ["drawnAt", ".chart canvas"]]);
  const observer = new MutationObserver(() => {
    for (const [name, selector] of awaited) {
      if (!document.querySelector(selector)) continue;
      awaited.delete(name);
      requestAnimationFrame(() => setTimeout(() => (globalThis[name] = performance.now())));
    }
    if (awaited.size === 0) observer.disconnect();
  });
  observer.observe(document, { childList: true, subtree: true });
};
const readies = [];
const firsts = [];
for (let round = 0; round < 2 * ROUNDS; round += 1) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(watch);
  await page.goto(server.address);
  await page.waitForFunction(() => globalThis.drawnAt);
  readies.push(await page.evaluate(() => globalThis.readyAt));
  firsts.push(await page.evaluate(() => globalThis.drawnAt));
  await context.close();
}

const { page } = await open(browser, server.address);
await done(page);
const assets = readdirSync(path.join(BUILT, "assets"));
const source = { name: "lossy-last-hop.toml", text: readFileSync(path.join(ROOT, "scenarios/lossy-last-hop.toml"), "utf8"), files: {} };
const measured = await page.evaluate(
  async ({ worker, wasm, job, window, long, rounds }) => {
    const module = await WebAssembly.compile(await (await fetch(wasm)).arrayBuffer());
    const start = () => {
      const made = new Worker(worker, { type: "module" });
      made.postMessage({ module });
      return made;
    };
    let hand = start();
    const ask = (what) =>
      new Promise((resolve, reject) => {
        hand.onmessage = ({ data }) => (data.kind === "done" ? resolve(data.value) : data.kind === "failed" ? reject(new Error(data.failure.text)) : null);
        hand.postMessage({ id: 0, job: what });
      });
    const runs = [];
    const windows = [];
    let hops = 0;
    for (let round = 0; round < rounds; round += 1) {
      const made = await ask(job);
      runs.push(made.took_ms);
      hops = made.summary.packet_hops;
    }
    for (let round = 0; round < 3; round += 1) windows.push((await ask(window)).took_ms);
    hand.terminate();
    // In a worker of its own, for its memory.
    hand = start();
    const opened = await ask(long);
    return { runs, windows, hops, records: opened.seen, memory: opened.memory_bytes };
  },
  {
    worker: `assets/${assets.find((name) => name.startsWith("worker"))}`,
    wasm: `assets/${assets.find((name) => name.endsWith(".wasm"))}`,
    job: { op: "run", source, overrides: [], seed: 1, series: true },
    window: { op: "window", source, overrides: [], seed: 1, from_s: 0, to_s: 60, most: 200_000 },
    long: {
      op: "window", source: { name: "fair-share.toml", text: readFileSync(path.join(ROOT, "scenarios/fair-share.toml"), "utf8"), files: {} },
      overrides: [["duration", '"160 s"']], seed: 1, from_s: 0, to_s: 160, most: 200_000,
    },
    rounds: ROUNDS,
  },
);
const native = [];
for (let round = 0; round < ROUNDS; round += 1) native.push(JSON.parse(lasthop("run", "scenarios/lossy-last-hop.toml", "--json", "-")).runs[0].wall_s * 1000);

// What a person waits for.
const text = readFileSync(path.join(ROOT, "scenarios/fair-share.toml"), "utf8").replace(/^duration\s*=.*$/m, 'duration = "160 s"');
await page.fill('label:has-text("Seeds") input', "1");
await write(page, text);
await page.waitForFunction(() => /160 s/.test(document.querySelector(".chart .canvas")?.getAttribute("aria-label") ?? ""), null, { timeout: 120_000 });
await done(page);
/** From the click on Replay to the path with its packets, five times. */
const openings = async () => {
  const opens = [];
  for (let round = 0; round < 5; round += 1) {
    opens.push(
      await page.evaluate(
        () =>
          new Promise((resolve) => {
            const began = performance.now();
            const look = () => (Number(document.querySelector("canvas.scene")?.dataset.packets ?? -1) >= 0 ? resolve(performance.now() - began) : requestAnimationFrame(look));
            [...document.querySelectorAll("nav button")].find((one) => one.textContent === "Replay").click();
            look();
          }),
      ),
    );
    await page.click("nav >> text=Play");
    await page.waitForSelector("canvas.scene", { state: "detached" });
  }
  return opens;
};
const opens = await openings();
await page.goto(`${server.address}#scenario=stadium&seeds=1`);
await page.waitForFunction(() => document.querySelector(".scenario select").value === "stadium");
await done(page);
const stations = await openings();

// A thousand flows: until there are figures, of the first seconds of one seed, and until those of all its time are there;
// the other seeds wait to be asked for.
const began = Date.now();
await page.goto(`${server.address}#scenario=many-flows`);
await page.waitForFunction(() => document.querySelector("h2.name")?.textContent === "many flows" && document.querySelector(".figures td[data-metric]"), null, { timeout: 120_000, polling: "raf" });
const early = Date.now() - began;
const stretch = await page.textContent(".figures h2");
await page.waitForFunction(() => document.querySelector(".fingerprint"), null, { timeout: 120_000, polling: "raf" });
const many = Date.now() - began;
await page.waitForFunction(() => document.querySelector(".results")?.getAttribute("aria-busy") === "false", null, { timeout: 120_000 });

// From a move of a slider to the first curve that differs.
await page.goto(`${server.address}#scenario=single-flow&span=whole`);
await page.waitForFunction(() => document.querySelector(".scenario select").value === "single-flow");
await done(page);
const reactions = [];
for (let round = 0; round < ROUNDS; round += 1) {
  reactions.push(
    await page.evaluate(
      (at) =>
        new Promise((resolve) => {
          const label = () => document.querySelector(".chart[data-panel=queue] .canvas")?.getAttribute("aria-label");
          const before = label();
          const slider = document.querySelector("#key-topology-bottleneck-queue-limit")?.closest(".control").querySelector("input[type=range]");
          const observer = new MutationObserver(() => {
            if (label() === before) return;
            observer.disconnect();
            resolve(performance.now() - began);
          });
          observer.observe(document.querySelector(".results"), { subtree: true, attributes: true, childList: true });
          const began = performance.now();
          slider.value = String(Number(slider.min) + (Number(slider.max) - Number(slider.min)) * at);
          slider.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      0.3 + 0.05 * round,
    ),
  );
  await done(page);
}

// A capture of a million packets, from the choice of the file to its first curve.
const folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-bench-"));
const capture = path.join(folder, "million.pcap");
writeFileSync(capture, million());
await page.click("nav >> text=Capture");
const captures = [];
for (let round = 0; round < 3; round += 1) {
  const began = Date.now();
  await page.setInputFiles(".capture input[type=file]", capture);
  await page.waitForFunction(() => document.querySelectorAll(".capture .chart").length > 0 && document.querySelector(".capture [aria-busy=false]"), null, { polling: "raf" });
  captures.push(Date.now() - began);
  await page.setInputFiles(".capture input[type=file]", { name: "none.pcap", mimeType: "application/vnd.tcpdump.pcap", buffer: Buffer.from("none") });
  await page.waitForSelector(".capture .message.bad");
}
rmSync(folder, { recursive: true });

await page.goto(`${server.address}#scenario=fair-share&set=topology.bottleneck.delay%3D%22110 ms%22&seeds=1`);
await page.waitForFunction(() => document.querySelector(".scenario select")?.value === "fair-share");
await done(page);
await page.click("nav >> text=Replay");
await page.waitForSelector(".replay canvas.scene", { timeout: 120_000 });
await page.getByLabel("Time in the run").fill("5");
await page.waitForSelector("text=Running to this time", { state: "detached", timeout: 120_000 });
await page.waitForFunction(() => Number(document.querySelector("canvas.scene").dataset.packets) > 100, null, { timeout: 120_000 });
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value * 1000;
await page.getByRole("button", { name: "Play", exact: true }).last().click();
await page.waitForTimeout(500);
const cpuBefore = await cpu();
const frames = await page.evaluate(
  () =>
    new Promise((resolve) => {
      const packets = [];
      const gaps = [];
      let before = performance.now();
      const begun = before;
      const tick = (now) => {
        gaps.push(now - before);
        before = now;
        packets.push(Number(document.querySelector("canvas.scene").dataset.packets));
        if (now - begun > 4000) resolve({ gaps: gaps.slice(1), packets });
        else requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }),
);
const perFrame = ((await cpu()) - cpuBefore) / frames.gaps.length;
const fps = 1000 / (frames.gaps.reduce((total, gap) => total + gap, 0) / frames.gaps.length);
const late = frames.gaps.filter((gap) => gap > 25).length / frames.gaps.length;
const size = ["index.html", ...assets.map((name) => `assets/${name}`)].reduce((total, name) => total + gzipSync(readFileSync(path.join(BUILT, name)), { level: 9 }).length, 0);
await browser.close();
await server.end();

const rows = [
  ["page ready: controls there, engine loaded", `${median(readies).toFixed(0)} ms`, "1000 ms"],
  ["the first curves: 20 flows over 60 s by three senders, all runs at once", `${median(firsts).toFixed(0)} ms`, "1000 ms"],
  ["`lossy-last-hop`, 60 s, 20 flows, with series, in a worker", `${median(measured.runs).toFixed(0)} ms`, "150 ms"],
  ["the same, native, without series", `${median(native).toFixed(0)} ms`, ""],
  ["the same, a window of its trace with 200,000 packets on links", `${median(measured.windows).toFixed(0)} ms`, ""],
  [`the trace of a run with ${(measured.records / 1e6).toFixed(1)} million records opened, from the click to the packets`, `${(median(opens) / 1000).toFixed(1)} s, ${(measured.memory / 1e6).toFixed(0)} MB of the engine`, "3 s for 10 million, bounded memory"],
  ["the same of `stadium`, 60 stations that hear each other", `${(median(stations) / 1000).toFixed(1)} s`, "2 s"],
  [`the first figures of \`many-flows\`, a thousand flows over 60 s (${stretch.toLowerCase()})`, `${(early / 1000).toFixed(1)} s`, "10 s"],
  ["the same, the figures of one seed over all 60 s", `${(many / 1000).toFixed(1)} s`, ""],
  [`replay of \`fair-share\` over 110 ms, ${median(frames.packets)} packets in sight`, `${fps.toFixed(0)} frames/s, ${(late * 100).toFixed(0)} % late; ${perFrame.toFixed(1)} ms of CPU a frame`, "60 frames/s"],
  ["from a move of a slider to the first curve that differs (`single-flow`)", `${median(reactions).toFixed(0)} ms`, "150 ms"],
  ["a capture of a million packets opened", `${(median(captures) / 1000).toFixed(1)} s`, "3 s"],
  ["everything that is loaded, compressed", `${(size / 1000).toFixed(0)} kB`, "1500 kB"],
];
const load = os.loadavg()[0].toFixed(1);
const report = `# Speed of the page

Written by \`make bench-page\`: medians of ${ROUNDS} rounds in headless Chromium without a graphics card, on ${os.cpus().length} cores
(${os.cpus()[0]?.model.trim() ?? "unknown"}), with a load of ${load} on the machine.

| what | measured | wanted |
| --- | --- | --- |
${rows.map((row) => `| ${row.join(" | ")} |`).join("\n")}
`;
writeFileSync(path.join(ROOT, "bench/PAGE.md"), report);
console.log(report);
