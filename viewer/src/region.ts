/** The records that a look selects, in the words of the interface. */

import type { Region } from "./api";
import type { Facts } from "./facts";
import type { Look } from "./look";

type End = number | boolean | null;

/** The records that are looked at, without the box of interest. */
export function regionOf(look: Look, facts: Facts): Region {
  const region: Region = { box: {} };
  for (const { column, low, high } of [...look.filters, ...(look.time ? [look.time] : [])]) {
    narrow(region, facts, column, low, high);
  }
  if (look.where) region.where = look.where;
  return region;
}

/** The same within the box of interest. */
export function selectionOf(look: Look, facts: Facts): Region {
  const region = regionOf(look, facts);
  const { roi, axes } = look;
  if (roi) axes.forEach((axis, k) => narrow(region, facts, axis, roi.low[k], roi.high[k]));
  return region;
}

/** Leaves only what also lies between these ends of a column. */
export function narrow(region: Region, facts: Facts, column: string, low: number | null, high: number | null): void {
  if (low === null && high === null) return;
  const before = (region.box![column] ?? [null, null]) as [End, End];
  const { kind } = facts.column(column);
  if (kind === "boolean") {
    region.box![column] = [low === null ? null : low > 0, high === null ? null : high >= 1];
    return;
  }
  // Moments are counted in whole units.
  const ends = kind === "time" ? [low && Math.ceil(low), high && Math.floor(high)] : [low, high];
  region.box![column] = [
    tighter(before[0] as number | null, ends[0], Math.max),
    tighter(before[1] as number | null, ends[1], Math.min),
  ];
}

function tighter(a: number | null, b: number | null, of: (a: number, b: number) => number): number | null {
  if (a === null || b === null) return a ?? b;
  return of(a, b);
}
