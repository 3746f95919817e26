"""Imports modules and writes the names of the files that this opens to a file descriptor, in order.

    imports.py DESCRIPTOR MODULE...

A zero byte ends each name. Python 3.6 and 3.7 don't report files that they open: for them it writes the modules' files
and the libraries.
"""

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def opened(modules: "list[str]") -> "list[bytes]":
    """Import modules, and return the names of opened files and loaded libraries, without duplicates."""
    names = {}  # type: dict[bytes, None]

    def watch(event: str, arguments: "tuple[Any, ...]") -> None:
        name = arguments[0] if event == "open" else arguments[1] if event == "import" else None
        if isinstance(name, (str, bytes)):
            names.setdefault(os.fsencode(name))

    if sys.version_info >= (3, 8):
        sys.addaudithook(watch)
    for module in modules:
        importlib.import_module(module)
    for loaded in list(sys.modules.values()):
        for name in (getattr(loaded, "__cached__", None), getattr(loaded, "__file__", None)):
            if isinstance(name, str):
                names.setdefault(os.fsencode(name))
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            names.setdefault(line.rstrip(b"\n").split(b" ", 5)[-1].strip())
    return list(names)


if __name__ == "__main__":
    with open(int(sys.argv[1]), "wb") as out:
        out.write(b"".join(name + b"\0" for name in opened(sys.argv[2:])))
