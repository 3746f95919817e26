"""Code in user software that starts by itself: Python runs it at each start, before the user's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sifmod.image.files import ImageFiles
from sifmod.image.inspection import open_image

# Python runs the lines of a .pth file that begin so (site.addpackage), whatever else is in it.
_CODE = ("import ", "import\t")
# What every new environment has, from setuptools and from sifmod (inside/venv.py).
_OF_NEW_ENVIRONMENTS = re.compile(
    r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '\w+'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?\s*"
    r"|(import site; site\.addsitedir\('[^'\\\n]*'\)\n)+"
)
_CUSTOMIZE = re.compile(r"(site|user)customize(\..*)?")
_LONGEST = 65_536


def starting_code(copy: Path, *, venv: str) -> tuple[str, ...]:
    """Return the paths of what starts by itself, relative to the tree, sorted.

    Args:
        copy: the directory or the packed file.
        venv: name of its virtual environment.

    Raises:
        ImageError: it can't be read.
    """
    found: set[str] = set()
    with open_image(copy) as (_known, files):
        if files is None:
            return ()
        for library in ("lib", "lib64"):
            top = f"/venv/{venv}/{library}"
            for folder in (f"{top}/{name}/site-packages" for name in files.names(top)):
                paths = (f"{folder}/{name}" for name in files.names(folder))
                found.update(path for path in paths if _starts(files, path))
    # lib64 is a link to lib
    return tuple(sorted({path.lstrip("/").replace("/lib64/", "/lib/", 1) for path in found}))


def _starts(files: ImageFiles[Any], path: str) -> bool:
    name = path.rpartition("/")[2]
    if not name.endswith(".pth"):
        return bool(_CUSTOMIZE.fullmatch(name))
    text = files.text(path, limit=_LONGEST)
    runs = any(line.startswith(_CODE) for line in text.lstrip("\ufeff").splitlines())
    return files.size(path) > _LONGEST or (runs and not _OF_NEW_ENVIRONMENTS.fullmatch(text))
