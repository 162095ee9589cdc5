"""A simulated network file system with several misbehaving clients, to test shared tables.

    mounts.py serve FOLDER POINT --node NAME     mounts FOLDER at POINT, until it is killed
    mounts.py up         mounts one folder at .mounts/one and .mounts/other, which cache
                         for 0.1 s and inject no errors
    mounts.py down       unmounts both, and deletes the folder

Each mount simulates a machine:

- It caches names, attributes and listings for up to a second.
- Others see its writes when the file is closed, and its locks are local.
- It returns ESTALE for files that another machine deleted, and keeps its own deleted open files
  under another name.
- It reports errors at fsync or close only, writes short, loses responses to link, unlink and mkdir,
  and lists in any order.
- If killed, it loses writes that were neither synced nor closed.

It implements FUSE's protocol (fuse(4), linux/fuse.h), and needs Linux and the right to mount.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("MOUNTS_HOME", ROOT / ".mounts")).resolve()
NODES = ("one", "other")
# The exit code if mounting is impossible.
NOT_TO_BE_HAD = 3

# Cache time of the machines of `up`, in seconds.
REMEMBERED = 0.1
# Probabilities of the injected faults.
SHORT_WRITE = 1 / 20
LOST_ANSWER = 1 / 20
LATE_ERROR = 1 / 400
# Bytes of unsent writes at which a machine sends them.
SENT_AT_ONCE = 4 << 20
LARGEST_WRITE = 128 << 10

HEAD = struct.Struct("<IIQQIIIHH")
ANSWER = struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<6Q10I")
ENTRY = struct.Struct("<4Q2I")
VALIDITY = struct.Struct("<QII")
OPENED = struct.Struct("<QIi")
TRANSFER = struct.Struct("<QQIIQII")
NOTICE_OF_AN_INODE = 2
READ_PAST_MEMORY = 1  # FOPEN_DIRECT_IO
GROW_OR_CUT = 8  # FATTR_SIZE
BIG_WRITES = 1 << 5


class Refusal(Exception):
    """A response that is an error."""


@dataclass
class Node:
    """A file or folder that the kernel knows."""

    fd: int
    inode: int
    known: int = 0
    handles: int = 0
    writers: int = 0
    # The end of this machine's own writes.
    written: int = 0
    # Writes that only this machine has.
    unsent: list[tuple[int, bytes]] = field(default_factory=list)
    # Replacement names of files that were deleted while open.
    hidden: list[tuple[int, str]] = field(default_factory=list)

    def path(self) -> str:
        """Independent of the file's names."""
        return f"/proc/self/fd/{self.fd}"

    def unsent_bytes(self) -> int:
        return sum(len(data) for _, data in self.unsent)


class Mount:
    """One machine's view of the folder."""

    def __init__(
        self, folder: Path, name: str, seed: int, remembered: float, late_error: float
    ) -> None:
        self.files = folder / "files"
        # Files that a machine has written and not closed, with the length that others see.
        self.open = folder / "open"
        for each in (self.files, self.open):
            each.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.remembered, self.late_error = remembered, late_error
        self.chance = random.Random(seed)
        for each in self.open.iterdir():
            if each.read_text().split()[:1] == [name]:
                each.unlink()
        self.nodes = {1: self._node(os.open(self.files, os.O_PATH))}
        self.by_inode = {self.nodes[1].inode: 1}
        self.last = 1
        self.handles: dict[int, tuple[bool, int]] = {}
        self.listings: dict[int, tuple[float, list[tuple[str, int, int]]]] = {}
        self.listed: dict[int, list[tuple[str, int, int]]] = {}
        self.device = -1


    def serve(self, point: Path) -> None:
        """Serves requests until the file system is unmounted."""
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd=0,rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        subprocess.run(
            ["mount", "-i", "-t", "fuse", "-o", options, "kubist-test", str(point)],
            stdin=self.device,
            check=True,
        )
        work: dict[int, Callable[[int, bytes], bytes | None]] = {
            1: self.lookup,
            2: self.forget,
            3: self.attributes_of,
            4: self.set_attributes,
            9: self.make_folder,
            10: self.unlink,
            11: self.remove_folder,
            12: lambda node, body: self.rename(node, body, 8),
            13: self.link,
            14: self.open_file,
            15: self.read,
            16: self.write,
            17: self.statfs,
            18: self.release,
            20: lambda node, _: self.send(self.nodes[node]),
            25: self.close,
            26: self.initialize,
            27: self.open_folder,
            28: self.read_folder,
            29: self.release_folder,
            30: lambda *_: b"",
            35: self.create,
            42: self.forget_many,
            45: lambda node, body: self.rename(node, body, 16),
        }
        while True:
            try:
                request = os.read(self.device, LARGEST_WRITE + (64 << 10))
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            _, operation, unique, node, *_ = HEAD.unpack_from(request)
            try:
                if operation not in work:
                    raise Refusal(errno.ENOSYS)
                answer = work[operation](node, request[HEAD.size :])
            except Refusal as refusal:
                self.answer(unique, refusal.args[0], b"")
            except OSError as error:
                self.answer(unique, error.errno or errno.EIO, b"")
            else:
                if answer is not None:
                    self.answer(unique, 0, answer)

    def answer(self, unique: int, number: int, body: bytes) -> None:
        # ENOENT: the calling process was killed.
        with contextlib.suppress(FileNotFoundError):
            os.write(self.device, ANSWER.pack(ANSWER.size + len(body), -number, unique) + body)

    def initialize(self, _: int, body: bytes) -> bytes:
        _, minor, ahead, flags = struct.unpack_from("<4I", body)
        protocol = (7, min(minor, 31), ahead, flags & BIG_WRITES)
        return struct.pack("<4I2H2I2H2I24x", *protocol, 16, 12, LARGEST_WRITE, 1, 0, 0, 0, 0)


    def _node(self, fd: int) -> Node:
        return Node(fd, os.fstat(fd).st_ino)

    def find(self, folder: int, name: str) -> int:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self.nodes[folder].fd)
        inode = os.fstat(fd).st_ino
        number = self.by_inode.get(inode)
        if number is None:
            self.last += 1
            number = self.by_inode[inode] = self.last
            self.nodes[number] = Node(fd, inode)
        else:
            os.close(fd)
        return number

    def entry(self, folder: int, name: str) -> bytes:
        began = time.monotonic()
        number = self.find(folder, name)
        attributes = self.attributes(number)
        self.nodes[number].known += 1
        seconds, rest = self.believed(began)
        return ENTRY.pack(number, 0, seconds, seconds, rest, rest) + attributes

    def believed(self, since: float) -> tuple[int, int]:
        """The time for which the kernel may cache a result obtained at ``since``."""
        left = max(0.0, self.remembered - (time.monotonic() - since))
        return int(left), int(left % 1 * 1e9)

    def lookup(self, folder: int, body: bytes) -> bytes:
        began = time.monotonic()
        try:
            return self.entry(folder, text(body))
        except FileNotFoundError:
            seconds, rest = self.believed(began)
            return ENTRY.pack(0, 0, seconds, 0, rest, 0) + bytes(ATTRIBUTES.size)

    def forget(self, number: int, body: bytes) -> None:
        self.forgotten(number, *struct.unpack_from("<Q", body))

    def forget_many(self, _: int, body: bytes) -> None:
        (count,) = struct.unpack_from("<I", body)
        for each in range(count):
            self.forgotten(*struct.unpack_from("<QQ", body, 8 + 16 * each))

    def forgotten(self, number: int, times: int) -> None:
        node = self.nodes.get(number)
        if node is None or number == 1:
            return
        node.known -= times
        if node.known <= 0 and node.handles == 0:
            os.close(node.fd)
            del self.nodes[number], self.by_inode[node.inode]

    def changed(self, folder: int) -> None:
        """A machine sees its own changes."""
        self.listings.pop(folder, None)

    def lose_answer(self, number: int) -> None:
        """The operation succeeded, and a retry finds its result."""
        if self.chance.random() < LOST_ANSWER:
            raise Refusal(number)

    def make_folder(self, folder: int, body: bytes) -> bytes:
        mode, mask = struct.unpack_from("<II", body)
        os.mkdir(text(body[8:]), mode & ~mask, dir_fd=self.nodes[folder].fd)
        self.changed(folder)
        self.lose_answer(errno.EEXIST)
        return self.entry(folder, text(body[8:]))

    def remove_folder(self, folder: int, body: bytes) -> bytes:
        os.rmdir(text(body), dir_fd=self.nodes[folder].fd)
        self.changed(folder)
        return b""

    def link(self, folder: int, body: bytes) -> bytes:
        (old,) = struct.unpack_from("<Q", body)
        name = text(body[8:])
        self.there(self.nodes[old])
        os.link(self.nodes[old].path(), name, dst_dir_fd=self.nodes[folder].fd)
        self.changed(folder)
        self.lose_answer(errno.EEXIST)
        return self.entry(folder, name)

    def unlink(self, folder: int, body: bytes) -> bytes:
        name, place = text(body), self.nodes[folder].fd
        inode = os.stat(name, dir_fd=place, follow_symlinks=False).st_ino
        node = self.nodes.get(self.by_inode.get(inode, 0))
        if node is not None and node.handles > 0:
            hidden = f".nfs{inode:016x}{self.chance.getrandbits(32):08x}"
            os.rename(name, hidden, src_dir_fd=place, dst_dir_fd=place)
            node.hidden.append((os.dup(place), hidden))
        else:
            os.unlink(name, dir_fd=place)
        self.changed(folder)
        self.lose_answer(errno.ENOENT)
        return b""

    def rename(self, folder: int, body: bytes, skipped: int) -> bytes:
        (target,) = struct.unpack_from("<Q", body)
        old, new = (name.decode() for name in body[skipped:].split(b"\0")[:2])
        places = {"src_dir_fd": self.nodes[folder].fd, "dst_dir_fd": self.nodes[target].fd}
        os.rename(old, new, **places)
        self.changed(folder)
        self.changed(target)
        return b""


    def there(self, node: Node) -> os.stat_result:
        found = os.fstat(node.fd)
        if found.st_nlink == 0:
            raise Refusal(errno.ESTALE)
        return found

    def bytes_seen(self, node: Node, found: os.stat_result) -> int:
        """The length of a file on this machine."""
        if not stat.S_ISREG(found.st_mode):
            return found.st_size
        size = max([found.st_size, *(offset + len(data) for offset, data in node.unsent)])
        try:
            writer, before = (self.open / str(node.inode)).read_text().split()
        except (FileNotFoundError, ValueError):
            return size
        return size if writer == self.name else min(size, int(before))

    def attributes(self, number: int) -> bytes:
        node = self.nodes[number]
        found = self.there(node)
        size = self.bytes_seen(node, found)
        times = [int(each) for each in (found.st_atime, found.st_mtime, found.st_ctime)]
        rests = [each % 10**9 for each in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        names = max(1, found.st_nlink - len(node.hidden)) if node.hidden else found.st_nlink
        owner = (found.st_uid, found.st_gid)
        return ATTRIBUTES.pack(
            number, size, -(-size // 512), *times, *rests, found.st_mode, names, *owner, 0, 4096, 0
        )

    def attributes_of(self, number: int, _: bytes) -> bytes:
        began = time.monotonic()
        attributes = self.attributes(number)
        return VALIDITY.pack(*self.believed(began), 0) + attributes

    def set_attributes(self, number: int, body: bytes) -> bytes:
        (which,) = struct.unpack_from("<I", body)
        if which & GROW_OR_CUT:
            node = self.nodes[number]
            self.begin(node)
            self.push(node)
            os.truncate(node.path(), struct.unpack_from("<Q", body, 16)[0])
        return self.attributes_of(number, b"")

    def statfs(self, *_: object) -> bytes:
        found = os.statvfs(self.files)
        sizes = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("<5Q10I", *sizes, found.f_bsize, 255, found.f_frsize, *[0] * 7)


    def begin(self, node: Node) -> None:
        """Until the file is closed, others see this length."""
        with contextlib.suppress(FileExistsError), open(self.open / str(node.inode), "x") as note:
            note.write(f"{self.name} {os.fstat(node.fd).st_size}")

    def push(self, node: Node) -> None:
        if node.unsent:
            file = os.open(node.path(), os.O_WRONLY)
            try:
                for offset, data in node.unsent:
                    os.pwrite(file, data, offset)
            finally:
                os.close(file)
            node.unsent.clear()

    def send(self, node: Node) -> bytes:
        """Sends writes to the server, which is the only place to report errors."""
        self.there(node)
        if node.unsent and self.chance.random() < self.late_error:
            node.unsent.clear()
            raise Refusal(self.chance.choice([errno.EIO, errno.ENOSPC, errno.EDQUOT]))
        self.push(node)
        return b""

    def handle(self, number: int, flags: int) -> bytes:
        node = self.nodes[number]
        file = os.open(node.path(), os.O_RDONLY)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        node.handles += 1
        node.writers += writes
        # Later writes of others are not visible through this handle.
        self.handles[file] = (writes, self.bytes_seen(node, os.fstat(file)))
        return OPENED.pack(file, READ_PAST_MEMORY, 0)

    def open_file(self, number: int, body: bytes) -> bytes:
        node = self.nodes[number]
        self.there(node)
        # Opening revalidates the cache.
        notice = struct.pack("<Qqq", number, -1, 0)
        head = ANSWER.pack(ANSWER.size + len(notice), NOTICE_OF_AN_INODE, 0)
        with contextlib.suppress(FileNotFoundError):
            os.write(self.device, head + notice)
        return self.handle(number, *struct.unpack_from("<I", body))

    def create(self, folder: int, body: bytes) -> bytes:
        flags, mode, mask = struct.unpack_from("<3I", body)
        name = text(body[16:])
        made = os.open(name, flags & ~os.O_TRUNC, mode & ~mask, dir_fd=self.nodes[folder].fd)
        os.close(made)
        self.changed(folder)
        entry = self.entry(folder, name)
        number = struct.unpack_from("<Q", entry)[0]
        self.begin(self.nodes[number])
        return entry + self.handle(number, flags)

    def read(self, number: int, body: bytes) -> bytes:
        file, offset, size, *_ = TRANSFER.unpack_from(body)
        node = self.nodes[number]
        self.there(node)
        self.push(node)
        end = max(self.handles[file][1], node.written)
        return os.pread(file, max(0, min(size, end - offset)), offset)

    def write(self, number: int, body: bytes) -> bytes:
        _, offset, size, *_ = TRANSFER.unpack_from(body)
        data = body[TRANSFER.size : TRANSFER.size + size]
        node = self.nodes[number]
        self.there(node)
        if len(data) > 1 and self.chance.random() < SHORT_WRITE:
            data = data[: len(data) // 2]
        self.begin(node)
        node.unsent.append((offset, data))
        node.written = max(node.written, offset + len(data))
        if node.unsent_bytes() > SENT_AT_ONCE:
            self.push(node)
        return struct.pack("<II", len(data), 0)

    def close(self, number: int, body: bytes) -> bytes:
        """A process closes a file that no other process on this machine has open."""
        node = self.nodes[number]
        writes, _ = self.handles[struct.unpack_from("<Q", body)[0]]
        if writes:
            try:
                self.send(node)
            finally:
                self.shown(node, writers=1)
        return b""

    def shown(self, node: Node, writers: int) -> None:
        """Makes the file visible to others if this machine has no other writers."""
        if node.writers == writers:
            (self.open / str(node.inode)).unlink(missing_ok=True)

    def release(self, number: int, body: bytes) -> bytes:
        (file,) = struct.unpack_from("<Q", body)
        node = self.nodes[number]
        os.close(file)
        writes, _ = self.handles.pop(file)
        node.handles -= 1
        node.writers -= writes
        if writes and node.writers == 0:
            # Also for a process that was killed.
            self.push(node)
            self.shown(node, writers=0)
        if node.handles == 0:
            for place, hidden in node.hidden:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(hidden, dir_fd=place)
                os.close(place)
            node.hidden.clear()
            self.forgotten(number, 0)
        return b""


    def open_folder(self, number: int, _: bytes) -> bytes:
        self.there(self.nodes[number])
        when, found = self.listings.get(number, (0.0, []))
        if time.monotonic() - when > self.remembered:
            when = time.monotonic()
            with os.scandir(self.nodes[number].path()) as entries:
                found = [(each.name, each.inode(), kind(each)) for each in entries]
            self.chance.shuffle(found)
            self.listings[number] = (when, found)
        self.last += 1
        self.listed[self.last] = [(".", 1, stat.S_IFDIR), ("..", 1, stat.S_IFDIR), *found]
        return OPENED.pack(self.last, 0, 0)

    def read_folder(self, _: int, body: bytes) -> bytes:
        handle, offset, size, *_ = TRANSFER.unpack_from(body)
        answer = b""
        for number, (name, inode, mode) in enumerate(self.listed[handle][offset:], int(offset) + 1):
            known = name.encode()
            entry = struct.pack("<QQII", inode, number, len(known), mode >> 12) + known
            entry += bytes(-len(entry) % 8)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def release_folder(self, _: int, body: bytes) -> bytes:
        del self.listed[struct.unpack_from("<Q", body)[0]]
        return b""


def text(body: bytes) -> str:
    return body.split(b"\0", 1)[0].decode()


def kind(entry: os.DirEntry[str]) -> int:
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG


def can_mount() -> bool:
    return os.access("/dev/fuse", os.R_OK | os.W_OK) and os.getuid() == 0


def up() -> int:
    if not can_mount():
        print("cannot mount here: this needs /dev/fuse and the right to mount", file=sys.stderr)
        return NOT_TO_BE_HAD
    for name in NODES:
        point = HOME / name
        if os.path.ismount(point):
            continue
        point.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "serve", str(HOME / "server"), str(point)]
        command += ["--node", name, "--remembered", str(REMEMBERED), "--late-error", "0"]
        with open(HOME / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (HOME / f"{name}.process").write_text(str(process.pid))
        while not os.path.ismount(point):
            if process.poll() is not None:
                print(f"{point} was not mounted; see {HOME / name}.log", file=sys.stderr)
                return 1
            time.sleep(0.02)
    print(f"one folder is at {' and '.join(str(HOME / name) for name in NODES)}")
    return 0


def down() -> int:
    for name in NODES:
        if os.path.ismount(HOME / name):
            subprocess.run(["umount", "-l", str(HOME / name)], check=True)
    shutil.rmtree(HOME, ignore_errors=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("serve")
    one.add_argument("folder", type=Path)
    one.add_argument("point", type=Path)
    one.add_argument("--node", default="one")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--remembered", type=float, default=1.0, help="seconds (default: 1)")
    one.add_argument("--late-error", type=float, default=LATE_ERROR, help="how often")
    commands.add_parser("up")
    commands.add_parser("down")
    arguments = parser.parse_args()
    if arguments.command == "up":
        return up()
    if arguments.command == "down":
        return down()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Every file that the kernel knows is open here.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    said = (arguments.node, arguments.seed, arguments.remembered, arguments.late_error)
    Mount(arguments.folder.resolve(), *said).serve(arguments.point)
    return 0


if __name__ == "__main__":
    sys.exit(main())
