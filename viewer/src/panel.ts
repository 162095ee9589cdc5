/** The panel beside the points: what is drawn, by what colours, which part of it. */

import type { App } from "./app";
import { download, type Column, type Histogram, type RecordFormat } from "./api";
import { CATEGORIES, COLORMAPS } from "./colormaps";
import { brief, grouped, withInterval } from "./numbers";
import type { TableProfile } from "./profile";
import { pythonLines } from "./python";
import { SLOTS } from "./query";
import { selectionOf } from "./region";
import { TONES } from "./tones";
import { MODES } from "./view";
import { Brush, choice, el, tick } from "./widgets";

export class Panel {
  readonly root = el("aside", { className: "side", ariaLabel: "Settings" });
  private colorBrush: Brush | null = null;
  private gradient: HTMLElement | null = null;
  private selection: HTMLElement | null = null;
  private figures: HTMLElement | null = null;
  private trails: HTMLElement | null = null;
  private lines: HTMLElement | null = null;
  private link: HTMLAnchorElement | null = null;
  private format: RecordFormat = "parquet";
  private share = 1;

  constructor(private readonly app: App) {}

  /** Makes all controls anew. */
  rebuild(): void {
    if (!this.app.state.profile) return;
    const focused = this.root.contains(document.activeElement) ? document.activeElement : null;
    const open = focused?.getAttribute("aria-label");
    this.root.replaceChildren(this.axes(), this.color(), this.filters(), this.box(), this.records(), this.drawing());
    if (open) this.root.querySelector<HTMLElement>(`[aria-label="${CSS.escape(open)}"]`)?.focus();
    this.redraw();
  }

  private section(title: string, ...children: (Node | string | null)[]): HTMLElement {
    const [first, ...rest] = children;
    const side = first instanceof HTMLElement && first.dataset.beside ? first : null;
    return el("section", { ariaLabel: title }, el("h2", {}, title, side), ...(side ? rest : children));
  }

  private row(name: string, ...children: Node[]): HTMLElement {
    return el("div", { className: "row" }, el("span", { className: "name", textContent: name }), ...children);
  }

  private axes(): HTMLElement {
    const { app } = this;
    const { axes } = app.state.view;
    const names = app.state.profile!.axisColumns.map((column) => column.name);
    const rows = [0, 1, 2].map((k) => {
      const options = k === 2 ? ["", ...names] : names;
      return this.row(
        ["across", "up", "away"][k],
        choice(`axis ${k + 1}`, options, axes[k] ?? "", (value) => {
          const next = axes.slice();
          const other = axes.indexOf(value);
          if (!value) next.length = 2;
          else next[k] = value;
          // Two axes change places rather than show the same column.
          if (value && other >= 0 && axes[k]) next[other] = axes[k];
          app.setAxes(next);
        }),
      );
    });
    const table =
      app.state.tables.length > 1
        ? this.row("table", choice("table", app.state.tables, app.state.view.table, (name) => void app.go(name)))
        : null;
    const stretch = tick("stretch each axis", app.state.view.stretch, (value) => app.setStretch(value));
    return this.section("View", table, ...rows, stretch);
  }

  private color(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    const names = app.state.profile!.info.columns.filter((column) => column.kind !== "other").map((column) => column.name);
    const by = choice("colour by", ["", ...names], view.color ?? "", (value) => app.setColor(value || null));
    const parts: (HTMLElement | null)[] = [this.row("by", by)];
    this.colorBrush = this.gradient = null;
    const histogram = view.color === null ? undefined : app.state.profile!.histograms.get(view.color);
    const { categories } = app.state;
    if (categories) parts.push(this.swatches(categories));
    else if (histogram && histogram.low !== undefined) {
      const map = choice("colour map", Object.keys(COLORMAPS), view.map, (value) => {
        view.map = value;
        app.recolor();
        this.rebuild();
      });
      const log = tick("log", view.log, (value) => {
        view.log = value;
        app.recolor();
        this.rebuild();
      });
      if (!((histogram.least_positive ?? 0) > 0)) log.style.visibility = "hidden";
      parts.push(this.row("map", map, log));
      this.gradient = el("div", { className: "gradient" });
      const [low, high] = view.range ?? [null, null];
      this.colorBrush = new Brush({
        histogram,
        low,
        high,
        colors: (value) => this.colorOf(value),
        changed: (from, to) => {
          const [first, last] = [histogram.low!, histogram.high!];
          view.range = from === null && to === null ? null : [from ?? first, to ?? last];
          app.recolor();
        },
      });
      parts.push(this.gradient, this.colorBrush.root, this.limits(histogram));
    }
    return this.section("Colour", ...parts);
  }

  private colorOf(value: number): string {
    const [low, high] = this.app.state.colorRange;
    const along = this.app.state.view.log
      ? Math.log(Math.max(value, 1e-300) / low) / Math.log(high / low)
      : (value - low) / (high - low);
    const at = 4 * Math.round(255 * Math.min(1, Math.max(0, along)));
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

  /** Limits of the colours by shares of the records. */
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
      this.rebuild();
    });
    return this.row("limits", of);
  }

  private filters(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    const taken = new Set(view.filters.map((filter) => filter.column));
    const free = app.state.profile!.numeric.map((column) => column.name).filter((name) => !taken.has(name));
    const add = choice("add a filter", ["", ...free], "", (value) => value && app.addFilter(value));
    add.options[0].textContent = "add a column …";
    add.disabled = view.filters.length >= SLOTS - 2;
    const parts = view.filters.map((filter) => {
      const histogram = app.state.profile!.histograms.get(filter.column)!;
      const brush = new Brush({
        histogram,
        low: filter.low,
        high: filter.high,
        changed: (low, high, done) => {
          [filter.low, filter.high] = [low, high];
          app.filtered(done);
        },
      });
      const away = el("button", {
        className: "plain",
        ariaLabel: `remove the filter ${filter.column}`,
        textContent: "✕",
        onclick: () => app.removeFilter(filter),
      });
      const unit = app.state.profile!.column(filter.column).unit;
      const name = el("span", {}, filter.column, unit && el("span", { className: "faint" }, ` [${unit}]`));
      return el("div", { className: "filter" }, el("header", {}, name, away), brush.root);
    });
    const where = el("input", {
      type: "text",
      ariaLabel: "where",
      placeholder: `where: ${example(app.state.profile!)}`,
      value: view.where,
      spellcheck: false,
      onchange: () => app.setWhere(where.value),
    });
    return this.section("Filter", ...parts, el("div", { className: "row" }, add), el("div", { className: "row" }, where));
  }

  private box(): HTMLElement {
    const { app } = this;
    const on = app.state.view.roi !== null;
    const toggle = tick("box", on, () => app.toggleRoi(), "B");
    toggle.dataset.beside = "1";
    this.selection = el("div", { className: "faint" });
    this.figures = el("table", { className: "figures", ariaLabel: "estimates" });
    const trails = tick("trails: whole trajectories", app.state.view.trails, (value) => app.setTrails(value), "T");
    this.trails = el("div", { className: "faint", ariaLabel: "trails" });
    const parts = app.trails.possible ? [trails, this.trails] : [];
    return this.section("Region", toggle, this.selection, this.figures, ...parts);
  }

  /** Estimates of the colouring column, with their intervals. */
  private figureRows(): HTMLElement[] {
    const { figures, view } = this.app.state;
    if (!figures || view.color === null) return [];
    const unit = this.app.state.profile!.column(view.color).unit;
    return figures.map(({ aggregate, value, low, high, exact }) =>
      el(
        "tr",
        { title: exact ? "of all records in the region" : "an estimate with its interval of 95 % confidence" },
        el("td", { textContent: aggregate.replaceAll('"', "") }),
        el("td", { textContent: `${withInterval(value, low, high, exact)}${unit && value !== null ? ` ${unit}` : ""}` }),
      ),
    );
  }

  private records(): HTMLElement {
    const shares: Record<string, number> = { all: 1, "10 %": 0.1, "1 %": 0.01, "0.1 %": 0.001 };
    const of = choice("share", Object.keys(shares), Object.keys(shares).find((name) => shares[name] === this.share)!, (name) => {
      this.share = shares[name];
      this.redraw();
    });
    const format = choice<RecordFormat>("format", ["parquet", "csv", "arrow"], this.format, (value) => {
      this.format = value;
      this.redraw();
    });
    this.link = el("a", { className: "button", textContent: "Export" });
    this.lines = el("div", { className: "line", ariaLabel: "Python" });
    const copy = el("button", {
      className: "plain",
      textContent: "copy",
      onclick: () => void navigator.clipboard?.writeText(this.lines!.textContent ?? ""),
    });
    copy.dataset.beside = "1";
    const python = el("h2", {}, "Python", copy);
    python.style.marginTop = "12px";
    return this.section("Records", el("div", { className: "row" }, of, format, this.link), python, this.lines);
  }

  private drawing(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    const slider = (label: string, low: number, high: number, value: number, changed: (value: number) => void) => {
      const input = el("input", {
        type: "range", ariaLabel: label, min: String(low), max: String(high), step: "any", value: String(value),
        oninput: () => changed(Number(input.value)),
      });
      return this.row(label, input);
    };
    return this.section(
      "Drawing",
      slider("points", 4.5, 7, Math.log10(view.budget), (value) => {
        view.budget = Math.round(10 ** value);
        app.state.changed();
      }),
      tick("even detail", view.even, (value) => {
        view.even = value;
        app.state.changed();
      }, "as many points on equal areas: crowded and empty parts look alike"),
      this.row("show", choice("show", [...MODES], view.mode, (mode) => {
        view.mode = mode;
        app.recolor();
      })),
      this.row("shades", choice("shades", [...TONES], view.tone, (tone) => {
        view.tone = tone;
        app.state.changed();
      })),
      tick("densities coloured by the mean", view.mean, (value) => {
        view.mean = value;
        app.recolor();
      }, "of the column that points are coloured by"),
      tick("depth shading", view.shaded ?? !app.scene.software, (value) => {
        view.shaded = value;
        app.state.changed();
      }, "of three columns: what lies behind its neighbours is darker"),
      slider("size", 1, 8, view.size, (value) => {
        view.size = value;
        app.state.changed();
      }),
      this.row(
        "theme",
        choice("theme", ["auto", "dark", "light"], view.theme, (theme) => app.setTheme(theme)),
      ),
      tick("follow commits", view.live, (value) => app.setLive(value), "L"),
    );
  }

  /** Updates the values that change often. */
  redraw(): void {
    const { app } = this;
    if (!app.state.profile) return;
    if (this.gradient) {
      const colors = app.drawing.colors();
      const stops = Array.from({ length: 17 }, (_, k) => {
        const at = 4 * Math.round((k * 255) / 16);
        return `rgb(${colors[at]} ${colors[at + 1]} ${colors[at + 2]})`;
      });
      this.gradient.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
      const [low, high] = app.state.colorRange;
      this.gradient.title = `${brief(low)} to ${brief(high)}`;
    }
    if (this.selection) {
      const { roi } = app.state.view;
      this.selection.textContent = !roi
        ? "B shows a box whose sides can be dragged"
        : app.state.inRoi === null ? "counting …" : `${grouped(app.state.inRoi)} records in the box`;
    }
    if (this.trails) {
      const { paths, records, busy } = app.trails;
      this.trails.textContent = !app.state.view.trails
        ? "" : busy ? "…" : `${grouped(paths)} of what is ${app.state.view.roi ? "in the box" : "in view"}, ${grouped(records)} records`;
    }
    if (this.figures) this.figures.replaceChildren(...this.figureRows());
    const region = selectionOf(app.state.view, app.state.profile);
    if (this.lines) {
      const path = app.state.view.trails ? app.state.profile.path : null;
      const code = pythonLines(app.state.view.table, region, this.share, path);
      if (this.lines.textContent !== code) this.lines.textContent = code;
    }
    if (this.link) {
      const exported = this.share < 1 ? { ...region, precision: this.share } : region;
      this.link.href = download(app.state.view.table, exported, undefined, this.format);
    }
  }
}

/** A condition on columns that the table has. */
function example(profile: TableProfile): string {
  const name = (column: Column) => (/^[a-z_][a-z0-9_]*$/.test(column.name) ? column.name : `"${column.name.replaceAll('"', '""')}"`);
  const number = profile.info.columns.find((column) => column.kind === "number" && !profile.info.identity.includes(column.name));
  const median = number && profile.histograms.get(number.name)?.quantiles?.[3];
  if (number && median !== undefined) return `${name(number)} > ${brief(median)}`;
  const other = profile.info.columns[0];
  return other ? `${name(other)} IS NOT NULL` : "a condition";
}
