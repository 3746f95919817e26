"""What sifmod reads of EasyBuild's configuration is what EasyBuild reads: both are asked the same questions."""

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.programs import ran, write_file

from sifmod.eb.available import find_easyconfig, newer_easyconfigs
from sifmod.eb.configuration import SECTIONS, configuration
from sifmod.eb.space import letter_folder, software_space
from sifmod.errors import EasyBuildError, EasyconfigError

HELPER = Path(__file__).with_name("easybuild_says.py")
PATH = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
SUBDIRS = ("Demo/1.0", "Core/Demo/1.0-x")
USER = "home/.config/easybuild/config.cfg"
SYSTEM = "xdg/easybuild.d/site.cfg"


@dataclass(frozen=True)
class Case:
    """A configuration: files by path, variables, and options of `eb`; `{top}` stands for the test's folder."""

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


def user_file(text: str, **variables: str) -> Case:
    return Case({USER: text}, variables)


def variables(**values: str) -> Case:
    return Case(variables={f"EASYBUILD_{name}": value for name, value in values.items()})


CASES = {
    "nothing is set": Case(),
    # variables
    "prefix": variables(PREFIX="/p"),
    "prefix with '..' and two slashes": variables(PREFIX="/p//q/../r/"),
    "prefix is relative": variables(PREFIX="p"),
    "prefix with a tilde": variables(PREFIX="~/p"),
    "prefix is empty": variables(PREFIX=""),
    "prefix and installpath": variables(PREFIX="/p", INSTALLPATH="/i"),
    "installpath is empty": variables(PREFIX="/p", INSTALLPATH=""),
    "installpath-software": variables(PREFIX="/p", INSTALLPATH_SOFTWARE="/s"),
    "installpath-modules": variables(PREFIX="/p", INSTALLPATH_MODULES="m"),
    "subdirs": variables(PREFIX="/p", SUBDIR_SOFTWARE="sw/x", SUBDIR_MODULES="m"),
    "suffix-modules-path": variables(SUFFIX_MODULES_PATH="every"),
    "suffix-modules-path is empty": variables(SUFFIX_MODULES_PATH=""),
    "sourcepath": variables(SOURCEPATH="/a:/b", PREFIX="/p"),
    "sourcepath with relative and empty elements": variables(SOURCEPATH="a::/b:c"),
    "locks-dir": variables(LOCKS_DIR="/locks"),
    "locks-dir is relative": variables(LOCKS_DIR="locks", PREFIX="/p"),
    "locks-dir is empty": variables(LOCKS_DIR="", PREFIX="/p"),
    "naming schemes": variables(MODULE_NAMING_SCHEME="HierarchicalMNS", DISABLE_FIXED_INSTALLDIR_NAMING_SCHEME="1"),
    "robot-paths": variables(ROBOT_PATHS="/a:/b"),
    "robot-paths with the default behind": variables(ROBOT_PATHS="/a:"),
    "robot-paths with the default in front": variables(ROBOT_PATHS=":/a"),
    "robot-paths with two empty elements": variables(ROBOT_PATHS="/a::b:"),
    "robot-paths are empty": variables(ROBOT_PATHS=""),
    "robot": variables(ROBOT="/a:b"),
    "robot and robot-paths": variables(ROBOT="{top}", ROBOT_PATHS="/a:"),
    # files
    "user's file": user_file("[config]\nprefix = /u\n"),
    "variable and user's file": user_file("[config]\nprefix = /u\n", EASYBUILD_PREFIX="/p"),
    "installpath of a file and prefix of a variable": user_file("[config]\ninstallpath = /u\n", EASYBUILD_PREFIX="/p"),
    "robot-paths of a file": user_file("[basic]\nrobot-paths = /a:\n"),
    "robot-paths of a file with the constant": user_file("[basic]\nrobot-paths = /a:%(DEFAULT_ROBOT_PATHS)s:/b\n"),
    "robot of a file": user_file("[basic]\nrobot = {top}\nrobot-paths = /a\n"),
    "locks-dir of a file": user_file("[override]\nlocks-dir = /locks\n"),
    "locks-dir of a file in its own section": user_file("[basic]\nlocks-dir = /locks\n"),
    "sourcepath of a file": user_file("[config]\nsourcepath = /a:%(HOME)s/b\n"),
    "several sections": user_file("[software]\nprefix = /s\n[basic]\nprefix = /b\n[config]\nprefix = /c\n"),
    "a section that EasyBuild does not know": user_file("[own]\nprefix = /o\n"),
    "DEFAULT without a section": user_file("[DEFAULT]\nprefix = /d\n"),
    "DEFAULT with a section": user_file("[DEFAULT]\nTOP = /d\nprefix = %(TOP)s/x\n[basic]\n"),
    "DEFAULT and the section itself": user_file("[DEFAULT]\nprefix = /d\n[config]\nprefix = /c\n[basic]\n"),
    "constants": user_file("[config]\nprefix = %(HOME)s/%(USER)s\nsourcepath = %(DEFAULT_REPOSITORYPATH)s\n"),
    "a value with a tilde": user_file("[config]\nprefix = ~/p\n"),
    "an empty value": user_file("[config]\nprefix = /p\nsourcepath =\n"),
    "values of several lines and comments": user_file("# x\n[config]\nprefix = /p ; no comment\n; y\n"),
    "raw sections": user_file("[raw_x]\na = %(NOWHERE)s\n[config]\nprefix = /p\n"),
    # places of files
    "system's file": Case({SYSTEM: "[config]\nprefix = /x\n"}),
    "system's and user's file": Case(
        {SYSTEM: "[config]\nprefix = /x\nsourcepath = /xs\n", USER: "[config]\nprefix = /u\n"}
    ),
    "several files of a system": Case(
        {SYSTEM: "[config]\nprefix = /1\n", "xdg/easybuild.d/zz.cfg": "[config]\nprefix = /2\n"}
    ),
    "hidden files and other names": Case(
        {"xdg/easybuild.d/.x.cfg": "[config]\nprefix = /1\n", "xdg/easybuild.d/x.conf": "[config]\nprefix = /2\n"}
    ),
    "two systems: the first one counts": Case(
        {SYSTEM: "[config]\nprefix = /1\n", "other/easybuild.d/site.cfg": "[config]\nprefix = /2\nsourcepath = /2s\n"},
        {"XDG_CONFIG_DIRS": "{top}/xdg:{top}/other:{top}/gone"},
    ),
    "XDG_CONFIG_HOME": Case({"own/easybuild/config.cfg": "[config]\nprefix = /o\n"}, {"XDG_CONFIG_HOME": "{top}/own"}),
    "XDG_CONFIG_HOME hides the user's file": Case(
        {USER: "[config]\nprefix = /u\n"}, {"XDG_CONFIG_HOME": "{top}/nothing"}
    ),
    "XDG_CONFIG_DIRS is empty": Case({SYSTEM: "[config]\nprefix = /1\n"}, {"XDG_CONFIG_DIRS": ""}),
    "configfiles come on top": Case(
        {USER: "[config]\nprefix = /u\nsourcepath = /us\n", "a.cfg": "[config]\nprefix = /a\n", "b.cfg": "[basic]\n"},
        {"EASYBUILD_CONFIGFILES": "{top}/a.cfg,{top}/b.cfg"},
    ),
    "configfiles are relative": Case({"work/a.cfg": "[config]\nprefix = /a\n"}, {"EASYBUILD_CONFIGFILES": "a.cfg"}),
    "ignoreconfigfiles": Case(
        {USER: "[config]\nprefix = /u\n", SYSTEM: "[config]\nprefix = /x\n"},
        {"EASYBUILD_IGNORECONFIGFILES": "{top}/" + USER},
    ),
    "ignoreconfigfiles with another spelling": Case(
        {USER: "[config]\nprefix = /u\n"}, {"EASYBUILD_IGNORECONFIGFILES": "{top}/home/../" + USER}
    ),
}

REFUSED = {
    "configfiles without such a file": variables(CONFIGFILES="{top}/gone.cfg"),
    "configfiles is empty": variables(CONFIGFILES=""),
    "a folder for a file": Case({f"{USER}/x": ""}),
    "no section": user_file("prefix = /p\n"),
    "an unknown constant": user_file("[config]\nprefix = %(NOWHERE)s\n"),
    "a variable of the environment as constant": user_file("[config]\nprefix = %(PATH)s\n"),
    "an unknown constant in an unknown section": user_file("[own]\nx = %(NOWHERE)s\n"),
    "a section twice": user_file("[config]\n[config]\n"),
    "an option twice": user_file("[config]\nprefix = /p\nprefix = /q\n"),
    "a percent sign": user_file("[config]\nprefix = /100%\n"),
}

NAMES = ("Demo", "demo", "7zip", "_x", "Ähm", "éa", "zlib", "Zoltan", "R", "{x}")


def written(case: Case, top: Path) -> dict[str, str]:
    """Write the files of a case below a folder, and return its environment."""
    for name, text in case.files.items():
        write_file(top / name, text.replace("{top}", str(top)))
    for name in ("home", "work", "xdg"):
        (top / name).mkdir(parents=True, exist_ok=True)
    values = {name: value.replace("{top}", str(top)) for name, value in case.variables.items()}
    base = {"HOME": f"{top}/home", "XDG_CONFIG_DIRS": f"{top}/xdg", "PATH": PATH}
    return {**base, **values}


Asked = dict[str, tuple[Path, dict[str, str], dict[str, Any]]]


def ask(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pytest.importorskip("easybuild")
    done = ran([sys.executable, str(HELPER)], input=json.dumps(cases), check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Every case with its folder, its environment and EasyBuild's answer."""
    top = tmp_path_factory.mktemp("easybuild")
    found = {}
    for number, (name, case) in enumerate({**CASES, **REFUSED}.items()):
        found[name] = (top / str(number), written(case, top / str(number)))
    questions = [
        {"environ": environ, "cwd": str(folder / "work"), "subdirs": SUBDIRS, "names": NAMES}
        for folder, environ in found.values()
    ]
    answers = ask(questions)
    yield {name: (*found[name], answer) for name, answer in zip(found, answers)}
    shutil.rmtree(top)


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_easybuild_reads(asked: Asked, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    top, environ, answer = asked[name]
    assert "error" not in answer
    monkeypatch.chdir(top / "work")
    found = configuration(environ=environ)
    assert (str(found.software), str(found.modules), found.suffix) == tuple(
        answer[key] for key in ("software", "modules", "suffix")
    )
    assert [str(path) for path in found.sources] == answer["sources"]
    assert [str(path) for path in found.robot_paths] == list(dict.fromkeys(answer["robot_paths"]))
    space = software_space(environ=environ)
    assert [str(space.lock(space.software / subdir)) for subdir in SUBDIRS] == answer["locks"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_easybuild_refuses_is_one_error(asked: Asked, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    top, environ, answer = asked[name]
    assert set(answer) == {"error"}
    monkeypatch.chdir(top / "work")
    with pytest.raises(EasyBuildError, match=r"EasyBuild's configuration.*(can't be read|does not exist)"):
        configuration(environ=environ)


def test_sections_and_letters_are_easybuild_s(asked: Asked) -> None:
    answer = asked["nothing is set"][2]
    assert [name for name in answer["sections"] if isinstance(name, str)] == list(SECTIONS)
    assert [str(letter_folder(name).parent) for name in NAMES] == answer["letters"]


def test_a_given_prefix_is_that_of_eb(tmp_path: Path) -> None:
    case = Case({USER: "[config]\ninstallpath-modules = /m\nsubdir-software = sw\nlocks-dir = /locks\nprefix = /u\n"})
    environ = written(case, tmp_path)
    prefix = tmp_path / "given"
    arguments = [f"--prefix={prefix}", f"--installpath={prefix}", f"--installpath-modules={prefix}/modules"]
    (answer,) = ask([{"environ": environ, "cwd": str(tmp_path), "args": arguments, "subdirs": SUBDIRS[:1]}])
    found = configuration(prefix, environ)
    assert [str(found.software), str(found.modules)] == [answer["software"], answer["modules"]]
    assert [str(path) for path in found.sources] == answer["sources"]
    assert [str(found.locks / Path(path).name) for path in answer["locks"]] == answer["locks"]


def test_easyconfigs_are_found_where_eb_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, indexed, stale = (tmp_path / name for name in ("first", "second", "indexed", "stale"))
    here = [first / "t/Thing/Thing-1.eb", second / "t/Thing/Thing-1.eb", second / "Thing/Thing-2.eb"]
    here += [first / "Thing-3-a-b.eb", second / "deep/er/than/Thing-4.eb", first / "__archive__/t/Thing/Thing-5.eb"]
    here += [indexed / "t/Thing/Thing-6.eb", indexed / "t/Thing/Thing-7.eb", stale / "t/Thing/Thing-8.eb"]
    here += [first / "7/7zip/7zip-1.eb", second / "0/7zip/7zip-1.eb"]
    for path in here:
        write_file(path, "easyblock = 'ContainerImage'\n")
    until = "# valid until: {}-12-31 23:59:59.999999\n"
    (indexed / ".eb-path-index").write_text(f"{until.format(9999)}t/Thing/Thing-6.eb\nt/Thing/Thing-9.eb\n")
    (stale / ".eb-path-index").write_text(f"{until.format(2001)}t/Thing/Thing-6.eb\n")
    names = [*(f"Thing-{number}.eb" for number in (1, 2, "3-a-b", 4, 5, 6, 7, 8, 9, 10)), "7zip-1.eb"]
    environ = {
        **written(Case(), tmp_path),
        "EASYBUILD_ROBOT_PATHS": ":".join(map(str, (first, second, indexed, stale))),
    }
    (answer,) = ask([{"environ": environ, "cwd": str(tmp_path / "work"), "files": names}])
    monkeypatch.chdir(tmp_path / "work")

    def found(name: str) -> str:
        try:
            return str(find_easyconfig(name, environ))
        except EasyconfigError:
            return ""

    assert {name: found(name) for name in names} == dict(zip(names, answer["found"]))
    # nor is one proposed that eb would not find by its name
    newer = [path.name for path in newer_easyconfigs("Thing", "5", environ)]
    assert newer == ["Thing-8.eb", "Thing-6.eb"]
