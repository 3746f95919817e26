"""`sifmod doctor`: find what will not work here, and why."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Optional

import click

from sifmod import names
from sifmod.commands.options import complete_modules, json_option, prefix_option, quiet_option
from sifmod.commands.output import echo, echo_error, echo_findings, echo_json
from sifmod.commands.several import in_parallel
from sifmod.doctor.examination import Target, examine, examine_container, examine_host, gpu_of, target_of, this_host
from sifmod.eb.available import easyconfig_path
from sifmod.eb.evaluation import container_of
from sifmod.eb.space import SoftwareSpace, find_image, software_space
from sifmod.errors import SifmodError
from sifmod.fetch.repository import image_in_repositories
from sifmod.finding import NOTE, PROBLEM, WARNING, Finding, worst
from sifmod.host.gpus import HostGpus, described_gpus
from sifmod.installed.installation import Installation, find_installations
from sifmod.installed.modulepath import find_usable
from sifmod.site.settings import Settings, Site, load_settings
from sifmod.text.printable import one_line
from sifmod.text.progress import Progress
from sifmod.text.size import counted

_EXIT_CODES = {PROBLEM: 1, WARNING: 20}


@click.command()
@click.argument("target", metavar="[MODULE|EASYCONFIG|IMAGE]", default="", shell_complete=complete_modules)
@prefix_option
@click.option("--all", "check_all", is_flag=True, help="Check each installed container too, several at once.")
@click.option("--driver", metavar="VERSION", help="Compare with nodes that have this GPU driver.")
@click.option("--gpu", "model", metavar="NAME", help="Compare with nodes that have this GPU, such as A100.")
@quiet_option
@json_option
def doctor(
    target: str,
    prefix: Optional[Path],
    check_all: bool,
    driver: Optional[str],
    model: Optional[str],
    quiet: bool,
    as_json: bool,
) -> None:
    """Check this host, and one container if given, for problems.

    Checks the runtime, user namespaces, FUSE, squashfs-tools, modules, EasyBuild, the site's paths, space and quota,
    and GPUs. For an installed MODULE, an EASYCONFIG or an IMAGE, also checks the architecture, driver and GPU model
    that the image needs, the host's libraries that are bound into it, known problems, and user software. Nothing runs
    in the image, which may be a SIF, a SquashFS file or a sandbox.

    Whether CUDA in an image fits a driver, also with the compat libraries that it has, is said for this node, or by
    --driver and --gpu for the nodes of another partition.

    After a system update, --all checks every installed container with the present drivers, runtime and advisories.

    Exit status: 0 if all is well, 20 for warnings, 1 for problems. With --quiet only these are printed.

    \b
    Examples:
      sifmod doctor
      srun -p gpu --gpus 1 sifmod doctor PyTorch/2.2.0-rocm-5.6.1
      sifmod doctor ./image.sif --json
      sifmod doctor ./image.sif --driver 535.104.05 --gpu A100
      sifmod doctor --all
    """
    settings, space = load_settings(), software_space(prefix)
    if check_all:
        if target or driver is not None or model is not None:
            raise click.UsageError(f"--all checks every installation: leave out --all, or '{target or '--driver'}'")
        _all(settings, space, quiet=quiet, as_json=as_json)
    gpus = _other_gpus(target, driver, model)
    findings = list(examine(_target(target, settings.site, space, prefix), settings, space, gpus=gpus))
    outcome = worst(findings)
    if as_json:
        echo_json({"target": target or None, "outcome": outcome, "findings": [vars(finding) for finding in findings]})
    elif not quiet or outcome in _EXIT_CODES:
        echo_findings(_shown(findings, quiet=quiet))
        echo(f"\n{_counted(findings)}")
    sys.exit(_EXIT_CODES.get(outcome, 0))


def _other_gpus(target: str, driver: Optional[str], model: Optional[str]) -> Optional[tuple[HostGpus, ...]]:
    """Return the GPUs that options name in place of this host's; None if they name none."""
    if driver is None and model is None:
        return None
    if not target:
        raise click.UsageError("--driver and --gpu compare nodes with one container: name a module or an image too")
    driver = driver or ""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}", driver, re.ASCII):
        raise click.UsageError(f"--driver '{one_line(driver)}': write the version of a driver, such as 535.104.05")
    return described_gpus(driver, one_line(model or ""))


def _counted(findings: Sequence[Finding]) -> str:
    counts = {name: sum(one.severity == name for one in findings) for name in (PROBLEM, WARNING, NOTE)}
    return ", ".join(counted(count, name) for name, count in counts.items())


def _shown(findings: Sequence[Finding], *, quiet: bool) -> Sequence[Finding]:
    return [one for one in findings if one.severity in _EXIT_CODES] if quiet else findings


def _all(settings: Settings, space: SoftwareSpace, *, quiet: bool, as_json: bool) -> NoReturn:
    """Examine the host and each installation, print what was found, and exit."""
    host = this_host(settings)
    found = find_installations(space)
    findings = list(examine_host(host, space))
    every = list(findings)
    report: list[dict[str, Any]] = []
    if not as_json and (not quiet or worst(findings) in _EXIT_CODES):
        echo_findings(_shown(findings, quiet=quiet))

    def check(item: Installation, _progress: Progress) -> list[Finding]:
        try:
            return list(examine_container(target_of(item, settings.site), host))
        except (SifmodError, OSError) as error:
            return [Finding(PROBLEM, "installation", str(error), "it was not examined further")]

    for item, of_item in in_parallel(found.installations, check, doing="examining", quiet=quiet):
        every += of_item
        report.append({"module": item.module, "root": str(item.root), "outcome": worst(of_item), "findings": of_item})
        if not as_json and (not quiet or worst(of_item) in _EXIT_CODES):
            echo(f"\n{item.module}  {item.root}", bold=True)
            echo_findings(_shown(of_item, quiet=quiet))
    every += [Finding(PROBLEM, "installation", item.problem) for item in found.damaged]
    outcome = worst(every)
    if as_json:
        plain = [{**one, "findings": [vars(finding) for finding in one["findings"]]} for one in report]
        damaged = [{"root": str(item.root), "problem": item.problem} for item in found.damaged]
        host_findings = [vars(finding) for finding in findings]
        echo_json({"outcome": outcome, "findings": host_findings, "installations": plain, "damaged": damaged})
    else:
        for entry in found.damaged:
            echo_error(f"sifmod: {entry.problem}")
        total = len(found.installations) + len(found.damaged)
        if not quiet or outcome in _EXIT_CODES:
            echo(f"\n{counted(total, 'installation')}: {_counted(every)}")
    sys.exit(_EXIT_CODES.get(outcome, 0))


def _target(target: str, site: Site, space: SoftwareSpace, prefix: Optional[Path]) -> Target:
    if not target:
        return Target()
    if target.endswith(".eb"):
        return _of_easyconfig(easyconfig_path(Path(target)), prefix)
    # a module may have the name of a folder here, so a sandbox must be given as a path
    is_path = target.startswith(("/", "./", "../"))
    is_sandbox = is_path and Path(target).is_dir() and not Path(target, names.MANIFEST).is_file()
    if is_sandbox or Path(target).is_file() or target.endswith((".sif", ".squashfs")):
        return Target(image=Path(target))
    return target_of(find_usable(space, target, {} if prefix else os.environ), site)


def _of_easyconfig(path: Path, prefix: Optional[Path]) -> Target:
    found = container_of(path, prefix=prefix)
    name = found.spec.sif
    image = image_in_repositories(found.site, name) or find_image(
        name, found.spec.name, folders=[Path(found.spec.installdir)]
    )
    missing = "" if image else f"the image {found.spec.sif} is not on this host yet"
    return Target(
        image=image,
        gpu=gpu_of(found.spec.inheritable),
        gpu_libraries=found.spec.gpu_libraries,
        compat=found.spec.uses_compat,
        binds=found.spec.binds,
        mpi=found.spec.mpi,
        features=found.spec.features,
        missing_image=missing,
        names=(name,),
    )
