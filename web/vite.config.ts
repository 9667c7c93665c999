// How the page is built: one script, one style sheet, one worker and the engine, all beside index.html.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** A recording of a link is a list of ascending times: their differences take a tenth of the room. */
const recordings: Plugin = {
  name: "recordings",
  enforce: "pre",
  load(id) {
    const file = /^(.*\/scenarios\/[^/]+\.(?:down|up))\?raw$/.exec(id)?.[1];
    if (file === undefined) return null;
    const text = readFileSync(file, "utf8");
    const times = text.trimEnd().split("\n").map(Number);
    const steps = times.map((time, place) => time - (times[place - 1] ?? 0)).join(" ");
    // Anything else stays as it is.
    if (`${times.join("\n")}\n` !== text) return null;
    // Written out when it is asked for, not while the page loads.
    return `export default () => { let at = 0; return ${JSON.stringify(steps)}.split(" ").map((step) => (at += Number(step))).join("\\n") + "\\n"; };`;
  },
};

/** The engine comes beside the script, not after it has run. */
const early: Plugin = {
  name: "early",
  transformIndexHtml: {
    order: "post",
    handler: (_, { bundle }) =>
      Object.keys(bundle ?? {}).filter((name) => name.endsWith(".wasm")).map((name) => ({ tag: "link", attrs: { rel: "preload", href: `./${name}`, as: "fetch", crossorigin: "" }, injectTo: "head" as const })),
  },
};

export default defineConfig({
  base: "./",
  build: {
    outDir: process.env.LASTHOP_PAGE_OUT ?? "../out/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
  },
  plugins: [recordings, early],
  worker: { format: "es" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
