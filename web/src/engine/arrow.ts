// What an Arrow schema says of its columns, such as the label and the unit of each. A Parquet file that was written by way
// of Arrow, as those of `lasthop study`, has the schema as a message in its footer. The message is a FlatBuffer; of it only
// names and texts of columns are read (Schema.fbs and Message.fbs of Arrow have the numbers of the fields).

/** Label, unit and so on of each column. */
export type Said = Record<string, Record<string, string>>;

/** Numbers of fields in their tables. */
const HEADER = 2;
const FIELDS = 1;
const NAME = 0;
const FIELD_WORDS = 6;
const [KEY, VALUE] = [0, 1];
/** A message that begins with this has its length behind it. */
const CONTINUES = 0xffffffff;

/** What an entry of a list takes at least in the file, in bytes: where its table is, and the table. */
const LEAST_ENTRY = 8;

class Flat {
  /** What may still be read, in bytes. Places may lead to the same list or text again and again; of what was written for
   * one column each, no byte is read twice. */
  private left: number;

  constructor(private readonly bytes: DataView) {
    this.left = bytes.byteLength;
  }

  private spend(count: number): void {
    this.left -= count;
    if (this.left < 0) throw new RangeError("more is read than there is");
  }

  /** Where a place leads. */
  to(place: number): number {
    return place + this.bytes.getUint32(place, true);
  }

  /** Where a field of a table is; null where it is left out. */
  field(table: number, number: number): number | null {
    const known = table - this.bytes.getInt32(table, true);
    const at = 4 + 2 * number;
    const offset = at < this.bytes.getUint16(known, true) ? this.bytes.getUint16(known + at, true) : 0;
    return offset === 0 ? null : table + offset;
  }

  text(table: number, number: number): string {
    const place = this.field(table, number);
    if (place === null) return "";
    const at = this.to(place);
    const length = this.bytes.getUint32(at, true);
    this.spend(length);
    return new TextDecoder().decode(new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + at + 4, length));
  }

  /** The tables of a list. */
  tables(table: number, number: number): number[] {
    const place = this.field(table, number);
    if (place === null) return [];
    const at = this.to(place);
    const length = this.bytes.getUint32(at, true);
    this.spend(LEAST_ENTRY * length);
    return Array.from({ length }, (_, one) => this.to(at + 4 + 4 * one));
  }
}

/** What the message says; nothing if it is none, for the columns are there without it. */
export function saidOf(base64: string | undefined): Said {
  if (base64 === undefined) return {};
  try {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const whole = new DataView(bytes.buffer);
    const start = whole.getUint32(0, true) === CONTINUES ? 8 : 4;
    const flat = new Flat(new DataView(bytes.buffer, start));
    const message = flat.to(0);
    const header = flat.field(message, HEADER);
    if (header === null) return {};
    const fields = flat.tables(flat.to(header), FIELDS);
    return Object.fromEntries(fields.map((one) => [flat.text(one, NAME), Object.fromEntries(flat.tables(one, FIELD_WORDS).map((word) => [flat.text(word, KEY), flat.text(word, VALUE)]))]));
  } catch {
    return {};
  }
}
