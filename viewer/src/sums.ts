/**
 * Sums of weights by cell of a raster, by the processor: what src/densityshader.ts adds up on a
 * graphics card. A record adds its weight. For the mean of a column it also adds
 * its weight times the place of its value in the colour map, and its weight if it has a value; for
 * categories its weight times red, green and blue.
 */

import { Matrix4, type BufferAttribute, type Points, type Vector2 } from "three";
import type { Scene } from "./scene";
import type { Cell } from "./tree";

/** How a point's value becomes a place in the colour map, or the number of a category. */
export interface Coloring {
  slot: number;
  low: number;
  high: number;
  origin: number;
  log: boolean;
  /** Colours by number, if the values are categories: red, green, blue, alpha. */
  categories: Uint8Array | null;
}

const matrix = new Matrix4();

/** The place of a value in the colour map; NaN if it is missing. */
function placeIn({ low, high, origin, log }: Coloring, value: number): number {
  const share = log
    ? (Math.log(value + origin) - Math.log(low + origin)) / (Math.log(high + origin) - Math.log(low + origin))
    : (value - low) / (high - low);
  return Math.min(1, Math.max(0, share));
}

/** Whether the ranges of the filters hide a row, as the card decides it. */
export function isHidden(cell: Cell, row: number, ranges: { x: number; y: number }[]): boolean {
  for (let k = 0; k < cell.columns.length; k++) {
    const value = cell.columns[k][row];
    const { x, y } = ranges[k];
    if (value < x || value > y || (Number.isNaN(value) && (x > -3e38 || y < 3e38))) return true;
  }
  return false;
}

/**
 * Adds the drawn rows of a cell to `sums`: four numbers for each place, `wide` places a
 * row, of which the picture takes `across` times `down`.
 */
export function addUp(
  scene: Scene,
  mesh: Points,
  cell: Cell,
  weight: number | null,
  coloring: Coloring,
  sums: Float32Array,
  wide: number,
  across: number,
  down: number,
): void {
  const axes = cell.low.length;
  const { positions } = cell;
  const ranges = scene.material.uniforms.ranges.value;
  const weights = weight === null ? ((mesh.geometry.getAttribute("weight") as BufferAttribute).array as Float32Array) : null;
  const values = cell.columns[coloring.slot];
  const m = matrix
    .multiplyMatrices(scene.camera.projectionMatrix, scene.camera.matrixWorldInverse)
    .multiply(mesh.matrix).elements;
  const isFiltered = ranges.some(({ x, y }: Vector2) => x > -3e38 || y < 3e38);
  for (let row = 0; row < cell.count; row++) {
    const at = row * axes;
    const x = positions[at];
    const y = positions[at + 1];
    const z = axes > 2 ? positions[at + 2] : 0;
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    if (w <= 0) continue;
    const column = Math.floor(((m[0] * x + m[4] * y + m[8] * z + m[12]) / w + 1) * 0.5 * across);
    const line = Math.floor(((m[1] * x + m[5] * y + m[9] * z + m[13]) / w + 1) * 0.5 * down);
    if (column < 0 || line < 0 || column >= across || line >= down || (isFiltered && isHidden(cell, row, ranges))) continue;
    const into = 4 * (line * wide + column);
    const records = weights ? weights[row] : weight!;
    sums[into + 3] += records;
    if (!values) continue;
    const value = values[row];
    if (!coloring.categories) {
      const place = placeIn(coloring, value);
      if (Number.isNaN(place)) continue;
      sums[into] += records * place;
      sums[into + 1] += records;
      continue;
    }
    const color = 4 * (value >= 0 ? Math.min(255, value) : 255);
    for (let k = 0; k < 3; k++) sums[into + k] += (records * coloring.categories[color + k]) / 255;
  }
}
