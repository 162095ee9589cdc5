/** Counts the drawn points that are on the screen; cells extend beyond it. */

import { Matrix4 } from "three";
import type { Cell } from "./cell";
import type { PointCloud } from "./cloud";
import type { Scene } from "./scene";

export function seenOf(scene: Scene, cloud: PointCloud): number {
  const { camera, frame } = scene;
  const { least, most } = cloud.tree;
  const { elements: m } = new Matrix4().multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
  const [sx, sy, sz] = frame.scale;
  /** Bits of the screen sides that a position is beyond. */
  const beyond = (x: number, y: number, z: number) => {
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    const px = m[0] * x + m[4] * y + m[8] * z + m[12];
    const py = m[1] * x + m[5] * y + m[9] * z + m[13];
    return (px < -w ? 1 : 0) | (px > w ? 2 : 0) | (py < -w ? 4 : 0) | (py > w ? 8 : 0) | (w <= 0 ? 16 : 0);
  };
  const within = ({ low, high, openLow, openHigh, positions, count }: Cell) => {
    const axes = low.length;
    const ends = low.map((end, k) => [openLow[k] ? Math.min(end, least[k]) : end, openHigh[k] ? Math.max(high[k], most[k]) : high[k]]);
    let [any, all] = [0, 31];
    for (let corner = 0; corner < 1 << axes; corner++) {
      const [x, y, z = 0] = ends.map((side, k) => frame.along(side[(corner >> k) & 1], k));
      const sides = beyond(x, y, z);
      any |= sides;
      all &= sides;
    }
    if (any === 0) return count;
    if (all > 0) return 0;
    const [x0, y0, z0 = 0] = low.map((value, k) => frame.along(value, k));
    let seen = 0;
    for (let row = 0; row < count; row++) {
      const at = row * axes;
      if (beyond(x0 + positions[at] * sx, y0 + positions[at + 1] * sy, axes > 2 ? z0 + positions[at + 2] * sz : 0) === 0) seen++;
    }
    return seen;
  };
  let seen = 0;
  cloud.each((cell) => (seen += within(cell)));
  return seen;
}
