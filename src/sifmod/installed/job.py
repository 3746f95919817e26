"""Whether an installed container has what a job script starts in it."""

from __future__ import annotations

from sifmod.errors import JobError
from sifmod.install.manifest import Manifest
from sifmod.render.job import LAUNCHERS, Job


def check_runscript(job: Job, manifest: Manifest) -> None:
    """Refuse a job whose runscript the container lacks.

    Args:
        job: the job.
        manifest: that of the module's installation.

    Raises:
        JobError: the container lacks the runscript of the launcher.
    """
    runscript = LAUNCHERS.get(job.launcher, "")
    if runscript and f"runscripts/{runscript}" not in manifest.files:
        raise JobError(
            f"the container of '{job.module}' has no {runscript}, because its easyconfig names no Python: set "
            "conda_env or python_prefix there, or write a job script that starts the container's own commands with srun"
        )
