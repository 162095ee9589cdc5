"""Errors, one class for each action that a caller can take.

Each class also derives from the matching built-in exception, such as ``ValueError`` or
``FileNotFoundError``.
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
    "NotHere",
    "NotPermitted",
    "Refused",
    "SnapshotExpired",
    "StorageError",
    "TableExists",
    "TableReplaced",
    "Unavailable",
]


class Error(Exception):
    """Base class of all errors of Kubist."""

    def __str__(self) -> str:
        # Names of columns and files may have control characters.
        return printable_lines(super().__str__())


class InvalidInput(Error, ValueError):
    """The input is invalid; nothing was written. Correct it and call again.

    The message names the column, row or value.
    """


class NotATable(Error, FileNotFoundError):
    """There is no Kubist table at this path."""


class NotHere(Error, LookupError):
    """A partial copy lacks data of this query: deepen it, fetch the rest, or ask for less.

    ``bytes`` is about the number of bytes that are missing.
    """

    bytes: int = 0


class TableExists(Error, FileExistsError):
    """Something exists at this path; ``exist_ok=True`` opens a table with the same design."""


class Damaged(Error):
    """Stored bytes are damaged; the rest of the table can still be read.

    The message names the file and the offset. ``verify()`` lists all damage.
    """


class NewerFormat(Error):
    """A newer version of Kubist wrote the table: upgrade this one."""


class Busy(Error):
    """Another process or handle has it open, such as a writer of the same name: wait or rename."""


class SnapshotExpired(Error):
    """Files of this snapshot were deleted: take a new snapshot."""


class TableReplaced(Error):
    """Another table is at this path, or a restored backup of this table. Open it again."""


class Cancelled(Error):
    """The call was cancelled; the table did not change."""


class Refused(Error, RuntimeError):
    """This handle cannot be used any more: it was closed, forked or used up, or a write failed.

    Commits that returned are durable. Open the table or the writer again.
    """


class StorageError(Error, OSError):
    """The operating system or the storage failed, for example because of a bad device."""


class Unavailable(StorageError):
    """The storage failed or did not respond; the outcome of the request is unknown. Try again."""


class NoSpace(StorageError):
    """The disk or the quota is full: free some space."""


class NotPermitted(StorageError, PermissionError):
    """The operating system denies access."""


class InternalError(Error):
    """A bug in Kubist: please report it."""


# Tracebacks and help() show the name that users import.
for _name in __all__:
    globals()[_name].__module__ = "kubist"
del _name


def exit_code(error: BaseException) -> int:
    """The exit code of a command that fails with this error, as `kubist --help` lists them."""
    match error:
        case KeyboardInterrupt():
            return 130
        case FileNotFoundError() | FileExistsError() | ImportError() | NotHere():
            return 3
        case InvalidInput():
            return 2
        case Damaged() | NewerFormat():
            return 1
    return 4
