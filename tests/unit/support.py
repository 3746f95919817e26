"""What several unit tests share: specs and sites to start from, a fake container runtime, snapshots of folders."""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Protocol, Union

from click.testing import CliRunner
from tests.programs import write_program

from sifmod import __version__, names
from sifmod.container.spec import ContainerSpec, PythonLayout
from sifmod.eb.space import SoftwareSpace
from sifmod.install.manifest import Manifest
from sifmod.site.settings import Settings, Site

# The header of a SIF: launch script, magic, version, architecture.
SIF_HEADER = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0"

# The beginning of a whole SquashFS file of 96 bytes: magic at 0, length at 40.
SQUASHFS = b"hsqs" + bytes(36) + (96).to_bytes(8, "little") + bytes(48)

USR = PythonLayout(prefix="/usr")
CONDA = PythonLayout(prefix="/opt/miniconda3/envs/pytorch", conda_root="/opt/miniconda3", conda_env="pytorch")


class Need(Protocol):
    """Returns the path of the first of these commands that is there."""

    def __call__(self, *names: str) -> str: ...


def a_spec(**changes: Any) -> ContainerSpec:
    """Return a container with a Python and user software; `changes` replace fields."""
    fields: dict[str, Any] = {
        "name": "Demo",
        "version": "1.0-x",
        "env_name": "DEMO",
        "installdir": "/apps/Demo/1.0-x",
        "sif": "demo.sif",
        "python": USR,
        "python_version": "3.11",
        "venv": "demo",
        "wrappers": ("python", "pip"),
    }
    return ContainerSpec(**{**fields, **changes})


def a_site(**changes: Any) -> Site:
    """Return a site that knows nothing; `changes` replace fields."""
    if "container_env" in changes:
        changes["container_env"] = MappingProxyType(changes["container_env"])
    return Site(**{"name": "test", **changes})


def settings_of(site: Site) -> Settings:
    """Return a site as settings of which it is not known where they come from."""
    return Settings(site, Path("/site.toml"), {})


def make_installation(space: SoftwareSpace, module: str, **changes: Any) -> Path:
    """Write what an installation leaves in a software space, and return its root; `changes` replace manifest fields.

    Without `module_files` the manifest is one of an earlier sifmod, which has no names. With them, the first one is
    written and the others link to it.

    The image is a header of a SIF, and the container of `start-shell` a Python 3.11 with one package.
    """
    root: Path = space.software / changes.get("install_subdir", module)
    settings = f"# settings of {root}\n"
    files = {"bin/start-shell": _START_SHELL, "share/container.sh": settings, "demo.sif": SIF_HEADER.decode()}
    fields: dict[str, Any] = {
        "module": module,
        "image": "demo.sif",
        "image_source": "/images/demo.sif",
        "image_sha256": hashlib.sha256(SIF_HEADER).hexdigest(),
        "image_size": len(SIF_HEADER),
        "python_version": "3.11",
        "files": tuple(sorted([*files, names.MANIFEST])),
        "tools": {"sifmod": __version__},
        "venv": "demo",
        "hashes": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items() if "/" in name},
        **changes,
    }
    for name, text in {**files, names.MANIFEST: Manifest(**fields).text}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_program(root / name, text)
    venv = root / names.USER_SOFTWARE_DIRECTORY / "venv" / "demo"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/usr/bin/python3")
    (venv / "lib/python3.11/site-packages/pip").mkdir(parents=True)
    usual = (space.modules / tree / f"{module}.lua" for tree in ("all", "lang"))
    file, *links = map(Path, fields.get("module_files", usual))
    for path in (file, *links):
        path.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(module_text(root))
    for link in links:
        link.symlink_to(file)
    return root


def module_text(root: Path) -> str:
    """Return the module file of `make_installation`."""
    return f'local root = "{root}"\n-- The container, written by sifmod.\n'


def named(space: SoftwareSpace, module: str, *, subdir: str = "", tree: str = "all/Core") -> dict[str, Any]:
    """Return what a manifest says of the names of `Demo/1` in a hierarchy, with a link by module class."""
    root = space.software / (subdir or "Demo/1")
    paths = [str(space.modules / top / f"{module}.lua") for top in (tree, "lang")]
    return {
        "name": "Demo",
        "version": "1",
        "full_module": f"Core/{module}",
        "install_subdir": subdir or "Demo/1",
        "module_files": {paths[0]: hashlib.sha256(module_text(root).encode()).hexdigest(), paths[1]: ""},
    }


_START_SHELL = """#!/bin/bash
echo '{"prefix": "/usr", "version": "3.11", "packages": [["torch", "2.2.0"]]}'
"""


@dataclass
class RecordedStep:
    """A step of progress, with what was reported of it."""

    title: str
    size: int
    advanced: list[int] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def advance(self, count: int) -> None:
        self.advanced.append(count)

    def tell(self, line: str) -> None:
        self.told.append(line)


@dataclass
class Recorded:
    """Progress that keeps what is reported."""

    steps: list[RecordedStep] = field(default_factory=list)

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[RecordedStep]:
        self.steps.append(RecordedStep(title, size))
        yield self.steps[-1]


def snapshot(top: Union[Path, str], leave_out: Collection[str] = ()) -> dict[str, tuple[int, int, int, bytes]]:
    """Return path -> (type, mode, mtime, content) of everything below a folder; not of the folder itself."""
    found = {}
    for path in sorted(Path(top).rglob("*")):
        name = str(path.relative_to(top))
        if name.split("/")[0] in leave_out:
            continue
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        # the modification time of a folder of the installation may change, the user's own may not
        own = not path.is_dir() or name.startswith("user-software")
        found[name] = (stat.S_IFMT(status.st_mode), mode_of(path), status.st_mtime_ns if own else 0, content)
    return found


def mode_of(path: Path) -> int:
    """Return the permission bits of a path."""
    return stat.S_IMODE(path.lstat().st_mode)


def split_binds(text: str) -> list[tuple[str, str, str]]:
    """Read a list of binds as the runtime does (Apptainer's ParseBindPath): [(source, destination, options)].

    Commas and colons count unless a backslash stands before them; what does not begin with a slash is one more option.
    """
    elements: list[list[str]] = []
    fields: list[str] = []
    word, characters = "", iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            word += following if following in (",", ":") else "\\" + following
        elif character in ",:":
            fields.append(word)
            word = ""
            if character == ",":
                elements.append(fields)
                fields = []
        else:
            word += character
    elements.append([*fields, word])
    binds: list[tuple[str, str, str]] = []
    for element in elements:
        if not element[0].startswith("/"):
            source, destination, options = binds.pop()
            binds.append((source, destination, ",".join(filter(None, [options, *element]))))
        else:
            source, destination, options = (*element, "", "")[:3]
            binds.append((source, destination or source, options))
    return binds


def a_runner() -> CliRunner:
    """Return what runs commands and keeps standard output and standard error apart, as Click does from 8.2 on."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart)


_FAKE_RUNTIME = """#!{python} -IS
# A container runtime that runs nothing: it notes how it was called, and does the little that an installation looks at.
import json, os, pathlib, sys
home = pathlib.Path({home!r})
answers = json.loads((home / "answers.json").read_text())
if sys.argv[1:] == ["--version"]:
    print(answers.get("release", "fake version 1.0"))
    sys.exit()
stdin = sys.stdin.read()
binds = {{}}
variable = os.environ.get("APPTAINER_BINDPATH", "")
word, fields, characters = "", [], iter(variable)
for character in [*characters, ","]:
    if character in ":," and not word.endswith("\\\\"):
        fields.append(word.replace("\\\\", ""))
        word = ""
        if character == ",":
            if len(fields) > 1:
                binds[fields[1]] = fields[0]
            fields = []
    else:
        word += character
contained = {contained!r}
is_contained = sys.argv[2 : 2 + len(contained)] == contained
words = sys.argv[2 + len(contained) :] if is_contained else sys.argv[2:]
call = {{
    "argv": [sys.argv[1], *words], "contained": is_contained, "env": dict(os.environ), "stdin": stdin, "binds": binds
}}
constraints = pathlib.Path(binds.get("/runscripts", home / "nothing"), "pip-constraints.txt")
if constraints.exists():
    call["constraints"] = constraints.read_text()
with (home / "calls.jsonl").open("a") as stream:
    stream.write(json.dumps(call) + "\\n")
command = words[1:]
step = (
    "venv" if command[1:3] == ["-I", "-"] and "system-site-packages" in stdin else "pip" if "install" in command
    else "compare" if "compare" in command else "probe" if command[1:] == ["-I", "-"] else "other"
)
if step == answers.get("fail"):
    if step == "venv":
        pathlib.Path(binds["/user-software"], "venv", "half").mkdir(parents=True)
    print("out: about to fail")
    print("\\n".join(f"err {{number}}" for number in range(1, 41)), file=sys.stderr)
    sys.exit(answers.get("status", 9))
if step == "probe":
    print(json.dumps(answers["python"]))
elif step == "venv":
    venv = pathlib.Path(binds["/user-software"] + command[-1][len("/user-software"):])
    (venv / "bin").mkdir(parents=True)
    version = answers["python"]["version"] if "python" in answers else "3.11"
    (venv / "pyvenv.cfg").write_text("home = " + command[0] + "\\nversion = " + version + ".2\\n")
    (venv / "bin" / "python").symlink_to(command[0])
elif step == "pip":
    venv = pathlib.Path(binds["/user-software"], "venv")
    next(venv.iterdir()).joinpath("installed.txt").write_text(stdin)
elif step == "other":
    print(answers.get("stdout", ""), end="")
"""


@contextmanager
def sifmod_imported_anew() -> Iterator[None]:
    """Let modules of sifmod be imported anew; afterwards those from before are there, and no others."""

    def ours() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "sifmod"}

    before = ours()
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in ours():
            del sys.modules[name]
        sys.modules.update(before)


@dataclass(frozen=True)
class Stubs:
    """Shell scripts that stand in for commands, in a folder."""

    folder: Path

    def __call__(self, name: str, script: str) -> Path:
        """Make a command, and return its path."""
        return write_program(self.folder / name, f"#!/bin/sh\n{script}\n")


@contextmanager
def exchanging(first: Path, second: Path) -> Iterator[None]:
    """Let another process exchange two names all the time, as a stranger does who shares a folder."""
    code = (
        "import ctypes, os, sys\n"
        "names = list(map(os.fsencode, sys.argv[1:]))\n"
        "while True: ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, first, second]) as other:
        try:
            yield
        finally:
            other.kill()


class FakeRuntime:
    """A `singularity` on PATH that notes its calls and imitates what an installation asks of it.

    Set `fail` to probe, venv, pip, compare or other to make that step fail.
    """

    def __init__(self, home: Path, name: str = "singularity") -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir(parents=True)
        self.path = self.bin / name
        write_program(
            self.path, _FAKE_RUNTIME.format(python=sys.executable, home=str(home), contained=list(names.CONTAINED))
        )
        self.answer()

    def answer(
        self,
        *,
        fail: str = "",
        version: str = "3.11",
        packages: Iterable[tuple[str, str]] = (("torch", "2.2.0"),),
        **more: Any,
    ) -> None:
        python = {"prefix": "/usr", "version": version, "packages": list(packages)}
        (self.home / "answers.json").write_text(json.dumps({"fail": fail, "python": python, **more}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.home / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Killing:
    """Runs a command that is killed with -9 at one of its system calls."""

    strace: str
    command: Sequence[Union[str, Path]]

    def points(self, log: Path, calls: Sequence[str], *only: str) -> list[tuple[str, int]]:
        """Run the command to its end, and return each of these calls that it makes: its name and which one it is."""
        trace = [self.strace, "-f", "-o", log, *only, "-e", f"trace={','.join(calls)}", *self.command]
        subprocess.run(trace, check=True, capture_output=True)
        made = Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE))
        return [(call, number) for call in calls for number in range(1, made[call] + 1)]

    def at(self, point: tuple[str, int], *only: str) -> bool:
        """Run it until it is killed at a point; False: it did not come to it."""
        call, number = point
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
        command = [self.strace, "-f", "-o", "/dev/null", *only, *inject, *self.command]
        return subprocess.run(command, check=False, capture_output=True).returncode != 0
