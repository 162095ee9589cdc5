/** Draws the second view: bars, dots or a line with intervals, its axes, and the brushed range. */

import type { Column } from "./api";
import { labelOf, marksOf } from "./axismarks";
import type { Inks } from "./inks";
import type { Kind, Second } from "./kinds";
import { brief } from "./numbers";
import type { Sample } from "./sample";
import { around, equal, finite, logarithmicShare, middle, part, share } from "./steps";

/** Most bars, or points of a line. */
const BINS = 60;
/** Up to this many integer values get a bar each. */
const FEW = 40;
/** Half the width of a normal distribution's 95 % interval, in standard deviations. */
const DEVIATIONS = 1.96;

export interface Ends {
  low: number;
  high: number;
}

/** The rectangle between the axes in CSS pixels, and its range. */
export interface Plot {
  left: number;
  top: number;
  width: number;
  height: number;
  x: Ends;
  y: Ends;
  log: boolean;
}

export interface Bar {
  low: number;
  high: number;
  /** A count or mean, and its 95 % interval; NaN if unknown. */
  value: number;
  from: number;
  to: number;
}

export interface Content {
  kind: Kind;
  columns: Column[];
  sample: Sample;
  /** Whether the count axis is logarithmic. */
  log: boolean;
  bars: Bar[];
  x: Ends;
  y: Ends;
}

/** The extremes of the values and of the column's known range. */
function endsOf(values: Float64Array, known: Ends): Ends {
  let { low, high } = known;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low < high) return { low, high };
  [low, high] = around(low);
  return { low, high };
}

/** Edges of bars: between the values of a column with few values, otherwise evenly spaced. */
function edgesOf({ low, high }: Ends, distinct: number[] | null): number[] {
  if (distinct && distinct.length > 1 && distinct.length <= FEW) {
    const between = distinct.slice(1).map((value, k) => middle(value, distinct[k]));
    const [first, last] = [distinct[0], distinct[distinct.length - 1]];
    const edges = [finite(first - (between[0] - first)), ...between, finite(last + (last - between[between.length - 1]))];
    // No number is between adjacent values.
    if (edges.every((edge, k) => k === 0 || edge > edges[k - 1])) return edges;
  }
  return equal(low, high, BINS);
}

/** The bin of each value; -1 for none. */
function binsOf(values: Float64Array, edges: number[]): Int32Array {
  const bins = new Int32Array(values.length).fill(-1);
  const last = edges.length - 1;
  values.forEach((value, row) => {
    if (!(value >= edges[0] && value <= edges[last])) return;
    let bin = Math.min(last - 1, Math.floor(share(edges[0], edges[last], value) * last));
    while (bin > 0 && value < edges[bin]) bin--;
    while (bin < last - 1 && value >= edges[bin + 1]) bin++;
    bins[row] = bin;
  });
  return bins;
}

/** Estimated number of rows by value, each with an interval. */
export function counted(values: Float64Array, fraction: number, edges: number[]): Bar[] {
  const counts = new Float64Array(edges.length - 1);
  for (const bin of binsOf(values, edges)) if (bin >= 0) counts[bin]++;
  return Array.from(counts, (count, k) => {
    const half = (DEVIATIONS * Math.sqrt(count * (1 - fraction))) / fraction;
    const value = count / fraction;
    return { low: edges[k], high: edges[k + 1], value, from: Math.max(count, value - half), to: value + half };
  });
}

/** Means by position, each with an interval if there are at least two values. */
export function averaged(along: Float64Array, values: Float64Array, fraction: number, edges: number[]): Bar[] {
  const length = edges.length - 1;
  const [counts, sums, squares] = [new Float64Array(length), new Float64Array(length), new Float64Array(length)];
  const bins = binsOf(along, edges);
  const known = (row: number) => bins[row] >= 0 && Number.isFinite(values[row]);
  // Scaled, because squares of extreme values overflow.
  const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
  const size = largest > 1e100 || (largest > 0 && largest < 1e-100) ? largest : 1;
  values.forEach((value, row) => {
    if (!known(row)) return;
    counts[bins[row]]++;
    sums[bins[row]] += value / size;
  });
  const means = sums.map((sum, k) => sum / counts[k]);
  values.forEach((value, row) => {
    if (known(row)) squares[bins[row]] += (value / size - means[bins[row]]) ** 2;
  });
  return Array.from(means, (mean, k) => {
    const value = mean * size;
    // With all rows there is no sampling error.
    const half = fraction >= 1 ? 0 : counts[k] > 1 ? DEVIATIONS * Math.sqrt(((1 - fraction) * squares[k]) / (counts[k] - 1) / counts[k]) * size : NaN;
    return { low: edges[k], high: edges[k + 1], value, from: value - half, to: value + half };
  });
}

/** The content for a sample, with the known range and distinct values of its columns. */
export function contentOf({ kind, log }: Second, columns: Column[], sample: Sample, known: Ends[], distinct: (number[] | null)[]): Content {
  const [along, up] = sample.values;
  let x = endsOf(along, known[0]);
  if (kind === "scatter") return { kind, columns, sample, log, bars: [], x, y: endsOf(up, known[1]) };
  const edges = edgesOf(x, distinct[0]);
  x = { low: edges[0], high: edges[edges.length - 1] };
  const bars = kind === "histogram" ? counted(along, sample.fraction, edges) : averaged(along, up, sample.fraction, edges);
  const ends = bars.flatMap(({ value, from, to }) => [value, from, to]).filter(Number.isFinite);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const margin = (least < most ? part(least, most, 1 / 0.06) : 0.06 * Math.abs(most)) || 0.06;
  if (log) return { kind, columns, sample, log, bars, x, y: { low: 0.5 / sample.fraction, high: 2 * Math.max(1 / sample.fraction, most) } };
  const y = kind === "histogram" ? { low: 0, high: most + margin || 1 } : ends.length > 0 ? { low: finite(least - margin), high: finite(most + margin) } : { low: 0, high: 1 };
  return { kind, columns, sample, log, bars, x, y };
}

export const acrossOf = ({ left, width, x }: Plot, value: number) => left + share(x.low, x.high, value) * width;
export function downOf({ top, height, y, log }: Plot, value: number): number {
  const up = log ? logarithmicShare(y.low, y.high, Math.max(value, y.low)) : share(y.low, y.high, value);
  return top + (1 - up) * height;
}

/** A brushed range; null for an open bound. */
type Range = [number | null, number | null];
const meets = ([low, high]: Range, bar: Bar) => (low === null || bar.high > low) && (high === null || bar.low < high);
const isWithin = ([low, high]: Range, value: number) => (low === null || value >= low) && (high === null || value <= high);

const LINE = 14;

function powersOf({ low, high }: Ends): { at: number; text: string }[] {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const every = Math.max(1, Math.ceil((last - first) / 4));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / every) + 1) }, (_, k) => 10 ** (first + k * every)).map((at) => ({ at, text: brief(at) }));
}

export class SecondPlot {
  private readonly context: CanvasRenderingContext2D;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  /** Draws the content and returns its plot area. `colorOf`: colour of a row, or of a value of the first column. */
  draw(content: Content, ranges: Range[], inks: Inks, colorOf: (row: number, value: number) => string): Plot {
    const { canvas, context } = this;
    const ratio = devicePixelRatio || 1;
    const [wide, tall] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    const { x, y, log } = content;
    const upwards: Column = content.kind === "histogram" ? { name: "records", data_type: "Float64", kind: "number", unit: null } : content.columns[1];
    const marks = log ? powersOf(y) : marksOf(upwards, y.low, y.high, Math.max(2, tall / 46));
    const left = 16 + Math.max(...marks.map(({ text }) => context.measureText(text).width), 20);
    const plot: Plot = { left, top: 24, width: Math.max(20, wide - left - 14), height: Math.max(20, tall - 24 - 40), x, y, log };
    this.axes(plot, content.kind === "series" ? `mean of ${labelOf(upwards)}` : labelOf(upwards), labelOf(content.columns[0]), marks, marksOf(content.columns[0], x.low, x.high, wide / 90), inks);
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top, plot.width, plot.height);
    context.clip();
    if (content.kind === "histogram") this.bars(plot, content.bars, ranges[0], inks, colorOf);
    else if (content.kind === "scatter") this.dots(plot, content.sample, ranges, colorOf);
    else this.line(plot, content.bars, ranges[0], inks);
    this.brush(plot, ranges, content.kind, inks);
    context.restore();
    return plot;
  }

  private axes(plot: Plot, up: string, across: string, upwards: { at: number; text: string }[], along: { at: number; text: string }[], { ink, faint }: Inks): void {
    const { context } = this;
    const { left, top, width, height } = plot;
    context.fillStyle = faint;
    context.fillRect(left, top + height, width, 1);
    context.fillRect(left - 1, top, 1, height);
    context.textAlign = "right";
    for (const { at, text } of upwards) {
      const place = downOf(plot, at);
      context.fillRect(left - 5, place, 4, 1);
      context.fillText(text, left - 8, place);
    }
    context.textAlign = "center";
    let end = -Infinity;
    for (const { at, text } of along) {
      const place = acrossOf(plot, at);
      const half = context.measureText(text).width / 2;
      context.fillRect(place, top + height + 1, 1, 4);
      if (place - half < end + 8 || place + half > this.canvas.clientWidth - 2) continue;
      end = place + half;
      context.fillText(text, place, top + height + 13);
    }
    context.fillStyle = ink;
    context.fillText(across, left + width / 2, top + height + 13 + LINE);
    context.textAlign = "left";
    context.fillText(up, 8, 11);
  }

  private bars(plot: Plot, bars: Bar[], range: Range, { ink }: Inks, colorOf: (row: number, value: number) => string): void {
    const { context } = this;
    for (const bar of bars) {
      const { low, high, value, from, to } = bar;
      const [left, right] = [acrossOf(plot, low), acrossOf(plot, high)];
      const place = downOf(plot, value);
      context.globalAlpha = meets(range, bar) ? 1 : 0.25;
      context.fillStyle = colorOf(-1, middle(low, high));
      context.fillRect(left, place, Math.max(1, right - left - 0.7), plot.top + plot.height - place);
      if (!(to > from)) continue;
      context.globalAlpha *= 0.6;
      context.fillStyle = ink;
      context.fillRect((left + right) / 2 - 0.5, downOf(plot, to), 1, downOf(plot, from) - downOf(plot, to));
    }
    context.globalAlpha = 1;
  }

  private dots(plot: Plot, { values: [along, up], rows }: Sample, ranges: Range[], colorOf: (row: number, value: number) => string): void {
    const { context } = this;
    // Dots cover at most about a third of the plot, and are fainter if there are many.
    const side = Math.min(3, Math.max(1.2, Math.sqrt((0.6 * plot.width * plot.height) / Math.max(1, rows))));
    const solid = rows > 4000 ? 0.55 : 0.8;
    for (let row = 0; row < rows; row++) {
      const isInside = isWithin(ranges[0], along[row]) && isWithin(ranges[1], up[row]);
      context.globalAlpha = isInside ? solid : 0.12;
      context.fillStyle = colorOf(row, along[row]);
      context.fillRect(acrossOf(plot, along[row]) - side / 2, downOf(plot, up[row]) - side / 2, side, side);
    }
    context.globalAlpha = 1;
  }

  private line(plot: Plot, bars: Bar[], range: Range, { ink, accent }: Inks): void {
    const { context } = this;
    const known = bars.filter(({ value }) => Number.isFinite(value));
    const middleOf = ({ low, high }: Bar) => acrossOf(plot, middle(low, high));
    context.fillStyle = context.strokeStyle = accent;
    for (const bar of known) {
      context.globalAlpha = meets(range, bar) ? 0.35 : 0.12;
      if (bar.to > bar.from) context.fillRect(acrossOf(plot, bar.low), downOf(plot, bar.to), acrossOf(plot, bar.high) - acrossOf(plot, bar.low), Math.max(1, downOf(plot, bar.from) - downOf(plot, bar.to)));
    }
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const bar of known) context.lineTo(middleOf(bar), downOf(plot, bar.value));
    context.stroke();
    context.fillStyle = ink;
    if (known.length <= 80) for (const bar of known) context.fillRect(middleOf(bar) - 1.5, downOf(plot, bar.value) - 1.5, 3, 3);
  }

  private brush(plot: Plot, [across, up]: Range[], kind: Kind, { ink }: Inks): void {
    const { context } = this;
    context.fillStyle = ink;
    for (const end of across) if (end !== null) context.fillRect(acrossOf(plot, end) - 0.5, plot.top, 1, plot.height);
    if (kind === "scatter") for (const end of up) if (end !== null) context.fillRect(plot.left, downOf(plot, end) - 0.5, plot.width, 1);
  }
}
