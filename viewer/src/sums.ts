/**
 * Sums of weights by raster place on the processor, the same as src/shader.ts computes on a graphics card. Each place
 * has four numbers, the last one the row weight. The others are
 *
 * - mean: weights times the value's position in the colormap, and weights of rows with a value;
 * - maximum: the largest position in the colormap, and whether there is a value;
 * - mixture, dominant: weights times red, green and blue, of all rows or of the most frequent category's colour.
 */

import { Matrix4, type Points, type Vector2, type Vector3 } from "three";
import { Dominant } from "./dominant";
import type { Ink } from "./fading";
import type { Scene } from "./scene";
import type { Shade } from "./shades";
import type { Cell } from "./cell";

/** Maps a point's value to a position in the colormap, or to a category number. */
export interface Coloring {
  shade: Shade;
  slot: number;
  low: number;
  high: number;
  origin: number;
  log: boolean;
  /** Colours by category number: red, green, blue, alpha. */
  colors: Uint8Array;
}

const matrix = new Matrix4();

/** The position of a value in the colormap; NaN if it is missing. */
function placeIn({ low, high, origin, log }: Coloring, value: number): number {
  const share = log
    ? (Math.log(value + origin) - Math.log(low + origin)) / (Math.log(high + origin) - Math.log(low + origin))
    : (value - low) / (high - low);
  return Math.min(1, Math.max(0, share));
}

/** Whether the filter ranges hide a row, as decided on the card. */
export function isHidden(cell: Cell, row: number, ranges: { x: number; y: number }[]): boolean {
  for (let k = 0; k < cell.columns.length; k++) {
    const value = cell.columns[k][row];
    const { x, y } = ranges[k];
    if (value < x || value > y || (Number.isNaN(value) && (x > -3e38 || y < 3e38))) return true;
  }
  return false;
}

/** Whether a point of a cell is between two corners of the scene; `placed` is the cell's scale and corner. */
function isWithin(placed: number[], x: number, y: number, z: number, low: Vector3, high: Vector3): boolean {
  const [a, b, c] = [placed[0] * x + placed[12], placed[5] * y + placed[13], placed[10] * z + placed[14]];
  return a >= low.x && a <= high.x && b >= low.y && b <= high.y && c >= low.z && c <= high.z;
}

/** Sums over `across` x `down` places; the last ones may extend beyond the picture. */
export class Raster {
  private readonly dominant = new Dominant();
  private sums = new Float32Array(0) as Float32Array;
  private wide = 0;
  private across = 0;
  private down = 0;

  /** Starts again with these sums of `wide` places per row. */
  begin(sums: Float32Array, wide: number, across: number, down: number): void {
    [this.wide, this.across, this.down] = [wide, across, down];
    this.sums = sums;
    sums.fill(0);
    this.dominant.clear();
  }

  /** Adds the drawn rows of a cell, with this weight or with their own at this progress of the transition. */
  add(scene: Scene, mesh: Points, cell: Cell, weight: number | null, ink: Ink, share: number, coloring: Coloring): void {
    const axes = cell.low.length;
    const { positions } = cell;
    const { across, down, wide, sums } = this;
    const ranges = scene.material.uniforms.ranges.value;
    const { before, weights } = ink;
    const values = coloring.shade === "records" ? undefined : cell.columns[coloring.slot];
    const m = matrix
      .multiplyMatrices(scene.camera.projectionMatrix, scene.camera.matrixWorldInverse)
      .multiply(mesh.matrix).elements;
    const { roiClip, roiOn, roiLow, roiHigh } = scene.material.uniforms;
    const isCut = roiClip.value && roiOn.value;
    const isFiltered = ranges.some(({ x, y }: Vector2) => x > -3e38 || y < 3e38);
    for (let row = 0; row < ink.rows; row++) {
      const at = row * axes;
      const x = positions[at];
      const y = positions[at + 1];
      const z = axes > 2 ? positions[at + 2] : 0;
      const w = m[3] * x + m[7] * y + m[11] * z + m[15];
      if (w <= 0) continue;
      const column = Math.floor(((m[0] * x + m[4] * y + m[8] * z + m[12]) / w + 1) * 0.5 * across);
      const line = Math.floor(((m[1] * x + m[5] * y + m[9] * z + m[13]) / w + 1) * 0.5 * down);
      if (column < 0 || line < 0 || column >= across || line >= down || (isFiltered && isHidden(cell, row, ranges))) continue;
      if (isCut && !isWithin(mesh.matrix.elements, x, y, z, roiLow.value, roiHigh.value)) continue;
      const place = line * wide + column;
      const records = weight ?? before[row] + share * (weights[row] - before[row]);
      sums[4 * place + 3] += records;
      if (values) this.color(coloring, place, values[row], records);
    }
  }

  private color(coloring: Coloring, place: number, value: number, records: number): void {
    const { sums } = this;
    const into = 4 * place;
    const { shade, colors } = coloring;
    if (shade === "mean" || shade === "maximum") {
      const along = placeIn(coloring, value);
      if (Number.isNaN(along)) return;
      sums[into] = shade === "mean" ? sums[into] + records * along : Math.max(sums[into], along);
      sums[into + 1] += shade === "mean" ? records : 1;
      return;
    }
    const category = value >= 0 ? Math.min(255, value) : 255;
    if (shade === "dominant") this.dominant.add(place, category, records);
    else for (let k = 0; k < 3; k++) sums[into + k] += (records * colors[4 * category + k]) / 255;
  }

  /** Call after all cells were added. */
  end({ shade, colors }: Coloring): void {
    if (shade === "dominant") this.dominant.finish(this.sums, colors);
  }
}
