// CLIP's tokenizer from a vocabulary and merges as data; Python's tokenizer.py is the reference.

/** A token that is cut out of a text whole, before its words are: a mark, or a word learned later. */
export interface AddedToken {
  id: number;
  single_word: boolean;
  lstrip: boolean;
  rstrip: boolean;
  /** It is looked for, and read itself, in lower case. */
  normalized: boolean;
}

export interface TokenizerData {
  vocabulary: string[];
  merges: string[];
  length: number;
  start: number;
  end: number;
  padding: number;
  added?: AddedToken[];
}

export interface Encoded {
  ids: number[];
  /** How many tokens the whole prompt has, start and end included; those beyond `ids` were cut. */
  tokens: number;
  /** Words that are not tokens of their own: the base spells them, and may never have seen them. */
  spelled: string[];
}

export const MAX_CHARACTERS = 2 ** 16;
const [MAX_TOKENS, MAX_VOCABULARY, MAX_ADDED] = [1024, 2 ** 20, 1024];
const WORD_END = "</w>";
/** Unicode's White_Space, written out: `\s` has other characters. */
export const WHITE = "\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${WHITE}]+`, "gu");
const WHITE_ONE = new RegExp(`[${WHITE}]`, "u");
const IN_WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;
const MARK = "(<\\|)(startoftext|endoftext)(\\|>)";
const WORDS = new RegExp(`${MARK}|'s|'t|'re|'ve|'m|'ll|'d|\\p{L}+|\\p{N}|[^${WHITE}\\p{L}\\p{N}]+`, "gu");

/** GPT-2's letter of each byte: printable ones stand for themselves, the others for U+0100 and on. */
const LETTERS: string[] = (() => {
  const printable = (byte: number): boolean => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
})();

export class Tokenizer {
  private readonly ids: Map<string, number>;
  private readonly ranks: Map<string, number>;
  /** The patterns of tokens that are looked for in a text as it is, and in its normalized rest. */
  private readonly cutters: [Cutter, Cutter];

  /** Throws unless every text has ids: the data may come from anybody. */
  constructor(readonly data: TokenizerData) {
    const { vocabulary, merges, length, start, end, padding, added = [] } = data;
    const wrong = (what: string): never => {
      throw new Error(`its tokenizer has ${what}; export the base again`);
    };
    const size = vocabulary.length;
    this.ids = new Map(vocabulary.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    if (size === 0 || size > MAX_VOCABULARY || this.ids.size < size) wrong(`a vocabulary of ${size} tokens`);
    if (!Number.isInteger(length) || length < 3 || length > MAX_TOKENS) wrong(`prompts of ${length} tokens`);
    if (![start, end, padding].every((id) => Number.isInteger(id) && id >= 0 && id < size)) wrong("a mark outside of its vocabulary");
    if (!LETTERS.every((letter) => this.ids.has(letter) && this.ids.has(letter + WORD_END))) wrong("no token for some of the bytes");
    if (!merges.every((pair) => this.fits(pair))) wrong("a merge that is not two tokens which make a third");
    const flags = ["single_word", "lstrip", "rstrip", "normalized"] as const;
    const holds = (item: AddedToken): boolean => Number.isInteger(item.id) && item.id in vocabulary && flags.every((flag) => typeof item[flag] === "boolean");
    if (!Array.isArray(added) || added.length > MAX_ADDED || !added.every(holds)) wrong("added tokens of another kind");
    const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    const cut = added.length > 0 ? added : [...new Set([start, end])].map((id) => ({ id, ...plain }));
    this.cutters = [new Cutter(cut.filter((item) => !item.normalized), vocabulary), new Cutter(cut.filter((item) => item.normalized), vocabulary)];
    if (this.cutters[0].size + this.cutters[1].size < cut.length) wrong("added tokens that are empty or alike");
  }

  private fits(merge: string): boolean {
    const parts = merge.split(" ");
    return parts.length === 2 && [...parts, parts.join("")].every((part) => this.ids.has(part));
  }

  /** Whether a text is made of words that are tokens of their own. */
  knows(text: string): boolean {
    return this.encode(text).spelled.length === 0;
  }

  encode(text: string): Encoded {
    if ([...text].length > MAX_CHARACTERS) throw new Error(`The prompt has more than ${MAX_CHARACTERS} characters; give a shorter one.`);
    const { length, start, end, padding } = this.data;
    const found: number[] = [];
    const spelled = new Set<string>();
    for (const part of this.parts(text)) {
      if (typeof part !== "string") found.push(part.id);
      else for (const word of wordsOf(part)) this.append(word, found, spelled);
    }
    const kept = [start, ...found.slice(0, length - 2), end];
    const ids = [...kept, ...Array<number>(length - kept.length).fill(padding)];
    return { ids, tokens: found.length + 2, spelled: [...spelled] };
  }

  private *parts(text: string): Generator<string | AddedToken> {
    const [asItIs, normalized] = this.cutters;
    for (const part of asItIs.cut(text)) {
      if (typeof part !== "string") yield part;
      else yield* normalized.cut(normalize(part));
    }
  }

  private append(word: string, found: number[], spelled: Set<string>): void {
    const parts = this.merged(Array.from(new TextEncoder().encode(word), (byte) => LETTERS[byte]!));
    if (parts.length > 1) spelled.add(word);
    for (const token of parts) found.push(this.ids.get(token)!);
  }

  /** Again and again the most urgent pair becomes one, wherever it stands. */
  private merged(letters: string[]): string[] {
    let parts = letters;
    parts[parts.length - 1] += WORD_END;
    for (;;) {
      let best = Infinity;
      let pair = "";
      for (let at = 0; at + 1 < parts.length; at++) {
        const own = `${parts[at]} ${parts[at + 1]}`;
        const rank = this.ranks.get(own) ?? Infinity;
        if (rank < best) [best, pair] = [rank, own];
      }
      if (best === Infinity) return parts;
      const [left, right] = pair.split(" ");
      const next: string[] = [];
      for (let at = 0; at < parts.length; at++) {
        const both = parts[at] === left && parts[at + 1] === right;
        next.push(both ? `${left}${right}` : parts[at]!);
        if (both) at++;
      }
      parts = next;
    }
  }
}

/** Lone halves of surrogate pairs become question marks, as Python's "replace" makes them. */
const whole = (text: string): string => text.replace(/\p{Surrogate}/gu, "?");

function normalize(piece: string): string {
  const spaced = whole(piece).normalize("NFC").replace(SPACES, " ");
  return Array.from(spaced, (character) => character.toLowerCase()).join("");
}

/** The words of a normalized text; a mark that was written in capitals is not a token, but has words of its own. */
function wordsOf(piece: string): string[] {
  return Array.from(piece.matchAll(WORDS), ([word, ...mark]) => (mark[0] === undefined ? [word] : mark)).flat();
}

/** Finds tokens in a text as the package tokenizers does: the leftmost first, of several the longest, none twice. */
class Cutter {
  private readonly tokens: Map<string, AddedToken>;
  private readonly places: RegExp;

  constructor(added: AddedToken[], vocabulary: string[]) {
    const content = ({ id, normalized }: AddedToken): string => (normalized ? normalize(vocabulary[id]!) : vocabulary[id]!);
    this.tokens = new Map(added.map((item) => [content(item), item]));
    this.tokens.delete("");
    const longest = [...this.tokens.keys()].sort((one, other) => other.length - one.length);
    this.places = new RegExp(longest.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") || "[]", "g");
  }

  get size(): number {
    return this.tokens.size;
  }

  *cut(text: string): Generator<string | AddedToken> {
    let done = 0;
    for (const { 0: word, index } of text.matchAll(this.places)) {
      const item = this.tokens.get(word)!;
      let [start, end] = [index, index + word.length];
      const before = Array.from(text.slice(Math.max(0, start - 2), start)).at(-1) ?? "";
      if (item.single_word && IN_WORD.test(before + Array.from(text.slice(end, end + 2)).slice(0, 1).join(""))) continue;
      while (item.lstrip && start > done && WHITE_ONE.test(text[start - 1]!)) start--;
      while (item.rstrip && end < text.length && WHITE_ONE.test(text[end]!)) end++;
      start = Math.max(start, done);
      if (done < start) yield text.slice(done, start);
      yield item;
      done = end;
    }
    if (done < text.length) yield text.slice(done);
  }
}
