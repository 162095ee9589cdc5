"""A real S3 server on this machine, to try and test tables in a bucket.

    s3.py up            starts Versity's gateway on 127.0.0.1:7070, or PORT=n, with a test bucket
    s3.py kill          kills it (kill -9); acknowledged data stays
    s3.py status        reports whether it runs
    s3.py down          stops it and deletes its data

The gateway, which stores objects as files, is built from source once (`go install`, a minute),
which needs Go. All files are in the folder S3_HOME, or .s3, and only processes from there are
stopped. The access key is `test`, the secret key `testsecret`:

    export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=testsecret
    export AWS_ENDPOINT_URL=http://127.0.0.1:7070
    kubist ingest s3://kubist-tests/run step_*.parquet --dimensions x,y,z
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("S3_HOME", ROOT / ".s3")).resolve()
PROGRAM = HOME / "bin" / "versitygw"
DATA = HOME / "data"
PROCESS = HOME / "process"

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
PORT = int(os.environ.get("PORT", "7070"))
BUCKET = "kubist-tests"
# The exit code if Go is missing, or the download fails.
NOT_TO_BE_HAD = 3
# Seconds to wait; on a busy machine it responds within a few.
PATIENCE = 60.0


def program() -> Path | None:
    """The gateway, built if necessary; `None` if it is not available."""
    if PROGRAM.exists():
        return PROGRAM
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        print("Go is missing, which builds the S3 server", file=sys.stderr)
        return None
    print("building the S3 server: a minute", flush=True)
    environment = os.environ | {"GOBIN": str(PROGRAM.parent)}
    built = subprocess.run([go, "install", MODULE], env=environment, check=False, timeout=1800)
    if built.returncode != 0:
        print("the S3 server could not be fetched or built", file=sys.stderr)
        return None
    return PROGRAM


def running() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        number = int(PROCESS.read_text())
        if Path(os.readlink(f"/proc/{number}/exe")) == PROGRAM:
            return number
    return None


def answers() -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{BUCKET}", timeout=5).close()
    except urllib.error.HTTPError:
        # It asks for credentials.
        return True
    except OSError:
        return False
    return True


def up() -> int:
    if running() is None:
        gateway = program()
        if gateway is None:
            return NOT_TO_BE_HAD
        (DATA / BUCKET).mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "testsecret"}
        command = [str(gateway), "--quiet", "--port", f"127.0.0.1:{PORT}", "posix", str(DATA)]
        with open(HOME / "log", "ab") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        PROCESS.write_text(str(process.pid))
    end = time.monotonic() + PATIENCE
    while not answers():
        if running() is None or time.monotonic() > end:
            print(f"the S3 server does not respond; see {HOME / 'log'}", file=sys.stderr)
            return 1
        time.sleep(0.05)
    print(f"an S3 server is at http://127.0.0.1:{PORT}, with the bucket {BUCKET}")
    return 0


def kill() -> None:
    number = running()
    if number is not None:
        os.kill(number, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while running() == number and time.monotonic() < end:
            time.sleep(0.02)
    PROCESS.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["up", "kill", "status", "down"])
    command = parser.parse_args().command
    if command == "up":
        return up()
    if command == "status":
        print("it runs" if running() is not None else "it does not run")
        return 0
    kill()
    if command == "down":
        shutil.rmtree(DATA, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
