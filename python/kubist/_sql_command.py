"""The program of `kubist sql`, with its options as JSON."""

from __future__ import annotations

import json
import sys

from . import open as opened
from ._errors import exit_code
from ._libraries import need


def main(text: str) -> int:
    asked = json.loads(text)
    try:
        oldest = need("polars", "SQL").CompatLevel.oldest()
        tables = {name: opened(location) for name, location in asked["tables"].items()}
        frame = opened(asked["table"]).sql(asked["query"], engine=asked["engine"], tables=tables)
        frame.write_ipc_stream(sys.stdout.buffer, compat_level=oldest)
    except BaseException as error:
        sys.stderr.write(" ".join(str(error).split()) or type(error).__name__)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
