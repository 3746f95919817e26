"""Many installed tools: copies of one, each with its own name in all that an install writes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

# What an install writes below the prefix of EasyBuild.
_FOLDERS = ("software", "modules/all", "modules/tools", "ebfiles_repo")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def copy_tool(prefix: Path, name: str, other: str) -> None:
    """Copy an installed tool under another name: its image and what does not name it by hard links.

    Checksums in its manifest become those of the files as they are then.
    """
    hashes: dict[str, str] = {}
    manifests = []
    for folder in _FOLDERS:
        shutil.copytree(prefix / folder / name, prefix / folder / other, symlinks=True, copy_function=os.link)
        for path in _files(prefix / folder / other):
            if path.stat().st_size < 1 << 20 and name.encode() in (text := path.read_bytes()):
                mode, own = path.stat().st_mode, text.replace(name.encode(), other.encode())
                hashes[hashlib.sha256(text).hexdigest()] = hashlib.sha256(own).hexdigest()
                path.unlink()
                path.write_bytes(own)
                path.chmod(mode)
                if path.name == "sifmod.json":
                    manifests.append(path)
            if name in path.name:
                path.rename(path.with_name(path.name.replace(name, other)))
        for path in (prefix / folder / other).rglob("*"):
            if path.is_symlink() and name in (target := str(path.readlink())):
                path.unlink()
                path.symlink_to(target.replace(name, other))
    for path in manifests:
        manifest = path.read_text()
        for before, after in hashes.items():
            manifest = manifest.replace(before, after)
        path.write_text(manifest)
