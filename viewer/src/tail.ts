/** How much of a trail is seen where one time is shown: what lies before that time, fading with its age. */

import type { TableProfile } from "./profile";
import type { ViewSpec } from "./view";

/** Where trails end and how long ago they vanish, in units of the time; null: they are whole. */
export interface Tail {
  now: number;
  lasts: number;
}

export function tailOf({ time, tail }: ViewSpec, profile: TableProfile): Tail | null {
  if (!time || tail >= 1) return null;
  const { low = time.low, high = time.high } = profile.histograms.get(time.column) ?? {};
  return low < high ? { now: time.high, lasts: tail * (high - low) } : null;
}
