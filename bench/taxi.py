"""A data engineer's queries of taxi-like rows, compared with DuckDB, Polars and Lance; all warm.

    PYTHONPATH=python bench/.venv/bin/python -m bench.taxi [ROWS]

DuckDB has its own table in a file, Polars a frame in memory, Lance a data set with scalar indexes.
All four store the rows in order of time and take turns in one process. Every result, an Arrow table
or a number, is compared with DuckDB's.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import kubist
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

REPEATS = 9
KINDS = ["card", "cash", "no charge", "dispute", "unknown"]
FIRST = np.datetime64("2024-01-01T00:00:00", "us")
BOX = {"lon": (-73.99, -73.96), "lat": (40.74, 40.77)}
INSIDE = " AND ".join(
    f"{name} BETWEEN {low} AND {high}" for name, (low, high) in BOX.items()
)
FEW = "payment = 'dispute'"
MEANS = "SELECT payment, avg(fare) AS mean FROM {} GROUP BY payment"
SQL = (
    "SELECT hour(pickup) AS h, count(*) AS n, avg(tip) AS tip FROM {} "
    f"WHERE {INSIDE} AND passengers >= 2 GROUP BY h ORDER BY h"
)

Work = Callable[[], Any]


def rides(rows: int) -> pa.Table:
    """Rides of a year: clusters of places, a daily rhythm, fares that follow distances."""
    random = np.random.default_rng(1)
    centres = random.normal((-73.97, 40.75), (0.04, 0.04), (40, 2))
    places = centres[random.integers(0, 40, rows)] + random.normal(0, 0.008, (rows, 2))
    seconds = np.sort(random.integers(0, 365 * 86_400, rows))
    distance = random.lognormal(0.6, 0.8, rows)
    fare = np.round(3 + 2.5 * distance + random.exponential(1.5, rows), 2)
    payment = random.choice(len(KINDS), rows, p=[0.7, 0.25, 0.03, 0.005, 0.015]).astype(
        "i4"
    )
    return pa.table(
        {
            "pickup": pa.array(FIRST + seconds.astype("m8[s]")),
            "lon": places[:, 0],
            "lat": places[:, 1],
            "distance": distance.astype("f4"),
            "fare": fare,
            "tip": np.round(fare * random.choice([0, 0.1, 0.2], rows), 2),
            "passengers": random.choice(
                6, rows, p=[0.02, 0.7, 0.15, 0.06, 0.04, 0.03]
            ).astype("i1"),
            "payment": pa.DictionaryArray.from_arrays(payment, KINDS),
            "vendor": random.integers(1, 3, rows).astype("i1"),
        }
    )


def of_kubist(rows: pa.Table, folder: Path) -> dict[str, Work]:
    table = kubist.create(folder / "rides.kubist", rows, ["lon", "lat", "pickup"])
    return {
        "box count": lambda: table.count(box=BOX),
        "sample of 1 %": lambda: table.query(sample=0.01).to_arrow(),
        "box": lambda: table.query(box=BOX).to_arrow(),
        "category filter": lambda: table.query(where=FEW).to_arrow(),
        "top 10": lambda: table.query(order_by="fare desc", limit=10).to_arrow(),
        "grouped mean": lambda: table.estimate(
            "mean(fare)", group_by="payment", sample=1
        ).to_arrow(),
        "SQL": lambda: table.sql(SQL.format("self"), engine="duckdb").to_arrow(),
    }


def of_duckdb(rows: pa.Table, folder: Path) -> dict[str, Work]:
    connection = duckdb.connect(str(folder / "rides.duckdb"))
    connection.register("given", rows)
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    connection.unregister("given")

    def ask(query: str) -> Work:
        return lambda: connection.sql(query).to_arrow_table()

    return {
        "box count": lambda: connection.execute(
            f"SELECT count(*) FROM t WHERE {INSIDE}"
        ).fetchall()[0][0],
        "sample of 1 %": ask("FROM t TABLESAMPLE BERNOULLI (1%)"),
        "box": ask(f"FROM t WHERE {INSIDE}"),
        "category filter": ask(f"FROM t WHERE {FEW}"),
        "top 10": ask("FROM t ORDER BY fare DESC LIMIT 10"),
        "grouped mean": ask(MEANS.format("t")),
        "SQL": ask(SQL.format("t")),
    }


def of_polars(rows: pa.Table, folder: Path) -> dict[str, Work]:
    frame = pl.DataFrame(rows)
    inside = pl.all_horizontal(
        pl.col(name).is_between(*ends) for name, ends in BOX.items()
    )
    hour = pl.col("pickup").dt.hour().alias("h")

    def ask(query: pl.LazyFrame) -> Work:
        return lambda: query.collect().to_arrow()

    lazy = frame.lazy()
    return {
        "box count": lambda: lazy.filter(inside).select(pl.len()).collect().item(),
        "sample of 1 %": lambda: frame.sample(fraction=0.01).to_arrow(),
        "box": ask(lazy.filter(inside)),
        "category filter": ask(lazy.filter(pl.col("payment") == "dispute")),
        "top 10": ask(lazy.top_k(10, by="fare")),
        "grouped mean": ask(lazy.group_by("payment").agg(mean=pl.col("fare").mean())),
        "SQL": ask(
            lazy.filter(inside & (pl.col("passengers") >= 2))
            .group_by(hour)
            .agg(n=pl.len(), tip=pl.col("tip").mean())
            .sort("h")
        ),
    }


def of_lance(rows: pa.Table, folder: Path) -> dict[str, Work]:
    try:
        import lance
        from lance.dataset import ColumnOrdering
    except ImportError:
        return {}
    # A column of a dictionary cannot have an index.
    place = rows.schema.get_field_index("payment")
    rows = rows.set_column(place, "payment", rows["payment"].cast(pa.string()))
    data = lance.write_dataset(rows, str(folder / "rides.lance"))
    for name in ("lon", "lat"):
        data.create_scalar_index(name, index_type="ZONEMAP")
    data.create_scalar_index("payment", index_type="BITMAP")
    data = lance.dataset(str(folder / "rides.lance"))

    order = ColumnOrdering("fare", False)

    def top() -> pa.Table:
        return data.scanner(limit=10, order_by=[order]).to_table()

    def ask(query: str, columns: list[str], where: str | None = None) -> Work:
        # Lance has no aggregates, so DuckDB computes them from its rows.
        def work() -> pa.Table:
            with duckdb.connect() as connection:
                connection.register(
                    "lance", data.to_table(columns=columns, filter=where)
                )
                return connection.sql(query.format("lance")).to_arrow_table()

        return work

    return {
        "box count": lambda: data.count_rows(INSIDE),
        "sample of 1 %": lambda: data.sample(rows.num_rows // 100),
        "box": lambda: data.to_table(filter=INSIDE),
        "category filter": lambda: data.to_table(filter=FEW),
        "top 10": top,
        "grouped mean": ask(MEANS, ["payment", "fare"]),
        "SQL": ask(SQL, ["pickup", "tip", "lon", "lat", "passengers"], INSIDE),
    }


SYSTEMS = {
    "Kubist": of_kubist,
    "DuckDB": of_duckdb,
    "Polars": of_polars,
    "Lance": of_lance,
}


def summary(question: str, result: Any) -> Any:
    """The part of a result that is equal for all systems."""
    if question == "box count":
        return result
    if question == "sample of 1 %":
        return round(math.log(result.num_rows), 1)
    if question == "top 10":
        return sorted(result["fare"].to_pylist())
    if question == "grouped mean":
        column = "value" if "value" in result.column_names else "mean"
        found = zip(
            result["payment"].to_pylist(), result[column].to_pylist(), strict=True
        )
        return sorted((kind, round(mean, 6)) for kind, mean in found)
    if question == "SQL":
        return [
            (row["h"], row["n"], round(row["tip"], 6)) for row in result.to_pylist()
        ]
    return result.num_rows, round(pc.sum(result["fare"]).as_py(), 2)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 6_000_000
    load, rows = os.getloadavg()[0], rides(count)
    with tempfile.TemporaryDirectory() as folder:
        systems = {name: build(rows, Path(folder)) for name, build in SYSTEMS.items()}
        systems = {name: works for name, works in systems.items() if works}
        print(
            f"{count:,} rides, {os.cpu_count()} cores, load {load:.1f}, median of {REPEATS}, ms\n"
        )
        print(f"| question | rows | {' | '.join(systems)} | Kubist: fastest |")
        print(f"|---|---:|{'---:|' * len(systems)}---:|")
        for question in systems["Kubist"]:
            row(question, {name: works[question] for name, works in systems.items()})


def row(question: str, works: dict[str, Work]) -> None:
    """Compares the results first."""
    results = {name: work() for name, work in works.items()}
    expected = summary(question, results["DuckDB"])
    for name, result in results.items():
        found = summary(question, result)
        if found != expected:
            raise SystemExit(f"{question}: {name} has {found}, DuckDB {expected}")
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            times[name].append(1e3 * (time.perf_counter() - begin))
    medians = [statistics.median(taken) for taken in times.values()]
    ratio = statistics.median(
        times["Kubist"][turn] / min(taken[turn] for taken in times.values())
        for turn in range(REPEATS)
    )
    result = results["Kubist"]
    size = f"{result.num_rows:,}" if isinstance(result, pa.Table) else "1"
    cells = " | ".join(f"{one:.1f}" for one in medians)
    print(f"| {question} | {size} | {cells} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
