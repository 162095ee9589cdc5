/** Date and time marks of axes, with the shortest texts that distinguish them. */

import { resolution, stepOf, times } from "./steps";

const SECOND = 1000;
const [MINUTE, HOUR, DAY] = [60 * SECOND, 3600 * SECOND, 86400 * SECOND];
const STEPS = [1, 10, 100, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE]
  .concat([HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY]);

/** The largest timestamp in milliseconds. */
const LAST = 9.3e21;
const MOST = 50;

/** Milliseconds per unit of a column of this type; null if it has no dates. */
export function millisecondsOf(type: string): number | null {
  if (type.startsWith("Date32")) return DAY;
  if (type.startsWith("Date64")) return 1;
  const unit = /^Timestamp\(([^),]+)/.exec(type)?.[1];
  return { s: 1000, ms: 1, us: 1e-3, "µs": 1e-3, ns: 1e-6 }[unit ?? ""] ?? null;
}

/**
 * Year, month (from 0) and day of the proleptic Gregorian calendar from days since 1970 (Hinnant,
 * "chrono-compatible low-level date algorithms").
 */
function civil(days: number): { year: number; month: number; day: number } {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const ofEra = shifted - era * 146_097;
  const yearOfEra = Math.floor((ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365);
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const from3 = Math.floor((5 * ofYear + 2) / 153);
  const month = from3 < 10 ? from3 + 2 : from3 - 10;
  return { year: yearOfEra + era * 400 + (month < 2 ? 1 : 0), month, day: ofYear - Math.floor((153 * from3 + 2) / 5) + 1 };
}

/** Days since 1970 of a month's first day; `months` counts from the year 0. */
function firstDay(months: number): number {
  const month = months - 12 * Math.floor(months / 12);
  const year = Math.floor(months / 12) - (month < 2 ? 1 : 0);
  const era = Math.floor(year / 400);
  const ofEra = year - era * 400;
  const ofYear = Math.floor((153 * (month < 2 ? month + 10 : month - 2) + 2) / 5);
  return era * 146_097 + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + ofYear - 719_468;
}

/** Starts of every `months`-th month. */
function monthly(low: number, high: number, months: number): number[] {
  const out: number[] = [];
  const { year, month } = civil(Math.floor(low / DAY));
  const first = Math.ceil((year * 12 + month) / months);
  for (let k = 0; k < MOST; k++) {
    const at = firstDay((first + k) * months) * DAY;
    if (!(at <= high)) break;
    if (at >= low && at !== out[out.length - 1]) out.push(at);
  }
  return out;
}

const two = (value: number) => String(value).padStart(2, "0");
const yearText = (year: number) => `${year < 0 ? "-" : ""}${String(Math.abs(year)).padStart(4, "0")}`;

/** Date and time of day, to the millisecond. */
function textsOf(at: number): { year: string; month: string; day: string; time: string } {
  const days = Math.floor(at / DAY);
  const { year, month, day } = civil(days);
  const rest = Math.floor(at - days * DAY);
  const [hour, minute, second] = [Math.floor(rest / HOUR), Math.floor(rest / MINUTE) % 60, Math.floor(rest / SECOND) % 60];
  const time = `${two(hour)}:${two(minute)}:${two(second)}.${String(rest % SECOND).padStart(3, "0")}`;
  return { year: yearText(year), month: two(month + 1), day: two(day), time };
}

/** The text of a time with the precision of a step. */
function told(at: number, step: number): string {
  const { year, month, day, time } = textsOf(at);
  if (step >= 365 * DAY) return year;
  if (step >= 28 * DAY) return `${year}-${month}`;
  if (step >= DAY || (at % DAY === 0 && step >= MINUTE)) return `${year}-${month}-${day}`;
  return step >= MINUTE ? time.slice(0, 5) : step >= SECOND ? time.slice(0, 8) : time;
}

/** About `about` round times, at least two, with their texts, in the column's unit. */
export function dateTicks(low: number, high: number, about: number, unit: number): { at: number; text: string }[] {
  const [from, to] = [Math.max(-LAST, low * unit), Math.min(LAST, high * unit)];
  const rough = (to - from) / Math.max(1, about);
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const step = STEPS.find((one) => one >= Math.max(rough, resolution(from, to)));
  const of = (at: number, step: number) => ({ at: at / unit, text: told(at, step) });
  const out: { at: number; text: string }[] = [];
  if (step) {
    const first = Math.ceil(from / step);
    for (let k = 0; k < MOST && (first + k) * step <= to; k++) out.push(of((first + k) * step, step));
  } else {
    const months = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000].find((count) => count * 30.4 * DAY >= rough) ?? 12 * times(stepOf(rough / (365.25 * DAY)), 1);
    out.push(...monthly(from, to, months).map((at) => of(at, months * 30.4 * DAY)));
  }
  // Rounding to the column's unit can make marks equal.
  const found = out.filter(({ at }, k) => k === 0 || at > out[k - 1].at);
  // A single mark would not show the scale.
  return found.length < 2 && about < 30 ? dateTicks(low, high, 2 * Math.max(1, about), unit) : found;
}

export function dateOf(value: number, unit: number): string {
  const at = value * unit;
  if (!(Math.abs(at) <= LAST)) return String(value);
  const { year, month, day, time } = textsOf(at);
  const date = `${year}-${month}-${day}`;
  return unit === DAY ? date : `${date} ${at % SECOND === 0 ? time.slice(0, 8) : time}`;
}
