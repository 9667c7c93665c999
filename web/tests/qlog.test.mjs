// Logs of stacks (qlog) in the page: what the file itself says of packets and losses, the forms that stacks write, files
// that are none, and the scenario in Play beside one.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { beginAndEnd, browser, flawless, lasthop, open, refusal, server, view } from "./helpers.mjs";

beginAndEnd();

let [folder, log] = [];

before(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), "lasthop-qlog-"));
  lasthop("run", "scenarios/train-ride.toml", "--qlog", "--out", path.join(folder, "out"), "--set", "duration=20 s");
  log = path.join(folder, "out", "qlog-of-download.sqlog");
});

after(() => {
  rmSync(folder, { recursive: true, force: true });
});

const said = (page) => page.innerText(".capture .took");
const events = () => readFileSync(log, "utf8").split("\x1e").filter(Boolean).map((text) => JSON.parse(text)).slice(1);
const count = (name) => events().filter((event) => event.name.endsWith(`:${name}`)).length;

test("a log is shown with the packets and losses that it has, and the scenario in Play beside it", async () => {
  const given = await view(log);
  const { page, wrong, close } = await open(browser, given.address);
  await page.waitForSelector(".capture .charts");
  const shown = (await said(page)).replaceAll(",", "");
  assert.match(shown, new RegExp(`^${count("packet_sent")} packets sent ${count("packet_lost")} declared lost`));
  assert.match(shown, new RegExp(` ${count("packet_received")} received`));
  const titles = async () => (await page.locator(".chart figcaption, .chart .title").allInnerTexts()).join("\n");
  assert.match(await titles(), /Time and sequence, logged/);
  assert.match(await titles(), /Congestion window and bytes in flight, as logged/);
  await flawless(page, "a log");
  await page.getByLabel("Beside it, simulated").selectOption("play");
  await page.getByText("captured at the node").waitFor({ timeout: 60_000 });
  assert.match(await titles(), /Time and sequence, simulated/);
  assert.deepEqual(wrong, []);
  await close();
  await given.end();
});

/** The same three packets as stacks of several years write them: two arrive, one is lost. */
const FORMS = {
  "lines.sqlog": [
    { qlog_version: "0.3", qlog_format: "NDJSON", trace: { vantage_point: { type: "client" } } },
    ...[0, 1, 2].map((number) => ({ time: number, name: "transport:packet_sent", data: { header: { packet_type: "1RTT", packet_number: number }, raw: { length: 1200 } } })),
    { time: 50, name: "transport:packet_received", data: { header: { packet_type: "1RTT", packet_number: 0 }, raw: { length: 40 }, frames: [{ frame_type: "ack", acked_ranges: [[0], [2, 2]] }] } },
    { time: 50, name: "recovery:packet_lost", data: { header: { packet_type: "1RTT", packet_number: 1 } } },
  ].map((one) => JSON.stringify(one)).join("\n"),
  "fields.qlog": JSON.stringify({
    qlog_version: "draft-00",
    traces: [{
      vantage_point: { name: "server" }, configuration: { time_units: "us" }, event_fields: ["relative_time", "CATEGORY", "EVENT_TYPE", "TRIGGER", "DATA"],
      events: [
        ...["0", "1", "2"].map((number) => [`${number}000`, "TRANSPORT", "PACKET_SENT", "DEFAULT", { packet_type: "1RTT", header: { packet_number: number, packet_size: 1200 }, frames: [] }]),
        ["50000", "TRANSPORT", "PACKET_RECEIVED", "DEFAULT", { packet_type: "1RTT", header: { packet_number: "0", packet_size: 40 }, frames: [{ frame_type: "ACK", acked_ranges: [["0", "0"], ["2", "2"]] }] }],
        ["50000", "RECOVERY", "PACKET_LOST", "UNKNOWN", { packet_number: "1" }],
      ],
    }],
  }),
  "delta.qlog": JSON.stringify({
    qlog_version: "0.3",
    traces: [{
      common_fields: { time_format: "delta" },
      events: [
        ...[0, 1, 2].map((number) => ({ time: number && 1, name: "quic:packet_sent", data: { header: { packet_type: "1RTT", packet_number: number }, raw: { length: 1200 } } })),
        { time: 48, name: "quic:packet_received", data: { header: { packet_type: "1RTT", packet_number: 0 }, raw: { length: 40 }, frames: [{ frame_type: "ack", acked_ranges: [[0, 0], [2, 2]] }] } },
        { time: 0, name: "quic:packet_lost", data: { header: { packet_type: "1RTT", packet_number: 1 } } },
      ],
    }],
  }),
};

/** The same as quinn writes it, whose RTT were in seconds once: lengths in the header, no frames, and at first a guess. */
const ofQuinn = (rtt) => [
  { qlog_version: "0.3", qlog_format: "JSON-SEQ", trace: { vantage_point: { type: "unknown" }, configuration: { time_offset: 0 } } },
  ...[0, 1, 2].map((number) => ({ time: number, name: "transport:packet_sent", data: { header: { packet_type: "1RTT", packet_number: number, length: 1200 } } })),
  { time: 2, name: "recovery:metrics_updated", data: { latest_rtt: rtt * 6.66, congestion_window: 12000 } },
  { time: 50, name: "transport:packet_received", data: { header: { packet_type: "1RTT", packet_number: 0 } } },
  { time: 50, name: "recovery:metrics_updated", data: { latest_rtt: rtt } },
  { time: 50, name: "recovery:packet_lost", data: { header: { packet_type: "1RTT", packet_number: 1, length: 1200 }, trigger: "reordering_threshold" } },
].map((one) => `\x1e${JSON.stringify(one)}\n`).join("");
Object.assign(FORMS, { "quinn.sqlog": ofQuinn(0.05), "quinn-of-2026.sqlog": ofQuinn(50) });

const WRONG = {
  "other.qlog": ["{}", /cannot read the log 'other.qlog': it does not begin with qlog_version/],
  "broken.sqlog": ['{"qlog_version":"0.3"}\nnonsense\n{}', /record 2 is no JSON/],
  "empty.qlog": ['{"qlog_version":"0.3","traces":[]}', /it has no trace/],
  "silent.sqlog": ['{"qlog_version":"0.3"}\n{"time":1,"name":"http:frame_parsed","data":{}}', /ask the stack to log the events of transport/],
  "huge.sqlog": [
    '{"qlog_version":"0.3"}\n{"time":1,"name":"transport:packet_sent","data":{"header":{"packet_number":1},"frames":[{"frame_type":"ack","acked_ranges":[[0,1e300],[0,9007199254740991]]}]}}',
    /^1 packets sent/,
  ],
};

test("every form of a log gives the same, and what is none is told", async () => {
  const { page, wrong, close } = await open(browser, server.address);
  await page.getByRole("button", { name: "Capture", exact: true }).click();
  const give = async (name, text) => {
    writeFileSync(path.join(folder, name), text);
    await page.setInputFiles(".capture input[type=file]", path.join(folder, name));
    await page.waitForFunction((shown) => document.querySelector(".capture h2.name")?.textContent === shown && document.querySelector(".capture [aria-busy=false]"), name);
    return page.innerText(".capture [aria-busy=false]");
  };
  for (const [name, text] of Object.entries(FORMS)) {
    assert.match(await give(name, text), /^3 packets sent, 1 declared lost \(33 %\), 1 received, 50 ms, 576 kbit\/s sent/, name);
    if (!name.startsWith("quinn")) continue;
    const rtt = Number(/means: .* ([\d.]+)\. Arrow/.exec(await page.locator(".chart[data-panel=rtt] .canvas").getAttribute("aria-label"))[1]);
    assert.ok(rtt > 40 && rtt < 340, `${name}: ${rtt} ms`);
  }
  assert.match(await give("cut.sqlog", FORMS["lines.sqlog"].slice(0, -20)), /none declared lost.*it was cut while it was written/s);
  for (const [name, [text, expected]] of Object.entries(WRONG)) assert.match(await give(name, text), expected, name);
  assert.deepEqual(wrong, []);
  await close();
  const { status, text } = refusal(folder, "view", "--no-browser", "other.qlog");
  assert.equal(status, 2);
  assert.match(text, /cannot read the log 'other.qlog': it does not begin with qlog_version/);
});
