"""The ParaView plug-in, through pvpython and, for the live parts, ParaView's window."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from servers import Server

import kubist
import kubist.paraview

PLUGIN = Path(kubist.paraview.path())
TOOLS = ("pvpython", "Xvfb")
TOKEN = ("--token", "0123456789abcdef")

missing = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(
    bool(missing),
    reason=f"{missing} not installed: apt-get install paraview python3-paraview xvfb",
)

HEAD = """
import json, sys
from paraview.simple import *
plugin, table, out = sys.argv[-3:]
LoadPlugin(plugin, ns=globals())
said = {}
def size(source, time=None):
    source.UpdatePipeline(*([] if time is None else [time]))
    return source.GetDataInformation().GetNumberOfPoints()
"""


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    ready, told = os.pipe()
    options = ["-screen", "0", "1280x900x24", "-nolisten", "tcp", "-noreset"]
    command = ["Xvfb", "-displayfd", str(told), *options]
    with subprocess.Popen(command, pass_fds=[told], stderr=subprocess.DEVNULL) as server:
        os.close(told)
        with os.fdopen(ready) as number:
            yield f":{number.readline().strip()}"
        server.terminate()


def environment(screen: str, home: Path) -> dict[str, str]:
    return {
        "DISPLAY": screen,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(PLUGIN.parent / "debian12"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }


def paraview(
    screen: str, tmp_path: Path, table: Path | str, script: str, *command: str
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    file, out = tmp_path / "script.py", tmp_path / "said.json"
    file.write_text(HEAD + textwrap.dedent(script) + "\njson.dump(said, open(out, 'w'))\n")
    run = [
        *(command or ("pvpython",)),
        str(file),
        str(PLUGIN),
        str(table),
        str(out),
    ]
    done = subprocess.run(
        run,
        env=environment(screen, tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and out.exists(), done.stdout + done.stderr
    return json.loads(out.read_text()), done


CENTRES = np.array([[0.2, 0.3, 0.5], [0.7, 0.6, 0.5], [0.5, 0.85, 0.2]])


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    rng = np.random.default_rng(1)
    n = 60_000
    blob = rng.integers(0, 3, n)
    place = CENTRES[blob] + rng.normal(0, 0.03, (n, 3))
    rows = pa.table(
        {
            **{name: place[:, d].astype("f4") for d, name in enumerate("xyz")},
            "time": rng.integers(0, 5, n) * 0.25,
            "blob": blob.astype("i4"),
            "deposited": blob == 1,
            "pid": np.arange(n),
            "kind": pa.array(np.array(["water", "oil", "salt"])[blob]).dictionary_encode(),
            "gap": pa.array(np.arange(n) % 100, pa.int16(), mask=np.arange(n) % 7 == 0),
        }
    )
    path = tmp_path_factory.mktemp("paraview") / "blobs.kubist"
    dimensions = {"x": (0, 1), "y": (0, 1), "z": (0, 1), "time": (0, 1)}
    return kubist.create(path, rows, dimensions, identity=["pid"])


def test_points_are_those_of_the_query_and_typed(
    screen: str, tmp_path: Path, blobs: kubist.Table
) -> None:
    said, done = paraview(
        screen,
        tmp_path,
        Path(blobs.location),
        """
        s = KubistTable(Table=table)
        s.UpdatePipelineInformation()
        said["times"] = list(s.TimestepValues)
        said["all"] = size(s, 0.25)
        said["types"] = {name: array.GetDataType() for name, array in s.PointData.items()}
        s.Where = "blob = 1"; said["where"] = size(s, 0.25)
        s.Sample = 0.1; said["sample"] = size(s, 0.25)
        s.Sample = 1; s.Where = ""; s.Limit = 1000; said["most"] = size(s, 0.25)
        s.Limit = 10**6
        s.RegionOfInterest = 1; s.Position = [0, 0, 0]; s.Length = [0.4, 1, 1]
        said["region"] = size(s, 0.25); said["bounds"] = s.GetDataInformation().GetBounds()
        s.RegionOfInterest = 0
        s.Columns = ["blob"]; size(s, 0.5)
        said["columns"] = list(s.PointData.keys())
        other = KubistTable(Table=table + "/table", XColumn="time", YColumn="x")
        size(other); said["plane"] = other.GetDataInformation().GetBounds()
        """,
    )
    at = "time = 0.25"
    assert said["times"] == [0, 0.25, 0.5, 0.75, 1]
    assert said["all"] == blobs.count(where=at)
    assert said["where"] == blobs.count(where=f"{at} AND blob = 1")
    assert said["sample"] == blobs.count(where=f"{at} AND blob = 1", sample=0.1)
    assert abs(said["most"] - 1000) < 150
    assert said["region"] == blobs.count(where=at, box={"x": (0, 0.4), "y": (0, 1), "z": (0, 1)})
    assert said["bounds"][1] <= 0.4
    vtk = {"float": 10, "double": 11, "int": 6, "short": 4, "uchar": 3, "string": 13}
    types = said["types"]
    assert types["x"] == vtk["float"] and types["time"] == vtk["double"]
    assert types["blob"] == vtk["int"] and types["deposited"] == vtk["uchar"]
    assert types["kind"] == vtk["string"] and types["gap"] == vtk["double"]
    assert types["pid"] in (8, 16)
    assert said["columns"] == ["blob", "inclusion"]
    assert said["plane"][:2] == [0, 0] and said["plane"][4:] == [0, 0]
    assert "Error" not in done.stderr and "ERR|" not in done.stderr, done.stderr


def test_an_address_is_as_good_as_a_directory(
    screen: str, tmp_path: Path, blobs: kubist.Table
) -> None:
    script = """
        s = KubistTable(Table=table)
        s.UpdatePipelineInformation()
        said["times"] = list(s.TimestepValues)
        s.Where = "blob = 1"; s.Sample = 0.1
        said["sample"] = size(s, 0.25)
        said["types"] = {name: array.GetDataType() for name, array in s.PointData.items()}
        s.Sample = 1; s.Where = ""; s.Limit = 1000; said["most"] = size(s, 0.25)
        s.Columns = ["kind"]; size(s, 0.5)
        said["columns"] = list(s.PointData.keys())
        """
    here, _ = paraview(screen, tmp_path, Path(blobs.location), script)
    with Server(blobs.location, *TOKEN) as server:
        there, done = paraview(screen, tmp_path, server.url, script)
    assert there == here
    assert "Error" not in done.stderr and "ERR|" not in done.stderr, done.stderr


COUNTED = """
        from vtkmodules.vtkParallelCore import vtkMultiProcessController
        from vtkmodules.util.numpy_support import vtk_to_numpy
        world = vtkMultiProcessController.GetGlobalController()
        rank = 0 if world is None else world.GetLocalProcessId()
        s = KubistTable(Table=table)
        counted = {{}}
        for fraction, most in ((1, 10**6), (0.25, 10**6), (1, 1000)):
            s.Sample, s.Limit = fraction, most
            s.UpdatePipeline(0.5)
            data = s.GetClientSideObject().GetOutputDataObject(0)
            inclusion = data.GetPointData().GetArray("inclusion")
            inclusion = [] if inclusion is None else vtk_to_numpy(inclusion).tolist()
            counted[f"{{fraction}} {{most}}"] = inclusion
        with open({folder!r} + f"/{{rank}}.json", "w") as file:
            json.dump(counted, file)
        """


@pytest.mark.release
@pytest.mark.parametrize(
    ("ranks", "remote"), [(1, False), (3, False), (3, True)], ids=["one", "ranks", "ranks far away"]
)
def test_points_carry_their_inclusion(
    screen: str, tmp_path: Path, blobs: kubist.Table, ranks: int, remote: bool
) -> None:
    """Weighted by 1/inclusion the points count all rows, for any sample."""
    if ranks > 1 and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    folder = tmp_path / "counted"
    folder.mkdir()
    command = ["mpirun", "-np", str(ranks), "pvbatch", "--symmetric"] if ranks > 1 else []
    with Server(blobs.location, *TOKEN) if remote else contextlib.nullcontext() as server:
        place = Path(blobs.location) if server is None else server.url
        paraview(screen, tmp_path, place, COUNTED.format(folder=str(folder)), *command)
    found = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    assert len(found) == ranks
    records = blobs.count(where="time = 0.5")
    for shown, share in (("1 1000000", 1.0), ("0.25 1000000", 0.25), ("1 1000", 1000 / records)):
        inclusion = np.array([one for rank in found for one in rank[shown]])
        assert len(set(inclusion)) == 1
        assert abs(inclusion[0] / share - 1) < (0.1 if shown == "1 1000" else 1e-12)
        points = len(inclusion)
        spread = np.sqrt(points * (1 - inclusion[0])) / inclusion[0]
        assert abs((1 / inclusion).sum() - records) <= 5 * spread
        if share < 1:
            assert points == blobs.count(where="time = 0.5", sample=inclusion[0])


def test_a_column_of_the_tables_own_stays(screen: str, tmp_path: Path) -> None:
    rows = {**{name: [0.25, 0.75] for name in "xyz"}, "inclusion": [7.0, 9.0]}
    kubist.create(tmp_path / "t", rows, ["x", "y", "z"]).close()
    script = """
        s = KubistTable(Table=table)
        s.UpdatePipeline()
        said["range"] = s.PointData["inclusion"].GetRange()
        """
    said, _ = paraview(screen, tmp_path, tmp_path / "t", script)
    assert said["range"] == [7, 9]


@pytest.mark.parametrize("remote", [False, True], ids=["directory", "address"])
def test_a_token_shows_its_snapshot(screen: str, tmp_path: Path, remote: bool) -> None:
    path = tmp_path / "t.kubist"
    rng = np.random.default_rng(4)
    rows = {name: rng.random(1_000) for name in "xyz"}
    with kubist.create(path, rows, ["x", "y", "z"]) as t:
        token = t.snapshot().token
        t.append(rows)
        newest = t.snapshot().token
    with Server(path, *TOKEN) if remote else contextlib.nullcontext() as server:
        said, done = paraview(
            screen,
            tmp_path,
            path if server is None else server.url,
            f"""
            s = KubistTable(Table=table)
            said["newest"] = size(s); said["shown"] = s.ShownToken
            s.SnapshotToken = {token!r}
            said["pinned"] = size(s); s.UpdatePropertyInformation(); said["token"] = s.ShownToken
            other = KubistTable(SnapshotToken={token!r}, Table=table)
            said["other"] = size(other)
            s.SnapshotToken = ""
            said["again"] = size(s)
            """,
        )
    sizes = [said[name] for name in ("newest", "pinned", "other", "again")]
    assert sizes == [2_000, 1_000, 1_000, 2_000]
    assert (said["shown"], said["token"]) == (newest, token)
    assert "Error" not in done.stderr and "ERR|" not in done.stderr, done.stderr


def test_the_picture_shows_the_records(screen: str, tmp_path: Path, blobs: kubist.Table) -> None:
    picture = tmp_path / "picture.npy"
    paraview(
        screen,
        tmp_path,
        Path(blobs.location),
        f"""
        s = KubistTable(Table=table)
        view = CreateView("RenderView")
        view.ViewSize = [200, 200]
        view.OrientationAxesVisibility = 0
        view.Background = [0, 0, 0]
        view.UseColorPaletteForBackground = 0
        shown = Show(s, view)
        shown.Representation = "Points"
        shown.PointSize = 1
        ColorBy(shown, ("POINTS", "blob"))
        table_of_colors = GetColorTransferFunction("blob")
        table_of_colors.InterpretValuesAsCategories = 0
        table_of_colors.RGBPoints = [0, 1, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1]
        table_of_colors.ColorSpace = "RGB"
        shown.SetScalarBarVisibility(view, False)
        view.CameraParallelProjection = 1
        view.CameraPosition = [0.5, 0.5, 5]; view.CameraFocalPoint = [0.5, 0.5, 0]
        view.CameraViewUp = [0, 1, 0]; view.CameraParallelScale = 0.5
        GetAnimationScene().UpdateAnimationUsingDataTimeSteps()
        view.ViewTime = 0.75
        SaveScreenshot(out + ".png", view, ImageResolution=[200, 200])
        from vtkmodules.vtkIOImage import vtkPNGReader
        from vtkmodules.util.numpy_support import vtk_to_numpy
        reader = vtkPNGReader(); reader.SetFileName(out + ".png"); reader.Update()
        image = reader.GetOutput()
        import numpy
        pixels = vtk_to_numpy(image.GetPointData().GetScalars())
        numpy.save({str(picture)!r}, pixels.reshape(200, 200, -1))
        """,
    )
    drawn = np.load(picture)[:, :, :3].astype(int)
    rows = blobs.query(where="time = 0.75").to_numpy()
    for blob, colour in enumerate(np.eye(3)):
        of = rows["blob"] == blob
        column = (rows["x"][of] * 200).astype(int)
        row = (rows["y"][of] * 200).astype(int)
        expected = np.zeros((200, 200), dtype=bool)
        expected[row, column] = True
        lit = (drawn * colour).sum(axis=2) > 40
        # A point may move to a neighbouring pixel, but none is missing.
        near = expected.copy()
        for down, right in [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]:
            near |= np.roll(expected, (down, right), (0, 1))
        spread = np.zeros_like(lit)
        for down, right in [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]:
            spread |= np.roll(lit, (down, right), (0, 1))
        assert lit.any() and not (lit & ~near).any()
        assert (expected & ~spread).sum() == 0


@pytest.mark.release
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_ranks_read_disjoint_parts(screen: str, tmp_path: Path, blobs: kubist.Table) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    paraview(
        screen,
        tmp_path,
        Path(blobs.location),
        f"""
        from vtkmodules.vtkParallelCore import vtkMultiProcessController
        s = KubistTable(Table=table)
        s.Sample = 0.5
        s.UpdatePipeline(0.5)
        data = s.GetClientSideObject().GetOutputDataObject(0)
        from vtkmodules.util.numpy_support import vtk_to_numpy
        import numpy
        rank = vtkMultiProcessController.GetGlobalController().GetLocalProcessId()
        pids = vtk_to_numpy(data.GetPointData().GetArray("pid"))
        numpy.save({str(ranks)!r} + f"/{{rank}}.npy", pids)
        """,
        "mpirun", "-np", "3", "pvbatch", "--symmetric",
    )  # fmt: skip
    parts = [np.load(file) for file in sorted(ranks.glob("*.npy"))]
    assert len(parts) == 3 and all(len(part) > 0 for part in parts)
    expected = blobs.query(where="time = 0.5", sample=0.5).to_numpy()["pid"]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(expected))


SWEEP = """
import sys
import kubist
t = kubist.open(sys.argv[1])
for k in range(20):
    more = {name: [0.5] * 50 for name in "xyz"}
    t.append({**more, "n": range(5000 + 50 * k, 5050 + 50 * k)})
    if sys.argv[2].startswith("http"):
        # A server keeps the snapshots in memory that were used last.
        kubist.connect(sys.argv[2]).count()
t.optimize(debt_share=0.0)
t.clean(retention=0)
t.clean(retention=0)
t.close()
"""


@pytest.mark.release
@pytest.mark.parametrize(("ranks", "remote"), [(1, True), (3, False), (3, True)])
def test_a_moment_that_was_cleaned_away_gives_way_to_a_newer_one(
    screen: str, tmp_path: Path, ranks: int, remote: bool
) -> None:
    """After the shown snapshot was cleaned, ranks agree on the next."""
    path = tmp_path / "swept.kubist"
    rng = np.random.default_rng(3)
    place = {name: rng.random(5_000) for name in "xyz"}
    dimensions = {name: (0, 1) for name in "xyz"}
    kubist.create(path, {**place, "n": np.arange(5_000)}, dimensions, identity=["n"]).close()
    seen, sweep = tmp_path / "seen", tmp_path / "sweep.py"
    seen.mkdir()
    sweep.write_text(SWEEP)
    together = ["mpirun", "-np", str(ranks), "pvbatch", "--symmetric"] if ranks > 1 else []
    with Server(path, *TOKEN) if remote else contextlib.nullcontext() as server:
        place = path if server is None else server.url
        paraview(
            screen,
            tmp_path,
            place,
            f"""
            from vtkmodules.vtkParallelCore import vtkMultiProcessController
            world = vtkMultiProcessController.GetGlobalController()
            rank = 0 if world is None else world.GetLocalProcessId()
            def shown():
                data = s.GetClientSideObject().GetOutputDataObject(0)
                return [] if data.GetNumberOfPoints() == 0 else (
                    vtk_to_numpy(data.GetPointData().GetArray("n")).tolist()
                )
            from vtkmodules.util.numpy_support import vtk_to_numpy
            s = KubistTable(Table=table)
            s.UpdatePipeline()
            before = shown()
            if rank == 0:
                import subprocess
                # ParaView's own Python has no pyarrow, which writing needs.
                sweep = [{sys.executable!r}, {str(sweep)!r}, {str(path)!r}, table]
                subprocess.run(sweep, env={{}}, check=True)
            if world is not None and world.GetNumberOfProcesses() > 1:
                world.Barrier()
            s.Where = "n >= 0"
            s.UpdatePipeline()
            with open({str(seen)!r} + f"/{{rank}}.json", "w") as file:
                json.dump([before, shown()], file)
            """,
            *together,
        )
    found = [json.loads(file.read_text()) for file in sorted(seen.glob("*.json"))]
    assert len(found) == ranks
    first, then = (sorted(n for rank in found for n in rank[k]) for k in (0, 1))
    assert first == list(range(5_000))
    # A server keeps the open files of a snapshot.
    allowed = [5_000, 6_000] if remote else [6_000]
    assert then in [list(range(rows)) for rows in allowed]


WINDOW = """
import os, sys
from paraview.simple import *
plugin, table, out = {plugin!r}, {table!r}, {out!r}
LoadPlugin(plugin, ns=globals())
s = KubistTable(Table=table, Live=1)
view = GetActiveViewOrCreate("RenderView")
Show(s, view); ResetCamera(); Render()
seen = []
def look(*_):
    n = s.GetDataInformation().GetNumberOfPoints()
    if not seen or seen[-1] != n:
        seen.append(n)
        with open(out, "a") as file: file.write(str(n) + chr(10))
    if os.path.exists(out + ".end"):
        os._exit(0)
look()
interactor = view.GetInteractor()
interactor.AddObserver("TimerEvent", look)
interactor.CreateRepeatingTimer(50)
"""


@pytest.mark.release
@pytest.mark.skipif(shutil.which("paraview") is None, reason="paraview is not installed")
@pytest.mark.parametrize("remote", [False, True], ids=["directory", "address"])
def test_the_window_refines_and_follows(screen: str, tmp_path: Path, remote: bool) -> None:
    """From coarse to fine without requests, and further with each commit."""
    rng = np.random.default_rng(2)
    rows = 450_000
    table, out = tmp_path / "t.kubist", tmp_path / "seen"
    t = kubist.create(table, {name: rng.random(rows) for name in "xyz"}, ["x", "y", "z"])
    script = tmp_path / "window.py"
    server = Server(table, *TOKEN) if remote else contextlib.nullcontext()

    def seen() -> list[int]:
        return [int(line) for line in out.read_text().split()] if out.exists() else []

    def wait_for(points: int) -> None:
        end = time.monotonic() + 240
        while points not in seen():
            assert window.poll() is None and time.monotonic() < end, (seen(), log.read_text())
            time.sleep(0.1)

    place = server.url if isinstance(server, Server) else str(table)
    script.write_text(WINDOW.format(plugin=str(PLUGIN), table=place, out=str(out)))
    log = tmp_path / "log"
    command = ["paraview", f"--script={script}"]
    with (
        server,
        log.open("w") as to,
        subprocess.Popen(
            command, env=environment(screen, tmp_path), stdout=to, stderr=to
        ) as window,
    ):
        try:
            wait_for(rows)
            t.append({name: rng.random(1000) for name in "xyz"})
            wait_for(rows + 1000)
        finally:
            Path(f"{out}.end").touch()
            try:
                window.wait(30)
            except subprocess.TimeoutExpired:
                window.kill()
    coarse = seen()[0]
    assert 80_000 < coarse < 120_000
    # Points stay while the view is refined.
    assert seen()[: seen().index(rows) + 1] == sorted(seen()[: seen().index(rows) + 1])


def test_the_command_knows_where_the_plug_in_lies() -> None:
    assert PLUGIN.exists() and PLUGIN.parent.name == "paraview"
    command = Path(kubist.__file__).resolve().parents[2] / ".venv" / "bin" / "kubist"
    if not command.exists():
        pytest.skip("the kubist command is not installed here")
    said = subprocess.run([command, "paraview-path"], capture_output=True, text=True, check=True)
    assert Path(said.stdout.strip()) == PLUGIN


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "airway"


@pytest.mark.release
def test_the_examples_state_shows_the_droplets_that_are_there(screen: str, tmp_path: Path) -> None:
    """airway.pvsm is loaded for a table at another location."""
    steps = sorted((EXAMPLE / "steps").glob("*.parquet"))[-2:]
    rows = pa.concat_tables([pq.read_table(step) for step in steps])
    place = tmp_path / "mine.kubist"
    kubist.create(place, rows, ["x", "y", "z", "time"], identity=["pid", "time"]).close()
    state = EXAMPLE / "airway.pvsm"
    items = ElementTree.parse(state).iter("Item")
    (number,) = [item.get("id") for item in items if item.get("name") == "airway.kubist"]
    said, done = paraview(
        screen,
        tmp_path,
        place,
        f"""
        files = [{{"name": "airway.kubist", "id": {number!r}, "Table": table}}]
        LoadState({str(state)!r}, filenames=files)
        view = GetActiveView()
        said["up"], said["time"] = list(view.CameraViewUp), view.ViewTime
        Render(view)
        points = FindSource("size")
        said["points"] = points.GetDataInformation().GetNumberOfPoints()
        said["size"] = points.PointData["size"].GetRange()
        shown = GetDisplayProperties(points, view)
        said["scaled by"] = list(shown.SetScaleArray) if shown.ScaleByArray else None
        said["coloured by"] = list(shown.ColorArrayName)
        points.Input.Input.Sample = 0.25
        Render(view)
        said["weighted"] = points.PointData["size"].GetRange()
        """,
    )
    last = rows.filter(pc.equal(rows["time"], pc.max(rows["time"])))
    airborne = last.filter(pc.invert(last["deposited"])).num_rows
    assert said["points"] == airborne > 10_000
    assert said["up"] == [0, 0, 1] and abs(said["time"] - 0.6) < 1e-6
    assert (said["scaled by"], said["coloured by"]) == (["POINTS", "size"], ["POINTS", "speed"])
    # A point of a 25 % sample covers four times the area.
    assert (said["size"], said["weighted"]) == ([1, 1], [2, 2])
    assert "ERR|" not in done.stderr, done.stderr


@pytest.mark.release
def test_the_script_makes_the_state_and_the_picture(screen: str, tmp_path: Path) -> None:
    step = pq.read_table(sorted((EXAMPLE / "steps").glob("*.parquet"))[-1])
    place = tmp_path / "demo" / "airway.kubist"
    place.parent.mkdir()
    kubist.create(place, step, ["x", "y", "z", "time"], identity=["pid", "time"]).close()
    command = ["pvpython", str(EXAMPLE / "in_paraview.py"), str(PLUGIN)]
    kept = str(EXAMPLE / "airway.pvsm")
    for what in (["state", "made.pvsm"], ["picture", kept, "kept.png"]):
        done = subprocess.run(
            [*command, *what],
            cwd=tmp_path,
            env=environment(screen, tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0 and "ERR|" not in done.stderr, done.stdout + done.stderr
    # Both are independent of their original location.
    for state in (tmp_path / "made.pvsm", EXAMPLE / "airway.pvsm"):
        values = [element.get("value") for element in ElementTree.parse(state).iter("Element")]
        assert "demo/airway.kubist" in values
        assert not any(
            str(value).startswith(("/home", "/tmp", "/root", "/work")) for value in values
        )
    # Ten thousand droplets give a larger file than an empty plot.
    assert (tmp_path / "kept.png").stat().st_size > 80_000
