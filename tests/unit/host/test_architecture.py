"""The architecture of an image, compared with that of this host."""

import platform

import pytest

from sifmod.host.architecture import why_not_here


@pytest.mark.parametrize(
    ("host", "image", "why"),
    [
        ("x86_64", "amd64", ""),
        ("x86_64", "x86_64", ""),
        ("x86_64", "", ""),
        ("x86_64", "arm64", "the image is for arm64, and this host is x86_64"),
        ("aarch64", "arm64", ""),
        ("aarch64", "amd64", "the image is for amd64, and this host is aarch64"),
        ("ppc64le", "ppc64le", ""),
    ],
)
def test_an_image_runs_on_its_architecture(monkeypatch: pytest.MonkeyPatch, host: str, image: str, why: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: host)
    assert why_not_here(image) == why
