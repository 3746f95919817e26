"""The versions of the runtime and of tools on a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from sifmod.host.versions import HostVersions, host_versions

from ..support import FakeRuntime, Stubs, a_site


def test_what_this_host_has_is_asked_for(tmp_path: Path, fake: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake.bin}:{tmp_path}:/bin")
    for name, said in (("mksquashfs", "mksquashfs version 4.7.4 (2025/11/20)"), ("squashfuse", "squashfuse 0.5.2 (c)")):
        Stubs(tmp_path)(name, f"echo '{said}'; exit 1")
    expected = HostVersions({"fake": "1.0"}, {"mksquashfs": "4.7.4", "squashfuse": "0.5.2"})
    assert host_versions(a_site()) == expected
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert host_versions(a_site()) == HostVersions()
