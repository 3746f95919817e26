"""One container for all tasks of a step on a node: what tasks see in it, and that nothing stays of it."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

from conftest import DEMO_MODULE, User

LOAD = f"module load {DEMO_MODULE}"
SHARE = f"export SIFMOD_SHARE_CONTAINER=1; {LOAD}"
OWN = f"export SIFMOD_SHARE_CONTAINER=0; {LOAD}"


def meet(folder: Path, count: int) -> str:
    """Return a shell command that waits until as many tasks run it: containers that exist at once differ in name."""
    folder.mkdir(exist_ok=True)
    come = f"touch {folder}/of-$SLURM_STEP_ID.$SLURM_PROCID.$RANK"
    return f"{come}; until [ $(ls {folder} | wc -l) -ge {count} ]; do sleep 0.1; done"


# What a task sees: on standard output its node and container, on the other all that it could have from its caller. With
# --label, srun breaks lines that are longer than 1,024 characters.
LOOK = """import hashlib, os, resource, subprocess, sys
subprocess.run(["sh", "-c", sys.argv.pop()], check=True)
print(os.environ["SLURMD_NODENAME"], os.readlink("/proc/self/ns/mnt"))
for name, value in os.environb.items():
    print("[", name, value if len(value) < 200 else hashlib.sha256(value).hexdigest(), file=sys.stderr)
print([os.getcwd(), os.umask(0), sys.argv], file=sys.stderr)
print(resource.getrlimit(resource.RLIMIT_NOFILE), os.getgroups(), os.sched_getaffinity(0), file=sys.stderr)
status = open("/proc/self/status").read().splitlines()
print([line for line in status if line.startswith(("NoNewPrivs", "CapEff", "CapPrm", "SigIgn"))], file=sys.stderr)
"""

# These differ between two steps, or between a command and the next.
_PASSING = "SIFMOD_SHARE_CONTAINER|SLURM_(JOB_?ID|JOB_(START|END)_TIME|TASK_PID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT)"
_OF_A_STEP = re.compile(rf"b'({_PASSING})' ")


def processes(pattern: str) -> list[int]:
    """Return the processes of this user whose command line matches, but for those that have ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if folder.stat().st_uid == os.getuid() and re.search(pattern, words):
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


# Where the links to the open files of holders are.
PLACE = Path(f"/dev/shm/sifmod-{os.getuid()}")


def left(user: User) -> list[object]:
    """Return what there is of the shared containers of this installation, and links that lead nowhere."""
    holders = processes(f"hold-container .*{re.escape(str(user.prefix))}")
    links = list(PLACE.glob("*")) if PLACE.is_dir() else []
    return [*holders, *PLACE.glob(".*"), *(link for link in links if not link.exists())]


@pytest.fixture
def sharing(demo: User) -> Iterator[User]:
    """The demo image installed; after the test nothing is left of a shared container."""
    yield demo
    assert eventually(lambda: not left(demo)), left(demo)


def test_tasks_of_a_node_share_a_container_like_their_own(sharing: User, tmp_path: Path) -> None:
    """The environment, the working directory, the umask, limits, groups and capabilities are those of `exec`."""
    (tmp_path / "a folder").mkdir()
    (tmp_path / "link").symlink_to("a folder")
    (tmp_path / "look.py").write_text(LOOK)
    prepare = (
        f"cd {tmp_path}/link; umask 027; ulimit -n 1000; module_like() {{ :; }}; export -f module_like; "
        r"export number=1 key=2 LD_LIBRARY_PATH=/nowhere SINGULARITYENV_QUOTED=$'a \'b\'\n$HOME' LINES=$'1\n2'"
    )
    # each task has variables of its own, one of which no shell can have
    task = f"export MINE=$SLURM_PROCID; exec env not-a-name=$SLURM_PROCID python {tmp_path}/look.py 'one two'"
    step = "srun -w nid001,nid002 -N2 -n4 -m cyclic --label bash -c"
    own, shared = (
        sharing.run(f"{load}; {prepare}; {step} {shlex.quote(f'{task} {shlex.quote(meet(tmp_path / name, 4))}')}")
        for name, load in (("own", OWN), ("shared", SHARE))
    )
    containers = [{line.partition(": ")[2] for line in done.stdout.splitlines()} for done in (own, shared)]
    assert [len(found) for found in containers] == [4, 2]
    seen = [
        {line for line in done.stderr.splitlines() if re.match(r"\d: [(\[]", line) and not _OF_A_STEP.search(line)}
        for done in (own, shared)
    ]
    assert len(seen[0]) > 4 * 50
    assert [seen[0] - seen[1], seen[1] - seen[0]] == [set(), set()]


def test_tasks_share_the_mount_of_packed_user_software(extended: User, tmp_path: Path) -> None:
    """The kernel shows it to processes in the container only, so no task can look into it before it enters."""
    extended.run(f"{LOAD}; make-squashfs")
    look = "import greeting, os; print(greeting.greet(), os.readlink('/proc/self/ns/mnt'), greeting.__file__)"
    task = f"{meet(tmp_path / 'met', 4)}; exec python -c {shlex.quote(look)}"
    done = extended.run(f"{SHARE}; srun -N1 -n4 bash -c {shlex.quote(task)}")
    lines = done.stdout.splitlines()
    assert (len(lines), len({*lines}), done.stderr) == (4, 1, "")
    assert lines[0].startswith("hello mnt:[")
    assert "/user-software/venv/" in lines[0]

    lost = extended.run(f"{SHARE}; srun -N1 -n1 in-container /user-software/venv/demo/bin/nothing", check=False)
    assert lost.returncode in (127, 255)
    assert "nothing" in lost.stderr
    assert eventually(lambda: not left(extended)), left(extended)


STATUSES = {"exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "kill -SEGV $$": 139}


@pytest.mark.parametrize(
    "script", [name if name == "exit 7" else pytest.param(name, marks=pytest.mark.slow) for name in STATUSES]
)
def test_exit_status_and_input_are_those_of_the_command(sharing: User, script: str) -> None:
    done = sharing.run(f"{SHARE}; echo hello | srun -n1 in-container bash -c 'cat; {script}'", check=False)
    assert (done.stdout, done.returncode) == ("hello\n", STATUSES[script])
    own = sharing.run(f"{OWN}; echo hello | srun -n1 in-container bash -c 'cat; {script}'", check=False)
    assert (own.stdout, own.returncode) == (done.stdout, done.returncode)


def test_a_command_outside_a_step_has_a_container_of_its_own(sharing: User, tmp_path: Path) -> None:
    show = f"in-container sh -c {shlex.quote('readlink /proc/self/ns/mnt; ' + meet(tmp_path / 'met', 2))}"
    lines = sharing.out(f"{SHARE}; RANK=0 {show} & RANK=1 {show} & wait").splitlines()
    assert len(set(lines)) == 2


@pytest.mark.slow
def test_forty_steps_of_eight_short_tasks_do_not_fail(sharing: User) -> None:
    script = "for i in {1..40}; do srun -Q -N1 -n8 in-container true || echo failed; done"
    done = sharing.run(f"{SHARE}; salloc --quiet -N1 -n8 bash -c {shlex.quote(script)}", timeout=600)
    assert done.stdout + done.stderr == ""


@pytest.mark.slow
def test_later_programs_of_a_step_enter_the_same_container(sharing: User, tmp_path: Path) -> None:
    show = "in-container readlink /proc/self/ns/mnt; sleep 0.5"
    task = f"{show}; {show}; {show}; {meet(tmp_path / 'met', 3)}"
    lines = sharing.out(f"{SHARE}; srun -N1 -n3 bash -c {shlex.quote(task)}").splitlines()
    assert len(lines) == 9
    assert len(set(lines)) == 1


@pytest.mark.slow
def test_four_nodes_and_two_steps_at_once_have_a_container_each(sharing: User, tmp_path: Path) -> None:
    """The testbed's nodes are one machine: they share /dev/shm, and still have containers of their own."""
    show = "echo $SLURMD_NODENAME $SLURM_STEP_ID $(readlink /proc/self/ns/mnt)"
    command = shlex.quote(f"{show}; {meet(tmp_path / 'met', 16)}")
    step = f"srun --exact -N4 -n8 -m cyclic in-container sh -c {command}"
    done = sharing.run(
        f"{SHARE}; salloc --quiet -N4 --ntasks-per-node=4 bash -c {shlex.quote(f'{step} & {step} & wait')}"
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 16
    assert len({tuple(line) for line in lines}) == len({line[2] for line in lines}) == 8, done.stderr


@pytest.mark.slow
def test_processes_that_end_while_the_container_starts_do_no_harm(sharing: User, tmp_path: Path) -> None:
    """On a busy node, processes end between the moments at which they are listed and at which they are looked at."""
    counting = tmp_path / "bin" / "singularity"
    counting.parent.mkdir()
    counting.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\nexec {shutil.which("apptainer")} "$@"\n')
    counting.chmod(0o755)
    (counting.parent / "apptainer").symlink_to("singularity")
    busy = "while :; do /bin/true; done"
    command = shlex.quote(f"readlink /proc/self/ns/mnt; {meet(tmp_path / 'met', 2)}")
    step = f"srun -N1 -n2 in-container sh -c {command}"
    done = sharing.run(
        f"{SHARE}; PATH={counting.parent}:$PATH; {busy} & {busy} & {busy} & {step}; {step}; {step}; kill %1 %2 %3"
    )
    names = done.stdout.split()
    assert len(names) == 6, done.stderr
    assert names[0::2] == names[1::2], done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len([call for call in calls if call.startswith("exec /")]) == 3


# One line, which a task prints when it is in the container; then it waits.
WAIT = 'import os, signal, time; print("up", os.getpid(), flush=True); time.sleep(300)'


def started(user: User, step: str, count: int) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a step; return it, and the processes of its tasks when all are in the container."""
    running = subprocess.Popen(
        ["bash", "-c", f"{SHARE}; exec {step}"], env=user.environ(), cwd=user.prefix, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout
    tasks = []
    for _ in range(count):
        line = running.stdout.readline()
        assert line.startswith("up "), line
        tasks.append(int(line.split()[1]))
    return running, tasks


@pytest.mark.slow
def test_a_killed_task_leaves_the_others_their_container(sharing: User) -> None:
    """Each in turn is killed, the first one, which has started the container, among them."""
    step = f"srun -N1 -n4 --kill-on-bad-exit=0 python -c {shlex.quote(WAIT)}"
    running, tasks = started(sharing, step, 4)
    for number, task in enumerate(tasks):
        assert processes("hold-container")
        os.kill(task, signal.SIGKILL)
        for other in tasks[number + 1 :]:
            # a file of the image, which the runtime's daemon reads
            assert Path(f"/proc/{other}/root/etc/os-release").read_text()
    assert running.wait(timeout=240) == 137


ENDS = {
    "scancel": ("srun -N1 -n3", "scancel {job}"),
    "scancel, killing at once": ("srun -N1 -n3", "scancel --signal=KILL {job}"),
    "time limit": ("srun -N1 -n3", "scontrol update jobid={job} EndTime=now"),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_nothing_stays_of_a_step_that_slurm_ends(sharing: User, end: str) -> None:
    step, command = ENDS[end]
    running, tasks = started(sharing, f"{step} --job-name=share-{os.getpid()} python -c {shlex.quote(WAIT)}", 3)
    job = sharing.out(f"squeue -h -o %A --name=share-{os.getpid()}")
    sharing.run(command.format(job=job))
    assert running.wait(timeout=240) != 0
    assert eventually(lambda: not [task for task in tasks if Path(f"/proc/{task}/root").exists()])


SAVE = """trap 'sleep 1; cat /etc/os-release >/dev/null && echo saved; exit 3' TERM
echo up $$
while :; do sleep 0.1; done
"""


@pytest.mark.slow
def test_tasks_of_a_cancelled_job_still_have_their_container(sharing: User, tmp_path: Path) -> None:
    (tmp_path / "save").write_text(SAVE)
    running, _tasks = started(
        sharing, f"srun -N1 -n3 --job-name=save-{os.getpid()} in-container bash {tmp_path}/save", 3
    )
    sharing.run(f"scancel $(squeue -h -o %A --name=save-{os.getpid()})")
    output, _ = running.communicate(timeout=240)
    assert output.count("saved") == 3


@pytest.mark.slow
def test_a_daemon_that_closes_its_files_keeps_the_container(sharing: User, tmp_path: Path) -> None:
    """What holds the container's pipe open is closed, but the daemon is still there."""
    daemon = (
        "import os, sys, time\n"
        "if os.fork(): sys.exit()\n"
        "os.setsid(); os.closerange(3, 1000); time.sleep(4)\n"
        "print(open('/etc/os-release').readline().strip(), flush=True)\n"
        "open(sys.argv[1], 'w').close()"
    )
    step = 'python -c "$1" "$2"; until [ -e "$2" ]; do sleep 0.1; done'
    done = sharing.run(f"{SHARE}; srun -n1 bash -c {shlex.quote(step)} _ {shlex.quote(daemon)} {tmp_path}/read")
    assert 'PRETTY_NAME="Debian' in done.stdout


# What a step needs in which tasks don't share; what is said, once.
OBSTACLES = {
    "SIFMOD_RUNTIME_OPTIONS=--cleanenv": "SIFMOD_RUNTIME_OPTIONS is set: '--cleanenv'",
    "APPTAINER_CONTAIN=1": "APPTAINER_CONTAIN is set",
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", OBSTACLES)
def test_a_step_that_can_not_share_says_so_once_and_runs(sharing: User, setting: str) -> None:
    done = sharing.run(f"{SHARE}; export {setting}; srun -N1 -n3 in-container readlink /proc/self/ns/mnt")
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == f"in-container: no shared container, so each task has its own: {OBSTACLES[setting]}\n"


@pytest.mark.slow
def test_tasks_whose_variables_the_container_may_depend_on_have_their_own(sharing: User, tmp_path: Path) -> None:
    """PATH and LANG differ: the runtime makes a variable of the one, and a script of the image names the other."""
    for name in ("PATH=$PATH:/x", "LANG=x"):
        together = meet(tmp_path / name[:4], 2)
        task = f"export {name}$SLURM_PROCID; in-container readlink /proc/self/ns/mnt; {together}"
        done = sharing.run(f"{SHARE}; srun -N1 -n2 bash -c {shlex.quote(task)}")
        assert len(set(done.stdout.splitlines())) == 2
        assert done.stderr.count("differs between tasks") == 1


@pytest.mark.slow
def test_tasks_with_other_bind_paths_or_variables_have_other_containers(sharing: User, tmp_path: Path) -> None:
    group = "export SINGULARITYENV_GROUP=$((SLURM_PROCID / 2)); export APPTAINERENV_GROUP=$SINGULARITYENV_GROUP"
    task = f'{group}; in-container sh -c "echo \\$GROUP; readlink /proc/self/ns/mnt"; {meet(tmp_path / "met", 4)}'
    done = sharing.run(f"{SHARE}; srun -N1 -n4 --label bash -c {shlex.quote(task)}")
    assert done.stderr == ""
    lines = sorted(done.stdout.splitlines())
    assert len({line.split()[1] for line in lines if "mnt:" in line}) == 2
    assert [line for line in lines if "mnt:" not in line] == ["0: 0", "1: 0", "2: 1", "3: 1"]
