"""Jobs that programs in a container submit, with the Slurm of the host as `sifmod site discover slurm` finds it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from kernels import client_of, outcome

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, TESTBED, User, make_user

LOAD = f"module load {DEMO_MODULE}"
PREFIX = "import sys; print(sys.prefix)"
VENV = "/user-software/venv/demo"

# The cells of docs/howto/submit-from-a-notebook.md, with the partition of the testbed.
SUBMITIT = """
import submitit
def square(x):
    import sys
    return x * x, sys.prefix
executor = submitit.AutoExecutor(folder="submitit-logs", slurm_python="python")
executor.update_parameters(timeout_min=10, slurm_partition="main")
print(executor.cluster, executor.submit(square, 7).result())
"""
DASK = """
import sys
from dask.distributed import Client
from dask_jobqueue import SLURMCluster
with SLURMCluster(cores=1, memory="500MB", walltime="00:10:00", queue="main", python="python") as cluster:
    cluster.scale(jobs=2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=300)
        print(client.gather(client.map(lambda x: (x * x, sys.prefix), range(3))))
"""
HYDRA_APP = """
import sys
import hydra
@hydra.main(version_base=None)
def main(config):
    print("ran", config, sys.prefix)
main()
"""
HYDRA = """
!python app.py --multirun hydra/launcher=submitit_slurm hydra.launcher.partition=main hydra.launcher.timeout_min=10 \
    '+hydra.launcher.srun_args=[in-container]' hydra.sweep.dir=sweep +a=1,2
!cat sweep/.submitit/*/*.out
"""
SNAKEFILE = """
rule all:
    input: "out/1.txt", "out/2.txt"
rule one:
    output: "out/{n}.txt"
    shell: "python -c 'import sys; print(sys.prefix)' > {output}"
"""
SNAKEMAKE = """
!snakemake --executor slurm --jobs 2 --default-resources slurm_partition=main runtime=10 mem_mb=300 \
    --shared-fs-usage persistence input-output source-cache sources storage-local-copies \
    --slurm-status-command squeue --slurm-init-seconds-before-status-checks 2
!cat out/1.txt out/2.txt
"""
TOOLS = (
    *("submitit==1.5.4", "dask-jobqueue==0.9.0", "hydra-core==1.3.2", "hydra-submitit-launcher==1.2.0"),
    *("snakemake==9.27.1", "snakemake-executor-plugin-slurm==2.8.0"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site file that brings the testbed's Slurm into all containers.

    Munge's socket has another path on the host that submits than on the nodes.
    """
    path = tmp_path_factory.mktemp("site") / "site.toml"
    conf = TESTBED / "slurm" / "slurm.conf"
    (socket,) = re.findall(r"(?m)^AuthInfo=socket=(.*)$", conf.read_text())
    own = path.parent / "slurm" / "slurm.conf"
    own.parent.mkdir()
    (path.parent / "munge").symlink_to(Path(socket).parent)
    own.write_text(conf.read_text().replace(socket, f"{path.parent}/munge/{Path(socket).name}"))
    command = ["env", f"SLURM_CONF={own}", "sifmod", "site", "discover", "slurm"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path.write_text(f'default_features = ["slurm"]\n{(TESTBED / "site.toml").read_text()}{found}')
    return path


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory, site: Path) -> User:
    """The demo on that site, with submitit; tests that use it leave it as it is."""
    user = make_user(
        tmp_path_factory.mktemp("submitting") / "eb",
        SIFMOD_SITE=str(site),
        SLURM_CONF=str(site.parent / "slurm" / "slurm.conf"),
    )
    user.eb(DEMO_EASYCONFIG)
    user.pip_install(DEMO_MODULE, TOOLS[0])
    return user


def test_sbatch_and_submitit_submit_from_inside(inside: User, job_directory: Path) -> None:
    (job_directory / "job.sh").write_text(f"#!/bin/bash -e\npython -c '{PREFIX}'\n")
    (job_directory / "submit.py").write_text(SUBMITIT)
    done = inside.run(
        f"{LOAD}; timeout 230 python submit.py & {LOAD}; start-shell -c 'sbatch --wait -o out job.sh'; wait; cat out",
        cwd=job_directory,
    )
    assert f"slurm (49, '{VENV}')" in done.stdout
    assert done.stdout.splitlines()[-1] == VENV


@pytest.mark.slow
def test_a_job_that_was_submitted_inside_submits_again(inside: User, job_directory: Path) -> None:
    """From a container there too: the features of the module apply in the job."""
    (job_directory / "again.sh").write_text(f"#!/bin/bash -e\npython -c '{PREFIX}'\n")
    code = "import subprocess; subprocess.run(['sbatch', '--wait', '-o', 'again', 'again.sh'], check=True)"
    (job_directory / "job.sh").write_text(f'#!/bin/bash -e\npython -c "{code}"\n')
    inside.run(f"{LOAD}; start-shell -c 'sbatch --wait -o out job.sh'", cwd=job_directory)
    assert (job_directory / "again").read_text() == f"{VENV}\n"


@pytest.mark.slow
def test_the_other_commands_of_slurm_work_inside(inside: User, job_directory: Path) -> None:
    held = "job=$(sbatch --parsable --hold --wrap true); squeue -h -o %i-%u -j $job; scancel $job; squeue -h -j $job"
    (job_directory / "run.sh").write_text(f"srun -n2 hostname\nsrun -n1 python -c '{PREFIX}'\n{held}\n")
    # sys.executable, which the host lacks
    with (job_directory / "run.sh").open("a") as lines_of_script:
        lines_of_script.write(f"srun -n1 {VENV}/bin/python -c '{PREFIX}'\n")
        lines_of_script.write(f"srun -n 1 --label python -c 'import sys; print(sys.argv[1])' {VENV}/bin/python\n")
        lines_of_script.write("getent passwd munge\nsinfo -h -o %P\n")
    done = inside.run(f"{LOAD}; start-shell run.sh", cwd=job_directory)
    lines = done.stdout.splitlines()
    assert lines.count(VENV) == 2, done.stdout
    assert f"0: {VENV}/bin/python" in lines
    assert lines[-1] == "main*"
    assert lines[-2].startswith("munge:")  # a user of the host, whom the image lacks
    assert "WARNING" not in done.stderr
    assert any(line.endswith("-" + inside.out("id -un")) for line in lines)
    # without the feature programs find no srun, and take this host for one without Slurm
    assert inside.out(f"{LOAD}; SIFMOD_FEATURES=-slurm start-shell -c 'command -v srun'", check=False) == ""


@pytest.mark.slow
def test_a_node_without_munge_is_named(inside: User, site: Path, tmp_path: Path) -> None:
    munge = tmp_path / "munge"
    changed = tmp_path / "site.toml"
    (socket,) = {line for line in site.read_text().splitlines() if line.endswith('/munge:ro",')}
    lines = [line for line in site.read_text().splitlines(keepends=True) if "/munge/run:" not in line]
    changed.write_text("".join(lines).replace(socket, f'    "{munge}:{munge}:ro",'))
    checked = inside.run(f"sifmod site check --site {changed}", status=1)
    assert str(munge) in checked.stdout
    user = make_user(tmp_path / "eb", SIFMOD_SITE=str(changed), SLURM_CONF=inside.env["SLURM_CONF"])
    user.eb(DEMO_EASYCONFIG)
    done = user.run(f"{LOAD}; start-shell -c true", status=126)
    assert str(munge) in done.stderr
    assert "SIFMOD_FEATURES=-slurm" in done.stderr
    # the folder without a socket, as where munged does not run: Slurm says so
    munge.mkdir()
    done = user.run(f"{LOAD}; start-shell -c 'sbatch --wrap true'", check=False)
    assert done.returncode != 0
    assert "munge" in done.stderr


@pytest.fixture(scope="module")
def notebook(inside: User) -> User:
    """The same with all tools, and a kernel."""
    inside.env["JUPYTER_DATA_DIR"] = str(inside.prefix / "jupyter")
    inside.pip_install(DEMO_MODULE, "--no-compile", "ipykernel", *TOOLS)
    inside.run(f"sifmod kernel {DEMO_MODULE}")
    return inside


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_how_to_submits_from_a_notebook(notebook: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", notebook.env["SLURM_CONF"])
    data = notebook.prefix / "jupyter"
    (data / "app.py").write_text(HYDRA_APP)
    (data / "Snakefile").write_text(SNAKEFILE)
    for _, client in client_of(data, tmp_path / "runtime"):
        assert f"slurm (49, '{VENV}')" in outcome(client, SUBMITIT)
        assert f"[(0, '{VENV}'), (1, '{VENV}'), (4, '{VENV}')]" in outcome(client, DASK, timeout=400)
        said = outcome(client, HYDRA, timeout=400)
        assert [f"ran {{'a': {number}}} {VENV}" in said for number in (1, 2)] == [True, True], said
        said = outcome(client, SNAKEMAKE, timeout=400)
        assert said.splitlines()[-2:] == [VENV, VENV], said
