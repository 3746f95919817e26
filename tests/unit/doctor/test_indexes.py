"""What pip and uv are set to use, and whether containers see it."""

from pathlib import Path

import pytest

from sifmod.container.bind import Bind
from sifmod.doctor import indexes
from sifmod.doctor.indexes import check_indexes
from sifmod.finding import NOTE, OK, WARNING, Finding
from sifmod.site.settings import Site

from ..support import a_site


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that containers don't see: pytest's folder is below /tmp, which the runtime mounts."""
    monkeypatch.setattr("sifmod.names.MOUNTED_ANYWAY", ())
    monkeypatch.setattr(indexes, "SITE_CONFIGURATION", str(tmp_path / "no-pip.conf"))
    path = tmp_path / "centre" / "ca.pem"
    path.parent.mkdir()
    path.touch()
    return path


def found(site: Site, **environ: str) -> list[Finding]:
    return list(check_indexes(site, {"HOME": "/home/nobody", **environ}))


def test_what_the_site_binds_or_the_home_has_is_seen(certificate: Path) -> None:
    assert certificate.exists()
    assert found(a_site(), PIP_INDEX_URL="https://pypi.example/simple", HTTPS_PROXY="/not/a/path") == []
    bound = a_site(optional_binds=(Bind(str(certificate.parent), str(certificate.parent)),))
    assert [one.severity for one in found(bound, PIP_CERT=str(certificate))] == [OK]
    home = {"APPTAINER_HOME": str(certificate.parent)}
    assert [one.severity for one in found(a_site(), PIP_CERT=str(certificate), **home)] == [OK]
    elsewhere = a_site(optional_binds=(Bind(str(certificate.parent), "/other"),))
    assert [one.severity for one in found(elsewhere, PIP_CERT=str(certificate))] == [WARNING]


@pytest.mark.parametrize("name", ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_FIND_LINKS", "UV_FIND_LINKS"])
def test_a_path_that_containers_lack_is_named_with_the_site_s_line(certificate: Path, name: str) -> None:
    (one,) = found(a_site(), **{name: str(certificate)})
    assert (one.severity, one.topic) == (WARNING, "package indexes")
    assert one.what == f"{name}: '{certificate}'"
    assert f"add '{certificate}' to optional_binds" in one.remedy


def test_a_path_or_a_fault_of_a_configuration_file_is_named(certificate: Path, tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\ncert = {certificate}\n")
    (one,) = found(a_site(), PIP_CONFIG_FILE=str(config))
    assert one.what == f"cert in [global] of pip.conf: '{certificate}'"
    certificate.write_text("no section\n")
    (one,) = found(a_site(), PIP_CONFIG_FILE=str(certificate))
    assert one.severity == WARNING
    assert "can't be read" in one.what


def test_the_system_s_own_list_and_the_host_s_pip_are_notes(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_SYSTEM_CERTIFICATES", (str(certificate.parent),))
    (one,) = found(a_site(), SSL_CERT_FILE=str(certificate))
    assert one.severity == NOTE
    assert "the image's own file" in one.why
    monkeypatch.setattr(indexes, "SITE_CONFIGURATION", str(certificate))
    (one,) = found(a_site())
    assert (one.severity, one.what) == (NOTE, str(certificate))
    assert "[container_env]" in one.remedy
