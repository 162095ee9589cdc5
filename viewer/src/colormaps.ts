/**
 * Colormaps by equidistant sRGB stops, as in `kubist plot` (matplotlib's viridis, magma, inferno, plasma: CC0; cividis;
 * Google's turbo: Apache-2.0; Moreland's coolwarm).
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

/** Diverging maps. */
export const DIVERGING = ["coolwarm"];

export type Rgb = [number, number, number];

/** Smallest contrast ratio to the background, as WCAG defines it. */
const CONTRAST = 2;
/** On a light background a higher ratio is black for any hue. */
const BLACK = 14;
/** Categories with their own colour; more could not be distinguished. */
export const CATEGORIES = 24;

const channels = (color: number): Rgb => [(color >> 16) & 255, (color >> 8) & 255, color & 255];

function luminance(color: Rgb): number {
  const [r, g, b] = color.map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((p, q) => p - q);
  return (high + 0.05) / (low + 0.05);
}

const mixed = (a: Rgb, b: Rgb, share: number) => a.map((value, k) => Math.round(value + (b[k] - value) * share)) as Rgb;

function at(stops: number[], share: number): Rgb {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return mixed(channels(stops[below]), channels(stops[below + 1]), place - below);
}

/** The colour, shifted away from the background until it is visible. */
function visible(color: Rgb, background: Rgb): Rgb {
  const away: Rgb = luminance(background) > 0.18 ? [0, 0, 0] : [255, 255, 255];
  let shown = color;
  for (let share = 0.05; contrast(shown, background) < CONTRAST && share < 1; share += 0.05) shown = mixed(color, away, share);
  return shown;
}

/** 256 colours of a map, without ends that are too close to the background. */
export function ramp(name: string, background: Rgb): Uint8Array {
  const stops = COLORMAPS[name] ?? COLORMAPS.viridis;
  const most = luminance(background) > 0.18 ? BLACK : Infinity;
  const isSeen = (share: number) => {
    const found = contrast(at(stops, share), background);
    return found >= CONTRAST && found <= most;
  };
  let [from, to] = [0, 1];
  while (from < 0.5 && !isSeen(from)) from += 0.01;
  while (to > 0.5 && !isSeen(to)) to -= 0.01;
  // A map whose middle is close to the background keeps its ends.
  if (from >= 0.5) from = 0;
  if (to <= 0.5) to = 1;
  const colors = new Uint8Array(256 * 4);
  for (let k = 0; k < 256; k++) colors.set([...visible(at(stops, from + (to - from) * (k / 255)), background), 255], 4 * k);
  return colors;
}

/** 256 colours for densities; a higher density has more contrast to the background. */
export function densityRamp(name: string, background: Rgb): Uint8Array {
  const colors = ramp(name, background);
  const away = (k: number) => contrast([colors[4 * k], colors[4 * k + 1], colors[4 * k + 2]], background);
  if (away(0) <= away(255)) return colors;
  const turned = new Uint8Array(colors.length);
  for (let k = 0; k < 256; k++) turned.set(colors.subarray(4 * (255 - k), 4 * (256 - k)), 4 * k);
  return turned;
}

/** Converts OKLCH to sRGB (Ottosson, A perceptual color space for image processing, 2020). */
function fromLch(lightness: number, chroma: number, hue: number): Rgb {
  const [a, b] = [chroma * Math.cos(hue), chroma * Math.sin(hue)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const gamma = (value: number) => (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);
  return linear.map((value) => Math.round(255 * gamma(Math.min(1, Math.max(0, value))))) as Rgb;
}

/** Category colours: eight hues, each also lighter and darker; all differ. */
export function categories(background: Rgb): Rgb[] {
  const lightness = luminance(background) > 0.18 ? [0.58, 0.42, 0.7] : [0.74, 0.58, 0.88];
  return Array.from({ length: CATEGORIES }, (_, k) => {
    // Adjacent categories have distant hues.
    const hue = ((((3 * k) % 8) + 0.6 + Math.floor(k / 8) / 3) * Math.PI) / 4;
    return fromLch(lightness[Math.floor(k / 8)], 0.14 - 0.02 * Math.floor(k / 8), hue);
  });
}

/** 256 colours by category number; numbers without a colour are grey. */
export function palette(numbers: number[], background: Rgb): Uint8Array {
  const own = categories(background);
  const colors = new Uint8Array(256 * 4);
  const other = mixed(background, luminance(background) > 0.18 ? [0, 0, 0] : [255, 255, 255], 0.4);
  for (let k = 0; k < 256; k++) colors.set([...other, 255], 4 * k);
  numbers.slice(0, CATEGORIES).forEach((number, k) => colors.set([...own[k], 255], 4 * number));
  return colors;
}
