/**
 * Support for browsers without a graphics card. They queue frames for seconds, so a frame starts only after the
 * previous one is on the screen.
 */

import type { WebGLRenderer } from "three";

export function drawsInSoftware(): boolean {
  const context = document.createElement("canvas").getContext("webgl2");
  if (!context) return false;
  const named = context.getExtension("WEBGL_debug_renderer_info");
  const name = String(context.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : context.RENDERER));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

/** Reports when previous drawing is complete. */
export class Fence {
  private sync: WebGLSync | null = null;

  constructor(private readonly renderer: WebGLRenderer) {}

  private get gl(): WebGL2RenderingContext {
    return this.renderer.getContext() as WebGL2RenderingContext;
  }

  put(): void {
    this.sync = this.gl.fenceSync(this.gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
  }

  isPassed(): boolean {
    const { gl, sync } = this;
    if (!sync) return true;
    if (gl.getSyncParameter(sync, gl.SYNC_STATUS) !== gl.SIGNALED) return gl.isContextLost();
    gl.deleteSync(sync);
    this.sync = null;
    return true;
  }
}
