"""The part of `kubist ingest` that needs Python's libraries, with its options as JSON.

Results go to standard output, everything else to standard error. A failure is one line, with the
command's exit code.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .._errors import Error, exit_code
from . import Plan, Report, ingest

USAGE = 2


def main(text: str) -> int:
    asked: dict[str, Any] = json.loads(text)
    as_json = asked.pop("json")
    # A list, because dimensions have an order.
    asked["dimensions"] = {name: _domain(text) for name, text in asked["dimensions"]}
    asked["identity"] = asked["identity"] or None
    try:
        done = ingest(**asked)
    except KeyboardInterrupt as error:
        return _tell("interrupted", exit_code(error))
    except (Error, OSError, ImportError) as error:
        return _tell(str(error), exit_code(error))
    if as_json:
        print(done.told)
    elif isinstance(done, Plan):
        print(done)
    else:
        sys.stderr.write(f"{done}\n")
    failed = done.failed if isinstance(done, Report) else {}
    for message in failed.values():
        _tell(message, USAGE)
    return USAGE if failed else 0


def _domain(text: str | None) -> Any:
    if text is None or text == "quantile":
        return text
    low, _, high = text.partition("..")
    return (_end(low), _end(high))


def _end(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _tell(message: str, code: int) -> int:
    sys.stderr.write(f"kubist: error: {' '.join(message.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
