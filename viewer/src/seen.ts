/** How many of the points that are drawn are on the screen: cells reach beyond it. */

import { Matrix4 } from "three";
import type { Cell } from "./cell";
import type { PointCloud } from "./cloud";
import type { Scene } from "./scene";

export function seenOf(scene: Scene, cloud: PointCloud): number {
  const { camera, frame } = scene;
  const { elements: m } = new Matrix4().multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
  /** The sides of the picture that a place lies beyond, in bits. */
  const beyond = (x: number, y: number, z: number) => {
    const [px, py, w] = [0, 1, 3].map((k) => m[k] * x + m[k + 4] * y + m[k + 8] * z + m[k + 12]);
    return (px < -w ? 1 : 0) | (px > w ? 2 : 0) | (py < -w ? 4 : 0) | (py > w ? 8 : 0) | (w <= 0 ? 16 : 0);
  };
  const within = (cell: Cell) => {
    const axes = cell.low.length;
    let [any, all] = [0, 31];
    for (let corner = 0; corner < 1 << axes; corner++) {
      const at = [0, 1, 2].map((k) => (k < axes ? frame.along(corner & (1 << k) ? cell.high[k] : cell.low[k], k) : 0));
      const sides = beyond(at[0], at[1], at[2]);
      any |= sides;
      all &= sides;
    }
    // Records of a cell at the border of the whole may lie beyond its box.
    const isClosed = !cell.openLow.includes(true) && !cell.openHigh.includes(true);
    if (isClosed && any === 0) return cell.count;
    if (isClosed && all > 0) return 0;
    const { positions, count, low } = cell;
    const start = low.map((value, k) => frame.along(value, k));
    const [sx, sy, sz] = frame.scale;
    // As `beyond`, without a list for each point.
    let seen = 0;
    for (let row = 0; row < count; row++) {
      const x = start[0] + positions[row * axes] * sx;
      const y = start[1] + positions[row * axes + 1] * sy;
      const z = axes > 2 ? start[2] + positions[row * axes + 2] * sz : 0;
      const w = m[3] * x + m[7] * y + m[11] * z + m[15];
      const px = m[0] * x + m[4] * y + m[8] * z + m[12];
      const py = m[1] * x + m[5] * y + m[9] * z + m[13];
      if (px >= -w && px <= w && py >= -w && py <= w && w > 0) seen++;
    }
    return seen;
  };
  let seen = 0;
  cloud.each((cell) => (seen += within(cell)));
  return seen;
}
