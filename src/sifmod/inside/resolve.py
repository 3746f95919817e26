"""Prints what pip would install for the Python that runs it, as JSON; nothing is installed.

    resolve.py [ARGUMENT...]

Without arguments of `pip install` only pip's version is printed (empty if there is no pip), with the values of markers
and the tags of wheels that this Python takes.
"""

import json
import os
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def platform() -> "dict[str, Any]":
    """Return the version of pip, and what decides which wheels fit."""
    try:
        import pip
        from pip._vendor.packaging import markers, tags
    except ImportError:
        return {"pip": "", "environment": {}, "tags": []}
    return {
        "pip": pip.__version__,
        "environment": markers.default_environment(),
        "tags": [str(tag) for tag in tags.sys_tags()],
    }


def resolution(arguments: "list[str]") -> "dict[str, Any]":
    """Return exit status, output and report of a dry run of pip."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install", "--dry-run"]
        done = subprocess.run(  # noqa: S603 - this Python itself
            command + ["--report", report] + arguments,  # noqa: RUF005 - for old Pythons too
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        found = None
        if done.returncode == 0:
            with open(report, encoding="utf-8") as stream:
                found = json.load(stream)
    return {"status": done.returncode, "output": done.stdout.decode("utf-8", "replace"), "report": found}


if __name__ == "__main__":
    answer = platform()
    if sys.argv[1:] and answer["pip"]:
        answer.update(resolution(sys.argv[1:]))
    print(json.dumps(answer))
