// A page made with --trust: it runs signed bundles only, and of those only what their publisher lets be used now.
import type { Files } from "./bundle";
import { sha256 as sha256Anywhere } from "./sha256";
import { type Publication, type Trust, type Verified, verify } from "./signed";
import { type Bytes, timeOf } from "./strict";
import { checkUpdates, NotCurrent, type Reader, type Seen, standing } from "./updates";

/** unplug-page-trust/1: whom the page trusts, and the root of its update metadata in base64. */
interface PageTrust extends Trust {
  schema: string;
  root: string | null;
  bundle: boolean;
}

/** A bundle that may be used. The bytes in `files` are the ones that were verified: use these and no others. */
export interface Passed {
  files: Files;
  /** Lines for the reader: what was checked. */
  notes: string[];
  /** What the reader should know before it happens, or null. */
  notice: string | null;
  /** When it has to be checked again, in milliseconds since 1970, or null. */
  ends: number | null;
}

/** What was checked before a bundle was refused, where its signature held. */
export interface Known {
  publication: Publication;
  id: string;
  hint: string;
}

/** `why` is a Refused, a NotCurrent or an InsecurePage. */
export class Refusal extends Error {
  constructor(readonly why: Error, readonly known: Known | null) {
    super(why.message);
  }
}

/** The page itself cannot check anything: it was altered, or came over plain http, where browsers check no signature. */
export class InsecurePage extends Error {}

const SCHEMA = "unplug-page-trust/1";
const FOLDER = "updates/metadata/";
const BUNDLE = "bundle.zip";
const MAX_TRUST_BYTES = 2 ** 21;
const MAX_BUNDLE_BYTES = 512 * 2 ** 20;

export const day = (time: number): string => new Date(time).toLocaleDateString(undefined, { day: "numeric", month: "long", year: "numeric" });

/** A file beside the page, never out of a cache: null where there is none; it stops where the file is larger than `most`. */
async function beside(name: string, most: number): Promise<Bytes | null> {
  const response = await fetch(new URL(name, document.baseURI), { cache: "no-store" }).catch(() => null);
  if (response === null) throw new NotCurrent("missing", `${name} was not reached`);
  if (!response.ok || response.body === null || response.headers.get("content-type")?.includes("text/html")) return null;
  const parts: Bytes[] = [];
  let size = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    parts.push(value as Bytes);
    if (size > most) {
      await reader.cancel();
      break;
    }
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const readMetadata: Reader = (name, most) => beside(`${FOLDER}${name}`, most);

const fromBase64 = (text: string): Bytes => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export class Guard {
  private constructor(private readonly trust: PageTrust, private readonly place: string) {}

  /** Null where the page was made without --trust. */
  static async open(): Promise<Guard | null> {
    const wanted = document.querySelector<HTMLMetaElement>('meta[name="unplug-trust"]')?.content;
    if (wanted === undefined) return null;
    const raw = await beside("trust.json", MAX_TRUST_BYTES).catch(() => null);
    if (raw === null || (await sha256Anywhere(raw)) !== wanted) throw new Refusal(new InsecurePage("trust.json is not the one that this page was made with"), null);
    const trust = JSON.parse(new TextDecoder().decode(raw)) as PageTrust;
    if (trust.schema !== SCHEMA) throw new Refusal(new InsecurePage(`trust.json is of another schema than ${SCHEMA}`), null);
    return new Guard(trust, `unplug-updates-seen ${wanted}`);
  }

  /** The zip file of the bundle that lies beside the page, or null. */
  async bundle(): Promise<Bytes | null> {
    if (!this.trust.bundle) return null;
    const bytes = await beside(BUNDLE, MAX_BUNDLE_BYTES);
    if (bytes === null || bytes.length > MAX_BUNDLE_BYTES) throw new Error(`${BUNDLE} is missing, or larger than ${MAX_BUNDLE_BYTES / 2 ** 20} MB`);
    return bytes;
  }

  /** Checks signature, files and freshness. Throws a `Refusal`. */
  async check(files: Files, now = Date.now()): Promise<Passed> {
    if (!globalThis.crypto?.subtle) throw new Refusal(new InsecurePage("browsers check signatures on pages that came over https or from this machine"), null);
    const verified = await verify(files, this.trust, now).catch((why: Error) => Promise.reject(new Refusal(why, null)));
    return this.fresh(verified, now).catch((why: Error) => Promise.reject(new Refusal(why, { ...verified })));
  }

  private async fresh(verified: Verified, now: number): Promise<Passed> {
    const { publication: said, id, hint, files } = verified;
    const expires = said.expires === null ? null : timeOf(said.expires);
    const notes = [`release ${said.release} of ${said.name}, signed by the key ${hint.slice(0, 16)}; every file is the one that was signed`];
    if (this.trust.root === null) return { files, notes, notice: null, ends: expires };
    const updates = await checkUpdates(fromBase64(this.trust.root), readMetadata, this.seen, now);
    localStorage.setItem(this.place, JSON.stringify(updates.seen));
    const { current, stops } = standing(updates, { name: said.name, release: said.release, id, bytes: files.get("manifest.json")!.length }, now);
    notes.push(`its publisher's word on it counts until ${day(updates.until)}`);
    const older = current === said.release ? null : `Release ${current} is the newest; this is release ${said.release}.`;
    const notice = stops === null ? older : `${older ?? ""} It stops working on ${day(stops)}.`;
    const ends = [expires, stops, updates.until].filter((time) => time !== null);
    return { files, notes, notice, ends: Math.min(...ends) };
  }

  private get seen(): Seen | null {
    const text = localStorage.getItem(this.place);
    return text === null ? null : (JSON.parse(text) as Seen);
  }
}
