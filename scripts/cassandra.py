"""Real Apache Cassandra nodes on this machine, to try and test tables on a cluster.

    cassandra.py up [--nodes 3]   starts nodes on 127.0.0.1, 127.0.0.2, ...
    cassandra.py up --secure      starts a separate node with TLS and a password, on 127.0.0.9
    cassandra.py status           lists the running nodes
    cassandra.py kill N           kills node N (kill -9)
    cassandra.py stop N           shuts node N down
    cassandra.py start N          restarts node N with its data
    cassandra.py down             stops all nodes and deletes their data

It needs Java 17, from JAVA_HOME, the path, or /usr/lib/jvm. Cassandra comes from Maven Central
(about 70 MB, once). All files are in the folder CASSANDRA_HOME, or .cassandra, and only processes
from there are stopped. CASSANDRA_NETWORK is the start of their addresses, by default 127.0.0, so
that clusters of two networks can run side by side. Jars in the folder CASSANDRA_PLUGINS are added
to the class path. The nodes are for tests only: they do not sync their commit log, so a power
failure may lose acknowledged data.

User and password of the secure node are both cassandra; its certificate is in node-9/ca.pem.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("CASSANDRA_HOME", ROOT / ".cassandra")).resolve()
JARS = HOME / "lib"
PLUGINS = os.environ.get("CASSANDRA_PLUGINS")
NETWORK = os.environ.get("CASSANDRA_NETWORK", "127.0.0")

VERSION = "5.0.9"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
PORT = 9042
# The number of the secure node, which is a separate cluster.
SECURE = 9
# The exit code if Java 17 or Maven is missing, or the download fails.
NOT_TO_BE_HAD = 3
# Seconds to wait; on a busy machine a node responds within a minute or two.
PATIENCE = 180.0

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kubist</groupId><artifactId>cassandra</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

# Java modules that Cassandra 5.0 accesses, as in its conf/jvm17-server.options.
EXPORTS = {
    "java.base": ["jdk.internal.misc", "jdk.internal.ref", "java.lang.ref", "sun.nio.ch"],
    "java.management.rmi": ["com.sun.jmx.remote.internal.rmi"],
    "java.rmi": ["sun.rmi.registry", "sun.rmi.server", "sun.rmi.transport.tcp"],
    "java.sql": ["java.sql"],
    "jdk.attach": ["sun.tools.attach"],
    "jdk.compiler": ["com.sun.tools.javac.file"],
    "jdk.unsupported": ["sun.misc"],
}
OPENS = {
    "java.base": [
        *("java.io", "java.lang", "java.lang.module", "java.lang.reflect", "java.nio"),
        *("java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
        *("jdk.internal.loader", "jdk.internal.math", "jdk.internal.module"),
        *("jdk.internal.ref", "jdk.internal.reflect", "jdk.internal.util.jar", "sun.nio.ch"),
    ],
    "jdk.compiler": ["com.sun.tools.javac.file"],
    "jdk.management": ["com.sun.management.internal"],
}


class Failed(Exception):
    """An error of the nodes."""


class Unavailable(Failed):
    """Cassandra is not available on this machine."""


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def java() -> Path:
    """Java 17: Cassandra 5.0 does not run on newer versions."""
    candidates = [Path(home) / "bin/java" for home in [os.environ.get("JAVA_HOME")] if home]
    candidates += [Path(found) for found in [shutil.which("java")] if found]
    candidates += sorted(Path("/usr/lib/jvm").glob("*17*/bin/java"))
    for program in candidates:
        try:
            version = subprocess.run(
                [program, "-version"], capture_output=True, text=True, check=False
            )
        except OSError:
            continue
        if re.search(r'version "17[."]', version.stderr):
            return program
    raise Unavailable(
        "Cassandra needs Java 17: install one (openjdk-17-jre-headless), or set JAVA_HOME"
    )


def fetch_jars() -> None:
    stamp = JARS / f".ready-{VERSION}"
    if stamp.exists():
        return
    if not shutil.which("mvn"):
        raise Unavailable("Cassandra's jars come from Maven Central: install Maven (maven)")
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "pom.xml").write_text(POM)
    say(f"fetching Cassandra {VERSION}")
    goal = [f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
    command = ["mvn", "-B", "-q", *goal]
    try:
        subprocess.run(command, cwd=HOME, stdin=subprocess.DEVNULL, check=True, timeout=900)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise Unavailable("Maven could not fetch Cassandra's jars") from None
    stamp.touch()


def jmx_port(address: str) -> int:
    """The port of 127.0.0.1 for nodetool."""
    _, _, network, number = map(int, address.split("."))
    return 7200 + 10 * network + number


class Node:
    def __init__(self, number: int) -> None:
        self.number = number
        self.folder = HOME / f"node-{number}"
        self.address = f"{NETWORK}.{number}"
        self.log = self.folder / "system.log"
        self.is_secure = number == SECURE

    @property
    def pid(self) -> int | None:
        """Its process, if it runs, by its command, because process numbers are reused."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_text()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return pid if str(self.folder) in command and state != "Z" else None

    def answers(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex((self.address, PORT)) == 0

    def secured(self, program: Path) -> str:
        """Settings for TLS and a password, and the certificate."""
        keys, password = self.folder / "keys.p12", "kubist"
        keytool = [program.resolve().parent / "keytool", "-keystore", keys, "-storepass", password]
        name = ["-alias", "node", "-dname", "CN=kubist", "-ext", f"san=ip:{self.address}"]
        run(*keytool, "-genkeypair", "-keyalg", "RSA", "-validity", "3650", *name)
        run(*keytool, "-exportcert", "-alias", "node", "-rfc", "-file", self.folder / "ca.pem")
        return f"""\
authenticator: PasswordAuthenticator
client_encryption_options:
  enabled: true
  optional: false
  keystore: {keys}
  keystore_password: {password}
"""

    def configure(self, cluster: list[Node], program: Path) -> None:
        self.folder.mkdir(parents=True)
        token = -(2**63) + cluster.index(self) * 2**64 // len(cluster)
        seeds = ",".join(node.address for node in cluster)
        (self.folder / "cassandra.yaml").write_text(f"""\
cluster_name: kubist
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
num_tokens: 1
initial_token: "{token}"
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{seeds}"}}]
listen_address: {self.address}
rpc_address: {self.address}
native_transport_port: {PORT}
commitlog_sync: periodic
commitlog_sync_period: 10000ms
memtable_heap_space: 96MiB
memtable_offheap_space: 96MiB
file_cache_size: 32MiB
networking_cache_size: 16MiB
concurrent_compactors: 1
auto_snapshot: false
storage_compatibility_mode: NONE
disk_access_mode: mmap_index_only
{self.secured(program) if self.is_secure else ""}""")
        (self.folder / "logback.xml").write_text(f"""\
<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{self.log}</file>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
""")

    def start(self, program: Path) -> None:
        if self.pid:
            return
        options = {
            "cassandra.config": f"file://{self.folder}/cassandra.yaml",
            "logback.configurationFile": f"file://{self.folder}/logback.xml",
            "cassandra.storagedir": self.folder / "data",
            "cassandra.logdir": self.folder,
            "cassandra.triggers_dir": self.folder,
            "cassandra.jmx.local.port": jmx_port(self.address),
            "cassandra-foreground": "yes",
            # All nodes are local, and their tokens are fixed.
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 2000,
            "cassandra.superuser_setup_delay_ms": 0,
            "cassandra.skip_sync": "true",
            "jdk.attach.allowAttachSelf": "true",
            "io.netty.tryReflectionSetAccessible": "true",
        }
        command = [str(program), "-Xms64m", "-Xmx384m", "-Xss256k", "-XX:MaxDirectMemorySize=256m"]
        command += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        for kind, modules in [("exports", EXPORTS), ("opens", OPENS)]:
            for module, packages in modules.items():
                command += [f"--add-{kind}={module}/{package}=ALL-UNNAMED" for package in packages]
        command += [f"-javaagent:{jar}" for jar in JARS.glob("jamm-*.jar")]
        command += [f"-D{name}={value}" for name, value in options.items()]
        jars = [f"{JARS}/*", *([f"{PLUGINS}/*"] if PLUGINS else [])]
        command += ["-cp", ":".join(jars), "org.apache.cassandra.service.CassandraDaemon"]
        if os.geteuid() == 0 and shutil.which("setpriv"):
            # Otherwise it locks its whole heap into memory.
            command = ["setpriv", "--bounding-set=-ipc_lock", *command]
        with open(self.folder / "output", "w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(process.pid))

    def wait_for_answers(self) -> None:
        begin = time.monotonic()
        while not self.answers():
            if self.has_ended():
                output = (self.folder / "output").read_text().splitlines()[-15:]
                raise Failed("\n".join([f"node {self.number} ended:", *output]))
            if time.monotonic() - begin > PATIENCE:
                raise Failed(f"node {self.number} does not respond; see {self.folder}/system.log")
            time.sleep(0.1)

    def wait_for_user(self) -> None:
        """Waits for its default user, which it creates at the start."""
        begin = time.monotonic()
        while "Created default superuser role" not in self.log.read_text(errors="replace"):
            if time.monotonic() - begin > PATIENCE:
                raise Failed(f"node {self.number} does not create its user; see {self.log}")
            time.sleep(0.1)

    def has_ended(self) -> bool:
        """Checks twice, because a process has no command between two programs."""
        for _ in range(2):
            if self.pid:
                return False
            time.sleep(0.3)
        return True

    def wait_for_peers(self, others: int) -> None:
        """Waits until it has seen the other nodes up since its start."""
        begin = time.monotonic()
        while time.monotonic() - begin < PATIENCE:
            log = self.log.read_text(errors="replace")
            since = log[log.rfind("Cassandra version: ") :]
            if len(set(re.findall(r"/(127\.\d+\.\d+\.\d+):\d+ is now UP", since))) >= others:
                return
            time.sleep(0.1)
        raise Failed(f"node {self.number} does not see the others; see {self.folder}/system.log")

    def end(self, how: signal.Signals) -> None:
        pid = self.pid
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        begin = time.monotonic()
        while self.pid:
            if time.monotonic() - begin > 30:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def nodes() -> list[Node]:
    numbers = (int(folder.name.split("-")[1]) for folder in HOME.glob("node-*"))
    return [Node(number) for number in sorted(numbers)]


def members() -> list[Node]:
    return [node for node in nodes() if not node.is_secure]


def up(count: int) -> None:
    known = members()
    if known and len(known) != count:
        raise Failed(f"a cluster of {len(known)} nodes exists: run cassandra.py down first")
    program = java()
    fetch_jars()
    cluster = known or [Node(number) for number in range(1, count + 1)]
    begin = time.monotonic()
    for node in cluster:
        if not known:
            if node.answers():
                raise Failed(f"another process listens on {node.address}:{PORT}")
            node.configure(cluster, program)
        node.start(program)
    for node in cluster:
        node.wait_for_answers()
        node.wait_for_peers(count - 1)
    hosts = ",".join(node.address for node in cluster)
    say(
        f"{count} nodes are up after {time.monotonic() - begin:.1f} s: cassandra://{hosts}/KEYSPACE/TABLE"
    )


def up_secure() -> None:
    program = java()
    fetch_jars()
    node, begin = Node(SECURE), time.monotonic()
    if not node.folder.exists():
        node.configure([node], program)
    node.start(program)
    node.wait_for_answers()
    node.wait_for_user()
    location = f"cassandra://cassandra:cassandra@{node.address}/KEYSPACE/TABLE?tls=on"
    took = time.monotonic() - begin
    say(f"the secure node is up after {took:.1f} s: {location}&ca={node.folder}/ca.pem")


def down() -> None:
    for node in nodes():
        node.end(signal.SIGKILL)
        shutil.rmtree(node.folder, ignore_errors=True)


def status() -> Iterator[str]:
    for node in nodes():
        word = "up" if node.answers() else "starting"
        state = f"{word}, process {node.pid}" if node.pid else "down"
        yield f"node {node.number}  {node.address}  {state}"


def one(number: int) -> Node:
    for node in nodes():
        if node.number == number:
            return node
    raise Failed(f"there is no node {number}")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up_parser = commands.add_parser("up")
    up_parser.add_argument("--nodes", type=int, default=3, choices=range(1, SECURE))
    up_parser.add_argument("--secure", action="store_true")
    for name in ["down", "status"]:
        commands.add_parser(name)
    for name in ["kill", "stop", "start"]:
        commands.add_parser(name).add_argument("number", type=int)
    options = parser.parse_args()
    try:
        match options.command:
            case "up" if options.secure:
                up_secure()
            case "up":
                up(options.nodes)
            case "down":
                down()
            case "status":
                say("\n".join(status()) or "no cluster")
            case "kill":
                one(options.number).end(signal.SIGKILL)
            case "stop":
                one(options.number).end(signal.SIGTERM)
            case "start":
                node = one(options.number)
                node.start(java())
                node.wait_for_answers()
                if not node.is_secure:
                    node.wait_for_peers(sum(other.answers() for other in members()) - 1)
    except Failed as error:
        print(error, file=sys.stderr)
        return NOT_TO_BE_HAD if isinstance(error, Unavailable) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
