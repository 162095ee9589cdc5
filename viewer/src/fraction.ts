/**
 * The fraction that a budget of points allows.
 *
 * A view is made of regions. A region of `records` records that is drawn at fraction p takes
 * about records * p points. Each region asks for a multiple of a common level, its
 * importance; the level is the greatest with which all regions together fit the budget.
 */

/** Points are neither asked for nor dropped for a smaller change of the level than this. */
const RISE = 1.25;
/** More than the budget is drawn while a view moves, up to this, rather than that points vanish. */
const EXCESS = 1.4;

interface Region {
  /** About how many records it has in view. */
  records: number;
  importance: number;
  /** The fraction at which it is drawn and stays drawn. */
  kept: number;
}

export class Level {
  value = 0;
  private regions: Region[] = [];
  private count = 0;
  private budget = 0;

  /** Forgets the regions; their places are used again, so that frames allocate nothing. */
  clear(): void {
    this.count = 0;
  }

  add(records: number, importance: number, kept: number): void {
    const region = (this.regions[this.count++] ??= { records: 0, importance: 0, kept: 0 });
    region.records = records;
    region.importance = importance;
    region.kept = kept;
  }

  /** Points at this level; without what is kept, if that is to be left out. */
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

  /** Finds the level for this budget. It stays while a change would be small. */
  solve(budget: number): number {
    if (this.count === 0) return this.value;
    let all = 0;
    for (let k = 0; k < this.count; k++) all = Math.max(all, 1 / this.regions[k].importance);
    const isSame = budget === this.budget;
    this.budget = budget;
    if (this.points(all, false) <= budget) return (this.value = all);
    // What is kept takes at most half of what the others would get.
    const found = Math.max(this.within(budget, all, true), 0.5 * this.within(budget, all, false));
    const stays = isSame && found < RISE * this.value && this.points(this.value, true) <= EXCESS * budget;
    return stays ? this.value : (this.value = found);
  }

  reset(): void {
    this.value = 0;
    this.budget = 0;
  }
}
