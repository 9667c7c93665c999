// What the tests share: the command beside the page, its server, and a browser.
import { execFileSync, spawn } from "node:child_process";
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before } from "node:test";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { createServer } from "vite";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const LASTHOP = process.env.LASTHOP ?? path.join(ROOT, ".venv/bin/lasthop");
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** What the command prints. */
export function lasthop(...words) {
  return execFileSync(LASTHOP, words, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });
}

/** A module of the page that needs no browser, without building the page. */
export async function sourceOf(name) {
  const vite = await createServer({ root: path.join(ROOT, "web"), configFile: false, server: { middlewareMode: true, ws: false, watch: null }, optimizeDeps: { noDiscovery: true }, appType: "custom", logLevel: "error" });
  try {
    return await vite.ssrLoadModule(`/src/${name}`);
  } finally {
    await vite.close();
  }
}

/** The ready scenarios, by name. */
export const ready = () => readdirSync(path.join(ROOT, "scenarios")).filter((name) => name.endsWith(".toml")).map((name) => name.slice(0, -5));

/** Ready scenarios, and the fingerprint that the native engine gives each. */
export function* prints(names) {
  for (const name of names) {
    const { runs } = JSON.parse(lasthop("run", `scenarios/${name}.toml`, "--seed", "1", "--json", "-"));
    yield [name, runs[0].fingerprint];
  }
}

/** What the command says of a mistake. */
export function refusal(cwd, ...words) {
  try {
    execFileSync(LASTHOP, words, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    return { status: error.status, text: error.stderr };
  }
  throw new Error("it was not refused");
}

/** A server of `lasthop view`, and how to end it: with Ctrl-C, as people do. */
export async function view(...words) {
  const server = spawn(LASTHOP, ["view", "--no-browser", ...words], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise((resolve, reject) => {
    createInterface({ input: server.stdout }).once("line", resolve);
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`lasthop view ended with ${code}`)));
  });
  const end = () =>
    new Promise((resolve) => {
      server.removeAllListeners("exit");
      server.once("exit", resolve);
      server.kill("SIGINT");
    });
  return { address, end };
}

export function launch() {
  if (!existsSync(CHROMIUM)) throw new Error(`there is no Chromium at ${CHROMIUM}: name one with CHROMIUM=...`);
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/** What the tests of a file share once it has called `beginAndEnd`: a browser, and a server that opens no file. */
export let browser;
export let server;

export function beginAndEnd() {
  before(async () => {
    browser = await launch();
    server = await view();
  });
  after(async () => {
    await browser?.close();
    if (server) assert.equal(await server.end(), 0, "Ctrl-C ends the server without complaint");
  });
}

/** A page that notes what must not happen: errors, dialogs, and requests that leave the origin. `first` runs in it before
 * anything of the page does. */
export async function open(browser, address, options = {}, first = null) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const wrong = [];
  const origin = new URL(address).origin;
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error") wrong.push(`console: ${message.text()}`);
  });
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("data:") && !url.startsWith("blob:") && new URL(url).origin !== origin) wrong.push(`request: ${url}`);
  });
  if (first) await page.addInitScript(first);
  await page.goto(address);
  return { page, wrong, close: () => context.close() };
}

/** In the page: notes each text that is drawn on a canvas in `globalThis.drawn`, with where it stands, in px of the canvas:
 * of which panel or of the path, else the class of the canvas. */
export function noteTexts() {
  globalThis.drawn = [];
  const before = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const { canvas } = this;
    const { width } = this.measureText(text);
    const left = x - { left: 0, start: 0, center: width / 2, right: width, end: width }[this.textAlign];
    // Letters without what reaches above and below them.
    const top = y - ({ top: 0, middle: 6, bottom: 12 }[this.textBaseline] ?? 10) + 2;
    const on = canvas.closest("[data-panel]")?.dataset.panel ?? (canvas.closest(".path") ? "path" : canvas.className);
    globalThis.drawn.push({ text, on, y, left, right: left + width, top, bottom: top + 7, wide: canvas.width, clientWidth: canvas.clientWidth, clientHeight: canvas.clientHeight });
    before.call(this, text, x, y, ...rest);
  };
}

/** The texts that were noted on a canvas. */
export const texts = (page, on) => page.evaluate((where) => globalThis.drawn.filter((one) => one.on === where), on);

/** Waits until every run is done. */
export async function done(page, timeout = 120_000) {
  const over = async () => {
    await page.waitForSelector(".fingerprint", { timeout });
    await page.waitForFunction(() => document.querySelector(".results")?.getAttribute("aria-busy") === "false" && document.querySelector(".took"), null, { timeout });
  };
  await over();
  // On a busy machine a run may take so long that the page asks before it runs the other seeds.
  const rest = page.getByRole("button", { name: /^Run \d+ more seed/ });
  if (await rest.count()) {
    await rest.click();
    await over();
  }
}

/** The text of a scenario in the page, as its author would type it. */
export async function write(page, text) {
  await page.click("#tab-text");
  await page.fill("textarea", text);
}

/** Presses a button that downloads something; returns where it was put. */
export async function downloaded(page, folder, name) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
  const place = path.join(folder, file.suggestedFilename());
  await file.saveAs(place);
  return place;
}

/** axe-core finds nothing serious. */
export async function serious(page, what) {
  await flawless(page, what, ["serious", "critical"]);
}

/** axe-core finds nothing of these weights, or nothing at all; targets have 24 px or room around them (WCAG 2.2, 2.5.8). */
export async function flawless(page, what, weights = ["minor", "moderate", "serious", "critical"]) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ rules: { "target-size": { enabled: true } } }));
  const found = violations.filter((one) => weights.includes(one.impact));
  assert.deepEqual(found.map((one) => `${what}: ${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`), []);
}

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** A web server that hands out the built page below a path, or below several, as any static host does, and `more` files
 * beside it. */
export async function host(paths, more = {}) {
  const all = [paths].flat();
  const folder = path.join(ROOT, "python/lasthop/page");
  const hosted = http.createServer((request, answer) => {
    const { pathname } = new URL(request.url, "http://host");
    try {
      const below = all.find((one) => pathname.startsWith(one));
      if (below === undefined) throw new Error("elsewhere");
      const name = pathname.slice(below.length) || "index.html";
      const content = more[name] ?? readFileSync(path.join(folder, name));
      answer.writeHead(200, { "Content-Type": TYPES[path.extname(name)] ?? "application/octet-stream" }).end(content);
    } catch {
      answer.writeHead(404).end();
    }
  });
  await new Promise((resolve) => hosted.listen(0, "127.0.0.1", resolve));
  // A test that fails ends it no more, and must not keep the others waiting for ever.
  hosted.unref();
  return { address: `http://127.0.0.1:${hosted.address().port}${all[0]}`, end: () => new Promise((resolve) => { hosted.closeAllConnections(); hosted.close(resolve); }) };
}
