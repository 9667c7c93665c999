// A table of a study or a paper by itself, without what `lasthop view` says of it: opened from a file, or from beside the page.

import type { ReadTable } from "../engine/types";
import { pool } from "../model/store";
import type { ExploreGiven } from "./given";
import { wordsOf } from "./words";

const MOST_FILE = 64 << 20;

/** Fails if the file is too large; a damaged one says so where it is drawn. */
export async function ofParquet(name: string, file: Blob, where: "opened" | "beside"): Promise<ExploreGiven> {
  if (file.size > MOST_FILE) throw new Error(`${name} has ${Math.round(file.size / 1e6)} MB; at most ${MOST_FILE >> 20} are opened here`);
  let letters = "";
  const bytes = new Uint8Array(await file.arrayBuffer());
  for (let place = 0; place < bytes.length; place += 0x8000) letters += String.fromCharCode(...bytes.subarray(place, place + 0x8000));
  const read: ReadTable | null = await pool.table(bytes.buffer.slice(0)).catch(() => null);
  const form = read && "series" in read.columns && "point" in read.columns ? "series" : "tidy";
  const { about, axes, metrics } = read && form === "series" ? wordsOf(read) : { about: "", axes: [], metrics: [] };
  const table = { file: name.split("/").pop() ?? name, form, parquet: btoa(letters), title: name, about, axes, metrics, x: null, lines: [], studies: [] } as const;
  return { kind: "explore", title: name, alone: { where, name }, sources: [], tables: [{ ...table, lines: [], studies: [] }] };
}
