"""An app of Open OnDemand: a form and a job for Jupyter in one of the containers of a catalogue.

The files are those that "Interactive Apps" of Open OnDemand's documentation describes, in the way of its example for
Jupyter (https://github.com/OSC/bc_example_jupyter). What each file sees is in the dashboard's source: the choices of
the user are `context` in `template/`, and names of their own in `submit.yml.erb` (OSC/ondemand, models/batch_connect:
app.rb, and session.rb, which keeps the permissions of the template's files).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from packaging.utils import canonicalize_name

from sifmod.catalogue.model import INSTALLED, Catalogue, Entry
from sifmod.container.gpu import VENDORS
from sifmod.errors import InstallError
from sifmod.resources import data_path
from sifmod.text import quoting

# The Python modules that start Jupyter, by the package that has them; the first one that a container has is started.
PROGRAMS = MappingProxyType({"jupyterlab": "jupyterlab", "notebook": "notebook", "jupyter-server": "jupyter_server"})
_PLAIN = ("submit.yml.erb", "view.html.erb", "template/before.sh")
_MANIFEST, _FORM, _SCRIPT = "manifest.yml", "form.yml", "template/script.sh.erb"
PROGRAM_FILES = (_SCRIPT,)
_BEGIN = "# Written by sifmod catalogue --ood\n"


@dataclass(frozen=True)
class _Choice:
    """A container that can be chosen: its module, what the form shows, and the Python module that starts Jupyter."""

    module: str
    label: str
    program: str


def app_files(catalogue: Catalogue, clusters: Sequence[str]) -> dict[str, str]:
    """Return the text of each file of the app, by its path; the same for the same catalogue.

    What is installed and has a Jupyter can be chosen, on the clusters that `clusters.d` of Open OnDemand names so.

    Raises:
        InstallError: no container has a Jupyter.
    """
    choices = tuple(_choices(catalogue.modules))
    if not choices:
        raise InstallError(
            f"no installed container has {' or '.join(PROGRAMS)}: install it into one (module load NAME; pip install "
            "jupyterlab). Nothing was written"
        )
    folder = data_path("catalogue") / "ondemand"
    files = {name: (folder / name).read_text(encoding="utf-8") for name in _PLAIN}
    files[_MANIFEST] = _BEGIN + _yaml(_manifest())
    files[_FORM] = _yaml(_form(choices, clusters))
    files[_SCRIPT] = _environment().get_template(f"{_SCRIPT}.j2").render(entries=choices)
    return files


def is_app(folder: Path) -> bool:
    """Return whether a folder is such an app, and has nothing else; OSError if it can't be read."""
    known = {_MANIFEST, _FORM, _SCRIPT, *_PLAIN, "template"}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return found <= known and (folder / _MANIFEST).read_text(errors="replace").startswith(_BEGIN)


def _choices(entries: Sequence[Entry]) -> Iterator[_Choice]:
    for entry in entries:
        packages = {canonicalize_name(package.name) for package in entry.packages}
        program = next((program for package, program in PROGRAMS.items() if package in packages), "")
        if entry.state == INSTALLED and entry.has_python and program:
            gpu = VENDORS[entry.gpu].name if entry.gpu in VENDORS else ""
            yield _Choice(entry.module, f"{entry.module} ({gpu} GPU)" if gpu else entry.module, program)


def _manifest() -> dict[str, str]:
    return {
        "name": "Jupyter in a container",
        "category": "Interactive Apps",
        "subcategory": "Servers",
        "role": "batch_connect",
        "description": "Jupyter in a container of the centre, with the packages that you installed in it.",
    }


def _form(choices: Sequence[_Choice], clusters: Sequence[str]) -> dict[str, Any]:
    number = {"widget": "number_field", "step": 1}
    return {
        "cluster": list(clusters),
        "form": ["container", "bc_account", "bc_queue", "bc_num_hours", "cores", "gpus"],
        "attributes": {
            "container": {
                "widget": "select",
                "label": "Container",
                "options": [[choice.label, choice.module] for choice in choices],
            },
            "bc_account": {"label": "Account"},
            "cores": {**number, "label": "Cores", "value": 1, "min": 1},
            "gpus": {**number, "label": "GPUs", "value": 0, "min": 0},
        },
    }


def _yaml(value: object) -> str:
    import yaml  # most verbs don't need it

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    return text


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_path("catalogue") / "ondemand"),
        autoescape=False,  # noqa: S701 - shell, not HTML: the filters below quote
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(sh=quoting.shell, erb=_erb)
    return environment


def _erb(text: str) -> str:
    """Return text that eRuby prints as it is."""
    return text.replace("<%", "<%%")
