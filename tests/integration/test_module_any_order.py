"""Modules in any order: what a loaded one sets is its own; after the last unload all is as before the first load."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Optional

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import (
    DEMO_EASYCONFIG,
    DEMO_MODULE,
    IMAGES,
    LMODS,
    LUMI_EASYCONFIG,
    LUMI_MODULE,
    User,
    make_user,
    with_lmod,
)

MODULES = (DEMO_MODULE, LUMI_MODULE)

# What users have of their own before they load anything.
OWN = {
    "nothing": "true",
    "much": """
        export SIF=mine SINGULARITY_BIND=/srv SINGULARITY_BINDPATH=/opt,/etc:/host-etc SINGULARITYENV_X=1
        export APPTAINERENV_X=2 APPTAINERENV_VIRTUAL_ENV=/mine SINGULARITYENV_PYTHONNOUSERSITE='a b:$c'
        export PATH=/mine/bin:$PATH""",
    "the other spelling": """
        export APPTAINER_BINDPATH=/var/tmp SINGULARITY_NV=1 APPTAINERENV_CONDA_PREFIX=/mine SINGULARITYENV_X=1
        export CONTAINERROOT=/mine RUNSCRIPTS=/mine/runscripts SINGULARITYENV_PREPEND_PATH=/mine/bin""",
}
# What the modules tool keeps for itself, and what every shell changes.
NOT_COMPARED = ("_ModuleTable", "__LMOD_", "LMOD_", "_LMFILES_", "LOADEDMODULES", "BASH_FUNC_", "SHLVL", "_=", "OLDPWD")


def parsed(text: bytes) -> dict[str, str]:
    entries = [os.fsdecode(entry) for entry in text.split(b"\0")[:-1]]
    return dict(entry.split("=", 1) for entry in entries if not entry.startswith(NOT_COMPARED))


class Shell:
    """One bash that lives as long as a user's login does: scripts go in, environments come out."""

    def __init__(self, user: User, home: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environ.update(user.env, HOME=str(home), MODULEPATH=str(user.prefix / "modules" / "all"))
        self._environment, self._output = home / "environment", home / "output"
        self._bash = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, cwd=home, text=True
        )

    def run(self, script: str) -> dict[str, str]:
        """Run a script in this shell; it must succeed. Return the environment afterwards."""
        status, output = self.try_to_run(script)
        assert status == 0, f"{script}: {output}"
        assert "rror" not in output, f"{script}: {output}"
        return self.environment

    def try_to_run(self, script: str) -> tuple[int, str]:
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(
            f"{{\n{script}\n}} >{self._output} 2>&1 </dev/null; status=$?\n"
            f"{{ printf 'FUNCTION=%s\\0' \"$(type -t make-squashfs)\"; /usr/bin/env -0; }} >{self._environment}\n"
            "echo $status\n"
        )
        self._bash.stdin.flush()
        status = self._bash.stdout.readline()
        assert status, f"the shell is gone after {script}: {self._output.read_text()}"
        return int(status), self._output.read_text()

    @property
    def environment(self) -> dict[str, str]:
        return parsed(self._environment.read_bytes())

    def close(self) -> None:
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait(timeout=60)


@dataclass
class World:
    """Both containers installed in one software space, which the machine changes and puts back."""

    user: User
    home: Path
    central: dict[str, Path]
    restore_forgets: bool
    known: dict[tuple[str, str, tuple[bool, ...]], dict[str, str]] = field(default_factory=dict)

    def root(self, module: str) -> Path:
        return self.user.installdir(module)

    def image(self, module: str) -> Path:
        return self.root(module) / self.central[module].name

    def packed(self, module: str) -> Path:
        return self.root(module) / "user-software.squashfs"

    def directory(self, module: str) -> Path:
        return self.root(module) / "user-software"

    def is_damaged(self, module: str) -> bool:
        return self.packed(module).exists() and self.packed(module).stat().st_size < 4096

    def state(self, module: str) -> tuple[bool, ...]:
        files = (self.image(module), self.packed(module), self.directory(module), self.root(module) / MARK)
        return (*(path.exists() for path in files), self.is_damaged(module))

    def alone(self, module: str, own: str) -> dict[str, str]:
        """Return what a new shell with the user's own variables gets from this module alone, as things are now."""
        key = module, own, self.state(module)
        if key not in self.known:
            shell = Shell(self.user, self.home)
            self.known[key] = shell.run(f"{OWN[own]}\nmodule load {module} 2>/dev/null")
            shell.close()
        return self.known[key]

    def reset(self) -> None:
        for module in MODULES:
            if not self.image(module).exists():
                shutil.copyfile(self.central[module], self.image(module))
            self.packed(module).unlink(missing_ok=True)
            (self.root(module) / MARK).unlink(missing_ok=True)
            if not self.directory(module).exists():
                make_small_tree(self.directory(module))
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()


def restore_forgets(folder: Path) -> bool:
    """Return whether `module restore` leaves what other loaded modules set: Lmod 8.6.19 does, with any modules."""
    user = make_user(folder / "eb")
    for name in "AB":
        (user.prefix / "modules" / "all" / f"{name}.lua").write_text(f'setenv("{name}", "1")\n')
    script = f"export HOME={folder}; module load A; module save a; module purge; module load B; module restore a"
    return user.out(f'{{ {script}; }} &>/dev/null; echo "$B"') == "1"


MARK = "user-software.unpacked"


def make_small_tree(directory: Path) -> None:
    """Put little in the place of a virtual environment: here it is only packed, not used."""
    (directory / "venv").mkdir(parents=True)
    (directory / "venv" / "file").write_text("content")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, lumi_images: Path) -> World:
    user = make_user(tmp_path_factory.mktemp("any-order") / "eb")
    user.eb(DEMO_EASYCONFIG)
    User(user.prefix, {"SIFMOD_SITE": "lumi", "SIFMOD_IMAGE_REPOSITORIES": str(lumi_images)}).eb(LUMI_EASYCONFIG)
    central = {DEMO_MODULE: IMAGES / "demo.sif", LUMI_MODULE: next(lumi_images.glob("*.sif"))}
    world = World(user, tmp_path_factory.mktemp("home"), central, restore_forgets(tmp_path_factory.mktemp("plain")))
    for module in MODULES:
        shutil.rmtree(world.directory(module))
    world.reset()
    return world


class AnyOrder(RuleBasedStateMachine):
    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.world.reset()
        self.shell = Shell(self.world.user, self.world.home)
        self.loaded: Optional[str] = None
        self.saved: Optional[str] = None
        self.before = self.expected = self.shell.run("true")

    def teardown(self) -> None:
        after = self.shell.run("module purge")
        self.shell.close()
        assert after == self.before

    @initialize(own=st.sampled_from(sorted(OWN)))
    def log_in(self, own: str) -> None:
        self.own = own
        self.before = self.expected = self.shell.run(OWN[own])

    def is_loaded_now(self, module: Optional[str]) -> None:
        self.loaded = module
        self.expected = self.world.alone(module, self.own) if module else self.before

    @invariant()
    def every_variable_is_the_loaded_modules(self) -> None:
        found = self.shell.environment
        differing = {
            name: {"found": found.get(name), "expected": self.expected.get(name)}
            for name in found.keys() | self.expected.keys()
            if found.get(name) != self.expected.get(name)
        }
        assert differing == {}

    # what users do with modules

    @rule(module=st.sampled_from(MODULES))
    def load(self, module: str) -> None:
        self.shell.run(f"module load {module}")
        self.is_loaded_now(module)

    @precondition(lambda self: self.loaded)
    @rule()
    def unload(self) -> None:
        self.shell.run(f"module unload {self.loaded}")
        self.is_loaded_now(None)

    @precondition(lambda self: self.loaded)
    @rule()
    def swap(self) -> None:
        other = next(module for module in MODULES if module != self.loaded)
        self.shell.run(f"module swap {self.loaded} {other}")
        self.is_loaded_now(other)

    @precondition(lambda self: self.loaded)
    @rule(command=st.sampled_from(["module load {0}", "module update", "module swap {0} {0}"]))
    def reload(self, command: str) -> None:
        self.shell.run(command.format(self.loaded))
        self.is_loaded_now(self.loaded)

    @rule()
    def purge(self) -> None:
        self.shell.run("module purge")
        self.is_loaded_now(None)

    @precondition(lambda self: self.loaded)
    @rule()
    def save(self) -> None:
        self.shell.run("module save mine")
        self.saved = self.loaded

    @precondition(lambda self: self.saved)
    @rule()
    def restore(self) -> None:
        if self.world.restore_forgets and self.loaded not in (None, self.saved):
            self.shell.run("module purge")
        self.shell.run("module restore mine")
        self.is_loaded_now(self.saved)

    # what happens to an installation meanwhile: the loaded module stays as it was loaded

    @rule(module=st.sampled_from(MODULES))
    def remove_the_image(self, module: str) -> None:
        if module == self.loaded and self.world.image(module).exists():
            self.shell.run("rm $SIF" if self.expected["SIF"] == str(self.world.image(module)) else "true")
        self.world.image(module).unlink(missing_ok=True)

    @rule(module=st.sampled_from(MODULES))
    def pack(self, module: str) -> None:
        if self.world.packed(module).exists() or not self.world.directory(module).exists():
            return
        self._pack_or_unpack("make-squashfs", module)
        assert self.world.packed(module).exists()

    @rule(module=st.sampled_from(MODULES))
    def unpack(self, module: str) -> None:
        packed = self.world.packed(module)
        if not packed.exists() or self.world.is_damaged(module) or self.world.directory(module).exists():
            return
        self._pack_or_unpack("unmake-squashfs", module)
        assert (self.world.directory(module) / "venv" / "file").read_text() == "content"

    def _pack_or_unpack(self, command: str, module: str) -> None:
        if module == self.loaded:
            self.shell.run(command)
            self.is_loaded_now(module)
        else:
            self.shell.run(f"{self.world.root(module)}/bin/{command}")

    @rule(module=st.sampled_from(MODULES))
    def remove_the_directory(self, module: str) -> None:
        if self.world.packed(module).exists() and self.world.directory(module).exists():
            subprocess.run(["chmod", "-R", "u+w", str(self.world.directory(module))], check=True)
            shutil.rmtree(self.world.directory(module))

    @rule(module=st.sampled_from(MODULES))
    def remove_the_packed_file(self, module: str) -> None:
        if self.world.directory(module).exists():
            self.world.packed(module).unlink(missing_ok=True)

    @rule(module=st.sampled_from(MODULES))
    def damage_the_packed_file(self, module: str) -> None:
        if self.world.packed(module).exists():
            os.truncate(self.world.packed(module), 1000)


@pytest.mark.slow
def test_any_order_of_loading_packing_and_removing_leaves_the_shell_as_it_was(world: World) -> None:
    AnyOrder.world = world
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=int(os.environ.get("SIFMOD_ANY_ORDER_EXAMPLES", "40")),
            stateful_step_count=12,
            deadline=None,
            database=None,
            derandomize=bool(os.environ.get("CI")),
            phases=(Phase.generate, Phase.shrink) if not os.environ.get("CI") else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {module for module, _, _ in world.known} == set(MODULES)


SECOND = """
easyblock = 'ContainerImage'
name = '{name}'
version = '1.0'
homepage = 'https://www.python.org/'
description = 'A container beside another one.'
toolchain = SYSTEM
sources = ['{image}']
{python}
venv = '{venv}'
container_env = {{'WHICH': '{name}'}}
module_family = ''
moduleclass = 'lang'
"""


@pytest.fixture(scope="module")
def couples(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], User]:
    """Two containers without a family, by the language of their modules."""

    @cache
    def couple(syntax: str) -> User:
        folder = tmp_path_factory.mktemp("couple")
        user = make_user(folder / "eb")
        for name, image, python, venv in (
            ("One", "demo.sif", "python_prefix = '/usr'", "one"),
            ("Two", "conda-demo.sif", "conda_env = 'pytorch'", "two"),
        ):
            text = SECOND.format(name=name, image=image, python=python, venv=venv)
            (folder / f"{name}-1.0.eb").write_text(text)
        user.run(f"eb {folder}/One-1.0.eb {folder}/Two-1.0.eb --module-syntax={syntax}")
        return user

    return couple


@pytest.fixture(params=itertools.product(LMODS, ("Lua", "Tcl")), ids="-".join)
def couple(request: pytest.FixtureRequest, couples: Callable[[str], User]) -> User:
    version, syntax = request.param
    return with_lmod(couples(syntax), version)


def differing(found: dict[str, str], expected: dict[str, str]) -> dict[str, tuple[Optional[str], Optional[str]]]:
    names = found.keys() | expected.keys()
    return {name: (found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)}


@pytest.fixture
def pushenv_forgets(couple: User, tmp_path: Path) -> bool:
    """Return whether `pushenv` does not put an empty value back: Lmod 8.6.19 does not, with any modules."""
    for name in "AB":
        (tmp_path / f"{name}.lua").write_text('pushenv("EMPTY", "")\n')
    script = f"module use {tmp_path}; module load A B; module unload B"
    return "EMPTY" not in couple.environment(script)


@pytest.mark.slow
@pytest.mark.parametrize("own", OWN)
def test_two_loaded_without_a_family(couple: User, own: str, pushenv_forgets: bool, tmp_path: Path) -> None:
    def stays(found: dict[str, str], expected: dict[str, str]) -> bool:
        # the last one takes the functions of the shell along
        forgotten = {name for name, value in expected.items() if value == "" and pushenv_forgets} | {"FUNCTION"}
        return differing(found, expected).keys() <= forgotten

    with closing(Shell(couple, tmp_path)) as shell:
        run = shell.run
        before, alone = run(OWN[own]), {}
        for name in ("One", "Two"):
            alone[name] = run(f"module load {name}")
            assert differing(run(f"module unload {name}"), before) == {}
        for first, last in (("One", "Two"), ("Two", "One")):
            load = f"module load {first}; module load {last}"
            for gone, kept in ((last, first), (first, last)):
                both = run(load)
                assert both["CONTAINERROOT"] == str(couple.installdir(f"{last}/1.0"))
                assert both[f"SIF{first.upper()}"].startswith(str(couple.installdir(f"{first}/1.0")))
                assert both["SINGULARITY_BINDPATH"] == alone[last]["SINGULARITY_BINDPATH"]
                # whichever stays, its values are in force
                assert stays(run(f"module unload {gone}"), alone[kept])
                assert differing(run(f"module unload {kept}"), before) == {}
                assert differing(run(f"{load}; module unload {gone} {kept}"), before) == {}
            assert differing(run(f"{load}; module purge"), before) == {}


@pytest.mark.some(1)
def test_without_a_family_each_ones_wrappers_work_while_both_are_loaded(couple: User) -> None:
    show = "-c 'import os, sys; print(sys.prefix, os.environ.get(\"CONDA_PREFIX\"))'"
    one, two = (couple.installdir(f"{name}/1.0") / "bin" / "python" for name in ("One", "Two"))
    for load in ("module load One Two", "module load Two One"):
        assert couple.out(f"{load}; {one} {show}; {two} {show}").splitlines() == [
            "/user-software/venv/one None",
            "/user-software/venv/two /opt/miniconda3/envs/pytorch",
        ]
