/** Marks and labels of an axis. */

import type { Column } from "./api";
import { dateTicks, millisecondsOf } from "./dates";
import { brief, powered } from "./numbers";
import { marks } from "./steps";

export const labelOf = (column: Column) => (column.unit ? `${column.name} [${column.unit}]` : column.name);

/** About this many round values in a range, with their texts. */
export function marksOf(column: Column, low: number, high: number, about: number): { at: number; text: string }[] {
  const unit = millisecondsOf(column.data_type);
  if (unit !== null) return dateTicks(low, high, about, unit);
  // A single mark would not show the scale.
  const round = marks(low, high, about, 2);
  const step = round.length > 1 ? round[1] - round[0] : 0;
  // Values that differ only in late digits are printed with all digits.
  const size = Math.max(Math.abs(low), Math.abs(high));
  const digits = step > 0 ? Math.ceil(Math.log10(size / step)) + 1 : 3;
  const few = size >= 1e6 || size < 1e-3 ? 3 : 4;
  const told = (at: number) => {
    if (digits <= few) return brief(at);
    if (digits > 15) return String(at).replace("e+", "e");
    return size < 1e15 && size >= 1e-3 ? String(Number(at.toPrecision(digits))) : powered(at, digits);
  };
  return round.map((at) => ({ at, text: told(at) }));
}
