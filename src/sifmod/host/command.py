"""Asking a command of the host something."""

from __future__ import annotations

import subprocess

_TIMEOUT = 30  # seconds for a command that only looks; those of GPUs wait for a driver that hangs


def ask(command: list[str]) -> tuple[int, str]:
    """Return exit status and output of a command; output of both kinds, because tools complain on either.

    A command that can't be started, or takes too long, has the exit status 1 and the reason as its output.
    """
    try:
        done = subprocess.run(  # noqa: S603 - an argument list
            command,
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
