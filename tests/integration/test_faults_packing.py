"""Fill the disk, interrupt, overlap and change what is packed: user software is never lost."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from faults import (
    CASES,
    CHANGING,
    COMPLETE,
    NAMES,
    RUNTIME,
    Tree,
    change,
    on_full_disks,
    run,
    said,
    signature,
    start,
)
from tests.waiting import until

from conftest import DEMO_MODULE, remove

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_ends_by_the_signal_and_leaves_nothing(tree: Tree, tools: Path, name: str) -> None:
    """Ctrl-C, and what Slurm sends at a time limit, while a tool is at work: the process group gets the signal."""
    case = CASES[name]
    slowly = '/usr/bin/strace -f -qq -o /dev/null -e trace=write -e inject=write:delay_enter=500ms "$REAL" "$@"'
    tool = {"make-squashfs": "mksquashfs", "unmake-squashfs": "unsquashfs"}[case.command.split()[0]]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for slow in (tool, RUNTIME):
            if "rollback" in case.command and slow != RUNTIME:
                continue
            for other in (tool, RUNTIME):
                change(tools, other, 'exec "$REAL" "$@"')
            begun = tools.parent / "begun"
            begun.unlink(missing_ok=True)
            # the runtime goes on in a moment if nobody tells it to stop
            wait = "sleep 60" if slow == RUNTIME else slowly
            change(tools, slow, f'if [[ $1 != -lln ]]; then touch {begun}; {wait}; exit; fi; exec "$REAL" "$@"')
            tree.reset(**case.before)
            process = start(tree, case.command, tools)
            while not begun.exists():
                assert process.poll() is None, said(tools)
                time.sleep(0.01)
            time.sleep(0.1)
            os.killpg(process.pid, number)
            assert process.wait(timeout=300) == -number, (slow, said(tools))
            assert tree.litter() == set(), (number, slow)
            assert tree.in_use(tree.check_use()) in case.in_use


@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_an_orphan_of_a_killed_run_does_no_harm(tree: Tree, tools: Path, name: str) -> None:
    """The script alone is killed, and its packer goes on for a while beside the one of the next run."""
    case = CASES[name]
    tool = {"pack": "mksquashfs", "unpack": "unsquashfs"}[name]
    first = tools.parent / "first"
    slowly = (
        '/usr/bin/strace -f -qq -o /dev/null -e trace=write,mkdir -e inject=write,mkdir:delay_enter=300ms "$REAL" "$@"'
    )
    body = f'if [[ $1 == -lln || -e {first} ]]; then exec "$REAL" "$@"; fi; touch {first}; echo $$ >{first}\n'
    change(tools, tool, f"{body}(sleep 0.1; kill -9 $PPID) & {slowly}")
    tree.reset(**case.before)
    assert run(tree, case.command, tools) == -signal.SIGKILL
    orphan = Path("/proc", first.read_text().strip())
    beside = orphan.exists()
    assert run(tree, case.command, tools) == 0, said(tools)
    assert beside
    assert tree.in_use(tree.check_use()) == "one"
    while orphan.exists():
        time.sleep(0.05)
    assert tree.in_use(tree.check_use()) == "one"
    assert run(tree, case.command, tools) == 3
    assert tree.litter() == set()


@pytest.mark.parametrize("unit", ["bytes", "inodes"])
@pytest.mark.parametrize("name", ["pack", "replace", "rollback", "unpack"])
def test_a_full_disk_at_each_stage(tree: Tree, tools: Path, tmp_path: Path, name: str, unit: str) -> None:
    """A small tmpfs, a page or an inode larger each time; df says that all is well, so that the run goes on."""
    case = CASES[name]
    tree.reset(**case.before)
    points = on_full_disks(tree, case.command, tools, tmp_path, unit)
    for point in points:
        where = (point.name, (point / "said").read_text(errors="replace"))
        status = int((point / "status").read_text())
        assert status == (0 if point == points[-1] else 8), where
        names = {path.name for path in point.iterdir()}
        state = {copy: tree.word(point / copy) for copy in names & set(COMPLETE)}
        state.update(dict.fromkeys(names & {"user-software.unpacked"}, "file"))
        assert tree.in_use(state) in case.in_use, where
        assert set(state.values()) >= set(case.kept), where
        assert set((point / "names").read_text().split()) <= NAMES, where
        for copy in state:
            remove(point / copy)
    print(f"{name}, {unit}: {len(points) - 1} points")
    assert len(points) > 1


@pytest.mark.parametrize(("code", "says"), [("ENOSPC", "No space left"), ("EDQUOT", "quota exceeded")])
@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_a_write_that_fails_at_the_quota(tree: Tree, tools: Path, name: str, code: str, says: str) -> None:
    case = CASES[name]
    tool = {"pack": "mksquashfs", "unpack": "unsquashfs"}[name]
    points = 0
    for when in range(1, 40):
        # what the tool says goes to a pipe; only files are on the disk that is full
        inject = f"-e inject=write,pwrite64:error={code}:when={when}"
        change(
            tools,
            tool,
            'if [[ "$*" == *-lln* ]]; then exec "$REAL" "$@"; fi\n'
            f'/usr/bin/strace -f -y -qq -o {tools.parent}/trace -e trace=write,pwrite64 {inject} "$REAL" "$@"',
        )
        tree.reset(**case.before)
        status = run(tree, case.command, tools)
        injected = [line for line in (tools.parent / "trace").read_text().splitlines() if "INJECTED" in line]
        if not injected:
            assert status == 0, said(tools)
            break
        hit = [line for line in injected if f"<{tree.root}/.{name}ing." in line]
        assert status == (8 if hit else 0), (when, injected, said(tools))
        if hit:
            assert says.lower() in said(tools).lower()
            points += 1
        assert tree.litter() == set()
        assert tree.in_use(tree.check_use()) == "one"
    print(f"{name}, {code}: {points} points")
    assert points >= 1


CHANGES = {
    "longer": "echo more >>{file}",
    "as long": "touch -r {file} {file}.time; sed -i s/one/eno/ {file}; touch -r {file}.time {file}; rm {file}.time",
    "as long, in place": "printf eno | dd of={file} conv=notrunc status=none",
    "touched": "touch {file}",
    "another mode": "chmod 700 {file}",
    "removed": "rm {file}",
    "new": "touch {file}.new",
    "renamed": "mv {file} {file}.new",
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_changes_while_it_is_packed(tree: Tree, tools: Path, name: str) -> None:
    file = tree.root / "user-software" / "venv" / "demo" / "odd" / "one"
    change(tools, "mksquashfs", f'"$REAL" "$@" || exit; export PATH=/usr/bin:/bin; {CHANGES[name].format(file=file)}')
    tree.reset(directory="one")
    assert run(tree, "make-squashfs", tools) == 6, said(tools)
    assert "odd/one" in said(tools) or "odd'" in said(tools)
    assert tree.litter() == set()
    assert tree.greet() == "one"
    assert not (tree.root / "user-software.squashfs").exists()


@pytest.mark.parametrize("launcher", ["", "srun"])
@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_a_job_that_ends_while_packing(tree: Tree, tools: Path, tmp_path: Path, name: str, launcher: str) -> None:
    """At a time limit and for scancel Slurm does the same: SIGTERM, and after a while SIGKILL."""
    case = CASES[name]
    tool = {"pack": "mksquashfs", "unpack": "unsquashfs"}[name]
    begun = tmp_path / "begun"
    change(
        tools, tool, f'if [[ "$*" == *-lln* ]]; then exec "$REAL" "$@"; fi; touch {begun}; sleep 100; exec "$REAL" "$@"'
    )
    tree.reset(**case.before)
    job = tmp_path / "job.sh"
    step = f"{shutil.which(launcher)} --ntasks=1" if launcher else ""
    command = f"{tree.root}/bin/{case.command}"
    job.write_text(f"#!/bin/bash\nexport PATH={tools} FAULT_LOG={tmp_path}/calls\n{step} {command} && echo not ended\n")
    number = tree.user.out(f"sbatch --parsable --time=1 --output={tmp_path}/job.out {job}")
    until(begun.exists, said=lambda: (tmp_path / "job.out").read_text())
    tree.user.run(f"scancel {number}")
    until(lambda: not tree.user.has_job(number))
    assert "not ended" not in (tmp_path / "job.out").read_text()
    assert tree.in_use(tree.check_use()) == "one"
    change(tools, tool, 'exec "$REAL" "$@"')
    assert run(tree, case.command, tools) == 0, said(tools)
    assert tree.litter() == set()
    assert tree.in_use(tree.check_use()) == "one"


READER = """
import pathlib, sys, time
stop, log = map(pathlib.Path, sys.argv[1:])
top = pathlib.Path("/user-software/venv/demo")
while not stop.exists():
    words = {(top / "odd" / name).read_text() for name in ("one", "other")}
    for path in top.rglob("*"):
        if path.is_file():
            path.read_bytes()
    with log.open("a") as stream:
        print(*words, file=stream)
    time.sleep(0.2)
"""


def test_a_running_job_reads_on_while_the_packed_file_is_replaced(tree: Tree, tools: Path, tmp_path: Path) -> None:
    """It has what was packed when it began, to its end; what begins later has the new one."""
    tree.reset(packed="one")
    (tmp_path / "reader.py").write_text(READER)
    stop, log = tmp_path / "stop", tmp_path / "log"
    reading = f"module load {DEMO_MODULE}; srun --ntasks=2 python -B {tmp_path}/reader.py {stop} {log}"
    job = subprocess.Popen(["bash", "-c", reading], env=tree.user.environ(), stderr=subprocess.PIPE, text=True)

    def read_on() -> None:
        before = log.read_text().count("\n") if log.exists() else 0
        until(lambda: log.exists() and log.read_text().count("\n") > before + 2, said=lambda: str(job.poll()))

    try:
        read_on()
        for command, status in (
            ("unmake-squashfs", 0),
            ("make-squashfs --replace --compressor=gzip", 0),
            ("make-squashfs --rollback", 0),
            ("make-squashfs --replace --remove-directory", 0),
            ("unmake-squashfs", 0),
        ):
            assert run(tree, command, tools) == status, said(tools)
            read_on()
        subprocess.run(["cp", "-a", tree.saved / "two", tree.root / "new"], check=True)
        remove(tree.root / "user-software")
        (tree.root / "new").rename(tree.root / "user-software")
        assert run(tree, "make-squashfs --replace --remove-directory", tools) == 0, said(tools)
        (tree.root / "user-software.squashfs.previous").unlink()
        read_on()
        assert tree.greet() == "two"
    finally:
        stop.touch()
    _, err = job.communicate(timeout=240)
    assert job.returncode == 0, err
    assert set(log.read_text().splitlines()) == {"one"}


def test_a_packer_and_an_unpacker_at_once(tree: Tree, tools: Path) -> None:
    case = CASES["replace"]
    for delay in range(0, 16, 3):
        tree.reset(**case.before)
        packer = start(tree, case.command, tools)
        time.sleep(delay / 20)
        unpacker = start(tree, "unmake-squashfs", tools)
        statuses = (packer.wait(timeout=240), unpacker.wait(timeout=240))
        assert statuses[0] in (0, 7), statuses
        assert statuses[1] in (0, 3, 7), statuses
        # an unpacker that was first finds nothing to unpack, also where a busy machine starts the packer late
        assert 0 in statuses or statuses[0] == 7, statuses
        assert tree.litter() == set()
        assert tree.in_use(tree.check_use()) == "two"


def test_all_kinds_of_trees_are_packed_and_come_back(tree: Tree, tools: Path) -> None:
    """100,000 files take too long for every day: there are 3,000 in one folder."""
    tree.reset(directory="one")
    top = tree.root / "user-software" / "venv" / "demo" / "kinds"
    top.mkdir()
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"'\"$HOME", b"a,b:c\\d", "ä".encode(), b"x" * 255):
        (top / os.fsdecode(name)).write_bytes(name)
    (top / "first").write_text("x" * 200_000)
    for number in range(5):
        (top / f"hard{number}").hardlink_to(top / "first")
    with (top / "sparse").open("wb") as stream:
        stream.seek(50_000_000)
        stream.write(b"end")
    (top / "empty file").touch()
    (top / "to itself").symlink_to("to itself")
    (top / "long target").symlink_to("x/" * 1000)
    (top / "outside").symlink_to("/etc")
    for mode in (0o000, 0o111, 0o555, 0o700, 0o1777, 0o2755):
        (top / f"folder {mode:o}").mkdir()
        (top / f"folder {mode:o}").chmod(mode if mode & 0o400 else mode | 0o500)
        (top / f"file {mode:o}").write_text("x")
        (top / f"file {mode:o}").chmod(mode | 0o400)
    os.mkfifo(top / "fifo")
    deep = top
    while len(str(deep)) - len(str(tree.root)) < 2300:
        deep = deep / ("d" * 200)
        deep.mkdir()
    (deep / "file").write_text("deep")
    (top / "many").mkdir()
    for number in range(3_000):
        (top / "many" / str(number)).touch()
    before = signature(tree.root / "user-software")
    times = {path: path.lstat().st_mtime_ns // 10**9 for path in top.rglob("*")}

    for path in (*(tools / tool for tool in CHANGING), tools / RUNTIME):
        change(tools, path.name, 'exec "$REAL" "$@"')
    assert run(tree, "make-squashfs --remove-directory", tools) == 0, said(tools)
    assert not (tree.root / "user-software").exists()
    assert tree.greet() == "one"
    assert run(tree, "unmake-squashfs --verify=full", tools) == 0, said(tools)
    assert signature(tree.root / "user-software") == before
    assert {path: path.lstat().st_mtime_ns // 10**9 for path in top.rglob("*")} == times
    assert (top / "sparse").stat().st_blocks * 512 < 1_000_000
    assert tree.litter() == set()
    assert tree.greet() == "one"
    tree.reset()


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        ("mkdir odd/closed; chmod 0 odd/closed", 6),
        ("mkdir lib/python3.11/site-packages/gone-1.0.dist-info lib/python3.11/site-packages/~ip-1.0.dist-info", 0),
        ("chmod 555 ../..", 0),
    ],
    ids=["a folder that can't be read", "what an interrupted pip leaves", "everything read-only"],
)
def test_odd_user_software_ends_with_a_documented_status(tree: Tree, tools: Path, spoil: str, status: int) -> None:
    tree.reset(directory="one")
    user_software = tree.root / "user-software"
    subprocess.run(["bash", "-c", spoil], cwd=user_software / "venv" / "demo", check=True)
    assert run(tree, "make-squashfs --remove-directory", tools) == status, said(tools)
    assert tree.litter() == set()
    assert tree.greet() == "one"
    assert user_software.exists() == (status != 0)
    if status == 0:
        assert run(tree, "unmake-squashfs", tools) == 0, said(tools)
        assert tree.litter() == set()
        assert tree.greet() == "one"
    tree.reset()
