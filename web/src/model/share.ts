// The scenario in the fragment of a link: compressed, so that it stays short, and never sent to any server.

export interface Shared {
  /** A ready scenario by its name, or the text of another. */
  ready?: string;
  name?: string;
  text?: string;
  files?: Record<string, string>;
  json?: boolean;
  senders?: string[];
  helpers?: string[];
  seeds?: number;
  seed?: number;
}

/** No fragment is unpacked to more than this. */
const MOST = 4 << 20;

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > MOST) throw new Error("the link contains too much");
    parts.push(value);
  }
  const whole = new Uint8Array(length);
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

export async function pack(shared: Shared): Promise<string> {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(shared)), new CompressionStream("deflate-raw"));
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return `s=${btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

const isText = (value: unknown): value is string => typeof value === "string";

/** What a fragment holds; null if it is none of ours. Throws if it is ours and broken. */
export async function unpack(fragment: string): Promise<Shared | null> {
  const packed = /^#?s=([\w-]+)$/.exec(fragment)?.[1];
  if (!packed) return null;
  const letters = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(Uint8Array.from(letters, (letter) => letter.charCodeAt(0)), new DecompressionStream("deflate-raw"));
  const found = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  const shared: Shared = {};
  if (isText(found["ready"])) shared.ready = found["ready"];
  if (isText(found["name"])) shared.name = found["name"].slice(0, 100);
  if (isText(found["text"])) shared.text = found["text"];
  if (found["json"] === true) shared.json = true;
  if (found["files"] && typeof found["files"] === "object") {
    shared.files = Object.fromEntries(Object.entries(found["files"]).filter((pair): pair is [string, string] => isText(pair[1])));
  }
  if (Array.isArray(found["senders"])) shared.senders = found["senders"].filter(isText).slice(0, 6);
  if (Array.isArray(found["helpers"])) shared.helpers = found["helpers"].filter(isText).slice(0, 6);
  if (Number.isInteger(found["seeds"])) shared.seeds = Math.min(50, Math.max(1, Number(found["seeds"])));
  if (Number.isInteger(found["seed"])) shared.seed = Math.max(0, Number(found["seed"]));
  return shared;
}
