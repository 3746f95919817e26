"""enroot where no runtime for SIFs is: each call is checked against its grammar, and starts nothing."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standins import StandIns, write_stand_ins

from sifmod.container.bind import Bind
from sifmod.errors import ImageError, InstallError, RuntimeMissingError
from sifmod.fetch.signature import check_signature
from sifmod.host.enroot import Enroot, exports
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.install.starter import find_install_runtime

from ..support import SQUASHFS, Stubs, a_site

BOTH = a_site(runtimes=("apptainer", "enroot"))


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return write_stand_ins(tmp_path / "stand-ins")


@pytest.fixture
def enroot(stand_ins: StandIns) -> Enroot:
    return Enroot(stand_ins.folder / "enroot", "#!/bin/sh\n")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "demo.sqsh"
    path.write_bytes(SQUASHFS)
    return path


def ran(stand_ins: StandIns, enroot: Enroot, image: Path, *command: str, **options: Any) -> dict[str, Any]:
    """Run a command and return how enroot was called."""
    enroot.run(image, command or ["true"], **options)
    call: dict[str, Any] = stand_ins.calls[-1]
    return call


def test_a_command_is_passed_word_for_word(stand_ins: StandIns, enroot: Enroot, image: Path) -> None:
    words = ["echo", "a b", "", "$(touch x)", "it's", '"', "-n", "é☃", "*"]
    called = ran(stand_ins, enroot, image, *words)["words"]
    assert called == [str(image), "/.sifmod/with-environment", "--in", "/", *words]


def test_no_file_of_the_user(stand_ins: StandIns, enroot: Enroot, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINGULARITY_BIND", "/home")
    monkeypatch.setenv("ENROOT_MOUNT_HOME", "yes")
    monkeypatch.setenv("ENROOT_REMAP_ROOT", "yes")
    call = ran(stand_ins, enroot, image)
    (script,) = call["mounts"]
    assert (script["target"], script["flags"]) == ("/.sifmod", ["rbind", "ro", "x-create=auto"])
    assert set(call["env"]) == {"SHELL", "__SIFMOD_QUOTED"}
    assert [call["environ"][f"ENROOT_{name}"] for name in ("MOUNT_HOME", "REMAP_ROOT")] == ["no", "no"]
    assert "SINGULARITY_BIND" not in call["environ"]


def test_bind_paths_are_mounts(stand_ins: StandIns, enroot: Enroot, image: Path) -> None:
    binds = [Bind("/usr", "/b"), Bind("/usr", "/c", "ro")]
    _, second, third = ran(stand_ins, enroot, image, binds=binds)["mounts"]
    assert (second["source"], second["target"], second["flags"]) == ("/usr", "/b", [])
    assert (third["target"], third["flags"]) == ("/c", ["rbind", "ro", "x-create=auto"])


@pytest.mark.parametrize("path", ["/a b", "/a:b", "/a\tb", "/a\\b"])
def test_a_path_enroot_can_not_mount_is_refused(stand_ins: StandIns, enroot: Enroot, image: Path, path: str) -> None:
    for bind in (Bind(path, "/b"), Bind("/b", path)):
        with pytest.raises(InstallError, match="enroot can't mount '"):
            enroot.run(image, ["true"], binds=[bind])
    with pytest.raises(InstallError, match=r"the file system in '/x.squashfs': install on a node with Apptainer"):
        enroot.run(image, ["true"], binds=[Bind("/x.squashfs", "/b", "ro,image-src=/")])
    assert stand_ins.calls == []


VALUES = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), VALUES))
def test_variables_arrive_as_they_are(env: dict[str, str]) -> None:
    script = "sifmod_newline='\n'\neval \"$1\"; exec env -0"
    text = exports(env)
    assert "\n" not in text
    done = subprocess.run(["/bin/sh", "-c", script, "sh", text], env={}, capture_output=True, check=True)
    shown = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0")[:-1])
    assert {name[len("SINGULARITYENV_") :]: value for name, value in shown.items() if name.startswith("SING")} == env


def test_standard_input_and_last_lines_of_a_failure(stand_ins: StandIns, enroot: Enroot, image: Path) -> None:
    stand_ins.then("#!/bin/sh\nexec cat\n")
    assert enroot.run(image, ["cat"], stdin="é\n\n") == "é\n\n"
    stand_ins.then("#!/bin/sh\necho why >&2\nexit 7\n")
    with pytest.raises(InstallError, match=r"in the image 'demo.sqsh' failed with exit status 7; its last lines: why"):
        enroot.run(image, ["true"])


def test_its_version_names_it(enroot: Enroot) -> None:
    assert enroot.version == "enroot version 4.1.2"
    assert (enroot.release.name, enroot.release.number) == ("enroot", "4.1.2")
    assert makes_user_namespaces(enroot)


@pytest.mark.parametrize(
    ("runtimes", "commands", "found"),
    [
        (("apptainer", "enroot"), ("singularity", "enroot"), "singularity"),
        (("enroot", "apptainer"), ("singularity", "enroot"), "singularity"),
        (("enroot",), ("enroot",), "enroot"),
        ((), ("enroot",), ""),
        (("enroot",), (), ""),
    ],
)
def test_enroot_is_used_alone(tools: Stubs, runtimes: tuple[str, ...], commands: tuple[str, ...], found: str) -> None:
    for name in commands:
        tools(name, "true")
    site = a_site(runtimes=runtimes)
    if not found:
        with pytest.raises(RuntimeMissingError, match="no container runtime on this node"):
            find_install_runtime(site)
        return
    runtime = find_install_runtime(site)
    assert runtime.path.name == found
    assert runtime.starts_sifs == (found != "enroot")
    if isinstance(runtime, Enroot):
        assert "/.singularity.d/env" in runtime.with_environment


def test_signatures_need_another_runtime(enroot: Enroot, image: Path) -> None:
    check_signature(enroot, image, BOTH, source=image)
    with pytest.raises(ImageError, match="and enroot verifies no signatures: install on a node with Apptainer"):
        check_signature(enroot, image, a_site(signatures="required"), source=image)
