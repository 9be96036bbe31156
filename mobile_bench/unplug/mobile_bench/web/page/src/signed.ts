// The verifier of signed bundles, step by step as docs/formats.md has it; the twin of unplug.trust.bundle.verify. WebCrypto only.
import type { Files } from "./bundle";
import { importKey, readKey, signedBy } from "./p256";
import { byCodePoint, type Bytes, canonical, type Dict, DIGEST, hasKeys, isCount, isDict, isText, type Json, sha256, strictJson, timeOf } from "./strict";

export type Verdict =
  | "archive" | "link" | "too-many" | "unsafe-name" | "collision" | "no-bundle" | "too-large" | "unsigned" | "envelope"
  | "wrong-type" | "unknown-key" | "certificate" | "bad-signature" | "statement" | "excluded" | "manifest" | "wrong-version"
  | "another-product" | "expired" | "revoked" | "superseded" | "downgraded" | "missing" | "unlisted" | "wrong-size" | "changed"; // prettier-ignore

/** A bundle that must not be used, and the word for why, the same in every language. */
export class Refused extends Error {
  constructor(readonly verdict: Verdict, why: string) {
    super(why);
  }
}

/** What a reader knows before it opens a bundle; keys in PEM form. */
export interface Trust {
  keys: string[];
  name?: string | null;
  minimum_release?: number;
  revoked?: string[];
  superseded?: string[];
}

export interface Publication {
  name: string;
  release: number;
  expires: string | null;
  supersedes: string[];
  revokes: string[];
  requests: string[];
}

/** A bundle that its signer made. The bytes in `files` are the ones that were hashed: use these and no others. */
export interface Verified {
  id: string;
  hint: string;
  publication: Publication;
  manifest: Json;
  files: Files;
}

/** The schema of a bundle of models, and of one of a base of exported files. */
export const [MODELS, GENERATOR] = ["unplug-bundle/2", "unplug-generator-bundle/1"] as const;
const MANIFEST = "manifest.json";
const SIGNATURE = "model.sig";
const MAX_FILES = 4096;
const MAX_BYTES = 8 * 2 ** 20;
const MAX_NAMED = 1000;
const MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://model_signing/signature/v1.0";
const PART = /^[A-Za-z0-9](?:[A-Za-z0-9_.+-]{0,198}[A-Za-z0-9_+-])?$/;
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?$/i;

function need(holds: boolean, verdict: Verdict, why: string): asserts holds {
  if (!holds) throw new Refused(verdict, why);
}

function parsed(bytes: Bytes, verdict: Verdict, what: string): Json {
  try {
    return strictJson(bytes);
  } catch (error) {
    throw new Refused(verdict, `${what} is not strict JSON (${error instanceof Error ? error.message.slice(0, 200) : ""})`);
  }
}

function checkNames(names: string[]): void {
  need(names.length <= MAX_FILES + 2, "too-many", `more than ${MAX_FILES} files`);
  const known = new Map<string, string>();
  for (const name of names) {
    const parts = name.split("/");
    const safe = name.length <= 400 && parts.every((part) => PART.test(part) && !DEVICE.test(part));
    need(safe, "unsafe-name", `an unsafe file ${JSON.stringify(name.slice(0, 80))}`);
    for (let count = 1; count <= parts.length; count++) {
      const prefix = parts.slice(0, count).join("/");
      const other = known.get(prefix.toLowerCase()) ?? prefix;
      need(other === prefix, "collision", `${prefix} and ${other} are one file where case does not count`);
      known.set(prefix.toLowerCase(), prefix);
    }
  }
}

function base64(text: Json | undefined): Bytes {
  if (typeof text === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0) {
    const binary = atob(text);
    if (btoa(binary) === text) return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  }
  throw new Refused("envelope", "its base64 is not in the one standard spelling");
}

/** Steps 3: the signature file, taken apart. */
function readEnvelope(bytes: Bytes): { payload: Bytes; signature: Bytes; hint: string } {
  const value = parsed(bytes, "envelope", "the signature");
  need(hasKeys(value, ["mediaType", "verificationMaterial", "dsseEnvelope"]), "envelope", "the signature is not a Sigstore bundle");
  need(value.mediaType === MEDIA_TYPE, "wrong-type", `its media type is not ${MEDIA_TYPE}`);
  const { verificationMaterial: material, dsseEnvelope: inner } = value;
  need(isDict(material), "envelope", "it names no key");
  const certified = Object.hasOwn(material, "certificate") || Object.hasOwn(material, "x509CertificateChain");
  need(!certified, "certificate", "its signer is named by a certificate, and only plain keys are read here");
  need(hasKeys(material, ["publicKey"], ["tlogEntries"]), "envelope", "it names no key, or more than one");
  const log = Object.hasOwn(material, "tlogEntries") ? material.tlogEntries : [];
  need(Array.isArray(log) && log.length === 0, "envelope", "it has entries of a log that nobody checks");
  need(hasKeys(inner, ["payload", "payloadType", "signatures"]), "envelope", "it holds no DSSE envelope");
  need(inner.payloadType === PAYLOAD_TYPE, "wrong-type", `its payload is not of the type ${PAYLOAD_TYPE}`);
  const signatures = inner.signatures;
  need(Array.isArray(signatures) && signatures.length === 1, "envelope", "it does not hold exactly one signature");
  const [one] = signatures;
  need(hasKeys(one, ["sig"], ["keyid"]), "envelope", "its signature has other fields than DSSE's");
  need(!Object.hasOwn(one, "keyid") || one.keyid === "" || one.keyid === null, "envelope", "its signature names a second key");
  const key = material.publicKey;
  need(hasKeys(key, ["hint"]) && isText(key.hint, DIGEST), "envelope", "its key is not named by a fingerprint");
  return { payload: base64(inner.payload), signature: base64(one.sig), hint: key.hint };
}

/** Steps 4 and 5: the trusted key of that fingerprint made the signature over this payload. */
async function checkSignature(payload: Bytes, signature: Bytes, hint: string, trust: Trust): Promise<void> {
  const keys = await Promise.all(trust.keys.map(readKey));
  const key = keys.find((known) => known.hint === hint);
  need(key !== undefined, "unknown-key", `signed by an unknown key (${hint.slice(0, 16)})`);
  const head = new TextEncoder().encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `);
  const signed = new Uint8Array(head.length + payload.length);
  signed.set(head);
  signed.set(payload, head.length);
  const holds = await signedBy(await importKey(key), signature, signed);
  need(holds, "bad-signature", "its signature is not that of the key it names, over what it holds");
}

/** Step 6: SHA-256 of every file by its path, out of the signed statement. */
async function readStatement(payload: Bytes): Promise<Map<string, string>> {
  const value = parsed(payload, "statement", "what is signed");
  need(hasKeys(value, ["_type", "subject", "predicateType", "predicate"]), "statement", "what is signed is not an in-toto statement");
  const known = value._type === STATEMENT_TYPE && value.predicateType === PREDICATE_TYPE;
  need(known, "wrong-type", "what is signed is a statement of another kind");
  const predicate = value.predicate;
  need(hasKeys(predicate, ["resources", "serialization"]), "statement", "its predicate has other fields");
  const way = predicate.serialization;
  need(hasKeys(way, ["method", "hash_type", "allow_symlinks"], ["ignore_paths"]), "statement", "it does not say how files were hashed");
  need(way.method === "files" && way.hash_type === "sha256", "excluded", "its files are not hashed whole by SHA-256");
  need(way.allow_symlinks === false, "excluded", "its signer followed links");
  const ignored = Object.hasOwn(way, "ignore_paths") ? canonical(way.ignore_paths!) : "[]";
  need(ignored === "[]" || ignored === `["${SIGNATURE}"]`, "excluded", "its signer left files out");
  const resources = predicate.resources;
  need(Array.isArray(resources) && resources.length > 0, "statement", "it lists no files");
  const listed = resources.map((item): [string, string] => {
    const plain = isDict(item) && typeof item.name === "string" && item.algorithm === "sha256" && isText(item.digest, DIGEST);
    need(plain, "statement", "it lists no files");
    return [item.name as string, item.digest as string];
  });
  checkNames(listed.map(([name]) => name));
  need(listed.every(([name], at) => at === 0 || listed[at - 1]![0] < name), "statement", "its files are not in order");
  const sum = new Uint8Array(32 * listed.length);
  listed.forEach(([, digest], at) => sum.set(digest.match(/../g)!.map((pair) => parseInt(pair, 16)), 32 * at));
  const subject = value.subject;
  need(Array.isArray(subject) && subject.length === 1 && isDict(subject[0]), "statement", "it is not about one bundle");
  const digest = subject[0].digest;
  need(hasKeys(digest, ["sha256"]) && digest.sha256 === (await sha256(sum)), "statement", "its subject is not the sum of its files");
  return new Map(listed);
}

function isPublication(said: Json | undefined): said is Dict & Publication {
  if (!hasKeys(said, ["name", "release", "expires", "supersedes", "revokes", "requests"])) return false;
  const lists: [Json | undefined, RegExp][] = [[said.supersedes, DIGEST], [said.revokes, DIGEST], [said.requests, /^[ -~]{1,200}$/]];
  return (
    isText(said.name, /^[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}$/) && isCount(said.release) && said.release >= 1 &&
    (said.expires === null || timeOf(said.expires!) !== null) &&
    lists.every(([items, form]) => Array.isArray(items) && items.length <= MAX_NAMED && items.every((item) => isText(item, form)))
  ); // prettier-ignore
}

/** Step 7: the canonical manifest, which says of the same files what the signed statement says. */
function readManifest(bytes: Bytes, files: Map<string, string>, schema: string): { value: Dict; said: Publication; sizes: Map<string, number> } {
  const value = parsed(bytes, "manifest", MANIFEST);
  need(canonical(value) === new TextDecoder().decode(bytes), "manifest", `${MANIFEST} is in another spelling than RFC 8785's`);
  need(isDict(value) && value.schema === schema, "wrong-version", `${MANIFEST} is not of the schema ${schema}`);
  const { files: listed, publication: said } = value;
  need(isDict(listed) && isPublication(said), "manifest", `${MANIFEST} does not say what was published, or lists no files`);
  const sizes = new Map<string, number>();
  for (const [name, entry] of Object.entries(listed)) {
    const plain = hasKeys(entry, ["sha256", "bytes"]) && isText(entry.sha256, DIGEST) && isCount(entry.bytes);
    need(plain, "manifest", `${MANIFEST} lists no files`);
    sizes.set(name, entry.bytes as number);
    need(name !== MANIFEST && files.get(name) === entry.sha256, "manifest", `${MANIFEST} and the signature list different files`);
  }
  need(sizes.size + 1 === files.size, "manifest", `${MANIFEST} and the signature list different files`);
  return { value, said, sizes };
}

/** Step 8: the product that is expected, not expired, not taken back, not older than what was seen. */
export function checkAllowed(id: string, said: Publication, trust: Omit<Trust, "keys">, now: number): void {
  need(trust.name == null || trust.name === said.name, "another-product", `it is ${said.name}, and ${trust.name} is expected`);
  const expires = said.expires === null ? null : timeOf(said.expires);
  need(expires === null || now < expires, "expired", `it expired at ${said.expires}`);
  need(!trust.revoked?.includes(id), "revoked", "it was revoked");
  need(!trust.superseded?.includes(id), "superseded", "a newer release took its place");
  need(said.release >= (trust.minimum_release ?? 1), "downgraded", `it is release ${said.release}, older than ${trust.minimum_release}`);
}

/** Step 9: all files that are listed and no others, sizes before hashes. */
async function checkContents(files: Files, digests: Map<string, string>, sizes: Map<string, number>): Promise<void> {
  const listed = [...digests.keys()].sort(byCodePoint);
  for (const name of listed) need(files.has(name), "missing", `${name} is missing`);
  for (const name of [...files.keys()].sort(byCodePoint)) need(digests.has(name) || name === SIGNATURE, "unlisted", `${name} is not in ${MANIFEST}`);
  for (const [name, size] of sizes) need(files.get(name)!.length === size, "wrong-size", `${name} was changed`);
  for (const name of sizes.keys()) need((await sha256(files.get(name)!)) === digests.get(name), "changed", `${name} was changed`);
}

/**
 * Checks a bundle, cheap steps first; nothing of it is believed before its signature, and no file hashed before its size.
 *
 * @param files every file by its path, as it was dropped or unpacked
 * @param trust the keys and releases that the reader knows
 * @param now milliseconds since 1970
 * @param schema the schema of the manifest
 */
export async function verify(files: Files, trust: Trust, now = Date.now(), schema: string = MODELS): Promise<Verified> {
  need(files.size <= MAX_FILES + 2, "too-many", `more than ${MAX_FILES} files`); // 1
  checkNames([...files.keys()].sort(byCodePoint));
  const [manifest, signature] = [files.get(MANIFEST), files.get(SIGNATURE)]; // 2
  need(manifest !== undefined, "no-bundle", `no ${MANIFEST} in it`);
  need(signature !== undefined, "unsigned", "it is not signed");
  need(signature.length <= MAX_BYTES, "too-large", `${SIGNATURE} is larger than ${MAX_BYTES} bytes`);
  const found = readEnvelope(signature); // 3
  await checkSignature(found.payload, found.signature, found.hint, trust); // 4 and 5
  const digests = await readStatement(found.payload); // 6
  need(manifest.length <= MAX_BYTES, "too-large", `${MANIFEST} is larger than ${MAX_BYTES} bytes`);
  const id = await sha256(manifest); // 7
  need(digests.get(MANIFEST) === id, "changed", `${MANIFEST} is not the one that was signed`);
  const { value, said, sizes } = readManifest(manifest, digests, schema);
  checkAllowed(id, said, trust, now); // 8
  await checkContents(files, digests, sizes); // 9
  return { id, hint: found.hint, publication: said, manifest: value, files };
}
