// Whether a prompt asks for a pack: its words switch it on, whole, in any case, in the singular or the plural; as unplug.sdk.drawing.device.pack_words has it.
import { WHITE } from "./tokenizer";

const [MAX_WORDS, MAX_LETTERS] = [8, 64];
const WORD = /[\p{L}\p{N}][\p{L}\p{M}\p{N}]*/gu;
const NO_PLAIN = new RegExp(`^ |  | $|(?! )[${WHITE}\\x1c-\\x1f]`, "u");

const singular = (word: string): string => {
  if ([...word].length <= 3 || !word.endsWith("s") || word.endsWith("ss")) return word;
  if (word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  return word.slice(0, /(ch|sh|ss|x|z)es$/.test(word) ? -2 : -1);
};

/** The words of a text, folded: NFC, each character's own lower case, one sigma for both, English plurals as singulars. */
export function wordsOf(text: string): string[] {
  const folded = Array.from(text.normalize("NFC"), (character) => character.toLowerCase()).join("").replaceAll("\u03c2", "\u03c3");
  return Array.from(folded.matchAll(WORD), ([word]) => singular(word));
}

/** Whether folded words stand in others, next to each other and in their order. */
export const standIn = (wanted: string[], read: string[]): boolean => wanted.length > 0 && ` ${read.join(" ")} `.includes(` ${wanted.join(" ")} `);

/** Whether a record may say so: some words with single spaces, not more or longer ones than a prompt would hold. */
export function hold(text: string): boolean {
  const words = wordsOf(text).length;
  return words >= 1 && words <= MAX_WORDS && [...text].length <= MAX_LETTERS && !NO_PLAIN.test(text);
}
