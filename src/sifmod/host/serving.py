"""Servers of models that jobs of this user run: what their runscript has written down, and whether they answer."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sifmod.errors import CommandError, SifmodError, os_errors
from sifmod.host.command import LOOK, Result, run

FOLDER = ".local/state/sifmod/serve"

# States of a server: it has not answered yet, it answers, it no longer does, only its node reaches it, its job is gone.
STARTING, READY, SILENT, ON_NODE, GONE = "starting", "ready", "silent", "on its node", "gone"

_SUFFIXES = ("json", "key", "yaml", "ports", "new", "key.new")
# A server that has not answered within the longest `serve_timeout` has ended.
_LONGEST_SILENCE = 86_400
_LARGEST = 64 << 10  # bytes of a file; a model's name and some paths
_MOST_FIELD = 8192
_URL = re.compile(r"http://([A-Za-z0-9._-]+):([0-9]{1,4}|[1-5][0-9]{4})")
_PATH = re.compile(r"/[!-~]*")
_SECONDS = 3.0
_BETWEEN = 15.0  # seconds between two questions to Slurm


@dataclass(frozen=True)
class Serving:
    """One server, as its runscript `serve` has written it down; one that has not answered yet has a job alone."""

    job: str  # Slurm's number of its job
    url: str = ""  # http://HOST:PORT
    key_file: str = ""  # the file with its key; empty if it checks none
    node: str = ""
    health: str = ""  # path at which it says that it is ready
    model: str = ""  # empty if the command names none
    module: str = ""
    since: str = ""  # when it answered first, in ISO 8601
    cluster: str = ""  # Slurm's name of the cluster, which shares the home with others; empty if it told none


@contextmanager
def opened_folder(home: Path) -> Iterator[int]:
    """Yield a descriptor of the folder of a user's servers, -1 if there is none.

    Raises:
        SifmodError: it is another user's, or others may change it: what is in it is not believed.
    """
    path = home / FOLDER
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield -1
        return
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            whose = "leads to a folder of another user" if path.is_symlink() else "belongs to another user"
            problem = "can be written to by others" if status.st_uid == os.geteuid() else whose
            raise SifmodError(f"'{path}' {problem}, so what it says of your servers is not used: move it away")
        yield descriptor
    finally:
        os.close(descriptor)


def servings(folder: int) -> tuple[list[Serving], list[str], list[str]]:
    """Return the servers in an open folder, files that `serve` did not write so, and jobs that have only made a key."""
    found, damaged, unready = [], [], []
    written: dict[str, set[str]] = {}
    for name in os.listdir(folder):
        job, dot, suffix = name.partition(".")
        if dot and suffix in _SUFFIXES and re.fullmatch(r"[0-9]{1,10}", job):
            written.setdefault(job, set()).add(suffix)
    for job in sorted(written, key=lambda text: (len(text), text)):
        if "json" not in written[job]:
            unready.append(job)
            continue
        try:
            found.append(_read(folder, job))
        except FileNotFoundError:  # its job has ended meanwhile
            continue
        except (OSError, ValueError, RecursionError):
            damaged.append(f"{job}.json")
    return found, damaged, unready


def is_left(job: str, folder: int) -> bool:
    """Return whether a key is of a server that never answered; a younger one may be of another cluster's job."""
    times = []
    for suffix in _SUFFIXES:
        with suppress(OSError):
            times.append(os.stat(f"{job}.{suffix}", dir_fd=folder, follow_symlinks=False).st_mtime)
    return bool(times) and time.time() - max(times) > _LONGEST_SILENCE


def _read(folder: int, job: str) -> Serving:
    descriptor = os.open(f"{job}.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError(job)
        text = stream.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ValueError(job)
        content: Any = json.loads(text.decode(errors="replace"))
    names = ("url", "key_file", "node", "health", "model", "module", "since", "cluster")
    if not isinstance(content, Mapping) or not all(
        isinstance(content.get(name), str) and len(content[name]) < _MOST_FIELD for name in names
    ):
        raise ValueError(job)
    if not _URL.fullmatch(content["url"]) or not _PATH.fullmatch(content["health"]):
        raise ValueError(job)
    return Serving(job, **{name: content[name] for name in names})


def key_problem(serving: Serving, folder: int) -> str:
    """Return what is wrong with the file of a key: others must not read it; empty if nothing is."""
    if not serving.key_file:
        return ""
    try:
        status = os.stat(f"{serving.job}.key", dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        return f"'{serving.key_file}': {error.strerror}"
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return f"'{serving.key_file}' is not a file of yours: stop this server"
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"others can read '{serving.key_file}': stop this server, whose key they may know"
    return ""


def _slurm(*command: str) -> Result:
    # these variables choose among the jobs and clusters, or ask before a job is ended
    own = ("SQUEUE_", "SCANCEL_", "SLURM_CLUSTERS")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environ["SLURM_BITSTR_LEN"] = "0"  # all elements of an array are named
    return run(command, env=environ, time_limit=LOOK)


@dataclass(frozen=True)
class SlurmJob:
    """A job that Slurm knows."""

    name: str  # as `scancel` takes it: the number of one element of an array may be that of the array too
    waits: str = ""  # the reason why it is in the queue; empty if it is not


def jobs_of_user() -> Mapping[str, SlurmJob]:
    """Return the jobs of this user that Slurm knows, by number.

    Raises:
        SifmodError: Slurm does not answer, so that nothing is known.
    """
    try:
        done = _slurm("squeue", "--all", "--noheader", "--format=%A %i %t %r", f"--user={os.geteuid()}")
    except CommandError as error:
        raise SifmodError(f"Slurm can't be asked which jobs run: {error}") from error
    if done.status:
        raise SifmodError(f"Slurm can't be asked which jobs run: {done.last_lines}")
    found = re.findall(r"(?m)^(\d+) (\S+) (?:PD (.*))?", done.stdout)
    return {number: SlurmJob(name, waits) for number, name, waits in found}


def this_cluster() -> str:
    """Return Slurm's name of this cluster; empty if it tells none."""
    try:
        done = _slurm("scontrol", "show", "config")
    except CommandError:
        return ""
    found = re.search(r"(?m)^ClusterName\s*=\s*(\S+)", done.stdout)
    return found[1] if found else ""


def state_of(serving: Serving, jobs: Container[str], *, cluster: str) -> str:
    """Return the state of a server, asked at its health path without its key; redirects are not followed.

    Of the jobs of another cluster nothing is known here, so only those of this one can be gone.
    """
    if serving.job not in jobs and serving.cluster in ("", cluster):
        return GONE
    host, port = serving.url.partition("://")[2].split(":")
    here = os.environ.get("SLURMD_NODENAME", os.uname().nodename.partition(".")[0])
    if not serving.key_file and serving.node != here:
        return ON_NODE
    connection = http.client.HTTPConnection(host, int(port), timeout=_SECONDS)

    def give_up() -> None:
        if connection.sock:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    # the time-out is for each piece of an answer
    clock = threading.Timer(2 * _SECONDS, give_up)
    clock.start()
    try:
        connection.request("GET", serving.health)
        return READY if connection.getresponse().status // 100 == 2 else SILENT
    except (OSError, http.client.HTTPException, ValueError):
        return SILENT
    finally:
        clock.cancel()
        connection.close()


def output_of(job: str) -> str:
    """Return the file with the output of a job, in quotes, or words that stand for it if Slurm does not tell."""
    with suppress(CommandError):
        found = re.search(r"(?m)^\s*StdOut=(.+)$", _slurm("scontrol", "show", "job", job).stdout)
        if found:
            return f"'{found[1]}'"
    return "the job's output"


def number_of(job: str, jobs: Mapping[str, SlurmJob]) -> str:
    """Return the number of a job, which may be named as an element of an array; empty if Slurm does not know it."""
    found = next((number for number, one in jobs.items() if job in (number, one.name)), "")
    # elements that are in the queue have the number of their array, as in 7_[1-3,5-9:2%4]
    array, _, element = job.partition("_")
    if found or not element or array not in jobs:
        return found
    listed = jobs[array].name.partition("[")[2].partition("%")[0]
    for first, last, step in re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", listed):
        if int(element) in range(int(first), int(last or first) + 1, int(step or 1)):
            return array
    return ""


def queued_server(job: str) -> str:
    """Return how `scancel` names a job that waits in the queue to serve a model; empty if it is not such a job."""
    jobs = jobs_of_user()
    number = number_of(job, jobs)
    if not number or not jobs[number].waits:
        return ""
    script = _slurm("scontrol", "write", "batch_script", number, "-").stdout
    return _to_end(job, jobs[number]) if f"~/{FOLDER}/" in script else ""


def _to_end(job: str, found: SlurmJob) -> str:
    """Return how `scancel` names a job: one element of an array is not all that wait."""
    return job if "_" in job else found.name


def lacking(job: str, jobs: Mapping[str, SlurmJob]) -> str:
    """Return why a job has no server that answers."""
    found = jobs.get(number_of(job, jobs))
    if not found:
        return f"job {job} is over, or not yours: see {output_of(job)}"
    if found.waits:
        reason = "" if found.waits == "None" else f" ({found.waits})"
        return f"job {job} is in the queue{reason}; to take it out, scancel {_to_end(job, found)}"
    return f"job {job} runs, and no server of it answers, or not yet: see {output_of(job)}"


def wait(job: str, home: Path, say: Callable[[str], object]) -> None:
    """Return when the server of a job has answered, or had done so before; say what is waited for.

    Raises:
        SifmodError: the job has ended before, or the folder of servers is not used.
    """
    asked, said, number = -_BETWEEN, "", job
    while True:
        with opened_folder(home) as folder:
            if folder >= 0 and any(one.job == number for one in servings(folder)[0]):
                return
        if time.monotonic() - asked >= _BETWEEN:
            jobs = jobs_of_user()
            told, number = lacking(job, jobs), number_of(job, jobs)
            if not number:
                raise SifmodError(told)
            if told != said:
                say(told)
            said = told
            asked = time.monotonic()
        time.sleep(1)


def forget(job: str, folder: int) -> None:
    """Remove the files of a server whose job is gone.

    Raises:
        SifmodError: one can't be removed.
    """
    for suffix in _SUFFIXES:
        name = f"{job}.{suffix}"
        problem = f"'{Path.home() / FOLDER / name}' of job {job}, which is gone, can't be removed"
        with os_errors(SifmodError, problem), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def stop(job: str) -> None:
    """End the job of a server, named as Slurm does.

    Raises:
        SifmodError: Slurm refuses.
    """
    done = _slurm("scancel", job)
    if done.status:
        raise SifmodError(f"job {job} can't be ended: {done.last_lines}")
