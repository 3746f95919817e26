"""Apps of Open OnDemand: a form and a job for Jupyter in a container of a catalogue, and for a server of a model.

The files are those that "Interactive Apps" of Open OnDemand's documentation describes, in the way of its example for
Jupyter (https://github.com/OSC/bc_example_jupyter). What each file sees is in the dashboard's source: the choices of
the user are `context` in `template/`, and names of their own in `submit.yml.erb` (OSC/ondemand, models/batch_connect:
app.rb, and session.rb, which keeps the permissions of the template's files). What a job defines and sources is in
OSC/ood_core, lib/ood_core/batch_connect/template.rb.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from packaging.utils import canonicalize_name

from sifmod.catalogue.model import INSTALLED, Catalogue, Entry
from sifmod.container.gpu import VENDORS
from sifmod.errors import InstallError
from sifmod.render.job import PROGRAM, Job, serve_words
from sifmod.resources import data_path
from sifmod.site.server import Server
from sifmod.site.settings import Site
from sifmod.text import quoting

# The Python modules that start Jupyter, by the package that has them; the first one that a container has is started.
PROGRAMS = MappingProxyType({"jupyterlab": "jupyterlab", "notebook": "notebook", "jupyter-server": "jupyter_server"})
# The files that each app has as they lie, in its folder.
_PLAIN = MappingProxyType(
    {
        "jupyter": ("view.html.erb", "template/before.sh", "template/after.sh"),
        "serve": ("view.html.erb", "template/after.sh"),
    }
)
# Those that are the same in both.
_COMMON = ("submit.yml.erb", "info.html.erb")
_MANIFEST, _FORM, _SCRIPT = "manifest.yml", "form.yml", "template/script.sh.erb"
PROGRAM_FILES = (_SCRIPT,)
_BEGIN = "# Written by sifmod catalogue --ood\n"


@dataclass(frozen=True)
class _Choice:
    """What can be chosen: the value and the text of the form, the module, and what is started in its container."""

    value: str
    label: str
    module: str
    words: tuple[str, ...]


def jupyter_app(catalogue: Catalogue, clusters: Sequence[str]) -> dict[str, str]:
    """Return the text of each file of the app for Jupyter, by its path; the same for the same catalogue.

    What is installed and has a Jupyter can be chosen, on the clusters that `clusters.d` of Open OnDemand names so.

    Raises:
        InstallError: no container has a Jupyter.
    """
    choices = tuple(_jupyters(catalogue.modules))
    if not choices:
        raise InstallError(
            f"no installed container has {' or '.join(PROGRAMS)}: install it into one (module load NAME; pip install "
            "jupyterlab). Nothing was written"
        )
    manifest = _manifest(
        "Jupyter in a container",
        "Jupyter in a container of the centre, with the packages that you installed in it.",
    )
    return _files("jupyter", manifest, _form(clusters, "container", "Container", choices), choices)


def server_app(
    catalogue: Catalogue, clusters: Sequence[str], servers: Mapping[str, Server], site: Site
) -> dict[str, str]:
    """Return the files of the app for servers of models: those with a `form`, if a package has their name.

    Raises:
        InstallError: no container has such a package.
        JobError: the row of a server is not one that a job can start.
    """
    offered = [server for server in servers.values() if server.form]
    choices = tuple(_servers(catalogue.modules, offered, site))
    if not choices:
        raise InstallError(
            f"no installed container has a Python package {' or '.join(server.name for server in offered)}: install "
            "one, or add a row with a form to a file of the site key 'servers'. Nothing was written"
        )
    form = _form(clusters, "server", "Server", choices, gpus=1)
    form["form"].insert(1, "model")
    form["attributes"]["model"] = {
        "widget": "text_field",
        "label": "Model",
        "display": True,
        "required": True,
        "help": "Its name at a hub, such as ORGANISATION/NAME, or the path of its folder.",
    }
    manifest = _manifest("Server of a model", "Serves a model to you, in a container of the centre.")
    return _files("serve", manifest, form, choices)


def _files(name: str, manifest: object, form: object, choices: Sequence[_Choice]) -> dict[str, str]:
    folder = data_path("catalogue") / "ondemand"
    files = {path: (folder / name / path).read_text(encoding="utf-8") for path in _PLAIN[name]}
    files.update((path, (folder / path).read_text(encoding="utf-8")) for path in _COMMON)
    files[_MANIFEST] = _BEGIN + _yaml(manifest)
    files[_FORM] = _yaml(form)
    files[_SCRIPT] = _environment().get_template(f"{name}/{_SCRIPT}.j2").render(entries=choices)
    return files


def is_app(name: str, folder: Path) -> bool:
    """Return whether a folder is the app of this name, and has nothing else; OSError if it can't be read."""
    known = {_MANIFEST, _FORM, _SCRIPT, "template", *_COMMON, *_PLAIN[name]}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return found <= known and (folder / _MANIFEST).read_text(errors="replace").startswith(_BEGIN)


def _jupyters(entries: Sequence[Entry]) -> Iterator[_Choice]:
    for entry in entries:
        packages = _packages(entry)
        program = next((program for package, program in PROGRAMS.items() if package in packages), "")
        if entry.state == INSTALLED and entry.has_python and program:
            yield _Choice(entry.module, _label(entry), entry.module, (program,))


def _servers(entries: Sequence[Entry], servers: Sequence[Server], site: Site) -> Iterator[_Choice]:
    for entry in entries:
        for server in servers:
            if entry.state == INSTALLED and canonicalize_name(server.name) in _packages(entry):
                command = tuple(server.form.split())
                job = Job(entry.module, command, launcher=PROGRAM, server=server)
                # a row need not say which option of its command names the model
                options = dict.fromkeys((*serve_words(job, server, site), "--model={model}"))
                words = (*options, "--", *command, *server.arguments.split())
                yield _Choice(f"{entry.module} {server.name}", f"{server.name} of {_label(entry)}", entry.module, words)


def _packages(entry: Entry) -> set[str]:
    return {canonicalize_name(package.name) for package in entry.packages}


def _label(entry: Entry) -> str:
    gpu = VENDORS[entry.gpu].name if entry.gpu in VENDORS else ""
    return f"{entry.module} ({gpu} GPU)" if gpu else entry.module


def _manifest(name: str, description: str) -> dict[str, str]:
    return {
        "name": name,
        "category": "Interactive Apps",
        "subcategory": "Servers",
        "role": "batch_connect",
        "description": description,
    }


def _form(clusters: Sequence[str], field: str, label: str, choices: Sequence[_Choice], gpus: int = 0) -> dict[str, Any]:
    number = {"widget": "number_field", "step": 1}
    return {
        "cluster": list(clusters),
        "form": [field, "bc_account", "bc_queue", "bc_num_hours", "cores", "gpus"],
        "attributes": {
            field: {
                "widget": "select",
                "label": label,
                "display": True,  # on the session's card too
                "options": [[choice.label, choice.value] for choice in choices],
            },
            "bc_account": {"label": "Account"},
            "cores": {**number, "label": "Cores", "value": 1, "min": 1},
            "gpus": {**number, "label": "GPUs", "value": gpus, "min": 0},
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
    # eRuby prints `<%%` as `<%`
    environment.filters.update(sh=quoting.shell, erb=lambda text: text.replace("<%", "<%%"))
    return environment
