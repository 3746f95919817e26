"""Copies trees of user software into one, as Python sees them together: the first has precedence.

    merge.py TARGET TREE...

TARGET exists and is empty. A package that a tree has is not taken from those after it: neither its files nor its
metadata. Other files are taken from the first tree that has them.

How far it is goes to standard error, and what is wrong to standard output.

Exit status: 0 done, 8 no space is left, 9 something can't be read or written.
"""

import csv
import errno
import os
import re
import runpy
import shutil
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def canonical(name: str) -> str:
    """Return the normalized name of a package, by which pip compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def site_folders(tree: str) -> "Iterator[str]":
    """Yield the folders of packages in a tree, relative to it, sorted."""
    for venv in sorted(names_in(os.path.join(tree, "venv"))):
        for python in sorted(names_in(os.path.join(tree, "venv", venv, "lib"))):
            folder = os.path.join("venv", venv, "lib", python, "site-packages")
            if os.path.isdir(os.path.join(tree, folder)):
                yield folder


def names_in(folder: str) -> "list[str]":
    """Return the names in a folder; none if it is not there."""
    return os.listdir(folder) if os.path.isdir(folder) else []


def packages_in(tree: str, folder: str) -> "dict[str, list[str]]":
    """Return the metadata of the packages in a folder of a tree, by normalized name."""
    found = {}  # type: dict[str, list[str]]
    for name in sorted(os.listdir(os.path.join(tree, folder))):
        # old versions of pip also write the Python's version: NAME-VERSION-py3.6.egg-info
        match = re.match(r"([^~-][^-]*)(-.+)?\.(dist|egg)-info$", name)
        if match:
            found.setdefault(canonical(match.group(1)), []).append(name)
    return found


def files_of(tree: str, folder: str, metadata: str) -> "set[str]":
    """Return the paths of a package's files relative to the tree, by its RECORD; none if it has no list of them."""
    top = os.path.join(folder, metadata)
    # the second one is of old versions of pip, and lists paths relative to itself
    names = [os.path.join(folder, row[0]) for row in rows_of(os.path.join(tree, top, "RECORD")) if row]
    names += [os.path.join(top, row[0]) for row in rows_of(os.path.join(tree, top, "installed-files.txt")) if row]
    found = {os.path.normpath(name) for name in names}
    # a damaged list may name a folder, which has files of others too
    return {path for path in found if "\0" not in path and not is_folder(os.path.join(tree, path))}


def rows_of(path: str) -> "list[list[str]]":
    """Return the rows of a list of files up to where it is damaged; none if it is not there."""
    rows = []  # type: list[list[str]]
    try:
        # as os.listdir decodes names
        encoding = sys.getfilesystemencoding()
        with open(path, encoding=encoding, errors="surrogateescape", newline="") as stream:
            rows.extend(csv.reader(stream))
    except (OSError, csv.Error):
        pass
    return rows


def hidden(tree: str, have: "set[tuple[str, str]]") -> "set[str]":
    """Return the paths of a tree to skip, because an earlier tree has the package; note which packages it adds."""
    metadata, paths, taken, added = set(), set(), set(), set()  # type: set[str], set[str], set[str], set[tuple[str, str]]
    for folder in site_folders(tree):
        for package, names in packages_in(tree, folder).items():
            files = set().union(*(files_of(tree, folder, name) for name in names))  # type: set[str]
            if (folder, package) in have:
                metadata.update(os.path.join(folder, name) for name in names)
                paths |= files
            else:
                added.add((folder, package))
                taken |= files
    have |= added
    # packages may share a file
    return metadata | paths - taken


def is_cache_of(path: str, paths: "set[str]") -> bool:
    """Return whether a file is what Python compiled from one of these paths."""
    folder, name = os.path.split(path)
    above, cache = os.path.split(folder)
    return cache == "__pycache__" and os.path.join(above, name.split(".")[0] + ".py") in paths


def copy(tree: str, target: str, without: "set[str]", advance: "Callable[[int], object]" = int) -> None:
    """Copy what the target does not have, except for some paths and what is below them; count what was looked at."""
    copied = {}  # type: dict[int, str]
    for top, folders, files in os.walk(tree, onerror=fail):
        below = os.path.relpath(top, tree)
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        folders[:] = [name for name in folders if name not in links]
        for name in list(folders):
            path = os.path.normpath(os.path.join(below, name))
            new = os.path.join(target, path)
            if path in without or (os.path.lexists(new) and not is_folder(new)):
                folders.remove(name)
            elif not os.path.lexists(new):
                # its own mode follows when all is copied
                os.mkdir(new, 0o700)
        advance(len(folders))
        for name in files + links:
            advance(1)
            path = os.path.normpath(os.path.join(below, name))
            new = os.path.join(target, path)
            if path in without or is_cache_of(path, without) or os.path.lexists(new):
                continue
            old = os.path.join(top, name)
            status = os.lstat(old)
            if status.st_ino in copied and status.st_nlink > 1:
                link(copied[status.st_ino], new)
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                shutil.copy2(old, new, follow_symlinks=False)
                copied[status.st_ino] = new


def link(old: str, new: str) -> None:
    """Make a hard link, or a copy in a file system that has no such links between folders."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def is_folder(path: str) -> bool:
    """Return whether this is a folder itself, not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def fail(error: OSError) -> None:
    """Raise what os.walk would pass over."""
    raise error


def remove_empty_folders(target: str, trees: "list[str]") -> None:
    """Remove the folders that are empty because nothing in them was taken; give the others the mode that they had."""
    for top, _folders, _files in os.walk(target, topdown=False):
        if top == target:
            continue
        path = os.path.relpath(top, target)
        origins = [os.path.join(tree, path) for tree in trees if is_folder(os.path.join(tree, path))]
        if not os.listdir(top) and all(os.listdir(origin) for origin in origins):
            os.rmdir(top)
        elif origins:
            shutil.copystat(origins[0], top)


def main(target: str, trees: "list[str]") -> int:
    """Merge the trees; return the exit status."""
    have = set()  # type: set[tuple[str, str]]
    shared = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trees.py"))
    try:
        # of a mounted file, the number of its entries
        entries = sum(os.statvfs(tree).f_files for tree in trees)
        with shared["Progress"]("putting together", entries, "files") as progress:
            for tree in trees:
                copy(tree, target, hidden(tree, have), progress.advance)
        remove_empty_folders(target, trees)
    except (OSError, shutil.Error) as error:
        print(str(error))
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        return 8 if is_full else 9
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
