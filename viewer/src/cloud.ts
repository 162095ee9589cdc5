/**
 * The points of one view: a tree of cells for one version, region and set of columns, and the requests that load it. A
 * request is cancelled once none of its cells is needed.
 */

import type { Group, Points } from "three";
import { points } from "./api";
import { Fading, type Ink } from "./fading";
import { joined, type Frame as WireFrame } from "./frames";
import type { PointsRequest } from "./generated/query";
import { pointsQuery, type PointsSpec } from "./query";
import type { Scene } from "./scene";
import type { Cell } from "./cell";
import { Tree, type Choice } from "./tree";
import { SAME, Weights } from "./weights";

const CELLS = 12;
const REQUESTS = 2;

interface Request {
  cells: Cell[];
  abort: AbortController;
}

export class PointCloud {
  readonly tree: Tree;
  private readonly weights: Weights;
  readonly fading: Fading;
  readonly group: Group;
  private readonly meshes = new Map<Cell, Points>();
  private readonly requests = new Set<Request>();
  private greatest = 0;
  private closed = false;
  /** True once all cells of the last choice have arrived. */
  settled = false;
  received = 0;
  choice: Choice | null = null;
  /** Whether parts of the view have different fractions. */
  weighted = false;
  isShown = false;

  constructor(
    private readonly scene: Scene,
    readonly spec: PointsSpec,
    low: number[],
    high: number[],
    total: number,
    held: number,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.group = scene.newGroup();
    const added = (cell: Cell) => this.meshes.set(cell, scene.add(this.group, cell));
    this.tree = new Tree(low, high, total, added, (cell) => this.remove(cell), held);
    this.weights = new Weights(this.tree);
    this.fading = new Fading(this.weights);
    // The root is drawn first, for any camera.
    void this.request([this.tree.root]);
  }

  private remove(cell: Cell): void {
    const mesh = this.meshes.get(cell)!;
    this.group.remove(mesh);
    mesh.geometry.dispose();
    this.meshes.delete(cell);
    this.fading.forget(cell);
  }

  /** Chooses the cells to draw and requests missing ones. */
  update(budget: number, even: boolean, isSpaced: boolean, now: number): Choice {
    const choice = (this.choice = this.tree.choose(this.scene.eye, budget, even));
    this.weighted = choice.fraction[1] > SAME * choice.fraction[0];
    const greatest = isSpaced ? this.spacing() : 0;
    for (const [cell, mesh] of this.meshes) if (cell.stale || cell.count === 0) mesh.geometry.userData.spacing = false;
    this.fading.update(this.tree.cells, choice, now, this.isShown);
    for (const [cell, mesh] of this.meshes) {
      this.scene.show(mesh, this.fading.inkOf(cell));
      if (greatest > 0 && cell.count > 0) this.scene.space(mesh, cell, this.weights, greatest);
    }
    this.tree.forget(3 * budget);
    this.cancelUnseen();
    let requested = 0;
    while (this.requests.size < REQUESTS && requested < choice.wanted.length) {
      const cells = choice.wanted.slice(requested, requested + CELLS);
      requested += cells.length;
      void this.request(cells);
    }
    this.settled = this.requests.size === 0 && choice.wanted.length === 0;
    return choice;
  }

  /** The greatest spacing of points, constant while changes are small. */
  private spacing(): number {
    const found = this.weights.greatestSpacing(this.scene.frame);
    if (found < 1.25 * this.greatest && found > 0.8 * this.greatest) return this.greatest;
    for (const mesh of this.meshes.values()) mesh.geometry.userData.spacing = false;
    return (this.greatest = found);
  }

  /** Cancels requests whose remaining cells are all off the screen. */
  private cancelUnseen(): void {
    for (const request of this.requests) {
      const open = request.cells.filter((cell) => cell.state === "requested");
      if (open.length > 0 && open.every((cell) => cell.depth > 0 && this.scene.eye.pixels(cell) === 0)) request.abort.abort();
    }
  }

  private async request(cells: Cell[]): Promise<void> {
    const request: Request = { cells, abort: new AbortController() };
    this.requests.add(request);
    for (const cell of cells) cell.state = "requested";
    const { table, columns } = this.spec;
    const query = pointsQuery(this.spec, cells);
    let parts: WireFrame[] = [];
    const take = (frame: WireFrame) => {
      if (this.closed) return;
      this.received += frame.rows;
      if (frame.rows > 0) parts.push(frame);
      if (!frame.last) return;
      this.tree.fill(cells[frame.cell], joined(parts.map((part) => part.positions)), columns.map((_, k) => joined(parts.map((part) => part.columns[k]))));
      parts = [];
      this.changed();
    };
    try {
      const prefetched = await this.prefetched(query);
      if (prefetched) prefetched.forEach(take);
      else await points(table, query, take, request.abort.signal);
    } catch (error) {
      if (!request.abort.signal.aborted && !this.closed) this.failed(error);
    }
    for (const cell of cells) if (cell.state === "requested") cell.state = "new";
    this.requests.delete(request);
    if (!this.closed) this.changed();
  }

  /** The response, if src/first.ts has already requested it. */
  private async prefetched(query: PointsRequest): Promise<WireFrame[] | null> {
    const ahead = await window.kubistFirst?.ahead.catch(() => null);
    window.kubistFirst = undefined;
    if (!ahead || JSON.stringify(ahead.query) !== JSON.stringify(query)) return null;
    return ahead.frames.catch(() => null);
  }

  /** Calls `what` for each drawn cell with its points and weights. */
  each(what: (cell: Cell, mesh: Points, ink: Ink) => void): void {
    for (const [cell, mesh] of this.meshes) if (mesh.visible) what(cell, mesh, this.fading.inkOf(cell));
  }

  /** Positions all cells in the scene's current frame. */
  place(): void {
    for (const [cell, mesh] of this.meshes) {
      this.scene.place(mesh, cell.low);
      mesh.geometry.userData.spacing = false;
    }
  }

  close(): void {
    this.closed = true;
    for (const request of this.requests) request.abort.abort();
    this.scene.discard(this.group);
  }
}
