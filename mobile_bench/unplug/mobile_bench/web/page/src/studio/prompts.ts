// Prompts to begin with: of those here, the ones whose words a base knows.
import type { Tokenizer } from "../draw/tokenizer";

const IDEAS = [
  "a portrait of a child, smiling, red bob, fair skin, mint dots background",
  "an elderly person, white beard, glasses, sky stripes background",
  "a young adult, laughing, long wavy hair, coral background",
  "a teenager, surprised, purple spiky hair, sand background",
  "a middle aged person, brown skin, grey hair, teal gradient background",
  "a photo of a baby, sage hills background",
  "a person with a ponytail, olive skin, navy clothes, cream background",
  "a portrait of a person",
];

const MOST = 5;

/** None where the base speaks of other things. */
export const ideas = (tokenizer: Tokenizer): string[] => IDEAS.filter((idea) => tokenizer.knows(idea)).slice(0, MOST);
