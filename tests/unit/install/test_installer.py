import errno
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, Callable, Optional

import pytest
from tests.programs import write_file

from sifmod import names
from sifmod.artefact import Artefact
from sifmod.container.bind import Bind
from sifmod.container.naming import Naming
from sifmod.container.spec import Base, ContainerSpec, PythonLayout
from sifmod.errors import ImageError, InstallError, ParameterError, SifmodError
from sifmod.fetch.records import StoredImage
from sifmod.host import command, owners
from sifmod.image import inspection
from sifmod.install.installer import Installer, check_files, refresh_scripts, write_artefact
from sifmod.install.manifest import Manifest, read_manifest
from sifmod.install.modulefiles import record_module_files
from sifmod.install.rollback import forget, remember, remember_renames, undo
from sifmod.render.templates import render
from sifmod.site.settings import Site
from sifmod.usersoftware.tree import PARTS

from ..support import SIF_HEADER, FakeRuntime, Need, Stubs, a_site, a_spec, mode_of, snapshot, split_binds

STAGE = ".sifmod-stage"

Snapshot = dict[str, tuple[int, int, int, bytes]]
# Makes the runtime, the image or the options of an install such that it fails.
Spoil = Callable[[FakeRuntime, Path, dict[str, Any]], None]


@pytest.fixture
def installdir(tmp_path: Path) -> Path:
    return tmp_path / "apps" / "Demo" / "1.0 it's,a:b"


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Set the umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


class Install:
    """Installs a container, as often as it is called; `said` has what it told."""

    def __init__(self, fake: FakeRuntime, image: Path, installdir: Path) -> None:
        self.fake, self.image, self.installdir = fake, image, installdir
        self.said: list[str] = []

    def __call__(
        self,
        *,
        site: Optional[Site] = None,
        source: Optional[Path] = None,
        sha256: str = "",
        tools: Optional[dict[str, str]] = None,
        stored: Optional[StoredImage] = None,
        **changes: object,
    ) -> ContainerSpec:
        """Install, and return what is known of the container then; `changes` replace fields of the spec."""
        spec = Installer(
            spec=a_spec(**{"installdir": str(self.installdir), **changes}),
            site=site or a_site(),
            image=source or self.image,
            expected_sha256=sha256,
            tools=tools or {},
            say=self.said.append,
            warn=self.said.append,
            stored=stored,
        ).install()
        forget(self.installdir)
        return spec


@pytest.fixture
def install(fake: FakeRuntime, image: Path, installdir: Path) -> Install:
    return Install(fake, image, installdir)


def manifest_of(installdir: Path) -> Manifest:
    manifest = read_manifest(installdir)
    assert manifest
    return manifest


def calls_of(fake: FakeRuntime, step: str) -> list[dict[str, Any]]:
    mark = {"venv": "--system-site-packages"}.get(step)
    return [call for call in fake.calls if (mark in call["stdin"] if mark else step in call["argv"])]


def test_a_first_install_writes_scripts_and_manifest(install: Install, installdir: Path, image: Path) -> None:
    spec = install()
    for artefact in render(spec, a_site()):
        assert (installdir / artefact.path).read_text() == artefact.text
        assert os.access(installdir / artefact.path, os.X_OK) == artefact.executable
    assert (installdir / "demo.sif").read_bytes() == image.read_bytes()
    assert (installdir / "user-software/venv/demo/pyvenv.cfg").read_text().startswith("home = /usr/bin/python3\n")
    assert not (installdir / STAGE).exists()
    install()
    files = {str(path.relative_to(installdir)) for path in installdir.rglob("*") if path.is_file() or path.is_symlink()}
    own = {name for name in files if not name.startswith(("user-software/", "user-bin/"))}
    assert own == set(manifest_of(installdir).files)


def test_a_look_alike_of_the_image_is_named(install: Install, installdir: Path, image: Path, tmp_path: Path) -> None:
    """It is where the module takes an image from when its own is gone."""
    image.write_bytes(SIF_HEADER.ljust(4096, b"\0"))
    same, other, changed = (tmp_path / name for name in ("same", "other", "changed"))
    for folder, text in (
        (same, image.read_bytes()),
        (other, SIF_HEADER.ljust(48, b"\0") + b"x" * 4048),
        (changed, SIF_HEADER.ljust(4095, b"\0") + b"x"),
    ):
        folder.mkdir()
        (folder / "demo.sif").write_bytes(text)
    site = a_site(image_repositories=(str(image.parent), *map(str, (same, other, changed)), "/nowhere"))
    install(site=site)
    (warning,) = [line for line in install.said if "looks like" in line]
    assert f"'{changed}/demo.sif'" in warning
    assert manifest_of(installdir).image_id == "00" * 16


def test_the_manifest_records_origin_and_tools(install: Install, installdir: Path, image: Path) -> None:
    install(tools={"easybuild": "5.4.1"})
    manifest = manifest_of(installdir)
    assert (manifest.module, manifest.image, manifest.python_version) == ("Demo/1.0-x", "demo.sif", "3.11")
    assert (manifest.image_source, manifest.image_size) == (str(image), image.stat().st_size)
    assert manifest.tools["easybuild"] == "5.4.1"
    assert manifest.tools["runtime"] == "fake version 1.0"
    assert set(manifest.tools) == {"easybuild", "runtime", "sifmod"}
    assert list(manifest.files) == sorted(manifest.files)
    install(sha256=hashlib.sha256(image.read_bytes()).hexdigest().upper())
    assert (installdir / "demo.sif").exists()


def test_packages_and_version_of_the_python_count(install: Install, installdir: Path, fake: FakeRuntime) -> None:
    fake.answer(packages=[("torch", "2.2.0+rocm5.6"), ("pip", "24.0")])
    install()
    assert (installdir / "runscripts/pip-constraints.txt").read_text() == "torch==2.2.0+rocm5.6\n"
    install(pip_constraints=False)
    assert not (installdir / "runscripts/pip-constraints.txt").exists()
    fake.answer(version="3.12")
    install()
    found = {path.name for path in (installdir / "bin").iterdir()}
    assert {"python", "python3", "python3.12", "pip", "pip3", "pip3.12"} <= found


def test_a_python_of_a_conda_environment_is_the_one_that_makes_the_venv(install: Install, fake: FakeRuntime) -> None:
    install(python=PythonLayout("/opt/conda/envs/x", "/opt/conda", "x"))
    starts = [call["argv"] for call in fake.calls if call["argv"][0] == "exec"]
    assert [words[2] for words in starts] == ["/opt/conda/envs/x/bin/python3"] * 2


def test_without_python_or_venv_no_user_software(install: Install, installdir: Path, fake: FakeRuntime) -> None:
    install(python=None, python_version="", venv="", wrappers=("true",))
    assert [call["argv"] for call in fake.calls] == []
    assert not (installdir / "user-software").exists()
    assert manifest_of(installdir).python_version == ""
    install(venv="")
    assert calls_of(fake, "venv") == []
    assert not (installdir / "user-software").exists()
    install(venv="")
    install()
    assert (installdir / "user-software/venv/demo/pyvenv.cfg").exists()


def test_a_base_without_the_runtime_s_image_is_refused(install: Install, installdir: Path, tools: Stubs) -> None:
    tools("enroot", "echo 4.1.2")
    base = Base("Team/1", "/apps/Team/1", "demo", "3.11", "")
    with pytest.raises(InstallError, match="Team/1 has no image for enroot, the only runtime here: ask its owner"):
        install(site=a_site(runtimes=("enroot",)), bases=(base,), image_mode="central")
    assert not installdir.exists()


def test_requirements_are_installed_with_constraints_binds_and_variables(
    install: Install, installdir: Path, fake: FakeRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("PIP_", "SSL_", "CURL_", "REQUESTS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    here = tmp_path / "here"
    here.mkdir()
    site = a_site(
        binds=(Bind("/site", "/site"),),
        optional_binds=(Bind(str(here), "/here"), Bind(str(tmp_path / "gone"), "/gone")),
        container_env={"A": "site", "B": "site"},
    )
    install(
        site=site,
        binds=(Bind("/own", "/own", "ro"),),
        container_env={"B": "own"},
        pip_requirements=("torchmetrics>=1", "é"),
    )
    (call,) = calls_of(fake, "pip")
    assert call["argv"][2:6] == ["/user-software/venv/demo/bin/python", "-m", "pip", "--disable-pip-version-check"]
    assert call["stdin"] == "torchmetrics>=1\né\n"
    assert call["constraints"] == "torch==2.2.0\n"
    environ = call["env"]
    assert environ["APPTAINERENV_PIP_CONSTRAINT"] == "/runscripts/pip-constraints.txt"
    assert environ["SINGULARITYENV_VIRTUAL_ENV"] == "/user-software/venv/demo"
    assert (environ["APPTAINERENV_A"], environ["APPTAINERENV_B"]) == ("site", "own")
    binds = [(destination, options) for _source, destination, options in split_binds(environ["APPTAINER_BINDPATH"])]
    read_only = [(destination, "ro") for destination in ("/here", "/own", "/runscripts", "/site")]
    assert sorted(binds) == [*read_only, ("/tmp", ""), ("/user-software", ""), ("/var/tmp", "")]
    assert (installdir / "user-software/venv/demo/installed.txt").read_text() == "torchmetrics>=1\né\n"
    install(pip_requirements=("torchmetrics",))
    (call,) = calls_of(fake, "pip")
    assert not Path(call["binds"]["/tmp"]).exists()
    assert call["env"]["APPTAINERENV_PIP_NO_CACHE_DIR"] == "1"


def test_every_step_is_announced(install: Install, image: Path) -> None:
    install(pip_requirements=("torchmetrics",))
    said = "\n".join(install.said)
    assert str(image) in said
    assert "/usr" in said
    assert "/user-software/venv/demo" in said
    assert "torchmetrics" in said


def test_known_problems_are_told_and_returned(install: Install, image: Path, tmp_path: Path) -> None:
    """Of an image whose files can't be read, names and digests are compared; a problem of the node is told too."""
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    entries = {
        "by-name": ('"warning"', 'images = ["dem*.sif"]'),
        "by-driver": ('"problem"', 'images = ["dem*.sif"]\ndrivers = { nvidia = "<550" }'),
        "by-digest": ('"note"', f'digests = ["sha256:{digest}"]'),
        "by-content": ('"warning"', 'packages = { torch = "" }'),
        "of-the-node": ('"problem"', 'runtimes = { fake = "<2" }'),
        "of-others": ('"problem"', 'runtimes = { apptainer = "" }'),
    }
    text = "".join(
        f'[[advisory]]\nid = "{name}"\nseverity = {severity}\ntext = "It fails."\nsource = "https://example.org/{name}"\n'
        f'remedy = "Wait."\nset = {{ WAIT = "1" }}\n[advisory.match]\n{match}\n'
        for name, (severity, match) in entries.items()
    )
    (tmp_path / "ours.toml").write_text(text)
    site = a_site(advisories=(str(tmp_path / "ours.toml"),))
    spec = install(site=site)
    told = [line.partition(":")[0] for line in install.said if line.startswith("advisory")]
    assert told == ["advisory by-name", "advisory by-driver", "advisory by-digest", "advisory of-the-node"]
    assert "advisory by-name: It fails. Wait. See https://example.org/by-name" in install.said
    assert [one.identifier for one in spec.advisories] == ["by-name", "by-digest"]
    assert "WAIT" not in Path(spec.installdir, "runscripts/values.sh").read_text()
    spec = install(site=replace(site, apply_advisories=True))
    told_again = "advisory by-name: It fails. Wait. See https://example.org/by-name; the module does so: WAIT=1"
    assert told_again in install.said
    assert "WAIT" in Path(spec.installdir, "runscripts/values.sh").read_text()


def test_each_question_is_asked_once(install: Install, fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents of an image with a thousand packages take long to read; tools that no advisory names are not asked."""
    inspected: list[Path] = []
    started: list[list[str]] = []
    look, start = inspection.inspect_image, command.CommandGroup.start

    def noted_look(path: Path) -> inspection.Inspection:
        inspected.append(path)
        return look(path)

    def noted_start(self: command.CommandGroup, words: list[str], **options: Any) -> subprocess.Popen[str]:
        started.append(words)
        return start(self, words, **options)

    monkeypatch.setattr(inspection, "inspect_image", noted_look)
    monkeypatch.setattr(command.CommandGroup, "start", noted_start)
    install()
    assert len(inspected) == 1
    assert [words for words in started if words[1:] == ["--version"]] == [[str(fake.path), "--version"]]
    assert not [words for words in started if words[0].endswith("squashfuse")]


# Reinstalling


@pytest.fixture
def earlier(install: Install, installdir: Path, fake: FakeRuntime) -> Snapshot:
    """Install once, let the user add something, and return what is there."""
    install(wrappers=("python", "pip", "oldtool"), sif="old.sif")
    users = write_file(installdir / "user-software" / "venv" / "demo" / "users.py", "the user's own\n")
    users.chmod(0o640)
    os.utime(users, ns=(1, 1_500_000_000_123_456_789))
    os.utime(users.parent, ns=(1, 1_500_000_001_000_000_000))
    (fake.home / "calls.jsonl").unlink()
    return snapshot(installdir)


def users_own(top: Path) -> Snapshot:
    return {name: facts for name, facts in snapshot(top).items() if name.startswith("user-software")}


def test_a_reinstall_removes_old_files(install: Install, installdir: Path, earlier: Snapshot, image: Path) -> None:
    assert {"bin/oldtool", "old.sif"} <= set(earlier)
    image.write_bytes(SIF_HEADER + b"another image")
    spec = install(wrappers=("python", "newtool"), sif="new.sif")
    assert not (installdir / "bin/oldtool").exists()
    assert not (installdir / "bin/pip3.11").exists()
    assert (installdir / "bin/newtool").exists()
    assert (installdir / "new.sif").read_bytes() == image.read_bytes()
    assert set(manifest_of(installdir).files) >= {str(artefact.path) for artefact in render(spec, a_site())}
    assert not (installdir / STAGE).exists()


@pytest.fixture
def packed(installdir: Path, earlier: Snapshot) -> Path:
    """Pack by hand: the file has nothing of a SquashFS file, because nothing may look into it."""
    assert "user-software/venv/demo/users.py" in earlier
    path = installdir / names.USER_SOFTWARE_PACKED
    path.write_bytes(b"hsqs" + os.urandom(1000))
    path.chmod(0o440)
    os.utime(path, ns=(1, 1_400_000_000_123_456_789))
    return path


@pytest.mark.usefixtures("packed")
def test_a_reinstall_keeps_packed_user_software(install: Install, installdir: Path, fake: FakeRuntime) -> None:
    shutil.rmtree(installdir / "user-software")
    before = users_own(installdir)
    install()
    assert users_own(installdir) == before
    assert list(before) == ["user-software.squashfs"]
    assert not (installdir / "user-software").exists()
    assert calls_of(fake, "venv") == []


def test_a_reinstall_keeps_both_copies_and_the_mark(install: Install, installdir: Path, packed: Path) -> None:
    (installdir / names.USER_SOFTWARE_UNPACKED).write_text("mark\n")
    before = users_own(installdir)
    install()
    assert users_own(installdir) == before
    assert packed.exists()


@pytest.mark.usefixtures("earlier")
def test_user_software_behind_a_lost_link_is_kept(install: Install, installdir: Path, tmp_path: Path) -> None:
    link = installdir / "user-software"
    link.rename(tmp_path / "scratch")
    link.symlink_to(tmp_path / "scratch")
    install()
    (tmp_path / "scratch").rename(tmp_path / "elsewhere")
    before = snapshot(installdir)
    with pytest.raises(InstallError, match="scratch', which does not exist: is its file system mounted here"):
        install()
    assert snapshot(installdir) == before


@pytest.mark.usefixtures("earlier")
def test_a_packing_reinstall_leaves_the_user_s_directory(install: Install, installdir: Path, need: Need) -> None:
    need("mksquashfs")
    before = users_own(installdir)
    install(pack_user_software=True)
    after = users_own(installdir)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.usefixtures("earlier")
def test_an_old_stage_goes_and_unknown_files_stay(install: Install, installdir: Path) -> None:
    write_file(installdir / "easybuild" / "log", "EasyBuild's own")
    (installdir / "bin" / "mine").write_text("the user's")
    install()
    assert (installdir / "easybuild" / "log").read_text() == "EasyBuild's own"
    assert (installdir / "bin" / "mine").read_text() == "the user's"
    write_file(installdir / STAGE / "bin" / "half", "half")
    (installdir / STAGE / "old.sif").write_text("half")
    install()
    assert not (installdir / STAGE).exists()
    assert not (installdir / "bin" / "half").exists()
    other = installdir / "user-software" / "venv" / "alt"
    write_file(other / "pyvenv.cfg", "version = 2.7.18\n")
    install()
    assert (other / "pyvenv.cfg").exists()


def test_the_same_install_again_changes_no_byte(install: Install, installdir: Path, earlier: Snapshot) -> None:
    install(wrappers=("python", "pip", "oldtool"), sif="old.sif")
    after = snapshot(installdir)
    assert {name: (*facts[:2], facts[3]) for name, facts in after.items()} == {
        name: (*facts[:2], facts[3]) for name, facts in earlier.items()
    }


# Failing


def copy_fails(_fake: FakeRuntime, image: Path, options: dict[str, Any]) -> None:
    options["source"] = image.with_name("gone.sif")


def copy_is_a_folder(_fake: FakeRuntime, image: Path, options: dict[str, Any]) -> None:
    options["source"] = image.parent


def checksum_is_wrong(_fake: FakeRuntime, _image: Path, options: dict[str, Any]) -> None:
    options["sha256"] = "ab" * 32


def image_is_no_sif(_fake: FakeRuntime, image: Path, _options: dict[str, Any]) -> None:
    image.write_bytes(b"hsqs" + bytes(50_000))


def probe_fails(fake: FakeRuntime, _image: Path, _options: dict[str, Any]) -> None:
    fake.answer(fail="probe")


def runtime_is_gone(fake: FakeRuntime, _image: Path, options: dict[str, Any]) -> None:
    fake.path.unlink()
    options["site"] = a_site(runtime="no-such-runtime")


def venv_fails(fake: FakeRuntime, _image: Path, _options: dict[str, Any]) -> None:
    fake.answer(fail="venv")


def pip_fails(fake: FakeRuntime, _image: Path, options: dict[str, Any]) -> None:
    fake.answer(fail="pip")
    options["pip_requirements"] = ("torchmetrics",)


EARLY = [copy_fails, copy_is_a_folder, checksum_is_wrong, image_is_no_sif, probe_fails, runtime_is_gone]


@pytest.mark.parametrize("fails", EARLY)
def test_a_failure_leaves_an_earlier_installation_as_it_was(
    install: Install, installdir: Path, earlier: Snapshot, fake: FakeRuntime, image: Path, fails: Spoil
) -> None:
    options: dict[str, Any] = {}
    fails(fake, image, options)
    with pytest.raises(SifmodError):
        install(wrappers=("python", "newtool"), **options)
    assert snapshot(installdir) == earlier


@pytest.mark.parametrize("fails", [venv_fails, pip_fails])
def test_failures_of_a_venv(install: Install, installdir: Path, fake: FakeRuntime, image: Path, fails: Spoil) -> None:
    install(venv="")
    before = snapshot(installdir)
    options: dict[str, Any] = {}
    fails(fake, image, options)
    with pytest.raises(InstallError, match="err 40"):
        install(**options)
    assert snapshot(installdir) == before
    fake.answer()
    install()
    assert (installdir / "user-software/venv/demo/pyvenv.cfg").exists()
    assert not (installdir / "user-software/venv/half").exists()


def full(code: int, *_of_fallocate: int) -> None:
    raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_when_ensurepip_says_nothing(
    install: Install, installdir: Path, fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fake.answer(fail="venv")
    monkeypatch.setattr(os, "posix_fallocate", partial(full, code))
    with pytest.raises(InstallError) as refused:
        install()
    said = f"making the virtual environment in '{installdir}' failed: {os.strerror(code)} (free: "
    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith("Make space there, or install elsewhere: eb --installpath")
    assert not installdir.exists()


def test_no_inodes_left_is_named(install: Install, fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    result = SimpleNamespace(f_blocks=10**9, f_bfree=10**6, f_bavail=10**6, f_frsize=1000, f_files=150, f_favail=0)
    fake.answer(fail="venv")
    monkeypatch.setattr(os, "posix_fallocate", partial(full, errno.ENOSPC))
    monkeypatch.setattr(os, "statvfs", lambda _path: result)
    with pytest.raises(InstallError, match=r"No space left on device \(free: 1 GB, 0 inodes\)\. Make space"):
        install()


@pytest.mark.usefixtures("earlier")
def test_a_damaged_manifest_stops_an_install_and_a_refresh(install: Install, installdir: Path) -> None:
    (installdir / names.MANIFEST).write_text("{")
    before = snapshot(installdir)
    with pytest.raises(InstallError, match="move it away and reinstall"):
        install(wrappers=("newtool",))
    assert snapshot(installdir) == before
    with pytest.raises(InstallError, match="move it away and reinstall"):
        refresh_scripts(a_spec(installdir=str(installdir)), a_site(master_suffix="-ib"))
    assert snapshot(installdir) == before


@pytest.mark.parametrize("fails", [*EARLY, venv_fails, pip_fails])
def test_a_failed_install(install: Install, installdir: Path, fake: FakeRuntime, image: Path, fails: Spoil) -> None:
    options: dict[str, Any] = {}
    fails(fake, image, options)
    with pytest.raises(SifmodError):
        install(**options)
    assert not installdir.exists()


@pytest.mark.usefixtures("fake")
def test_an_interruption_leaves_no_stage(installdir: Path, earlier: Snapshot, image: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    spec = a_spec(installdir=str(installdir))
    with pytest.raises(KeyboardInterrupt):
        Installer(spec, a_site(), image, "", {}, interrupt, interrupt).install()
    assert snapshot(installdir) == earlier


def test_a_wrong_checksum_names_the_image_both_sums_and_the_remedy(install: Install, image: Path) -> None:
    with pytest.raises(ImageError) as caught:
        install(sha256="ab" * 32)
    message = str(caught.value)
    assert f"'{image}'" in message
    assert hashlib.sha256(image.read_bytes()).hexdigest() in message
    assert "ab" * 32 in message
    assert "checksums" in message
    assert "fetch the image again, or correct the easyconfig" in message


def test_a_failed_pip_names_the_command_and_its_last_lines(install: Install, fake: FakeRuntime) -> None:
    fake.answer(fail="pip", status=3)
    with pytest.raises(InstallError) as caught:
        install(pip_requirements=("torchmetrics",))
    message = str(caught.value)
    assert "-m pip" in message
    assert "exit status 3" in message
    assert message.endswith("err 39\nerr 40")


def test_a_place_that_can_not_be_written_to_is_named(install: Install, installdir: Path) -> None:
    write_file(installdir.parent, "a file where a folder must be")
    with pytest.raises(InstallError) as caught:
        install()
    assert f"'{installdir}'" in str(caught.value)
    assert "Not a directory" in str(caught.value)


def test_an_installation_that_can_not_be_put_in_place_is_named(install: Install, installdir: Path) -> None:
    write_file(installdir / "bin", "a file where a folder must be")
    with pytest.raises(InstallError, match=r"moving .* into place failed: File exists") as caught:
        install()
    assert f"'{installdir}/bin" in str(caught.value)
    assert not (installdir / STAGE).exists()


# Packing at the end of the install


@pytest.mark.usefixtures("packed")
def test_what_is_packed_already_is_not_packed_again(install: Install, installdir: Path) -> None:
    before = users_own(installdir)
    install(pack_user_software=True)
    assert users_own(installdir) == before


def test_a_failed_packing_keeps_the_files(install: Install, installdir: Path, fake: FakeRuntime, need: Need) -> None:
    need("mksquashfs")
    fake.answer(fail="compare")
    with pytest.raises(InstallError) as caught:
        install(pack_user_software=True)
    assert "packing the user software failed with exit status 6" in str(caught.value)
    assert "err 40" in str(caught.value)
    assert (installdir / "user-software/venv/demo/pyvenv.cfg").exists()
    assert not (installdir / names.USER_SOFTWARE_PACKED).exists()


# Modes


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o077])
def test_the_umask_sets_every_mode(install: Install, installdir: Path, umask: Callable[[int], int], mask: int) -> None:
    umask(mask)
    spec = install()
    executables = {str(artefact.path) for artefact in render(spec, a_site()) if artefact.executable}
    assert "bin/python" in executables
    assert "share/container.sh" not in executables
    for path in [installdir, *installdir.rglob("*")]:
        name = str(path.relative_to(installdir))
        if path.is_symlink():
            continue
        if path.is_dir() or name in executables or name == "demo.sif" or name.startswith("bin/"):
            assert mode_of(path) == 0o777 & ~mask, name
        else:
            assert mode_of(path) == 0o666 & ~mask, name


@pytest.mark.parametrize(("first", "second"), [(0o077, 0o002), (0o002, 0o077), (0o022, 0o027)])
def test_a_reinstall_gives_the_files_the_modes_of_its_own_umask(
    install: Install, installdir: Path, umask: Callable[[int], int], first: int, second: int
) -> None:
    umask(first)
    install()
    umask(second)
    install()
    assert mode_of(installdir / "bin" / "python") == 0o777 & ~second
    assert mode_of(installdir / names.MANIFEST) == 0o666 & ~second
    assert mode_of(installdir / "user-software" / "venv" / "demo" / "pyvenv.cfg") == 0o666 & ~first


# Refreshing the scripts


@pytest.mark.usefixtures("install")
def test_a_refresh_brings_today_s_site_into_the_scripts_alone(installdir: Path, earlier: Snapshot) -> None:
    site = a_site(runtime="today's", master_suffix="-ib")
    before = manifest_of(installdir)
    refresh_scripts(a_spec(installdir=str(installdir), wrappers=("python", "pip", "oldtool"), python_version=""), site)
    forget(installdir)
    after = snapshot(installdir)
    changed = {name for name in set(earlier) | set(after) if earlier.get(name) != after.get(name)}
    assert changed == {"runscripts/values.sh", "runscripts/more-values.sh", names.MANIFEST}
    manifest = manifest_of(installdir)
    assert replace(manifest, hashes={}) == replace(before, hashes={})
    written = hashlib.sha256((installdir / "runscripts/values.sh").read_bytes()).hexdigest()
    assert manifest.hashes["runscripts/values.sh"] == written
    assert "today" in (installdir / "runscripts/values.sh").read_text()
    assert "-ib" in (installdir / "runscripts/get-master").read_text()
    assert not (installdir / STAGE).exists()


def naming(folder: Path, *files: str) -> Naming:
    return Naming("Demo/.1", "Core/Demo/.1", "Demo/1", tuple(str(folder / name) for name in files))


def test_easybuild_s_names_and_module_files_are_recorded(install: Install, installdir: Path, tmp_path: Path) -> None:
    install(naming=naming(tmp_path, "old.lua", "gone.lua"))
    manifest = manifest_of(installdir)
    assert (manifest.module, manifest.name, manifest.version) == ("Demo/.1", "Demo", "1.0-x")
    assert (manifest.full_module, manifest.install_subdir) == ("Core/Demo/.1", "Demo/1")
    for name in ("old.lua", "gone.lua"):
        (tmp_path / name).touch()
    record_module_files(installdir)
    empty = hashlib.sha256(b"").hexdigest()
    (tmp_path / "gone.lua").unlink()
    install(naming=naming(tmp_path, "new.lua"))
    assert manifest_of(installdir).module_files == {f"{tmp_path}/old.lua": empty, f"{tmp_path}/new.lua": ""}


@pytest.mark.parametrize("end", [undo, forget])
def test_a_refreshed_module(install: Install, installdir: Path, tmp_path: Path, end: Callable[[Path], None]) -> None:
    """Killed anywhere, `verify` compares the module file with its own hash or with none."""
    spec = install(naming=naming(tmp_path, "1.lua", "link.lua"))
    file = write_file(tmp_path / "1.lua", "old")
    (tmp_path / "link.lua").symlink_to(file)
    record_module_files(installdir)
    before = manifest_of(installdir).module_files
    assert before == {str(file): hashlib.sha256(b"old").hexdigest(), f"{tmp_path}/link.lua": ""}
    refresh_scripts(spec, a_site())
    assert set(manifest_of(installdir).module_files.values()) == {""}
    end(installdir)
    assert (manifest_of(installdir).module_files == before) == (end == undo)


@pytest.mark.usefixtures("earlier")
def test_a_refresh_keeps_the_modes_of_scripts(installdir: Path, umask: Callable[[int], int]) -> None:
    umask(0o027)
    refresh_scripts(a_spec(installdir=str(installdir)), a_site(master_suffix="-ib"))
    assert mode_of(installdir / "runscripts/get-master") & 0o111
    assert not mode_of(installdir / "share/container.sh") & 0o111


def test_a_refresh_brings_back_a_deleted_script_alone(installdir: Path, install: Install) -> None:
    refresh_scripts(a_spec(installdir=str(installdir)), a_site())
    assert not installdir.exists()
    spec = install()
    text = (installdir / "bin/python3.11").read_text()
    (installdir / "bin/python3.11").unlink()
    refresh_scripts(spec, a_site())
    assert (installdir / "bin/python3.11").read_text() == text


@pytest.mark.usefixtures("earlier")
def test_the_image_before_stays_for_one_generation(install: Install, installdir: Path) -> None:
    def images() -> list[str]:
        return sorted(path.name for path in installdir.glob("*.sif"))

    install(sif="new.sif")
    assert (images(), manifest_of(installdir).old_images) == (["new.sif", "old.sif"], ("old.sif",))
    install(sif="newer.sif")
    assert (images(), manifest_of(installdir).old_images) == (["new.sif", "newer.sif"], ("new.sif",))
    install(sif="new.sif")
    assert (images(), manifest_of(installdir).old_images) == (["new.sif", "newer.sif"], ("newer.sif",))
    install(sif="new.sif")
    assert (images(), manifest_of(installdir).old_images) == (["new.sif"], ())


@pytest.mark.usefixtures("earlier")
def test_images_in_use(install: Install, installdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs in between were stopped before they had written a module file."""
    named = naming(tmp_path, "1.lua", "link.lua")
    full = shutil.disk_usage(installdir)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    install(sif="new.sif", naming=named)
    install(sif="new.sif", naming=named)
    assert manifest_of(installdir).old_images == ("old.sif",)
    install(sif="newer.sif", naming=named)
    assert manifest_of(installdir).old_images == ("old.sif", "new.sif")
    (tmp_path / "1.lua").write_text("a module")
    (tmp_path / "link.lua").symlink_to("1.lua")
    record_module_files(installdir)
    install(sif="newer.sif", naming=named)
    assert manifest_of(installdir).old_images == ()
    assert [path.name for path in installdir.glob("*.sif")] == ["newer.sif"]


@pytest.mark.usefixtures("earlier")
def test_an_old_image_goes_for_its_space(install: Install, installdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(sif="new.sif")
    full = shutil.disk_usage(installdir)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    install(sif="newer.sif")
    assert "removing old.sif: the new image needs the space" in install.said
    assert manifest_of(installdir).old_images == ("new.sif",)


@pytest.mark.usefixtures("install")
def test_a_refresh_is_undone_when_the_module_can_not_be_written(installdir: Path, earlier: Snapshot) -> None:
    refresh_scripts(a_spec(installdir=str(installdir)), a_site(master_suffix="-ib"))
    assert snapshot(installdir) != earlier
    undo(installdir)
    assert snapshot(installdir) == earlier


# Writing one artefact


def test_an_artefact_is_written_as_utf_8_with_its_folders_or_named(tmp_path: Path) -> None:
    write_artefact(tmp_path, Artefact(PurePosixPath("a/b/é.sh"), "é☃\n", executable=True))
    assert (tmp_path / "a/b/é.sh").read_bytes() == "é☃\n".encode()
    (tmp_path / "bin").write_text("")
    with pytest.raises(InstallError) as caught:
        write_artefact(tmp_path, Artefact(PurePosixPath("bin/x"), "text"))
    assert f"'{tmp_path}/bin/x'" in str(caught.value)
    assert "exists" in str(caught.value) or "Not a directory" in str(caught.value)


@pytest.mark.parametrize("target", ["/nowhere", "..", "victim"])
def test_an_artefact_is_not_written_through_a_link(tmp_path: Path, target: str) -> None:
    top = tmp_path / "top"
    (top / "victim").mkdir(parents=True)
    (top / "bin").symlink_to(target)
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        write_artefact(top, Artefact(PurePosixPath("bin/tool"), "text"))
    (tmp_path / "file").write_text("precious")
    (top / "tool").symlink_to(tmp_path / "file")
    with pytest.raises(InstallError, match="symbolic links"):
        write_artefact(top, Artefact(PurePosixPath("tool"), "text"))
    assert (tmp_path / "file").read_text() == "precious"
    assert not list((top / "victim").iterdir())


@pytest.mark.parametrize("module_only", [False, True])
def test_a_linked_folder_is_refused(install: Install, installdir: Path, tmp_path: Path, module_only: bool) -> None:
    spec = install()
    (installdir / "bin").rename(tmp_path / "elsewhere")
    (installdir / "bin").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "python").write_text("changed")
    before = snapshot(tmp_path)
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        refresh_scripts(spec, a_site()) if module_only else install()
    assert snapshot(tmp_path / "elsewhere") == {
        name.partition("/")[2]: value for name, value in before.items() if name.startswith("elsewhere/")
    }


def test_an_image_s_answer_reaches_no_other_module(install: Install, installdir: Path, fake: FakeRuntime) -> None:
    """The names of wrappers have the version of the image's Python, and their first lines have their names."""
    tool = write_file(installdir.parent.parent / "Other" / "1.0" / "bin" / "tool", "precious")
    fake.answer(version=".x\necho CODE\n#/../../../../Other/1.0/bin/tool")
    with pytest.raises(ImageError, match="its version is"):
        install()
    assert tool.read_text() == "precious"
    assert not installdir.exists()


@pytest.mark.usefixtures("earlier")
@pytest.mark.parametrize("name", ["../../../victim-file", "{tmp_path}/victim-file"])
def test_files_outside_are_not_removed(install: Install, installdir: Path, tmp_path: Path, name: str) -> None:
    victim = write_file(tmp_path / "victim-file", "precious")
    manifest = json.loads((installdir / names.MANIFEST).read_text())
    manifest["files"].append(name.format(tmp_path=tmp_path))
    (installdir / names.MANIFEST).write_text(json.dumps(manifest))
    before = snapshot(installdir)
    with pytest.raises(InstallError, match="victim-file"):
        install()
    assert victim.read_text() == "precious"
    assert snapshot(installdir) == before


@pytest.mark.usefixtures("earlier")
@pytest.mark.parametrize("module_only", [False, True])
def test_an_installation_of_a_newer_sifmod_is_left_alone(install: Install, installdir: Path, module_only: bool) -> None:
    manifest = json.loads((installdir / names.MANIFEST).read_text())
    (installdir / names.MANIFEST).write_text(json.dumps({**manifest, "format": 3}))
    before = snapshot(installdir)
    with pytest.raises(InstallError, match="written by a newer sifmod"):
        refresh_scripts(a_spec(installdir=str(installdir)), a_site()) if module_only else install()
    assert snapshot(installdir) == before


# The way back


def test_a_reinstall_is_rolled_back(earlier: Snapshot, installdir: Path, image: Path, fake: FakeRuntime) -> None:
    Installer(
        spec=a_spec(installdir=str(installdir), wrappers=("python", "newtool")),
        site=a_site(),
        image=image,
        expected_sha256="",
        tools={},
        say=lambda _line: None,
        warn=lambda _line: None,
    ).install()
    assert (installdir / "bin" / "newtool").exists()
    undo(installdir)
    assert snapshot(installdir) == earlier
    assert fake.calls


@pytest.mark.usefixtures("earlier")
def test_sourced_files_come_first_and_the_manifest_last(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run tells by the manifest whether a killed one was complete."""
    placed: list[Path] = []
    real = Path.replace

    def replace_path(path: Path, target: Path) -> Path:
        placed.append(path)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace_path)
    install()
    others = [str(path).partition(f"{STAGE}/")[2] for path in placed if STAGE in path.parts]
    assert others[-2:] == ["share/container.sh", names.MANIFEST]
    assert others.index(names.MANIFEST) == len(others) - 1
    assert "share/paths.sh" in others


def test_a_run_that_was_killed_before_it_set_anything_aside_takes_nothing_away(installdir: Path) -> None:
    (installdir / "user-software").mkdir(parents=True)
    remember(installdir, [], manifest="")
    remember_renames(installdir, [(installdir / "user-software", installdir / "user-software-python3.10")], PARTS)
    (installdir / "user-software.squashfs").touch()
    undo(installdir)
    assert sorted(path.name for path in installdir.iterdir()) == ["user-software", "user-software.squashfs"]


def test_undo_without_a_reinstall_changes_nothing(earlier: Snapshot, installdir: Path) -> None:
    undo(installdir)
    assert snapshot(installdir) == earlier


@pytest.mark.usefixtures("earlier")
def test_another_venv_is_refused_after_a_time_without_any(install: Install, installdir: Path) -> None:
    install(venv="")
    before = snapshot(installdir)
    with pytest.raises(ParameterError, match=r"'venv' = 'other'.*has the virtual environment 'demo'"):
        install(venv="other")
    assert snapshot(installdir) == before
    install(venv="demo")
    assert manifest_of(installdir).venv == "demo"


@pytest.mark.usefixtures("earlier")
@pytest.mark.parametrize("lost", ["venv", "venv/demo"])
def test_user_software_without_its_venv_is_refused(install: Install, installdir: Path, lost: str) -> None:
    """Somebody has removed it, or it lies on a file system that is not mounted."""
    shutil.rmtree(installdir / "user-software" / lost)
    (installdir / "user-software" / "notes.txt").touch()
    before = snapshot(installdir)
    with pytest.raises(InstallError, match="has no virtual environment 'demo'"):
        install()
    assert snapshot(installdir) == before


def a_record(image: Path) -> StoredImage:
    content = image.read_bytes()
    return StoredImage("docker://demo", "", hashlib.sha256(content).hexdigest(), len(content), "fake")


@pytest.mark.parametrize("mode", ["copy", "link", "central"])
def test_a_stored_image_is_compared_with_its_record(install: Install, image: Path, installdir: Path, mode: str) -> None:
    stored = a_record(image)
    install(stored=stored, image_mode=mode)
    assert manifest_of(installdir).image_sha256 == stored.sha256
    image.write_bytes(SIF_HEADER[:-1] + b"x")  # of the same size
    with pytest.raises(ImageError, match=f"but {stored.sha256} was recorded .* --force-download=sources"):
        install(stored=stored, image_mode=mode)
    with pytest.raises(ImageError, match="checksums in the easyconfig"):
        install(stored=stored, sha256=stored.sha256, image_mode=mode)


def test_a_hard_link_is_noted(install: Install, image: Path, installdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_is_own_group", lambda _number: False)
    install(image_mode="link")
    if not (installdir / "demo.sif").samefile(image):
        pytest.skip("this file system makes reflinks")
    assert manifest_of(installdir).image_sha256 == a_record(image).sha256
    assert "may change the image" not in "\n".join(install.said)
    image.chmod(0o664)
    install(image_mode="link")
    assert f"may change the image '{image}'" in "\n".join(install.said)


def test_the_installed_signature_counts(install: Install, image: Path, installdir: Path, fake: FakeRuntime) -> None:
    """Another file may get the name of the source between the copy and the look at the signature."""
    install(site=a_site(signatures="required"))
    (verified,) = [call["argv"][-1] for call in fake.calls if call["argv"][0] == "verify"]
    assert verified == f"{installdir}/{STAGE}/demo.sif"
    assert verified != str(image)


def test_files_that_are_missing_after_an_install_are_named(tmp_path: Path) -> None:
    for number in range(3):
        write_artefact(tmp_path, Artefact(PurePosixPath("bin", f"command{number}"), "", True))
    check_files(tmp_path, [f"bin/command{number}" for number in range(3)])
    (tmp_path / "bin/command2").unlink()
    (tmp_path / "bin/command2").mkdir()
    with pytest.raises(InstallError, match=r"lacks 2 files, the first of them 'bin/command2': .*eb --rebuild"):
        check_files(tmp_path, [f"bin/command{number}" for number in range(4)])
