"""`kubist advise`. The command passes its arguments as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys

from .._errors import Error, exit_code
from . import advise


def main(text: str) -> int:
    asked = json.loads(text)
    as_json = asked.pop("json")
    try:
        advice = advise(asked.pop("data"), asked.pop("workload"), **asked)
    except (KeyboardInterrupt, Error, OSError, ImportError) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        said = "interrupted" if interrupted else " ".join(str(error).split())
        sys.stderr.write(f"kubist: error: {said}\n")
        return exit_code(error)
    if as_json:
        whole = dataclasses.asdict(advice) | {"command": advice.command, "python": advice.python}
        print(json.dumps(whole, default=str))
    else:
        print(advice)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
