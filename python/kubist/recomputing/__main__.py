"""`kubist history` and `kubist recompute`. Their arguments are JSON."""

from __future__ import annotations

import dataclasses
import json
import sys

from .. import _errors
from . import History, Recomputed, history, recompute

DIFFERENT, USAGE, EXISTENCE, SYSTEM, INTERRUPTED = 1, 2, 3, 4, 130


def main(text: str) -> int:
    asked = json.loads(text)
    try:
        told: History | Recomputed
        if "table" in asked:
            told = history(asked["table"], folder=asked["folder"])
        else:
            told = recompute(asked["file"], newest=asked["newest"])
    except KeyboardInterrupt:
        return _tell("interrupted", INTERRUPTED)
    except (_errors.NotATable, FileNotFoundError, ImportError) as error:
        return _tell(str(error), EXISTENCE)
    except (_errors.InvalidInput, _errors.SnapshotExpired, _errors.TableReplaced) as error:
        return _tell(str(error), USAGE)
    except (_errors.Damaged, _errors.NewerFormat) as error:
        return _tell(str(error), DIFFERENT)
    except (_errors.Error, OSError) as error:
        return _tell(str(error), SYSTEM)
    print(json.dumps(dataclasses.asdict(told), default=str) if asked["json"] else told)
    return DIFFERENT if isinstance(told, Recomputed) and not told.same else 0


def _tell(message: str, code: int) -> int:
    sys.stderr.write(f"kubist: error: {' '.join(message.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
