"""Code in user software that starts by itself: Python runs it at each start, before the user's own."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from sifmod import names
from sifmod.errors import ImageError
from sifmod.image.files import ImageFiles
from sifmod.image.inspection import open_image
from sifmod.usersoftware.layers import BELOW_FILE

# Python runs the lines of a .pth file that begin so (site.addpackage), whatever else is in it.
_CODE = ("import ", "import\t")
# What every new environment has from setuptools.
_OF_SETUPTOOLS = re.compile(
    r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '\w+'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?\s*"
)
# What sifmod writes for an image whose Python is a virtual environment (inside/venv.py).
_OF_SIFMOD = "_image.pth"
_ADDS_LAYER = re.compile(
    rf"(?:import os, site, sys; p = '{names.USER_LAYERS}/[1-9]/venv/[A-Za-z0-9._-]+/lib/python3\.[0-9]{{1,3}}t?"
    r"/site-packages'; p in sys\.path or not os\.path\.isdir\(p\) or site\.addsitedir\(p\)\n)*"
)
_OF_A_PREFIX = re.compile(r"(/.+)/lib(?:64)?/python3\.[0-9]+t?/site-packages")
_ADDS_FOLDER = re.compile(r"import site; site\.addsitedir\('(/[^'\\\n]*/(?:site|dist)-packages)'\)\n")
_CUSTOMIZE = re.compile(r"(site|user)customize(\..*)?")
_LONGEST = 65_536


def starting_code(copy: Path, *, venv: str, image: Path) -> tuple[str, ...]:
    """Return the paths of what starts by itself in a copy, a directory or packed, on its image, relative and sorted."""
    code: set[str] = set()
    with open_image(copy) as (_known, files):
        if files is None:
            return ()
        for library in ("lib", "lib64"):
            top = f"/venv/{venv}/{library}"
            for folder in (f"{top}/{name}/site-packages" for name in files.names(top)):
                paths = (f"{folder}/{name}" for name in files.names(folder))
                code.update(path for path in paths if _starts(files, path, image))
    # lib64 is a link to lib
    return tuple(sorted({path.lstrip("/").replace("/lib64/", "/lib/", 1) for path in code}))


def _starts(files: ImageFiles[Any], path: str, image: Path) -> bool:
    name = path.rpartition("/")[2]
    if not name.endswith(".pth"):
        return bool(_CUSTOMIZE.fullmatch(name))
    text = files.text(path, limit=_LONGEST)
    runs = any(line.startswith(_CODE) for line in text.lstrip("\ufeff").splitlines())
    if files.size(path) > _LONGEST:
        return True
    is_known = (
        _OF_SETUPTOOLS.fullmatch(text)
        or (name == BELOW_FILE and _ADDS_LAYER.fullmatch(text))
        or (name == _OF_SIFMOD and _adds_only_the_image(text, image))
    )
    return runs and not is_known


def _adds_only_the_image(text: str, image: Path) -> bool:
    """Return whether the lines only add folders of packages in an image; Python runs .pth files in such folders too."""
    folders = _ADDS_FOLDER.findall(text)
    if _ADDS_FOLDER.sub("", text):
        return False
    with contextlib.suppress(ImageError), open_image(image) as (_known, files):
        present = [folder for folder in folders if files and files.is_directory(folder)]
        own = tuple(f"{match[1]}/" for match in map(_OF_A_PREFIX.fullmatch, present) if match)
        # Debian also names folders that the image need not have; nobody can make them there
        return all(folder.startswith(own) and ".." not in folder.split("/") for folder in folders)
    return False
