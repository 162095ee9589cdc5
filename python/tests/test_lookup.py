"""The secondary index: rows by the values of a column, without a scan."""

import numpy as np
import pyarrow as pa
import pytest

import kubist

PARTICLES, STEPS = 300, 60


def step(number):
    pid = np.arange(PARTICLES, dtype=np.int32)
    angle = pid * 0.7 + number * 0.02
    return pa.table(
        {
            "pid": pid,
            "time": np.full(PARTICLES, number / STEPS),
            "x": 0.5 + 0.4 * np.cos(angle),
            "y": 0.5 + 0.4 * np.sin(angle),
            "name": pa.array([f"droplet {i}" for i in pid]).dictionary_encode(),
        }
    )


def make(path, **options):
    table = kubist.create(
        path, step(0).schema, {"x": (0, 1), "y": (0, 1)}, ["pid", "time"], capacity=256, **options
    )
    with table.writer() as writer:
        for number in range(STEPS):
            writer.append(step(number))
            if number % 20 == 19:
                writer.commit()
    return table


def asked(table, **question):
    result = table.query(**question)
    times = sorted(
        zip(*result.to_arrow().select(["pid", "time"]).to_pydict().values(), strict=True)
    )
    return times, result.stats


def test_one_particle_is_read_from_where_it_is(tmp_path):
    table = make(tmp_path / "t", lookup=["pid", "name"])
    plain = make(tmp_path / "plain")
    for where in ["pid = 17", "pid IN (17, 205) AND x > 0.3", "name = 'droplet 17'", "pid = 999"]:
        found, cost = asked(table, where=where)
        expected, scanned = asked(plain, where=where)
        assert found == expected, where
        assert cost.runs_looked_up > 0 and scanned.runs_looked_up == 0, where
        assert cost.rows_read <= 0.3 * scanned.rows_read, where
        assert "runs looked up" in repr(cost) and "looked up" not in repr(scanned)
    assert len(asked(table, where="pid = 17")[0]) == STEPS
    assert asked(table, where="x > 0.5")[1].runs_looked_up == 0
    box, fraction = {"x": (0.2, 0.7)}, 0.5
    question = dict(box=box, sample=fraction, where="pid = 17")
    assert asked(table, **question)[0] == asked(plain, **question)[0]
    assert asked(table, where="pid = 17", limit=5)[0] == asked(plain, where="pid = 17", limit=5)[0]
    table.optimize()
    table.copy_to(tmp_path / "copy")
    for later in (table, kubist.open(tmp_path / "copy")):
        found, cost = asked(later, where="pid = 17")
        assert found == asked(plain, where="pid = 17")[0] and cost.runs_looked_up > 0
        assert later.verify(deep=True).findings == []


def test_info_tells_of_it(tmp_path):
    table = make(tmp_path / "t", lookup=["pid"])
    info = table.info()
    assert info.lookup == ["pid"] and info.disk.lookups > 0
    assert "lookup      pid" in repr(info)
    assert make(tmp_path / "plain").info().lookup == []
    with pytest.raises(kubist.TableExists, match="lookup"):
        kubist.create(
            tmp_path / "t",
            step(0).schema,
            {"x": (0, 1), "y": (0, 1)},
            ["pid", "time"],
            capacity=256,
            exist_ok=True,
        )


def test_what_cannot_be_looked_up_is_refused(tmp_path):
    schema = pa.schema([("x", pa.float64()), ("d", pa.month_day_nano_interval())])
    for lookup, why in [
        (["pid"], '"pid" is not in the data'),
        (["d"], '"d" has the type'),
        (["x", "x"], "lookup.*twice|twice.*lookup"),
    ]:
        with pytest.raises(kubist.InvalidInput, match=why):
            kubist.create(tmp_path / "t", schema, ["x"], lookup=lookup)
    assert not (tmp_path / "t").exists()
