/** Drags a new range over the second view, or moves a range or one of its sides. */

import type { Plot } from "./secondplot";

/** Pixels around a side where it can be dragged. */
const NEAR = 7;
/** A shorter movement is a click. */
const STILL = 3;

export type Range = [number | null, number | null];

interface Axis {
  /** Pixels from the lower end of the axis, its length, and its range of values. */
  length: number;
  low: number;
  high: number;
  along(at: [number, number]): number;
}

/** The change of an axis' range while the pointer moves. */
type Mode = "new" | "low" | "high" | "both" | "stays";

export interface Drag {
  ranges: Range[];
  isMoved: boolean;
  /** Moves the pointer. Returns whether the ranges have changed. */
  to(at: [number, number]): boolean;
}

const axesOf = ({ left, top, width, height, x, y }: Plot): Axis[] => [
  { length: width, ...x, along: ([across]) => across - left },
  { length: height, ...y, along: ([, down]) => top + height - down },
];

function modeOf({ length, low, high, along }: Axis, range: Range, at: [number, number]): Mode {
  const place = (value: number) => ((value - low) / (high - low)) * length;
  const here = along(at);
  if (range[0] === null && range[1] === null) return "new";
  if (range[0] !== null && Math.abs(here - place(range[0])) < NEAR) return "low";
  if (range[1] !== null && Math.abs(here - place(range[1])) < NEAR) return "high";
  return here > place(range[0] ?? low) && here < place(range[1] ?? high) ? "both" : "new";
}

/** With several axes, a new range on one starts a new range on all, and moving a side keeps the others. */
function together(modes: Mode[]): Mode[] {
  if (modes.includes("new")) return modes.map(() => "new");
  const isSide = modes.some((mode) => mode !== "both");
  return modes.map((mode) => (isSide && mode === "both" ? "stays" : mode));
}

function moved({ length, low, high, along }: Axis, mode: Mode, range: Range, from: [number, number], at: [number, number]): Range {
  if (mode === "stays") return range;
  const value = (pixels: number) => low + ((high - low) * Math.min(length, Math.max(0, pixels))) / length;
  let [a, b] = [range[0] ?? low, range[1] ?? high];
  if (mode === "new") [a, b] = [value(along(from)), value(along(at))];
  else if (mode === "low") a = value(along(at));
  else if (mode === "high") b = value(along(at));
  else {
    const by = Math.min(high - b, Math.max(low - a, ((along(at) - along(from)) / length) * (high - low)));
    [a, b] = [a + by, b + by];
  }
  if (a > b) [a, b] = [b, a];
  // A side at an end of the axis is open.
  return [a <= low ? null : a, b >= high ? null : b];
}

/** Starts a drag; there is a range for each axis that can be brushed. */
export function beginDrag(plot: Plot, ranges: Range[], from: [number, number]): Drag {
  const axes = axesOf(plot).slice(0, ranges.length);
  const modes = together(axes.map((axis, k) => modeOf(axis, ranges[k], from)));
  const drag: Drag = {
    ranges,
    isMoved: false,
    to(at) {
      if (!drag.isMoved && Math.hypot(at[0] - from[0], at[1] - from[1]) < STILL) return false;
      drag.isMoved = true;
      drag.ranges = axes.map((axis, k) => moved(axis, modes[k], ranges[k], from, at));
      return true;
    },
  };
  return drag;
}
