"""Tables as trajectories of MDAnalysis.

Importing this module registers its reader, writer and topology parser.

>>> import kubist.mdanalysis
>>> u = MDAnalysis.Universe("run.kubist")                # the topology is stored with the table
>>> u = MDAnalysis.Universe("top.pdb", "run.kubist")     # or comes from a file
>>> u.select_atoms("protein").write("protein.kubist", frames="all")

Additional keywords of `Universe`, which are pushed down to the table:

>>> MDAnalysis.Universe("run.kubist", atoms="resname LIG")       # or numbers of atoms
>>> MDAnalysis.Universe("run.kubist", box={"z": (0, 20)})        # atoms that pass through a region
>>> MDAnalysis.Universe("run.kubist", sample=0.01)               # a sample of whole atoms
>>> for ts in u.trajectory.follow(): ...                         # a simulation while it runs
>>> u.trajectory.region({"z": (0, 20)}, step=10)                 # rows of a region over time
"""

from .._libraries import need

need("MDAnalysis", "kubist.mdanalysis")

from .parser import KubistParser  # noqa: E402
from .reader import KubistReader  # noqa: E402
from .writer import KubistWriter  # noqa: E402

__all__ = ["KubistParser", "KubistReader", "KubistWriter"]
