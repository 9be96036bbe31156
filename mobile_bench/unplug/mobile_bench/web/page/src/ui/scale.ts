// One horizontal scale for all strips: logarithmic where the slowest run takes far longer than the fastest.

export interface Scale {
  log: boolean;
  /** Place of a value, in percent of the width. */
  place(value: number): number;
  ticks: number[];
}

const LOG_ABOVE = 12;
const MARGIN = 2;

const step = (span: number, parts: number): number => {
  const raw = span / parts;
  const power = 10 ** Math.floor(Math.log10(raw));
  const lead = raw / power;
  return power * (lead > 5 ? 10 : lead > 2 ? 5 : lead > 1 ? 2 : 1);
};

function logScale(low: number, high: number): Scale {
  const [from, to] = [Math.log(low / 1.15), Math.log(high * 1.15)];
  const marks: number[] = [];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)); power++) {
    for (const lead of [1, 2, 5]) marks.push(lead * 10 ** power);
  }
  const inside = marks.filter((mark) => mark >= low / 1.1 && mark <= high * 1.1);
  const tens = inside.filter((mark) => Number.isInteger(Math.round(Math.log10(mark) * 1e6) / 1e6));
  const place = (value: number): number => MARGIN + ((100 - 2 * MARGIN) * (Math.log(Math.max(value, low / 1.15)) - from)) / (to - from);
  return { log: true, place, ticks: inside.length > 6 && tens.length >= 2 ? tens : inside };
}

export function scaleOf(values: number[]): Scale {
  const known = values.filter((value) => value > 0);
  const low = Math.min(...known);
  const high = Math.max(...known);
  if (known.length === 0) return { log: false, place: () => MARGIN, ticks: [] };
  if (high / low > LOG_ABOVE) return logScale(low, high);
  const size = step(high * 1.05, 4);
  const ticks = Array.from({ length: Math.floor((high * 1.05) / size) + 1 }, (_, number) => number * size);
  return { log: false, place: (value) => MARGIN + ((100 - 2 * MARGIN) * value) / (high * 1.05), ticks };
}
