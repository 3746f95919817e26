"""What pip would install on top of a base image, found with the base's own Python, in a contained container.

There markers and tags of wheels are the right ones, and the base's packages count as installed. `pip lock` and
`uv pip compile` ignore what is installed: they want the vendor's packages from an index, which does not have them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.markers import default_environment
from packaging.utils import canonicalize_name
from packaging.version import Version

from sifmod.container.spec import PythonLayout
from sifmod.environment.lock import Locked, Platform, locked_wheel
from sifmod.environment.requirements import WHEEL_NAME, Requirements, check_line, is_users_own
from sifmod.errors import SifmodError, os_errors
from sifmod.host.command import LOOK_IN_CONTAINER
from sifmod.host.files import copy_below
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.writing import scratch_folder
from sifmod.install.pip import pip_settings, scratch_binds
from sifmod.install.probe import PythonFacts, probe_python
from sifmod.resources import program
from sifmod.text.version import version_order

_OLDEST_PIP = Version("22.2")  # the first with `install --dry-run --report`

_REQUIREMENTS = "/tmp/requirements.txt"  # noqa: S108 - private, in the container
_CONSTRAINTS = "/tmp/constraints.txt"  # noqa: S108 - the same

_UNREACHABLE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|CERTIFICATE_VERIFY_FAILED"
    r"|Connection refused|Temporary failure in name resolution|Network is unreachable|Connection reset"
    r"|50[0-9] Server Error"
)
# The last part of what urllib3 says about it.
_REASON = re.compile(
    r"((?:\[Errno -?\d+\] )?(?:Connection refused|Temporary failure in name resolution|Network is unreachable"
    r"|Connection reset by peer|timed out|certificate verify failed[^'\")]*|50[0-9] Server Error[^'\"]*))"
)
# Characters of a value of a marker; platform_version is a sentence.
_LONGEST = 1000
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")


@dataclass(frozen=True)
class Base:
    """The SIF of a base image, the Python in it that packages are added to, and how to run it."""

    image: Path
    runtime: ContainerRuntime
    python: PythonLayout

    def facts(self) -> PythonFacts:
        """Return the packages of its Python; ImageError if the Python does not run."""
        return probe_python(self.runtime, self.image, self.python)

    def platform(self) -> Platform:
        """Return what its Python takes.

        Raises:
            SifmodError: its pip is missing or too old.
            InstallError: the Python does not run.
        """
        command = [self.python.executable, "-I", "-"]
        answer = self.runtime.run(self.image, command, stdin=program("resolve"), time_limit=LOOK_IN_CONTAINER)
        return self._platform(_parsed(answer))

    def resolve(self, wanted: Requirements, facts: PythonFacts, *, constraints: str) -> tuple[Locked, ...]:
        """Return what pip would install for some requirements, with the versions of a constraints file held.

        Raises:
            SifmodError: the requirements can't be met, or the packages can't be locked.
            InstallError: the Python does not run, or pip's settings can't be read.
        """
        with scratch_folder("pip") as scratch:
            copied = _Copies(scratch, wanted)
            lines = [copied.line(line) for line in (*wanted.options, *wanted.lines)]
            held = [*constraints.splitlines(), *(copied.line(line) for line in wanted.constraints)]
            try:
                for path, content in ((_REQUIREMENTS, lines), (_CONSTRAINTS, held)):
                    for line in content:
                        check_line(line, f"'{wanted.origin}'")
                    (scratch / Path(path).name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
            except OSError as error:
                raise SifmodError(f"'{scratch}' can't be written: {error.strerror}; set TMPDIR") from error
            settings, binds = pip_settings(scratch, (), os.environ)
            options = ["--only-binary", ":all:", "--constraint", _CONSTRAINTS, "--requirement", _REQUIREMENTS]
            answer = _parsed(
                self.runtime.run(
                    self.image,
                    [self.python.executable, "-I", "-", *options],
                    binds=[*scratch_binds(scratch), *binds],
                    env=settings,
                    stdin=program("resolve"),
                )
            )
        platform = self._platform(answer)
        if wanted.python and not wanted.python.contains(platform.python, prereleases=True):
            raise SifmodError(
                f"'{wanted.origin}' is for Python {wanted.python}, and the base '{self.image.name}' has "
                f"{platform.python}: choose another base"
            )
        if answer["status"] != 0:
            raise SifmodError(_explanation(str(answer["output"]), wanted, self.image.name, platform))
        locked = tuple(_locked(item, wanted.origin, copied.paths) for item in _installs(answer["report"]))
        check_held(locked, facts, wanted.origin)
        return locked

    def _platform(self, answer: dict[str, Any]) -> Platform:
        environment, tags = answer["environment"], answer["tags"]
        version = version_order(str(answer["pip"]))
        if version < _OLDEST_PIP:
            has = f"pip {version}" if answer["pip"] else "no pip"
            raise SifmodError(
                f"the Python {self.python.prefix} of '{self.image.name}' has {has}, and pip {_OLDEST_PIP} or later is "
                "needed to lock packages: choose another base, or add a newer pip to it with a definition file"
            )
        if not isinstance(environment, dict) or not isinstance(tags, list) or not _is_environment(environment):
            raise SifmodError(
                f"the Python of '{self.image.name}' describes itself in another form than expected: choose another base"
            )
        texts = {name: environment[name] for name in default_environment()}
        return Platform(
            environment={**texts, "python_full_version": _number(texts["python_full_version"])},
            tags=tuple(tag for tag in tags if isinstance(tag, str)),
        )


def _is_environment(found: Mapping[Any, Any]) -> bool:
    """Return whether these are values of environment markers, of which some become part of a lock."""
    texts = [found.get(name) for name in default_environment()]
    try:
        Version(_number(str(found.get("python_full_version"))))
    except ValueError:
        return False
    return all(isinstance(text, str) and text.isprintable() and len(text) <= _LONGEST for text in texts) and all(
        re.fullmatch(r"[A-Za-z0-9_]+", found[name]) for name in ("sys_platform", "platform_machine")
    )


def _number(version: str) -> str:
    """Return the version of a Python as packaging takes it: a build between releases is `3.14.0a1+`."""
    return f"{version}local" if version.endswith("+") else version


class _Copies:
    """Copies of the packages that a file names in its folder, for a container: it sees nothing else of that folder.

    Paths are those of the packages by those of their copies in the container.
    """

    def __init__(self, scratch: Path, wanted: Requirements) -> None:
        # scratch is /tmp of the container
        self._scratch, self._wanted = scratch, wanted
        self._folders: dict[Path, str] = {}
        self.paths: dict[str, str] = {}

    def line(self, line: str) -> str:
        """Return a line of requirements or options for the container; folders of the user's own settings are bound."""
        return re.sub(r"(?<= )file:\S+", self._address, line)

    def _address(self, match: re.Match[str]) -> str:
        path = Path(unquote(urlsplit(match[0]).path))
        if is_users_own(path):
            return match[0]
        names = [path.name] if path.suffix == ".whl" else self._wheels_in(path)
        folder = path.parent if path.suffix == ".whl" else path
        place = self._folders.setdefault(folder, f"packages/{len(self._folders)}")
        for name in names:
            self._copy(folder / name, f"{place}/{name}")
        return Path("/tmp", place, *(names if path.suffix == ".whl" else ())).as_uri()  # noqa: S108 - in the container

    def _wheels_in(self, folder: Path) -> list[str]:
        with os_errors(SifmodError, f"the folder '{folder}' can't be read"):
            return sorted(name for name in os.listdir(folder) if WHEEL_NAME.fullmatch(name))  # noqa: PTH208 - names

    def _copy(self, path: Path, place: str) -> None:
        target, copy = self._scratch / place, f"/tmp/{place}"  # noqa: S108 - in the container
        if copy in self.paths:
            return
        name = os.path.relpath(path, self._wanted.folder)
        problem = os_errors(SifmodError, f"the package '{path}' can't be copied to '{target}'")
        with problem:
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_below(self._wanted.folder, name, target)
        self.paths[copy] = str(path)


def without_held(locked: Sequence[Locked], facts: PythonFacts, origin: str) -> tuple[Locked, ...]:
    """Return the packages of a lock that the base does not have; the others must be there in the locked version."""
    held = held_packages(facts)
    wrong = [f"{one.name} {one.version} (the base has {held[one.name]})" for one in locked if not _is_met(one, held)]
    if wrong:
        raise SifmodError(
            f"the lock '{origin}' would replace packages of the base: {', '.join(wrong)}. Lock the packages with these "
            "versions of the base, or name a requirements file, for which that is done"
        )
    return tuple(one for one in locked if one.name not in held)


def check_held(locked: Sequence[Locked], facts: PythonFacts, origin: str) -> None:
    """Refuse packages that the base has already."""
    held = held_packages(facts)
    replaced = [f"{one.name} {held[one.name]} by {one.version}" for one in locked if one.name in held]
    if replaced:
        raise SifmodError(f"'{origin}' would replace packages of the base: {', '.join(replaced)}; choose another base")


def held_packages(facts: PythonFacts) -> dict[str, str]:
    """Return the versions of the base's packages by normalized name."""
    return {canonicalize_name(name): version for name, version in facts.packages}


def _is_met(one: Locked, held: Mapping[str, str]) -> bool:
    """Return whether the base lacks a package, or has it in this version; a vendor's build adds a local version."""
    if one.name not in held:
        return True
    try:
        found, wanted = Version(held[one.name]), Version(one.version)
    except ValueError:  # a number with thousands of digits is one too
        return held[one.name] == one.version
    return found == wanted or (not wanted.local and Version(found.public) == wanted)


def _parsed(answer: str) -> dict[str, Any]:
    """Parse the output of `inside/resolve.py`, which comes from the image and is not trusted."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not {"pip", "environment", "tags"} <= set(found):
        raise SifmodError("the Python of the base printed something else than what its pip would install")
    return {"status": 0, "output": "", "report": {}, **found}


def _installs(report: Any) -> list[Any]:
    found = report.get("install") if isinstance(report, dict) else None
    if not isinstance(found, list):
        raise SifmodError("pip's report has no list 'install': choose a base with another pip")
    return found


def _locked(item: Any, origin: str, copies: Mapping[str, str]) -> Locked:
    """Return a package of pip's report (pip's documentation, "Installation Report")."""
    try:
        metadata, download = item["metadata"], item["download_info"]
        archive = download["archive_info"]
        sha256 = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
        found = locked_wheel(metadata["name"], metadata["version"], download["url"], sha256)
    except (KeyError, TypeError, AttributeError) as error:
        raise SifmodError(f"pip's report on '{origin}' has a package that is not a wheel: {error}") from error
    except ValueError as error:
        raise SifmodError(f"'{origin}' can't be locked: {metadata.get('name')}: {error}") from error
    if found.path in copies:
        return replace(found, path=copies[found.path])
    if found.path and not is_users_own(Path(found.path)):
        raise SifmodError(
            f"'{origin}' can't be locked: pip was not given '{found.path}', which the base says it has used"
        )
    return found


def _explanation(output: str, wanted: Requirements, image: str, platform: Platform) -> str:
    """Return the message for a resolution that failed: what happened, and the remedy."""
    numbered = dict(enumerate((*wanted.options, *wanted.lines), start=1))

    def named(match: re.Match[str]) -> str:
        return numbered.get(int(match[1]), match[0])

    output = re.sub(rf"-r {re.escape(_REQUIREMENTS)} \(line (\d+)\)", named, output)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = _error(lines)
    if _NO_SPACE.search(output):
        return f"resolving '{wanted.origin}' ran out of space: set TMPDIR to a folder with more of it"
    if _UNREACHABLE.search(output):
        found = _REASON.search(output)
        why = f" ({found[1]})" if found else ""
        return (
            f"the package index can't be reached to resolve '{wanted.origin}'{why}: check the network, and pip's "
            "settings of index, proxy and certificates (PIP_INDEX_URL, HTTPS_PROXY, PIP_CERT)"
        )
    if "DO NOT MATCH THE HASHES" in output:
        return f"'{wanted.origin}' has a hash that the package does not have: correct it, or don't use that package"
    if "The conflict is caused by:" in lines:
        causes = []
        for line in lines[lines.index("The conflict is caused by:") + 1 :]:
            if line.startswith(("To fix this", "ERROR:", "Additionally")):
                break
            causes.append(line.replace("The user requested (constraint)", "the base has"))
        said = "; ".join(causes)
    return (
        f"'{wanted.origin}' can't be met on '{image}' with {platform.title}: {said}. The base's packages are kept, and "
        "only wheels are installed: change the requirement, or choose another base"
    )


def _error(lines: Sequence[str]) -> str:
    """Return the first error that pip printed, in one line; its last line if there is none."""
    for number, line in enumerate(lines):
        if line.startswith("ERROR: "):
            said = line[len("ERROR: ") :]
            return f"{said} {''.join(lines[number + 1 : number + 2])}" if said.endswith(":") else said.rstrip(".")
    return lines[-1] if lines else "pip printed nothing"
