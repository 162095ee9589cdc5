/**
 * Names and numbers along the axes, over the points. Each text has a background, so that it is readable on points; a
 * text that would overlap another one is left out.
 */

import { Vector3 } from "three";
import type { Column } from "./api";
import { labelOf, marksOf } from "./axismarks";
import type { Inks } from "./inks";
import type { Mark } from "./marking";
import type { Legend } from "./legend";
import type { Scene } from "./scene";
import { colorOf, fontOf, type Align, type Place, type Shape } from "./shapes";

export interface Content {
  scene: Scene;
  /** The two or three columns with axes. */
  columns: Column[];
  /** Notes about the picture, one per line. */
  captions: string[];
  marks: Mark[];
  inks: Inks;
  /** Background of texts; null for none. */
  ground: string | null;
  legend: Legend | null;
  /** Heights of the page's own texts at the top and bottom, in pixels. */
  head: number;
  foot: number;
}

/** Line height and letter height. */
const LINE = 13;
const SIZE = 12;
/** Size of the cache of text widths. */
const KNOWN = 500;

/** Left, top, right, bottom. */
type Box = [number, number, number, number];

export class Overlay {
  private readonly at = new Vector3();
  private readonly to = new Vector3();
  private inks: Inks = { ink: "", faint: "", background: "", accent: "" };
  private width = 1;
  private height = 1;
  private head = 0;
  private foot = 0;
  private ground: string | null = null;
  private shapes: Shape[] = [];
  private readonly taken: Box[] = [];
  private readonly widths = new Map<string, number>();

  /** `context` measures texts in this font. */
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly family: string,
  ) {}

  /** In pixels of the page. */
  draw({ scene, columns, captions, marks, inks, ground, legend, head, foot }: Content): Shape[] {
    [this.width, this.height] = [scene.width, scene.height];
    this.context.font = fontOf(SIZE, this.family);
    this.shapes = [];
    this.inks = inks;
    this.ground = ground;
    this.head = head;
    this.foot = foot;
    this.taken.length = 0;
    for (const mark of marks) this.mark(scene, mark);
    if (legend) this.legend(legend);
    for (const caption of captions) {
      [12, 12 + LINE, 62, 62 + LINE].some((below) => this.put(caption, this.width / 2, this.head + below, "center", inks.ink));
    }
    if (columns.length === 2) this.flat(scene, columns);
    else if (columns.length === 3) this.deep(scene, columns);
    return this.shapes;
  }

  /** The same texts are measured in every frame. */
  private widthOf(text: string): number {
    let wide = this.widths.get(text);
    if (wide === undefined) {
      if (this.widths.size >= KNOWN) this.widths.clear();
      wide = this.context.measureText(text).width;
      this.widths.set(text, wide);
    }
    return wide;
  }

  /** The rectangle of a text; null if it would overlap another one or leave the picture. */
  private room(text: string, x: number, y: number, align: Align): Box | null {
    const wide = this.widthOf(text);
    const left = align === "left" ? x : align === "right" ? x - wide : x - wide / 2;
    const box: Box = [left - 4, y - LINE / 2, left + wide + 4, y + LINE / 2];
    if (box[0] < 2 || box[2] > this.width - 2 || box[1] < this.head || box[3] > this.height - this.foot) return null;
    return this.taken.some(([l, t, r, b]) => box[0] < r && l < box[2] && box[1] < b && t < box[3]) ? null : box;
  }

  /** Writes a text if there is space for it. */
  private put(text: string, x: number, y: number, align: Align, color: string): boolean {
    const box = this.room(text, x, y, align);
    if (!box) return false;
    this.taken.push(box);
    const [left, wide] = [box[0] + 4, box[2] - box[0] - 8];
    if (this.ground) this.shapes.push({ kind: "fill", rect: { left: Math.floor(left - 2), top: Math.round(y - LINE / 2), width: Math.ceil(wide + 5), height: LINE + 1 }, color: this.ground });
    this.shapes.push({ kind: "words", text, at: [left, y + 0.35 * SIZE], size: SIZE, align: "left", color, isUp: false });
    return true;
  }

  /** A line over the points, with its text in the middle. */
  private mark(scene: Scene, { places, isClosed, text }: Mark): void {
    const found = places.map((place) => scene.project(scene.frame.toScene(place, this.at)));
    if (found.some((place) => place === null)) return;
    const on = found as Place[];
    for (const [width, color] of [[4, this.inks.background], [1.5, this.inks.ink]] as const) {
      this.shapes.push({ kind: "line", places: on, isClosed, rings: isClosed ? 0 : 3, width, color });
    }
    if (text) this.put(text, (on[0][0] + on[1][0]) / 2, (on[0][1] + on[1][1]) / 2 - 12, "center", this.inks.ink);
  }

  private legend({ title, colors, marks, beyond, keys }: Legend): void {
    if (keys.length > 0) return;
    const { width, shapes } = this;
    const wide = Math.min(260, width - 48);
    const [left, top] = [width - wide - 24, this.head + 22];
    this.put(title, left + wide, top - 14, "right", this.inks.ink);
    shapes.push({ kind: "ramp", rect: { left, top, width: wide, height: 9 }, colors, isUp: false });
    this.taken.push([left - 4, top - 4, left + wide + 4, top + 12]);
    const arrow = (end: number, by: number, share: number) =>
      shapes.push({ kind: "area", places: [[end, top], [end + by, top + 4.5], [end, top + 9]], color: colorOf(colors, share) });
    if (beyond[0]) arrow(left - 1, -6, 0);
    if (beyond[1]) arrow(left + wide + 1, 6, 1);
    for (const { share, text } of marks) {
      const at = left + share * (wide - 1);
      shapes.push({ kind: "fill", rect: { left: at - 0.5, top: top + 9, width: 1, height: 3 }, color: this.inks.faint });
      this.put(text, at, top + 20, "center", this.inks.faint);
    }
  }

  /** Round numbers along the left and lower side of the rows, or of the picture if the rows extend beyond it. */
  private flat(scene: Scene, columns: Column[]): void {
    const { at, width, height } = this;
    const { frame } = scene;
    const { faint, ink } = this.inks;
    const corner = (x: number, y: number) => at.set(x, y, 0).unproject(scene.camera);
    corner(-1, -1);
    const low = [scene.frame.toTable(at, 0), scene.frame.toTable(at, 1)];
    corner(1, 1);
    const high = [scene.frame.toTable(at, 0), scene.frame.toTable(at, 1)];
    const across = (value: number) => ((value - low[0]) / (high[0] - low[0])) * width;
    const down = (value: number) => (1 - (value - low[1]) / (high[1] - low[1])) * height;
    const tick = (left: number, top: number, width: number, height: number) => this.shapes.push({ kind: "fill", rect: { left, top, width, height }, color: faint });
    /** Marks are within the visible rows, at least two; beyond them only if nothing else is visible. */
    const marks = (axis: number, pixels: number, apart: number) => {
      const [from, to] = [Math.max(low[axis], frame.low[axis]), Math.min(high[axis], frame.high[axis])];
      if (from >= to) return marksOf(columns[axis], low[axis], high[axis], pixels / apart);
      const length = (pixels * (to - from)) / (high[axis] - low[axis]);
      return marksOf(columns[axis], from, to, Math.max(length / apart, Math.min(2, length / 26)));
    };
    const lowest = height - this.foot - 8;
    const bottom = Math.min(lowest, Math.max(this.head + 100, down(frame.low[1]) + 18));
    const upward = marks(1, height, 80);
    const side = across(frame.low[0]) - 10;
    const isBeside = side - this.widest(upward) > 14 && side < width - 100;
    const [left, right] = [across(Math.max(low[0], frame.low[0])), across(Math.min(high[0], frame.high[0]))];
    const names = columns.map(labelOf);
    if (bottom + 20 > lowest || left >= right || !this.put(names[0], (left + right) / 2, bottom + 20, "center", ink)) this.put(names[0], width - 12, bottom - 20, "right", ink);
    if (!isBeside || !this.put(names[1], side - 6, down(frame.high[1]) - 14, "center", ink)) this.put(names[1], 10, this.head + 10, "left", ink);
    for (const { at: value, text } of upward) {
      const y = down(value);
      if (y < bottom - 14 && this.put(text, isBeside ? side : 20, y, isBeside ? "right" : "left", faint)) tick(isBeside ? side + 3 : 8, y, 6, 1);
    }
    for (const { at: value, text } of marks(0, width, 110)) {
      const x = across(value);
      if (this.put(text, x, bottom, "center", faint)) tick(x, bottom - 13, 1, 6);
    }
  }

  private widest(marks: { text: string }[]): number {
    return Math.max(0, ...marks.map(({ text }) => this.widthOf(text)));
  }

  /** Names and round numbers of each axis, next to the edge of the box where they overlap least. */
  private deep(scene: Scene, columns: Column[]): void {
    const { at, to } = this;
    const { frame } = scene;
    const middle = scene.project(to.set(0, 0, 0));
    if (!middle) return;
    const edges: { axis: number; signs: [number, number]; length: number }[] = [];
    for (let axis = 0; axis < 3; axis++) {
      const [p, q] = [(axis + 1) % 3, (axis + 2) % 3];
      let best: { away: number; signs: [number, number]; length: number } | null = null;
      for (const a of [-1, 1])
        for (const b of [-1, 1]) {
          at.setComponent(axis, 0).setComponent(p, a * frame.half(p)).setComponent(q, b * frame.half(q));
          const place = scene.project(at);
          if (!place) continue;
          // The lowest edge on the screen, or else the leftmost.
          const away = place[1] - middle[1] - 0.6 * (place[0] - middle[0]);
          if (best && away <= best.away) continue;
          const half = frame.half(axis);
          const ends = [half, -half].map((end) => scene.project(at.setComponent(axis, end)));
          const length = ends[0] && ends[1] ? Math.hypot(ends[0][0] - ends[1][0], ends[0][1] - ends[1][1]) : 0;
          best = { away, signs: [a, b], length };
        }
      if (best && best.length > 8) edges.push({ axis, signs: best.signs, length: best.length });
    }
    // Longer axes come first if space is short.
    edges.sort((a, b) => b.length - a.length);
    for (const write of [true, false]) for (const { axis, signs } of edges) this.edge(scene, columns[axis], axis, signs, middle, write);
  }

  private edge(scene: Scene, column: Column, axis: number, signs: [number, number], middle: [number, number], name: boolean): void {
    const { at } = this;
    const { frame } = scene;
    const [p, q] = [(axis + 1) % 3, (axis + 2) % 3];
    const place = (value: number) => {
      at.setComponent(axis, frame.along(value, axis));
      at.setComponent(p, signs[0] * frame.half(p)).setComponent(q, signs[1] * frame.half(q));
      return scene.project(at);
    };
    const [low, high] = [place(frame.low[axis]), place(frame.high[axis])];
    const center = place((frame.low[axis] + frame.high[axis]) / 2);
    if (!low || !high || !center) return;
    const length = Math.hypot(high[0] - low[0], high[1] - low[1]);
    // Perpendicular to the edge, away from the middle of the box.
    const across = [-(high[1] - low[1]) / Math.max(1, length), (high[0] - low[0]) / Math.max(1, length)];
    const side = across[0] * (center[0] - middle[0]) + across[1] * (center[1] - middle[1]) < 0 ? -1 : 1;
    const off = [across[0] * side, across[1] * side];
    // Texts on the inner side are aligned in the opposite way.
    const alignOf = (by: number): Align => (off[0] * by < -0.35 * Math.abs(by) ? "right" : off[0] * by > 0.35 * Math.abs(by) ? "left" : "center");
    const beside = (where: [number, number], by: number) => [where[0] + off[0] * by, where[1] + off[1] * by] as const;
    if (name) {
      const label = labelOf(column);
      const numbers = alignOf(1) === "center" ? 22 : this.widest(marksOf(column, frame.low[axis], frame.high[axis], length / 80)) + 12;
      const away = length < 60 ? 14 : 12 + numbers;
      if (this.put(label, ...beside(center, away), alignOf(1), this.inks.ink)) return;
      // If there is no space next to it, beyond one of its ends.
      for (const [end, sign] of [[high, 1], [low, -1]] as const) {
        const by = (sign * 16) / Math.max(1, length);
        if (this.put(label, end[0] + by * (high[0] - low[0]), end[1] + by * (high[1] - low[1]), "center", this.inks.ink)) return;
      }
      this.put(label, ...beside(center, -away), alignOf(-1), this.inks.ink);
      return;
    }
    // A short edge also has two numbers, if necessary on the inner side or with a finer step.
    const marks = [12, -12].flatMap((by) => [1, 2, 4].map((finer) => {
      const round = marksOf(column, frame.low[axis], frame.high[axis], finer * Math.max(length / 80, Math.min(2, length / 26)));
      const seen = round.map(({ at: value, text }) => ({ text, where: place(value) })).filter(({ where }) => where !== null);
      return seen.map(({ text, where }) => ({ text, to: beside(where!, by), align: alignOf(by) })).filter(({ text, to, align }) => this.room(text, ...to, align));
    }));
    for (const { text, to, align } of marks.find((some) => some.length > 1) ?? marks[0]) this.put(text, ...to, align, this.inks.faint);
  }
}
