/**
 * Helvetica, a standard PDF font: character codes (WinAnsiEncoding) and widths in thousandths of the font
 * size (Adobe's metrics of the 14 standard fonts).
 */

/** The characters of codes 128 to 159; a space marks an unused code. Other codes equal Unicode. */
const SPECIAL = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";
/** Characters with the same look in figures: narrow space, minus, Greek mu. */
const ALIKE: Record<string, string> = { "\u202f": "\u00a0", "\u2212": "–", "\u03bc": "µ" };

/** Widths from code 32 on. */
const WIDTHS = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
  556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
  1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
  333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
  556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, 350,
  556, 0, 222, 556, 333, 1000, 556, 556, 333, 1000, 667, 333, 1000, 0, 611, 0,
  0, 222, 222, 333, 333, 350, 556, 1000, 333, 1000, 500, 333, 944, 0, 500, 667,
  278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333,
  400, 584, 333, 333, 333, 556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611,
  667, 667, 667, 667, 667, 667, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278,
  722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611,
  556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278,
  556, 556, 556, 556, 556, 556, 556, 584, 611, 556, 556, 556, 556, 500, 556, 500,
];

/** The code of each character; null if Helvetica lacks one. */
export function codesOf(text: string): number[] | null {
  const codes = [...text].map((character) => {
    const known = ALIKE[character] ?? character;
    const code = known.codePointAt(0)!;
    if ((code >= 32 && code < 127) || (code >= 160 && code < 256)) return code;
    const at = known === " " ? -1 : SPECIAL.indexOf(known);
    return at < 0 ? null : 128 + at;
  });
  return codes.every((code) => code !== null) ? codes : null;
}

/** Width as a fraction of the font size. */
export const widthOf = (codes: number[]) => codes.reduce((sum, code) => sum + WIDTHS[code - 32], 0) / 1000;
