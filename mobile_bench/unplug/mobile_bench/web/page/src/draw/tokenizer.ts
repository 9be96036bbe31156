// CLIP's tokenizer from a vocabulary and merges as data; docs/device.md has its steps.

export interface TokenizerData {
  vocabulary: string[];
  merges: string[];
  length: number;
  start: number;
  end: number;
  padding: number;
}

export interface Encoded {
  ids: number[];
  /** That the whole prompt has, start and end included; more than `ids` were cut. */
  tokens: number;
  /** Words that are no token of their own: the base spells them, and may never have seen them. */
  spelled: string[];
}

export const MAX_CHARACTERS = 2 ** 16;
const [MAX_TOKENS, MAX_VOCABULARY] = [1024, 2 ** 20];
const WORD_END = "</w>";
/** Unicode's White_Space, written out: `\s` has other characters. */
const WHITE = "\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${WHITE}]+`, "gu");
const WORDS = new RegExp(`'s|'t|'re|'ve|'m|'ll|'d|\\p{L}+|\\p{N}|[^${WHITE}\\p{L}\\p{N}]+`, "gu");

/** GPT-2's letter of each byte: printable ones stand for themselves, the others for U+0100 and on. */
const LETTERS: string[] = (() => {
  const printable = (byte: number): boolean => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
})();

export class Tokenizer {
  private readonly ids: Map<string, number>;
  private readonly ranks: Map<string, number>;

  /** Throws unless every text has ids: the data may come from anybody. */
  constructor(readonly data: TokenizerData) {
    const { vocabulary, merges, length, start, end, padding } = data;
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
    const { vocabulary, length, start, end, padding } = this.data;
    const marks = [vocabulary[start]!, vocabulary[end]!];
    const apart = new RegExp(`(${marks.map((mark) => mark.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`);
    const found: number[] = [];
    const spelled = new Set<string>();
    for (const piece of text.split(apart)) {
      if (marks.includes(piece)) found.push(this.ids.get(piece)!);
      else for (const word of wordsOf(piece)) this.append(word, found, spelled);
    }
    const kept = [start, ...found.slice(0, length - 2), end];
    const ids = [...kept, ...Array<number>(length - kept.length).fill(padding)];
    return { ids, tokens: found.length + 2, spelled: [...spelled] };
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

function wordsOf(piece: string): string[] {
  const spaced = whole(piece).normalize("NFC").replace(SPACES, " ");
  const lower = Array.from(spaced, (character) => character.toLowerCase()).join("");
  return Array.from(lower.matchAll(WORDS), ([word]) => word);
}
