"""`sifmod inspect`: show what is in an image."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sifmod.commands.options import json_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_table, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.container.gpu import VENDORS
from sifmod.easyconfig.newimage import names_uri, pulled_file
from sifmod.easyconfig.program import offered
from sifmod.image.gpustack import newest
from sifmod.image.inspection import MAIN_PACKAGES, Inspection, inspect_image, inspect_programs
from sifmod.image.programs import Programs
from sifmod.image.python import Packages
from sifmod.site.settings import load_site
from sifmod.text.printable import one_line, printable
from sifmod.text.size import size_text

_SHOWN_LINES = 40  # lines shown of a script or a definition file


@click.command("inspect")
@click.argument("image", metavar="IMAGE|URI", type=click.Path())
@click.option("--packages", is_flag=True, help="Print only NAME==VERSION of each package.")
@click.option("--commands", is_flag=True, help="Print the commands for which 'sifmod new' writes wrappers.")
@click.option(
    "--python",
    "prefix",
    metavar="PATH|ENV",
    default="",
    help="List the packages of this Python prefix or conda environment.",
)
@json_option
def inspect(image: str, packages: bool, commands: bool, prefix: str, as_json: bool) -> None:
    """Show what is in an image, without running it and without a container runtime.

    IMAGE is a SIF, a SquashFS file, a sandbox, or user software (packed or not). The image of a URI such as
    docker://debian:12 is pulled into EasyBuild's source path, where eb and 'sifmod new' find it again.

    Exit status: 0; 4 if the site's settings are wrong; 5 if IMAGE is not an image, is damaged or can't be pulled; 6 if
    there is no container runtime to pull with.

    \b
    Examples:
      sifmod inspect pytorch.sif
      sifmod inspect pytorch.sif --packages | grep -i torch
      sifmod inspect pytorch.sif --packages --python /usr
      sifmod inspect samtools.sif --commands
      sifmod inspect pytorch.sif --json | jq .driver
      sifmod inspect docker://nvcr.io/nvidia/pytorch:24.03-py3
      sifmod inspect $CONTAINERROOT/user-software.squashfs --packages
    """
    path = Path(image)
    if names_uri(image):
        path = pulled_file(image, load_site(), say=echo_error, progress=shown_progress())[0]
    if commands:
        _show_commands(inspect_programs(path), as_json=as_json)
        return
    found = inspect_image(path)
    if packages or prefix:
        python = found.python(prefix)
        if as_json:
            echo_json(_named(python.packages))
        else:
            origins = dict(python.origins)
            for name, version in python.packages:
                line = f"{name} @ {origins[name]}  # {version}" if name in origins else f"{name}=={version}"
                echo_whole(printable(line))  # may pass through grep to a terminal
    elif as_json:
        echo_json(_as_json(found))
    else:
        _show(found)


def _show_commands(programs: Programs, *, as_json: bool) -> None:
    """Print the commands of the programs that the image is for, and which of them can't have wrappers."""
    rows = list(offered(programs))
    if as_json:
        echo_json([{**asdict(command), "no_wrapper": reason} for command, reason in rows])
        return
    heads = ("COMMAND", "FILE", "PACKAGE", "NO WRAPPER BECAUSE")
    shown = [(command.name, command.path, command.package, reason) for command, reason in rows]
    echo_table(heads, [tuple(map(one_line, row)) for row in shown])
    if programs.unread:
        echo_error(f"note: {programs.unread}")


def _as_json(found: Inspection) -> dict[str, Any]:
    plain = {**vars(found), "labels": dict(found.labels), "environment": dict(found.environment)}
    for name in ("signatures", "pythons", "components", "compat", "torch", "mpi"):
        plain[name] = [asdict(one) for one in plain[name]]
    for python in plain["pythons"]:
        del python["commands"], python["origins"]
        for name in ("packages", "conda_packages"):
            python[name] = _named(python[name])
    plain["packages"] = _named(found.packages)
    plain["driver"] = _driver(found)
    return plain


def _driver(found: Inspection) -> str:
    """Return the GPU driver that the host needs, in words; empty if it needs none or the driver is unknown."""
    needs = (vendor.driver_for(newest(found.components, vendor.stack)) for vendor in VENDORS.values())
    return "; ".join(filter(None, needs))


def _named(packages: Packages) -> list[dict[str, str]]:
    return [{"name": name, "version": version} for name, version in packages]


def _show(found: Inspection) -> None:
    echo_table(("WHAT", "VALUE"), [(what, value) for what, value in _facts(found) if value])
    if found.pythons:
        echo()
        rows = []
        for python in found.pythons:
            mark = "*" if python.prefix == found.default_python else ""
            about = [f"{name} {python.version_of(name)}" for name in MAIN_PACKAGES if python.version_of(name)]
            count = str(len(python.packages))
            rows.append((python.prefix + mark, python.kind, python.version, count, ", ".join(about)))
        echo_table(("PYTHON", "KIND", "VERSION", "PACKAGES", "MAIN PACKAGES"), rows)
        if found.default_python and len(found.pythons) > 1:
            echo("* listed by --packages; choose another one with --python")
    if found.components:
        echo()
        libraries = [(one.name, one.version, one.where) for one in found.components]
        echo_table(("LIBRARY", "VERSION", "SEEN IN"), libraries)
    if found.mpi:
        echo()
        rows = [
            (one.words, one.abi or "another", one.soname, f"glibc {one.glibc}" if one.glibc else "", one.path)
            for one in found.mpi
        ]
        echo_table(("MPI", "ABI OF", "SONAME", "NEEDS", "SEEN AT"), rows)
    for title, text in (("Definition file", found.definition), ("Runscript", found.runscript)):
        if text:
            lines = text.splitlines()
            more = f"\n  ... {len(lines) - _SHOWN_LINES} more lines: see --json" if len(lines) > _SHOWN_LINES else ""
            shown = "\n".join(f"  {line}" for line in lines[:_SHOWN_LINES])
            echo(f"\n{title}\n{shown}{more}")


def _facts(found: Inspection) -> list[tuple[str, str]]:
    created = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.created)) if 0 < found.created < 1 << 35 else ""
    packed = (
        f"{found.compression}, blocks of {found.block_size // 1024} KiB, {found.files} files" if found.files else ""
    )
    torch = []
    for one in found.torch:
        architectures = " ".join(one.architectures) if one.architectures else "unknown: not readable from the files"
        built = f" for {one.built_for}; architectures: {architectures}" if one.built_for else ""
        torch.append(f"{one.version}{built}")
    signatures = [
        f"{one.fingerprint or 'no fingerprint'} ({one.signs}, {one.hash}), not verified" for one in found.signatures
    ]
    return [
        ("image", found.path),
        ("kind", found.kind),
        ("size", size_text(found.size) if found.size else ""),
        ("created", created),
        ("file system", f"{found.file_system} ({packed})" if packed else found.file_system),
        ("not read", found.unread),
        ("architecture", found.architecture),
        ("system", found.os),
        ("libc", found.libc),
        ("signed by", "\n".join(signatures) or ("nobody" if found.kind == "SIF" else "")),
        ("PyTorch", "\n".join(torch)),
        ("driver", _driver(found)),
        ("demands", found.demand),
        ("compat libraries", "\n".join(f"{one.version} in {one.where}" for one in found.compat)),
        ("driver libraries", "\n".join(found.drivers or ())),
        ("labels", "\n".join(f"{name}: {value}" for name, value in sorted(found.labels.items()))),
        ("environment", "\n".join(f"{name}={value}" for name, value in found.environment.items())),
    ]
