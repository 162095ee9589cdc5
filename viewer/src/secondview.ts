/**
 * The second view, below the points, shows the selection of the first view and requests rows when that changes;
 * brushing narrows the selection.
 */

import type { App } from "./app";
import { inksOfTheme, type Inks } from "./inks";
import { columnsOf, KINDS, type Kind, type Second } from "./kinds";
import { counted, grouped, percent } from "./numbers";
import { pointsOf } from "./query";
import { selectionOf } from "./region";
import { draw, type Asked } from "./sample";
import { brushed, proposed, rangeOf, withoutRanges } from "./second";
import { beginDrag, type Drag } from "./seconddrag";
import { contentOf, SecondPlot } from "./secondplot";
import { choice, el, tick } from "./widgets";

/** Milliseconds without change before rows are requested. */
const REST = 150;

export class SecondView {
  readonly root = el("section", { className: "second", ariaLabel: "the selection", hidden: true });
  private readonly controls = el("header");
  private readonly caption = el("span", { className: "faint" });
  private readonly canvas = el("canvas", { ariaLabel: "plot of the selection" });
  private readonly plot = new SecondPlot(this.canvas);
  private shown: Second | null = null;
  /** The last request, and the last drawn content. */
  private asked = "";
  private drawn = "";
  private timer = 0;
  private asking: AbortController | null = null;
  private drag: Drag | null = null;

  constructor(private readonly app: App) {
    this.root.append(this.controls, this.canvas);
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"] as const) canvas.addEventListener(end, () => this.finish());
    canvas.addEventListener("dblclick", () => this.narrow(brushed(this.shown!).map(() => [null, null]), true));
    new ResizeObserver(() => this.redraw()).observe(canvas);
  }

  redraw(): void {
    const { view, profile } = this.app.state;
    const second = profile ? view.second : null;
    this.root.hidden = second === null;
    document.body.classList.toggle("linked", second !== null);
    if (!profile || !second) {
      this.forget();
      return;
    }
    if (JSON.stringify(second) !== JSON.stringify(this.shown)) this.rebuild(second);
    const asked = this.question(second);
    const key = JSON.stringify(asked);
    if (key !== this.asked) {
      this.asked = key;
      this.app.state.second.busy = true;
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.ask(asked, second), REST);
    }
    this.paint(second);
  }

  private forget(): void {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.shown = null;
    this.asked = this.drawn = "";
    this.app.state.second = { content: null, plot: null, busy: false };
  }

  private rebuild(second: Second): void {
    const { app } = this;
    const { profile, view } = app.state;
    this.shown = structuredClone(second);
    app.state.second.content = null;
    const names = profile!.axisColumns.map((column) => column.name);
    const kind = choice<Kind>("kind of the second view", [...KINDS], second.kind, (kind) => app.setSecond(proposed(kind, view, profile!)));
    const labels = { histogram: ["column of the histogram"], scatter: ["scatter across", "scatter up"], series: ["series along", "mean of"] }[second.kind];
    const columns = second.axes.slice(0, columnsOf(second.kind)).map((axis, k) =>
      choice(labels[k], names, axis, (name) => app.setSecond({ ...second, axes: second.axes.map((other, at) => (at === k ? name : other)) })));
    const away = el("button", { className: "plain", ariaLabel: "close the second view", textContent: "✕", onclick: () => app.setSecond(null) });
    const log = second.kind === "histogram" ? tick("log", second.log, (value) => app.setSecond({ ...second, log: value })) : null;
    this.controls.replaceChildren(kind, ...columns, ...(log ? [log] : []), this.caption, away);
  }

  private question(second: Second): Asked {
    const { view, profile } = this.app.state;
    const region = selectionOf(withoutRanges(view, brushed(second)), profile!);
    const up = second.kind === "series" ? [pointsOf(profile!, second.axes[1])] : [];
    const colors = second.kind === "scatter" && view.color !== null ? [pointsOf(profile!, view.color)] : [];
    const position = second.kind === "scatter" ? second.axes : second.axes.slice(0, 1);
    return { table: view.table, region: { ...region, version: profile!.info.version }, position, columns: [...up, ...colors] };
  }

  private async ask(asked: Asked, second: Second): Promise<void> {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    const { state } = this.app;
    const profile = state.profile!;
    const known = second.axes.map((name) => profile.histograms.get(name)).map((found) => ({ low: found?.low ?? Infinity, high: found?.high ?? -Infinity }));
    const distinct = second.axes.map((name) => profile.histograms.get(name)?.distinct ?? null);
    const columns = second.axes.map((name) => profile.column(name));
    try {
      await draw(asked, profile, (sample) => {
        if (signal.aborted) return;
        state.second.content = contentOf(second, columns, sample, known, distinct);
        this.drawn = "";
        this.redraw();
      }, signal);
      if (signal.aborted) return;
      state.second.busy = false;
    } catch {
      // The request for points of this region reports the error; this request follows it again.
      if (!signal.aborted) this.asked = "";
    }
  }

  private ranges(second: Second): [number | null, number | null][] {
    const ranges = brushed(second).map((name) => rangeOf(this.app.state.view, name));
    return second.kind === "scatter" ? ranges : [...ranges, [null, null]];
  }

  private paint(second: Second): void {
    const { state } = this.app;
    const { view, shown } = state;
    const { content } = state.second;
    const { canvas } = this;
    if (!content || canvas.clientWidth === 0) return;
    const ranges = this.ranges(second);
    const { theme } = document.documentElement.dataset;
    const look = [second, ranges, theme, view.color, view.map, state.colorRange, view.log, shown.dense, view.shade];
    const key = JSON.stringify([look, canvas.clientWidth, canvas.clientHeight, devicePixelRatio]);
    if (key === this.drawn) return;
    this.drawn = key;
    const inks = inksOfTheme();
    state.second.plot = this.plot.draw(content, ranges, inks, this.coloring(second, inks));
    const { rows, fraction } = content.sample;
    this.caption.textContent = fraction >= 1 ? `all ${counted(rows, "record")} of the selection` : `a sample of ${grouped(rows)}: ${percent(fraction)} of the selection`;
  }

  /** The colours of the first view, if they show a column of this view. */
  private coloring(second: Second, { accent, faint }: Inks): (row: number, value: number) => string {
    const { state, drawing } = this.app;
    const { color } = state.view;
    const means = color !== null && !(state.shown.dense && state.shade === "records");
    if (!means || (second.kind !== "scatter" && second.axes[0] !== color)) return () => accent;
    const colors = drawing.colors();
    const texts = Array.from({ length: 256 }, (_, k) => `rgb(${colors[4 * k]} ${colors[4 * k + 1]} ${colors[4 * k + 2]})`);
    const values = second.kind === "scatter" ? state.second.content!.sample.values[2] : null;
    const place = state.placing;
    return (row, own) => {
      const value = values ? values[row] : own;
      const at = state.categories ? (value >= 0 ? Math.min(255, Math.round(value)) : NaN) : Math.round(255 * place(value));
      return texts[at] ?? faint;
    };
  }

  /* Brushing */

  private at(event: PointerEvent): [number, number] {
    const around = this.canvas.getBoundingClientRect();
    return [event.clientX - around.left, event.clientY - around.top];
  }

  private begin(event: PointerEvent): void {
    const { plot, content } = this.app.state.second;
    if (!plot || !content || !this.shown || event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = beginDrag(plot, this.ranges(this.shown).slice(0, brushed(this.shown).length), this.at(event));
  }

  private move(event: PointerEvent): void {
    if (this.drag?.to(this.at(event))) this.narrow(this.drag.ranges, false);
  }

  private finish(): void {
    const { drag } = this;
    this.drag = null;
    if (drag?.isMoved) this.narrow(drag.ranges, true);
  }

  private narrow(ranges: [number | null, number | null][], done: boolean): void {
    brushed(this.shown!).forEach((column, k) => this.app.selecting.narrow(column, ...ranges[k]));
    this.app.selecting.narrowed(done);
    this.redraw();
  }
}
