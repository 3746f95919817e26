"""Strict stand-ins for `enroot` and for `srun` with pyxis: each call is checked against the grammar that they document.

The grammar is that of enroot 4.1.2 (enroot.in, src/runtime.sh, bin/enroot-mount.c) and pyxis 0.24 (args.c,
pyxis_slurmstepd.c), as far as sifmod uses it. Anything else, a malformed mount or variable, or an image that is not
there ends the call, also where the real ones would only warn. `write_stand_ins` puts both into a folder for PATH:
this file runs as a program, with the standard library alone, notes each call, and starts no container: with a script
from `then` it becomes that, in the same process, as enroot becomes the command. After `run_steps`, a step without a
container runs its tasks.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Optional

# Options of `enroot start`, which all take a value.
_ENROOT = {"-e": "--env", "--env": "--env", "-m": "--mount", "--mount": "--mount"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# enroot-mount.c, `mount_opts`
_MOUNT_OPTIONS = frozenset(("rbind", "ro", "rw", "x-create=auto"))

# Options of pyxis, each with whether it takes a value (args.c, `spank_opts`).
_PYXIS: Mapping[str, bool] = {
    **dict.fromkeys((f"--container-{name}" for name in ("image", "mounts", "workdir", "env")), True),
    **dict.fromkeys(("--container-mount-home", "--no-container-remap-root"), False),
}

# Options of srun 22.05 that sifmod's scripts and how-tos use, and whether each takes a value; None: it may.
_SRUN: Mapping[str, Optional[bool]] = {
    "--kill-on-bad-exit": None,
    **dict.fromkeys(("--overlap", "--quiet"), False),
    **dict.fromkeys(("--chdir", "--cpu-bind", "--gres", "--input", "--job-name", "--mpi"), True),
    **dict.fromkeys(("--nodes", "--ntasks", "--ntasks-per-node", "--output"), True),
    **dict.fromkeys(("-N", "-n", "-o"), True),
}

_SQUASHFS = b"hsqs"


class RefusedError(Exception):
    """A call that the real command would refuse, or that would not do what it says."""


@dataclass(frozen=True)
class Mount:
    """One mount: a path of the host, a path of the container, and flags."""

    source: str
    target: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnrootCall:
    """A call of enroot.

    Attributes:
        command: `start` or `version`.
        options: the long names of the options, with their values; None for those without.
        words: what follows the options: the image and the command.
        mounts: what `--mount` says.
        env: what `--env` sets; None for a variable whose value is that of the host.
    """

    command: str
    options: tuple[tuple[str, Optional[str]], ...]
    words: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, Optional[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class SrunCall:
    """A call of srun.

    Attributes:
        options: options of Slurm, with their values; None for those without.
        image: what `--container-image` names; empty for a step on the host.
        mounts: what `--container-mounts` says.
        env: the names in `--container-env`.
        others: the other options of pyxis without `--`, with their values; None for those without.
        words: the command.
    """

    options: tuple[tuple[str, Optional[str]], ...]
    words: tuple[str, ...]
    image: str = ""
    mounts: tuple[Mount, ...] = ()
    env: tuple[str, ...] = ()
    others: tuple[tuple[str, Optional[str]], ...] = ()


def read_enroot(words: Sequence[str]) -> EnrootCall:
    """Return what a call of enroot means.

    Args:
        words: the words after `enroot`.

    Raises:
        RefusedError: enroot would refuse it.
    """
    command, *rest = words or [""]
    options, left = _enroot_options(rest) if command == "start" else ([], rest)
    if (command, bool(left)) not in (("start", True), ("version", False)):
        raise RefusedError(f"enroot {command}: {len(left)} words after the options")
    if left:
        _check_squashfs(left[0])
    mounts = tuple(_fstab(value) for name, value in options if name == "--mount")
    env = dict(_enroot_variable(value) for name, value in options if name == "--env")
    return EnrootCall(command, tuple(options), tuple(left), mounts, env)


def _enroot_options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options, and what follows; enroot knows neither joined short options nor abbreviations."""
    found, left = [], list(words)
    while left and re.match(r"-.", left[0], re.DOTALL):
        word = left.pop(0)
        if word == "--":
            break
        name, joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in _ENROOT:
            raise RefusedError(f"enroot start: unknown option '{word}'")
        if not joined:
            value = left.pop(0) if left else ""
        if not value:
            raise RefusedError(f"enroot start: {name} needs a value")
        found.append((_ENROOT[name], value))
    return found, left


def _fstab(text: str) -> Mount:
    """Read a mount: fields of fstab, separated by colons (`runtime::start`, `mount_fstab`)."""
    if not re.fullmatch(r"\S+(:\S+)*", text):
        raise RefusedError(f"enroot: invalid argument '{text}': white space in a mount")
    fields = text.split(":")
    flags = fields[2].split(",") if len(fields) > 2 else []
    if not all(fields) or len(fields) not in (2, 3) or not _MOUNT_OPTIONS.issuperset(flags):
        raise RefusedError(f"enroot: invalid fstab entry '{text}'")
    if flags and "rbind" not in flags:
        raise RefusedError(f"enroot: no bind in '{text}': without options it is assumed, with some it is not")
    return _checked(Mount(fields[0], fields[1], tuple(flags)))


def _enroot_variable(text: str) -> tuple[str, Optional[str]]:
    name, joined, value = text.partition("=")
    passed = value if joined else os.environ.get(name, "")
    if not _VARIABLE.fullmatch(name) or "\n" in passed:
        raise RefusedError(f"enroot: invalid argument '{text}': write NAME or NAME=VALUE, on one line")
    if re.fullmatch(r"""["'].*["']\s*""", passed):  # common::envfmt
        raise RefusedError(f"enroot: it would take the quotes around the value of {name} away")
    return name, value if joined else None


def _checked(mount: Mount) -> Mount:
    if not mount.source.startswith("/") or not mount.target.startswith("/"):
        raise RefusedError(f"source and target of a mount must be paths: {mount}")
    if not Path(mount.source).exists():
        raise RefusedError(f"the source path of a mount does not exist: {mount.source}")
    return mount


def _check_squashfs(path: str) -> None:
    if not Path(path).is_file():
        raise RefusedError(f"no such image: {path}")
    with Path(path).open("rb") as stream:
        if stream.read(len(_SQUASHFS)) != _SQUASHFS:
            raise RefusedError(f"invalid image format: {path}")


def read_srun(words: Sequence[str]) -> SrunCall:
    """Return what a call of srun with options of pyxis means.

    Args:
        words: the words after `srun`.

    Raises:
        RefusedError: srun or pyxis would refuse it, or pyxis would ignore an option.
    """
    options: list[tuple[str, Optional[str]]] = []
    of_pyxis: list[tuple[str, Optional[str]]] = []
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        short = re.fullmatch(r"(-[A-Za-z])(.+)", word)
        name, joined, value = (short[1], "=", short[2]) if short else word.partition("=")
        known = _PYXIS.get(name)
        takes_value = _SRUN.get(name) if known is None else known
        if (known is None and name not in _SRUN) or (joined and takes_value is False):
            raise RefusedError(f"srun: unrecognized option '{word}'")
        if takes_value and not joined:
            value = left.pop(0) if left else ""
        takes_value = takes_value or bool(joined)
        (options if known is None else of_pyxis).append((name, value if takes_value else None))
    if not left:
        raise RefusedError("srun: no command given to execute")
    return _srun_call(options, of_pyxis, left)


def _srun_call(
    options: list[tuple[str, Optional[str]]], of_pyxis: list[tuple[str, Optional[str]]], words: list[str]
) -> SrunCall:
    mounts: list[Mount] = []
    names: list[str] = []
    single: dict[str, Optional[str]] = {}
    for option, value in of_pyxis:
        name = option[2:]
        if value == "":
            raise RefusedError(f"pyxis: {option}: argument required")
        if name == "container-mounts":
            mounts += _pyxis_mounts(value or "")
        elif name == "container-env":
            names += _pyxis_names(value or "")
        elif name in single and single[name] != value:
            raise RefusedError(f"pyxis: {option} specified multiple times")
        else:
            single[name] = value
    image = single.pop("container-image", "") or ""
    if of_pyxis and not image:
        raise RefusedError("pyxis: ignoring options because --container-image is not set")
    if not (single.get("container-workdir") or "/").startswith("/"):
        raise RefusedError("pyxis: --container-workdir: not an absolute path")
    if image:
        _check_squashfs(image if image.startswith(("/", ".")) else f"a name in a registry: {image}")
    return SrunCall(tuple(options), tuple(words), image, tuple(mounts), tuple(names), tuple(sorted(single.items())))


def _pyxis_mounts(text: str) -> Iterator[Mount]:
    """Read SRC:DST[:FLAGS][,SRC:DST...] (`parse_mount_option`, `add_mount`); flags are separated by `+`."""
    for entry in text.split(","):
        source, *rest = entry.split(":", 2)
        target = rest[0] if rest else source
        flags = rest[1].split("+") if len(rest) > 1 and rest[1] else []
        if not source or not target:
            raise RefusedError(f"pyxis: --container-mounts: invalid format: {entry}")
        if not all(flag in _MOUNT_OPTIONS for flag in flags):
            raise RefusedError(f"pyxis: unknown mount flags: {entry}")
        if re.search(r'["$`]', source + target):  # it writes both between double quotes into a script
            raise RefusedError(f"pyxis: a shell would expand the mount: {entry}")
        yield _checked(Mount(source, target, tuple(flags)))


def _pyxis_names(text: str) -> Iterator[str]:
    for name in text.split(","):
        if not _VARIABLE.fullmatch(name):
            raise RefusedError(f"pyxis: --container-env: invalid format: {text}")
        yield name


@dataclass(frozen=True)
class StandIns:
    """Stand-ins in a folder.

    Attributes:
        folder: for PATH.
    """

    folder: Path

    def then(self, script: str) -> None:
        """Let an accepted call become a script, with the words after the options as its arguments."""
        path = self.folder / "then"
        path.write_text(script)
        path.chmod(0o755)

    def run_steps(self) -> None:
        """Let an accepted call of srun without a container run its tasks on this machine."""
        (self.folder / "steps").touch()

    @property
    def calls(self) -> list[dict[str, object]]:
        """The calls that were accepted, in order: the fields of a call, `program`, and the environment as `environ`."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_stand_ins(folder: Path) -> StandIns:
    """Write `enroot` and `srun` into a new folder, for PATH."""
    folder.mkdir()
    for name in ("enroot", "srun"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{Path(__file__).resolve()}" "{folder}" {name} "$@"\n')
        path.chmod(0o755)
    return StandIns(folder)


def _run(folder: Path, program: str, words: Sequence[str]) -> int:
    if (program, *words) == ("srun", "--help"):
        print("\n".join(f"      {name}" for name in _PYXIS))
        return 0
    try:
        call = read_enroot(words) if program == "enroot" else read_srun(words)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    with (folder / "calls.jsonl").open("a") as stream:
        stream.write(json.dumps({"program": program, **asdict(call), "environ": dict(os.environ)}) + "\n")
    if isinstance(call, SrunCall) and not call.image and (folder / "steps").exists():
        return _tasks(call)
    if (program, *words) == ("enroot", "version"):
        print("4.1.2")
    then = folder / "then"
    if then.exists():
        os.execv(then, [str(then), *call.words])  # noqa: S606 - without a shell, and in this process
    return 0


def _tasks(call: SrunCall) -> int:
    """Run the tasks of a step on the host, and return the highest status; with one that fails all end."""
    count = int(dict(call.options).get("--ntasks") or 1)
    tasks = [
        subprocess.Popen(
            call.words, env={**os.environ, "SLURMD_NODENAME": f"node{number}", "SLURM_PROCID": f"{number}"}
        )
        for number in range(1, count + 1)
    ]
    statuses: dict[int, int] = {}
    while len(statuses) < count:
        pid, status = os.wait()
        statuses[pid] = os.waitstatus_to_exitcode(status)
        if statuses[pid] and any(name == "--kill-on-bad-exit" for name, _ in call.options):
            for task in tasks:
                if task.pid not in statuses:
                    task.terminate()
    return max(abs(status) for status in statuses.values())


if __name__ == "__main__":
    sys.exit(_run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
