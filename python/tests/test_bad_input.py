"""Invalid data is refused with reason and location, and the table stays unchanged."""

from __future__ import annotations

import decimal
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist

DATA = {
    "id": np.arange(50, dtype=np.int64),
    "x": np.linspace(0, 1, 50, dtype=np.float32),
    "name": [f"n{number}" for number in range(50)],
}
SCHEMA = pa.schema({"id": pa.int64(), "x": pa.float32(), "name": pa.string()})


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, DATA, {"x": (0, 1)}, identity=["id"])


def with_column(**columns: Any) -> dict[str, Any]:
    return {**DATA, **columns}


def drifting() -> pa.RecordBatchReader:
    good = pa.table(DATA)
    bad = good.set_column(1, "x", pa.array(np.full(good.num_rows, 1e60)))
    batches = iter([*good.to_batches(), *bad.to_batches()])
    return pa.RecordBatchReader.from_batches(good.schema, batches)


class Unreadable:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        def batches() -> Any:
            yield pa.table(DATA).to_batches()[0]
            raise OSError("the disk of the solver is on fire")

        schema = pa.table(DATA).schema
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        return reader.__arrow_c_stream__(requested_schema)


BAD_DATA: dict[str, tuple[Callable[[], Any], str]] = {
    "missing column": (lambda: {"id": [1], "name": ["a"]}, "x.*missing|missing.*x"),
    "missing column, no rows": (lambda: {"id": [], "name": []}, "x.*missing|missing.*x"),
    "unknown column": (lambda: with_column(extra=np.zeros(50)), "extra"),
    "wrong type": (lambda: with_column(x=DATA["name"]), "x.*(n0|text|string|float)"),
    "numpy of wrong type": (lambda: with_column(id=np.full(50, 0.5)), "id.*row 0.*0.5.*Int64"),
    "narrower": (lambda: with_column(x=np.full(50, 1e60)), "x.*row 0.*1e60.*Float32"),
    "schema drift": (drifting, "x|schema"),
    "lengths differ": (lambda: with_column(x=[1.0]), "id has 50.*x has 1"),
    "two dimensions": (lambda: with_column(x=np.zeros((50, 2))), r"x.*\(50, 2\)"),
    "one value": (lambda: with_column(x=1.0), "x.*1.0"),
    "mixed values": (lambda: with_column(x=[1.0, "a"] * 25), "x.*'a'"),
    "no columns": (lambda: {}, "missing|no column"),
    "number for a name": (lambda: {1: [1]}, "1 is not a column name"),
    "one array": (lambda: DATA["x"], "pyarrow Table.*ndarray"),
    "arrow array": (lambda: pa.array([1, 2]), "batch of columns|int64|Int64"),
    "a number": (lambda: 5, "pyarrow Table.*int"),
    "nothing": (lambda: None, "pyarrow Table.*NoneType"),
    "a path": (lambda: "file.parquet", "pyarrow Table.*str"),
    "failing stream": (Unreadable, "the disk of the solver is on fire"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_leaves_nothing_behind(table: kubist.Table, case: str) -> None:
    make, message = BAD_DATA[case]
    before = table.query().to_arrow()
    with pytest.raises(kubist.InvalidInput, match=rf"(?s){message}"):
        table.append(make())
    assert table.query().to_arrow().sort_by("id").equals(before.sort_by("id"))
    assert table.append(DATA).rows == 50
    assert len(table) == 100 and table.verify(deep=True).ok


@pytest.mark.parametrize("case", BAD_DATA)
def test_a_writer_commits_no_half_append(table: kubist.Table, case: str) -> None:
    make, message = BAD_DATA[case]
    with table.writer() as w:
        w.append(DATA)
        with pytest.raises(kubist.InvalidInput, match=rf"(?s){message}"):
            w.append(make())
        if w.pending_rows != 50:
            with pytest.raises(kubist.Refused, match="discard"):
                w.commit()
            w.discard()
        assert w.pending_rows in (0, 50)
    assert len(table) in (50, 100)


def test_null_where_none_may_be(path: Path) -> None:
    schema = pa.schema([pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.int32())])
    t = kubist.create(path, schema, ["x"])
    with pytest.raises(kubist.InvalidInput, match=r"x.*null.*row 2"):
        t.append(pa.table({"x": [0.1, 0.2, None], "y": pa.array([1, None, 3], pa.int32())}))
    assert len(t) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(dimensions=["nope"]), "nope.*id, x, name"),
        (dict(dimensions=[]), "1 to 8"),
        (dict(dimensions={}), "1 to 8"),
        (dict(dimensions=["x", "x"]), "x.*twice"),
        (dict(dimensions="x"), "list of column names.*'x'"),
        (dict(dimensions=[0]), "0 is not a column name"),
        (dict(dimensions=None), "list of column names"),
        (dict(dimensions=["name"]), "name.*(Utf8|string).*dimension"),
        (dict(dimensions={"x": (1, 0)}), "x.*1.*0"),
        (dict(dimensions={"x": (0.5, 0.5)}), "x.*0.5"),
        (dict(dimensions={"x": (float("nan"), 1)}), "x.*(NaN|nan)"),
        (dict(dimensions={"x": (0, None)}), "x.*both ends"),
        (dict(dimensions={"x": (0, 1, 2)}), "x.*pair"),
        (dict(dimensions={"x": "linear"}), "x.*quantile.*linear"),
        (dict(dimensions={"x": ("a", "b")}), "x.*a"),
        (dict(dimensions={"x": 1.0}), "x.*pair"),
        (dict(dimensions=["x"], identity=["nope"]), "nope"),
        (dict(dimensions=["x"], identity="id"), "identity.*'id'"),
        (dict(dimensions=["x"], identity=["id", "id"]), "id.*twice"),
        (dict(dimensions=["x"], capacity=-1), "capacity.*-1"),
        (dict(dimensions=["x"], capacity=1.5), "capacity.*1.5"),
        (dict(dimensions=["x"], capacity=2**40), "capacity.*1099511627776"),
        (dict(dimensions=["x"], seed=-1), "seed.*-1"),
        (dict(dimensions=["x"], seed=2**64), "seed.*18446744073709551616"),
        (dict(dimensions=["x"], seed="a"), "seed.*'a'"),
    ],
)
def test_bad_creation_makes_nothing(path: Path, arguments: dict[str, Any], message: str) -> None:
    for data in (SCHEMA, DATA):
        with pytest.raises(kubist.InvalidInput, match=message):
            kubist.create(path, data, **arguments)
        assert not path.exists()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int32()),
        pa.list_(pa.float32(), 3),
        pa.struct({"a": pa.int32()}),
        pa.map_(pa.string(), pa.int32()),
        pa.null(),
        pa.run_end_encoded(pa.int32(), pa.int64()),
    ],
)
def test_unsupported_types_are_refused_by_name(path: Path, kind: pa.DataType) -> None:
    schema = SCHEMA.append(pa.field("odd", kind))
    with pytest.raises(kubist.InvalidInput, match="odd"):
        kubist.create(path, schema, ["x"])
    assert not path.exists()


def test_columns_that_cannot_be(path: Path) -> None:
    twice = pa.schema([("x", pa.int32()), ("x", pa.int32())])
    with pytest.raises(kubist.InvalidInput, match=r"x.*twice"):
        kubist.create(path, twice, ["x"])
    nine = pa.schema([(f"c{number}", pa.int32()) for number in range(9)])
    with pytest.raises(kubist.InvalidInput, match=r"1 to 8.*9"):
        kubist.create(path, nine, nine.names)
    for nonsense in (5, None, "x: int32", ["x"]):
        with pytest.raises(kubist.InvalidInput):
            kubist.create(path, nonsense, ["x"])


def test_create_where_something_is(table: kubist.Table, path: Path, tmp_path: Path) -> None:
    with pytest.raises(kubist.TableExists, match=r"t\.kubist.*exist_ok"):
        kubist.create(path, DATA, {"x": (0, 1)}, identity=["id"])
    with pytest.raises(FileExistsError):
        kubist.create(path, SCHEMA, {"x": (0, 1)}, identity=["id"])
    agreeing = dict(dimensions={"x": (0, 1)}, identity=["id"], exist_ok=True)
    assert len(kubist.create(path, SCHEMA, **agreeing)) == 50
    assert len(kubist.create(path, DATA, **agreeing)) == 100
    for difference, message in [
        (dict(seed=1), "seed"),
        (dict(identity=["name"]), "identity"),
        (dict(dimensions={"x": None}), "x|dimension|domain"),
        (dict(dimensions=["id"]), "dimension"),
    ]:
        with pytest.raises(kubist.Error, match=message):
            kubist.create(path, SCHEMA, **{**agreeing, **difference})
    with pytest.raises(kubist.Error, match=r"extra|column"):
        kubist.create(path, SCHEMA.append(pa.field("extra", pa.int32())), **agreeing)
    assert len(table) == 100

    file = tmp_path / "file"
    file.write_text("hello")
    with pytest.raises(kubist.TableExists, match="file"):
        kubist.create(file, SCHEMA, ["x"])
    full = tmp_path / "full"
    full.mkdir()
    (full / "precious").write_text("data")
    with pytest.raises(kubist.TableExists, match="not empty"):
        kubist.create(full, SCHEMA, ["x"], exist_ok=True)
    assert (full / "precious").read_text() == "data" and file.read_text() == "hello"


def test_data_that_fails_at_creation(path: Path) -> None:
    with pytest.raises(kubist.InvalidInput, match="on fire") as raised:
        kubist.create(path, Unreadable(), ["x"], identity=["id"])
    assert "was created" in raised.value.__notes__[0]
    t = kubist.open(path)
    assert len(t) == 0
    assert t.append(DATA).rows == 50


def test_open_what_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("hello")
    for path in (tmp_path / "nothing", tmp_path, file, file / "below"):
        with pytest.raises(kubist.NotATable, match=path.name):
            kubist.open(path)
        with pytest.raises(FileNotFoundError):
            kubist.open(path)
    for path in (5, b"bytes", None):
        with pytest.raises(kubist.InvalidInput, match="path"):
            kubist.open(path)


BAD_QUESTIONS: list[tuple[dict[str, Any], str]] = [
    (dict(box={"nope": (0, 1)}), "nope.*`id`, `x`, `name`"),
    (dict(box={"x": (1, 0)}), "x.*1.*0"),
    (dict(box={"x": (np.float32(0.5), 0.25)}), "x.*0.5.*0.25"),
    (dict(box={"x": (float("nan"), 1)}), "x.*NaN"),
    (dict(box={"x": (0, np.nan)}), "x.*NaN"),
    (dict(box={"x": (0, decimal.Decimal("NaN"))}), "x.*NaN"),
    (dict(box={"x": (np.datetime64("NaT"), None)}), "NaT"),
    (dict(box={"x": (1,)}), "x.*pair"),
    (dict(box={"x": (1, 2, 3)}), "x.*pair"),
    (dict(box={"x": "ab"}), "x.*Float32.*'ab'"),
    (dict(box={"x": "1 cm"}), "`x` has no unit"),
    (dict(where="x > 20um"), "`x` has no unit"),
    (dict(order_by="nmae"), "order_by.*did you mean `name`"),
    (dict(order_by=[]), "order_by.*no column"),
    (dict(order_by="x", limit=-1), "limit.*-1"),
    (dict(order_by="x", limit=3, inclusion="p"), "inclusion.*no sample"),
    (dict(box={"x": {1, 2}}), "x.*pair"),
    (dict(box={"x": ("a", "b")}), "x.*(a|text|Float32)"),
    (dict(box={"x": (object(), 1)}), "x.*object"),
    (dict(box={"x": ([0], 1)}), "x.*list"),
    (dict(box={"x": (1j, None)}), "x.*complex"),
    (
        dict(box={"id": (2**200, None)}),
        "outside of.*range|1606938044258990275541962092341162602522202993782792835301376",
    ),
    (dict(box={"name": (1, 2)}), "name.*(1|Utf8)"),
    (dict(box={0: (1, 2)}), "0 is not a column name"),
    (dict(box=[("x", 0, 1)]), "dict.*list"),
    (dict(box="x"), "dict.*str"),
    (dict(sample=0), "sample.*0"),
    (dict(sample=-0.5), "sample.*-0.5"),
    (dict(sample=1.0001), "sample.*1.0001"),
    (dict(sample=float("nan")), "sample.*NaN"),
    (dict(sample="high"), "sample.*'high'"),
    (dict(sample=True), "sample.*True"),
    (dict(sample="200%"), "sample.*2"),
    (dict(sample="%"), "sample.*'1%', not '%'"),
    (dict(window=(0.5, 0.5)), "window.*0.5"),
    (dict(window=(0.5, 0.1)), "window.*0.5.*0.1"),
    (dict(window=(-0.1, 0.1)), "window.*-0.1"),
    (dict(window=(0, 1.1)), "window.*1.1"),
    (dict(window=0.5), "window.*pair"),
    (dict(window=(None, 1)), "window.*None"),
    (dict(limit=-1), "limit.*-1"),
    (dict(limit=1.5), "limit.*1.5"),
    (dict(limit="all"), "limit.*'all'"),
    (dict(columns=["nope"]), "nope.*`id`, `x`, `name`"),
    (dict(columns=["x", "x"]), "x.*twice"),
    (dict(columns="x"), "columns.*'x'"),
    (dict(columns=[1]), "columns.*1"),
    (dict(where="nope > 1"), "nope.*id.*x.*name"),
    (dict(where="x >"), "."),
    (dict(where=""), "."),
    (dict(where="x > 'a'"), "x.*'a'"),
    (dict(where="name > 5"), "name.*5"),
    (dict(where="x"), "."),
    (dict(where="x + 1"), "."),
    (dict(where="x > 1; DROP TABLE t"), "."),
    (dict(where="SELECT 1"), "."),
    (dict(where="x > (SELECT 1)"), "."),
    (dict(where="(" * 10_000), "."),
    (dict(where="NOT " * 10_000 + "x > 1"), "."),
    (dict(where=lambda row: True), "where.*function"),
    (dict(where=5), "where.*int"),
    (dict(per_cell=5), "per_cell.*pair"),
    (dict(per_cell=(5, {})), "per_cell"),
    (dict(per_cell=(0, {"x": 0.1})), "per_cell"),
    (dict(per_cell=(-1, {"x": 0.1})), "per_cell.*-1"),
    (dict(per_cell=(1, {"id": 0.1})), "id.*not a dimension"),
    (dict(per_cell=(1, {"nope": 0.1})), "nope"),
    (dict(per_cell=(1, {"x": 0})), "x.*0"),
    (dict(per_cell=(1, {"x": float("nan")})), "x.*(nan|NaN)"),
    (dict(per_cell=(1, {"x": -1e-3})), "x.*-0.001"),
    (dict(per_cell=(1, {"x": float("inf")})), "x.*inf"),
    (dict(per_cell=(1, {"x": 1e-20})), "x.*wider cells"),
    (dict(per_cell=(1, {"x": 5e-324})), "x.*wider cells"),
    (dict(per_cell=(1, ["x"])), "per_cell.*dict"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_QUESTIONS)
def test_bad_questions(table: kubist.Table, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=rf"(?s){message}"):
        table.query(**arguments)
    with pytest.raises(ValueError):
        table.snapshot().query(**arguments)
    for other in (table.count, table.refine):
        if set(arguments) <= {"box", "where"}:
            with pytest.raises(kubist.InvalidInput, match=rf"(?s){message}"):
                other(**arguments)
    assert len(table) == 50


@pytest.mark.parametrize(
    "arguments",
    [
        dict(start=0),
        dict(start=2),
        dict(start=1e-300),
        dict(start=float("nan")),
        dict(factor=1),
        dict(factor=1.0000000001),
        dict(factor=float("nan")),
        dict(factor=float("inf")),
    ],
)
def test_bad_refinement(table: kubist.Table, arguments: dict[str, Any]) -> None:
    with pytest.raises(kubist.InvalidInput, match=next(iter(arguments))):
        table.refine(**arguments)


def test_bad_writer_names(table: kubist.Table) -> None:
    for name in ("", "a/b", "../x", ".", "a" * 300, "nul\0", 5, "-", "ü"):
        try:
            with table.writer(name) as w:
                w.append(DATA)
        except (kubist.InvalidInput, kubist.StorageError) as error:
            assert "name" in str(error) or repr(name) in str(error)
    assert table.verify(deep=True).ok
    assert {path.name for path in Path(table.location).parent.iterdir()} == {"t.kubist"}


def files_of(path: Path) -> list[Path]:
    files = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size > 0]
    assert len(files) >= 3
    return files


def whole_commits(t: kubist.Table) -> bool:
    frame = t.query().to_pandas()
    counts = np.bincount(frame.id, minlength=50)
    right = np.array_equal(frame.x.to_numpy(), DATA["x"][frame.id.to_numpy()])
    return right and len(set(counts)) == 1 and len(frame) % 50 == 0


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove"])
def test_damaged_files_give_errors_and_never_wrong_rows(
    path: Path, tmp_path: Path, damage: str
) -> None:
    with kubist.create(path, DATA, {"x": (0, 1)}, identity=["id"]) as t:
        for _ in range(3):
            t.append(DATA)
    rng = np.random.default_rng(0)
    missed: list[tuple[str, int]] = []
    for file in files_of(path):
        length = file.stat().st_size
        for place in sorted({0, 4, length // 2, length - 1, *rng.integers(0, length, 12).tolist()}):
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            target = copy / file.relative_to(path)
            content = bytearray(target.read_bytes())
            if damage == "flip":
                content[place] ^= 1 << int(rng.integers(8))
                target.write_bytes(content)
            elif damage == "truncate":
                target.write_bytes(content[:place])
            elif damage == "empty":
                target.write_bytes(b"")
            else:
                target.unlink()
            try:
                t = kubist.open(copy)
                sound = t.verify(deep=True).ok
                assert whole_commits(t)
                assert t.count(box={"x": (0.5, 1)}) * 2 == len(t)
                # An acknowledgement is not synced; its next owner repairs an invalid one.
                counts = damage == "flip" and file.suffix != ".ack"
                missed += [(file.name, place)] if counts and sound else []
            except (kubist.Damaged, kubist.NotATable, kubist.StorageError, kubist.NewerFormat) as e:
                assert str(copy) in str(e) or file.name in str(e), e
            if damage in ("empty", "remove"):
                break
    assert not missed  # verify reports every flipped bit, even if no query does


def test_damage_is_reported_by_file_and_place(path: Path) -> None:
    with kubist.create(path, DATA, {"x": (0, 1)}, identity=["id"]):
        pass
    [segment] = [file for file in files_of(path) if file.suffix == ".seg"]
    content = bytearray(segment.read_bytes())
    content[len(content) // 3] ^= 255
    segment.write_bytes(content)
    report = kubist.open(path).verify(deep=True)
    assert not report.ok and segment.stem in report.findings[0] and "byte" in report.findings[0]
    assert segment.stem in repr(report)
    with pytest.raises(kubist.Damaged, match=rf"{segment.stem}.*byte \d+"):
        kubist.open(path).query().to_arrow()
    lost = sum(loss["rows"] for loss in report.losses)
    assert report.deep and report.rows_lost == lost > 0 and report.rows_recoverable == 0
    assert report.losses[0]["extents"][0]["column"] == "x"
    to = path.with_name("saved.kubist")
    saved = kubist.salvage(path, to)
    assert (saved.rows, saved.rows_lost) == (len(DATA["id"]) - lost, lost) and not saved.ok
    assert segment.stem in repr(saved)
    with kubist.open(to) as t:
        assert len(t) == saved.rows and t.verify(deep=True).ok
    with pytest.raises(kubist.TableExists):
        kubist.salvage(path, to)


def crc32c(content: bytes) -> int:
    """The checksum of file headers: Castagnoli's polynomial, reflected."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("which", ["table", "grid", "logs", "segments"])
def test_a_newer_format_says_so(path: Path, which: str) -> None:
    kubist.create(path, DATA, {"x": (0, 1)}, identity=["id"]).close()
    [file] = [
        f for f in files_of(path) if f.suffix != ".ack" and which in f.relative_to(path).parts
    ]
    content = bytearray(file.read_bytes())
    assert content[:5] == b"KUBI-"
    content[8] += 1
    content[12:16] = crc32c(bytes(content[:12])).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(kubist.NewerFormat, match=rf"{file.stem}.*(newer|version)"):
        kubist.open(path).query().to_arrow()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: t.optimize(debt_share="x"), "debt_share: expected a number, not 'x'"),
        (lambda t: t.optimize(debt_share=float("nan")), "debt_share: expected a number, not NaN"),
        (lambda t: t.optimize(debt_share=-3), "debt_share: -3 is below 0"),
        (lambda t: t.clean("x"), 'retention: "x" is no time'),
        (lambda t: t.clean(-1), "retention: -1 is below 0"),
        (lambda t: next(t.watch(timeout="x")), 'timeout: "x" is no time'),
        (lambda t: t.retract(step_after="a"), "step_after: expected an integer, not 'a'"),
        (lambda t: t.snapshot(step=1.5), "step: expected an integer, not 1.5"),
        (lambda t: t.query(steps=2**70), "steps: 1180591620717411303424 is not between"),
        (lambda t: t.query(steps=True), "steps: expected an integer, not True"),
        (lambda t: t.query(steps=(1, "b")), "steps: expected an integer, not 'b'"),
        (lambda t: t.append({"x": [0.5]}, step="b"), "step: expected an integer, not 'b'"),
    ],
)
def test_arguments_of_upkeep_and_steps_are_named(tmp_path: Path, call: Any, says: str) -> None:
    table = kubist.create(tmp_path / "t", {"x": [0.1, 0.2]}, ["x"])
    with pytest.raises(kubist.InvalidInput, match=re.escape(says)):
        call(table)
    assert len(table) == 2
