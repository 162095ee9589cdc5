/** A figure for a paper, like `kubist plot`: any size, with axes, scale bar, legend, title and caption. */

import type { Column } from "./api";
import { labelOf, marksOf } from "./axismarks";
import { fitting, layoutOf, scaleOf, TEXT, type Layout, type Rect } from "./figurelayout";
import type { Inks } from "./inks";
import { brief } from "./numbers";
import type { Legend } from "./legend";
import { finer, part, share, stepOf, times } from "./steps";
import { colorOf, fontOf, type Align, type Shape } from "./shapes";

export const STYLES = ["as shown", "paper", "dark"] as const;
export type Style = (typeof STYLES)[number];

export const FORMS = ["png", "svg", "pdf"] as const;
export type Form = (typeof FORMS)[number];

/** `kubist plot` uses the widths of DejaVu Sans; Verdana is nearly as wide. */
export const FAMILY = "'DejaVu Sans', Verdana, Geneva, sans-serif";

export interface FigureSpec {
  width: number;
  height: number;
  title: string;
  style: Style;
  form: Form;
  isClear: boolean;
}

/** Allowed side lengths of a figure in pixels. */
export const SIDES = [160, 8192] as const;

/** The colours of a figure; the grid is optional. */
export type FigureInks = Inks & { grid: string | null };

/** The colours of `kubist plot`. */
export const FIGURE_INKS: Record<"paper" | "dark", FigureInks> = {
  paper: { ink: "#22252b", faint: "#5a5e66", background: "#ffffff", accent: "#b3541e", grid: "#e9ebee" },
  dark: { ink: "#e4e7ec", faint: "#7a808a", background: "#111318", accent: "#f2a65a", grid: "#262a32" },
};

export interface Ends {
  low: number[];
  high: number[];
}

export interface Content {
  /** Two columns of a flat view, with axes around it. */
  columns: Column[];
  /** Range of a flat view; null for a view of three columns. */
  ends: Ends | null;
  /** Whether both axes have one scale. */
  isEqual: boolean;
  legend: Legend | null;
  caption: string;
}

export class Figure {
  readonly layout: Layout;
  private readonly shapes: Shape[] = [];

  constructor(
    private readonly spec: FigureSpec,
    private readonly content: Content,
    private readonly inks: FigureInks,
    private readonly context: CanvasRenderingContext2D,
  ) {
    const { width, height } = spec;
    const { ends, isEqual, legend } = content;
    const scale = scaleOf(width, height);
    this.font(TEXT.mark, scale);
    const widest = (texts: string[]) => Math.max(0, ...texts.map((text) => this.context.measureText(text).width));
    const ratio = ends && isEqual ? part(ends.low[1], ends.high[1], 2) / part(ends.low[0], ends.high[0], 2) : null;
    const marks = ends && widest(this.aligned(marksOf(content.columns[1], ends.low[1], ends.high[1], fitting(height, 80, scale))).map(({ text }) => text));
    this.layout = layoutOf({ width, height, hasTitle: spec.title !== "", marks, colors: legend && widest([...legend.marks, ...legend.keys].map(({ text }) => text)), ratio });
  }

  private font(size: number, scale = this.layout.scale): void {
    this.context.font = fontOf(size * scale, FAMILY);
  }

  private write(text: string, size: number, at: [number, number], align: Align, color: string, isUp = false): void {
    this.shapes.push({ kind: "words", text, at, size: size * this.layout.scale, align, color, isUp });
  }

  private fill(color: string, { left, top, width, height }: Rect): void {
    const rect = { left: Math.round(left), top: Math.round(top), width: Math.max(1, Math.round(width)), height: Math.max(1, Math.round(height)) };
    this.shapes.push({ kind: "fill", rect, color });
  }

  private frame({ left, top, width, height }: Rect): void {
    const line = Math.max(1, Math.round(this.layout.scale));
    for (const [x, y, w, h] of [[0, 0, width, line], [0, height, width + line, line], [0, 0, line, height], [width, 0, line, height]]) {
      this.fill(this.inks.faint, { left: left + x, top: top + y, width: w, height: h });
    }
  }

  /** All shapes: the points, the marks over them, and the surroundings. */
  finish(image: HTMLCanvasElement, over: Shape[]): Shape[] {
    const { plot, scale } = this.layout;
    const { ends, legend } = this.content;
    if (ends) this.grid(ends);
    this.shapes.push({ kind: "image", rect: plot, image });
    if (over.length > 0) this.shapes.push({ kind: "within", rect: plot, scale, shapes: over });
    if (ends) {
      this.axes(ends);
      this.scaleBar(ends);
    }
    if (legend) this.colors(legend);
    this.words();
    return this.shapes;
  }

  /** Pads labels to the same number of decimals, with a minus as wide as a digit. */
  private aligned<Mark extends { text: string }>(marks: Mark[]): Mark[] {
    if (!marks.every(({ text }) => /^-?\d+(\.\d+)?$/.test(text))) return marks;
    const digits = Math.max(0, ...marks.map(({ text }) => text.split(".")[1]?.length ?? 0));
    return marks.map((mark) => ({ ...mark, text: Number(mark.text).toFixed(digits).replace("-", "−") }));
  }

  private across(ends: Ends): { at: number; text: string; place: number }[] {
    const { plot, scale } = this.layout;
    const [low, high] = [ends.low[0], ends.high[0]];
    return this.aligned(marksOf(this.content.columns[0], low, high, fitting(plot.width, 110, scale)))
      .map((mark) => ({ ...mark, place: plot.left + share(low, high, mark.at) * plot.width }));
  }

  private up(ends: Ends): { at: number; text: string; place: number }[] {
    const { plot, scale } = this.layout;
    const [low, high] = [ends.low[1], ends.high[1]];
    return this.aligned(marksOf(this.content.columns[1], low, high, fitting(plot.height, 80, scale)))
      .map((mark) => ({ ...mark, place: plot.top + (1 - share(low, high, mark.at)) * plot.height }));
  }

  private grid(ends: Ends): void {
    const { plot, scale } = this.layout;
    const { grid } = this.inks;
    if (!grid) return;
    for (const { place } of this.across(ends)) this.fill(grid, { left: place, top: plot.top, width: scale, height: plot.height });
    for (const { place } of this.up(ends)) this.fill(grid, { left: plot.left, top: place, width: plot.width, height: scale });
  }

  private axes(ends: Ends): void {
    const { plot, scale, labelDistance } = this.layout;
    const { ink, faint } = this.inks;
    const tick = 6 * scale;
    const bottom = plot.top + plot.height;
    this.frame(plot);
    for (const { text, place } of this.across(ends)) {
      this.fill(faint, { left: place, top: bottom, width: scale, height: tick });
      this.write(text, TEXT.mark, [place, bottom + tick + 18 * scale], "center", ink);
    }
    for (const { text, place } of this.up(ends)) {
      this.fill(faint, { left: plot.left - tick, top: place, width: tick, height: scale });
      this.write(text, TEXT.mark, [plot.left - tick - 6 * scale, place + 6 * scale], "right", ink);
    }
    const [x, y] = this.content.columns.map(labelOf);
    this.write(x, TEXT.label, [plot.left + plot.width / 2, bottom + 54 * scale], "center", ink);
    this.write(y, TEXT.label, [plot.left - labelDistance - 4 * scale, plot.top + plot.height / 2], "center", ink, true);
  }

  /** A scale bar in the common unit, if both axes have one scale. */
  private scaleBar(ends: Ends): void {
    const { columns: [a, b], isEqual } = this.content;
    const { plot, scale } = this.layout;
    if (!isEqual || !a.unit || a.unit !== b.unit || /^(deg|rad|arc|°|mas)/.test(a.unit)) return;
    const step = finer(stepOf(part(ends.low[0], ends.high[0], 4) * 1.000001));
    if (!step) return;
    const length = times(step, 1);
    const wide = (length / part(ends.low[0], ends.high[0], 4)) * (plot.width / 4);
    const text = `${brief(length)} ${a.unit}`;
    this.font(TEXT.label);
    const end = plot.left + plot.width / 2 - this.context.measureText(labelOf(a)).width / 2 - 16 * scale;
    this.font(TEXT.mark);
    if (plot.left + wide + 8 * scale + this.context.measureText(text).width > end) return;
    const middle = plot.top + plot.height + 48 * scale;
    this.fill(this.inks.ink, { left: plot.left, top: middle, width: wide, height: 2 * scale });
    for (const left of [plot.left, plot.left + wide - 2 * scale]) {
      this.fill(this.inks.ink, { left, top: middle - 5 * scale, width: 2 * scale, height: 12 * scale });
    }
    this.write(text, TEXT.mark, [plot.left + wide + 8 * scale, plot.top + plot.height + 54 * scale], "left", this.inks.ink);
  }

  /** The legend next to the plot: a colour bar with marks and arrows for values beyond, or categories. */
  private colors(legend: Legend): void {
    const { plot, scale } = this.layout;
    const left = Math.round(plot.left + plot.width + 24 * scale);
    const right = left + Math.round(20 * scale) + scale;
    if (legend.keys.length > 0) this.keys(legend, left);
    else this.bar(legend, { left, top: plot.top, width: Math.round(20 * scale), height: plot.height });
    this.font(TEXT.mark);
    const widest = Math.max(0, ...[...legend.marks, ...legend.keys].map(({ text }) => this.context.measureText(text).width));
    const beside = Math.min(right + 31 * scale + widest, this.spec.width - 6 * scale);
    this.write(legend.title, TEXT.label, [beside, plot.top + plot.height / 2], "center", this.inks.ink, true);
  }

  private bar({ colors, marks, beyond }: Legend, bar: Rect): void {
    const { scale } = this.layout;
    this.shapes.push({ kind: "ramp", rect: bar, colors, isUp: true });
    this.frame(bar);
    const { left, width } = bar;
    const arrow = (end: number, by: number, share: number) =>
      this.shapes.push({ kind: "area", places: [[left, end], [left + width / 2, end + by], [left + width, end]], color: colorOf(colors, share) });
    if (beyond[0]) arrow(bar.top + bar.height + 3 * scale, 10 * scale, 0);
    if (beyond[1]) arrow(bar.top - 2 * scale, -10 * scale, 1);
    const right = bar.left + bar.width + scale;
    for (const { share, text } of marks) {
      const place = bar.top + bar.height * (1 - share);
      this.fill(this.inks.faint, { left: right, top: place, width: 5 * scale, height: scale });
      this.write(text, TEXT.mark, [right + 11 * scale, place + 6 * scale], "left", this.inks.ink);
    }
  }

  /** The categories that fit, from the top. */
  private keys({ keys }: Legend, left: number): void {
    const { plot, scale } = this.layout;
    const line = Math.min(26 * scale, plot.height / keys.length);
    keys.forEach(({ text, color }, k) => {
      const middle = plot.top + (k + 0.5) * line;
      const side = Math.min(14 * scale, line - 2);
      this.fill(color, { left: left + 3 * scale, top: middle - side / 2, width: side, height: side });
      this.write(text, TEXT.mark, [left + 32 * scale, middle + 6 * scale], "left", this.inks.ink);
    });
  }

  private words(): void {
    const { plot, scale } = this.layout;
    const room = this.spec.width - plot.left - 16 * scale;
    const shortened = (text: string, size: number) => {
      this.font(size);
      let kept = text;
      while (kept.length > 1 && this.context.measureText(kept).width > room) kept = `${kept.slice(0, -2)}…`;
      return kept;
    };
    this.write(shortened(this.content.caption, TEXT.caption), TEXT.caption, [plot.left, plot.top - 14 * scale], "left", this.inks.faint);
    const { title } = this.spec;
    if (title) this.write(shortened(title, TEXT.title), TEXT.title, [plot.left, plot.top - 46 * scale], "left", this.inks.ink);
  }
}
