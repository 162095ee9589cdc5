// Compares the picture of the page with the expected rows, pixel by pixel.

/** Number of rows within the picture, lit rows, and lit pixels without a row nearby. */
export function compare(page, records) {
  return page.evaluate((records) => {
    const app = window.kubist;
    app.scene.box.visible = false;
    app.scene.updateCamera();
    app.scene.render();
    const { canvas, frame } = app.scene;
    const { data, width, height } = window.valuesOf(canvas);
    const lit = new Uint8Array(width * height);
    const night = data.slice(0, 3);
    for (let k = 0; k < lit.length; k++) {
      const off = Math.abs(data[4 * k] - night[0]) + Math.abs(data[4 * k + 1] - night[1]) + Math.abs(data[4 * k + 2] - night[2]);
      lit[k] = off > 24 ? 1 : 0;
    }
    const { projectionMatrix: p, matrixWorldInverse: v } = app.scene.camera;
    const times = (m, [x, y, z, w]) => [0, 1, 2, 3].map((r) => m.elements[r] * x + m.elements[r + 4] * y + m.elements[r + 8] * z + m.elements[r + 12] * w);
    const near = new Uint8Array(width * height);
    let inside = 0, drawn = 0;
    for (const record of records) {
      const at = [0, 1, 2].map((k) => (k < record.length ? (record[k] - frame.center[k]) * frame.scale[k] : 0));
      const [x, y, , w] = times(p, times(v, [...at, 1]));
      const [px, py] = [((x / w + 1) / 2) * width, ((1 - y / w) / 2) * height];
      if (!(px > 4 && py > 4 && px < width - 4 && py < height - 4)) continue;
      inside++;
      if (lit[Math.floor(py) * width + Math.floor(px)]) drawn++;
      for (let dy = -4; dy <= 4; dy++) for (let dx = -4; dx <= 4; dx++) near[(Math.floor(py) + dy) * width + Math.floor(px) + dx] = 1;
    }
    let stray = 0, all = 0;
    for (let k = 0; k < lit.length; k++) {
      all += lit[k];
      if (lit[k] && !near[k]) stray++;
    }
    app.scene.box.visible = true;
    return { records: records.length, inside, drawn, lit: all, stray };
  }, records);
}
