"""The versions of the runtime and of tools on a host."""

from pathlib import Path

import pytest

from sifmod.host.runtime import Release
from sifmod.host.versions import HostVersions, host_versions

from ..support import Stubs


def test_what_this_host_has_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    for name, said in (("mksquashfs", "mksquashfs version 4.7.4 (2025/11/20)"), ("squashfuse", "squashfuse 0.5.2 (c)")):
        Stubs(tmp_path)(name, f"echo '{said}'; exit 1")
    expected = HostVersions({"fake": "1.0"}, {"mksquashfs": "4.7.4", "squashfuse": "0.5.2"})
    assert host_versions(Release("fake", "1.0")) == expected
    assert host_versions(Release(), ["squashfuse", "other"]) == HostVersions({}, {"squashfuse": "0.5.2"})
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert host_versions(Release()) == HostVersions()
