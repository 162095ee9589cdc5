/** Stores views: the current one in the page's URL, and numbered ones. */

import { host } from "./host";
import { selectionOf } from "./region";
import type { Scene } from "./scene";
import type { State } from "./state";
import { MOST_KEPT, toAddress } from "./view";

/** Milliseconds without change before the URL is updated. */
const REST = 250;

export class Keeping {
  private addressTimer = 0;

  constructor(
    private readonly state: State,
    private readonly scene: Scene,
  ) {}

  /** Writes the camera position to the view. */
  private place(): void {
    const { view } = this.state;
    view.camera = this.scene.isPlaced ? this.scene.where() : null;
    view.parallel = this.scene.isParallel;
    if (view.camera) view.frame = { low: this.scene.frame.low, high: this.scene.frame.high };
  }

  /** Updates the URL once the view is at rest. */
  follow(): void {
    clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => {
      this.place();
      const { view, profile } = this.state;
      const selection = profile && { ...selectionOf(view, profile), version: profile.info.version };
      host.keep(toAddress(view), selection);
    }, REST);
  }

  keepView(): void {
    const { view } = this.state;
    if (view.kept.length >= MOST_KEPT) return;
    this.place();
    // The saved camera position stays valid when the table grows.
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
