// Reads a Parquet file into columns, in the worker: numbers as arrays, texts as codes and the distinct texts.

import { decompress } from "fzstd";
import { parquetMetadataAsync, parquetRead } from "hyparquet";
import { saidOf } from "./arrow";
import type { ReadColumn, ReadTable } from "./types";

/** Tables beyond this are for other tools. */
const MOST_ROWS = 5_000_000;
/** No page of a table is unpacked to more than this. */
const MOST_PAGE = 256 << 20;
/** Where a paper's file has its words (python/lasthop/papers/words.py). */
const WORDS = "lasthop.words";

export class TableError extends Error {}

class Building {
  private numbers: Float64Array | null = null;
  private readonly codes: Int32Array;
  private readonly texts = new Map<string, number>();

  constructor(private readonly rows: number) {
    this.codes = new Int32Array(rows).fill(-1);
  }

  put(row: number, value: unknown): void {
    if (value === null || value === undefined || row >= this.rows) return;
    if (typeof value === "number" || typeof value === "bigint") {
      this.numbers ??= new Float64Array(this.rows).fill(Number.NaN);
      this.numbers[row] = Number(value);
      return;
    }
    const text = String(value);
    let code = this.texts.get(text);
    if (code === undefined) {
      code = this.texts.size;
      this.texts.set(text, code);
    }
    this.codes[row] = code;
  }

  get column(): ReadColumn {
    if (this.numbers) return this.numbers;
    return { codes: this.codes, texts: [...this.texts.keys()] };
  }
}

/** The whole table. Throws `TableError` for whatever is no table that can be shown. */
export async function readTable(bytes: ArrayBuffer): Promise<ReadTable> {
  try {
    const file = { byteLength: bytes.byteLength, slice: (start: number, end?: number) => bytes.slice(start, end) };
    const metadata = await parquetMetadataAsync(file);
    const rows = Number(metadata.num_rows);
    if (!(rows >= 0 && rows <= MOST_ROWS)) throw new TableError(`it says that it has ${metadata.num_rows} rows; at most ${MOST_ROWS.toLocaleString("en-GB")} are shown`);
    const names = metadata.schema.filter((one) => one.num_children === undefined || one.num_children === 0).map((one) => one.name);
    const building = new Map(names.map((name) => [name, new Building(rows)]));
    const unpack = (input: Uint8Array, length: number) => {
      if (!(length >= 0 && length <= MOST_PAGE)) throw new TableError("a page of it is too large");
      return decompress(input, new Uint8Array(length));
    };
    await parquetRead({
      file,
      metadata,
      compressors: { ZSTD: unpack },
      onChunk: ({ columnName, columnData, rowStart }) => {
        const one = building.get(columnName);
        for (let place = 0; one && place < columnData.length; place += 1) one.put(rowStart + place, columnData[place]);
      },
    });
    const schema = metadata.key_value_metadata?.find(({ key }) => key === "ARROW:schema")?.value;
    return { rows, columns: Object.fromEntries([...building].map(([name, one]) => [name, one.column])), said: saidOf(schema), words: metadata.key_value_metadata?.find(({ key }) => key === WORDS)?.value ?? null };
  } catch (error) {
    if (error instanceof TableError) throw error;
    throw new TableError(`the Parquet table cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}
