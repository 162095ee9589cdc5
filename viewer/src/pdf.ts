/**
 * A picture as PDF: one page with vector lines, an image of the points, and text in Helvetica. Text with other
 * characters becomes an image.
 */

import { codesOf, widthOf } from "./helvetica";
import { fontOf, paint, type Place, type Shape, type Sheet, type Words } from "./shapes";

/** Typographic points per pixel, as on the web: 96 pixels per inch. */
const POINTS = 0.75;
/** Relative length of the control points of a Bézier quarter circle. */
const ROUND = 0.5523;
/** Resolution of text images, relative to the picture. */
const FINE = 4;

/** Object numbers; images follow. */
const [CATALOG, PAGES, PAGE, CONTENT, FONT, INFO, IMAGES] = [1, 2, 3, 4, 5, 6, 7];

const encoder = new TextEncoder();
const number = (value: number) => String(Math.round(value * 1000) / 1000);
const numbers = (...values: number[]) => values.map(number).join(" ");

interface Pixels {
  data: Uint8ClampedArray;
  width: number;
  height: number;
}

/** An object's dictionary without brackets, and its stream. */
interface Part {
  about: string;
  stream: Uint8Array<ArrayBuffer> | null;
}

export async function pdfOf(sheet: Sheet, shapes: Shape[]): Promise<Blob> {
  const { width, height, background, title, description } = sheet;
  const page = new Page(sheet.family);
  page.add(`${numbers(POINTS, 0, 0, -POINTS, 0, POINTS * height)} cm`);
  if (background) page.draw({ kind: "fill", rect: { left: 0, top: 0, width, height }, color: background });
  for (const shape of shapes) page.draw(shape);
  const images = (await Promise.all(page.images.map((pixels, k) => partsOf(pixels, IMAGES + 2 * k + 1)))).flat();
  const names = page.images.map((_, k) => `/I${k} ${IMAGES + 2 * k} 0 R`).join(" ");
  const content = await deflated(encoder.encode(page.content.join("\n")));
  const parts: Part[] = [
    { about: `/Type /Catalog /Pages ${PAGES} 0 R`, stream: null },
    { about: `/Type /Pages /Kids [${PAGE} 0 R] /Count 1`, stream: null },
    {
      about: `/Type /Page /Parent ${PAGES} 0 R /MediaBox [0 0 ${numbers(POINTS * width, POINTS * height)}] /Contents ${CONTENT} 0 R ` +
        `/Resources << /Font << /F ${FONT} 0 R >> /XObject << ${names} >> >>`,
      stream: null,
    },
    { about: "/Filter /FlateDecode", stream: content },
    { about: "/Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding", stream: null },
    { about: `/Creator ${told("Kubist")} /Title ${told(title)} /Subject ${told(description)}`, stream: null },
    ...images,
  ];
  return fileOf(parts);
}

/** Writes numbered objects and their offsets. */
function fileOf(parts: Part[]): Blob {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const put = (piece: string | Uint8Array<ArrayBuffer>) => {
    const bytes = typeof piece === "string" ? encoder.encode(piece) : piece;
    pieces.push(bytes);
    length += bytes.length;
  };
  // Four binary bytes mark the file as binary, as the PDF specification recommends.
  put(Uint8Array.of(...encoder.encode("%PDF-1.7\n%"), 0xe2, 0xe3, 0xcf, 0xd3, 10));
  const begins = parts.map(({ about, stream }, k) => {
    const begin = length;
    put(`${k + 1} 0 obj\n<< ${about}${stream ? ` /Length ${stream.length}` : ""} >>\n`);
    if (stream) {
      put("stream\n");
      put(stream);
      put("\nendstream\n");
    }
    put("endobj\n");
    return begin;
  });
  const table = length;
  const lines = begins.map((begin) => `${String(begin).padStart(10, "0")} 00000 n \n`).join("");
  put(`xref\n0 ${parts.length + 1}\n0000000000 65535 f \n${lines}`);
  put(`trailer\n<< /Size ${parts.length + 1} /Root ${CATALOG} 0 R /Info ${INFO} 0 R >>\nstartxref\n${table}\n%%EOF\n`);
  return new Blob(pieces, { type: "application/pdf" });
}

function told(text: string): string {
  const hex = Array.from({ length: text.length }, (_, k) => text.charCodeAt(k).toString(16).padStart(4, "0"));
  return `<feff${hex.join("")}>`;
}

async function deflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

/** An image's colours, and its opacity, which is the object with this number. */
async function partsOf({ data, width, height }: Pixels, solidIs: number): Promise<Part[]> {
  const [colors, solid] = [new Uint8Array(3 * width * height), new Uint8Array(width * height)];
  for (let at = 0; at < width * height; at++) {
    for (let k = 0; k < 3; k++) colors[3 * at + k] = data[4 * at + k];
    solid[at] = data[4 * at + 3];
  }
  const about = `/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /BitsPerComponent 8 /Filter /FlateDecode`;
  return [
    { about: `${about} /ColorSpace /DeviceRGB /SMask ${solidIs} 0 R`, stream: await deflated(colors) },
    { about: `${about} /ColorSpace /DeviceGray`, stream: await deflated(solid) },
  ];
}

/** PDF operators of the shapes. Lengths are pixels from the top. */
class Page {
  readonly content: string[] = [];
  readonly images: Pixels[] = [];
  private readonly measuring = document.createElement("canvas").getContext("2d")!;

  constructor(private readonly family: string) {}

  add(...operators: string[]): void {
    this.content.push(...operators);
  }

  draw(shape: Shape): void {
    switch (shape.kind) {
      case "words":
        return this.words(shape);
      case "fill":
        return this.add(`${this.color(shape.color)} rg`, `${numbers(shape.rect.left, shape.rect.top, shape.rect.width, shape.rect.height)} re f`);
      case "ramp": {
        const { colors, isUp } = shape;
        const data = new Uint8ClampedArray(1024);
        for (let k = 0; k < 256; k++) data.set([...colors.subarray(4 * k, 4 * k + 3), 255], 4 * (isUp ? 255 - k : k));
        return this.image({ data, width: isUp ? 1 : 256, height: isUp ? 256 : 1 }, shape.rect);
      }
      case "area":
        return this.add(`${this.color(shape.color)} rg`, `${this.path(shape.places)} h f`);
      case "line": {
        const rings = shape.rings > 0 ? shape.places.map((place) => ring(place, shape.rings)) : [];
        return this.add(`${this.color(shape.color)} RG ${number(shape.width)} w 1 j`, `${this.path(shape.places)}${shape.isClosed ? " h" : ""}`, ...rings, "S");
      }
      case "image": {
        const { width, height } = shape.image;
        const { data } = shape.image.getContext("2d")!.getImageData(0, 0, width, height);
        return this.image({ data, width, height }, shape.rect);
      }
      case "within": {
        const { left, top, width, height } = shape.rect;
        this.add("q", `${numbers(shape.scale, 0, 0, shape.scale, left, top)} cm`, `0 0 ${numbers(width / shape.scale, height / shape.scale)} re W n`);
        for (const inner of shape.shapes) this.draw(inner);
        return this.add("Q");
      }
    }
  }

  private image(pixels: Pixels, { left, top, width, height }: { left: number; top: number; width: number; height: number }): void {
    this.images.push(pixels);
    // A PDF image is a unit square with its origin at the bottom.
    this.add("q", `${numbers(width, 0, 0, -height, left, top + height)} cm /I${this.images.length - 1} Do`, "Q");
  }

  private words(words: Words): void {
    const { text, at: [x, y], size, align, color, isUp } = words;
    const codes = codesOf(text);
    if (!codes) return this.painted(words);
    const off = size * widthOf(codes) * { left: 0, center: 0.5, right: 1 }[align];
    const placed = isUp ? numbers(0, -1, -1, 0, x, y + off) : numbers(1, 0, 0, -1, x - off, y);
    const shown = `/F ${number(size)} Tf ${placed} Tm <${codes.map((code) => code.toString(16)).join("")}> Tj`;
    this.add(`BT ${this.color(color)} rg ${shown} ET`);
  }

  /** Text as an image, horizontal or vertical. */
  private painted(words: Words): void {
    const { text, at: [x, y], size, align, isUp } = words;
    this.measuring.font = fontOf(size, this.family);
    const long = this.measuring.measureText(text).width;
    const [tall, above] = [1.6 * size, 1.15 * size];
    const before = long * { left: 0, center: 0.5, right: 1 }[align];
    const [width, height] = isUp ? [tall, long] : [long, tall];
    const [left, top] = isUp ? [x - above, y - (long - before)] : [x - before, y - above];
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.ceil(FINE * width), Math.ceil(FINE * height)];
    const context = canvas.getContext("2d")!;
    context.scale(FINE, FINE);
    paint(context, this.family, [{ ...words, at: [x - left, y - top] }]);
    const rect = { left, top, width: canvas.width / FINE, height: canvas.height / FINE };
    this.draw({ kind: "image", rect, image: canvas });
  }

  private path(places: Place[]): string {
    return places.map((place, k) => `${numbers(...place)} ${k === 0 ? "m" : "l"}`).join(" ");
  }

  private color(css: string): string {
    const { measuring } = this;
    measuring.fillStyle = css;
    const hex = measuring.fillStyle;
    return numbers(...[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255));
  }
}

function ring([x, y]: Place, radius: number): string {
  const handle = ROUND * radius;
  const corner = (fromX: number, fromY: number, toX: number, toY: number) =>
    `${numbers(x + radius * fromX + handle * toX, y + radius * fromY + handle * toY, x + radius * toX + handle * fromX, y + radius * toY + handle * fromY, x + radius * toX, y + radius * toY)} c`;
  return `${numbers(x + radius, y)} m ${corner(1, 0, 0, 1)} ${corner(0, 1, -1, 0)} ${corner(-1, 0, 0, -1)} ${corner(0, -1, 1, 0)} h`;
}
