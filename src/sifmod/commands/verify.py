"""`sifmod verify`: check that installations are complete, unchanged and run."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option, quiet_option
from sifmod.commands.output import echo, echo_error, echo_findings, echo_json
from sifmod.commands.several import in_parallel
from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.finding import PROBLEM, Finding, worst
from sifmod.installed.installation import Installation, find_installations
from sifmod.installed.modulepath import find_usable
from sifmod.installed.verification import sanity_check_with_easybuild
from sifmod.installed.verification import verify as verified
from sifmod.site.settings import Site, load_site
from sifmod.text.progress import Progress
from sifmod.text.size import counted


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=complete_modules)
@prefix_option
@click.option("--eb", "with_eb", is_flag=True, help="Also run EasyBuild's sanity check, with that of the easyconfig.")
@click.option("--fast", is_flag=True, help="Start no container: compare SHA-256 of files, image and packed software.")
@click.option("--whole", is_flag=True, help="Read images on CVMFS too, which checks them itself as it loads them.")
@quiet_option
@json_option
def verify(
    modules: tuple[str, ...],
    prefix: Optional[Path],
    with_eb: bool,
    fast: bool,
    whole: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Verify all installed containers, or the named ones.

    Compares files, image and packed user software with what was installed, and runs the container. Nothing is changed.
    Several installations are verified at once.

    Exit status: 0 if all is well, 1 if there are problems or nothing is installed. With --quiet only those are printed:
    nothing if all is well.

    \b
    Examples:
      sifmod verify
      sifmod verify --fast --quiet
      sifmod verify Python/3.11-demo-singularity --eb
      sifmod verify --prefix /project/software --json
    """
    space, site = software_space(prefix), load_site()
    found = find_installations(space)
    environ = {} if prefix else os.environ
    items = [find_usable(space, module, environ) for module in modules] or list(found.installations)
    damaged = [] if modules else found.damaged
    if not items and not damaged:
        raise SifmodError(
            f"no container modules in '{space.software}', so nothing was verified: name the prefix with --prefix"
        )
    if with_eb and fast:
        raise click.UsageError("--eb starts containers: leave out --fast or --eb")
    report: list[dict[str, Any]] = []
    check = partial(_findings, site=site, with_eb=with_eb, fast=fast, whole=whole)
    for item, findings in in_parallel(items, check, doing="verifying", quiet=quiet):
        report.append({"module": item.module, "outcome": worst(findings), "findings": findings})
        shown = [one for one in findings if one.severity == PROBLEM] if quiet else findings
        if shown and not as_json:
            echo(f"{item.module}  {item.root}", bold=True)
            echo_findings(shown)
            echo()
    problems = sum(one["outcome"] == PROBLEM for one in report) + len(damaged)
    if as_json:
        plain = [{**one, "findings": [vars(finding) for finding in one["findings"]]} for one in report]
        broken = [{"root": str(item.root), "problem": item.problem} for item in damaged]
        echo_json({"problems": problems, "installations": plain, "damaged": broken})
    else:
        for entry in damaged:
            echo_error(f"sifmod: {entry.problem}")
        total = len(items) + len(damaged)
        if problems or not quiet:
            echo(f"{total - problems} of {counted(total, 'installation')} in order")
    sys.exit(1 if problems else 0)


def _findings(
    item: Installation, progress: Progress, *, site: Site, with_eb: bool, fast: bool, whole: bool
) -> list[Finding]:
    findings: list[Finding] = []
    try:
        for finding in verified(item, site, progress=progress, fast=fast, whole=whole):
            findings.append(finding)
        # it would run files that are not as installed
        if with_eb and not any((one.topic, one.severity) == ("files", PROBLEM) for one in findings):
            with progress.step(f"{item.module}: EasyBuild's sanity check"):
                findings.append(sanity_check_with_easybuild(item))
    except (SifmodError, OSError) as error:
        findings.append(Finding(PROBLEM, "verification", str(error), "the checks after this one were not made"))
    return findings
