/**
 * The state of the page: the view, the table's profile and facts about the displayed rows. It notifies its observer of
 * changes, but sends no request and draws nothing.
 */

import { ApiError, type Figure, type Layout, type TableInfo } from "./api";
import { DIVERGING } from "./colormaps";
import type { TableProfile } from "./profile";
import type { Content, Plot } from "./secondplot";
import { shadeOf, type Shade } from "./shades";
import { finite, logarithmicShare, share } from "./steps";
import { fromAddress, type ViewSpec } from "./view";

/** Integers with up to this many values are categories. */
const FEW = 12;

export interface Observer {
  redraw(): void;
  rebuild(): void;
  invalidate(): void;
  /** The view has changed, and with it the page's URL. */
  viewChanged(): void;
}

export interface Shown {
  rows: number;
  /** The smallest and the largest fraction of the drawn cells. */
  fraction: [number, number];
  /** Whether points have individual weights. */
  weighted: boolean;
  /** Whether densities are shown instead of points. */
  dense: boolean;
  /** Whether requested points have not arrived yet. */
  busy: boolean;
}

const nothing = (): Shown => ({ rows: 0, fraction: [1, 1], weighted: false, dense: false, busy: true });

export class State {
  view: ViewSpec;
  /** The table's profile; null until a table is open. */
  profile: TableProfile | null = null;
  /** The table's layout; null until it is loaded. */
  layout: Layout | null = null;
  tables: string[] = [];
  shown = nothing();
  /** Number of matching rows, and of those in the box of interest; null until counted. */
  total: number | null = null;
  inRoi: number | null = null;
  figures: Figure[] | null = null;
  /** Content and area of the second view, and whether more is loading. */
  second: { content: Content | null; plot: Plot | null; busy: boolean } = { content: null, plot: null, busy: false };
  message: string | null = null;
  /** Rows added since the table was opened, and by the last change. */
  added = 0;
  lastAdded = 0;

  constructor(
    address: string,
    private readonly observer: Observer,
  ) {
    this.view = fromAddress(address);
  }

  /** Prepares for opening a table; another table's view is dropped, except for the theme. */
  reset(table: string): void {
    if (table !== this.view.table && this.view.table) this.view = { ...fromAddress(""), theme: this.view.theme };
    this.shown = nothing();
    this.layout = null;
  }

  redraw(): void {
    this.observer.redraw();
  }

  rebuild(): void {
    this.observer.rebuild();
  }

  invalidate(): void {
    this.observer.invalidate();
  }

  /** The view has changed: updates the URL, the panel and the picture. */
  changed(): void {
    this.observer.viewChanged();
    this.redraw();
    this.invalidate();
  }

  /** Shows an error, unless a version has expired: the next request uses a newer one. */
  report(error: unknown): void {
    const unreachable = error instanceof TypeError;
    const text = String((error as Error).message ?? error);
    this.message = unreachable ? "The server does not respond; trying again" : text;
    if (isExpired(error)) this.message = null;
    this.redraw();
  }

  update(info: TableInfo): void {
    const profile = this.profile!;
    if (info.version === profile.info.version) return;
    this.lastAdded = info.rows - profile.info.rows;
    this.added += this.lastAdded;
    profile.info = info;
  }

  /** The categories of the colour column with their numbers; null if it has none. */
  get categories(): { number: number; name: string }[] | null {
    const { color } = this.view;
    if (color === null) return null;
    const { kind, data_type } = this.profile!.column(color);
    const { values, distinct } = this.profile!.histograms.get(color) ?? {};
    if (kind === "text") return (values ?? []).map(([name], number) => ({ number, name }));
    if (!/^(u?int|bool)/i.test(data_type) || !distinct || distinct.length > FEW || this.view.range) return null;
    if (distinct.some((value) => value < 0 || value > 255)) return null;
    return distinct.map((number) => ({ number, name: kind === "boolean" ? String(number > 0) : String(number) }));
  }

  /** The meaning of density colours. */
  get shade(): Shade {
    return shadeOf(this.view.shade, this.view.color, this.categories !== null);
  }

  /** The values of the colour column at both ends of the colormap. */
  get colorRange(): [number, number] {
    const { range, color, log } = this.view;
    const { quantiles, low = 0, high = 1, least_positive } = this.profile!.histograms.get(color ?? "") ?? {};
    let [from, to] = range ?? [quantiles?.[1] ?? low, quantiles?.[5] ?? high];
    if (!range && from >= to) [from, to] = [low, high];
    // The middle of a diverging map is zero.
    if (!range && !log && from < 0 && to > 0 && DIVERGING.includes(this.view.map)) [from, to] = [-Math.max(to, -from), Math.max(to, -from)];
    if (log) from = Math.max(from, range ? Number.MIN_VALUE : (least_positive ?? Number.MIN_VALUE));
    if (from < to) return [from, to];
    if (log) return [Math.max(Number.MIN_VALUE, from / 2), finite(from * 2)];
    const half = (Math.abs(from) || 1) / 2;
    return [finite(from - half), finite(from + half)];
  }

  /** Maps values of the colour column to the colormap: from 0 to 1, NaN if missing. */
  get placing(): (value: number) => number {
    const [low, high] = this.colorRange;
    const along = this.view.log
      ? (value: number) => logarithmicShare(low, high, Math.max(value, Number.MIN_VALUE))
      : (value: number) => share(low, high, value);
    return (value) => Math.min(1, Math.max(0, along(value)));
  }
}

/** Whether the server no longer has the requested version. */
export const isExpired = (error: unknown) => error instanceof ApiError && error.status === 410;
