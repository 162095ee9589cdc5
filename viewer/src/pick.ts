/** The point under the pointer. */

import { Matrix4, type Vector2 } from "three";
import type { Scene } from "./scene";
import type { Tree } from "./tree";

const REACH = 8;

export interface Found {
  /** In the table's units. */
  at: number[];
  /** Relative to its cell's corner, as the float32 column holds it. */
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
