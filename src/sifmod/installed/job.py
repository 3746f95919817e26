"""Whether an installed container has what a job script starts in it."""

from __future__ import annotations

from dataclasses import replace

from sifmod.errors import JobError
from sifmod.install.manifest import Manifest
from sifmod.render.job import LAUNCHERS, PROGRAM, SRUN, Job


def fitted(job: Job, manifest: Manifest, *, launcher: str = "") -> Job:
    """Return a job as an installed container can run it: with the user's launcher, else Python's, or a program's.

    Raises:
        JobError: the container lacks the runscript of the launcher, or an image for enroot.
    """
    if job.pyxis and not manifest.squashfs:
        raise JobError(
            f"'{job.module}' was installed without an image for enroot, which pyxis needs: name enroot in 'runtimes' "
            "of the site file and install it again with eb --rebuild, or leave --pyxis out"
        )
    has_python = f"runscripts/{LAUNCHERS[SRUN]}" in manifest.files
    if job.server:
        if "runscripts/serve" not in manifest.files:
            raise JobError(
                f"'{job.module}' was installed by a sifmod that had no --serve: install it again with eb --rebuild "
                "--module-only"
            )
        return job
    job = replace(job, launcher=launcher or (SRUN if has_python else PROGRAM))
    check_runscript(job, manifest)
    return replace(job, is_wrapper=job.launcher == PROGRAM and f"bin/{job.command[0]}" in manifest.files)


def check_runscript(job: Job, manifest: Manifest) -> None:
    """Refuse a job whose runscript the container lacks."""
    runscript = LAUNCHERS.get(job.launcher, "")
    if runscript and f"runscripts/{runscript}" not in manifest.files:
        raise JobError(
            f"the container of '{job.module}' has no {runscript}, because its easyconfig names no Python: set "
            "conda_env or python_prefix there, or run a command of the container with --launcher program"
        )
