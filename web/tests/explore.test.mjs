// Explore in Chromium: studies and papers, figures, claims, and the way from a point to its run.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { ROOT, done, downloaded, flawless, host, lasthop, launch, open, sourceOf, view } from "./helpers.mjs";

let browser;
let folder;
let study;

before(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-explore-"));
  study = path.join(folder, "study");
  lasthop("study", "run", "studies/per-sweep.toml", "--seeds", "1-3", "--set", 'duration="6 s"', "--out", study);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The page of something to explore, without what must not happen. */
async function explore(what, run, options = {}) {
  const server = await view(what);
  const { page, wrong, close } = await open(browser, server.address, options);
  try {
    await page.waitForSelector(".explored .dot, .figurehead, .message", { timeout: 60_000 });
    await run(page, server);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    assert.equal(await server.end(), 0);
  }
}

test("a study shows the means and intervals of the command, and a point opens the run behind it", async () => {
  const native = JSON.parse(lasthop("study", "show", study, "--json"));
  await explore(study, async (page) => {
    assert.equal(await page.locator(".explored .point").count(), 18);
    const csv = readFileSync(await downloaded(page, folder, "Shown figures (CSV)"), "utf8").trim().split("\n").slice(1).map((line) => line.split(","));
    const rows = native.summary.filter((row) => row.metric === "goodput_bit_s");
    assert.equal(csv.length, rows.length);
    const label = { reno: "Reno", vegas: "Vegas", cubic: "CUBIC" };
    for (const row of rows) {
      const mine = csv.find(([x, line]) => Number(x) === row.per && line === label[row.sender]);
      for (const [place, key] of [[2, "mean"], [3, "low"], [4, "high"]]) {
        // The study shows Mbit/s; JSON has units of the SI.
        assert.ok(Math.abs(Number(mine[place]) * 1e6 - row[key]) <= 1e-9 * Math.abs(row[key]), `${key} at ${row.per} ${row.sender}: ${mine[place]} and ${row[key]}`);
      }
    }
    // Any point, by keyboard.
    const point = page.getByRole("button", { name: /^Vegas, packet error rate 0\.03/ });
    await point.focus();
    await page.keyboard.press("Enter");
    await flawless(page, "a point, dark");
    await page.locator(".onepoint select").selectOption("2");
    await page.getByRole("button", { name: "Open in Play" }).click();
    await done(page);
    assert.match(await page.textContent("main"), /1 of 1 fingerprints agree/);
    assert.match(await page.textContent("aside .about"), /Vegas, seed 2/);
    await page.click("nav >> text=Explore");
    await page.locator('.choices .field:has-text("Measure") select').selectOption("jain_index");
    await page.locator('.choices .field:has-text("Along") select').selectOption("sender");
    assert.equal(await page.locator('.choices .field:has-text("A line for each") select').inputValue(), "per");
    assert.equal(await page.locator(".explored .point").count(), 18);
    const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
    assert.ok(svg.includes("<svg") && !svg.includes("NaN"));
    const table = readFileSync(await downloaded(page, folder, "All runs (Parquet)"));
    assert.ok(table.equals(readFileSync(path.join(study, "results.parquet"))));
  }, { colorScheme: "dark" });
});

test("a paper shows its claims beside their figures, and the run behind a point has its value", async () => {
  const verdicts = readFileSync(path.join(ROOT, "docs/papers/000/verdicts.csv"), "utf8");
  await explore("docs/papers/000", async (page) => {
    const wanted = verdicts.split("\n").filter((line) => line.split(",")[2] === "reproduced").length;
    await page.click(`.tally >> text=${wanted} reproduced`);
    assert.equal(await page.locator(".claims li").count(), wanted);
    await page.locator(".claims button.link").first().click();
    await page.locator(".figurehead select").selectOption({ label: "Fig. 3a: Goodput, Reno" });
    assert.match(await page.textContent(".said"), /Snoop raises Reno's system goodput/);
    // Two lines of six points, as in the paper.
    assert.equal(await page.locator(".explored .point").count(), 12);
    await page.getByRole("button", { name: /^Reno, number of flows 5:/ }).press("Enter");
    const value = Number((await page.textContent(".onepoint option")).match(/^1: ([\d.,]+)/)[1]);
    await page.getByRole("button", { name: "Open in Play" }).click();
    await done(page);
    const shown = Number.parseFloat(await page.textContent('td[data-metric="goodput_bit_s"]'));
    assert.ok(Math.abs(shown / value - 1) < 0.01, `${shown} in Play, ${value} in the table`);
    await page.click("nav >> text=Explore");
    await flawless(page, "explore");
  });
});

test("figures have the curves of the paper, those of several series included", async () => {
  await explore("docs/papers/000", async (page) => {
    const names = () => page.$$eval(".figures thead th", (cells) => cells.slice(1).map((cell) => cell.textContent));
    await page.locator(".figurehead select").selectOption({ label: "Fig. 5a: Goodput" });
    assert.deepEqual(await names(), ["Reno with Snoop", "Vegas", "Westwood+", "TCP-Real"]);
    const lines = page.locator('.choices .field:has-text("A line for each") select');
    assert.equal(await lines.evaluate((element) => element.selectedOptions[0].textContent), "curve of the paper");
    // By its axes instead, and back.
    await lines.selectOption("proto");
    assert.notDeepEqual(await names(), ["Reno with Snoop", "Vegas", "Westwood+", "TCP-Real"]);
    await lines.selectOption({ label: "curve of the paper" });
    assert.deepEqual(await names(), ["Reno with Snoop", "Vegas", "Westwood+", "TCP-Real"]);
    // Two measures in one figure: who retransmits.
    await page.locator(".figurehead select").selectOption({ label: "Fig. 3f: Retransmissions of base station and sender, Reno with Snoop" });
    assert.deepEqual(await names(), ["base station", "sender"]);
    const [station, sender] = await page.$$eval(".figures tbody tr:last-child td", (cells) => cells.map((cell) => Number.parseFloat(cell.textContent.replaceAll(",", ""))));
    assert.ok(station !== sender && station > 0, `${station} and ${sender}`);
    await page.locator(".explored .point").last().press("Enter");
    assert.ok(await page.getByRole("button", { name: "Open in Play" }).isEnabled());
  });
});

for (const width of [390, 1440]) {
  test(`names are points with all their labels, in words and multiples of units, at ${width} px`, async () => {
    await explore("docs/papers/003", async (page) => {
      // The first measure that differs from run to run, not the three flows that every run has.
      const means = await page.$$eval(".figures tbody button.cell", (cells) => cells.map((cell) => cell.textContent));
      assert.ok(new Set(means).size > 1, means.join());
      assert.equal(await page.locator(".explored .line").count(), 0);
      const rows = await page.$$eval(".figures tbody th", (cells) => cells.map((cell) => cell.textContent));
      const labels = () => page.$$eval(".explored .ticktext", (texts) => texts.map((text) => ({ text: text.textContent, ...text.getBoundingClientRect().toJSON() })));
      const shown = await labels();
      // One that is too long gives way in its middle, so that names that differ at an end do so still.
      const isOf = (text, row) => {
        const [front, back = null] = text.split("…");
        return back === null ? text === row : row.startsWith(front) && row.endsWith(back);
      };
      const drawn = rows.map((row) => shown.filter(({ text }) => isOf(text, row)).map(({ text }) => text));
      assert.ok(drawn.every((texts) => texts.length === 1) && new Set(drawn.flat()).size === rows.length, `${rows} as ${drawn}`);
      const box = await page.locator(".explored").boundingBox();
      for (const one of shown) assert.ok(one.left >= box.x - 1 && one.right <= box.x + box.width + 1 && one.bottom <= box.y + box.height + 1, `${one.text}: ${one.left} to ${one.right} in ${box.x} to ${box.x + box.width}`);
      assert.ok(rows.includes("NewReno") && !rows.some((row) => /_/.test(row)), rows.join());
      // As `lasthop reproduce` draws it.
      const options = await page.$$eval(".figurehead option", (all) => all.map((one) => one.textContent));
      await page.locator(".figurehead select").selectOption({ index: options.findIndex((one) => /^Section 1\b/.test(one)) });
      await page.waitForSelector(".figures h2:has-text('kbit/s')");
      await flawless(page, "a paper of names");
    }, { viewport: { width, height: 900 } });
  });
}

for (const [width, height, size] of [[360, 800, 12], [1440, 900, 12], [3840, 2160, 17.6]]) {
  test(`a figure fits ${width} px, and its text the text around it`, async () => {
    await explore("docs/papers/000", async (page) => {
      const text = await page.$eval(".explored .tick text", (element) => Number.parseFloat(getComputedStyle(element).fontSize) * element.ownerSVGElement.getScreenCTM().a);
      assert.ok(Math.abs(text / size - 1) < 0.02, `${text} px`);
      const [box, figure] = [await page.locator(".picture").boundingBox(), await page.locator(".explored > svg").boundingBox()];
      assert.ok(figure.width <= box.width + 1 && figure.width > 0.97 * box.width, `${figure.width} of ${box.width} px`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0);
      // The mouse meets the point that it sees.
      const dot = await page.locator(".explored .dot").nth(3).boundingBox();
      await page.mouse.click(dot.x + dot.width / 2, dot.y + dot.height / 2);
      await page.waitForSelector(".onepoint");
    }, { viewport: { width, height } });
  });
}

test("every point of the papers' figures that was simulated leads to a scenario that the engine reads", async () => {
  for (const paper of ["000", "001", "002", "003"]) {
    await explore(`docs/papers/${paper}`, async (page) => {
      const figures = await page.locator(".figurehead option").count();
      const without = [];
      let [drawn, runs] = [0, 0];
      for (let place = 0; place < figures; place += 1) {
        await page.locator(".figurehead select").selectOption(String(place));
        const points = page.locator(".explored .point");
        if ((await points.count()) === 0) continue;
        drawn += 1;
        await points.last().press("Enter");
        if (await page.getByRole("button", { name: "Open in Play" }).isEnabled()) runs += 1;
        else without.push(`${await page.locator(".figurehead option").nth(place).textContent()} ${await page.textContent(".onepoint .foot")}`);
      }
      assert.ok(drawn > 0 && runs >= drawn * 0.8, `paper ${paper}: ${runs} of ${drawn} figures lead to a run; not: ${without.join("; ")}`);
    });
  }
});

test("damaged and hostile tables give messages, and no script runs", async () => {
  const server = await view();
  const { page, wrong, close } = await open(browser, server.address);
  await page.click("nav >> text=Explore");
  const good = readFileSync(path.join(study, "results.parquet"));
  const put = async (name, bytes) => {
    writeFileSync(path.join(folder, name), bytes);
    await page.setInputFiles(".explore input[type=file]", path.join(folder, name));
  };
  await put("good.parquet", good);
  await page.waitForSelector(".explored .point");
  // What its file says of its columns: the axis has the label of the study, not the name of its column.
  assert.equal(await page.locator('.choices label:has-text("Along") option:checked').textContent(), "packet error rate");
  assert.match(await page.locator(".explored svg").textContent(), /packet error rate/);
  assert.match(await page.locator('.choices label:has-text("Measure") option:checked').textContent(), /^goodput \([kM]?bit\/s\)$/);
  const damaged = {
    "cut.parquet": good.subarray(0, good.length >> 1),
    "text.parquet": Buffer.from("<script>alert(1)</script>"),
    "empty.parquet": Buffer.alloc(0),
    "noise.parquet": Buffer.from(good).fill(0xff, 8, good.length >> 1),
    "footer.parquet": Buffer.from(good).fill(0xff, good.length - 400, good.length - 8),
    "length.parquet": Buffer.concat([good.subarray(0, good.length - 8), Buffer.from([0xff, 0xff, 0xff, 0x7f]), Buffer.from("PAR1")]),
  };
  for (const [name, bytes] of Object.entries(damaged)) {
    await put(name, bytes);
    await page.waitForSelector(`.message.bad:has-text("${name} cannot be shown")`, { timeout: 60_000 });
  }
  await put("good.parquet", good);
  await page.waitForSelector(".explored .point");
  assert.equal(await page.locator(".message.bad").count(), 0);
  assert.deepEqual(wrong, []);
  await close();
  await server.end();
  // A study whose every name is a script.
  const evil = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>';
  const text = `name = "evil"\ntitle = ${JSON.stringify(evil)}\nscenario = "../lossy.toml"\nseeds = "1-2"\n[[axes]]\nname = "a"\nlabel = ${JSON.stringify(evil)}\nunit = ${JSON.stringify(evil)}\npoints = [ { name = ${JSON.stringify(evil)}, set = { "flows.0.transport" = "reno" } }, { name = "b", set = { "flows.0.transport" = "vegas" } } ]\n[[metrics]]\nname = "goodput_bit_s"\nlabel = ${JSON.stringify(evil)}\n`;
  writeFileSync(path.join(folder, "evil.toml"), text.replace("../lossy.toml", path.join(ROOT, "scenarios/lossy-last-hop.toml")));
  lasthop("study", "run", path.join(folder, "evil.toml"), "--set", 'duration="3 s"', "--set", "channel.handoff.count=0", "--out", path.join(folder, "evil"));
  await explore(path.join(folder, "evil"), async (shown) => {
    assert.equal(await shown.textContent("h2.name"), evil);
    assert.equal(await shown.locator(".explored .point").count(), 2);
    await shown.locator(".explored .point").first().press("Enter");
  });
});

test("what a table says of its columns is read in time that grows with its length", async () => {
  const { saidOf } = await sourceOf("engine/arrow.ts");
  /** A schema of columns that all have the same words, the same one each time. */
  const hostile = (count) => {
    const bytes = new DataView(new ArrayBuffer(200 + 8 * count));
    const u32 = (at, value) => bytes.setUint32(4 + at, value, true);
    const table = (at, fields) => {
      u32(at, at - (at + 8) >>> 0);
      bytes.setUint16(4 + at + 8, 4 + 2 * fields, true);
      bytes.setUint16(4 + at + 8 + 4 + 2 * (fields - 1), 4, true);
    };
    const vector = (at, to) => {
      u32(at, count);
      for (let one = 0; one < count; one += 1) u32(at + 4 + 4 * one, to - (at + 4 + 4 * one));
    };
    // Message, schema and field have their last field 4 bytes behind their beginning.
    const [message, schema, fields] = [4, 32, 60];
    const field = fields + 4 + 4 * count;
    const words = field + 32;
    const word = words + 4 + 4 * count;
    u32(0, message);
    table(message, 3);
    u32(message + 4, schema - (message + 4));
    table(schema, 2);
    u32(schema + 4, fields - (schema + 4));
    vector(fields, field);
    table(field, 7);
    u32(field + 4, words - (field + 4));
    vector(words, word);
    table(word, 1);
    bytes.setUint16(4 + word + 12, 0, true);
    return Buffer.from(bytes.buffer);
  };
  const read = DataView.prototype.getUint32;
  let reads = 0;
  DataView.prototype.getUint32 = function (...given) {
    reads += 1;
    return read.apply(this, given);
  };
  try {
    assert.deepEqual(saidOf(hostile(1).toString("base64")), { "": { "": "" } });
    reads = 0;
    const bytes = hostile(2000);
    saidOf(bytes.toString("base64"));
    assert.ok(reads < 4 * bytes.length, `${reads} reads of ${bytes.length} bytes`);
  } finally {
    DataView.prototype.getUint32 = read;
  }
});

test("one file holds a study, and needs no server", async () => {
  const file = path.join(folder, "study.html");
  lasthop("view", study, "--out", file);
  assert.ok(statSync(file).size < 10e6);
  const context = await browser.newContext({ viewport: { width: 360, height: 800 } });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  context.on("request", (request) => /^(file|data|blob):/.test(request.url()) || wrong.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector(".explored .point");
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0);
  await page.locator(".explored .point").first().press("Enter");
  await page.getByRole("button", { name: "Open in Play" }).click();
  await done(page);
  assert.match(await page.textContent("main"), /1 of 1 fingerprints agree/);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("a figure stands alone in a frame, with what was chosen", async () => {
  await explore(study, async (page) => {
    await page.getByLabel("Measure").selectOption("jain_index");
    await page.waitForSelector(".explored .point");
    await page.getByRole("button", { name: "Copy frame" }).click();
    await page.waitForFunction(() => document.querySelector(".taken pre")?.textContent.includes("jain_index"));
    const [, source] = /src="([^"]+)"/.exec(await page.textContent(".taken pre"));
    await page.goto(source.replaceAll("&#38;", "&"));
    await page.waitForSelector(".explored .point");
    assert.equal(await page.locator(".explored .point").count(), 18);
    assert.equal(await page.locator("nav, select, table").count(), 0);
    assert.match(await page.textContent(".look"), /Jain/);
    await flawless(page, "a figure alone");
  });
});

test("the figure of a table that stands beside the page is shown in a frame, and none from elsewhere", async () => {
  const table = readFileSync(path.join(study, "results.parquet"));
  const hosted = await host("/paper/", { "runs/results.parquet": table });
  // Opened from this computer, it is named in the frame alone, and there is said what else that needs.
  const { page, wrong, close } = await open(browser, `${hosted.address}#view=explore`);
  await page.setInputFiles(".explore input[type=file]", { name: "results.parquet", mimeType: "application/octet-stream", buffer: table });
  await page.waitForSelector(".explored .point");
  const points = await page.locator(".explored .point").count();
  const value = await page.locator(".figures td, .explore td").first().textContent();
  await page.getByRole("button", { name: "Copy frame" }).click();
  const source = async () => /src="([^"]+)"/.exec(await page.textContent(".taken pre"))[1].replaceAll("&#38;", "&");
  await page.waitForFunction(() => document.querySelector(".taken pre")?.textContent.includes("table=results.parquet"));
  assert.match(await page.textContent(".taken"), /put it beside the page/);
  assert.ok(!(await page.evaluate(() => location.hash)).includes("results.parquet"));
  await page.goto((await source()).replace("table=", "table=runs/"));
  await page.waitForSelector(".explored .point");
  assert.equal(await page.locator(".explored .point").count(), points);
  assert.equal(await page.locator("nav, select, table").count(), 0);
  // Its measures have the names and units that the engine has for columns of their names.
  assert.match(await page.textContent(".look"), /^goodput, [kM]bit\/s$/);
  await flawless(page, "the figure of a table");
  const [whole] = await Promise.all([page.context().waitForEvent("page"), page.getByText("Open in lasthop").click()]);
  await whole.waitForSelector(".explored .point");
  assert.equal(await whole.textContent("h2.name"), "runs/results.parquet");
  assert.equal(await whole.locator(".figures td, .explore td").first().textContent(), value);
  await whole.reload();
  await whole.waitForSelector(".explored .point");
  for (const elsewhere of ["../secret.parquet", "http://127.0.0.1:1/x.parquet", "runs/results.csv", "gone.parquet"]) {
    for (const panel of ["", "?panel=figure"]) {
      const asked = [];
      const context = await browser.newContext();
      const other = await context.newPage();
      other.on("request", (request) => asked.push(request.url()));
      await other.goto(`${hosted.address}${panel}#view=explore&table=${encodeURIComponent(elsewhere)}`);
      await other.getByText(elsewhere === "gone.parquet" ? "it is not beside the page" : "it may name one in the folder of the page").waitFor();
      assert.deepEqual(asked.filter((url) => /secret|x\.parquet|csv/.test(url)), []);
      await context.close();
    }
  }
  assert.deepEqual(wrong, []);
  await close();
  await hosted.end();
});

test("claims by their verdict, and figures on a phone, are free of findings of axe", async () => {
  for (const options of [{ colorScheme: "dark" }, { viewport: { width: 360, height: 800 } }]) {
    await explore("docs/papers/000", async (page) => {
      await flawless(page, "a figure of a paper");
      await page.locator(".explored .point").first().press("Enter");
      await flawless(page, "a point of a paper");
      await page.locator(".tally button").first().click();
      await page.waitForSelector("#listed-title");
      await flawless(page, "claims of a verdict");
    }, options);
  }
});

test("no axis goes beyond what is possible, and the address has what was chosen", async () => {
  await explore(study, async (page) => {
    await page.getByLabel("Measure").selectOption("jain_index");
    await page.waitForSelector(".explored .point");
    const ticks = await page.$$eval(".explored .tick text", (all) => all.map((one) => Number(one.textContent)));
    assert.ok(Math.max(...ticks) <= 1, ticks.join());
    const top = await page.$eval(".explored > svg", (svg) => Math.min(...[...svg.querySelectorAll(".interval, .dot")].map((one) => one.getBBox().y)));
    assert.ok(top >= 0, `an interval reaches up to ${top} px`);
    await page.waitForFunction(() => location.hash.includes("jain_index"));
    await page.reload();
    await page.waitForSelector(".explored .point");
    assert.equal(await page.getByLabel("Measure").inputValue(), "jain_index");
  });
});
