// Serves the page from viewer/dist and the rest from another server, to test the page without rebuilding
// the server.

import { createServer, request } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

/** Serves the page in `directory` in front of the server at `url`; returns its URL and a function to stop it. */
export async function fromDisk(directory, url, port) {
  const upstream = new URL(url);
  const server = createServer((asked, answer) => {
    const path = asked.url === "/" ? "/index.html" : asked.url;
    const file = join(directory, path);
    if (/^\/[a-z]+\.[a-z]+$/.test(path) && existsSync(file)) {
      answer.writeHead(200, { "content-type": TYPES[path.split(".")[1]] });
      answer.end(readFileSync(file));
      return;
    }
    const headers = { ...asked.headers, host: upstream.host };
    if (headers.origin) headers.origin = upstream.origin;
    const passed = request({ hostname: upstream.hostname, port: upstream.port, path: asked.url, method: asked.method, headers }, (from) => {
      answer.writeHead(from.statusCode, from.headers);
      from.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    asked.pipe(passed);
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  const close = () => new Promise((done) => (server.closeAllConnections(), server.close(done)));
  return { url: `http://127.0.0.1:${server.address().port}/`, close };
}
