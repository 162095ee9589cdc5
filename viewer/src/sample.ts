/**
 * A uniform sample of the records that a view selects, as numbers of some columns: what the second
 * view is drawn from. It comes in windows of the priorities, so that nothing has to be counted first.
 */

import { points, type Region } from "./api";
import type { PointsColumn } from "./generated/query";
import { pointsOf } from "./query";
import type { TableProfile } from "./profile";

/** About so many records are asked for. */
export const WANTED = 40_000;
/** Fewer than this share of them are not enough. */
const ENOUGH = 0.6;
/** A window is at most so many times as wide as the ones before it. */
const WIDER = 20;

export interface Sample {
  rows: number;
  /** The share of the selected records that these are: each stands for 1/fraction. */
  fraction: number;
  /** By column and row. */
  values: Float64Array[];
}

/** What is asked of which table. */
export interface Asked {
  table: string;
  region: Region;
  /** Columns whose values are numbers: records without one are left out. */
  position: string[];
  /** What else comes with each record. */
  columns: PointsColumn[];
}

/** About how many records of all are wanted first. */
const first = (profile: TableProfile) => Math.min(1, WANTED / Math.max(1, profile.info.rows));

/** Draws the sample; `taken` sees it grow. */
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
    // As wide as makes WANTED records, by those that have come.
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
