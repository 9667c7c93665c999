// Writes web/engine/about.json: what the engine says of itself. It is the same in every run of it, so the page has it
// from the start and needs no engine to show its controls. Called by tools/build_page.sh.
import { readFileSync, writeFileSync } from "node:fs";
import init, { Scenario, declarations, helpers, schema, studentT, version } from "../engine/lasthop_web.js";

/** Seeds beyond this make intervals that cannot be told from these. */
const STUDENT_MOST = 200;
/** The scenario that the page shows first. */
const FIRST = "lossy-last-hop";
const place = (name) => new URL(`../engine/${name}`, import.meta.url);

await init({ module_or_path: readFileSync(place("lasthop_web_bg.wasm")) });
/** Columns of runs, flows and links; of others, and of what is only written into files, the page has no need. */
const columns = JSON.parse(declarations()).columns.filter(({ table }) => ["totals", "flows", "links"].includes(table)).map(({ heading: _, pattern: _pattern, ...column }) => column);
/** What the engine says of the first scenario and of the run of its first seed: the page need not ask before it runs it. */
function first() {
  const text = readFileSync(new URL(`../../scenarios/${FIRST}.toml`, import.meta.url), "utf8");
  const scenario = new Scenario(text, false, `${FIRST}.toml`, "[]", "{}");
  const checked = { description: JSON.parse(scenario.describe()), json: scenario.toJson() };
  return { id: FIRST, checked, interruptions: { outages: JSON.parse(scenario.outages(1n)), handoffs: JSON.parse(scenario.handoffs(1n)) } };
}

const about = {
  version: version(),
  schema: JSON.parse(schema()),
  declarations: { ...JSON.parse(declarations()), columns },
  helpers: JSON.parse(helpers()),
  student: Array.from({ length: STUDENT_MOST }, (_, index) => studentT(0.975, index + 1)),
  first: first(),
};
writeFileSync(place("about.json"), JSON.stringify(about));
