"""What can go wrong, by what you can do about it.

Each class also derives from the built-in exception that fits, so code that
catches ``ValueError`` or ``FileNotFoundError`` keeps working.
"""

from __future__ import annotations

from ._kubist import printable_lines

__all__ = [
    "Busy",
    "Cancelled",
    "Damaged",
    "Error",
    "InternalError",
    "InvalidInput",
    "NewerFormat",
    "NoSpace",
    "NotATable",
    "NotPermitted",
    "Refused",
    "SnapshotExpired",
    "StorageError",
    "TableExists",
    "TableReplaced",
    "Unavailable",
]


class Error(Exception):
    """Any error of Kubist; all others derive from it."""

    def __str__(self) -> str:
        # Names of columns and files stand in messages, and these on terminals.
        return printable_lines(super().__str__())


class InvalidInput(Error, ValueError):
    """Fix the input and call again: nothing was written.

    The message names the column, the row or the value that does not fit.
    """


class NotATable(Error, FileNotFoundError):
    """There is no Kubist table at this path."""


class TableExists(Error, FileExistsError):
    """Something is already at this path; ``exist_ok=True`` opens a table that agrees."""


class Damaged(Error):
    """Bytes on disk are not what was written.

    The message names the file and the offset. ``verify()`` lists all damage;
    the other parts of the table can still be read.
    """


class NewerFormat(Error):
    """The table was written by a newer Kubist: upgrade this one."""


class Busy(Error):
    """Someone else holds it, as a second writer of the same name: wait, or use another name."""


class SnapshotExpired(Error):
    """The files of this snapshot were cleaned away: take a fresh one."""


class TableReplaced(Error):
    """Another table came to this path, or another history of it from a backup: open it again."""


class Cancelled(Error):
    """The call was stopped from elsewhere; the table is as before."""


class Refused(Error, RuntimeError):
    """This handle cannot go on: it was closed, forked or used up, or an earlier write failed.

    What was acknowledged is safe. Open the table (or a writer) again.
    """


class StorageError(Error, OSError):
    """The operating system refused: a full disk, missing permission, a broken device."""


class Unavailable(StorageError):
    """The storage failed or did not answer: nothing is known of the bytes there, try again."""


class NoSpace(StorageError):
    """The disk or the quota is full: make room."""


class NotPermitted(StorageError, PermissionError):
    """The operating system does not permit it."""


class InternalError(Error):
    """A mistake in Kubist itself: please report it."""


# Tracebacks and help() show the name that users import.
for _name in __all__:
    globals()[_name].__module__ = "kubist"
del _name
