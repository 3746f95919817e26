"""Runs pip or uv on user software, one at a time, and uv beside stubs of the packages that it can't see.

uv sees only the packages of the environment itself. While it runs, each package of the image, and of layers, has a stub
there: a folder of metadata without files. Constraints keep the versions of the image. docs/adr/0030 says why.

A lock is held from before the first change of the environment to after the last one. The program installers.py beside
this one takes from here what it needs, and starts pip by `run_pip`.
"""

import collections
import contextlib
import fcntl
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# In an environment: what pip and uv lock, and a folder that is there while stubs are.
LOCK = ".sifmod-lock"
STUBS = ".sifmod-stubs"
# Set for what pip or uv starts, such as a build that installs something itself: it would wait forever.
LOCKED = "__SIFMOD_INSTALLING"
# A stub is told from a package by its name alone: no tool that makes packages writes the `v` before a version.
STUB = re.compile(r"[^-]+-v[^-]+\.dist-info")
# A version for the name of a stub (PEP 440): from any other, uv would end.
VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*([-_.]?(a|alpha|b|beta|c|rc|pre|preview)[-_.]?\d*)?([-_.]?(post|rev|r)[-_.]?\d*)?"
    r"([-_.]?dev[-_.]?\d*)?(\+[a-z0-9]+([-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
WHEEL = "Wheel-Version: 1.0\nGenerator: sifmod\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

# What is packed below user software.
LAYERS = "/user-layers/"
# The image's packages; UV_EXCLUDE names this file for uv that is not run here.
HELD = "/pip-constraints.txt"

# What is printed if a build fails because the container lacks a program or headers, and what that is.
LACKING = (
    (r"Cannot find command 'git'|Git executable not found", "git"),
    (r"(?:command|unable to execute) '\S*?(?:gcc|cc|g\+\+|c\+\+|clang)'(?: failed)?: No such file", "a compiler"),
    (r"No such file or directory: '\S*?(?:gcc|cc|g\+\+|c\+\+|clang)'", "a compiler"),
    (r"Unknown compiler\(s\)|No CMAKE_C(?:XX)?_COMPILER could be found", "a compiler"),
    (r"Python\.h: No such file", "Python's headers"),
)

# How many pieces of pip's output are kept: the end is what says why it failed.
MOST_WRITES = 20000

# Options of pip whose value may be a path, and is not to be installed.
WITH_PATH = (
    *("-b", "-c", "-f", "-i", "-r", "-t", "--cache-dir", "--constraint", "--extra-index-url", "--find-links"),
    *("--index-url", "--log", "--prefix", "--python", "--report", "--requirement", "--root", "--src", "--target"),
)


def quoted(words: "Sequence[str]") -> str:
    """Return words as they are typed into a shell."""
    return " ".join(shlex.quote(word) for word in words)


def canonical(name: str) -> str:
    """Return the form in which names of packages are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def text_of(path: str) -> str:
    """Return the text of a file; empty if it can't be read."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                return stream.read()
    return ""


# --- one at a time


def take_lock(tool: str, arguments: "Sequence[str]") -> int:
    """Wait until no other installer changes the environment; return the descriptor that holds the lock, or -1.

    Of the tasks of a step of Slurm that run the same command, the first does the work, and the others end with its
    status. The lock's file has who holds it, the step and the command, the task, and the status once it is known.
    """
    if LOCKED in os.environ:  # a build that installs something: what has started it holds the lock
        return -1
    names = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID")
    is_alone = os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1"
    step = "" if is_alone else quoted([*(os.environ.get(name, "") for name in names), tool, *arguments])
    task = os.environ.get("SLURM_PROCID", "")
    path, flags = os.path.join(sys.prefix, LOCK), os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
        except PermissionError:  # a colleague's, who has a stricter umask
            lock = os.open(path, os.O_RDONLY | flags)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, of_step, _, _ = note_in(lock)
            if not step or (holder and of_step != step):
                print(f"{tool}: waits for {holder or 'another install'} to finish", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        print(
            f"{tool}: the user software can't be locked ({error.strerror}): until this has ended, run no other install",
            file=sys.stderr,
        )
        return -1
    _, of_step, of_task, status = note_in(lock)
    if step and of_step == step and of_task != task and status.isdigit():
        sys.exit(int(status))
    who = f"{os.environ.get('USER') or os.getuid()} on {os.uname().nodename} (process {os.getpid()})"
    with contextlib.suppress(OSError):  # open for reading alone
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{tool} of {who}\n{step}\n{task}\n".encode(), 0)
    os.environ[LOCKED] = tool
    return lock


def note_in(lock: int) -> "list[str]":
    """Return the four lines of a lock's file, which anybody may have written."""
    lines = os.pread(lock, 65536, 0).decode("ascii", "replace").split("\n")
    return [re.sub(r"[^ -~]", "?", line) for line in [*lines, "", "", "", ""][:4]]


def note_status(lock: int, status: int) -> None:
    """Write the status of the command that holds the lock, for other tasks of its step."""
    with contextlib.suppress(OSError):
        os.pwrite(lock, str(status).encode(), os.fstat(lock).st_size)


# --- pip


class Watched:
    """A stream that also keeps the end of what is written to it."""

    def __init__(self, stream: "Any", kept: "collections.deque[str]") -> None:
        """Note the stream, and where to keep what is written."""
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> "Any":
        """Write a text."""
        self._kept.append(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> "Any":
        """Return what the stream has: whether it is a terminal, for example."""
        return getattr(self._stream, name)


def run_pip() -> None:
    """Run pip, with the lock if it is told so, and name the way if the container lacks what a build needs."""
    lock = take_lock("pip", sys.argv[3:]) if sys.argv.pop(1) else -1
    kept = collections.deque(maxlen=MOST_WRITES)  # type: collections.deque[str]
    sys.stdout, sys.stderr = Watched(sys.stdout, kept), Watched(sys.stderr, kept)
    words = sys.argv[2:]
    try:
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    except SystemExit as done:
        if done.code:
            name_build_wheel("".join(kept), words)
        note_status(lock, done.code if isinstance(done.code, int) else int(bool(done.code)))
        raise


def name_build_wheel(said: str, words: "Sequence[str]") -> None:
    """Say what the container lacked, if pip's output tells so, and what builds the wheel."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    lacked = next((what for pattern, what in LACKING if re.search(pattern, plain)), "")
    if not lacked:
        return
    wanted = sources_of(words)
    for name in re.findall(r"Failed building wheel for ([A-Za-z0-9][A-Za-z0-9._-]*)", plain):
        archives = re.findall(r"([A-Za-z0-9._-]+)-([0-9][A-Za-z0-9.!+]*)\.(?:tar\.gz|zip)\b", plain)
        wanted = [f"{name}=={version}" for one, version in archives if canonical(one) == canonical(name)][:1] or wanted
    advise_building("pip", lacked, wanted, words)


def sources_of(words: "Sequence[str]") -> "list[str]":
    """Return the first folder, file or address of git among the words to install."""
    pairs = [(last, word) for last, word in zip(["", *words], words) if last not in WITH_PATH]
    sources = [word for _, word in pairs if re.match(r"[./]|git\+|[A-Za-z0-9._-]+ ?@ ?git\+", word)][:1]
    return [re.sub(r"^([./].*)\[[^\[\]]*\]$", r"\1", word) for word in sources]  # extras of a folder


def advise_building(tool: str, lacked: str, wanted: "list[str]", words: "Sequence[str]") -> None:
    """Say what the container lacks, and what builds a wheel."""
    module = os.environ.get("__SIFMOD_CONTAINER") or "MODULE"
    again = quoted(["sifmod", "build-wheel", *(wanted or ["REQUIREMENT"]), "--module", module])
    is_editable = {"-e", "--editable"} & {*words}
    copy = " (without -e it is a copy of the source: build it again after a change)" if is_editable else ""
    print(
        f"{tool}: this container lacks {lacked}, which a build from source needs. To build the wheel where it "
        f"is{copy}, type on the host: {again}",
        file=sys.stderr,
    )


# --- uv


def run_uv(program: str, arguments: "list[str]", what: str, held: "dict[str, str]") -> int:
    """Run `uv pip` with a command while the packages below have stubs; return its status, negative for a signal.

    Versions of the image's packages are held; none if the user wants to replace some.
    """
    folder, is_change = packages_folder(), what in ("install", "sync", "uninstall")
    with contextlib.suppress(OSError):  # pip removes it with the last package
        os.makedirs(folder, exist_ok=True)
    is_writable = os.access(folder, os.W_OK)
    if LOCKED in os.environ or not is_writable:
        if not (is_change or is_writable):
            print("uv: the user software is read-only: for packages of the image, see list-packages", file=sys.stderr)
        return run([program, *arguments], dict(os.environ))
    lock = take_lock("uv", arguments)
    remove_stubs(folder)
    packages, own = below(held), versions_in(folder)
    if is_change and not held:
        packages = {name: package for name, package in packages.items() if package.path.startswith(LAYERS)}
    excludes = [path for path in os.environ.get("UV_EXCLUDE", "").split(" ") if not path.endswith(HELD)]
    environ = {**os.environ, "UV_EXCLUDE": " ".join(excludes)}
    at = arguments.index(what, arguments.index("pip")) + 1
    is_install, status = what == "install", 2
    try:
        stubs = make_stubs(folder, packages, is_full=not is_install)
        kept = [f"{name}=={version}" for name, version in held.items() if name not in own]
        more = constraints(arguments, kept) if is_install and held else []
        status = run([program, *arguments[:at], *more, *arguments[at:]], environ)
        new = versions_in(folder)
        copies = sorted(held.keys() & new.keys() - own.keys())
        if copies:  # of the same version, or from a lock, which uv installs as it is
            run([program, "pip", "uninstall", "--quiet", *copies], environ)
            status = status or int(any(new[name] != held[name] for name in copies))
            print(f"uv: removed again, as the image has it: {', '.join(copies)}", file=sys.stderr)
        elif is_install and status == 1:
            advise(arguments, held)
        gone = sorted(name for name, stub in stubs.items() if name not in new and not os.path.isdir(stub))
        if gone:
            print(f"uv: not in the user software, so still there: {', '.join(gone)}", file=sys.stderr)
    finally:
        remove_stubs(folder)
        note_status(lock, status)
    return status


def packages_folder() -> str:
    """Return the environment's folder of packages."""
    return sysconfig.get_paths()["purelib"]


def constraints(arguments: "list[str]", lines: "list[str]") -> "list[str]":
    """Return options for constraints, and for those of the user's variable: uv reads it if no such option is typed."""
    if any(re.search(r"\bpylock(\.[^./]+)?\.toml$", word) for word in arguments):  # uv takes none with a lock
        return []
    path = os.path.join(sys.prefix, STUBS, "constraints.txt")
    write(path, "".join(f"{line}\n" for line in lines))
    is_typed = any(word.startswith(("-c", "--constraint")) for word in arguments)
    paths = [path, *([] if is_typed else os.environ.get("UV_CONSTRAINT", "").split(" "))]
    return [f"--constraint={path}" for path in filter(None, paths)]


def run(words: "list[str]", environ: "dict[str, str]") -> int:
    """Run a program, which gets our signals; return its status, negative if a signal has ended it.

    It does not inherit the lock, which a process that a build leaves behind would hold.
    """
    child = subprocess.Popen(words, env=environ, close_fds=False)  # noqa: S603 - what the user asked for
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: child.send_signal(number))
    return child.wait()


def advise(arguments: "list[str]", held: "dict[str, str]") -> None:
    """Say what may help after uv has explained why it can't install something."""
    if held:
        command = shlex.quote(f"UV_EXCLUDE= {quoted(['uv', *arguments])}")
        way = f"To replace one for this command, type on the host: start-shell -c {command}"
        print(f"uv: the image's packages keep their versions. {way}", file=sys.stderr)
    if sources_of(arguments) and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        advise_building("uv", "a compiler", sources_of(arguments), arguments)


# --- uv: stubs


# A package below the environment; the path is that of its metadata, empty if that is not known.
Package = collections.namedtuple("Package", "version path")


def versions_in(folder: str) -> "dict[str, str]":
    """Return name and version of the packages in a folder of the environment; a version may be empty."""
    found = {}
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        name, _, version = entry.rpartition(".")[0].partition("-")
        if re.search(r"^[^~].*\.(dist-info|egg-info|egg-link)$", entry) and not STUB.fullmatch(entry):
            found[canonical(name)] = version.partition("-")[0]
    return found


def below(held: "dict[str, str]") -> "dict[str, Package]":
    """Return the packages of layers and of the image by name, as Python finds them, that the environment itself lacks.

    The held versions count.
    """
    found = {name: Package(version, "") for name, version in held.items()}
    own = versions_in(packages_folder())
    for folder in sys.path:
        if folder.startswith(f"{sys.prefix}/") or not os.path.isdir(folder):
            continue
        for entry in ["EGG-INFO"] if folder.endswith(".egg") else sorted(os.listdir(folder)):
            if re.fullmatch(r"EGG-INFO|[^~].*\.(dist|egg)-info", entry) and not STUB.fullmatch(entry):
                path = os.path.join(folder, entry)
                pairs = re.findall(r"(?m)^(Name|Version):\s*(\S+)", metadata_of(path))
                fields = dict(pairs)  # type: dict[str, str]
                name, _, version = entry.rpartition(".")[0].partition("-")  # if its metadata can't be read
                name = canonical(fields.get("Name", name))
                if name not in found or not found[name].path:
                    version = held.get(name) or fields.get("Version", version)
                    found[name] = Package(version, path)
    return {name: package for name, package in found.items() if name not in own}


def metadata_of(path: str) -> str:
    """Return the fields of a package's metadata, of which distutils made a file; empty if they can't be read."""
    texts = map(text_of, (os.path.join(path, "METADATA"), os.path.join(path, "PKG-INFO"), path))
    return next(filter(None, texts), "").partition("\n\n")[0]


def make_stubs(folder: str, packages: "dict[str, Package]", *, is_full: bool) -> "dict[str, str]":
    """Make a stub of each package in a folder of the environment; return their paths by name.

    Unless a stub is full, it has no requirements but those of extras: all others are for the image to meet, and uv
    would install what it lacks. Stubs appear and go whole, for other programs look there meanwhile.
    """
    work = os.path.join(sys.prefix, STUBS)
    os.makedirs(work, exist_ok=True)
    stubs = {}
    for name, package in packages.items():
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) or not VERSION.fullmatch(package.version):
            continue
        entry = f"{name.replace('-', '_')}-v{package.version.replace('-', '_')}.dist-info"
        os.mkdir(os.path.join(work, entry))
        text = metadata_of(package.path)
        if not (is_full or package.path.startswith(LAYERS)) or not re.search(r"(?m)^Version:", text):
            extras = re.findall(r"(?m)^Provides-Extra:.*|^Requires-Dist:[^;@\n]*;.*\bextra\b.*", text)
            text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {package.version}", *extras])
        files = {"METADATA": f"{text}\n\n", "WHEEL": WHEEL}
        texts = {file: text_of(os.path.join(package.path, file)) for file in ("WHEEL", "entry_points.txt")}
        files.update((file, text) for file, text in texts.items() if text)
        files["RECORD"] = "".join(f"{entry}/{file},,\n" for file in (*files, "RECORD"))
        for file, text in files.items():
            write(os.path.join(work, entry, file), text)
        stubs[name] = os.path.join(folder, entry)
        if not os.path.isdir(stubs[name]):  # a colleague's, after a kill
            os.rename(os.path.join(work, entry), stubs[name])
    return stubs


def write(path: str, text: str) -> None:
    """Write a text into a new file."""
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)


def remove_stubs(folder: str) -> None:
    """Remove the stubs in a folder of the environment, also those that a killed run has left."""
    work = os.path.join(sys.prefix, STUBS)
    with contextlib.suppress(OSError):  # there are none, or they are a colleague's
        trash = tempfile.mkdtemp(dir=work)
        for entry in filter(STUB.fullmatch, os.listdir(folder)):
            os.rename(os.path.join(folder, entry), os.path.join(trash, entry))
        shutil.rmtree(work)
