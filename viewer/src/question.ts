/** What is asked about a table to show a look. */

import type { PointsQuestion, Region } from "./api";
import type { Facts } from "./facts";
import type { Look } from "./look";
import { regionOf } from "./region";
import type { Cell } from "./tree";

/** Columns that come with each point, at most. */
export const SLOTS = 8;

/** What a filling is of: cells are added to it. */
export interface Asked {
  table: string;
  region: Region;
  axes: string[];
  columns: { name: string; origin: number; values?: string[] }[];
}

/** Gives a look what it does not say, and takes from it what this table cannot show. */
export function settle(look: Look, facts: Facts): void {
  const places = new Set(facts.places.map((column) => column.name));
  if (look.axes.length < 2 || !look.axes.every((axis) => places.has(axis))) {
    look.axes = facts.axes;
    look.stretch = facts.differ(look.axes);
    look.roi = null;
  }
  if (!facts.knows(look.color)) look.color = null;
  if (look.color === null && !location.hash.includes("color=")) {
    const told = [...look.axes, ...facts.info.identity];
    look.color = facts.numeric.find((column) => column.kind === "number" && !told.includes(column.name))?.name ?? null;
  }
  look.filters = look.filters.filter((filter) => facts.knows(filter.column)).slice(0, SLOTS - 2);
  if (look.time && !facts.knows(look.time.column)) look.time = null;
}

/** The column that time is played along, if there is one. */
export const timeOf = (look: Look, facts: Facts): string | null => look.time?.column ?? facts.time;

export function askedOf(look: Look, facts: Facts): Asked {
  const names = [look.color, ...look.filters.map((filter) => filter.column), timeOf(look, facts)];
  const columns = [...new Set(names.filter((name): name is string => Boolean(name)))].slice(0, SLOTS).map((name) => {
    const { low = 0, high = 0, values } = facts.histograms.get(name) ?? {};
    // Values far from 0 beside their spread would lose it as float32.
    const origin = Math.abs(low) > 1e4 * (high - low) ? low : 0;
    return values ? { name, origin: 0, values: values.map(([value]) => value) } : { name, origin };
  });
  return {
    table: look.table,
    region: { ...regionOf(look, facts), version: facts.info.version },
    axes: look.axes,
    columns,
  };
}

/** Where the records lie along each axis, about. */
export function endsOf(look: Look, facts: Facts): { low: number[]; high: number[] } {
  const ends = look.axes.map((axis) => facts.extent(axis));
  return { low: ends.map((end) => end[0]), high: ends.map((end) => end[1]) };
}

export function pointsQuestion({ region, axes, columns }: Asked, cells: Cell[]): PointsQuestion {
  return {
    ...region,
    position: axes,
    columns,
    cells: cells.map((cell) => ({
      low: cell.low.map((value, k) => (cell.openLow[k] ? null : value)),
      high: cell.high.map((value, k) => (cell.openHigh[k] ? null : value)),
      window: cell.window,
      origin: cell.low,
    })),
  };
}
