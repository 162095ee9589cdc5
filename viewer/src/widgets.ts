/** Elements of the panel: choices, sliders, and histograms with a brush. */

import type { Histogram } from "./api";
import { brief } from "./numbers";

type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Record<string, unknown> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value as EventListener);
    else if (name in made && name !== "list") (made as unknown as Record<string, unknown>)[name] = value;
    else made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child): child is Node | string => Boolean(child)));
  return made;
}

export function choice<Option extends string>(
  label: string,
  options: Option[],
  value: Option,
  changed: (value: Option) => void,
) {
  const select = el("select", { ariaLabel: label, onchange: () => changed(select.value as Option) });
  for (const option of options) select.append(el("option", { value: option, textContent: option || "none" }));
  select.value = value;
  return select;
}

export function tick(label: string, value: boolean, changed: (value: boolean) => void, title = "") {
  const box = el("input", { type: "checkbox", checked: value, onchange: () => changed(box.checked) });
  return el("label", { className: "tick", title }, box, label);
}

export function section(title: string, ...children: (Node | string | null)[]): HTMLElement {
  const [first, ...rest] = children;
  const side = first instanceof HTMLElement && first.dataset.beside ? first : null;
  return el("section", { ariaLabel: title }, el("h2", {}, title, side), ...(side ? rest : children));
}

export function row(name: string, ...children: Node[]): HTMLElement {
  return el("div", { className: "row" }, el("span", { className: "name", textContent: name }), ...children);
}

export function slider(label: string, low: number, high: number, value: number, changed: (value: number) => void): HTMLElement {
  const input = el("input", {
    type: "range", ariaLabel: label, min: String(low), max: String(high), step: "any", value: String(value),
    oninput: () => changed(Number(input.value)),
  });
  return row(label, input);
}

export interface BrushOptions {
  histogram: Histogram;
  log?: boolean;
  /** Colours by position in the range, instead of plain bars. */
  colors?: (share: number) => string;
  low: number | null;
  high: number | null;
  /** Called while it is dragged, and once it is released. */
  changed(low: number | null, high: number | null, done: boolean): void;
}

/** A histogram with a range, which can be dragged or typed, and which a double click removes. */
export class Brush {
  readonly root: HTMLElement;
  private readonly canvas = el("canvas", { className: "histogram", tabIndex: 0 });
  private readonly lowField: HTMLInputElement;
  private readonly highField: HTMLInputElement;
  private drag: { mode: "low" | "high" | "both"; from: number; low: number; high: number } | null = null;
  low: number | null;
  high: number | null;

  constructor(private options: BrushOptions) {
    this.low = options.low;
    this.high = options.high;
    const field = (name: string) =>
      el("input", { className: "end", ariaLabel: `${options.histogram.name} ${name}`, onchange: () => this.typed() });
    this.lowField = field("from");
    this.highField = field("to");
    this.root = el("div", { className: "brush" }, this.canvas, el("div", { className: "ends" }, this.lowField, this.highField));
    this.root.dataset.column = options.histogram.name;
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.finish(event));
    this.canvas.addEventListener("dblclick", () => this.set(null, null, true));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  update(options: Partial<BrushOptions>): void {
    this.options = { ...this.options, ...options };
    if ("low" in options) this.low = options.low ?? null;
    if ("high" in options) this.high = options.high ?? null;
    this.draw();
  }

  private get ends(): [number, number] {
    const { low = 0, high = 1 } = this.options.histogram;
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }

  /** The value at a fraction of the width. */
  private value(share: number): number {
    const [low, high] = this.ends;
    return low + (high - low) * Math.min(1, Math.max(0, share));
  }

  private share(value: number): number {
    const [low, high] = this.ends;
    return (value - low) / (high - low);
  }

  private at(event: PointerEvent): number {
    const around = this.canvas.getBoundingClientRect();
    return (event.clientX - around.left) / around.width;
  }

  private begin(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.at(event);
    const low = this.share(this.low ?? this.ends[0]);
    const high = this.share(this.high ?? this.ends[1]);
    const near = 7 / this.canvas.clientWidth;
    if (Math.abs(at - low) < near) this.drag = { mode: "low", from: at, low, high };
    else if (Math.abs(at - high) < near) this.drag = { mode: "high", from: at, low, high };
    else if (at > low && at < high && (this.low !== null || this.high !== null))
      this.drag = { mode: "both", from: at, low, high };
    else this.drag = { mode: "high", from: at, low: at, high: at };
  }

  private move(event: PointerEvent): void {
    const at = this.at(event);
    if (!this.drag) {
      const near = 7 / this.canvas.clientWidth;
      const onEnd = [this.low, this.high].some((end) => end !== null && Math.abs(this.share(end) - at) < near);
      this.canvas.style.cursor = onEnd ? "ew-resize" : "crosshair";
      return;
    }
    const { mode, from } = this.drag;
    let { low, high } = this.drag;
    if (mode === "low") low = at;
    else if (mode === "high") high = at;
    else {
      const by = Math.min(1 - high, Math.max(-low, at - from));
      [low, high] = [low + by, high + by];
    }
    if (low > high) [low, high] = [high, low];
    this.set(low <= 0 ? null : this.value(low), high >= 1 ? null : this.value(high), false);
  }

  private finish(event: PointerEvent): void {
    if (!this.drag) return;
    const still = Math.abs(this.at(event) - this.drag.from) < 0.004 && this.drag.low === this.drag.high;
    this.drag = null;
    if (!still) this.set(this.low, this.high, true);
  }

  private typed(): void {
    const read = (field: HTMLInputElement) => {
      const value = Number(field.value.trim() || NaN);
      return Number.isFinite(value) ? value : null;
    };
    const [low, high] = [read(this.lowField), read(this.highField)];
    if (low !== null && high !== null && low > high) return this.draw();
    this.set(low, high, true);
  }

  private set(low: number | null, high: number | null, done: boolean): void {
    this.low = low;
    this.high = high;
    this.draw();
    this.options.changed(low, high, done);
  }

  draw(): void {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext("2d")!;
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const counts = this.options.histogram.counts ?? [];
    const most = Math.max(1, ...counts);
    const low = this.share(this.low ?? this.ends[0]);
    const high = this.share(this.high ?? this.ends[1]);
    const step = width / counts.length;
    counts.forEach((count, k) => {
      const middle = (k + 0.5) / counts.length;
      const inside = middle >= low && middle <= high;
      // Square root scale, so that small counts stay visible.
      const tall = count > 0 ? Math.max(1.5, (height - 2) * Math.sqrt(count / most)) : 0;
      const { colors } = this.options;
      context.fillStyle = colors ? colors(this.value(middle)) : style.getPropertyValue("--accent");
      context.globalAlpha = inside ? 1 : 0.22;
      context.fillRect(k * step, height - tall, Math.max(1, step - 0.7), tall);
    });
    context.globalAlpha = 1;
    context.fillStyle = style.getPropertyValue("--ink");
    if (this.low !== null) context.fillRect(low * width - 0.75, 0, 1.5, height);
    if (this.high !== null) context.fillRect(high * width - 0.75, 0, 1.5, height);
    const show = (field: HTMLInputElement, value: number | null, end: number) => {
      if (document.activeElement === field && !this.drag) return;
      field.value = value === null ? "" : brief(value);
      field.placeholder = brief(end);
    };
    show(this.lowField, this.low, this.ends[0]);
    show(this.highField, this.high, this.ends[1]);
  }
}
