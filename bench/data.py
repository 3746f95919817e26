"""What the benchmarks work on: made once, in a folder that can be removed afterwards."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import sysconfig
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from testbed.pip_folders import folders_of_pip

from bench.measure import bash

DEMO_MODULE = "Python/3.11-demo-singularity"
TORCH = "torch==2.13.0"

_EASYCONFIG = """\
easyblock = {easyblock!r}
name = {name!r}
version = '1'
homepage = 'https://example.org'
description = 'an image of a benchmark'
toolchain = SYSTEM
moduleclass = 'tools'
"""
# As in the documents that the project comes from: EasyBuild's own easyblock, which copies the image twice.
_MAKECP = """\
sources = [{'filename': 'big.sif', 'extract_cmd': '/bin/cp -L %s .'}]
skipsteps = ['build']
files_to_copy = [(['big.sif'], '.')]
sanity_check_paths = {'files': ['big.sif'], 'dirs': []}
"""


@dataclass(frozen=True)
class Data:
    """A folder, and what is made in it when it is asked for."""

    folder: Path

    @property
    def prefix(self) -> Path:
        """The software space that holds the demo container."""
        return self.folder / "eb"

    @property
    def testbed(self) -> Path:
        return Path(os.environ["SIFMOD_TESTBED"])

    @property
    def images(self) -> Path:
        return self.testbed / "images"

    @property
    def scratch(self) -> Path:
        """For what a run leaves."""
        path = self.folder / "scratch"
        path.mkdir(exist_ok=True)
        return path

    @property
    def load(self) -> str:
        """The bash command that loads the demo container."""
        return f"module use {self.prefix}/modules/all; module load {DEMO_MODULE}"

    @cached_property
    def root(self) -> Path:
        """The installation of the demo container, made anew in each run: an earlier one may be of older code."""
        path = self.prefix / "software" / DEMO_MODULE
        bash(f"chmod -R u+w {path}/user-software 2>/dev/null || true; rm -rf {path}/user-software*")
        bash(f"EASYBUILD_PREFIX={self.prefix} eb Python-3.11-demo-singularity.eb --rebuild")
        return path

    def torch(self) -> Path:
        """The demo container's user software, with PyTorch in it, as a directory."""
        user_software = self.root / "user-software"
        kept = self.folder / "torch"
        if not kept.exists():
            binds = " ".join(f"-B {shlex.quote(folder)}" for folder in folders_of_pip())
            bash(f"{self.load}; singularity exec {binds} $SIF pip install {TORCH} numpy")
            bash(f"cp -a {user_software} {kept}.part; mv {kept}.part {kept}")
        return kept

    def with_torch(self) -> Path:
        """The installation of the demo container, with that directory as its user software."""
        kept = self.torch()
        self.clear()
        bash(f"cp -a {kept} {self.root}/user-software")
        return self.root

    def empty(self) -> Path:
        """A copy of the demo container's user software before anything was installed into it."""
        kept = self.folder / "empty"
        self.clear()
        bash(f"EASYBUILD_PREFIX={self.prefix} eb Python-3.11-demo-singularity.eb --rebuild")
        bash(f"rm -rf {kept}; cp -a {self.root}/user-software {kept}")
        return kept

    def clear(self) -> None:
        """Remove the demo container's user software."""
        bash(f"chmod -R u+w {self.root}/user-software 2>/dev/null || true; rm -rf {self.root}/user-software*")

    def big_image(self, megabytes: int) -> Path:
        """A SIF of that size: the demo image with a data object of random bytes and text. There is one at a time."""
        folder = self.folder / "big"
        image, size = folder / "big.sif", megabytes << 20
        if not image.exists() or abs(image.stat().st_size - size) > 1 << 20:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            half = (size - (self.images / "demo.sif").stat().st_size) // 2
            bash(f"""cp {self.images}/demo.sif {image}; chmod u+w {image}
                (head -c {half} /dev/urandom; head -c {half} < <(yes compressible)) >{folder}/data
                singularity sif add --datatype 7 {image} {folder}/data; rm {folder}/data""")
        return image

    def easyconfig(self, name: str, more: str, easyblock: str = "ContainerImage") -> Path:
        path = self.scratch / f"{name}-1.eb"
        path.write_text(_EASYCONFIG.format(easyblock=easyblock, name=name) + more)
        return path

    def makecp_easyconfig(self) -> Path:
        return self.easyconfig("BigMakeCp", _MAKECP, easyblock="MakeCp")


def write_sources(folder: Path, count: int) -> None:
    """Write files of many sizes, 5 KB on average: each a piece of the sources of Python's own library."""
    library = Path(sysconfig.get_path("stdlib"))
    text = b"".join(path.read_bytes() for path in sorted(library.rglob("*.py")))
    chance = random.Random(1)  # noqa: S311 - sizes of files, not secrets
    for number in range(count):
        if number % 100 == 0:
            (folder / str(number // 100)).mkdir(parents=True)
        size = min(int(chance.lognormvariate(8, 1)), 64 << 10)
        at = chance.randrange(len(text) - size)
        (folder / str(number // 100) / f"{number}.py").write_bytes(text[at : at + size])


def write_wheels(folder: Path, count: int) -> list[str]:
    """Write wheels of 20 modules each; every one but the first needs the one before. Return their names."""
    folder.mkdir(exist_ok=True)
    names = [f"package-{number}" for number in range(count)]
    for number, name in enumerate(names):
        stem, info = name.replace("-", "_"), f"{name.replace('-', '_')}-1.0.dist-info"
        needs = f"Requires-Dist: {names[number - 1]}\n" if number else ""
        with zipfile.ZipFile(folder / f"{stem}-1.0-py3-none-any.whl", "w") as wheel:
            files = {f"{stem}/{module}.py": f"value = {module}\n" * 200 for module in range(20)}
            files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
            files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
            for path, text in {**files, f"{info}/RECORD": record}.items():
                wheel.writestr(path, text)
    return names


def write_big_wheel(folder: Path, megabytes: int) -> Path:
    """Write a wheel of that size, half of it random bytes and half text, and return it."""
    folder.mkdir(exist_ok=True)
    path = folder / "big_package-1.0-py3-none-any.whl"
    info, chance = "big_package-1.0.dist-info", random.Random(1)  # noqa: S311 - contents of files, not secrets
    files = {
        f"big_package/{number}.dat": chance.randbytes(1 << 19) + b"compress" * (1 << 16) for number in range(megabytes)
    }
    files["big_package/__init__.py"] = b""
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: big-package\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")).encode()
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path
