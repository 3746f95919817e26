"""Runs pip, uv, poetry or pdm so that the packages of the image stay as they are, and says why an install can't work.

    installers.py pip|uv|poetry|pdm [ARGUMENT...]

uv does not see the packages of the image, so `uv pip install` is resolved first, without installing anything, as if an
index had exactly the image's versions. A requirement that they don't meet ends there, with uv's own explanation. Then
uv installs the versions that it found, without the packages of the image. docs/adr/0011 says why it takes two runs.

Projects of uv, poetry and pdm have no way to keep what the image has, so what they would install into user software is
refused.

Exit status: that of the tool; 1 (pip) or 2 (the others) if the install is refused; 127 if there is no such tool.
"""

import collections
import contextlib
import fcntl
import functools
import glob
import itertools
import os
import pwd
import re
import runpy
import select
import shlex
import shutil
import signal
import site
import stat
import subprocess
import sys
import sysconfig
import tempfile
import termios
import urllib.parse
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any, NoReturn, Optional

# The image's packages as `name==version`; UV_EXCLUDE and PIP_CONSTRAINT name this file.
HELD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pip-constraints.txt")
# The values of the installation, as words of a shell: it names the folders of the host.
VALUES = os.path.join(os.path.dirname(HELD), "values.sh")
# What `python -m MODULE` does, without modules of the current folder, which `-m` takes first: in a clone or in /tmp
# they are somebody else's. Python 3.11 has -P for that; with -I the user's PYTHON* would have no effect.
AS_MODULE = (
    "import sys; sys.path[:1] = filter(None, sys.path[:1]); import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
# `run_pip` of this file in the same way.
WATCHED = (
    "import sys; sys.path[:1] = filter(None, sys.path[:1]); import runpy; runpy.run_path(sys.argv.pop(1))['run_pip']()"
)
# where the host commands bind the host's uv
HOST_UV = "/sifmod/uv"
# where they bind the wheels that `sifmod build-wheel` has made for this module
WHEELS = "/sifmod/wheels"
# What is printed if a build fails because the container lacks a program or headers, and what that is.
LACKING = (
    (r"Cannot find command 'git'|Git executable not found", "git"),
    (r"(?:command|unable to execute) '\S*?(?:gcc|cc|g\+\+|c\+\+|clang)'(?: failed)?: No such file", "a compiler"),
    (r"No such file or directory: '\S*?(?:gcc|cc|g\+\+|c\+\+|clang)'", "a compiler"),
    (r"Unknown compiler\(s\)|No CMAKE_C(?:XX)?_COMPILER could be found", "a compiler"),
    (r"Python\.h: No such file", "Python's headers"),
)
# the first version that reads UV_EXCLUDE
OLDEST_UV = (0, 9, 8)

# How many pieces of pip's output are kept: the end is what says why it failed.
MOST_WRITES = 20000

# Options of pip and uv whose value may be a path, and is not to be installed.
WITH_PATH = (
    *("-b", "-c", "-f", "-i", "-r", "-t", "--build-constraints", "--cache-dir", "--config-file", "--constraint"),
    *("--constraints", "--directory", "--excludes", "--extra-index-url", "--find-links", "--index-url", "--log"),
    *("--overrides", "--prefix", "--project", "--python", "--report", "--requirement", "--requirements", "--root"),
    *("--src", "--target"),
)

# Options of uv that may come before the command and have a value, short options without a value, and commands.
VALUED = ("--allow-insecure-host", "--cache-dir", "--color", "--config-file", "--directory", "--project")
FLAGS = "hnqvUV"
COMMANDS = frozenset(
    {"add", "audit", "auth", "build", "cache", "check", "export", "format", "generate-shell-completion", "help", "init"}
    | {"lock", "pip", "publish", "python", "remove", "run", "self", "sync", "tool", "tree", "venv", "version"}
    | {"workspace"}
)
# Options of uv that a variable sets too: its name, what separates its values, the names of the option.
CONSTRAINTS = ("UV_CONSTRAINT", " ", ("--constraint", "--constraints", "-c"))
EXCLUDES = ("UV_EXCLUDE", " ", ("--excludes", "--exclude"))
FIND_LINKS = ("UV_FIND_LINKS", ",", ("--find-links", "-f"))
REQUIREMENTS = ("--requirement", "--requirements", "-r")
# The first run prints a plan; the second one checks the hashes.
NOT_IN_TRIAL = ("--check", "--dry-run", "--no-verify-hashes", "--quiet", "--require-hashes", "--verbose")
# Options that name another place than user software.
ELSEWHERE = {
    "pip": ("--prefix", "--python", "--root", "--target", "-t"),
    "uv": ("--prefix", "--system", "--target", "-t"),
}
# Commands of uv that change the environment of a project.
PROJECT = frozenset({"add", "remove", "run", "sync", "version"})
# Commands of other tools that install into the active environment, and their options with a value before the command.
OTHERS = dict.fromkeys(("pdm", "poetry"), frozenset({"add", "install", "remove", "sync", "update"}))
OTHERS_VALUED = ("--config", "--directory", "--project", "-C", "-P", "-c", "-p")
# Options of pip and uv that name a place for packages.
PLACES = ("--prefix", "--root", "--target", "-t")
PIP_COMMANDS = frozenset(
    {"cache", "check", "config", "debug", "download", "freeze", "hash", "help", "index", "inspect", "install", "list"}
    | {"lock", "search", "show", "uninstall", "wheel"}
)


# What is packed below user software.
LAYERS = "/user-layers/"
USER_SOFTWARE = "/user-software/"
MOST_LAYERS = 8
# A folder of the installation: its owner is that of the module.
RUNSCRIPTS = "/runscripts"


def refuse(tool: str, message: str, status: int = 0) -> "NoReturn":
    """End with a message, and with the status that the tool has for what it refuses itself, or another one."""
    print(f"{tool}: {message}", file=sys.stderr)
    sys.exit(status or (1 if tool == "pip" else 2))


def quoted(words: "Sequence[str]") -> str:
    """Return words as they are typed into a shell."""
    return " ".join(shlex.quote(word) for word in words)


def canonical(name: str) -> str:
    """Return the form in which names of packages are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_packed(folder: str) -> bool:
    """Return whether a folder is in a mounted SquashFS file."""
    point, kind = "", ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields, _, system = line.partition(" - ")
            mounted = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), fields.split(" ")[4])
            if (folder + "/").startswith(mounted.rstrip("/") + "/") and len(mounted) >= len(point):
                point, kind = mounted, system.split(" ")[0]
    return "squash" in kind


def owner_if_another(path: str) -> str:
    """Return who a folder belongs to, for a message; empty if it is this user's own, or is not there."""
    try:
        number = os.stat(path).st_uid
    except OSError:
        return ""
    if number == os.getuid():
        return ""
    try:
        # one that the container does not know is shown as `nobody`
        return pwd.getpwuid(number).pw_name.replace("nobody", "") or "another user"
    except KeyError:
        return "another user"


def is_open_to_group(path: str) -> bool:
    """Return whether its mode lets this user's groups, or all, write to a folder: the mount itself is read-only."""
    state = os.stat(path)
    mine = state.st_gid in (os.getegid(), *os.getgroups())
    return bool(state.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if mine else 0)))


def value_of(name: str) -> str:
    """Return a value of the installation; empty if it is not known."""
    with contextlib.suppress(OSError), open(VALUES, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if line.startswith(f"{name}="):
                return "".join(shlex.split(line.partition("=")[2])[:1])
    return ""


def own_folders() -> "list[str]":
    """Return the environment of user software as containers and as the host name it."""
    on_host = value_of("sifmod_directory")
    is_known = on_host and sys.prefix.startswith(USER_SOFTWARE)
    return [sys.prefix, *([os.path.join(on_host, sys.prefix[len(USER_SOFTWARE) :])] if is_known else [])]


def is_same(path: str, others: "Sequence[str]") -> bool:
    """Return whether a path leads to one of others, whatever its name: a folder that is bound has two."""
    for other in others:
        with contextlib.suppress(OSError):
            if os.path.samefile(path, other):
                return True
    return False


def with_parents(path: str) -> "list[str]":
    """Return the real path of a folder, or of what is in one, and the folders above it."""
    folder, name = (path, "") if os.path.isdir(path) else os.path.split(os.path.abspath(path))
    # a link that is not to a folder stays: the program of an environment is one
    found = [os.path.join(os.path.realpath(folder), name).rstrip("/") or "/"]
    while found[-1] != os.path.dirname(found[-1]):
        found.append(os.path.dirname(found[-1]))
    return found


def is_in_ours(path: str) -> bool:
    """Return whether a path is in the environment of user software, or is that, by whatever name."""
    own = own_folders()
    return any(is_same(one, own) for one in with_parents(path))


def without(arguments: "Sequence[str]", option: "Option") -> "list[str]":
    """Return arguments without an option that has a value."""
    return [*arguments[: option.at], *arguments[option.at + option.width :]]


def check_not_place(tool: str, arguments: "Sequence[str]", given: "list[Option]") -> None:
    """Refuse an option that names user software as another place: what holds the image's packages would not count."""
    for option in given:
        # with --root come the paths of this environment below it
        place = (option.value or "") + (sys.prefix if option.name == "--root" else "")
        if option.name in PLACES and option.value and is_in_ours(place):
            again = quoted([tool, *without(arguments, option)])
            refuse(tool, f"{option.name} names the user software, where packages go without it. Type instead: {again}")


def check_not_packed(tool: str, command: str, arguments: "Sequence[str]") -> None:
    """Refuse to change user software that is packed, or is somebody else's, or to remove what is in a layer.

    Packages can be added above what is packed; to remove one, it must be unpacked.
    """
    module = os.environ.get("__SIFMOD_CONTAINER") or "MODULE"
    on_top = (
        f"for a module of your own on top: sifmod on {quoted([module])} --name NAME, then eb with the file that it "
        "writes"
    )
    if is_packed(sys.prefix):
        owner = owner_if_another(RUNSCRIPTS)
        if owner and not is_open_to_group(RUNSCRIPTS):
            refuse(tool, f"the user software is packed, and the module is of {owner}; {on_top}")
        if command == "uninstall":
            check_not_in_layer(tool, arguments)
        again = quoted([tool, *(word for word in arguments if word != "--user")])
        way = f"unmake-squashfs; {again}; make-squashfs --replace"
        if command == "install":
            layers = len(glob.glob(f"{LAYERS}[1-9]"))
            flattening = "flatten-layers; " if layers >= MOST_LAYERS else ""
            way = f"{removing_directory()}{flattening}add-layer; {again}; make-squashfs"
        refuse(tool, f"the user software is packed, which makes it read-only. Type on the host: {way}")
    owner = owner_if_another(sys.prefix)
    folder = sysconfig.get_paths()["purelib"]
    if owner and sys.prefix.startswith(USER_SOFTWARE) and not os.access(folder, os.W_OK):
        refuse(tool, f"the user software is of {owner}, and you may not write to it; {on_top}")
    if command == "uninstall":
        check_not_in_layer(tool, arguments)


def removing_directory() -> str:
    """Return what to type before a command that needs packed user software without its directory beside it."""
    if not is_packed(sys.prefix):
        return "make-squashfs --replace --remove-directory; "
    return "make-squashfs --remove-directory; " if os.path.isdir(value_of("sifmod_directory")) else ""


def check_not_in_layer(tool: str, arguments: "Sequence[str]") -> None:
    """Refuse to remove what is packed below user software: the tool would say that there is nothing to remove."""
    at = list(arguments).index("uninstall") + 1
    names = [word for word in arguments[at:] if word[:1] != "-"]
    folders = [sysconfig.get_paths()["purelib"], *sorted(glob.glob(f"{LAYERS}[1-9]/venv/*/lib/python3*/site-packages"))]
    place = {}  # type: dict[str, str]
    for folder in folders:
        for entry in glob.glob(os.path.join(glob.escape(folder), "*-info")):
            place.setdefault(canonical(os.path.basename(entry).split("-")[0]), folder)
    for name in filter(lambda name: place.get(canonical(name), "").startswith(LAYERS), names):
        layer = "/".join(place[canonical(name)].split("/")[:3])
        again = f"unmake-squashfs; {quoted([tool, *arguments])}; make-squashfs --replace"
        refuse(
            tool,
            f"{name} is in the layer {layer}, which is read-only: 'sifmod show' "
            "says which file or module that is. Another version can be installed on top of it. To take it out of the "
            f"module's own layers, type on the host: {removing_directory()}flatten-layers; {again}",
        )


# --- pip


def pip(arguments: "list[str]") -> "NoReturn":
    """Run pip, unless what it would install could not be used."""
    command = next((word for word in arguments if word in PIP_COMMANDS), "")
    given = options(arguments, short_flags="hqvUV")
    for option in [one for one in reversed(given) if one.name == "--python" and is_in_ours(one.value or "")]:
        arguments = without(arguments, option)
        given = options(arguments, short_flags="hqvUV")
    if command in ("install", "uninstall"):
        check_not_place("pip", arguments, given)
    elsewhere = any(option.name in ELSEWHERE["pip"] for option in given)
    if command in ("install", "uninstall") and not elsewhere and "--dry-run" not in arguments:
        check_not_packed("pip", command, arguments)
    if command == "install" and os.environ.get("PYTHONNOUSERSITE"):
        check_not_user(arguments, [option.name for option in given])
    if "PYTHONPATH" in os.environ:
        # an empty part is the current folder, whose encodings.py Python would run at its start
        os.environ["PYTHONPATH"] = ":".join(filter(None, os.environ["PYTHONPATH"].split(":")))
    if command in ("install", "wheel") and os.path.isdir(WHEELS):
        at = arguments.index(command) + 1
        arguments = [*arguments[:at], f"--find-links={WHEELS}", *arguments[at:]]
    program = [WATCHED, os.path.abspath(__file__)] if command == "install" else [AS_MODULE]
    execute(sys.executable, [sys.executable, "-c", *program, "pip", *arguments])


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
    """Run pip, and name the way if it fails because the container lacks what a build needs."""
    kept = collections.deque(maxlen=MOST_WRITES)  # type: collections.deque[str]
    sys.stdout, sys.stderr = Watched(sys.stdout, kept), Watched(sys.stderr, kept)
    words = sys.argv[2:]
    try:
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    except SystemExit as done:
        if done.code:
            name_build_wheel("pip", "".join(kept), words)
        raise


def name_build_wheel(tool: str, said: str, words: "Sequence[str]") -> None:
    """Say what the container lacked, if the tool's output tells so, and what builds the wheel."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    lacked = next((what for pattern, what in LACKING if re.search(pattern, plain)), "")
    if not lacked:
        return
    pairs = [(last, word) for last, word in zip(["", *words], words) if last not in WITH_PATH]
    wanted = [word for _, word in pairs if re.match(r"[./]|git\+|[A-Za-z0-9._-]+ ?@ ?git\+", word)][:1]
    wanted = [re.sub(r"^([./].*)\[[^\[\]]*\]$", r"\1", word) for word in wanted]  # extras of a folder
    # uv breaks its lines, at hyphens too; in what it says of a package is no space
    whole = re.sub(r"[\s│]+", "", plain)
    for name, version, place in re.findall(r"Failedtobuild`([\w.-]+)(?:==([\w.+!]+)|@(?:file://)?([^`]+))`", whole):
        # On a terminal, uv's progress may break this line. So what the user has typed is named as it was, in any case.
        path = urllib.parse.unquote(place)
        wanted = [word for word in wanted if is_same(word, [path])] or [path or f"{name}=={version}"]
    for name in re.findall(r"Failed building wheel for ([A-Za-z0-9][A-Za-z0-9._-]*)", plain):
        archives = re.findall(r"([A-Za-z0-9._-]+)-([0-9][A-Za-z0-9.!+]*)\.(?:tar\.gz|zip)\b", plain)
        wanted = [f"{name}=={version}" for one, version in archives if canonical(one) == canonical(name)][:1] or wanted
    module = os.environ.get("__SIFMOD_CONTAINER") or "MODULE"
    again = quoted(["sifmod", "build-wheel", *(wanted or ["REQUIREMENT"]), "--module", module])
    is_editable = {"-e", "--editable"} & {*words}
    copy = " (without -e it is a copy of the source: build it again after a change)" if is_editable else ""
    print(
        f"{tool}: this container lacks {lacked}, which a build from source needs. To build the wheel where it "
        f"is{copy}, type on the host: {again}",
        file=sys.stderr,
    )


def check_not_user(arguments: "list[str]", given: "list[str]") -> None:
    """Refuse to install into the home, where the container's Python does not look."""
    words = ["pip", *(word for word in arguments if word != "--user")]
    if "--user" in given:
        what = "--user"
    elif is_set("PIP_USER") and "--no-user" not in given:
        what, words = "PIP_USER", ["env", "-u", "PIP_USER", *words]
    else:
        return
    refuse(
        "pip",
        f"{what} would install into {site.getusersitepackages()}, where Python does not look in this container "
        f"(PYTHONNOUSERSITE). To install into the user software, type: {quoted(words)}",
    )


# --- uv


class Option:
    """An option on a command line: the position of its word, its name, and its value if it has one."""

    def __init__(self, at: int, name: str, value: "Optional[str]" = None, *, width: int = 1) -> None:
        """Note an option, and of how many words it is if it has a value."""
        self.at, self.name, self.value, self.width = at, name, value, width


def options(arguments: "Sequence[str]", *, short_flags: str = FLAGS) -> "list[Option]":
    """Return the options before `--`.

    uv takes no value that begins with `-`, except `-` itself, so any such word is an option. The next word is noted as
    the value of any long option: whoever looks for one knows whether it takes a value.
    """
    found = []
    for at, word in enumerate(itertools.takewhile(lambda word: word != "--", arguments)):
        following = arguments[at + 1] if at + 1 < len(arguments) else "--"
        next_word = following if following == "-" or not following.startswith("-") else None
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found.append(Option(at, name, value) if equals else Option(at, name, next_word, width=2))
        elif word.startswith("-"):
            for number, letter in enumerate(word[1:], 2):
                if letter in short_flags:
                    found.append(Option(at, f"-{letter}"))
                    continue
                rest = word[number:]
                value = rest[1:] if rest.startswith("=") else rest
                found.append(Option(at, f"-{letter}", value) if rest else Option(at, f"-{letter}", next_word, width=2))
                break
    return found


def command_of(arguments: "Sequence[str]") -> "list[tuple[int, str]]":
    """Return the words of uv's command with their positions, such as `pip` and `install`."""
    words = []  # type: list[tuple[int, str]]
    is_value = False
    for at, word in enumerate(arguments):
        if is_value or word.startswith("-"):
            is_value = word in VALUED and not is_value
        elif words:
            return [*words, (at, word)]
        elif word in COMMANDS:
            words.append((at, word))
    return words


def uv(arguments: "list[str]") -> "NoReturn":
    """Run uv, in two steps if it installs into user software."""
    program = find_tool("uv")
    command = command_of(arguments)
    words = [word for _, word in command]
    if words and words[0] in PROJECT and is_held():
        project(program, arguments, words[0])
    given = options(arguments)
    names = {option.name for option in given}
    if names & {"--help", "--version", "-V", "-h"}:
        execute_elsewhere(program, arguments)
    if words[:1] == ["venv"]:
        check_not_replaced(arguments, given)
    if words[:1] == ["pip"]:
        check_not_place("uv", arguments, given)
    if not is_ours(given):
        execute_elsewhere(program, arguments)
    if words not in (["pip", "install"], ["pip", "sync"], ["pip", "uninstall"]):
        execute_elsewhere(program, arguments)
    if not names & {"--check", "--dry-run"}:
        check_not_packed("uv", words[1], arguments)
    asked, arguments = arguments, with_own_python(arguments, given)
    given = options(arguments)
    if words == ["pip", "uninstall"] or not is_held():
        execute(program, ["uv", *arguments])
    if words == ["pip", "sync"]:
        refuse(
            "uv",
            "uv pip sync would install packages of the image again, and remove others from the user software. "
            "Type instead: uv pip install -r FILE",
        )
    run_uv([program, *install(program, arguments, given, command[1][0] + 1, asked=asked)[1:]], asked)
    sys.exit(0)


def check_not_replaced(arguments: "Sequence[str]", given: "list[Option]") -> None:
    """Refuse to make a virtual environment where user software is, which `--clear` would remove."""
    at = arguments.index("venv") + 1
    named = [word for word in arguments[at:] if word[:1] != "-"]
    if all(last[:1] == "-" for last, word in zip(arguments[at - 1 :], arguments[at:]) if word in named):
        named += [os.environ.get("UV_PROJECT_ENVIRONMENT", ""), ".venv"]
    above = [parent for own in own_folders() for parent in with_parents(own)[:-1]]
    for place in filter(None, named):
        path = os.path.join(directory_of(given), place)
        if os.path.isdir(path) and (is_in_ours(path) or is_same(path, above)):
            refuse(
                "uv",
                f"'{place}' is the user software, which this would replace. For an environment of its own, name "
                "another folder: uv venv FOLDER",
            )


def directory_of(given: "list[Option]") -> str:
    """Return the folder that paths among uv's arguments begin at; empty if it is the current one."""
    return next((option.value or "" for option in given if option.name == "--directory"), "")


def with_own_python(arguments: "Sequence[str]", given: "list[Option]") -> "list[str]":
    """Return the arguments with the user software as containers name it: scripts that uv installs name their Python."""
    os.environ["VIRTUAL_ENV"] = sys.prefix
    words = list(arguments)
    for option in given:
        if option.name in ("--python", "-p") and is_path(option.value or "", directory_of(given)):
            at = option.at + option.width - 1
            words[at] = words[at][: len(words[at]) - len(option.value or "")] + sys.executable
    if is_path(os.environ.get("UV_PYTHON", ""), directory_of(given)):
        os.environ["UV_PYTHON"] = sys.executable
    return words


def is_path(python: str, folder: str) -> bool:
    """Return whether uv takes a Python for a path from a folder on: a version or a name is none."""
    return "/" in python or bool(python and os.path.isdir(os.path.join(folder, python)))


def find_tool(tool: str) -> str:
    """Return a program of the container by its name, or the uv that the host lends."""
    own = os.path.dirname(HELD)
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if os.path.abspath(folder) != own]
    program = shutil.which(tool, path=":".join(folders)) or (shutil.which(HOST_UV) if tool == "uv" else None)
    if not program:
        of_host = " The host commands uv and start-shell also use a uv of the host" if tool == "uv" else ""
        remedy = f"To install it, type: pip install {tool}{'.' if of_host else ''}{of_host}"
        refuse(tool, f"this container has no {tool}. {remedy}", 127)
    return program


def is_held() -> bool:
    """Return whether the image's packages are held: unless the user has emptied UV_EXCLUDE."""
    return bool(os.environ.get("UV_EXCLUDE")) and os.path.exists(HELD)


def is_set(name: str) -> bool:
    """Return whether a variable has one of the values that pip and uv read as true."""
    return os.environ.get(name, "").lower() in ("1", "on", "t", "true", "y", "yes")


def is_ours(given: "list[Option]") -> bool:
    """Return whether no option and no variable names another environment than user software."""
    if is_set("UV_SYSTEM_PYTHON") or any(option.name in ELSEWHERE["uv"] for option in given):
        return False
    folder = directory_of(given)
    pythons = [option.value for option in given if option.name in ("--python", "-p")]
    python = (pythons[-1] if pythons else os.environ.get("UV_PYTHON")) or ""
    # a version or a name stands for the active environment; a path may be another one
    return is_in_ours(os.path.join(folder, python)) if is_path(python, folder) else is_active(folder)


def is_active(folder: str = "") -> bool:
    """Return whether user software is the active environment, whose path may begin at a folder."""
    return is_same(os.path.join(folder, os.environ.get("VIRTUAL_ENV") or "/"), own_folders())


def check_version(program: str) -> None:
    """Refuse a uv that does not know UV_EXCLUDE."""
    command = [program, "--version"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout  # noqa: S603 - the uv that was found
    numbers = re.search(rb"(\d+)\.(\d+)\.(\d+)", said)
    if not numbers or tuple(int(number) for number in numbers.groups()) < OLDEST_UV:
        oldest = ".".join(str(number) for number in OLDEST_UV)
        refuse("uv", f"'{program}' is too old to keep the image's packages: uv {oldest} or later is required")


def execute(program: str, words: "list[str]") -> "NoReturn":
    """Become another program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    try:
        os.execv(program, words)  # noqa: S606 - what the user asked for
    except OSError as error:
        refuse(words[0], f"can't run '{program}' in this container: {error.strerror}", 126)


def execute_elsewhere(program: str, arguments: "list[str]") -> "NoReturn":
    """Become uv for environments that don't see the image's packages, so that it may install these there."""
    if os.environ.get("UV_EXCLUDE") == HELD:
        del os.environ["UV_EXCLUDE"]
    execute(program, ["uv", *arguments])


def held_versions() -> "dict[str, str]":
    """Return the version of each package of the image."""
    with open(HELD, encoding="utf-8") as lines:
        return {canonical(name): version for name, _, version in (line.strip().partition("==") for line in lines)}


def install(
    program: str, arguments: "list[str]", given: "list[Option]", at: int, *, asked: "Sequence[str]"
) -> "list[str]":
    """Try `uv pip install` with the image's versions; return the command that installs the rest.

    The options among uv's arguments are given, and the position after `install`; messages name what the user asked for.
    """
    check_version(program)
    if os.path.isdir(WHEELS):
        os.environ["UV_FIND_LINKS"] = ",".join(filter(None, (WHEELS, os.environ.get("UV_FIND_LINKS"))))
    of_image = held_versions()
    # uv does not look into layers either
    own = packages_in(site_packages())
    below = {name: version for name, version in in_layers().items() if name not in of_image and name not in own}
    is_lock = any(option.name in REQUIREMENTS and is_pylock(option.value or "") for option in given)
    trial = Trial(of_image, below, is_lock=is_lock)
    trial.run(program, arguments, given, at, asked=asked)
    of_container = sorted(trial.installs.keys() & trial.present.keys()) if is_lock else []
    if of_container:
        refuse(
            "uv",
            f"this lock has packages of the image ({', '.join(of_container)}), and uv installs a lock as it is. "
            "Type instead: uv export --no-emit-project | uv pip install -r -",
        )
    if not any(option.name in ("--quiet", "-q") for option in given):
        trial.tell()
    more = own_and(given, EXCLUDES, HELD)
    if trial.below:
        below_names = "".join(f"{name}\n" for name in trial.below)
        more.append(f"--excludes={unnamed_file(below_names)}")
    needed = []
    if not is_lock:
        chosen = trial.chosen()
        more += own_and(given, CONSTRAINTS, unnamed_file("".join(f"{name}=={chosen[name]}\n" for name in chosen)))
        # where each requirement must have a hash, the user has listed these too
        if not (is_set("UV_REQUIRE_HASHES") or any(option.name == "--require-hashes" for option in given)):
            needed = [f"{name}=={chosen[name]}" for name in trial.of_extras(chosen)]
    return ["uv", *arguments[:at], *more, *arguments[at:], *needed]


class Trial:
    """A run of uv that installs nothing, as if an index had exactly the packages that the container has.

    All are versions by name: those of the image, those in layers that stay in use, those in layers that another version
    goes on top of, and what uv would install, with an empty version if it comes from an address.
    """

    def __init__(self, of_image: "dict[str, str]", below: "dict[str, str]", *, is_lock: bool) -> None:
        """Note what the container has, and whether uv installs a lock as it is."""
        self.of_image, self.below, self.is_lock = of_image, below, is_lock
        self.replaced = {}  # type: dict[str, str]
        self.removed = set()  # type: set[str]
        self.installs = {}  # type: dict[str, str]
        self._extras = {}  # type: dict[str, list[str]]

    @property
    def present(self) -> "dict[str, str]":
        """Name and version of what the container has below user software."""
        return {**self.of_image, **self.below}

    def run(
        self, program: str, arguments: "list[str]", given: "list[Option]", at: int, *, asked: "Sequence[str]"
    ) -> None:
        """Run `uv pip install` until it has a plan; end with its explanation if it finds none; see `install`."""
        offsets = buffered(arguments, given)
        while True:
            with tempfile.TemporaryDirectory(prefix="sifmod-uv-") as folder:
                words = trial_words(arguments, given, at, self._options(folder, given))
                status, said = run_trial([program, *words], offsets)
            for descriptor, offset in offsets.items():
                os.lseek(descriptor, offset, os.SEEK_SET)
            plan = read_plan(said)
            if plan and not status:
                self.removed, self.installs = plan
                return
            # another version of what a layer has may go on top
            in_the_way = named_in(said, self.below)
            if not in_the_way:
                sys.stderr.write(said)
                explain(said, self.of_image, asked)
                name_build_wheel("uv", said, asked)
                sys.exit(status or 2)
            self.replaced.update({name: self.below.pop(name) for name in in_the_way})

    def _options(self, folder: str, given: "list[Option]") -> "list[str]":
        """Return the options of the trial, and write what they name into a folder."""
        if self.is_lock:
            return ["--dry-run"]
        self._extras = extras_of(self.present)
        write_stand_ins(folder, self.present, self._extras)
        more = ["--dry-run", "--no-verify-hashes", *own_and(given, CONSTRAINTS, HELD)]
        more += own_and(given, FIND_LINKS, folder)
        if self.below:
            path = os.path.join(folder, "below.txt")
            with open(path, "w", encoding="utf-8") as stream:
                stream.writelines(f"{name}=={version}\n" for name, version in self.below.items())
            more.append(f"--constraints={path}")
        return more

    def tell(self) -> None:
        """Say which packages are not installed, because the container has them, and which go on top of a layer's."""
        for where, packages in (("the image", self.of_image), ("a layer", self.below)):
            kept = [f"{name}=={packages[name]}" for name in sorted(self.installs.keys() & packages.keys())]
            if kept:
                print(f"In {where}: {', '.join(kept)}", file=sys.stderr)
        above = sorted(f"{name}=={version}" for name, version in self.replaced.items() if name in self.installs)
        if above:
            print(f"In a layer, and found after what is installed now: {', '.join(above)}", file=sys.stderr)

    def chosen(self) -> "dict[str, str]":
        """Return name and version of what will be in user software."""
        state = {name: version for name, version in installed().items() if name not in self.removed}
        state.update(self.installs)
        return {name: version for name, version in state.items() if version and name not in self.present}

    def of_extras(self, chosen: "dict[str, str]") -> "list[str]":
        """Return the names of what uv installs for extras of packages that the container has."""
        required = {name for lines in self._extras.values() for name in map(required_name, lines)}
        return sorted(required & chosen.keys() & self.installs.keys())


# --- uv: a project whose environment is user software


def project(program: str, arguments: "list[str]", command: str) -> None:
    """Refuse to install a project into user software; return if its environment is another one.

    uv would install what the lock names exactly: packages of the image again, and nothing else.
    """
    words = list(itertools.takewhile(lambda word: word != "--", arguments))
    above = with_parents(".")
    places = [os.path.join(folder, os.environ.get("UV_PROJECT_ENVIRONMENT") or ".venv") for folder in above]
    if not any(is_same(place, own_folders()) for place in places) and not ("--active" in words and is_active()):
        return
    # what follows the words of `uv run` is another program's
    at = arguments.index(command) + 1
    own = words if command != "run" else list(itertools.takewhile(lambda word: word[:1] == "-", arguments[at:]))
    if {"--check", "--dry-run", "--help", "--isolated", "--no-sync", "-h"} & {*own} or is_set("UV_NO_SYNC"):
        execute(program, ["uv", *arguments])
    held = held_versions()
    lock = next(filter(None, (text_of(os.path.join(folder, "uv.lock")) for folder in above)), "")
    left_out = [name for name in sorted({*re.findall(r'(?m)^name = "([\w.-]+)"', lock)}) if canonical(name) in held]
    export = quoted(["uv", "export", "--no-emit-project", *(f"--no-emit-package={name}" for name in left_out)])
    first = f"{quoted(['uv', *arguments[:at], '--no-sync', *arguments[at:]])}; " if command in ("add", "remove") else ""
    then = ". Then: uv run --active --no-sync COMMAND" if command == "run" else ""
    refuse(
        "uv",
        f"uv {command} would install all that the project's lock names into the user software, packages of the image "
        f"too. To leave these out, type: {first}{export} | uv pip install -r -{then}",
    )


def text_of(path: str) -> str:
    """Return the text of a file; empty if it can't be read."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                return stream.read()
    return ""


# --- uv: the two runs


def run_uv(words: "Sequence[str]", asked: "Sequence[str]") -> None:
    """Run uv, which may read our descriptors; if it fails, say what it can't know, and end with its status."""
    status, said = run_watched(words)
    if status < 0:
        raise StoppedError(-status)
    if status:
        name_build_wheel("uv", said, asked)
        sys.exit(status)


def run_watched(words: "Sequence[str]") -> "tuple[int, str]":
    """Run a command; return its status, and the end of what it writes to standard error, which is shown as it comes.

    If that is a terminal, the command has one, of the same size, for its colours and its progress.
    """
    if not sys.stderr:  # it is closed
        return subprocess.call(words, close_fds=False), ""  # noqa: S603 - what the user asked for
    if sys.stderr.isatty():
        reader, writer = os.openpty()
        with contextlib.suppress(OSError):
            fcntl.ioctl(writer, termios.TIOCSWINSZ, fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(8)))
        mode = termios.tcgetattr(writer)
        mode[1] &= ~termios.OPOST  # the user's terminal makes its own line ends
        termios.tcsetattr(writer, termios.TCSANOW, mode)
    else:
        reader, writer = os.pipe()
    kept = collections.deque(maxlen=MOST_WRITES)  # type: collections.deque[bytes]
    child = subprocess.Popen(words, stderr=writer, close_fds=False)  # noqa: S603 - what the user asked for
    os.close(writer)
    try:
        while True:
            # a process that it leaves behind may keep the other end open
            is_over = child.poll() is not None
            if not select.select([reader], [], [], 0 if is_over else 0.1)[0]:
                if is_over:
                    break
                continue
            try:
                piece = os.read(reader, 65536)
            except OSError:  # the other end of a terminal is closed
                piece = b""
            if not piece:
                break
            kept.append(piece)
            with contextlib.suppress(OSError):  # uv ends as it would if nobody listens
                while piece:
                    piece = piece[os.write(2, piece) :]
        return child.wait(), b"".join(kept).decode(errors="replace")
    except BaseException as error:
        child.send_signal(error.args[0] if isinstance(error, StoppedError) else signal.SIGTERM)
        child.wait()
        raise
    finally:
        os.close(reader)


def is_pylock(path: str) -> bool:
    """Return whether uv reads a file as a lock (PEP 751)."""
    return bool(re.fullmatch(r"pylock(\.[^.]+)?\.toml", os.path.basename(path)))


def own_and(given: "list[Option]", setting: "tuple[str, str, tuple[str, ...]]", mine: str) -> "list[str]":
    """Return an option of our own, and the user's variable, which uv does not read if there is such an option."""
    variable, separator, names = setting
    theirs = [] if any(option.name in names for option in given) else os.environ.get(variable, "").split(separator)
    return [f"{names[0]}={value}" for value in dict.fromkeys([mine, *theirs]) if value]


def required_name(line: str) -> str:
    """Return the name in a line `Requires-Dist: NAME ...`; empty if it is another line."""
    found = re.match(r"Requires-Dist:\s*([A-Za-z0-9._-]+)", line)
    return canonical(found.group(1)) if found else ""


def extras_of(held: "dict[str, str]") -> "dict[str, list[str]]":
    """Return the lines about extras in the metadata of the image's packages.

    A package of the image may lack what its extras need: `pip install fsspec[http]` would install aiohttp. All other
    requirements are for the image to meet.
    """
    try:
        from importlib.metadata import distributions
    except ImportError:  # before Python 3.8
        return {}
    found = {}  # type: dict[str, list[str]]
    for one in distributions(path=[folder for folder in sys.path if not folder.startswith(sys.prefix + "/")]):
        header = (one.read_text("METADATA") or "").partition("\n\n")[0]
        name = re.search(r"(?m)^Name:\s*(\S+)", header)
        if name and canonical(name.group(1)) in held:
            extras = re.findall(r"(?m)^Provides-Extra:.*|^Requires-Dist:[^;@\n]*;.*\bextra\b.*", header)
            found.setdefault(canonical(name.group(1)), extras)
    return found


def write_stand_ins(folder: str, held: "dict[str, str]", extras: "dict[str, list[str]]") -> None:
    """Write a wheel for each package of the image that has nothing but its name, its version and its extras."""
    for name, version in held.items():
        stem = f"{name.replace('-', '_')}-{version.replace('-', '_')}"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *extras.get(name, [])]
        with zipfile.ZipFile(os.path.join(folder, f"{stem}-py3-none-any.whl"), "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")


def trial_words(arguments: "Sequence[str]", given: "list[Option]", at: int, more: "list[str]") -> "list[str]":
    """Return the arguments without what has no place in a trial, and with more options at a position."""
    words = dict(enumerate(arguments))
    for option in given:
        if option.name in NOT_IN_TRIAL:
            del words[option.at]
        elif (option.name, option.value) == ("--no-binary", ":all:") or option.name == "--output-format":
            for position in range(option.at, option.at + option.width):
                del words[position]
        elif option.name in ("-q", "-v"):
            words[option.at] = words[option.at].replace(option.name[1], "", 1)
            if words[option.at] == "-":
                del words[option.at]
    before = [word for position, word in words.items() if position < at]
    return [*before, *more, *(word for position, word in words.items() if position >= at)]


def buffered(arguments: "Sequence[str]", given: "list[Option]") -> "dict[int, int]":
    """Return the descriptors that the arguments name, each with its position; what can't be read twice is read now."""
    found = {}
    for word in {*arguments, *(option.value or "" for option in given)}:
        number = re.fullmatch(r"-|/dev/(stdin)|/(?:dev|proc/self)/fd/(\d+)", word)
        if not number:
            continue
        descriptor = int(number.group(2) or 0)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                with open(os.dup(descriptor), "rb") as stream, tempfile.TemporaryFile() as kept:
                    shutil.copyfileobj(stream, kept)
                    kept.seek(0)
                    os.dup2(kept.fileno(), descriptor)
            found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
        except OSError:
            continue  # uv names it
    return found


def unnamed_file(text: str) -> str:
    """Return a path by which the program that replaces this one can read a text; nothing has to be removed."""
    with tempfile.TemporaryFile() as stream:
        stream.write(text.encode())
        stream.flush()
        descriptor = os.dup(stream.fileno())
    os.set_inheritable(descriptor, True)
    return f"/dev/fd/{descriptor}"


def run_trial(words: "list[str]", offsets: "dict[int, int]") -> "tuple[int, str]":
    """Run uv without its own or the user's excluded packages; return its status and what it printed."""
    environ = {name: value for name, value in os.environ.items() if name not in ("UV_QUIET", "UV_REQUIRE_HASHES")}
    environ["UV_EXCLUDE"] = " ".join(path for path in environ["UV_EXCLUDE"].split() if path != HELD)
    done = subprocess.run(  # noqa: S603 - what the user asked for
        words,
        stdin=None if 0 in offsets else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environ,
        pass_fds=[descriptor for descriptor in offsets if descriptor > 2],
        check=False,
    )
    said = done.stdout.decode(errors="replace")
    if done.returncode < 0:
        sys.stderr.write(said)
        raise StoppedError(-done.returncode)
    return done.returncode, said


def read_plan(said: str) -> "Optional[tuple[set[str], dict[str, str]]]":
    """Return what uv would remove, and what it would install by name, from what it printed; None if it is unclear.

    The version is empty if it comes from an address, which says already which one it is.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    removed = {canonical(name) for name in re.findall(r"(?m)^ - ([A-Za-z0-9._-]+)", plain)}
    installs = {}
    for name, rest in re.findall(r"(?m)^ [+~] ([A-Za-z0-9._-]+)(.*)$", plain):
        version = re.fullmatch(r"==([^\s()]+)", rest)
        installs[canonical(name)] = version.group(1) if version else ""
    announced = re.search(r"(?m)^Would install (\d+) ", plain)
    if len(installs) != int(announced.group(1) if announced else 0):
        return None
    return removed, installs


def named_in(said: str, packages: "dict[str, str]") -> "list[str]":
    """Return the names of the packages that uv names with their versions."""
    return sorted(
        name for name, version in packages.items() if re.search(rf"\b{re.escape(f'{name}=={version}')}", said)
    )


def explain(said: str, held: "dict[str, str]", arguments: "Sequence[str]") -> None:
    """Say which packages of the image were in the way."""
    named = named_in(said, held)
    if named:
        command = shlex.quote(f"UV_EXCLUDE= {quoted(['uv', *arguments])}")
        print(
            f"uv: the image has {', '.join(f'{name}=={held[name]}' for name in named)}, which it keeps. "
            f"To replace it for this command, type on the host: start-shell -c {command}",
            file=sys.stderr,
        )


def in_layers() -> "dict[str, str]":
    """Return name and version of the packages in the layers, the first layer's first."""
    found = {}  # type: dict[str, str]
    for folder in sys.path:
        if folder.startswith(LAYERS):
            for name, (version, _has_address) in packages_in(folder).items():
                found.setdefault(name, version)
    return found


def site_packages() -> str:
    """Return the folder of the packages in user software."""
    return os.path.join(sys.prefix, "lib", "python{}.{}".format(*sys.version_info[:2]), "site-packages")


def installed() -> "dict[str, str]":
    """Return name and version of the packages in user software, without those that came from an address."""
    found = packages_in(site_packages()).items()
    return {name: version for name, (version, has_address) in found if not has_address}


def packages_in(folder: str) -> "dict[str, tuple[str, bool]]":
    """Return version of each package in a folder, and whether it came from an address, by name."""
    found = {}
    # pip removes the folder with the last package
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        name = re.fullmatch(r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)\.dist-info", entry)
        if name:
            has_address = os.path.exists(os.path.join(folder, entry, "direct_url.json"))
            found[canonical(name.group(1))] = (name.group(2), has_address)
    return found


# --- poetry and pdm


def poetry_or_pdm(tool: str, arguments: "list[str]") -> "NoReturn":
    """Run poetry or pdm, unless it would install into user software."""
    program = find_tool(tool)
    pairs = zip(["", *arguments], arguments)
    command = next((word for last, word in pairs if not word.startswith("-") and last not in OTHERS_VALUED), "")
    if command in OTHERS[tool] and is_held() and is_active() and not {"--dry-run", "--help", "-h"} & {*arguments}:
        again = quoted([tool, *arguments])
        refuse(
            tool,
            f"{again} would install packages of the image again, because {tool} can't keep them. To install the "
            "project and what it needs into the user software, type in its folder: pip install -e . (or pip install "
            f"PACKAGE). For an environment of its own, without the image's packages: env -u VIRTUAL_ENV {again}",
        )
    execute(program, [tool, *arguments])


# --- all


class StoppedError(BaseException):
    """A signal that ends this program."""


def stop(number: int, _frame: "Optional[FrameType]") -> None:
    """End the program, after its temporary folder was removed."""
    raise StoppedError(number)


def die_by(number: int) -> "NoReturn":
    """End by a signal, as if it had not been caught."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)


if __name__ == "__main__":
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, stop)
    try:
        {"pip": pip, "uv": uv}.get(sys.argv[1], functools.partial(poetry_or_pdm, sys.argv[1]))(sys.argv[2:])
    except StoppedError as stopped:
        die_by(stopped.args[0])
    except OSError as error:
        refuse(sys.argv[1], str(error), 2)
