"""Benchmarks of Kubist and other systems with the same rows and queries (`make bench-peers`).

`data` generates rows, `work` defines the queries, `systems/` has an adapter for each system,
`measure` and `child` measure, `check` compares results, `run` schedules, and `report` writes the
tables.
"""
