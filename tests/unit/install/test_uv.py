from pathlib import Path

import pytest

from sifmod.container.bind import Bind
from sifmod.errors import InstallError
from sifmod.install.uv import host_uv, uv_settings


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def a_program(folder: Path, content: bytes = b"\x7fELF and more", mode: int = 0o755) -> Path:
    folder.mkdir()
    path = folder / "uv"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_first_program_in_path_is_the_host_s_uv(tmp_path: Path) -> None:
    wrapper = a_program(tmp_path / "module", b"#!/bin/bash -p\n")
    plain = a_program(tmp_path / "plain", mode=0o644)
    uv = a_program(tmp_path / "venv")
    other = a_program(tmp_path / "other")
    path = ":".join(["relative", "/nowhere", *(str(one.parent) for one in (wrapper, plain, uv, other))])
    assert host_uv({"PATH": path}) == (Bind(str(uv), "/sifmod/uv", "ro"),)
    assert host_uv({"PATH": f"{wrapper.parent}::/nowhere"}) == ()
    assert host_uv({}) == ()


def test_settings_and_proxies_are_passed_without_those_that_name_another_environment(scratch: Path) -> None:
    passed = {"UV_DEFAULT_INDEX": "https://pypi.example.org/simple", "https_proxy": "http://proxy:3128"}
    others = {"UV_PYTHON": "/x", "UV_SYSTEM_PYTHON": "1", "UV_EXCLUDE": "/y", "PIP_INDEX_URL": "z", "HOME": "/no"}
    variables, binds = uv_settings(scratch, ["torchmetrics"], {**passed, **others})
    assert (variables, binds) == ({**passed, "UV_CACHE_DIR": "/tmp/uv-cache"}, ())


def test_what_settings_configuration_and_requirements_name_is_bound_read_only(scratch: Path, tmp_path: Path) -> None:
    wheels, more, index, cache = (tmp_path / name for name in ("wheels", "more", "index", "cache"))
    for folder in (wheels, more, index, cache):
        folder.mkdir()
    requirement = tmp_path / "own.whl"
    requirement.touch()
    (tmp_path / "uv").mkdir()
    text = f'[[index]]\nurl = "file://{index}"\n'
    (tmp_path / "uv" / "uv.toml").write_text(text)
    environ = {"UV_FIND_LINKS": f"{wheels},{more}", "XDG_CONFIG_HOME": str(tmp_path), "UV_CACHE_DIR": str(cache)}
    variables, binds = uv_settings(scratch, [f"own @ {requirement.as_uri()}"], environ)
    assert variables["UV_CONFIG_FILE"] == "/tmp/uv.toml"
    assert (scratch / "uv.toml").read_text() == text
    read_only = {Bind(str(path), str(path), "ro") for path in (wheels, more, index, requirement)}
    assert set(binds) == {*read_only, Bind(str(cache), str(cache))}


def test_nothing_else_is_bound_or_passed_on(scratch: Path, tmp_path: Path) -> None:
    home, links = tmp_path / "home", tmp_path / "links"
    home.mkdir()
    links.mkdir()
    (tmp_path / "uv.toml").write_text(
        f'cache-dir = "{home}"\npython-install-mirror = "file://{home}"\n# see "{home}"\n'
        f'[pip]\nfind-links = ["{links}"]\nindex = 1\nindex-url = 2\n[pip.x]\nurl = "{home}"\n'
    )
    secrets = {"UV_PUBLISH_TOKEN": "x", "UV_GITHUB_TOKEN": "x", "UV_TOOL_DIR": str(home), "UV_ENV_FILE": str(home)}
    kept = {"UV_INDEX_MINE_PASSWORD": "p", "UV_HTTP_TIMEOUT": "9", "UV_EXCLUDE_NEWER": str(home)}
    environ = {**secrets, **kept, "UV_CONFIG_FILE": str(tmp_path / "uv.toml")}
    variables, binds = uv_settings(scratch, [], environ)
    assert set(variables) == {*kept, "UV_CACHE_DIR", "UV_CONFIG_FILE"}
    assert binds == (Bind(str(links), str(links), "ro"),)


@pytest.mark.parametrize("text", ["index-url = ", "pip = 1", "a" * 9, f"x = {'[' * 5000}"])
def test_what_is_wrong_in_the_configuration_is_left_to_uv(scratch: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "uv.toml").write_text(text)
    assert uv_settings(scratch, [], {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")})[1] == ()


def test_a_configuration_that_can_not_be_read_is_named(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "uv.toml").write_bytes(b"\xff")
    with pytest.raises(InstallError, match=r"uv\.toml' can't be read"):
        uv_settings(scratch, [], {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")})
