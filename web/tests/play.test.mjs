// Play: what is seen first, how to look closer, the path, and that the address says all of it.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { ROOT, beginAndEnd, browser, done, downloaded, flawless, lasthop, noteTexts, open, server, sourceOf, texts, view, write } from "./helpers.mjs";

beginAndEnd();

/** Opens Play in a page that notes every text drawn on a canvas, and ends it without a complaint. */
async function play(hash, options, run) {
  const { page, wrong, close } = await open(browser, `${server.address}${hash}`, options, noteTexts);
  await done(page);
  await run(page);
  assert.deepEqual(wrong, []);
  await close();
}

/** The time in the path, once it stands: a busy machine draws it a moment after it was stopped. */
async function stands(page) {
  await page.getByRole("button", { name: "Let time run" }).waitFor();
  await page.evaluate(() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(resolve)), 100)));
  return Number.parseFloat(await page.textContent(".path .clock"));
}

const label = (page, panel = 0) => page.locator(".chart .canvas").nth(panel).getAttribute("aria-label");
const fragment = (page) => page.evaluate(() => location.hash);

test("what to look at, verdicts, the path and the first curve are seen without scrolling", async () => {
  await play("", { viewport: { width: 1440, height: 900 } }, async (page) => {
    for (const what of [".look", ".verdicts li >> nth=2", ".path canvas", ".chart .canvas >> nth=0"]) {
      const box = await page.locator(what).first().boundingBox();
      assert.ok(box && box.y > 0 && box.y + box.height <= 900, `${what}: ${JSON.stringify(box)}`);
    }
    assert.match(await page.textContent(".look"), /packets are lost.* Look at the shaded times: a link of the path goes down 5 times/);
    assert.match(await page.textContent(".charts"), /Shaded: .*a link of the path is down/);
    await flawless(page, "play");
  });
});

test("a drag over a curve looks closer in all of them, and the keyboard does the same", async () => {
  await play("#span=whole", {}, async (page) => {
    const whole = await label(page, 3);
    const box = await page.locator(".chart .canvas").nth(1).boundingBox();
    await page.mouse.move(box.x + 200, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + 300, box.y + 40, { steps: 4 });
    await page.mouse.up();
    const near = await label(page, 3);
    const [, from, to] = /from ([\d.]+) to ([\d.]+) s/.exec(near).map(Number);
    assert.ok(to - from > 3 && to - from < 15, near);
    await page.locator(".chart .canvas").nth(3).dblclick();
    assert.equal(await label(page, 3), whole);
    await page.focus(".chart .canvas");
    await page.keyboard.press("+");
    assert.match(await label(page), /from [\d.]+ to [\d.]+ s/);
    await page.keyboard.press("0");
    assert.equal(await label(page, 3), whole);
    await page.getByRole("button", { name: "Look closer" }).click();
    await page.getByRole("button", { name: "Whole run" }).click();
    assert.equal(await label(page, 3), whole);
  });
});

test("a run is first looked at where something happens, and its figures can be read", async () => {
  await play("#scenario=two-base-stations", {}, async (page) => {
    // The path changes after 20 s.
    assert.match(await label(page), /from 18 to 25 s/);
    assert.match(await page.textContent(".look"), /The curves show the first time/);
    assert.match(await page.textContent(".path .clock"), /^20\.0 s/);
    await page.getByRole("button", { name: "Tables" }).click();
    await page.waitForFunction(() => location.hash.includes("tables=1"));
    const tables = await page.$$eval(".chart", (all) => all.map((one) => [one.querySelector(".unit").textContent, one.querySelector("th + th").textContent, one.querySelectorAll("tbody tr").length]));
    for (const [unit, head, rows] of tables) assert.ok(head.endsWith(`(${unit})`) && rows > 10 && rows <= 20, `${unit} ${head} ${rows}`);
    await flawless(page, "tables");
    await page.getByRole("button", { name: "Tables" }).click();
    await page.getByRole("button", { name: "Whole run" }).click();
    await page.waitForFunction(() => location.hash.includes("span=whole"));
    assert.match(await label(page), /over 60 s/);
    assert.doesNotMatch(await page.textContent(".look"), /The curves show/);
  });
  // Where nothing of the kind happens, all of it is seen.
  await play("#scenario=bufferbloat&seeds=1", {}, async (page) => assert.match(await label(page), /over \d+ s/));
});

test("the path stays in sight while curves are read, and hides nothing that is chosen", async () => {
  await play("#scenario=lossy-last-hop&seeds=1", { viewport: { width: 1280, height: 800 } }, async (page) => {
    await page.locator(".chart .canvas").nth(3).evaluate((chart) => window.scrollTo(0, chart.getBoundingClientRect().top + scrollY - 300));
    await page.waitForSelector(".path.held");
    const box = await page.locator(".path canvas").boundingBox();
    assert.ok(box.y >= 0 && box.y < 20 && box.height > 80, JSON.stringify(box));
    await flawless(page, "the path held");
    // The keyboard goes back to what is above: it stands below the path.
    await page.locator(".chart .canvas").nth(1).focus();
    const { top, bottom } = await page.evaluate(() => ({ top: document.activeElement.getBoundingClientRect().top, bottom: document.querySelector(".path .drawn").getBoundingClientRect().bottom }));
    assert.ok(top >= bottom, `${top} and ${bottom}`);
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    await page.waitForSelector(".path.held", { state: "detached" });
    await page.evaluate(() => window.scrollTo(0, 0));
    // As while the first run of another text goes on, the page has no curves: the picture goes back to its place.
    await page.locator(".chart .canvas").nth(3).evaluate((chart) => window.scrollTo(0, chart.getBoundingClientRect().top + scrollY - 300));
    await page.waitForSelector(".path.held");
    await page.locator(".charts").evaluate((charts) => charts.classList.remove("charts"));
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.waitForSelector(".path:not(.held)");
    assert.ok((await page.locator(".path canvas").boundingBox()).y > 50);
  });
});

test("stations are drawn beside each other: their airtime, their rate, their repetitions and their queues", async () => {
  await play("#scenario=slow-station&seeds=1", {}, async (page) => {
    const lines = async (panel) => (await page.locator(`.chart[data-panel=${panel}] .canvas`).getAttribute("aria-label")).split("means: ")[1].split(". Arrow")[0].split(", ").map((one) => [one.replace(/ [\d.]+$/, ""), Number(/([\d.]+)$/.exec(one)[1])]);
    const run = JSON.parse(lasthop("run", "scenarios/slow-station.toml", "--seed", "1", "--set", "warmup=0 s", "--json", "-")).runs[0];
    const airtime = await lines("airtime");
    assert.ok(airtime.length >= 3);
    for (const [name, mean] of airtime) {
      const [from, to] = name.split("→");
      const told = 100 * run.links.find((link) => link.name === (to === "ap" ? `${from}-ap` : `${to}-ap (reverse)`)).utilisation;
      assert.ok(Math.abs(mean - told) <= 0.02 * told + 0.05, `${name}: ${mean} and ${told}`);
    }
    // The slow station has a share of the air like the others, and a rate far below theirs.
    const rates = Object.fromEntries(await lines("air-rate"));
    assert.ok(rates["ap→slow"] < rates["ap→fast-1"] / 5, JSON.stringify(rates));
    // Repetitions among the transmissions of each, as those of all its frames that were acknowledged or given up.
    const repeats = Object.fromEntries(await lines("air-repeats"));
    assert.ok(Object.keys(repeats).length >= 2);
    for (const [name, mean] of Object.entries(repeats)) {
      const [from, to] = name.split("→");
      const { attempts, transmitted_fragments: through, failed } = run.links.find((link) => link.name === (to === "ap" ? `${from}-ap` : `${to}-ap (reverse)`)).radio;
      const told = (100 * (attempts - through - failed)) / attempts;
      assert.ok(Math.abs(mean - told) < 0.2 * told + 1, `${name}: ${mean} % and ${told} %`);
    }
    assert.ok((await lines("air-queue")).length >= 2);
  });
});

test("the queue of any link can be drawn", async () => {
  await play("#scenario=walking-host", {}, async (page) => {
    const select = page.getByRole("combobox", { name: "Queue at" });
    const names = await select.locator("option").allTextContents();
    assert.ok(names.length >= 2, names.join());
    for (const name of names.slice(0, 3)) {
      await select.selectOption(name);
      await page.waitForFunction((wanted) => [...document.querySelectorAll(".chart .title")].some((one) => one.textContent === `Queue at ${wanted}`), name);
    }
  });
});

test("the path is drawn from the text as it is written, and has what waits at the time of the cursor", async () => {
  await play("#scenario=bufferbloat", { viewport: { width: 1920, height: 1000 } }, async (page) => {
    const isDrawn = (pattern) => page.waitForFunction((source) => globalThis.drawn.some(({ on, text }) => on === "path" && new RegExp(source).test(text)), pattern);
    await isDrawn("^[1-9]\\d+ of 1000$");
    await page.getByLabel("Time in the run").fill("0");
    await page.waitForFunction(() => document.querySelector(".path .clock").textContent === "0.0 s");
    await page.waitForSelector(".readout .when");
    await page.evaluate(() => (globalThis.drawn = []));
    const text = readFileSync(path.join(ROOT, "scenarios/bufferbloat.toml"), "utf8");
    await write(page, text.replace(/rate = "10 Mbit\/s"/, 'rate = "7 Mbit/s"'));
    await isDrawn("7 Mbit/s");
    // Time runs, and the cursor of the curves with it.
    await page.getByRole("button", { name: "Let time run" }).click();
    await page.waitForFunction(() => Number.parseFloat(document.querySelector(".readout .when")?.textContent ?? "0") > 1);
    await page.getByRole("button", { name: "Stop the time" }).click();
    const at = await stands(page);
    await page.getByRole("button", { name: "Replay from here" }).click();
    await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
    assert.ok(Math.abs(Number.parseFloat(await page.textContent(".replay .clock")) - at) < 0.11);
  });
});

test("packets are on the path where time runs slowly, and flows of light where it runs fast", async () => {
  await play("#scenario=lossy-last-hop&senders=as written&seeds=1&flow=3", { viewport: { width: 1440, height: 1000 } }, async (page) => {
    const packets = () => page.$eval(".path canvas", (canvas) => canvas.dataset.packets);
    const clock = () => page.$eval(".path .clock", (one) => Number.parseFloat(one.textContent));
    const speed = page.getByLabel("Speed of time");
    assert.equal(await packets(), "");
    assert.equal(await page.locator(".path .legend").count(), 0);
    await page.getByLabel("Time in the run").fill("30");
    await speed.selectOption("1/100");
    await page.waitForFunction(() => Number(document.querySelector(".path canvas").dataset.packets) > 20);
    assert.match(await page.textContent(".path .legend"), /ringed: /);
    assert.match(await page.locator(".path canvas").getAttribute("aria-label"), /[1-9]\d* packets on them/);
    await flawless(page, "packets on the path");
    // Those that the command's trace has on links at that time; few wait, so each of them is drawn too. What is lost in the
    // air never arrives: it is drawn as long as others of its size need.
    const folder = mkdtempSync(path.join(tmpdir(), "lasthop-"));
    lasthop("run", "scenarios/lossy-last-hop.toml", "--seed", "1", "--trace", "--format", "csv", "--set", "warmup=0 s", "--out", path.join(folder, "run"));
    const [head, ...rows] = readFileSync(path.join(folder, "run/hops.csv"), "utf8").trim().split("\n").map((line) => line.split(","));
    rmSync(folder, { recursive: true });
    const [link, size, enqueued, left, arrived] = ["link", "wire_bytes", "enqueue_ns", "transmit_ns", "arrive_ns"].map((name) => head.indexOf(name));
    const flights = new Map(rows.filter((row) => row[arrived]).map((row) => [`${row[link]} ${row[size]}`, row[arrived] - row[left]]));
    const over = (row) => Number(row[arrived]) || Number(row[left]) + flights.get(`${row[link]} ${row[size]}`);
    const there = rows.filter((row) => row[left] && Number(row[enqueued]) <= 30e9 && over(row) > 30e9).length;
    assert.equal(Number(await packets()), there);
    // Time goes on a hundred times more slowly, and the packets with it.
    const [start, before] = [await clock(), await page.$eval(".path canvas", (canvas) => canvas.toDataURL())];
    await page.getByRole("button", { name: "Let time run" }).click();
    await page.waitForTimeout(1500);
    await page.getByRole("button", { name: "Stop the time" }).click();
    const passed = (await stands(page)) - start;
    assert.ok(passed > 0.001 && passed < 0.05, `${passed} s passed`);
    assert.notEqual(await page.$eval(".path canvas", (canvas) => canvas.toDataURL()), before);
    // Another time has its own; a run that fits into one window is not repeated for it.
    await page.getByLabel("Time in the run").fill("5");
    await page.waitForFunction(() => document.querySelector(".path .clock").textContent === "5.0000 s" && Number(document.querySelector(".path canvas").dataset.packets) > 20);
    // Replay has the same speed, time and packets.
    const at = await clock();
    const shown = Number(await packets());
    await page.getByRole("button", { name: "Replay from here" }).click();
    await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
    assert.equal(await page.getByLabel("Speed").inputValue(), "0.01");
    assert.ok(Math.abs(Number.parseFloat(await page.textContent(".replay .clock")) - at) < 1e-4);
    assert.ok(Math.abs((await page.$eval("canvas.scene", (canvas) => Number(canvas.dataset.packets))) - shown) < 40);
    await page.click("nav >> text=Play");
    await page.waitForFunction(() => Number(document.querySelector(".path canvas").dataset.packets) > 20);
    await speed.selectOption("");
    await page.waitForFunction(() => document.querySelector(".path canvas").dataset.packets === "");
    assert.equal(await page.locator(".path .legend").count(), 0);
  });
});

test("collisions are among the packets of the path, among many stations too", async () => {
  for (const name of ["hidden-terminals", "stadium"]) {
    await play(`#scenario=${name}&senders=as written&seeds=1&speed=0.01&at=8`, {}, async (page) => {
      await page.waitForFunction(() => Number(document.querySelector(".path canvas").dataset.packets) > 0, null, { timeout: 60_000 });
      assert.equal(await page.locator(".path .legend").getByText("a frame met another").count(), 1, name);
    });
  }
});

test("names of the ends stand beside a crowd of nodes, not on it", async () => {
  await play("#scenario=lossy-last-hop&seeds=1", { viewport: { width: 1100, height: 720 } }, async (page) => {
    await page.evaluate(() => (globalThis.drawn = []));
    await page.getByLabel("Time in the run").fill("5");
    await page.waitForFunction(() => globalThis.drawn.some(({ on }) => on === "path"));
    const names = (await texts(page, "path")).filter(({ text }) => /^(source|sink)-1$/.test(text));
    assert.ok(names.length >= 2);
    for (const { text, left, right, clientWidth: wide } of names) {
      const [first, last] = [Math.min(104, wide * 0.13), wide - Math.min(104, wide * 0.13)];
      assert.ok(right < first || left > last, `${text} from ${left} to ${right} px, columns at ${first} and ${last}`);
      assert.ok(left >= 0 && right <= wide, `${text} from ${left} to ${right} of ${wide} px`);
    }
  });
});

test("words on the path stand beside each other", async () => {
  for (const name of ["video", "customers", "office", "wlan", "two-base-stations", "chain", "stadium"]) {
    await play(`#scenario=${name}&seeds=1`, { viewport: { width: 1440, height: 900 } }, async (page) => {
      await page.evaluate(() => (globalThis.drawn = []));
      await page.getByLabel("Time in the run").fill("5");
      await page.waitForFunction(() => globalThis.drawn.some(({ on }) => on === "path"));
      const boxes = await texts(page, "path");
      const over = boxes.flatMap((one, place) => boxes.slice(place + 1).filter((other) => one.text !== other.text && one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom).map((other) => `${one.text} over ${other.text}`));
      assert.deepEqual(over, [], name);
    });
  }
});

test("the address says all that is chosen: reloading and going back lead to the same", async () => {
  await play("", {}, async (page) => {
    await page.getByLabel("Window and RTT of").selectOption("4");
    await page.getByRole("button", { name: "Look closer" }).click();
    await page.fill('label:has-text("Seeds") input', "2");
    await page.fill("#key-channel-error-packet_error_rate", "0.02");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Dark colours" }).click();
    await page.waitForFunction(() => ["flow=4", "span=", "seeds=1-2", "theme=dark", "set=channel.error.packet_error_rate%3D0.02"].every((part) => location.hash.includes(part))).catch(async () => assert.fail(await fragment(page)));
    await done(page);
    const [before, hash, titles] = [await label(page), await fragment(page), await page.$$eval(".chart .title", (all) => all.map((one) => one.textContent))];
    await page.reload();
    await done(page);
    assert.equal(await label(page), before);
    assert.equal(await fragment(page), hash);
    assert.deepEqual(await page.$$eval(".chart .title", (all) => all.map((one) => one.textContent)), titles);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    assert.equal(await page.inputValue("#key-channel-error-packet_error_rate"), "0.02");
    // Another scenario is a step, and so is another view.
    await page.selectOption(".scenario select", "snoop");
    await page.waitForFunction(() => location.hash.startsWith("#scenario=snoop") && document.querySelector(".results .name")?.textContent !== "lossy last hop");
    await page.click("nav >> text=Replay");
    await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
    await page.waitForFunction(() => location.hash.includes("view=replay"));
    await page.goBack();
    await page.waitForSelector(".play");
    await page.goBack();
    await page.waitForFunction(() => document.querySelector(".scenario select").value === "lossy-last-hop");
    await done(page);
    assert.equal(await page.inputValue("#key-channel-error-packet_error_rate"), "0.02");
    assert.equal(await label(page), before);
    // A text of one's own is packed into the address.
    await write(page, 'name = "mine"\nduration = "3 s"\n[topology]\nkind = "dumbbell"\nbottleneck = { rate = "1 Mbit/s", delay = "5 ms" }\naccess = { rate = "10 Mbit/s", delay = "1 ms" }\n[[flows]]\ntransport = "reno"\n');
    await page.waitForFunction(() => document.querySelector(".results .name")?.textContent === "mine" && location.hash.startsWith("#s="));
    await page.reload();
    await page.waitForFunction(() => document.querySelector(".results .name")?.textContent === "mine");
    assert.equal(await page.locator("textarea").count(), 1);
  });
});

test("the address is written while runs go on", async () => {
  await play("#scenario=snoop&seeds=1", {}, async (page) => {
    await page.fill('label:has-text("Seeds") input', "50");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".results").getAttribute("aria-busy") === "true");
    await page.getByRole("button", { name: "Dark colours" }).click();
    await page.waitForFunction(() => location.hash.includes("theme=dark"));
    assert.equal(await page.getAttribute(".results", "aria-busy"), "true");
  });
});

test("what is being typed stays in its box while runs report", async () => {
  await play("#seeds=1", {}, async (page) => {
    const report = async () => {
      const before = await page.locator(".results progress").getAttribute("value");
      await page.waitForFunction((was) => document.querySelector(".results progress")?.getAttribute("value") !== was, before);
    };
    const [seeds, key] = ['label:has-text("Seeds") input', "#key-channel-error-packet_error_rate"];
    await page.fill(seeds, "50");
    await page.waitForSelector(".results progress");
    await page.fill(key, "0.02");
    await report();
    assert.equal(await page.inputValue(key), "0.02");
    await page.fill(seeds, "");
    await report();
    assert.equal(await page.inputValue(seeds), "");
  });
});

test("the first view can be had again from the list, and a link says whom it reaches", async () => {
  await play("", {}, async (page) => {
    const senders = () => page.$$eval('section[aria-labelledby="senders-title"] .chip > span', (chips) => chips.map((chip) => chip.textContent));
    const first = await senders();
    await page.selectOption(".scenario select", "single-flow");
    await page.waitForFunction(() => document.querySelectorAll('section[aria-labelledby="senders-title"] .chip').length === 1);
    await page.selectOption(".scenario select", "lossy-last-hop");
    await page.waitForFunction((wanted) => [...document.querySelectorAll('section[aria-labelledby="senders-title"] .chip > span')].map((one) => one.textContent).join() === wanted, first.join());
    await page.click("text=Copy link");
    await page.waitForSelector("text=works on this computer while lasthop view runs");
  });
});

test("what cannot be is answered where it was typed, and changes nothing", async () => {
  await play("#scenario=hidden-terminals&seeds=1", {}, async (page) => {
    const names = await page.$$eval(".controls summary", (all) => all.map((one) => one.textContent));
    assert.ok(!names.some((name) => /^(\w+), \1\b/.test(name)), names.join("; "));
    const sense = page.getByLabel("sense threshold", { exact: true });
    // Whole, with its unit, and with room for what it holds.
    assert.match(await sense.inputValue(), /^-\d+(\.\d+)?$/);
    assert.ok(await sense.evaluate((box) => box.scrollWidth <= box.clientWidth));
    assert.equal(await sense.evaluate((box) => box.parentElement.querySelector(".of").textContent), "dBm");
    const before = await sense.inputValue();
    const text = await page.evaluate(() => location.hash);
    const refuse = async (label, typed, answer) => {
      const box = page.getByLabel(label, { exact: true }).first();
      await box.fill(typed);
      await box.press("Enter");
      const wrong = page.locator(".control", { has: page.getByLabel(label, { exact: true }) }).first().locator(".wrong");
      await wrong.waitFor();
      assert.match(await wrong.textContent(), answer);
      assert.equal(await box.getAttribute("aria-invalid"), "true");
      assert.equal(await box.inputValue(), typed);
    };
    await refuse("sense threshold", "abc", /“abc” is not a number; it may be -300 to 300 dBm/);
    await refuse("sense threshold", "2,5", /write the decimals behind a point, 2\.5/);
    await refuse("sense threshold", "5000", /300/);
    await refuse("duration", "-5", /-5/);
    assert.equal(await page.locator("textarea").count(), 0);
    assert.equal(await page.evaluate(() => location.hash), text);
    await flawless(page, "controls that refuse");
    await sense.fill(before);
    await sense.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".control .wrong").length === 1);
    await page.fill('label:has-text("Seeds") input', "500");
    await page.waitForSelector("text=The page runs 1 to 50 seeds");
  });
});

test("a value that is drawn says so, and the numbers of its distribution can be set", async () => {
  const random = `duration = "5 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "10 Mbit/s", delay = { distribution = "uniform", low = "10 ms", high = "40 ms" }, queue = { kind = "drop-tail", limit = { distribution = "choice", values = ["20 packets", "50 packets"], weights = [1, 3] } } }
access = { rate = "100 Mbit/s", delay = "1 ms" }
[channel.error]
kind = "bernoulli"
packet_error_rate = { distribution = "log-normal", median = 0.01, sigma = 1.5, max = 0.2 }
[[flows]]
count = 2
transport = { cc = "vegas", alpha = { distribution = "normal", mean = 2, deviation = 0.5, min = 1 } }
start = { distribution = "exponential", mean = "1 s", max = "3 s", per = "flow" }
`;
  await play("#seeds=1", {}, async (page) => {
    await write(page, random);
    await page.waitForFunction(() => document.querySelector("h2.name").textContent !== "lossy last hop");
    await done(page);
    await page.click("#tab-controls");
    await page.$$eval(".controls details", (all) => all.forEach((one) => { one.open = true; }));
    const paths = await page.$$eval(".control code", (all) => all.map((one) => one.textContent));
    for (const path of [
      "topology.bottleneck.delay", "topology.bottleneck.delay.low", "topology.bottleneck.delay.high", "topology.bottleneck.queue.limit.values.0", "topology.bottleneck.queue.limit.weights.1",
      "channel.error.packet_error_rate", "channel.error.packet_error_rate.median", "channel.error.packet_error_rate.sigma", "flows.0.transport.alpha.deviation", "flows.0.start.mean", "flows.0.start.per",
    ]) assert.ok(paths.includes(path), `${path} in ${paths.join()}`);
    const row = (path) => page.locator(`.control:has(code:text-is("${path}"))`);
    assert.match(await row("topology.bottleneck.delay").textContent(), /at random: uniform.*Propagation delay.*All values between two bounds are equally likely/);
    assert.equal(await row("topology.bottleneck.delay.low").locator("select").inputValue(), "ms");
    await flawless(page, "random values");
    // The text and its results follow; what the engine refuses is answered there.
    const text = async () => {
      await page.click("#tab-text");
      const found = await page.inputValue("textarea");
      await page.click("#tab-controls");
      await page.$$eval(".controls details", (all) => all.forEach((one) => { one.open = true; }));
      return found;
    };
    const set = async (path, value) => {
      await row(path).locator("input.number").fill(value);
      await row(path).locator("input.number").press("Enter");
    };
    await set("topology.bottleneck.delay.low", "20");
    await set("topology.bottleneck.queue.limit.values.0", "30");
    await page.waitForFunction(() => location.hash.length > 0);
    await set("topology.bottleneck.delay.low", "90");
    await row("topology.bottleneck.delay.low").locator(".wrong").waitFor();
    assert.equal(await text(), random.replace('low = "10 ms"', 'low = "20 ms"').replace('"20 packets"', '"30 packets"'));
    // One value in place of the distribution.
    await row("flows.0.start").getByRole("button", { name: "Always 1 s" }).click();
    await row("flows.0.start").locator("select").waitFor();
    assert.match(await text(), /start = "1 s"/);
    await done(page);
  });
});

test("a text that is wrong leaves the controls and says where to mend it", async () => {
  await play("#scenario=single-flow&seeds=1&tab=text", {}, async (page) => {
    await page.fill("textarea", "duration = 1");
    await page.waitForSelector(".editor .message");
    await page.click("#tab-controls");
    await page.waitForSelector("#panel .message");
    await page.getByRole("button", { name: "Go to the text" }).click();
    assert.equal(await page.locator("textarea").count(), 1);
  });
});

test("the text has the width that its lines need, and arrows choose the tab", async () => {
  await play("#scenario=lossy-last-hop&seeds=1", { viewport: { width: 1440, height: 900 } }, async (page) => {
    const narrow = (await page.locator("aside").boundingBox()).width;
    await page.focus("#tab-controls");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector("textarea");
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-text");
    assert.deepEqual(await page.$$eval("[role=tab]", (tabs) => tabs.map((tab) => tab.tabIndex)), [-1, 0]);
    const wide = (await page.locator("aside").boundingBox()).width;
    assert.ok(wide > narrow + 100 && wide <= 780, `${narrow} and ${wide} px`);
    // The path has less room now, and is drawn anew in it, not pressed together.
    await page.waitForFunction(() => {
      const canvas = document.querySelector(".path canvas");
      return Math.abs(canvas.width - canvas.clientWidth * devicePixelRatio) <= 1;
    });
    await page.selectOption(".scenario select", "single-flow");
    await page.waitForFunction(() => document.querySelector("textarea").value.includes("sack"));
    // What is longer than half of the window goes on in the next line, in the text as in its colours.
    const [beyond, apart] = await page.$eval("textarea", (area) => [area.scrollWidth - area.clientWidth, area.scrollHeight - area.parentElement.querySelector("pre").scrollHeight]);
    assert.ok(beyond <= 0 && Math.abs(apart) <= 2, `${beyond} px are cut off; colours and text are ${apart} px apart`);
  });
});

test("on a phone what comes of it is near the top, and nothing scrolls inside a box", async () => {
  await play("", { viewport: { width: 390, height: 844 }, hasTouch: true }, async (page) => {
    const look = await page.locator(".look").boundingBox();
    assert.ok(look.y < 700, `it begins at ${look.y} px`);
    await page.getByRole("button", { name: "Change the scenario" }).click();
    const inner = await page.$eval(".controls", (box) => [box.scrollHeight, box.clientHeight]);
    assert.equal(inner[0], inner[1]);
    const small = await page.$$eval("#panel button, #panel input, #panel select", (all) => all.filter((one) => one.getBoundingClientRect().height > 0 && one.getBoundingClientRect().height < 23.9).map((one) => one.getAttribute("aria-label") ?? one.id));
    assert.deepEqual(small, []);
    await flawless(page, "phone");
  });
});

test("if a run takes long, figures of one seed come first and the others wait to be asked for", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=many-flows`);
  // Something to read is there long before a run is over.
  await page.waitForSelector("text=Throughput of all flows so far", { timeout: 60_000 });
  await page.waitForSelector(".chart .canvas");
  // Its first seconds have their figures before that, and these are the command's.
  await page.waitForFunction(() => /^One seed, the first \d+ s$/.test(document.querySelector(".figures h2")?.textContent ?? ""), null, { timeout: 60_000 });
  const [heading, goodput, unit] = await page.evaluate(() => [".figures h2", ".figures td[data-metric=goodput_bit_s]", ".figures td[data-metric=goodput_bit_s] ~ .unit"].map((one) => document.querySelector(one).textContent));
  const [seconds] = /\d+(?= s$)/.exec(heading);
  const [early] = JSON.parse(lasthop("run", "scenarios/many-flows.toml", "--seed", "1", "--set", `duration=${seconds} s`, "--json", "-")).runs;
  assert.deepEqual([goodput, unit], [(early.totals.goodput_bit_s / 1e6).toFixed(0), "Mbit/s"]);
  assert.equal(await page.locator(".fingerprint").count(), 0);
  await write(page, readFileSync(path.join(ROOT, "scenarios/many-flows.toml"), "utf8").replace('duration = "60 s"', 'duration = "18 s"'));
  await page.getByRole("button", { name: /^Run 4 more seeds, about/ }).waitFor({ timeout: 120_000 });
  assert.match(await page.textContent(".figures h2"), /One seed/);
  await page.fill('label:has-text("Seeds") input', "1");
  await page.waitForSelector("text=A run takes long", { state: "detached" });
  await done(page, 120_000);
  assert.deepEqual(wrong, []);
  await close();
});

test("the first figures of a long run are of as much of it as takes no time", async () => {
  const { stretchOf } = await sourceOf("engine/pace.ts");
  const of = (pace, warmup_s, duration_s) => stretchOf(pace, { warmup_s, duration_s });
  assert.deepEqual([of(200, 2, 60), of(1500, 2, 60), of(5, 2, 60), of(200, 20, 60), of(1, 0, 1)], [10, 5, 30, null, null]);
});

test("one seed has no verdicts, which is told once", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=fair-share&senders=reno,vegas&seeds=1&set=${encodeURIComponent('duration="5 s"')}`);
  await done(page);
  assert.equal(await page.textContent(".verdicts"), "Against renoOne seed cannot show a difference: use more seeds.");
  await page.fill('label:has-text("Seeds") input', "3");
  await page.waitForSelector(".verdicts li");
  assert.deepEqual(wrong, []);
  await close();
});

test("dashes tell curves apart, and one that is alone has none", async () => {
  const figure = async (senders) => {
    const { page, wrong, close } = await open(browser, `${server.address}#scenario=single-flow&seeds=1&senders=${senders}`);
    await done(page);
    const chips = await page.$$eval(".senders .chip svg", (all) => all.map((one) => getComputedStyle(one).strokeDasharray !== "none"));
    const folder = mkdtempSync(path.join(tmpdir(), "lasthop-"));
    const text = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
    rmSync(folder, { recursive: true });
    assert.deepEqual(wrong, []);
    await close();
    return [new Set([...text.matchAll(/<path [^>]*stroke-width="1\.5"[^>]*>/g)].map(([path]) => /stroke-dasharray/.test(path))), chips];
  };
  assert.deepEqual(await figure("sack"), [new Set([false]), [false]]);
  assert.deepEqual(await figure("sack,cubic"), [new Set([true]), [true, true]]);
});

test("a sender that begins later than another is not taken for slow", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=lossy-last-hop&senders=reno,vegas&seeds=1-2`, {}, () => {
    Object.defineProperty(Navigator.prototype, "hardwareConcurrency", { get: () => 2 });
    // How long people wait for all first seeds, 4 s, is another matter, and a busy machine may need them.
    const start = globalThis.setTimeout;
    globalThis.setTimeout = (then, time, ...rest) => (time === 4000 ? 0 : start(then, time, ...rest));
    // The first seed of vegas begins late, and the second seeds wait until it is over.
    const post = Worker.prototype.postMessage;
    const later = [];
    let isOver = false;
    Worker.prototype.postMessage = function (message, ...rest) {
      const go = () => post.call(this, message, ...rest);
      const { op, seed, overrides } = message.job ?? {};
      if (op === "run" && seed === 2 && !isOver) return void later.push(go);
      if (op !== "run" || !JSON.stringify(overrides).includes("vegas")) return go();
      this.addEventListener("message", ({ data }) => {
        isOver ||= data.kind === "done";
        if (isOver) for (const one of later.splice(0)) one();
      });
      start(go, 3000);
    };
  });
  await page.waitForFunction(() => document.querySelector(".results")?.getAttribute("aria-busy") === "false" && document.querySelector(".took"), null, { timeout: 60_000 });
  assert.equal(await page.getByRole("button", { name: /^Run \d+ more seed/ }).count(), 0);
  assert.deepEqual(wrong, []);
  await close();
});

test("ten times the flows are no more than ten times the work, and drawn no closer than there is room for", async () => {
  // Counted, not timed: distances between nodes that are worked out, and strokes, while the path is drawn anew.
  const drawn = async (count) => {
    let found;
    await play(`#scenario=many-flows&seeds=1&flow=0&set=flows.0.count=${count}&set=${encodeURIComponent("duration=4 s")}`, {}, async (page) => {
      await page.evaluate(() => {
        globalThis.found = { distances: 0, strokes: 0 };
        for (const [of, name, counter] of [[Math, "abs", "distances"], [Math, "hypot", "distances"], [CanvasRenderingContext2D.prototype, "stroke", "strokes"]]) {
          const before = of[name];
          of[name] = function (...given) {
            if (of === Math || this.canvas.closest(".path")) globalThis.found[counter] += 1;
            return before.apply(this, given);
          };
        }
      });
      await page.getByLabel("Window and RTT of").selectOption("1");
      await page.waitForFunction(() => globalThis.found.strokes > 0);
      found = await page.evaluate(() => globalThis.found);
    });
    return found;
  };
  const [few, many] = [await drawn(100), await drawn(1000)];
  assert.ok(many.distances < 20 * few.distances, `${few.distances} distances for 100 flows, ${many.distances} for 1,000`);
  assert.ok(many.strokes < 5 * few.strokes, `${few.strokes} strokes for 100 flows, ${many.strokes} for 1,000`);
});

test("panels of the air and of repairs are there where something was counted", async () => {
  await play("#scenario=hidden-terminals&seeds=1", {}, async (page) => {
    const titles = await page.$$eval(".chart .title", (all) => all.map((one) => one.textContent));
    assert.ok(titles.includes("Collisions on radio links") && titles.includes("Share of retransmissions on radio links"), titles.join());
    // All of them together are what the command counts from the end of its warm-up on, within what came before.
    const { links } = JSON.parse(lasthop("run", "scenarios/hidden-terminals.toml", "--seed", "1", "--json", "-")).runs[0];
    const counted = links.reduce((total, { radio }) => total + (radio?.collisions ?? 0), 0);
    const seconds = 28;
    const mean = Number(/means: .* ([\d.]+)\. Arrow/.exec(await page.locator(".chart[data-panel=collisions] .canvas").getAttribute("aria-label"))[1]);
    assert.ok(Math.abs(mean / (counted / seconds) - 1) < 0.1, `${mean} frames/s shown, ${counted} counted`);
    // The first sentence says the share that the curve has.
    const said = Number(/Look at the radio links: (\d+) %/.exec(await page.textContent(".look"))[1]);
    const share = Number(/means: .* ([\d.]+)\. Arrow/.exec(await page.locator(".chart[data-panel=air] .canvas").getAttribute("aria-label"))[1]);
    assert.ok(Math.abs(said - share) < 3, `${said} % are said, ${share} % drawn`);
    await page.selectOption(".scenario select", "snoop");
    await page.waitForSelector(".chart[data-panel=repairs]");
    // What Snoop keeps, and how full that is.
    assert.equal(await page.textContent(".chart[data-panel=held] .title"), "Held by helpers and links");
    assert.equal(await page.locator(".chart[data-panel=collisions]").count(), 0);
  });
});

test("what a viewer has is drawn over time", async () => {
  await play("#scenario=video&senders=as written&flow=0&seeds=1", {}, async (page) => {
    const { flows } = JSON.parse(lasthop("run", "scenarios/video.toml", "--seed", "1", "--json", "-")).runs[0];
    const { realtime_index: index, stall_s: stalled } = flows[0].realtime;
    const said = async (panel) => page.locator(`.chart[data-panel=${panel}] .canvas`).getAttribute("aria-label");
    const mean = Number(/means: .* ([\d.]+)\. Arrow/.exec(await said("timely"))[1]);
    assert.ok(Math.abs(mean - 100 * index) < 3, `${mean} % shown, an index of ${index}`);
    assert.equal(await page.textContent(".chart[data-panel=stall] .title"), "Stall time so far, viewer-1");
    // What the first sentence speaks of comes first. Packets that waited come in bursts, and are no more than all.
    assert.deepEqual((await page.$$eval(".chart", (all) => all.map((one) => one.dataset.panel))).slice(0, 3), ["stall", "buffer", "timely"]);
    await page.getByRole("button", { name: "Tables" }).click();
    const shares = await page.$$eval(".chart[data-panel=timely] td", (cells) => cells.map((cell) => Number(cell.textContent)).filter((value) => !Number.isNaN(value)));
    assert.ok(shares.length > 10 && Math.max(...shares) <= 100, shares.join());
    assert.ok(Number(/means: .* ([\d.]+)\. Arrow/.exec(await said("stall"))[1]) < stalled);
  });
});

test("video is drawn over time: of a call and of a player", async () => {
  const mean = async (page, panel) => Number(/means: .* ([\d.]+)\. Arrow/.exec(await page.locator(`.chart[data-panel=${panel}] .canvas`).getAttribute("aria-label"))[1]);
  const sets = ["flows.0.transport=gcc", 'flows.0.traffic={ kind = "video-call", model = "rfc8867" }', "duration=20 s", "warmup=0 s"];
  await play(`#scenario=single-flow&seeds=1&${sets.map((one) => `set=${encodeURIComponent(one)}`).join("&")}`, {}, async (page) => {
    const { call } = JSON.parse(lasthop("run", "scenarios/single-flow.toml", "--seed", "1", "--json", "-", ...sets.flatMap((one) => ["--set", one]))).runs[0].flows[0];
    const shown = (call.frames - call.frames_lost) / 20;
    assert.ok(Math.abs((await mean(page, "frames")) / shown - 1) < 0.03, `${await mean(page, "frames")} frames/s drawn, ${shown} shown`);
    assert.equal(await page.locator(".chart[data-panel=frame-delay]").count(), 1);
    assert.equal(await page.locator(".chart[data-panel=video-rate]").count(), 1);
  });
  await play("#scenario=train-video&seeds=1", {}, async (page) => {
    assert.equal(await page.locator(".chart[data-panel=frames]").count(), 0);
    assert.ok((await mean(page, "buffer")) > 0 && (await mean(page, "video-rate")) > 0);
  });
});

test("datagrams have their delay and their losses over time", async () => {
  await play("#scenario=hidden-terminals&seeds=1&tables=1&set=warmup=0 s", {}, async (page) => {
    const [west] = JSON.parse(lasthop("run", "scenarios/hidden-terminals.toml", "--seed", "1", "--json", "-", "--set", "warmup=0 s")).runs[0].flows;
    const mean = async (panel) => Number(/means: .* ([\d.]+)\. Arrow/.exec(await page.locator(`.chart[data-panel=${panel}] .canvas`).getAttribute("aria-label"))[1]);
    assert.equal(await page.textContent(".chart[data-panel=delay] .title"), "One-way delay, west");
    const lost = Object.values(west.packets_lost).reduce((total, one) => total + one, 0);
    const share = (100 * lost) / west.packets_sent;
    assert.ok(Math.abs((await mean("loss")) / share - 1) < 0.1, `${await mean("loss")} % shown, ${share} % lost`);
    assert.ok(Math.abs((await mean("delay")) / (1000 * west.delay_mean_s) - 1) < 0.15, `${await mean("delay")} ms shown, ${west.delay_mean_s} s`);
  });
  // Losses on the way do nothing to a congestion window where there is none.
  const sets = ["flows.0.transport=udp", 'flows.0.traffic={ kind = "cbr", rate = "100 kbit/s", packet = "500 B" }', "channel.handoff.count=0", "duration=10 s"];
  await play(`#scenario=lossy-last-hop&senders=as written&seeds=1&${sets.map((one) => `set=${encodeURIComponent(one)}`).join("&")}`, {}, async (page) => {
    const look = await page.textContent(".look");
    assert.ok(/packets are lost/.test(look) && !/window/.test(look), look);
  });
});

/** Labels of an axis: where each stands, and the number that it says. They stand apart, each where its number belongs. */
function isAxis(labels, what) {
  assert.ok(labels.length >= 2, `${what}: ${labels.length} labels`);
  const numbers = labels.map(({ text, at }) => ({ at, value: Number(text.replace(/[, s]/g, "")) })).sort((a, b) => a.at - b.at);
  const [first, last] = [numbers[0], numbers.at(-1)];
  for (const { at, value } of numbers) {
    const due = first.at + ((value - first.value) / (last.value - first.value)) * (last.at - first.at);
    assert.ok(Math.abs(at - due) < 1.5, `${what}: ${value} stands at ${at} px where ${due} is due: ${labels.map(({ text }) => text)}`);
  }
}

test("labels of axes are what they mark, and stand apart, in the page and in the file", async () => {
  for (const [width, spans] of [[390, ["whole", "10.25-11"]], [1440, ["whole", "3-13", "8-16", "10-10.4", "9.5-9.512"]], [3840, ["whole", "8-16", "3.21-3.98"]]]) {
    for (const span of spans) await play(`#scenario=lossy-last-hop&senders=as written&seeds=1&span=${span}`, { viewport: { width, height: 900 } }, async (page) => {
      await page.waitForSelector(".events li");
      await page.evaluate(() => (globalThis.drawn = []));
      await page.getByRole("button", { name: /^(Dark|Light) colours$/ }).click();
      await page.waitForFunction(() => globalThis.drawn.some(({ text }) => / s$/.test(text)));
      const panel = await page.locator(".chart").last().getAttribute("data-panel");
      const labels = (await texts(page, panel)).filter(({ text }) => /^[\d.,]+ s$/.test(text)).sort((a, b) => a.left - b.left);
      const what = `${span} at ${width} px`;
      const [, from, to] = /from ([\d.]+) to ([\d.]+) s/.exec(await label(page)) ?? [];
      if (span !== "whole") assert.equal(`${from}-${to}`, span);
      labels.forEach(({ text, left }, place) => assert.ok(place === 0 || left > labels[place - 1].right + 2 || text === labels[place - 1].text, `${what}: ${labels[place - 1]?.text} runs into ${text}`));
      isAxis(labels.map(({ text, left, right }) => ({ text, at: (left + right) / 2 })), what);
    });
  }
  await play("#scenario=lossy-last-hop&senders=as written&seeds=1", {}, async (page) => {
    const folder = mkdtempSync(path.join(tmpdir(), "lasthop-"));
    const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
    rmSync(folder, { recursive: true });
    const all = [...svg.matchAll(/<text x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)/g)].map(([, x, y, rest, text]) => ({ x: Number(x), y: Number(y), rest, text }));
    const panels = [];
    for (const one of all) {
      if (one.x === 62 && one.rest.includes("font-weight") && !one.rest.includes("font-size")) panels.push({ title: one.text, labels: [] });
      else if (one.rest.includes('"end"')) panels.at(-1).labels.push({ text: one.text, at: one.y });
    }
    assert.equal(panels.length, await page.locator(".chart").count());
    for (const { title, labels } of panels) isAxis(labels, title);
    isAxis(all.filter(({ rest }) => rest.includes('"middle"')).map(({ x, text }) => ({ text, at: x })), "time");
  });
  // Flows that hardly differ.
  const sets = ["topology.bottleneck.rate=10 Mbit/s", "duration=30 s", "channel.error.packet_error_rate=0", "channel.handoff.count=0"];
  await play(`#scenario=lossy-last-hop&senders=as written&seeds=1&${sets.map((one) => `set=${encodeURIComponent(one)}`).join("&")}`, {}, async (page) => {
    const select = page.getByLabel("Measure");
    for (const value of await select.locator("option").evaluateAll((all) => all.map((one) => one.value))) {
      await select.selectOption(value);
      const labels = await page.$$eval(".flows .tick text", (all) => all.map((one) => ({ text: one.textContent, at: Number(one.getAttribute("x")) })));
      assert.equal(new Set(labels.map(({ text }) => text)).size, labels.length, `${value}: ${labels.map(({ text }) => text)}`);
    }
  });
});

test("names of lines stay within the figure, and differ", async () => {
  for (const [name, count] of [["hidden-terminals", 2], ["stadium", 6]]) await play(`#scenario=${name}&seeds=1`, {}, async (page) => {
    await page.evaluate(() => (globalThis.drawn = []));
    await page.getByRole("button", { name: "Look closer" }).click();
    const named = async () => (await texts(page, "airtime")).filter(({ text }) => text.includes("→"));
    for (let tries = 0; tries < 100 && (await named()).length < count; tries += 1) await page.waitForTimeout(100);
    const names = await named();
    assert.equal(new Set(names.map(({ text }) => text)).size, count, names.map(({ text }) => text).join());
    for (const { text, right, wide } of names) assert.ok(right <= wide, `${text} ends at ${right} of ${wide} px`);
    const folder = mkdtempSync(path.join(tmpdir(), "lasthop-"));
    const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
    rmSync(folder, { recursive: true });
    const out = await page.evaluate((text) => {
      const place = document.createElement("div");
      place.innerHTML = text;
      document.body.append(place);
      return [...place.querySelectorAll("text")].map((one) => [one.textContent, one.getBBox()]).filter(([, box]) => box.x + box.width > 960).map(([said]) => said);
    }, svg);
    assert.deepEqual(out, []);
  });
});

test("what each helper suppresses is told, and not as lost", async () => {
  const shown = (count) => count.toLocaleString("en-GB");
  for (const [name, device, says] of [
    ["snoop", "snoop", (count) => `; Snoop suppresses ${count} duplicate and late ACKs.`],
    ["fast-acks", "fastack", (count) => `; FastACK acknowledges in place of the stations and suppresses ${count} ACKs of theirs.`],
  ]) {
    const { totals, links } = JSON.parse(lasthop("run", `scenarios/${name}.toml`, "--seed", "1", "--json", "-")).runs[0];
    const { withheld: _, ...lost } = totals.packets_lost;
    const suppressed = links.reduce((total, link) => total + (link[device]?.withheld ?? 0), 0);
    assert.ok(suppressed > 100, name);
    await play(`#scenario=${name}&seeds=1`, {}, async (page) => {
      const look = await page.textContent(".look");
      assert.ok(look.startsWith(`${shown(Object.values(lost).reduce((total, one) => total + one, 0))} packets are lost: `), look);
      assert.ok(look.endsWith(`helpers in the network retransmit ${shown(totals.helper_retransmissions)} packets${says(shown(suppressed))}`), look);
      assert.equal(await page.locator(".chart").first().getAttribute("data-panel"), "repairs");
    });
  }
});

test("events stand under the curves, and lead from one to the next of their kind", async () => {
  await play("#scenario=lossy-last-hop&senders=as written&flow=-1&seeds=1", {}, async (page) => {
    await page.waitForSelector(".events li");
    const rows = await page.$$eval(".events .many", (all) => all.map((one) => one.textContent));
    const counts = Object.fromEntries(rows.map((text) => [text.replace(/ [\d,]+$/, ""), Number(/[\d,]+$/.exec(text)[0].replace(",", ""))]));
    assert.deepEqual(Object.keys(counts).slice(0, 4), ["air losses", "queue losses", "timeouts", "recoveries"]);
    // The command counts from the end of the warm-up on.
    const { totals } = JSON.parse(lasthop("run", "scenarios/lossy-last-hop.toml", "--seed", "1", "--json", "-", "--set", "warmup=0 s")).runs[0];
    const { "queue-overflow": queue, "channel-error": error, outage } = totals.packets_lost;
    assert.equal(counts.timeouts, totals.timeouts);
    assert.equal(counts["queue losses"], queue);
    assert.equal(counts["air losses"], error + outage);
    // All outages of a run come at their own times.
    assert.equal(counts.outages, 5);
    const at = () => page.$eval(".path .clock", (clock) => Number.parseFloat(clock.textContent));
    const moved = async (name, way) => {
      const before = await at();
      await page.getByRole("button", { name }).click();
      await page.waitForFunction(([old, sign]) => sign * (Number.parseFloat(document.querySelector(".path .clock").textContent) - old) > 0, [before, way]);
      return at();
    };
    await page.getByLabel("Time in the run").fill("0");
    const first = await moved("outage after", 1);
    assert.ok((await moved("outage after", 1)) > first);
    assert.equal(await moved("outage before", -1), first);
    await flawless(page, "events");
  });
  // Another flow has others; what did not happen has no row.
  await play("#scenario=single-flow&seeds=1", {}, async (page) => {
    await page.waitForSelector(".events li");
    const names = await page.$$eval(".events .many", (all) => all.map((one) => one.textContent));
    assert.ok(!names.some((name) => /air|collisions|outages|handoffs/.test(name)), names.join());
  });
});
