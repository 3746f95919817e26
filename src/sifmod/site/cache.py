"""A site's caches: the folder of each user that variables such as HF_HOME point below, and how it is resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sifmod import names
from sifmod.container.variables import is_for_host

# The key of the table that is no variable.
ROOT = "root"

# In a folder: the module's name and version, for caches of what is compiled against its packages.
MODULE = "{module}"

# Upper case: the scripts that resolve them have variables of their own in lower case.
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")

# Why a root can't be used on a host; the path comes before the other two.
UNCLEAN = "its path is not absolute here, or has '//', '.' or '..' in it"
MISSING = "does not exist (make it with: mkdir -p -m 700)"
UNUSABLE = "can't be made (no space, or no permission), or is not a folder that you can write to"

# Why a folder on the way to the root, which comes before it, lets others put their caches there. share/on-node.sh has
# the same sentences.
FOREIGN = "belongs to another user, who could put other files there"
SHARED = "can be written to by others, who could put other files there (chmod go-w, or chmod +t if they need it)"
LINK = "is a link that is not followed: name the folder itself"
UNSEEN = "can't be looked at with this Lua, which has no posix.sys.stat"

_PART = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")

# bash sets these without exporting them, so the module would see another value, or none.
_OF_BASH = ("EUID", "GROUPS", "HOSTNAME", "PPID", "RANDOM", "SECONDS", "UID")

# Programs of the host read these too, so only commands and runscripts set them, for what they start.
_HOST_CACHES = ("CONDA_PKGS_DIRS", "PIP_CACHE_DIR", "UV_CACHE_DIR", "XDG_CACHE_HOME")

# JSON schemas' patterns: what a regular expression alone can tell
ROOT_PATTERN = r"^$|^(/|\$\{[A-Z_][A-Z0-9_]*\})([^$\x00-\x1f\x7f]|\$\{[A-Z_][A-Z0-9_]*\})*$"
FOLDER_PATTERN = r"^(?!/)([^{}$\x00-\x1f\x7f]|\{module\})*$"


def parts(root: str) -> tuple[str, ...]:
    """Return the names of the variables in a root, each once."""
    return tuple(dict.fromkeys(_PART.findall(root)))


def pieces(root: str) -> list[tuple[str, str]]:
    """Return a root as pairs of a text and the name of the variable after it; the last name may be empty."""
    found, end = [], 0
    for part in _PART.finditer(root):
        found.append((root[end : part.start()], part[1]))
        end = part.end()
    return [*found, (root[end:], "")] if end < len(root) else found


def check_entry(name: str, value: object) -> None:
    """Check one entry of the table."""
    if not isinstance(value, str):
        raise ValueError(f"write the value of {name} in quotes")  # noqa: TRY004 - the value of a valid table
    if name != ROOT:
        _check_variable(name, value)
    elif value:
        _check_root(value)


def _check_root(root: str) -> None:
    text = _PART.sub("x", root)
    if "$" in text:
        raise ValueError("write variables as ${NAME}, in upper case: nothing else is expanded")
    if not root.startswith(("/", "${")):
        raise ValueError("it is not an absolute path: begin it with '/', or with a variable such as ${HOME}")
    of_bash = next((name for name in parts(root) if name in _OF_BASH), "")
    if of_bash:
        raise ValueError(f"only bash knows {of_bash}, so a module can't resolve it: use another, such as ${{USER}}")
    _check_path(f"/{text}" if root.startswith("${") else text)


def _check_variable(name: str, folder: str) -> None:
    if not VARIABLE.fullmatch(name):
        raise ValueError(f"'{name}' is neither '{ROOT}' nor a variable: write the name of a variable in upper case")
    if name in names.RESERVED_VARIABLES:
        raise ValueError(f"sifmod sets {name} itself: remove it")
    if is_for_host(name) and name not in _HOST_CACHES:
        raise ValueError(f"{name} names no cache, and programs of the host read it: remove it")
    if folder.startswith("/"):
        raise ValueError(f"'{folder}' is an absolute path: name a folder below {ROOT}")
    if "$" in folder:
        raise ValueError(f"only {MODULE} is expanded in a folder: put variables into {ROOT}")
    if re.search(r"[{}]", folder.replace(MODULE, "")):
        raise ValueError(f"of words in braces only {MODULE} is expanded")
    if folder:
        _check_path(f"/{folder}")


def _check_path(path: str) -> None:
    if re.search(r"[\x00-\x1f\x7f]", path):
        raise ValueError("write it without control characters")
    if re.search(r"//|/\.\.?/", f"{path}/"):
        raise ValueError("leave out '.', '..', '//' and a '/' at the end")


def resolve(root: str, environ: Mapping[str, str]) -> str:
    """Return the root, as the site has it, on this host, as modules and scripts find it; it need not exist.

    Raises:
        ValueError: a variable in it is not set, or its value makes no clean path; the message says which.
    """
    for name in parts(root):
        if not environ.get(name):
            raise ValueError(f"{name} is not set")
    path = _PART.sub(lambda found: environ[found[1]], root)
    if not path.startswith("/") or re.search(r"//|/\.\.?/|[\x00-\x1f\x7f]", f"{path}/"):
        raise ValueError(UNCLEAN)
    return path


def folders(root: Path, entries: Mapping[str, str]) -> Iterator[Path]:
    """Yield a resolved root, and each folder below it that the table names, from the top down."""
    yield root
    for name, folder in entries.items():
        if name != ROOT and folder:
            yield from (root / part for part in (*reversed(Path(folder).parents), Path(folder)))
