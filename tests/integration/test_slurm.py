"""Containers under Slurm: `srun` with the image, with the wrapper, and as ranks of one program."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, LUMI_MODULE, ROOT, TESTBED, User, make_user

LOAD = f"module load {DEMO_MODULE}"
RANKS = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
PREFIX = "import sys; print(sys.prefix)"
SHOW = f"import os; print(*(os.environ[name] for name in {RANKS}))"


def ranks(output: str) -> list[dict[str, str]]:
    lines = [dict(zip(RANKS, line.split())) for line in output.splitlines()]
    return sorted(lines, key=lambda line: int(line["RANK"]))


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "python", ["singularity exec $SIF python", "python", "singularity exec $SIF conda-python-simple"]
)
def test_four_tasks_on_two_nodes_run_in_the_virtual_environment(demo: User, python: str) -> None:
    code = "import os, sys; print(os.environ['SLURMD_NODENAME'], sys.prefix)"
    lines = demo.out(f'{LOAD}; srun -N2 -n4 {python} -c "{code}"').splitlines()
    assert len(lines) == 4
    assert {line.split()[1] for line in lines} == {"/user-software/venv/demo"}
    assert len({line.split()[0] for line in lines}) == 2


def test_each_task_is_a_rank_and_all_have_one_master(demo: User) -> None:
    found = ranks(
        demo.out(
            f"{LOAD}; srun -N2 --ntasks-per-node=2 --nodelist=nid001,nid002 "
            f'singularity exec $SIF conda-python-distributed -c "{SHOW}"'
        )
    )
    assert [line["RANK"] for line in found] == ["0", "1", "2", "3"]
    assert {line["WORLD_SIZE"] for line in found} == {"4"}
    assert [line["LOCAL_RANK"] for line in found] == ["0", "1", "0", "1"]
    assert {line["LOCAL_WORLD_SIZE"] for line in found} == {"2"}
    assert [line["NODE_RANK"] for line in found] == ["0", "0", "1", "1"]
    assert {line["MASTER_ADDR"] for line in found} == {"nid001"}
    (port,) = {int(line["MASTER_PORT"]) for line in found}
    assert 20000 <= port < 32000


# Options of srun for each component of a step; whether every rank can know where rank 0 runs.
STEPS = {
    "block": (["-w nid00[2-4] -n7 -m block"], True),
    "cyclic": (["-w nid00[2-4] -n7 -m cyclic"], True),
    "plane": (["-w nid00[1-3] -n8 -m plane=2"], True),
    "fewer on the first node": (["-w nid001,nid003,nid003 -n3 -m arbitrary"], True),
    "arbitrary, in order": (["-w nid001,nid003,nid001,nid002 -n4 -m arbitrary"], True),
    "arbitrary, two nodes": (["-w nid003,nid001,nid003 -n3 -m arbitrary"], True),
    "arbitrary, four nodes": (["-w nid004,nid001,nid002,nid003,nid004 -n5 -m arbitrary"], False),
    "heterogeneous, in order": (["-w nid002 -n1", "-w nid003 -n2"], True),
    "heterogeneous, two nodes": (["-w nid003 -n1", "-w nid001 -n2"], True),
    "heterogeneous, the first of three in its place": (["-w nid001 -n1", "-w nid004 -n3", "-w nid002 -n2"], True),
    "heterogeneous, three nodes": (["-w nid002 -n1", "-w nid001 -n2", "-w nid004 -n3"], False),
    "heterogeneous, a component on two nodes": (["-w nid00[3-4] -n3", "-w nid001 -n1"], False),
}


@pytest.mark.some(5)
@pytest.mark.some(2)
@pytest.mark.parametrize("case", STEPS)
def test_rank_0_is_the_master_and_each_node_counts_its_tasks(demo: User, case: str) -> None:
    """If rank 0 knows that the others can't know its node, it says what to set, which then works."""
    components, known = STEPS[case]
    names = ["SLURMD_NODENAME", *RANKS]
    program = f'singularity exec $SIF conda-python-distributed -c "{SHOW.replace(str(RANKS), str(names))}"'
    step = "srun " + " : ".join(f"{options} {program}" for options in components)
    done = demo.run(f"{LOAD}; {step}", check=known)
    if not known:
        assert done.returncode != 0
        advice = re.search("run '(export MASTER_ADDR=nid00[1-4])' before srun", done.stderr)
        assert advice, done.stderr
        done = demo.run(f"{LOAD}; {advice[1]}; {step}")
    lines = [dict(zip(names, line.split())) for line in done.stdout.splitlines()]
    found = sorted(lines, key=lambda line: int(line["RANK"]))
    nodes = [line["SLURMD_NODENAME"] for line in found]
    for rank, (node, line) in enumerate(zip(nodes, found)):
        del line["NODE_RANK"]
        assert line == {
            "SLURMD_NODENAME": node,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(found)),
            "LOCAL_RANK": str(nodes[:rank].count(node)),
            "LOCAL_WORLD_SIZE": str(nodes.count(node)),
            "MASTER_ADDR": nodes[0],
            "MASTER_PORT": found[0]["MASTER_PORT"],
        }


def test_a_step_on_fewer_nodes_than_the_job_has_its_own_master(demo: User, job_directory: Path) -> None:
    (job_directory / "job.sh").write_text(
        f"""#!/bin/bash
#SBATCH --nodes=3 --ntasks=3 --output={job_directory}/out.%j
{LOAD}
srun -N1 -n1 --nodelist=nid003 --output=one.txt singularity exec $SIF conda-python-distributed -c "{SHOW}"
srun -N2 -n2 --nodelist=nid002,nid003 --output=two.txt singularity exec $SIF conda-python-distributed -c "{SHOW}"
"""
    )
    demo.run("sbatch --wait --nodelist=nid00[1-3] job.sh", cwd=job_directory)
    (one,) = ranks((job_directory / "one.txt").read_text())
    two = ranks((job_directory / "two.txt").read_text())
    assert (one["MASTER_ADDR"], one["WORLD_SIZE"]) == ("nid003", "1")
    assert {(line["MASTER_ADDR"], line["WORLD_SIZE"]) for line in two} == {("nid002", "2")}
    assert one["MASTER_PORT"] != two[0]["MASTER_PORT"]


def test_two_jobs_on_the_same_nodes_have_different_ports(demo: User) -> None:
    step = f'srun -N2 -n2 --nodelist=nid001,nid002 singularity exec $SIF conda-python-distributed -c "{SHOW}"'
    found = ranks(demo.out(f"{LOAD}; {step} & {step}; wait"))
    assert len(found) == 4
    assert len({line["MASTER_PORT"] for line in found}) == 2


@pytest.mark.some(1)
@pytest.mark.parametrize("value", ["$(touch /tmp/sifmod-was-here)", "", "'; touch x; '", "a[$(touch x)]"])
def test_a_hostile_slurm_variable_is_refused_and_never_evaluated(demo: User, job_directory: Path, value: str) -> None:
    demo.env["HOSTILE"] = value
    done = demo.run(
        f"{LOAD}; SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=$HOSTILE SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=1 "
        "SLURM_STEP_ID=0 singularity exec $SIF conda-python-distributed -c pass",
        check=False,
        cwd=job_directory,
    )
    del demo.env["HOSTILE"]
    assert done.returncode == 1
    assert "SLURM_STEP_NUM_TASKS" in done.stderr
    assert list(job_directory.iterdir()) == []
    assert not Path("/tmp/sifmod-was-here").exists()


def test_gpus_come_from_what_slurm_granted(lumi: User) -> None:
    """LUMI's site gives tasks one of GPUs 4 and 6 each; the user's export wins. A task with one of its own keeps it."""
    show = "import os; print(os.environ['RANK'], os.environ['ROCR_VISIBLE_DEVICES'])"
    run = f'srun -N1 -n2 singularity exec $SIF conda-python-distributed -c "{show}"'
    together = lumi.out(f"module load {LUMI_MODULE}; ROCR_VISIBLE_DEVICES=4,6 {run}").splitlines()
    assert sorted(together) == ["0 4", "1 6"]
    wrapper = run.replace("singularity exec $SIF", "$C/bin/in-container")
    for setup, command in (("true", run), ("true", wrapper), (f"module unload {LUMI_MODULE}", wrapper)):
        script = f"module load {LUMI_MODULE}; C=$CONTAINERROOT; {setup}; export SIFMOD_TASK_GPUS=all"
        every = lumi.out(f"{script} ROCR_VISIBLE_DEVICES=4,6; {command}").splitlines()
        assert sorted(every) == ["0 4,6", "1 4,6"], setup
    own = lumi.out(f"module load {LUMI_MODULE}; ROCR_VISIBLE_DEVICES=5 {run}").splitlines()
    assert sorted(own) == ["0 5", "1 5"]


def test_miopens_cache_is_the_jobs_own(lumi: User) -> None:
    show = "import os; print(os.environ['SLURM_JOB_ID'], os.environ['MIOPEN_USER_DB_PATH'])"
    script = f'module load {LUMI_MODULE}; srun -n1 singularity exec $SIF conda-python-distributed -c "{show}"'
    job, cache = lumi.out(script).split()
    assert job in cache
    assert cache.startswith("/tmp/")


FAKE_TORCHRUN = "import os, sys; print(os.environ['SLURMD_NODENAME'], sys.prefix, *sys.argv[1:])\n"


@pytest.fixture(scope="session")
def with_torchrun(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo image with a `torch.distributed.run` that only says how it was called."""
    user = make_user(tmp_path_factory.mktemp("torchrun") / "eb")
    user.eb(DEMO_EASYCONFIG)
    package = user.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages/torch/distributed"
    package.mkdir(parents=True)
    (package / "run.py").write_text(FAKE_TORCHRUN)
    return user


def test_torchrun_gets_its_rendezvous_from_slurm(with_torchrun: User) -> None:
    script = f"{LOAD}; srun -N2 --ntasks-per-node=1 --nodelist=nid003,nid004 singularity exec $SIF torchrun-distributed"
    lines = sorted(with_torchrun.out(f"{script} --nproc-per-node=3 -m mine 'a b'").splitlines())
    assert [line.split()[0] for line in lines] == ["nid003", "nid004"]
    for rank, line in enumerate(lines):
        words = line.split()[2:]
        assert words[:3] == ["--nnodes=2", f"--node_rank={rank}", "--master_addr=nid003"]
        assert words[4:] == ["--nproc_per_node=1", "--nproc-per-node=3", "-m", "mine", "a", "b"]
    assert len({line.split()[5] for line in lines}) == 1
    assert {line.split()[1] for line in lines} == {"/user-software/venv/demo"}


def test_extra_options_of_the_runtime_come_from_one_variable(demo: User) -> None:
    show = "python -c 'import os; print(os.environ[\"COLOUR\"])'"
    assert demo.out(f"{LOAD}; SIFMOD_RUNTIME_OPTIONS='--env COLOUR=red' {show}") == "red"


HOSTILE = [
    "a b",
    "it's",
    '"$(touch was-here)"',
    "`touch was-here`",
    "new\nline",
    "*",
    "",
    "\\",
    "é",
    "#SBATCH --nodes=4",
]


def test_a_job_script_of_sifmod_runs_as_it_is(demo: User, job_directory: Path) -> None:
    """`sifmod sbatch | sbatch`: two tasks on each of two nodes, and every argument as it was given."""
    (job_directory / "show it.py").write_text(
        "import json, os, sys\n"
        f"print(json.dumps([sys.argv[1:], sys.prefix, *(os.environ[name] for name in {RANKS})]))\n"
    )
    words = " ".join(shlex.quote(word) for word in ["show it.py", *HOSTILE])
    demo.run(
        f"sifmod sbatch {DEMO_MODULE} --nodes 2 --tasks-per-node 2 --time 5 -- {words} | sbatch --wait",
        cwd=job_directory,
    )
    (output,) = job_directory.glob("show_it-*.out")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line[:2] for line in lines] == [[HOSTILE, "/user-software/venv/demo"]] * 4
    found = [dict(zip(RANKS, line[2:])) for line in lines]
    assert sorted(line["RANK"] for line in found) == ["0", "1", "2", "3"]
    assert {(line["WORLD_SIZE"], line["LOCAL_WORLD_SIZE"]) for line in found} == {("4", "2")}
    assert sorted(path.name for path in job_directory.iterdir()) == ["show it.py", output.name]


def options_as_slurm_reads_them(report: str) -> dict[str, str]:
    """Return the options in what `sbatch --verbose` reports."""
    lines = [line.removeprefix("sbatch: ") for line in report.splitlines()]
    block = lines[lines.index("defined options") + 1 : lines.index("end of defined options")]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in block) if colon}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_slurm_reads_a_job_of_a_thousand_nodes(demo: User, job_directory: Path, launcher: str) -> None:
    """The testbed has four nodes, so the controller refuses the job: sbatch has read the script before it asks."""
    requested = "--nodes 1000 --tasks-per-node 8 --cpus-per-task 7 --time 1-12:30 --partition main"
    done = demo.run(
        f"sifmod sbatch {DEMO_MODULE} {requested} --launcher {launcher} -- x.py --nodes=2 | "
        "sbatch --verbose --test-only",
        check=False,
        cwd=job_directory,
    )
    found = options_as_slurm_reads_them(done.stderr)
    tasks, cores = ("8", "7") if launcher == "srun" else ("1", "56")
    assert {name: found[name] for name in ("nodes", "ntasks-per-node", "cpus-per-task", "time", "partition")} == {
        "nodes": "1000",
        "ntasks-per-node": tasks,
        "cpus-per-task": cores,
        "time": "1-12:30:00",
        "partition": "main",
    }
    assert "allocation failure: Requested node configuration is not available" in done.stderr


def test_a_job_script_for_torchrun_starts_it_once_on_each_node(with_torchrun: User, job_directory: Path) -> None:
    with_torchrun.run(
        f"sifmod sbatch {DEMO_MODULE} -N 2 --tasks-per-node 3 --launcher torchrun -- x.py 'a b' | sbatch --wait",
        cwd=job_directory,
    )
    (output,) = job_directory.glob("x-*.out")
    lines = sorted(output.read_text().splitlines())
    assert len(lines) == 2
    assert len({line.split()[0] for line in lines}) == 2
    assert all(line.endswith("--nproc_per_node=3 x.py a b") for line in lines)


def test_a_job_whose_module_is_missing_or_no_container_says_so(demo: User, job_directory: Path) -> None:
    other = job_directory / "modules"
    (other / "plain").mkdir(parents=True)
    (other / "plain/1.0.lua").write_text("")
    for module, message in (("no/such", "no/such"), ("plain/1.0", "the module is not a container module of sifmod")):
        done = demo.run(
            f"module use {other}; sifmod sbatch {module} --time 5 -- x.py | sbatch --wait -o out.txt",
            cwd=job_directory,
            check=False,
        )
        assert done.returncode != 0
        assert message in (job_directory / "out.txt").read_text()


def test_a_batch_script_without_srun_is_refused(demo: User, job_directory: Path) -> None:
    """It would be one rank that waits for the others."""
    run = "singularity exec $SIF conda-python-distributed -c 'print(1)'"
    done = demo.run(f"{LOAD}; sbatch --wait -n2 -o out.txt --wrap {shlex.quote(run)}", check=False, cwd=job_directory)
    assert done.returncode != 0
    assert "put srun in front of the command" in (job_directory / "out.txt").read_text()


def test_the_shell_of_salloc_is_one_process_and_names_srun(demo: User) -> None:
    """It is a step of one task, which keeps the variables of the job: these options are what salloc gives its shell."""
    shell = f"srun --interactive --preserve-env singularity exec $SIF conda-python-distributed -c {shlex.quote(SHOW)}"
    done = demo.run(f"{LOAD}; salloc --quiet -N2 -n4 {shell}")
    assert ranks(done.stdout)[0]["WORLD_SIZE"] == "1"
    assert "this step has 1 of the 4 tasks of the job: put srun in front" in done.stderr


def test_the_folder_for_temporary_files_of_a_job_is_in_containers_on_all_its_nodes(demo: User, scratch: Path) -> None:
    code = "import os, tempfile; print(os.environ['SLURMD_NODENAME'], tempfile.gettempdir())"
    (scratch / "job.sh").write_text(
        f'#!/bin/bash -e\nexport TMPDIR={scratch}/tmp\nmkdir "$TMPDIR"\n{LOAD}\n'
        f'for python in "singularity exec $SIF python" python; do srun --label $python -c "{code}"; done\n'
    )
    done = demo.run("sbatch --wait -N2 -n2 -o out job.sh; cat out", cwd=scratch)
    assert done.stdout.count(f" {scratch}/tmp\n") == 4, done.stdout


def test_containers_start_from_copies_that_sbcast_made(packed_demo: User, job_directory: Path) -> None:
    """The job script of the how-to, where each node has a folder of its own."""
    page = (ROOT / "docs/howto/broadcast-an-image.md").read_text()
    script = "".join(line[4:] for line in page.splitlines(keepends=True) if line.startswith("    "))
    local = Path(os.environ["SLURM_CONF"]).parent / "node-local"
    each = 'srun -n "$SLURM_NNODES" --ntasks-per-node=1'
    begin = f"export TMPDIR={local}/$SLURM_JOB_ID\n{each} mkdir -p $TMPDIR\n"
    begin += f"trap '{each} rmdir $TMPDIR' EXIT\nmodule load {DEMO_MODULE}\n"
    show = "import os, greeting; print(os.environ['APPTAINER_CONTAINER'], greeting.greet())"
    end = f"python -c {shlex.quote(show)}\n"
    for old, new in (
        ("module load PyTorch/2.2.0\n", begin),
        ("--nodes=1000 --ntasks-per-node=8", "--nodes=2 --ntasks-per-node=2"),
        ("conda-python-distributed -u train.py\n", end),
        ("/tmp/", "$TMPDIR/"),
    ):
        assert old in script
        script = script.replace(old, new)
    # whoever reads the original fails
    remove = 'rm -- "$CONTAINERROOT"/{demo.sif,user-software.squashfs}\nsrun singularity'
    (job_directory / "job.sh").write_text(script.replace("srun singularity", remove))
    packed_demo.run(f"cd {job_directory} && sbatch --wait --output=job.out job.sh")
    lines = (job_directory / "job.out").read_text().splitlines()
    assert [re.sub(r"/\d+/", "/", line) for line in lines] == [f"{local}/image.sif hello"] * 4


def test_a_job_starts_in_a_directory_that_is_reached_through_a_link(demo: User, scratch: Path, tmp_path: Path) -> None:
    (scratch / "show.py").write_text("import os; print(os.getcwd())\n")
    (tmp_path / "link").symlink_to(scratch)
    submit = f"sifmod sbatch {DEMO_MODULE} -- show.py | sbatch --wait -o out"
    done = demo.run(f"cd link; {submit} >&2; cat out; {LOAD}; srun python show.py", cwd=tmp_path)
    assert done.stdout == f"{scratch}\n{scratch}\n"


def slurm_inside() -> str:
    """Return what binds the testbed's Slurm into a container, which as the host is a Debian 12."""
    libraries = "/usr/lib/x86_64-linux-gnu"
    plugins = [str(path) for path in Path(libraries).glob("slurm*")]
    (munge,) = {str(path) for path in Path(libraries).glob("libmunge.so.2")}
    conf = TESTBED / "slurm/slurm.conf"
    (socket,) = re.findall(r"AuthInfo=socket=(\S+)/", conf.read_text())
    paths = ["/usr/bin/sbatch", munge, *plugins, *{str(conf), str(conf.resolve())}, socket]
    return f"APPTAINER_BIND={','.join(paths)}"


@pytest.mark.parametrize(
    ("submit", "script"),
    [
        ("sbatch", f"python -c '{PREFIX}'"),
        pytest.param(
            *("sbatch", f"{LOAD}; start-shell -c 'sbatch --wait -o again again.sh'; cat again"), marks=pytest.mark.slow
        ),
        ("/usr/bin/sbatch", f"$CONTAINERROOT/bin/python -c '{PREFIX}'"),
        ("/usr/bin/sbatch", f"{LOAD}; python -c '{PREFIX}'; singularity exec $SIF python -c '{PREFIX}'; srun -n1 true"),
    ],
    ids=["by name", "again", "a wrapper", "the module"],
)
def test_a_job_submitted_in_a_container_runs_in_it(demo: User, job_directory: Path, submit: str, script: str) -> None:
    (job_directory / "job.sh").write_text(f"#!/bin/bash -e\n{script}\n")
    (job_directory / "again.sh").write_text(f"#!/bin/bash -e\npython -c '{PREFIX}'\n")
    done = demo.run(
        f"{LOAD}; export {slurm_inside()}; start-shell -c '{submit} --wait -o out job.sh'",
        cwd=job_directory,
        check=False,
    )
    out = (job_directory / "out").read_text() if (job_directory / "out").exists() else ""
    assert done.returncode == 0, done.stderr + out
    assert "/user-software/venv/demo" in out.splitlines(), out


def test_a_job_of_a_shell_without_the_module_has_the_commands_of_the_container(demo: User, job_directory: Path) -> None:
    """As a kernel of Jupyter is started."""
    root = demo.installdir(DEMO_MODULE)
    (job_directory / "job.sh").write_text(f"#!/bin/bash -e\npython -c '{PREFIX}'\n")
    demo.run(f"export {slurm_inside()}; {root}/bin/start-shell -c 'sbatch --wait -o out job.sh'", cwd=job_directory)
    assert (job_directory / "out").read_text() == "/user-software/venv/demo\n"


def test_a_command_of_the_host_says_in_a_container_where_to_type_it(demo: User) -> None:
    for command in ("sbatch", "make-squashfs", "sifmod", "module"):
        # exported as a function, `module` is the host's in a bash there
        done = demo.run(f"{LOAD}; export -nf module; SLURM_SUBMIT_HOST=uan01 start-shell -c '{command} x'", check=False)
        host = "uan01" if command == "sbatch" else demo.out("echo $HOSTNAME")
        assert done.returncode == 127
        assert f"{command}: this is a command of the host" in done.stderr
        assert f"type it in another shell on {host}," in done.stderr
    assert demo.out(f"{LOAD}; start-shell -c 'command -v srun'", check=False) == ""
