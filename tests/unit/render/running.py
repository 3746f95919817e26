"""Runs what is rendered: a module in a plain Lua or Tcl, commands and runscripts in bash."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from tests.lacking import lacking
from tests.programs import ran, write_program

from sifmod.container.spec import ContainerSpec, PythonLayout
from sifmod.render.module import render_module
from sifmod.site.settings import Site

from ..support import SQUASHFS, FakeRuntime, Need, a_site, a_spec, split_binds
from .cases import outputs, write_out

LMOD = Path(__file__).with_name("lmod_stub.lua")
MODULES = Path(__file__).with_name("modules_stub.tcl")

Done = subprocess.CompletedProcess[str]
# What commands for packed user software ask for before they look at anything.
TOOLS = ("mksquashfs", "unsquashfs")
NEED_TOOLS = {"make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers"}
# Runs get-master with these words and variables.
GetMaster = Callable[..., Done]


@dataclass(frozen=True)
class Load:
    """Loads a module with a little of a modules tool around it."""

    need: Need

    def run(
        self,
        spec: ContainerSpec,
        site: Optional[Site] = None,
        environ: Optional[Mapping[str, str]] = None,
        *,
        mode: str = "load",
        calling: str = "bash",
        syntax: str = "Lua",
    ) -> subprocess.CompletedProcess[bytes]:
        """Return what the module has printed, and how it ended."""
        top = Path(spec.installdir)
        module = top.parent / f"{top.name}.{syntax.lower()}"
        module.write_text(render_module(spec, site or a_site(), syntax), encoding="utf-8")
        return self.run_file(module, environ, mode=mode, calling=calling, syntax=syntax)

    def run_file(
        self,
        module: Path,
        environ: Optional[Mapping[str, str]] = None,
        *,
        mode: str = "load",
        calling: str = "bash",
        syntax: str = "Lua",
    ) -> subprocess.CompletedProcess[bytes]:
        """Return what a module file has printed, and how it ended."""
        run: list[Union[str, Path]]
        run = [self.need("lua5.3", "lua"), LMOD] if syntax == "Lua" else [self.need("tclsh"), MODULES]
        return subprocess.run(
            [*run, module, mode, calling], env={"LANG": "C.UTF-8", **(environ or {})}, capture_output=True, check=False
        )

    def __call__(
        self,
        spec: ContainerSpec,
        site: Optional[Site] = None,
        environ: Optional[Mapping[str, str]] = None,
        **more: str,
    ) -> dict[str, str]:
        """Return what the module has set."""
        return self.variables(self.run(spec, site, environ, **more))

    @staticmethod
    def variables(done: subprocess.CompletedProcess[bytes]) -> dict[str, str]:
        """Return what a module has set."""
        assert done.returncode == 0, done.stderr
        words = [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]
        return dict(zip(words[::2], words[1::2]))


@dataclass(frozen=True)
class Wrapper:
    """Calls a command of an installation; the environment holds nothing but PATH."""

    fake: FakeRuntime
    installed: ContainerSpec

    def run(
        self,
        name: str,
        *words: str,
        spec: Optional[ContainerSpec] = None,
        site: Optional[Site] = None,
        environ: Optional[Mapping[str, str]] = None,
    ) -> Done:
        """Write the installation out, and return what the command has printed, and how it ended."""
        for tool in TOOLS if name in NEED_TOOLS else ():
            if not shutil.which(tool):
                lacking(f"{tool} is not installed")
        top = write_out(spec or self.installed, site or a_site())
        return ran(
            [top / "bin" / name, *words],
            env={"PATH": f"{self.fake.bin}:/usr/bin:/bin", **(environ or {})},
            stdin=subprocess.DEVNULL,
        )

    def __call__(self, name: str, *words: str, **more: Any) -> dict[str, Any]:
        """Return how the command has called the runtime."""
        done = self.run(name, *words, **more)
        assert (done.returncode, done.stderr) == (0, "")
        call: dict[str, Any] = self.fake.calls[-1]
        return call


def put_runscript(path: Path, text: str) -> None:
    """Write a runscript, which finds the others beside it as in a container."""
    write_program(path, text if path.name == "values.sh" else text.replace("/runscripts/", f"{path.parent}/"))


@dataclass(frozen=True)
class Runscript:
    """Runs a runscript of a launch; its Python prints arguments and environment, with null characters between them."""

    name: str
    folder: Path
    prefix: Path
    site: Optional[Site] = None

    def run(self, *words: str, gpu: str = "", **environ: str) -> Done:
        """Return what the runscript has printed, and how it ended."""
        spec = a_spec(python=PythonLayout(str(self.prefix)), venv="", gpu=gpu)
        texts = outputs(spec, self.site or a_site())
        for name in (
            self.name,
            "values.sh",
            "on-node.sh",
            "slurm.sh",
            "get-master",
            *(["caches.sh"] if self.site else []),
        ):
            put_runscript(self.folder / name, texts[f"runscripts/{name}"])
        return ran(
            ["bash", self.folder / self.name, *words],
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(self.folder), **environ},
        )

    def __call__(self, *words: str, gpu: str = "", **environ: str) -> list[str]:
        """Return what its Python got."""
        done = self.run(*words, gpu=gpu, **environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\0")


# root of a user namespace with subordinate users of this user
AS_ANOTHER = ["unshare", "--user", "--map-root-user", "--map-auto", "--"]

STEP = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_GTIDS": "4,5,6,7",
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "3",
    "MASTER_ADDR": "nid001",
}

VISIBLE = {"amd": "ROCR_VISIBLE_DEVICES", "nvidia": "CUDA_VISIBLE_DEVICES"}


def variables_of(words: list[str]) -> dict[str, str]:
    """Return the variables among what a `Runscript` got."""
    return dict(word.split("=", 1) for word in words if "=" in word)


def binds_of(variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return destination -> (source, options) of a list of binds."""
    return {
        destination: (source, options) for source, destination, options in split_binds(variables["APPTAINER_BINDPATH"])
    }


def put_into_state(top: Path, state: str) -> None:
    """Arrange user software: a directory is there, and what else the state says."""
    packed = top / "user-software.squashfs"
    contents = {"empty": b"", "text": b"hello\n" * 100, "short": SQUASHFS[:-1]}
    if state.startswith("layered"):
        (top / "user-software.layers").mkdir()
        for number in (1, 2, 3):
            is_damaged = (state, number) == ("layered, one damaged", 2)
            (top / f"user-software.layers/{number}.squashfs").write_bytes(SQUASHFS[: 90 if is_damaged else None])
        state = "packed" if state == "layered, packed" else "directory"
    if state not in ("directory", "central"):
        packed.write_bytes(contents.get(state, SQUASHFS))
    if state == "packed":
        (top / "user-software").rmdir()
    if state == "unpacked":
        (top / "user-software.unpacked").write_text("")
