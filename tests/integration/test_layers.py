"""add-layer, remove-layer and flatten-layers: packed user software below the user's own, on the real tools."""

import re
from pathlib import Path

import pytest

from conftest import DEMO_MODULE, IMAGES, User, greet, make_wheel

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
def layered(packed_demo: User) -> User:
    """A user whose greeting 1.0 is packed and a layer."""
    packed_demo.run(f"{LOAD}; add-layer")
    return packed_demo


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, *OTHER)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "greeting", "2.0", "def greet():\n    return 'hello again'\n")


def test_what_was_packed_is_below_an_empty_writable_directory(layered: User, other: Path, tmp_path: Path) -> None:
    # what is copied from the packed file is what venv.py makes
    made = tmp_path / "made"
    made.mkdir()
    binds = f"{made}:/user-software,{root(layered)}/share/inside:/mnt"
    layered.run(
        f"{LOAD}; export SINGULARITY_BINDPATH={binds} APPTAINER_BINDPATH={binds}; singularity exec --cleanenv $SIF "
        "/usr/bin/python3 -I /mnt/venv.py /user-software/venv/demo 8; "
        f"diff -r --no-dereference {made} {root(layered)}/user-software"
    )
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


@pytest.mark.slow
def test_a_package_hidden_in_a_layer_is_named_and_not_removed(layered: User, tmp_path: Path) -> None:
    """Python looks for what is in a folder with an `__init__.py` nowhere else."""
    site = "$CONTAINERROOT/user-software/venv/demo/lib/python3.11/site-packages"
    for number, part in ((1, "a"), (2, "b")):
        more = {"shr/__init__.py": "", f"shr/{part}.py": ""}
        wheel = make_wheel(tmp_path, f"shr-{part}", str(number), "", more=more)
        packed = "; make-squashfs --remove-directory && add-layer" if part == "a" else ""
        layered.run(f"{LOAD}; pip install --no-index {wheel}{packed}")
    assert layered.run(f"{LOAD}; python -c 'import shr.a'", check=False).returncode == 1
    named = "shr-a 1 of a layer is hidden in part, by a newer 'shr': "
    done = layered.run(f"{LOAD}; list-packages --check", status=1)
    (command,) = [line.partition(named)[2] for line in done.stdout.splitlines() if line.startswith(named)]
    said = layered.run(f"{LOAD}; make-squashfs").stderr
    assert named in said
    assert "before you change that: unmake-squashfs" in said
    told = " ".join(layered.run(f"sifmod verify {DEMO_MODULE}", check=False).stdout.split())
    assert f"do: unmake-squashfs, then {command}" in told
    layered.run(
        f"{LOAD}; unmake-squashfs; {command} --no-index --find-links {tmp_path}; python -c 'import shr.a, shr.b'"
    )
    fine = layered.out(f"{LOAD}; list-packages --check; test -e {site}/shr/a.py")
    assert fine == "2 packages of user software and 1 of layers: each fits the others and the image's"
    layered.run(f"{LOAD}; pip uninstall -y shr-a")
    for command in ("pip uninstall -y shr_a", "uv pip uninstall greeting"):
        done = layered.run(f"{LOAD}; {command}", status=2 if command.startswith("uv") else 1)
        assert re.search(r"is in the layer /user-layers/[12], which is read-only", done.stderr)
        way = done.stderr.rstrip("\n").partition("type on the host: ")[2]
        assert way.startswith("make-squashfs --replace --remove-directory; flatten-layers; unmake-squashfs; ")
    layered.run(f"{LOAD}; set -e; {way}")
    assert layered.run(f"{LOAD}; python -c 'import greeting'", check=False).returncode == 1


@pytest.mark.slow
def test_pip_takes_what_a_layer_has_as_installed_and_may_put_a_newer_one_on_top(layered: User, newer: Path) -> None:
    said = layered.out(f"{LOAD}; pip install --no-index greeting")
    assert "already satisfied" in said
    layered.run(f"{LOAD}; pip install --no-index {newer}")
    assert greet(layered) == "hello again"
    assert versions(layered)["greeting"] == "2.0"
    layered.run(f"{LOAD}; pip uninstall -y greeting")
    assert greet(layered) == "hello"


@pytest.mark.slow
def test_uv_keeps_what_a_layer_has_and_may_put_a_newer_one_on_top(layered: User, newer: Path, tmp_path: Path) -> None:
    needs = make_wheel(tmp_path, "needs", "1.0", "", requires=("greeting>=1",))
    uv = f"{LOAD}; uv pip install --no-index --no-cache"
    layered.run(f"{uv} {needs}")
    packages = root(layered) / "user-software/venv/demo/lib/python3.11/site-packages"
    assert {path.name for path in packages.glob("*.dist-info")} == {"needs-1.0.dist-info"}
    layered.run(f"{uv} --find-links {newer.parent} 'greeting>=2'")
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


@pytest.mark.slow
def test_the_top_alone_is_packed_and_all_can_be_made_one_file(layered: User, newer: Path, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {newer} {other}; make-squashfs --remove-directory")
    assert greet(layered) == "hello again"
    listed = f"greeting @ {newer.as_uri()}  # 2.0\nother @ {other.as_uri()}  # 2.0\n"
    assert (root(layered) / "user-software.txt").read_text() == listed
    before = versions(layered)
    layered.run(f"{LOAD}; flatten-layers")
    assert versions(layered) == before
    assert greet(layered) == "hello again"
    assert "greeting-1.0" not in layered.out(
        f"{LOAD}; singularity exec $SIF ls /user-software/venv/demo/lib/python3.11/site-packages"
    )
    assert layered.out(f"{LOAD}; singularity exec $SIF sh -c 'ls /user-layers 2>/dev/null' || true") == ""
    layered.run(f"{LOAD}; flatten-layers --rollback")
    assert versions(layered) == before
    assert names(layered) >= {"user-software.layers", "user-software.squashfs"}
    assert (root(layered) / "user-software.txt").read_text() == listed


@pytest.mark.slow
def test_eight_layers_are_the_limit_and_the_newest_has_precedence(packed_demo: User) -> None:
    site = "$CONTAINERROOT/user-software/venv/demo/lib/python3.11/site-packages"
    for number in range(2, 10):
        write = f"mkdir -p {site} && echo 'def greet(): return \"{number}\"' >{site}/greeting.py"
        packed_demo.run(f"{LOAD}; add-layer && {write} && make-squashfs --remove-directory")
    assert greet(packed_demo) == "9"
    done = packed_demo.run(f"{LOAD}; add-layer", status=3)
    assert "8 layers already" in done.stderr
    assert "flatten-layers" in done.stderr
    packed_demo.run(f"{LOAD}; flatten-layers && add-layer")
    assert greet(packed_demo) == "9"


@pytest.mark.slow
@pytest.mark.parametrize("where", ["packed", "layer"])
def test_damage_is_not_made_whole(layered: User, other: Path, where: str) -> None:
    """One bit: the file can be mounted, and what is merged of it would be recorded as good."""
    layered.run(f"{LOAD}; pip install --no-index {other}; make-squashfs --remove-directory")
    path = root(layered) / ("user-software.squashfs" if where == "packed" else "user-software.layers/1.squashfs")
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    before = names(layered)
    commands = ("flatten-layers", "add-layer")[: 1 + (where == "packed")]
    for command in commands:
        done = layered.run(f"{LOAD}; {command}", check=False)
        assert done.returncode in (5, 6), done.stderr
        assert f"'{path}' has the SHA-256" in done.stderr
        assert "Nothing was changed" in done.stderr
        assert (names(layered), path.read_bytes()) == (before, bytes(content))
    said = layered.eb("Python-3.11-demo-singularity.eb", "--rebuild", check=False)
    assert f"'{path}' has the SHA-256" in " ".join((said.stdout + said.stderr).split())


@pytest.mark.slow
def test_the_top_is_packed_although_a_layer_can_not_be_mounted(layered: User, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {other}")
    layer = root(layered) / "user-software.layers" / "1.squashfs"
    layer.chmod(0o644)
    with layer.open("r+b") as file:
        file.seek(28)  # the version of SquashFS
        file.write(bytes(2))
    done = layered.run(f"{root(layered)}/bin/make-squashfs")
    assert "the packages could not be compared with those of the image" in done.stderr
    assert (root(layered) / "user-software.txt").read_text() == f"other @ {other.as_uri()}  # 2.0\n"


@pytest.mark.slow
def test_shells_and_jobs_with_the_module_go_on(layered: User, newer: Path, other: Path, tmp_path: Path) -> None:
    """Their bind list is of before: its files are there after each command, and have the same packages."""
    layered.run(f"{LOAD}; pip install --no-index {newer}; make-squashfs --remove-directory; add-layer")
    layered.run(f"{LOAD}; pip install --no-index {other}; make-squashfs --remove-directory")
    say = 'singularity exec "$SIF" python -c "import greeting, other; print(greeting.greet(), other.name())"'
    apart = f"env -i HOME=$HOME PATH=$PATH {root(layered)}/bin"
    newest = make_wheel(tmp_path, "greeting", "3.0", "def greet():\n    return 'third'\n")
    done = layered.run(
        f"{LOAD}; {say}; {apart}/flatten-layers >&2; {say}; srun -n1 bash -c '{say}'; "
        f"{apart}/add-layer >&2; {say}; {apart}/pip install --no-index {newest} >&2; "
        f"{apart}/make-squashfs --remove-directory >&2; {say}; {apart}/remove-layer >&2; {say}"
    )
    again, third = "hello again other", "third other"
    assert done.stdout.splitlines() == [again, again, again, again, third, again]
    assert greet(layered) == "hello again"
    assert layered.out(f"{LOAD}; echo $SINGULARITY_BINDPATH").count("user-layers") == 0
    layered.run(f"{LOAD}; flatten-layers --rollback")
    assert greet(layered) == "hello again"
    assert layered.out(f"{LOAD}; echo $SINGULARITY_BINDPATH").count("user-layers") == 2


@pytest.mark.slow
def test_the_files_that_a_loaded_shell_names_take_no_space(layered: User, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {other}; make-squashfs --remove-directory; flatten-layers")
    packed, kept = root(layered) / "user-software.squashfs", root(layered) / "user-software.layers/1.squashfs"
    assert packed.samefile(kept)
    layered.run(f"{LOAD}; unmake-squashfs; make-squashfs --replace --remove-directory")
    assert packed.samefile(kept)
    assert {path.name for path in kept.parent.iterdir()} == {"1.squashfs", "1.unused"}


@pytest.mark.slow
@pytest.mark.parametrize("out", [">&-", ">/dev/full", "| true"])
def test_what_is_done_is_done_although_nobody_listens(layered: User, other: Path, out: str) -> None:
    layered.run(f"{LOAD}; pip install --no-index {other}")
    for command in (
        "make-squashfs --remove-directory",
        "flatten-layers",
        "flatten-layers --rollback",
        "remove-layer",
        "remove-layer --rollback",
    ):
        layered.run(f"set -o pipefail; {root(layered)}/bin/{command} {out}")
    assert (
        layered.out(f"{LOAD}; python -c 'import greeting, other; print(greeting.greet(), other.name())'")
        == "hello other"
    )


@pytest.mark.slow
def test_a_reinstall_keeps_the_layers(layered: User) -> None:
    layered.eb("Python-3.11-demo-singularity.eb", "--rebuild")
    assert greet(layered) == "hello"
    assert names(layered) >= {"user-software", "user-software.layers"}


def test_where_the_top_was_deleted_a_reinstall_makes_one_that_finds_the_layers(layered: User, other: Path) -> None:
    layered.run(f"{LOAD}; pip install --no-index {other}; make-squashfs --remove-directory")
    (root(layered) / "user-software.squashfs").unlink()
    before = names(layered)
    way = f"module unload {DEMO_MODULE}; eb --rebuild {root(layered)}/easybuild/*.eb"
    for command in ("add-layer", "flatten-layers", "make-squashfs", "remove-layer", "unmake-squashfs"):
        done = layered.run(f"{LOAD}; {command}", status=2)
        assert f"{command}: the user software is missing" in done.stderr
        assert way in done.stderr
        assert f"carry-over {root(layered)}/user-software.txt" in done.stderr
    assert names(layered) == before
    assert f"carry-over {root(layered)}/user-software.txt" in layered.run("sifmod verify", check=False).stdout
    # as eb says where it was typed without it
    done = layered.run(f"{LOAD}; eb --rebuild {root(layered)}/easybuild/*.eb", check=False)
    assert f"Type first: module unload {DEMO_MODULE}" in done.stdout + done.stderr
    layered.run(f"{LOAD}; {way}", timeout=300)
    assert greet(layered) == "hello"
    (link,) = (root(layered) / "user-software").glob("venv/*/lib/*/site-packages/_below.pth")
    link.rename(f"{link}.away")
    said = layered.run(f"sifmod verify --fast {DEMO_MODULE}", check=False).stdout
    link.with_name("_below.pth.away").rename(link)
    assert "does not lead to the layers below it" in " ".join(said.split())
    assert "lead to the layers" not in layered.run(f"sifmod verify --fast {DEMO_MODULE}", check=False).stdout
    assert "other" not in versions(layered)
    # what lists the packages that were lost is kept
    layered.run(f"{LOAD}; make-squashfs")
    assert (root(layered) / "user-software.txt.previous").read_text() == f"other @ {other.as_uri()}  # 2.0\n"
    (root(layered) / "user-software.layers/1.squashfs").unlink()
    assert "packed, 0 packages" in layered.out("sifmod list")
    assert "layers are missing" in layered.out("sifmod list")


def test_unloading_restores_the_environment(layered: User) -> None:
    before = layered.environment("export SINGULARITYENV_MANPATH=/mine")
    after = layered.environment(f"export SINGULARITYENV_MANPATH=/mine; {LOAD}; module unload {DEMO_MODULE}")
    assert after == before


SHOW = "printenv PATH MANPATH JUPYTER_PATH"
STARTS = (
    f"singularity exec --containall $SIF {SHOW}",
    f"singularity run --cleanenv $SIF {SHOW}",
    f"echo {SHOW} | singularity shell $SIF",
    f"in-container {SHOW}",
    f"SIFMOD_SHARE_CONTAINER=1 srun -n1 in-container {SHOW}",
)


def test_programs_find_what_is_in_the_layers(layered: User) -> None:
    """However a container starts: before what the user injects, and not what the user has for the host."""
    mine = f"export SINGULARITYENV_MANPATH='/my $HOME'; {LOAD}; export MANPATH=/of-the-host"
    layer, home = "/user-layers/1/venv/demo", layered.out("echo $HOME")
    for start in STARTS:
        done = layered.run(f"{mine}; {start}")
        path, man, jupyter = done.stdout.splitlines()
        assert path.startswith(f"/runscripts:/user-software/venv/demo/bin:{layer}/bin:/usr/"), start
        assert (man, jupyter) == (f"{layer}/share/man:/my {home}", f"{layer}/share/jupyter"), start
        assert "shared container" not in done.stderr


def test_an_image_that_the_runtime_has_not_built_gets_what_is_injected(layered: User, tmp_path: Path) -> None:
    """The mount point of what runs at the start makes a folder that tells the runtime something else."""
    image = tmp_path / "image"
    layered.run(f"singularity build --sandbox {image} {IMAGES}/bwa.sif; rm -r {image}/.singularity.d")
    found = layered.out(f"{LOAD}; singularity exec {image} sh -c 'echo $PATH $MANPATH $PIP_CONSTRAINT'")
    assert found.startswith("/runscripts:/user-software/venv/demo/bin:/user-layers/1/venv/demo/bin:/usr/")
    assert found.endswith(" /user-layers/1/venv/demo/share/man: /runscripts/pip-constraints.txt")


@pytest.mark.slow
def test_commands_of_a_layer_are_commands_of_the_host(own_demo: User, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "cowsay", "1.0", "def greet():\n    print('moo')\n", command="cow")
    newer = make_wheel(tmp_path, "cowsay", "2.0", "def greet():\n    print('moo moo')\n", command="cow")
    pack = f"{LOAD}; pip install --no-index {wheel}; make-squashfs --remove-directory; add-layer"
    assert own_demo.out(f"{pack}; cow").splitlines()[-1] == "moo"
    assert own_demo.out(f"{LOAD}; srun -n1 singularity exec $SIF cow") == "moo"
    assert own_demo.out(f"{LOAD}; pip install --no-index {newer}; cow").splitlines()[-1] == "moo moo"


def test_an_unpacked_directory_is_no_layer(extended: User) -> None:
    done = extended.run(f"{LOAD}; add-layer", status=2)
    assert "make-squashfs" in done.stderr
    done = extended.run(f"{LOAD}; remove-layer", status=2)
    done = extended.run(f"{LOAD}; make-squashfs; add-layer", status=3)
    assert "--remove-directory" in done.stderr
