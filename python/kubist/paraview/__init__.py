"""The ParaView plug-in, a source named "Kubist Table"; see docs/paraview.md.

ParaView loads the file `path` with its own Python, which needs only NumPy.
"""

from __future__ import annotations

from pathlib import Path


def path() -> str:
    """Returns the plug-in's file, for Tools > Manage Plugins > Load New, or `LoadPlugin`."""
    return str(Path(__file__).with_name("KubistTable.py"))
