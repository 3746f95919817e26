"""What `sifmod list` answers besides what is installed: one question at a time, each with an option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

import click

from sifmod.commands.options import OutputPath
from sifmod.commands.output import echo, echo_error, echo_json, echo_table, echo_whole, output_time
from sifmod.commands.progress import shown_progress
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import SifmodError
from sifmod.host.writing import write_new
from sifmod.installed.installation import Installation
from sifmod.site.settings import Site
from sifmod.text.printable import few, one_line
from sifmod.text.size import counted

_Function = TypeVar("_Function", bound=Callable[..., Any])

# As `doctor` with warnings: done, and something is worth a look.
_WORTH_A_LOOK = 20
_QUESTIONS = ("outdated", "sbom", "findings", "nextflow", "snakemake", "reframe")

_folder = click.Path(path_type=Path, file_okay=False)
_OPTIONS = (
    click.argument("files", nargs=-1, metavar="[[MODULE=]FILE]..."),
    click.option("--outdated", is_flag=True, help="Ask registries for newer tags, and whether a tag has moved."),
    click.option(
        "--sbom", type=_folder, metavar="DIR", help="Write a bill of materials of each image that has none in DIR yet."
    ),
    click.option(
        "--findings",
        is_flag=True,
        help="Show what reports of grype, trivy, pip-audit or a CycloneDX VEX say: files, or a folder of them.",
    ),
    click.option(
        "--advisories",
        type=OutputPath(path_type=Path),
        metavar="FILE",
        help="With --findings: also write them as advisories of the site, for show, the catalogue and modules.",
    ),
    click.option(
        "--nextflow",
        type=_folder,
        metavar="DIR",
        help="Make and refresh links with Nextflow's names in DIR (libraryDir).",
    ),
    click.option("--snakemake", is_flag=True, help="Print lines for a profile of Snakemake."),
    click.option("--reframe", is_flag=True, help="Print a test file of ReFrame that loads and runs each module."),
)


def questions(function: _Function) -> _Function:
    """Give a verb the options of all questions."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def check_asked(asked: dict[str, Any], *, others: bool) -> bool:
    """Return whether one of the questions is asked; a UsageError if several are, or `others` of the verb's options."""
    given = [f"--{name}" for name in _QUESTIONS if asked[name]]
    if len(given) + bool(given and others) > 1:
        raise click.UsageError(f"{given[0]} is a question of its own: leave out the other options")
    if (asked["files"] or asked["advisories"]) and not asked["findings"]:
        raise click.UsageError("reports and --advisories are for --findings: add it")
    if asked["findings"] and not asked["files"]:
        raise click.UsageError("--findings needs reports of scanners: name files, or a folder of them")
    return bool(given)


def answer(
    asked: dict[str, Any], items: Sequence[Installation], space: SoftwareSpace, site: Site, *, as_json: bool
) -> int:
    """Answer the question, and return the exit status."""
    if asked["outdated"]:
        return _show_outdated(items, site, as_json=as_json)
    if asked["sbom"]:
        return _write_sboms(items, asked["sbom"], as_json=as_json)
    if asked["findings"]:
        return _show_findings(items, asked["files"], asked["advisories"], as_json=as_json)
    if asked["nextflow"]:
        return _link(items, asked["nextflow"], (space.software, *map(Path, site.image_repositories)), as_json=as_json)
    from sifmod.upkeep.workflows import reframe_test, snakemake_profile

    echo_whole(snakemake_profile(items) if asked["snakemake"] else reframe_test(items))
    return 0


def _show_outdated(items: Sequence[Installation], site: Site, *, as_json: bool) -> int:
    from sifmod.upkeep.outdated import standings

    with shown_progress().step("asking registries"):
        found = standings(items, site)
    status = _WORTH_A_LOOK if any(one.is_outdated for one in found) else 0
    if as_json:
        echo_json([{**asdict(one), "moved": one.has_moved, "outdated": one.is_outdated} for one in found])
        return status
    rows = []
    for one in found:
        tag = "unknown" if not one.now or not one.digest else "has moved" if one.has_moved else "unchanged"
        rows.append((one.module, one.tag or "-", tag, few(one.newer, 1) or "-"))
    if rows:
        echo_table(("MODULE", "TAG", "IMAGE OF THE TAG", "NEWER TAG"), [tuple(map(one_line, row)) for row in rows])
    for one in found:
        if one.following:
            echo_whole(one.following)
    problems: dict[str, list[str]] = {}
    for one in found:
        if one.problem:
            problems.setdefault(one.problem, []).append(one.module)
    for problem, modules in problems.items():
        echo_error(f"note: {', '.join(modules)}: {problem}")
    others = len(items) - len(found)
    echo(f"{sum(one.is_outdated for one in found)} of {counted(len(found), 'module')} outdated", bold=False)
    if others:
        echo_error(f"note: {counted(others, 'other module')} not from a registry")
    return status


def _write_sboms(items: Sequence[Installation], folder: Path, *, as_json: bool) -> int:
    from sifmod.upkeep.boms import write_boms

    with shown_progress().step("reading the packages of images"):
        boms = write_boms(items, folder, seconds_of=lambda created: output_time(default=created))
    status = _WORTH_A_LOOK if any(one.problem and not one.path.is_file() for one in boms) else 0
    if as_json:
        echo_json([{**asdict(one), "path": str(one.path)} for one in boms])
        return status
    rows = []
    for one in boms:
        rows.append(
            (one.module, "written" if one.is_new else "known" if one.path.is_file() else "failed", str(one.path))
        )
        if one.problem:
            echo_error(f"note: {one.module}: {one.problem}")
    echo_table(("MODULE", "BILL", "FILE"), rows)
    return status


def _show_findings(
    items: Sequence[Installation], words: Sequence[str], advisories: Optional[Path], *, as_json: bool
) -> int:
    from sifmod.upkeep.findings import advisories_text, check_replaceable, findings_of, read_reports, report_files

    if advisories:
        check_replaceable(advisories)
    reports = [report for module, path in report_files(words) for report in read_reports(path, module=module)]
    if not reports:
        raise SifmodError(f"there is no report in {', '.join(words)}: name files, or folders with *.json of scanners")
    found, strangers = findings_of(items, reports)
    status = _WORTH_A_LOOK if strangers or any(one.is_grave for one in found) else 0
    for report in strangers:
        asked = f"no module '{report.module}' is installed" if report.module else "it names the image of no module"
        echo_error(f"note: '{report.path}' is left out, because {asked}: type MODULE={report.path}")
    with_report = {one.module for one in found}
    without = [item.module for item in items if item.module not in with_report]
    if without:
        echo_error(f"note: no report is on {', '.join(without)}")
    if advisories:
        day = datetime.fromtimestamp(output_time(), tz=timezone.utc).strftime("%Y-%m-%d")
        write_new(advisories, advisories_text(found, day), force=True)
    if as_json:
        echo_json([{**asdict(one), "counts": dict(one.counts)} for one in found])
        return status
    rows = []
    for one in found:
        more = f"; {one.dismissed} dismissed by a VEX" if one.dismissed else ""
        fixed = f"{len(one.fixed)} of {len(one.found)}" if one.found else "-"
        rows.append((one.module, one.counts_text + more, fixed, one.found[0].text if one.found else "-"))
    echo_table(("MODULE", "FINDINGS", "FIXED", "WORST"), rows)
    if advisories:
        echo_whole(f"wrote {advisories}")
    return status


def _link(items: Sequence[Installation], folder: Path, images: Sequence[Path], *, as_json: bool) -> int:
    from sifmod.upkeep.workflows import link_for_nextflow

    links = link_for_nextflow(items, folder, images=images)
    if as_json:
        echo_json(asdict(links))
    else:
        for name in links.kept:
            echo_error(f"note: '{folder / name}' was made by somebody else, and was left alone")
        for name in links.removed:
            echo(f"removed {name}: its image is gone")
        echo(f"{counted(len(links.linked), 'link')} in {folder}")
    return _WORTH_A_LOOK if links.kept else 0
