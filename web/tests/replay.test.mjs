// Replay over every ready scenario: what is first seen, what fits into the window, and where one can jump to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { beginAndEnd, browser, flawless, noteTexts, open, ready, server, sourceOf, texts, view } from "./helpers.mjs";

/** Takes minutes, because it has many flows. */
const LONG = ["many-flows"];
const READY = ready().filter((name) => !LONG.includes(name));

beginAndEnd();

/** Opens Replay of a scenario in a page that notes every text drawn on a canvas. */
async function replay(name, options, run) {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=${name}&senders=as written&seeds=1&view=replay`, options, noteTexts);
  try {
    await page.waitForSelector(".replay canvas.scene", { timeout: 120_000 });
    await page.waitForTimeout(100);
    await run(page);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
  }
}

const clock = async (page) => Number.parseFloat(await page.textContent(".clock"));

for (const name of READY) {
  test(`${name}: the first view has something in it, and nothing sticks out`, async () => {
    await replay(name, { viewport: { width: 1440, height: 900 } }, async (page) => {
      const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      // Packets are drawn in the diagram: more than its two lines of time.
      const coloured = () => page.$eval("canvas.diagram", (canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 31, canvas.width, canvas.height - 31);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 20 && Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 60) count += 1;
        return count;
      });
      for (let tries = 0; tries < 20 && (await coloured()) <= 100; tries += 1) await page.waitForTimeout(100);
      assert.ok((await coloured()) > 100, `${await coloured()} pixels of packets`);
      const [scene, diagram] = [await page.locator("canvas.scene").boundingBox(), await page.locator("canvas.diagram").boundingBox()];
      assert.ok(scene.y >= 0 && diagram.y + diagram.height <= 900, `the diagram ends at ${diagram.y + diagram.height} px`);
      for (const end of ["0", "1e9"]) {
        await page.getByLabel("Time in the run").evaluate((input, value) => { input.value = value; input.dispatchEvent(new Event("input", { bubbles: true })); }, end);
        for (const [width, height] of [[390, 844], [1440, 900]]) {
          await page.setViewportSize({ width, height });
          // A page that is busy lays itself out a moment later.
          const fits = await page.waitForFunction((wide) => innerWidth === wide && document.documentElement.scrollWidth <= document.documentElement.clientWidth, width, { timeout: 5_000 }).catch(() => null);
          assert.ok(fits, `${await overflow()} px beyond ${width} at ${end} s`);
        }
      }
      for (const { text, y, clientHeight } of await texts(page, "scene")) if (/^\d+( of \d+)?$/.test(text)) assert.ok(y > 10 && y < clientHeight, `“${text}” at ${y} of ${clientHeight} px`);
    });
  });
}

test("a time beyond the run is its end", async () => {
  await replay("single-flow&at=1e12", {}, async (page) => {
    await page.waitForFunction(() => document.querySelector(".clock")?.textContent === "30.0000 s");
    assert.match(await page.getByLabel("Time in the run").getAttribute("aria-valuetext"), /^30\.000 /);
  });
});

test("nothing is drawn on a canvas without a size", async () => {
  await replay("single-flow", {}, async (page) => {
    await page.evaluate(() => {
      for (const canvas of document.querySelectorAll("canvas")) canvas.style.display = "none";
      window.dispatchEvent(new Event("resize"));
    });
    await page.getByRole("button", { name: "Next loss" }).click();
    await page.waitForTimeout(100);
    for (const canvas of ["scene", "diagram"]) assert.ok(await page.$eval(`canvas.${canvas}`, (one) => one.width > 0));
  });
});

for (const [name, at] of [["two-base-stations", [20, 40]], ["walking-split", [15, 35]]]) {
  test(`${name}: a change of the path can be jumped to, forward and back`, async () => {
    await replay(name, {}, async (page) => {
      await page.getByLabel("Time in the run").fill("0");
      for (const time of at) {
        await page.getByRole("button", { name: "Next handoff" }).click();
        assert.equal(await clock(page), time);
      }
      await page.getByRole("button", { name: "Previous handoff" }).click();
      assert.equal(await clock(page), at[0]);
    });
  });
}

test("the beginning of a long run is there before the run is over, and stays when it is", async () => {
  const { page, wrong, close } = await open(browser, `${server.address}#scenario=many-flows&set=duration=15 s&view=replay`);
  // Read at once: the run may be over a moment later.
  const read = (isOver) => {
    const isThere = Number(document.querySelector("canvas.scene")?.dataset.packets) > 0 && document.body.textContent.includes("The run continues") !== isOver;
    return isThere && [document.querySelector(".clock").textContent, document.querySelector("#truth-title").textContent, document.querySelectorAll(".replay .head select")[1].value];
  };
  const when = async (isOver) => (await page.waitForFunction(read, isOver, { timeout: 120_000 })).jsonValue();
  const [clock, title, flow] = await when(false);
  assert.match(title, /so far/);
  const [later, last, same] = await when(true);
  assert.deepEqual([later, same], [clock, flow]);
  assert.match(last, /the whole run/);
  assert.deepEqual(wrong, []);
  await close();
});

test("losses and timeouts are those of the chosen flow", async () => {
  await replay("lossy-last-hop", {}, async (page) => {
    await page.getByRole("combobox", { name: "Flow" }).selectOption("3");
    await page.getByLabel("Time in the run").fill("0");
    await page.getByRole("button", { name: "Next timeout" }).click();
    // The table is of the chosen flow: its newest row is the moment itself.
    const row = await page.locator("table.plain tbody tr").first().textContent();
    assert.match(row, /timeout/);
    assert.ok(Math.abs(Number.parseFloat(row) - (await clock(page))) < 1e-3, `${row} at ${await clock(page)}`);
  });
});

test("datagrams have no window, and the ends of a flow have their names", async () => {
  await replay("hidden-terminals", {}, async (page) => {
    assert.ok(!(await texts(page, "diagram")).some(({ text }) => /cwnd/.test(text)));
    assert.equal(await page.locator("table.plain").count(), 0);
    await flawless(page, "replay of datagrams");
  });
  await replay("satellite-split", {}, async (page) => {
    const names = (await texts(page, "diagram")).map(({ text }) => text);
    assert.ok(names.includes("ground-station") && !names.includes("receiver"), names.slice(0, 5).join());
    await flawless(page, "replay of a split");
  });
});

test("collisions of frames are drawn, and can be jumped to", async () => {
  await replay("hidden-terminals", {}, async (page) => {
    await page.getByLabel("Time in the run").fill("0");
    await page.getByRole("button", { name: "Next collision" }).click();
    const first = await clock(page);
    assert.ok(first > 0);
    const red = () => page.$eval("canvas.scene", (canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 100 && data[at] > 140 && data[at + 1] < 110 && data[at + 2] < 60) count += 1;
      return count;
    });
    const met = await red();
    await page.getByLabel("Time in the run").fill("0");
    await page.waitForTimeout(100);
    assert.ok(met > (await red()) + 10, `${met} red points at a collision, ${await red()} at the start`);
    await page.getByRole("button", { name: "Next collision" }).click();
    await page.getByRole("button", { name: "Next collision" }).click();
    assert.ok((await clock(page)) >= first);
    await flawless(page, "replay with collisions");
  });
  // Where there is no radio there is nothing to jump to.
  await replay("single-flow", {}, async (page) => assert.equal(await page.getByRole("button", { name: "Next collision" }).count(), 0));
});

test("curves stand under the packets, and a click into one of them moves the clock of both", async () => {
  await replay("single-flow", {}, async (page) => {
    const canvas = page.locator(".chart[data-panel=cwnd] .canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    const before = await clock(page);
    await page.mouse.move(box.x + box.width / 2 + 10, box.y + 40);
    assert.equal(await clock(page), before, "to point at a curve moves nothing");
    await page.mouse.click(box.x + box.width / 2, box.y + 40);
    await page.waitForFunction((old) => Math.abs(Number.parseFloat(document.querySelector(".replay .clock").textContent) - old) > 1, before);
    const at = await clock(page);
    const when = Number.parseFloat(await page.textContent(".chart[data-panel=queue] .readout .when"));
    assert.ok(Math.abs(when - at) < 0.6, `${when} s in the curve, ${at} s among the packets`);
  });
});

test("bytes over time: what was sent, lost, acknowledged and reported by SACK; a drag looks closer", async () => {
  await replay("single-flow", {}, async (page) => {
    await page.evaluate(() => { location.hash = "scenario=lossy-last-hop&senders=sack&view=replay&diagram=bytes"; });
    await page.reload();
    await page.waitForSelector(".replay canvas.scene", { timeout: 120_000 });
    await page.getByRole("button", { name: "Next loss" }).click();
    const label = () => page.locator("canvas.diagram").getAttribute("aria-label");
    await page.waitForFunction(() => /, [1-9][\d,]* lost, [1-9][\d,]* ACKs/.test(document.querySelector("canvas.diagram").getAttribute("aria-label")));
    const told = /from ([\d.]+) to ([\d.]+) s: ([\d,]+) segments sent, ([\d,]+) of them again, ([\d,]+) lost, ([\d,]+) ACKs, ([\d,]+) with SACK blocks, ([\d.]+) kB/.exec(await label());
    const [from, to, sent, , lost, acks, sacks] = told.slice(1).map((one) => Number(one.replace(",", "")));
    assert.ok(sent > lost && acks >= sacks && sacks > 0, told[0]);
    await flawless(page, "bytes over time");
    // To drag over a fifth of it shows that fifth, and the address says so.
    const canvas = page.locator("canvas.diagram");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 60);
    await page.mouse.up();
    await page.waitForFunction((before) => document.querySelector("canvas.diagram").getAttribute("aria-label") !== before, told.input);
    const [, closer, until] = /from ([\d.]+) to ([\d.]+) s/.exec(await label()).map(Number);
    assert.ok(until - closer < to - from && closer > from && closer < to, `${closer} to ${until} s of ${from} to ${to} s`);
    assert.ok((await page.evaluate(() => location.hash)).includes("diagram=bytes"));
  });
});

test("as many segments as a fast link carries are described in words", async () => {
  const { describe } = await sourceOf("replay/bytes.ts");
  const sent = Array.from({ length: 300_000 }, (_, place) => ({ seq: 1000 * place, payload: 1000, again: false, outcome: 0 }));
  assert.match(describe({ from: 0, to: 5, sent, acks: [], edges: [{ acked: 299_000_000 }] }, () => []), /300,000 segments sent.*1000\.0 kB not acknowledged/);
});

test("datagrams have no bytes over time to show", async () => {
  await replay("hidden-terminals", {}, async (page) => assert.equal(await page.locator('label:has(> span:text-is("Diagram")) select').count(), 0));
});
