"""`sifmod serve`: the servers of models that your jobs run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from sifmod.commands.options import json_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_table, echo_whole
from sifmod.errors import SifmodError
from sifmod.host.serving import (
    FOLDER,
    GONE,
    ON_NODE,
    READY,
    Serving,
    forget,
    key_problem,
    opened_folder,
    running_jobs,
    servings,
    state_of,
    stop,
    this_cluster,
)

# A server, its state, and what Slurm calls its job; empty if it is one of another cluster.
_Mine = tuple[Serving, str, str]


@contextmanager
def _mine() -> Iterator[tuple[list[_Mine], list[str]]]:
    """Yield the servers, and what is wrong; files of jobs that are gone are removed."""
    with opened_folder(Path.home()) as folder:
        found, damaged, unready = servings(folder) if folder >= 0 else ([], [], [])
        jobs, cluster = (running_jobs(), this_cluster()) if found or unready else ({}, "")
        problems = [f"'{Path.home() / FOLDER / name}' is not what a server has written: remove it" for name in damaged]
        for job in set(unready) - {*jobs}:
            forget(job, folder)
            problems.append(f"job {job} is gone, whose server never answered: its key was removed")
        alive = []
        for one in found:
            state = state_of(one, jobs, cluster=cluster)
            if state == GONE:
                forget(one.job, folder)
                problems.append(f"job {one.job} ({one.model or one.module}) is gone: its file and key were removed")
                continue
            alive.append((one, state, jobs.get(one.job, "") if one.cluster in ("", cluster) else ""))
            problems += filter(None, [key_problem(one, folder)])
        yield alive, problems


def _complete_jobs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        with opened_folder(Path.home()) as folder:
            found = servings(folder)[0] if folder >= 0 else []
    except (SifmodError, OSError):
        return []
    return [CompletionItem(one.job, help=one.model or one.module) for one in found if one.job.startswith(incomplete)]


def _chosen(job: str) -> _Mine:
    with _mine() as (found, problems):
        for problem in problems:
            echo_error(f"sifmod: {problem}")
        named = [item for item in found if job in ("", item[0].job)]
    if len(named) == 1:
        return named[0]
    if job or not named:
        raise SifmodError(
            f"{f'job {job} serves no model' if job else 'no job of yours serves a model'}, or not yet: see the job's "
            f"output; 'scancel {job or 'JOBID'}' ends one that is not ready"
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
        echo_json([{**asdict(one), "key_file": one.key_file or None, "state": state} for one, state, _ in found])
    elif found:
        rows = [(one.job, state, one.url, one.model or "-", one.module, one.since) for one, state, _ in found]
        echo_table(("JOB", "STATE", "URL", "MODEL", "MODULE", "SINCE"), rows)
    else:
        echo("no job of yours serves a model, or not yet: see the job's output")
    if problems or any(state not in (READY, ON_NODE) for _, state, _ in found):
        sys.exit(1)


@serve.command()
@click.argument("job", default="", metavar="[JOBID]", shell_complete=_complete_jobs)
@json_option
def url(job: str, as_json: bool) -> None:
    """Print the address of a server, of the only one without JOBID.

    \b
    Examples:
      curl $(sifmod serve url)/health
      sifmod serve url 123456 --json
    """
    one, state, _ = _chosen(job)
    if as_json:
        echo_json({**asdict(one), "key_file": one.key_file or None, "state": state})
    else:
        echo_whole(one.url)


@serve.command("stop")
@click.argument("job", default="", metavar="[JOBID]", shell_complete=_complete_jobs)
def stop_server(job: str) -> None:
    """End the job of a server, of the only one without JOBID.

    \b
    Examples:
      sifmod serve stop
      sifmod serve stop 123456
    """
    one, _, name = _chosen(job)
    if not name:
        raise SifmodError(f"job {one.job} is one of the cluster {one.cluster}: stop it there")
    stop(name)
    echo(f"job {one.job} ends; its address and key go with it")
