"""An ordinary user on the testbed, with a software space of their own for each test or session."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Optional

import pytest
from testbed.pip_folders import folders_of_pip
from tests.lacking import lacking
from tests.programs import ran, write_file

if TYPE_CHECKING:
    from faults import Tree  # which imports this file

ROOT = Path(__file__).resolve().parents[2]
TESTBED = Path(os.environ.get("SIFMOD_TESTBED", "/opt/sifmod-testbed"))
IMAGES = TESTBED / "images"
# a file system of the user's that no bind path contains: testbed/setup makes it
SCRATCH = Path("/scratch-of-tests")
REGISTRY = "127.0.0.1:5000"
# Lmod's initialisation for bash, by version: that of Debian 12, which every shell has already, and a newer one.
LMODS = {"8.6": None, "8.7": TESTBED / "lmod-8.7/usr/share/lmod/lmod/init/bash"}

DEMO_EASYCONFIG = "Python-3.11-demo-singularity.eb"
DEMO_MODULE = "Python/3.11-demo-singularity"

# The beginning of an easyconfig of the module Demo/1.0.
HEAD = """easyblock = 'ContainerImage'
name = 'Demo'
version = '1.0'
homepage = 'https://example.org/'
description = 'A container.'
toolchain = SYSTEM
moduleclass = 'tools'
"""

GREETING = ("greeting", "1.0", "def greet():\n    return 'hello'\n")

# For images that tests build: much quicker than the runtime's gzip. `singularity build` reads it, `pull` does not.
QUICK_BUILDS = {"APPTAINER_MKSQUASHFS_ARGS": "-comp zstd -Xcompression-level 1"}

LUMI_SIF = "lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0-dockerhash-7392c9d4dcf7.sif"
LUMI_EASYCONFIG = "PyTorch-2.2.0-rocm-5.6.1-python-3.10-singularity-20240315.eb"
LUMI_MODULE = "PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315"

# What Lmod keeps for itself, and what every shell changes.
_NOT_COMPARED = ("_ModuleTable", "__LMOD_", "LMOD_", "_LMFILES_", "LOADEDMODULES", "BASH_FUNC_", "SHLVL", "_=")


def registry_password() -> str:
    """Return the password that the testbed's registry wants; "" where there is none."""
    path = TESTBED / "registry" / "password"
    return path.read_text().strip() if path.exists() else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("integration")


@dataclass
class User:
    """A user with a software space (EasyBuild prefix), who types commands into bash."""

    prefix: Path
    env: dict[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        """Return the environment of a new login."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environ["EASYBUILD_OUTPUT_STYLE"] = "basic"  # with Rich, EasyBuild wraps its lines at 80 columns in a pipe too
        environ.update(EASYBUILD_PREFIX=str(self.prefix), MODULEPATH=str(self.prefix / "modules" / "all"))
        environ["XDG_STATE_HOME"] = str(self.prefix / "state")
        environ.update({"SIFMOD_SITE": str(TESTBED / "plain-site.toml"), **self.env})
        return environ

    def run(
        self,
        script: str,
        *,
        check: bool = True,
        status: int = 0,
        stdin: str = "",
        cwd: Optional[Path] = None,
        timeout: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        """Run a bash script as if typed in a new login, with the software space's modules in MODULEPATH.

        With `check` it must end with the status.
        """
        done = ran(["bash", "-c", script], env=self.environ(), input=stdin, cwd=cwd or self.prefix, timeout=timeout)
        # other workers' steps may have the nodes
        waited = r"(?m)^srun: job \d+ (queued and waiting for|has been allocated) resources\n"
        done.stderr = re.sub(waited, "", done.stderr)
        if check:
            assert done.returncode == status, f"{script}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        return done

    def out(self, script: str, *, check: bool = True, cwd: Optional[Path] = None) -> str:
        """Return what the script prints on standard output, without the last newline."""
        return self.run(script, check=check, cwd=cwd).stdout.rstrip("\n")

    def environment(self, script: str) -> dict[str, str]:
        """Return the environment after the script, without what Lmod and the shell keep for themselves."""
        done = self.run(f"{script}\n/usr/bin/env -0")
        entries = done.stdout.split("\0")[:-1]
        return dict(entry.split("=", 1) for entry in entries if not entry.startswith(_NOT_COMPARED))

    def eb(self, easyconfig: str, *flags: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        words = " ".join(f"'{word}'" for word in (easyconfig, *flags))
        done = self.run(f"eb {words}", check=False)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def has_job(self, number: str) -> bool:
        """Whether Slurm has a job in its queue, or runs it; also if it does not answer."""
        done = self.run(f"squeue --noheader --jobs={number} --format=%T", check=False)
        return bool(done.stdout.strip()) if done.returncode == 0 else "Invalid job id" not in done.stderr

    def pip_install(self, module: str, *packages: str) -> None:
        """Install packages of the index into the user software of a module."""
        binds = "".join(f"-B {shlex.quote(folder)} " for folder in folders_of_pip())
        words = " ".join(shlex.quote(package) for package in packages)
        self.run(f"module load {module}; singularity exec {binds}$SIF pip install {words}", timeout=700)

    def installdir(self, module: str) -> Path:
        return self.prefix / "software" / module

    def modulefile(self, module: str) -> Path:
        return self.prefix / "modules" / "all" / f"{module}.lua"


def with_lmod(user: User, version: str) -> User:
    """Return the same user on a cluster that has this Lmod, a key of `LMODS`."""
    init = LMODS[version]
    if init and not init.is_file():
        lacking(f"missing: Lmod {version}; run testbed/setup")
    found = User(user.prefix, {**user.env, **({"BASH_ENV": str(init)} if init else {})})
    assert found.out("echo $LMOD_VERSION").startswith(f"{version}.")
    return found


def make_user(prefix: Path, **env: str) -> User:
    (prefix / "modules" / "all").mkdir(parents=True)
    return User(prefix, dict(env))


@pytest.fixture
def user(tmp_path: Path) -> User:
    return make_user(tmp_path / "eb")


@contextmanager
def once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Give a folder that all workers of a run share, and whether it is still to be filled: one at a time."""
    top = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent
    folder, made = top / f"shared-{name}", top / f"shared-{name}.made"
    with (top / f"shared-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            remove(folder)
            folder.mkdir()
        yield folder, not made.exists()
        made.touch()


def installed_once(tmp_path_factory: pytest.TempPathFactory, name: str, easyconfig: str, **env: str) -> User:
    """Install an easyconfig once a run, whichever worker comes first; no test may change it."""
    with once(tmp_path_factory, name) as (folder, is_new):
        user = make_user(folder / "eb", **env) if is_new else User(folder / "eb", dict(env))
        if is_new:
            user.eb(easyconfig)
    return user


@pytest.fixture(scope="session")
def runtime_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The container runtime's cache, one for all tests: only the first pull of an image takes its time."""
    with once(tmp_path_factory, "runtime-cache") as (folder, _):
        return folder


@pytest.fixture
def registry_user(user: User, runtime_cache: Path) -> User:
    """A user who may pull from the testbed's registry."""
    user.env.update(
        SIFMOD_INSECURE_REGISTRIES=REGISTRY,
        SIFMOD_CREDENTIAL_REGISTRIES=REGISTRY,
        SINGULARITY_DOCKER_USERNAME="$oauthtoken",
        SINGULARITY_DOCKER_PASSWORD=registry_password(),
        SINGULARITY_CACHEDIR=str(runtime_cache),
        APPTAINER_CACHEDIR=str(runtime_cache),
    )
    return user


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo image installed; tests that use it leave it as it is."""
    return installed_once(tmp_path_factory, "demo", DEMO_EASYCONFIG)


@dataclass(frozen=True)
class Kept:
    """Copies of a software space, which is brought back to one of them for each test: quicker than installing anew."""

    prefix: Path
    copies: Path

    def restore(self, name: str) -> User:
        """Bring back a copy."""
        remove(self.prefix)
        subprocess.run(["cp", "-a", self.copies / name, self.prefix], check=True)
        return User(self.prefix)

    def make(self, name: str, below: str, script: str) -> None:
        """Make a copy of another one, with what a script does to it, unless it is there."""
        if not (self.copies / name).exists():
            self.restore(below).run(script)
            self.keep(name)

    def keep(self, name: str) -> None:
        """Make a copy of what is there."""
        self.copies.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", self.prefix, self.copies / name], check=True)


def remove(path: Path) -> None:
    """Remove a tree even if its folders are read-only."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except PermissionError:
            subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=True)
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def kept_demo(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("own-demo")
    kept = Kept(folder / "eb", folder / "copies")
    make_user(kept.prefix).eb(DEMO_EASYCONFIG)
    kept.keep("plain")
    return kept


@pytest.fixture
def own_demo(kept_demo: Kept) -> User:
    """The demo image installed for one test, which may do with it what it likes."""
    return kept_demo.restore("plain")


@pytest.fixture
def with_greeting(kept_demo: Kept, wheel: Path) -> Kept:
    """The same copies, one of which has the package `greeting` 1.0 in its user software."""
    install = (
        f"module load {DEMO_MODULE}; singularity exec $SIF pip install --no-index --find-links {wheel.parent} greeting"
    )
    kept_demo.make("extended", "plain", install)
    return kept_demo


@pytest.fixture
def extended(with_greeting: Kept) -> User:
    """The demo image with the package `greeting` 1.0 in its user software."""
    return with_greeting.restore("extended")


@pytest.fixture
def packed_demo(with_greeting: Kept) -> User:
    """The same, packed, without the directory."""
    with_greeting.make("packed", "extended", f"module load {DEMO_MODULE}; make-squashfs --remove-directory")
    return with_greeting.restore("packed")


@pytest.fixture(scope="session")
def lumi_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of images in which the conda image stands in under the name of LUMI's."""
    with once(tmp_path_factory, "lumi-images") as (images, is_new):
        if is_new:
            shutil.copyfile(IMAGES / "conda-demo.sif", images / LUMI_SIF)
    return images


@pytest.fixture(scope="session")
def lumi(tmp_path_factory: pytest.TempPathFactory, lumi_images: Path) -> User:
    """LUMI's PyTorch installed with LUMI's settings; tests that use it leave it as it is."""
    settings = {"SIFMOD_SITE": "lumi", "SIFMOD_IMAGE_REPOSITORIES": str(lumi_images)}
    return installed_once(tmp_path_factory, "lumi", LUMI_EASYCONFIG, **settings)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel of the package `greeting` 1.0, whose `greet()` returns 'hello'."""
    return make_wheel(tmp_path, *GREETING)


def demo_with(changes: str = "") -> str:
    """The demo easyconfig with more lines at its end; the last assignment of a parameter counts."""
    return (ROOT / "easyconfigs" / "p" / "Python" / DEMO_EASYCONFIG).read_text() + "\n" + changes


def install_changed(user: User, changes: str, *flags: str) -> subprocess.CompletedProcess[str]:
    easyconfig = write_file(user.prefix / DEMO_EASYCONFIG, demo_with(changes))
    return user.eb(str(easyconfig), *flags, check=False)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return what an `eb` that has failed says at its end."""
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout[done.stdout.index("FAILED: ") :]


def greet(user: User) -> str:
    """Return what the package `greeting` says in the container."""
    return user.out(
        f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import greeting; print(greeting.greet())'"
    )


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    code: str,
    requires: tuple[str, ...] = (),
    command: str = "",
    scripts: Mapping[str, str] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Make a wheel of a package with one module and `more` files; `command` runs its function `greet`."""
    import base64
    import hashlib
    import zipfile

    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        f"{module}.py": code,
        **more,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        **({f"{info}/entry_points.txt": f"[console_scripts]\n{command} = {module}:greet\n"} if command else {}),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{f"{module}-{version}.data/scripts/{script}": text for script, text in scripts.items()},
    }

    def line(path: str, text: str) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(text)}\n"

    record = "".join(line(*item) for item in files.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": record}.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if "/scripts/" in member else 0o100644) << 16
            archive.writestr(entry, text)
    return path


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder of the user's on a file system that the container does not have."""
    if not os.access(SCRATCH, os.W_OK):
        lacking(f"missing: {SCRATCH}; run testbed/setup")
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def job_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "job"
    directory.mkdir()
    return directory


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """An installation with a tiny user software, for faults on purpose."""
    from faults import make_tree

    yield from make_tree(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A search path of tools that fail when they are told to."""
    from faults import make_tools

    return make_tools(tmp_path)
