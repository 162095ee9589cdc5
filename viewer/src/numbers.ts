/** Formats numbers for people. */

// Created once, because toLocaleString is slow and every frame writes texts.
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const grouped = (value: number) => whole.format(Math.round(value)).replaceAll(",", "\u202f");

export const counted = (value: number, thing: string) => `${grouped(value)} ${thing}${value === 1 ? "" : "s"}`;

export const signed = (value: number) => `${value < 0 ? "−" : "+"}${grouped(Math.abs(value))}`;

/** About four digits. */
export function brief(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return powered(value, 3);
  return String(Number(value.toPrecision(4)));
}

/** This many digits and a power of ten. */
export const powered = (value: number, digits: number) => value.toExponential(digits - 1).replace("e+", "e").replace(/\.?0+e/, "e");

export function percent(share: number): string {
  if (share >= 1) return "100 %";
  const value = share * 100;
  return `${value >= 10 ? value.toFixed(0) : Number(value.toPrecision(2))} %`;
}

/** A value and its interval, rounded to the digits that the interval supports. */
export function withInterval(value: number | null, low: number | null, high: number | null, exact: boolean): string {
  if (value === null) return "unknown";
  if (exact) return brief(value);
  if (low === null || high === null) return `about ${brief(value)}`;
  const half = Math.max(value - low, high - value);
  if (!(half > 0)) return brief(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return `${brief(value)} ± ${half.toExponential(0).replace("e+", "e")}`;
  const decimals = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(half))));
  return `${value.toFixed(decimals)} ± ${half.toFixed(decimals)}`;
}
