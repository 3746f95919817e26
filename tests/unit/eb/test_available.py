import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.programs import write_file

from sifmod.eb.available import (
    beside_easyconfigs,
    easyconfig_path,
    easyconfigs_below,
    easyconfigs_of,
    newer_easyconfigs,
)
from sifmod.eb.robot import easyconfigs_path
from sifmod.errors import EasyconfigError

OURS = "easyblock = 'ContainerImage'\n"


@pytest.fixture
def robot(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose robot path has easyconfigs of the container `Thing`."""
    folder = tmp_path / "robot" / "t" / "Thing"
    folder.mkdir(parents=True)
    for version in ("1.9-rocm-5.6", "1.10-rocm-5.6", "1.10-rocm-6.0", "24.03-ngc", "1.9-rocm-5.5"):
        (folder / f"Thing-{version}.eb").write_text(OURS)
    (folder / "Thing-2.0-rocm-7.0.eb").write_text("easyblock = 'MakeCp'\n")
    return {"EASYBUILD_ROBOT_PATHS": f":{tmp_path / 'robot'}"}


def names(paths: Iterable[Path]) -> list[str]:
    return [path.name for path in paths]


def test_newer_ones_of_the_same_kind_are_found_the_newest_first(robot: dict[str, str]) -> None:
    found = newer_easyconfigs("Thing", "1.9-rocm-5.6", robot)
    assert names(found) == ["Thing-1.10-rocm-6.0.eb", "Thing-1.10-rocm-5.6.eb"]
    assert newer_easyconfigs("Thing", "1.10-rocm-6.0", robot) == ()
    assert newer_easyconfigs("Thing", "2-rocm", robot) == ()
    assert names(newer_easyconfigs("Thing", "23.01-ngc", robot)) == ["Thing-24.03-ngc.eb"]


@pytest.mark.timeout(240)  # reading a FIFO would wait for a writer
def test_fifos_in_a_robot_path_are_no_easyconfigs(tmp_path: Path, robot: dict[str, str]) -> None:
    os.mkfifo(tmp_path / "robot" / "t" / "Thing" / "Thing-3-rocm-7.eb")
    os.mkfifo(tmp_path / "robot" / ".eb-path-index")
    (tmp_path / "robot" / "t" / "Thing" / "Thing-4-rocm-7.eb").symlink_to("/dev/zero")
    found = newer_easyconfigs("Thing", "1.9-rocm-5.6", robot)
    assert names(found) == ["Thing-1.10-rocm-6.0.eb", "Thing-1.10-rocm-5.6.eb"]


def test_all_places_of_a_robot_path_are_searched_once(tmp_path: Path) -> None:
    for place in ("Thing", "."):
        write_file(tmp_path / place / "Thing-1.eb", OURS)
    environ = {"EASYBUILD_ROBOT": str(tmp_path), "EASYBUILD_ROBOT_PATHS": str(tmp_path)}
    assert len(list(easyconfigs_of("Thing", environ))) == 2
    assert names(newer_easyconfigs("Thing", "0.9", environ)) == ["Thing-1.eb"]


def test_the_robot_path_of_a_configuration_file_counts(tmp_path: Path) -> None:
    write_file(tmp_path / "robot" / "Thing-24.03-ngc.eb", OURS)
    write_file(tmp_path / "xdg" / "easybuild.d" / "site.cfg", f"[basic]\nrobot-paths = {tmp_path / 'robot'}:\n")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}
    assert names(newer_easyconfigs("Thing", "23.01-ngc", environ)) == ["Thing-24.03-ngc.eb"]
    assert newer_easyconfigs("Thing", "23.01-ngc", {**environ, "EASYBUILD_ROBOT_PATHS": "/nowhere"}) == ()


def test_easyconfigs_of_sifmod_are_newer_ones_and_named_if_eb_does_not_find_them(tmp_path: Path) -> None:
    version = "2.2.0-rocm-5.6.1-python-3.10-singularity-20240315"
    environ = {"EASYBUILD_ROBOT_PATHS": str(easyconfigs_path())}
    assert "PyTorch-2.7.1-rocm-6.2.4-python-3.12-singularity-20250827.eb" in names(
        newer_easyconfigs("PyTorch", version, environ)
    )
    name = "Python-3.11-demo-singularity.eb"
    with pytest.raises(EasyconfigError, match=rf"EasyBuild's robot path.*{name}.*sifmod env"):
        easyconfig_path(Path(name), {"EASYBUILD_ROBOT_PATHS": str(tmp_path)})


def test_a_path_or_a_robot_path_name(robot: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = easyconfig_path(Path("Thing-24.03-ngc.eb"), robot)
    assert found == tmp_path / "robot" / "t" / "Thing" / "Thing-24.03-ngc.eb"
    (tmp_path / "Thing-24.03-ngc.eb").touch()
    assert easyconfig_path(Path("Thing-24.03-ngc.eb"), robot) == Path("Thing-24.03-ngc.eb")
    assert easyconfig_path(Path("gone/Thing-24.03-ngc.eb"), robot) == Path("gone/Thing-24.03-ngc.eb")
    with pytest.raises(EasyconfigError, match=r"perhaps you meant 'Thing-24\.03-ngc\.eb'"):
        easyconfig_path(Path("Thing-24.3-ngc.eb"), robot)


@pytest.mark.parametrize("name", ["*", "[x]", "..", "a/b", ""])
def test_odd_names_find_nothing(robot: dict[str, str], name: str) -> None:
    assert newer_easyconfigs(name, "0", robot) == ()


def test_easyconfigs_below_a_folder_and_those_in_its_archives(tmp_path: Path) -> None:
    for name in ("t/Thing/Thing-1.eb", "Other-1.eb", "__archive__/t/Thing/Thing-0.eb", ".git/Thing-9.eb", "note.txt"):
        write_file(tmp_path / name, OURS)
    (tmp_path / "GCC-1.eb").write_text("easyblock = 'EB_GCC'\n")
    (tmp_path / "Gone-1.eb").symlink_to("nowhere")
    (tmp_path / ".#Other-1.eb").symlink_to("me@login1.123")
    (tmp_path / "deep" / ("a/" * 70)).mkdir(parents=True)
    found = easyconfigs_below(tmp_path)
    assert names(found.offered) == ["Other-1.eb", "Thing-1.eb"]
    assert names(found.archived) == ["Thing-0.eb"]
    assert found.problems[:1] == (f"'{tmp_path}/Gone-1.eb' can't be read: No such file or directory",)
    assert [problem[-40:] for problem in found.problems[1:]] == ["it has too many folders, each in the other"[-40:]]
    with pytest.raises(EasyconfigError, match="nowhere': name a folder"):
        easyconfigs_below(tmp_path / "nowhere")


def test_a_file_beside_easyconfigs_is_found_in_the_first_folder(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for place in ("two/t/Thing", "one/Thing", "one/t/Other"):
        write_file(tmp_path / place / "USER.md")
    assert beside_easyconfigs("Thing", "USER.md", folders) == tmp_path / "one/Thing/USER.md"
    assert beside_easyconfigs("Nothing", "USER.md", folders) is None
