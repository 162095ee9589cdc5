/**
 * Colours for numbers: perceptually even maps by equidistant stops of sRGB
 * (matplotlib's viridis, magma, inferno, plasma: CC0; cividis; Google's turbo:
 * Apache-2.0; Moreland's coolwarm), as the command line's `plot` has them.
 */

export const COLORMAPS: Record<string, number[]> = {
  viridis: [
    0x440154, 0x482475, 0x414487, 0x355f8d, 0x2a788e, 0x21918c, 0x22a884, 0x44bf70, 0x7ad151, 0xbddf26, 0xfde725,
  ],
  magma: [
    0x000004, 0x140e36, 0x3b0f70, 0x641a80, 0x8c2981, 0xb73779, 0xde4968, 0xf7705c, 0xfe9f6d, 0xfecf92, 0xfcfdbf,
  ],
  inferno: [
    0x000004, 0x160b39, 0x420a68, 0x6a176e, 0x932667, 0xbc3754, 0xdd513a, 0xf37819, 0xfca50a, 0xf6d746, 0xfcffa4,
  ],
  plasma: [
    0x0d0887, 0x41049d, 0x6a00a8, 0x8f0da4, 0xb12a90, 0xcc4778, 0xe16462, 0xf2844b, 0xfca636, 0xfcce25, 0xf0f921,
  ],
  cividis: [0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173, 0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838],
  turbo: [
    0x30123b, 0x4145ab, 0x4675ed, 0x39a2fc, 0x1bcfd4, 0x24eca6, 0x61fc6c, 0xa4fc3b, 0xd1e834, 0xf3c63a, 0xfe9b2d,
    0xf36315, 0xd93806, 0xb11901, 0x7a0402,
  ],
  coolwarm: [0x3b4cc0, 0x6788ee, 0x9abbff, 0xc9d7f0, 0xedd1c2, 0xf7a889, 0xe26952, 0xb40426],
  gray: [0x000000, 0xffffff],
};

/** Distinct hues for names. */
export const HUES = [0x4e9af1, 0xf1a340, 0x5cc18b, 0xd96c75, 0xa98bd6, 0xd8c44f, 0x59c3c3, 0xe39bc8, 0x9a9a9a, 0xb98a5e];

export type Rgb = [number, number, number];

const channels = (color: number): Rgb => [(color >> 16) & 255, (color >> 8) & 255, color & 255];
const lightness = ([r, g, b]: Rgb) => 0.2126 * r + 0.7152 * g + 0.0722 * b;

function at(stops: number[], share: number): Rgb {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const [a, b] = [channels(stops[below]), channels(stops[below + 1])];
  return [0, 1, 2].map((k) => Math.round(a[k] + (b[k] - a[k]) * (place - below))) as Rgb;
}

/** 256 colours of a map, without the end that would vanish in the background. */
export function ramp(name: string, background: Rgb): Uint8Array {
  const stops = COLORMAPS[name] ?? COLORMAPS.viridis;
  const apart = (share: number) => Math.abs(lightness(at(stops, share)) - lightness(background)) >= 34;
  let from = 0;
  let to = 1;
  while (from < 0.33 && !apart(from)) from += 0.01;
  while (to > 0.67 && !apart(to)) to -= 0.01;
  const colors = new Uint8Array(256 * 4);
  for (let k = 0; k < 256; k++) colors.set([...at(stops, from + (to - from) * (k / 255)), 255], 4 * k);
  return colors;
}

/** The same for names: a hue each, in turn. */
export function hues(): Uint8Array {
  const colors = new Uint8Array(256 * 4);
  for (let k = 0; k < 256; k++) colors.set([...channels(HUES[k % HUES.length]), 255], 4 * k);
  return colors;
}
