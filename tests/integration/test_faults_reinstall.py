"""Kill a reinstall at every point: user software is never lost, and the installation works."""

import hashlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from faults import RUNTIME, Tree, calls

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, remove
from sifmod.container.naming import Naming
from sifmod.container.spec import spec_from_parameters
from sifmod.host.files import sha256_of
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import contents_of
from sifmod.install import installer
from sifmod.install.manifest import read_manifest
from sifmod.install.modulefiles import ModuleFiles, record_module_files
from sifmod.install.rollback import forget, settle
from sifmod.names import MANIFEST
from sifmod.render.templates import render
from sifmod.resources import program
from sifmod.site.settings import load_site

pytestmark = pytest.mark.slow


# Answers like the real one, at once: the probe's answer is recorded, and a virtual environment is a folder.
QUICK_INSTALL_RUNTIME = r"""#!/bin/bash
case "$*" in
--version) echo 'apptainer version 1.4.5' ;;
*" -I -") cat "${0%/*}/probe" ;;
*)
    cat >/dev/null
    venv=${SINGULARITY_BINDPATH%%:/user-software*}/venv/demo
    mkdir -p "$venv/lib/python3.11/site-packages" "$venv/bin"
    ln -s /usr/bin/python3 "$venv/bin/python"
    printf 'home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11.2\n' >"$venv/pyvenv.cfg"
    ;;
esac
"""

CHANGING_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}


@dataclass
class Reinstall:
    """A reinstall with another site and module, in a child process that may be killed at any of its changes.

    Attributes:
        at: the number of the change before which the last run was stopped last.
    """

    tree: Tree
    folder: Path
    at: int = 0

    def __post_init__(self) -> None:
        installdir = self.tree.root
        self.module = self.tree.user.modulefile(DEMO_MODULE)
        self.link = self.tree.user.prefix / "modules" / "lang" / f"{DEMO_MODULE}.lua"
        self.old_module = self.module.read_text()
        self.new_module = f"{self.old_module}-- new\n"
        self.site = load_site()
        parameters: dict[str, object] = {"python_prefix": "/usr", "venv": "demo", "image_mode": "link", "gpu": ""}
        parameters.update(container_env={"CHANGED": "yes"}, wrappers=["python", "pip", "changed"])
        spec = spec_from_parameters(
            name="Python",
            version="3.11-demo-singularity",
            env_name="PYTHON",
            installdir=str(installdir),
            sif="demo.sif",
            parameters=parameters,
        )
        files = (str(self.module), str(self.link))
        self.spec = replace(spec, naming=Naming(DEMO_MODULE, DEMO_MODULE, DEMO_MODULE, files))
        render(self.spec, self.site)  # so that the child processes find the templates compiled
        self.image = self.folder / "demo.sif"
        os.link(installdir / "demo.sif", self.image)
        real = ContainerRuntime(Path(str(shutil.which(RUNTIME))))
        (self.folder / "probe").write_text(
            real.run(self.image, ["/usr/bin/python3", "-I", "-"], stdin=program("probe"))
        )
        (self.folder / RUNTIME).write_text(QUICK_INSTALL_RUNTIME)
        (self.folder / RUNTIME).chmod(0o755)
        # reading the image changes nothing, and takes most of the time
        contents, digest = contents_of(self.image), sha256_of(self.image)
        self.of_image = {"contents_of": lambda _image: contents, "sha256_of": lambda _image, **_: digest}

    def run(self, at: int = 0, goes_on: Callable[[], bool] = bool, *, checked: bool = True) -> bool:
        """Reinstall; whether it came to its end and was not killed.

        It stops before change number `at` and before each later one, and is killed there unless `goes_on` says so.
        """
        child = os.fork()
        if not child:
            status = 1
            try:
                os.environ["PATH"] = f"{self.folder}:{os.environ['PATH']}"
                os.setsid()
                with (self.folder / "err").open("w") as stream:
                    os.dup2(stream.fileno(), 2)
                self._watch(at)
                self._install(checked=checked)
                status = 0
            finally:
                os._exit(status)
        self.at = at - 1
        while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
            self.at += 1
            how = signal.SIGKILL
            try:
                if goes_on():
                    how = signal.SIGCONT
            finally:
                os.kill(child, how)
        exit_status = os.waitstatus_to_exitcode(status)
        assert exit_status in (0, -signal.SIGKILL), (self.folder / "err").read_text()
        return exit_status == 0

    def _watch(self, at: int) -> None:
        number = 0
        tops = (os.fsencode(self.tree.root), os.fsencode(self.tree.user.prefix / "modules"))

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal number
            changes = event in CHANGING_EVENTS
            if event == "open" and isinstance(arguments[2], int):
                changes = bool(arguments[2] & (os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_RDWR))
            paths = [os.fsencode(one) for one in arguments[:2] if isinstance(one, (str, bytes))]
            if changes and any(top in path for top in tops for path in paths):
                number += 1
                if number >= at > 0:
                    os.kill(os.getpid(), signal.SIGSTOP)

        sys.addaudithook(hook)

    def _install(self, *, checked: bool) -> None:
        """Do what the easyblock does, from its `post_init` to its `permissions_step`."""
        try:
            vars(installer).update(self.of_image)
            settle(self.tree.root)
            installer.Installer(
                spec=self.spec,
                site=self.site,
                image=self.image,
                expected_sha256="",
                tools={},
                say=lambda _line: None,
                warn=lambda _line: None,
            ).install()
            if checked:
                files = ModuleFiles()
                files.write(self.module, self.new_module)
                files.link(self.link, self.module)
                files.keep()
                forget(self.tree.root)
                record_module_files(self.tree.root)
        except BaseException as error:
            os.write(2, repr(error).encode())
            raise

    def has_module(self) -> bool:
        """Whether the module file is the old one or the new one, whole, and the link by its class leads to it.

        The manifest has its hash or none.
        """
        text, manifest = self.module.read_text(), read_manifest(self.tree.root)
        known = ("", hashlib.sha256(text.encode()).hexdigest())
        return (
            text in (self.old_module, self.new_module)
            and self.link.resolve() == self.module
            and manifest is not None
            and manifest.module_files[str(self.module)] in known
        )

    def put_module_back(self) -> None:
        for path in (*self.module.parent.glob(".*.sifmod-*"), *self.link.parent.glob(".*.sifmod-*"), self.link):
            path.unlink()
        self.module.write_text(self.old_module)
        # so that it is replaced too: EasyBuild's own is absolute
        self.link.symlink_to(os.path.relpath(self.module, self.link.parent))


@pytest.fixture(name="reinstall")
def fixture_reinstall(tree: Tree, tmp_path: Path) -> Iterator[Reinstall]:
    """A reinstall; afterwards the module file is the old one again, as the manifest of the shared tree says."""
    tree.reset()
    reinstall = Reinstall(tree, tmp_path)
    yield reinstall
    reinstall.put_module_back()


def times_too(top: Path) -> dict[str, tuple[int, int, int, int]]:
    """Inode, mode, owner and time of everything below top: none of it was replaced, changed or given away."""
    found = {}
    for path in [top, *top.rglob("*")]:
        status = path.lstat()
        found[str(path.relative_to(top))] = (status.st_ino, status.st_mode, status.st_uid, status.st_mtime_ns)
    return found


def installed(root: Path) -> str:
    """A digest of everything in an installation but user software, what comes and goes, and the module file's hash."""
    digest = hashlib.sha256()
    for folder in ("bin", "runscripts", "share"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                if path == root / MANIFEST:
                    content = re.sub(rb'(\.lua": )"[0-9a-f]*"', rb'\1""', content)
                digest.update(f"{path}\0{path.stat().st_mode}\0".encode() + content)
    return digest.hexdigest()


@dataclass
class Installation:
    """An installation that can be put back to what it was, with a directory and an older packed file."""

    tree: Tree
    pristine: Path
    another_python: bool

    def __post_init__(self) -> None:
        shutil.copytree(self.tree.root, self.pristine, symlinks=True, ignore=lambda *_: {"user-software", "demo.sif"})
        self.tree.reset(directory="two", packed="one", mark="x")
        if self.another_python:
            manifest = self.pristine / "share" / "sifmod.json"
            manifest.write_text(manifest.read_text().replace('"python_version": "3.11"', '"python_version": "3.10"'))
            config = self.tree.root / "user-software" / "venv" / "demo" / "pyvenv.cfg"
            config.write_text(config.read_text().replace("3.11", "3.10"))
        self.before = self._user_software()

    def _user_software(self) -> list[dict[str, tuple[int, int, int, int]]]:
        root = self.tree.root
        return [times_too(root / name) for name in ("user-software", "user-software.squashfs")]

    def is_kept(self) -> bool:
        """Whether directory and packed file are there once, as they were, under their names or set aside."""
        candidates = [path for path in self.tree.root.glob("user-software*") if path.suffix in ("", ".squashfs", ".10")]
        found = [times_too(path) for path in candidates]
        return all(found.count(one) == 1 for one in self.before)

    def is_in_place(self) -> bool:
        marked = (self.tree.root / "user-software.unpacked").exists()
        return marked and self._user_software() == self.before

    def put_back(self) -> None:
        """Everything as it was at first; user software is renamed back."""
        root = self.tree.root
        for path in root.glob("user-software*"):
            name = path.name
            if path.is_dir() and times_too(path) == self.before[0]:
                path.rename(root / "keep-directory")
            elif path.suffix == ".squashfs" and times_too(path) == self.before[1]:
                path.rename(root / "keep-packed")
            else:
                remove(root / name)
        for path in root.iterdir():
            if path.name not in ("demo.sif", "keep-directory", "keep-packed"):
                remove(path)
        shutil.copytree(self.pristine, root, symlinks=True, dirs_exist_ok=True)
        (root / "keep-directory").rename(root / "user-software")
        (root / "keep-packed").rename(root / "user-software.squashfs")
        (root / "user-software.unpacked").write_text("x")
        (root / "user-software.txt").write_text("greeting==1.0+one\n")


def way_back(root: Path) -> str:
    path = root / ".sifmod-previous" / "journal.json"
    return re.sub(r'"run": "[^"]*"', "", path.read_text()) if path.exists() else ""


@pytest.mark.parametrize("another_python", [False, True], ids=["the same python", "another python"])
def test_a_reinstall_killed_anywhere(tree: Tree, reinstall: Reinstall, tmp_path: Path, another_python: bool) -> None:
    """User software is what it was to the last bit, the install in between works, and so does its module.

    The next `eb` settles what was left, then does it again or fails: in any case the old or the new one is whole.
    """
    installation = Installation(tree, tmp_path / "pristine", another_python)
    installation.put_back()
    old = installed(tree.root)
    checked: set[object] = set()

    def state() -> tuple[object, ...]:
        names = sorted(path.name for path in tree.root.iterdir())
        whole = installation.is_kept(), reinstall.has_module()
        return (whole, installed(tree.root), way_back(tree.root), reinstall.module.read_text(), *names)

    points = 0
    while True:
        installation.put_back()
        reinstall.put_module_back()
        assert installation.is_in_place()
        # what is left where it is killed is what is there while it is stopped
        if reinstall.run(points + 1, lambda: state() in checked):
            break
        points = reinstall.at
        where = f"killed before change {points}"
        assert installation.is_kept(), where
        assert reinstall.has_module(), where
        checked.add(state())
        if not another_python:
            assert installation.is_in_place(), where
            assert tree.greet() == "two", where
            command = f"{tree.root}/bin/python -B -c 'import greeting; print(greeting.greet())'"
            assert tree.user.out(command) == "two", where

        assert reinstall.run(), where
        new = installed(tree.root)
        assert installation.is_kept(), where
        assert (tree.root / "user-software").exists()
        # the second: made by the killed run, which is known to nobody who comes weeks later
        aside = ("user-software-python3.10", "user-software-undone1")
        assert {name for name in tree.litter() if not name.startswith(aside)} == set(), where
        assert reinstall.module.read_text() == reinstall.new_module, where
        assert not list(tree.user.prefix.glob("modules/*/*/.*.sifmod-*")), where

        installation.put_back()
        reinstall.put_module_back()
        assert not reinstall.run(points), where
        settle(tree.root)
        assert installed(tree.root) in (old, new), where
        assert installation.is_kept(), where
        if installed(tree.root) == old:
            assert installation.is_in_place(), where
    print(f"reinstall: {reinstall.at} points, {len(checked)} states")
    assert reinstall.at > 50
    assert installation.is_kept()
    installation.put_back()
    tree.reset()


def test_software_installed_after_a_killed_reinstall_stays(tree: Tree, reinstall: Reinstall, tmp_path: Path) -> None:
    """The run was killed between putting things in place and its checks; weeks later another one begins."""
    installation = Installation(tree, tmp_path / "pristine", another_python=True)
    installation.put_back()
    assert reinstall.run(checked=False)
    (tree.root / "user-software" / "weeks").write_text("of work")
    assert "what it installed is kept" in settle(tree.root)
    assert (tree.root / "user-software" / "weeks").read_text() == "of work"
    assert installation.is_kept()
    assert not (tree.root / ".sifmod-previous").exists()
    tree.reset()


def test_eb_killed_at_each_call_of_the_runtime(tree: Tree, tools: Path) -> None:
    """By turns before and after the call. Each run goes on from what the killed one has left; at last one succeeds.

    EasyBuild itself leaves its lock behind when it is killed, and says so: `--ignore-locks` goes on.
    """
    tree.reset(directory="two", packed="one", mark="x")
    before = [times_too(tree.root / name) for name in ("user-software", "user-software.squashfs")]
    for tool in tools.iterdir():
        if tool.name != RUNTIME:
            tool.unlink()
    points = 0
    how = "before"
    number = 1
    while True:
        (tools.parent / "calls").unlink(missing_ok=True)
        fault = f"FAULT_LOG={tools.parent}/calls FAULT_AT={number} FAULT_HOW={how}"
        done = tree.user.run(
            f"PATH={tools}:$PATH {fault} setsid --wait bash -c "
            f"'export FAULT_GROUP=$$; exec eb {DEMO_EASYCONFIG} --rebuild --ignore-locks'",
            check=False,
        )
        assert [times_too(tree.root / name) for name in ("user-software", "user-software.squashfs")] == before
        assert tree.greet() == "two"
        if len(calls(tools)) < number:
            assert done.returncode == 0, done.stdout + done.stderr
            break
        assert done.returncode != 0
        points += 1
        how, number = ("after" if how == "before" else "before"), number + 1
    print(f"eb: {points} points")
    assert points >= 4
    assert tree.litter() == set()
    tree.reset()
