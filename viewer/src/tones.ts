/** Maps sums of weights to shades: linear, logarithmic, or so that all shades cover equally many places. */

export const TONES = ["equalised", "log", "linear"] as const;
export type Tone = (typeof TONES)[number];

const STEPS = 256;
/** Most places examined to equalise shades. */
const PLACES = 60_000;

export interface Toning {
  /** Logarithms of the smallest and the largest sum. */
  low: number;
  high: number;
  /** Shades from 0 to 1 at even steps of the logarithm from low to high. */
  shades: Float32Array;
}

/** The shades for these sums; sums of 0 are places without rows. */
export function toning(tone: Tone, sums: Float32Array, stride: number, offset: number): Toning {
  let [least, most] = [Infinity, 0];
  for (let at = offset; at < sums.length; at += stride) {
    const sum = sums[at];
    if (!(sum > 0)) continue;
    if (sum < least) least = sum;
    if (sum > most) most = sum;
  }
  const shades = new Float32Array(STEPS).fill(1);
  if (most === 0) return { low: 0, high: 1, shades };
  if (least > 0.999 * most) least = most / 2;
  const [low, high] = [Math.log(least), Math.log(most)];
  const sumAt = (k: number) => Math.exp(low + ((high - low) * k) / (STEPS - 1));
  if (tone === "equalised") {
    const counts = new Float64Array(STEPS);
    let all = 0;
    const step = stride * Math.ceil(sums.length / stride / PLACES);
    for (let at = offset; at < sums.length; at += step) {
      if (!(sums[at] > 0)) continue;
      counts[Math.round(((Math.log(sums[at]) - low) / (high - low)) * (STEPS - 1))]++;
      all++;
    }
    let below = 0;
    for (let k = 0; k < STEPS; k++) {
      shades[k] = all > 0 ? (below + counts[k] / 2) / all : 1;
      below += counts[k];
    }
  } else {
    for (let k = 0; k < STEPS; k++) shades[k] = tone === "log" ? k / (STEPS - 1) : sumAt(k) / most;
  }
  return { low, high, shades };
}

/** The sum with this shade. */
export function sumOf({ low, high, shades }: Toning, shade: number): number {
  let above = 0;
  while (above < STEPS - 1 && shades[above] < shade) above++;
  const below = Math.max(0, above - 1);
  const step = shades[above] - shades[below];
  const at = step > 0 ? below + Math.min(1, Math.max(0, (shade - shades[below]) / step)) : above;
  return Math.exp(low + ((high - low) * at) / (STEPS - 1));
}
