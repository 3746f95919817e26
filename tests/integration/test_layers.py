"""add-layer, remove-layer and flatten-layers: packed user software below the user's own, on the real tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import DEMO_MODULE, User, greet, make_wheel

pytestmark = pytest.mark.timeout(400)

LOAD = f"module load {DEMO_MODULE}"
PATHS = "import sys; print(*[p for p in sys.path if 'site-packages' in p], sep='\\n')"
OTHER = ("other", "2.0", "def name():\n    return 'other'\n")


def root(user: User) -> Path:
    return user.installdir(DEMO_MODULE)


def names(user: User) -> set[str]:
    return {path.name for path in root(user).iterdir() if path.name.startswith("user-software")}


def versions(user: User) -> dict[str, str]:
    """Return the packages that pip lists in the container."""
    lines = user.out(f"{LOAD}; pip list --format=freeze").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


@pytest.fixture
def layered(extended: User) -> User:
    """A user whose greeting 1.0 is packed and a layer."""
    extended.run(f"{LOAD}; make-squashfs --remove-directory && add-layer")
    return extended


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, *OTHER)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "greeting", "2.0", "def greet():\n    return 'hello again'\n")


def test_what_was_packed_is_below_an_empty_writable_directory(layered: User, other: Path) -> None:
    assert greet(layered) == "hello"
    layered.run(f"{LOAD}; pip install --no-index {other}")
    assert (
        layered.out(f"{LOAD}; python -c 'import greeting, other; print(greeting.greet(), other.name())'")
        == "hello other"
    )
    own, layer = layered.out(f'{LOAD}; singularity exec $SIF python -c "{PATHS}"').splitlines()[:2]
    assert own.startswith("/user-software/venv/demo/lib/python3.11")
    assert layer == own.replace("/user-software", "/user-layers/1")
    assert not list(root(layered).glob("user-software/venv/*/lib/python3*/site-packages/greeting*"))


def test_the_shell_that_adds_a_layer_goes_on_with_it(extended: User, other: Path) -> None:
    said = extended.out(
        f"{LOAD}; make-squashfs --remove-directory >log && add-layer >log && pip install --no-index {other} >log"
        " && singularity exec $SIF python -c 'import greeting, other; print(greeting.greet())'"
    )
    assert said == "hello"


def test_pip_takes_what_a_layer_has_as_installed_and_may_put_a_newer_one_on_top(layered: User, newer: Path) -> None:
    said = layered.out(f"{LOAD}; pip install --no-index greeting")
    assert "already satisfied" in said
    layered.run(f"{LOAD}; pip install --no-index {newer}")
    assert greet(layered) == "hello again"
    assert versions(layered)["greeting"] == "2.0"
    layered.run(f"{LOAD}; pip uninstall -y greeting")
    assert greet(layered) == "hello"


def test_uv_keeps_what_a_layer_has_and_may_put_a_newer_one_on_top(layered: User, newer: Path, tmp_path: Path) -> None:
    needs = make_wheel(tmp_path, "needs", "1.0", "", requires=("greeting>=1",))
    uv = f"{LOAD}; uv pip install --no-index --no-cache"
    done = layered.run(f"{uv} {needs}")
    assert "In a layer: greeting==1.0" in done.stderr
    packages = root(layered) / "user-software/venv/demo/lib/python3.11/site-packages"
    assert {path.name for path in packages.glob("*.dist-info")} == {"needs-1.0.dist-info"}
    done = layered.run(f"{uv} --find-links {newer.parent} 'greeting>=2'", check=False)
    assert done.returncode == 0, done.stderr
    assert "In a layer, and found after what is installed now: greeting==1.0" in done.stderr
    assert greet(layered) == "hello again"
    assert versions(layered)["greeting"] == "2.0"
    done = layered.run(f"{uv} --find-links {newer.parent} 'greeting>=3'", check=False)
    assert done.returncode
    assert "greeting>=3" in done.stderr
    layered.run(f"{LOAD}; uv pip uninstall greeting")
    assert greet(layered) == "hello"
    listed = f"printf 'greeting==2.0\\nneeds\\n' | {uv.split('; ')[1]} --find-links {newer.parent} -r -"
    layered.run(f"{LOAD}; {listed}")
    assert greet(layered) == "hello again"


def test_the_top_alone_is_packed_and_all_can_be_made_one_file(layered: User, newer: Path, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {newer} {other}; make-squashfs --remove-directory")
    assert greet(layered) == "hello again"
    assert (root(layered) / "user-software.txt").read_text() == "greeting==2.0\nother==2.0\n"
    before = versions(layered)
    layered.run(f"{LOAD}; flatten-layers")
    assert "user-software.layers" not in names(layered)
    assert versions(layered) == before
    assert greet(layered) == "hello again"
    assert "greeting-1.0" not in layered.out(
        f"{LOAD}; singularity exec $SIF ls /user-software/venv/demo/lib/python3.11/site-packages"
    )
    assert layered.out(f"{LOAD}; singularity exec $SIF sh -c 'ls /user-layers 2>/dev/null' || true") == ""
    layered.run(f"{LOAD}; flatten-layers --rollback")
    assert versions(layered) == before
    assert names(layered) >= {"user-software.layers", "user-software.squashfs"}
    assert (root(layered) / "user-software.txt").read_text() == "greeting==2.0\nother==2.0\n"


@pytest.mark.parametrize("packed", [False, True], ids=["directory", "packed"])
def test_the_top_can_be_taken_away_and_put_back(layered: User, newer: Path, packed: bool) -> None:
    layered.run(f"{LOAD}; pip install --no-index {newer}{'; make-squashfs --remove-directory' if packed else ''}")
    layered.run(f"{LOAD}; remove-layer")
    assert greet(layered) == "hello"
    assert names(layered) >= {"user-software.squashfs", "user-software.removed"}
    assert "user-software.layers" not in names(layered)
    assert (root(layered) / "user-software.txt").read_text() == "greeting==1.0\n"
    layered.run(f"{LOAD}; remove-layer --rollback")
    assert greet(layered) == "hello again"
    assert "user-software.removed" not in names(layered)
    assert len(list((root(layered) / "user-software.layers").glob("*.squashfs"))) == 1


def test_eight_layers_are_the_limit_and_the_newest_has_precedence(extended: User, tmp_path: Path) -> None:
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    for number in range(2, 10):
        wheel = make_wheel(tmp_path, "greeting", f"{number}.0", f"def greet():\n    return '{number}'\n")
        extended.run(f"{LOAD}; add-layer && pip install --no-index {wheel} && make-squashfs --remove-directory")
    assert greet(extended) == "9"
    done = extended.run(f"{LOAD}; add-layer", check=False)
    assert done.returncode == 3
    assert "8 layers already" in done.stderr
    assert "flatten-layers" in done.stderr
    extended.run(f"{LOAD}; flatten-layers && add-layer")
    assert greet(extended) == "9"


def test_a_damaged_layer_is_named_and_the_rest_is_loaded(layered: User, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {other}")
    layer = root(layered) / "user-software.layers/1.squashfs"
    layer.write_bytes(layer.read_bytes()[:-4096])
    for command in (f"{LOAD}", f"{root(layered)}/bin/python -c 'import other'"):
        done = layered.run(command)
        assert f"{layer} is left out" in " ".join(done.stderr.split())
    assert layered.out(f"{LOAD}; singularity exec $SIF python -c 'import other; print(other.name())'") == "other"


def test_a_reinstall_keeps_the_layers(layered: User) -> None:
    layered.eb("Python-3.11-demo-singularity.eb", "--rebuild")
    assert greet(layered) == "hello"
    assert names(layered) >= {"user-software", "user-software.layers"}


def test_unloading_restores_the_environment(layered: User) -> None:
    before = layered.environment("export SINGULARITYENV_MANPATH=/mine")
    after = layered.environment(f"export SINGULARITYENV_MANPATH=/mine; {LOAD}; module unload {DEMO_MODULE}")
    assert after == before
    loaded = layered.environment(f"export SINGULARITYENV_MANPATH=/mine; {LOAD}")
    assert loaded["SINGULARITYENV_MANPATH"] == "/user-layers/1/venv/demo/share/man:/mine"
    assert loaded["APPTAINERENV_JUPYTER_PATH"] == "/user-layers/1/venv/demo/share/jupyter"


def test_commands_of_a_layer_are_commands_of_the_host(own_demo: User, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "cowsay", "1.0", "def greet():\n    print('moo')\n", command="cow")
    newer = make_wheel(tmp_path, "cowsay", "2.0", "def greet():\n    print('moo moo')\n", command="cow")
    pack = f"{LOAD}; pip install --no-index {wheel}; make-squashfs --remove-directory; add-layer"
    assert own_demo.out(f"{pack}; cow").splitlines()[-1] == "moo"
    assert own_demo.out(f"{LOAD}; srun -n1 singularity exec $SIF cow") == "moo"
    assert own_demo.out(f"{LOAD}; pip install --no-index {newer}; cow").splitlines()[-1] == "moo moo"


def test_an_unpacked_directory_is_no_layer(extended: User) -> None:
    done = extended.run(f"{LOAD}; add-layer", check=False)
    assert done.returncode == 2
    assert "make-squashfs" in done.stderr
    done = extended.run(f"{LOAD}; remove-layer", check=False)
    assert done.returncode == 2
    done = extended.run(f"{LOAD}; make-squashfs; add-layer", check=False)
    assert done.returncode == 3
    assert "--remove-directory" in done.stderr
