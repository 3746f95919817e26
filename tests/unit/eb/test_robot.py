import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Callable, Optional

import pytest
from packaging.requirements import Requirement
from tests.programs import ran, write_file

import sifmod
from sifmod.eb import robot
from sifmod.eb.robot import SHELLS, easyblock_path, easybuild_settings, easyconfigs_path
from sifmod.errors import InstallError

from ..support import Need

NAMES = ("EASYBUILD_INCLUDE_EASYBLOCKS", "EASYBUILD_ROBOT_PATHS", "SIFMOD_PYTHONPATH")
SHOW = f"import os, json; print(json.dumps({{name: os.environ.get(name) for name in {NAMES!r}}}))"

# The name of a shell, and the path of its program.
Shell = tuple[str, str]

# How each shell is told to read what `sifmod env` prints, as its help says.
READ = {"bash": 'eval "$(cat {})"', "csh": 'eval "`cat {}`"', "fish": "cat {} | source"}


def after(shell: str, command: str, settings: str, environ: Optional[Mapping[str, str]] = None) -> dict[str, str]:
    """Return what the variables are in a shell that has read the settings."""
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in [sys.executable, "-IS", "-c", SHOW])
    with tempfile.TemporaryDirectory() as home:
        printed = Path(home, "printed")
        printed.write_text(settings)
        done = ran(
            [command, *(["-f"] if shell == "csh" else []), "-c", f"{READ[shell].format(printed)}\n{words}"],
            env={"PATH": os.environ["PATH"], "HOME": home, **(environ or {})},
            check=True,
        )
    assert done.stderr == ""
    variables: dict[str, str] = json.loads(done.stdout)
    return variables


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, need: Need) -> Shell:
    return request.param, need(request.param)


def test_the_easyblock_and_the_easyconfigs_are_found_that_of_sifmod_too() -> None:
    assert easyblock_path().name == "containerimage.py"
    assert easyblock_path().is_file()
    assert list(easyconfigs_path().glob("p/PyTorch/*.eb"))
    assert f"version = '{sifmod.__version__}'" in own_easyconfig()


def test_each_shell_reads_the_settings(shell: Shell) -> None:
    variables = after(*shell, easybuild_settings(shell[0], {}))
    assert variables["EASYBUILD_INCLUDE_EASYBLOCKS"] == str(easyblock_path())
    assert variables["EASYBUILD_ROBOT_PATHS"] == f":{easyconfigs_path()}"
    assert variables["SIFMOD_PYTHONPATH"].split(":")[0] == str(robot.__file__).rpartition("/sifmod/")[0]


UNUSUAL = {
    "EASYBUILD_INCLUDE_EASYBLOCKS": r"/a  b/x.py,/it's/$HOME/`id`/y*.py,/back\slash/\'q\\.py",
    "EASYBUILD_ROBOT_PATHS": '/a  b:/it\'s "q":/wow!/!!/!$',
}


def test_each_shell_keeps_unusual_values(shell: Shell) -> None:
    variables = after(*shell, easybuild_settings(shell[0], UNUSUAL))
    for name in ("EASYBUILD_INCLUDE_EASYBLOCKS", "EASYBUILD_ROBOT_PATHS"):
        assert variables[name].endswith(UNUSUAL[name])


@pytest.mark.parametrize("environ", [{}, UNUSUAL], ids=["nothing", "unusual"])
def test_each_shell_that_reads_the_settings_twice_has_them_once(shell: Shell, environ: dict[str, str]) -> None:
    once = after(*shell, easybuild_settings(shell[0], environ), environ)
    twice = after(*shell, easybuild_settings(shell[0], once), once)
    assert twice == once
    for name, separator in zip(NAMES, ",::"):
        elements = [element for element in once[name].split(separator) if element]
        assert len(elements) == len(set(elements))


@pytest.mark.parametrize("folder", ["two  words", "it's", 'say "x"', "back\\slash", "wow!"])
def test_a_sifmod_elsewhere_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    block = write_file(tmp_path / folder / "easyblocks" / "containerimage.py", "")
    (tmp_path / folder / "easyconfigs").mkdir()
    monkeypatch.setattr(robot, "_LIBRARY", tmp_path / folder / "src")
    variables = after(*shell, easybuild_settings(shell[0], {}))
    assert variables["EASYBUILD_INCLUDE_EASYBLOCKS"] == str(block)
    assert variables["EASYBUILD_ROBOT_PATHS"] == f":{tmp_path / folder}/easyconfigs"


def value_of(name: str, present: Optional[str]) -> str:
    settings = easybuild_settings("bash", {name: present} if present is not None else {})
    return after("bash", "bash", settings)[name]


def test_what_was_there_stays_behind_sifmod_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert value_of("EASYBUILD_INCLUDE_EASYBLOCKS", "/a.py,/b.py") == f"{easyblock_path()},/a.py,/b.py"
    assert value_of("EASYBUILD_ROBOT_PATHS", "/a:/b") == f"{easyconfigs_path()}:/a:/b"
    assert value_of("SIFMOD_PYTHONPATH", "/of/another") == value_of("SIFMOD_PYTHONPATH", None)
    once = after("bash", "bash", easybuild_settings("bash", {}))
    twice = after("bash", "bash", easybuild_settings("bash", once))
    assert twice == once
    monkeypatch.setenv("EASYBUILD_ROBOT_PATHS", "/of/this/process")
    assert ":/of/this/process" in easybuild_settings("bash")


@pytest.mark.parametrize("present", [None, "", ":"])
def test_easybuild_s_own_robot_path_stays_in_force(present: Optional[str]) -> None:
    assert value_of("EASYBUILD_ROBOT_PATHS", present) == f":{easyconfigs_path()}"


@pytest.mark.parametrize("present", ["/a:", ":/a", "/a::/b"])
def test_an_empty_element_of_the_robot_path_stays_because_it_means_easybuild_s_own(present: str) -> None:
    elements = value_of("EASYBUILD_ROBOT_PATHS", present).split(":")
    assert elements[0] == str(easyconfigs_path())
    assert elements.count("") == 1
    assert [element for element in elements[1:] if element] == [element for element in present.split(":") if element]


@pytest.mark.parametrize(("name", "separator"), [("SIFMOD_PYTHONPATH", ":"), ("EASYBUILD_INCLUDE_EASYBLOCKS", ",")])
@pytest.mark.parametrize("present", [None, "", "/a", "/a{0}/b"])
def test_no_empty_element_gets_into_a_list(name: str, separator: str, present: Optional[str]) -> None:
    assert "" not in value_of(name, present and present.format(separator)).split(separator)


def test_the_printed_path_is_enough_to_import_sifmod_and_what_it_needs() -> None:
    path = after("bash", "bash", easybuild_settings("bash", {}))["SIFMOD_PYTHONPATH"]
    done = ran(
        [
            sys.executable,
            "-S",
            "-B",
            "-c",
            "import sifmod.render.templates, sifmod.install.installer, sifmod.image.inspection; print(sifmod.__file__)",
        ],
        env={"PYTHONPATH": path},
        check=True,
    )
    assert done.stdout.strip().endswith("/sifmod/__init__.py")


@pytest.mark.parametrize("path_of", [easyconfigs_path, easyblock_path])
def test_a_damaged_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path_of: Callable[[], Path]) -> None:
    monkeypatch.setattr(robot, "_LIBRARY", tmp_path / "gone" / "src")
    with pytest.raises(InstallError) as caught:
        path_of()
    message = str(caught.value)
    assert f"{tmp_path}/gone/src/easybuild/" in message
    assert f"{tmp_path}/gone/easy" in message
    assert "reinstall sifmod" in message


def test_an_installed_wheel_counts_before_folders_above(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With `pip install --target /apps/sifmod`, /apps/easyconfigs may be the site's own."""
    for folder in ("easyconfigs", "easyblocks", "sifmod/easybuild/easyconfigs", "sifmod/easybuild/easyblocks/generic"):
        write_file(tmp_path / folder / "containerimage.py", "")
    monkeypatch.setattr(robot, "_LIBRARY", tmp_path / "sifmod")
    assert easyconfigs_path() == tmp_path / "sifmod/easybuild/easyconfigs"
    assert easyblock_path() == tmp_path / "sifmod/easybuild/easyblocks/generic/containerimage.py"


# sifmod as a module


def own_easyconfig() -> str:
    return (easyconfigs_path() / "s" / "sifmod" / f"sifmod-{sifmod.__version__}.eb").read_text()


def test_the_module_brings_everything_that_sifmod_needs_but_easybuild() -> None:
    project = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text()
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    needed = [Requirement(line) for line in re.findall(r'^\s*"(.*)",$', block, re.MULTILINE)]
    pinned = {
        name.lower().replace("_", "-"): version
        for name, version in re.findall(r"'filename': '([A-Za-z0-9_]+)-([0-9.]+)(?:-py|\.tar)", own_easyconfig())
    }
    for requirement in needed:
        if not requirement.name.startswith("easybuild"):
            assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement
    assert "markupsafe" in pinned  # what jinja2 needs


def test_every_source_of_the_module_but_sifmod_s_own_wheel_has_its_checksum() -> None:
    text = own_easyconfig()
    sources = re.findall(r"'filename': '([^']+)'", text)
    assert len(sources) >= 5
    for name in sources:
        assert re.search(rf"'{re.escape(name)}': '[0-9a-f]{{64}}'", text)
