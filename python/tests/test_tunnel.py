"""Tables through ssh: `kubist view ssh://...`, with a fake ssh and with a real one."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kubist

COMMAND = Path(sys.executable).parent / "kubist"
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

# Acts like ssh to this machine: listens, forwards bytes, runs the command in a shell. Its arguments
# go into a file.
STAND_IN = """
import json, os, socket, subprocess, sys, threading
words = sys.argv[1:]
with open(os.environ["SSH_TOLD"], "a") as told:
    told.write(json.dumps(words) + "\\n")
said = os.environ.get("SSH_SAYS")
if said:
    print(said, file=sys.stderr)
    sys.exit(255)
here, _, there = words[words.index("-L") + 1].removeprefix("127.0.0.1:").partition(":127.0.0.1:")
listener = socket.create_server(("127.0.0.1", int(here)))
def carry(source, sink):
    while part := source.recv(65536):
        sink.sendall(part)
    sink.shutdown(socket.SHUT_WR)
def forward():
    while True:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", int(there)))
        for ends in ((near, far), (far, near)):
            threading.Thread(target=carry, args=ends, daemon=True).start()
threading.Thread(target=forward, daemon=True).start()
# A greeting of an old machine, in Latin-1, that names an address of its own.
print("http://status.cluster/", flush=True)
os.write(1, b"Willkommen, sch\\xf6n\\n")
os.write(2, b"Willkommen, sch\\xf6n\\n")
os._exit(subprocess.call(words[-1], shell=True))
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "ssh"
    script.write_text(f"#!{sys.executable}\n{STAND_IN}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{COMMAND.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_TOLD", str(tmp_path / "told"))
    return tmp_path / "told"


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, {"x": [0.25, 0.5, 0.75], "y": [1.0, 2.0, 3.0]}, dimensions=["x"])


class View:
    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [COMMAND, "view", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        # Ends it after a minute without output.
        patience = threading.Timer(60, self.process.kill)
        patience.start()
        self.url = self.process.stdout.readline().strip()
        patience.cancel()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def stop(self) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def servers_of(path: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if path.encode() in words and b"-" in words and b"view" in words:
            found.append(int(entry.name))
    return found


def wait_until_none_serves(path: str) -> None:
    end = time.monotonic() + 60
    while servers_of(path):
        assert time.monotonic() < end, "the server over there goes on"
        time.sleep(0.05)


def test_a_table_comes_through_the_tunnel(table: kubist.Table, stand_in: Path) -> None:
    with View(f"ssh://ada@cluster:2222{table.location}") as view:
        address, _, token = view.url.partition("/?token=")
        assert address.startswith("http://127.0.0.1:") and len(token) == 32
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(view.url) as page:
            assert b"app.js" in page.read()
        remote = kubist.connect(view.url)
        assert remote.count() == 3 and remote.query(where="x > 0.3").to_numpy()["y"].sum() == 5
        with pytest.raises(kubist.Refused, match="token"):
            kubist.connect(address)
        told = stand_in.read_text()
        assert '"-p", "2222"' in told and '"--", "ada@cluster"' in told
        assert token not in told, "other users of the machine see command lines"
        assert servers_of(table.location)
        code, errors = view.stop()
        assert code == 0 and "error" not in errors, errors
        wait_until_none_serves(table.location)


def test_the_server_ends_however_we_do(table: kubist.Table, stand_in: Path) -> None:
    with View(f"ssh://cluster{table.location}") as view:
        assert servers_of(table.location)
        view.process.kill()
        view.process.communicate()
        wait_until_none_serves(table.location)


def test_a_path_is_one_word_over_there(tmp_path: Path, stand_in: Path) -> None:
    location = tmp_path / "it's a $(touch oops) run.kubist"
    kubist.create(location, {"x": [1.0]}, dimensions=["x"])
    with View(f"ssh://cluster{location}") as view:
        assert kubist.connect(view.url).count() == 1
        view.stop()
        assert not list(tmp_path.glob("**/oops")) and not Path("oops").exists()


@pytest.mark.parametrize(
    ("says", "where", "more", "code", "words"),
    [
        ("ada@cluster: Permission denied (publickey).", "/t", [], 4, ["cluster", "publickey"]),
        ("", "/nowhere.kubist", [], 3, ["ada@cluster", "nowhere.kubist"]),
        ("", "/t", ["--remote-kubist", "no-such"], 3, ["no-such", "--remote-kubist"]),
        ("", "/t", ["--remote-kubist", "false"], 4, ["false ended with exit code 1"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, stand_in: Path,
    says: str, where: str, more: list[str], code: int, words: list[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SSH_SAYS", says)
    done = subprocess.run(
        [COMMAND, "view", f"ssh://ada@cluster{where}", *more], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("kubist: error: ")]
    assert len(errors) == 1, done.stderr
    for word in words:
        assert word in errors[0]


def test_without_ssh_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run(
        [COMMAND, "view", "ssh://cluster/t.kubist"], capture_output=True, text=True
    )
    assert done.returncode == 3 and "ssh is not on the PATH" in done.stderr


def test_a_connection_brings_its_tunnel(table: kubist.Table, stand_in: Path) -> None:
    remote = kubist.connect(f"ssh://cluster{table.location}")
    assert remote.count(where="y > 1") == 2
    assert next(iter(remote.estimate("sum(y)", progressive=True))).value == 6
    remote.close()
    wait_until_none_serves(table.location)
    with pytest.raises(kubist.StorageError):
        remote.count()
    with pytest.raises(kubist.NotATable, match=r"cluster: .*nowhere"):
        kubist.connect("ssh://cluster/nowhere.kubist")
    with pytest.raises(kubist.InvalidInput, match="path"):
        kubist.connect("ssh://cluster")


def test_an_answer_keeps_its_tunnel(path: Path, stand_in: Path) -> None:
    table = kubist.create(path, {"x": np.arange(1e6)}, dimensions=["x"])
    url = f"ssh://cluster{table.location}"
    # The handle is dropped while the result, larger than the buffers, is read.
    assert kubist.connect(url).query().to_arrow().num_rows == 1_000_000
    wait_until_none_serves(table.location)
    batches = iter(kubist.connect(url).query())
    first = next(batches).num_rows
    assert servers_of(table.location)
    assert first + sum(batch.num_rows for batch in batches) == 1_000_000


HOLDS = """
import signal, sys, kubist
table = kubist.connect(sys.argv[1])
try:
    print(table.count(), flush=True)
    signal.pause()
except KeyboardInterrupt:
    print(table.count(), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_interrupts_leave_the_tunnel_and_the_end_does_not(
    table: kubist.Table, stand_in: Path, how: signal.Signals
) -> None:
    command = [sys.executable, "-c", HOLDS, f"ssh://cluster{table.location}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as holder:
        patience = threading.Timer(60, holder.kill)
        patience.start()
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "3\n"
            # Like a terminal: to the whole process group.
            os.killpg(holder.pid, signal.SIGINT)
            assert holder.stdout.readline() == "3\n"
            assert servers_of(table.location)
            holder.send_signal(how)
            holder.wait()
            wait_until_none_serves(table.location)
        finally:
            patience.cancel()
            holder.kill()


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A real ssh server on this machine, with its own keys; ssh uses it through a wrapper."""
    tools = {name: shutil.which(name) for name in ("ssh", "ssh-keygen")}
    if SSHD is None or None in tools.values():
        pytest.skip("OpenSSH is not installed: apt-get install openssh-server")
    for name in ("host", "user"):
        command = [tools["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(command, check=True)  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        textwrap.dedent(f"""
        Port {port}
        ListenAddress 127.0.0.1
        HostKey {tmp_path}/host
        AuthorizedKeysFile {tmp_path}/user.pub
        PidFile none
        StrictModes no
        UsePAM no
        PasswordAuthentication no
        PermitRootLogin yes
    """)
    )
    (tmp_path / "ssh_config").write_text(
        textwrap.dedent(f"""
        Host *
          IdentityFile {tmp_path}/user
          IdentitiesOnly yes
          UserKnownHostsFile {tmp_path}/known
          StrictHostKeyChecking accept-new
          BatchMode yes
    """)
    )
    folder = tmp_path / "bin"
    folder.mkdir()
    wrapper = folder / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {tools["ssh"]} -F {tmp_path}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    command = [SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as server:
        try:
            end = time.monotonic() + 60
            while "Server listening" not in (said := (tmp_path / "log").read_text()):
                assert server.poll() is None and time.monotonic() < end, said
                time.sleep(0.05)
            yield port
        finally:
            server.terminate()


@pytest.mark.release
def test_through_a_real_ssh(table: kubist.Table, sshd: int, tmp_path: Path) -> None:
    host = f"{getpass.getuser()}@127.0.0.1:{sshd}"
    with View(f"ssh://{host}{table.location}", "--remote-kubist", str(COMMAND)) as view:
        if not view.url:
            pytest.fail(f"{view.stop()} {(tmp_path / 'log').read_text()}")
        assert kubist.connect(view.url).query(columns=["x"]).to_numpy()["x"].sum() == 1.5
        code, errors = view.stop()
        assert code == 0, errors
        wait_until_none_serves(table.location)
    with View(f"ssh://nobody-of-that-name@127.0.0.1:{sshd}{table.location}") as view:
        assert view.url == ""
        code, errors = view.stop()
        assert code == 4 and "Permission denied" in errors, errors
