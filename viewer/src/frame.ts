/** The displayed box: maps table coordinates to scene coordinates, and draws its edges. */

import { BufferAttribute, BufferGeometry, type Vector3 } from "three";
import { middle, part } from "./steps";

/** Maps table coordinates to scene coordinates, which are within about one unit of 0. */
export class Frame {
  readonly center: number[];
  readonly scale: number[];

  constructor(
    readonly low: number[],
    readonly high: number[],
    stretch: boolean,
    /** Width divided by height of a stretched view. */
    aspect = 1,
    /** Whether the third axis points away from the viewer, so that space is not mirrored. */
    mirrored = false,
  ) {
    // A narrower range would have an infinite scale.
    const halves = low.map((value, k) => Math.max(part(value, high[k], 2), 1e-307));
    const widest = Math.max(...halves);
    this.center = low.map((value, k) => middle(value, high[k]));
    this.scale = halves.map((half, k) => (1 / (stretch ? half : widest)) * (stretch && k === 0 ? aspect : 1) * (mirrored && k === 2 ? -1 : 1));
  }

  along(value: number, axis: number): number {
    return (value - this.center[axis]) * this.scale[axis];
  }

  toScene(point: number[], into: Vector3): Vector3 {
    for (let k = 0; k < 3; k++) into.setComponent(k, k < point.length ? this.along(point[k], k) : 0);
    return into;
  }

  toTable(at: Vector3, axis: number): number {
    return at.getComponent(axis) / this.scale[axis] + this.center[axis];
  }

  half(axis: number): number {
    return axis < this.low.length ? part(this.low[axis], this.high[axis], 2) * Math.abs(this.scale[axis]) : 0;
  }
}

export function edges(): BufferGeometry {
  const corners: number[] = [];
  for (let axis = 0; axis < 3; axis++)
    for (const p of [-1, 1])
      for (const q of [-1, 1])
        for (const end of [-1, 1]) {
          const corner = [0, 0, 0];
          corner[axis] = end;
          corner[(axis + 1) % 3] = p;
          corner[(axis + 2) % 3] = q;
          corners.push(...corner);
        }
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(new Float32Array(corners), 3));
  return geometry;
}
