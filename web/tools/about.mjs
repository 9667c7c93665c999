// Writes web/engine/about.json: what the engine says of itself. It is the same in every run of it, so the page has it
// from the start and needs no engine to show its controls. Called by tools/build_page.sh.
import { readFileSync, writeFileSync } from "node:fs";
import init, { declarations, helpers, schema, studentT, version } from "../engine/lasthop_web.js";

/** Seeds beyond this make intervals that cannot be told from these. */
const STUDENT_MOST = 200;
const place = (name) => new URL(`../engine/${name}`, import.meta.url);

await init({ module_or_path: readFileSync(place("lasthop_web_bg.wasm")) });
/** Columns of runs, flows and links; of others, and of what is only written into files, the page has no need. */
const columns = JSON.parse(declarations()).columns.filter(({ table }) => ["totals", "flows", "links"].includes(table)).map(({ heading: _, pattern: _pattern, ...column }) => column);
const about = {
  version: version(),
  schema: JSON.parse(schema()),
  declarations: { ...JSON.parse(declarations()), columns },
  helpers: JSON.parse(helpers()),
  student: Array.from({ length: STUDENT_MOST }, (_, index) => studentT(0.975, index + 1)),
};
writeFileSync(place("about.json"), JSON.stringify(about));
