/**
 * Eye-dome lighting darkens pixels that are farther away than their neighbours, so that shapes are visible without
 * normals (Boucheny, Interactive scientific visualization of large datasets, 2009). It renders to a texture first,
 * because it needs the depth.
 */

import {
  BufferAttribute,
  BufferGeometry,
  type Camera,
  DepthTexture,
  FloatType,
  GLSL3,
  Mesh,
  NearestFilter,
  type OrthographicCamera,
  type PerspectiveCamera,
  RawShaderMaterial,
  type Scene,
  type WebGLRenderer,
  WebGLRenderTarget,
} from "three";

/** Darkness of a depth step, and distance of the neighbours in pixels. */
const STRENGTH = 90;
const RADIUS = 1.4;
/** Limit of the darkening, so that the hue stays visible. */
const DARKEST = 0.32;

const vertex = /* glsl */ `
in vec3 position;
void main() {
  gl_Position = vec4(position.xy, 0.0, 1.0);
}`;

const fragment = /* glsl */ `
precision highp float;
uniform sampler2D colors;
uniform highp sampler2D depths;
uniform vec2 ends;
uniform float radius, reach;
out vec4 pixel;

/** The binary logarithm of the distance at a pixel; 1000 for the background. */
float away(ivec2 place) {
  float depth = texelFetch(depths, clamp(place, ivec2(0), textureSize(depths, 0) - 1), 0).r;
  if (depth >= 1.0) return 1000.0;
  float near = ends.x, far = ends.y;
  // Without perspective, all points count as being at the target's distance.
  if (reach > 0.0) return (near + depth * (far - near)) / reach * 1.442695;
  return log2(near * far / (far - depth * (far - near)));
}

void main() {
  ivec2 here = ivec2(gl_FragCoord.xy);
  pixel = texelFetch(colors, here, 0);
  float own = away(here);
  if (own > 999.0) return;
  float behind = 0.0;
  for (int k = 0; k < 8; k++) {
    float angle = float(k) * 0.78539816;
    behind += max(0.0, own - away(here + ivec2(round(radius * vec2(cos(angle), sin(angle))))));
  }
  float shade = max(${DARKEST.toFixed(2)}, exp(-${STRENGTH.toFixed(1)} * behind / 8.0));
  pixel.rgb *= shade;
}`;

export class DepthShading {
  private target: WebGLRenderTarget | null = null;
  private readonly material: RawShaderMaterial;
  private readonly sheet: Mesh;

  constructor(
    private readonly renderer: WebGLRenderer,
    private readonly samples: number,
  ) {
    const uniforms = {
      colors: { value: null },
      depths: { value: null },
      ends: { value: [0.1, 10] },
      radius: { value: 1 },
      reach: { value: 0 },
    };
    const shaders = { vertexShader: vertex, fragmentShader: fragment };
    this.material = new RawShaderMaterial({ glslVersion: GLSL3, ...shaders, uniforms, depthTest: false, depthWrite: false });
    const all = new BufferGeometry();
    all.setAttribute("position", new BufferAttribute(Float32Array.of(-1, -1, 0, 3, -1, 0, -1, 3, 0), 3));
    this.sheet = new Mesh(all, this.material);
    this.sheet.frustumCulled = false;
  }

  /** Renders the scene with shading. `reach`: view distance of an orthographic camera, 0 with perspective. */
  render(scene: Scene, camera: PerspectiveCamera | OrthographicCamera, reach: number): void {
    const { renderer, samples } = this;
    const { width, height } = renderer.domElement;
    if (this.target?.width !== width || this.target.height !== height) {
      this.target?.depthTexture?.dispose();
      this.target?.dispose();
      const depthTexture = new DepthTexture(width, height, FloatType);
      this.target = new WebGLRenderTarget(width, height, { samples, depthTexture, minFilter: NearestFilter, magFilter: NearestFilter });
    }
    renderer.setRenderTarget(this.target);
    renderer.render(scene, camera);
    renderer.setRenderTarget(null);
    const { uniforms } = this.material;
    uniforms.colors.value = this.target.texture;
    uniforms.depths.value = this.target.depthTexture;
    uniforms.ends.value = [camera.near, camera.far];
    uniforms.reach.value = reach;
    uniforms.radius.value = RADIUS * renderer.getPixelRatio();
    renderer.render(this.sheet, camera as Camera);
  }
}
