"""builds_on: modules on top of a colleague's image and user software, on the real tools."""

import json
import os
from pathlib import Path

import pytest

from conftest import DEMO_MODULE, Kept, User, greet, make_user, make_wheel

MODULE = "Mine/1"
LOAD = f"module load {MODULE}"
EASYCONFIG = f"""
easyblock = 'ContainerImage'

name = 'Mine'
version = '1'
homepage = 'https://example.org/'
description = "What I need on top of the team's Python."
toolchain = SYSTEM

builds_on = '{DEMO_MODULE}'

moduleclass = 'lang'
"""
GREET = "python -c 'import greeting; print(greeting.greet())'"
NEWER = ("greeting", "2.0", "def greet():\n    return 'hello again'\n")


def install(user: User, changes: str = "", *flags: str, check: bool = True) -> str:
    """Install the easyconfig with more lines at its end, and return what eb prints."""
    path = user.prefix / "Mine-1.eb"
    path.write_text(EASYCONFIG + changes)
    done = user.eb(str(path), *flags, check=check)
    assert check or done.returncode
    return done.stdout + done.stderr


def member_of(base: User, prefix: Path) -> User:
    """A user who sees the modules of another one."""
    member = make_user(prefix)
    member.env.update(modules_of(member, base))
    return member


def modules_of(*users: User) -> dict[str, str]:
    return {"MODULEPATH": ":".join(str(user.prefix / "modules" / "all") for user in users)}


@pytest.fixture
def base(packed_demo: User) -> User:
    """A user whose greeting 1.0 is packed."""
    return packed_demo


@pytest.fixture(scope="module")
def kept_member(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("member")
    return Kept(folder / "eb", folder / "copies")


@pytest.fixture
def member(base: User, kept_member: Kept) -> User:
    """A colleague, with a module on top of it."""
    if not kept_member.copies.exists():
        install(member_of(base, kept_member.prefix))
        kept_member.keep("member")
    user = kept_member.restore("member")
    user.env.update(modules_of(user, base))
    return user


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return make_wheel(
        tmp_path, "other", "2.0", "import greeting\n\ndef name():\n    return 'other ' + greeting.greet()\n"
    )


def roots(base: User, member: User) -> tuple[Path, Path]:
    return base.installdir(DEMO_MODULE), member.installdir(MODULE)


def listing(top: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(top)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in top.rglob("*")}


def edit_manifest(root: Path, **changes: object) -> None:
    path = root / "share" / "sifmod.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=2, sort_keys=True) + "\n")


def test_a_colleague_s_image_and_packages_are_below_what_is_one_s_own(base: User, member: User, other: Path) -> None:
    below, own = roots(base, member)
    before = listing(below)
    assert not list(own.glob("*.sif"))
    assert member.out(f"{LOAD}; echo $SIF") == str(below / "demo.sif")
    assert member.out(f"{LOAD}; {GREET}") == "hello"
    assert member.out(f'{LOAD}; singularity exec "$SIF" {GREET}') == "hello"
    assert member.out(f"{own}/bin/{GREET}") == "hello"  # without the module
    done = member.run(f"{LOAD}; pip install --no-index {other} && python -c 'import other; print(other.name())'")
    assert done.stdout.endswith("other hello\n")
    assert {"greeting==1.0", "other==2.0"} <= set(member.out(f"{LOAD}; pip list --format=freeze").split())
    assert list(own.glob("user-software/venv/demo/lib/python3*/site-packages/other.py"))
    assert listing(below) == before


@pytest.mark.slow
def test_unloading_restores_and_the_base_need_not_be_loaded(member: User) -> None:
    before = member.environment("true")
    assert member.environment(f"{LOAD}; module unload {MODULE}") == before
    assert DEMO_MODULE not in member.out(f"{LOAD}; echo $LOADEDMODULES")
    with_base = member.environment(f"module load {DEMO_MODULE}")
    assert member.environment(f"module load {DEMO_MODULE} {MODULE}; module load {DEMO_MODULE}") == with_base


@pytest.mark.slow
def test_settings_are_the_base_s_and_one_s_own(user: User) -> None:
    text = EASYCONFIG.replace("name = 'Mine'", "name = 'Team'").replace(f"builds_on = '{DEMO_MODULE}'", "")
    (user.prefix / "team.eb").write_text(
        f"{text}\nsources = ['demo.sif']\npython_prefix = '/usr'\nvenv = 'team'\ngpu = ''\nbinds = ['/usr/games']\n"
        "wrappers = {'python': 'python', 'say': '/bin/echo said'}\n"
        "container_env = {'ONE': '1', 'TWO': '2'}\nexpected_packages = {}\n"
    )
    user.eb(str(user.prefix / "team.eb"))
    install(
        user,
        "builds_on = 'Team/1'\ngpu = ''\nbinds = ['/usr/share']\nwrappers = ['pip']\n"
        "container_env = {'TWO': 'zwei', 'THREE': '3'}\n",
    )
    found = user.environment(LOAD)
    assert ",/usr/games,/usr/share," in f",{found['SINGULARITY_BINDPATH']},"
    assert [found[name] for name in ("ONE", "TWO", "THREE")] == ["1", "zwei", "3"]
    assert user.out(f"{LOAD}; say this") == "said this"
    assert "/venv/team/" in user.out(f"{LOAD}; pip --version; python -c 'import sys; print(sys.prefix + \"/\")'")


@pytest.mark.slow
def test_packed_anew_by_its_owner(base: User, member: User, tmp_path: Path) -> None:
    """Members see it at the next load; what their own packages need in another version is told."""
    needs = make_wheel(tmp_path, "needy", "1.0", "", requires=("greeting==1.0",))
    member.run(f"{LOAD}; pip install --no-index --find-links {tmp_path} {needs}")
    assert "fit" in member.out(f"{LOAD}; list-packages --check")
    newer = make_wheel(tmp_path, *NEWER)
    running = (
        f"{LOAD}; singularity exec $SIF python -c 'import sys, time; print(1, flush=True); sys.stdin.readline(); "
        "import greeting; print(greeting.greet())'"
    )
    replace = (
        f"MODULEPATH={base.prefix}/modules/all; module load {DEMO_MODULE}; unmake-squashfs && "
        f"singularity exec $SIF pip install --no-index {newer} && make-squashfs --replace --remove-directory"
    )
    # the container that ran meanwhile keeps the file that it started with
    done = member.run(
        f"mkfifo {tmp_path}/go; ({running}) <{tmp_path}/go >{tmp_path}/said & exec 3>{tmp_path}/go; "
        f"until [[ -s {tmp_path}/said ]]; do sleep 0.1; done; ( {replace} ) >&2; echo go >&3; wait; cat {tmp_path}/said"
    )
    assert done.stdout.split() == ["1", "hello"]
    assert member.out(f"{LOAD}; {GREET}") == "hello again"
    told = member.run(f"sifmod verify {MODULE}", check=False)
    assert "needy 1.0 requires greeting==1.0, but a layer has greeting 2.0" in told.stdout
    assert greet(base) == "hello again"
    said = " ".join(install(member, "", "--rebuild").split())
    assert "needy 1.0 requires greeting==1.0, but a layer has greeting 2.0: install it anew" in said


@pytest.mark.slow
def test_layers_above_and_below(base: User, member: User, other: Path, tmp_path: Path) -> None:
    """Both have layers; what belongs to the base stays below, whatever is packed and made one on top."""
    third = make_wheel(tmp_path, "third", "1.0", "def name():\n    return 'third'\n")
    everything = "python -c 'import greeting, other, third; print(greeting.greet(), other.name(), third.name())'"
    base.run(f"module load {DEMO_MODULE}; add-layer && pip install --no-index {make_wheel(tmp_path, 'low', '1', '')}")
    member.run(f"{LOAD}; pip install --no-index {other} && make-squashfs --remove-directory && add-layer")
    member.run(f"{LOAD}; pip install --no-index {third}")
    assert member.out(f"{LOAD}; {everything}") == "hello other hello third"
    below, own = roots(base, member)
    layers = json.loads(member.out(f"sifmod show {MODULE} --json"))["user_software"]["layers"]
    assert [(layer["place"], layer["path"]) for layer in layers] == [
        ("/user-layers/1", str(own / "user-software.layers" / "1.squashfs")),
        ("/user-layers/2", str(below / "user-software")),
        ("/user-layers/3", str(below / "user-software.layers" / "1.squashfs")),
    ]
    assert layers[1]["packages"] == ["low==1"]
    member.run(f"{LOAD}; make-squashfs --remove-directory && flatten-layers")
    shown = json.loads(member.out(f"sifmod show {MODULE} --json"))["user_software"]["layers"]
    assert [layer["path"] for layer in shown] == [layer["path"] for layer in layers[1:]]
    assert member.out(f"{LOAD}; {everything}; python -c 'import low'") == "hello other hello third"
    assert "greeting" not in member.out(f"unsquashfs -l {own}/user-software.squashfs")
    member.run(f"{LOAD}; flatten-layers --rollback; unmake-squashfs")
    assert member.out(f"{LOAD}; {everything}") == "hello other hello third"
    assert member.run(f"sifmod verify {MODULE}").returncode == 0


@pytest.mark.slow
def test_layers_that_the_owner_flattens_or_takes_away(base: User, member: User, tmp_path: Path) -> None:
    """A member's shell and the next step of a member's job have a bind list of before, and the same packages."""
    newer, other = make_wheel(tmp_path, *NEWER), make_wheel(tmp_path, "low", "1.0", "")
    team = f"MODULEPATH={base.prefix}/modules/all; module load {DEMO_MODULE}"
    for wheel in (newer, other):
        base.run(f"{team}; add-layer && pip install --no-index {wheel} && make-squashfs --remove-directory")
    say = f"singularity exec $SIF {GREET.replace('import greeting', 'import greeting, low')}"
    done = member.run(
        f"{LOAD}; {say}; ( {team}; flatten-layers ) >&2; {say}; srun -n1 bash -c {say!r}; "
        f"( {team}; flatten-layers --rollback ) >&2; {say}; srun -n1 bash -c {say!r}"
    )
    assert done.stdout.splitlines() == ["hello again"] * 5
    below = GREET
    done = member.run(
        f"{LOAD}; ( {team}; remove-layer ) >&2; singularity exec $SIF {below}; srun -n1 bash -c {below!r}"
    )
    assert done.stdout.splitlines() == ["hello again"] * 2
    assert member.run(f"sifmod verify {MODULE}").returncode == 0


@pytest.mark.slow
def test_a_base_on_a_base_and_a_circle(base: User, member: User, other: Path, tmp_path: Path) -> None:
    member.run(f"{LOAD}; pip install --no-index {other}")
    third = member_of(base, tmp_path / "third")
    third.env["MODULEPATH"] += f":{member.prefix}/modules/all"
    install(third, f"name = 'Third'\nbuilds_on = '{MODULE}'\n")
    found = third.out("module load Third/1; python -c 'import other; print(other.name())'")
    assert found == "other hello"
    before = listing(member.installdir(MODULE))
    member.env["MODULEPATH"] += f":{third.prefix}/modules/all"
    said = install(member, "builds_on = 'Third/1'\n", "--rebuild", check=False)
    assert f"a circle: Third/1 builds on {MODULE}" in " ".join(said.split())
    assert listing(member.installdir(MODULE)) == before


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ("builds_on = 'Python/3.12'\n", "there is no module 'Python/3.12' of sifmod"),
        (
            "dependencies = [('Python', '3.11', '-demo-singularity')]\n",
            "is not loaded beside it: write it in builddependencies, which eb --robot installs first",
        ),
        ("builds_on = '../Python'\n", "use neither '.' or '..' as a folder"),
        ("builds_on = ['Python/3.11']\n", "use the name of a module"),
        ("sources = ['demo.sif']\n", "the image and its Python are those of Python/3.11-demo-singularity"),
        ("image_uri = 'docker://debian:12'\n", "the image and its Python are those of"),
        ("python_prefix = '/opt'\n", "the image and its Python are those of"),
        ("venv = 'other'\n", "has the virtual environment 'demo': remove it"),
        ("wrappers = ['ls']\n", "it would hide the host's command"),
    ],
)
def test_what_can_t_be_built_on_is_refused(demo: User, tmp_path: Path, changes: str, says: str) -> None:
    user = member_of(demo, tmp_path / "member")
    assert says in " ".join(install(user, changes, check=False).split())
    assert not user.installdir(MODULE).exists()


@pytest.mark.slow
def test_other_identities_of_the_base(base: User, member: User) -> None:
    """The same Python and another image: a note. Another Python: refused, in one line. Gone: what is left is loaded."""
    below, own = roots(base, member)
    edit_manifest(below, image_id="00" * 16)
    done = member.run(f"{LOAD}; {GREET}")
    assert done.stdout == "hello\n"
    assert f"{below} ({DEMO_MODULE}) has another image now" in " ".join(done.stderr.split())
    assert "another image than when this module was installed" in member.out(f"sifmod verify {MODULE}", check=False)

    edit_manifest(below, python_version="3.12")
    done = member.run(LOAD, check=False)
    assert done.returncode
    assert "has another Python now than 3.11" in " ".join(done.stderr.split())
    assert "carry-over" in done.stderr
    done = member.run(f"{own}/bin/{GREET}", status=126)
    assert len(done.stderr.splitlines()) == 1
    assert "has another Python now" in done.stderr
    assert member.run(f"sifmod verify {MODULE}", check=False).returncode

    edit_manifest(below, python_version="3.11", venv="other")
    done = member.run(LOAD)
    assert "has another virtual environment now than demo" in " ".join(done.stderr.split())

    (below / "share" / "sifmod.json").unlink()
    done = member.run(f"{LOAD}; python -c 'print(1)'")
    assert done.stdout == "1\n"
    assert "is gone or can't be read" in " ".join(done.stderr.split())
    assert "is gone" in member.out(f"sifmod verify {MODULE}", check=False)


@pytest.mark.slow
def test_user_software_stays_on_the_base_that_it_was_made_on(member: User, wheel: Path) -> None:
    member.run(f"{LOAD}; pip install --no-index {make_wheel(wheel.parent, 'own', '1', '')}")
    before = listing(member.installdir(MODULE))
    said = install(
        member,
        "builds_on = None\nsources = ['demo.sif']\npython_prefix = '/usr'\nvenv = 'demo'\n",
        "--rebuild",
        check=False,
    )
    assert f"was made on {DEMO_MODULE}" in " ".join(said.split())
    assert {**listing(member.installdir(MODULE)), ".": (0, 0)} == {**before, ".": (0, 0)}
    install(member, "", "--rebuild")
    assert member.out(f"{LOAD}; python -c 'import own'; {GREET}") == "hello"


@pytest.mark.slow
@pytest.mark.usefixtures("other")
def test_requirements_are_installed_on_top_of_what_the_base_has(base: User, tmp_path: Path) -> None:
    """What is below satisfies requirements, and is not installed again."""
    user = member_of(base, tmp_path / "member")
    user.env["PIP_FIND_LINKS"] = str(tmp_path)
    user.env["PIP_NO_INDEX"] = "1"
    install(user, "pip_requirements = ['other', 'greeting']\npack_user_software = True\n")
    found = user.out(f"unsquashfs -l {user.installdir(MODULE)}/user-software.squashfs")
    assert "site-packages/other.py" in found
    assert "greeting" not in found
    assert user.out(f"{LOAD}; {GREET}") == "hello"


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_more_layers_than_the_limit(base: User, tmp_path: Path, syntax: str) -> None:
    """A ninth one is refused at the install; one that comes later is left out, and named."""
    below = base.installdir(DEMO_MODULE)
    packed, layers = below / "user-software.squashfs", below / "user-software.layers"
    layers.mkdir()
    for number in range(1, 9):
        os.link(packed, layers / f"{number}.squashfs")
    user = member_of(base, tmp_path / "member")
    said = " ".join(install(user, "", check=False).split())
    assert (
        f"containers can have 8 layers, and there would be 9; the first one too many is '{layers}/1.squashfs'" in said
    )
    (layers / "8.squashfs").unlink()
    install(user, "", f"--module-syntax={syntax}")
    assert user.out(f"{LOAD}; {GREET}") == "hello"
    os.link(packed, layers / "8.squashfs")
    done = user.run(f"{LOAD}; {GREET}")
    assert done.stdout == "hello\n"
    assert f"{layers}/1.squashfs is left out" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_an_easyconfig_for_it(base: User, tmp_path: Path) -> None:
    """`sifmod on` writes one that installs as it is."""
    user = member_of(base, tmp_path / "member")
    said = user.out(f"sifmod on {DEMO_MODULE} --name Lab --version 7")
    assert said.splitlines()[0] == "wrote Lab-7.eb"
    text = (user.prefix / "Lab-7.eb").read_text()
    assert f"builds_on = '{DEMO_MODULE}'" in text
    assert "homepage = 'https://www.python.org/'" in text
    user.eb(str(user.prefix / "Lab-7.eb"))
    assert user.out(f"module load Lab/7; {GREET}") == "hello"
    done = user.run("sifmod on Python/3 --name Lab -o other.eb", status=3)
    assert "there is no module 'Python/3' of sifmod" in done.stderr
    assert not (user.prefix / "other.eb").exists()
    assert "Missing option '--name'" in user.run(f"sifmod on {DEMO_MODULE}", check=False).stderr
    base.out(f"sifmod on {DEMO_MODULE} --name Lab --version 7")
    text = (base.prefix / "Lab-7.eb").read_text()
    assert "builddependencies = [('Python', '3.11', '-demo-singularity')]" in text
    base.eb(str(base.prefix / "Lab-7.eb"), "--robot")
    assert base.out(f"module load Lab/7; {GREET}") == "hello"


@pytest.mark.slow
def test_what_the_base_has_later_is_found_too(base: User, tmp_path: Path) -> None:
    """Its file system was not mounted when the module was installed."""
    root = base.installdir(DEMO_MODULE)
    (root / "user-software.squashfs").rename(root / "elsewhere")
    user = member_of(base, tmp_path / "member")
    install(user)
    done = user.run(f"{LOAD}; pip --version")
    assert "has no user software now" in " ".join(done.stderr.split())
    (root / "elsewhere").rename(root / "user-software.squashfs")
    assert user.out(f"{LOAD}; {GREET}") == "hello"


@pytest.mark.slow
def test_commands_say_why_they_end(base: User, member: User) -> None:
    """None ends without a word where the base has another Python."""
    below, own = roots(base, member)
    member.run(f"{LOAD}; make-squashfs --remove-directory")
    edit_manifest(below, python_version="3.12")
    for command in ("add-layer", "refresh-commands", "remove-layer", "list-packages", "python -c 1"):
        done = member.run(f"{own}/bin/{command}", check=False)
        assert done.returncode == 0 or done.stderr.strip(), command


@pytest.mark.slow
def test_the_image_for_enroot_is_that_of_the_base(base: User, member: User, tmp_path: Path) -> None:
    settings = tmp_path / "site.toml"
    settings.write_text(Path(base.environ()["SIFMOD_SITE"]).read_text() + 'runtimes = ["apptainer", "enroot"]\n')
    member.env["SIFMOD_SITE"] = str(settings)
    assert f"{DEMO_MODULE} has no image for enroot" in install(member, "", "--rebuild")
    base.env["SIFMOD_SITE"] = str(settings)
    base.eb("Python-3.11-demo-singularity.eb", "--rebuild")
    install(member, "", "--rebuild")
    below, own = roots(base, member)
    assert member.out(f"{LOAD}; echo $SQSH") == str(below / "demo.sqsh")
    assert not list(own.glob("*.sqsh"))
    before = member.environment("true")
    assert member.environment(f"{LOAD}; module unload {MODULE}") == before
    digest = json.loads((below / "share/sifmod.json").read_text())["squashfs_sha256"]
    assert f"SHA-256 {digest} as installed" in " ".join(member.out(f"sifmod verify {MODULE}").split())
    member.eb(str(member.prefix / "Mine-1.eb"), "--module-only")
    assert member.out(f"{LOAD}; echo $SQSH") == str(below / "demo.sqsh")
    (below / "demo.sqsh").unlink()
    assert member.out(f"{LOAD}; echo ${{SQSH-unset}}") == "unset"
