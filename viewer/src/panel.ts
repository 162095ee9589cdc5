/** The panel next to the points: axes, colours, filters and region. */

import type { App } from "./app";
import { download, type Column, type RecordFormat } from "./api";
import { ColorControls } from "./colorcontrols";
import { FORMS, SIDES, STYLES, type Form, type Style } from "./figure";
import { KINDS, type Kind } from "./kinds";
import { brief } from "./numbers";
import type { TableProfile } from "./profile";
import { pythonLines } from "./python";
import { FILTERS } from "./query";
import { selectionOf } from "./region";
import { proposed } from "./second";
import { RegionControls } from "./regioncontrols";
import { widthOf } from "./sizes";
import { TONES } from "./tones";
import { MODES, MOST_KEPT, type SizeIn } from "./view";
import { Brush, choice, el, row, section, slider, tick } from "./widgets";

export class Panel {
  readonly root = el("aside", { className: "side", ariaLabel: "Settings" });
  private readonly colors: ColorControls;
  private readonly region: RegionControls;
  private lines: HTMLElement | null = null;
  private link: HTMLAnchorElement | null = null;
  private format: RecordFormat = "parquet";
  private share = 1;

  constructor(private readonly app: App) {
    this.colors = new ColorControls(app);
    this.region = new RegionControls(app);
  }

  rebuild(): void {
    if (!this.app.state.profile) return;
    const focused = this.root.contains(document.activeElement) ? document.activeElement : null;
    const open = focused?.getAttribute("aria-label");
    this.root.replaceChildren(this.axes(), this.colors.rebuild(), this.filters(), this.region.rebuild(), this.records(), this.drawing(), this.picture());
    if (open) this.root.querySelector<HTMLElement>(`[aria-label="${CSS.escape(open)}"]`)?.focus();
    this.redraw();
  }

  private axes(): HTMLElement {
    const { app } = this;
    const { axes } = app.state.view;
    const names = app.state.profile!.axisColumns.map((column) => column.name);
    const rows = [0, 1, 2].map((k) => {
      const options = k === 2 ? ["", ...names] : names;
      return row(
        ["across", "up", "away"][k],
        choice(`axis ${k + 1}`, options, axes[k] ?? "", (value) => {
          const next = axes.slice();
          const other = axes.indexOf(value);
          if (!value) next.length = 2;
          else next[k] = value;
          // Choosing a column of another axis swaps the two.
          if (value && other >= 0 && axes[k]) next[other] = axes[k];
          app.setAxes(next);
        }),
      );
    });
    const table =
      app.state.tables.length > 1
        ? row("table", choice("table", app.state.tables, app.state.view.table, (name) => void app.go(name)))
        : null;
    const stretch = tick("stretch each axis", app.state.view.stretch === true, (value) => app.setStretch(value));
    const along = app.state.view.axes.map((name, axis) => el("button", { textContent: name, ariaLabel: `look along ${name}`, onclick: () => app.lookAlong(axis) }));
    const perspective = el("button", { textContent: "perspective", ariaLabel: "perspective", title: "O", onclick: () => app.scene.setParallel(false) });
    const look = along.length === 3 ? el("div", { className: "row views" }, el("span", { className: "name", textContent: "along" }), ...along, perspective) : null;
    const keep = el("button", { textContent: "save this view", title: "K", onclick: () => app.keeping.keepView(), disabled: app.state.view.kept.length >= MOST_KEPT });
    const kept = app.state.view.kept.map((_, k) =>
      el("span", { className: "kept" },
        el("button", { textContent: String(k + 1), ariaLabel: `view ${k + 1}`, title: String(k + 1), onclick: () => app.showView(k) }),
        el("button", { className: "plain", textContent: "✕", ariaLabel: `forget view ${k + 1}`, onclick: () => app.keeping.forgetView(k) })));
    const { second } = app.state.view;
    const kinds = choice<Kind | "">("second view", ["", ...KINDS], second?.kind ?? "", (kind) => app.setSecond(kind ? proposed(kind, app.state.view, app.state.profile!) : null));
    kinds.title = "V";
    return section("View", table, ...rows, stretch, look, row("second", kinds), el("div", { className: "row views" }, keep, ...kept));
  }

  private filters(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    const taken = new Set(view.filters.map((filter) => filter.column));
    const free = app.state.profile!.numeric.map((column) => column.name).filter((name) => !taken.has(name));
    const add = choice("add a filter", ["", ...free], "", (value) => value && app.selecting.addFilter(value));
    add.options[0].textContent = "add a column …";
    add.disabled = view.filters.length >= FILTERS;
    const parts = view.filters.map((filter) => {
      const histogram = app.state.profile!.histograms.get(filter.column)!;
      const brush = new Brush({
        histogram,
        low: filter.low,
        high: filter.high,
        changed: (low, high, done) => {
          [filter.low, filter.high] = [low, high];
          app.selecting.filtered(done);
        },
      });
      const away = el("button", {
        className: "plain",
        ariaLabel: `remove the filter ${filter.column}`,
        textContent: "✕",
        onclick: () => app.selecting.removeFilter(filter),
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
      onchange: () => app.selecting.setWhere(where.value),
    });
    return section("Filter", ...parts, el("div", { className: "row" }, add), el("div", { className: "row" }, where));
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
    return section("Records", el("div", { className: "row views" }, of, format, this.link), python, this.lines);
  }

  private drawing(): HTMLElement {
    const { app } = this;
    const { view } = app.state;
    return section(
      "Drawing",
      slider("points", 4.5, 7, Math.log10(view.limit), (value) => {
        view.limit = Math.round(10 ** value);
        app.state.changed();
      }),
      tick("even detail", view.even, (value) => {
        view.even = value;
        app.state.changed();
      }, "equally many points on equal areas: dense and sparse parts look the same"),
      row("show", choice("show", [...MODES], view.mode, (mode) => {
        view.mode = mode;
        app.recolor();
      })),
      row("shades", choice("shades", [...TONES], view.tone, (tone) => {
        view.tone = tone;
        app.state.changed();
      })),
      tick("depth shading", view.shaded ?? !app.scene.software, (value) => {
        view.shaded = value;
        app.state.changed();
      }, "for three axes: points behind their neighbours are darker"),
      ...(view.axes.length === 3 ? [slider("fog", 0, 1, view.fog, (value) => {
        view.fog = value;
        app.state.changed();
      })] : []),
      ...this.sizes(),
      row(
        "theme",
        choice("theme", ["auto", "dark", "light"], view.theme, (theme) => app.setTheme(theme)),
      ),
      tick("follow commits", view.live, (value) => app.setLive(value), "L"),
    );
  }

  private picture(): HTMLElement {
    const { figure } = this.app;
    const title = el("input", { type: "text", ariaLabel: "title of the figure", value: figure.title, oninput: () => (figure.title = title.value.trim()) });
    const side = (name: "width" | "height") => {
      const input = el("input", {
        type: "text", inputMode: "numeric", ariaLabel: `${name} of the figure`, value: String(figure[name]),
        onchange: () => {
          const pixels = Math.round(Number(input.value.trim() || NaN));
          if (pixels > 0) figure[name] = Math.min(SIDES[1], Math.max(SIDES[0], pixels));
          input.value = String(figure[name]);
        },
      });
      return input;
    };
    const style = choice<Style>("style of the figure", [...STYLES], figure.style, (value) => (figure.style = value));
    const form = choice<Form>("file format of the figure", [...FORMS], figure.form, (value) => (figure.form = value));
    form.title = "svg, pdf: lines and text are vector graphics, points are an image";
    const isClear = tick("transparent background", figure.isClear, (value) => (figure.isClear = value), "the page behind the figure shows through");
    const save = el("button", { textContent: "Save", title: "S", ariaLabel: "save the figure", onclick: () => void this.app.savePicture() });
    return section("Picture", row("title", title), row("pixels", side("width"), side("height")), row("style", style), el("div", { className: "row" }, isClear, form, save));
  }

  private sizes(): HTMLElement[] {
    const { app } = this;
    const { view, profile } = app.state;
    const kinds: Record<string, SizeIn> = { pixels: "pixels", "units of the axes": "units", "relative to spacing": "spacing" };
    const now = Object.keys(kinds).find((name) => kinds[name] === view.sizeIn)!;
    const names = profile!.numeric.filter((column) => column.kind === "number").map((column) => column.name);
    const sizes = [
      row("sizes", choice("sizes in", Object.keys(kinds), now, (name) => app.setSizes(kinds[name], view.sizeBy))),
      row("of", choice("sizes by", ["", ...names], view.sizeBy ?? "", (name) => app.setSizes(view.sizeIn, name || null))),
    ];
    if (view.sizeIn !== "units") {
      return [...sizes, slider("size", 1, 8, view.size, (value) => {
        view.size = value;
        app.state.changed();
      })];
    }
    const width = el("input", {
      type: "text", ariaLabel: "width of points", inputMode: "decimal", value: String(widthOf(view, app.scene)),
      onchange: () => {
        const value = Number(width.value.trim() || NaN);
        view.width = value > 0 ? value : null;
        width.value = String(widthOf(view, app.scene));
        app.state.changed();
      },
    });
    return [...sizes, row(view.sizeBy === null ? "width" : "times", width)];
  }

  redraw(): void {
    const { app } = this;
    if (!app.state.profile) return;
    this.colors.redraw();
    this.region.redraw();
    const region = selectionOf(app.state.view, app.state.profile);
    if (this.lines) {
      const path = app.state.view.trails ? app.state.profile.path : null;
      const code = pythonLines(app.state.view.table, region, this.share, path);
      if (this.lines.textContent !== code) this.lines.textContent = code;
    }
    if (this.link) {
      const exported = this.share < 1 ? { ...region, sample: this.share } : region;
      this.link.href = download(app.state.view.table, exported, undefined, this.format);
    }
  }
}

/** An example condition on the table's columns. */
function example(profile: TableProfile): string {
  const name = (column: Column) => (/^[a-z_][a-z0-9_]*$/.test(column.name) ? column.name : `"${column.name.replaceAll('"', '""')}"`);
  const number = profile.info.columns.find((column) => column.kind === "number" && !profile.info.identity.includes(column.name));
  const median = number && profile.histograms.get(number.name)?.quantiles?.[3];
  if (number && median !== undefined) return `${name(number)} > ${brief(median)}`;
  const other = profile.info.columns[0];
  return other ? `${name(other)} IS NOT NULL` : "a condition";
}
