/** The legend of a picture: round values along a colour bar, or categories. */

import type { Column } from "./api";
import { labelOf, marksOf } from "./axismarks";
import { brief } from "./numbers";
import { logarithmicMarks, logarithmicShare, share } from "./steps";

export interface Legend {
  title: string;
  /** 256 colours, four numbers each. */
  colors: Uint8Array;
  /** Round values and their positions on the colour bar, from 0 to 1. */
  marks: { share: number; text: string }[];
  /** Whether values are below the first colour or above the last one. */
  beyond: [boolean, boolean];
  /** Categories and their colours, instead of marks. */
  keys: { text: string; color: string }[];
}

/** Smallest distance of marks. */
const APART = 0.13;

/** Removes marks that are too close to the previous one. */
function apart(marks: { share: number; text: string }[]): { share: number; text: string }[] {
  let last = -1;
  return marks.filter(({ share }) => share >= 0 && share <= 1 && share - last >= APART && ((last = share), true));
}

/** Legend of a column whose range has the colours. */
export function legendOf(column: Column, how: string, colors: Uint8Array, [low, high]: [number, number], log: boolean, extent: [number, number]): Legend {
  const marks = log
    ? logarithmicMarks(low, high).map((at) => ({ share: logarithmicShare(low, high, at), text: brief(at) }))
    : marksOf(column, low, high, 5).map(({ at, text }) => ({ share: share(low, high, at), text }));
  const ends = [{ share: 0, text: brief(low) }, { share: 1, text: brief(high) }];
  const kept = apart(marks);
  return { title: `${how}${labelOf(column)}`, colors, marks: kept.length > 1 ? kept : ends, beyond: [extent[0] < low, extent[1] > high], keys: [] };
}

/** Legend of shades. `valueAt` gives the value of each shade. */
export function legendOfShades(title: string, colors: Uint8Array, valueAt: (share: number) => number): Legend {
  const shareOf = (value: number) => {
    let [from, to] = [0, 1];
    for (let round = 0; round < 30; round++) {
      const middle = (from + to) / 2;
      if (valueAt(middle) < value) from = middle;
      else to = middle;
    }
    return from;
  };
  const [low, high] = [valueAt(0.01), valueAt(0.99)];
  const round = logarithmicMarks(low, high);
  const kept = apart(round.map((value) => ({ share: shareOf(value), text: brief(value) })));
  const marks = kept.length > 1 ? kept : [0.01, 0.99].map((share) => ({ share, text: brief(Number(valueAt(share).toPrecision(2))) }));
  return { title, colors, marks, beyond: [false, false], keys: [] };
}

export function legendOfCategories(column: Column, colors: Uint8Array, categories: { number: number; name: string }[]): Legend {
  const colorOf = (number: number) => `rgb(${[0, 1, 2].map((k) => colors[4 * Math.min(255, number) + k]).join(" ")})`;
  return { title: labelOf(column), colors, marks: [], beyond: [false, false], keys: categories.map(({ number, name }) => ({ text: name, color: colorOf(number) })) };
}
