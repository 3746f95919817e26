"""Tests MPI in a container, without compiler and without mpi4py.

    mpi_check.py [--library FILE] [--time-limit SECONDS] [--json]

Each rank loads the MPI library with ctypes; neighbours exchange messages. Task 0 prints the library, whether it is the
host's or the image's, the ranks with their hosts, and latency and bandwidth between neighbours. If MPI does not work,
the reason and the remedy go to standard error.

Exit status: 0 if all ranks exchanged messages; 1 if they could not: each rank is alone, MPI failed, or did not end
within the time limit; 2 if an option is wrong, or if there is no MPI library.

A library that hangs in C can't be interrupted from within: it runs in a child, which its parent watches.
"""

import argparse
import ctypes
import json
import os
import re
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Optional

WORKS, BROKEN, UNUSABLE = 0, 1, 2

USER_SOFTWARE = "/user-software"

MPICH, OPEN_MPI, STANDARD = "MPICH", "Open MPI", "MPI-5"

# The names that programs need the libraries of a family by; Debian has another one for MPICH's.
SONAMES = {MPICH: ("libmpi.so.12", "libmpich.so.12"), OPEN_MPI: ("libmpi.so.40",), STANDARD: ("libmpi_abi.so.1",)}
# The MPI-5 ABI last, because a library that has it mostly has its own ABI too.
LIBRARIES = ("libmpi.so.12", "libmpi.so.40", "libmpich.so.12", "libmpi.so", "libmpi_abi.so.1", "libmpi_abi.so.0")

# The first MPICH whose ranks wait for each other before they close their connections, and not after (row 7 of
# docs/howto/run-mpi.md).
MPICH_WAITS_FIRST = (4, 2)

# The variables that let ranks in different user namespaces share memory (docs/howto/run-mpi.md): UCX's, and those that
# keep UCX, or a library itself, from copying between processes.
UCX_LINKS = ("UCX_POSIX_USE_PROC_LINK", "n")
UCX_COPIES = ("UCX_TLS", "^cma")
_MPICH_COPIES = ("MPIR_CVAR_CH4_CMA_ENABLE", "0")
COPIES = {
    MPICH: _MPICH_COPIES,
    OPEN_MPI: ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
    STANDARD: _MPICH_COPIES,
    "": _MPICH_COPIES,
}

# Of each ABI the type of its handles, MPI_COMM_WORLD, MPI_BYTE and MPI_STATUS_IGNORE: from mpi.h of MPICH 3.0 to 5.0,
# whose ABI MPICH, Intel MPI, Cray MPICH and MVAPICH share, and from mpi_abi.h of MPICH 5.0 (MPI 5.0, appendix A). Open
# MPI's handles are addresses of objects in the library.
HANDLES = {
    MPICH: (ctypes.c_int, 0x44000000, 0x4C00010D, 1),
    OPEN_MPI: (ctypes.c_void_p, "ompi_mpi_comm_world", "ompi_mpi_byte", 0),
    STANDARD: (ctypes.c_void_p, 0x101, 0x247, 0),
}  # type: dict[str, Any]

SMALL, LARGE = 8, 1 << 20  # bytes of a message: for the latency, and for the bandwidth
SMALL_ROUNDS, LARGE_ROUNDS = 100, 10
RECORD = 4096  # bytes that each rank tells task 0
VERSION = 8192  # MPI_MAX_LIBRARY_VERSION_STRING of MPICH and of the MPI-5 ABI, the longest
MOST_KEPT = 1 << 16  # bytes of the library's last error messages

# Libraries for networks and shared memory: which of them were loaded says what MPI may have used.
TRANSPORTS = re.compile(
    r"lib(?:ucp|uct_\w+|fabric|cxi|efa|ibverbs|mlx5|opx|psm2?|psm_infinipath|portals|xpmem|gdrapi|knem|sharp\w*|\w+-fi)"
    r"(?=[.-])"
)
SETTINGS = re.compile(
    r"UCX_TLS|UCX_NET_DEVICES|FI_PROVIDER|MPIR_CVAR_CH4_NETMOD|MPICH_OFI_NIC_\w+|OMPI_MCA_(pml|btl|mtl)"
)

# What Slurm, PMIx, Cray's PALS and Hydra set for the ranks that they start.
_STARTED_BY = (
    ("PMIX_NAMESPACE", "PMIx"),
    ("PALS_RANKID", "Cray PALS"),
    ("PMI_CONTROL_PORT", "Cray PMI"),
    ("PMI_FD", "PMI-1 or PMI-2"),
    ("PMI_PORT", "PMI-1"),
)

# What a library prints if the kernel keeps the memory of a rank from another one in another user namespace.
_APART = (
    (
        re.compile(r"process_vm_(?:read|write)v|Read -1, expected \d+, errno"),
        "a rank may not read the memory of another rank",
    ),
    (
        re.compile(r"/proc/\d+/fd/\d+.*Permission denied|Shared memory error"),
        "UCX may not open the shared memory of another rank",
    ),
)
_MPICH_VERSION = re.compile(r"MPICH Version:\s*(\S+)")
_DEVICE = re.compile(r"MPICH Device:\s*(\S.*)")
_NAMED_VERSION = re.compile(
    r"(?:CRAY MPICH version|Intel\(R\) MPI Library|MVAPICH2?(?:-\w+)? Version\s*:|Open MPI v) *(\S+?)(?=[,\s]|$)"
)
_UNREACHED = re.compile(r"not built with SLURM'?s? PMI|PMIx_Init failed|PML add procs failed|OPAL ERROR: Unreachable")
_UCX_READS = re.compile(r"cma_ep\.c|uct_cma")  # UCX itself, not MPICH, read the other's memory


class UnusableError(Exception):
    """There is nothing that can be tested."""


def is_in_user_namespace(uid_map: str) -> bool:
    """Return whether a process with this `/proc/self/uid_map` is in a user namespace of its own."""
    return uid_map.split() != ["0", "0", "4294967295"]


def own_uid_map() -> str:
    """Return `/proc/self/uid_map`, or that of a process without a namespace if the kernel has none."""
    try:
        with open("/proc/self/uid_map") as stream:
            return stream.read()
    except OSError:
        return "0 0 4294967295"


def tasks_of(environ: "Mapping[str, str]") -> int:
    """Return the number of ranks that the process manager started, as far as it says; 1 without one."""
    names = ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        names.append("SLURM_NTASKS")
    return max([1, *(int(environ[name]) for name in names if environ.get(name, "").isdigit())])


def task_of(environ: "Mapping[str, str]") -> int:
    """Return which of these this process is; 0 without a process manager."""
    found = (environ.get(name, "") for name in ("SLURM_PROCID", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"))
    return int(next((text for text in found if text.isdigit()), "0"))


def started_by(environ: "Mapping[str, str]") -> str:
    """Return the process manager interface of the ranks; empty if they have none."""
    return next((words for name, words in _STARTED_BY if name in environ), "")


def why_ranks_are_alone(size: int, environ: "Mapping[str, str]", abi: str) -> str:
    """Return why the ranks do not know each other, and the remedy; empty if they do."""
    tasks = tasks_of(environ)
    if size >= tasks:
        return ""
    said = f"{tasks} tasks were started, but MPI sees {size} rank{'' if size == 1 else 's'} in each"
    remedy = "srun --mpi=pmix" if abi == OPEN_MPI else "srun --mpi=pmi2, or what 'srun --mpi=list' offers"
    if not started_by(environ):
        return f"{said}: they were started without PMI, through which ranks find each other. Use {remedy}"
    return f"{said}: the library does not understand {started_by(environ)}. Use {remedy}"


def advice(output: str, environ: "Mapping[str, str]", uid_map: str, abi: str) -> "list[str]":
    """Return why MPI failed or hangs, as far as the output tells it, each with a remedy; an ABI may be unknown."""
    reasons = [reason for sign, reason in _APART if sign.search(output)]
    settings = dict([UCX_LINKS, COPIES[abi]])
    if _UCX_READS.search(output):
        settings.update([UCX_COPIES])
    unset = [f"{name}={value}" for name, value in settings.items() if name not in environ]
    remedy = f". Set {' and '.join(unset)}" if unset else ""
    if reasons:
        return [f"{' and '.join(reasons)}, because each has a user namespace of its own{remedy}"]
    found = []
    tasks, manager = tasks_of(environ), started_by(environ)
    if tasks > 1 and not manager:
        found.append("the tasks were started without PMI. Use srun --mpi=pmi2 for MPICH, srun --mpi=pmix for Open MPI")
    elif tasks > 1 and ((abi == OPEN_MPI and manager != "PMIx") or _UNREACHED.search(output)):
        found.append(
            f"the library may not understand {manager}: Open MPI needs PMIx (srun --mpi=pmix), MPICH mostly PMI"
        )
    if tasks > 1 and is_in_user_namespace(uid_map) and unset:
        found.append(f"each rank has a user namespace of its own, so shared memory may fail{remedy}")
    return found


def leaves_ranks_behind(told: "Mapping[str, Any]") -> bool:
    """Return whether a rank that hangs at the end most likely waits for ranks that wait for it in turn.

    MPICH before `MPICH_WAITS_FIRST` calls a barrier of PMI after it has closed its connections, in which it no longer
    answers ranks that still close theirs over UCX's tcp (pmodels/mpich, pull request 6596; docs/howto/run-mpi.md has
    measurements).
    """
    version = re.match(r"MPICH (\d+)\.(\d+)", told.get("mpi", ""))
    is_old = version is not None and (int(version.group(1)), int(version.group(2))) < MPICH_WAITS_FIRST
    return is_old and "ucx" in told.get("device", "") and told.get("stage") == "MPI_Finalize"


def version_of(text: str) -> "tuple[str, str]":
    """Return name with version, and device, from what MPI_Get_library_version says."""
    device, mpich, named = _DEVICE.search(text), _MPICH_VERSION.search(text), _NAMED_VERSION.search(text)
    if named:
        version = named.group(0)
    elif mpich:
        version = f"MPICH {mpich.group(1)}"
    else:
        version = text.strip().partition("\n")[0][:80]
    version = re.sub(r"\s+", " ", version.replace("Open MPI v", "Open MPI "))
    return version, device.group(1).strip() if device else ""


def mount_of(path: str, mountinfo: "Iterable[str]") -> str:
    """Return the mount point that a path is on (proc(5): the fifth word of a line, with octal escapes)."""
    best = "/"
    for line in mountinfo:
        words = line.split()
        if len(words) > 4:
            point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), words[4])
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best = point
    return best


def origin_of(path: str, mountinfo: "Iterable[str]") -> str:
    """Return whose a file in the container is: the image's, the host's, or that of the user software."""
    if path.startswith(USER_SOFTWARE + "/"):
        return "user software"
    return "image" if mount_of(path, mountinfo) == "/" else "host"


def loaded_files() -> "list[str]":
    """Return the libraries that this process has mapped, in order, without duplicates."""
    with open("/proc/self/maps") as stream:
        paths = [line.split(None, 5)[5].strip() for line in stream if line.count("/") and len(line.split(None, 5)) > 5]
    return list(dict.fromkeys(path for path in paths if ".so" in path))


def candidates(library: str, environ: "Mapping[str, str]") -> "list[str]":
    """Return the names under which an MPI library is looked for, in order: as programs and mpi4py find it."""
    chosen = library or environ.get("MPI4PY_LIBMPI", "")
    if chosen:
        return [chosen]
    folders = dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/local"))
    return [*LIBRARIES, *(os.path.join(folder, "lib", name) for folder in folders for name in LIBRARIES)]


def load(library: str, environ: "Mapping[str, str]") -> "Any":
    """Return the MPI library."""
    reasons = []
    for name in candidates(library, environ):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            # the same is said of a library that this one needs, but with that one's name in front
            if not str(error).startswith(f"{name}: cannot open shared object file") or library:
                reasons.append(str(error))
    if reasons:
        missing = re.search(r"GLIBC_([\d.]+)", reasons[0])
        remedy = f": it needs glibc {missing.group(1)} or later, which this image lacks" if missing else ""
        raise UnusableError(f"the MPI library can't be loaded: {reasons[0]}{remedy}")
    raise UnusableError(
        "no MPI library was found: neither the image, nor the user software, nor the host's library path has "
        f"{' or '.join(LIBRARIES[:2])}. Name one with --library"
    )


class Mpi:
    """An MPI library, and the handles of its ABI."""

    def __init__(self, library: "Any") -> None:
        self.library = library
        address = ctypes.cast(library.MPI_Init, ctypes.c_void_p).value or 0
        self.path = file_at(address)
        is_standard = os.path.basename(self.path).startswith("libmpi_abi.")
        is_open_mpi = hasattr(library, "ompi_mpi_comm_world")
        self.abi = STANDARD if is_standard else OPEN_MPI if is_open_mpi else MPICH
        handle, *constants, self.ignored = HANDLES[self.abi]
        self.world, self.byte = (
            ctypes.addressof(ctypes.c_char.in_dll(library, one)) if isinstance(one, str) else one for one in constants
        )
        number, pointer = ctypes.c_int, ctypes.c_void_p
        message = [pointer, number, handle, number, number, handle]
        library.MPI_Init.argtypes = [pointer, pointer]
        library.MPI_Comm_rank.argtypes = library.MPI_Comm_size.argtypes = [handle, pointer]
        library.MPI_Barrier.argtypes = [handle]
        library.MPI_Send.argtypes = message
        library.MPI_Recv.argtypes = [*message, pointer]
        library.MPI_Gather.argtypes = [pointer, number, handle, pointer, number, handle, number, handle]
        library.MPI_Get_library_version.argtypes = [pointer, pointer]

    def initialize(self) -> None:
        """Start MPI."""
        self.library.MPI_Init(None, None)

    def finalize(self) -> None:
        """End MPI."""
        self.library.MPI_Finalize()

    def _number(self, function: str) -> int:
        number = ctypes.c_int(-1)
        getattr(self.library, function)(self.world, ctypes.byref(number))
        return number.value

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._number("MPI_Comm_rank")

    @property
    def size(self) -> int:
        """The number of all ranks."""
        return self._number("MPI_Comm_size")

    @property
    def version(self) -> str:
        """What the library says of itself."""
        text, length = ctypes.create_string_buffer(VERSION + 1), ctypes.c_int()
        self.library.MPI_Get_library_version(text, ctypes.byref(length))
        return text.value.decode("utf-8", "replace")

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.library.MPI_Barrier(self.world)

    def send(self, data: "Any", other: int) -> None:
        """Send all of a buffer to another rank."""
        self.library.MPI_Send(data, len(data), self.byte, other, 0, self.world)

    def receive(self, data: "Any", other: int) -> None:
        """Fill a buffer with the message of another rank."""
        self.library.MPI_Recv(data, len(data), self.byte, other, 0, self.world, self.ignored)

    def gather(self, record: bytes, size: int) -> "list[bytes]":
        """Return the records of all ranks on rank 0."""
        own, all_of_them = ctypes.create_string_buffer(record, RECORD), ctypes.create_string_buffer(RECORD * size)
        self.library.MPI_Gather(own, RECORD, self.byte, all_of_them, RECORD, self.byte, 0, self.world)
        return [all_of_them.raw[start : start + RECORD].rstrip(b"\0") for start in range(0, RECORD * size, RECORD)]


def file_at(address: int) -> str:
    """Return the file that is mapped at an address of this process; empty if there is none."""
    with open("/proc/self/maps") as stream:
        for line in stream:
            start, _, end = line.partition(" ")[0].partition("-")
            words = line.split(None, 5)
            if int(start, 16) <= address < int(end, 16) and len(words) > 5:
                return words[5].strip()
    return ""


def exchange(mpi: "Any", other: int, is_first: bool, size: int, rounds: int) -> float:
    """Return the seconds that a message takes to another rank, half of a round trip."""
    sent = ctypes.create_string_buffer((bytes(range(256)) * (size // 256 + 1))[:size], size)
    received = ctypes.create_string_buffer(size)
    begun = 0.0
    for turn in range(rounds + 2):
        if turn == 2:  # connections are made at the first messages
            begun = time.time()
        if is_first:
            mpi.send(sent, other)
            mpi.receive(received, other)
        else:
            mpi.receive(received, other)
            mpi.send(received, other)
    took = (time.time() - begun) / rounds / 2
    if received.raw != sent.raw:
        raise ValueError(f"rank {other} received other data than were sent")
    return took


def ping_pong(mpi: "Any", tell: "Any") -> "dict[str, Any]":
    """Return latency and bandwidth to the next rank; empty for the last one. Pairs that share no rank go at once."""
    rank, size, found = mpi.rank, mpi.size, {}
    for first in (0, 1):
        mpi.barrier()
        other = rank + 1 if rank % 2 == first else rank - 1
        if not 0 <= other < size:
            continue
        tell({"stage": f"exchanging messages with rank {other}"})
        is_first = rank < other
        small = exchange(mpi, other, is_first, SMALL, SMALL_ROUNDS)
        large = exchange(mpi, other, is_first, LARGE, LARGE_ROUNDS)
        if is_first:
            found = {
                "neighbour": other,
                "latency_us": round(small * 1e6, 2),
                "bandwidth_MBs": round(LARGE / large / 1e6, 1),
            }
    mpi.barrier()
    return found


def rank_of_mpi(library: str, tell: "Any") -> None:
    """Be one rank: tell each stage, and at the end what was found."""
    environ = os.environ
    tell({"stage": "loading the MPI library"})
    mpi = Mpi(load(library, environ))
    version, device = version_of(mpi.version)
    tell({"stage": "MPI_Init", "mpi": version, "abi": mpi.abi, "device": device})
    mpi.initialize()
    size, rank = mpi.size, mpi.rank
    problem = why_ranks_are_alone(size, environ, mpi.abi)
    if problem:
        tell({"stage": "MPI_Finalize", "problem": problem})
        mpi.finalize()
        return
    tell({"stage": "waiting for the other ranks"})
    own = {
        "rank": rank,
        "host": environ.get("SLURMD_NODENAME") or os.uname()[1],
        "library": mpi.path,
        **ping_pong(mpi, tell),
    }
    tell({"stage": "telling rank 0"})
    records = [json.loads(record.decode()) for record in mpi.gather(json.dumps(own).encode()[:RECORD], size) if record]
    report = {}
    if rank == 0:
        with open("/proc/self/mountinfo") as stream:
            origin = origin_of(mpi.path, stream)
        found = {match.group(0) for match in map(TRANSPORTS.search, map(os.path.basename, loaded_files())) if match}
        report = {
            "works": True,
            "mpi": version,
            "abi": mpi.abi,
            "library": mpi.path,
            "origin": origin,
            "device": device,
            "loaded": sorted(found),
            "settings": {name: environ[name] for name in sorted(environ) if SETTINGS.fullmatch(name)},
            "started_by": started_by(environ),
            "user_namespaces": is_in_user_namespace(own_uid_map()),
            "ranks": records,
        }
        libraries = sorted({record["library"] for record in records})
        if len(libraries) > 1:
            report.update(problem=f"the ranks have different libraries: {', '.join(libraries)}")
    tell({"stage": "MPI_Finalize", **report})
    mpi.finalize()
    tell({"done": True})


class Watched:
    """A rank in a child process: its last stage and what it found, and the end of its standard error.

    The status is the negative number of a signal that ended it; None if the time limit did.
    """

    def __init__(self, library: str) -> None:
        self.told = {}  # type: dict[str, Any]
        self.output = b""
        self.status = None  # type: Optional[int]
        self._told, telling = os.pipe()
        self._errors, errors = os.pipe()
        self._rest = b""
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._told)
            os.dup2(errors, 2)
            be_rank(library, telling)
        os.close(telling)
        os.close(errors)

    def watch(self, seconds: float) -> None:
        """Read what the child tells and prints until it ends, or until the time limit, which ends it."""
        deadline = time.time() + seconds
        is_open = {self._told, self._errors}
        while is_open and time.time() < deadline:
            ready = select.select(is_open, [], [], max(0.0, deadline - time.time()))[0]
            for descriptor in ready:
                data = os.read(descriptor, 65536)
                if not data:
                    is_open.discard(descriptor)
                elif descriptor == self._errors:
                    self.output = (self.output + data)[-MOST_KEPT:]
                    write_all(2, data)
                else:
                    self._listen(data)
        if is_open:
            os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        if not is_open:
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _listen(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.told.update(json.loads(line.decode()))


def be_rank(library: str, telling: int) -> None:
    """Run one rank in this process, and end it."""
    status = WORKS

    def tell(what: "Mapping[str, Any]") -> None:
        write_all(telling, json.dumps(what).encode() + b"\n")

    try:
        # a parent that is killed must not leave a rank behind that waits for ever (PR_SET_PDEATHSIG of prctl(2))
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        rank_of_mpi(library, tell)
    except UnusableError as error:
        tell({"unusable": str(error)})
        status = UNUSABLE
    except (OSError, ValueError, AttributeError) as error:
        tell({"problem": str(error)})
        status = BROKEN
    # the library's own handlers at exit have no part in the test, and some of them hang
    os._exit(status)


def write_all(descriptor: int, data: bytes) -> None:
    """Write to a file descriptor; a reader that has gone is no reason to stop."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass


def shown(report: "Mapping[str, Any]") -> "list[str]":
    """Return the lines of a report for people."""
    whose = {"user software": "of the user software", "image": "the image's", "host": "the host's"}[report["origin"]]
    used = [report["device"], ", ".join(report["loaded"])]
    used += [f"{name}={value}" for name, value in report["settings"].items()]
    lines = [
        f"MPI        {report['mpi']}, ABI of {report['abi']}",
        f"library    {report['library']}, {whose}",
        f"transport  {'; '.join(filter(None, used)) or 'unknown'}",
        f"ranks      {len(report['ranks'])}, started by {report['started_by'] or 'no process manager'}",
        "",
        f"{'RANK':>6}  {'HOST':<20}  {'WITH':>6}  {'LATENCY':>12}  {'BANDWIDTH':>14}",
    ]
    for one in report["ranks"]:
        line = f"{one['rank']:>6}  {one['host']:<20}"
        if "neighbour" in one:
            line += f"  {one['neighbour']:>6}  {one['latency_us']:>9.2f} us  {one['bandwidth_MBs']:>9.1f} MB/s"
        lines.append(line)
    return lines


def outcome(rank: "Any", time_limit: float, environ: "Mapping[str, str]") -> "tuple[int, str, list[str]]":
    """Return the exit status for a rank that has ended, the problem, and what may help."""
    told = rank.told
    if "unusable" in told:
        return UNUSABLE, told["unusable"], []
    if "problem" in told:
        return BROKEN, told["problem"], []
    if rank.status == 0 and "done" in told:
        return WORKS, "", []
    stage = told.get("stage", "its start")
    if rank.status is None:
        problem = f"no answer within {time_limit:g} seconds; it hangs in: {stage}"
        if leaves_ranks_behind(told):
            why = (
                f"{told['mpi']} often hangs there over UCX's tcp, also without a container. Use MPICH 4.2 or later, or "
                "another transport of UCX (UCX_TLS)"
            )
            return BROKEN, problem, [why]
    elif rank.status < 0:
        problem = f"MPI was ended by signal {-rank.status} in: {stage}"
    else:
        problem = f"MPI ended the rank with exit status {rank.status} in: {stage}"
    return BROKEN, problem, advice(rank.output.decode("utf-8", "replace"), environ, own_uid_map(), told.get("abi", ""))


def positive(text: str) -> float:
    """Return a number of seconds."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def main(arguments: "Optional[list[str]]" = None) -> int:
    """Watch one rank, print what it found, and return the exit status."""
    parser = argparse.ArgumentParser(prog="mpi-check", description="Test MPI in this container.")
    parser.add_argument(
        "--library", default="", metavar="FILE", help="MPI library to test; default: as programs find it"
    )
    parser.add_argument(
        "--time-limit", type=positive, default=60, metavar="SECONDS", help="end the test after this time; default: 60"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    environ = dict(os.environ)
    rank = Watched(options.library)
    rank.watch(options.time_limit)
    status, problem, hints = outcome(rank, options.time_limit, environ)
    task = task_of(environ)
    if task == 0 and options.json:
        keys = [key for key in rank.told if key not in ("stage", "done", "problem", "unusable")]
        report = {**{key: rank.told[key] for key in keys}, "works": not problem, "problem": problem, "advice": hints}
        print(json.dumps(report, indent=2))
    elif "ranks" in rank.told:
        print("\n".join(shown(rank.told)))
    # every task has the same problem if they are alone or have no library; else each may have another one
    is_common = "problem" in rank.told or "unusable" in rank.told
    if problem and (task == 0 or not is_common):
        lines = [f"mpi-check: task {task} on {environ.get('SLURMD_NODENAME') or os.uname()[1]}: {problem}"]
        lines += [f"mpi-check: {hint}" for hint in hints]
        write_all(2, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return status


if __name__ == "__main__":
    sys.exit(main())
