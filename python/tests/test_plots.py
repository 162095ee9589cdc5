"""Plots as files: SVG and PDF compared with the PNG of the same rows, and animations."""

from __future__ import annotations

import base64
import itertools
import json
import re
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from servers import COMMAND

import kubist

ROWS = 20_000
STEPS = [0.0, 0.1, 0.25, 0.7]
EVIL = "a<b>&\"'\u0007 ]]> größer"
SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"

Pixels = np.ndarray


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kubist.Table]:
    rng = np.random.default_rng(5)
    step = rng.integers(0, 3, ROWS)
    step[7] = 3
    side = rng.integers(0, 2, ROWS) * 2 - 1
    rows = {
        "id": np.arange(ROWS),
        "x": 0.5 + side * (0.05 + 0.1 * step) + rng.normal(0, 0.03, ROWS),
        "y": rng.normal(0.4, 0.05, ROWS),
        "t": np.array(STEPS, "f4")[step],
        "u <&>": rng.normal(0, 1, ROWS),
    }
    path = tmp_path_factory.mktemp("plots") / "t.kubist"
    units = {"x": "m", "y": "m", "t": "s"}
    with kubist.create(path, rows, ["x", "y", "t"], identity=["id"], units=units) as made:
        yield made


def plot(table: kubist.Table, to: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "plot", table.location, "--axes", "x,y", "-o", str(to), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def decoded(png: bytes) -> Pixels:
    place, packed, head = 8, b"", b""
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        head, packed = (data if kind == b"IHDR" else head), packed + data * (kind == b"IDAT")
        place += 12 + length
    width, height, depth, color = struct.unpack(">IIBB", head[:10])
    channels = {2: 3, 6: 4}[color]
    assert depth == 8 and head[12] == 0
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    above, found = np.zeros(width * channels, np.uint8), []
    for line in lines:
        kind, row = int(line[0]), line[1:]
        if kind in (3, 4):
            row = np.array(guessed(kind, row.tolist(), above.tolist(), channels), np.uint8)
        elif kind == 2:
            row = row + above
        elif kind == 1:
            row = row.reshape(-1, channels).cumsum(0, dtype=np.uint8).ravel()
        above = row
        found.append(row)
    return np.array(found).reshape(height, width, channels)


def guessed(kind: int, row: list[int], above: list[int], channels: int) -> list[int]:
    left, corner = [0] * channels, [0] * channels
    for k, over in enumerate(above):
        a, c = left[k % channels], corner[k % channels]
        guess = (a + over) // 2 if kind == 3 else paeth(a, over, c)
        row[k] = left[k % channels] = (row[k] + guess) & 255
        corner[k % channels] = over
    return row


def paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    far = abs(guess - left), abs(guess - above), abs(guess - corner)
    if far[0] <= far[1] and far[0] <= far[2]:
        return left
    return above if far[1] <= far[2] else corner


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def rasters(svg: ElementTree.Element) -> list[tuple[list[int], Pixels]]:
    found = []
    for image in svg.iter(f"{SVG}image"):
        head, data = image.attrib[HREF].split(",")
        assert head == "data:image/png;base64"
        place = [int(image.attrib[name]) for name in ("x", "y", "width", "height")]
        found.append((place, decoded(base64.b64decode(data))))
    return found


def test_an_svg_has_the_points_of_the_png_and_words_as_words(
    table: kubist.Table, tmp_path: Path
) -> None:
    options = ["--color", "u <&>", "--title", EVIL, "--size", "500x400", "--where", "x < 0.7"]
    for ending in ("svg", "png"):
        assert plot(table, tmp_path / f"a.{ending}", *options).returncode == 0
    svg = ElementTree.fromstring((tmp_path / "a.svg").read_text("utf-8"))
    png = decoded((tmp_path / "a.png").read_bytes())
    assert (svg.attrib["width"], svg.attrib["height"]) == ("500", "400")
    assert png.shape == (400, 500, 3)
    title = svg.find(f"{SVG}title")
    # Control characters are escaped as on the terminal.
    assert title is not None and title.text == EVIL.replace("\u0007", "\\u{7}")
    words = texts(svg)
    assert {"x [m]", "y [m]", "u <&>", title.text} < set(words)
    assert any("where x < 0.7" in word for word in words)
    (place, points), (_, bar) = rasters(svg)
    x, y, width, height = place
    assert points.shape == (height, width, 4) and bar.shape[1] == 1 and len(bar) > 100
    under = png[y : y + height, x : x + width].astype(int)
    solid, empty = points[..., 3] == 255, points[..., 3] == 0
    assert solid.sum() > 300 and empty.sum() > 10_000
    assert np.abs(under[solid] - points[solid][:, :3]).max() <= 1
    assert under[empty].min() > 220
    python = table.plot("x", "y", "u <&>", title=EVIL, size=(500, 400), where="x < 0.7")
    saved = python.save(tmp_path / "mine.svg").read_text("utf-8")
    (_, same), _ = rasters(ElementTree.fromstring(saved))
    assert same.tobytes() == points.tobytes()


def objects(pdf: bytes) -> dict[int, bytes]:
    place = int(pdf.rsplit(b"startxref", 1)[1].split()[0])
    head, *lines = pdf[place:].split(b"trailer")[0].split(b"\n")[:-1]
    assert head == b"xref"
    starts = [int(line.split()[0]) for line in lines[1:] if line.endswith((b" n", b" n ", b" n\r"))]
    found = {}
    for start in starts:
        match = re.match(rb"(\d+) 0 obj\s", pdf[start:])
        assert match is not None, pdf[start : start + 20]
        found[int(match[1])] = pdf[start : pdf.index(b"endobj", start)]
    return found


def stream(body: bytes) -> bytes:
    match = re.search(rb"/Length (\d+)", body)
    assert match is not None
    data = body[body.index(b"stream\n") + 7 :][: int(match[1])]
    return zlib.decompress(data) if b"/FlateDecode" in body else data


def said(found: dict[int, bytes]) -> list[str]:
    cmap = next(stream(body) for body in found.values() if b"begincmap" in body)
    glyphs = {
        int(glyph, 16): bytes.fromhex(text.decode()).decode("utf-16-be")
        for glyph, text in re.findall(rb"<([0-9A-Fa-f]{4})>\s*<([0-9A-Fa-f]+)>", cmap)
    }
    content = next(text for text in map(try_stream, found.values()) if b"BT" in text)
    lines = []
    for block in re.findall(rb"BT(.*?)ET", content, re.DOTALL):
        strings = re.findall(rb"\((?:\\.|[^\\)])*\)|<[0-9A-Fa-f]*>", block, re.DOTALL)
        codes = b"".join(unescaped(string) for string in strings)
        lines.append("".join(glyphs.get(code, "?") for (code,) in struct.iter_unpack(">H", codes)))
    return lines


def try_stream(body: bytes) -> bytes:
    return stream(body) if b"stream\n" in body and b"/Subtype/Image" not in body else b""


def unescaped(string: bytes) -> bytes:
    if string.startswith(b"<"):
        return bytes.fromhex(string[1:-1].decode())
    plain = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}

    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if code.isdigit() else plain.get(code, code)

    return re.sub(rb"\\([0-7]{1,3}|.)", one, string[1:-1], flags=re.DOTALL)


def test_a_pdf_has_the_pixels_of_the_svg_and_text_to_copy(
    table: kubist.Table, tmp_path: Path
) -> None:
    options = ["--color", "t", "--title", "AV größer <&>", "--size", "500x400"]
    for ending in ("svg", "pdf"):
        assert plot(table, tmp_path / f"a.{ending}", *options).returncode == 0
    svg = ElementTree.fromstring((tmp_path / "a.svg").read_text("utf-8"))
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-1.7") and pdf.rstrip().endswith(b"%%EOF")
    found = objects(pdf)
    page = next(body for body in found.values() if re.search(rb"/Type\s*/Page\b", body))
    assert re.search(rb"/MediaBox\s*\[0 0 375 300\]", page)
    (_, points), (_, bar) = rasters(svg)
    images = [stream(body) for body in found.values() if re.search(rb"/Subtype\s*/Image", body)]
    expected = [points[..., :3], points[..., 3], bar[..., :3], bar[..., 3]]
    assert images == [channels.tobytes() for channels in expected]
    assert said(found) == texts(svg)
    assert "AV größer <&>" in said(found)
    font = next(stream(body) for body in found.values() if b"/Length1" in body)
    assert font[:4] == b"\x00\x01\x00\x00"
    python = table.plot("x", "y", "t", title="AV größer <&>", size=(500, 400))
    again = objects(python.save(tmp_path / "mine.pdf").read_bytes())
    assert said(again) == said(found)


def test_only_what_there_is(table: kubist.Table, tmp_path: Path) -> None:
    refused = plot(table, tmp_path / "a.jpeg")
    assert refused.returncode == 2
    assert "use a file name that ends in .png, .svg or .pdf, not .jpeg" in refused.stderr
    with pytest.raises(kubist.InvalidInput, match=r"mine\.tiff: .* not \.tiff"):
        table.plot("x", "y").save(tmp_path / "mine.tiff")
    with pytest.raises(kubist.InvalidInput, match="theme: expected paper or dark"):
        table.plot("x", "y", style={"theme": "neon"})
    assert list(tmp_path.iterdir()) == []


def test_styles_sizes_and_the_bar_of_lengths(table: kubist.Table, tmp_path: Path) -> None:
    def drawn(up: str = "y", **how: object) -> ElementTree.Element:
        picture = table.plot("x", up, **how)  # type: ignore[arg-type]
        return ElementTree.fromstring(picture.save(tmp_path / "a.svg").read_text("utf-8"))

    for theme, paper in (("paper", 255), ("dark", 19)):
        page = decoded(table.plot("x", "y", style={"theme": theme}, size=(300, 200)).png).astype(int).mean(2)
        # The legend above the points is readable.
        assert abs(page[0, 0] - paper) < 3 and np.abs(page[:, :40] - page[0, 0]).max() > 180
    small, large = drawn(size=(1500, 1000)), drawn(size=(3000, 2000))
    sizes = [
        sorted({float(text.attrib["font-size"]) for text in svg.iter(f"{SVG}text")})
        for svg in (small, large)
    ]
    assert len(sizes[0]) >= 3 and np.allclose(sizes[1], np.multiply(sizes[0], 2), atol=0.02)
    # The bar has the stated length on the axis.
    (bar,) = [
        text for text in large.iter(f"{SVG}text") if re.fullmatch(r"[\d.]+ m", text.text or "")
    ]
    meters = float((bar.text or "").split()[0])
    marks = {
        float(text.text or ""): float(text.attrib["x"])
        for text in large.iter(f"{SVG}text")
        if text.attrib["text-anchor"] == "middle" and re.fullmatch(r"[\d.]+", text.text or "")
    }
    low, high = min(marks), max(marks)
    per_meter = (marks[high] - marks[low]) / (high - low)
    baseline = float(bar.attrib["y"])
    lines = [
        int(rect.attrib["width"])
        for rect in large.iter(f"{SVG}rect")
        if 0 < baseline - float(rect.attrib.get("y", 0)) < 40
    ]
    assert abs(max(lines) / (meters * per_meter) - 1) < 0.02
    # Different scales or units: no scale bar.
    assert not any(text.endswith(" m") for text in texts(drawn("t")))


def frames(gif: bytes) -> list[tuple[int, bytes]]:
    assert gif[:6] == b"GIF89a" and gif[10] & 0x80
    place, delay, found = 13 + 3 * 2 ** ((gif[10] & 7) + 1), 0, []
    while gif[place] != 0x3B:
        is_image = gif[place] == 0x2C
        if gif[place : place + 2] == b"\x21\xf9":
            (delay,) = struct.unpack("<H", gif[place + 4 : place + 6])
        if is_image:
            assert gif[place + 9] & 0x80 == 0, "the palette is that of all frames"
        place += 11 if is_image else 2
        start = place
        while gif[place]:
            place += 1 + gif[place]
        place += 1
        if is_image:
            found.append((delay, gif[start:place]))
    return found


def test_an_animation_has_a_picture_for_each_value_all_of_one_look(
    table: kubist.Table, tmp_path: Path
) -> None:
    look = [
        "--box",
        "x=0:1,y=0.2:0.6",
        "--size",
        "300x220",
        "--limit",
        "2000",
    ]
    look += ["--color", "u <&>", "--range=-9:9", "--style", "aspect=fill,point_size=1"]
    done = plot(table, tmp_path / "frames/", "--animate", "T", "--json", *look)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["frames"] == len(STEPS)
    names = sorted(file.name for file in (tmp_path / "frames").iterdir())
    assert names == [f"frame-{k:05}.png" for k in range(1, 5)]
    shown = [decoded((tmp_path / "frames" / name).read_bytes()) for name in names]
    # As a plot of that step alone at the same fraction, below the caption.
    for step, picture in zip(STEPS, shown, strict=True):
        value = float(np.float32(step))
        still = tmp_path / "still.png"
        at = ["--where", f"t = {value!r}", "--sample", repr(told["fraction"])]
        alone = [*look[:4], *look[6:]]
        assert plot(table, still, *alone, *at).returncode == 0
        assert np.array_equal(decoded(still.read_bytes())[50:], picture[50:]), step
    counts = [int((picture[50:] != shown[3][50:]).any(2).sum()) for picture in shown]
    assert min(counts[:3]) > 500, "the steps differ"
    gif = tmp_path / "a.gif"
    assert plot(table, gif, "--animate", "t", "--style", "fps=5", *look).returncode == 0
    played = frames(gif.read_bytes())
    assert [delay for delay, _ in played] == [20] * 4
    assert len({pixels for _, pixels in played}) == 4


def test_densities_of_an_animation_have_one_scale(table: kubist.Table, tmp_path: Path) -> None:
    options = ["--animate", "t", "--size", "400x300"]
    assert plot(table, tmp_path / "frames", *options).returncode == 0
    shown = [decoded(file.read_bytes()) for file in sorted((tmp_path / "frames").iterdir())]
    # Axes, ticks and the colour bar are the same in all frames.
    for one, other in itertools.pairwise(shown):
        differing = np.argwhere((one != other).any(2))
        rows, columns = differing[:, 0], differing[:, 1]
        inside = (rows < 60) | ((columns > 40) & (columns < 320) & (rows < 260))
        assert inside.all() and len(differing) > 300


def test_equal_parts_show_each_record_once(tmp_path: Path) -> None:
    place = (np.arange(10) + 0.5) / 10
    when = np.datetime64("2026-01-01T00:00:00", "ms") + np.arange(10) * np.timedelta64(1, "D")
    rows = {"x": place, "y": np.full(10, 0.5), "n": np.arange(10.0), "when": when}
    with kubist.create(tmp_path / "t", rows, ["x", "y"]) as t:
        for column in ("n", "when"):
            to = tmp_path / column
            options = ["--box", "x=0:1,y=0:1", "--frames", "5", "--style", "point_size=1.5"]
            done = plot(t, to, "--animate", column, "--size", "240x200", "--color", "n", *options)
            assert done.returncode == 0, done.stderr
            shown = [decoded(file.read_bytes()) for file in sorted(to.iterdir())]
            assert len(shown) == 5
            for part, picture in enumerate(shown):
                rest = [other for k, other in enumerate(shown) if k != part]
                # Pixels that only this frame shows, and their columns: two points.
                own = np.all([(picture != other).any(2) for other in rest], axis=0)[50:]
                columns = np.flatnonzero(own.any(0))
                assert 1 + (np.diff(columns) > 2).sum() == 2, (column, part)
        many = plot(t, tmp_path / "none", "--animate", "x", "--where", "n > 100")
        assert many.returncode == 2 and "no row of the region has a value" in many.stderr
        assert not (tmp_path / "none").exists()


FFMPEG = """#!/bin/sh
[ "$1" = -version ] && exit 0
printf '%s\\n' "$@" >"$0.asked"
for last; do :; done
{then}
"""


def ffmpeg(folder: Path, then: str) -> dict[str, str]:
    """An environment with a fake ffmpeg that writes ``$last``."""
    folder.mkdir()
    (folder / "ffmpeg").write_text(FFMPEG.format(then=then))
    (folder / "ffmpeg").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_an_mp4_is_made_by_ffmpeg_or_refused(table: kubist.Table, tmp_path: Path) -> None:
    command = [str(COMMAND), "plot", table.location, "--axes", "x,y", "--color", "t"]
    command += ["--animate", "t", "--size", "301x201", "-o"]

    def run(to: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        asked = [*command, str(to)]
        return subprocess.run(
            asked, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    film = tmp_path / "film.mp4"
    (tmp_path / "empty").mkdir()
    none = run(film, {"PATH": str(tmp_path / "empty")})
    assert none.returncode == 3 and "an .mp4 needs ffmpeg, which is not installed" in none.stderr
    assert ".gif or a folder of PNG files" in none.stderr
    works = ffmpeg(tmp_path / "works", 'cat >"${last#file:}"')
    assert run(film, works).returncode == 0
    assert run(tmp_path / "frames", works).returncode == 0
    stills = [decoded(file.read_bytes()) for file in sorted((tmp_path / "frames").iterdir())]
    assert film.read_bytes() == b"".join(still.tobytes() for still in stills)
    asked = (tmp_path / "works" / "ffmpeg.asked").read_text().split("\n")
    assert asked[asked.index("-video_size") + 1] == "301x201"
    film.unlink()
    fails = ffmpeg(tmp_path / "fails", "echo no such encoder >&2; exit 1")
    failed = run(film, fails)
    assert failed.returncode == 4 and "ffmpeg: no such encoder" in failed.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty", "fails", "frames", "works"]


@pytest.mark.parametrize("name", ["film.gif", "frames"])
def test_an_interrupted_animation_leaves_nothing(
    table: kubist.Table, tmp_path: Path, name: str
) -> None:
    command = [str(COMMAND), "plot", table.location, "--axes", "x,y", "--animate", "u <&>"]
    command += ["--frames", "5000", "-o", str(tmp_path / name)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        while not list(tmp_path.iterdir()):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert list(tmp_path.iterdir()) == []


def text_of(picture: kubist.Picture, path: Path) -> list[str]:
    """The labels of a plot, from left to right."""
    svg = picture.save(path.with_suffix(".svg")).read_text()
    found = re.findall(r'<text x="([\d.-]+)"[^>]*>([^<]*)</text>', svg)
    return [label for _, label in sorted((float(x), label) for x, label in found)]


def test_a_sphere_is_drawn_as_a_sky(path: Path) -> None:
    rng = np.random.default_rng(4)
    ra, dec = rng.uniform(0, 360, 3_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 3_000)))
    stars = {"ra": ra, "dec": dec, "g": rng.normal(12, 1, 3_000)}
    units = {"ra": "deg", "dec": "deg", "g": "mag"}
    sky = kubist.create(path, stars, ["ra", "dec"], sphere=("ra", "dec"), units=units)
    plane = kubist.create(path.with_name("plane"), stars, ["ra", "dec"], units=units)

    whole = text_of(sky.plot(), path)
    assert [label for label in whole if label in ("300°", "0°", "60°", "120°")][-1] == "300°"
    assert whole.index("120°") < whole.index("300°") and "-60°" in whole
    assert sky.plot().png == sky.plot("ra", "dec").png != plane.plot("ra", "dec").png
    filled = sky.plot("ra", "dec", style={"aspect": "fill"})
    assert filled.png == plane.plot("ra", "dec", style={"aspect": "fill"}).png

    field = text_of(sky.plot("ra", "dec", region=kubist.cone(0, 20, 9)), path)
    numbers = [label for label in field if label in ("355", "0", "5")]
    assert numbers == ["5", "0", "355"]
    box = text_of(sky.plot("ra", "dec", box={"ra": (352, 368), "dec": (10, 30)}), path)
    assert box.index("5") < box.index("355")

    magnitudes = plane.plot("g", "dec", box={"g": (10, 15)})
    labels = text_of(magnitudes, path)
    assert labels.index("14") < labels.index("11")
    turned = plane.plot("g", "dec", box={"g": (10, 15)}, style={"invert_axes": "x"})
    labels = text_of(turned, path)
    assert labels.index("11") < labels.index("14")


def test_the_first_two_dimensions_are_the_axes(path: Path) -> None:
    rng = np.random.default_rng(5)
    table = kubist.create(path, {n: rng.random(500) for n in "xyz"}, ["x", "y", "z"])
    assert table.plot().png == table.plot("x", "y").png
    assert table.plot(y="x").png == table.plot("y", "x").png
    assert table.plot("y").png == table.plot("y", "x").png
