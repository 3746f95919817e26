"""Six containers and what is rendered for them, which several tests here start from."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from sifmod.container.bind import Bind, BindPattern
from sifmod.container.spec import Base, ContainerSpec, spec_from_parameters
from sifmod.install.installer import write_artefact
from sifmod.render.module import render_module
from sifmod.render.templates import render
from sifmod.site.feature import Feature
from sifmod.site.settings import Site, load_site

from ..support import a_site

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"

MODULE = "module.lua"

TCL_MODULE = "module.tcl"

NASTY_SITE = a_site(
    runtime="singularity ce",
    binds=(Bind("/site,data", "/data 1", "ro"),),
    optional_binds=(Bind("/it's/$HOME", "/it's/$HOME"),),
    image_repositories=('/central "images"', "/cent`ral`"),
    container_env={"QUOTES": 'it\'s "$HOME" `id` \\n', "SHARED": "site"},
    cache={
        "root": "/it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}",
        "HF_HOME": "hugging 'face'",
        "PIP_CACHE_DIR": "pip",
        "SHARED": "never: the easyconfig has a value",
        "TRITON_CACHE_DIR": "",
        "TORCH_HOME": "a/b",
        "TORCH_EXTENSIONS_DIR": "{module}/c",
    },
    master_suffix="-ib'0",
    default_features=("it-s", "gpus"),
    feature={
        "it-s": Feature(
            "it-s",
            help="it's [the] {host's} 100% \\n $MPI",
            binds=(BindPattern("/it's $HOME/[a-c]*/lib?.so", "/ho st/"), Bind("/a,b", "/it's", "ro")),
            optional_binds=(BindPattern("/dev/cxi[0-9]", options="ro"), Bind("/x y", "/x y")),
            env={"SHARED": "never", "QUOTES": None, "FEATURE": 'it\'s "$HOME" `id` \\n'},
            container_env={"INNER": "$(id) it's", "PYTHONNOUSERSITE": None},
            library_path=("/ho+st/lib", "/it%s"),
            runtime_options=("--no-umask", "--no-mount=a 'b'"),
            conflicts=("other",),
            hosts=("nid[0-9]*", "a-b.c?"),
            exists="/it's/$HOME [x]",
        ),
        "gpus": Feature("gpus", gpu="amd", exists="/gpus", library_path=("/gpus",)),
        "other": Feature("other"),
    },
)


def made(python_version: str, image_size: int = 0, image_id: str = "", **parameters: Any) -> ContainerSpec:
    fields = {key: parameters.pop(key) for key in ("name", "version", "env_name", "installdir", "sif")}
    squashfs = parameters.pop("squashfs", "")
    return replace(
        spec_from_parameters(**fields, parameters=parameters),
        python_version=python_version,
        image_size=image_size,
        image_id=image_id,
        squashfs=squashfs,
    )


CASES: dict[str, tuple[ContainerSpec, Site]] = {
    "conda-amd-lumi": (
        made(
            "3.10",
            name="PyTorch",
            version="2.2.0-rocm-5.6.1-python-3.10-singularity-20240315",
            env_name="PYTORCH",
            installdir="/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1",
            sif="lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif",
            gpu="amd",
            conda_env="pytorch",
            venv="pytorch",
            wrappers=["python", "pip", "torchrun"],
        ),
        load_site({"SIFMOD_SITE": "lumi"}),
    ),
    "usr-python-generic": (
        made(
            "3.11",
            name="Python",
            version="3.11-demo-singularity",
            env_name="PYTHON",
            installdir="/apps/Python/3.11-demo-singularity",
            sif="demo.sif",
            python_prefix="/usr",
            venv="demo",
        ),
        load_site({}),
    ),
    "no-python": (
        made(
            "",
            name="GROMACS",
            version="2024.1",
            env_name="GROMACS",
            installdir="/apps/GROMACS/2024.1",
            sif="gromacs.sif",
            wrappers=["gmx"],
            module_family="",
        ),
        load_site({}),
    ),
    "nvidia-run-nasty": (
        made(
            "3.12",
            image_size=12_345_678_901,
            image_id="0123456789abcdef0123456789abcdef",
            name="PyTorch-NGC",
            version="24.05 it's",
            env_name="PYTORCHMINNGC",
            installdir="/tmp/a b,c'd$e",
            sif='nasty $image "1".sif',
            gpu="nvidia",
            launch="run",
            python_prefix="/opt/venv",
            venv="a+b",
            wrappers=["python", "nvidia-smi"],
            binds=[r"/own\,data:/own:rw", "/plain"],
            container_env={"SHARED": "easyconfig's", "EMPTY": ""},
            features=["other", "-other"],
            pip_constraints=False,
        ),
        NASTY_SITE,
    ),
    "on-a-base": (
        replace(
            made(
                "3.11",
                name="Mine",
                version="1",
                env_name="MINE",
                installdir="/home/me/Mine/1",
                sif="demo.sif",
                image_mode="central",
                python_prefix="/usr",
                venv="demo",
            ),
            bases=(
                Base("Team/1", "/projects/it's, [x]", "demo", "3.11", "0123"),
                Base("Python/3.11", "/apps/Python/3.11", "demo", "3.11", "0123"),
            ),
        ),
        load_site({}),
    ),
    "enroot-nvidia": (
        made(
            "3.10",
            name="PyTorch",
            version="24.03-ngc",
            env_name="PYTORCH",
            installdir="/apps/PyTorch/24.03-ngc",
            sif="pytorch.sif",
            squashfs="pytorch.sqsh",
            gpu="nvidia",
            python_prefix="/usr",
            wrappers={"python": "python", "train": "/opt/bin/train --all='GPUs of a node'"},
            container_env={"OMP_NUM_THREADS": "4", "LD_PRELOAD": "/opt/lib/x.so"},
        ),
        a_site(
            runtimes=("enroot", "apptainer"),
            optional_binds=(Bind("/scratch", "/scratch"),),
            cache={"root": "/scratch/caches", "HF_HOME": "hf"},
        ),
    ),
}


# What lies in the repository, and is installed like that.
STATIC = {
    path.read_text(encoding="utf-8")
    for path in (*(ROOT / "wrappers").rglob("*"), *(ROOT / "src/sifmod/inside").glob("*.py"))
    if path.is_file() and path.suffix != ".j2"
}


def outputs(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return everything that is installed and loaded for a container: relative path -> text."""
    return {
        MODULE: render_module(spec, site),
        TCL_MODULE: render_module(spec, site, "Tcl"),
        **{str(item.path): item.text for item in render(spec, site)},
    }


def without_parts(text: str) -> str:
    """Return a module with the names of the parts in it instead of their texts, which are the same in every module."""
    for path in sorted((ROOT / "modulefiles").glob("*.[lt][uc][al]")):
        comment = "--" if path.suffix == ".lua" else "#"
        text = text.replace(path.read_text(encoding="utf-8"), f"{comment} {path.name}\n")
    return text


def text_of(path: str, spec: ContainerSpec, site: Optional[Site] = None) -> str:
    return outputs(spec, site or a_site())[path]


def write_out(spec: ContainerSpec, site: Site) -> Path:
    """Write a container out as it is installed, without image and user software; return its directory."""
    top = Path(spec.installdir)
    for item in render(spec, site):
        write_artefact(top, item)
    (top / MODULE).write_text(render_module(spec, site), encoding="utf-8")
    (top / TCL_MODULE).write_text(render_module(spec, site, "Tcl"), encoding="utf-8")
    return top


def digest() -> str:
    """Return a hash of everything that is rendered for all cases."""
    return hashlib.sha256(repr([outputs(*CASES[name]) for name in CASES]).encode()).hexdigest()
