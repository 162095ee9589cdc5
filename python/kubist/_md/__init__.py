"""Trajectories of atoms as tables, whichever library they come from or go to."""
