// JSON of which there is one reading, and the few things that the verifier of signed.ts asks of it. WebCrypto only.

export type Bytes = Uint8Array<ArrayBuffer>;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Dict = { [key: string]: Json };

const MAX_DEPTH = 64;
export const DIGEST = /^[0-9a-f]{64}$/;

export const hex = (bytes: Uint8Array): string => [...bytes].map((value) => value.toString(16).padStart(2, "0")).join("");
export const sha256 = async (bytes: Bytes): Promise<string> => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
export const isDict = (value: Json | undefined): value is Dict => typeof value === "object" && value !== null && !Array.isArray(value);
export const isText = (value: Json | undefined, form: RegExp): value is string => typeof value === "string" && form.test(value);
export const isCount = (value: Json | undefined): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Whether a value is an object of just these fields. */
export function hasKeys(value: Json | undefined, required: string[], optional: string[] = []): value is Dict {
  if (!isDict(value)) return false;
  const keys = Object.keys(value);
  return required.every((key) => Object.hasOwn(value, key)) && keys.every((key) => required.includes(key) || optional.includes(key));
}

/** By code points, as Python sorts; names that were checked are ASCII, others may not be. */
export const byCodePoint = (a: string, b: string): number => {
  const [left, right] = [[...a], [...b]];
  for (let at = 0; at < Math.min(left.length, right.length); at++) {
    const difference = left[at]!.codePointAt(0)! - right[at]!.codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
};

/** JSON of which there is one reading: no key twice, numbers that a double keeps, bounded depth. Throws where it is none. */
export function strictJson(bytes: Bytes): Json {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  const value = JSON.parse(text) as Json;
  const open: (Set<string> | null)[] = [];
  // The text is JSON by now, so that its strings and brackets are all that must be told apart.
  for (const found of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[[\]{}]|-?[0-9][0-9.eE+-]*/g)) {
    const token = found[0];
    if (token === "{" || token === "[") {
      open.push(token === "{" ? new Set() : null);
      if (open.length > MAX_DEPTH) throw new Error(`nested more than ${MAX_DEPTH} deep`);
    } else if (token === "}" || token === "]") open.pop();
    else if (token.startsWith('"')) {
      const string = JSON.parse(token.slice(0, token.length - (found[1]?.length ?? 0))) as string;
      if (/\p{Surrogate}/u.test(string)) throw new Error("half a character");
      const keys = open.at(-1);
      if (found[1] !== undefined && keys) {
        if (keys.has(string)) throw new Error("it has a key twice");
        keys.add(string);
      }
    } else if (!(Math.abs(Number(token)) <= Number.MAX_SAFE_INTEGER)) throw new Error("a number that a double does not keep");
  }
  return value;
}

/** RFC 8785. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isDict(value)) return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key]!)}`).join(",")}}`; // prettier-ignore
}

/** Milliseconds of a UTC time in the one spelling that manifests use, or null. */
export function timeOf(text: Json): number | null {
  if (!isText(text, /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)) return null;
  const time = Date.parse(text);
  return Number.isFinite(time) && `${new Date(time).toISOString().slice(0, 19)}Z` === text ? time : null;
}
