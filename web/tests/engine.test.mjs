// The engine as WebAssembly is the native engine: the same fingerprints and the same numbers, under Node.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { before, test } from "node:test";
import init, { Scenario, setValue, studentT } from "../engine/lasthop_web.js";
import { ROOT, lasthop, ready } from "./helpers.mjs";

const scenarios = path.join(ROOT, "scenarios");
const files = Object.fromEntries(["train.down", "train.up"].map((name) => [name, readFileSync(path.join(scenarios, name), "utf8")]));

function run(name, overrides = [], seed = 1) {
  const text = readFileSync(path.join(scenarios, `${name}.toml`), "utf8");
  const scenario = new Scenario(text, false, `${name}.toml`, JSON.stringify(overrides), JSON.stringify(files));
  return JSON.parse(scenario.run(BigInt(seed), () => {}, [], []).summary());
}

/** Without what a clock says. */
function timeless({ wall_s: _, set_up_s: __, ...rest }) {
  return rest;
}

before(() => init({ module_or_path: readFileSync(path.join(ROOT, "web/engine/lasthop_web_bg.wasm")) }));

test("the page has its first scenario as the engine reads it", () => {
  const { first } = JSON.parse(readFileSync(path.join(ROOT, "web/engine/about.json"), "utf8"));
  const text = readFileSync(path.join(scenarios, `${first.id}.toml`), "utf8");
  const scenario = new Scenario(text, false, `${first.id}.toml`, "[]", "{}");
  assert.deepEqual(first.checked, { description: JSON.parse(scenario.describe()), json: scenario.toJson() });
  assert.deepEqual(first.interruptions, { outages: JSON.parse(scenario.outages(1n)), handoffs: JSON.parse(scenario.handoffs(1n)) });
});

test("every figure of every ready scenario is that of the command", () => {
  for (const name of ready()) {
    // A thousand flows need no minute for that.
    const overrides = name === "many-flows" ? [["duration", '"10 s"']] : [];
    const words = overrides.flatMap(([key, value]) => ["--set", `${key}=${value}`]);
    const [native] = JSON.parse(lasthop("run", `scenarios/${name}.toml`, "--seed", "1", "--json", "-", ...words)).runs;
    assert.deepEqual(timeless(run(name, overrides)), timeless(native), name);
  }
});

test("random changes of scenarios give the numbers of the command", () => {
  let state = Number(process.env.SEED ?? 1);
  const draw = (...choices) => {
    state = (state * 48_271) % 2_147_483_647;
    return choices[state % choices.length];
  };
  for (let round = 0; round < 10; round += 1) {
    const name = draw("lossy-last-hop", "video", "bufferbloat", "wlan");
    const overrides = [
      ["duration", draw('"7 s"', '"12 s"', '"20.5 s"')],
      ["flows.0.transport", draw('"reno"', '"cubic"', '"vegas"', '"bbr"', '"westwood+"', '"tfrc"', '"sack"', '"veno"')],
    ];
    if (name === "lossy-last-hop") {
      overrides.push(["channel.error.packet_error_rate", draw("0", "0.001", "0.03", "0.2")]);
      overrides.push(["topology.bottleneck.queue", draw('"codel"', '"unlimited"', '"red"', '{ kind = "drop-tail", limit = "5 packets" }')]);
    }
    const seed = draw(1, 2, 3, 77);
    const words = overrides.flatMap(([key, value]) => ["--set", `${key}=${value}`]);
    const native = JSON.parse(lasthop("run", `scenarios/${name}.toml`, "--seed", String(seed), "--json", "-", ...words)).runs[0];
    assert.deepEqual(timeless(run(name, overrides, seed)), timeless(native), `${name} ${JSON.stringify(overrides)} seed ${seed}`);
  }
});

test("a window of the trace belongs to the same run, and knows the truth of each decision", () => {
  const text = readFileSync(path.join(scenarios, "lossy-last-hop.toml"), "utf8");
  const scenario = new Scenario(text, false, "x", "[]", "{}");
  const whole = JSON.parse(scenario.run(1n, () => {}, [], []).summary());
  const window = scenario.replay(1n, 14, 15, 1_000_000, false, () => {}, "{}");
  assert.equal(window.fingerprint, whole.fingerprint);
  const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  // The summary counts from the end of the warm-up on, a packet when it has left, which takes 12 ms over an access link.
  const losses = (from) => window.column("losses", "time_s").filter((time) => time >= from).length;
  const counted = sum(whole.totals.packets_lost);
  assert.ok(losses(2) <= counted && counted <= losses(1.988), `${losses(2)}, ${counted}`);
  const enqueued = window.column("hops", "enqueue_s");
  assert.ok(enqueued.length > 1000 && enqueued.every((time) => time <= 15));
  const kinds = window.column("decisions", "decision");
  const times = window.column("decisions", "time_s");
  const timeouts = kinds.filter((kind, row) => kind === 1 && times[row] >= 2).length;
  assert.equal(timeouts, whole.totals.timeouts);
  const small = scenario.replay(1n, 10, 60, 500, false, () => {}, "{}");
  assert.equal(small.column("hops", "enqueue_s").length, 500);
  assert.ok(small.endS > 10 && small.endS < 60);
});

test("the beginning of a window is there while its run goes on", () => {
  const text = readFileSync(path.join(scenarios, "stadium.toml"), "utf8");
  const scenario = new Scenario(text, false, "stadium.toml", "[]", "{}");
  const looks = [];
  const watch = (seconds, known, begun) => {
    if (begun) looks.push({ seconds, known, ...begun });
    return 2;
  };
  const window = scenario.replay(1n, 0, 60, 200_000, true, watch, JSON.stringify({ hops: ["packet", "enqueue_s"], losses: ["time_s"] }));
  const [packets, enqueued] = ["packet", "enqueue_s"].map((name) => window.column("hops", name));
  assert.ok(looks.length > 3, `${looks.length} looks`);
  for (const { seconds, known, hops } of looks) {
    assert.ok(known <= seconds);
    assert.deepEqual(hops.packet, packets.subarray(0, hops.packet.length));
    const before = (times) => times.filter((time) => time < known).length;
    assert.equal(before(hops.enqueue_s), before(enqueued), `of all before ${known} s`);
  }
});

test("no share over time is above all, in any ready scenario", () => {
  // One has many flows of a kind that others have too, and takes as long as all others.
  for (const name of ready().filter((one) => one !== "many-flows")) {
    const text = readFileSync(path.join(scenarios, `${name}.toml`), "utf8");
    const scenario = new Scenario(text, false, `${name}.toml`, JSON.stringify([["warmup", '"0 s"']]), JSON.stringify(files));
    const run = scenario.run(1n, () => {}, [], []);
    const parts = [
      ["timely_packets", "settled_packets", (column) => run.flowSeries(column)],
      ["repetitions", "attempts", (column) => run.radioSeries(column)],
    ];
    for (const [part, whole, of] of parts) {
      const [some, all] = [of(part), of(whole)];
      some.forEach((value, row) => assert.ok(Number.isNaN(value) || value <= all[row], `${name}: ${value} of ${all[row]} ${whole}`));
    }
    assert.ok(run.linkSeries("utilisation").every((share) => share <= 1 + 1e-9), name);
    // What is drawn over time adds up to the result, but for what the proxy of a split flow lost, which is in rows of
    // its own; a shorter rest at the end is in no row.
    const { flows } = JSON.parse(run.summary());
    const times = run.flowSeries("time_s");
    if (times.length !== flows.length * new Set(times).size) continue;
    const lost = run.flowSeries("lost_packets").reduce((total, one) => total + one, 0);
    const counted = flows.reduce((total, flow) => total + Object.values(flow.packets_lost).reduce((sum, one) => sum + one, 0), 0);
    assert.ok(lost <= counted && lost >= 0.99 * counted, `${name}: ${lost} of ${counted} lost`);
  }
});

test("marks and repairs of the whole run are those that links and helpers count", () => {
  const moments = (name, overrides, looksAtAll = true) => {
    const text = readFileSync(path.join(scenarios, `${name}.toml`), "utf8");
    const scenario = new Scenario(text, false, `${name}.toml`, JSON.stringify([["warmup", '"0 s"'], ...overrides]), "{}");
    const window = scenario.replay(1n, 0, 0, 1, looksAtAll, () => {}, "{}");
    const { links, fingerprint } = JSON.parse(scenario.run(1n, () => {}, [], []).summary());
    assert.equal(window.fingerprint, fingerprint);
    const sum = (of) => links.reduce((total, link) => total + (of(link) ?? 0), 0);
    return { marks: window.column("marks", "time_s")?.length, marked: sum((link) => link.marks), repairs: window.column("repairs", "flow")?.length, repeated: sum((link) => link.snoop?.repeats_by_duplicate) };
  };
  const marked = moments("single-flow", [["topology.bottleneck.queue", '"dual-pi2"'], ["flows.0.transport", '"prague"']]);
  assert.ok(marked.marks > 1000 && marked.marks === marked.marked, JSON.stringify(marked));
  assert.equal(marked.repairs, 0);
  const repaired = moments("snoop", []);
  assert.ok(repaired.repairs > 100 && repaired.repairs === repaired.repeated, JSON.stringify(repaired));
  // What its sender repeats is no repair by the network.
  assert.equal(moments("snoop", [["helpers", "[]"]]).repairs, 0);
  assert.equal(moments("snoop", [], false).repairs, undefined);
  // Collisions are of the whole run too, and a window without them is of the same run.
  const text = readFileSync(path.join(scenarios, "hidden-terminals.toml"), "utf8");
  const [all, some] = [true, false].map((looksAtAll) => new Scenario(text, false, "x", "[]", "{}").replay(1n, 5, 6, 1_000_000, looksAtAll, () => {}, "{}"));
  assert.ok(all.column("collisions", "time_s").length > 100);
  assert.equal(some.column("collisions", "time_s").length, 0);
  assert.equal(some.fingerprint, all.fingerprint);
  assert.deepEqual(some.column("hops", "arrive_s"), all.column("hops", "arrive_s"));
});

test("the SACK blocks of a window belong to its ACKs and lie within what was sent", () => {
  const text = readFileSync(path.join(scenarios, "lossy-last-hop.toml"), "utf8");
  const window = (sender) => new Scenario(text, false, "x", JSON.stringify([["flows.0.transport", `"${sender}"`]]), "{}").replay(1n, 0, 4, 1_000_000, false, () => {}, "{}");
  const sack = window("sack");
  const [hop, from, to] = ["hop", "from", "to"].map((name) => sack.column("sacks", name));
  const [back, ack, seq, payload, flow] = ["back", "ack", "seq", "payload_bytes", "flow"].map((name) => sack.column("hops", name));
  const sent = new Map();
  seq.forEach((first, row) => back[row] || sent.set(flow[row], Math.max(sent.get(flow[row]) ?? 0, first + payload[row])));
  assert.ok(hop.length > 100, `${hop.length} blocks`);
  hop.forEach((row, place) => {
    assert.ok(back[row] === 1 && from[place] < to[place] && to[place] <= sent.get(flow[row]), `block ${from[place]} to ${to[place]}`);
    assert.ok(from[place] > ack[row], "what is reported lies above what is acknowledged");
  });
  assert.equal(window("reno").column("sacks", "hop").length, 0);
});

test("mistakes are messages with a place", () => {
  const bad = () => new Scenario('duration = "60"\n', false, "lab.toml", "[]", "{}");
  assert.throws(bad, (error) => JSON.parse(error).place.startsWith("lab.toml:1:12") && JSON.parse(error).text.includes("^^^^"));
  const long = () => new Scenario(" ".repeat(10 << 20), false, "lab.toml", "[]", "{}");
  assert.throws(long, (error) => JSON.parse(error).message.includes("too large"));
  const lost = () => new Scenario(readFileSync(path.join(scenarios, "train-ride.toml"), "utf8"), false, "lab.toml", "[]", "{}");
  assert.throws(lost, (error) => JSON.parse(error).text.includes("add the file beside the scenario"));
});

test("values are set in the text, and intervals are Student's", () => {
  assert.equal(setValue('a = 1 # one\nb = "2 s"\n', "a", "3"), 'a = 3 # one\nb = "2 s"\n');
  assert.ok(Math.abs(studentT(0.975, 9) - 2.262_157) < 1e-6);
});
