// Writes TOML: values in one line, and a whole scenario with its tables below each other.

export type Table = Record<string, unknown>;

const isTable = (value: unknown): value is Table => typeof value === "object" && value !== null && !Array.isArray(value);
const isTables = (value: unknown): value is Table[] => Array.isArray(value) && value.length > 0 && value.every(isTable);
const key = (name: string): string => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));

/** What is there: TOML has no word for what is not. */
const given = (table: Table): [string, unknown][] => Object.entries(table).filter(([, value]) => value !== null && value !== undefined);

/** No scenario is nested as deeply; a file may be, deeper than calls can go. */
const MOST_DEPTH = 64;

/** A value as it stands behind a key. */
export function toml(value: unknown, depth = 0): string {
  if (depth > MOST_DEPTH) throw new Error(`a value of its scenario is nested more than ${MOST_DEPTH} deep`);
  if (Array.isArray(value)) return `[${value.map((one) => toml(one, depth + 1)).join(", ")}]`;
  if (isTable(value)) return `{ ${given(value).map(([name, inner]) => `${key(name)} = ${toml(inner, depth + 1)}`).join(", ")} }`;
  return JSON.stringify(value);
}

const lines = (entries: [string, unknown][]): string => entries.map(([name, value]) => `${key(name)} = ${toml(value)}\n`).join("");

/** A table as a file. */
export function tomlOf(table: Table): string {
  const all = given(table);
  const own = all.filter(([, value]) => !isTable(value) && !isTables(value));
  const parts = all.flatMap(([name, value]) => {
    if (isTable(value)) return [`[${key(name)}]\n${lines(given(value))}`];
    return isTables(value) ? value.map((one) => `[[${key(name)}]]\n${lines(given(one))}`) : [];
  });
  return [lines(own), ...parts].filter(Boolean).join("\n");
}
