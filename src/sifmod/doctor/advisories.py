"""Which known problems apply to this host, and to a container on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Optional

from sifmod.advice.advisory import Advisory
from sifmod.advice.subject import Subject
from sifmod.finding import NOTE, WARNING, Finding
from sifmod.host.files import content_of
from sifmod.install.advice import about, about_node, told_by_module
from sifmod.installed.installation import Installation
from sifmod.site.settings import Site

# The topic of what a module does not tell; a known problem has its identifier as topic.
OF_MODULE = "advisories"


def node_advisories(advisories: Sequence[Advisory], node: Subject) -> Iterator[Finding]:
    """Yield the findings on a host, whatever runs there."""
    for advisory in about_node(advisories, node):
        yield _finding(advisory, advisory.severity)


def container_advisories(
    advisories: Sequence[Advisory], subject: Subject, site: Site, installation: Optional[Installation]
) -> Iterator[Finding]:
    """Yield the findings on a container on this host.

    An advisory whose remedy is in force, in this shell or by the site, is a note, and so is one that depends on a GPU
    driver if this host has none.
    """
    module = _module_text(installation) if installation else ""
    told = {one.identifier for one in advisories if re.search(rf"(?m)^\s*{re.escape(one.identifier)}: ", module)}
    for advisory in about(advisories, subject):
        is_applied = site.apply_advisories and advisory.identifier in told and not advisory.match.drivers
        applied = advisory.variables if is_applied else {}
        settings = {**os.environ, **site.container_env, **applied}
        if not advisory.match.holds(subject):
            yield _finding(advisory, NOTE, "it depends on the GPU driver, which only a GPU node can show")
        elif advisory.is_remedied({name: value for name, value in settings.items() if value is not None}):
            yield _finding(advisory, NOTE, f"the remedy is in force here: {advisory.actions}")
        else:
            yield _finding(advisory, advisory.severity)
    if installation and module:
        parameters = installation.manifest.parameters
        if parameters and not parameters.get(
            "gpu"
        ):  # although the image has software for one, it was installed for none
            subject = replace(subject, gpu="", gpu_libraries="")
        of_module = told_by_module(about(advisories, subject))
        missing = [one for one in of_module if one.identifier not in told]
        if missing:
            severity = NOTE if all(one.severity == NOTE for one in missing) else WARNING
            what = f"the module {installation.module} does not tell of {_names(missing)}"
            why = "it was written before they applied"
            yield Finding(severity, OF_MODULE, what, why, "eb --rebuild --module-only")
        over = [one for one in advisories if one.identifier in told and one not in of_module]
        if over:
            what = f"the module {installation.module} still tells of {_names(over)}"
            why = "they no longer apply here"
            yield Finding(NOTE, "advisories", what, why, "eb --rebuild --module-only")


def _names(advisories: Sequence[Advisory]) -> str:
    return ", ".join(one.identifier for one in advisories)


def _finding(advisory: Advisory, severity: str, more: str = "") -> Finding:
    why = "; ".join(filter(None, [more, f"see {' and '.join(advisory.sources)}"]))
    return Finding(severity, f"advisory {advisory.identifier}", advisory.text, why, advisory.remedy)


def _module_text(installation: Installation) -> str:
    """Return the text of the module file; empty if there is none to read."""
    try:
        return content_of(installation.module_files[0]).decode("utf-8", "replace")
    except (IndexError, OSError):
        return ""
