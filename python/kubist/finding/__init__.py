"""Neighbours on the command line: nearest rows, matches of two tables, pairs and clusters."""
