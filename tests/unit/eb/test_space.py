from pathlib import Path

import pytest

from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.errors import InstallError


@pytest.fixture
def home(tmp_path: Path):
    return tmp_path / "home"


@pytest.fixture
def space(home):
    """Return the space in force under a home of the test's own, with some variables set."""

    def found(prefix=None, **variables):
        return software_space(prefix, {"HOME": str(home), "XDG_CONFIG_DIRS": str(home / "etc"), **variables})

    return found


def test_without_any_setting_it_is_easybuild_s_default(space, home) -> None:
    base = home / ".local" / "easybuild"
    assert space() == SoftwareSpace(base / "software", base / "modules", "all")


@pytest.mark.parametrize(
    ("variables", "software", "modules"),
    [
        ({"EASYBUILD_PREFIX": "/p"}, "/p/software", "/p/modules"),
        ({"EASYBUILD_PREFIX": "/p", "EASYBUILD_INSTALLPATH": "/i"}, "/i/software", "/i/modules"),
        ({"EASYBUILD_PREFIX": "/p", "EASYBUILD_INSTALLPATH_SOFTWARE": "/s"}, "/s", "/p/modules"),
        ({"EASYBUILD_PREFIX": "/p", "EASYBUILD_INSTALLPATH_MODULES": "/m"}, "/p/software", "/m"),
        ({"EASYBUILD_PREFIX": "/p", "EASYBUILD_SUBDIR_SOFTWARE": "sw"}, "/p/sw", "/p/modules"),
        ({"EASYBUILD_PREFIX": "/p q", "EASYBUILD_INSTALLPATH": ""}, "/p q/software", "/p q/modules"),
    ],
)
def test_variables_of_easybuild_count(space, variables: dict[str, str], software: str, modules: str) -> None:
    assert space(**variables) == SoftwareSpace(Path(software), Path(modules))


def test_a_given_prefix_counts_before_all_of_them(space, tmp_path: Path) -> None:
    found = space(tmp_path, EASYBUILD_INSTALLPATH="/i", EASYBUILD_INSTALLPATH_SOFTWARE="/s", EASYBUILD_PREFIX="/p")
    assert found == SoftwareSpace(tmp_path / "software", tmp_path / "modules")


def test_a_prefix_that_is_not_there_is_named(space, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"there is no directory .*gone.*--prefix"):
        space(tmp_path / "gone")


def test_files_count_less_than_variables_and_the_user_s_more_than_the_site_s(space, home) -> None:
    site = home / "etc" / "easybuild.d" / "site.cfg"
    user = home / ".config" / "easybuild" / "config.cfg"
    for path in (site, user):
        path.parent.mkdir(parents=True)
    site.write_text("[config]\nprefix = /site\nsuffix-modules-path = every\n")
    user.write_text("[config]\nprefix = %(HOME)s/mine\n")
    assert space() == SoftwareSpace(home / "mine" / "software", home / "mine" / "modules", "every")
    assert space(EASYBUILD_PREFIX="/p").software == Path("/p/software")
    assert space(EASYBUILD_CONFIGFILES=str(site)).software == Path("/site/software")


def test_a_percent_sign_in_the_environment_does_no_harm(space, home) -> None:
    path = home / ".config" / "easybuild" / "config.cfg"
    path.parent.mkdir(parents=True)
    path.write_text("[config]\nprefix = /p\n")
    assert space(PROMPT="100% %(X)s").software == Path("/p/software")


@pytest.mark.parametrize("text", ["no section\n", "[config]\nprefix = %(NOWHERE)s\n", b"[config]\nprefix = \xff\n"])
def test_a_file_that_can_t_be_read_is_named(space, home, text: object) -> None:
    path = home / ".config" / "easybuild" / "config.cfg"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InstallError, match=r"config\.cfg.*can't be read"):
        space()
