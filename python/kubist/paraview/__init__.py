"""The ParaView plug-in, a source named "Kubist Table"; docs/paraview.md shows it.

ParaView loads the file `path` with its own Python, which needs nothing but NumPy.
"""

from __future__ import annotations

from pathlib import Path


def path() -> str:
    """The plug-in's file, for Tools > Manage Plugins > Load New, or `LoadPlugin`."""
    return str(Path(__file__).with_name("KubistTable.py"))
