"""CUDA's compat libraries of an image come first where the node allows it, in whichever way a container is started.

Here is no GPU: the files of /proc/driver and of the compat folder are STAND-INS, bound over those of node and image.
The containers, the module and Slurm are the real ones; enroot is a stand-in, as in `test_enroot_environment.py`.
"""

import itertools
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.standins import write_stand_ins
from tests.standins_gpu import A100, GEFORCE, write_compat, write_driver

from conftest import IMAGES, User
from sifmod.container.spec import spec_from_parameters
from sifmod.install.installer import write_artefact
from sifmod.render.module import render_module
from sifmod.render.templates import render
from sifmod.site.settings import Site

HOST = "/.singularity.d/libs"
CUDA = "/usr/local/cuda-13.1"
COMPAT = f"{CUDA}/compat"
TRITON = "TRITON_LIBCUDA_PATH"
PRINT = f"import os; print(os.environ.get('LD_LIBRARY_PATH', '')); print(os.environ.get('{TRITON}'))"
SITE = Site("test", runtimes=("apptainer", "enroot"))


@dataclass(frozen=True)
class Installed:
    """An installation for NVIDIA's GPUs, and a user whose node has the files in `node`."""

    user: User
    root: Path
    node: Path

    def run(self, line: str, **environ: str) -> str:
        """Return what a line of bash prints, with the module loaded."""
        binds = f"{self.node}/driver:/proc/driver,{self.node}/cuda:{CUDA}"
        if (self.node / "libcuda.so.1").exists():
            binds += f",{self.node}/libcuda.so.1:{HOST}/libcuda.so.1"
        words = {"SINGULARITY_BIND": binds, "APPTAINER_BIND": binds, **environ}
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in words.items())
        return self.user.out(
            f"{exports}module use {self.root.parent}/modules; module load Demo/1; {line}", cwd=self.node
        )


def write_installation(folder: Path, user: User, **parameters: str) -> Installed:
    top = folder / "installed"
    spec = spec_from_parameters(
        name="Demo",
        version="1",
        env_name="DEMO",
        installdir=str(top),
        sif="demo.sif",
        parameters={"python_prefix": "/usr", "gpu": "nvidia", **parameters},
    )
    spec = replace(spec, squashfs="demo.sqsh", python_version="3.11")
    for item in render(spec, SITE):
        write_artefact(top, item)
    (top / "demo.sif").symlink_to(IMAGES / "demo.sif")
    (top / "demo.sqsh").write_bytes(b"hsqs")  # as far as the stand-in looks
    module = folder / "modules/Demo/1.lua"
    module.parent.mkdir(parents=True)
    module.write_text(render_module(spec, SITE, "Lua"))
    (folder / "node").mkdir()
    return Installed(user, top, folder / "node")


def enroot(installed: Installed, **environ: str) -> str:
    """Return what a command of the installation prints with enroot, whose part is imitated: see the file's head."""
    folder = Path(tempfile.mkdtemp(dir=installed.node)) / "enroot"
    stand_ins = write_stand_ins(folder)
    words = f"PATH={folder}:$PATH SIFMOD_RUNTIMES=enroot {installed.root}/bin/python -c {shlex.quote(PRINT)}"
    installed.run(words, **environ)
    call = stand_ins.calls[-1]
    assert isinstance(call["env"], dict)
    assert isinstance(call["environ"], dict)
    assert isinstance(call["words"], list)
    assert "/.singularity.d/env/99-sifmod.sh" in str(call["mounts"])
    given = {name: call["environ"][name] if value is None else value for name, value in call["env"].items()}
    scripts = {}
    for name in ("with-environment", "at-start.sh"):
        text = (installed.root / "runscripts" / name).read_text()
        for path, place in (("/proc/driver", "driver"), (CUDA.removesuffix("-13.1"), "cuda")):
            text = text.replace(f"{path}*", f"{installed.node}/{place}*").replace(path, f"{installed.node}/{place}")
        scripts[name] = folder / name
        scripts[name].write_text(text.replace("/.singularity.d/env/99-sifmod.sh", str(folder / "at-start.sh")))
    printed = ["/usr/bin/python3", "-c", PRINT]
    command = ["/bin/sh", str(scripts["with-environment"]), "--in", "/", *printed]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    return done.stdout.strip().replace(f"{installed.node}/cuda", CUDA)


EXEC = f"singularity exec $SIF python3 -c {shlex.quote(PRINT)}"
WAYS: dict[str, Callable[..., str]] = {
    "exec": lambda one, **environ: one.run(EXEC, **environ),
    "wrapper": lambda one, **environ: one.run(f"{one.root}/bin/python -c {shlex.quote(PRINT)}", **environ),
    "runscript": lambda one, **environ: one.run(
        f"singularity exec $SIF conda-python-simple -c {shlex.quote(PRINT)}", **environ
    ),
    "job": lambda one, **environ: one.run(f"srun -n1 {EXEC}", **environ),
    "enroot": enroot,
}
SHARED = "export SIFMOD_SHARE_CONTAINER=1; srun -n1"
MORE_WAYS: dict[str, Callable[..., str]] = {
    **WAYS,
    "run": lambda one, **environ: one.run(f"singularity run $SIF {EXEC.partition('$SIF ')[2]}", **environ),
    "shell": lambda one, **environ: one.run(
        f"singularity shell $SIF <<< {shlex.quote(EXEC.partition('$SIF ')[2])}", **environ
    ),
    "shared": lambda one, **environ: one.run(f"{SHARED} {one.root}/bin/python -c {shlex.quote(PRINT)}", **environ),
}
DRIVERS = ("", "535.104.05", "550.54.15", "570.86.15", "580.82.07")
LIBRARIES = {"none": "", "older": "525.60.13", "newer": "590.44.01"}
CARDS = {"none": "", "A100": A100, "GeForce": GEFORCE}
DOCS = Path(__file__).parents[2] / "docs"


def put(installed: Installed, driver: str, compat: str, card: str) -> None:
    write_driver(installed.node / "driver", driver, *filter(None, [CARDS.get(card, card)]))
    (installed.node / "cuda").mkdir()
    write_compat(installed.node / "cuda/compat", LIBRARIES[compat])


def in_front(printed: str) -> str:
    """Return what comes before the host's libraries, which Apptainer brings."""
    path = printed.rstrip("\n").rpartition("\n")[0].split(":")  # an empty line may have been stripped
    return ":".join(path[: path.index(HOST)]) if HOST in path else ":".join(path)


@pytest.mark.parametrize("way", WAYS)
def test_in_each_way_newer_libraries_come_first(tmp_path: Path, user: User, way: str) -> None:
    installed = write_installation(tmp_path, user)
    put(installed, "535.104.05", "newer", "A100")
    assert in_front(WAYS[way](installed)) == COMPAT


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("driver", "compat", "card", "way"),
    [*itertools.product(DRIVERS, LIBRARIES, CARDS, WAYS)],
    ids=lambda value: value or "no driver",
)
def test_libraries_that_come_first(tmp_path: Path, user: User, driver: str, compat: str, card: str, way: str) -> None:
    installed = write_installation(tmp_path, user)
    put(installed, driver, compat, card)
    expected = COMPAT if driver and compat == "newer" and card == "A100" else ""
    assert in_front(WAYS[way](installed)) == expected


@pytest.mark.parametrize("way", MORE_WAYS)
def test_triton_finds_libcuda_unless_the_user_sets_its_folder(tmp_path: Path, user: User, way: str) -> None:
    installed = write_installation(tmp_path, user)
    put(installed, "535.104.05", "older", "A100")

    def printed(**environ: str) -> str:
        return MORE_WAYS[way](installed, **environ).splitlines()[-1]

    # the folder is of the runtime's option alone
    assert printed() == "None"
    (installed.node / "libcuda.so.1").touch()
    has_folder = way != "enroot"
    assert printed(**{f"NO_{TRITON}": "/other", "LINES": f"1\n{TRITON}=/other"}) == (HOST if has_folder else "None")
    assert printed(**{TRITON: "/own"}) == "/own"
    assert printed(**{f"SINGULARITYENV_{TRITON}": "/own", f"APPTAINERENV_{TRITON}": "/own"}) == "/own"
    (installed.node / "cuda/compat").rename(installed.node / "cuda/no-compat")
    write_compat(installed.node / "cuda/compat", LIBRARIES["newer"])
    assert printed() == (COMPAT if has_folder else "None")


@pytest.mark.parametrize("way", ["exec", pytest.param("wrapper", marks=pytest.mark.slow)])
def test_the_user_the_site_and_the_easyconfig_can_do_without(tmp_path: Path, user: User, way: str) -> None:
    installed = write_installation(tmp_path, user)
    put(installed, "535.104.05", "newer", "A100")
    never = {f"{runtime}ENV_SIFMOD_CUDA_COMPAT": "never" for runtime in ("SINGULARITY", "APPTAINER")}
    assert in_front(WAYS[way](installed, **never)) == ""
    (tmp_path / "never").mkdir()
    installed = write_installation(tmp_path / "never", user, cuda_compat="never")
    put(installed, "535.104.05", "newer", "A100")
    assert in_front(WAYS[way](installed)) == ""


def test_on_cards_whose_names_do_not_tell_the_user_decides(tmp_path: Path, user: User) -> None:
    installed = write_installation(tmp_path, user)
    put(installed, "535.104.05", "newer", "NVIDIA RTX A6000")
    assert in_front(installed.run(EXEC)) == ""
    # as the guide says
    guide = (DOCS / "howto/use-old-gpus.md").read_text().replace("/usr/local/cuda/", f"{CUDA}/")
    lines = re.findall(r"^    (export \w+ENV_PREPEND_LD_LIBRARY_PATH=.*)$", guide, re.MULTILINE)
    assert len(lines) == 2
    assert in_front(installed.run("; ".join([*lines, EXEC]))) == COMPAT
