/** Views that are kept: the present one in the page's address, and those that were numbered. */

import { host } from "./host";
import { selectionOf } from "./region";
import type { Scene } from "./scene";
import type { State } from "./state";
import { MOST_KEPT, toAddress } from "./view";

/** Milliseconds that the view rests before the page's address follows it. */
const REST = 250;

export class Keeping {
  private addressTimer = 0;

  constructor(
    private readonly state: State,
    private readonly scene: Scene,
  ) {}

  /** Writes the place of the camera to the view. */
  private place(): void {
    const { view } = this.state;
    view.camera = this.scene.isPlaced ? this.scene.where() : null;
    view.parallel = this.scene.isParallel;
    if (view.camera) view.frame = { low: this.scene.frame.low, high: this.scene.frame.high };
  }

  /** The address follows the view once it rests. */
  follow(): void {
    clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => {
      this.place();
      const { view, profile } = this.state;
      const selection = profile && { ...selectionOf(view, profile), version: profile.info.version };
      host.keep(toAddress(view), selection);
    }, REST);
  }

  /** Keeps the present view, in the address too. */
  keepView(): void {
    const { view } = this.state;
    if (view.kept.length >= MOST_KEPT) return;
    this.place();
    // The camera stands where it stands, also for a table that grows.
    view.kept.push(toAddress({ ...view, camera: this.scene.where(), frame: { low: this.scene.frame.low, high: this.scene.frame.high }, kept: [] }));
    this.state.changed();
    this.state.rebuild();
  }

  forgetView(number: number): void {
    this.state.view.kept.splice(number, 1);
    this.state.changed();
    this.state.rebuild();
  }
}
