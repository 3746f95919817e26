"""Names what would stop Python or pip where they read files of user software: a FIFO, a device or something huge.

    plain_files.py USER_SOFTWARE

Python waits for ever for a FIFO in the place of METADATA, and a link to /dev/zero fills the memory. It is run by the
image's Python, with -I, which reads nothing of user software, before the Python of a virtual environment is started.

Exit status: 0 if nothing was named, 1 if something was.
"""

import glob
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 64 << 20  # bytes; the list of a package's files has some megabytes at most
MOST_NAMED = 20

# What is read when Python starts, and about packages.
READ = ("pyvenv.cfg",)
READ_IN_PACKAGES = (
    *("*.pth", "*.egg-link", "*customize.py"),
    *("*.dist-info/*", "*.egg-info", "*.egg-info/*", "*.egg/EGG-INFO/*"),
)


def problem(path: str) -> str:
    """Return what is wrong with a file that is read; empty if it is a plain file, a folder or nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    return f"has {status.st_size} bytes" if status.st_size > LARGEST else ""


def named(top: str) -> "Iterator[str]":
    """Yield a line for each file below user software that would stop Python or pip."""
    for venv in sorted(glob.glob(os.path.join(glob.escape(top), "venv/*"))):
        patterns = [*READ, *(os.path.join("lib/python3*/site-packages", pattern) for pattern in READ_IN_PACKAGES)]
        for pattern in patterns:
            for path in sorted(glob.glob(os.path.join(glob.escape(venv), pattern))):
                what = problem(path)
                if what:
                    yield f"{path!a} {what}: Python would not get past it, so remove it"


def main(top: str) -> int:
    """Print the lines; return the exit status."""
    lines = list(named(top))
    for line in lines[:MOST_NAMED]:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
