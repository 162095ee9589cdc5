/** The second view next to the points: what it shows of the selection, and how brushing narrows it. */

import type { Kind, Second } from "./kinds";
import type { TableProfile } from "./profile";
import type { ViewSpec } from "./view";

/** A view of this kind, preferably of columns that the first view does not show. */
export function proposed(kind: Kind, view: ViewSpec, profile: TableProfile): Second | null {
  const { identity } = profile.info;
  const names = profile.axisColumns.map((column) => column.name).filter((name) => !identity.includes(name) || profile.isTimeLike(name));
  if (names.length === 0) return null;
  const others = names.filter((name) => !view.axes.includes(name) && !profile.isTimeLike(name));
  const value = view.color !== null && names.includes(view.color) ? view.color : (others[0] ?? names[0]);
  if (kind === "histogram") return { kind, axes: [value], log: false };
  const across = kind === "series" ? (profile.time ?? names[0]) : (others.find((name) => name !== value) ?? names[0]);
  return { kind, axes: [across, value], log: false };
}

/** Whether the table has these columns as numbers. */
export function isPossible({ axes }: Second, profile: TableProfile): boolean {
  const names = profile.axisColumns.map((column) => column.name);
  return axes.every((axis) => names.includes(axis));
}

/** The columns that can be brushed. The vertical axis of a series shows means, which are not values of rows. */
export const brushed = ({ kind, axes }: Second) => (kind === "scatter" ? axes : axes.slice(0, 1));

/** The view without the ranges brushed on these columns, so that a brush does not hide the rest. */
export function withoutRanges(view: ViewSpec, columns: string[]): ViewSpec {
  const filters = view.filters.filter(({ column }) => !columns.includes(column));
  return { ...view, filters, time: view.time && columns.includes(view.time.column) ? null : view.time };
}

/** The range of a column in a view; null for an open bound. */
export function rangeOf(view: ViewSpec, column: string): [number | null, number | null] {
  if (view.time?.column === column) return [view.time.low, view.time.high];
  const filter = view.filters.find((filter) => filter.column === column);
  return filter ? [filter.low, filter.high] : [null, null];
}
