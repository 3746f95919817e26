"""Bind paths: required, optional, the user's own, and those of odd names; and a packed file that is damaged."""

import shlex
import shutil
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, User, make_user

LOAD = f"module load {DEMO_MODULE}"
READ = "cat /data/file"
# What the runtime can be told: in a destination everything but commas and colons, in a source one of these besides.
ODD = "a b'd\"e$f;g&h(i)jé"


def escaped(path: Path) -> str:
    return str(path).replace(",", "\\,").replace(":", "\\:")


def with_site(user: User, folder: Path, **binds: list[str]) -> User:
    """Install the demo for a site with these bind paths."""
    site = folder / "site.toml"
    lines = [f"{key} = [{', '.join(repr_toml(item) for item in items)}]" for key, items in binds.items()]
    site.write_text("\n".join([f'image_repositories = ["{IMAGES}"]', *lines]) + "\n")
    user.env["SIFMOD_SITE"] = str(site)
    user.eb(DEMO_EASYCONFIG)
    return user


def repr_toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def filled(folder: Path, content: str = "content") -> Path:
    folder.mkdir(parents=True)
    (folder / "file").write_text(content)
    return folder


@pytest.mark.slow
def test_required_ones_are_always_bound_and_a_missing_one_is_named(user: User, tmp_path: Path) -> None:
    required = filled(tmp_path / "required")
    with_site(user, tmp_path, binds=[f"{required}:/data"])
    assert user.out(f"{LOAD}; singularity exec $SIF {READ}; start-shell -c '{READ}'") == "contentcontent"
    told = user.run("module help Python; sifmod show Python")
    assert " ".join((told.stderr + told.stdout).split()).count(f"{required}:/data") == 2
    shutil.rmtree(required)
    for command in ("singularity exec $SIF true", "start-shell -c true"):
        done = user.run(f"{LOAD}; {command}", status=255)
        assert str(required) in done.stderr
    assert user.run(f"{LOAD}; module unload {DEMO_MODULE}").stderr == ""


@pytest.mark.slow
def test_optional_ones_are_bound_where_they_are(user: User, tmp_path: Path) -> None:
    """What docs/explanation/binds.md says of one that goes later: wrappers and a new load tolerate it."""
    here, gone = filled(tmp_path / "here"), tmp_path / "gone"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("nowhere")
    sources = [f"{here}:/data", f"{gone}:/gone", str(tmp_path / "plain"), f"{dangling}:/dangling", "/dev/null:/null"]
    with_site(user, tmp_path, optional_binds=sources)
    look = "ls -d /null /dangling 2>&-"
    assert user.out(f"{LOAD}; singularity exec $SIF {look}; start-shell -c '{look}'", check=False) == "/null\n/null"
    assert user.out(f"{LOAD}; singularity exec $SIF {READ}; start-shell -c '{READ}'") == "contentcontent"
    assert str(gone) not in user.out(f"{LOAD}; echo $SINGULARITY_BINDPATH")
    filled(gone)
    assert user.out(f"{LOAD}; singularity exec $SIF ls /gone") == "file"
    # if this runtime tolerates missing sources, say so in docs/explanation/binds.md
    done = user.run(f"{LOAD}; rm -r {here}; singularity exec $SIF true", status=255)
    assert f"mount source {here} doesn't exist" in done.stderr
    filled(here)
    assert user.out(f"{LOAD}; rm -r {here}; python -c 'print(1)'; start-shell -c 'echo 2'") == "1\n2"
    filled(here)
    assert user.out(f"{LOAD}; rm -r {here}; {LOAD}; singularity exec $SIF echo 3") == "3"


@pytest.mark.some(1)
@pytest.mark.parametrize("variable", ["SINGULARITY_BIND", "APPTAINER_BIND", "SINGULARITY_BINDPATH"])
def test_the_users_own_ones_stay_and_are_bound_as_well(demo: User, tmp_path: Path, variable: str) -> None:
    own = f"export {variable}={filled(tmp_path / 'mine')}:/data"
    assert demo.out(f"{own}; {LOAD}; singularity exec $SIF {READ}; start-shell -c '{READ}'") == "contentcontent"
    before = demo.out(f"{own}; echo ${variable}")
    loaded = demo.out(f"{own}; {LOAD}; echo ${variable}")
    assert loaded.endswith(before)
    assert variable == "SINGULARITY_BINDPATH" or loaded == before
    assert demo.out(f"{own}; {LOAD}; module purge; echo ${variable}") == before
    # and of those set while the module is loaded, BIND counts
    if variable != "SINGULARITY_BINDPATH":
        assert demo.out(f"{LOAD}; {own}; singularity exec $SIF {READ}; start-shell -c '{READ}'") == "contentcontent"


@pytest.mark.slow
def test_bind_paths_of_odd_names(user: User, tmp_path: Path) -> None:
    binds, folders = {}, []
    for key in ("binds", "optional_binds"):
        sources = [filled(tmp_path / key / f"{ODD}{rest}") for rest in (",one", ":two", ",three")]
        plain = filled(tmp_path / key / ODD)
        targets = [f"/{key} {ODD} {index}" for index in range(3)]
        one, two, three = (f"{escaped(source)}:{target}" for source, target in zip(sources, targets))
        binds[key] = [one, f"{two}:ro", str(plain), f"{three}:rw"]
        folders += [str(plain), *targets]
    with_site(user, tmp_path, **binds)
    files = shlex.join(f"{folder}/file" for folder in folders)
    out = user.out(f"{LOAD}; singularity exec $SIF cat {files}; start-shell -c {shlex.quote(f'cat {files}')}")
    assert out == "content" * 16
    for key in binds:
        touch = shlex.quote(f"/{key} {ODD} 1/new")
        for command in (f"singularity exec $SIF touch {touch}", f"start-shell -c {shlex.quote(f'touch {touch}')}"):
            assert "Read-only" in user.run(f"{LOAD}; {command}", check=False).stderr


DAMAGE = {
    "empty": ": >{0}",
    "text": "echo 'this is no file system' >{0}",
    "short": "truncate -s -5000 {0}",
    "header only": "truncate -s 96 {0}",
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo, packed, its directory still there."""
    user = make_user(tmp_path_factory.mktemp("packed") / "eb")
    user.eb(DEMO_EASYCONFIG)
    user.run(f"{LOAD}; make-squashfs; cp $CONTAINERROOT/user-software.squashfs $CONTAINERROOT/whole")
    return user


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_packed_file_is_named_and_the_directory_is_used(packed: User, damage: str) -> None:
    root = packed.installdir(DEMO_MODULE)
    file = root / "user-software.squashfs"
    shutil.copyfile(root / "whole", file)
    before = packed.environment("true")
    packed.run(DAMAGE[damage].format(file))
    done = packed.run(f"{LOAD}; singularity exec $SIF ls /user-software/venv")
    said = " ".join(done.stderr.split())
    assert f"Warning: {file} is damaged" in said
    assert f"rm {file}; make-squashfs" in said
    assert done.stdout == "demo\n"
    done = packed.run(f"{LOAD} 2>/dev/null; python -c 'import sys; print(sys.prefix)'")
    assert done.stdout == "/user-software/venv/demo\n"
    assert f"{file} is damaged" in done.stderr
    assert packed.environment(f"{LOAD} 2>/dev/null; module unload {DEMO_MODULE}") == before
    # loaded while it was whole
    shutil.copyfile(root / "whole", file)
    assert packed.environment(f"{LOAD}; {DAMAGE[damage].format(file)}; module unload {DEMO_MODULE}") == before
    # and the remedy is one
    done = packed.run(f"{LOAD} 2>/dev/null; rm {file}; make-squashfs; python -c 'print(1)'")
    assert done.stdout.endswith("1\n")
    assert "damaged" not in done.stderr


@pytest.mark.slow
def test_a_packed_file_that_can_not_be_read_is_named_and_the_directory_is_used(packed: User) -> None:
    """It may be whole, so nobody is told to remove it; real module tools look at it in their own way."""
    root = packed.installdir(DEMO_MODULE)
    file = root / "user-software.squashfs"
    shutil.copyfile(root / "whole", file)
    before = packed.environment("true")
    file.chmod(0)
    try:
        done = packed.run(f"{LOAD}; singularity exec $SIF ls /user-software/venv")
        said = " ".join(done.stderr.split())
        assert f"Warning: {file} can't be read" in said
        assert f"chmod ug+r {file}" in said
        assert "rm " not in said
        done = packed.run(f"{LOAD} 2>/dev/null; python -c 'import sys; print(sys.prefix)'")
        assert done.stdout == "/user-software/venv/demo\n"
        assert f"{file} can't be read" in done.stderr
        assert packed.environment(f"{LOAD} 2>/dev/null; module unload {DEMO_MODULE}") == before
    finally:
        file.chmod(0o644)


@pytest.mark.slow
def test_a_damaged_packed_file_without_the_directory_is_named_with_what_is_left_to_do(packed: User) -> None:
    root = packed.installdir(DEMO_MODULE)
    file = root / "user-software.squashfs"
    (root / "user-software").rename(root / "away")
    try:
        file.write_text("")
        done = packed.run(f"{LOAD}; singularity exec $SIF true; module unload {DEMO_MODULE}")
        assert "Restore it from a backup" in " ".join(done.stderr.split())
        done = packed.run(f"{LOAD}; python -c 'print(1)'", status=126)
        assert "Restore it from a backup" in done.stderr
        assert f"rm {file}; module unload {DEMO_MODULE}; eb --rebuild" in done.stderr
        assert f"carry-over {root}/user-software.txt" in done.stderr
        for command in ("make-squashfs", "add-layer"):
            done = packed.run(f"{LOAD} 2>/dev/null; {command}", status=6)
            assert f"{command}: {file} is damaged, and your packages are in it. Restore it from a backup" in done.stderr
        packed.run(f"rm {file}")
        packed.eb(DEMO_EASYCONFIG, "--rebuild")
        assert packed.out(f"{LOAD}; python -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"
    finally:
        shutil.rmtree(root / "user-software", ignore_errors=True)
        (root / "away").rename(root / "user-software")
