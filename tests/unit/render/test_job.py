import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional, Protocol

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import write_program

from sifmod.cli import cli
from sifmod.errors import JobError
from sifmod.render.job import Job, fetching, render_job
from sifmod.site.server import OTHER, load_servers
from sifmod.site.settings import Site, load_site
from sifmod.text.printable import STEERING

from ..support import a_site

GOLDEN = Path(__file__).resolve().parents[2] / "golden/jobs"
LUMI = load_site({"SIFMOD_SITE": "lumi"})
SERVERS = load_servers(LUMI)
MODULE = "PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315"
HOSTILE = ("a b", "it's", '"$(touch here)"', "`id`", "new\nline", "*", "", "\\", "é", "-u", "#SBATCH --nodes=9")

# LUMI's own example is the first: 4 nodes, a task for each of 8 GPUs, 7 cores each, masks.
CASES = {
    "lumi-srun": (
        Job(
            MODULE,
            ("mnist_DDP.py", "--gpu", "--modelpath", "model"),
            nodes=4,
            gpus_per_node=8,
            time="00:10:00",
            account="project_465000001",
        ),
        LUMI,
    ),
    "lumi-torchrun": (Job(MODULE, ("-m", "package.train"), nodes=4, gpus_per_node=8, launcher="torchrun"), LUMI),
    "lumi-part-of-a-node": (Job(MODULE, ("train.py",), gpus_per_node=2, partition="small-g"), LUMI),
    "a-thousand-nodes": (
        Job(MODULE, ("train.py",), nodes=1000, processes_per_node=8),
        a_site(),
    ),
    "pyxis-srun": (
        Job(MODULE, ("train.py", "it's"), nodes=2, gpus_per_node=8, pyxis=True),
        a_site(runtimes=("enroot",), cpu_bind_masks=LUMI.cpu_bind_masks),
    ),
    "pyxis-torchrun": (
        Job(MODULE, ("-m", "package.train"), nodes=2, gpus_per_node=4, launcher="torchrun", pyxis=True),
        a_site(runtimes=("apptainer", "enroot")),
    ),
    "pyxis-program": (
        Job("samtools/1.22", ("samtools", "index"), launcher="program", is_wrapper=True, pyxis=True),
        a_site(runtimes=("enroot",)),
    ),
    "serve": (
        Job(
            *("vLLM/0.33", ("vllm", "serve", "org/model")),
            nodes=2,
            gpus_per_node=8,
            launcher="program",
            server=SERVERS["vllm"],
        ),
        replace(LUMI, offline_nodes=True, serve_timeout=600),
    ),
    "hostile": (
        Job("Python/3.11", ("my script.py", *HOSTILE), nodes=2, processes_per_node=2),
        a_site(name="it's\n#SBATCH --nodes=9", runtime="my runtime"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_script_is_what_the_golden_file_holds(case: str) -> None:
    path = GOLDEN / f"{case}.sh"
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(render_job(*CASES[case]), encoding="utf-8")
    assert render_job(*CASES[case]) == path.read_text(encoding="utf-8"), "run `make golden` and look at the differences"


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_the_script_is_sound_bash(case: str) -> None:
    text = render_job(*CASES[case])
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--severity=warning", "-"], input=text, text=True, check=True)


def options(text: str) -> dict[str, str]:
    """Return the options that sbatch reads: those before the first line that is neither empty nor a comment."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            break
        if line.startswith("#SBATCH "):
            name, _, value = line[len("#SBATCH --") :].partition("=")
            found[name] = value
    return found


def test_nothing_but_sbatch_options_of_the_job_are_read_from_it() -> None:
    assert options(render_job(*CASES["hostile"])) == {
        "job-name": "my_script",
        "output": "%x-%j.out",
        "time": "1:00:00",
        "nodes": "2",
        "ntasks-per-node": "2",
    }


class Run(Protocol):
    """Runs a job script with stand-ins for `module` and `srun`; returns the words that srun was called with."""

    def __call__(self, job: Job, site: Optional[Site] = ...) -> list[str]: ...


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("job")
    write_program(folder / "srun", "#!/bin/bash\nprintf '%s\\0' \"$@\"\n")

    def run_it(job: Job, site: Optional[Site] = None) -> list[str]:
        text = render_job(job, site or a_site())
        done = subprocess.run(
            [
                "bash",
                "-c",
                f"module() {{ [[ $* == {shlex.quote('load ' + job.module)} ]] && SIF='/a b.sif'; }}\n{text}",
            ],
            env={"PATH": f"{folder}:/usr/bin:/bin"},
            cwd=folder,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]

    return run_it


@settings(max_examples=60)
@given(st.lists(st.text().filter(lambda text: not STEERING.search(text)), min_size=1, max_size=5))
def test_arguments_arrive_unchanged_whatever_they_hold(run: Run, words: list[str]) -> None:
    command = ("x.py", *words)
    assert run(Job("A/1", command)) == [
        *("--kill-on-bad-exit", "in-container", "conda-python-distributed", "-u"),
        *command,
    ]


def test_torchrun_is_one_task_with_the_cores_of_all_its_processes(run: Run) -> None:
    job = Job("A/1", ("x.py",), gpus_per_node=4, cpus_per_process=3, launcher="torchrun")
    assert run(job)[-3:] == ["torchrun-distributed", "--nproc_per_node=4", "x.py"]
    found = options(render_job(job, a_site()))
    assert (found["ntasks-per-node"], found["cpus-per-task"]) == ("1", "12")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, "1"), ({"gpus_per_node": 4}, "4"), ({"gpus_per_node": 4, "processes_per_node": 2}, "2")],
)
def test_there_is_a_process_for_each_gpu_unless_told_otherwise(changes: dict[str, Any], expected: str) -> None:
    assert options(render_job(Job("A/1", ("x.py",), **changes), a_site()))["ntasks-per-node"] == expected


def test_masks_are_for_whole_nodes_with_one_process_for_each_gpu(run: Run) -> None:
    whole = run(Job("A/1", ("x.py",), gpus_per_node=8), LUMI)
    assert "--cpu-bind=mask_cpu:" + ",".join(LUMI.cpu_bind_masks) in whole
    part = Job("A/1", ("x.py",), gpus_per_node=4)
    fewer = Job("A/1", ("x.py",), gpus_per_node=8, processes_per_node=4)
    for job in (part, fewer, Job("A/1", ("x.py",))):
        assert not [word for word in run(job, LUMI) if "cpu-bind" in word]


def test_a_partition_is_the_site_s_for_jobs_with_gpus_and_that_of_the_vendor() -> None:
    site = a_site(slurm_partition="gpu", slurm_account="sites")
    assert "partition" not in options(render_job(Job("A/1", ("x.py",)), site))
    assert options(render_job(Job("A/1", ("x.py",)), site))["account"] == "sites"
    found = options(render_job(Job("A/1", ("x.py",), gpus_per_node=1), site))
    assert found["partition"] == "gpu"
    own = options(render_job(Job("A/1", ("x.py",), gpus_per_node=1, partition="a,b", account="mine"), site))
    assert (own["partition"], own["account"]) == ("a,b", "mine")
    site = a_site(slurm_partition={"amd": "gpu-a", "nvidia": "gpu-n"})
    job = Job("A/1", ("x.py",), gpus_per_node=1)
    for gpu, partition in (("amd", "gpu-a"), ("nvidia", "gpu-n")):
        assert options(render_job(replace(job, gpu=gpu), site))["partition"] == partition
    with pytest.raises(JobError, match=r"does not say which GPUs it is for .amd: gpu-a, nvidia: gpu-n.: add --part"):
        render_job(job, site)
    with pytest.raises(JobError, match="names no partition for GPUs of 'nvidia'"):
        render_job(replace(job, gpu="nvidia"), a_site(slurm_partition={"amd": "gpu-a"}))
    assert options(render_job(replace(job, partition="own"), site))["partition"] == "own"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("dir/train.py",), "train"),
        (("-m", "package.train"), "package.train"),
        (("-u", "a b;c.py"), "a_b_c"),
        (("-c", "import torch"), "A"),
        (("ä.py",), "A"),
        (("x" * 99,), "x" * 40),
    ],
)
def test_the_job_has_the_name_of_its_script(command: tuple[str, ...], name: str) -> None:
    assert options(render_job(Job("A/1", command), a_site()))["job-name"] == name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["", "--", "x.py"], "'' is not the name of a module"),
        (["a b", "--", "x.py"], "'a b' is not the name of a module"),
        (["/a", "--", "x.py"], "'/a'"),
        (["a/", "--", "x.py"], "'a/'"),
        (["a//b", "--", "x.py"], "'a//b'"),
        (["a\n#SBATCH", "--", "x.py"], "is not the name of a module"),
        (["$(id)", "--", "x.py"], "'$(id)'"),
        (["A", "--", ""], "there is nothing to run"),
        (["A", "--", "x.py", "a\x1b[2Jb"], r"'a\x1b[2Jb' has a character that controls a terminal"),
        (["A", "--", "x.py", "a\rb"], r"'a\x0db' has a character that controls a terminal"),
        (["A", "--nodes", "0", "--", "x.py"], "0 is not a number of nodes: use 1 or more"),
        (["A", "--gpus-per-node", "-1", "--", "x.py"], "-1 is not a number of GPUs on each node"),
        (["A", "--tasks-per-node", "-1", "--", "x.py"], "-1 is not a number of processes"),
        (["A", "--cpus-per-task", "-1", "--", "x.py"], "-1 is not a number of CPU cores"),
        (["A", "--time", "1h", "--", "x.py"], "'1h' is not a time limit of Slurm"),
        (["A", "--time", "1\n#SBATCH -N9", "--", "x.py"], "is not a time limit"),
        (
            ["A", "--partition", "a b", "--", "x.py"],
            "'a b' can't be the name of Slurm's partition: correct --partition",
        ),
        (["A", "--account", "-a", "--", "x.py"], "'-a' can't be the name of Slurm's account"),
    ],
)
def test_what_can_not_be_right_is_refused_with_a_reason(words: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["sbatch", *words])
    assert result.output == ""
    assert isinstance(result.exception, JobError)
    assert result.exception.exit_code == 8
    assert message in str(result.exception)


def test_a_wrong_name_of_the_site_is_said_to_be_the_sites() -> None:
    with pytest.raises(JobError, match="slurm_account of the site"):
        render_job(Job("A/1", ("x.py",)), a_site(slurm_account="my account"))


@pytest.mark.parametrize("time", ["30", "10:00", "1:00:00", "2-0", "2-12:30", "2-12:30:00"])
def test_all_of_slurms_time_formats_are_taken(time: str) -> None:
    assert options(render_job(Job("A/1", ("x.py",), time=time), a_site()))["time"] == time


def test_the_command_prints_the_script_or_json() -> None:
    import json

    words = ["sbatch", "A/1", "--site", "lumi", "-N", "2", "--gpus-per-node", "8", "--", "x.py", "--nodes", "3"]
    job = Job("A/1", ("x.py", "--nodes", "3"), nodes=2, gpus_per_node=8)
    assert CliRunner().invoke(cli, words).output == render_job(job, LUMI)
    found = json.loads(CliRunner().invoke(cli, [words[0], "--json", *words[1:]]).output)
    assert found["script"] == render_job(job, LUMI)
    assert found["job"]["nodes"] == 2


def test_runscripts_are_started_by_the_host_command_which_looks_at_the_node() -> None:
    job = Job(module="PyTorch/2.2.0", command=("train.py",))
    assert "\n    in-container \\\n    conda-python-distributed" in render_job(job, a_site())


def serving(*command: str, server: str = "", **changes: Any) -> Job:
    return Job("A/1", command, launcher="program", server=SERVERS[server] if server else OTHER, **changes)


def test_a_server_gets_what_it_is_told_and_its_model_whatever_its_name_holds(run: Run) -> None:
    words = run(serving("vllm", "serve", *HOSTILE, server="vllm"), a_site(serve_any_address=True))
    end = words.index("--")
    assert words[:3] == ["--kill-on-bad-exit", "in-container", "serve"]
    assert set(words[3:end]) == {
        *("--server=vllm", "--model=a b", "--health=/health", "--limit=1800", "--nodes=1"),
        *("--key-variable=VLLM_API_KEY", "--any-address"),
    }
    assert words[end + 1 :] == ["vllm", "serve", *HOSTILE, "--host", "{host}", "--port", "{port}"]
    assert "--keyless" in run(serving("transformers", "serve", "M", server="transformers"))
    by_enroot = render_job(serving("x", "{port}", pyxis=True), a_site(runtimes=("apptainer", "enroot")))
    assert "/runscripts/with-environment \\\n    serve --health=/health" in by_enroot
    other = run(serving("x", "{port}", health="/up?a=1"))
    assert {"--health=/up?a=1", "--key-variable=API_KEY"} < set(other)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (serving("vllm", "serve", "M", "--api-key=k", server="vllm"), "leave --api-key out: the job itself sets"),
        (serving("vllm", "serve", "M", "--api_key=k", server="vllm"), "leave --api-key out: the job itself sets"),
        (serving("vllm", "serve", "M", "--host", "0.0.0.0", server="vllm"), "leave --host out"),  # noqa: S104 - refused
        (serving("x", "{port}", "--key={key}"), "so {key} can't be one: write {key_file}"),
        (serving("x.py", "{port}"), "'x.py' is none: write python x.py"),
        (
            serving("x", "{hots}:{port}"),
            "there is no {hots} (perhaps you meant 'host'): use {host}, {port}, {key_file}",
        ),
        (serving("x", "--port", "8000"), "'x' is not a server that is known, so its arguments must say where"),
        (serving("x", "{port}", health="no"), "--health: 'no' is not the path of a URL"),
        (
            serving("transformers", "serve", server="transformers", nodes=2),
            "transformers does not serve a model on sev",
        ),
        (serving("x", "{port}", processes_per_node=2), "leave --launcher and --tasks-per-node out"),
        (replace(serving("x", "{port}"), launcher="srun"), "leave --launcher and --tasks-per-node out"),
    ],
)
def test_a_server_that_can_not_be_told_is_refused(job: Job, said: str) -> None:
    with pytest.raises(JobError) as caught:
        render_job(job, a_site())
    assert said in str(caught.value)


def test_where_nodes_have_no_network_a_model_of_a_hub_is_fetched_before() -> None:
    job = serving("vllm", "serve", "org/model", server="vllm")
    assert fetching(job, a_site()) == ""
    assert fetching(job, a_site(offline_nodes=True)) == "module load A/1; in-container hf download org/model"
    for path in ("/scratch/m", "./m", "$(x)/m", "a/b/c"):
        assert fetching(replace(job, command=("vllm", "serve", path)), a_site(offline_nodes=True)) == ""
