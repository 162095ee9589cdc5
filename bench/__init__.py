"""Kubist beside its peers: the same rows, the same questions, in one run.

Outside the package and its tests; `make bench-peers` runs it. A file for each
part: `data` makes rows, `work` says what is asked, `systems/` how each system
stores and answers, `measure` and `child` what that costs, `check` whether the
answers agree, `run` who goes when, `report` the tables.
"""
