"""Inside the container a loaded module has the effect of the activation scripts, variable for variable."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from conftest import DEMO_MODULE, LUMI_MODULE, User

# What differs after `module load` from sourcing the activation scripts by hand, and why that is right.
ALLOWED = {
    "PATH": "compared by itself below: /runscripts is ours, and the module does not put a directory there twice",
    "USER_PATH": "the runtime tells the host's PATH, which has the wrappers",
    "PS1": "a prompt belongs to an interactive shell; the module leaves it to whoever starts one",
    "_": "the last command of the shell that sourced the scripts",
    "WITH_VENV": "activates the virtual environment by hand; the same contract",
    "WITH_CONDA_VENV": "activates both by hand; the same contract",
    "PIP_CONSTRAINT": "keeps pip from replacing the image's own packages; a promise beyond activation",
    "UV_EXCLUDE": "keeps uv from replacing the image's own packages; a promise beyond activation",
    "UV_LINK_MODE": "what uv would find out with a warning: its cache is on another file system",
    "JUPYTER_PREFER_ENV_PATH": "what jupyter_core does for the environment's owner alone; a promise beyond activation",
    "PYTHONNOUSERSITE": "keeps ~/.local from shadowing the image; a promise beyond activation",
    "PYTHONHOME": "empty, so that the host's does not count; a promise beyond activation",
    "UCX_POSIX_USE_PROC_LINK": "what UCX, which users may install, needs in a user namespace",
    "NCCL_SOCKET_IFNAME": "a setting of the site",
    "APPTAINER_BIND": "the runtime tells what is bound",
    "SINGULARITY_BIND": "the runtime tells what is bound",
}
# What the host's shell has through the module, and the runtime passes on: names, or how they begin.
HOSTS: tuple[str, ...] = (
    "SIF",
    "CONTAINERROOT",
    "RUNSCRIPTS",
    "EB",
    "SINGULARITYENV_",
    "APPTAINERENV_",
    "SINGULARITY_ROCM",
)
HOSTS += ("APPTAINER_ROCM", "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH", "SIFMOD_USER_BINDPATH", "__SIFMOD_")
HOSTS += ("LMOD_", "__LMOD_", "_LMFILES_", "LOADEDMODULES", "_ModuleTable", "BASH_FUNC_")

SCRIPTS = {
    DEMO_MODULE: "source /user-software/venv/demo/bin/activate",
    LUMI_MODULE: "source /opt/miniconda3/bin/activate pytorch; source /user-software/venv/pytorch/bin/activate",
}


def parsed(text: str) -> dict[str, str]:
    # a bash drops OLDPWD when the folder is not mounted in the container: the test's own, not the module's
    return dict(entry.split("=", 1) for entry in text.split("\0")[:-1] if not entry.startswith("OLDPWD="))


@dataclass
class Both:
    """The environments in the container: by the module, and by hand without it."""

    loaded: dict[str, str]
    by_hand: dict[str, str]

    @property
    def differing(self) -> dict[str, tuple[str | None, str | None]]:
        names = sorted(self.loaded.keys() | self.by_hand.keys())
        pairs = {name: (self.loaded.get(name), self.by_hand.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and not name.startswith(HOSTS)}


def environments(user: User, module: str) -> Both:
    root = user.installdir(module)
    image = next(root.glob("*.sif"))
    loaded = user.run(f"module load {module}; singularity exec $SIF env -0").stdout
    binds = f"-B {root}/user-software:/user-software,{root}/runscripts:/runscripts"
    by_hand = user.run(f"singularity exec {binds} {image} bash -c '{SCRIPTS[module]}; exec env -0'").stdout
    return Both(parsed(loaded), parsed(by_hand))


@pytest.fixture(scope="module")
def images(demo: User, lumi: User) -> dict[str, Both]:
    return {module: environments(user, module) for module, user in ((DEMO_MODULE, demo), (LUMI_MODULE, lumi))}


@pytest.mark.parametrize("module", [DEMO_MODULE, LUMI_MODULE])
def test_every_variable_is_that_of_the_activation_scripts(images: dict[str, Both], module: str) -> None:
    both = images[module]
    assert {name: pair for name, pair in both.differing.items() if name not in ALLOWED} == {}
    # and this test compares what it means to
    compared = {"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"}
    if module == LUMI_MODULE:
        compared |= {"CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "_CE_CONDA"}
        compared |= {"_CE_M", "CONDA_PROMPT_MODIFIER"}
    assert compared <= both.by_hand.keys()
    assert compared <= both.loaded.keys()


@pytest.mark.parametrize("module", [DEMO_MODULE, LUMI_MODULE])
def test_the_search_path_is_that_of_the_activation_scripts(images: dict[str, Both], module: str) -> None:
    own, *path = images[module].loaded["PATH"].split(":")
    assert own == "/runscripts"
    assert path == images[module].by_hand["PATH"].split(":")


def test_every_allowed_difference_is_one(images: dict[str, Both]) -> None:
    """The list grows old: what no longer differs in any image is to be struck off."""
    seen = {name for both in images.values() for name in both.differing}
    assert set(ALLOWED) - seen == set()
