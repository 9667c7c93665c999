// What leads to the page and out of it: stories, one panel in a frame, a static host that may go away.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { ROOT, beginAndEnd, browser, done, downloaded, flawless, host, lasthop, noteTexts, open, server, texts, view } from "./helpers.mjs";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";

const STORIES = JSON.parse(readFileSync(path.join(ROOT, "web/src/stories/stories.json"), "utf8"));

beginAndEnd();

test("a story leads through its views, and its questions come last", async () => {
  const { page, wrong, close } = await open(browser, server.address, { reducedMotion: "reduce" });
  await done(page);
  await page.getByRole("button", { name: "Stories" }).click();
  await flawless(page, "list of stories");
  assert.equal(await page.locator("dialog.stories li").count(), STORIES.length);
  const [first] = STORIES;
  await page.getByRole("button", { name: first.title }).click();
  for (const [place, step] of first.steps.entries()) {
    await page.waitForSelector(`text=step ${place + 1} of ${first.steps.length}`);
    assert.equal(await page.textContent("#story-title"), step.title);
    await page.waitForSelector(`${step.about}.lit`);
    if (place === 1) await flawless(page, "a step of a story");
    if (place < first.steps.length - 1) await page.locator(".tour").getByRole("button", { name: "Next" }).click();
  }
  assert.equal(await page.locator(".ask li").count(), first.ask.length);
  await page.goBack();
  await page.waitForSelector(`text=step ${first.steps.length - 1} of`);
  await page.locator(".tour").getByRole("button", { name: "End" }).click();
  await page.waitForSelector(".tour", { state: "detached" });
  await page.waitForFunction(() => !location.hash.includes("story="));
  assert.deepEqual(wrong, []);
  await close();
});

/** Clicks through a story to its end. Each step shows what it speaks of, without a mistake. */
async function clickThrough(page, { id, title, steps, ask }) {
  await page.getByRole("button", { name: "Stories" }).click();
  await page.getByRole("button", { name: title }).click();
  for (const [place, step] of steps.entries()) {
    const where = `${id}, step ${place + 1}`;
    await page.waitForFunction((wanted) => document.querySelector("#story-title")?.textContent === wanted, step.title);
    await page.waitForSelector(`${step.about}.lit`, { timeout: 60_000 }).catch(() => assert.fail(`${where}: no ${step.about}`));
    assert.equal(await page.locator(".message.bad").count(), 0, where);
    assert.equal(await page.locator("text=The link is damaged").count(), 0, where);
    if (place < steps.length - 1) await page.locator(".tour").getByRole("button", { name: "Next" }).click();
  }
  assert.equal(await page.locator(".ask li").count(), ask.length, id);
  await page.locator(".tour").getByRole("button", { name: "Done" }).click();
  await page.waitForSelector(".tour", { state: "detached" });
}

test("every story is clicked to its end and shows what it speaks of, without a mistake", async () => {
  const { page, wrong, close } = await open(browser, server.address, { reducedMotion: "reduce" });
  for (const story of STORIES.slice(1)) await clickThrough(page, story);
  assert.deepEqual(wrong, []);
  await close();
});

test("what the stories say of figures is so", () => {
  const runs = new Map();
  const runsOf = (words) => {
    if (!runs.has(words)) runs.set(words, JSON.parse(lasthop("run", ...words.split(" "), "--seeds", "1-3", "--json", "-")).runs);
    return runs.get(words);
  };
  const sum = (list) => list.reduce((total, one) => total + one, 0);
  const value = (of, [key, ...rest]) => (key === undefined ? (of ?? 0) : key === "*" ? sum(of.map((one) => value(one, rest))) : value(of?.[key], rest));
  const mean = (words, name) => sum(runsOf(words).map((run) => value(run, name.split(".")))) / 3;
  for (const { id, claims } of STORIES) {
    for (const { more, less, of } of claims) assert.ok(mean(more, of) > 1.005 * mean(less, of), `${id}: ${of} of ${more} is ${mean(more, of)}, of ${less} ${mean(less, of)}`);
  }
});

test("one panel stands alone in a frame of another page", async () => {
  const hosted = await host("/lab/");
  const around = http.createServer((_, answer) => answer.writeHead(200, { "Content-Type": "text/html" }).end("<title>paper</title>"));
  await new Promise((resolve) => around.listen(0, "127.0.0.1", resolve));
  around.unref();
  const { page, wrong, close } = await open(browser, `${hosted.address}#span=whole`);
  await done(page);
  const folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-share-"));
  await page.getByLabel("One panel").selectOption("queue");
  const rows = readFileSync(await downloaded(page, folder, "Data (CSV)"), "utf8").trim().split("\n");
  assert.equal(rows[0], '"time_s","reno (packets)","vegas (packets)","cubic (packets)"');
  assert.ok(rows.length > 100 && rows.every((row) => row.split(",").length === 4));
  rmSync(folder, { recursive: true, force: true });
  await page.getByRole("button", { name: "Copy frame" }).click();
  const frame = await page.textContent(".taken pre");
  assert.match(frame, /^<iframe src="http:\/\/127\.0\.0\.1:\d+\/lab\/\?panel=queue#/);
  await page.goto(`http://127.0.0.1:${around.address().port}/`);
  await page.setContent(frame);
  const inside = page.frameLocator("iframe");
  await inside.locator(".chart .canvas").waitFor({ timeout: 60_000 });
  assert.equal(await inside.locator(".chart").count(), 1);
  assert.equal(await inside.locator("nav, aside").count(), 0);
  assert.match(await inside.locator(".chart .title").textContent(), /^Queue at bottleneck/);
  // While the runs go on and when they are done.
  assert.match(await inside.locator("a").getAttribute("href"), /^\/lab\/#scenario=/);
  await inside.locator('.results[aria-busy="false"]').waitFor({ timeout: 60_000 });
  await page.waitForTimeout(1000);
  assert.match(await inside.locator("a").getAttribute("href"), /^\/lab\/#scenario=/);
  const { hash } = new URL(await inside.locator("a").evaluate((one) => one.href));
  for (const panel of ["queue", "path", "verdicts", "figures"]) {
    await page.goto(`${hosted.address}?panel=${panel}${hash}`);
    await page.waitForSelector('.results[aria-busy="false"]');
    await page.waitForSelector(".took");
    await flawless(page, `the panel ${panel}`);
  }
  assert.deepEqual(wrong.filter((one) => !one.startsWith("request: ")), []);
  await close();
  await hosted.end();
  await new Promise((resolve) => { around.closeAllConnections(); around.close(resolve); });
});

test("a frame says what it cannot show, and in place of what", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  const asks = [
    ["?panel=nonsense#scenario=single-flow&seeds=1", /^There is no panel “nonsense” here. There are: .*\bqueue, .*path, verdicts, figures\.$/],
    ["?panel=nonsense#scenario=single-flow&seeds=1&view=replay", /^There is no panel “nonsense” here. There are: scene, diagram, /],
    ["?panel=collisions#scenario=single-flow&seeds=1", /no panel “collisions”/],
    ["?panel=cwnd#scenario=nope", /^The link is damaged/],
    ["?panel=figure#view=explore", /^This address names no study/],
    ["?panel=sequence#view=capture", /^This address names no capture/],
    ["?panel=sequence#view=capture&file=mine.pcap", /put it beside the page, and write capture= for file=/],
  ];
  for (const [address, words] of asks) {
    await page.goto("about:blank");
    await page.goto(`${server.address}${address}`);
    const said = () => page.$$eval(".embedded .message", (all) => all.map((one) => one.textContent));
    await page.locator(".embedded .message", { hasText: words }).first().waitFor().catch(async () => assert.fail(`${address}: ${await said()}`));
  }
  // A seed that no engine takes leaves those that are usual.
  await page.goto(`${server.address}?panel=cwnd#scenario=single-flow&seeds=99999999999999999999`);
  await page.waitForSelector(".chart");
  assert.deepEqual(wrong, []);
  await close();
});

/** Waits until Replay has the whole run: nothing more comes that would be drawn. */
const isWhole = (page) => page.waitForFunction(() => document.querySelector("#truth-title")?.textContent.includes("the whole run"));

/** Waits until the time of the path stands, over several frames. */
const stands = (page) =>
  page.waitForFunction(() => {
    const { textContent } = document.querySelector(".path .clock");
    globalThis.stood = globalThis.stoodAt === textContent ? (globalThis.stood ?? 0) + 1 : 0;
    globalThis.stoodAt = textContent;
    return globalThis.stood > 5;
  }, null, { polling: "raf" });

test("the packets of Replay stand alone in a frame, and its diagram is saved as it is drawn", async () => {
  const look = "scenario=snoop&seeds=1&senders=reno&view=replay&at=20";
  const { page, wrong, close } = await open(browser, `${server.address}#${look}`, {}, noteTexts);
  const folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-share-"));
  for (const diagram of ["", "bytes"]) {
    await page.waitForSelector("canvas.diagram");
    await page.locator('label:has(> span:text-is("Diagram")) select').selectOption(diagram);
    await page.waitForFunction(() => Number(document.querySelector("canvas.scene").dataset.packets) > 0);
    await isWhole(page);
    await page.evaluate(() => (globalThis.drawn = []));
    await page.getByRole("button", { name: "One event on" }).click();
    await page.waitForFunction(() => globalThis.drawn.some(({ on }) => on === "diagram"));
    const shown = [...new Set((await texts(page, "diagram")).map(({ text }) => text))].sort();
    const text = readFileSync(await downloaded(page, folder, "Diagram (SVG)"), "utf8");
    const said = await page.evaluate((svg) => {
      const made = new DOMParser().parseFromString(svg, "image/svg+xml");
      return made.querySelector("parsererror") ? null : { texts: [...new Set([...made.querySelectorAll("text")].map((one) => one.textContent))].sort(), drawn: made.querySelectorAll("path[stroke]").length, groups: made.querySelectorAll("g[clip-path]").length };
    }, text);
    assert.deepEqual(said?.texts, shown, diagram);
    assert.ok(said.drawn > 5 && said.groups >= 2, JSON.stringify(said));
    await downloaded(page, folder, "Diagram (PNG)");
  }
  await page.getByLabel("One panel").selectOption("diagram");
  const [head, ...rows] = readFileSync(await downloaded(page, folder, "Data (CSV)"), "utf8").trim().split("\n");
  assert.match(head, /^time_s,packet,direction,kind,seq,ack,/);
  assert.ok(rows.length > 10 && rows.every((row) => Math.abs(Number.parseFloat(row) - 20) < 5), `${rows.length} rows`);
  await page.getByRole("button", { name: "Copy frame" }).click();
  assert.match(await page.textContent(".taken pre"), /\?panel=diagram#.*view=replay/);
  await flawless(page, "what is taken along of Replay");
  rmSync(folder, { recursive: true, force: true });
  for (const panel of ["scene", "diagram", "cwnd"]) {
    await page.goto("about:blank");
    await page.goto(`${server.address}?panel=${panel}#${look}`);
    await page.waitForSelector(panel === "cwnd" ? ".chart .canvas" : `canvas.${panel}`);
    assert.equal(await page.locator("main").count(), 1);
    assert.equal(await page.locator("canvas.scene, canvas.diagram, .chart").count(), 1, panel);
    await flawless(page, `the panel ${panel} of Replay`);
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("the path is saved as it is drawn, with light and with packets, and as data", async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-share-"));
  const texted = (page, svg) => page.evaluate((text) => {
    const made = new DOMParser().parseFromString(text, "image/svg+xml");
    return made.querySelector("parsererror") ? null : { texts: [...new Set([...made.querySelectorAll("text")].map((one) => one.textContent))].sort(), circles: text.match(/a[\d.]+ [\d.]+ 0 1 1/g)?.length ?? 0, dashes: made.querySelectorAll("[stroke-dashoffset]").length };
  }, svg);
  for (const [look, kind] of [["scenario=wlan&at=10", "light"], ["scenario=bufferbloat&at=5&speed=0.01", "packets"], ["scenario=bufferbloat&at=5&view=replay", "scene"]]) {
    const { page, wrong, close } = await open(browser, `${server.address}#${look}&seeds=1`, {}, noteTexts);
    if (kind !== "scene") await done(page);
    const canvas = kind === "scene" ? "canvas.scene" : ".path canvas";
    if (kind !== "light") await page.waitForFunction((one) => Number(document.querySelector(one)?.dataset.packets) > 0, canvas);
    // Let time run for a moment: its light has come somewhere.
    if (kind === "light") {
      const began = await page.textContent(".path .clock");
      await page.getByRole("button", { name: "Let time run" }).click();
      await page.waitForFunction((before) => document.querySelector(".path .clock").textContent !== before, began);
      await page.getByRole("button", { name: "Stop the time" }).click();
    }
    if (kind === "scene") await isWhole(page);
    else await stands(page);
    await page.evaluate(() => { globalThis.drawn = []; window.dispatchEvent(new Event("resize")); });
    const on = kind === "scene" ? "scene" : "path";
    await page.waitForFunction((one) => globalThis.drawn.some((text) => text.on === one), on);
    const shown = [...new Set((await texts(page, on)).map(({ text }) => text))].sort();
    await page.getByLabel("One panel").selectOption(on);
    const said = await texted(page, readFileSync(await downloaded(page, folder, "Panel (SVG)"), "utf8"));
    assert.deepEqual(said?.texts, shown, kind);
    if (kind === "light") assert.ok(said.dashes > 0, JSON.stringify(said));
    else assert.ok(said.circles >= 20, JSON.stringify(said));
    const [head, ...rows] = readFileSync(await downloaded(page, folder, "Data (CSV)"), "utf8").trim().split("\n");
    assert.match(head, kind === "scene" ? /^time_s,flow,packet,direction,/ : /^"time_s",.*"(radio-1|bottleneck): utilisation"/);
    assert.ok(rows.length > 100 && rows.every((row) => row.split(",").length === head.split(",").length), kind);
    // A table has no picture, and a curve has one.
    if (kind === "light") {
      await page.getByLabel("One panel").selectOption("figures");
      assert.ok(await page.getByRole("button", { name: "Panel (SVG)" }).isDisabled());
      await page.getByLabel("One panel").selectOption("cwnd");
      assert.match(readFileSync(await downloaded(page, folder, "Panel (SVG)"), "utf8"), />Congestion window/);
    }
    assert.deepEqual(wrong, []);
    await close();
  }
  rmSync(folder, { recursive: true, force: true });
});

/** Waits until this many files are kept in the browser. */
async function isKept(page, files) {
  const kept = () =>
    page.evaluate(async () => {
      let count = 0;
      for (const name of await caches.keys()) count += (await (await caches.open(name)).keys()).length;
      return count;
    });
  for (let tries = 0; tries < 600 && (await kept()) < files; tries += 1) await page.waitForTimeout(100);
  assert.ok((await kept()) >= files, `${await kept()} files are kept`);
}

test("a page on a web server opens below any path, and without the server after the first visit", async () => {
  const hosted = await host("/some/where/");
  const { page, wrong, close } = await open(browser, `${hosted.address}#scenario=single-flow&seeds=1`);
  await done(page);
  const print = await page.textContent(".fingerprint code");
  await isKept(page, 5);
  await hosted.end();
  await page.reload();
  await done(page);
  assert.equal(await page.textContent(".fingerprint code"), print);
  // Without the server all of it works: stories with their views, replay and the figures of a link to another scenario.
  await clickThrough(page, STORIES.find(({ steps }) => steps.some(({ look }) => look.includes("view=replay"))));
  await page.goto(`${hosted.address}#scenario=hidden-terminals&seeds=1`);
  await page.waitForFunction(() => document.querySelector("h2.name")?.textContent === "hidden terminals");
  assert.deepEqual(wrong, []);
  await close();
});

test("two pages on one server each open without it, by their folder and by their file", async () => {
  const hosted = await host(["/old/", "/new/"]);
  const { page, wrong, close } = await open(browser, `${hosted.address}index.html#scenario=single-flow&seeds=1`);
  const other = hosted.address.replace("/old/", "/new/");
  await isKept(page, 6);
  await page.goto(`${other}#scenario=single-flow&seeds=1`);
  await isKept(page, 11);
  await hosted.end();
  for (const address of [hosted.address, `${hosted.address}index.html`, other]) {
    await page.goto(`${address}#scenario=hidden-terminals&seeds=1`);
    await page.waitForFunction(() => document.querySelector("h2.name")?.textContent === "hidden terminals");
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("a part of the page that cannot be loaded is told", async () => {
  for (const [part, words] of [["lasthop_web_bg", /The page cannot start: /], ["worker-", /a part of the page could not be loaded/]]) {
    const { page, close } = await open(browser, "about:blank");
    await page.route(`**/${part}*`, (route) => route.abort());
    await page.goto(`${server.address}#scenario=single-flow&seeds=1`);
    await page.waitForFunction((pattern) => new RegExp(pattern).test(document.querySelector(".message.bad")?.textContent ?? ""), words.source);
    await close();
  }
});

test("the page of lasthop view leaves nothing behind in the browser", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  assert.equal(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0);
  assert.deepEqual(wrong, []);
  await close();
});
