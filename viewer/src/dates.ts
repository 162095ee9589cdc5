/** Points in time on axes: round ones between two ends, as short a text as tells them apart. */

const SECOND = 1000;
const [MINUTE, HOUR, DAY] = [60 * SECOND, 3600 * SECOND, 86400 * SECOND];
const STEPS = [1, 10, 100, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE]
  .concat([HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY]);

/** Milliseconds of one unit of a column of this type; null: it has no dates. */
export function millisecondsOf(type: string): number | null {
  if (type.startsWith("Date32")) return DAY;
  if (type.startsWith("Date64")) return 1;
  const unit = /^Timestamp\(([^),]+)/.exec(type)?.[1];
  return { s: 1000, ms: 1, us: 1e-3, "µs": 1e-3, ns: 1e-6 }[unit ?? ""] ?? null;
}

/** The beginnings of months, every `months` of them. */
function monthly(low: number, high: number, months: number): number[] {
  const first = new Date(low);
  const out = [];
  const begin = first.getUTCFullYear() * 12 + first.getUTCMonth();
  for (let k = Math.ceil(begin / months) * months; out.length < 50; k += months) {
    // Date.UTC takes years below 100 for those of the twentieth century.
    const at = new Date(0).setUTCFullYear(Math.floor(k / 12), k % 12, 1);
    if (at > high) break;
    if (at >= low) out.push(at);
  }
  return out;
}

/** The text of a point in time to the accuracy of a step. */
function told(at: number, step: number): string {
  const whole = new Date(at);
  // Beyond what dates can say.
  if (Number.isNaN(whole.getTime())) return String(at);
  const text = whole.toISOString().replace(/^\+00/, "");
  const day = text.slice(0, text.indexOf("T"));
  const time = text.slice(text.indexOf("T") + 1);
  if (step >= 365 * DAY) return day.slice(0, -6);
  if (step >= 28 * DAY) return day.slice(0, -3);
  if (step >= DAY || (at % DAY === 0 && step >= MINUTE)) return day;
  return step >= MINUTE ? time.slice(0, 5) : step >= SECOND ? time.slice(0, 8) : time.slice(0, 12);
}

/** Round points in time, `about` this many but two at least, and their texts; all in units of the column. */
export function dateTicks(low: number, high: number, about: number, unit: number): { at: number; text: string }[] {
  const [from, to] = [low * unit, high * unit];
  const rough = (to - from) / Math.max(1, about);
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const step = STEPS.find((one) => one >= rough);
  const of = (at: number, step: number) => ({ at: at / unit, text: told(at, step) });
  const out = [];
  if (step) {
    for (let k = Math.ceil(from / step); k * step <= to && out.length < 50; k++) out.push(of(k * step, step));
  } else {
    const months = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((count) => count * 30.4 * DAY >= rough) ?? 12000;
    out.push(...monthly(from, to, months).map((at) => of(at, months * 30.4 * DAY)));
  }
  // One alone would say nothing of the scale.
  return out.length < 2 && about < 30 ? dateTicks(low, high, 2 * Math.max(1, about), unit) : out;
}

/** One point in time, to the second. */
export function dateOf(value: number, unit: number): string {
  const at = new Date(value * unit);
  if (Number.isNaN(at.getTime())) return String(value);
  const text = at.toISOString().replace("T", " ");
  return unit === DAY ? text.slice(0, -14) : text.slice(0, value * unit % SECOND === 0 ? -5 : -1);
}
