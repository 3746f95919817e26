"""The apps of Open OnDemand: a form and a job for Jupyter in a container, and for a server of a model."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sifmod.catalogue.model import OFFERED, Catalogue
from sifmod.catalogue.ondemand import is_app, jupyter_app, server_app
from sifmod.errors import InstallError
from sifmod.resources import data_path
from sifmod.site.server import load_servers
from sifmod.text import quoting

from ..support import a_site
from .made import HOSTILE, an_entry

SCRIPT = "template/script.sh.erb"

LAB = an_entry("PyTorch/2.7.1", gpu="amd", has_python=True, packages={"jupyterlab": "4.2", "jupyter_server": "2.14"})
SERVER = an_entry("Python/3.11", has_python=True, packages={"Jupyter.Server": "2.14"})
WITHOUT = (
    an_entry("Tool/1", packages={"jupyterlab": "4.2"}),
    an_entry("Plain/1", has_python=True, packages={"ipykernel": "6"}),
    replace(LAB, module="Offered/1", state=OFFERED),
)


VLLM = an_entry("vLLM/0.11", gpu="nvidia", packages={"vllm": "0.11", "sglang": "0.5"})


def files(*entries: object) -> dict[str, str]:
    return jupyter_app(Catalogue("", "", tuple(entries)), ("main", "gpu-2"))  # type: ignore[arg-type] # entries


def server_files(*entries: object) -> dict[str, str]:
    site = a_site()
    catalogue = Catalogue("", "", tuple(entries))  # type: ignore[arg-type] # entries
    return server_app(catalogue, ("main",), load_servers(site), site)


def test_installed_containers_with_a_jupyter_can_be_chosen() -> None:
    made = files(LAB, *WITHOUT, SERVER)
    form = yaml.safe_load(made["form.yml"])
    assert form["cluster"] == ["main", "gpu-2"]
    assert form["attributes"]["container"]["options"] == [
        ["PyTorch/2.7.1 (AMD GPU)", "PyTorch/2.7.1"],
        ["Python/3.11", "Python/3.11"],
    ]
    assert {"container", "cores", "gpus", "bc_num_hours", "bc_account", "bc_queue"} == set(form["form"])
    manifest = yaml.safe_load(made["manifest.yml"])
    assert (manifest["role"], manifest["category"]) == ("batch_connect", "Interactive Apps")
    script = made[SCRIPT]
    assert "PyTorch/2.7.1) program=jupyterlab ;;" in script
    assert "Python/3.11) program=jupyter_server ;;" in script
    assert made == files(LAB, *WITHOUT, SERVER)


def test_every_file_of_the_folder_is_used() -> None:
    folder = data_path("catalogue") / "ondemand"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name.removesuffix(".j2") for name in there} == {
        path if path in {"submit.yml.erb", "info.html.erb"} else f"{app}/{path}"
        for app, made in (("jupyter", files(LAB)), ("serve", server_files(VLLM)))
        for path in {*made} - {"form.yml", "manifest.yml"}
    }


def test_without_a_jupyter_there_is_no_app() -> None:
    with pytest.raises(InstallError, match=r"jupyterlab or notebook or jupyter-server.*pip install jupyterlab"):
        files(*WITHOUT)


def test_each_server_that_a_container_has_can_be_chosen() -> None:
    made = server_files(VLLM, LAB, replace(VLLM, module="Offered/1", state=OFFERED))
    form = yaml.safe_load(made["form.yml"])
    assert form["attributes"]["server"]["options"] == [
        ["vllm of vLLM/0.11 (NVIDIA GPU)", "vLLM/0.11 vllm"],
        ["sglang of vLLM/0.11 (NVIDIA GPU)", "vLLM/0.11 sglang"],
    ]
    assert {"server", "model", "cores", "gpus", "bc_num_hours", "bc_account", "bc_queue"} == set(form["form"])
    assert {name for name, field in form["attributes"].items() if "display" in field} == {"server", "model"}
    assert "words=(--server=vllm '--model={model}' --health=/health --limit=1800 --nodes=1" in made[SCRIPT]
    with pytest.raises(InstallError, match="no installed container has a Python package vllm or sglang"):
        server_files(LAB)


@given(
    st.one_of(
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1), st.just("<%= `id` %>"), st.just(HOSTILE)
    )
)
def test_whatever_a_module_is_called_it_is_text(name: str) -> None:
    made = files(replace(LAB, module=name))
    ((_label, value),) = yaml.safe_load(made["form.yml"])["attributes"]["container"]["options"]
    assert value == name
    (line,) = [line for line in made[SCRIPT].split("\n") if line.endswith(") program=jupyterlab ;;")]
    assert "<%" not in line.replace("<%%", "")
    assert shlex.split(line.replace("<%%", "<%").removesuffix(") program=jupyterlab ;;")) == [name]
    script = server_files(replace(VLLM, module=name))[SCRIPT]
    assert "<%" not in script.partition("case $server in")[2].replace("<%%", "")
    assert f"{quoting.shell(f'{name} vllm')}) module={quoting.shell(name)} words=(" in script.replace("<%%", "<%")


def test_only_such_an_app_is_replaced(tmp_path: Path) -> None:
    for name, text in files(LAB).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [is_app(name, tmp_path) for name in ("jupyter", "serve")] == [True, False]
    (tmp_path / "template" / "mine.sh").touch()
    assert not is_app("jupyter", tmp_path)
    (tmp_path / "template" / "mine.sh").unlink()
    (tmp_path / "manifest.yml").write_text("name: other\n")
    assert not is_app("jupyter", tmp_path)
