from pathlib import Path

import pytest

from ..imagetrees import linux, partition, sif, squashfs, write
from ..support import Need


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, need: Need) -> Path:
    folder = tmp_path_factory.mktemp("image")
    top = linux(folder / "tree")
    write(top, "/usr/lib/python3.11/venv/__init__.py")
    write(top, "/usr/lib/python3.11/ensurepip/__init__.py")
    content = squashfs(need("mksquashfs"), top, folder / "x.squashfs").read_bytes()
    return sif(folder / "demo.sif", partition(content))
