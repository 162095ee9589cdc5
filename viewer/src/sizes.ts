/** Point sizes: in pixels, in units of the axes, or relative to the distance of neighbours. */

import type { TableProfile } from "./profile";
import type { Scene } from "./scene";
import { PLAIN, SIZES, type ViewSpec } from "./view";

/** Tables with fewer rows have larger points, up to this factor. */
const FEW = 2000;
const LARGER = 2.5;

/** Default diameter of a point as a fraction of the picture's width. */
const USUAL = 1 / 150;

/** The diameter in units of the axes, or the factor of a column's values. */
export function widthOf(view: ViewSpec, scene: Scene): number {
  if (view.width !== null) return view.width;
  const { low, high } = scene.frame;
  const usual = USUAL * Math.max(...low.map((end, k) => high[k] - end));
  return view.sizeBy === null ? Number(usual.toPrecision(2)) : 1;
}

/** The column value for which a point has the set size; 1 if values are diameters. */
function usualOf({ sizeIn, sizeBy }: ViewSpec, profile: TableProfile): number {
  const { quantiles, high = 1 } = profile.histograms.get(sizeBy ?? "") ?? {};
  if (sizeBy === null || sizeIn === "units") return 1;
  return quantiles && quantiles[3] > 0 ? quantiles[3] : high > 0 ? high : 1;
}

/**
 * Sets the size uniforms; `slot` is the column of sizes. Returns the approximate width of a point in CSS
 * pixels, or 0 where neighbours do not overlap.
 */
export function applySizes(view: ViewSpec, profile: TableProfile, scene: Scene, slot: number, origin: number): number {
  const { uniforms } = scene.material;
  const ratio = scene.renderer.getPixelRatio();
  const perUnit = scene.camera.projectionMatrix.elements[5] * 0.5 * scene.height;
  uniforms.sizeIn.value = SIZES.indexOf(view.sizeIn);
  uniforms.sizeSlot.value = slot;
  uniforms.sizeOrigin.value = origin;
  uniforms.sizeUsual.value = usualOf(view, profile);
  uniforms.perUnit.value = perUnit * ratio;
  if (view.sizeIn === "pixels") {
    const isUsual = view.size === PLAIN.size && view.sizeBy === null;
    const size = isUsual ? view.size * Math.min(LARGER, Math.max(1, (FEW / Math.max(1, profile.info.rows)) ** 0.25)) : view.size;
    uniforms.size.value = size * ratio;
    return size;
  }
  if (view.sizeIn === "spacing") {
    // A point of default size just reaches its neighbours.
    uniforms.size.value = view.size / 2.2;
    return 0;
  }
  const scale = Math.abs(scene.frame.scale[0]);
  uniforms.size.value = widthOf(view, scene) * scale;
  const middle = view.sizeBy === null ? 1 : Math.max(0, profile.histograms.get(view.sizeBy)?.quantiles?.[3] ?? 1);
  return uniforms.size.value * middle * perUnit;
}
