"""`kubist workload run` and `compare`. The command passes their arguments as JSON."""

from __future__ import annotations

import json
import sys

from .._errors import Error, exit_code
from . import compare, compared, finish, run


def main(text: str) -> int:
    asked = json.loads(text)
    as_json = asked.pop("json")
    try:
        if "designs" in asked:
            keep, report = asked.pop("keep"), asked.pop("report")
            names = ("designs", "data", "workload")
            played = compare(*(asked.pop(name) for name in names), **asked)
            finish(played, keep, report)
        else:
            played = run(asked.pop("workload"), asked.pop("targets"), **asked)
    except (KeyboardInterrupt, Error, OSError, ImportError) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        said = "interrupted" if interrupted else " ".join(str(error).split())
        sys.stderr.write(f"kubist: error: {said}\n")
        return exit_code(error)
    if as_json:
        print(json.dumps([one.figures() for one in played]))
        return 0
    for one in played:
        print(f"{one}\n")
    if len(played) > 1:
        print(compared(played))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
