"""Copies of the image on the nodes of a job: they are used, compared, and gone at its end."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import write_program
from tests.waiting import eventually

from conftest import DEMO_MODULE, User

SLURM = Path(os.environ.get("SLURM_CONF", "/nowhere/slurm.conf")).parent
# Each node has a folder of its own at this path; from outside, they are the folders in `local`.
PLACE = SLURM / "node-local"
NODES = [f"nid00{number}" for number in range(1, 5)]
LOAD = f"export SIFMOD_NODE_LOCAL_DIR={PLACE}; module load {DEMO_MODULE}"
BROADCAST = 'eval "$(broadcast-image)"'
# the image that a container is of
SHOW = "from os import environ; print(environ['SLURMD_NODENAME'], environ['APPTAINER_CONTAINER'])"


def folders() -> dict[str, list[str]]:
    """Return what is in the folder of each node that has something."""
    found = {node: sorted(path.name for path in (SLURM / "local" / node).glob("*")) for node in NODES}
    return {node: names for node, names in found.items() if names}


def job(user: User, folder: Path, script: str, *, nodes: int = 4) -> str:
    """Run a script in an allocation, with two tasks on each node, and return its output."""
    path = write_program(folder / "job.sh", f"#!/bin/bash\nexec 2>&1\n{script}\n")
    output = user.run(f"salloc --quiet --nodes={nodes} --ntasks-per-node=2 {path}", check=False).stdout
    return "".join(line for line in output.splitlines(keepends=True) if not line.startswith("srun: Warning"))


def lines_of(output: str, pattern: str) -> list[str]:
    return sorted(line for line in output.splitlines() if re.search(pattern, line))


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """After each job the folders of the nodes are empty."""
    yield
    assert eventually(lambda: not folders()), folders()


def test_commands_and_plain_singularity_start_from_the_copies(extended: User, tmp_path: Path) -> None:
    extended.run(f"module load {DEMO_MODULE}; make-squashfs")
    step = "srun --ntasks=4"
    packed = extended.installdir(DEMO_MODULE) / "user-software.squashfs"
    state = packed.stat()
    script = f"""{LOAD}
own=$SIF$SINGULARITY_BINDPATH
{BROADCAST}
# whoever reads the original fails now
cp -p {packed} {packed}.kept
dd if=/dev/zero of={packed} bs=1 seek=1000 count={state.st_size - 2000} conv=notrunc status=none
touch --date=@{state.st_mtime_ns / 1e9:.9f} {packed}
{step} python -c {shlex.quote("import greeting; " + SHOW)}
{step} singularity exec $SIF python -c {shlex.quote("import greeting; " + SHOW)}
SIFMOD_SHARE_CONTAINER=1 srun python -c "import greeting; print('shared', greeting.greet())"
wait
broadcast-image >again.out && echo again
module unload {DEMO_MODULE}; echo "after: $SIF$SINGULARITY_BINDPATH"
module load {DEMO_MODULE}; [[ $own == "$SIF$SINGULARITY_BINDPATH" ]] && echo as before
cat {packed}.kept >{packed}
broadcast-image --remove && {step} python -c {shlex.quote(SHOW)}
"""
    output = job(extended, tmp_path, script)
    copies = f"{PLACE}/sifmod-copies-{os.getuid()}-"
    for node in NODES:
        shown = lines_of(output, f"{node} /")
        assert len(shown) == 3, output
        assert [line.count(f" {copies}") for line in shown] == [1, 1, 0]
        assert f"{node} {extended.installdir(DEMO_MODULE)}/demo.sif" in shown[2]
    assert lines_of(output, "shared") == ["shared hello"] * 8
    assert lines_of(output, "broadcast-image: comparing")[1:] == [], "what is there is copied once"
    assert {"again", "after: ", "as before"} <= {*output.splitlines()}
    assert "not used" not in output


@pytest.mark.slow
def test_what_is_no_longer_what_was_broadcast_is_not_used_and_named(own_demo: User, tmp_path: Path) -> None:
    script = f"""{LOAD}
{BROADCAST}
on() {{ srun --ntasks=1 --nodes=1 --nodelist="$1" bash -c "$2"; }}
folder=${{SIF%/*}}
on nid001 "truncate --size=-1 $SIF"
on nid002 "rm $SIF; ln -s {own_demo.installdir(DEMO_MODULE)}/demo.sif $SIF"
on nid003 "rm $SIF.record"
on nid004 "mv $folder $folder.away; ln -s $folder.away $folder"
srun python -c {shlex.quote(SHOW)}
on nid004 "rm $folder; mv $folder.away $folder"
echo repeated
broadcast-image >/dev/null
srun python -c {shlex.quote(SHOW)}
"""
    first, repeated = job(own_demo, tmp_path, script).split("repeated\n")
    image = own_demo.installdir(DEMO_MODULE) / "demo.sif"
    problems = ("it is damaged, or was changed", "not a plain file of yours", "not compared to the end", "is a link")
    for node, problem in zip(NODES, problems):
        said = lines_of(first, f"python: on {node}, ")
        assert len(said) == 1
        assert problem in said[0]
        assert " not used: " in said[0]
        assert len(lines_of(first, f"{node} {image}$")) == 2
        assert len(lines_of(repeated, f"{node} {PLACE}/")) == 2
    assert "not used" not in repeated


@pytest.mark.slow
def test_user_software_that_is_packed_anew_in_the_job_is_not_taken_from_the_old_copy(
    extended: User, tmp_path: Path
) -> None:
    script = f"""{LOAD}
make-squashfs >/dev/null && module load {DEMO_MODULE}
{BROADCAST}
unmake-squashfs >/dev/null && pip uninstall -qy greeting && make-squashfs --replace >/dev/null
srun python -c "import importlib.util as find; print('found', find.find_spec('greeting'))"
"""
    output = job(extended, tmp_path, script, nodes=2)
    assert lines_of(output, "found") == ["found None"] * 4, output
    packed = extended.installdir(DEMO_MODULE) / "user-software.squashfs"
    assert len(lines_of(output, f"is not used: '{packed}' has changed since: run broadcast-image again")) == 2


def stand_in(folder: Path, name: str, text: str) -> Path:
    write_program(folder / name, f"#!/bin/bash\n{text}\n")
    return folder


@pytest.mark.slow
def test_a_node_that_sbcast_does_not_reach_copies_the_image_itself(demo: User, tmp_path: Path) -> None:
    tools = stand_in(tmp_path / "tools", "sbcast", 'sleep 2; head -c 1000 "$2" >"$3"; exit 1')
    # the variable of sites that end idle shells is no limit for the copies
    script = f"{LOAD}; export PATH={tools}:$PATH TMOUT=1; {BROADCAST}; srun python -c {shlex.quote(SHOW)}"
    output = job(demo, tmp_path, script)
    assert "broadcast-image: sbcast failed: each node copies the file itself.\n" in output
    assert len(lines_of(output, f"^nid00[1-4] {PLACE}/")) == 8


@pytest.mark.slow
def test_the_job_goes_on_if_a_node_can_not_have_a_copy(demo: User, tmp_path: Path) -> None:
    full = 'if [[ $SLURMD_NODENAME == nid003 ]]; then printf "Avail\\n4096\\n"; else exec /bin/df "$@"; fi'
    tools = stand_in(tmp_path / "tools", "df", full)
    script = f"""set -e
{LOAD}
export PATH={tools}:$PATH
{BROADCAST} || echo "status of eval: $?"
srun python -c {shlex.quote(SHOW)}
broadcast-image || echo "status: $?"
srun --ntasks=4 ls {PLACE}
"""
    output = job(demo, tmp_path, script)
    image = demo.installdir(DEMO_MODULE) / "demo.sif"
    needed = image.stat().st_size
    problem = f"broadcast-image: nid003: not enough space in '{PLACE}': needs {needed} bytes, 4096 are free\n"
    assert problem in output
    assert "1 of 4 nodes can't have copies" in output
    assert len(lines_of(output, f" {image}$")) == 8
    assert "status of eval: 10\n" in output
    assert output.splitlines()[-1] == "status: 10"


@pytest.mark.slow
def test_what_somebody_else_has_put_there_is_neither_used_nor_removed(demo: User, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap" / "kept").touch()
    script = f"""{LOAD}
key=$(. $CONTAINERROOT/share/container.sh; find_node_copies; echo $sifmod_copies)
srun --nodes=1 --ntasks=1 --nodelist=nid002 ln -s {tmp_path}/trap $key
broadcast-image >exports; echo "status: $?"; cat exports
broadcast-image --remove; echo "status: $?"
srun --nodes=1 --ntasks=1 --nodelist=nid002 rm $key
"""
    output = job(demo, tmp_path, script)
    assert "broadcast-image: nid002: " in output
    assert "is a link, or was removed meanwhile" in output
    assert lines_of(output, "status") == ["status: 10", "status: 10"]
    assert "export" not in output
    assert [path.name for path in (tmp_path / "trap").iterdir()] == ["kept"]


@pytest.mark.slow
def test_nothing_stays_of_a_job_that_is_cancelled_and_of_a_keeper_that_was_killed(demo: User, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{LOAD}; {BROADCAST}; touch {tmp_path}/ready; srun sleep 1000\n")
    submit = f"sbatch --parsable --nodes=4 --output={tmp_path}/job.out {tmp_path}/job.sh"
    number = demo.out(submit)
    assert eventually((tmp_path / "ready").exists), (tmp_path / "job.out").read_text()
    assert [*folders()] == NODES
    demo.run(f"scancel {number}")
    assert eventually(lambda: not folders())

    # Without a keeper, such as after a crash of the node, a folder stays until the user's next broadcast there.
    killing = f'it=$(cat {PLACE}/*/keeper); kill -9 $it $(pgrep -P $it); touch -d "5 hours ago" {PLACE}/sifmod-copies-*'
    script = f"{LOAD}; {BROADCAST}; srun --ntasks=4 bash -c {shlex.quote(killing)}"
    job(demo, tmp_path, script)
    assert [*folders()] == NODES
    job(demo, tmp_path, f"{LOAD}; {BROADCAST}")


@pytest.mark.slow
def test_two_at_once_and_one_that_is_killed_leave_the_copies_of_the_other(demo: User, tmp_path: Path) -> None:
    tools = stand_in(tmp_path / "tools", "sbcast", f"touch {tmp_path}/sending; exec sleep 100")
    script = f"""{LOAD}
broadcast-image >/dev/null & broadcast-image >/dev/null & wait
broadcast-image --remove
for signal in TERM KILL; do
    rm -f {tmp_path}/sending
    PATH={tools}:$PATH setsid broadcast-image & killed=$!
    until [[ -e {tmp_path}/sending ]]; do sleep 0.1; done
    if [[ $signal == TERM ]]; then broadcast-image >/dev/null; fi
    kill -$signal -- -$killed
    wait
    srun --ntasks=4 ls {PLACE} | sort | uniq -c
    srun python -c {shlex.quote(SHOW)}
    broadcast-image --remove
done
"""
    output = job(demo, tmp_path, script)
    assert len(lines_of(output, "broadcast-image: done: ")) == 3, output
    assert "can't have copies" not in output
    assert len(lines_of(output, f"^nid00[1-4] {PLACE}/")) == 8, "the second run of the first round"
    assert len(lines_of(output, f"^nid00[1-4] {demo.installdir(DEMO_MODULE)}/")) == 8
    assert len(lines_of(output, r"^ *\d+ sifmod-copies-")) == 1, "nothing stays of one that was killed"


def test_where_it_can_not_be_it_says_what_to_do(demo: User) -> None:
    done = demo.run(f"{LOAD}; broadcast-image", check=False)
    assert (done.returncode, done.stdout) == (1, "(exit 1)\n")
    assert "there is no Slurm job here: run this in a job script" in done.stderr
    done = demo.run(f"module load {DEMO_MODULE}; SLURM_JOB_ID=1 broadcast-image", status=1)
    assert "export SIFMOD_NODE_LOCAL_DIR=/tmp" in done.stderr
    done = demo.run(f"{LOAD}; srun --ntasks=2 broadcast-image", check=False)
    assert "this runs in each task of a step: run it once, before srun" in done.stderr
    done = demo.run(f"{LOAD}; broadcast-image --help")
    assert "Exit status:" in done.stdout


@pytest.mark.slow
def test_sbatch_writes_a_job_that_broadcasts(demo: User, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    site = f"export SIFMOD_NODE_LOCAL_DIR={PLACE}"
    command = f"sifmod sbatch {DEMO_MODULE} --nodes 2 --tasks-per-node 2 --broadcast -- {tmp_path}/show.py"
    demo.run(f"{site}; {command} >{tmp_path}/job.sh; sbatch --wait --output={tmp_path}/job.out {tmp_path}/job.sh")
    output = (tmp_path / "job.out").read_text()
    assert len(lines_of(output, f" {PLACE}/")) == 4, output
    # Slurm's own parser reads the script for a thousand nodes; it has four
    thousand = command.replace("--nodes 2", "--nodes 1000").replace("--tasks-per-node 2", "--tasks-per-node 8")
    demo.run(f"{site}; {thousand} >{tmp_path}/many.sh")
    assert "--nodes=1000\n" in (tmp_path / "many.sh").read_text()
    assert "to start at" in demo.run(f"sbatch --test-only --nodes=4 {tmp_path}/many.sh").stderr
    refused = demo.run(f"sbatch --test-only {tmp_path}/many.sh", check=False).stderr
    assert "Node count specification invalid" in refused or "node configuration is not available" in refused, refused
    done = demo.run(command, check=False)
    assert done.returncode != 0
    assert "names no folder that each node has of its own" in done.stderr
