"""The optimizer: replication policies, and optimizing after reads."""

import re
import subprocess

import numpy as np
import pytest
from servers import COMMAND

import kubist


def points(count, seed=1):
    random = np.random.default_rng(seed)
    return {"id": np.arange(count), "x": random.random(count), "y": random.random(count)}


def make(path, **options):
    dimensions = {"x": (0, 1), "y": (0, 1)}
    return kubist.create(path, points(20_000), dimensions, ["id"], capacity=64, **options)


BOX = {"x": (0.31, 0.33), "y": (0.52, 0.54)}


def asked(table):
    result = table.query(box=BOX)
    return sorted(result.to_arrow()["id"].to_pylist()), result.stats


def test_copies_make_small_boxes_cheaper_and_change_nothing(tmp_path):
    table = make(tmp_path / "t", storage={"replication": "outlook(0)"})
    assert table.info().replication == "outlook(0)"
    assert table.info().replica_rows == 0
    before, cost = asked(table)
    report = table.optimize()
    assert report.rows_copied > 0
    assert table.info().replica_rows == report.rows_copied
    after, less = asked(table)
    assert after == before
    assert less.pages_read < cost.pages_read
    assert len(table) == 20_000
    assert "replication outlook(0)" in repr(table.info())


def test_a_policy_can_be_chosen_for_one_run(tmp_path):
    table = make(tmp_path / "t", storage={"replication": "none"})
    assert table.optimize().rows_copied == 0
    assert table.optimize(replication="full").rows_copied > 0


def test_the_default_copies_little(tmp_path):
    table = make(tmp_path / "t")
    assert table.info().replication == "outlook(-1)"
    assert 0 < table.optimize().rows_copied < 5000


def test_a_table_is_written_anew_in_fewer_bytes(tmp_path):
    table = make(tmp_path / "t", storage={"compression": "fast"})
    # Replicas are removed with their rows, and created again.
    copies = table.optimize().rows_copied
    before, answer = table.info(), asked(table)[0]
    assert before.compression == "fast"
    table.alter(compression="small")
    assert table.optimize().rewrites == 0
    assert table.info().bytes == before.bytes
    report = table.optimize(recompress=True)
    assert report.rows_rewritten == 20_000
    assert report.rows_copied == copies
    after = table.info()
    assert after.compression == "small"
    assert after.bytes < before.bytes
    assert asked(table)[0] == answer
    assert table.verify(deep=True).findings == []
    assert table.optimize(recompress=True).rewrites == 0
    # An existing table keeps its own policy.
    again = make(tmp_path / "t", exist_ok=True)
    assert again.info().compression == "small"


def test_a_compression_that_there_is_not_is_refused_by_name(tmp_path):
    with pytest.raises(kubist.InvalidInput, match="fast, balanced, small"):
        make(tmp_path / "t", storage={"compression": "tiny"})
    table = make(tmp_path / "t")
    assert table.info().compression == "balanced"
    with pytest.raises(kubist.InvalidInput, match="fast, balanced, small"):
        table.alter(compression="zip")


@pytest.mark.parametrize("policy", ["", "some", "outlook(", "full(-1)", "outlook(nan)"])
def test_a_bad_policy_is_refused_by_name(tmp_path, policy):
    with pytest.raises(kubist.InvalidInput, match="replication is none, outlook"):
        make(tmp_path / "t", storage={"replication": policy})
    assert not (tmp_path / "t").exists()


def test_reads_optimize_what_they_find_expensive(tmp_path):
    table = kubist.create(
        tmp_path / "t", points(300), {"x": (0, 1), "y": (0, 1)}, ["id"], capacity=64
    )
    for number in range(1, 60):
        rows = points(300, seed=number)
        rows["id"] = rows["id"] + number * 1000
        table.append(rows)
    before, debt = asked(table)[0], table.info().debt
    with kubist.open(tmp_path / "t", optimize=True) as reader:
        # Query until the thread has run.
        for _ in range(100_000):
            assert asked(reader)[0] == before
            if reader.info().debt < debt / 2:
                break
        else:
            pytest.fail("nothing was optimized")
    assert len(table) == 60 * 300


def test_another_grid_changes_no_answer(tmp_path):
    table = make(tmp_path / "t")
    before = asked(table)[0]
    told = []
    done = table.regrid({"y": (-1, 3)}, progress=lambda *rows: told.append(rows))
    assert (done.grid, done.optimized.rows_moved) == (1, 20_000)
    # Short work may end without progress calls. Copies come after all moves.
    written = done.optimized.rows_rewritten + done.optimized.rows_copied
    assert all(rows <= written for rows, _ in told)
    info = table.info()
    assert (info.grid, info.rows_to_move) == (1, 0)
    assert [(each.column, each.low, each.high) for each in info.dimensions] == [("y", -1, 3)]
    assert asked(table)[0] == before
    table.append({"id": np.arange(20_000, 20_100), "x": np.zeros(100), "y": np.zeros(100)})
    assert table.regrid({"id": None, "x": "quantile", "y": "quantile"}).grid == 2
    assert asked(kubist.open(tmp_path / "t"))[0] == before
    assert not table.verify(deep=True).findings


def test_the_command_says_what_waits_and_what_was_done(tmp_path):
    """Rows in an older grid wait for the optimizer, and `info` counts them."""
    said = lambda *words: subprocess.run(  # noqa: E731
        [COMMAND, *words], check=True, capture_output=True, text=True
    ).stdout
    path, near = tmp_path / "t", points(2_000)
    table = kubist.create(path, near, ["x", "y"], ["id"], capacity=64)
    far = {"id": near["id"] + 2_000, "x": 100 * near["x"], "y": 100 * near["y"]}
    writer = table.writer("far")
    for part in range(10):
        writer.append(far | {"id": far["id"] + 2_000 * part})
        writer.commit()
    info = table.info()
    assert info.grid == 1, info
    words = r"^optimizer +([\d,]+) records to move, ([\d,]+) of them into a newer grid;"
    line = re.search(words, said("info", path), re.M)
    assert line is not None, said("info", path)
    numbers = [int(number.replace(",", "")) for number in line.groups()]
    assert numbers == [info.debt, info.rows_to_move]
    done = said("optimize", path, "--debt", "1%")
    told = re.fullmatch(
        r"([\d,]+) records moved and [\d,]+ copied in [\d,]+ rewrites?, [\d.]+ \w+ written; "
        r"records to move: ([\d,]+) before, ([\d,]+) now\n",
        done,
    )
    assert told is not None, done
    placed, before, now = (int(number.replace(",", "")) for number in told.groups())
    assert before == info.debt and now == table.info().debt < before and placed > 0


def test_a_bad_grid_is_refused_by_name(tmp_path):
    table = make(tmp_path / "t")
    for wrong, said in [
        ({"dimensions": ["nope"]}, "nope"),
        ({"dimensions": {"x": "square"}}, "square"),
        ({"dimensions": {"x": (1, 0)}}, "low < high"),
    ]:
        with pytest.raises(kubist.InvalidInput, match=said):
            table.regrid(**wrong)
    assert table.info().grid == 0
