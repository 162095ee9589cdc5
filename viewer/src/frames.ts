/**
 * Decodes points from the network: frames of little-endian float32 columns. The stream may be cut anywhere; only
 * complete frames are returned.
 */

export interface Frame {
  /** The index of its cell in the request. */
  cell: number;
  rows: number;
  /** Whether this is the last frame of its cell. */
  last: boolean;
  /** [rows][axes], relative to the cell's origin. */
  positions: Float32Array;
  columns: Float32Array[];
}

const HEADER = 16;

export class FrameReader {
  private waiting = new Uint8Array(1 << 16);
  private held = 0;

  constructor(
    private readonly axes: number,
    private readonly columns: number,
    private readonly take: (frame: Frame) => void,
  ) {}

  push(piece: Uint8Array): void {
    if (this.held + piece.length > this.waiting.length) {
      const larger = new Uint8Array(Math.max(2 * this.waiting.length, this.held + piece.length));
      larger.set(this.waiting.subarray(0, this.held));
      this.waiting = larger;
    }
    this.waiting.set(piece, this.held);
    this.held += piece.length;
    let begin = 0;
    for (;;) {
      const length = this.frameAt(begin);
      if (length === 0) break;
      begin += length;
    }
    if (begin > 0) {
      this.waiting.copyWithin(0, begin, this.held);
      this.held -= begin;
    }
  }

  /** Ends the stream, which must not contain a partial frame. */
  end(): void {
    if (this.held > 0) throw new Error("the response ends in the middle of a frame");
  }

  /** Reads the frame at this offset; returns its length, or 0 if it is incomplete. */
  private frameAt(begin: number): number {
    if (this.held - begin < HEADER) return 0;
    const header = new DataView(this.waiting.buffer, begin, HEADER);
    const rows = header.getUint32(4, true);
    const length = HEADER + 4 * rows * (this.axes + this.columns);
    if (this.held - begin < length) return 0;
    // One copy aligns the columns, so they can be uploaded directly.
    const body = this.waiting.slice(begin + HEADER, begin + length).buffer;
    const at = 4 * rows * this.axes;
    this.take({
      cell: header.getUint32(0, true),
      rows,
      last: header.getUint32(8, true) === 1,
      positions: new Float32Array(body, 0, rows * this.axes),
      columns: Array.from({ length: this.columns }, (_, k) => new Float32Array(body, at + 4 * rows * k, rows)),
    });
    return length;
  }
}

export function joined(parts: Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0];
  const all = new Float32Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
