"""What earlier releases have installed works with this sifmod: verify, kernel, eb --rebuild, add-layer, remove."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from releases import DIRECTORY, PACKED, RELEASES, restored

from conftest import User, remove


@dataclass(frozen=True)
class Tree:
    """The tree of a release, which the tests of this file change one after the other."""

    release: str
    user: User

    def greets(self, module: str) -> str:
        script = f"module load {module}; python -c 'import greeting; print(greeting.greet())'"
        return self.user.out(script)


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    folder = tmp_path_factory.mktemp(f"release-{request.param}")
    yield Tree(request.param, restored(folder, request.param))
    remove(folder)


def test_it_loads_and_is_in_order(release: Tree) -> None:
    assert [release.greets(module) for module in (PACKED, DIRECTORY)] == ["hello of greeting"] * 2
    done = release.user.run("sifmod verify", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "2 of 2 installations in order" in done.stdout
    assert "lost" not in done.stdout


# Each verb on it: exit status, and the end of what it prints. Of verbs with tests of their own here, none.
VERBS = {
    "list": (0, "-"),
    f"show {PACKED}": (0, "sifmod {}"),
    "verify --fast": (0, "2 of 2 installations in order"),
    f"doctor {PACKED} | grep -o '^0 problems'": (0, "0 problems"),  # there may be warnings about the host
    "doctor --all | grep -o '2 installations: 0 problems'": (0, "0 problems"),
    "keep kept": (0, f"kept/{DIRECTORY.replace('/', '-')}"),
    f"sbatch {PACKED} -- x.py": (0, "x.py"),
    "catalogue -o pages": (0, "wrote 2 modules to pages/index.html"),
    f"remove --old-images {PACKED} --yes": (0, "there is no old image"),
}
# Those of before 0.3.0 do not say what a module on top needs to know.
ON = f"on {PACKED} --name Mine"
ON_OLD = {ON: (3, "its owner, hpcuser, reinstalls it with eb --rebuild")}


@pytest.mark.some(1)
def test_each_verb_answers(release: Tree) -> None:
    verbs = {**VERBS, **(ON_OLD if release.release in ("0.1.0", "0.2.0") else {ON: (0, "")})}
    found = {verb: release.user.run(f"sifmod {verb}", check=False) for verb in verbs}
    said = {verb: (done.stdout + done.stderr).strip() for verb, done in found.items()}
    assert {verb: done.returncode for verb, done in found.items()} == {verb: verbs[verb][0] for verb in verbs}
    ends = {verb: end.format(release.release) for verb, (_status, end) in verbs.items()}
    assert [verb for verb in verbs if not said[verb].endswith(ends[verb])] == [], said


def test_what_it_lacks_is_not_advised(release: Tree) -> None:
    done = release.user.run(f"sifmod kernel {PACKED}", status=10)
    has = (release.user.installdir(PACKED) / "bin" / "add-layer").exists()
    assert ("eb --module-only --rebuild EASYCONFIG" in done.stderr) != has


@pytest.mark.slow
def test_module_only_writes_what_it_checks(release: Tree) -> None:
    user = release.user
    for module in (PACKED, DIRECTORY):
        kept = next((user.installdir(module) / "easybuild").glob("*.eb"))
        user.eb(str(kept), "--rebuild", "--module-only")
        manifest = json.loads((user.installdir(module) / "share" / "sifmod.json").read_text())
        # an older sifmod, which knows no layers, refuses it
        assert (manifest["venv"], manifest["format"]) == ("demo", 2)
        # what this release has no more goes
        assert not [*user.installdir(module).glob("*/*broadcast*"), *user.installdir(module).glob("share/node-cop*")]
    assert "2 of 2 installations in order" in user.out("sifmod verify")
    assert [release.greets(module) for module in (PACKED, DIRECTORY)] == ["hello of greeting"] * 2


@pytest.mark.slow
def test_it_can_have_layers_then(release: Tree) -> None:
    user = release.user
    user.run(f"module load {PACKED}; add-layer")
    assert release.greets(PACKED) == "hello of greeting"
    assert "2 of 2 installations in order" in user.out("sifmod verify")


@pytest.mark.some(1)
def test_a_reinstall_keeps_user_software(release: Tree) -> None:
    user = release.user
    for module in (PACKED, DIRECTORY):
        kept = next((user.installdir(module) / "easybuild").glob("*.eb"))
        user.eb(str(kept), "--rebuild")
    assert [release.greets(module) for module in (PACKED, DIRECTORY)] == ["hello of greeting"] * 2


@pytest.mark.slow
def test_a_changed_script_is_replaced_before_anything_runs_it(release: Tree, tmp_path: Path) -> None:
    """As verify advises, by an administrator who does not want to run what somebody else wrote."""
    user = release.user
    root, mark = user.installdir(DIRECTORY), tmp_path / "it-ran"
    for name in ("bin/start-shell", "bin/python", "bin/refresh-commands", "share/container.sh"):
        first, rest = (root / name).read_text().split("\n", 1)
        (root / name).write_text(f"{first}\ntouch '{mark}'\n{rest}")
    done = user.run(f"sifmod verify {DIRECTORY}", check=False)
    assert "rewrite them with: eb --module-only --rebuild" in done.stdout
    easyconfig = tmp_path / "Python-3.11-directory.eb"
    kept = (root / "easybuild" / easyconfig.name).read_text()
    easyconfig.write_text(kept + "\nexpected_packages = {'greeting': '1.0'}\n")  # the sanity check starts Python
    user.eb(str(easyconfig), "--rebuild", "--module-only")
    assert not mark.exists()
    assert "1 of 1 installation in order" in user.out(f"sifmod verify {DIRECTORY}")


@pytest.mark.slow
def test_it_is_removed_and_its_packages_are_kept(release: Tree, tmp_path: Path) -> None:
    user = release.user
    user.run(f"sifmod remove {DIRECTORY} --keep-user-software {tmp_path} --yes")
    assert not user.installdir(DIRECTORY).exists()
    assert (tmp_path / DIRECTORY.replace("/", "-") / "user-software.squashfs").is_file()
