"""What those who wait for a pull see: the runtime's lines, the size of the image, and its hashing."""

from pathlib import Path

import pytest

from sifmod.errors import ImageError
from sifmod.fetch import making
from sifmod.fetch.store import ImageStore
from sifmod.fetch.uri import image_uri
from sifmod.host.runtime import ContainerRuntime

from ..support import SIF_HEADER, Recorded, RecordedStep, a_site

RUNTIME = """#!/bin/sh
[ "$1" != --version ] || exec echo fake version 1.0
printf 'INFO:    Fetching\\n'
cp '{image}' "$2"
[ {status} != 0 ] || until [ -e '{image}.seen' ]; do sleep 0.05; done
printf '\\033[31mreading layers\\033[0m\\n'
exit {status}
"""


def pull(folder: Path, progress: Recorded, *, status: int = 0) -> Path:
    image, runtime = folder / "made.sif", folder / "singularity"
    image.write_bytes(SIF_HEADER)
    runtime.write_text(RUNTIME.format(image=image, status=status))
    runtime.chmod(0o755)
    archive = folder / "image.tar"
    archive.touch()
    images = ImageStore(folder / "store", ContainerRuntime(runtime), a_site(), lambda _line: None, progress)
    return images.pull(image_uri(f"docker-archive:{archive}"))[0]


def test_a_pull_shows_the_runtime_s_lines_and_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_POLL", 0.05)
    keep = RecordedStep.advance

    def advance(step: RecordedStep, count: int) -> None:
        keep(step, count)
        if count:
            (tmp_path / "made.sif.seen").touch()  # the runtime goes on then

    monkeypatch.setattr(RecordedStep, "advance", advance)
    progress = Recorded()
    path = pull(tmp_path, progress)
    pulling, hashing = progress.steps
    assert pulling.title == f"pulling docker-archive:{tmp_path}/image.tar"
    assert pulling.told == ["INFO:    Fetching", "reading layers"]
    assert sum(pulling.advanced) == len(SIF_HEADER)
    assert (hashing.title, hashing.size, sum(hashing.advanced)) == (
        f"hashing {path.name}",
        len(SIF_HEADER),
        len(SIF_HEADER),
    )


def test_a_pull_that_fails_ends_its_step(tmp_path: Path) -> None:
    progress = Recorded()
    with pytest.raises(ImageError, match="exit status 3"):
        pull(tmp_path, progress, status=3)
    assert len(progress.steps) == 1
