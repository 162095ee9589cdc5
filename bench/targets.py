"""The performance targets, and whether a run met them."""

from __future__ import annotations

from dataclasses import dataclass

from .figures import KUBIST, Cell, Results


@dataclass
class Verdict:
    """One line of the table of targets; ``met`` is None without a measurement."""

    work: str
    target: str
    measured: str
    met: bool | None
    by_hand: str = "-"
    """The same compared with a manual configuration, for which there is no target."""


def verdicts(all_results: dict[str, Results]) -> list[Verdict]:
    said: list[Verdict] = []
    main = all_results.get("main")
    said += _build(main)
    said += _box(all_results.get("box"))
    said += _ahead(main)
    said += _thinned(main)
    said += _in_a_box(main)
    said += _examined(all_results.get("examined"))
    said += _growth(all_results.get("large"), all_results.get("tenth"))
    said += _first(all_results.get("large"))
    said += _scan(main)
    said += _stored(main)
    said += _particle(all_results.get("particle"))
    said += _memory(main, all_results.get("memory"))
    return said


def _missing(work: str, target: str) -> list[Verdict]:
    return [Verdict(work, target, "not measured in this run", None)]


def _build(main: Results | None) -> list[Verdict]:
    work, target = "bulk build, durable", ">= 5 M rows/s; >= 2x the fastest peer that indexes"
    mine = main and main.build(KUBIST)
    if not main or not mine:
        return _missing(work, target)
    rate = main.rows / mine["cost"]["seconds"]
    peers = [
        (main.rows / found["cost"]["seconds"], main.systems[key]["name"])
        for key in main.peers
        if main.systems[key]["indexes"] and (found := main.build(key))
    ]
    if not peers:
        return _missing(work, target)
    best, name = max(peers)
    said = f"{rate / 1e6:.2f} M rows/s; {rate / best:.1f}x {name}"
    return [Verdict(work, target, said, rate >= 5e6 and rate >= 2 * best)]


def _box(box: Results | None) -> list[Verdict]:
    work, target = "exact box, 250 k of 4 M rows, warm", "<= 5 ms; >= 5x the fastest peer"
    cell = box and box.cell("box", "warm")
    if not box or not cell or (lead := cell.lead(box.peers)) is None:
        return _missing(work, target)
    milliseconds = (cell.median(KUBIST) or 0) * 1e3
    said = f"{milliseconds:.1f} ms; {lead:.1f}x {_fastest(box, cell)}"
    by_hand = cell.lead(box.by_hand)
    beside = "-" if by_hand is None else f"{by_hand:.1f}x"
    return [Verdict(work, target, said, milliseconds <= 5 and lead >= 5, beside)]


def _ahead(main: Results | None) -> list[Verdict]:
    target = "ahead of every peer in each cell"
    return _leads(main, "queries A, B, C, all, cold and warm", target, "box", 1)


def _thinned(main: Results | None) -> list[Verdict]:
    work = "A, B, C with limit 1000 and 10 %, cold and warm"
    return _leads(main, work, ">= 20x the fastest peer", "thinned", 20)


def _leads(main: Results | None, work: str, target: str, cells: str, least: float) -> list[Verdict]:
    def led(over: list[str]) -> list[tuple[float, Cell]]:
        measured = main.cells(target=cells) if main else []
        return [(lead, cell) for cell in measured if (lead := cell.lead(over)) is not None]

    if not main or not (leads := led(main.peers)):
        return _missing(work, target)
    worst, cell = min(leads, key=lambda each: each[0])
    said = (
        f"{_reached(leads, least)}; least {worst:.2g}x "
        f"({cell.label}, {cell.state}: {_fastest(main, cell)})"
    )
    met = all(lead >= least for lead, _ in leads)
    by_hand = led(main.by_hand)
    beside = "-"
    if by_hand:
        beside = f"{_reached(by_hand, least)}; least {min(lead for lead, _ in by_hand):.2g}x"
    return [Verdict(work, target, said, met, beside)]


def _reached(leads: list[tuple[float, Cell]], least: float) -> str:
    return f"{sum(lead >= least for lead, _ in leads)} of {len(leads)} cells"


def _in_a_box(main: Results | None) -> list[Verdict]:
    work = "1 % inside a box"
    said = _leads(main, work, ">= 20x the fastest peer", "sample in a box", 20)
    for key, returned, most in (("narrow-0.01", "2 k", 3.0), ("wide-0.01", "50 k", 1.5)):
        target = f"examines <= {most:g}x of {returned} returned"
        cell = main and main.cell(key, "warm")
        ratio = cell and cell.ratio(KUBIST, "rows_examined", "rows")
        if not cell or not ratio:
            said += _missing(work, target)
            continue
        rows = cell.median(KUBIST, "rows") or 0
        said.append(Verdict(work, target, f"{ratio:.2f}x of {rows:,.0f}", ratio <= most))
    return said


def _examined(examined: Results | None) -> list[Verdict]:
    work = "rows examined per row returned, median of the locations"
    said = []
    for size, most in ((1_000_000, 1.15), (100_000, 1.6), (10_000, 3.0), (1_000, 9.0)):
        target = f"boxes of {size:,}: <= {most:g}"
        cell = examined and examined.cell(f"box-{size}", "warm")
        ratio = cell and cell.ratio(KUBIST, "rows_examined", "rows")
        if not ratio:
            said += _missing(work, target)
            continue
        said.append(Verdict(work, target, f"{ratio:.2f}", ratio <= most))
    return said


def _growth(large: Results | None, tenth: Results | None) -> list[Verdict]:
    work, target = "samples grow with the answer", "1 % of a table <= 1.3x of 10 % of a tenth of it"
    cells = large and large.cell("sample-0.01", "warm"), tenth and tenth.cell("sample-0.1", "warm")
    if not cells[0] or not cells[1]:
        return _missing(work, target)
    times = [cell.median(KUBIST) or 0 for cell in cells if cell]
    said = f"{times[0] * 1e3:.0f} ms, {times[1] * 1e3:.0f} ms: {times[0] / times[1]:.2f}x"
    return [Verdict(work, target, said, times[0] <= 1.3 * times[1])]


def _first(large: Results | None) -> list[Verdict]:
    work, target = "first batch of a progressive query, the largest table, warm", "<= 10 ms"
    cell = large and large.cell("first", "warm")
    seconds = cell and cell.median(KUBIST)
    if not seconds:
        return _missing(work, target)
    return [Verdict(work, target, f"{seconds * 1e3:.1f} ms", seconds <= 0.010)]


def _scan(main: Results | None) -> list[Verdict]:
    said = []
    for key, work in (("scan", "each batch let go"), ("collect", "all kept")):
        work, target = f"full scan, warm, {work}", ">= 70 % of a numpy copy of the same bytes"
        cell = main and main.cell(key, "warm")
        copy, mine = (cell.median("arrow_scan"), cell.median(KUBIST)) if cell else (None, None)
        if not copy or not mine:
            said += _missing(work, target)
            continue
        share = copy / mine
        said.append(Verdict(work, target, f"{share:.0%}", share >= 0.7))
    return said


def _stored(main: Results | None) -> list[Verdict]:
    work, target = "stored size", "<= 1.0x of the raw columns; ratio to Parquet printed"
    mine = main and main.build(KUBIST)
    if not main or not mine:
        return _missing(work, target)
    raw = mine["stored"] / main.raw_bytes
    said = f"{raw:.2f}x"
    if parquet := main.values.get("parquet"):
        given, morton = (mine["stored"] / parquet[order] for order in ("given", "morton"))
        said += (
            f"; {morton:.2f}x of Parquet (zstd, byte-stream-split floats) in Morton order, "
            f"{given:.2f}x in the order of the rows"
        )
    return [Verdict(work, target, said, raw <= 1)]


def _particle(particle: Results | None) -> list[Verdict]:
    work, target = "all rows of one particle", "<= 50 ms; <= 10 % more storage"
    cell = particle and particle.cell("particle", "warm")
    plain = particle and particle.build(KUBIST)
    lookup = particle and particle.build("kubist_lookup")
    seconds = cell and cell.median("kubist_lookup")
    if not cell or not plain or not lookup or not seconds:
        return _missing(work, target)
    more = lookup["stored"] / plain["stored"] - 1
    cold = particle.cell("particle", "cold") if particle else None
    cold_ms = (cold.median("kubist_lookup") or 0) * 1e3 if cold else 0
    pages = cell.median("kubist_lookup", "pages") or 0
    said = f"{seconds * 1e3:.1f} ms warm, {cold_ms:.0f} ms cold, {pages:.0f} pages; {more:.1%} more"
    return [Verdict(work, target, said, seconds <= 0.05 and more <= 0.1)]


def _memory(main: Results | None, memory: Results | None) -> list[Verdict]:
    said = []
    work, target = "memory of a query, over its answer", "<= 300 MB (the whole process)"
    over = [
        (run["peak_bytes"] - run.get("answer_bytes", 0)) / 1e6
        for cell in (main.cells() if main else [])
        for run in cell.values["systems"].get(KUBIST, {"runs": []})["runs"]
        if cell.values["how"] != "readers"
    ]
    if over:
        said.append(Verdict(work, target, f"{max(over):.0f} MB at most", max(over) <= 300))
    else:
        said += _missing(work, target)
    work, target = "memory of a build", "<= 1.5 GB"
    mine = main and main.build(KUBIST)
    if main and mine:
        # The rows come from a mapped file, whose pages count as the process's memory.
        peak = mine["cost"]["peak_bytes"]
        own = peak - main.raw_bytes
        text = f"{own / 1e6:.0f} MB, and {main.raw_bytes / 1e6:.0f} MB of mapped input"
        said.append(Verdict(work, target, text, own <= 1.5e9))
    else:
        said += _missing(work, target)
    work, target = "a table four times the memory allowed", "no cliff: <= 3x of the time without"
    leaps = []
    for cell in memory.cells() if memory else []:
        if cell.values["bounded"] and memory:
            free = memory.cell(cell.values["cell"], cell.state)
            bounded, unbounded = cell.median(KUBIST), free and free.median(KUBIST)
            if bounded and unbounded:
                leaps.append((bounded / unbounded, f"{cell.label}, {cell.state}"))
    if not leaps:
        return said + _missing(work, target)
    worst, label = max(leaps)
    return [*said, Verdict(work, target, f"{worst:.2f}x at most ({label})", worst <= 3)]


def _fastest(results: Results, cell: Cell) -> str:
    peer = cell.fastest(results.peers)
    return results.systems[peer[0]]["name"] if peer else "no peer"
