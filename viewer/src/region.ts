/** The rows that a view selects, as a region of the HTTP interface. */

import type { Region } from "./api";
import type { TableProfile } from "./profile";
import { around, conditionOf } from "./lasso";
import type { ViewSpec } from "./view";

type End = number | boolean | null;

/** The displayed rows: only those of the box of interest if the view is clipped. */
export function regionOf(view: ViewSpec, profile: TableProfile): Region {
  const region: Region = { box: {} };
  for (const { column, low, high } of [...view.filters, ...(view.time ? [view.time] : [])]) {
    narrow(region, profile, column, low, high);
  }
  if (view.where) region.where = view.where;
  if (view.clip) within(region, view, profile);
  return region;
}

/** The displayed rows within the box of interest. */
export function selectionOf(view: ViewSpec, profile: TableProfile): Region {
  const region = regionOf(view, profile);
  if (!view.clip) within(region, view, profile);
  return region;
}

function within(region: Region, { roi, lasso, axes }: ViewSpec, profile: TableProfile): void {
  for (const box of [roi, lasso && around(lasso)]) {
    if (box) axes.forEach((axis, k) => narrow(region, profile, axis, box.low[k], box.high[k]));
  }
  if (lasso) region.where = [region.where && `(${region.where})`, conditionOf(lasso, axes)].filter(Boolean).join(" AND ");
}

export function narrow(region: Region, profile: TableProfile, column: string, low: number | null, high: number | null): void {
  if (low === null && high === null) return;
  const before = (region.box![column] ?? [null, null]) as [End, End];
  const { kind } = profile.column(column);
  if (kind === "boolean") {
    region.box![column] = [low === null ? null : low > 0, high === null ? null : high >= 1];
    return;
  }
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
