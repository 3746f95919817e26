"""Where the data files of the package are: the only place in the code that knows."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_path(name: str) -> Path:
    """Return the folder of data files called `name`, such as `sites` or `wrappers`.

    A wheel maps such folders to `sifmod/data/` (pyproject.toml); in a checkout, and so in an editable install, they
    are at the top level.
    """
    for candidate in (_PACKAGE / "data" / name, _PACKAGE.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"sifmod's folder '{name}' is missing beside '{_PACKAGE}': reinstall sifmod")


def program(name: str) -> str:
    """Return the text of a program in `inside/`, which runs in containers: NAME.py, or a shell script, NAME.sh."""
    path = _PACKAGE / "inside" / (name if name.endswith(".sh") else f"{name}.py")
    if not path.is_file():
        raise FileNotFoundError(f"sifmod's program '{path}' is missing: reinstall sifmod")
    return path.read_text(encoding="utf-8")
