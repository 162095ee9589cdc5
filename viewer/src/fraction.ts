/**
 * The fraction that a point budget allows.
 *
 * Drawing a region of `records` rows at fraction p takes about records * p points. Each region asks for a multiple of a
 * common level, its importance. The solver finds the greatest level at which all regions in a view fit the budget.
 */

/** Smaller relative changes of the level are ignored. */
const RISE = 1.25;
/** While a view moves, up to this multiple of the budget is drawn, so that points do not vanish. */
const EXCESS = 1.4;

interface Region {
  /** Approximate number of its rows in view. */
  records: number;
  importance: number;
  /** The fraction that stays drawn. */
  kept: number;
}

export class Level {
  value = 0;
  private regions: Region[] = [];
  private count = 0;
  private budget = 0;

  /** Removes the regions. Their objects are reused, so frames allocate nothing. */
  clear(): void {
    this.count = 0;
  }

  add(records: number, importance: number, kept: number): void {
    const region = (this.regions[this.count++] ??= { records: 0, importance: 0, kept: 0 });
    region.records = records;
    region.importance = importance;
    region.kept = kept;
  }

  /** Points at this level, with or without kept points. */
  private points(level: number, withKept: boolean): number {
    let points = 0;
    for (let k = 0; k < this.count; k++) {
      const { records, importance, kept } = this.regions[k];
      const wanted = Math.min(1, level * importance);
      points += records * (withKept ? Math.max(kept, wanted) : wanted);
    }
    return points;
  }

  private within(budget: number, all: number, withKept: boolean): number {
    let [low, high] = [all * 1e-10, all];
    for (let round = 0; round < 34; round++) {
      const middle = Math.sqrt(low * high);
      if (this.points(middle, withKept) <= budget) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Finds the level for this budget, constant while changes are small. */
  solve(budget: number): number {
    if (this.count === 0) return this.value;
    let all = 0;
    for (let k = 0; k < this.count; k++) all = Math.max(all, 1 / this.regions[k].importance);
    const isSame = budget === this.budget;
    this.budget = budget;
    if (this.points(all, false) <= budget) return (this.value = all);
    // Kept points take at most half of the level of the others.
    const found = Math.max(this.within(budget, all, true), 0.5 * this.within(budget, all, false));
    const stays = isSame && found < RISE * this.value && this.points(this.value, true) <= EXCESS * budget;
    return stays ? this.value : (this.value = found);
  }

  reset(): void {
    this.value = 0;
    this.budget = 0;
  }
}
