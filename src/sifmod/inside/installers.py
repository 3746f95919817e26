"""Runs pip or uv so that the packages of the image stay as they are, and says why an install can't work.

    installers.py pip|uv [ARGUMENT...]

uv does not see the packages of the image, so `uv pip install` is resolved first, without installing anything, as if an
index had exactly the image's versions. A requirement that they don't meet ends there, with uv's own explanation. Then
uv installs the versions that it found, without the packages of the image. docs/adr/0011 says why it takes two runs.

Exit status: that of pip or uv; 1 (pip) or 2 (uv) if the install is refused; 127 if there is no uv.
"""

import itertools
import os
import re
import shlex
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import NoReturn, Optional

# The image's packages as `name==version`; UV_EXCLUDE and PIP_CONSTRAINT name this file.
HELD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pip-constraints.txt")
# where the host commands bind the host's uv
HOST_UV = "/sifmod/uv"
# the first version that reads UV_EXCLUDE
OLDEST_UV = (0, 9, 8)

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
PIP_COMMANDS = frozenset(
    {"cache", "check", "config", "debug", "download", "freeze", "hash", "help", "index", "inspect", "install", "list"}
    | {"lock", "search", "show", "uninstall", "wheel"}
)


# What is packed below user software.
LAYERS = "/user-layers/"


def refuse(tool: str, status: int, message: str) -> "NoReturn":
    """End with a message."""
    print(f"{tool}: {message}", file=sys.stderr)
    sys.exit(status)


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


def check_not_packed(tool: str, status: int, command: str, arguments: "Sequence[str]") -> None:
    """Refuse to change packed user software. Packages can be added above it; to remove one, it must be unpacked."""
    if is_packed(sys.prefix):
        again = quoted([tool, *arguments])
        unpacking = f"unmake-squashfs; {again}; make-squashfs --replace"
        way = f"add-layer; {again}; make-squashfs" if command == "install" else unpacking
        refuse(tool, status, f"the user software is packed, which makes it read-only. Type on the host: {way}")


# --- pip


def pip(arguments: "list[str]") -> "NoReturn":
    """Run pip, unless what it would install could not be used."""
    command = next((word for word in arguments if word in PIP_COMMANDS), "")
    given = options(arguments, short_flags="hqvUV")
    elsewhere = any(option.name in ELSEWHERE["pip"] for option in given)
    if command in ("install", "uninstall") and not elsewhere and "--dry-run" not in arguments:
        check_not_packed("pip", 1, command, arguments)
    if command == "install" and os.environ.get("PYTHONNOUSERSITE"):
        check_not_user(arguments, [option.name for option in given])
    execute(sys.executable, [sys.executable, "-m", "pip", *arguments])


def check_not_user(arguments: "list[str]", given: "list[str]") -> None:
    """Refuse to install into the home, where the container's Python does not look."""
    words = ["pip", *(word for word in arguments if word != "--user")]
    if "--user" in given:
        what = "--user"
    elif os.environ.get("PIP_USER", "").lower() in ("1", "on", "t", "true", "y", "yes") and "--no-user" not in given:
        what, words = "PIP_USER", ["env", "-u", "PIP_USER", *words]
    else:
        return
    refuse(
        "pip",
        1,
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
    program = find_uv()
    command = command_of(arguments)
    words = [word for _, word in command]
    given = options(arguments)
    names = {option.name for option in given}
    if names & {"--help", "--version", "-V", "-h"} or not is_ours(given):
        execute_elsewhere(program, arguments)
    if words and words[0] in ("add", "remove", "sync") and "--active" in names and is_held():
        refuse_sync(f"uv {words[0]} --active")
    if words not in (["pip", "install"], ["pip", "sync"], ["pip", "uninstall"]):
        execute_elsewhere(program, arguments)
    if not names & {"--check", "--dry-run"}:
        check_not_packed("uv", 2, words[1], arguments)
    if words == ["pip", "uninstall"] or not is_held():
        execute(program, ["uv", *arguments])
    if words == ["pip", "sync"]:
        refuse_sync("uv pip sync")
    check_version(program)
    install(program, arguments, given, command[1][0] + 1)


def find_uv() -> str:
    """Return the uv of the container, or the one that the host lends."""
    own = os.path.dirname(HELD)
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if os.path.abspath(folder) != own]
    found = shutil.which("uv", path=":".join(folders)) or shutil.which(HOST_UV)
    if not found:
        remedy = "To install it, type: pip install uv. The host commands uv and start-shell also use a uv of the host"
        refuse("uv", 127, f"this container has no uv. {remedy}")
    return found


def is_held() -> bool:
    """Return whether the image's packages are held: unless the user has emptied UV_EXCLUDE."""
    return bool(os.environ.get("UV_EXCLUDE")) and os.path.exists(HELD)


def is_set(name: str) -> bool:
    """Return whether a variable has one of the values that pip and uv read as true."""
    return os.environ.get(name, "").lower() in ("1", "on", "t", "true", "y", "yes")


def is_ours(given: "list[Option]") -> bool:
    """Return whether no option and no variable names another environment than user software."""
    if os.path.realpath(os.environ.get("VIRTUAL_ENV", "")) != os.path.realpath(sys.prefix):
        return False
    if is_set("UV_SYSTEM_PYTHON") or any(option.name in ELSEWHERE["uv"] for option in given):
        return False
    pythons = [option.value for option in given if option.name in ("--python", "-p")]
    python = (pythons[-1] if pythons else os.environ.get("UV_PYTHON")) or ""
    # a version or a name stands for the active environment; a path may be another one
    return "/" not in python or (os.path.abspath(python) + "/").startswith(sys.prefix + "/")


def refuse_sync(what: str) -> "NoReturn":
    """Refuse what would install packages of the image again, and remove what users installed."""
    refuse(
        "uv",
        2,
        f"{what} would install packages of the image again, and remove others from the user software. "
        "Type instead: uv pip install -r FILE, or in a project: uv export --no-emit-project | uv pip install -r -",
    )


def check_version(program: str) -> None:
    """Refuse a uv that does not know UV_EXCLUDE."""
    command = [program, "--version"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout  # noqa: S603 - the uv that was found
    numbers = re.search(rb"(\d+)\.(\d+)\.(\d+)", said)
    if not numbers or tuple(int(number) for number in numbers.groups()) < OLDEST_UV:
        oldest = ".".join(str(number) for number in OLDEST_UV)
        refuse("uv", 2, f"'{program}' is too old to keep the image's packages: uv {oldest} or later is required")


def execute(program: str, words: "list[str]") -> "NoReturn":
    """Become another program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    try:
        os.execv(program, words)  # noqa: S606 - what the user asked for
    except OSError as error:
        refuse(words[0], 126, f"can't run '{program}' in this container: {error.strerror}")


def execute_elsewhere(program: str, arguments: "list[str]") -> "NoReturn":
    """Become uv for environments that don't see the image's packages, so that it may install these there."""
    if os.environ.get("UV_EXCLUDE") == HELD:
        del os.environ["UV_EXCLUDE"]
    execute(program, ["uv", *arguments])


def install(program: str, arguments: "list[str]", given: "list[Option]", at: int) -> "NoReturn":
    """Try `uv pip install` with the image's versions, then run it without the image's packages.

    Args:
        program: uv.
        arguments: its arguments.
        given: the options among them.
        at: the position after `install`.
    """
    with open(HELD, encoding="utf-8") as lines:
        held = {canonical(name): version for name, _, version in (line.strip().partition("==") for line in lines)}
    # uv does not look into layers either
    below = {name: version for name, version in in_layers().items() if name not in held}
    below = {name: version for name, version in below.items() if name not in on_top()}
    is_lock = any(option.name in REQUIREMENTS and is_pylock(option.value or "") for option in given)
    offsets = buffered(arguments, given)
    replaced = {}  # type: dict[str, str]
    while True:
        present = {**held, **below}
        extras = {} if is_lock else extras_of(present)  # type: dict[str, list[str]]
        with tempfile.TemporaryDirectory(prefix="sifmod-uv-") as folder:
            more = ["--dry-run"]
            if not is_lock:
                write_stand_ins(folder, present, extras)
                more += ["--no-verify-hashes", *own_and(given, CONSTRAINTS, HELD), *own_and(given, FIND_LINKS, folder)]
                if below:
                    path = os.path.join(folder, "below.txt")
                    with open(path, "w", encoding="utf-8") as stream:
                        stream.writelines(f"{name}=={version}\n" for name, version in below.items())
                    more.append(f"--constraints={path}")
            status, said = run_trial([program, *trial_words(arguments, given, at, more)], offsets)
        plan = read_plan(said)
        if plan and not status:
            break
        # another version of what a layer has may go on top
        in_the_way = named_in(said, below)
        if not in_the_way:
            sys.stderr.write(said)
            explain(said, held, arguments)
            sys.exit(status or 2)
        replaced.update({name: below.pop(name) for name in in_the_way})
        for descriptor, offset in offsets.items():
            os.lseek(descriptor, offset, os.SEEK_SET)
    held.update(below)
    removed, installs = plan
    of_image = sorted(name for name in installs if name in held)
    if of_image and is_lock:
        refuse(
            "uv",
            2,
            f"this lock has packages of the image ({', '.join(of_image)}), and uv installs a lock as it is. "
            "Type instead: uv export --no-emit-project | uv pip install -r -",
        )
    is_quiet = any(option.name in ("--quiet", "-q") for option in given)
    if of_image and not is_quiet:
        for where, names in (("the image", held.keys() - below.keys()), ("a layer", below.keys())):
            kept = [f"{name}=={held[name]}" for name in of_image if name in names]
            if kept:
                print(f"In {where}: {', '.join(kept)}", file=sys.stderr)
    on_layers = sorted(f"{name}=={version}" for name, version in replaced.items() if name in installs)
    if on_layers and not is_quiet:
        print(f"In a layer, and found after what is installed now: {', '.join(on_layers)}", file=sys.stderr)
    more = own_and(given, EXCLUDES, HELD)
    if below:
        more.append(f"--excludes={unnamed_file(''.join(name + chr(10) for name in below))}")
    needed = []
    if not is_lock:
        state = {name: version for name, version in installed().items() if name not in removed}
        state.update(installs)
        found = {name: version for name, version in state.items() if version and name not in held}
        more += own_and(given, CONSTRAINTS, unnamed_file("".join(f"{name}=={found[name]}\n" for name in found)))
        of_extras = {name for lines in extras.values() for name in map(required_name, lines)}
        # where each requirement must have a hash, the user has listed these too
        if not (is_set("UV_REQUIRE_HASHES") or any(option.name == "--require-hashes" for option in given)):
            needed = [f"{name}=={found[name]}" for name in sorted(of_extras & found.keys() & installs.keys())]
    for descriptor, offset in offsets.items():
        os.lseek(descriptor, offset, os.SEEK_SET)
    execute(program, ["uv", *arguments[:at], *more, *arguments[at:], *needed])


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


def explain(said: str, held: "dict[str, str]", arguments: "list[str]") -> None:
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


def on_top() -> "set[str]":
    """Return the names of the packages in user software itself."""
    return set(packages_in(site_packages()))


def packages_in(folder: str) -> "dict[str, tuple[str, bool]]":
    """Return version of each package in a folder, and whether it came from an address, by name."""
    found = {}
    for entry in os.listdir(folder):
        name = re.fullmatch(r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)\.dist-info", entry)
        if name:
            has_address = os.path.exists(os.path.join(folder, entry, "direct_url.json"))
            found[canonical(name.group(1))] = (name.group(2), has_address)
    return found


# --- both


class StoppedError(BaseException):
    """A signal that ends this program."""


def stop(number: int, _frame: "Optional[FrameType]") -> None:
    """End the program, after its temporary folder was removed."""
    raise StoppedError(number)


def die_by(number: int) -> "NoReturn":
    """End as a program does that does not catch the signal."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)


if __name__ == "__main__":
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, stop)
    try:
        {"pip": pip, "uv": uv}[sys.argv[1]](sys.argv[2:])
    except StoppedError as stopped:
        die_by(stopped.args[0])
    except OSError as error:
        refuse(sys.argv[1], 2, str(error))
