/** How much of a trail is visible at one time: its past, fading with age. */

import type { TableProfile } from "./profile";
import type { ViewSpec } from "./view";

/** The time where trails end and the age at which they vanish, in units of time; null for whole trails. */
export interface Tail {
  now: number;
  lasts: number;
}

export function tailOf({ time, tail }: ViewSpec, profile: TableProfile): Tail | null {
  if (!time || tail >= 1) return null;
  const { low = time.low, high = time.high } = profile.histograms.get(time.column) ?? {};
  return low < high ? { now: time.high, lasts: tail * (high - low) } : null;
}
