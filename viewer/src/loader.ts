/**
 * One filled view: a tree of cells of one moment, one region and one set of columns,
 * and the requests that fill it. Requests whose cells are no longer wanted are cut.
 */

import type { Group, Points } from "three";
import { points, Refusal, type PointsQuestion } from "./api";
import { joined, type Frame as WireFrame } from "./frames";
import { pointsQuestion, type Asked } from "./question";
import type { Scene } from "./scene";
import { Tree, type Cell, type Choice } from "./tree";

/** Cells of a request, and requests at a time. */
const CELLS = 12;
const REQUESTS = 2;

interface Request {
  cells: Cell[];
  abort: AbortController;
}

export class Filling {
  readonly tree: Tree;
  readonly group: Group;
  private readonly meshes = new Map<Cell, Points>();
  private readonly requests = new Set<Request>();
  private closed = false;
  /** All that the last choice wanted has come. */
  settled = false;
  /** Rows that came over the wire. */
  received = 0;
  choice: Choice | null = null;

  constructor(
    private readonly scene: Scene,
    readonly asked: Asked,
    low: number[],
    high: number[],
    total: number,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.group = scene.newGroup();
    const added = (cell: Cell) => this.meshes.set(cell, scene.add(this.group, cell));
    this.tree = new Tree(low, high, total, added, (cell) => this.remove(cell));
    // What is seen first, whatever the camera sees.
    void this.ask([this.tree.root]);
  }

  private remove(cell: Cell): void {
    const mesh = this.meshes.get(cell)!;
    this.group.remove(mesh);
    mesh.geometry.dispose();
    this.meshes.delete(cell);
  }

  /** Decides what is drawn, asks for what is missing. */
  update(budget: number): Choice {
    const choice = (this.choice = this.tree.choose(this.scene, budget));
    for (const [cell, mesh] of this.meshes) mesh.visible = cell.drawn;
    this.tree.forget(3 * budget);
    this.cut();
    let asked = 0;
    while (this.requests.size < REQUESTS && asked < choice.wanted.length) {
      const cells = choice.wanted.slice(asked, asked + CELLS);
      asked += cells.length;
      void this.ask(cells);
    }
    this.settled = this.requests.size === 0 && choice.wanted.length === 0;
    return choice;
  }

  /** Ends requests of which nothing that is still to come is in view. */
  private cut(): void {
    for (const request of this.requests) {
      const open = request.cells.filter((cell) => cell.state === "asked");
      if (open.length > 0 && open.every((cell) => cell.depth > 0 && this.scene.pixels(cell) === 0)) request.abort.abort();
    }
  }

  private async ask(cells: Cell[]): Promise<void> {
    const request: Request = { cells, abort: new AbortController() };
    this.requests.add(request);
    for (const cell of cells) cell.state = "asked";
    const { table, columns } = this.asked;
    const question = pointsQuestion(this.asked, cells);
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
      const ahead = await this.ahead(question);
      if (ahead) ahead.forEach(take);
      else await points(table, question, take, request.abort.signal);
    } catch (error) {
      if (!request.abort.signal.aborted && !this.closed) this.failed(error);
    }
    for (const cell of cells) if (cell.state === "asked") cell.state = "new";
    this.requests.delete(request);
    if (!this.closed) this.changed();
  }

  /** The answer, if just this was asked for before this script was here. */
  private async ahead(question: PointsQuestion): Promise<WireFrame[] | null> {
    const ahead = await window.kubistFirst?.ahead.catch(() => null);
    window.kubistFirst = undefined;
    if (!ahead || JSON.stringify(ahead.question) !== JSON.stringify(question)) return null;
    return ahead.frames.catch(() => null);
  }

  close(): void {
    this.closed = true;
    for (const request of this.requests) request.abort.abort();
    this.scene.discard(this.group);
  }
}

/** Whether the moment that was asked is not at hand any more. */
export const isGone = (error: unknown) => error instanceof Refusal && error.status === 410;
