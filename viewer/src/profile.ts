/** The profile of a table: its columns and their distributions. */

import type { Column, Histogram, Opened, TableInfo } from "./api";
import { percent } from "./numbers";
import { around, finite, part } from "./steps";

export class TableProfile {
  constructor(
    public info: TableInfo,
    readonly histograms: Map<string, Histogram>,
  ) {}

  static of({ info, histograms }: Opened): TableProfile {
    return new TableProfile(info, new Map(histograms.map((column) => [column.name, column])));
  }

  column(name: string): Column {
    return this.info.columns.find((column) => column.name === name)!;
  }

  knows(name: string | null): boolean {
    return name !== null && this.histograms.has(name);
  }

  /** The largest fraction to request. A copy that holds no sample of everything reports what it lacks. */
  get held(): number {
    return this.info.held || 1;
  }

  /** A note about a partial copy or subsampled steps. */
  get thinned(): string {
    const { steps, thinned_steps: thinned = [] } = this.info;
    if (this.held < 1) return `partial copy: ${percent(this.held)} of all records`;
    const rows = thinned.reduce((sum, step) => sum + step.rows, 0);
    if (rows === 0) return "";
    const kept = thinned.reduce((sum, step) => sum + step.below * step.rows, 0);
    const what = thinned.length === 1 ? "step is a sample" : "steps are samples";
    return `${thinned.length} of ${steps.length} ${what}: ${percent(kept / rows)} of all records`;
  }

  get numeric(): Column[] {
    return this.info.columns.filter((column) => ["number", "time", "boolean"].includes(column.kind));
  }

  get axisColumns(): Column[] {
    return this.numeric.filter((column) => column.kind !== "boolean");
  }

  isTimeLike(name: string): boolean {
    return this.column(name).kind === "time" || /^(t|time|step|timestep|tick|epoch|date)$/i.test(name);
  }

  /** The column of the time slider, if there is one. */
  get time(): string | null {
    const isSpread = ({ name }: Column) => {
      const { low, high } = this.histograms.get(name) ?? {};
      return low !== undefined && high !== undefined && low < high;
    };
    return this.numeric.find((column) => this.isTimeLike(column.name) && isSpread(column))?.name ?? null;
  }

  /** The column that identifies trajectories, if identity or lookup names one. */
  get path(): string | null {
    const { identity, lookup } = this.info;
    const candidates = (identity.length > 0 ? identity : lookup).filter((name) => !this.isTimeLike(name));
    return candidates.length === 1 && ["number", "text"].includes(this.column(candidates[0]).kind) ? candidates[0] : null;
  }

  extent(name: string): [number, number] {
    const { low = 0, high = 1 } = this.histograms.get(name) ?? {};
    // A sample misses rare values; a domain that is not much wider includes them.
    const domain = this.info.dimensions.find((dimension) => dimension.column === name);
    if (domain && domain.low !== null && domain.high !== null) {
      const [wide, span] = [part(domain.low, domain.high, 2), part(low, high, 2)];
      if (domain.low <= low && domain.high >= high && wide < 1.6 * span) return [domain.low, domain.high];
    }
    if (low === high) return around(low);
    const margin = part(low, high, 100);
    return [finite(low - margin), finite(high + margin)];
  }

  /** Whether axes differ so much in unit, span or type that a common scale would be useless. */
  differ(axes: string[]): boolean {
    const times = axes.filter((axis) => this.isTimeLike(axis)).length;
    if (times > 0 && times < axes.length) return true;
    const units = new Set(axes.map((axis) => this.column(axis).unit));
    const spans = axes.map((axis) => this.extent(axis)).map(([low, high]) => part(low, high, 2)).filter((span) => span > 0);
    return units.size > 1 || Math.max(...spans) > 100 * Math.min(...spans);
  }

  /** The default axes: the dimensions without time and identity. */
  get axes(): string[] {
    const numeric = this.axisColumns.map((column) => column.name).filter((name) => !this.identifies(name));
    const dimensions = this.info.dimensions.map((dimension) => dimension.column).filter((name) => numeric.includes(name));
    const spatial = dimensions.filter((name) => !this.isTimeLike(name));
    if (spatial.length >= 2) return spatial.slice(0, 3);
    const axes = [...dimensions, ...numeric.filter((name) => !dimensions.includes(name))].slice(0, 2);
    const any = axes[0] ?? this.axisColumns[0]?.name;
    return axes.length === 2 ? axes : any === undefined ? [] : [any, any];
  }

  /** Whether a column only identifies rows. */
  private identifies(name: string): boolean {
    const { identity, dimensions } = this.info;
    return identity.includes(name) && !this.isTimeLike(name) && !dimensions.some((dimension) => dimension.column === name);
  }

  /** Whether these axes in this order would show space mirrored. */
  mirrors(axes: string[]): boolean {
    const [a, b, c] = axes.map((axis) => this.info.columns.findIndex((column) => column.name === axis));
    return axes.length === 3 && (b - a) * (c - b) * (c - a) < 0;
  }

  /** Merges a later sample; returns whether the range of a column has grown. */
  widen(found: Histogram[]): boolean {
    let grown = false;
    for (const histogram of found) {
      const before = this.histograms.get(histogram.name)!;
      const both = { ...histogram };
      if (before.low !== undefined && histogram.low !== undefined) {
        both.low = Math.min(before.low, histogram.low);
        both.high = Math.max(before.high!, histogram.high!);
        const inside = both.low === histogram.low && both.high === histogram.high;
        if (!inside) both.counts = before.counts ?? [];
        if (both.low < before.low || both.high > before.high!) grown = true;
        if (before.distinct && histogram.distinct) {
          both.distinct = [...new Set([...before.distinct, ...histogram.distinct])].sort((a, b) => a - b);
        }
      }
      this.histograms.set(histogram.name, both);
    }
    return grown;
  }
}
