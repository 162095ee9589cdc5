/** What stands beside an axis: its name, and round values with their texts. */

import type { Column } from "./api";
import { dateTicks, millisecondsOf } from "./dates";
import { brief, powered, ticks } from "./numbers";

export const labelOf = (column: Column) => (column.unit ? `${column.name} [${column.unit}]` : column.name);

/** Round values of a column between two ends, about this many, and their texts. */
export function marksOf(column: Column, low: number, high: number, about: number): { at: number; text: string }[] {
  const unit = millisecondsOf(column.data_type);
  if (unit !== null) return dateTicks(low, high, about, unit);
  const round = ticks(low, high, about);
  const step = round.length > 1 ? round[1] - round[0] : 0;
  // Values that differ late in their digits need all of them.
  const size = Math.max(Math.abs(low), Math.abs(high));
  const digits = step > 0 ? Math.ceil(Math.log10(size / step)) + 1 : 3;
  const few = size >= 1e6 || size < 1e-3 ? 3 : 4;
  return round.map((at) => ({ at, text: digits <= few || digits >= 16 ? brief(at) : size < 1e15 ? String(Number(at.toPrecision(digits))) : powered(at, digits) }));
}
