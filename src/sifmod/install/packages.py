"""The Python packages that an installed container provides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from sifmod import names
from sifmod.errors import CommandError, InstallError
from sifmod.host.runtime import look
from sifmod.install.probe import PythonFacts, facts_from_answer
from sifmod.resources import program

# First look for what the Python would wait for; installations without user software have no such program.
_CHECKED = f"""
if [ -e {names.RUNSCRIPTS}/{names.PLAIN_FILES} ]; then
    {names.RUNSCRIPTS}/list-packages --plain-files || exit
fi
exec "$@"
"""


def python_facts(root: Path, module: str, interpreter: str) -> PythonFacts:
    """Return version and packages of an installed container's Python, asked by its command through `start-shell`."""
    command = [str(root / "bin" / "start-shell"), "-c", _CHECKED, "-", interpreter, "-I", "-"]
    try:
        done = look(command, stdin=program("probe"))
    except CommandError as error:
        raise InstallError(f"the Python of {module} does not run: {error}") from error
    if done.status:
        raise InstallError(f"the Python of {module} does not run: {done.last_lines}")
    try:
        return facts_from_answer(done.stdout)
    except ValueError as error:
        raise InstallError(f"the Python of {module} printed something unexpected: {error}") from error


def check_packages(found: PythonFacts, expected: Mapping[str, str]) -> None:
    """Check that every expected package is there in exactly the expected version.

    Raises:
        InstallError: a package is missing or has another version; the message lists all of them.
    """
    versions = {canonicalize_name(name): version for name, version in found.packages}
    wrong = [
        f"{name} {version} (found {versions.get(canonicalize_name(name), 'none')})"
        for name, version in sorted(expected.items())
        if versions.get(canonicalize_name(name)) != version
    ]
    if wrong:
        raise InstallError(
            f"the container lacks packages listed in expected_packages: {', '.join(wrong)}. Correct the easyconfig, or "
            "use the image that it was written for"
        )
