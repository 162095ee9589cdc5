/** Shaders that map sums of weights to colours. */

import { GLSL3, RawShaderMaterial, type Color, type DataTexture, type Texture } from "three";
import { SHADES, type Shade } from "./shades";

const of = (shade: Shade) => SHADES.indexOf(shade);

const vertex = /* glsl */ `
in vec3 position;
void main() {
  gl_Position = vec4(position.xy, 0.0, 1.0);
}`;

const fragment = /* glsl */ `
precision highp float;
uniform sampler2D sums, shades, map;
uniform vec2 places, screen;
uniform float low, high;
uniform int shade;
uniform vec3 background;
out vec4 pixel;

vec4 at(ivec2 place) {
  return texelFetch(sums, clamp(place, ivec2(0), ivec2(places) - 1), 0);
}

void main() {
  vec2 where = gl_FragCoord.xy / screen * places - 0.5;
  ivec2 corner = ivec2(floor(where));
  vec2 on = where - vec2(corner);
  vec4 sum = mix(
    mix(at(corner), at(corner + ivec2(1, 0)), on.x),
    mix(at(corner + ivec2(0, 1)), at(corner + ivec2(1, 1)), on.x), on.y);
  if (places == screen) sum = at(ivec2(gl_FragCoord.xy));
  pixel = vec4(background, 1.0);
  if (sum.a <= 0.0) return;
  float step = clamp((log(sum.a) - low) / (high - low), 0.0, 1.0);
  float strength = texelFetch(shades, ivec2(int(step * 255.0 + 0.5), 0), 0).r;
  // Fades interpolated sums below the smallest sum of a place.
  float trace = min(1.0, sum.a / exp(low));
  if (shade == ${of("records")}) {
    vec3 shown = texture(map, vec2(clamp(strength, 0.002, 0.998), 0.5)).rgb;
    pixel.rgb = mix(background, shown, trace);
    return;
  }
  // Maxima and categories cannot be interpolated: the nearest place with rows is used.
  if (shade == ${of("maximum")} || shade == ${of("dominant")}) {
    ivec2 near = corner + ivec2(round(on));
    ivec2 other = corner + 1 - ivec2(round(on));
    if (places != screen) sum = at(near);
    if (sum.a <= 0.0) sum = at(ivec2(near.x, other.y));
    if (sum.a <= 0.0) sum = at(ivec2(other.x, near.y));
    if (sum.a <= 0.0) sum = at(other);
  }
  vec3 shown = sum.rgb / sum.a;
  if (shade == ${of("mean")} || shade == ${of("maximum")}) {
    // Rows without a value are not in the mean.
    float value = shade == ${of("mean")} ? sum.r / max(sum.g, 1e-30) : sum.r;
    shown = sum.g > 0.0 ? texture(map, vec2(clamp(value, 0.002, 0.998), 0.5)).rgb : mix(background, 1.0 - background, 0.4);
  }
  pixel.rgb = mix(background, shown, trace * (0.12 + 0.88 * strength));
}`;

export function makeResolve(map: Texture, shades: DataTexture, background: Color) {
  const uniforms = {
    sums: { value: null as Texture | null },
    shades: { value: shades },
    map: { value: map },
    places: { value: [1, 1] },
    screen: { value: [1, 1] },
    low: { value: 0 },
    high: { value: 1 },
    shade: { value: 0 },
    background: { value: background },
  };
  const shaders = { vertexShader: vertex, fragmentShader: fragment };
  return new RawShaderMaterial({ glslVersion: GLSL3, ...shaders, uniforms, depthTest: false, depthWrite: false });
}
