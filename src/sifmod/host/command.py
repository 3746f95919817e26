"""Asking a command of the host something."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

_TIMEOUT = 30  # seconds for a command that only looks; those of GPUs wait for a driver that hangs


def ask(command: list[str], *, directory: Optional[Path] = None) -> tuple[int, str]:
    """Return exit status and output of a command; output of both kinds, because tools complain on either.

    A command that can't be started, or takes too long, has the exit status 1 and the reason as its output.

    Args:
        command: the command and its arguments.
        directory: where it runs; the current directory by default.
    """
    try:
        done = subprocess.run(  # noqa: S603 - an argument list
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, (done.stdout + done.stderr).strip()
