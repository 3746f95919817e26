"""What goes into a catalogue: the installations of software spaces, and the easyconfigs in folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Callable, Optional

from packaging.utils import canonicalize_name

from sifmod import names
from sifmod.catalogue.model import INSTALLED, OFFERED, Catalogue, Entry, Fit, Image, KnownProblem, Package
from sifmod.container.spec import ContainerSpec
from sifmod.doctor.advisories import OF_MODULE
from sifmod.doctor.examination import Host, Target, advisories_for, gpus_fit, inspection_of, target_of, this_host
from sifmod.easyconfig.text import read_easyconfig
from sifmod.eb.available import beside_easyconfigs, easyconfigs_below
from sifmod.eb.evaluation import Described, Evaluated, container_of
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import EasyBuildError, JobError, SifmodError
from sifmod.finding import NOTE, PROBLEM, WARNING, Finding
from sifmod.host.files import chosen, content_below
from sifmod.installed.consistency import recorded_packages
from sifmod.installed.installation import Installation, find_installations
from sifmod.installed.job import fitted
from sifmod.render.job import PROGRAM, SRUN, Job, render_job
from sifmod.site.settings import Settings, Site
from sifmod.text.package import is_package
from sifmod.text.printable import one_line, printable
from sifmod.text.quoting import shell
from sifmod.text.version import natural_order
from sifmod.usersoftware.layers import packages_of_all

GUIDE = "USER.md"
_NOTHING_SAID = Described(homepage="", description="", module_class="", gpu=None)
_SCRIPT = "train.py"
# What a container without commands of its own can run: in-container is a host command of every module.
_SYSTEM = ("in-container", "cat", "/etc/os-release")
_LONGEST_STEM = 200
_TEMPLATE = re.compile(r"%\((\w+)\)s")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")


@dataclass(frozen=True)
class Collected:
    """A catalogue, and what is not in it."""

    catalogue: Catalogue
    problems: tuple[str, ...]  # a sentence for each installation, easyconfig or guide that could not be read
    empty: tuple[Path, ...]  # software spaces and folders of easyconfigs without any container


@dataclass(frozen=True)
class _Ready:
    """What each container is described with."""

    site: Site
    host: Host  # this host, for known problems
    guides: tuple[Path, ...]  # folders with guides for users
    doing: Callable[[str], object]  # called with the module or the file that is looked at
    unread: dict[Path, str] = field(default_factory=dict)  # a sentence for each guide that could not be read


@dataclass(frozen=True)
class _Lists:
    """What was found so far."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # a sentence for each that can't be listed
    empty: list[Path] = field(default_factory=list)  # spaces and folders without any
    seen: set[str] = field(default_factory=set)  # full names of installed modules


def collect(
    spaces: Sequence[SoftwareSpace],
    folders: Sequence[Path],
    settings: Settings,
    *,
    seconds: int,
    robot_paths: Sequence[Path] = (),
    doing: Callable[[str], object] = lambda _what: None,
) -> Collected:
    """Return the catalogue of what software spaces have and folders of easyconfigs offer, at a time since 1970.

    A module that several spaces have is listed as the first one has it, and an easyconfig whose module is installed is
    not listed again. As with `eb`, the code of those on offer is run. Guides for users may also lie in `robot_paths`,
    beside easyconfigs. `doing` is called with the module or the file that is looked at.

    Raises:
        SifmodError: a space or a folder can't be read, or EasyBuild or the site's advisories can't be used.
    """
    site = settings.site
    ready = _Ready(site, this_host(settings), (*folders, *robot_paths), doing)
    lists = _Lists()
    for space in spaces:
        _list_installed(space, ready, lists)
    listed = {entry.module for entry in lists.entries}
    archived: dict[str, set[str]] = {}
    for folder in folders:
        below = easyconfigs_below(folder)
        lists.problems.extend(below.problems)
        if not (below.offered or below.archived or below.problems):
            lists.empty.append(folder)
        _list_offered(below.offered, ready, lists, listed)
        known = {entry.name for entry in lists.entries}
        for path in below.archived:
            # a name may have dashes itself, and archives are not evaluated
            name = max((name for name in known if path.name.startswith(f"{name}-")), key=len, default="")
            if name:
                archived.setdefault(name, set()).add(printable(path.stem[len(name) + 1 :]))
    return Collected(
        Catalogue(
            time=datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            site=printable(PurePosixPath(site.name).stem),
            modules=tuple(_with_pages(_sorted(lists.entries))),
            archived={name: tuple(_newest_first(versions)) for name, versions in sorted(archived.items())},
        ),
        tuple(map(printable, (*lists.problems, *ready.unread.values()))),
        tuple(lists.empty),
    )


def _list_installed(space: SoftwareSpace, ready: _Ready, lists: _Lists) -> None:
    found = find_installations(space)
    lists.problems.extend([item.problem for item in found.damaged])
    if not found.installations and not found.damaged:
        lists.empty.append(space.software)
    here = [item for item in found.installations if item.full_module not in lists.seen]
    lists.seen.update(item.full_module for item in here)
    for item in here:
        ready.doing(item.module)
        described, problem = _said_by(item)
        lists.problems.extend([problem] if problem else [])
        lists.entries.append(_installed(item, described, ready))


def _list_offered(paths: Sequence[Path], ready: _Ready, lists: _Lists, listed: set[str]) -> None:
    """List easyconfigs, except those whose modules are listed; add theirs to these."""
    for path in paths:
        ready.doing(path.name)
        try:
            evaluated = container_of(path)
        except EasyBuildError:
            raise
        except SifmodError as error:
            lists.problems.append(str(error))
            continue
        if evaluated.naming.module not in listed:
            listed.add(evaluated.naming.module)
            lists.entries.append(_offered(path, evaluated, ready))


def _said_by(item: Installation) -> tuple[Described, str]:
    """Return what the easyconfig in an installation says, and why it can't be read.

    It is read and not run: others may have written to the installation.
    """
    path = _easyconfig(item)
    if path is None:
        return _NOTHING_SAID, ""
    try:
        known, _computed = read_easyconfig(path)
    except SifmodError as error:
        return _NOTHING_SAID, str(error)
    values = {name: value for name, value in known.items() if isinstance(value, str)}
    homepage, description, module_class = (
        _resolved(values.get(name, ""), values) for name in ("homepage", "description", "moduleclass")
    )
    return Described(homepage, description, module_class, values.get("gpu")), ""


def _resolved(text: str, values: Mapping[str, str]) -> str:
    """Return text with EasyBuild's templates for names and versions resolved; others stay as they are."""
    names = {key: values.get(key, "") for key in ("name", "version", "versionsuffix")}
    known = {**names, "namelower": names["name"].lower()}
    return _TEMPLATE.sub(lambda found: known.get(found[1], found[0]), text)


def _easyconfig(item: Installation) -> Optional[Path]:
    return min((item.root / "easybuild").glob("*.eb"), default=None)


def _installed(item: Installation, described: Described, ready: _Ready) -> Entry:
    manifest = item.manifest
    launchers = {PurePosixPath(name).name for name in manifest.files if name.startswith("bin/")}
    commands = tuple(sorted(map(one_line, launchers - set(names.COMMANDS))))
    gpu = ready.site.gpu if described.gpu is None else described.gpu
    has_python = bool(manifest.python_version)
    path = _easyconfig(item)
    image = Image(
        file=one_line(manifest.image),
        size=manifest.image_size,
        sha256=one_line(manifest.image_sha256),
        digest=one_line(manifest.image_digest),
        origin=one_line(manifest.image_origin),
    )
    job = _job(item.module, gpu, has_python=has_python, commands=commands)
    job = replace(job, pyxis=ready.site.prefers_plugin and bool(manifest.squashfs))
    try:
        script = render_job(fitted(job, manifest), ready.site)
    except JobError:  # a name of a module that `sifmod sbatch` refuses too
        script = ""
    entry = _entry(item.module, item.name, item.version, INSTALLED, described, gpu, image=image)
    target = target_of(item, ready.site)
    content = inspection_of(target)
    return replace(
        entry,
        easyconfig=one_line(path.name) if path else "",
        mpi=manifest.mpi,
        python_version=manifest.python_version,
        has_python=has_python,
        partitions=tuple(_partitions(gpus_fit(target, content, ready.site))),
        features=manifest.features,
        commands=commands,
        packages=_packages_of(item),
        advisories=_advisories(advisories_for(target, content, ready.host)),
        run=_run(gpu, ready.site, has_python=has_python, commands=commands),
        job=printable(script),
        guide=_guide(item.name, ready),
    )


def _offered(path: Path, evaluated: Evaluated, ready: _Ready) -> Entry:
    spec, described, naming = evaluated.spec, evaluated.described, evaluated.naming
    commands = tuple(sorted(map(one_line, {*spec.wrappers, *spec.wrapper_commands})))
    has_python = spec.python is not None
    job = _job(naming.module, spec.gpu, has_python=has_python, commands=commands)
    try:
        script = render_job(job, ready.site)
    except JobError:  # likewise
        script = ""
    beside = path.with_name(GUIDE)
    image = Image(
        file=one_line(spec.sif),
        sha256=evaluated.image_sha256,
        digest=evaluated.image_digest,
        origin=one_line(evaluated.image_uri),
    )
    entry = _entry(naming.module, spec.name, spec.version, OFFERED, described, spec.gpu, image=image)
    return replace(
        entry,
        easyconfig=one_line(path.name),
        mpi=spec.mpi,
        python_version=spec.python_version,
        has_python=has_python,
        commands=commands,
        packages=_sorted_packages(Package(*map(one_line, pair)) for pair in spec.expected_packages.items()),
        advisories=_advisories(advisories_for(_target(spec), None, ready.host)),
        run=_run(spec.gpu, ready.site, has_python=has_python, commands=commands),
        job=printable(script),
        guide=_text(beside, ready) if beside.is_file() else _guide(spec.name, ready),
    )


def _entry(module: str, name: str, version: str, state: str, described: Described, gpu: str, *, image: Image) -> Entry:
    """Return what is known alike of both kinds; foreign text is printable from here on."""
    homepage = described.homepage.strip()
    return Entry(
        module=one_line(module),
        name=one_line(name),
        version=one_line(version),
        state=state,
        image=image,
        description=printable(" ".join(described.description.split())),
        homepage=printable(homepage) if _ADDRESS.fullmatch(homepage) else "",
        module_class=one_line(described.module_class),
        gpu=one_line(gpu),
        load=f"module load {shell(one_line(module))}",
    )


def _target(spec: ContainerSpec) -> Target:
    return Target(
        gpu=spec.gpu,
        gpu_libraries=spec.gpu_libraries,
        mpi=spec.mpi,
        names=tuple(filter(None, (spec.sif, PurePosixPath(spec.image).name))),
    )


def _advisories(findings: Iterable[Finding]) -> tuple[KnownProblem, ...]:
    """Return known problems; that a module does not tell of one is for its installer, not for users."""
    return tuple(
        KnownProblem(*map(one_line, (one.severity, one.topic, one.what, one.why, one.remedy)))
        for one in findings
        if one.topic != OF_MODULE
    )


def _partitions(found: Iterable[tuple[str, tuple[Finding, ...]]]) -> Iterator[Fit]:
    """Yield whether a container fits the GPUs of partitions, with what was found on each."""
    for partition, findings in found:
        wrong = [one for one in findings if one.severity in (WARNING, PROBLEM)]
        unknown = [one for one in findings if one.severity == NOTE]
        why = one_line("; ".join(f"{one.what}: {one.why}" if one.why else one.what for one in wrong or unknown))
        yield Fit(one_line(partition), "no" if wrong else "unknown" if unknown else "yes", why)


def _packages_of(item: Installation) -> tuple[Package, ...]:
    """Return the packages that the install recorded, and those of user software, which Python finds first."""
    manifest = item.manifest
    pairs = list(manifest.expected_packages.items())
    pairs += [(package.name, package.version) for package in recorded_packages(item.root)]
    lines = packages_of_all(item.user_software.packages, item.layers)
    pairs += [(name, version) for name, _, version in (line.partition("==") for line in lines)]
    return _sorted_packages(Package(name, version) for name, version in pairs if is_package(name, version))


def _sorted_packages(packages: Iterable[Package]) -> tuple[Package, ...]:
    found: Mapping[str, Package] = {canonicalize_name(one.name): one for one in packages}
    return tuple(found[name] for name in sorted(found))


def _run(gpu: str, site: Site, *, has_python: bool, commands: tuple[str, ...]) -> str:
    """Return a line that runs as it stands on the site; host commands need no runtime in front of them."""
    what = ("python", "--version") if has_python and "python" in commands else commands[:1] or _SYSTEM
    options = ["-n1"]
    if gpu:
        partition = site.partition(gpu)
        options += ["--gpus-per-node=1", *([f"--partition={partition}"] if partition else [])]
    if site.slurm_account:
        options.append(f"--account={site.slurm_account}")
    return " ".join(["srun", *map(shell, (*options, *what))])


def _job(module: str, gpu: str, *, has_python: bool, commands: tuple[str, ...]) -> Job:
    return Job(
        module=module,
        command=(_SCRIPT,) if has_python else commands[:1] or _SYSTEM,
        gpus_per_node=1 if gpu else 0,
        gpu=gpu,
        launcher=SRUN if has_python else PROGRAM,
        is_wrapper=not has_python,
    )


def _guide(name: str, ready: _Ready) -> str:
    """Return the centre's instructions for users of a software; empty if there are none."""
    path = beside_easyconfigs(name, GUIDE, ready.guides)
    return _text(path, ready) if path else ""


def _text(path: Path, ready: _Ready) -> str:
    try:
        return printable(content_below(chosen(path).parent, path.name).decode(errors="replace"))
    except OSError as error:
        ready.unread[path] = f"'{path}' can't be read: {error.strerror}"
        return ""


def _sorted(entries: Iterable[Entry]) -> list[Entry]:
    newest_first = sorted(entries, key=lambda entry: (natural_order(entry.version), entry.module), reverse=True)
    return sorted(newest_first, key=lambda entry: (entry.name.lower(), entry.name))


def _newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=natural_order, reverse=True)


def _with_pages(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries with the path of a page, which differs also where upper and lower case are the same."""
    taken: set[str] = set()
    for entry in entries:
        stem = re.sub(r"[^A-Za-z0-9._+-]+", "-", entry.module).lstrip(".-")[:_LONGEST_STEM] or "module"
        unique, number = stem, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.lower())
        yield replace(entry, page=f"modules/{unique}.html")
