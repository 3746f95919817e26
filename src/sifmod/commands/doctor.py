"""`sifmod doctor`: find what will not work here, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

import click

from sifmod import names
from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo, echo_findings, echo_json
from sifmod.container.spec import image_is_gone
from sifmod.doctor.examination import Patient, examine
from sifmod.eb.available import easyconfig_path
from sifmod.eb.evaluation import container_of
from sifmod.eb.space import SoftwareSpace, find_image, software_space
from sifmod.fetch.repository import image_in_repositories
from sifmod.finding import NOTE, PROBLEM, WARNING, worst
from sifmod.installed.installation import find_installation
from sifmod.site.settings import Site, load_site
from sifmod.text.size import counted

_EXIT_CODES = {PROBLEM: 1, WARNING: 20}


@click.command()
@click.argument("target", metavar="[MODULE|EASYCONFIG|IMAGE]", default="", shell_complete=complete_modules)
@prefix_option
@json_option
def doctor(target: str, prefix: Optional[Path], as_json: bool) -> None:
    """Check this host, and one container if given, for problems.

    Checks the runtime, user namespaces, FUSE, squashfs-tools, modules, EasyBuild, the site's paths, space and quota,
    and GPUs. For an installed MODULE, an EASYCONFIG or an IMAGE, also checks the architecture, driver and GPU model
    that the image needs, the host's libraries that are bound into it, and user software. Nothing runs in the image,
    which may be a SIF, a SquashFS file or a sandbox.

    Exit status: 0 if all is well, 20 for warnings, 1 for problems.

    \b
    Examples:
      sifmod doctor
      srun -p gpu --gpus 1 sifmod doctor PyTorch/2.2.0-rocm-5.6.1
      sifmod doctor ./image.sif --json
    """
    site, space = load_site(), software_space(prefix)
    findings = list(examine(_patient(target, site, space, prefix), site, space))
    outcome = worst(findings)
    if as_json:
        echo_json({"target": target or None, "outcome": outcome, "findings": [vars(finding) for finding in findings]})
    else:
        echo_findings(findings)
        counts: dict[str, Any] = {
            name: sum(one.severity == name for one in findings) for name in (PROBLEM, WARNING, NOTE)
        }
        words = [counted(count, name) for name, count in counts.items()]
        echo(f"\n{', '.join(words)}")
    sys.exit(_EXIT_CODES.get(outcome, 0))


def _patient(target: str, site: Site, space: SoftwareSpace, prefix: Optional[Path]) -> Patient:
    if not target:
        return Patient()
    if target.endswith(".eb"):
        return _of_easyconfig(easyconfig_path(Path(target)), prefix)
    # a module may have the name of a folder here, so a sandbox must be given as a path
    is_path = target.startswith(("/", "./", "../"))
    is_sandbox = is_path and Path(target).is_dir() and not Path(target, names.MANIFEST).is_file()
    if is_sandbox or Path(target).is_file() or target.endswith((".sif", ".squashfs")):
        return Patient(image=Path(target))
    item = find_installation(space, target)
    if item.has_image:
        return Patient(image=item.image, installation=item)
    stand_in = item.stand_in(site)
    missing = "" if stand_in else image_is_gone(item.image)
    return Patient(image=stand_in, installation=item, missing_image=missing)


def _of_easyconfig(path: Path, prefix: Optional[Path]) -> Patient:
    found = container_of(path, prefix=prefix)
    name = found.spec.sif
    image = image_in_repositories(found.site, name) or find_image(
        name, found.spec.name, folders=[Path(found.spec.installdir)]
    )
    missing = "" if image else f"the image {found.spec.sif} is not on this host yet"
    return Patient(
        image=image,
        gpu=found.spec.gpu,
        gpu_libraries=found.spec.gpu_libraries,
        binds=found.spec.binds,
        missing_image=missing,
    )
