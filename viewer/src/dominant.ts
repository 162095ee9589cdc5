/** Determines the most frequent category of each raster place, by row weights. */

export class Dominant {
  private places = new Uint32Array(1 << 12);
  private numbers = new Uint8Array(1 << 12);
  private weights = new Float32Array(1 << 12);
  private count = 0;
  /** By place: rows of the current category, rows of the most frequent one, and its number. */
  private own = new Float32Array(0);
  private most = new Float32Array(0);
  private best = new Uint8Array(0);

  clear(): void {
    this.count = 0;
  }

  add(place: number, category: number, records: number): void {
    if (this.count === this.places.length) {
      const grown = <Of extends Uint32Array | Uint8Array | Float32Array>(from: Of, into: Of) => (into.set(from), into);
      this.places = grown(this.places, new Uint32Array(2 * this.count));
      this.numbers = grown(this.numbers, new Uint8Array(2 * this.count));
      this.weights = grown(this.weights, new Float32Array(2 * this.count));
    }
    this.places[this.count] = place;
    this.numbers[this.count] = category;
    this.weights[this.count++] = records;
  }

  /** Writes each place's colour times its rows to the first three of its sums. */
  finish(sums: Float32Array, colors: Uint8Array): void {
    const length = sums.length / 4;
    if (this.own.length !== length) [this.own, this.most, this.best] = [new Float32Array(length), new Float32Array(length), new Uint8Array(length)];
    const { own, most, best, places, weights } = this;
    most.fill(0);
    for (const { from, to, order, category } of this.byCategory()) {
      for (let k = from; k < to; k++) own[places[order[k]]] += weights[order[k]];
      for (let k = from; k < to; k++) {
        const place = places[order[k]];
        if (own[place] > most[place]) [most[place], best[place]] = [own[place], category];
        own[place] = 0;
      }
    }
    for (let place = 0; place < length; place++) {
      const records = sums[4 * place + 3];
      if (!(records > 0)) continue;
      for (let k = 0; k < 3; k++) sums[4 * place + k] = (records * colors[4 * best[place] + k]) / 255;
    }
  }

  /** The rows of each category, one category after another. */
  private *byCategory() {
    const ends = new Uint32Array(257);
    for (let row = 0; row < this.count; row++) ends[this.numbers[row] + 1]++;
    for (let k = 0; k < 256; k++) ends[k + 1] += ends[k];
    const next = ends.slice();
    const order = new Uint32Array(this.count);
    for (let row = 0; row < this.count; row++) order[next[this.numbers[row]]++] = row;
    for (let category = 0; category < 256; category++) {
      if (ends[category + 1] > ends[category]) yield { category, order, from: ends[category], to: ends[category + 1] };
    }
  }
}
