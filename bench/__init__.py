"""Benchmarks of Kubist and other systems: the same rows and queries, in one run (`make
bench-peers`).

`data` generates rows, `work` defines the queries, `systems/` has an adapter for each system,
`measure` and `child` measure, `check` compares results, `run` schedules, and `report` writes the
tables.
"""
