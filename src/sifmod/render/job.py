"""A job script: Slurm runs a Python script or another program in the container of a module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Optional

from sifmod import names
from sifmod.container.naming import MODULE_NAME
from sifmod.errors import JobError
from sifmod.render.templates import render_template
from sifmod.site.server import Server, check_path, check_places
from sifmod.site.settings import Site
from sifmod.text.printable import STEERING, printable

# What starts the command in each task.
SRUN, TORCHRUN, PROGRAM = "srun", "torchrun", "program"
# Each with the runscript that it starts in the container; a program needs none.
LAUNCHERS = {SRUN: "conda-python-distributed", TORCHRUN: "torchrun-distributed", PROGRAM: ""}

# sbatch(1), --time
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}")
# A word that needs no quotes in an #SBATCH line; a comma separates partitions.
_SLURM_NAME = re.compile(r"[A-Za-z0-9_.@+][A-Za-z0-9_.@+,-]*")


@dataclass(frozen=True)
class Job:
    """What a job runs, and the resources that it requests from Slurm."""

    module: str  # name of the container's module, as for `module load`
    # the Python script with its arguments, or options of Python such as `-m`; or a program of the container
    command: tuple[str, ...]
    nodes: int = 1
    gpus_per_node: int = 0  # GPUs on each node; 0 requests none
    processes_per_node: int = 0  # processes on each node; 0 means one for each GPU, or one without GPUs
    # CPU cores of each process; 0 means as many as in the site's masks if they fit, else Slurm's default
    cpus_per_process: int = 0
    # `srun` starts every process of Python; `torchrun` is started once on each node and starts the others; `program`
    # starts the command itself in every task
    launcher: str = SRUN
    time: str = "1:00:00"  # time limit in a format of sbatch
    partition: str = ""  # partition; empty for the site's if GPUs are requested, else Slurm's default
    account: str = ""  # account; empty for the site's
    pyxis: bool = False  # whether Slurm's plugin pyxis starts the container, with enroot, instead of a runtime for SIFs
    is_wrapper: bool = False  # whether the command is a host command of the module; for `program` only
    gpu: str = ""  # vendor of the GPUs that the container is for; empty for the site's
    server: Optional[Server] = None  # the command is one that serves a model, started by the runscript `serve`
    health: str = ""  # path at which the server says that it is ready; empty for that of its row
    batch: str = ""  # file of requests that the server answers in the job, which then ends; empty for none


def render_job(job: Job, site: Site) -> str:
    """Return the job script, ready for `sbatch` on the cluster with these settings, which may be another one.

    Raises:
        JobError: a value is invalid; the message says which and why.
    """
    _check(job)
    if job.pyxis and not site.squashfs_runtimes:
        raise JobError(
            f"the site '{site.name}' does not have enroot, with which pyxis starts containers: leave --pyxis out, or "
            'set runtimes = ["apptainer", "enroot"] in its file, or SIFMOD_RUNTIMES'
        )
    processes = job.processes_per_node or job.gpus_per_node or 1
    is_whole_node = bool(site.cpu_bind_masks) and processes == job.gpus_per_node == len(site.cpu_bind_masks)
    cores = sorted({bin(int(mask, 16)).count("1") for mask in site.cpu_bind_masks}) if is_whole_node else []
    cpus = job.cpus_per_process or (cores[-1] if cores else 0)
    is_torchrun = job.launcher == TORCHRUN
    # one task on each node, with all of its GPUs and cores
    is_one = is_torchrun or bool(job.server)
    return render_template(
        "sbatch",
        job=job,
        site=site,
        name=_job_name(job),
        partition=_slurm_name("partition", job.partition, _sites_partition(job, site)),
        account=_slurm_name("account", job.account, site.slurm_account),
        processes=processes,
        tasks=1 if is_one else processes,
        cpus_per_task=cpus * processes if is_one else cpus,
        masks=site.cpu_bind_masks if is_whole_node and not is_one else (),
        unused_masks=bool(site.cpu_bind_masks and job.gpus_per_node and not is_whole_node and not is_one),
        is_torchrun=is_torchrun,
        runscript=LAUNCHERS[job.launcher],
        serve=_serve_words(job, job.server, site) if job.server else (),
        command=(*job.command, *job.server.arguments.split()) if job.server else job.command,
        # by its whole path: srun would take a program of the host that has the name of the command
        with_environment=f"{names.RUNSCRIPTS}/with-environment",
    )


def _serve_words(job: Job, server: Server, site: Site) -> list[str]:
    """Return the options of the runscript `serve`, and check what it starts."""
    if job.launcher != PROGRAM or job.processes_per_node not in (0, 1):
        raise JobError("--serve starts one program on each node: leave --launcher and --tasks-per-node out")
    if re.fullmatch(r"[^/]+\.py", job.command[0]):
        raise JobError(f"--serve starts a program, and '{job.command[0]}' is none: write python {job.command[0]}")
    try:
        health = check_path(job.health or server.health)
    except ValueError as error:
        raise JobError(f"--health: {error}") from error
    if server.name:
        server.check(job.command)
    else:
        check_places(job.command)
    if job.nodes > 1 and server.name and not server.several:
        raise JobError(f"{server.name} does not serve a model on several nodes: leave --nodes out")
    given = {
        "server": server.name,
        "model": server.name_of(job.command),
        "health": health,
        "limit": site.serve_timeout,
        "nodes": job.nodes,
        "key-variable": server.key_variable,
        "key-config": server.key_config,
        "batch": job.batch,
    }
    if job.nodes > 1:
        given.update({name: getattr(server, name) for name in ("several", "others", "head", "oldest", "member")})
    flags = {"keyless": server.keyless, "any-address": site.serve_any_address, "offline": site.offline_nodes}
    return [
        *(f"--{name}={value}" for name, value in given.items() if value),
        *(f"--variable={one}" for one in (server.variables if job.nodes > 1 else ())),
        *(f"--{name}" for name, is_set in flags.items() if is_set),
    ]


def _check(job: Job) -> None:
    if not MODULE_NAME.fullmatch(job.module):
        raise JobError(
            f"'{job.module}' is not the name of a module: write it as for 'module load', such as NAME/VERSION"
        )
    if not job.command or not job.command[0]:
        raise JobError("there is nothing to run: write the script or program and its arguments after --")
    for word in (*job.command, job.batch):
        if STEERING.search(word):
            raise JobError(
                f"'{printable(word)}' has a character that controls a terminal, so the printed script would have "
                "another argument: leave it out, or let the program read it from a file"
            )
    if job.launcher not in LAUNCHERS:
        raise JobError(f"'{job.launcher}' is not a launcher: use {' or '.join(LAUNCHERS)}")
    for value, least, what in (
        (job.nodes, 1, "nodes"),
        (job.gpus_per_node, 0, "GPUs on each node"),
        (job.processes_per_node, 0, "processes on each node"),
        (job.cpus_per_process, 0, "CPU cores of each process"),
    ):
        if value < least:
            raise JobError(f"{value} is not a number of {what}: use {least} or more")
    if not _TIME.fullmatch(job.time):
        raise JobError(
            f"'{job.time}' is not a time limit of Slurm: write minutes, 'hours:minutes:seconds' or 'days-hours'"
        )


def fetching(job: Job, site: Site) -> str:
    """Return what users type on a login node so that a server of a model has it where nodes have no network; or ''."""
    model = job.server.model_of(job.command) if job.server and site.offline_nodes else ""
    # ORGANISATION/NAME of a hub, which is no path of this cluster
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", model):
        return ""
    return f"module load {job.module}; in-container hf download {model}"


def _sites_partition(job: Job, site: Site) -> str:
    if not job.gpus_per_node or job.partition:
        return ""
    found, vendor = site.partition(job.gpu), job.gpu or site.gpu
    if not found and not isinstance(site.slurm_partition, str) and site.slurm_partition:
        which = f"GPUs of '{vendor}'" if vendor else "a module that does not say which GPUs it is for"
        named = ", ".join(f"{key}: {name}" for key, name in site.slurm_partition.items())
        raise JobError(f"the site '{site.name}' names no partition for {which} ({named}): add --partition")
    return found


def _slurm_name(what: str, own: str, sites: str) -> str:
    name = own or sites
    if name and not _SLURM_NAME.fullmatch(name):
        where = f"--{what}" if own else f"slurm_{what} of the site"
        raise JobError(f"'{name}' can't be the name of Slurm's {what}: correct {where}")
    return name


def _job_name(job: Job) -> str:
    """Return a name for the job queue: the script's, or the module's if there is no script."""
    scripts = [word for word in job.command if not word.startswith("-")]
    if not scripts or "-c" in job.command[: job.command.index(scripts[0])]:
        return job.module.partition("/")[0]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePosixPath(scripts[0]).name)
    return re.sub(r"\.py$", "", name).strip("_.-")[:40] or job.module.partition("/")[0]
