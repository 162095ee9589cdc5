"""`kubist advise`. Its arguments are JSON."""

from __future__ import annotations

import dataclasses
import json
import sys

from .._command import fail
from .._errors import Error
from . import advise


def main(text: str) -> int:
    asked = json.loads(text)
    as_json = asked.pop("json")
    try:
        advice = advise(asked.pop("data"), asked.pop("workload"), **asked)
    except (KeyboardInterrupt, Error, OSError, ImportError) as error:
        return fail(error)
    if as_json:
        whole = dataclasses.asdict(advice) | {"command": advice.command, "python": advice.python}
        print(json.dumps(whole, default=str))
    else:
        print(advice)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
