"""Faults on purpose: an installation with a tiny user software, and tools that are killed, slowed down or replaced.

Faults are enumerated, not sampled. Every external tool that changes files is replaced by a shim in a PATH that holds
nothing else but tools that only read, so a tool that is new to the scripts can't be missed: it would not be found.
The shims count their calls. Before and after each call the whole process group is killed, unless it has been killed in
the same state of the installation; and for each system call in it that changes the file system (strace finds it, and
kills there) the whole group, and for the first and the last of a name also the tool alone, to which the script reacts.
"""

import hashlib
import itertools
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.programs import ran, write_file, write_program

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user, remove
from sifmod.inside.trees import FOLDER_MODES

CHANGING: tuple[str, ...] = ("chmod", "cp", "dd", "install", "ln", "mkdir", "mksquashfs", "mktemp")
CHANGING += ("mv", "rm", "rmdir", "sync", "tee", "touch", "truncate", "unsquashfs")
# These get no fault of their own; the runtime does because it is what takes the time between two steps.
READING: tuple[str, ...] = ("cat", "cut", "date", "diff", "df", "du", "find", "flock", "grep", "head", "id", "nproc")
READING += ("od", "sed", "sleep", "sort", "readlink", "sha256sum", "stat", "tail", "tr", "wc", "xargs")
RUNTIME = "singularity"

SYSTEM_CALLS = (
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,mknod,mknodat,"
    "chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,fallocate,utimensat,"
    "write,pwrite64,writev,pwritev,sync,syncfs,fsync,fdatasync"
)

# What an installation may hold at its top; everything else is litter.
NAMES = {".user-software.lock", "bin", "demo.sif", "easybuild", "runscripts", "share", "user-bin", "user-software"}
NAMES |= {f"user-software.{end}" for end in ("sha256", "squashfs", "squashfs.previous", "txt", "unpacked")}
COMPLETE = ("user-software", "user-software.squashfs", "user-software.squashfs.previous")

SHIM = r"""#!/bin/bash
# Stands for {name}. Of all the calls of shims, call number $FAULT_AT gets the fault $FAULT_HOW.
real={real}
if [[ {name} == singularity && -n ${FAULT_RUNTIME-} ]]; then real=$FAULT_RUNTIME; fi
if [[ {name} == unsquashfs && $1 == -ll* ]]; then exec "$real" "$@"; fi # it only lists
arguments="$*"
echo "{name} ${arguments//[^[:print:]]/ }" >>"$FAULT_LOG" # one line a call; there is never another at the same time
mapfile -t calls <"$FAULT_LOG"
trace=(/usr/bin/strace -f -qq -e "trace={calls}" -o "$FAULT_LOG.trace")
if [[ ${FAULT_HOW-} == count ]]; then exec "${trace[@]}.${#calls[@]}" "$real" "$@"; fi
if [[ ${FAULT_HOW-} == ask ]]; then # goes on when it has an answer, before the call and after it
    echo >&"$FAULT_SOCKET" && read -r -u "$FAULT_SOCKET"
    "$real" "$@"
    status=$?
    echo >&"$FAULT_SOCKET" && read -r -u "$FAULT_SOCKET"
    exit "$status"
fi
if ((${#calls[@]} != ${FAULT_AT:-0})); then exec "$real" "$@"; fi
kill_group() { # sifmod runs commands with a time limit in sessions of their own: its own group is named to them
    if [[ -n ${FAULT_GROUP-} ]]; then kill -9 -- "-$FAULT_GROUP"; fi
    kill -9 0
}
case $FAULT_HOW in
before)
    kill_group
    ;;
after)
    "$real" "$@"
    kill_group
    ;;
group:* | alone:*) # group:CALL:N, at the Nth system call of that name in any thread
    IFS=: read -r _ name when <<<"$FAULT_HOW"
    "${trace[@]}" -e "inject=$name:signal=KILL:when=$when" "$real" "$@"
    status=$?
    if /usr/bin/grep -q 'killed by SIGKILL' "$FAULT_LOG.trace"; then
        : >"$FAULT_LOG.hit"
        if [[ $FAULT_HOW == group:* ]]; then kill_group; else kill -9 $$; fi
    fi
    exit "$status"
    ;;
esac
"""

# Up to a fault the runtime's part is known: the packed tree is the directory's, and this is in it. The command that is
# given once more after it uses the real one.
QUICK_RUNTIME = """#!/bin/bash
cat >/dev/null
case "$*" in *" sizes" | *" full") ;; *) echo "greeting==1.0+$FAULT_WORD" ;; esac
"""


def signature(top: Path) -> dict[bytes, tuple[object, ...]]:
    """Type, mode, link target, content and the names of the same file, for every relative path below top.

    A folder whose write permission was taken, because it is no longer used, counts with the mode in the record.
    """
    found: dict[bytes, tuple[object, ...]] = {}
    modes = {}
    if (top / FOLDER_MODES).exists():
        for line in (top / FOLDER_MODES).read_bytes().split(b"\0")[:-1]:
            octal, _, folder = line.partition(b" ./")
            modes[folder or b"."] = int(octal, 8)
    same: dict[int, list[bytes]] = {}
    pending = [top]
    while pending:
        path = pending.pop()
        name = os.fsencode(path.relative_to(top))
        if name.startswith(FOLDER_MODES.encode()):
            continue
        status = path.lstat()
        kind, mode, content = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), b""
        if kind == stat.S_IFLNK:
            mode, content = 0, os.fsencode(path.readlink())
        elif kind == stat.S_IFREG:
            content = hashlib.sha256(path.read_bytes()).digest()
            same.setdefault(status.st_ino, []).append(name)
        elif kind == stat.S_IFDIR:
            mode = modes.get(name, mode)
            pending.extend(path.iterdir())
        found[name] = (kind, mode, content)
    for names in same.values():
        for name in names:
            found[name] += (tuple(sorted(names)),)
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
    write_file(odd / "locked" / "file", "x")
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

    def check_sums(self) -> None:
        """Each packed file has its SHA-256 on record, if there is a record at all."""
        record = self.root / "user-software.sha256"
        if record.exists():
            sums = record.read_text().split()
            for path in self.root.glob("user-software.squashfs*"):
                assert hashlib.sha256(path.read_bytes()).hexdigest() in sums, path

    def check_use(self) -> dict[str, str]:
        """Look whether what is in use can be imported; once for each state."""
        state = self.state()
        self.check_sums()
        key = ("use", tuple(sorted(state.items())))
        if key not in self.checked:
            assert self.greet() == self.in_use(state), state
            self.checked.add(key)
        return state

    def litter(self) -> set[str]:
        return {path.name for path in self.root.iterdir()} - NAMES


def make_tree(base: Path) -> Iterator[Tree]:
    """Install the demo below a folder; at the end remove what pytest can't, because folders are read-only."""
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


def make_tools(base: Path) -> Path:
    """A folder of shims, and of tools that only read: the PATH of the commands under test."""
    folder = base / "tools"
    folder.mkdir()
    for name in (*CHANGING, RUNTIME):
        text = SHIM.replace("{name}", name).replace("{real}", str(shutil.which(name)))
        write_program(folder / name, text.replace("{calls}", SYSTEM_CALLS))
    for name in READING:
        (folder / name).symlink_to(str(shutil.which(name)))
    write_program(base / "quick-runtime", QUICK_RUNTIME)
    return folder


def start(
    tree: Tree, command: str, tools: Path, descriptors: tuple[int, ...] = (), /, **env: str
) -> subprocess.Popen[bytes]:
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
            pass_fds=descriptors,
        )


def run(tree: Tree, command: str, tools: Path, **env: str) -> int:
    (tools.parent / "calls").unlink(missing_ok=True)
    (tools.parent / "calls.hit").unlink(missing_ok=True)
    return start(tree, command, tools, **env).wait(timeout=300)


def killed_at_each_call(
    tree: Tree, command: str, tools: Path, prepare: Callable[[], object], state: Callable[[], object], **environ: str
) -> Iterator[str]:
    """Kill a command before or after a call of a tool, once in each state that is there; yield which call it was."""
    known: list[object] = []
    last = 0
    while True:
        prepare()
        (tools.parent / "calls").unlink(missing_ok=True)
        ours, theirs = socket.socketpair()
        ask = {"FAULT_HOW": "ask", "FAULT_SOCKET": str(theirs.fileno()), **environ}
        with start(tree, command, tools, (theirs.fileno(),), **ask) as process, ours:
            theirs.close()
            for moment in itertools.count(1):
                if not ours.recv(1):  # all its processes have ended
                    assert process.wait() == 0, said(tools)
                    return
                if moment > last and state() not in known:
                    break
                ours.send(b"\n")
            os.killpg(process.pid, signal.SIGKILL)
        known.append(state())
        last = moment
        yield f"killed {'before' if moment % 2 else 'after'} call {len(calls(tools))}, {calls(tools)[-1]!r}"


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


def system_calls(tools: Path, number: int) -> list[tuple[str, int]]:
    """Name and number, from 1, of each system call of a tool in a run that counted them."""
    traced = tools.parent / f"calls.trace.{number}"
    of_thread = Counter(re.findall(r"^(\d+) +(\w+)\(", traced.read_text(errors="replace"), re.M))
    return sorted({(name, when + 1) for (_, name), count in of_thread.items() for when in range(count)})


def change(tools: Path, name: str, body: str) -> None:
    """Put a script in the place of a tool; in it "$REAL" is the real one, which also tells its version."""
    (tools / name).unlink()
    asked = 'if [[ ${1-} == -version ]]; then exec "$REAL" "$@"; fi'
    write_program(tools / name, f"#!/bin/bash\nREAL={shutil.which(name)}\n{asked}\n{body}\n")


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
    cp -a "$root"/user-software* "$out/$more/"
    echo "$status" >"$out/$more/status"
    if ((status == 0)); then exit 0; fi
done
exit 1
"""


def on_full_disks(tree: Tree, command: str, tools: Path, base: Path, unit: str) -> list[Path]:
    """Run a command with a disk that has a page or an inode more each time, until it ends well; df sees no limit.

    Returns:
        A folder for each run: `status`, `said`, `names` of what is in the installation, and the user software.
    """
    change(tools, "df", "echo - -; echo - -")
    for tool in (*CHANGING, RUNTIME):
        change(tools, tool, 'exec "$REAL" "$@"')
    saved = base / "saved"
    shutil.copytree(tree.root, saved, symlinks=True, ignore=lambda *_: {"demo.sif", "user-software"})
    if (tree.root / "user-software").exists():
        subprocess.run(["cp", "-a", tree.root / "user-software", saved], check=True)
    shutil.copyfile(tree.root / "demo.sif", base / "demo.sif")
    (saved / "demo.sif").symlink_to(base / "demo.sif")
    (base / "out").mkdir()
    words = [str(tree.root / "bin" / command.split()[0]), *command.split()[1:]]
    environ = {name: value for name, value in os.environ.items() if name != "BASH_ENV"}
    environ.update(FAULT_UID=str(os.getuid()), FAULT_GID=str(os.getgid()))
    arguments = [str(tree.root), str(saved), f"{base}/out", str(tools), unit, *words]
    done = ran(
        ["unshare", "--user", "--map-root-user", "--mount", "--", "bash", "-c", FULL_DISK, "full-disk", *arguments],
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    remove(saved)
    return sorted((base / "out").iterdir(), key=lambda path: int(path.name))
