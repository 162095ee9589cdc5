/** Size, distance and importance of cells for a camera, which determine their fraction. */

import { Frustum, Matrix4, OrthographicCamera, PerspectiveCamera, Sphere } from "three";
import type { Cell } from "./cell";
import type { Eye } from "./tree";
import { FIELD, type Viewpoint } from "./viewpoint";

export class CellEye implements Eye {
  private readonly frustum = new Frustum();
  private readonly sphere = new Sphere();
  private readonly matrix = new Matrix4();
  /** The box of interest: cells outside have a lower priority. */
  roi: { low: number[]; high: number[] } | null = null;

  constructor(private readonly viewpoint: Viewpoint) {}

  update(): void {
    const { camera } = this.viewpoint;
    this.matrix.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
    this.frustum.setFromProjectionMatrix(this.matrix);
  }

  /** Puts a sphere around a cell; returns half of its widest side. */
  private around(cell: Cell): number {
    const { sphere, viewpoint: { frame } } = this;
    let square = 0;
    let widest = 0;
    for (let k = 0; k < 3; k++) {
      const inside = k < cell.low.length;
      const half = inside ? ((cell.high[k] - cell.low[k]) / 2) * Math.abs(frame.scale[k]) : 0;
      const middle = inside ? frame.along((cell.high[k] + cell.low[k]) / 2, k) : 0;
      sphere.center.setComponent(k, middle);
      square += half * half;
      widest = Math.max(widest, half);
    }
    sphere.radius = Math.sqrt(square);
    return widest;
  }

  /** Distance of the sphere's nearest point. */
  private distance(): number {
    const { sphere, viewpoint: { camera } } = this;
    return Math.max(camera.near, sphere.center.distanceTo(camera.position) - 0.5 * sphere.radius);
  }

  /** Width of a cell on the screen in pixels; 0 off the screen. */
  pixels(cell: Cell): number {
    const { camera, height } = this.viewpoint;
    const widest = this.around(cell);
    if (!this.frustum.intersectsSphere(this.sphere)) return cell.depth === 0 ? 1 : 0;
    let size: number;
    if (camera instanceof PerspectiveCamera) {
      size = (widest / (this.distance() * Math.tan((FIELD * Math.PI) / 360))) * height;
    } else {
      size = ((2 * widest * camera.zoom) / (camera.top - camera.bottom)) * height;
    }
    return this.isOutside(cell) ? 0.3 * size : size;
  }

  /** 1 within the zone; beyond it decreases with perspective, in steps of two. */
  nearness(cell: Cell): number {
    if (this.viewpoint.isOrthographic) return 1;
    this.around(cell);
    const beyond = this.distance() / this.viewpoint.zone;
    return beyond <= 1 ? 1 : 2 ** -Math.round(2 * Math.log2(beyond));
  }

  interest(cell: Cell): number {
    return this.isOutside(cell) ? 0.1 : 1;
  }

  /** In a flat view the visible fraction of its area, otherwise 1 if any part is visible. */
  visible(cell: Cell): number {
    const { camera, frame } = this.viewpoint;
    if (!(camera instanceof OrthographicCamera) || !this.viewpoint.isFlat) return 1;
    let share = 1;
    for (let k = 0; k < 2; k++) {
      const half = (k === 0 ? camera.right : camera.top) / camera.zoom;
      const middle = camera.position.getComponent(k);
      const [low, high] = [frame.along(cell.low[k], k), frame.along(cell.high[k], k)];
      const inside = Math.min(high, middle + half) - Math.max(low, middle - half);
      share *= Math.max(0, inside) / Math.max(1e-300, high - low);
    }
    return share;
  }

  private isOutside(cell: Cell): boolean {
    const { roi } = this;
    if (!roi) return false;
    for (let k = 0; k < cell.low.length; k++) if (cell.low[k] > roi.high[k] || cell.high[k] < roi.low[k]) return true;
    return false;
  }
}
