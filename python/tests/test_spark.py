"""Tables in Spark through its Python data source, compared with the same rows in Parquet.

`make test-spark` installs Spark, without which these tests are skipped.
"""

import os
import random
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kubist

pyspark = pytest.importorskip("pyspark", reason="make test-spark brings Spark")
if int(pyspark.__version__.split(".")[0]) < 4:
    pytest.skip("sources in Python need Spark 4.0", allow_module_level=True)

# Spark's own sockets and its use of pandas.
pytestmark = [
    pytest.mark.release,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
ROWS = 4000
QUESTIONS = int(os.environ.get("QUESTIONS", "20"))


@pytest.fixture(scope="module")
def spark():
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    import kubist.spark

    kubist.spark.register(session)
    yield session
    session.stop()


def some_rows() -> pa.Table:
    dice = random.Random(4)

    def maybe(make):
        return [make() if dice.random() > 0.15 else None for _ in range(ROWS)]

    odd = [float("nan"), 0.0, -0.0, float("inf"), float("-inf")]
    words = ["", "a", "ab", "a%b", "it's", "été", "zz"]
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "x": pa.array([dice.random() for _ in range(ROWS)], pa.float64()),
            "i": pa.array(maybe(lambda: dice.randrange(-20, 20)), pa.int32()),
            "u": pa.array(maybe(lambda: dice.randrange(200)), pa.uint8()),
            "d": pa.array(maybe(lambda: dice.choice([*odd, *map(float, range(5))])), pa.float64()),
            "f": pa.array(maybe(lambda: dice.choice([*odd, 0.1, 0.5])), pa.float32()),
            "b": pa.array(maybe(lambda: dice.random() > 0.5), pa.bool_()),
            "c": pa.array(maybe(lambda: dice.choice(words)), pa.string()),
            "j": pa.array(maybe(lambda: date(1970 + dice.randrange(9), 3, 1)), pa.date32()),
            "m": pa.array(
                maybe(lambda: datetime(1970 + dice.randrange(9), 3, 1, 2, 3, 4, 5)),
                pa.timestamp("us", "UTC"),
            ),
            "e": pa.array(
                maybe(lambda: Decimal(dice.randrange(-99, 99)) / 10), pa.decimal128(6, 1)
            ),
        }
    )


@pytest.fixture(scope="module")
def both(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    rows = some_rows()
    with kubist.create(
        folder / "t.kubist", rows.schema, dimensions=["x", "d"], identity=["id"]
    ) as table:
        table.append(rows)
    pq.write_table(rows, folder / "rows.parquet")
    spark.read.parquet(str(folder / "rows.parquet")).createOrReplaceTempView("parquet_rows")
    location = str(folder / "t.kubist")
    spark.read.format("kubist").option("partitions", 3).load(location).createOrReplaceTempView(
        "kubist_rows"
    )
    return location


def answer(spark, question: str, table: str) -> list[str]:
    return sorted(map(str, spark.sql(question.format(table)).collect()))


def condition(dice: random.Random, depth: int = 2) -> str:
    if depth and dice.random() < 0.5:
        one, other = condition(dice, depth - 1), condition(dice, depth - 1)
        return dice.choice([f"NOT ({one})", f"({one}) AND ({other})", f"({one}) OR ({other})"])
    values = {
        "x": lambda: f"{dice.random():.2f}D",
        "i": lambda: str(dice.randrange(-20, 20)),
        "u": lambda: str(dice.randrange(200)),
        "d": lambda: dice.choice(
            ["2D", "0D", "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"]
        ),
        "f": lambda: f"CAST({dice.choice(['0.1', '0.5', '-0.0'])} AS FLOAT)",
        "c": lambda: "'" + dice.choice(["a", "ab", "a%b", "été"]) + "'",
        "j": lambda: f"DATE '197{dice.randrange(9)}-03-01'",
        "m": lambda: f"TIMESTAMP '197{dice.randrange(9)}-03-01 02:03:04.000005'",
        "e": lambda: f"{dice.randrange(-99, 99) / 10}BD",
    }
    column = dice.choice(list(values))
    value = values[column]
    return dice.choice(
        [
            f"{column} {dice.choice(['<', '<=', '>', '>=', '=', '<>', '<=>'])} {value()}",
            f"{column} IN ({value()}, {value()}, NULL)",
            f"{column} NOT IN ({value()}, {value()})",
            f"{column} IS {dice.choice(['', 'NOT '])}NULL",
            "b" if dice.random() < 0.5 else "NOT b",
            f"startswith(c, {values['c']()})",
        ]
    )


def test_answers_are_those_of_parquet(spark, both):
    dice = random.Random(6)
    for _ in range(QUESTIONS):
        columns = ", ".join(
            dice.sample(["id", "x", "i", "u", "d", "f", "b", "c", "j", "m", "e"], 4)
        )
        question = f"SELECT {columns} FROM {{}} WHERE {condition(dice)}"
        assert answer(spark, question, "kubist_rows") == answer(spark, question, "parquet_rows"), (
            question
        )


def test_options_say_which_records(spark, both):
    table = kubist.open(both)
    said = {"box": '{"x": [0.2, 0.7]}', "sample": "50%", "columns": "id, x", "where": "i > 0"}
    said |= {"window": "[0, 0.75]", "steps": "[null, 3]", "inclusion": "p"}
    found = spark.read.format("kubist").options(**said).load(both).toArrow()
    wanted = table.query(
        {"x": (0.2, 0.7)}, sample=0.5, columns=["id", "x"], where="i > 0"
    ).to_arrow()
    assert found.column_names == ["id", "x", "p"] and set(found["p"].to_pylist()) == {0.5}
    assert (
        found.sort_by("id").column("x").to_pylist() == wanted.sort_by("id").column("x").to_pylist()
    )
    assert 0 < found.num_rows < ROWS / 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"sample": "much"}, "sample"),
        ({"sample": "2"}, "sample"),
        ({"partitions": "-1"}, "partitions"),
        ({"columns": "nosuch"}, "nosuch"),
        ({"where": "x >"}, "expected"),
    ],
)
def test_what_makes_no_sense_is_refused(spark, both, options, words):
    with pytest.raises(Exception, match=words):
        spark.read.format("kubist").options(**options).load(both).count()


def test_a_location_without_a_table_is_named(spark, tmp_path):
    with pytest.raises(Exception, match="nowhere"):
        spark.read.format("kubist").load(str(tmp_path / "nowhere")).count()


def test_the_example_has_the_figures_of_its_records(tmp_path):
    """The airway in SQL through the connector, compared with pandas."""
    pytest.importorskip("matplotlib")
    pd = pytest.importorskip("pandas")
    if not list((ROOT / "spark").glob("spark-4.1/target/kubist-spark-4.1_*.jar")):
        pytest.skip("make spark makes the jars")
    script = ROOT / "examples/spark/airway.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PushedSample: [0.0, 0.1)" in done.stdout
    assert (tmp_path / "airway.png").stat().st_size > 10_000

    steps = sorted((ROOT / "examples/airway/steps").glob("*.parquet"))
    rows = pd.concat([pq.read_table(step).to_pandas() for step in steps])
    last = rows[rows.deposited & (rows.time == rows.time.max())]
    region = np.floor(last.x.astype(float) / 0.02).astype(int)
    found = pd.read_csv(tmp_path / "deposition.csv").set_index("region")
    assert found.droplets.to_dict() == region.value_counts().to_dict()

    slab = rows[(rows.x >= np.float32(0.098)) & (rows.x <= np.float32(0.102)) & ~rows.deposited]
    flux = pd.read_csv(tmp_path / "flux.csv")
    assert abs(flux.seen.sum() - len(slab)) <= 2  # rows at the bounds, as 32-bit floats

    flying = rows[~rows.deposited].groupby("time").x.agg(["mean", "count"]).sort_index()
    path = pd.read_csv(tmp_path / "path.csv").sort_values("time")
    far = np.abs(path.x.to_numpy() - flying["mean"].to_numpy())
    assert np.median(far) < 0.002
    assert abs(path.droplets.sum() / flying["count"].sum() - 1) < 0.02
