import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Optional

import pytest
from tests.lacking import lacking

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding, worst
from sifmod.install.manifest import read_manifest
from sifmod.installed.base import identity
from sifmod.installed.installation import find_installation
from sifmod.installed.verification import sanity_check_with_easybuild, verify
from sifmod.site.settings import Site

from ..support import SIF_HEADER, SQUASHFS, Recorded, a_site, make_installation, module_text, named

MODULE = "Demo/1.0-x"

Check = Callable[..., dict[str, list[Finding]]]


@pytest.fixture
def root(space: SoftwareSpace) -> Path:
    return make_installation(space, MODULE)


@pytest.fixture
def check(space: SoftwareSpace) -> Check:
    """Verify the installation: topic -> findings."""

    def run(site: Optional[Site] = None, **more: Any) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        # with a program that is on every machine: the installation's start-shell needs none
        for finding in verify(find_installation(space, MODULE), site or a_site(runtime="sh"), **more):
            found.setdefault(finding.topic, []).append(finding)
        return found

    return run


def severities(found: dict[str, list[Finding]]) -> dict[str, str]:
    return {topic: worst(findings) for topic, findings in found.items()}


@pytest.mark.usefixtures("root")
def test_an_installation_as_it_was_made_is_in_order(check: Check) -> None:
    progress = Recorded()
    found = check(progress=progress)
    assert severities(found) == dict.fromkeys(("files", "module file", "image", "user software", "sanity check"), OK)
    hashing, reading, starting = progress.steps
    assert (hashing.title, hashing.size) == (f"{MODULE}: hashing the image", len(SIF_HEADER))
    assert sum(hashing.advanced) == len(SIF_HEADER)
    assert (reading.title, starting.title) == (f"{MODULE}: reading user software", f"{MODULE}: starting the container")


def test_a_file_that_is_gone_or_changed_is_named(root: Path, check: Check) -> None:
    (root / "share" / "container.sh").write_text("# changed\n")
    (root / "bin" / "start-shell").unlink()
    found = check()
    gone, changed = found["files"]
    assert (gone.severity, changed.severity) == (PROBLEM, PROBLEM)
    assert "gone: bin/start-shell" in gone.what
    assert "changed since the install: share/container.sh" in changed.what
    assert "eb --module-only --rebuild" in changed.remedy
    assert severities(found)["sanity check"] == WARNING


def test_another_sifmod_is_named_and_old_scripts_are_no_damage(space: SoftwareSpace, check: Check) -> None:
    root = make_installation(space, MODULE, tools={"sifmod": "0.1.0"})
    note, _present = check()["files"]
    assert (note.severity, note.what.split(",")[0]) == (NOTE, "made by sifmod 0.1.0")
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (one,) = check()["user software"]
    assert (one.severity, one.remedy) == (WARNING, "write this sifmod's with: eb --module-only --rebuild")
    assert "lost" not in one.what + one.why


@pytest.mark.parametrize(
    ("changes", "severity", "words"),
    [
        ({"": 0o700}, PROBLEM, "others may read the module file, and not"),
        ({"share": 0o700}, PROBLEM, "share may not be read by all who may enter"),
        ({"share/container.sh": 0o640}, PROBLEM, "share/container.sh may not be read"),
        ({"demo.sif": 0o600}, PROBLEM, "demo.sif may not be read"),
        ({"bin/start-shell": 0o744}, PROBLEM, "bin/start-shell may not be read"),
        ({"bin/start-shell": 0o644}, PROBLEM, "no programs: bin/start-shell"),
        ({"": 0o750}, OK, ""),
        ({"": 0o750, "share/container.sh": 0o640}, OK, ""),
    ],
    ids=str,
)
def test_modes_are_compared(root: Path, check: Check, changes: dict[str, int], severity: str, words: str) -> None:
    for name, mode in changes.items():
        (root / name).chmod(mode)
    found = check(fast=True).get("permissions", [])
    assert worst(found) == severity
    assert words in "".join(one.what for one in found)


@pytest.mark.parametrize("name", ["share/container.sh", "bin/start-shell"])
def test_a_script_that_somebody_has_changed_is_not_run(root: Path, check: Check, tmp_path: Path, name: str) -> None:
    """Whoever suspects something runs `verify`, which would run it."""
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / name).write_text(f"#!/bin/bash\ntouch '{tmp_path}/pwned'\n")
    found = check()
    assert not (tmp_path / "pwned").exists()
    assert "not done: it would run files that are not as installed" in found["sanity check"][0].what


def test_a_moved_installation_is_not_called_damaged(root: Path, space: SoftwareSpace) -> None:
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    shutil.rmtree(root / names.USER_SOFTWARE_DIRECTORY)
    new = space.software.parent.with_name("new")
    space.software.parent.rename(new)
    moved = find_installation(SoftwareSpace(new / "software", new / "modules"), MODULE)
    found = [one for one in verify(moved, a_site()) if one.severity not in (OK, NOTE)]
    assert {one.topic for one in found} == {"files", "module file", "sanity check"}
    assert ("it was moved" in found[0].what, "eb --module-only --rebuild" in found[0].remedy) == (True, True)


def test_what_sifmod_did_not_put_among_the_commands_is_named(root: Path, check: Check) -> None:
    (root / "user-bin").mkdir()
    (root / "user-bin" / "cowsay").symlink_to("../share/user-command")
    assert "user commands" not in check()
    (root / "user-bin" / "ls").write_text("#!/bin/sh\n")
    (finding,) = check()["user commands"]
    assert (finding.severity, str(root / "user-bin" / "ls") in finding.what) == (WARNING, True)


def test_a_link_in_the_place_of_a_file_or_its_folder_is_a_problem(root: Path, check: Check, tmp_path: Path) -> None:
    (root / "share" / "container.sh").rename(tmp_path / "same")
    (root / "share" / "container.sh").symlink_to(tmp_path / "same")
    (root / "bin").rename(tmp_path / "bin")
    (root / "bin").symlink_to(tmp_path / "bin")
    (changed,) = check()["files"]
    assert changed.severity == PROBLEM
    assert "share/container.sh (a symbolic link)" in changed.what
    assert "'bin/start-shell' is refused" in changed.what


@pytest.mark.parametrize("name", ["runscripts/pip-constraints.txt", "share/docker-defs/demo.def"])
def test_what_is_made_with_the_image_needs_a_reinstall(space: SoftwareSpace, check: Check, name: str) -> None:
    files = (*sorted([name, "bin/start-shell", "share/container.sh", "demo.sif", names.MANIFEST]),)
    root = make_installation(space, MODULE, files=files, hashes={name: "0" * 64})
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).touch()
    assert check()["files"][0].remedy == "reinstall it with: eb --rebuild"


def test_an_older_manifest_without_hashes_says_so(space: SoftwareSpace, check: Check) -> None:
    make_installation(space, MODULE, hashes={})
    (finding,) = check()["files"]
    assert (finding.severity, "recorded no checksums" in finding.what) == (OK, True)


def test_an_image_that_was_never_read_has_its_size_compared(space: SoftwareSpace, check: Check) -> None:
    make_installation(space, MODULE, image_sha256="")
    (finding,) = check()["image"]
    assert (finding.severity, "no checksum was recorded" in finding.what) == (NOTE, True)


def test_until_an_install_is_complete_the_module_file_has_no_checksum(space: SoftwareSpace, check: Check) -> None:
    names_of = named(space, MODULE)
    make_installation(space, MODULE, **{**names_of, "module_files": dict.fromkeys(names_of["module_files"], "")})
    (finding,) = check()["module file"]
    assert (finding.severity, "recorded no checksum" in finding.what) == (OK, True)


def test_another_image_is_found_by_its_size_and_by_its_hash(root: Path, check: Check) -> None:
    (root / "demo.sif").write_bytes(SIF_HEADER + b"x")
    assert f"{len(SIF_HEADER)} were installed" in check()["image"][0].what
    (root / "demo.sif").write_bytes(SIF_HEADER[:-1] + b"x")
    (finding,) = check()["image"]
    assert finding.severity == PROBLEM
    assert "has the SHA-256" in finding.what
    assert "eb --rebuild" in finding.remedy


def test_an_image_on_cvmfs_is_read_on_request(root: Path, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    image = root / "demo.sif"
    try:
        os.setxattr(image, "user.fqrn", b"unpacked.example.org")
    except OSError:
        lacking("this file system has no extended attributes")
    assert check()["image"][0].severity == OK  # it can be written to, so it is not CVMFS
    # a stand-in: no machine of these tests mounts CVMFS
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_RDONLY, f_files=0))
    (finding,) = check()["image"]
    assert (finding.severity, "not read, because CVMFS (unpacked.example.org) checks" in finding.what) == (NOTE, True)
    image.write_bytes(SIF_HEADER[:-1] + b"x")
    assert check(whole=True)["image"][0].severity == PROBLEM
    image.write_bytes(SIF_HEADER + b"x")
    assert f"{len(SIF_HEADER)} were installed" in check()["image"][0].what


def test_an_image_that_is_gone_may_have_a_stand_in(root: Path, check: Check, tmp_path: Path) -> None:
    repository = tmp_path / "images"
    repository.mkdir()
    (root / "demo.sif").rename(repository / "demo.sif")
    assert severities(check())["image"] == PROBLEM
    findings = check(a_site(image_repositories=(str(repository),)))["image"]
    assert [finding.severity for finding in findings] == [NOTE, OK]
    assert str(repository / "demo.sif") in findings[0].what
    # of the same size, but another
    (repository / "demo.sif").write_bytes(SIF_HEADER[:-1] + b"x")
    note, problem = check(a_site(image_repositories=(str(repository),)))["image"]
    assert (note.severity, problem.severity) == (NOTE, PROBLEM)
    assert f"'{repository}/demo.sif' has the SHA-256" in problem.what
    # with another identifier, it is not used
    manifest = root / names.MANIFEST
    text = manifest.read_text()
    manifest.write_text(text.replace('"image_id": ""', f'"image_id": "{"00" * 16}"'))
    (problem,) = check(a_site(image_repositories=(str(repository),)))["image"]
    assert "is gone" in problem.what
    manifest.write_text(text)
    # of another size, neither
    (repository / "demo.sif").write_bytes(SIF_HEADER + b"x")
    (problem,) = check(a_site(image_repositories=(str(repository),)))["image"]
    assert "is gone" in problem.what


def with_squashfs(space: SoftwareSpace, content: bytes = SQUASHFS) -> Path:
    """Write an installation that has an image for enroot, and return the path of that."""
    files = ("bin/start-shell", "demo.sif", "demo.sqsh", "share/container.sh", names.MANIFEST)
    recorded = {"squashfs_sha256": hashlib.sha256(SQUASHFS).hexdigest(), "squashfs_size": len(SQUASHFS)}
    root = make_installation(space, MODULE, files=files, squashfs="demo.sqsh", **recorded)
    (root / "demo.sqsh").write_bytes(content)
    return root / "demo.sqsh"


def test_an_image_for_enroot_is_hashed(space: SoftwareSpace, check: Check) -> None:
    path, progress = with_squashfs(space), Recorded()
    found = check(a_site(runtimes=("apptainer", "enroot")), progress=progress)
    (finding,) = found["image for enroot"]
    assert (finding.severity, "as installed" in finding.what) == (OK, True)
    assert severities(found)["files"] == OK
    assert f"{MODULE}: hashing the image for enroot" in [step.title for step in progress.steps]
    path.write_bytes(SQUASHFS[:-1] + b"x")
    (finding,) = check()["image for enroot"]
    assert (finding.severity, finding.remedy) == (PROBLEM, "reinstall it with: eb --rebuild")
    assert "has the SHA-256" in finding.what
    path.write_bytes(SQUASHFS + b"x")
    assert f"has {len(SQUASHFS) + 1} bytes, and {len(SQUASHFS)} were installed" in check()["image for enroot"][0].what
    path.unlink()
    (finding,) = check()["image for enroot"]
    assert (finding.severity, finding.what) == (PROBLEM, f"'{path}' is gone")
    path.mkdir()
    assert check()["image for enroot"][0].severity == PROBLEM


@pytest.mark.usefixtures("root")
def test_a_module_without_an_image_for_the_site_s_enroot_is_named(check: Check) -> None:
    assert "image for enroot" not in check()
    (finding,) = check(a_site(runtimes=("enroot",)))["image for enroot"]
    assert (finding.severity, finding.remedy) == (WARNING, "reinstall it with: eb --rebuild")


def test_code_that_starts_by_itself_is_listed(root: Path, check: Check) -> None:
    packages = root / "user-software/venv/demo/lib/python3.11/site-packages"
    (packages / "sitecustomize.py").write_text("import evil\n")
    listed = check()["user software"][-1]
    assert (listed.severity, listed.what) == (
        NOTE,
        "runs whenever its Python starts: venv/demo/lib/python3.11/site-packages/sitecustomize.py",
    )


@pytest.mark.usefixtures("root")
def test_a_module_file_that_is_gone_or_another_s_is_named(space: SoftwareSpace, check: Check) -> None:
    file = space.modules / "all" / f"{MODULE}.lua"
    file.write_text('local root = "/elsewhere"\n')
    assert "belongs to another installation" in check()["module file"][0].what
    for path in find_installation(space, MODULE).module_files:
        path.unlink()
    assert "can't be loaded" in check()["module file"][0].why


def test_a_module_file_that_is_a_foreign_link_is_named(space: SoftwareSpace, check: Check, tmp_path: Path) -> None:
    names_of = named(space, MODULE)
    make_installation(space, MODULE, **names_of)
    path = Path(next(iter(names_of["module_files"])))
    path.rename(tmp_path / "other.lua")
    path.symlink_to(tmp_path / "other.lua")
    found = check()["module file"]
    assert [one.severity for one in found] == [PROBLEM]
    assert f"'{path}' is a symbolic link to '{tmp_path / 'other.lua'}'" in found[0].what
    assert found[0].why == "loading the module runs that file"
    (tmp_path / "other.lua").unlink()
    assert check()["module file"][0].why == "that file is gone: the module can't be loaded"


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks into everything")
def test_a_folder_of_module_files_that_is_closed_is_named(space: SoftwareSpace, check: Check) -> None:
    names_of = named(space, MODULE)
    make_installation(space, MODULE, **names_of)
    folder = Path(list(names_of["module_files"])[1]).parent
    folder.chmod(0)
    found = check()["module file"]
    folder.chmod(0o755)
    assert f"you may not look into the folder of {folder}" in found[0].what
    assert not [one for one in found if one.what.startswith("gone")]


@pytest.mark.parametrize("name", ["", "bin", "share/container.sh", "user-software", "demo.sif", ".."])
def test_what_everybody_may_change_is_named(root: Path, check: Check, name: str) -> None:
    assert "permissions" not in check()
    path = (root / name).resolve()
    path.chmod(0o777)
    [found] = check()["permissions"]
    assert (found.severity, found.what) == (WARNING, f"everybody may change '{path}'")
    assert found.remedy == f"chmod o-w {path}"
    if path.is_dir():
        path.chmod(0o1777)
        assert "permissions" not in check()


@pytest.mark.parametrize("name", ["user-software.layers", "user-software.layers/1.squashfs"])
def test_a_layer_that_everybody_may_change_is_named(root: Path, check: Check, name: str) -> None:
    (root / "user-software.layers").mkdir(mode=0o755)
    (root / "user-software.layers/1.squashfs").write_bytes(SQUASHFS)
    (root / "user-software.layers/1.squashfs").chmod(0o664)  # a group may share a layer
    assert "permissions" not in check()
    (root / name).chmod(0o777)
    [found] = check()["permissions"]
    assert (found.severity, found.what) == (WARNING, f"everybody may change '{root / name}'")
    assert found.remedy == f"chmod o-w {root / name}"


@pytest.mark.parametrize("name", ["user-software.squashfs", "."])
def test_a_base_that_everybody_may_change_is_named(root: Path, check: Check, tmp_path: Path, name: str) -> None:
    team = tmp_path / "team"
    team.mkdir(mode=0o755)
    (team / "user-software.squashfs").write_bytes(SQUASHFS)
    manifest = read_manifest(root)
    assert manifest
    (root / names.MANIFEST).write_text(replace(manifest, bases=(identity(team, manifest),)).text)
    assert "permissions" not in check()
    (team / name).chmod(0o777)
    [found] = check()["permissions"]
    assert (found.severity, found.what) == (WARNING, f"everybody may change '{team / name}'")


def test_layers_are_looked_at(root: Path, check: Check) -> None:
    (root / "user-software.layers").mkdir()
    layer = root / "user-software.layers/1.squashfs"
    layer.write_bytes(SQUASHFS)
    (found,) = check()["layers"]
    assert "does not lead to the layers below it" in found.what
    (packages,) = root.glob("user-software/venv/demo/lib/python3.11/site-packages")
    (packages / "_below.pth").write_text("import x; p = '/user-layers/1/venv'\n")
    assert "layers" not in check()
    layer.write_bytes(SQUASHFS[:-1])
    (found,) = check()["layers"]
    assert (found.severity, str(layer) in found.what) == (PROBLEM, True)


def test_a_module_file_is_compared_with_what_was_written(space: SoftwareSpace, check: Check) -> None:
    names_of = named(space, MODULE)
    file, link = map(Path, names_of["module_files"])
    root = make_installation(space, MODULE, **names_of)
    (finding,) = check()["module file"]
    assert (finding.severity, finding.what) == (OK, f"{file}: unchanged")
    file.write_text(module_text(root) + 'execute("something else")\n')
    (finding,) = check()["module file"]
    assert (finding.severity, finding.what) == (PROBLEM, f"'{file}' was changed since the install")
    file.write_text(module_text(root))
    link.unlink()
    (gone, fine) = check()["module file"]
    assert (gone.severity, gone.what, fine.severity) == (PROBLEM, f"gone: {link}", OK)
    link.symlink_to("/elsewhere.lua")
    assert check()["module file"][1].what == f"'{link}' leads to '/elsewhere.lua'"


def test_user_software_that_is_gone_or_damaged_is_a_problem(root: Path, check: Check) -> None:
    directory = root / names.USER_SOFTWARE_DIRECTORY
    (root / names.USER_SOFTWARE_PACKED).write_bytes(b"")
    (finding, used) = check()["user software"]
    assert (finding.severity, used.severity) == (WARNING, OK)
    assert "it is empty" in finding.what
    directory.rename(root / "elsewhere")
    (finding,) = check()["user software"]
    assert (finding.severity, "backup" in finding.remedy) == (PROBLEM, True)
    (root / names.USER_SOFTWARE_PACKED).unlink()
    assert "neither" in check()["user software"][0].what
    directory.symlink_to("/nowhere")
    (finding,) = check()["user software"]
    assert "is a link to '/nowhere', which does not exist" in finding.what
    assert "remove the link" in finding.remedy


def test_the_second_name_of_a_layer_is_no_older_copy(root: Path, check: Check) -> None:
    """add-layer leaves it to shells that have the module loaded."""
    packed, layer = root / names.USER_SOFTWARE_PACKED, root / "user-software.layers/1.squashfs"
    packed.write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_UNPACKED).touch()
    assert [one.severity for one in check()["user software"]] == [OK, NOTE]
    layer.parent.mkdir()
    os.link(packed, layer)
    assert [one.severity for one in check()["user software"]] == [OK]


def test_an_environment_whose_packages_are_elsewhere_is_a_problem(root: Path, check: Check) -> None:
    library = root / names.USER_SOFTWARE_DIRECTORY / "venv/demo/lib"
    library.rename(root / "elsewhere")
    library.symlink_to("../../../elsewhere")
    for fast in (False, True):
        problem, used = check(fast=fast)["user software"]
        assert (problem.severity, used.severity) == (PROBLEM, OK)
        assert "'venv/demo/lib' is a link to '../../../elsewhere', out of user software" in problem.what


@pytest.mark.parametrize(
    ("beside", "remedy"),
    [
        ("", "/easybuild/*.eb"),
        ("user-software.squashfs.previous", "make-squashfs --rollback"),
        ("user-software", "make-squashfs --replace"),
    ],
)
def test_what_helps_against_another_packed_file_is_said(root: Path, check: Check, beside: str, remedy: str) -> None:
    """A reinstall would keep it."""
    if beside != "user-software":
        (root / "user-software").rename(root / "user-software.squashfs.previous.folder")
    if beside.endswith("previous"):
        (root / beside).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_SHA256).write_text(f"{64 * '0'}\n")
    (root / "bin" / "start-shell").chmod(0o755)
    manifest = root / names.MANIFEST
    manifest.write_text(manifest.read_text().replace('"3.11"', '"3.12"'))
    found = check()
    (problem,) = found["user software"]
    assert problem.severity == PROBLEM
    assert remedy in problem.remedy
    (failed,) = found["sanity check"]
    assert (failed.severity, "eb --rebuild" in failed.remedy) == (PROBLEM, False)
    assert failed.remedy.startswith("mend its user software first")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"python_version": "3.12"}, "runs Python 3.11, and 3.12 was installed"),
        ({"expected_packages": {"torch": "2.3.0"}}, "torch 2.3.0 (found 2.2.0)"),
        ({"expected_packages": {"torch": "2.2.0", "absent": "1.0"}}, "absent 1.0 (found none)"),
        ({"expected_packages": {"torch": "2x2.0"}}, "torch 2x2.0 (found 2.2.0)"),
    ],
)
def test_another_python_or_package(space: SoftwareSpace, check: Check, changes: dict[str, Any], says: str) -> None:
    make_installation(space, MODULE, **changes)
    (finding,) = check()["sanity check"]
    assert (finding.severity, says in finding.what) == (PROBLEM, True), finding


def test_expected_packages_that_are_there_are_counted(space: SoftwareSpace, check: Check) -> None:
    make_installation(space, MODULE, expected_packages={"Torch": "2.2.0"})
    assert "1 expected package" in check()["sanity check"][0].what


def test_a_container_without_python_is_started(space: SoftwareSpace, check: Check) -> None:
    root = make_installation(space, MODULE, python_version="", venv="", hashes={})
    assert check()["sanity check"][0].what == "the container starts"
    (root / "bin" / "start-shell").write_text("#!/bin/sh\necho no runtime >&2\nexit 127\n")
    (finding,) = check(a_site(runtime="sh"))["sanity check"]
    assert (finding.severity, "no runtime" in finding.what) == (PROBLEM, True)
    assert "--rebuild" in finding.remedy
    # where there is none, nothing is wrong with the installation
    (finding,) = check(a_site(runtime="no-such-runtime"))["sanity check"]
    assert finding.severity == PROBLEM
    assert "no container runtime on this node: looked for no-such-runtime on PATH" in finding.what
    assert "--rebuild" not in finding.remedy


def test_images_without_a_shell(space: SoftwareSpace, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    make_installation(space, MODULE, python_version="", venv="", hashes={})
    monkeypatch.setattr("sifmod.installed.verification.has_shell", lambda _image: False)
    (finding,) = check()["sanity check"]
    assert (finding.severity, "has no shell" in finding.what) == (NOTE, True)


def test_eb_is_needed_for_its_own_check(space: SoftwareSpace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = find_installation(space, MODULE)
    with pytest.raises(InstallError, match="has no easyconfig"):
        sanity_check_with_easybuild(item)
    (root / "easybuild").mkdir()
    (root / "easybuild" / "Demo-1.0-x.eb").touch()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InstallError, match="no command eb on PATH"):
        sanity_check_with_easybuild(item)
