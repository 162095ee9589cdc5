/**
 * Round steps and equal parts of a range, for axis marks and bin edges, as in
 * crates/core/kubist-types/src/steps.rs.
 *
 * For any two finite numbers, including subnormal ones and ranges whose length overflows, all functions return finite
 * ascending numbers in a bounded number of steps.
 */

const DIGITS = [1, 2, 5];
/** Most multiples of a step to search. */
const MOST_MULTIPLES = 1000;
/** Multiples within this distance of a range's ends, in steps, count as inside, because the ends are rounded. */
const SLACK = 1e-9;
/** A few roundings, in units of 2^-53 steps. */
const OFF = 8;
/** Steps below this power of ten may be subnormal, with few digits. */
const SUBNORMAL = -290;

/** A digit times a power of ten. */
export interface Step {
  digit: number;
  power: number;
}

/** The number nearest to this many steps. */
export function times({ digit, power }: Step, count: number): number {
  const whole = count * digit;
  return Number(`${Number.isSafeInteger(whole) ? whole : BigInt(count) * BigInt(digit)}e${power}`) + 0;
}

/** The smallest step of at least this size; for a size that is not positive, the smallest step. */
export function stepOf(size: number): Step {
  const wanted = size > 0 ? Math.min(size, Number.MAX_VALUE) : Number.MIN_VALUE;
  const guess = Math.floor(Math.log10(wanted));
  for (let power = guess - 1; power <= guess + 1; power++) {
    for (const digit of DIGITS) if (times({ digit, power }, 1) >= wanted * (1 - 1e-9)) return { digit, power };
  }
  return { digit: 1, power: guess + 2 };
}

/** The next smaller step; null if there is none. */
export function finer({ digit, power }: Step): Step | null {
  const place = DIGITS.indexOf(digit) - 1;
  const step = place < 0 ? { digit: 5, power: power - 1 } : { digit: DIGITS[place], power };
  return times(step, 1) > 0 ? step : null;
}

/** The multiples within a range, ascending. */
function within(step: Step, low: number, high: number): number[] {
  const size = times(step, 1);
  const slack = Number.isFinite(size) ? size * SLACK : 0;
  const from = Math.max(low - slack, -Number.MAX_VALUE);
  const about = step.power < SUBNORMAL ? ((from * 1e300) / step.digit) * Number(`1e${-300 - step.power}`) : from / size;
  const found: number[] = [];
  let count = Math.max(Number.MIN_SAFE_INTEGER, Math.round(about) - OFF);
  for (let k = 0; k < MOST_MULTIPLES; k++, count++) {
    const value = times(step, count);
    if (value > high + slack) break;
    if (Number.isFinite(value) && value >= from && value !== found[found.length - 1]) found.push(value);
  }
  return found;
}

/** About `most` round numbers in a range, and at least `fewest` if the range contains so many numbers. */
export function marks(low: number, high: number, most: number, fewest: number): number[] {
  if (!(Number.isFinite(low) && Number.isFinite(high) && low < high)) return [];
  const least = resolution(low, high);
  let step = stepOf(Math.max(part(low, high, Math.max(1, most)), least));
  for (;;) {
    const found = within(step, low, high);
    const next = found.length < fewest ? finer(step) : null;
    if (!next || times(next, 1) < least) return found;
    step = next;
  }
}

/** 1, 2 and 5 times the powers of ten between two positive numbers, or only the powers if there are many. */
export function logarithmicMarks(low: number, high: number): number[] {
  if (!(low > 0 && Number.isFinite(high) && low < high)) return [];
  const digits = Math.log10(high) - Math.log10(low) > 2.5 ? [1] : DIGITS;
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of digits) {
      const value = times({ digit, power }, 1);
      if (Number.isFinite(value) && value >= low * 0.999 && value * 0.999 <= high) found.push(value);
    }
  }
  return found;
}

/** The distance of two numbers divided by `count`; the distance itself may overflow. */
export function part(low: number, high: number, count: number): number {
  const distance = high - low;
  return Number.isFinite(distance) ? distance / count : high / count - low / count;
}

/** The position of a number between two others: 0 at `low`, 1 at `high`. */
export function share(low: number, high: number, value: number): number {
  const [below, all] = [value - low, high - low];
  return Number.isFinite(below) && Number.isFinite(all) ? below / all : (value / 4 - low / 4) / (high / 4 - low / 4);
}

/** The position of positive numbers on a logarithmic scale, if logarithms distinguish the ends. */
export function logarithmicShare(low: number, high: number, value: number): number {
  const [from, to] = [Math.log(low), Math.log(high)];
  return from < to ? share(from, to, Math.log(value)) : share(low, high, value);
}

export const middle = (low: number, high: number) => low / 2 + high / 2;

/** The nearest finite number. */
export const finite = (value: number) => Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, value));

/** The distance of adjacent float64 numbers of this size. */
export function resolution(low: number, high: number): number {
  const largest = Math.max(Math.abs(low), Math.abs(high));
  return largest === 0 ? Number.MIN_VALUE : 2 ** (Math.max(-1022, Math.floor(Math.log2(largest))) - 52);
}

/** A range around one number: 0.5 to each side, or the resolution of float64 if that is larger. */
export function around(value: number): [number, number] {
  const half = Math.max(0.5, 4 * resolution(value, value));
  return [finite(value - half), finite(value + half)];
}

/** The edges of `count` equal parts of a range. */
export function equal(low: number, high: number, count: number): number[] {
  const distance = high - low;
  const isShort = Number.isFinite(distance * count);
  const edges = Array.from({ length: count + 1 }, (_, k) => (isShort ? low + (distance * k) / count : low * (1 - k / count) + high * (k / count)));
  [edges[0], edges[count]] = [low, high];
  return edges.map((edge) => Math.min(high, Math.max(low, edge))).filter((edge, k, all) => k === 0 || edge > all[k - 1]);
}
