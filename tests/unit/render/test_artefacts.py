"""Which files there are, and what holds for all of them."""

import re
import shutil
import subprocess
from pathlib import PurePosixPath

import pytest

from sifmod import names
from sifmod.container.runtime import runtime_commands
from sifmod.render.helptext import usage, whatis
from sifmod.render.templates import render
from sifmod.site.feature import Feature

from ..support import a_site, a_spec
from .cases import CASES, MODULE, TCL_MODULE, outputs, text_of


def test_artefacts_come_sorted_each_path_once(case: str) -> None:
    paths = [item.path for item in render(*CASES[case])]
    assert paths == sorted(set(paths))
    assert all(
        isinstance(path, PurePosixPath) and not path.is_absolute() and len(path.parts) in (2, 3) for path in paths
    )


@pytest.mark.parametrize("wrappers", [("python", "python3"), ("pip3.11", "pip"), ("python3.11", "python", "python3")])
def test_a_versioned_name_that_is_asked_for_as_well_is_one_file(wrappers: tuple[str, ...]) -> None:
    paths = [item.path for item in render(a_spec(wrappers=wrappers), a_site())]
    assert len(paths) == len(set(paths))


def test_commands_are_executable_and_what_is_sourced_is_not(case: str) -> None:
    for item in render(*CASES[case]):
        sourced = item.path.suffix in (".sh", ".py", ".txt") or item.path.name == "init-conda-venv"
        assert item.executable != sourced
        # an image that enroot starts need not have bash
        shell = "#!/bin/sh" if item.path.name == "with-environment" else "#!/bin/bash"
        assert item.text.startswith(shell) != sourced


def test_a_container_without_a_python_has_no_python_commands() -> None:
    assert sorted(outputs(*CASES["no-python"])) == [
        "bin/gmx",
        "bin/in-container",
        "bin/start-shell",
        MODULE,
        TCL_MODULE,
        "runscripts/get-master",
        "runscripts/more-values.sh",
        "runscripts/mpi-check",
        "runscripts/mpi_check.py",
        "runscripts/on-node.sh",
        "runscripts/serve",
        "runscripts/slurm.sh",
        "runscripts/values.sh",
        "share/central.sh",
        "share/command.sh",
        "share/container.sh",
        "share/expand.sh",
        "share/held-files.sh",
        "share/hold-container",
        "share/on-node.sh",
        "share/paths.sh",
        "share/share-container.sh",
    ]


def test_a_container_without_a_venv_has_nothing_to_pack() -> None:
    paths = outputs(a_spec(venv=""), a_site())
    assert not [path for path in paths if "squashfs" in path or "compare" in path]
    assert "user-software" not in paths[MODULE] + paths[TCL_MODULE]


def test_the_commands_of_a_container_are_its_wrappers_and_sifmod_s_own() -> None:
    assert {path for path in outputs(a_spec(wrappers=()), a_site()) if path.startswith("bin/")} == {
        f"bin/{name}" for name in names.COMMANDS
    }
    paths = outputs(a_spec(python_version="3.11", wrappers=("python", "pip", "torchrun")), a_site())
    own = {path[4:] for path in paths if path.startswith("bin/")} - set(names.COMMANDS)
    assert own == {"python", "python3", "python3.11", "pip", "pip3", "pip3.11", "torchrun", "uv"}
    paths = outputs(a_spec(python_version=""), a_site())
    own = {path[4:] for path in paths if path.startswith("bin/")} - set(names.COMMANDS)
    assert own == {"python", "pip", "uv"}


def test_a_wrapper_runs_the_command_of_a_map_word_by_word() -> None:
    wrapped = {"gmx": ("/opt/bin/gmx", "-quiet", "a b; $HOME"), "python": ("/opt/py/bin/python3",)}
    paths = outputs(a_spec(wrappers=tuple(wrapped), wrapper_commands=wrapped, python=None, venv=""), a_site())
    assert paths["bin/gmx"].splitlines()[-1] == """launch /opt/bin/gmx -quiet 'a b; $HOME' "$@\""""
    assert paths["bin/python"].splitlines()[-1] == 'launch /opt/py/bin/python3 "$@"'
    assert "bin/python3" not in paths
    paths = outputs(a_spec(wrappers=("pip", "pip3", "gmx"), wrapper_commands={**wrapped, "pip3": ("tool",)}), a_site())
    assert paths["bin/gmx"].splitlines()[-1].startswith("launch /runscripts/run-tool /opt/bin/gmx -quiet")
    assert paths["bin/pip3"].splitlines()[-1] == 'launch /runscripts/run-tool tool "$@"'


def test_the_help_names_commands_of_a_map_and_stays_short_with_hundreds() -> None:
    wrapped = {"gmx": ("/opt/bin/gmx", "-quiet"), "odd": ("gmx", "%(name)s [x] {y} \\")}
    text = usage(a_spec(wrappers=(*wrapped, "same"), wrapper_commands=wrapped), a_site())
    assert re.search(r"^  same +as in the container, with its software$", text, re.M)
    assert re.search(r"^  gmx +runs /opt/bin/gmx -quiet$", text, re.M)
    assert re.search(r"^  odd +runs a command of the container$", text, re.M)
    assert re.search(r"^  mpi-check +tests MPI, in a Slurm step or alone$", text, re.M)
    names_of_600 = tuple(f"command{number}" for number in range(600))
    many = a_spec(python=None, venv="", wrappers=names_of_600)
    assert "  ...  " in usage(many, a_site())
    for spec in (
        many,
        a_spec(),
        a_spec(wrappers=tuple(f"command-{number}" for number in range(7)), squashfs="x.squashfs"),
    ):
        assert max(map(len, usage(spec, a_site()).splitlines())) <= 80
    assert len(whatis(many, [])[0]) < 400


def test_the_help_names_features_and_what_is_removed() -> None:
    odd = Feature("mpi", help="100% [of] {it} \\n", hosts=("nid[0-9]",), exists="/dev/x")
    site = a_site(default_features=("mpi",), feature={"mpi": odd, "cxi": Feature("cxi")}, container_env={"GONE": None})
    text = usage(a_spec(features=("cxi", "-mpi")), site)
    assert re.search(
        r"^    mpi  100 percent \(of\) \(it\) /n; on nodes named nid\(0-9\), that have /dev/x$", text, re.M
    )
    assert re.search(r"^  \* cxi  -$", text, re.M)
    assert "Variables that the module does not set here: GONE." in text
    assert not re.search(r"[\[\]{}%\\]", text)


def test_uv_is_where_pip_is_if_there_is_user_software_to_install_into() -> None:
    def own(venv: str, *wrappers: str) -> set[str]:
        paths = outputs(a_spec(venv=venv, wrappers=wrappers, python_version="3.11"), a_site())
        return {path for path in paths if path.rpartition("/")[2] in ("pip", "uv")}

    inside = {"runscripts/pip", "runscripts/uv"}
    assert own("demo", "pip") == {"bin/pip", "bin/uv", *inside}
    assert own("demo", "pip3.11") == inside
    assert own("demo", "uv") == {"bin/uv", *inside}
    assert own("", "pip") == {"bin/pip"}


def test_every_rendered_text_ends_with_one_line_break(case: str) -> None:
    for path, text in outputs(*CASES[case]).items():
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n\n"), path
        assert "{{" not in text, path
        assert "{%" not in text, path


def test_no_wrapper_may_have_the_name_of_a_command_that_the_scripts_use() -> None:
    files = [item for spec, site in CASES.values() for item in render(spec, site)]
    scripts = [item for item in files if item.path.parts[0] == "bin" or item.path.suffix == ".sh"]
    texts = {item.text for item in scripts if item.path.name not in (names.VALUES, names.MORE_VALUES)}
    start = r"(?:^|[|;&(!{]|\b(?:if|then|else|do|while|until|try|exec|timeout \d+|LC_ALL=C))\s*"
    used = {name for text in texts for name in re.findall(rf"(?m){start}([a-z][a-z0-9]*)(?=[ ;)]|$)", text)}
    # bash's own, and words in the same places that are no commands there
    used -= {"echo", "false", "kill", "printf", "pwd", "test", "true", "eb", "pip", "size", "tar", "xz"}
    tools = {name for name in used if shutil.which(name, path="/usr/bin:/bin")}
    assert {"find", "od", "flock"} <= tools
    assert tools <= names.HOST_COMMANDS | runtime_commands()


@pytest.mark.parametrize(
    ("easyconfig", "variable", "shared"),
    [(False, "", False), (True, "", True), (False, "1", True), (False, "true", True), (True, "0", False)],
)
def test_the_variable_decides_whether_tasks_share_a_container(easyconfig: bool, variable: str, shared: bool) -> None:
    spec = a_spec(share_container=easyconfig)
    (condition,) = re.findall(r"if (\[\[ .*SIFMOD_SHARE_CONTAINER.*\]\]); then", text_of("share/container.sh", spec))
    script = f"{text_of('runscripts/values.sh', spec)}\n{condition}"
    done = subprocess.run(["bash", "-c", script], env={"SIFMOD_SHARE_CONTAINER": variable}, check=False)
    assert (done.returncode == 0) == shared
