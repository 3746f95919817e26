"""Prints as JSON which Python runs it, and what that lacks to build extensions: `cc`, `c++`, `headers`."""

import json
import os
import platform
import shutil
import sys
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def missing() -> "Iterator[str]":
    """Yield what is missing; the compilers are those that this Python names, as setuptools takes them."""
    for what, variable, usual in (("cc", "CC", "gcc"), ("c++", "CXX", "g++")):
        named = (sysconfig.get_config_var(variable) or usual).split()
        if not shutil.which(named[0] if named else usual):
            yield what
    if not os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield "headers"


if __name__ == "__main__":
    answer = {
        "python": platform.python_version(),
        "prefix": sys.base_prefix,
        "libc": " ".join(platform.libc_ver()).strip(),
        "include": sysconfig.get_path("include"),
        "missing": list(missing()),
    }
    print(json.dumps(answer))
