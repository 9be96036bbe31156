// The reader of update metadata, step by step as docs/updates.md has it; the twin of unplug.sdk.updates.check_updates. WebCrypto only.
import { importKey, readKey, signedBy } from "./p256";
import { byCodePoint, type Bytes, type Dict, DIGEST, hasKeys, isCount, isDict, isText, type Json, sha256, strictJson, timeOf } from "./strict";

export type UpdateVerdict =
  | "missing" | "too-large" | "format" | "signature" | "rollback" | "stale" | "wrong-size" | "changed" | "mismatch"
  | "unknown-product" | "superseded" | "unpublished" | "revoked" | "retired"; // prettier-ignore

/** Metadata that must not be believed, or a release that must not be used any more, and the word for why, the same in every language. */
export class NotCurrent extends Error {
  constructor(readonly verdict: UpdateVerdict, why: string) {
    super(why);
  }
}

/** unplug-updates-seen/1: the highest versions, and who signed them; the caller keeps it. */
export interface Seen {
  schema: "unplug-updates-seen/1";
  root: number;
  timestamp: number;
  snapshot: number;
  targets: number;
  timestamp_keys: string[];
  snapshot_keys: string[];
}

/** Gets a file of at most so many bytes: null where there is none, more bytes where it is larger. */
export type Reader = (name: string, most: number) => Promise<Bytes | null>;

interface Product {
  release: number;
  id: string;
  bytes: number;
  minimum: number;
  retiring: { below: number; until: number }[];
  releases: Map<number, string>;
  revoked: Set<number>;
}

/** Metadata that holds. `until` is when this answer ends, in milliseconds since 1970. */
export interface Updates {
  products: Map<string, Product>;
  until: number;
  seen: Seen;
}

/** A bundle by what its signed manifest says, and that manifest's SHA-256 and bytes. */
export interface Claim {
  name: string;
  release: number;
  id: string;
  bytes: number;
}

/** A release that may be used; `stops` is when a newer one takes its place, or null. */
export interface Standing {
  current: number;
  stops: number | null;
}

type Kind = "root" | "timestamp" | "snapshot" | "targets";

interface Signed {
  kind: Kind;
  name: string;
  version: number;
  expires: number;
  body: Dict;
  signatures: Map<string, Bytes>;
}

interface Role {
  keys: Map<string, CryptoKey>;
  threshold: number;
}

interface Meta {
  version: number;
  length: number;
  digest: string;
}

const KINDS: Kind[] = ["root", "timestamp", "snapshot", "targets"];
const LIMITS: Record<Kind, number> = { root: 512_000, timestamp: 16_384, snapshot: 2_000_000, targets: 5_000_000 };
const MAX_ROOTS = 256;
const MAX_KEYS = 64;
const MAX_LISTED = 1000;
const MAX_RETIRING = 100;

function need(holds: boolean, why: string, verdict: UpdateVerdict = "format"): asserts holds {
  if (!holds) throw new NotCurrent(verdict, why);
}

const isFirst = (value: Json | undefined): value is number => isCount(value) && value >= 1;
const written = (time: number): string => `${new Date(time).toISOString().slice(0, 19)}Z`;

/** OLPC's canonical JSON, over which TUF signs: sorted keys, no spaces, only quotes and backslashes escaped. */
function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (isDict(value)) return `{${Object.keys(value).sort(byCodePoint).map((key) => `${canonicalText(key)}:${canonicalText(value[key]!)}`).join(",")}}`; // prettier-ignore
  return typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : String(value);
}

const signedBytes = (value: Json): Bytes => new TextEncoder().encode(canonicalText(value));

/** Takes a file apart; nothing of it is believed by that. */
function readSigned(bytes: Bytes, kind: Kind, name: string): Signed {
  let value: Json;
  try {
    value = strictJson(bytes, true);
  } catch (error) {
    throw new NotCurrent("format", `${name} is no strict JSON (${error instanceof Error ? error.message.slice(0, 200) : ""})`);
  }
  need(hasKeys(value, ["signed", "signatures"]) && isDict(value.signed), `${name} is no signed metadata`);
  const { signed: body, signatures: listed } = value;
  need(Array.isArray(listed) && listed.length <= MAX_KEYS, `the signatures of ${name} are not of the form`);
  const signatures = new Map<string, Bytes>();
  for (const item of listed) {
    const plain = hasKeys(item, ["keyid", "sig"]) && typeof item.keyid === "string" && isText(item.sig, /^(?:[0-9a-f]{2}){0,100}$/);
    need(plain, `the signatures of ${name} are not of the form`);
    signatures.set(item.keyid as string, Uint8Array.from((item.sig as string).match(/../g) ?? [], (pair) => parseInt(pair, 16)));
  }
  need(signatures.size === listed.length, `a key signed ${name} twice`);
  const fields = body as Dict;
  need(Object.hasOwn(fields, "_type") && fields._type === kind, `${name} is not of the type ${kind}`);
  need(isText(own(fields, "spec_version"), /^1\.[0-9]{1,4}(?:\.[0-9]{1,4})?$/), `${name} is of another version of TUF than 1`);
  const version = own(fields, "version");
  const expires = timeOf(own(fields, "expires") ?? null);
  need(isFirst(version) && expires !== null, `${name} has no version, or no time until when it counts`);
  return { kind, name, version, expires, body: fields, signatures };
}

const own = (value: Dict, key: string): Json | undefined => (Object.hasOwn(value, key) ? value[key] : undefined);

/** Ids of the role's keys whose signature holds, sorted; as many as the role asks for at least. */
async function signersOf(signed: Signed, role: Role): Promise<string[]> {
  const message = signedBytes(signed.body);
  const found: string[] = [];
  for (const [id, key] of role.keys) {
    const signature = signed.signatures.get(id);
    if (signature !== undefined && (await signedBy(key, signature, message))) found.push(id);
  }
  need(found.length >= role.threshold, `${found.length} signatures of ${signed.name} are of keys that count, and ${role.threshold} must be`, "signature");
  return found.sort(byCodePoint);
}

/** A key under its own id, in the one spelling, so that none counts twice. */
async function keyOf(id: string, key: Json, name: string): Promise<CryptoKey> {
  const why = `a key of ${name} is of another kind than P-256`;
  need(hasKeys(key, ["keytype", "scheme", "keyval"]) && hasKeys(key.keyval, ["public"]), why);
  const pem = (key.keyval as Dict).public;
  need(key.keytype === "ecdsa" && key.scheme === "ecdsa-sha2-nistp256" && typeof pem === "string", why);
  need((await sha256(signedBytes(key))) === id, `a key of ${name} stands under another id than its own`);
  try {
    const found = await readKey(pem);
    if (found.pem === pem) return await importKey(found);
  } catch {
    // Told below: no base64, no P-256, or no point of the curve.
  }
  throw new NotCurrent("format", why);
}

async function rolesOf(root: Signed): Promise<Record<Kind, Role>> {
  const { body, name } = root;
  const [keys, roles] = [own(body, "keys"), own(body, "roles")];
  need(own(body, "consistent_snapshot") === true, `files are not numbered by ${name}`);
  need(isDict(keys) && Object.keys(keys).length >= 1 && Object.keys(keys).length <= MAX_KEYS, `${name} lists no keys, or too many`);
  const known = new Map<string, CryptoKey>();
  for (const [id, key] of Object.entries(keys)) known.set(id, await keyOf(id, key, name));
  need(hasKeys(roles, KINDS), `${name} lists other roles than the four`);
  return Object.fromEntries(KINDS.map((kind) => [kind, roleOf(roles[kind]!, known, name)])) as Record<Kind, Role>;
}

function roleOf(role: Json, known: Map<string, CryptoKey>, name: string): Role {
  need(hasKeys(role, ["keyids", "threshold"]) && Array.isArray(role.keyids), `a role of ${name} names no keys`);
  const ids = role.keyids;
  const plain = ids.every((id) => typeof id === "string" && known.has(id)) && new Set(ids).size === ids.length;
  need(plain && isFirst(role.threshold) && role.threshold <= ids.length, `a role of ${name} names too few keys, one twice, or one that is not there`);
  return { keys: new Map((ids as string[]).map((id) => [id, known.get(id)!])), threshold: role.threshold };
}

/** Step 1: from the root that is trusted to the newest, each signed by the keys of the one before and by its own. */
async function followRoots(bytes: Bytes, read: Reader): Promise<{ root: Signed; roles: Record<Kind, Role> }> {
  need(bytes.length <= LIMITS.root, "the trusted root is too large", "too-large");
  let root = readSigned(bytes, "root", "the trusted root");
  let roles = await rolesOf(root);
  await signersOf(root, roles.root);
  for (let number = root.version + 1, last = root.version + MAX_ROOTS; number <= last; number++) {
    const name = `${number}.root.json`;
    const next = await read(name, LIMITS.root);
    if (next === null) return { root, roles };
    need(next.length <= LIMITS.root, `${name} holds more than ${LIMITS.root} bytes`, "too-large");
    root = readSigned(next, "root", name);
    await signersOf(root, roles.root);
    roles = await rolesOf(root);
    await signersOf(root, roles.root);
    need(root.version === number, `${name} is version ${root.version}`, "mismatch");
  }
  throw new NotCurrent("too-large", `the roots are more than ${MAX_ROOTS}`);
}

async function bounded(read: Reader, name: string, most: number): Promise<Bytes> {
  const bytes = await read(name, most);
  need(bytes !== null, `${name} is not there`, "missing");
  need(bytes.length <= most, `${name} holds more than ${most} bytes`, "too-large");
  return bytes;
}

/** A file as the one before it lists it: its size before its hash, its hash before anything in it. */
async function listed(read: Reader, kind: Kind, meta: Meta): Promise<Signed> {
  const name = `${meta.version}.${kind}.json`;
  const bytes = await bounded(read, name, LIMITS[kind]);
  need(bytes.length === meta.length, `${name} holds ${bytes.length} bytes, and ${meta.length} were signed`, "wrong-size");
  need((await sha256(bytes)) === meta.digest, `${name} is another file than the one that was signed`, "changed");
  return readSigned(bytes, kind, name);
}

/** What a file says of the one behind it. */
function metaOf(signed: Signed, name: string): Meta {
  const meta = own(signed.body, "meta");
  need(hasKeys(meta, [name]), `${signed.name} lists other files than ${name}`);
  const entry = meta[name];
  need(hasKeys(entry, ["version", "length", "hashes"]) && hasKeys(entry.hashes, ["sha256"]), `${signed.name} gives no SHA-256 of ${name}`);
  const digest = (entry.hashes as Dict).sha256;
  need(isText(digest, DIGEST) && isFirst(entry.version) && isFirst(entry.length), `${signed.name} gives no version, size or SHA-256 of ${name}`);
  return { version: entry.version, length: entry.length, digest };
}

/** Whether those who signed what was seen could still sign it. */
const still = (ids: string[], role: Role): boolean => new Set(ids.filter((id) => role.keys.has(id))).size >= role.threshold;

const notBelow = (name: string, version: number, seen: number): void => need(version >= seen, `${name} is version ${version}, and ${seen} was seen`, "rollback");

const fresh = (name: string, expires: number, now: number): void =>
  need(now < expires, `${name} counted until ${written(expires)}: nobody can tell what is current`, "stale");

function asListed(signed: Signed, meta: Meta, now: number): void {
  need(signed.version === meta.version, `${signed.name} is version ${signed.version}, and ${meta.version} was signed`, "mismatch");
  fresh(signed.name, signed.expires, now);
}

/**
 * Checks update metadata, cheap steps first.
 *
 * @param bytes the root file that the reader trusts, as it came with the app; any version of it
 * @param read gets the other files; what it gives is hostile
 * @param seen what the last check gave
 * @param now milliseconds since 1970
 */
export async function checkUpdates(bytes: Bytes, read: Reader, seen: Seen | null, now = Date.now()): Promise<Updates> {
  const { root, roles } = await followRoots(bytes, read); // 1
  if (seen !== null) notBelow(root.name, root.version, seen.root);
  fresh(root.name, root.expires, now); // 2
  const timestamp = readSigned(await bounded(read, "timestamp.json", LIMITS.timestamp), "timestamp", "timestamp.json"); // 3
  const timestampKeys = await signersOf(timestamp, roles.timestamp);
  const meta = metaOf(timestamp, "snapshot.json");
  if (seen !== null && still(seen.timestamp_keys, roles.timestamp)) {
    notBelow(timestamp.name, timestamp.version, seen.timestamp);
    notBelow("snapshot.json", meta.version, seen.snapshot);
  }
  fresh(timestamp.name, timestamp.expires, now);
  const snapshot = await listed(read, "snapshot", meta); // 4
  const snapshotKeys = await signersOf(snapshot, roles.snapshot);
  const entry = metaOf(snapshot, "targets.json");
  if (seen !== null && still(seen.snapshot_keys, roles.snapshot)) notBelow("targets.json", entry.version, seen.targets);
  asListed(snapshot, meta, now);
  const targets = await listed(read, "targets", entry); // 5
  await signersOf(targets, roles.targets);
  asListed(targets, entry, now);
  return {
    products: productsOf(targets), // 6
    until: Math.min(...[root, timestamp, snapshot, targets].map(({ expires }) => expires)),
    seen: {
      schema: "unplug-updates-seen/1", root: root.version, timestamp: timestamp.version, snapshot: snapshot.version,
      targets: targets.version, timestamp_keys: timestampKeys, snapshot_keys: snapshotKeys,
    },
  }; // prettier-ignore
}

function productsOf({ body, name }: Signed): Map<string, Product> {
  need(!Object.hasOwn(body, "delegations"), `${name} delegates to other files, which are not read`);
  const targets = own(body, "targets");
  need(isDict(targets) && Object.keys(targets).length <= MAX_LISTED, `${name} lists no targets, or too many`);
  return new Map(Object.entries(targets).map(([path, target]) => {
    const found = /^([A-Za-z0-9][A-Za-z0-9_.+-]{0,199})\/manifest\.json$/.exec(path);
    need(found !== null, `${name} lists ${JSON.stringify(path.slice(0, 80))}, which is not NAME/manifest.json`);
    return [found[1]!, productOf(target, `what ${name} says of ${found[1]!.slice(0, 80)} is not of the form`)];
  }));
}

function productOf(target: Json, why: string): Product {
  need(hasKeys(target, ["length", "hashes", "custom"]) && hasKeys(target.hashes, ["sha256"]), why);
  const { length, custom: said } = target;
  const id = (target.hashes as Dict).sha256;
  need(hasKeys(said, ["release", "minimum_version", "retiring", "releases", "revoked"]) && isText(id, DIGEST) && isFirst(length), why);
  const { release, minimum_version: minimum, retiring, releases: ids, revoked } = said;
  need(isFirst(release) && isFirst(minimum) && minimum <= release && isDict(ids) && Object.keys(ids).length <= MAX_LISTED, why);
  const releases = new Map<number, string>();
  for (const [number, digest] of Object.entries(ids)) {
    need(/^[1-9][0-9]{0,15}$/.test(number) && Number(number) <= release && isText(digest, DIGEST), why);
    releases.set(Number(number), digest);
  }
  need(releases.get(release) === id && Array.isArray(revoked) && revoked.length <= MAX_LISTED, why);
  need(revoked.every((number) => isFirst(number) && releases.has(number)), why);
  need(Array.isArray(retiring) && retiring.length <= MAX_RETIRING, why);
  const ends = retiring.map((item) => {
    need(hasKeys(item, ["below", "until"]) && isFirst(item.below) && item.below <= release, why);
    const until = timeOf(item.until!);
    need(until !== null, why);
    return { below: item.below, until };
  });
  return { release, id, bytes: length, minimum, retiring: ends, releases, revoked: new Set(revoked as number[]) };
}

/** Whether a bundle whose signature was checked may be used now. Throws `NotCurrent` where it may not. */
export function standing(updates: Updates, { name, release, id, bytes }: Claim, now = Date.now()): Standing {
  fresh("the update metadata", updates.until, now);
  const product = updates.products.get(name);
  need(product !== undefined, "its publisher lists no such product", "unknown-product");
  need(release >= product.minimum, `it was replaced: release ${product.minimum} is the oldest that may be used`, "superseded");
  need(product.releases.get(release) === id, "it is signed, but its publisher does not list it", "unpublished");
  need(release !== product.release || bytes === product.bytes, `its manifest has ${bytes} bytes, and ${product.bytes} were published`, "wrong-size");
  need(!product.revoked.has(release), "its publisher took it back", "revoked");
  const ends = product.retiring.filter(({ below }) => release < below).map(({ until }) => until);
  const stops = ends.length > 0 ? Math.min(...ends) : null;
  need(stops === null || now < stops, `a newer release took its place; its time ended at ${written(stops ?? 0)}`, "retired");
  return { current: product.release, stops };
}
