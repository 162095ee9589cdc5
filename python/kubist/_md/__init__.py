"""Trajectories of atoms as tables, for all libraries."""
