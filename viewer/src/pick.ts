/** Finds points by their position on the screen. */

import { Matrix4, Vector3, type Vector2 } from "three";
import type { Scene } from "./scene";
import type { Tree } from "./tree";

const REACH = 8;

export interface Found {
  /** In the table's units. */
  at: number[];
  /** Relative to its cell's corner, as stored in the float32 column. */
  offset: number[];
}

export function nearest(scene: Scene, tree: Tree, x: number, y: number, ranges: Vector2[]): Found | null {
  const { camera, frame, width, height } = scene;
  const view = new Matrix4().multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
  const m = view.elements;
  let best: Found | null = null;
  let least = REACH * REACH;
  for (const cell of tree.cells) {
    if (!cell.drawn) continue;
    const axes = cell.low.length;
    const start = cell.low.map((value, k) => (value - frame.center[k]) * frame.scale[k]);
    for (let row = 0; row < cell.count; row++) {
      const p = [0, 0, 0];
      for (let k = 0; k < axes; k++) p[k] = start[k] + cell.positions[row * axes + k] * frame.scale[k];
      const w = m[3] * p[0] + m[7] * p[1] + m[11] * p[2] + m[15];
      if (w <= 0) continue;
      const sx = ((m[0] * p[0] + m[4] * p[1] + m[8] * p[2] + m[12]) / w + 1) * 0.5 * width - x;
      const sy = (1 - (m[1] * p[0] + m[5] * p[1] + m[9] * p[2] + m[13]) / w) * 0.5 * height - y;
      const square = sx * sx + sy * sy;
      if (square >= least) continue;
      const hidden = cell.columns.some((column, k) => column[row] < ranges[k].x || column[row] > ranges[k].y);
      if (hidden) continue;
      least = square;
      const offset = Array.from({ length: axes }, (_, k) => cell.positions[row * axes + k]);
      best = { at: offset.map((value, k) => value + cell.low[k]), offset };
    }
  }
  return best;
}

/** Number of points that determine the middle. */
const SOME = 4000;
/** Size of a new box as a fraction of the visible extent. */
const SHARE = 0.3;

/** A box around the median point on the screen; null if there are no points. */
export function middleBox(scene: Scene, tree: Tree): { low: number[]; high: number[] } | null {
  const seen: number[][] = [];
  const at = new Vector3();
  const drawn = [...tree.cells].reduce((rows, cell) => rows + cell.count, 0);
  const every = Math.max(1, Math.floor(drawn / SOME));
  for (const cell of tree.cells) {
    for (let row = 0; row < cell.count; row += every) {
      const point = cell.low.map((low, k) => low + cell.positions[row * cell.low.length + k]);
      const place = scene.project(scene.frame.toScene(point, at));
      if (place && place[0] >= 0 && place[1] >= 0 && place[0] <= scene.width && place[1] <= scene.height) seen.push(point);
    }
  }
  if (seen.length === 0) return null;
  const axes = scene.frame.low.map((_, k) => seen.map((point) => point[k]).sort((a, b) => a - b));
  const middle = axes.map((values) => values[Math.floor(values.length / 2)]);
  const away = (point: number[]) => point.reduce((sum, value, k) => sum + ((value - middle[k]) * scene.frame.scale[k]) ** 2, 0);
  const center = seen.reduce((best, point) => (away(point) < away(best) ? point : best));
  const half = axes.map((values, k) => {
    const whole = scene.frame.high[k] - scene.frame.low[k];
    return (SHARE / 2) * Math.max(values[values.length - 1] - values[0], 0.02 * whole);
  });
  return {
    low: center.map((value, k) => Math.max(scene.frame.low[k], value - half[k])),
    high: center.map((value, k) => Math.min(scene.frame.high[k], value + half[k])),
  };
}
