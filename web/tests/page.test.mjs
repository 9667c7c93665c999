// The page as people use it, in Chromium, from the server of `lasthop view`.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { ROOT, beginAndEnd, browser, done, downloaded, flawless, lasthop, open, prints, refusal, server, view, write } from "./helpers.mjs";

beginAndEnd();

let folder;

before(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-page-"));
});

after(() => {
  rmSync(folder, { recursive: true, force: true });
});

function ask(address, headers = {}, method = "GET") {
  return new Promise((resolve, reject) => {
    const request = http.request(address, { headers, method }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer));
    });
    request.on("error", reject);
    request.end();
  });
}

/** Equal but for what a clock says; figures that are computed may differ in their last digits. */
function alike(mine, theirs, place = "") {
  if (typeof mine === "number" && typeof theirs === "number") {
    assert.ok(Math.abs(mine - theirs) <= 1e-9 * Math.max(1, Math.abs(theirs)), `${place}: ${mine} and ${theirs}`);
    return;
  }
  if (mine === null || typeof mine !== "object") {
    assert.equal(mine, theirs, place);
    return;
  }
  assert.deepEqual(Object.keys(mine), Object.keys(theirs), place);
  for (const key of Object.keys(mine)) if (key !== "wall_s" && key !== "set_up_s") alike(mine[key], theirs[key], `${place}.${key}`);
}

test("the server answers only who knows the token and calls it by its name", async () => {
  const { address } = server;
  const url = new URL(address);
  assert.equal(url.hostname, "127.0.0.1");
  assert.equal((await ask(address)).statusCode, 200);
  assert.equal((await ask(`${url.origin}/`)).statusCode, 403);
  assert.equal((await ask(`${url.origin}/wrong/`)).statusCode, 403);
  assert.equal((await ask(address, { Host: "evil.example" })).statusCode, 403);
  assert.equal((await ask(address, { Host: `evil.example:${url.port}` })).statusCode, 403);
  assert.equal((await ask(`${address}../../etc/passwd`)).statusCode, 403);
  assert.equal((await ask(`${address}no-such-file`)).statusCode, 404);
  assert.equal((await ask(address, {}, "POST")).statusCode, 501);
  assert.match((await ask(address)).headers["content-security-policy"], /default-src 'none'/);
});

test("a comparison has the numbers, verdicts and file of the command", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const native = JSON.parse(lasthop("compare", "scenarios/lossy-last-hop.toml", "--transport", "reno,vegas,cubic", "--seeds", "1-5", "--json", "-"));
  const mine = JSON.parse(readFileSync(await downloaded(page, folder, "Results (JSON)"), "utf8"));
  alike(mine, native);
  const rows = readFileSync(await downloaded(page, folder, "Results (CSV)"), "utf8").trim().split("\n").map((line) => line.split(","));
  assert.equal(rows.length, 1 + 3 * 5);
  const goodputs = rows.slice(1).filter(([name]) => name === "cubic").map((row) => Number(row[rows[0].indexOf("goodput_bit_s")]));
  const meanOf = native.means.find((row) => row.metric === "goodput_bit_s" && row.transport === "cubic").mean;
  assert.ok(Math.abs(goodputs.reduce((total, one) => total + one, 0) / 5 / meanOf - 1) < 1e-9);
  const cell = await page.textContent('td[data-metric="goodput_bit_s"][data-sender="vegas"]');
  const mean = native.means.find((row) => row.metric === "goodput_bit_s" && row.transport === "vegas");
  assert.ok(cell.startsWith((mean.mean / 1e6).toFixed(2)), cell);
  const said = await page.$$eval(".verdicts li", (items) => items.map((item) => item.textContent.replace(/^(better|worse) /, "")));
  for (const row of native.differences) assert.ok(said.includes(row.verdict), row.verdict);
  const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
  assert.ok(svg.includes("<svg") && svg.includes("vegas") && !svg.includes("NaN"));
  const png = readFileSync(await downloaded(page, folder, "Figure (PNG)"));
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  assert.equal(readFileSync(await downloaded(page, folder, "Scenario"), "utf8"), readFileSync(path.join(ROOT, "scenarios/lossy-last-hop.toml"), "utf8"));
  assert.deepEqual(wrong, []);
  await close();
});

test("a flow that is alone has no index of fairness, here as in the command", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=single-flow&seeds=1-2&senders=reno,vegas`);
  await done(page);
  const native = JSON.parse(lasthop("compare", "scenarios/single-flow.toml", "--transport", "reno,vegas", "--seeds", "1-2", "--json", "-"));
  const shown = await page.$$eval("td[data-sender=reno]", (cells) => cells.map((cell) => cell.dataset.metric));
  const told = native.means.filter((row) => row.transport === "reno").map((row) => row.metric);
  assert.ok(!told.includes("jain_index") && !shown.includes("jain_index"), shown.join());
  assert.deepEqual(wrong, []);
  await close();
});

// engine.test.mjs runs every ready scenario; here are a wire, a cell of 802.11 and a file beside the scenario.
test("scenarios have the native fingerprint in the browser", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  await page.fill('label:has-text("Seeds") input', "1");
  for (const [name, print] of prints(["lossy-last-hop", "wlan", "train-ride"])) {
    await page.selectOption(".scenario select", name);
    await page.waitForFunction((wanted) => document.querySelector(".fingerprint code")?.textContent === wanted, print, { timeout: 240_000 }).catch(async () => {
      assert.fail(`${name}: ${await page.textContent(".fingerprint")} instead of ${print}`);
    });
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("a control changes the text and the command, and a link carries it all", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  await page.fill("#key-channel-error-packet_error_rate", "0");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".inputs > .of")?.textContent === "0 %");
  await page.click("text=Copy command");
  const command = await page.textContent(".taken pre");
  assert.equal(command, "lasthop compare scenarios/lossy-last-hop.toml --transport reno,vegas,cubic --seeds 1-5 --set channel.error.packet_error_rate=0");
  await page.click("text=Copy Python");
  assert.match(await page.textContent(".taken pre"), /"channel.error.packet_error_rate": 0/);
  await done(page);
  const print = await page.textContent(".fingerprint code");
  const native = JSON.parse(lasthop("run", "scenarios/lossy-last-hop.toml", "--seed", "1", "--set", "channel.error.packet_error_rate=0", "--json", "-"));
  assert.equal(print, native.runs[0].fingerprint);
  await page.click("text=Copy link");
  await page.waitForFunction(() => document.querySelector(".taken pre")?.textContent.includes("#scenario=lossy-last-hop&set=channel.error"));
  const link = await page.textContent(".taken pre");
  const other = await open(browser, link);
  await done(other.page);
  assert.equal(await other.page.textContent(".fingerprint code"), print);
  assert.deepEqual(await other.page.$$eval('section[aria-labelledby="senders-title"] .chip > span', (chips) => chips.map((chip) => chip.textContent)), ["reno", "vegas", "cubic"]);
  assert.deepEqual([...wrong, ...other.wrong], []);
  await other.close();
  await close();
  const damaged = await open(browser, `${server.address}#s=AAAA`);
  await damaged.page.waitForSelector("text=The link is damaged");
  await damaged.close();
});

test("a mistake is shown as the command shows it, at its place", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const text = readFileSync(path.join(ROOT, "scenarios/single-flow.toml"), "utf8").replace('"sack"', '"sakc"');
  await page.selectOption(".scenario select", "single-flow");
  await write(page, text);
  await page.waitForSelector(".editor mark");
  writeFileSync(path.join(folder, "single-flow.toml"), text);
  const native = refusal(folder, "run", "single-flow.toml");
  assert.equal(native.status, 2);
  assert.equal((await page.textContent(".editor .message pre")).trim(), native.text.trim());
  assert.equal(await page.textContent(".editor mark"), '"sakc"');
  await page.click("text=Go to line");
  const selected = await page.$eval("textarea", (area) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.equal(selected, '"sakc"');
  await write(page, text.replace("sakc", "sack"));
  await page.waitForSelector(".editor mark", { state: "detached" });
  assert.deepEqual(wrong, []);
  await close();
});

test("a long run can be cancelled, and the page goes on", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  await page.selectOption(".scenario select", "many-flows");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForSelector("text=Cancelled");
  await page.selectOption(".scenario select", "single-flow");
  const single = JSON.parse(lasthop("run", "scenarios/single-flow.toml", "--json", "-")).runs[0].fingerprint;
  await page.waitForFunction((wanted) => document.querySelector(".fingerprint code")?.textContent === wanted, single, { timeout: 60_000 });
  assert.deepEqual(wrong, []);
  await close();
});

test("hostile names and huge texts give messages, and no script runs", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const evil = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  const text = `name = ${JSON.stringify(evil)}\nduration = "2 s"\n[topology]\nkind = "dumbbell"\nbottleneck = { rate = "1 Mbit/s", delay = "5 ms" }\naccess = { rate = "10 Mbit/s", delay = "1 ms" }\n[[flows]]\nname = "\\"><svg onload=alert(3)>"\ntransport = "reno"\n`;
  await write(page, text);
  await page.waitForFunction((wanted) => document.querySelector("h2.name")?.textContent === wanted, evil);
  await page.click("text=Copy command");
  const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
  assert.ok(!svg.includes("<img") && !svg.includes("<script"));
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene");
  await page.click("nav >> text=Play");
  await write(page, `x = "${"a".repeat(10 << 20)}"`);
  await page.waitForSelector("text=the file is too large", { timeout: 60_000 });
  assert.deepEqual(wrong, []);
  await close();
  // A scenario given to `lasthop view` goes through HTML as well.
  writeFileSync(path.join(folder, "evil.toml"), `${text}# </script><script>alert(4)</script>\n`);
  const own = await view(path.join(folder, "evil.toml"));
  const shown = await open(browser, own.address);
  await done(shown.page);
  assert.equal(await shown.page.textContent("h2.name"), evil);
  assert.deepEqual(shown.wrong, []);
  await shown.close();
  assert.equal(await own.end(), 0);
});

test("what is dropped opens where it belongs, and what belongs nowhere is told", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=single-flow&seeds=1`);
  await done(page);
  const drop = async (name, bytes) => {
    const data = await page.evaluateHandle(([called, letters]) => {
      const made = new DataTransfer();
      made.items.add(new File([Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0))], called));
      return made;
    }, [name, Buffer.from(bytes).toString("base64")]);
    await page.dispatchEvent("body", "drop", { dataTransfer: data });
  };
  await drop("photo.png", [0x89, 0x50, 0x4e, 0x47]);
  await page.waitForFunction(() => /^photo.png: the scenario does not name it. Opened are scenarios/.test(document.querySelector(".message.note")?.textContent ?? ""));
  await drop("series.parquet", readFileSync(path.join(ROOT, "docs/papers/000/series.parquet")));
  await page.waitForSelector(".explored svg");
  assert.equal(await page.textContent("h2.name"), "series.parquet");
  // The file of a paper says what its axes, their values and its series are called.
  await drop("series.parquet", readFileSync(path.join(ROOT, "docs/papers/003/series.parquet")));
  await page.waitForSelector("text=Paper 003: Efficient TCP enhancements for Hybrid Networks");
  await page.waitForSelector(".explored svg");
  const chosen = await page.$$eval(".choices select", (all) => all.map((one) => [one.closest("label").querySelector("span").textContent, ...[...one.options].map((option) => option.text)]));
  for (const name of ["mean delay (s)", "sender", "links", "load", "long transfers"]) assert.ok(chosen.some((one) => one.includes(name)), name);
  // Keys of claims.toml and of its studies.
  assert.deepEqual(chosen.flat().filter((name) => /_|^(impl|link|mech|seq)$/.test(name)), []);
  const ticks = await page.$$eval(".explored svg text", (all) => all.map((one) => one.textContent));
  assert.equal(new Set(ticks).size, ticks.length, ticks.join(", "));
  await drop("broken.parquet", Buffer.from("PAR1xxxxPAR1"));
  await page.waitForFunction(() => /broken.parquet cannot be shown/.test(document.querySelector(".message.bad")?.textContent ?? ""));
  // A recording that the scenario names belongs to it.
  await page.goto(`${server.address}#scenario=train-ride&seeds=1`);
  await done(page);
  await drop("train.down", readFileSync(path.join(ROOT, "scenarios/train.down")));
  await done(page);
  assert.equal(await page.locator(".message.note").count(), 0);
  assert.deepEqual(wrong, []);
  await close();
});

test("results that the command wrote open as `lasthop view` opens them", async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-"));
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=single-flow&seeds=1`);
  await done(page);
  const written = [
    ["run", ["run", "scenarios/walking-host.toml", "--seeds", "2-3"], ["seed 2", 2]],
    ["compared", ["compare", "scenarios/single-flow.toml", "--transport", "reno,cubic", "--seeds", "1-2"], ["cubic", 4]],
    ["helped", ["compare", "scenarios/snoop.toml", "--helpers", "none,snoop", "--seeds", "1-2"], ["reno+snoop", 4]],
    ["both", ["compare", "scenarios/snoop.toml", "--transport", "reno,cubic", "--helpers", "none,snoop", "--seeds", "1"], ["cubic+snoop", 4]],
    ["recorded", ["run", "scenarios/train-ride.toml", "--seeds", "1"], ["seed 1", 1]],
  ];
  for (const [name, words, [named, runs]] of written) {
    const file = path.join(folder, `${name}.json`);
    lasthop(...words, "--json", file);
    await page.setInputFiles(".scenario input[type=file]", file);
    await page.waitForFunction((title) => document.querySelector(".scenario .about")?.textContent.endsWith(title), `saved in ${name}.json`);
    await done(page);
    assert.equal(await page.locator(".took", { hasText: "The same runs as saved" }).textContent(), `The same runs as saved: ${runs} of ${runs} fingerprints agree.`, name);
    assert.match(await page.textContent(".results"), new RegExp(named.replace("+", "\\+")), name);
  }
  // What is no results is a scenario with a mistake, and told.
  const odd = path.join(folder, "odd.json");
  writeFileSync(odd, JSON.stringify({ scenario: {}, runs: [] }));
  await page.setInputFiles(".scenario input[type=file]", odd);
  await page.waitForFunction(() => /scenario error/.test(document.querySelector(".message.bad")?.textContent ?? ""));
  rmSync(folder, { recursive: true });
  assert.deepEqual(wrong, []);
  await close();
});

test("results that are damaged, hostile or huge are told, and no other JSON is read beyond a scenario's limit", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=single-flow&seeds=1`);
  await done(page);
  // Parts that are repeated are repeated in the page, which is faster than to send them.
  const drop = async (name, ...parts) => {
    const data = await page.evaluateHandle(([called, all]) => {
      const made = new DataTransfer();
      made.items.add(new File(all.map(([text, count]) => Array.from({ length: count }, (_, place) => text.replaceAll("PLACE", place)).join("")), called));
      return made;
    }, [name, parts.map((one) => [one, 1].flat().slice(0, 2))]);
    await page.dispatchEvent("body", "drop", { dataTransfer: data });
  };
  const told = (words) => page.waitForFunction((wanted) => document.querySelector(".message.note")?.textContent === wanted, words).catch(async () => assert.fail(`${words}, but: ${await page.locator(".message.note").allTextContents()}`));
  const scenario = JSON.stringify(JSON.parse(lasthop("run", "scenarios/single-flow.toml", "--json", "-")).scenario);
  const least = Number.MAX_SAFE_INTEGER;
  for (const seed of ["0.5", "-1", "1e+300", "9007199254740992"]) {
    await drop("odd.json", `{ "scenario": ${scenario}, "runs": [{ "seed": 1, "fingerprint": "a" }, { "seed": ${seed}, "fingerprint": "a" }] }`);
    await told(`odd.json cannot be opened: it has a run of seed ${seed}, and seeds are whole numbers from 0 to ${least}.`);
  }
  await drop("none.json", `{ "scenario": ${scenario}, "transports": [], "runs": [{ "seed": 1, "transport": "reno", "fingerprint": "a" }] }`);
  await told("none.json cannot be opened: it compares no senders.");
  await drop("deep.json", '{ "runs": [{ "seed": 1, "fingerprint": "a" }], "scenario": { "a": ', ["[", 200_000], ["]", 200_000], "} }");
  await told("deep.json cannot be opened: a value of its scenario is nested more than 64 deep.");
  // Of what cannot be opened nothing stays.
  assert.equal(await page.textContent("h2.name"), "single flow");
  await drop("many.json", `{ "scenario": ${scenario}, "runs": [`, ['{ "seed": PLACE, "fingerprint": "a" },', 150_000], '{ "seed": 1, "fingerprint": "a" }] }');
  await page.waitForFunction(() => document.querySelector(".scenario .about")?.textContent.endsWith("Run saved in many.json"), null, { timeout: 60_000 });
  assert.equal(await page.inputValue('label:has-text("Seeds") input'), "50");
  await drop("huge.json", '{ "a": "', ["a", 20 << 20], '" }');
  await page.waitForSelector(`text=the file is too large: ${16 << 20} bytes`, { timeout: 60_000 });
  assert.deepEqual(wrong, []);
  await close();
});

test("a control that is moved while a run goes on starts one run more, not two", async () => {
  // Runs are kept back until they are let go, and so is what waits for a control to rest.
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=lossy-last-hop&senders=reno&seeds=1`, {}, () => {
    Object.assign(globalThis, { isHeld: false, held: [], runs: 0, resting: new Map() });
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (message, ...rest) {
      if (message.job?.op === "run") globalThis.runs += 1;
      if (message.job?.op === "run" && globalThis.isHeld) globalThis.held.push(() => post.call(this, message, ...rest));
      else post.call(this, message, ...rest);
    };
    const [start, forget] = [globalThis.setTimeout, globalThis.clearTimeout];
    globalThis.setTimeout = (then, time, ...rest) => {
      if (time !== 120) return start(then, time, ...rest);
      const id = -1 - globalThis.resting.size;
      globalThis.resting.set(id, then);
      return id;
    };
    globalThis.clearTimeout = (id) => {
      globalThis.resting.delete(id);
      forget(id);
    };
  });
  await done(page);
  const move = async (value) => {
    await page.fill("#key-channel-error-packet_error_rate", value);
    await page.keyboard.press("Enter");
  };
  await page.evaluate(() => Object.assign(globalThis, { isHeld: true, runs: 0 }));
  await move("0.02");
  await page.waitForFunction(() => globalThis.held.length === 1);
  await move("0.03");
  await page.waitForFunction(() => globalThis.resting.size === 1);
  await page.evaluate(() => {
    globalThis.isHeld = false;
    for (const one of globalThis.held) one();
  });
  await done(page);
  await move("0.04");
  await page.waitForFunction(() => globalThis.runs === 2);
  await done(page);
  assert.equal(await page.evaluate(async () => {
    for (const one of globalThis.resting.values()) one();
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    return globalThis.runs;
  }), 2);
  assert.deepEqual(wrong, []);
  await close();
});

test("replay shows packets, jumps and steps", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
  const clock = async () => Number.parseFloat(await page.textContent(".clock"));
  const start = await clock();
  await page.click("text=Next timeout");
  const there = await clock();
  assert.ok(there > start);
  const packets = () => page.$eval("canvas.scene", (canvas) => Number(canvas.dataset.packets));
  await page.getByRole("button", { name: "Pause" }).count();
  await page.getByRole("button", { name: "Play", exact: true }).last().click();
  await page.waitForTimeout(500);
  assert.ok((await packets()) > 20, `${await packets()} packets`);
  await page.getByRole("button", { name: "Pause" }).click();
  const paused = await clock();
  assert.ok(paused > there);
  await page.getByRole("button", { name: "One event on" }).click();
  assert.ok((await clock()) >= paused);
  await page.getByLabel("Time in the run").fill("50");
  await page.waitForSelector(".clock:has-text('50.0')");
  await page.waitForFunction(() => document.querySelectorAll("table.plain tbody tr").length > 3);
  const said = await page.textContent("table.plain");
  assert.match(said, /lost in the air|lost in a queue/);
  assert.deepEqual(wrong, []);
  await close();
});

test("replay knows what the network sent again, and finds handoffs", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const short = (name) => readFileSync(path.join(ROOT, `scenarios/${name}.toml`), "utf8");
  // As many local repairs as Snoop counts, in a run that fits into one window.
  const snoop = short("snoop").replace(/^duration\s*=.*$/m, 'duration = "8 s"').replace(/^warmup\s*=.*$/m, 'warmup = "0 s"');
  await write(page, snoop);
  await page.waitForFunction(() => document.querySelector(".chart .canvas")?.getAttribute("aria-label")?.includes("over 8 s"), null, { timeout: 60_000 });
  writeFileSync(path.join(folder, "short.toml"), snoop);
  const { links } = JSON.parse(lasthop("run", path.join(folder, "short.toml"), "--seed", "1", "--json", "-")).runs[0];
  const repeats = links.reduce((total, { snoop }) => total + (snoop ? snoop.repeats_by_duplicate + snoop.repeats_by_hole + snoop.repeats_by_timer : 0), 0);
  await page.click("nav >> text=Replay");
  await page.waitForSelector("[data-copies=repairs]", { timeout: 60_000 });
  // What it repeats in vain, because nothing was lost there, counts as a duplicate.
  const count = async (kind) => Number((await page.textContent(`[data-copies=${kind}]`)).replaceAll(",", ""));
  const [repairs, duplicates] = [await count("repairs"), await count("duplicates")];
  assert.ok(repairs > 0.7 * repeats && repairs + duplicates === repeats, `${repairs} and ${duplicates} shown, ${repeats} counted`);
  await page.click("nav >> text=Play");
  await page.selectOption(".scenario select", "walking-host");
  await done(page);
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
  const clock = async () => Number.parseFloat(await page.textContent(".clock"));
  await page.getByLabel("Time in the run").fill("0");
  await page.getByRole("button", { name: "Next handoff" }).click();
  const first = await clock();
  assert.ok(first > 5 && first < 70, `it leaves the first access point at ${first} s`);
  await page.getByRole("button", { name: "Next handoff" }).click();
  assert.ok((await clock()) > first);
  assert.deepEqual(wrong, []);
  await close();
});

test("the keyboard reaches the curves", async () => {
  const { page, wrong, close } = await open(browser, server.address, { reducedMotion: "reduce" });
  await done(page);
  await page.focus(".chart .canvas");
  for (let press = 0; press < 5; press += 1) await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".readout .when");
  assert.deepEqual(wrong, []);
  await close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`nothing stands in the way of anybody (${colorScheme})`, async () => {
    const { page, close } = await open(browser, server.address, { colorScheme });
    await done(page);
    await flawless(page, "play");
    await page.click("#tab-text");
    await page.fill("textarea", "duration = 1");
    await page.waitForSelector(".editor .message");
    await flawless(page, "text with a mistake");
    await page.selectOption(".scenario select", "single-flow");
    await page.click("nav >> text=Replay");
    await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
    await flawless(page, "replay");
    await close();
  });
}

for (const width of [360, 768, 3840]) {
  test(`nothing sticks out at ${width} px`, async () => {
    const { page, close } = await open(browser, server.address, { viewport: { width, height: 900 } });
    await done(page);
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok((await overflow()) <= 0, `play: ${await overflow()} px`);
    await page.click("nav >> text=Replay");
    await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
    assert.ok((await overflow()) <= 0, `replay: ${await overflow()} px`);
    await close();
  });
}

test("on a large screen everything is larger, and curves and findings stand side by side", async () => {
  const larger = 22 / 15;
  const { page, wrong, close } = await open(browser, `${server.address}#seeds=1`, { viewport: { width: 3840, height: 2160 } });
  // One seed: with more of them a busy machine says above the curves that a run takes long.
  await done(page);
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).fontSize), "22px");
  const [charts, findings] = [await page.locator(".charts").boundingBox(), await page.locator(".findings").boundingBox()];
  assert.ok(findings.x > charts.x + charts.width && findings.y < charts.y + 100 && findings.x + findings.width > 3700, JSON.stringify([charts, findings]));
  // The curves need no scrolling; the marks of events below them come when the packets have been read.
  const last = await page.locator(".charts figure").last().boundingBox();
  assert.ok(last.y + last.height <= 2160, `the curves end at ${last.y + last.height} px`);
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
  for (const canvas of ["scene", "diagram"]) {
    const drawn = await page.$eval(`canvas.${canvas}`, (element) => element.getContext("2d").getTransform().a / devicePixelRatio);
    assert.ok(Math.abs(drawn / larger - 1) < 0.01, `${canvas}: ${drawn}`);
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("one file shows a saved run without any server", async () => {
  const run = path.join(folder, "run");
  lasthop("run", "scenarios/lossy-last-hop.toml", "--seeds", "1-2", "--set", "flows.0.transport=veno", "--out", run);
  const file = path.join(folder, "page.html");
  lasthop("view", run, "--out", file);
  assert.ok(statSync(file).size < 10e6, `${statSync(file).size} B`);
  const context = await browser.newContext();
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  context.on("request", (request) => /^(file|data|blob):/.test(request.url()) || wrong.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  await done(page);
  assert.match(await page.textContent("main"), /2 of 2 fingerprints agree/);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("senders and helpers side by side have the numbers of the command", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  await page.selectOption(".scenario select", "snoop");
  await done(page);
  await page.fill('label:has-text("Seeds") input', "2");
  const written = await page.textContent('section[aria-labelledby="helpers-title"] .chip span');
  const other = written === "none" ? "snoop" : "none";
  await page.getByLabel("Add a helper").selectOption(other);
  await page.getByLabel("Add a sender").selectOption("vegas");
  await page.waitForFunction(() => document.querySelectorAll(".fingerprint").length === 4);
  await done(page);
  await page.click("text=Copy command");
  const command = await page.textContent(".taken pre");
  assert.match(command, new RegExp(`^lasthop compare scenarios/snoop.toml --transport \\S+,vegas --helpers ${written},${other} --seeds 1-2$`));
  const native = JSON.parse(lasthop(...command.split(" ").slice(1), "--json", "-"));
  alike(JSON.parse(readFileSync(await downloaded(page, folder, "Results (JSON)"), "utf8")), native);
  await page.click("nav >> text=Replay");
  await page.waitForSelector(".replay canvas.scene", { timeout: 60_000 });
  assert.equal(await page.locator(".replay .head select").first().locator("option").count(), 4);
  // What was saved by the command opens with the same runs.
  const saved = path.join(folder, "helped");
  lasthop(...command.split(" ").slice(1), "--out", saved);
  const own = await view(saved);
  const shown = await open(browser, own.address);
  await done(shown.page);
  assert.match(await shown.page.textContent("main"), /8 of 8 fingerprints agree/);
  assert.deepEqual([...wrong, ...shown.wrong], []);
  await shown.close();
  await close();
  assert.equal(await own.end(), 0);
});

test("curves grow while a run goes on", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const long = readFileSync(path.join(ROOT, "scenarios/single-flow.toml"), "utf8").replace(/duration\s*=\s*"[^"]*"/, 'duration = "5000 s"');
  await write(page, long);
  // Curves of the beginning of the run, before there is any result of the whole.
  await page.waitForFunction(() => document.querySelector(".results")?.getAttribute("aria-busy") === "true" && /5,?000 s/.test(document.querySelector(".chart .canvas")?.getAttribute("aria-label") ?? ""), null, { timeout: 60_000 });
  assert.equal(await page.locator(".fingerprint").count(), 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForSelector("text=Cancelled");
  assert.deepEqual(wrong, []);
  await close();
});

test("a panel is there for what was measured: datagrams have no window and no RTT", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await done(page);
  const titles = () => page.$$eval(".chart .title", (all) => all.map((one) => one.textContent.split(/,| at /)[0]));
  const shown = (count) => page.waitForFunction((most) => document.querySelectorAll(".chart").length === most, count);
  await page.selectOption(".scenario select", "hidden-terminals");
  await page.waitForFunction(() => document.querySelector(".results .name")?.textContent === "hidden terminals");
  // What the first sentence speaks of comes first.
  const first = ["Collisions on radio links", "Share of retransmissions on radio links", "Airtime of radio links"];
  const rest = ["Throughput", "One-way delay", "Packets lost in the network", "Queue", "Throughput", "Rate of radio links while they send", "Retransmissions by radio links", "Queues of radio links"];
  await shown(11);
  assert.deepEqual(await titles(), [...first, ...rest]);
  assert.equal(await page.getByLabel("Window and RTT of").count(), 0);
  // No sender sends again, and no timer expires: there is no such figure, where "0 ± 0 %" would be.
  await done(page);
  const measures = await page.$$eval(".figures th[scope=row]", (heads) => heads.map((head) => head.textContent));
  assert.ok(measures.length > 3 && !measures.some((name) => /retransmissions per packet|timeouts|RTT/.test(name) && !/by links/.test(name)), measures.join());
  // Each flow of datagrams can be looked at.
  const own = () => page.textContent(".chart[data-panel=flow-rate] .title");
  const before = await own();
  const flows = page.locator(".toolbar label", { hasText: "Flow" }).locator("select");
  await flows.selectOption({ index: 1 });
  await page.waitForFunction((title) => document.querySelector(".chart[data-panel=flow-rate] .title")?.textContent !== title, before);
  assert.match(await own(), /^Throughput, /);
  // The first flow has no window: the panels are of the one that has.
  const calls = readFileSync(path.join(ROOT, "scenarios/hidden-terminals.toml"), "utf8");
  await write(page, calls.replace(/(name {6}= "east"[^]*?transport = )"udp"\ntraffic.*/, '$1"reno"'));
  await shown(10);
  assert.deepEqual((await titles()).slice(3, 7), ["Congestion window", "Round-trip time", "Queue", "Throughput"]);
  assert.equal(await page.textContent(".chart[data-panel=cwnd] .title"), "Congestion window, east");
  assert.deepEqual(wrong, []);
  await close();
});
