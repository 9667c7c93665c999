// Controls made of the key table: the engine's JSON schema says of every key what it holds, in which units and range,
// and what it means. Nothing here lists keys of scenarios.

type Node = Record<string, unknown>;

export interface Control {
  /** As in `--set`. */
  path: string;
  /** Last key, for people. */
  label: string;
  group: string;
  help: string;
  value: unknown;
  /** `drawn`: a distribution stands here, and `value` is its name. */
  kind: "quantity" | "number" | "integer" | "share" | "switch" | "choice" | "text" | "drawn";
  units: string[];
  choices: string[];
  min: number | null;
  max: number | null;
  /** In words, for quantities. */
  range: string;
  /** Unit of a number that is written without one; empty if it has none. */
  unit: string;
  /** The default, as the schema says it; of what is drawn, a single value in its place. */
  standard: unknown;
}

/** What distributions have in their middle, or where they begin. */
const MIDDLE = ["mean", "median", "low"];

/** A key that is not in the scenario, but may be. */
export interface Absent {
  path: string;
  help: string;
  standard: string;
}

const MOST_CONTROLS = 200;

export class Keys {
  private readonly definitions: Record<string, Node>;

  constructor(private readonly schema: Node) {
    this.definitions = (schema["$defs"] ?? {}) as Record<string, Node>;
  }

  /** The names of transports, in the order of the engine. */
  get transports(): string[] {
    const forms = (this.definitions["transport"]?.["anyOf"] ?? []) as Node[];
    return (forms.find((form) => Array.isArray(form["enum"]))?.["enum"] ?? []) as string[];
  }

  /** What a transport is, in one line. */
  aboutTransport(name: string): string {
    const forms = (this.definitions["transport"]?.["anyOf"] ?? []) as Node[];
    const names = (form: Node, key: string) => {
      const property = (form["properties"] as Record<string, Node> | undefined)?.[key];
      return (property?.["enum"] ?? []) as string[];
    };
    const own = forms.find((form) => form["title"] === name || form["title"] === `TCP with ${name}`);
    const found = own ?? forms.find((form) => names(form, "preset").includes(name));
    return String(found?.["description"] ?? "");
  }

  /** A control for every value that a scenario gives, in its order. */
  controls(scenario: unknown): { controls: Control[]; absent: Absent[] } {
    const controls: Control[] = [];
    const absent: Absent[] = [];
    this.walk(scenario, this.schema, [], "", "", controls, absent);
    return { controls: controls.slice(0, MOST_CONTROLS), absent };
  }

  private resolve(node: Node): Node {
    const reference = node["$ref"];
    if (typeof reference !== "string") return node;
    const found = this.definitions[reference.split("/").pop() ?? ""] ?? {};
    return { ...found, ...node, $ref: undefined };
  }

  /** The form of a definition that fits a value. */
  private form(of: Node, value: unknown): Node {
    const node = this.resolve(of);
    const forms = node["anyOf"] as Node[] | undefined;
    if (!forms) return node;
    const inner = forms.map((one) => this.resolve(one));
    const keep = { description: node["description"], default: node["default"], title: node["title"] };
    const fits = inner.find((one) => this.fits(one, value));
    const found = fits?.["anyOf"] ? this.form(fits, value) : fits;
    return { ...(found ?? {}), ...Object.fromEntries(Object.entries(keep).filter(([, text]) => text !== undefined)) };
  }

  private fits(node: Node, value: unknown): boolean {
    if (Array.isArray(node["anyOf"])) return (node["anyOf"] as Node[]).some((one) => this.fits(this.resolve(one), value));
    if (Array.isArray(node["enum"])) return (node["enum"] as unknown[]).includes(value);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      if (node["type"] !== "object") return false;
      const properties = (node["properties"] ?? {}) as Record<string, Node>;
      return Object.entries(value as Node).every(([key, inner]) => {
        const property = properties[key];
        if (!property) return false;
        if (property["const"] !== undefined) return property["const"] === inner;
        return !["kind", "preset", "cc", "rate"].includes(key) || !Array.isArray(property["enum"]) || (property["enum"] as unknown[]).includes(inner);
      });
    }
    if (typeof value === "number") return node["type"] === "number" || node["type"] === "integer";
    if (typeof value === "boolean") return node["type"] === "boolean";
    if (typeof value === "string") {
      const pattern = node["pattern"];
      return node["type"] === "string" && (typeof pattern !== "string" || new RegExp(pattern).test(value));
    }
    return Array.isArray(value) && node["type"] === "array";
  }

  private walk(value: unknown, of: Node, path: string[], group: string, help: string, controls: Control[], absent: Absent[]): void {
    const node = this.form(of, value);
    const about = String(node["description"] ?? help);
    if (Array.isArray(value)) {
      const items = (node["items"] ?? {}) as Node;
      if (!value.some((one) => one !== null && typeof one === "object")) return;
      value.forEach((one, index) => {
        const title = titleOf(one as Node | null, path.at(-1) ?? "", value.length > 1 ? index + 1 : null);
        // What it is one of stands in its title already.
        const above = group === inWords(path.at(-1) ?? "") ? "" : group;
        this.walk(one, items, [...path, String(index)], path.length <= 1 || above === "" ? title : `${above}, ${title}`, about, controls, absent);
      });
      return;
    }
    if (value !== null && typeof value === "object") {
      const properties = (node["properties"] ?? {}) as Record<string, Node>;
      const drawn = properties["distribution"] ? undefined : this.distribution(value as Node);
      if (drawn) {
        this.random(value as Node, drawn, of, path, group, about, controls);
        return;
      }
      for (const [key, inner] of Object.entries(value as Node)) {
        const property = properties[key];
        if (!property || key === "kind" || property["const"] !== undefined) continue;
        const isTable = inner !== null && typeof inner === "object";
        const next = isTable && !/^\d+$/.test(key) ? this.groupOf(path, key, group) : group;
        this.walk(inner, property, [...path, key], next, "", controls, absent);
      }
      for (const [key, property] of Object.entries(properties)) {
        if (key in (value as Node) || key === "kind") continue;
        const leaf = this.resolve(property);
        if (property["$ref"] || leaf["default"] === undefined || typeof leaf["default"] === "object") continue;
        if (leaf["type"] === "object" || leaf["anyOf"]) continue;
        const standard = leaf["default"];
        const text = typeof standard === "string" ? JSON.stringify(standard) : String(standard);
        absent.push({ path: [...path, key].join("."), help: String(leaf["description"] ?? ""), standard: text });
      }
      return;
    }
    const control = this.leaf(value, node, path, group, about);
    if (control) controls.push(control);
  }

  /** What a random value consists of, if this is one. */
  private distribution(value: Node): Node | undefined {
    const forms = (this.definitions["random-value"]?.["anyOf"] ?? []) as Node[];
    return forms.find((form) => (form["properties"] as Record<string, Node>)["distribution"]?.["const"] === value["distribution"]);
  }

  /** A random value: its distribution, then the numbers of that, which have the units of what is drawn if they are some of it. */
  private random(value: Node, drawn: Node, of: Node, path: string[], group: string, help: string, controls: Control[]): void {
    const name = String(value["distribution"]);
    const [first] = [...MIDDLE.map((key) => value[key]), (value["values"] as unknown[] | undefined)?.[0]].filter((one) => one !== undefined);
    const about = [help, `Drawn at random with the seed of the run: ${name}. ${String(drawn["description"] ?? "")}`].filter(Boolean).join(" ");
    controls.push({
      path: path.join("."), label: inWords(path.at(-1) ?? ""), group: group || "run", help: about, value: name, kind: "drawn",
      units: [], choices: [], min: null, max: null, range: "", unit: "", standard: first,
    });
    for (const [key, inner] of Object.entries(value)) {
      const own = (drawn["properties"] as Record<string, Node>)[key];
      if (!own || key === "distribution") continue;
      const list = Array.isArray(inner) ? inner : [inner];
      const item = Array.isArray(inner) ? ((own["items"] ?? {}) as Node) : own;
      list.forEach((one: unknown, place) => {
        const at = Array.isArray(inner) ? [...path, key, String(place)] : [...path, key];
        const control = this.leaf(one, this.form(item["anyOf"] ? of : item, one), at, group, String(own["description"] ?? ""));
        if (control) controls.push(Array.isArray(inner) ? { ...control, label: `${key.replace(/s$/, "")} ${place + 1}` } : control);
      });
    }
  }

  private groupOf(path: string[], key: string, group: string): string {
    const words = inWords(key);
    return path.length === 0 || (path.length === 1 && path[0] === "topology") ? words : `${group}, ${words}`;
  }

  private leaf(value: unknown, node: Node, path: string[], group: string, help: string): Control | null {
    const label = inWords(path.at(-1) ?? "");
    const base = {
      path: path.join("."), label, group: group || "run", help, value, units: [] as string[], choices: [] as string[],
      min: typeof node["minimum"] === "number" ? node["minimum"] : null,
      max: typeof node["maximum"] === "number" ? node["maximum"] : null,
      range: String(node["$comment"] ?? ""), unit: String(node["unit"] ?? ""), standard: node["default"],
    };
    if (["name", "seed", "file"].includes(path.at(-1) ?? "") || ["source", "sink", "from", "to", "node", "access_point"].includes(path.at(-1) ?? "")) return null;
    if (/(^|\.)(transport|rate)$/.test(base.path) && path[0] === "flows" && path.at(-1) === "transport") return null;
    if (Array.isArray(node["enum"])) return { ...base, kind: "choice", choices: node["enum"] as string[] };
    if (typeof value === "boolean") return { ...base, kind: "switch" };
    if (typeof value === "number") {
      const share = base.min === 0 && base.max === 1;
      return { ...base, kind: share ? "share" : node["type"] === "integer" ? "integer" : "number" };
    }
    if (typeof value !== "string") return null;
    const pattern = typeof node["pattern"] === "string" ? node["pattern"] : "";
    const units = / \*\(([^)]*)\)/.exec(pattern)?.[1]?.split("|") ?? [];
    return { ...base, kind: units.length > 0 ? "quantity" : "text", units };
  }
}

const inWords = (key: string): string => key.replaceAll("_", " ");

/** What a table of a list is called: by its name, by what it joins, or by its number among them. */
function titleOf(one: Node | null, list: string, number: number | null): string {
  const { name, from, to } = (one ?? {}) as Record<string, unknown>;
  if (typeof name === "string") return name;
  if (typeof from === "string" && typeof to === "string") return `link ${from}-${to}`;
  const single = list.endsWith("s") ? list.slice(0, -1) : list;
  return number === null ? single : `${single} ${number}`;
}

/** What a person typed as a number, or what is wrong with it. */
export function readNumber(typed: string): number | string {
  const text = typed.trim();
  if (/^[+-]?\d+,\d+$/.test(text)) return `“${text}”: write the decimals behind a point, ${text.replace(",", ".")}`;
  if (text === "" || !/^[+-]?(\d[\d_]*)?(\.\d*)?([eE][+-]?\d+)?$/.test(text)) return `“${text}” is not a number`;
  const number = Number(text.replaceAll("_", ""));
  return Number.isFinite(number) ? number : `“${text}” is not a number`;
}

/** Number and unit of a quantity. */
export function parseQuantity(text: string): { number: number; unit: string } | null {
  const found = /^([0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?) *(.*)$/.exec(text);
  if (!found) return null;
  return { number: Number((found[1] ?? "").replaceAll("_", "")), unit: found[2] ?? "" };
}

/** A number as a person would write it: three digits, no exponent. */
export function plain(value: number): string {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(12, digits))));
}
