"""The host commands and what they source: what the runtime would get."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.spec import ContainerSpec, PythonLayout

from ..support import CONDA, USR, a_site, split_binds
from .running import Load, Wrapper, binds_of, put_into_state


@pytest.mark.parametrize("state", ["empty", "text", "short"])
def test_a_wrapper_takes_the_directory_beside_damage(wrapper: Wrapper, installed: ContainerSpec, state: str) -> None:
    top = Path(installed.installdir)
    put_into_state(top, state)
    done = wrapper.run("python")
    assert done.returncode == 0
    assert done.stderr.startswith(f"python: {top}/user-software.squashfs is damaged")
    assert binds_of(wrapper.fake.calls[-1]["env"])["/user-software"][0] == f"{top}/user-software"
    (top / "user-software").rmdir()
    done = wrapper.run("python")
    assert done.returncode == 126
    assert "Restore it from a backup" in done.stderr


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("python3.11", ["/user-software/venv/demo/bin/python"]),
        ("pip3", ["/user-software/venv/demo/bin/python", "-I", "/runscripts/installers.py", "pip"]),
        ("uv", ["/user-software/venv/demo/bin/python", "-I", "/runscripts/installers.py", "uv"]),
        ("torchrun", ["/runscripts/run-tool", "torchrun"]),
        ("start-shell", ["/bin/bash", "--norc"]),
        ("list-packages", ["/runscripts/list-packages"]),
    ],
)
def test_commands_run_namesakes(wrapper: Wrapper, installed: ContainerSpec, name: str, command: list[str]) -> None:
    call = wrapper(name, "x", spec=replace(installed, wrappers=("python", "pip", "torchrun")))
    assert call["argv"][2:] == [*command, "x"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("python -m venv x", "To add packages to Demo/1.0-x: pip install NAME."),
        ("uv venv", "To add packages to Demo/1.0-x: pip install NAME."),
        ("python3 -m ipykernel install", "For one that it can start: sifmod kernel Demo/1.0-x\n"),
        ("python x.py -m venv x", ""),
        ("uv pip list venv", ""),
    ],
)
def test_environments_and_kernels_for_the_container_only_are_named(wrapper: Wrapper, words: str, says: str) -> None:
    done = wrapper.run(*words.split())
    assert says in done.stderr
    assert bool(done.stderr) == bool(says)


@pytest.mark.parametrize("words", [["-c", "echo $0 $1", "a b", "c"], []])
def test_the_shell_is_bash_or_else_sh(wrapper: Wrapper, installed: ContainerSpec, words: list[str]) -> None:
    program = replace(installed, python=None, venv="", wrappers=("tool",))
    shell, *options = wrapper("start-shell", *words, spec=program)["argv"][2:]
    assert shell == "/bin/sh"  # which each image has that has a shell
    done = subprocess.run(["sh", *options], input="echo in $0\n", capture_output=True, text=True, check=True)
    assert done.stdout == ("a b c\n" if words else "in /bin/bash\n")
    without = [one.replace("-x /bin/bash", "-x /bin/gone") for one in options]
    done = subprocess.run(["sh", *without], input="echo in $0\n", capture_output=True, text=True, check=True)
    assert done.stdout == ("a b c\n" if words else "in /bin/sh\n")


def test_an_image_that_sets_itself_up_is_run(wrapper: Wrapper, installed: ContainerSpec) -> None:
    assert wrapper("python", spec=replace(installed, launch="run"))["argv"][0] == "run"


def container_variables(environ: Mapping[str, str]) -> dict[str, str]:
    names_ = [name for name in environ if name.startswith(("SINGULARITY", "APPTAINER")) or name in SETTINGS]
    return {name: environ[name] for name in names_ if not name.endswith(("_NV", "_ROCM"))}


RICH_SITE = a_site(
    binds=(Bind("/etc", "/host etc", "ro"),),
    optional_binds=(Bind("/usr", "/host'usr"), Bind("/no/such/folder", "/gone")),
    container_env={"A": "site", "B": "si'te $HOME", "PYTHONSTARTUP": "/runscripts/x", "D": "${USER}:$HOME/a$USERS"},
)
SETTINGS = ("A", "B", "C", "D", "PYTHONSTARTUP")


@pytest.mark.parametrize("python", [USR, CONDA, PythonLayout("/opt/venv")], ids=["usr", "conda", "prefix"])
@pytest.mark.parametrize("state", ["directory", "packed", "both", "unpacked"])
def test_a_wrapper_without_the_module_gives_the_container_what_the_module_gives(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, python: PythonLayout, state: str
) -> None:
    put_into_state(Path(installed.installdir), state)
    spec = replace(installed, python=python, binds=(Bind("/tmp", "/host tmp"),), container_env={"A": "own", "C": ""})
    user = {"HOME": "/home/it's \\me", "USER": "me"}
    module = container_variables(load(spec, RICH_SITE, user))
    assert module["A"] == "own"
    assert module["B"] == "si'te /home/it's \\me"
    assert module["D"] == "me:/home/it's \\me/a$USERS"
    assert module["SINGULARITYENV_PYTHONSTARTUP"] == "/runscripts/x"
    assert "PYTHONSTARTUP" not in module
    assert container_variables(wrapper("python", spec=spec, site=RICH_SITE, environ=user)["env"]) == module


@pytest.mark.parametrize("name", ["PYTHONNOUSERSITE", "LD_PRELOAD"])
def test_an_easyconfig_s_variable_wins(wrapper: Wrapper, load: Load, installed: ContainerSpec, name: str) -> None:
    spec = replace(installed, python=CONDA, container_env={name: "own"})
    assert load(spec)[f"APPTAINERENV_{name}"] == "own"
    assert wrapper("python", spec=spec)["env"][f"APPTAINERENV_{name}"] == "own"


def test_a_wrapper_clears_what_another_module_set_for_its_container(wrapper: Wrapper) -> None:
    other = {
        f"{prefix}ENV_{name}": "other" for prefix in ("SINGULARITY", "APPTAINER") for name in names.RESERVED_VARIABLES
    }
    environ = wrapper("python", environ=other)["env"]
    assert "other" not in environ.values()
    assert "APPTAINERENV_CONDA_PREFIX" not in environ


@pytest.mark.parametrize("prefix", ["SINGULARITYENV_", "APPTAINERENV_"])
def test_the_user_s_own_value_of_a_site_s_variable_wins(wrapper: Wrapper, prefix: str) -> None:
    site = a_site(container_env={"NCCL_DEBUG": "WARN"})
    environ = wrapper("python", site=site, environ={f"{prefix}NCCL_DEBUG": "INFO"})["env"]
    values = {environ[name] for name in ("SINGULARITYENV_NCCL_DEBUG", "APPTAINERENV_NCCL_DEBUG") if name in environ}
    assert values == {"INFO"}


@pytest.mark.parametrize("twins", [("SINGULARITY",), ("APPTAINER",), ("SINGULARITY", "APPTAINER")])
@pytest.mark.parametrize("order", ["{own},{loaded}", "{loaded},{own}", "{own},{loaded},/last", "{own}"])
def test_binds_that_the_user_adds_after_loading_are_kept_by_a_wrapper(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, order: str, twins: tuple[str, ...]
) -> None:
    loaded = load(installed, environ={"APPTAINER_BINDPATH": "/mine"})
    environ = {name: value for name, value in loaded.items() if name.isidentifier()}
    before = environ["APPTAINER_BINDPATH"]
    for twin in twins:
        environ[f"{twin}_BINDPATH"] = order.format(own=r"/a\,\:b:/own:ro,image-src=/", loaded=before)
    found = wrapper("python", environ=environ)["env"]
    last = [("/last", "/last", "")] if order.endswith("/last") else []
    expected = [*split_binds(before), (r"/a,:b", "/own", "ro,image-src=/"), *last]
    assert split_binds(found["SINGULARITY_BINDPATH"]) == expected
    assert found["APPTAINER_BINDPATH"] == found["SINGULARITY_BINDPATH"]


def test_without_a_venv_no_user_software_is_bound(wrapper: Wrapper, load: Load, installed: ContainerSpec) -> None:
    spec = replace(installed, venv="")
    assert set(binds_of(load(spec))) == {"/runscripts"}
    assert set(binds_of(wrapper("python", spec=spec)["env"])) == {"/runscripts"}


def test_a_wrapper_without_user_software_names_the_remedy(wrapper: Wrapper, installed: ContainerSpec) -> None:
    Path(installed.installdir, "user-software").rmdir()
    done = wrapper.run("python")
    assert done.returncode == 126
    assert f"{installed.installdir}/user-software" in done.stderr
    assert "eb --rebuild" in done.stderr


def test_a_wrapper_uses_no_other_central_image(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path) -> None:
    Path(installed.installdir, installed.sif).unlink()
    (tmp_path / installed.sif).write_bytes(bytes(48) + bytes(range(16)) + b"x" * 16)
    site = a_site(image_repositories=(str(tmp_path),))
    same = replace(installed, image_size=80)
    known = replace(same, image_id=bytes(range(16)).hex())
    for spec in (same, known):
        assert wrapper("python", spec=spec, site=site)["argv"][1] == f"{tmp_path}/demo.sif"
    for spec in (replace(same, image_size=5), replace(same, image_id="0" * 32)):
        done = wrapper.run("python", spec=spec, site=site)
        assert (done.returncode, "is gone" in done.stderr) == (126, True)
