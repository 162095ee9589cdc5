/** The region controls of the panel: box, clipping, counts, estimates and trails. */

import type { App } from "./app";
import type { Histogram } from "./api";
import { counted, grouped, withInterval } from "./numbers";
import { SHORTEST_TAIL } from "./view";
import { Brush, choice, el, row, section, slider, tick } from "./widgets";

export class RegionControls {
  private sides: { axis: number; brush: Brush }[] = [];
  private selection: HTMLElement | null = null;
  private figures: HTMLElement | null = null;
  private trails: HTMLElement | null = null;

  constructor(private readonly app: App) {}

  rebuild(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    const toggle = tick("box", view.roi !== null, () => app.selecting.toggleRoi(), "B");
    toggle.dataset.beside = "1";
    this.selection = el("div", { className: "faint" });
    this.figures = el("table", { className: "figures", ariaLabel: "estimates" });
    this.sides = view.roi ? view.axes.map((name, axis) => ({ axis, brush: this.side(name, axis) })) : [];
    const sides = this.sides.map(({ axis, brush }) => el("div", { className: "filter" }, el("header", {}, view.axes[axis]), brush.root));
    const slab = choice("slab", ["", ...view.axes], "", (name) => name && app.selecting.showSlab(view.axes.indexOf(name)));
    slab.options[0].textContent = "across …";
    const lasso = !app.marking.canEncircle ? null : view.lasso
      ? el("button", { className: "plain", textContent: "✕ remove the lasso", onclick: () => app.selecting.setLasso(null) })
      : el("div", { className: "faint", textContent: "shift and drag: draw a lasso around records" });
    const clip = view.roi || view.lasso ? tick("show only the inside", view.clip, (value) => app.selecting.setClip(value), "C") : null;
    const trails = tick("trails: trajectories as lines", view.trails, (value) => app.setTrails(value), "T");
    this.trails = el("div", { className: "faint", ariaLabel: "trails" });
    const tail = slider("tail", SHORTEST_TAIL, 1, view.tail, (value) => app.setTail(value));
    tail.title = "how far back trails go at one time; at the right end they are whole";
    const paths = app.trails.possible ? [trails, this.trails, ...(view.trails ? [tail] : [])] : [];
    return section("Region", toggle, this.selection, row("slab", slab), lasso, clip, ...sides, this.figures, ...paths);
  }

  /** The range of the box along an axis, on the histogram of its column. */
  private side(name: string, axis: number): Brush {
    const { app } = this;
    const ends = this.ends(axis);
    const { low, high } = app.scene.frame;
    const known = app.state.profile!.histograms.get(name);
    const histogram: Histogram = known?.low === undefined ? { name, kind: "number", low: low[axis], high: high[axis], counts: [] } : known;
    const brush: Brush = new Brush({
      histogram,
      low: ends[0],
      high: ends[1],
      changed: (from, to, done) => app.selecting.boxBrushed(axis, from, to, done),
    });
    brush.root.dataset.side = name;
    return brush;
  }

  /** The range of the box along an axis; null where it reaches the edge of the view. */
  private ends(axis: number): [number | null, number | null] {
    const { roi } = this.app.state.view;
    const { low, high } = this.app.scene.frame;
    if (!roi) return [null, null];
    return [roi.low[axis] > low[axis] ? roi.low[axis] : null, roi.high[axis] < high[axis] ? roi.high[axis] : null];
  }

  /** Estimates of the colour column, with intervals. */
  private figureRows(): HTMLElement[] {
    const { figures, view, profile } = this.app.state;
    if (!figures || view.color === null) return [];
    const { unit } = profile!.column(view.color);
    return figures.map(({ aggregate, value, low, high, exact }) =>
      el(
        "tr",
        { title: exact ? "exact, from all records in the region" : "estimate with its 95 % confidence interval" },
        el("td", { textContent: aggregate.replaceAll('"', "") }),
        el("td", { textContent: `${withInterval(value, low, high, exact)}${unit && value !== null ? ` ${unit}` : ""}` }),
      ),
    );
  }

  redraw(): void {
    const { app } = this;
    const { roi, lasso, trails } = app.state.view;
    if (this.selection) {
      const where = lasso ? "in the lasso" : "in the box";
      this.selection.textContent = !roi && !lasso
        ? "press B for a box with sides to drag"
        : app.state.inRoi === null ? "counting …" : `${counted(app.state.inRoi, "record")} ${where}`;
    }
    for (const { axis, brush } of this.sides) {
      const [low, high] = this.ends(axis);
      if (brush.low !== low || brush.high !== high) brush.update({ low, high });
    }
    if (this.trails) {
      const { paths, records, busy } = app.trails;
      this.trails.textContent = !trails
        ? "" : busy ? "…" : `${grouped(paths)} ${paths === 1 ? "trajectory" : "trajectories"} ${roi ? "in the box" : "in view"}, ${counted(records, "record")}`;
    }
    this.figures?.replaceChildren(...this.figureRows());
  }
}
