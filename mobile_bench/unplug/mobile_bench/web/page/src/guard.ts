// A page made with --trust: it runs signed bundles only, and none that a newer one, seen here before, took the place of.
import type { Files } from "./bundle";
import { PIPELINE } from "./draw/pipeline";
import { sha256 as sha256Anywhere } from "./sha256";
import { checkAllowed, GENERATOR, MODELS, type Publication, type Trust, type Verified, verify } from "./signed";
import { type Bytes, timeOf } from "./strict";

/** unplug-page-trust/2: whom the page trusts, and whether a bundle lies next to it. */
interface PageTrust extends Trust {
  schema: string;
  bundle: boolean;
}

/** What the page knows of a product from the bundles that it took into use. */
type Seen = Required<Pick<Trust, "minimum_release" | "revoked" | "superseded">>;

/** A bundle that may be used. The bytes in `files` are the ones that were verified: use these and no others. */
export interface Passed {
  files: Files;
  /** Lines for the reader: what was checked, and for how long it counts. */
  notes: string[];
  /** When it has to be checked again, in milliseconds since 1970, or null. */
  ends: number | null;
}

/** What was checked before a bundle was refused, where its signature held. */
export interface Known {
  publication: Publication;
  id: string;
  hint: string;
}

/** `why` is a Refused or an InsecurePage, or what went wrong with the browser's storage. */
export class Refusal extends Error {
  constructor(readonly why: Error, readonly known: Known | null) {
    super(why.message);
  }
}

/** The page itself cannot check anything: it was altered, or came over plain http, where browsers check no signature. */
export class InsecurePage extends Error {}

const SCHEMA = "unplug-page-trust/2";
const BUNDLE = "bundle.zip";
const MAX_TRUST_BYTES = 2 ** 21;
const MAX_BUNDLE_BYTES = 512 * 2 ** 20;

const day = (time: number): string => new Date(time).toLocaleDateString(undefined, { day: "numeric", month: "long", year: "numeric" });

/** A file next to the page, never out of a cache: null where there is none; it stops where the file is larger than `most`. */
async function beside(name: string, most: number): Promise<Bytes | null> {
  const response = await fetch(new URL(name, document.baseURI), { cache: "no-store" }).catch(() => null);
  if (!response?.ok || response.body === null || response.headers.get("content-type")?.includes("text/html")) return null;
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

export class Guard {
  private constructor(private readonly trust: PageTrust, private readonly place: string) {}

  /** Null where the page was made without --trust. */
  static async open(): Promise<Guard | null> {
    const wanted = document.querySelector<HTMLMetaElement>('meta[name="unplug-trust"]')?.content;
    if (wanted === undefined) return null;
    const raw = await beside("trust.json", MAX_TRUST_BYTES);
    if (raw === null || (await sha256Anywhere(raw)) !== wanted) throw new Refusal(new InsecurePage("trust.json is not the one that this page was made with"), null);
    const trust = JSON.parse(new TextDecoder().decode(raw)) as PageTrust;
    if (trust.schema !== SCHEMA) throw new Refusal(new InsecurePage(`the schema of trust.json is not ${SCHEMA}`), null);
    return new Guard(trust, `unplug-seen ${wanted}`);
  }

  /** The zip file of the bundle that lies next to the page, or null. */
  async bundle(): Promise<Bytes | null> {
    if (!this.trust.bundle) return null;
    const bytes = await beside(BUNDLE, MAX_BUNDLE_BYTES);
    if (bytes === null || bytes.length > MAX_BUNDLE_BYTES) throw new Error(`${BUNDLE} is missing, or larger than ${MAX_BUNDLE_BYTES / 2 ** 20} MB`);
    return bytes;
  }

  /** Checks signature and files, and that no newer release was seen. Throws a `Refusal`. */
  async check(files: Files, now = Date.now()): Promise<Passed> {
    if (!globalThis.crypto?.subtle) throw new Refusal(new InsecurePage("browsers check signatures on pages that came over https or from this machine"), null);
    const schema = files.has(PIPELINE) ? GENERATOR : MODELS;
    const verified = await verify(files, this.trust, now, schema).catch((why: Error) => Promise.reject(new Refusal(why, null)));
    try {
      this.remember(verified, now);
    } catch (error) {
      throw new Refusal(error instanceof Error ? error : new Error(String(error)), { ...verified });
    }
    const { publication: said, hint } = verified;
    const ends = said.expires === null ? null : timeOf(said.expires);
    const until = ends === null ? "it has no date of expiry: this page goes on with it" : `this page goes on with it until ${day(ends)}, when it expires, or`;
    const notes = [
      `release ${said.release} of ${said.name}, signed by the key ${hint.slice(0, 16)}; every file is the one that was signed`,
      `${until} until you give it a newer release, and refuses older ones from then on`,
    ];
    return { files, notes, ends };
  }

  /** Refuses what a release that was seen before took the place of, and remembers this one. Only a signed bundle says of which product it is. */
  private remember({ id, publication: said }: Verified, now: number): void {
    const place = `${this.place} ${said.name}`;
    const text = localStorage.getItem(place);
    const seen: Seen = text === null ? { minimum_release: 1, revoked: [], superseded: [] } : (JSON.parse(text) as Seen);
    checkAllowed(id, said, seen, now);
    const next: Seen = {
      minimum_release: Math.max(seen.minimum_release, said.release),
      revoked: [...new Set([...seen.revoked, ...said.revokes])],
      superseded: [...new Set([...seen.superseded, ...said.supersedes])],
    };
    localStorage.setItem(place, JSON.stringify(next));
  }
}
