"""Droplets in an airway, analysed by Spark: their average path, deposition, and flux.

The queries are in airway.sql. The table evaluates samples, slabs and conditions; Spark groups the
rows. Run it after `make spark`, with pyspark, pyarrow and matplotlib installed:

    python examples/spark/airway.py demo/spark

It creates the table from the steps in examples/airway, and CSV files and plots of the results.
"""

# %% Spark with the connector, and a catalog of one folder
import re
import sys
from pathlib import Path

import matplotlib
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

import kubist

matplotlib.use("Agg")  # draws into a file, without a display

import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo/spark").resolve()
OUT.mkdir(parents=True, exist_ok=True)

line = ".".join(pyspark.__version__.split(".")[:2])
jars = [*ROOT.glob("spark/core/target/kubist-core-*.jar")]
jars += ROOT.glob(f"spark/spark-{line}/target/kubist-spark-{line}_*.jar")
if len(jars) < 2:
    sys.exit(f"no jars for Spark {line}: run make spark first")

spark = (
    SparkSession.builder.master("local[2]")
    .appName("airway")
    .config("spark.jars", ",".join(map(str, jars)))
    .config("spark.driver.extraClassPath", ":".join(map(str, jars)))
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "org.kubist.spark.KubistExtensions")
    .config("spark.sql.catalog.k", "org.kubist.spark.KubistCatalog")
    .config("spark.sql.catalog.k.location", str(OUT))
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)

# %% The table: one commit for each output time of the solver
location = OUT / "droplets.kubist"
if not location.exists():
    steps = sorted((ROOT / "examples/airway/steps").glob("*.parquet"))
    table = kubist.create(
        location,
        pq.read_schema(steps[0]),
        dimensions={"x": (0, 0.22), "y": (-0.21, 0.21), "z": (0, 0.02), "time": (0, 1)},
        identity=["pid", "time"],
    )
    for step in steps:
        table.append(pq.read_table(step))

# %% Query
statements = re.findall(r"-- (\w+): (.*?)\n(SELECT.*?);", (HERE / "airway.sql").read_text(), re.S)
figures = {}
for name, title, statement in statements:
    frame = spark.sql(statement)
    pushed = re.findall(r"Pushed\w+: .*?(?=, Columns)", frame._jdf.queryExecution().toString())
    print(f"{title}\n  {pushed[-1] if pushed else ''}")
    figures[name] = title, frame.toArrow().to_pandas()
    figures[name][1].to_csv(OUT / f"{name}.csv", index=False)

# %% Plot
picture, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
title, path = figures["path"]
left.plot(path["x"] * 1e3, path["y"] * 1e3, marker="o")
left.set(title=title, xlabel="x (mm)", ylabel="y (mm)")
title, regions = figures["deposition"]
middle.bar(regions["region"] * 20 + 10, regions["droplets"], width=18)
middle.set(title=title, xlabel="x (mm)", ylabel="droplets")
title, flux = figures["flux"]
right.plot(flux["time"], flux["droplets_a_second"])
right.set(title=title, xlabel="time (s)", ylabel="droplets a second")
picture.savefig(OUT / "airway.png", dpi=110)
print(f"Drawn: {OUT / 'airway.png'}")
spark.stop()
