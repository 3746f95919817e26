import json
import os
import subprocess
import sys

import pytest

from sifmod import robot
from sifmod.errors import InstallError
from sifmod.robot import SHELLS, easyblock_path, easybuild_settings, easyconfigs_path

NAMES = ("EASYBUILD_INCLUDE_EASYBLOCKS", "EASYBUILD_ROBOT_PATHS", "PYTHONPATH")
SHOW = f"import os, json; print(json.dumps({{name: os.environ.get(name) for name in {NAMES!r}}}))"


def after(shell, command, settings, environ=None):
    """Return what the variables are in a shell that has read the settings."""
    show = [sys.executable, "-IS", "-c", SHOW]
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in show)
    done = subprocess.run(
        [command, *(["-f"] if shell == "csh" else []), "-c", f"{settings}\n{words}"],
        env={"PATH": os.environ["PATH"], "HOME": "/dev/null", **(environ or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(params=SHELLS)
def shell(request, need):
    return request.param, need(request.param)


def test_the_easyblock_and_the_easyconfigs_are_found():
    assert easyblock_path().name == "containerimage.py"
    assert easyblock_path().is_file()
    assert list(easyconfigs_path().glob("p/PyTorch/*.eb"))


def test_each_shell_reads_the_settings(shell):
    variables = after(*shell, easybuild_settings(shell[0], {}))
    assert variables["EASYBUILD_INCLUDE_EASYBLOCKS"] == str(easyblock_path())
    assert variables["EASYBUILD_ROBOT_PATHS"] == f"{easyconfigs_path()}:"
    assert variables["PYTHONPATH"].split(":")[0] == str(robot.__file__).rpartition("/sifmod/")[0]


def test_each_shell_keeps_unusual_values(shell):
    environ = {
        "EASYBUILD_INCLUDE_EASYBLOCKS": "/a b/x.py,/it's/$HOME/`id`/y*.py",
        "EASYBUILD_ROBOT_PATHS": '/a b:/it\'s "q"',
        "PYTHONPATH": "/p $(id)",
    }
    variables = after(*shell, easybuild_settings(shell[0], environ))
    for name, value in environ.items():
        assert variables[name].endswith(value)


def value_of(name, present):
    settings = easybuild_settings("bash", {name: present} if present is not None else {})
    return after("bash", "bash", settings)[name]


def test_what_was_there_stays_behind_sifmod_s_own():
    assert value_of("EASYBUILD_INCLUDE_EASYBLOCKS", "/a.py,/b.py") == f"{easyblock_path()},/a.py,/b.py"
    assert value_of("EASYBUILD_ROBOT_PATHS", "/a:/b") == f"{easyconfigs_path()}:/a:/b"
    assert value_of("PYTHONPATH", "/mine").endswith(":/mine")


@pytest.mark.parametrize("present", [None, "", ":"])
def test_easybuild_s_own_robot_path_stays_in_force(present):
    assert value_of("EASYBUILD_ROBOT_PATHS", present) == f"{easyconfigs_path()}:"


@pytest.mark.parametrize("present", ["/a:", ":/a", "/a::/b"])
def test_an_empty_element_of_the_robot_path_stays_because_it_means_easybuild_s_own(present):
    elements = value_of("EASYBUILD_ROBOT_PATHS", present).split(":")
    assert elements[0] == str(easyconfigs_path())
    assert elements.count("") == 1
    assert [element for element in elements[1:] if element] == [element for element in present.split(":") if element]


def test_reading_the_settings_twice_changes_nothing_more():
    once = after("bash", "bash", easybuild_settings("bash", {}))
    twice = after("bash", "bash", easybuild_settings("bash", once))
    assert twice == once


@pytest.mark.parametrize(("name", "separator"), [("PYTHONPATH", ":"), ("EASYBUILD_INCLUDE_EASYBLOCKS", ",")])
@pytest.mark.parametrize("present", [None, "", "/a", "/a{0}/b"])
def test_no_empty_element_gets_into_a_list(name, separator, present):
    assert "" not in value_of(name, present and present.format(separator)).split(separator)


def test_the_settings_come_from_the_process_environment_by_default(monkeypatch):
    monkeypatch.setenv("EASYBUILD_ROBOT_PATHS", "/of/this/process")
    assert ":/of/this/process" in easybuild_settings("bash")


def test_the_printed_python_path_is_enough_to_import_sifmod_and_what_it_needs():
    path = after("bash", "bash", easybuild_settings("bash", {}))["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", "import sifmod.render, sifmod.install; print(sifmod.__file__)"],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith("/sifmod/__init__.py")


@pytest.mark.parametrize("path_of", [easyconfigs_path, easyblock_path])
def test_a_damaged_installation_is_named_with_the_places_and_the_remedy(monkeypatch, tmp_path, path_of):
    monkeypatch.setattr(robot, "_CHECKOUT", tmp_path / "gone")
    monkeypatch.setattr(robot.sysconfig, "get_path", lambda *_: str(tmp_path / "nowhere"))
    with pytest.raises(InstallError) as caught:
        path_of()
    message = str(caught.value)
    assert str(tmp_path / "gone") in message
    assert str(tmp_path / "nowhere") in message
    assert "reinstall sifmod" in message
