"""The module's commands and job scripts with the real enroot and pyxis, on a machine that has both.

Elsewhere, in CI too, these are left out: Debian has neither, and `tests/standins.py` takes their place.
"""

import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from bothruntimes import CONTAINERS, changed, differing, host_variables, install, with_runtime
from test_slurm import HOSTILE
from test_wrappers import ARGUMENTS, LISTEN
from tests.programs import ran, write_file

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, GREETING, HEAD, TESTBED, User, make_user, make_wheel

ENROOT = os.environ.get("SIFMOD_ENROOT") or shutil.which("enroot")
SLURM = TESTBED / "pyxis/slurm.conf"

pytestmark = pytest.mark.skipif(
    ENROOT is None or not SLURM.exists(), reason="the real enroot and pyxis: not found (testbed/README.md)"
)

LOAD = f"module load {DEMO_MODULE}"
PREFIX = "/user-software/venv/demo"
SOURCES = "sources = ['demo.sif']\npython_prefix = '/usr'\nvenv = 'demo'\n"


def make_easyconfig(folder: Path, name: str, text: str) -> str:
    """Write an easyconfig of the module NAME/1, and return its path."""
    path = write_file(folder / f"{name}-1.eb", HEAD.replace("'Demo'", f"'{name}'").replace("'1.0'", "'1'") + text)
    return str(path)


def make_enroot_user(folder: Path) -> User:
    """The demo image installed at a site with both runtimes, by a user who wants enroot."""
    folder.mkdir(exist_ok=True)
    site = folder / "site.toml"
    site.write_text((TESTBED / "plain-site.toml").read_text() + 'runtimes = ["apptainer", "enroot"]\n')
    user = make_user(folder / "eb", SIFMOD_SITE=str(site), SLURM_CONF=str(SLURM))
    assert ENROOT
    user.env["PATH"] = f"{Path(ENROOT).parent}:{os.environ['PATH']}"
    # by default below /run, where only root makes folders
    user.env["ENROOT_RUNTIME_PATH"] = f"/tmp/enroot-run-{os.getuid()}"
    user.eb(DEMO_EASYCONFIG)
    user.env["SIFMOD_RUNTIMES"] = "enroot"
    return user


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    return make_enroot_user(tmp_path_factory.mktemp("enroot"))


# The module's commands


def test_doctor_finds_both(user: User) -> None:
    lines = [line.split(maxsplit=2) for line in user.run("sifmod doctor", check=False).stdout.splitlines()]
    found = {line[1]: (line[0], line[2]) for line in lines if len(line) == 3}
    assert found["enroot"] == ("ok", "enroot 4.1.2")
    assert found["pyxis"][0] == "ok"


def test_python_runs_in_the_virtual_environment_and_the_working_directory(user: User, tmp_path: Path) -> None:
    names = ("MINE", "OTHER", "APPTAINER_NAME")
    code = f"import os, sys; print(sys.prefix, os.getcwd(), *map(os.environ.get, {names}))"
    out = user.out(f'{LOAD}; MINE=1 SINGULARITYENV_OTHER=2 python -c "{code}"', cwd=tmp_path)
    assert out == f"{PREFIX} {tmp_path} 1 2 None"


def test_arguments_standard_input_and_exit_statuses_pass_through(user: User) -> None:
    words = " ".join(shlex.quote(word) for word in ARGUMENTS)
    shown = user.out(f"{LOAD}; python -c 'import json, sys; print(json.dumps(sys.argv[1:]))' {words}")
    assert json.loads(shown) == ARGUMENTS
    assert user.out(f"{LOAD}; echo 'print(6 * 7)' | python -") == "42"
    commands = (
        "python -c 'raise SystemExit(37)'",
        "in-container no-such-command",
        "in-container sh -c 'kill -KILL $$'",
    )
    assert user.out(f"{LOAD}; " + "; ".join(f"{command}; echo $?" for command in commands)) == "37\n127\n137"


def test_start_shell_takes_bashs_arguments_and_functions(user: User) -> None:
    assert user.out(f"{LOAD}; start-shell -c 'command -v python; exit 0'") == f"{PREFIX}/bin/python"
    assert user.run(f"{LOAD}; start-shell -c 'exit 5'", check=False).returncode == 5
    function = 'hello() { printf \'<%s>\\n\' "it\'s" "$@"; }; export -f hello'
    assert user.out(f"{LOAD}; {function}; start-shell -c 'hello \"a b\"'") == "<it's>\n<a b>"


@pytest.mark.parametrize(("name", "status"), [("TERM", 55), ("INT", 42), ("USR1", 50)])
def test_a_signal_reaches_the_program(user: User, tmp_path: Path, name: str, status: int) -> None:
    (tmp_path / "listen.py").write_text(LISTEN)
    script = f"python listen.py >out & until grep -q ready out; do sleep 0.1; done; kill -{name} $!; wait $!"
    user.run(f"{LOAD}; {script}", cwd=tmp_path, status=status, timeout=60)
    assert (tmp_path / "out").read_text() == f"ready\nSIG{name}\n"


def test_bind_paths_are_mounted_as_they_say(user: User, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("here\n")
    script = f"export SINGULARITY_BIND={tmp_path}/data:/given/data:ro; cat /given/data/file; touch /given/data/new"
    done = user.run(
        f"{LOAD}; {script.replace('cat', 'in-container cat').replace('touch', 'in-container touch')}", check=False
    )
    assert done.stdout == "here\n"
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("case", CONTAINERS)
def test_a_command_has_the_same_variables_with_either_runtime(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "installed"
    install(folder, case)
    host = host_variables(Path(ENROOT or "").parent)
    enroot = with_runtime(folder, "enroot", host)
    assert differing(with_runtime(folder, "apptainer", host), enroot) == {}
    assert changed(enroot) == {}


# User software

# Starts processes and gives each the variables of torch.distributed, as the real one does.
TORCHRUN = """
import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
for name in ("nnodes", "node_rank", "master_addr", "master_port", "nproc_per_node"):
    parser.add_argument(f"--{name}")
parser.add_argument("program", nargs=argparse.REMAINDER)
given = parser.parse_args()
each = int(given.nproc_per_node)
def start(local):
    rank = int(given.node_rank) * each + local
    ranks = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": int(given.nnodes) * each, "LOCAL_WORLD_SIZE": each}
    master = {"MASTER_ADDR": given.master_addr, "MASTER_PORT": given.master_port}
    words = {name: str(value) for name, value in {**ranks, **master}.items()}
    return subprocess.Popen([sys.executable, "-u", *given.program], env={**os.environ, **words})
sys.exit(max([process.wait() for process in [start(local) for local in range(each)]]))
"""


def pip_install(user: User, folder: Path) -> None:
    made = make_wheel(folder, *GREETING, command="greet")
    user.run(f"{LOAD}; pip install --no-index {made}")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The same with `greeting` in its user software, installed with enroot, and a stand-in for PyTorch's torchrun."""
    folder = tmp_path_factory.mktemp("enroot-extended")
    user = make_enroot_user(folder)
    pip_install(user, folder)
    package = user.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages/torch/distributed"
    write_file(package / "run.py", TORCHRUN)
    return user


def test_pip_installs_into_user_software(extended: User) -> None:
    greet = "python -c 'import greeting; print(greeting.greet())'"
    assert extended.out(f"{LOAD}; {greet}; SIFMOD_RUNTIMES=apptainer {greet}") == "hello\nhello"
    listed = extended.out(f"{LOAD}; pip list --format=freeze; list-packages --format=freeze").splitlines()
    assert listed.count("greeting==1.0") == listed.count("demo-vendor==1.2.3+site") == 2
    assert "1 package" in extended.out(f"{LOAD}; list-packages --check")


def test_packed_user_software_is_mounted_while_commands_use_it(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    user = make_enroot_user(tmp_path / "packed")
    pip_install(user, tmp_path)
    user.env["XDG_RUNTIME_DIR"] = str(runtime)

    def mounted() -> list[str]:
        targets = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        return [target for target in targets if target.startswith(f"{runtime}/sifmod-mounts/")]

    # it compares what it has packed in a container of enroot
    user.run(f"{LOAD}; make-squashfs --remove-directory")
    assert not (user.installdir(DEMO_MODULE) / "user-software").is_dir()
    greet = "python -c 'import greeting, sys; print(greeting.greet(), sys.prefix)'"
    out = user.out(f"{LOAD}; {greet} & {greet}; wait; pip list --format=freeze").splitlines()
    assert out[:2] == [f"hello {PREFIX}"] * 2
    assert "greeting==1.0" in out[2:]
    done = user.run(f"{LOAD}; in-container touch /user-software/new", check=False)
    assert "Read-only file system" in done.stderr
    end = time.monotonic() + 10
    while (runtime / "sifmod-mounts").exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    assert mounted() == []
    user.run(f"{LOAD}; unmake-squashfs")
    assert user.out(f"{LOAD}; {greet}") == f"hello {PREFIX}"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The same with `greeting` in packed user software."""
    folder = tmp_path_factory.mktemp("enroot-packed")
    user = make_enroot_user(folder)
    pip_install(user, folder)
    user.run(f"{LOAD}; make-squashfs --remove-directory")
    return user


# Jobs with pyxis

# Each rank but the first connects to the first, at the address and the port that each has been told. A program that
# Slurm starts without a launcher takes its number from Slurm.
RANKS = """
import json, os, socket, subprocess, sys, time
import greeting
environ = os.environ
rank = int(environ.get("RANK") or environ["SLURM_PROCID"])
size = int(environ.get("WORLD_SIZE") or environ["SLURM_NTASKS"])
master = environ.get("MASTER_ADDR") or subprocess.run(["get-master"], capture_output=True, text=True).stdout.strip()
port = int(environ.get("MASTER_PORT") or 10000 + int(environ["SLURM_JOB_ID"]) % 10000)
heard = []
if rank == 0:
    server = socket.create_server(("", port))
    server.settimeout(60)
    for _ in range(size - 1):
        with server.accept()[0] as one:
            heard.append(int(one.makefile().readline()))
else:
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection((master, port), timeout=10) as one:
                one.sendall(f"{rank}\\n".encode())
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
# in one piece: ranks of a node write into one file
os.write(1, (json.dumps({
    "rank": rank, "size": size, "local": environ.get("LOCAL_RANK"), "master": master, "port": port,
    "node": environ["SLURMD_NODENAME"], "job": environ["SLURM_JOB_ID"],
    "heard": sorted(heard), "prefix": sys.prefix, "directory": os.getcwd(),
    "words": sys.argv[1:], "greeting": greeting.greet(), "data": open("/given/data/file").read(),
    "own": environ.get("MINE"), "is_enroot": "APPTAINER_NAME" not in environ,
}) + "\\n").encode())
"""

LAUNCHERS = {"srun": "", "torchrun": "", "program": "python"}


def submit(user: User, folder: Path, options: str, command: str, *, module: str = DEMO_MODULE) -> subprocess.Popen[str]:
    """Submit the job script that `sifmod sbatch --pyxis` writes, and end when the job has ended."""
    script = f"sifmod sbatch {module} --pyxis --time 5 {options} -- {command} | sbatch --wait --output=out"
    return subprocess.Popen(
        ["bash", "-c", f"set -o pipefail; {script}"],
        cwd=folder,
        env=user.environ(),
        text=True,
        stdout=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def jobs(extended: User, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[Path, int]]:
    """The folder and the exit status of a job for each launcher and number of nodes, all submitted at once."""
    top = tmp_path_factory.mktemp("jobs")
    (top / "data").mkdir()
    (top / "data/file").write_text("here\n")
    user = User(
        extended.prefix,
        {**extended.env, "SINGULARITY_BIND": f"{top}/data:/given/data:ro", "SINGULARITYENV_MINE": "it's"},
    )
    words = " ".join(map(shlex.quote, HOSTILE))
    started = {}
    for launcher in LAUNCHERS:
        for nodes in (1, 2):
            folder = top / f"{launcher} {nodes}"
            write_file(folder / "ranks.py", RANKS)
            options = f"--launcher {launcher} --nodes {nodes} --tasks-per-node 2"
            started[launcher, nodes] = folder, submit(user, folder, options, f"{LAUNCHERS[launcher]} ranks.py {words}")
    return {case: (folder, process.wait(200)) for case, (folder, process) in started.items()}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_find_each_other(jobs: dict[tuple[str, int], tuple[Path, int]], launcher: str, nodes: int) -> None:
    folder, status = jobs[launcher, nodes]
    output = (folder / "out").read_text()
    assert status == 0, output
    found = sorted((json.loads(line) for line in output.splitlines()), key=lambda line: int(line["rank"]))
    tasks = 2 * nodes
    first = found[0]["node"]
    assert [line["rank"] for line in found] == list(range(tasks))
    assert [line["local"] for line in found] == (["0", "1"] * nodes if LAUNCHERS[launcher] == "" else [None] * tasks)
    assert [line["node"] for line in found[::2]] == [line["node"] for line in found[1::2]]
    assert len({line["node"] for line in found}) == nodes
    assert [line["heard"] for line in found] == [list(range(1, tasks))] + [[]] * (tasks - 1)
    same = ("size", "master", "prefix", "directory", "words", "greeting", "data", "own", "is_enroot")
    assert [{name: line[name] for name in same} for line in found] == [
        {
            "size": tasks,
            "master": first,
            "prefix": PREFIX,
            "directory": str(folder),
            "words": HOSTILE,
            "greeting": "hello",
            "data": "here\n",
            "own": "it's",
            "is_enroot": True,
        }
    ] * tasks
    assert len({line["port"] for line in found}) == 1


def test_jobs_have_ports_of_their_own(jobs: dict[tuple[str, int], tuple[Path, int]]) -> None:
    """Those that the launchers choose."""
    outputs = [(folder / "out").read_text() for (launcher, _), (folder, _) in jobs.items() if launcher != "program"]
    ports = {json.loads(output.splitlines()[0])["port"] for output in outputs}
    assert len(ports) == len(outputs) == 4


def test_a_failing_rank_ends_the_job(extended: User, tmp_path: Path) -> None:
    """With its exit status, if nothing else was running: Slurm kills the other ranks, and the highest status counts."""
    program = "import os, sys, time\nif os.environ['RANK'] == '{}':\n    sys.exit(7)\ntime.sleep(300)\n"
    folders = []
    for rank in (0, 2):
        folder = tmp_path / str(rank)
        write_file(folder / "fail.py", program.format(rank))
        folders.append(folder)
    alone, ranks = folders
    ended = [
        submit(extended, alone, "--nodes 1 --tasks-per-node 1", "fail.py"),
        submit(extended, ranks, "--nodes 2 --tasks-per-node 2", "fail.py"),
    ]
    statuses = [process.wait(200) for process in ended]
    outputs = [(folder / "out").read_text() for folder in folders]
    assert statuses[0] == 7, outputs[0]
    assert statuses[1] > 0
    assert "task 2: Exited with exit code 7" in outputs[1]


def test_nothing_of_a_job_stays_on_the_nodes(jobs: dict[tuple[str, int], tuple[Path, int]]) -> None:
    """pyxis unpacks the image on each node, and removes it when the step ends."""
    numbers = {json.loads((folder / "out").read_text().splitlines()[0])["job"] for folder, _ in jobs.values()}
    assert len(numbers) == len(jobs)
    left = {
        path.name for node in ("px001", "px002") for path in Path(f"/tmp/enroot-data-{os.getuid()}-{node}").iterdir()
    }
    assert not left & {f"pyxis_{number}.0" for number in numbers}


# Jobs with pyxis and packed user software

CHECKPOINT = """
import os, signal, sys, time

def end(*_):
    time.sleep(1.5)
    os.write(1, (open(sys.prefix + "/pyvenv.cfg").readline() + "checkpoint\\n").encode())
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
os.write(1, (os.environ["SLURM_JOB_ID"] + " up\\n").encode())
time.sleep(100)
"""


def mounts_of(job: str) -> list[str]:
    """Return what is mounted for a job, and the processes that hold it."""
    name = f"/tmp/sifmod-mounts-{os.getuid()}/{job}.pyxis-"
    holders = subprocess.run(["pgrep", "-af", name], capture_output=True, text=True, check=False).stdout
    return [line for line in (Path("/proc/mounts").read_text() + holders).splitlines() if name in line]


def test_packed_user_software_is_on_each_node_while_the_job_runs(packed: User, tmp_path: Path) -> None:
    line = 'f\'{os.environ["SLURM_JOB_ID"]} {greeting.greet()} {os.environ["RANK"]} {sys.prefix}\\n\'.encode()'
    (tmp_path / "greet.py").write_text(f"import greeting, os, sys; os.write(1, {line})\n")
    job = submit(packed, tmp_path, "--nodes 2 --tasks-per-node 2", "greet.py")
    assert job.wait(timeout=120) == 0
    said = sorted((tmp_path / "out").read_text().splitlines())
    number = said[0].split()[0]
    assert said == [f"{number} hello {rank} {PREFIX}" for rank in range(4)]
    assert mounts_of(number) == []


def test_a_cancelled_job_still_has_its_software_for_a_checkpoint(packed: User, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CHECKPOINT)
    job = submit(packed, tmp_path, "--nodes 2 --tasks-per-node 2", "train.py")
    out, end = tmp_path / "out", time.monotonic() + 60
    while not out.exists() or out.read_text().count("up\n") < 4:
        assert time.monotonic() < end
        time.sleep(0.2)
    number = out.read_text().split()[0]
    assert mounts_of(number)
    packed.run(f"scancel {number}")
    job.wait(timeout=60)
    said = out.read_text().splitlines()
    assert (said.count("checkpoint"), said.count("home = /usr/bin")) == (4, 4)
    end = time.monotonic() + 20
    while mounts_of(number):
        assert time.monotonic() < end
        time.sleep(0.2)


# The software is there for each step of a job, and for one that the job script becomes.
PACKED = """#!/bin/bash -e
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=5
# as in a job with this option: it does not go with --ntasks-per-node, which the step that mounts has
export SLURM_NTASKS_PER_GPU=1
module load {module}
source "$CONTAINERROOT/share/pyxis.sh"
unset SLURM_NTASKS_PER_GPU
options=(--container-image="$SQSH" --container-mounts="$CONTAINER_MOUNTS" --container-env="$CONTAINER_ENV")
options+=(--container-workdir="$PWD" --container-mount-home --no-container-remap-root /runscripts/with-environment)
srun "${{options[@]}}" python -c 'import greeting; print(greeting.greet())'
{last} srun "${{options[@]}}" python -c 'import greeting, sys; sys.exit(7)'
"""


@pytest.mark.parametrize("last", ["", "exec"])
def test_each_step_of_a_job_has_packed_user_software(packed: User, tmp_path: Path, last: str) -> None:
    script = PACKED.format(module=DEMO_MODULE, last=last)
    command = ["sbatch", "--wait", "--parsable", f"--output={tmp_path}/out"]
    done = ran(command, input=script, cwd=tmp_path, env=packed.environ())
    output = (tmp_path / "out").read_text()
    assert done.returncode == 7, output
    assert output.splitlines().count("hello") == 4
    place = f"/tmp/sifmod-mounts-{os.getuid()}/{done.stdout.strip()}.pyxis-"
    end = time.monotonic() + 20
    while place in Path("/proc/mounts").read_text():
        assert time.monotonic() < end
        time.sleep(0.1)


# Without Apptainer and SingularityCE


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user on a host that has enroot only."""
    folder = tmp_path_factory.mktemp("alone")
    tools = folder / "tools"
    tools.mkdir()
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith(("apptainer", "singularity")):
            (tools / path.name).symlink_to(path)
    site = folder / "site.toml"
    site.write_text((TESTBED / "site.toml").read_text() + 'runtimes = ["enroot"]\n')
    user = make_user(folder / "eb", SIFMOD_SITE=str(site))
    user.env["PATH"] = f"{TESTBED}/venv/bin:{Path(ENROOT or '').parent}:{tools}"
    return user


def test_eb_installs_with_enroot_alone(alone: User, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, *GREETING)
    more = f"pip_requirements = ['greeting @ file://{wheel}']\nbinds = ['{tmp_path}']\n"
    easyconfig = make_easyconfig(tmp_path, "Own", SOURCES + more)
    assert alone.run("command -v apptainer singularity", check=False).stdout == ""
    alone.eb(easyconfig)
    load = "module load Own/1"
    assert alone.out(f"{load}; python -c 'import greeting; print(greeting.greet())'") == "hello"
    assert "enroot version 4.1.2" in (alone.installdir("Own/1") / "share/sifmod.json").read_text()
    verified = alone.run(f"{load}; sifmod verify Own/1", check=False).stdout
    assert "1 of 1 installation in order" in verified
    assert "problem" not in verified


def test_layers_work_with_enroot_alone(alone: User, tmp_path: Path) -> None:
    alone.eb(make_easyconfig(tmp_path, "Layers", SOURCES))
    load = "module load Layers/1"
    for number in (1, 2):
        wheel = make_wheel(tmp_path, f"part{number}", "1.0", f"def name():\n    return 'part {number}'\n")
        last = "add-layer" if number == 1 else "flatten-layers"
        alone.run(f"{load}; pip install --no-index {wheel}; make-squashfs --remove-directory; {last}")
    shown = "python -c 'import part1, part2; print(part1.name(), part2.name())'"
    assert alone.out(f"{load}; {shown}") == "part 1 part 2"


def test_eb_with_enroot_alone_says_that_it_can_not_pull(alone: User, tmp_path: Path) -> None:
    done = alone.eb(make_easyconfig(tmp_path, "Pulled", "image_uri = 'docker://debian:12'\n"), check=False)
    assert done.returncode
    said = " ".join((done.stdout + done.stderr).split())
    assert "enroot neither pulls nor builds SIFs: give one in sources" in said
    assert not alone.installdir("Pulled/1").exists()


def test_layers_are_in_jobs_with_pyxis(tmp_path: Path) -> None:
    """Two packed layers below a directory, then all three packed, on two nodes."""
    user = make_enroot_user(tmp_path)
    for number in (1, 2, 3):
        wheel = make_wheel(tmp_path, f"part{number}", "1.0", f"def name():\n    return 'part {number}'\n")
        user.run(f"{LOAD}; pip install --no-index {wheel}")
        if number < 3:
            user.run(f"{LOAD}; make-squashfs --remove-directory; add-layer")
    line = "(os.environ['RANK'] + ' ' + ', '.join(part.name() for part in (part1, part2, part3)) + '\\n').encode()"
    (tmp_path / "parts.py").write_text(f"import os, part1, part2, part3; os.write(1, {line})\n")
    expected = [f"{rank} part 1, part 2, part 3" for rank in range(2)]
    for packing in ("true", "make-squashfs --remove-directory"):
        user.run(f"{LOAD}; {packing}")
        assert submit(user, tmp_path, "--nodes 2 --tasks-per-node 1", "parts.py").wait(timeout=120) == 0
        assert sorted((tmp_path / "out").read_text().splitlines()) == expected, packing


def test_a_module_on_another_one_works_in_jobs_with_pyxis(packed: User, tmp_path: Path) -> None:
    """The image and the packed software of the base, and one's own packages, in a directory and packed."""
    packed.eb(make_easyconfig(tmp_path, "Mine", f"builds_on = '{DEMO_MODULE}'\n"))
    wheel = make_wheel(tmp_path, "own", "1.0", "def name():\n    return 'own'\n")
    packed.run(f"module load Mine/1; pip install --no-index {wheel}")
    line = "(os.environ['RANK'] + ' ' + greeting.greet() + ' ' + own.name() + '\\n').encode()"
    (tmp_path / "both.py").write_text(f"import os, greeting, own; os.write(1, {line})\n")
    for packing in ("true", "make-squashfs --remove-directory"):
        packed.run(f"module load Mine/1; {packing}")
        job = submit(packed, tmp_path, "--nodes 2 --tasks-per-node 1", "both.py", module="Mine/1")
        assert job.wait(timeout=120) == 0
        assert sorted((tmp_path / "out").read_text().splitlines()) == ["0 hello own", "1 hello own"], packing
