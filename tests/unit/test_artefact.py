from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod.artefact import Artefact
from sifmod.errors import InstallError


@pytest.mark.parametrize("path", ["bin/python", "share/sifmod.json", "runscripts/a b", "share/docker-defs/é"])
def test_a_file_below_the_installation_is_an_artefact(path: str) -> None:
    assert Artefact(PurePosixPath(path), "").path == PurePosixPath(path)


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "bin/../../../Other/1.0/bin/tool", "/etc/profile.d/x.sh", "bin/a\nb", "bin/\x1b[2J", "bin/\x85", "."),
        "user-software/venv/demo/bin/python",
    ],
)
def test_anything_else_is_refused_and_named(path: str) -> None:
    with pytest.raises(InstallError) as caught:
        Artefact(PurePosixPath(path), "")
    assert str(caught.value).isprintable()


@given(st.text(max_size=30))
def test_what_is_not_refused_is_below(path: str) -> None:
    try:
        artefact = Artefact(PurePosixPath(path), "")
    except InstallError:
        return
    assert not artefact.path.is_absolute()
    assert ".." not in artefact.path.parts
    assert all(ord(character) >= 32 for character in path)
