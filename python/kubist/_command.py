"""The exit of a program that the command `kubist` runs."""

from __future__ import annotations

import sys

from ._errors import exit_code


def fail(error: BaseException) -> int:
    said = "interrupted" if isinstance(error, KeyboardInterrupt) else " ".join(str(error).split())
    sys.stderr.write(f"kubist: error: {said}\n")
    return exit_code(error)
