// Captures of packets in the page: what tshark reads of the same file, what the command says of it, files that are
// damaged, and the simulation beside it.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import init, { Capture, Scenario } from "../engine/lasthop_web.js";
import { LASTHOP, ROOT, beginAndEnd, browser, done, downloaded, flawless, host, lasthop, open, refusal, server, view } from "./helpers.mjs";

const PATH = `
duration = "14 s"
[topology]
kind = "graph"
nodes = ["server", "client"]
[[topology.links]]
from = "server"
to = "client"
rate = "6 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", limit = "40 packets" }
error = { kind = "bernoulli", packet_error_rate = 0.004 }
[tcp]
profile = "linux"
[[flows]]
source = "server"
sink = "client"
transport = "cubic"
start = "0 s"
traffic = { kind = "ftp", bytes = "4 MB" }
[[flows]]
source = "server"
sink = "client"
transport = "reno"
start = "2 s"
traffic = { kind = "ftp", bytes = "1 MB" }
[[flows]]
source = "client"
sink = "server"
transport = "reno"
start = "3 s"
traffic = { kind = "ftp", bytes = "300 kB" }
[[flows]]
source = "client"
sink = "server"
transport = "udp"
start = "1 s"
traffic = { kind = "cbr", rate = "100 kbit/s", packet = "200 B" }
`;

beginAndEnd();

let folder;
const files = {};

before(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-capture-"));
  writeFileSync(path.join(folder, "path.toml"), PATH);
  lasthop("run", path.join(folder, "path.toml"), "--out", path.join(folder, "out"), "--capture-at", "server", "--capture-at", "client", "--capture-at", "links");
  for (const side of ["server", "client", "links"]) {
    const [name] = readdirSync(path.join(folder, "out")).filter((one) => one.endsWith(".pcapng") && one.includes(side));
    files[side] = path.join(folder, "out", name);
  }
  await init({ module_or_path: readFileSync(path.join(ROOT, "web/engine/lasthop_web_bg.wasm")) });
});

after(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Reads a file as the page does, in small pieces. */
function read(file, size = 1000) {
  const bytes = readFileSync(file);
  return new Capture((at) => bytes.subarray(at, at + size), undefined);
}

/** A page that shows a file, as somebody opens it. */
async function shown(file, options = {}, address = server.address) {
  const opened = await open(browser, address, options);
  await opened.page.click("nav >> text=Capture");
  await opened.page.setInputFiles(".capture input[type=file]", file);
  return opened;
}

const simulated = (page) => page.waitForSelector("#beside-title", { timeout: 60_000 });

test("segments, acknowledgements, SACK and window are those of tshark", { skip: spawnSync("tshark", ["-v"]).error ? "needs tshark (Debian package tshark)" : false }, () => {
  const fields = ["frame.time_relative", "ip.src", "tcp.seq", "tcp.len", "tcp.ack", "tcp.window_size", "tcp.options.sack_le", "tcp.options.sack_re", "tcp.flags.syn"];
  for (const side of ["server", "client"]) {
    for (const stream of [0, 1, 2]) {
      const listed = execFileSync("tshark", ["-r", files[side], "-Y", `tcp.stream==${stream}`, "-T", "fields", ...fields.flatMap((field) => ["-e", field])], { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });
      const rows = listed.trim().split("\n").map((line) => line.split("\t")).filter((row) => !["1", "True"].includes(row[8]));
      const capture = read(files[side]);
      const { flows } = JSON.parse(capture.found());
      const flow = flows.findIndex((one, place) => one.transport === "tcp" && flows.slice(0, place).filter((before) => before.transport === "tcp").length === stream);
      const way = capture.way(flow, true);
      const column = (table, name) => [...way[table][name]];
      const near = (mine, theirs, what) => {
        assert.equal(mine.length, theirs.length, what);
        mine.forEach((value, place) => assert.ok(Math.abs(value - theirs[place]) < 2e-9, `${what} ${place}: ${value} and ${theirs[place]}`));
      };
      const sent = rows.filter((row) => row[1] === flows[flow].from && Number(row[3]) > 0);
      near(column("segments", "time_s"), sent.map((row) => Number(row[0])), "times");
      // The SYN has the number 0, the first byte 1.
      assert.deepEqual(column("segments", "begin"), sent.map((row) => Number(row[2]) - 1));
      assert.deepEqual(column("segments", "end"), sent.map((row) => Number(row[2]) - 1 + Number(row[3])));
      const back = rows.filter((row) => row[1] === flows[flow].to);
      const acks = back.map((row) => [Number(row[4]) - 1, Number(row[4]) - 1 + Number(row[5])]);
      const changed = acks.filter(([ack, limit], place) => place === 0 || acks[place - 1][0] !== ack || acks[place - 1][1] !== limit);
      assert.deepEqual(column("acks", "ack"), changed.map(([ack]) => ack));
      assert.deepEqual(column("acks", "limit"), changed.map(([, limit]) => limit));
      const sacks = back.filter((row) => row[6] !== "").map((row) => [Number(row[6].split(",")[0]) - 1, Number(row[7].split(",")[0]) - 1]);
      assert.deepEqual(column("sacks", "begin"), sacks.map(([begin]) => begin));
      assert.deepEqual(column("sacks", "end"), sacks.map(([, end]) => end));
      assert.ok(sacks.length > 0 || stream > 0, "CUBIC has SACK, and the path losses");
      const again = column("segments", "again").filter(Boolean).length;
      assert.equal(again, column("segments", "begin").filter((begin, place, all) => place > 0 && begin < Math.max(...column("segments", "end").slice(0, place))).length);
      capture.free();
    }
  }
});

test("round trips are those of the sender, on whichever side of the queue they were captured", () => {
  const file = path.join(folder, "queue.toml");
  writeFileSync(file, PATH.slice(0, PATH.indexOf("[[flows]]")).replace("error", "# error") + '[[flows]]\nsource = "server"\nsink = "client"\ntransport = "cubic"\nstart = "0 s"\n');
  const [run] = JSON.parse(lasthop("run", file, "--json", "-")).runs;
  const scenario = new Scenario(readFileSync(file, "utf8"), false, "queue.toml", "[]", "{}");
  for (const side of ["server", "client"]) {
    const capture = scenario.capture(1n, side);
    const rtts = capture.way(0, true).trips.rtt_s.sort();
    const median = rtts[rtts.length >> 1];
    assert.ok(Math.abs(median / run.flows[0].rtt_p50_s - 1) < 0.03, `at the ${side}: ${median}, the sender ${run.flows[0].rtt_p50_s}`);
    capture.free();
  }
});

test("a simulation of the very scenario of a capture shows no difference to it", () => {
  const capture = read(files.server);
  const scenario = new Scenario(PATH, false, "path.toml", "[]", "{}");
  const again = scenario.capture(1n, "server");
  assert.equal(again.found(), capture.found());
  const [flow, forward] = again.flowOf(1);
  assert.equal(forward, 1);
  const columns = (of, number) => ["time_s", "begin", "end", "again"].map((name) => of.way(number, true).segments[name]);
  assert.deepEqual(columns(again, flow), columns(capture, flow));
  // The data of the last two go the other way.
  assert.equal(JSON.parse(again.found()).flows[again.flowOf(2)[0]].from, "10.0.0.2");
  assert.deepEqual([...again.flowOf(9)], []);
});

for (const side of ["server", "client"]) {
  test(`a capture opens with the figures of the command, beside a simulation (${side})`, async () => {
    const { page, wrong, close } = await shown(files[side]);
    await simulated(page);
    const told = lasthop("from-capture", files[side]);
    // What is longer than its column goes on below it.
    const words = (text) => text.split(/\s+/).filter(Boolean);
    const rows = await page.$$eval('[aria-labelledby="path-title"] tbody tr', (list) => list.map((row) => [...row.children].map((cell) => cell.textContent)));
    for (const [name, value, surely] of rows) {
      const line = told.split("\n").find((one) => one.startsWith(name));
      const begins = words(value).slice(0, 6).join(" ");
      assert.ok(line && words(line).join(" ").includes(begins) && line.includes(surely.slice(0, 20)), `${name}: ${value} and ${line}`);
    }
    assert.ok(rows.length >= 6, rows.join("; "));
    assert.match(await page.textContent("#path-title"), new RegExp(`nearer to the ${side === "server" ? "sender" : "receiver"} of the data`));
    assert.deepEqual(await page.$$eval(".chart", (list) => list.map((one) => one.dataset.panel)), ["sequence", "sequence-simulated", "throughput", "flight", "rtt"]);
    // Three connections of TCP and one of UDP, one after the other.
    const options = await page.$$eval(".toolbar select >> nth=0 >> option", (list) => list.map((one) => one.value));
    assert.equal(options.length, 4);
    for (const option of options) {
      await page.selectOption(".toolbar select >> nth=0", option);
      await page.waitForFunction(() => document.querySelector(".capture [aria-busy=false]") && document.querySelector("#beside-title"), null, { timeout: 60_000 });
    }
    assert.match(await page.textContent(".look"), /^The simulation (differs most in|shows no difference)/);
    const differences = await page.$$eval('[aria-labelledby="beside-title"] tbody tr', (list) => list.map((row) => [...row.children].map((cell) => cell.textContent)));
    assert.ok(differences.some(([name, first, second, said]) => name === "median RTT" && first !== "-" && second !== "-" && said !== ""), differences.join("; "));
    // The estimate is of this path: its own simulation carries about the same.
    const rate = (text) => Number.parseFloat(text);
    const [, first, second] = differences.find(([name]) => name === "rate");
    assert.ok(Math.abs(rate(second) / rate(first) - 1) < 0.15, `${first} and ${second}`);
    await page.selectOption(".toolbar select >> nth=1", "none");
    await page.waitForSelector("#beside-title", { state: "detached" });
    await page.getByRole("button", { name: "Open the path in Play" }).click();
    await done(page);
    assert.deepEqual(wrong, []);
    await close();
  });
}

test("what is no capture is refused with the words of the command, and shows nothing", async () => {
  const damaged = path.join(folder, "damaged.pcapng");
  const bytes = readFileSync(files.server);
  // More than one packet: within one the frame would be odd, and the file whole.
  bytes.fill(0xff, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 4096);
  writeFileSync(damaged, bytes);
  const wrongs = { "empty.pcap": "", "text.pcap": "duration = 5", "packed.pcap": "\x1f\x8b\x08\x00", "<img src=x onerror=alert(1)>.pcap": "no" };
  for (const [name, content] of Object.entries(wrongs)) writeFileSync(path.join(folder, name), content, "latin1");
  const { page, wrong, close } = await shown(damaged);
  for (const name of ["damaged.pcapng", ...Object.keys(wrongs)]) {
    await page.setInputFiles(".capture input[type=file]", path.join(folder, name));
    await page.waitForFunction((file) => document.querySelector(".message.bad")?.textContent.includes(file), name);
    const said = await page.textContent(".message.bad");
    const { status, text } = refusal(folder, "from-capture", name);
    assert.equal(status, 2);
    assert.ok(text.replace(/\s+/g, "").includes(said.replace(/\s+/g, "")), `${said} and ${text}`);
    assert.equal(await page.locator(".chart, .capture table").count(), 0);
  }
  // One that was cut is read up to there; a good one opens as ever.
  const cut = path.join(folder, "cut.pcapng");
  writeFileSync(cut, readFileSync(files.server));
  truncateSync(cut, Math.floor(bytes.length / 2) + 1);
  await page.setInputFiles(".capture input[type=file]", cut);
  await simulated(page);
  assert.match(await page.textContent(".capture .took"), /cut while it was written/);
  assert.equal(await page.locator(".message.bad").count(), 0);
  assert.deepEqual(wrong, []);
  await close();
});

test("packets of several interfaces are refused until one is chosen", async () => {
  const { page, wrong, close } = await shown(files.links);
  const several = page.locator(".message.bad", { hasText: "the same packets on the interfaces" });
  const links = await Promise.race([several.waitFor({ timeout: 20_000 }).then(() => true), page.waitForSelector(".chart", { timeout: 20_000 }).then(() => false)]);
  if (links) {
    await several.getByRole("button").first().click();
    await page.waitForSelector(".chart");
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("lasthop view shows a capture, one file holds it, and one may be dropped", async () => {
  const own = await view(files.client);
  try {
    const { page, wrong, close } = await open(browser, own.address);
    await simulated(page);
    await page.selectOption(".toolbar select >> nth=1", "reno");
    await page.waitForFunction(() => location.hash.includes("law=reno"));
    await page.reload();
    await simulated(page);
    assert.equal(await page.locator(".toolbar select >> nth=1").inputValue(), "reno");
    assert.equal(await page.textContent("h2.name"), path.basename(files.client));
    // Another one is dropped.
    const bytes = readFileSync(files.server).toString("base64");
    await page.evaluate((data) => {
      const moved = new DataTransfer();
      moved.items.add(new File([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], "dropped.pcapng"));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
    }, bytes);
    await page.waitForSelector("h2.name >> text=dropped.pcapng");
    await simulated(page);
    assert.deepEqual(wrong, []);
    await close();
  } finally {
    await own.end();
  }
  const file = path.join(folder, "capture.html");
  execFileSync(LASTHOP, ["view", files.client, "--out", file], { stdio: "ignore" });
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`file://${file}`);
  await simulated(page);
  await context.close();
});

for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 360, height: 800 } } })) {
  test(`a capture can be read by everybody (${name})`, async () => {
    const { page, wrong, close } = await open(browser, server.address, options);
    await page.click("nav >> text=Capture");
    await flawless(page, "no capture yet");
    await page.setInputFiles(".capture input[type=file]", files.server);
    await simulated(page);
    await flawless(page, `a capture, ${name}`);
    const { width, view: seen } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, view: innerWidth }));
    assert.ok(width <= seen, `${width} px in ${seen}`);
    // The keyboard looks closer and moves the cursor.
    await page.focus('.chart[data-panel="sequence"] .canvas');
    await page.keyboard.press("+");
    await page.waitForSelector(".toolbar >> text=Whole capture");
    await page.keyboard.press("0");
    if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `capture-${name}.png`), fullPage: true });
    assert.deepEqual(wrong, []);
    await close();
  });
}

test("the scenario in Play is simulated beside a capture, each of its flows", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await page.setInputFiles("input[type=file]", path.join(folder, "path.toml"));
  await done(page);
  await page.getByRole("button", { name: "Capture", exact: true }).click();
  await page.setInputFiles(".capture input[type=file]", files.server);
  await page.getByLabel("Beside it, simulated").selectOption("play");
  await page.getByText("The simulation shows no difference").waitFor({ timeout: 60_000 });
  await page.getByLabel("Its flow").selectOption("1");
  await page.waitForFunction(() => location.hash.includes("beside=1"));
  await page.getByText("captured at the node server").waitFor({ timeout: 60_000 });
  assert.deepEqual(wrong, []);
  await close();
});

test("the address keeps what is looked at in a file, which is asked for once more", async () => {
  const { page, wrong, close } = await shown(files.server);
  await simulated(page);
  await page.selectOption(".toolbar select >> nth=0", { index: 1 });
  await page.getByLabel("Beside it, simulated").selectOption("none");
  await page.focus('.chart[data-panel="sequence"] .canvas');
  await page.keyboard.press("+");
  const name = path.basename(files.server);
  await page.waitForFunction((file) => ["span=", "law=none", "connection=", `file=${file}`].every((part) => location.hash.includes(part)), name);
  const { hash } = new URL(page.url());
  // Another file, and back.
  await page.setInputFiles(".capture input[type=file]", files.client);
  await page.waitForFunction((file) => location.hash.includes(`file=${file}`), path.basename(files.client));
  await page.goBack();
  await page.waitForFunction((file) => document.querySelector("h2.name").textContent === file, name);
  await page.waitForFunction((wanted) => location.hash === wanted, hash);
  await page.reload();
  await page.getByText(`This address is of the file ${name}`).waitFor();
  await flawless(page, "a file that is asked for");
  await page.setInputFiles(".capture input[type=file]", files.server);
  await page.waitForSelector(".capture .chart");
  assert.equal(new URL(page.url()).hash, hash);
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByText("is not included").waitFor();
  assert.deepEqual(wrong, []);
  await close();
});

test("figures of a capture are saved: as SVG with its packets, as data, as the command has them", async () => {
  const { page, wrong, close } = await shown(files.server, { colorScheme: "dark" });
  await simulated(page);
  const svg = readFileSync(await downloaded(page, folder, "Figure (SVG)"), "utf8");
  assert.ok(!svg.includes("NaN") && svg.length < 2e6, `${svg.length}`);
  // On white whatever the theme: segments, ACKs, SACK blocks and the window of both, and three curves.
  for (const colour of ["#0072b2", "#00825f", "#b0548a", "#5b6670"]) assert.ok(svg.includes(`"${colour}"`), colour);
  assert.equal(svg.split("<svg ").length - 1, 3);
  assert.match(readFileSync(await downloaded(page, folder, "Figure (PNG)")).subarray(1, 4).toString(), /PNG/);
  const told = JSON.parse(lasthop("from-capture", files.server, "--json"));
  assert.deepEqual(JSON.parse(readFileSync(await downloaded(page, folder, "Figures (JSON)"), "utf8")), told);
  // Every segment of the connection that is shown.
  const rows = readFileSync(await downloaded(page, folder, "Data (CSV)"), "utf8").trim().split("\n");
  const way = read(files.server).way(0, true);
  assert.equal(rows[0], "time_s,begin,end,again");
  assert.deepEqual(rows.slice(1), [...way.segments.time_s.keys()].map((row) => ["time_s", "begin", "end", "again"].map((name) => way.segments[name][row]).join(",")));
  await page.getByLabel("One panel").selectOption("rtt");
  const rtts = readFileSync(await downloaded(page, folder, "Data (CSV)"), "utf8").trim().split("\n");
  assert.match(rtts[0], /^"time_s","captured \(ms\)","simulated \(ms\)"$/);
  await page.getByRole("button", { name: "Tables" }).click();
  assert.equal(await page.locator(".chart table").count(), await page.locator(".chart").count());
  await flawless(page, "tables of a capture");
  assert.deepEqual(wrong, []);
  await close();
});

test("a panel of a capture that stands beside the page is shown in a frame, and none from elsewhere", async () => {
  const hosted = await host("/paper/", { "runs/transfer.pcapng": readFileSync(files.server) });
  const frame = `${hosted.address}?panel=sequence#view=capture&capture=runs/transfer.pcapng&law=none&span=2-6`;
  const { page, wrong, close } = await open(browser, frame);
  await page.waitForSelector(".chart .canvas");
  assert.deepEqual(await page.$$eval(".chart", (all) => all.map((one) => one.dataset.panel)), ["sequence"]);
  assert.equal(await page.locator("nav, table").count(), 0);
  await flawless(page, "a panel of a capture");
  assert.match(await page.getAttribute(".chart .canvas", "aria-label"), /from 2 to 6 s/);
  const [whole] = await Promise.all([page.context().waitForEvent("page"), page.getByText("Open in lasthop").click()]);
  await whole.waitForSelector(".capture .chart >> nth=3");
  assert.equal(await whole.textContent("h2.name"), "runs/transfer.pcapng");
  for (const elsewhere of ["../secret.pcap", "//127.0.0.1:1/x.pcap", "http://127.0.0.1:1/x.pcap", "runs/transfer.txt", "runs/../../x.pcap"]) {
    const asked = [];
    const other = await open(browser, `${hosted.address}#view=capture&capture=${encodeURIComponent(elsewhere)}`);
    other.page.on("request", (request) => asked.push(request.url()));
    await other.page.getByText("it may name one in the folder of the page").waitFor();
    assert.deepEqual(asked.filter((url) => /secret|x\.pcap|transfer/.test(url)), []);
    await other.close();
  }
  assert.deepEqual(wrong, []);
  await close();
  await hosted.end();
});

/** A run that writes a capture while the page shows it; `grow` says up to which byte. */
async function growing(source, place) {
  const program = `
import sys
from pathlib import Path
from lasthop import view
source, place = map(Path, sys.argv[1:])
whole = source.read_bytes()
with view.watched(place) as address:
    print(address, flush=True)
    for size in sys.stdin:
        place.write_bytes(whole[: int(size)])
`;
  const python = path.join(path.dirname(LASTHOP), "python");
  const run = spawn(python, ["-c", program, source, place], { stdio: ["pipe", "pipe", "inherit"] });
  const address = await new Promise((resolve) => { createInterface({ input: run.stdout }).once("line", resolve); });
  return { address, grow: (size) => run.stdin.write(`${size}\n`), end: () => run.stdin.end() };
}

test("a capture that a run still writes grows in the page, and a simulation comes at its end", async () => {
  const size = readFileSync(files.server).length;
  const run = await growing(files.server, path.join(folder, "growing.pcapng"));
  const { page, wrong, close } = await open(browser, run.address);
  const packets = async () => Number((await page.innerText(".capture .took")).replaceAll(",", "").split(" ")[0]);
  const until = (least) => page.waitForFunction((most) => Number((document.querySelector(".capture .took")?.textContent ?? "").replaceAll(",", "").split(" ")[0]) > most, least, { timeout: 30_000 });
  await page.getByText("Waiting for the first packets").waitFor();
  run.grow(Math.round(size / 3));
  await until(0);
  const early = await packets();
  assert.match(await page.innerText(".capture .took"), /the run goes on/);
  assert.equal(await page.getByLabel("Beside it, simulated").count(), 0);
  run.grow(Math.round(size / 2));
  await until(early);
  run.grow(size);
  run.end();
  await page.getByText("Captured and simulated").waitFor({ timeout: 60_000 });
  assert.equal(await packets(), JSON.parse(read(files.server).found()).packets);
  // What was not there yet is a 404, which the browser notes; nothing else went wrong.
  assert.deepEqual(wrong.filter((one) => !/404/.test(one) && !/ERR_CONNECTION/.test(one)), []);
  await close();
});
