"""Slurm on one node: a job that runs out of time leaves its steps on permanent storage."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from libkubist import ROOT, built, install, need, run

import kubist

pytestmark = pytest.mark.release

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=bf_interval=2,sched_interval=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
PartitionName=main Nodes=n1 Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    need("munged", "slurmctld", "slurmd", "sbatch")
    if os.geteuid() != 0:
        pytest.skip("Slurm is started by root here")
    folder = tmp_path / "slurm"
    for part in ("state", "spool"):
        (folder / part).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    text = CONFIGURATION.format(host=socket.gethostname(), folder=folder, ports=free_ports(2))
    configuration.write_text(text)
    environment = os.environ | {"SLURM_CONF": str(configuration)}
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket"]
    munge += [f"--key-file={key}", f"--pid-file={folder}/munged.pid"]
    munge += [f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
    commands = [munge, ["slurmctld", "-D", "-f", configuration]]
    commands += [["slurmd", "-D", "-N", "n1", "-f", configuration]]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as output:
                daemon = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            daemons.append(daemon)
        until(lambda: "idle" in asked(environment, "sinfo", "-h", "-o", "%T"))
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(60)


def asked(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_job_that_runs_out_of_time_is_drained(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    need("mpicc.openmpi", "mpirun.openmpi")
    prefix, program = install(tmp_path / "prefix"), tmp_path / "droplets"
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    source = ROOT / "examples/simulations/droplets.c"
    run("mpicc.openmpi", "-std=c11", source, "-o", program, *link)
    programs, scratch, keep = tmp_path / "bin", tmp_path / "scratch", tmp_path / "keep"
    for folder in (programs, scratch, keep):
        folder.mkdir()
    mpirun, command = shutil.which("mpirun.openmpi"), built() / "kubist"
    (programs / "mpirun").symlink_to(str(mpirun))
    (programs / "kubist").symlink_to(command)
    variables = cluster | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SCRATCH": str(scratch),
        "KEEP": str(keep),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        # One node: ranks start without a resource manager.
        "OMPI_MCA_plm": "isolated",
        "OMPI_MCA_ras": "^slurm",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    output = tmp_path / "job.out"
    limits = ["--time=1", "--signal=B:USR1@50", f"--output={output}", f"--chdir={tmp_path}"]
    script = ROOT / "examples/slurm/droplets.sh"
    told = run("sbatch", "--parsable", *limits, script, program, 10**9, 100, env=variables)
    job = told.strip().split(";")[0]
    until(lambda: not asked(cluster, "squeue", "-h", "-j", job).strip())
    state = asked(cluster, "scontrol", "show", "job", job)
    said = output.read_text()
    assert "JobState=COMPLETED" in state, state + said
    assert "the time is nearly up" in said
    kept = kubist.open(keep / f"droplets-{job}.kubist")
    steps = kept.snapshot().complete_steps()
    assert list(steps) == list(range(1, max(steps) + 1))
    assert len(kept) == 200 * max(steps)

