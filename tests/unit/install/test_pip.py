import configparser
from pathlib import Path

import pytest

from sifmod.container.bind import Bind
from sifmod.errors import InstallError
from sifmod.install.pip import certificates, pip_settings


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def read_only(path: Path) -> Bind:
    return Bind(str(path), str(path), "ro")


def test_without_settings_pip_gets_nothing_and_keeps_no_cache(scratch: Path, tmp_path: Path) -> None:
    assert pip_settings(scratch, ["torchmetrics"], {"HOME": str(tmp_path)}) == ({"PIP_NO_CACHE_DIR": "1"}, ())
    variables, binds = pip_settings(scratch, [], {"PIP_CACHE_DIR": str(tmp_path)})
    assert (variables, binds) == ({"PIP_CACHE_DIR": str(tmp_path)}, (Bind(str(tmp_path), str(tmp_path)),))


def test_settings_and_proxies_are_passed_and_nothing_else(scratch: Path) -> None:
    passed = {
        "PIP_INDEX_URL": "https://pypi.example.org/simple",
        "https_proxy": "http://proxy:3128",
        "NO_PROXY": ".org",
    }
    others = {"PIP_TARGET": "/x", "PIP_CONSTRAINT": "/y", "PIP_LOG": "/z", "AWS_SECRET_ACCESS_KEY": "x", "HOME": "/no"}
    assert pip_settings(scratch, [], {**passed, **others}) == ({**passed, "PIP_NO_CACHE_DIR": "1"}, ())


def test_what_the_settings_and_requirements_name_on_disk_is_bound_read_only(scratch: Path, tmp_path: Path) -> None:
    wheels, index, packages, cert = (tmp_path / name for name in ("wheels", "simple", "packages", "ca.pem"))
    for folder in (wheels, index, packages):
        folder.mkdir()
    cert.touch()
    environ = {"PIP_FIND_LINKS": f"{wheels} /no/such", "PIP_INDEX_URL": f"file://{index}", "SSL_CERT_FILE": str(cert)}
    _variables, binds = pip_settings(scratch, [], environ)
    assert set(binds) == {read_only(path) for path in (wheels, index, packages, cert)}
    wheel = tmp_path / "a b.whl"
    wheel.touch()
    assert pip_settings(scratch, [f"demo @ {wheel.as_uri()}"], {})[1] == (read_only(wheel),)


@pytest.mark.parametrize(
    ("link", "bound"),
    [
        ("../../files/a/x-1-py3-none-any.whl#sha256=0", {"simple", "files"}),
        ("../../files/a/y-1-py3-none-any.whl", {"simple"}),  # there is no such file
        ("../../files/notes.txt", {"simple"}),
        ("../../../files/x.whl", {"simple"}),
        ("../../.files/x.whl", {"simple"}),
    ],
)
def test_the_folder_that_a_mirror_links_to_is_bound(scratch: Path, tmp_path: Path, link: str, bound: set[str]) -> None:
    for name in ("simple/x", "files/a", ".files"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("files/a/x-1-py3-none-any.whl", "files/notes.txt", ".files/x.whl"):
        (tmp_path / name).touch()
    (tmp_path / "simple/x/index.html").write_text(f'<a href="{link}">x</a>')
    binds = pip_settings(scratch, [], {"PIP_INDEX_URL": f"file://{tmp_path}/simple"})[1]
    assert set(binds) == {read_only(tmp_path / name) for name in bound}


@pytest.mark.parametrize("text", ["/", "file:///", "file://elsewhere.example.org/etc"])
def test_the_whole_host_is_never_bound(scratch: Path, text: str) -> None:
    assert pip_settings(scratch, [text], {})[1] == ()


def test_the_user_s_configuration_files_become_one(scratch: Path, tmp_path: Path) -> None:
    """pip reads ~/.pip, then ~/.config/pip, then PIP_CONFIG_FILE; the container has no home."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, text in {
        ".pip/pip.conf": "[global]\ntimeout = 1\nretries = 1\n",
        ".config/pip/pip.conf": "[global]\ntimeout = 2\ncache-dir = /somewhere\n",
        "own.conf": f"[install]\nfind-links =\n    {wheels}\n    https://example.org\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(tmp_path / "own.conf")}
    variables, binds = pip_settings(scratch, [], environ)
    assert variables["PIP_CONFIG_FILE"] == "/tmp/pip.conf"
    assert binds == (read_only(wheels),)
    merged = configparser.RawConfigParser()
    merged.read(scratch / "pip.conf")
    assert dict(merged["global"]) == {"timeout": "2", "retries": "1"}
    assert str(wheels) in merged["install"]["find-links"]
    # as for pip itself, the null device means none of them
    assert pip_settings(scratch, [], {**environ, "PIP_CONFIG_FILE": "/dev/null"})[1] == ()


def test_a_configuration_file_that_is_none_is_named(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("index-url = x\n")
    with pytest.raises(InstallError, match="can't be read"):
        pip_settings(scratch, [], {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")})


def test_the_certificates_are_those_that_pip_takes(tmp_path: Path) -> None:
    """As `PipSession.merge_environment_settings` does: variables of requests hide pip's own setting."""
    home = tmp_path / "home"
    (home / ".pip").mkdir(parents=True)
    (home / ".pip/pip.conf").write_text(f"[global]\ncert = {tmp_path}/configured.pem\n")
    for name in ("configured", "PIP_CERT", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        (tmp_path / f"{name}.pem").touch()
    environ = {"HOME": str(home)}
    assert certificates(environ) == tmp_path / "configured.pem"
    for name in ("PIP_CERT", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        environ[name] = str(tmp_path / f"{name}.pem")
        assert certificates(environ) == tmp_path / f"{name}.pem"
