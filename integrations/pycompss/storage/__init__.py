"""The storage package that PyCOMPSs imports; see docs/dictionaries.md."""
