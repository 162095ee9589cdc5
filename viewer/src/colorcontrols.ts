/** The colour controls of the panel. */

import type { App } from "./app";
import type { Histogram } from "./api";
import { CATEGORIES, COLORMAPS } from "./colormaps";
import { brief } from "./numbers";
import { shadesOf } from "./shades";
import { Brush, choice, el, row, section, tick } from "./widgets";

/** Without a column, densities show rows per area. */
const PER_AREA = "records per area";

export class ColorControls {
  private root = el("section");
  private gradient: HTMLElement | null = null;
  private isDense = false;

  constructor(private readonly app: App) {}

  rebuild(): HTMLElement {
    const { state } = this.app;
    this.isDense = state.shown.dense;
    this.gradient = null;
    const { color } = state.view;
    const isOfColumn = color !== null && !(this.isDense && state.shade === "records");
    const histogram = isOfColumn ? state.profile!.histograms.get(color) : undefined;
    const parts: (HTMLElement | null)[] = [row("by", this.column()), isOfColumn && this.isDense ? this.shades() : null];
    if (isOfColumn && state.categories) parts.push(this.swatches(state.categories));
    else if (!isOfColumn && this.isDense) parts.push(row("map", this.map()), this.bar());
    else if (histogram?.low !== undefined) {
      const log = tick("log", state.view.log, (value) => {
        state.view.log = value;
        this.app.recolor();
        state.rebuild();
      });
      if (!((histogram.least_positive ?? 0) > 0)) log.style.visibility = "hidden";
      parts.push(row("map", this.map(), log), this.bar(), this.brush(histogram), this.limits(histogram));
    }
    const made = section("Colour", ...parts);
    this.root.replaceWith(made);
    return (this.root = made);
  }

  private column(): HTMLElement {
    const { app, isDense } = this;
    const { view, profile, shade } = app.state;
    const names = profile!.info.columns.filter((column) => column.kind !== "other").map((column) => column.name);
    if (!isDense) return choice("colour by", ["", ...names], view.color ?? "", (value) => app.setColor(value || null));
    return choice("colour by", [PER_AREA, ...names], shade === "records" ? PER_AREA : view.color!, (value) => {
      if (value === PER_AREA) view.shade = "records";
      else if (shade === "records") view.shade = "mean";
      if (value === PER_AREA || value === view.color) {
        app.recolor();
        app.state.rebuild();
      } else app.setColor(value);
    });
  }

  private shades(): HTMLElement {
    const { state } = this.app;
    return row("as", choice("density shows", shadesOf(state.categories !== null), state.shade, (shade) => {
      state.view.shade = shade;
      this.app.recolor();
    }));
  }

  private map(): HTMLElement {
    const { state } = this.app;
    return choice("colour map", Object.keys(COLORMAPS), state.view.map, (value) => {
      state.view.map = value;
      this.app.recolor();
      state.rebuild();
    });
  }

  private bar(): HTMLElement {
    return (this.gradient = el("div", { className: "gradient" }));
  }

  private brush(histogram: Histogram): HTMLElement {
    const { view } = this.app.state;
    const [low, high] = view.range ?? [null, null];
    const brush = new Brush({
      histogram,
      low,
      high,
      colors: (value) => this.colorOf(value),
      changed: (from, to) => {
        view.range = from === null && to === null ? null : [from ?? histogram.low!, to ?? histogram.high!];
        this.app.recolor();
      },
    });
    return brush.root;
  }

  private colorOf(value: number): string {
    const at = 4 * Math.round(255 * this.app.state.placing(value));
    const colors = this.app.drawing.colors();
    return `rgb(${colors[at]} ${colors[at + 1]} ${colors[at + 2]})`;
  }

  private swatches(categories: { number: number; name: string }[]): HTMLElement {
    const colors = this.app.drawing.colors();
    const swatch = (name: string, at: number) => {
      const mark = el("i", {});
      mark.style.background = `rgb(${colors[4 * at]} ${colors[4 * at + 1]} ${colors[4 * at + 2]})`;
      return el("span", {}, mark, name);
    };
    const parts = categories.slice(0, CATEGORIES).map(({ name, number }) => swatch(name, number));
    if (categories.length > CATEGORIES) parts.push(swatch("others", 255));
    return el("div", { className: "swatches" }, ...parts);
  }

  /** Colour ranges given by quantiles. */
  private limits(histogram: Histogram): HTMLElement | null {
    const { view } = this.app.state;
    const { quantiles, low, high } = histogram;
    if (!quantiles) return null;
    const ends: Record<string, [number, number] | null> = {
      "2 to 98 % of the records": null,
      "0.5 to 99.5 %": [quantiles[0], quantiles[6]],
      "25 to 75 %": [quantiles[2], quantiles[4]],
      "all values": [low!, high!],
      "as typed": view.range,
    };
    const isSame = (a: [number, number] | null) => JSON.stringify(a) === JSON.stringify(view.range);
    const now = Object.keys(ends).find((name) => isSame(ends[name]))!;
    const of = choice("limits", Object.keys(ends), now, (name) => {
      const [from, to] = ends[name] ?? [0, 0];
      view.range = from < to ? [from, to] : null;
      this.app.recolor();
      this.app.state.rebuild();
    });
    return row("limits", of);
  }

  redraw(): void {
    const { app, gradient } = this;
    if (this.isDense !== app.state.shown.dense) {
      this.rebuild();
      this.redraw();
      return;
    }
    if (!gradient) return;
    const colors = app.drawing.colors();
    const stops = Array.from({ length: 17 }, (_, k) => {
      const at = 4 * Math.round((k * 255) / 16);
      return `rgb(${colors[at]} ${colors[at + 1]} ${colors[at + 2]})`;
    });
    gradient.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    const [low, high] = app.state.colorRange;
    gradient.title = this.isDense && app.state.shade === "records" ? PER_AREA : `${brief(low)} to ${brief(high)}`;
  }
}
