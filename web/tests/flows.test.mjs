// Play: how flows fared, each for itself, beside what the command's tables say.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT, beginAndEnd, browser, done, flawless, lasthop, open, server, sourceOf } from "./helpers.mjs";

beginAndEnd();

async function flows(hash, run) {
  const { page, wrong, close } = await open(browser, `${server.address}${hash}`);
  await done(page);
  await run(page, page.locator(".flows"));
  assert.deepEqual(wrong, []);
  await close();
}

/** What a measured value is in the words of the page. */
const shown = (value) => value.toLocaleString("en-GB", { maximumSignificantDigits: 3 });

test("transfers have boxes and a distribution with those that did not finish", async () => {
  await flows("#scenario=short-transfers&seeds=1", async (page, section) => {
    const [run] = JSON.parse(lasthop("run", "scenarios/short-transfers.toml", "--seed", "1", "--json", "-")).runs;
    const times = run.flows.map((one) => one.completion_s).filter((one) => typeof one === "number").sort((a, b) => a - b);
    const told = await section.locator("svg.boxes").getAttribute("aria-label");
    // Between two values a percentile lies in proportion (Hyndman and Fan 1996, definition 7).
    const at = (share) => {
      const place = share * (times.length - 1);
      return times[Math.floor(place)] + (place % 1) * (times[Math.ceil(place)] - times[Math.floor(place)]);
    };
    assert.ok(told.includes(`web, cubic (${times.length} of ${run.totals.transfers}): median ${shown(at(0.5))}, 5 to 95 % ${shown(at(0.05))} to ${shown(at(0.95))} s`), told);
    // The figures stand behind either picture.
    await page.getByRole("button", { name: "Tables" }).click();
    const row = await section.locator("tbody tr").first().locator("th, td").allTextContents();
    assert.deepEqual(row, [`web, cubic (${times.length} of ${run.totals.transfers})`, ...[0.05, 0.25, 0.5, 0.75, 0.95].map((share) => shown(at(share)))]);
    await flawless(page, "boxes of flows");
    await page.getByLabel("Drawn as").selectOption("shares");
    const shares = section.locator("svg.shares");
    assert.match(await shares.getAttribute("aria-label"), new RegExp(`cubic, ${times.length} of ${run.totals.transfers} flows`));
    // One step for each transfer that finished.
    const path = await shares.locator("path.line").getAttribute("d");
    assert.equal(path.match(/H/g).length, times.length);
    await page.waitForFunction(() => location.hash.includes("spread=shares"));
    await page.getByLabel("Measure").selectOption("goodput_bit_s");
    assert.match(await shares.getAttribute("aria-label"), /at most this goodput/);
    assert.equal(await section.locator("tbody tr").count(), 1);
    await flawless(page, "distribution of flows");
    // Percentiles by length, as the command has them.
    const found = await page.textContent('[data-metric="small_completion_p95_s"]');
    assert.equal(Number.parseFloat(found), Number(run.totals.small.completion_p95_s.toPrecision(3)));
  });
});

test("classes are the entries of the scenario, and flows of other kinds are left out", async () => {
  await flows("#scenario=customers&seeds=1-2&senders=reno,cubic", async (page, section) => {
    const names = () => section.locator("svg.boxes text.name").allTextContents();
    assert.deepEqual(await names(), ["web, reno (10)", "web, cubic (10)"]);
    await page.getByLabel("Measure").selectOption("goodput_bit_s");
    assert.deepEqual(await names(), ["web, reno (10)", "web, cubic (10)", "download, reno (2)", "download, cubic (2)", "call-down, reno (2)", "call-down, cubic (2)", "call-up, reno (2)", "call-up, cubic (2)"]);
    await page.getByLabel("Measure").selectOption("mos");
    assert.deepEqual(await names(), ["call-down, reno (2)", "call-down, cubic (2)", "call-up, reno (2)", "call-up, cubic (2)"]);
  });
});

test("a single flow has no spread", async () => {
  await flows("#scenario=single-flow&seeds=1", async (page, section) => {
    assert.equal(await section.count(), 0);
  });
});

test("a million values have a least and a greatest", async () => {
  const { greatest, least } = await sourceOf("model/extent.ts");
  const values = Float64Array.from({ length: 1_000_000 }, (_, place) => (place * 7919) % 1_000_003);
  assert.deepEqual([least(values), greatest(values), greatest([], 1), greatest([0.5], 1)], [0, values.reduce((most, one) => Math.max(most, one)), 1, 1]);
  // As arguments of one call they would not fit on the stack.
  const source = path.join(ROOT, "web/src");
  const spread = readdirSync(source, { recursive: true }).filter((name) => /\.tsx?$/.test(name) && /Math\.(?:min|max)\([^()]*\.\.\./.test(readFileSync(path.join(source, name), "utf8")));
  assert.deepEqual(spread, []);
});
