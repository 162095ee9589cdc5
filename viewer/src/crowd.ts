/** Estimates the density of points on the screen from a sample of them. */

import { Vector3 } from "three";
import type { PointCloud } from "./cloud";
import type { Scene } from "./scene";

const SOME = 8000;
const SIDE = 16;

const at = new Vector3();
let counts = new Uint32Array(0);

export interface Crowd {
  /** Mean points per pixel around a point. */
  around: number;
  /** Median points per pixel of the occupied squares. */
  middle: number;
}

export function crowdOf(scene: Scene, cloud: PointCloud): Crowd {
  const [wide, tall] = [Math.ceil(scene.width / SIDE), Math.ceil(scene.height / SIDE)];
  if (counts.length < wide * tall) counts = new Uint32Array(wide * tall);
  counts.fill(0);
  const every = Math.max(1, Math.ceil((cloud.choice?.rows ?? 0) / SOME));
  let skip = 0;
  let seen = 0;
  cloud.each((cell) => {
    const axes = cell.low.length;
    for (; skip < cell.count; skip += every) {
      for (let k = 0; k < 3; k++) {
        at.setComponent(k, k < axes ? scene.frame.along(cell.low[k] + cell.positions[skip * axes + k], k) : 0);
      }
      const place = scene.project(at);
      if (!place || place[0] < 0 || place[1] < 0 || place[0] >= scene.width || place[1] >= scene.height) continue;
      counts[Math.floor(place[1] / SIDE) * wide + Math.floor(place[0] / SIDE)]++;
      seen++;
    }
    skip -= cell.count;
  });
  if (seen === 0) return { around: 0, middle: 0 };
  let others = 0;
  for (const count of counts) others += count * (count - 1);
  const taken = counts.subarray(0, wide * tall).filter((count) => count > 0).sort();
  const each = every / (SIDE * SIDE);
  return { around: (others / seen) * each, middle: taken[taken.length >> 1] * each };
}
