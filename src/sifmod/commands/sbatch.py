"""`sifmod sbatch`: print a job script."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, site_option
from sifmod.commands.output import echo_error, echo_json, echo_whole
from sifmod.doctor.site import unseen
from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.installed.installation import Installation
from sifmod.installed.job import fitted
from sifmod.installed.modulepath import find_usable
from sifmod.render.job import LAUNCHERS, PROGRAM, Job, fetching, render_job
from sifmod.site.server import load_servers, server_of
from sifmod.site.settings import load_settings


@click.command()
@click.argument("module", shell_complete=complete_modules)
@click.argument("command", nargs=-1, required=True, metavar="-- SCRIPT|PROGRAM [ARGUMENT]...")
@click.option("--nodes", "-N", type=int, default=1, show_default=True, help="Number of nodes.")
@click.option("--gpus-per-node", type=int, default=0, show_default=True, help="GPUs of each node.")
@click.option("--tasks-per-node", type=int, default=0, help="Processes on each node (default: one per GPU, or one).")
@click.option("--cpus-per-task", type=int, default=0, help="CPU cores of each process.")
@click.option(
    "--launcher",
    type=click.Choice(list(LAUNCHERS)),
    default=None,
    help="srun starts every process of Python; torchrun is started once on each node and starts the processes there; "
    "program starts a program of the container in every task (default: srun, or program if the module has no Python).",
)
@click.option(
    "--serve",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[NAME]",
    help="The command serves a model: give it a port and a key, and say where it is when it answers. NAME is a known "
    "server (default: the one of the command's name; write --serve=NAME).",
)
@click.option("--health", default="", metavar="PATH", help="With --serve: where the server says that it is ready.")
@click.option(
    "--batch",
    default="",
    metavar="FILE",
    help="With --serve: send the requests of FILE, in the format of OpenAI's batches, and end the job.",
)
@click.option("--time", "-t", default=Job.time, show_default=True, help="Time limit, as for sbatch.")
@click.option("--partition", "-p", default="", help="Partition (default: the site's if the job requests GPUs).")
@click.option("--account", "-A", default="", help="Account (default: the site's).")
@click.option(
    "--pyxis/--no-pyxis",
    default=None,
    help="Start the container with enroot, through Slurm's plugin pyxis (default: if the site names enroot first).",
)
@site_option
@json_option
def sbatch(
    module: str,
    command: tuple[str, ...],
    nodes: int,
    gpus_per_node: int,
    tasks_per_node: int,
    cpus_per_task: int,
    launcher: Optional[str],
    serve: Optional[str],
    health: str,
    batch: str,
    time: str,
    partition: str,
    account: str,
    pyxis: Optional[bool],
    site_name: str,
    as_json: bool,
) -> None:
    """Print a job script that runs a Python script or a program in the container of MODULE, ready for sbatch.

    MODULE may be on another cluster. If it is installed here, NAME/VERSION is enough, or NAME if there is one version:
    the script loads the module by the name that EasyBuild's naming scheme has made of it. The script sets the site's
    partition and account. If the site has CPU masks and the job takes all GPUs of a node, each process is bound to the
    cores nearest to its GPU.

    With --serve, the command serves a model, and each node has one task. {host}, {port} and {key_file} in the arguments
    of a server that is not known are filled in; it reads its key from that file, or from the variable API_KEY.

    \b
    Examples:
      sifmod sbatch PyTorch/2.2.0 -- train.py --epochs 10 >job.sh
      sifmod sbatch PyTorch/2.2.0 --nodes 4 --gpus-per-node 8 -- train.py | sbatch
      sifmod sbatch PyTorch/2.2.0 -N 2 --launcher torchrun -- -m package.train
      sifmod sbatch PyTorch/2.2.0 -N 2 --gpus-per-node 8 --pyxis -- train.py
      sifmod sbatch samtools/1.16.1 --cpus-per-task 8 -- samtools index -@8 a.bam
      sifmod sbatch vLLM/0.33 --serve --gpus-per-node 4 -- vllm serve ORG/MODEL
      sifmod sbatch App/1.0 --serve --health / -- app --bind {host}:{port}
    """
    # a naming scheme may have made another name for `module load` of NAME/VERSION
    installed = _installation(module)
    site = load_settings(site=site_name).site
    if serve is None and (health or batch):
        raise click.UsageError("--health and --batch are for --serve.")
    server = None if serve is None else server_of(command, load_servers(site), serve)
    job = Job(
        module=installed.module if installed else module,
        command=command,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        processes_per_node=tasks_per_node,
        cpus_per_process=cpus_per_task,
        launcher=launcher or (PROGRAM if server else Job.launcher),
        time=time,
        partition=partition,
        account=account,
        gpu=str(installed.manifest.parameters.get("gpu") or "") if installed else "",
        pyxis=site.prefers_plugin if pyxis is None else pyxis,
        server=server,
        health=health,
        batch=batch,
    )
    if installed:
        job = fitted(job, installed.manifest, launcher=launcher or "")
        lacking = unseen((*command, batch), installed.binds, site, os.environ)
        if lacking:
            is_link = lacking.target != lacking.path
            leads = f"leads through a link to '{lacking.target}'" if is_link else "exists"
            echo_error(
                f"sifmod: '{lacking.path}' {leads} on this host, {'and' if is_link else 'but'} no bind path of "
                f"{installed.module} contains {'that' if is_link else 'it'}. To see it in the job, type before sbatch: "
                f"{lacking.way}"
            )
    script = render_job(job, site)
    if batch and not Path(batch).exists():
        echo_error(f"sifmod: '{batch}' is not here: the job needs it, in the folder from which it is submitted")
    fetch = fetching(job, site)
    if fetch:
        echo_error(
            "sifmod: nodes of this site have no way to the internet: fetch the model on a login node before, with: "
            f"{fetch}"
        )
    if server and server.keyless:
        echo_error(
            f"sifmod: {server.name} checks no key: it listens on its node alone, where every user of that node can use "
            "it. If others are on it, ask for a whole node: sbatch --exclusive"
        )
    if as_json:
        echo_json({"job": asdict(job), "script": script})
    else:
        echo_whole(script)


def _installation(module: str) -> Optional[Installation]:
    """Return the installation of a module; None if it is not installed here: the job may be for another cluster."""
    try:
        return find_usable(software_space(), module, os.environ)
    except SifmodError:
        return None
