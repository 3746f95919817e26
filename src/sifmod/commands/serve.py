"""`sifmod serve`: the servers of models that your jobs run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from sifmod.commands.options import json_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_table, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.errors import SifmodError
from sifmod.host.serving import (
    FOLDER,
    GONE,
    ON_NODE,
    READY,
    STARTING,
    Serving,
    forget,
    is_left,
    jobs_of_user,
    key_problem,
    lacking,
    opened_folder,
    output_of,
    queued_server,
    servings,
    state_of,
    stop,
    this_cluster,
    wait,
)

# A server, its state, and what Slurm calls its job; empty if it is one of another cluster.
_Mine = tuple[Serving, str, str]


@contextmanager
def _mine() -> Iterator[tuple[list[_Mine], list[str]]]:
    """Yield the servers, and what is wrong; files of jobs that are gone are removed."""
    with opened_folder(Path.home()) as folder:
        found, damaged, unready = servings(folder) if folder >= 0 else ([], [], [])
        jobs = jobs_of_user() if found or unready else {}
        cluster = this_cluster() if found else ""
        problems = [f"'{Path.home() / FOLDER / name}' is not what a server has written: remove it" for name in damaged]
        alive = []
        for job in unready:
            if job in jobs:
                alive.append((Serving(job), STARTING, jobs[job].name))
            elif is_left(job, folder):
                forget(job, folder)
                problems.append(f"job {job} is gone, whose server never answered: its key was removed")
        for one in found:
            state = state_of(one, jobs, cluster=cluster)
            if state == GONE:
                forget(one.job, folder)
                problems.append(f"job {one.job} ({one.model or one.module}) is gone: its file and key were removed")
                continue
            alive.append((one, state, jobs[one.job].name if one.job in jobs and one.cluster in ("", cluster) else ""))
            problems += filter(None, [key_problem(one, folder)])
        yield alive, problems


def _complete_jobs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        with opened_folder(Path.home()) as folder:
            found, _, unready = servings(folder) if folder >= 0 else ([], [], [])
    except (SifmodError, OSError):
        return []
    listed = [*found, *map(Serving, unready)]
    return [CompletionItem(one.job, help=one.model or one.module) for one in listed if one.job.startswith(incomplete)]


def _checked(_context: click.Context, _parameter: click.Parameter, job: str) -> str:
    if job and not re.fullmatch(r"[0-9]{1,10}(_[0-9]{1,10})?", job):
        raise click.BadParameter(f"'{job}' is not the number of a job: see 'sifmod serve list' and 'squeue --me'.")
    return job


_job = click.argument("job", default="", metavar="[JOBID]", callback=_checked, shell_complete=_complete_jobs)


def _described(one: Serving, state: str) -> dict[str, Any]:
    """Return what `--json` says of a server: without a value is what it does not have, or not yet."""
    return {**{name: value or None for name, value in asdict(one).items()}, "state": state}


def _chosen(job: str) -> _Mine:
    with _mine() as (found, problems):
        for problem in problems:
            echo_error(f"sifmod: {problem}")
        named = [item for item in found if job in ("", item[0].job, item[2])]
    if len(named) == 1:
        return named[0]
    if job:
        raise SifmodError(lacking(job, jobs_of_user()))
    if not named:
        raise SifmodError(
            "no job of yours serves a model, or it has not started: see 'squeue --me', and wait for it with "
            "'sifmod serve url --wait JOBID'"
        )
    raise SifmodError(f"several jobs of yours serve models: name one of {', '.join(one.job for one, _, _ in named)}")


@click.group()
def serve() -> None:
    """Show and stop the servers of models that your jobs run: see sifmod sbatch --serve.

    \b
    Examples:
      sifmod serve list
      curl $(sifmod serve url)/health
      sifmod serve stop 123456
    """


@serve.command("list")
@json_option
def list_servers(as_json: bool) -> None:
    """List your servers, and whether each answers now. What a job that is gone has left is removed.

    Exit status: 0; 1 if a server does not answer, or something was wrong.

    \b
    Examples:
      sifmod serve list
      sifmod serve list --json
    """
    with _mine() as (found, problems):
        pass
    for problem in problems:
        echo_error(f"sifmod: {problem}")
    if as_json:
        echo_json([_described(one, state) for one, state, _ in found])
    elif found:
        rows = [
            (one.job, state, *(text or "-" for text in (one.url, one.model, one.module, one.since)))
            for one, state, _ in found
        ]
        echo_table(("JOB", "STATE", "URL", "MODEL", "MODULE", "SINCE"), rows)
    else:
        echo("no job of yours serves a model, or it has not started: see 'squeue --me'")
    if problems or any(state not in (STARTING, READY, ON_NODE) for _, state, _ in found):
        sys.exit(1)


@serve.command()
@_job
@click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait until the server answers, or its job ends. Ctrl-C ends the waiting, not the job.",
)
@json_option
def url(job: str, waits: bool, as_json: bool) -> None:
    """Print the address of a server, of the only one without JOBID.

    Exit status: 0; 1 if there is none, or not yet.

    \b
    Examples:
      curl $(sifmod serve url)/health
      sifmod serve url --wait 123456
      sifmod serve url 123456 --json
    """
    if waits and not job:
        job = _chosen(job)[0].job
    if waits:
        with shown_progress().step(f"waiting for the server of job {job}"):
            wait(job, Path.home(), lambda told: echo_error(f"sifmod: {told}"))
    one, state, _ = _chosen(job)
    if state == STARTING:
        raise SifmodError(
            f"the server of job {one.job} does not answer yet: see {output_of(one.job)}, or wait for it, "
            f"sifmod serve url --wait {one.job}"
        )
    if as_json:
        echo_json(_described(one, state))
    else:
        echo_whole(one.url)


@serve.command("stop")
@_job
def stop_server(job: str) -> None:
    """End the job of a server, of the only one without JOBID, or take it out of the queue.

    \b
    Examples:
      sifmod serve stop
      sifmod serve stop 123456
    """
    queued = queued_server(job) if job else ""
    if queued:
        stop(queued)
        echo(f"job {queued} is out of the queue")
        return
    one, _, name = _chosen(job)
    if not name:
        raise SifmodError(f"job {one.job} is one of the cluster {one.cluster}: stop it there")
    stop(name)
    echo(f"job {name} ends; its address and key go with it")
