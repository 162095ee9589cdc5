/** Shaders that position, filter and colour points. */

import {
  AddEquation,
  Color,
  CustomBlending,
  DataTexture,
  GLSL3,
  LinearFilter,
  OneFactor,
  RawShaderMaterial,
  RGBAFormat,
  UnsignedByteType,
  Vector2,
  Vector3,
} from "three";
import { SLOTS } from "./query";
import { SHADES } from "./shades";

const slots = Array.from({ length: SLOTS }, (_, k) => k);

const vertex = /* glsl */ `
precision highp float;
uniform mat4 modelMatrix, viewMatrix, projectionMatrix;
uniform vec2 ranges[${SLOTS}];
uniform int colorSlot;
uniform vec2 colorRange;
uniform float colorOrigin;
uniform bool colorLog, colorNames;
uniform vec3 roiLow, roiHigh;
uniform bool roiOn, roiClip;
uniform int sizeIn, sizeSlot;
uniform float sizeOrigin, sizeUsual, perUnit;
uniform float size, fog, fadeNear, fadeFar, reference, share, zone, dim;
uniform bool blended, isFlat;
uniform vec2 screen;
#ifdef SUM
uniform float alike;
uniform int shade;
#endif
uniform sampler2D map;
uniform vec3 background, plain;
in vec3 position;
#ifdef TRAIL
uniform float now, lasts;
in float moment;
/** Age of a trail point: 0 at the displayed time, 1 where the trail vanishes, negative later. */
out float age;
#else
in float weight, before, spacing;
#endif
${slots.map((k) => `#if USED > ${k}\nin float a${k};\n#endif`).join("\n")}
out vec4 color;
/** How much darker the rim of a point is. */
flat out float rim;

float along(float value) {
  if (colorNames) return (mod(value, 256.0) + 0.5) / 256.0;
  if (!colorLog) return (value - colorRange.x) / (colorRange.y - colorRange.x);
  float low = log(colorRange.x + colorOrigin);
  return (log(value + colorOrigin) - low) / (log(colorRange.y + colorOrigin) - low);
}

/** The number of pixels that a disc of this diameter covers; a small one is aligned to pixels. */
float covered(float wide) {
  return wide <= 3.0 ? wide * wide : 0.7854 * wide * wide;
}

void main() {
  // With weights, points have no dark rim, because ink must depend on weights only.
  rim = blended ? 0.0 : 0.22;
#if USED > 0
  float values[USED];
${slots.map((k) => `#if USED > ${k}\n  values[${k}] = a${k};\n#endif`).join("\n")}
#endif
  vec4 world = modelMatrix * vec4(position, 1.0);
  vec4 seen = viewMatrix * world;
  gl_Position = projectionMatrix * seen;
#ifdef TRAIL
  age = lasts > 0.0 ? (now - moment) / lasts : 0.0;
#endif
#ifndef TRAIL
  // Diameter in pixels. Points below one pixel are fainter, except for sizes by spacing.
  float wide = size;
  if (sizeIn > 0) wide *= perUnit / gl_Position.w * (sizeIn == 2 ? spacing : 1.0);
#if USED > 0
  if (sizeSlot >= 0) {
    float value = values[0];
    for (int k = 1; k < USED; k++) if (k == sizeSlot) value = values[k];
    wide *= isnan(value) ? 0.0 : max(0.0, value + sizeOrigin) / sizeUsual;
  }
#endif
  float faint = sizeIn == 1 || sizeSlot >= 0 ? clamp(wide * wide, 0.05, 1.0) : 1.0;
  wide = clamp(wide, 1.0, 1000.0);
#endif
#ifndef TRAIL
  bool isOutside = roiOn && (any(lessThan(world.xyz, roiLow)) || any(greaterThan(world.xyz, roiHigh)));
  if (isOutside && roiClip) {
    gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
    return;
  }
#endif
  // Ink relative to a standard point. More ink enlarges the disc, less makes it fainter.
  float ink = 1.0;
#ifndef TRAIL
  if (reference > 0.0) {
    // Sizes in units already shrink with distance.
    float beyond = sizeIn > 0 ? 1.0 : max(1.0, length(seen.xyz) / zone);
    ink = mix(before, weight, share) * reference / (beyond * beyond);
  }
  gl_PointSize = wide * sqrt(max(1.0, ink));
#ifndef SUM
  if (ink < 0.01) {
    gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
    return;
  }
#endif
  if (reference > 0.0 && !blended && ink < 1.0) {
    // If points hide each other, less ink makes them smaller, down to a pixel, because a fainter point would hide
    // others.
    gl_PointSize = max(1.0, wide * sqrt(ink));
    ink *= wide * wide / (gl_PointSize * gl_PointSize);
  }
  ink *= faint;
#ifndef SUM
  if (isFlat && sizeIn == 0 && sizeSlot < 0) {
    // Small points are aligned to whole pixels, because the pixels that a small disc covers depend on its position.
    // Their opacity is scaled to the right ink.
    float usual = floor(wide + 0.5) <= 3.0 ? max(1.0, floor(wide + 0.5)) : wide;
    float pixels = gl_PointSize * gl_PointSize * covered(usual) / (wide * wide);
    float whole = 1.0;
    if (blended) while (whole < 4.0 && covered(whole) < 0.95 * pixels) whole += 1.0;
    else whole = usual;
    if (whole <= 3.0) {
      vec2 place = (gl_Position.xy * 0.5 + 0.5) * screen;
      place = whole == 2.0 ? floor(place + 0.5) : floor(place) + 0.5;
      gl_Position.xy = place / screen * 2.0 - 1.0;
      gl_PointSize = whole;
      rim = 0.0;
    }
    ink = min(1.0, ink) * min(1.0, pixels / covered(gl_PointSize));
  }
#endif
#endif
#if USED > 0 && !defined(TRAIL)
  bool hidden = false;
  for (int k = 0; k < USED; k++) {
    // An open range has infinite ends and also passes NaN.
    hidden = hidden || values[k] < ranges[k].x || values[k] > ranges[k].y
      || (isnan(values[k]) && (ranges[k].x > -3.0e38 || ranges[k].y < 3.0e38));
  }
  if (hidden) {
    gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
    return;
  }
#endif
  vec3 shown = plain;
#if USED > 0
  if (colorSlot >= 0) {
    float value = values[0];
    for (int k = 1; k < USED; k++) if (k == colorSlot) value = values[k];
    float at = along(value);
    shown = isnan(at) || (colorNames && value < 0.0) ? mix(background, plain, 0.4)
      : texture(map, vec2(clamp(at, 0.002, 0.998), 0.5)).rgb;
  }
#endif
  float depth = clamp((-seen.z - fadeNear) / max(1e-6, fadeFar - fadeNear), 0.0, 1.0);
  shown = mix(shown, background, fog * depth);
#ifndef TRAIL
  shown = mix(shown, background, dim);
  if (isOutside) {
    shown = mix(shown, background, 0.86);
    gl_PointSize = max(1.0, 0.7 * gl_PointSize);
    // Places it behind all points inside the box.
    gl_Position.z = gl_Position.w * min(0.9999, gl_Position.z / gl_Position.w * 0.001 + 0.998);
  }
#endif
#ifdef SUM
  float records = alike > 0.0 ? alike : mix(before, weight, share);
  gl_PointSize = 1.0;
  color = vec4(vec3(0.0), records);
#if USED > 0
  if (colorSlot >= 0 && shade > 0) {
    float value = values[0];
    for (int k = 1; k < USED; k++) if (k == colorSlot) value = values[k];
    float at = along(value);
    if (colorNames) color.rgb = texture(map, vec2(value < 0.0 ? 0.998 : at, 0.5)).rgb * records;
    else if (!isnan(at)) color.rg = vec2(clamp(at, 0.0, 1.0), 1.0) * (shade == ${SHADES.indexOf("maximum")} ? 1.0 : records);
  }
#endif
  return;
#endif
  // If points hide each other, less ink blends the colour with the background instead of using opacity.
  color = blended ? vec4(shown, min(1.0, ink)) : vec4(mix(background, shown, min(1.0, ink)), 1.0);
}`;

const fragment = /* glsl */ `
precision mediump float;
in vec4 color;
flat in float rim;
out vec4 pixel;
void main() {
  vec2 off = gl_PointCoord - 0.5;
  float r = 4.0 * dot(off, off);
#ifdef SMOOTH
  float away = sqrt(r);
  float soft = fwidth(away);
  // A small point is almost all rim, so a soft rim would show the background through it.
  float cover = soft < 0.6 ? 1.0 - smoothstep(1.0 - soft, 1.0 + 0.5 * soft, away) : step(away, 1.0);
  if (cover <= 0.0) discard;
#else
  float cover = 1.0;
  if (r > 1.0) discard;
#endif
  pixel = vec4(color.rgb * (1.0 - rim * min(1.0, r)), color.a * cover);
}`;

const sumFragment = /* glsl */ `
precision highp float;
in vec4 color;
out vec4 pixel;
void main() {
  pixel = color;
}`;

const trailFragment = /* glsl */ `
precision highp float;
in vec4 color;
in float age;
out vec4 pixel;
void main() {
  if (age < -1e-4 || age > 1.0) discard;
  pixel = vec4(color.rgb, 1.0 - age);
}`;

export const OPEN = 3.4e38;

/** The points' material; `smooth` gives anti-aliased edges, which are cheap on a graphics card. */
export function makeMaterial(smooth: boolean) {
  const map = new DataTexture(new Uint8Array(1024), 256, 1, RGBAFormat, UnsignedByteType);
  map.magFilter = map.minFilter = LinearFilter;
  const uniforms = {
    ranges: { value: slots.map(() => new Vector2(-OPEN, OPEN)) },
    colorSlot: { value: -1 },
    colorRange: { value: new Vector2(0, 1) },
    colorOrigin: { value: 0 },
    colorLog: { value: false },
    colorNames: { value: false },
    roiLow: { value: new Vector3() },
    roiHigh: { value: new Vector3() },
    roiOn: { value: false },
    roiClip: { value: false },
    size: { value: 2 },
    // See src/sizes.ts: the unit of `size`, the column of sizes, and pixels per scene unit.
    sizeIn: { value: 0 },
    sizeSlot: { value: -1 },
    sizeOrigin: { value: 0 },
    sizeUsual: { value: 1 },
    perUnit: { value: 1 },
    // The fraction of a point with standard ink; 0 if all are the same.
    reference: { value: 0 },
    share: { value: 1 },
    zone: { value: 1 },
    dim: { value: 0 },
    blended: { value: false },
    isFlat: { value: false },
    screen: { value: [1, 1] },
    fog: { value: 0 },
    fadeNear: { value: 0 },
    fadeFar: { value: 1 },
    map: { value: map },
    background: { value: new Color() },
    plain: { value: new Color() },
  };
  const defines: { USED: number; SMOOTH?: string } = smooth ? { USED: 0, SMOOTH: "" } : { USED: 0 };
  return new RawShaderMaterial({ glslVersion: GLSL3, defines, vertexShader: vertex, fragmentShader: fragment, uniforms });
}

/** Filters and box do not hide parts of a trajectory, which may fade with age. */
export function makeTrailMaterial({ uniforms }: PointMaterial) {
  const defines = { USED: 0, TRAIL: "" };
  return new RawShaderMaterial({
    glslVersion: GLSL3,
    defines,
    vertexShader: vertex,
    fragmentShader: trailFragment,
    // Lines end at this time and vanish at this age; 0 for whole lines.
    uniforms: { ...uniforms, now: { value: 0 }, lasts: { value: 0 } },
    transparent: true,
  });
}

/** Adds up the weights of the same points, one pixel each. */
export function makeSumMaterial({ uniforms }: PointMaterial) {
  return new RawShaderMaterial({
    glslVersion: GLSL3,
    defines: { USED: 0, SUM: "" },
    vertexShader: vertex,
    fragmentShader: sumFragment,
    // The common weight of all points; 0 if each has its own.
    uniforms: { ...uniforms, alike: { value: 1 }, shade: { value: 0 } },
    transparent: true,
    blending: CustomBlending,
    blendEquation: AddEquation,
    // Row weights are added for every shade.
    blendEquationAlpha: AddEquation,
    blendSrc: OneFactor,
    blendDst: OneFactor,
    depthTest: false,
    depthWrite: false,
  });
}

export type PointMaterial = ReturnType<typeof makeMaterial>;
