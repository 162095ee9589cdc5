/** The selection: filters, box, lasso and clipping. */

import type { Drawing } from "./drawing";
import { middleBox } from "./pick";
import type { Player } from "./player";
import { FILTERS, timeOf } from "./query";
import type { Requests } from "./requests";
import type { RoiBox } from "./roi";
import type { Scene } from "./scene";
import type { State } from "./state";
import type { Trails } from "./trails";
import type { Filter, ViewSpec } from "./view";

interface Parts {
  scene: Scene;
  requests: Requests;
  drawing: Drawing;
  player: Player;
  trails: Trails;
  roi: RoiBox;
}

export class Selecting {
  constructor(
    private readonly state: State,
    private readonly parts: Parts,
  ) {}

  addFilter(column: string): void {
    const { view } = this.state;
    if (view.filters.length >= FILTERS) return;
    view.filters.push({ column, low: null, high: null });
    this.parts.requests.reload();
    this.state.rebuild();
  }

  removeFilter(filter: Filter): void {
    const { view } = this.state;
    view.filters = view.filters.filter((other) => other !== filter);
    this.parts.requests.reload();
    this.state.rebuild();
  }

  /** A filter moved: updates the picture at once, and the request once the filter is at rest. */
  filtered(done: boolean): void {
    this.parts.drawing.applyRanges();
    this.state.changed();
    this.parts.requests.reloadLater(done);
  }

  /** Restricts a column to this range; null for an open bound. */
  narrow(column: string, low: number | null, high: number | null): void {
    const { view, profile } = this.state;
    const isOpen = low === null && high === null;
    if (column === timeOf(view, profile!)) {
      const [first, last] = this.parts.player.ends;
      view.time = isOpen ? null : { column, low: low ?? first, high: high ?? last };
      return;
    }
    const filter = view.filters.find((filter) => filter.column === column);
    if (isOpen) view.filters = view.filters.filter((other) => other !== filter);
    else if (filter) Object.assign(filter, { low, high });
    else if (view.filters.length < FILTERS) view.filters.push({ column, low, high });
    else this.state.report(new Error(`there are ${FILTERS} filters already: remove one first`));
  }

  /** Columns were restricted in another view: as `filtered`, and the panel's controls change. */
  narrowed(done: boolean): void {
    this.filtered(done);
    if (done) this.state.rebuild();
  }

  setWhere(where: string): void {
    this.state.view.where = where.trim();
    this.parts.requests.reload();
  }

  setRoi(roi: ViewSpec["roi"]): void {
    this.state.view.roi = roi;
    this.parts.roi.set(roi, this.state.view.axes);
    this.state.inRoi = null;
    const wasClipped = this.state.view.clip;
    this.state.view.clip &&= roi !== null || this.state.view.lasso !== null;
    if (wasClipped) this.parts.requests.reload();
    else this.parts.requests.recount();
    this.parts.trails.updateLater();
    this.state.changed();
    this.state.rebuild();
  }

  /** Shows or removes a box of interest around the middle of the screen. */
  toggleRoi(): void {
    const { current } = this.parts.requests;
    this.setRoi(this.state.view.roi || !current ? null : middleBox(this.parts.scene, current.tree));
  }

  moved(roi: ViewSpec["roi"], done: boolean): void {
    const { view } = this.state;
    view.roi = roi;
    this.state.inRoi = null;
    if (done) {
      if (view.clip) this.parts.requests.reload();
      else this.parts.requests.recount();
      this.parts.trails.updateLater();
    }
    this.state.changed();
  }

  /** The range of the box along an axis was brushed or typed; null for the edge of the view. */
  boxBrushed(axis: number, from: number | null, to: number | null, done: boolean): void {
    const { roi, axes } = this.state.view;
    const { low, high } = this.parts.scene.frame;
    if (!roi) return;
    roi.low[axis] = from ?? low[axis];
    roi.high[axis] = to ?? high[axis];
    this.parts.roi.set(roi, axes);
    this.moved(roi, done);
  }

  /** Shows only the rows in the box, or all. */
  setClip(clip: boolean): void {
    const { view } = this.state;
    view.clip = clip && (view.roi !== null || view.lasso !== null);
    this.parts.requests.reload();
    this.state.rebuild();
  }

  setLasso(lasso: ViewSpec["lasso"]): void {
    const { view } = this.state;
    const wasClipped = view.clip;
    view.lasso = lasso;
    view.clip &&= lasso !== null || view.roi !== null;
    this.state.inRoi = null;
    if (wasClipped) this.parts.requests.reload();
    else this.parts.requests.recount();
    this.parts.trails.updateLater();
    this.state.changed();
    this.state.rebuild();
  }

  /** Shows only a slab across an axis: a tenth of the view, around its middle. */
  showSlab(axis: number): void {
    const { current } = this.parts.requests;
    const { low, high } = this.parts.scene.frame;
    const middle = current && middleBox(this.parts.scene, current.tree);
    const center = middle ? (middle.low[axis] + middle.high[axis]) / 2 : (low[axis] + high[axis]) / 2;
    const half = 0.05 * (high[axis] - low[axis]);
    const within = (value: number) => Math.min(high[axis], Math.max(low[axis], value));
    const side = (ends: number[], to: number) => ends.map((end, k) => (k === axis ? within(to) : end));
    this.state.view.clip = true;
    this.setRoi({ low: side(low, center - half), high: side(high, center + half) });
  }
}
