/**
 * A uniform sample of the selected rows, as numbers in some columns, for the second view. Loading it in windows of
 * priorities needs no count first.
 */

import { points, type Region } from "./api";
import type { PointsColumn } from "./generated/query";
import { pointsOf } from "./query";
import type { TableProfile } from "./profile";

export const WANTED = 40_000;
/** A smaller fraction of the target is not enough. */
const ENOUGH = 0.6;
/** Largest growth factor from one window to the next. */
const WIDER = 20;

export interface Sample {
  rows: number;
  /** The sample fraction; each row represents 1/fraction rows. */
  fraction: number;
  /** By column and row. */
  values: Float64Array[];
}

export interface Asked {
  table: string;
  region: Region;
  /** Numeric columns; rows without a value are left out. */
  position: string[];
  columns: PointsColumn[];
}

/** The first window's fraction of the table. */
const first = (profile: TableProfile) => Math.min(1, WANTED / Math.max(1, profile.info.rows));

/** Loads the sample; `taken` is called as it grows. */
export async function draw(asked: Asked, profile: TableProfile, taken: (sample: Sample) => void, signal: AbortSignal): Promise<void> {
  const { table, region, position, columns } = asked;
  const origin = position.map((name) => pointsOf(profile, name).origin ?? 0);
  const parts: Float64Array[][] = [];
  let [rows, from, to] = [0, 0, first(profile)];
  for (;;) {
    const cell = { low: position.map(() => null), high: position.map(() => null), window: [from, to] as [number, number], origin };
    await points(table, { ...region, position, columns, cells: [cell] }, (frame) => {
      if (frame.rows === 0) return;
      rows += frame.rows;
      const along = position.map((_, k) => Float64Array.from({ length: frame.rows }, (_, row) => frame.positions[row * position.length + k] + origin[k]));
      const others = frame.columns.map((values, k) => Float64Array.from(values, (value) => value + (columns[k].origin ?? 0)));
      parts.push([...along, ...others]);
    }, signal);
    taken({ rows, fraction: to, values: [...position, ...columns].map((_, k) => together(parts.map((part) => part[k]))) });
    if (to >= 1 || rows >= ENOUGH * WANTED) return;
    from = to;
    to = Math.min(WIDER * to, rows > 0 ? (WANTED / rows) * to : 1);
    if (to > 0.6) to = 1;
  }
}

function together(parts: Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
