// Writes TOML: values in one line, and a whole scenario with its tables below each other.

export type Table = Record<string, unknown>;

const isTable = (value: unknown): value is Table => typeof value === "object" && value !== null && !Array.isArray(value);
const isTables = (value: unknown): value is Table[] => Array.isArray(value) && value.length > 0 && value.every(isTable);
const key = (name: string): string => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));

/** What is there: TOML has no word for what is not. */
const given = (table: Table): [string, unknown][] => Object.entries(table).filter(([, value]) => value !== null && value !== undefined);

/** A value as it stands behind a key. */
export function toml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (isTable(value)) return `{ ${given(value).map(([name, inner]) => `${key(name)} = ${toml(inner)}`).join(", ")} }`;
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
