"""What a requirement for a wheel may name, what an image may answer, and which folders take wheels."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.programs import write_file, write_program

from sifmod.container.bind import Bind
from sifmod.errors import InstallError, SifmodError
from sifmod.host.runtime import ContainerRuntime
from sifmod.wheels import building, tools
from sifmod.wheels.building import Source, source_of, wheels_folder
from sifmod.wheels.tools import Found, Place, look_for_compilers, make_own, other_writers_of, tools_for

GIT = "git+https://example.org/a/b.git"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("mpi4py", Source("mpi4py")),
        ("mpi4py[extra]==4.0.1", Source("mpi4py[extra]==4.0.1")),
        (GIT, Source(repository="https://example.org/a/b.git")),
        (f"b @ {GIT}@v1.0", Source(repository="https://example.org/a/b.git", revision="v1.0")),
        (
            f"{GIT}@feature/x#egg=b&subdirectory=python/b",
            Source(repository="https://example.org/a/b.git", revision="feature/x", subdirectory="python/b"),
        ),
        ("git+ssh://git@example.org/a/b.git", Source(repository="ssh://git@example.org/a/b.git")),
        ("git+file:///home/me/b.git@main", Source(repository="file:///home/me/b.git", revision="main")),
    ],
)
def test_a_requirement_is_a_name_or_a_repository(text: str, source: Source) -> None:
    assert source_of(text) == source


@pytest.mark.parametrize(
    "text",
    [
        "--index-url=https://example.org",
        "-r",
        "a b",
        "a\nb",
        "https://example.org/a.tgz/b",
        "a @ https://example.org/a.whl",
        "git+ext::sh -c id",
        "git+http:///",
        "git+https://example.org/",
        f"{GIT}@--upload-pack=id",
        f"{GIT}@v1;id",
        f"{GIT}@",
        f"{GIT}#subdirectory=../x",
        f"{GIT}#subdirectory=/etc",
        f"{GIT}#other=1",
        f"{GIT}?a=b",
        "git+https://me:secret@example.org/a/b.git",
        "git+https://token@example.org/a/b.git",
        "https://me:secret@example.org/a/b.git",
        "a @ https://secret@example.org/a.whl",
        "git+https://[x/a",
        "a @ b",
        "./nothing-here",
        "nothing-here.tar.gz",
        "/etc",
    ],
)
def test_what_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(SifmodError) as refused:
        source_of(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("https://example.org/a.tar.gz", "names an address: download it, and name the file; if it is a git repository"),
        ("a @ https://example.org/a.tar.gz", "names an address: download it, and name the file"),
        ("a[b] @ https://example.org/a.zip#sha256=0", "names an address: download it, and name the file"),
        ("https://example.org/a/b", "if it is a git repository, put git+ in front of its address"),
        ("https://example.org/a/b.git", "names a git repository: put git+ in front of its address"),
        (
            "b @ https://example.org/a/b.git@v1#subdirectory=c",
            "names a git repository: put git+ in front of its address",
        ),
        ("ssh://git@example.org/a/b.git", "names a git repository: put git+ in front of its address"),
        ("https://example.org/a-1-py3-none-any.whl", "install it with pip"),
        ("./a-1-py3-none-any.whl", "install it with pip"),
        ("a-1-py3-none-any.whl", "install it with pip"),
    ],
)
def test_of_an_address_it_says_what_to_write_instead(text: str, remedy: str) -> None:
    with pytest.raises(SifmodError) as refused:
        source_of(text)
    assert remedy in str(refused.value)


def test_a_path_is_a_project_or_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "setup.py").touch()
    (tmp_path / "a-1.0.tar.gz").touch()
    monkeypatch.chdir(tmp_path)
    assert source_of("./a") == Source(path=tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    assert source_of("./link") == source_of("./a")
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    with pytest.raises(SifmodError, match=r"'./link' is another user's link, .*: name what it leads to"):
        source_of("./link")
    assert source_of("a-1.0.tar.gz") == Source(path=tmp_path / "a-1.0.tar.gz")
    with pytest.raises(SifmodError, match=r"neither pyproject\.toml nor setup\.py"):
        source_of("a/b")
    with pytest.raises(SifmodError, match=r"To build the folder: \./a\. To build the package, name its version: a==V"):
        source_of("a")
    assert source_of("a==1.0") == Source("a==1.0")


def test_a_source_is_copied_with_its_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    scratch, source = tmp_path / "scratch", tmp_path / "source"
    scratch.mkdir()
    (source / ".venv").mkdir(parents=True)
    (source / "secret").symlink_to("/etc/hostname")
    assert building._brought(Source(path=source), scratch, 1, print, {}) == "/tmp/sources/1"
    assert (scratch / "sources/1/secret").readlink() == Path("/etc/hostname")
    assert not (scratch / "sources/1/.venv").exists()
    (tmp_path / "a-1.0.tar.gz").symlink_to("private.tar.gz")
    (tmp_path / "private.tar.gz").touch()
    building._brought(Source(path=tmp_path / "a-1.0.tar.gz"), scratch, 3, print, {})
    assert (scratch / "sources/3/a-1.0.tar.gz").is_symlink()
    (tmp_path / "private").mkdir()
    (tmp_path / "swapped").symlink_to("private")
    with pytest.raises(InstallError, match=r"can't be copied to .* a link on the way to it leads to '.*/private'"):
        building._brought(Source(path=tmp_path / "swapped"), scratch, 4, print, {})
    os.mkfifo(source / "pipe")
    with pytest.raises(InstallError, match="can't be copied"):
        building._brought(Source(path=source), scratch, 2, print, {})


def test_variables_of_a_hook_do_not_lead_git_to_another_repository(tmp_path: Path) -> None:
    def git(folder: Path, *words: str) -> str:
        command = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(folder), *words]
        return str(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)

    own, other, scratch = (tmp_path / name for name in ("own", "other", "scratch"))
    for folder in (own, other, scratch):
        folder.mkdir()
    for folder in (own, other):
        git(folder, "init", "-q")
        (folder / "setup.py").write_text(folder.name)
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
        git(folder, "tag", "v1")
    git(own, "commit", "-q", "--allow-empty", "-m", "second")
    before = git(own, "log", "-1", "--decorate"), git(own, "status")
    of_git = {"GIT_DIR": f"{own}/.git", "GIT_INDEX_FILE": f"{own}/.git/index", "GIT_WORK_TREE": str(own)}
    source = Source(repository=f"file://{other}", revision="v1")
    building._brought(source, scratch, 1, print, {**os.environ, **of_git})
    assert (scratch / "sources/1/setup.py").read_text() == "other"
    assert (git(own, "log", "-1", "--decorate"), git(own, "status")) == before


def test_wheels_of_a_module_are_in_the_home() -> None:
    assert wheels_folder("A/1", {"HOME": "/home/me"}) == Path("/home/me/.local/share/sifmod/wheels/A/1")


@pytest.mark.parametrize(
    "name", ["x.whl", "a-1.0.whl", "-1.0-py3-none-any.whl", "a-1.0-py3-none-any.zip", "a b-1-py3-none-any.whl"]
)
def test_what_is_no_wheel_is_not_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InstallError, match="is not the name of a wheel"):
        building._kept(tmp_path, tmp_path)


def test_a_wheel_that_is_a_link_out_of_the_build_is_not_read(tmp_path: Path) -> None:
    made, folder, secret = tmp_path / "made", tmp_path / "folder", tmp_path / "secret"
    made.mkdir()
    folder.mkdir()
    secret.write_text("secret")
    (made / "a-1.0-py3-none-any.whl").symlink_to(secret)
    with pytest.raises(OSError, match=r"secret|not in|link"):
        building._kept(made, folder)
    assert list(folder.iterdir()) == []
    (made / "a-1.0-py3-none-any.whl").unlink()
    (made / "a-1.0-py3-none-any.whl").write_text("wheel")
    assert building._kept(made, folder) == [folder / "a-1.0-py3-none-any.whl"]


def test_links_in_place_of_wheels_or_tools_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, made = tmp_path / "secret", tmp_path / "made"
    write_file(secret / "a-1.0-py3-none-any.whl")
    made.symlink_to(secret)
    with pytest.raises(InstallError, match="a link in the place of its wheels"):
        building._kept(made, tmp_path)
    monkeypatch.setattr(tools, "problem_of_way", lambda _path: "")
    here = place(tmp_path, "")
    # what an image does in its /tmp, which the bind path leads to
    here.runtime.path.write_text(f'#!/bin/sh\nln -s {secret} "${{APPTAINER_BINDPATH%%:*}}/tools"\n')
    with pytest.raises(InstallError, match="unpacked nothing that could be laid over it"):
        tools_for(
            here, Found("3.11.2", "/usr", "", "/usr", ("cc",)), tmp_path, say=print, environ={"HOME": str(tmp_path)}
        )


def test_compilers_are_kept_for_an_installation_s_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "problem_of_way", lambda _path: "")
    places = {}
    for name in ("good", "lying"):
        (tmp_path / name).mkdir()
        places[name] = place(tmp_path / name, "")
        places[name].runtime.path.write_text('#!/bin/sh\nmkdir "${APPTAINER_BINDPATH%%:*}/tools"\n')

    def made(name: str) -> Path:
        found = Found("3.11.2", "/usr", "", "/usr", ("cc",))
        return tools_for(places[name], found, tmp_path / name, say=print, environ={"HOME": str(tmp_path)})

    first = made("good")
    os.utime(first, (1, 1))
    assert made("good") == first
    assert first.stat().st_mtime > 1  # in use
    os.link(tmp_path / "good/demo.sif", tmp_path / "same")
    (tmp_path / "same").replace(tmp_path / "lying/demo.sif")
    lying = made("lying")
    assert lying != first
    (tmp_path / "good/demo.sif").unlink()
    (tmp_path / "good/demo.sif").write_text("rebuilt")
    os.utime(first, (1, 1))
    second = made("good")
    assert {*first.parent.iterdir()} == {second, lying}


@pytest.mark.parametrize("name", ["a:b", "a,b", "relative"])
def test_a_cache_unfit_for_an_overlay_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"XDG_CACHE_HOME": name if name == "relative" else str(tmp_path / name)}
    found = Found("3.11.2", "/usr", "", "/usr", ("cc",))
    with pytest.raises(InstallError, match="set XDG_CACHE_HOME to another folder"):
        tools_for(place(tmp_path, ""), found, tmp_path, say=print, environ=environ)
    assert not (tmp_path / name).exists()


def place(folder: Path, answer: str) -> Place:
    """Return an image in a runtime that prints an answer."""
    runtime = write_program(folder / "singularity", f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    (folder / "demo.sif").touch()
    return Place(ContainerRuntime(runtime), folder / "demo.sif", "python", (Bind("/a", "/b"),))


GOOD = {
    "python": "3.11.2",
    "prefix": "/usr",
    "libc": "glibc 2.36",
    "include": "/usr/include",
    "missing": ["headers", "x"],
}


def test_missing_packages_come_from_the_image_s_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look_for_compilers(place(tmp_path, json.dumps(GOOD)))
    assert found == Found("3.11.2", "/usr", "glibc 2.36", "/usr/include", ("headers",))
    assert found.needs == "the headers of its Python"
    found = Found("3.11.2", "/opt/python", "glibc 2.36", "/opt/python/include/python3.11", ("headers",))
    with pytest.raises(InstallError, match=r"there is no '/opt/python/include/python3\.11/Python\.h'.*--with IMAGE"):
        tools_for(place(tmp_path, ""), found, tmp_path, say=print, environ={"HOME": str(tmp_path)})
    monkeypatch.setattr(tools, "problem_of_way", lambda _path: "")
    here = place(tmp_path, "")
    here.runtime.path.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(InstallError, match=r"lacks a C compiler, .*\(it has no apt\).*--with IMAGE"):
        tools_for(
            here, Found("3.11.2", "/usr", "", "/usr", ("cc",)), tmp_path, say=print, environ={"HOME": str(tmp_path)}
        )


@pytest.mark.parametrize(
    "answer",
    ["", "[", "[]", "{}", *(json.dumps({**GOOD, **bad}) for bad in ({"missing": 1}, {"prefix": 1}, {"libc": "\x1b"}))],
)
def test_what_an_image_must_not_answer(tmp_path: Path, answer: str) -> None:
    with pytest.raises(InstallError, match="does not say what it has"):
        look_for_compilers(place(tmp_path, answer))


@pytest.mark.parametrize("manager", ["dnf", "microdnf", "zypper", "apk"])
def test_another_distribution_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str) -> None:
    monkeypatch.setattr(tools, "problem_of_way", lambda _path: "")
    (tmp_path / "bin").mkdir()
    for name in (manager, "dpkg"):
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    here = place(tmp_path, "")
    # the program itself, where there are no other tools
    here.runtime.path.write_text(f"#!/bin/sh\nPATH={tmp_path}/bin\numask() {{ :; }}\n. /dev/stdin\n")
    with pytest.raises(InstallError) as said:
        tools_for(
            here, Found("3.11.2", "/usr", "", "/usr", ("cc",)), tmp_path, say=print, environ={"HOME": str(tmp_path)}
        )
    assert f"for Debian and Ubuntu alone, and this one has {manager}" in str(said.value)
    assert f"Bootstrap: localimage / From: {tmp_path}/demo.sif / %post / {manager} " in str(said.value)
    assert "--with IMAGE" in str(said.value)


def test_the_draft_of_a_run_that_was_killed_is_removed_and_that_of_another_run_is_not(tmp_path: Path) -> None:
    left, held = tmp_path / ".build-tools-1.squashfs.1", tmp_path / ".build-tools-1.squashfs.2"
    other = tmp_path / "secret"
    for path in (left, held, other):
        path.touch()
    (tmp_path / ".build-tools-3").symlink_to(other)
    os.mkfifo(tmp_path / ".build-tools-4")
    with held.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        tools._remove_left(tmp_path, "1")
        assert not left.exists()
        assert held.exists()
    tools._remove_left(tmp_path, "1")
    assert not held.exists()
    assert other.exists()


def test_a_folder_of_a_team_is_taken_and_one_of_everybody_is_not(tmp_path: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    team.chmod(0o755)
    assert other_writers_of(team) == ""
    team.chmod(0o2775)
    os.chown(team, -1, 1) if os.geteuid() == 0 else None
    assert "group" in other_writers_of(team) or os.geteuid()
    for mode in (0o777, 0o1777):
        team.chmod(mode)
        with pytest.raises(InstallError, match=f"everybody may put files into '{team}'.*chmod o-w {team}"):
            other_writers_of(team)
    team.chmod(0o755)
    tmp_path.chmod(0o777)
    with pytest.raises(InstallError, match=f"everybody may put files into '{tmp_path}'"):
        other_writers_of(team)


def test_a_wheel_may_be_read_by_those_for_whom_the_folder_is(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "folder"
    made.mkdir()
    folder.mkdir()
    folder.chmod(0o770)
    name = "a-1.0-py3-none-any.whl"
    (made / name).write_text("wheel")
    # what others have put there is replaced, not written to
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for what in (lambda path: path.symlink_to(secret), os.mkfifo):
        what(folder / name)
        assert building._kept(made, folder) == [folder / name]
        assert (folder / name).read_text() == "wheel"
        assert (folder / name).stat().st_mode & 0o777 == 0o660
        (folder / name).unlink()
    assert secret.read_text() == "secret"


def test_a_folder_that_others_may_write_to_takes_no_programs(tmp_path: Path) -> None:
    make_own(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    (tmp_path / "a").chmod(0o777)
    for path in (tmp_path / "a" / "b", tmp_path / "a" / "new"):
        with pytest.raises(InstallError, match="can be written to by others"):
            make_own(path)
    assert not (tmp_path / "a" / "new").exists()
