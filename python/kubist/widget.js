// The explorer page in a notebook cell, which anywidget loads and renders.
//
// The page (viewer/src) runs in a frame of the cell. Its files and the responses to its requests come
// from the kernel (_widget.py), as messages over the notebook's own connection; the browser uses no
// other port. viewer/src/host.ts is the interface between the page and its host.
// @ts-check

/** @typedef {import("../../viewer/src/host").Host} Host */

/**
 * Requests to the kernel.
 *
 * To the kernel: {ask, method, path, body} and {stop}. From it, under the same number: {status, type},
 * parts of the body as buffers, {end}; or {error} without a response.
 */
class Kernel {
  /** @param {any} model */
  constructor(model) {
    this.model = model;
    // Several cells may show one widget: each takes the responses to its own requests.
    this.name = Math.random().toString(36).slice(2);
    this.asked = 0;
    /** @type {Map<string, (message: any, buffers: DataView[]) => void>} */
    this.waiting = new Map();
    this.take = (/** @type {any} */ message, /** @type {DataView[]} */ buffers) => this.waiting.get(message.id)?.(message, buffers);
    model.on("msg:custom", this.take);
  }

  close() {
    this.model.off("msg:custom", this.take);
    this.waiting.clear();
  }

  /** @type {Host["request"]} */
  request(path, init) {
    const id = `${this.name}-${++this.asked}`;
    return new Promise((resolve, reject) => {
      /** @type {ReadableStreamDefaultController<Uint8Array>} */
      let body;
      let open = true;
      const finish = () => {
        open = false;
        this.waiting.delete(id);
      };
      const stop = () => {
        if (!open) return;
        finish();
        this.model.send({ stop: id });
      };
      const stream = new ReadableStream({
        start(controller) {
          body = controller;
        },
        cancel: stop,
      });
      /** @param {unknown} error */
      const fail = (error) => {
        body.error(error);
        reject(error);
      };
      this.waiting.set(id, (message, buffers) => {
        for (const part of buffers) body.enqueue(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
        if (message.status) resolve(new Response(stream, { status: message.status, headers: { "content-type": message.type } }));
        if (!message.end && !message.error) return;
        finish();
        if (message.error) fail(new TypeError(message.error));
        else body.close();
      });
      init.signal?.addEventListener("abort", () => {
        stop();
        fail(new DOMException("The request was given up", "AbortError"));
      });
      this.model.send({ ask: id, method: init.method ?? "GET", path, body: init.body ?? null });
    });
  }

  /** @param {string} path */
  async file(path) {
    const answer = await this.request(path, {});
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.text();
  }
}

/**
 * Writes the page into a new frame.
 *
 * @param {Document} document
 * @param {any} model
 * @param {Kernel} kernel
 */
async function fill(document, model, kernel) {
  const inside = /** @type {Window} */ (document.defaultView);
  inside.kubistHost = {
    request: (path, init) => kernel.request(path, init),
    address: () => model.get("_address"),
    keep: (address, selection) => {
      model.set("_address", address);
      if (selection) model.set("_selection", selection);
      model.save_changes();
    },
    python: () => model.get("_python"),
  };
  const [style, script] = await Promise.all([kernel.file("/app.css"), kernel.file("/app.js")]);
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  const source = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  document.head.append(Object.assign(document.createElement("script"), { type: "module", src: source }));
  // A link to rows on the server becomes a request to the kernel.
  document.addEventListener("click", async (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest("a");
    const path = link?.getAttribute("href");
    if (!link || !path?.startsWith("/v1/")) return;
    event.preventDefault();
    const answer = await kernel.request(path, {});
    if (!answer.ok) {
      const said = await answer.json().catch(() => null);
      inside.alert(`Kubist: ${said?.error?.message ?? `${path}: ${answer.status}`}`);
      return;
    }
    const records = await answer.blob();
    const named = document.createElement("a");
    Object.assign(named, { href: URL.createObjectURL(records), download: link.download || "records" });
    named.click();
    URL.revokeObjectURL(named.href);
  });
}

const PAGE = '<!doctype html><html lang="en"><head><meta charset="utf-8"></head><body></body></html>';

export default {
  /** @param {{ model: any, el: HTMLElement }} cell */
  render({ model, el }) {
    const kernel = new Kernel(model);
    const frame = document.createElement("iframe");
    frame.title = "Kubist";
    Object.assign(frame.style, { width: "100%", border: "0", display: "block", borderRadius: "6px" });
    const resize = () => void (frame.style.height = `${model.get("height")}px`);
    resize();
    model.on("change:height", resize);
    // The frame reloads whenever the notebook moves the cell.
    frame.addEventListener("load", () => {
      const { contentDocument } = frame;
      if (!contentDocument) return;
      fill(contentDocument, model, kernel).catch((error) => {
        contentDocument.body.textContent = `Kubist: ${error.message}`;
      });
    });
    frame.srcdoc = PAGE;
    el.append(frame);
    return () => {
      model.off("change:height", resize);
      kernel.close();
    };
  },
};
