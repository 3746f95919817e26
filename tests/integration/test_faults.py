"""Kill, fill, interrupt and overlap the commands that pack and unpack, and `eb`: user software is never lost.

Faults are enumerated, not sampled. Every external tool that changes files is replaced by a shim in a PATH that holds
nothing else but tools that only read, so a tool that is new to the scripts can't be missed: it would not be found.
The shims count their calls. For each call the whole process group is killed before it and after it; and for each system
call in it that changes the file system (strace finds it, and kills there) the tool alone, to which the script reacts,
and the whole group.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user
from sifmod.install import Installer
from sifmod.probe import PROBE
from sifmod.render import render
from sifmod.rollback import forget, undo
from sifmod.runtime import ContainerRuntime
from sifmod.site import load_site
from sifmod.spec import spec_from_parameters

CHANGING = ("chmod", "cp", "dd", "install", "ln", "mkdir", "mksquashfs", "mktemp", "mv", "rm", "rmdir", "sync", "tee")
CHANGING += ("touch", "truncate", "unsquashfs")
# These get no fault of their own; the runtime does because it is what takes the time between two steps.
READING = (
    "cat",
    "cut",
    "date",
    "df",
    "du",
    "find",
    "flock",
    "grep",
    "head",
    "id",
    "nproc",
    "od",
    "sed",
    "sleep",
    "sort",
)
READING += ("stat", "tail", "tr", "wc", "xargs")
RUNTIME = "singularity"

SYSTEM_CALLS = (
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,mknod,mknodat,"
    "chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,fallocate,utimensat,"
    "write,pwrite64,writev,pwritev,sync,syncfs,fsync,fdatasync"
)

# What an installation may hold at its top; everything else is litter.
NAMES = {
    ".user-software.lock",
    "bin",
    "demo.sif",
    "easybuild",
    "runscripts",
    "share",
    "user-software",
    "user-software.squashfs",
    "user-software.squashfs.previous",
    "user-software.txt",
    "user-software.unpacked",
}
COMPLETE = ("user-software", "user-software.squashfs", "user-software.squashfs.previous")

SHIM = r"""#!/bin/bash
# Stands for {name}. Of all the calls of shims, call number $FAULT_AT gets the fault $FAULT_HOW.
real={real}
if [[ {name} == singularity && -n ${FAULT_RUNTIME-} ]]; then real=$FAULT_RUNTIME; fi
arguments="$*"
echo "{name} ${arguments//[^[:print:]]/ }" >>"$FAULT_LOG" # one line a call; there is never another at the same time
mapfile -t calls <"$FAULT_LOG"
if ((${#calls[@]} != ${FAULT_AT:-0})); then exec "$real" "$@"; fi
case $FAULT_HOW in
before)
    kill -9 0
    ;;
after)
    "$real" "$@"
    kill -9 0
    ;;
group:* | alone:*)
    /usr/bin/strace -f -qq -o "$FAULT_LOG.strace" -e "trace={calls}" \
        -e "inject={calls}:signal=KILL:when=${FAULT_HOW#*:}" "$real" "$@"
    status=$?
    if /usr/bin/grep -q 'killed by SIGKILL' "$FAULT_LOG.strace"; then
        : >"$FAULT_LOG.hit"
        if [[ $FAULT_HOW == group:* ]]; then kill -9 0; else kill -9 $$; fi
    fi
    exit "$status"
    ;;
esac
"""

# Up to a fault the runtime's part is known: the packed tree is the directory's, and this is in it. The command that is
# given once more after it uses the real one.
QUICK_RUNTIME = """#!/bin/bash
cat >/dev/null
case "$*" in *" /mnt "*) ;; *) echo "greeting==1.0+$FAULT_WORD" ;; esac
"""


def remove(path: Path) -> None:
    """Remove a tree even if its folders are read-only."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except PermissionError:
            subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=True)
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def signature(top: Path) -> dict[bytes, tuple[object, ...]]:
    """Type, mode, link target, content and the names of the same file, for every relative path below top."""
    found: dict[bytes, tuple[object, ...]] = {}
    same: dict[int, list[bytes]] = {}
    pending = [top]
    while pending:
        path = pending.pop()
        name = os.fsencode(path.relative_to(top))
        status = path.lstat()
        kind, mode, content = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), b""
        if kind == stat.S_IFLNK:
            mode, content = 0, os.fsencode(path.readlink())
        elif kind == stat.S_IFREG:
            content = hashlib.sha256(path.read_bytes()).digest()
            same.setdefault(status.st_ino, []).append(name)
        elif kind == stat.S_IFDIR:
            pending.extend(path.iterdir())
        found[name] = (kind, mode, content)
    for paths in same.values():
        for path in paths:
            found[path] += (tuple(sorted(paths)),)
    return found


def grow(tree: Path, word: str) -> None:
    """Make user software of a bare virtual environment: its greeting is `word`, and it has every kind of entry."""
    venv = tree / "venv" / "demo"
    for path in (*(venv / "bin").iterdir(), *(venv / "lib/python3.11/site-packages").iterdir()):
        if not path.name.startswith("python"):
            remove(path)
    if (venv / "include").exists():
        remove(venv / "include")
    packages = venv / "lib" / "python3.11" / "site-packages"
    (packages / "greeting.py").write_text(f"def greet():\n    return '{word}'\n")
    (packages / f"greeting-{word}.dist-info").mkdir()
    metadata = packages / f"greeting-{word}.dist-info" / "METADATA"
    metadata.write_text(f"Metadata-Version: 2.1\nName: greeting\nVersion: 1.0+{word}\n")
    odd = venv / "odd"
    (odd / "empty").mkdir(parents=True)
    (odd / "dangling").symlink_to("nowhere")
    (odd / "one").write_text(word)
    (odd / "other").hardlink_to(odd / "one")
    (odd / "private").write_text("x")
    (odd / "private").chmod(0o600)
    (odd / os.fsdecode(b"new\nline \xff")).write_text("x")
    (odd / "locked").mkdir()
    (odd / "locked" / "file").write_text("x")
    (odd / "locked").chmod(0o555)


@dataclass
class Tree:
    """An installation with a tiny user software, and complete copies of three versions of it elsewhere."""

    user: User
    saved: Path
    words: dict[str, dict[bytes, tuple[object, ...]]] = field(default_factory=dict)
    of_digest: dict[str, str] = field(default_factory=dict)
    checked: set[object] = field(default_factory=set)

    @property
    def root(self) -> Path:
        return self.user.installdir(DEMO_MODULE)

    def reset(self, **present: str) -> None:
        """Bring the installation into a state: which version is under which name (- for _, which stands for .)."""
        for path in self.root.iterdir():
            if path.name.startswith(("user-software", ".")) or path.name not in NAMES:
                remove(path)
        if "directory" in present:
            subprocess.run(["cp", "-a", self.saved / present["directory"], self.root / "user-software"], check=True)
        for name, suffix in (("packed", ""), ("previous", ".previous")):
            if name in present:
                shutil.copyfile(self.saved / f"{present[name]}.squashfs", self.root / f"user-software.squashfs{suffix}")
        if "mark" in present:
            (self.root / "user-software.unpacked").write_text("x")
        if "packed" in present:
            (self.root / "user-software.txt").write_text(f"greeting==1.0+{present['packed']}\n")

    def word(self, path: Path) -> str:
        """Which version a directory or a packed file is a complete copy of; fails where it is of none."""
        if path.is_dir():
            return self._word_of(signature(path), path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest not in self.of_digest:
            target = self.saved / f"unpacked-{digest}"
            done = subprocess.run(["unsquashfs", "-q", "-n", "-d", target, path], capture_output=True, check=False)
            assert done.returncode == 0, (path, done.stderr)
            self.of_digest[digest] = self._word_of(signature(target), path)
            remove(target)
        return self.of_digest[digest]

    def _word_of(self, found: dict[bytes, tuple[object, ...]], path: Path) -> str:
        for word, reference in self.words.items():
            if found == reference:
                return word
        raise AssertionError(f"{path} is no complete copy: {sorted(found)}")

    def state(self) -> dict[str, str]:
        """Everything at the top that can change, with random parts of names taken out."""
        found = {}
        for path in self.root.iterdir():
            if path.name in COMPLETE:
                found[path.name] = self.word(path)
            elif path.name == "user-software.txt":
                found[path.name] = path.read_text()
            elif path.name.startswith("user-software") or path.name not in NAMES:
                kind = "directory" if path.is_dir() else "file"
                found[re.sub(r"(ing)\.\w{6}", r"\1.X", path.name)] = kind
        return found

    @staticmethod
    def in_use(state: dict[str, str]) -> str:
        """Which version a container gets; '' for none."""
        marked = "user-software" in state and "user-software.unpacked" in state
        if "user-software.squashfs" in state and not marked:
            return state["user-software.squashfs"]
        return state.get("user-software", "")

    def greet(self) -> str:
        script = (
            f"module load {DEMO_MODULE}; singularity exec $SIF python -B -c 'import greeting; print(greeting.greet())'"
        )
        return self.user.out(script)

    def check_use(self) -> dict[str, str]:
        """Look whether what is in use can be imported; once for each state."""
        state = self.state()
        key = ("use", tuple(sorted(state.items())))
        if key not in self.checked:
            assert self.greet() == self.in_use(state), state
            self.checked.add(key)
        return state

    def litter(self) -> set[str]:
        return {path.name for path in self.root.iterdir()} - NAMES


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    base = tmp_path_factory.mktemp("faults")
    user = make_user(base / "eb")
    user.eb(DEMO_EASYCONFIG)
    saved = base / "saved"
    saved.mkdir()
    made = Tree(user, saved)
    for word in ("zero", "one", "two"):
        subprocess.run(["cp", "-a", made.root / "user-software", saved / word], check=True)
        grow(saved / word, word)
        made.words[word] = signature(saved / word)
        packed = saved / f"{word}.squashfs"
        subprocess.run(["mksquashfs", saved / word, packed, "-no-progress", "-quiet"], check=True, capture_output=True)
        assert made.word(packed) == word
    yield made
    for path in (*saved.iterdir(), made.root / "user-software"):
        remove(path)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder of shims, and of tools that only read: the PATH of the commands under test."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in (*CHANGING, RUNTIME):
        text = SHIM.replace("{name}", name).replace("{real}", str(shutil.which(name)))
        (folder / name).write_text(text.replace("{calls}", SYSTEM_CALLS))
        (folder / name).chmod(0o755)
    for name in READING:
        (folder / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "quick-runtime").write_text(QUICK_RUNTIME)
    (tmp_path / "quick-runtime").chmod(0o755)
    return folder


def start(tree: Tree, command: str, tools: Path, **env: str) -> subprocess.Popen[bytes]:
    """Start a command of the installation in a process group of its own; what it prints goes to files."""
    environ = {name: value for name, value in os.environ.items() if name != "BASH_ENV"}
    environ.update(PATH=str(tools), FAULT_LOG=str(tools.parent / "calls"), **env)
    program, *arguments = command.split()
    with (tools.parent / "out").open("wb") as out, (tools.parent / "err").open("wb") as err:
        return subprocess.Popen(
            [str(tree.root / "bin" / program), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def run(tree: Tree, command: str, tools: Path, **env: str) -> int:
    (tools.parent / "calls").unlink(missing_ok=True)
    (tools.parent / "calls.hit").unlink(missing_ok=True)
    return start(tree, command, tools, **env).wait(timeout=60)


def said(tools: Path) -> str:
    return (tools.parent / "out").read_text(errors="replace") + (tools.parent / "err").read_text(errors="replace")


def calls(tools: Path) -> list[str]:
    return (tools.parent / "calls").read_text().splitlines()


@dataclass(frozen=True)
class Case:
    """A command, the state in which it starts, and what must be true after a fault and after a repetition."""

    command: str
    before: dict[str, str]
    in_use: tuple[str, ...]  # at every instant
    kept: tuple[str, ...]  # versions that exist at every instant, the first one also when all is over
    repeated: tuple[int, ...]  # exit statuses of the same command, given once more
    finally_in_use: tuple[str, ...]


CASES = {
    "pack": Case("make-squashfs", {"directory": "one"}, ("one",), ("one",), (0, 3), ("one",)),
    "replace": Case(
        "make-squashfs --replace --remove-directory",
        {"directory": "two", "packed": "one", "previous": "zero", "mark": "x"},
        ("two",),
        ("two", "one"),
        (0, 2),
        ("two",),
    ),
    "rollback": Case(
        "make-squashfs --rollback",
        {"packed": "two", "previous": "one"},
        ("one", "two"),
        ("one", "two"),
        (0,),
        ("one", "two"),
    ),
    "unpack": Case("unmake-squashfs", {"packed": "one"}, ("one",), ("one",), (0, 3), ("one",)),
    # the directory is still there after packing, and a killed unpacker has left its mark
    "unpack-marked": Case("unmake-squashfs", {"packed": "one", "mark": "x"}, ("one",), ("one",), (0, 3), ("one",)),
}


def versions(tree: Tree, state: dict[str, str]) -> set[str]:
    found = {state[name] for name in COMPLETE if name in state}
    for path in tree.root.glob("user-software.squashfs.replaced"):
        found.add(tree.word(path))
    return found


def check_after_fault(tree: Tree, case: Case, tools: Path, where: str) -> None:
    """One complete copy is there and in use; the same command once more succeeds and leaves no litter."""
    try:
        state = tree.check_use()
        assert tree.in_use(state) in case.in_use, state
        assert versions(tree, state) >= set(case.kept), state
        key = (case.command, tuple(sorted(state.items())))
        if key in tree.checked:
            return
        status = run(tree, case.command, tools)
        assert status in case.repeated, (status, said(tools))
        assert tree.litter() == set(), said(tools)
        after = tree.check_use()
        assert tree.in_use(after) in case.finally_in_use, after
        assert versions(tree, after) >= set(case.kept[:1]), after
        if "user-software.squashfs" in after:
            assert after["user-software.txt"] == f"greeting==1.0+{after['user-software.squashfs']}\n"
        tree.checked.add(key)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error


def test_every_case_ends_well_without_a_fault(tree: Tree, tools: Path) -> None:
    for case in CASES.values():
        tree.reset(**case.before)
        assert run(tree, case.command, tools) == 0, said(tools)
        assert tree.litter() == set()
        after = tree.check_use()
        assert tree.in_use(after) in case.finally_in_use
        assert versions(tree, after) >= set(case.kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_each_tool(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    quick = {"FAULT_RUNTIME": str(tools.parent / "quick-runtime"), "FAULT_WORD": case.kept[0]}
    points = 0
    for how in ("before", "after"):
        number = 0
        while True:
            number += 1
            tree.reset(**case.before)
            status = run(tree, case.command, tools, FAULT_AT=str(number), FAULT_HOW=how, **quick)
            if len(calls(tools)) < number:
                assert status == 0, said(tools)
                break
            assert status == -signal.SIGKILL, said(tools)
            points += 1
            check_after_fault(tree, case, tools, f"killed {how} call {number}, {calls(tools)[-1]!r}")
    print(f"{name}: {points} points")
    assert points >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "unpack-marked"])
def test_killed_at_each_system_call_of_each_tool(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    quick = {"FAULT_RUNTIME": str(tools.parent / "quick-runtime"), "FAULT_WORD": case.kept[0]}
    tree.reset(**case.before)
    assert run(tree, case.command, tools, **quick) == 0, said(tools)
    points = {"alone": 0, "group": 0}
    for number, call in enumerate(calls(tools), 1):
        if call.startswith(RUNTIME):
            continue
        for how in points:
            when = 0
            while True:
                when += 1
                tree.reset(**case.before)
                fault = {"FAULT_AT": str(number), "FAULT_HOW": f"{how}:{when}", **quick}
                status = run(tree, case.command, tools, **fault)
                if not (tools.parent / "calls.hit").exists():
                    assert status == 0, said(tools)
                    break
                assert how == "alone" or status == -signal.SIGKILL
                points[how] += 1
                check_after_fault(tree, case, tools, f"killed {how} at system call {when} of call {number}, {call!r}")
    print(f"{name}: {points} points")
    assert min(points.values()) >= 5


def change(tools: Path, name: str, body: str) -> None:
    """Put a script in the place of a tool; in it "$REAL" is the real one."""
    (tools / name).unlink()
    (tools / name).write_text(f"#!/bin/bash\nREAL={shutil.which(name)}\n{body}\n")
    (tools / name).chmod(0o755)


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
            wait = "sleep 5" if slow == RUNTIME else slowly
            change(tools, slow, f'if [[ "$*" != *-lln* ]]; then touch {begun}; {wait}; exit; fi; exec "$REAL" "$@"')
            tree.reset(**case.before)
            process = start(tree, case.command, tools)
            while not begun.exists():
                assert process.poll() is None, said(tools)
                time.sleep(0.01)
            time.sleep(0.1)
            os.killpg(process.pid, number)
            assert process.wait(timeout=20) == -number, (slow, said(tools))
            assert tree.litter() == set()
            assert tree.in_use(tree.check_use()) in case.in_use


@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_an_orphan_of_a_killed_run_does_no_harm(tree: Tree, tools: Path, name: str) -> None:
    """The script alone is killed, and its packer goes on for a while beside the one of the next run."""
    case = CASES[name]
    tool = {"pack": "mksquashfs", "unpack": "unsquashfs"}[name]
    first = tools.parent / "first"
    slowly = (
        '/usr/bin/strace -f -qq -o /dev/null -e trace=write,mkdir -e inject=write,mkdir:delay_enter=20ms "$REAL" "$@"'
    )
    body = f'if [[ "$*" == *-lln* || -e {first} ]]; then exec "$REAL" "$@"; fi; touch {first}; echo $$ >{first}\n'
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


FULL_DISK = r"""
# full-disk ROOT SAVED OUT TOOLS UNIT COMMAND...: run the command with more and more room, until it ends well.
root=$1 saved=$2 out=$3 tools=$4 unit=$5
shift 5
as_user=(unshare --user "--map-user=$FAULT_UID" "--map-group=$FAULT_GID" -- env "PATH=$tools")
mount -t tmpfs -o mode=755 none "$root"
cp -a "$saved"/. "$root"
used=$(df --output=used --block-size=1 "$root" | tail -n 1) inodes=$(df --output=iused "$root" | tail -n 1)
for ((more = 0; more < 400; more++)); do
    umount -l "$root"
    limit=size=$((used + more * 4096))
    if [[ $unit == inodes ]]; then limit=size=1g,nr_inodes=$((inodes + more)); fi
    mount -t tmpfs -o "mode=755,$limit" none "$root"
    cp -a "$saved"/. "$root" || exit
    mkdir "$out/$more"
    "${as_user[@]}" "$@" >"$out/$more/said" 2>&1
    status=$?
    ls -A "$root" >"$out/$more/names"
    for name in user-software user-software.squashfs user-software.squashfs.previous user-software.unpacked; do
        if [[ -e $root/$name ]]; then cp -a "$root/$name" "$out/$more/"; fi
    done
    echo "$status" >"$out/$more/status"
    if ((status == 0)); then exit 0; fi
done
exit 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["bytes", "inodes"])
@pytest.mark.parametrize("name", ["pack", "replace", "rollback", "unpack"])
def test_a_full_disk_at_each_stage(tree: Tree, tools: Path, tmp_path: Path, name: str, unit: str) -> None:
    """A small tmpfs, a page or an inode larger each time; df says that all is well, so that the run goes on."""
    case = CASES[name]
    change(tools, "df", "echo - -; echo - -")
    for tool in (*CHANGING, RUNTIME):
        change(tools, tool, 'exec "$REAL" "$@"')
    tree.reset(**case.before)
    saved = tmp_path / "saved"
    shutil.copytree(tree.root, saved, symlinks=True, ignore=lambda *_: {"demo.sif", "user-software"})
    if (tree.root / "user-software").exists():
        subprocess.run(["cp", "-a", tree.root / "user-software", saved], check=True)
    shutil.copyfile(tree.root / "demo.sif", tmp_path / "demo.sif")
    (saved / "demo.sif").symlink_to(tmp_path / "demo.sif")
    (tmp_path / "out").mkdir()
    command = [str(tree.root / "bin" / case.command.split()[0]), *case.command.split()[1:]]
    environ = {name: value for name, value in os.environ.items() if name != "BASH_ENV"}
    environ.update(FAULT_UID=str(os.getuid()), FAULT_GID=str(os.getgid()))
    arguments = [str(tree.root), str(saved), f"{tmp_path}/out", str(tools), unit, *command]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "--", "bash", "-c", FULL_DISK, "full-disk", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    points = sorted((tmp_path / "out").iterdir(), key=lambda path: int(path.name))
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
    remove(saved)
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


def test_a_file_that_changes_after_it_was_compared_is_not_removed(tree: Tree, tools: Path) -> None:
    file = tree.root / "user-software" / "venv" / "demo" / "odd" / "one"
    change(tools, "sync", f'printf eno | dd of={file} conv=notrunc status=none; exec "$REAL" "$@"')
    tree.reset(directory="one")
    assert run(tree, "make-squashfs --remove-directory", tools) == 6
    assert "odd/one" in said(tools)
    assert file.read_text() == "eno"
    assert tree.litter() == set()
    assert tree.greet() == "one"


def test_a_packer_and_an_unpacker_at_once(tree: Tree, tools: Path) -> None:
    case = CASES["replace"]
    for delay in range(0, 16, 3):
        tree.reset(**case.before)
        packer = start(tree, case.command, tools)
        time.sleep(delay / 20)
        unpacker = start(tree, "unmake-squashfs", tools)
        statuses = (packer.wait(timeout=60), unpacker.wait(timeout=60))
        assert statuses[0] in (0, 7), statuses
        assert statuses[1] in (0, 3, 7), statuses
        assert 0 in statuses or delay == 0, statuses
        assert tree.litter() == set()
        assert tree.in_use(tree.check_use()) == "two"


def test_all_kinds_of_trees_are_packed_and_come_back(tree: Tree, tools: Path) -> None:
    """100,000 files take too long for every day: there are 20,000 in one folder."""
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
    for number in range(20_000):
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


# Answers like the real one, at once: the probe's answer is recorded, and a virtual environment is a folder.
QUICK_INSTALL_RUNTIME = r"""#!/bin/bash
case "$*" in
--version) echo 'apptainer version 1.4.5' ;;
*" -c "*) cat "${0%/*}/probe" ;;
*)
    cat >/dev/null
    venv=${SINGULARITY_BINDPATH%%:/user-software*}/venv/demo
    mkdir -p "$venv/lib/python3.11/site-packages" "$venv/bin"
    ln -s /usr/bin/python3 "$venv/bin/python"
    printf 'home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11.2\n' >"$venv/pyvenv.cfg"
    ;;
esac
"""

CHANGING_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}


@dataclass
class Reinstall:
    """A reinstall with another site, run in a child process that may be killed at one of its changes of the files."""

    tree: Tree
    folder: Path

    def __post_init__(self) -> None:
        installdir = self.tree.root
        self.site = load_site()
        parameters = {"python_prefix": "/usr", "venv": "demo", "image_mode": "link", "gpu": ""}
        parameters.update(container_env={"CHANGED": "yes"}, wrappers=["python", "pip", "changed"])
        self.spec = spec_from_parameters(
            name="Python",
            version="3.11-demo-singularity",
            env_name="PYTHON",
            installdir=str(installdir),
            sif="demo.sif",
            parameters=parameters,
        )
        render(self.spec, self.site)  # so that the child processes find the templates compiled
        self.image = self.folder / "demo.sif"
        os.link(installdir / "demo.sif", self.image)
        real = ContainerRuntime(Path(str(shutil.which(RUNTIME))))
        (self.folder / "probe").write_text(real.run(self.image, ["/usr/bin/python3", "-I", "-c", PROBE]))
        (self.folder / RUNTIME).write_text(QUICK_INSTALL_RUNTIME)
        (self.folder / RUNTIME).chmod(0o755)

    def run(self, at: int = 0, *, checked: bool = True) -> bool:
        """Reinstall; whether it came to its end and was not killed. It is killed before change number `at`."""
        child = os.fork()
        if not child:
            status = 1
            try:
                os.environ["PATH"] = f"{self.folder}:{os.environ['PATH']}"
                os.setsid()
                with (self.folder / "err").open("w") as stream:
                    os.dup2(stream.fileno(), 2)
                self._watch(at)
                self._install()
                if checked:
                    forget(self.tree.root)
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), (self.folder / "err").read_text()
        return status == 0

    def _watch(self, at: int) -> None:
        left = at
        top = os.fsencode(self.tree.root)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            changes = event in CHANGING_EVENTS
            if event == "open" and isinstance(arguments[2], int):
                changes = bool(arguments[2] & (os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_RDWR))
            if changes and any(isinstance(one, (str, bytes)) and top in os.fsencode(one) for one in arguments[:2]):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    def _install(self) -> None:
        try:
            Installer(
                spec=self.spec,
                site=self.site,
                image=self.image,
                expected_sha256="",
                tools={},
                say=lambda _line: None,
                warn=lambda _line: None,
            ).install()
        except BaseException as error:
            os.write(2, repr(error).encode())
            raise


def times_too(top: Path) -> dict[str, tuple[int, int, int, int]]:
    """Inode, mode, owner and time of everything below top: none of it was replaced, changed or given away."""
    found = {}
    for path in [top, *top.rglob("*")]:
        status = path.lstat()
        found[str(path.relative_to(top))] = (status.st_ino, status.st_mode, status.st_uid, status.st_mtime_ns)
    return found


def installed(root: Path) -> str:
    """A digest of everything in an installation but user software and what comes and goes."""
    digest = hashlib.sha256()
    for folder in ("bin", "runscripts", "share"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass
class Installation:
    """An installation that can be put back to what it was, with a directory and an older packed file."""

    tree: Tree
    pristine: Path
    another_python: bool

    def __post_init__(self) -> None:
        shutil.copytree(self.tree.root, self.pristine, symlinks=True, ignore=lambda *_: {"user-software", "demo.sif"})
        self.tree.reset(directory="two", packed="one", mark="x")
        if self.another_python:
            manifest = self.pristine / "share" / "sifmod.json"
            manifest.write_text(manifest.read_text().replace('"python_version": "3.11"', '"python_version": "3.10"'))
            config = self.tree.root / "user-software" / "venv" / "demo" / "pyvenv.cfg"
            config.write_text(config.read_text().replace("3.11", "3.10"))
        self.before = self._user_software()

    def _user_software(self) -> list[dict[str, tuple[int, int, int, int]]]:
        root = self.tree.root
        return [times_too(root / name) for name in ("user-software", "user-software.squashfs")]

    def is_kept(self) -> bool:
        """Whether directory and packed file are there once, as they were, under their names or set aside."""
        candidates = [path for path in self.tree.root.glob("user-software*") if path.suffix in ("", ".squashfs", ".10")]
        found = [times_too(path) for path in candidates]
        return all(found.count(one) == 1 for one in self.before)

    def is_in_place(self) -> bool:
        marked = (self.tree.root / "user-software.unpacked").exists()
        return marked and self._user_software() == self.before

    def put_back(self) -> None:
        """Everything as it was at first; user software is renamed back."""
        root = self.tree.root
        for path in root.glob("user-software*"):
            name = path.name
            if path.is_dir() and times_too(path) == self.before[0]:
                path.rename(root / "keep-directory")
            elif path.suffix == ".squashfs" and times_too(path) == self.before[1]:
                path.rename(root / "keep-packed")
            else:
                remove(root / name)
        for path in root.iterdir():
            if path.name not in ("demo.sif", "keep-directory", "keep-packed"):
                remove(path)
        shutil.copytree(self.pristine, root, symlinks=True, dirs_exist_ok=True)
        (root / "keep-directory").rename(root / "user-software")
        (root / "keep-packed").rename(root / "user-software.squashfs")
        (root / "user-software.unpacked").write_text("x")
        (root / "user-software.txt").write_text("greeting==1.0+one\n")


def way_back(root: Path) -> str:
    path = root / ".sifmod-previous" / "journal.json"
    return re.sub(r'"run": "[^"]*"', "", path.read_text()) if path.exists() else ""


@pytest.mark.slow
@pytest.mark.parametrize("another_python", [False, True], ids=["the same python", "another python"])
def test_a_reinstall_killed_at_each_change(tree: Tree, tmp_path: Path, another_python: bool) -> None:
    """User software is what it was to the last bit, the install in between works, and once more is well.

    The next `eb` either does it again, or fails before it changes anything and so brings the earlier one back.
    """
    tree.reset()
    reinstall = Reinstall(tree, tmp_path)
    installation = Installation(tree, tmp_path / "pristine", another_python)
    installation.put_back()
    old = installed(tree.root)
    checked: set[object] = set()
    points = 0
    while True:
        installation.put_back()
        assert installation.is_in_place()
        if reinstall.run(points + 1):
            break
        points += 1
        where = f"killed before change {points}"
        assert installation.is_kept(), where
        key = (installed(tree.root), way_back(tree.root), *sorted(path.name for path in tree.root.iterdir()))
        if key in checked:
            continue
        checked.add(key)
        if not another_python:
            assert installation.is_in_place(), where
            assert tree.greet() == "two", where
            command = f"{tree.root}/bin/python -B -c 'import greeting; print(greeting.greet())'"
            assert tree.user.out(command) == "two", where

        assert reinstall.run(), where
        new = installed(tree.root)
        assert installation.is_kept(), where
        assert (tree.root / "user-software").exists()
        assert {name for name in tree.litter() if not name.startswith("user-software-python3.10")} == set(), where

        installation.put_back()
        assert not reinstall.run(points), where
        undo(tree.root)
        assert installed(tree.root) in (old, new), where
        assert installation.is_kept(), where
        if installed(tree.root) == old:
            assert installation.is_in_place(), where
    print(f"reinstall: {points} points, {len(checked)} states")
    assert points > 50
    assert installation.is_kept()
    installation.put_back()
    tree.reset()


def test_what_users_install_after_a_killed_reinstall_is_not_undone(tree: Tree, tmp_path: Path) -> None:
    """The run was killed between putting things in place and its checks; weeks later an `eb` fails at once."""
    tree.reset()
    reinstall = Reinstall(tree, tmp_path)
    installation = Installation(tree, tmp_path / "pristine", another_python=True)
    installation.put_back()
    assert reinstall.run(checked=False)
    (tree.root / "user-software" / "weeks").write_text("of work")
    undo(tree.root)
    assert installation.is_in_place()
    assert (tree.root / "user-software-undone1" / "weeks").read_text() == "of work"
    tree.reset()


@pytest.mark.slow
def test_eb_killed_before_and_after_each_call_of_the_runtime(tree: Tree, tools: Path) -> None:
    """Each run goes on from what the killed one before has left; at last one succeeds.

    EasyBuild itself leaves its lock behind when it is killed, and says so: `--ignore-locks` goes on.
    """
    tree.reset(directory="two", packed="one", mark="x")
    before = [times_too(tree.root / name) for name in ("user-software", "user-software.squashfs")]
    for tool in tools.iterdir():
        if tool.name != RUNTIME:
            tool.unlink()
    points = 0
    how = "before"
    number = 1
    while True:
        (tools.parent / "calls").unlink(missing_ok=True)
        fault = f"FAULT_LOG={tools.parent}/calls FAULT_AT={number} FAULT_HOW={how}"
        done = tree.user.run(
            f"PATH={tools}:$PATH {fault} setsid --wait eb {DEMO_EASYCONFIG} --rebuild --ignore-locks", check=False
        )
        assert [times_too(tree.root / name) for name in ("user-software", "user-software.squashfs")] == before
        assert tree.greet() == "two"
        if len(calls(tools)) < number:
            assert done.returncode == 0, done.stdout + done.stderr
            break
        assert done.returncode != 0
        points += 1
        how, number = ("after", number) if how == "before" else ("before", number + 1)
    print(f"eb: {points} points")
    assert points >= 4
    assert tree.litter() == set()
    tree.reset()
