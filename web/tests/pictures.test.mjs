// Pictures of the page for the documentation, as it looks now: `make pictures` puts them into docs/images; the test makes
// them somewhere else and sees that there is something on them.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { done, launch, open, view } from "./helpers.mjs";

const target = process.env.PICTURES;
let browser;
let folder;

before(async () => {
  folder = target ?? mkdtempSync(path.join(os.tmpdir(), "lasthop-pictures-"));
  mkdirSync(folder, { recursive: true });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  if (!target) rmSync(folder, { recursive: true, force: true });
});

async function picture(name, what, options, act) {
  const server = await view(...what);
  const { page, wrong, close } = await open(browser, server.address, { viewport: { width: 1100, height: 720 }, reducedMotion: "reduce", ...options });
  try {
    await act(page);
    const file = path.join(folder, `page-${name}.png`);
    await page.screenshot({ path: file });
    const { size } = statSync(file);
    assert.ok(size > 20_000 && size < 300_000, `${name}: ${size} B`);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    await server.end();
  }
}

const replay = async (page) => {
  await done(page);
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
};

test("play", () => picture("play", [], {}, done));

test("replay of a timeout", () =>
  picture("replay", [], { colorScheme: "dark", viewport: { width: 1100, height: 900 } }, async (page) => {
    await replay(page);
    await page.getByRole("button", { name: "Next timeout" }).click();
    await page.waitForTimeout(300);
  }));

test("replay of a host that walks", () =>
  picture("walk", ["walking-host"], {}, async (page) => {
    await replay(page);
    await page.getByRole("button", { name: "Next handoff" }).click();
    await page.waitForSelector("text=Running to this time", { state: "detached", timeout: 60_000 });
    await page.waitForTimeout(300);
  }));

test("a paper", () =>
  picture("explore", ["docs/papers/000"], {}, async (page) => {
    await page.waitForSelector(".explored .point", { timeout: 60_000 });
    await page.locator(".figurehead select").selectOption({ label: "Fig. 6a: Goodput, 10 flows" });
  }));
