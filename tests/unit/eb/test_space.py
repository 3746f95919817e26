import re
from pathlib import Path
from typing import Callable

import pytest
from tests.programs import write_file

from sifmod.eb.space import SoftwareSpace, software_space, source_paths
from sifmod.errors import EasyBuildError, InstallError

Environ = Callable[..., dict[str, str]]


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """Return a maker of environments with a home of the test's own."""

    def made(**variables: str) -> dict[str, str]:
        return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), **variables}

    return made


def test_the_space_is_that_of_easybuild_s_configuration(environ: Environ, tmp_path: Path) -> None:
    base = tmp_path / "home" / ".local" / "easybuild"
    default = SoftwareSpace(base / "software", base / "modules", "all", base / "software" / ".locks")
    assert software_space(environ=environ()) == default
    assert source_paths(environ()) == (base / "sources",)
    variables = environ(EASYBUILD_PREFIX="/p", EASYBUILD_LOCKS_DIR="/locks", EASYBUILD_SOURCEPATH="/a:/b")
    assert software_space(environ=variables) == SoftwareSpace(
        Path("/p/software"), Path("/p/modules"), "all", Path("/locks")
    )
    assert source_paths(variables) == (Path("/a"), Path("/b"))


def test_a_given_prefix_counts_first_and_a_missing_one_is_named(environ: Environ, tmp_path: Path) -> None:
    variables = environ(EASYBUILD_INSTALLPATH="/i", EASYBUILD_INSTALLPATH_SOFTWARE="/s", EASYBUILD_PREFIX="/p")
    found = software_space(tmp_path, variables)
    assert (found.software, found.modules) == (tmp_path / "software", tmp_path / "modules")
    with pytest.raises(InstallError, match=r"there is no directory .*gone.*--prefix"):
        software_space(tmp_path / "gone", environ())


@pytest.mark.parametrize("user", ["", "/home/a%b"])
def test_percent_signs_in_the_environment_do_no_harm(environ: Environ, tmp_path: Path, user: str) -> None:
    write_file(tmp_path / "xdg" / "easybuild.d" / "site.cfg", "[config]\nprefix = %(HOME)s/p\n")
    assert software_space(environ=environ(PROMPT="100% %(X)s", HOME=user)).software == Path(f"{user}/p/software")


@pytest.mark.parametrize("text", [b"no section\n", b"[config]\nprefix = \xff\n"])
def test_a_file_that_can_t_be_read_is_named(environ: Environ, tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "home" / ".config" / "easybuild" / "config.cfg"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    with pytest.raises(EasyBuildError, match=rf"{re.escape(str(path))}.*can't be read"):
        software_space(environ=environ())


def test_a_link_on_the_way_does_not_change_the_lock(tmp_path: Path) -> None:
    root = tmp_path / "real" / "software" / "Demo" / "1.0"
    root.mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    space = SoftwareSpace(tmp_path / "link" / "software", tmp_path / "modules")
    name = str(space.software / "Demo" / "1.0").replace("/", "_")
    assert space.lock(root) == space.software / ".locks" / f"{name}.lock"
