"""`kubist workload run` and `compare`. Their arguments are JSON."""

from __future__ import annotations

import json
import sys

from .._command import fail
from .._errors import Error
from . import compare, compared, run


def main(text: str) -> int:
    asked = json.loads(text)
    as_json = asked.pop("json")
    try:
        if "designs" in asked:
            designs, data = asked.pop("designs"), asked.pop("data")
            played = compare(designs, data, asked.pop("workload"), **asked)
        else:
            played = run(asked.pop("workload"), asked.pop("targets"), **asked)
    except (KeyboardInterrupt, Error, OSError, ImportError) as error:
        return fail(error)
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
