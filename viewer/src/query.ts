/** The query for the points of a view. */

import type { Region } from "./api";
import type { PointsColumn, PointsRequest } from "./generated/query";
import { host } from "./host";
import type { TableProfile } from "./profile";
import { isPossible } from "./second";
import type { ViewSpec } from "./view";
import { regionOf } from "./region";
import type { Cell } from "./cell";

/** Most columns returned with each point. */
export const SLOTS = 8;

/** Most filters; colour, size and time are the other columns. */
export const FILTERS = SLOTS - 3;

/** The content of a point cloud; a query adds the cells. */
export interface PointsSpec {
  table: string;
  region: Region;
  axes: string[];
  columns: PointsColumn[];
}

/** Fills in open settings of a view, and removes settings that this table cannot show. */
export function complete(view: ViewSpec, profile: TableProfile): void {
  const possible = new Set(profile.axisColumns.map((column) => column.name));
  if (view.axes.length < 2 || !view.axes.every((axis) => possible.has(axis))) {
    view.axes = profile.axes;
    view.stretch = null;
    view.roi = view.frame = view.camera = null;
  }
  view.stretch ??= profile.differ(view.axes);
  if (!profile.knows(view.color)) view.color = null;
  if (view.color === null && !host.address().includes("color=")) {
    const excluded = [...view.axes, ...profile.info.identity];
    view.color = profile.numeric.find((column) => column.kind === "number" && !excluded.includes(column.name))?.name ?? null;
  }
  if (!profile.knows(view.sizeBy) || profile.column(view.sizeBy!).kind !== "number") view.sizeBy = null;
  view.filters = view.filters.filter((filter) => profile.knows(filter.column)).slice(0, FILTERS);
  if (view.time && !profile.knows(view.time.column)) view.time = null;
  if (view.second && !isPossible(view.second, profile)) view.second = null;
}

export const timeOf = (view: ViewSpec, profile: TableProfile): string | null => view.time?.column ?? profile.time;

/** How a column's values are converted to float32. */
export function pointsOf(profile: TableProfile, name: string): PointsColumn {
  const { low = 0, high = 0, values } = profile.histograms.get(name) ?? {};
  // Values far from 0 compared with their spread would lose it in float32.
  const origin = Math.abs(low) > 1e4 * (high - low) ? low : 0;
  return values ? { name, origin: 0, values: values.map(([value]) => value) } : { name, origin };
}

export function pointsSpec(view: ViewSpec, profile: TableProfile): PointsSpec {
  const names = [view.color, view.sizeBy, ...view.filters.map((filter) => filter.column), timeOf(view, profile)];
  const wanted = [...new Set(names.filter((name): name is string => Boolean(name)))].slice(0, SLOTS);
  const columns = wanted.map((name) => pointsOf(profile, name));
  return {
    table: view.table,
    region: { ...regionOf(view, profile), version: profile.info.version },
    axes: view.axes,
    columns,
  };
}

/** The approximate extent of the rows along each axis, or the one that the view stores. */
export function extentOf(view: ViewSpec, profile: TableProfile): { low: number[]; high: number[] } {
  if (view.frame) return view.frame;
  const ends = view.axes.map((axis) => profile.extent(axis));
  return { low: ends.map((end) => end[0]), high: ends.map((end) => end[1]) };
}

export function pointsQuery({ region, axes, columns }: PointsSpec, cells: Cell[]): PointsRequest {
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
