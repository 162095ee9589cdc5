/** The second view beside the points: what of the selection it shows, and what brushing it narrows. */

import type { Kind, Second } from "./kinds";
import type { TableProfile } from "./profile";
import type { ViewSpec } from "./view";

/** A view of this kind, of columns that the first one does not show if there are such. */
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

/** Whether a table has these columns, as numbers. */
export function isPossible({ axes }: Second, profile: TableProfile): boolean {
  const names = profile.axisColumns.map((column) => column.name);
  return axes.every((axis) => names.includes(axis));
}

/** The columns that can be brushed: a series has means upwards, which are no values of records. */
export const brushed = ({ kind, axes }: Second) => (kind === "scatter" ? axes : axes.slice(0, 1));

/** The same view without what brushing these columns has left out: a brush does not hide what is beside it. */
export function withoutRanges(view: ViewSpec, columns: string[]): ViewSpec {
  const filters = view.filters.filter(({ column }) => !columns.includes(column));
  return { ...view, filters, time: view.time && columns.includes(view.time.column) ? null : view.time };
}

/** The ends of a column's range in a view; null where it is open. */
export function rangeOf(view: ViewSpec, column: string): [number | null, number | null] {
  if (view.time?.column === column) return [view.time.low, view.time.high];
  const filter = view.filters.find((filter) => filter.column === column);
  return filter ? [filter.low, filter.high] : [null, null];
}
