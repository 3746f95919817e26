"""Journey 2: what a loaded module sets, and that unloading takes all of it back; in two releases of Lmod."""

from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, LUMI_MODULE, LUMI_SIF, User, with_lmod


@pytest.fixture(scope="module", params=["8.6", pytest.param("8.7", marks=pytest.mark.slow)])
def lmod(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


@pytest.fixture(scope="module", name="demo")
def demo_in_lmod(demo: User, lmod: str) -> User:
    return with_lmod(demo, lmod)


@pytest.fixture(scope="module", name="lumi")
def lumi_in_lmod(lumi: User, lmod: str) -> User:
    return with_lmod(lumi, lmod)


@pytest.fixture(name="own_demo")
def own_demo_in_lmod(own_demo: User, lmod: str) -> User:
    return with_lmod(own_demo, lmod)


def test_every_documented_variable_is_set(demo: User) -> None:
    env = demo.environment(f"module load {DEMO_MODULE}")
    root = str(demo.installdir(DEMO_MODULE))
    expected = {
        "SIF": f"{root}/demo.sif",
        "SIFPYTHON": f"{root}/demo.sif",
        "CONTAINERROOT": root,
        "EBROOTPYTHON": root,
        "RUNSCRIPTS": f"{root}/runscripts",
        "RUNSCRIPTSPYTHON": f"{root}/runscripts",
        "SINGULARITY_BINDPATH": f"{root}/runscripts:/runscripts:ro,{root}/user-software:/user-software",
        "SINGULARITYENV_PREPEND_PATH": "/runscripts:/user-software/venv/demo/bin",
        "SINGULARITYENV_VIRTUAL_ENV": "/user-software/venv/demo",
        "SINGULARITYENV_WITH_VENV": "source /user-software/venv/demo/bin/activate",
        "SINGULARITYENV_WITH_CONDA_VENV": "source /runscripts/init-conda-venv",
        "SINGULARITYENV_PIP_CONSTRAINT": "/runscripts/pip-constraints.txt",
        "SINGULARITYENV_PYTHONHOME": "",
        "SINGULARITYENV_PYTHONNOUSERSITE": "1",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert env["PATH"].split(":")[0] == f"{root}/bin"
    assert "SINGULARITY_NV" not in env
    assert "SINGULARITY_ROCM" not in env


def test_a_conda_image_gets_what_activation_sets(lumi: User) -> None:
    env = lumi.environment(f"module load {LUMI_MODULE}")
    expected = {
        "SIFPYTORCH": f"{lumi.installdir(LUMI_MODULE)}/{LUMI_SIF}",
        "RUNSCRIPTSPYTORCH": f"{lumi.installdir(LUMI_MODULE)}/runscripts",
        "SINGULARITYENV_PREPEND_PATH": "/runscripts:/user-software/venv/pytorch/bin:"
        "/opt/miniconda3/envs/pytorch/bin:/opt/miniconda3/condabin",
        "SINGULARITYENV_CONDA_DEFAULT_ENV": "pytorch",
        "SINGULARITYENV_CONDA_EXE": "/opt/miniconda3/bin/conda",
        "SINGULARITYENV_CONDA_PREFIX": "/opt/miniconda3/envs/pytorch",
        "SINGULARITYENV_CONDA_PYTHON_EXE": "/opt/miniconda3/bin/python",
        "SINGULARITYENV_CONDA_SHLVL": "1",
        "SINGULARITYENV_WITH_CONDA": "source /opt/miniconda3/bin/activate pytorch",
        "SINGULARITYENV_WITH_VENV": "source /user-software/venv/pytorch/bin/activate",
        "NCCL_SOCKET_IFNAME": "hsn0,hsn1,hsn2,hsn3",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert "SINGULARITY_ROCM" not in env  # the site takes the libraries of the image


SHOW = "printenv NCCL_SOCKET_IFNAME || echo none"


@pytest.mark.parametrize(
    "enter",
    ["singularity exec $SIF bash -c", "start-shell -c", "{root}/bin/start-shell -c"],
    ids=["exec", "wrapper", "path"],
)
def test_what_the_user_sets_after_loading_counts_in_the_container(lumi: User, enter: str) -> None:
    load, show = f"module load {LUMI_MODULE}", f"{enter.format(root=lumi.installdir(LUMI_MODULE))} '{SHOW}'"
    assert lumi.out(f"{load}; {show}") == "hsn0,hsn1,hsn2,hsn3"
    assert lumi.out(f"{load}; export NCCL_SOCKET_IFNAME=lo; {show}") == "lo"
    assert lumi.out(f"{load}; unset NCCL_SOCKET_IFNAME; {show}") == "none"
    assert lumi.out(
        f"{load}; export SINGULARITYENV_NCCL_SOCKET_IFNAME=eth0 APPTAINERENV_NCCL_SOCKET_IFNAME=eth0; {show}"
    ) == ("eth0")


def test_a_wrapper_by_path_has_the_settings_and_leaves_the_user_s(lumi: User) -> None:
    shell = f"{lumi.installdir(LUMI_MODULE)}/bin/start-shell -c '{SHOW}'"
    assert lumi.out(shell) == "hsn0,hsn1,hsn2,hsn3"
    assert lumi.out(f"NCCL_SOCKET_IFNAME=lo {shell}") == "lo"


def test_every_singularity_variable_has_its_twin(lumi: User) -> None:
    env = lumi.environment(f"module load {LUMI_MODULE}")
    ours = {name: value for name, value in env.items() if name.startswith("SINGULARITY")}
    assert len(ours) > 10
    assert ours == {
        name.replace("APPTAINER", "SINGULARITY", 1): v for name, v in env.items() if name[:9] == "APPTAINER"
    }


def test_the_runtime_has_nothing_to_complain_about(lumi: User) -> None:
    done = lumi.run(f"module load {LUMI_MODULE}; singularity exec $SIF true")
    assert "WARNING" not in done.stderr.replace("Could not find any rocm", "")


def test_the_containers_python_is_the_environments(lumi: User) -> None:
    script = f"module load {LUMI_MODULE}; singularity exec $SIF python -c 'import sys, torch; print(sys.prefix, {{}})'"
    assert lumi.out(script.format("torch.__version__")) == "/user-software/venv/pytorch 2.2.0+rocm5.6"
    assert lumi.out(script.format("sys.base_prefix")).endswith("/opt/miniconda3/envs/pytorch")


def test_inside_it_is_as_if_activated(lumi: User) -> None:
    """Sourcing WITH_CONDA_VENV changes nothing that a program sees: the module did it already."""
    names = "CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_PROMPT_MODIFIER VIRTUAL_ENV"
    show = f"for name in {names}; do echo $name=${{!name}}; done; command -v python"
    loaded = lumi.out(f"module load {LUMI_MODULE}; singularity exec $SIF bash -c '{show}'")
    again = lumi.out(f"module load {LUMI_MODULE}; singularity exec $SIF bash -c '$WITH_CONDA_VENV; {show}'")
    assert loaded == again
    assert "/user-software/venv/pytorch/bin/python" in loaded


@pytest.mark.parametrize("command", ["python", "singularity exec $SIF python"])
def test_a_home_of_the_host_s_python_does_not_stop_the_container_s(demo: User, command: str) -> None:
    assert demo.out(f"module load {DEMO_MODULE}; export PYTHONHOME=/usr/local; {command} -c 'print(1)'") == "1"


def test_unloading_leaves_the_environment_as_it_was(demo: User) -> None:
    own = """
        export SIF=mine SINGULARITY_BINDPATH=/opt APPTAINERENV_VIRTUAL_ENV=/mine CONTAINERROOT=/mine
        export SINGULARITY_BIND=/srv SINGULARITYENV_X=1 PATH=/mine/bin:$PATH EB_INSTALLPYTHON=/mine"""
    before = demo.environment(own)
    assert demo.environment(f"{own}; module load {DEMO_MODULE}; module unload {DEMO_MODULE}") == before
    assert demo.environment(f"{own}; module load {DEMO_MODULE}; module load {DEMO_MODULE}; module purge") == before
    loaded = demo.environment(f"{own}; module load {DEMO_MODULE}")
    assert loaded["SINGULARITY_BINDPATH"].endswith(",/opt")
    assert loaded["SINGULARITY_BIND"] == "/srv"


def test_eb_starts_with_a_container_loaded(demo: User) -> None:
    """The module's `python3`, which is first in PATH, has no EasyBuild."""
    eb = demo.out("command -v eb")
    assert demo.out(f"module load {DEMO_MODULE}; {eb} --version").startswith("This is EasyBuild")
    before = demo.environment("true")
    assert demo.environment(f"module load {DEMO_MODULE}; module unload {DEMO_MODULE}") == before


def test_loading_another_container_swaps(demo: User, lumi: User) -> None:
    """Both are in one family: the second takes the place of the first, and nothing of the first stays."""
    use = f"module use {lumi.prefix}/modules/all"
    before = demo.environment(use)
    alone = demo.environment(f"{use}; module load {LUMI_MODULE}")
    swapped = demo.environment(f"{use}; module load {DEMO_MODULE}; module load {LUMI_MODULE}")
    assert swapped == alone
    assert demo.environment(f"{use}; module load {DEMO_MODULE}; module load {LUMI_MODULE}; module purge") == before


def test_the_sites_image_is_used_when_the_own_one_is_gone(own_demo: User) -> None:
    script = f"module load {DEMO_MODULE}; rm $SIF; module load {DEMO_MODULE}; echo $SIF; python -c 'print(1)'"
    assert own_demo.out(script).splitlines() == [str(IMAGES / "demo.sif"), "1"]


def test_with_no_image_at_all_loading_fails_in_one_sentence_and_unloading_works(own_demo: User, tmp_path: Path) -> None:
    empty = tmp_path / "site.toml"
    empty.write_text("")
    own_demo.env["SIFMOD_SITE"] = str(empty)
    own_demo.eb(DEMO_EASYCONFIG, "--module-only", "--rebuild")
    before = own_demo.environment("true")
    after = own_demo.environment(f"module load {DEMO_MODULE}; rm $SIF; module unload {DEMO_MODULE}")
    assert after == before
    done = own_demo.run(f"module load {DEMO_MODULE}", check=False)
    assert done.returncode != 0
    assert "demo.sif' is gone, and the site has no copy of it" in done.stderr.replace("\n", " ").replace("  ", " ")
    wrapper = own_demo.run(f"{own_demo.installdir(DEMO_MODULE)}/bin/python -c 1", status=126)
    assert "is gone" in wrapper.stderr
