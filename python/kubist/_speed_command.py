"""The program of `kubist explain --predict`, with its options as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from . import open as opened
from ._errors import exit_code
from ._figures import Stats, parse
from ._speed import expected

if TYPE_CHECKING:
    from ._speed import Explains


def main(text: str) -> int:
    asked = json.loads(text)
    try:
        table = cast("Explains", opened(asked["table"]))
        found = expected(table, asked["question"], parse(Stats, json.dumps(asked["stats"])))
    except BaseException as error:
        sys.stderr.write(" ".join(str(error).split()) or type(error).__name__)
        return exit_code(error)
    print(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
