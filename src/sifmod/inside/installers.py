"""Runs pip, uv, poetry or pdm so that the packages of the image stay as they are, and says why an install can't work.

    installers.py pip|uv|poetry|pdm [ARGUMENT...]

What changes user software is refused here, or run by installing.py. Projects of uv, poetry and pdm have no way to keep
what the image has, so what they would install into user software is refused.

Exit status: that of the tool; 1 (pip) or 2 (the others) if the install is refused; 127 if there is no such tool.
"""

import contextlib
import functools
import glob
import itertools
import os
import pwd
import re
import runpy
import shlex
import shutil
import signal
import site
import stat
import sys
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import NoReturn, Optional

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
# `run_pip` of installing.py in the same way.
WATCHED = (
    "import sys; sys.path[:1] = filter(None, sys.path[:1]); import runpy; runpy.run_path(sys.argv.pop(1))['run_pip']()"
)
INSTALLING = os.path.join(os.path.dirname(HELD), "installing.py")
# where the host commands bind the host's uv
HOST_UV = "/sifmod/uv"
# where they bind the wheels that `sifmod build-wheel` has made for this module
WHEELS = "/sifmod/wheels"

# Short options of pip and uv without a value.
FLAGS = "hnqvUV"
# Options of pip and uv whose value is a place for packages.
PLACES = ("--prefix", "--root", "--target", "-t")
# Commands of uv that change the environment of a project, those of `uv pip` that look at packages, and all of interest.
PROJECT = ("add", "remove", "run", "sync", "version")
UV_PIP = ("check", "freeze", "install", "list", "show", "sync", "tree", "uninstall")
COMMANDS = ("pip", "tool", "venv", *PROJECT)
# Commands of other tools that install into the active environment, and their options with a value before the command.
OTHERS = dict.fromkeys(("pdm", "poetry"), frozenset({"add", "install", "remove", "sync", "update"}))
OTHERS_VALUED = ("--config", "--directory", "--project", "-C", "-P", "-c", "-p")
PIP_COMMANDS = frozenset(
    {"cache", "check", "config", "debug", "download", "freeze", "hash", "help", "index", "inspect", "install", "list"}
    | {"lock", "search", "show", "uninstall", "wheel"}
)

# What is packed below user software.
LAYERS = "/user-layers/"
USER_SOFTWARE = "/user-software/"
MOST_LAYERS = 8
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
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
    """Return the environment of user software as containers and as the host name it: packed, these are two."""
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
    return any(is_same(one, own_folders()) for one in with_parents(path))


def check_not_place(tool: str, given: "list[tuple[str, str]]") -> None:
    """Refuse an option that names user software as another place: what holds the image's packages would not count."""
    for name, value in given:
        # with --root come the paths of this environment below it
        if name in PLACES and value and is_in_ours(value + (sys.prefix if name == "--root" else "")):
            refuse(tool, f"{name} names the user software, where packages go without it: leave it out")


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
    """Refuse to remove what is packed below user software: pip would find nothing to remove, and uv remove a stub."""
    below = runpy.run_path(INSTALLING)["below"]({})
    for word in arguments[list(arguments).index("uninstall") + 1 :]:
        path = below[canonical(word)].path if canonical(word) in below else ""
        if path.startswith(LAYERS):
            again = f"unmake-squashfs; {quoted([tool, *arguments])}; make-squashfs --replace"
            refuse(
                tool,
                f"{word} is in the layer {'/'.join(path.split('/')[:3])}, which is read-only: 'sifmod show' "
                "says which file or module that is. Another version can be installed on top of it. To take it out of "
                f"the module's own layers, type on the host: {removing_directory()}flatten-layers; {again}",
            )
        elif path and tool == "uv":
            refuse(tool, f"{word} is a package of the image, and can't be removed from it")


# --- pip


def pip(arguments: "list[str]") -> "NoReturn":
    """Run pip, unless what it would install could not be used."""
    command = next((word for word in arguments if word in PIP_COMMANDS), "")
    given = options(arguments)
    arguments = with_own_python(arguments, given)
    is_change = command in ("install", "uninstall")
    if is_change:
        check_not_place("pip", given)
        is_change = not is_elsewhere("pip", given) and "--dry-run" not in arguments
    if is_change:
        check_not_packed("pip", command, arguments)
    if command == "install" and os.environ.get("PYTHONNOUSERSITE"):
        check_not_user(arguments, [name for name, _ in given])
    if "PYTHONPATH" in os.environ:
        # an empty part is the current folder, whose encodings.py Python would run at its start
        os.environ["PYTHONPATH"] = ":".join(filter(None, os.environ["PYTHONPATH"].split(":")))
    if command in ("install", "wheel") and os.path.isdir(WHEELS):
        at = arguments.index(command) + 1
        arguments = [*arguments[:at], f"--find-links={WHEELS}", *arguments[at:]]
    is_watched = is_change or command == "install"
    program = [WATCHED, INSTALLING, "lock" if is_change else ""] if is_watched else [AS_MODULE]
    execute(sys.executable, [sys.executable, "-c", *program, "pip", *arguments])


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


# --- options


def options(arguments: "Sequence[str]") -> "list[tuple[str, str]]":
    """Return the options before `--`, each with its value if it takes one: the rest of its word, or the next word.

    uv takes no value that begins with `-`, except `-` itself, so any such word is an option.
    """
    words = list(itertools.takewhile(lambda word: word != "--", arguments))
    found = []
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found.append((name, value if equals else following))
        elif word.startswith("-") and word != "-":
            letters = len(word[1:]) - len(word[1:].lstrip(FLAGS)) + 2
            found += [(f"-{letter}", "") for letter in word[1 : letters - 1]]
            if word[letters - 1 :]:
                found.append((f"-{word[letters - 1]}", word[letters:].lstrip("=") or following))
    return found


def with_own_python(arguments: "Sequence[str]", given: "list[tuple[str, str]]") -> "list[str]":
    """Return the arguments with user software's Python as containers name it: scripts that are installed name it."""
    words = list(arguments)
    for name, value in given:
        if name in ("--python", "-p") and is_path(value) and is_in_ours(value):
            words = [f"{word[: -len(value)]}{sys.executable}" if word.endswith(value) else word for word in words]
    return words


# --- uv


def uv(arguments: "list[str]") -> "NoReturn":
    """Run uv, beside stubs if it looks at user software."""
    program = find_tool("uv")
    command = next((word for word in arguments if word in COMMANDS), "")
    if command in PROJECT and is_held():
        project(program, arguments, command)
    given = options(arguments)
    names = {name for name, _ in given}
    if names & {"--help", "--version", "-V", "-h"}:
        execute_elsewhere(program, arguments)
    if command == "venv":
        check_not_replaced(arguments[arguments.index("venv") :])
    if command != "pip":
        execute_elsewhere(program, arguments)
    check_not_place("uv", given)
    below_pip = arguments[arguments.index("pip") :]
    what = next((word for word in below_pip if word in (*UV_PIP, "compile")), "compile")
    if what == "compile" or not is_ours(given):
        execute_elsewhere(program, arguments)
    is_change = what in ("install", "sync", "uninstall")
    if is_change and not names & {"--check", "--dry-run"}:
        check_not_packed("uv", what, arguments)
    if what == "sync" and is_held():
        refuse(
            "uv",
            "uv pip sync would install packages of the image again, and remove others from the user software. "
            "Type instead: uv pip install -r FILE",
        )
    os.environ["VIRTUAL_ENV"] = sys.prefix
    if is_path(os.environ.get("UV_PYTHON", "")):
        del os.environ["UV_PYTHON"]
    if what == "install" and os.path.isdir(WHEELS):
        os.environ["UV_FIND_LINKS"] = ",".join(filter(None, (WHEELS, os.environ.get("UV_FIND_LINKS"))))
    held = held_versions() if is_held() else {}
    status = runpy.run_path(INSTALLING)["run_uv"](program, with_own_python(arguments, given), what, held)
    if status < 0:
        die_by(-status)
    sys.exit(status)


def check_not_replaced(words: "list[str]") -> None:
    """Refuse to make a virtual environment where user software is, which `--clear` would remove."""
    named = [word for word in words[1:] if word[:1] != "-"]
    if all(last[:1] == "-" for last, word in zip(words, words[1:]) if word in named):
        named += [os.environ.get("UV_PROJECT_ENVIRONMENT", ""), ".venv"]
    above = [parent for own in own_folders() for parent in with_parents(own)]
    for place in named:
        if os.path.isdir(place) and (is_in_ours(place) or is_same(place, above)):
            refuse(
                "uv",
                f"'{place}' is the user software, which this would replace. For an environment of its own, name "
                "another folder: uv venv FOLDER",
            )


def is_path(python: str) -> bool:
    """Return whether uv takes a Python for a path: a version or a name is none."""
    return "/" in python or os.path.isdir(python)


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


def is_elsewhere(tool: str, given: "list[tuple[str, str]]") -> bool:
    """Return whether an option names another place than user software."""
    places = ("--prefix", "--target", "-t", *(("--python", "--root") if tool == "pip" else ("--system",)))
    return any(name in places and not (name == "--python" and is_in_ours(value)) for name, value in given)


def is_ours(given: "list[tuple[str, str]]") -> bool:
    """Return whether no option and no variable of uv names another environment than user software."""
    pythons = [value for name, value in given if name in ("--python", "-p")]
    python = (pythons or [os.environ.get("UV_PYTHON", "")])[-1]
    # a version or a name stands for the active environment; a path may be another one
    is_there = is_in_ours(python) if is_path(python) else is_active()
    return is_there and not is_elsewhere("uv", given) and not is_set("UV_SYSTEM_PYTHON")


def is_active() -> bool:
    """Return whether user software is the active environment."""
    return is_same(os.environ.get("VIRTUAL_ENV") or "/", own_folders())


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
    lock = ""
    for folder in above:
        with contextlib.suppress(OSError), open(os.path.join(folder, "uv.lock"), encoding="utf-8") as stream:
            lock = lock or stream.read()
    left_out = [name for name in sorted({*re.findall(r'(?m)^name = "([\w.-]+)"', lock)}) if canonical(name) in held]
    export = quoted(["uv", "export", "--no-emit-project", *(f"--no-emit-package={name}" for name in left_out)])
    first = f"{quoted(['uv', *arguments[:at], '--no-sync', *arguments[at:]])}; " if command in ("add", "remove") else ""
    then = ". Then: uv run --active --no-sync COMMAND" if command == "run" else ""
    refuse(
        "uv",
        f"uv {command} would install all that the project's lock names into the user software, packages of the image "
        f"too. To leave these out, type: {first}{export} | uv pip install -r -{then}",
    )


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
    for one in SIGNALS:
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, stop)
    try:
        {"pip": pip, "uv": uv}.get(sys.argv[1], functools.partial(poetry_or_pdm, sys.argv[1]))(sys.argv[2:])
    except StoppedError as stopped:
        die_by(stopped.args[0])
    except OSError as error:
        refuse(sys.argv[1], str(error), 2)
