"""make-squashfs and unmake-squashfs: their options, and what a centre trusts them with."""

import hashlib
import os
import re
import shlex
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lacking import lacking
from tests.programs import write_file, write_program

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, greet

LOAD = f"module load {DEMO_MODULE}"


def root(user: User) -> Path:
    return user.installdir(DEMO_MODULE)


def superblock(path: Path) -> str:
    return subprocess.run(["unsquashfs", "-s", str(path)], capture_output=True, text=True, check=True).stdout


def test_the_defaults_are_zstd_5_and_256k_and_packages_are_listed_as_pip_reads_them(extended: User) -> None:
    assert extended.run(f"{LOAD}; make-squashfs --rollback", check=False).returncode == 2  # nothing was packed before
    extended.run(f"{LOAD}; make-squashfs")
    told = superblock(root(extended) / "user-software.squashfs")
    assert "Compression zstd" in told
    assert "compression-level 5" in told
    assert "Block size 262144" in told
    assert (root(extended) / "user-software.txt").read_text() == "greeting==1.0\n"


@pytest.mark.slow
def test_options_are_passed_on_and_an_unknown_one_is_refused(extended: User) -> None:
    for option in ("--fast", "--level=high", "--processors=a[1]", "--processors=1+1", "--level"):
        done = extended.run(f"{LOAD}; make-squashfs {option}", status=1)
        assert option in done.stderr
        assert "--help" in done.stderr
        assert not (root(extended) / "user-software.squashfs").exists()
    extended.run(f"{LOAD}; make-squashfs --compressor=gzip --level=9 --block-size=64K --processors=1 --verify=full")
    told = superblock(root(extended) / "user-software.squashfs")
    assert "Compression gzip" in told
    assert "Block size 65536" in told
    assert greet(extended) == "hello"


def test_help_shows_options_exit_codes_and_examples(extended: User) -> None:
    for command in ("make-squashfs", "unmake-squashfs"):
        text = extended.out(f"{LOAD}; {command} --help")
        assert "Exit status" in text
        assert "Example" in text


def test_a_run_that_ends_before_it_has_its_names_removes_nothing_of_the_users(extended: User, tmp_path: Path) -> None:
    """As when mktemp gets the last inode of a quota: with an empty name, `.*` of the current folder would go."""
    mktemp = tmp_path / "mktemp"
    write_program(mktemp, '#!/bin/sh\nname=$(/usr/bin/mktemp "$@") && mkdir "$name.mode" && echo "$name"\n')
    (tmp_path / ".ssh").mkdir()
    run = f"cd {tmp_path}; PATH={tmp_path}:$PATH"
    extended.run(f"module load {DEMO_MODULE}; {run} make-squashfs", status=5)
    assert (tmp_path / ".ssh").is_dir()


def test_replace_keeps_the_previous_file_for_rollback(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs --remove-directory; unmake-squashfs")
    first = (root(extended) / "user-software.squashfs").read_bytes()
    refused = extended.run(f"{LOAD}; make-squashfs", status=3)
    assert "--replace" in refused.stderr
    refused = extended.run(f"{LOAD}; make-squashfs --rollback --remove-directory", status=1)
    assert "--rollback takes no other option" in refused.stderr
    extended.run(
        f"{LOAD}; singularity exec $SIF touch /user-software/second; make-squashfs --replace --remove-directory"
    )
    show = f"{LOAD}; singularity exec $SIF ls /user-software"
    assert "second" in extended.out(show)
    assert (root(extended) / "user-software.squashfs.previous").read_bytes() == first
    extended.run(f"{LOAD}; make-squashfs --rollback")
    assert "second" not in extended.out(show)
    extended.run(f"{LOAD}; make-squashfs --rollback")
    assert "second" in extended.out(show)
    # a directory that is in use stays so, and the command says it
    done = extended.run(f"{LOAD}; unmake-squashfs; make-squashfs --rollback")
    assert f"{root(extended)}/user-software is still in use" in done.stdout
    assert "second" in extended.out(show)


def test_what_is_changed_after_the_comparison_keeps_the_directory(extended: User, tmp_path: Path) -> None:
    write_program(
        tmp_path / "sync", f'#!/bin/sh\ntouch "{root(extended)}/user-software/late"; exec /usr/bin/sync "$@"\n'
    )
    done = extended.run(f"{LOAD}; PATH={tmp_path}:$PATH; make-squashfs --remove-directory", status=6)
    assert "'./late' in" in done.stderr
    assert "changed after it was packed, so the packed file, which is in use, lacks the change" in done.stderr
    assert (root(extended) / "user-software" / "late").exists()
    extended.run(f"{LOAD}; make-squashfs --replace --remove-directory")
    assert extended.out(f"{LOAD}; singularity exec $SIF ls /user-software/late") == "/user-software/late"


@pytest.mark.slow
def test_on_a_terminal_no_phase_is_silent(extended: User, tmp_path: Path) -> None:
    """Each tool takes three seconds before it begins, of which mksquashfs and unsquashfs have a bar of their own."""
    for tool in ("unsquashfs", "sync", "rm"):
        write_program(tmp_path / tool, f'#!/bin/sh\nsleep 3; exec /usr/bin/{tool} "$@"\n')

    def seen(command: str) -> set[str]:
        typed = f"script -qec {shlex.quote(command)} /dev/null </dev/null"
        done = extended.run(f"{LOAD}; PATH={tmp_path}:$PATH; {typed}")
        assert done.stdout.count("\x1b[K") > done.stdout.count(" passed"), "each last line is taken away"
        return set(re.findall(r"\x1b\[K([a-z ]+): \d:[\d:]+ passed", done.stdout))

    # on a busy machine others take long too
    assert seen("make-squashfs --remove-directory") >= {"comparing", "writing to the disk", "removing"}
    assert seen("unmake-squashfs") >= {"comparing", "writing to the disk"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["greeting.py", "new"])
def test_late_writes_through_an_open_descriptor_are_kept(extended: User, tmp_path: Path, name: str) -> None:
    """A program opened the file before, and writes after the directory has been renamed."""
    file = root(extended) / "user-software/venv/demo/lib/python3.11/site-packages" / name
    written = file.read_bytes() + b"# late\n" if file.exists() else b"# late\n"
    write_program(
        tmp_path / "mv",
        '#!/bin/sh\n/usr/bin/mv "$@" || exit\ncase "$3" in */user-software) echo "# late" >&9 ;; esac\n',
    )
    done = extended.run(
        f"{LOAD}; exec 9>>{file}; PATH={tmp_path}:$PATH; make-squashfs --remove-directory",
        status=6,
    )
    assert name in done.stderr
    assert file.read_bytes() == written
    assert not list(root(extended).glob(".packing.*"))
    extended.run(f"{LOAD}; make-squashfs --replace --remove-directory")
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_a_file_that_nfs_keeps_is_no_failure(extended: User, tmp_path: Path) -> None:
    """The packed file is in place: the command ends with 0, so the shell is reloaded; the next run removes the rest."""
    write_program(
        tmp_path / "rm",
        '#!/bin/sh\n[ -e "$BUSY" ] || exec /usr/bin/rm "$@"\n'
        'case "$*" in *.removing*) echo "rm: cannot remove \'x/.nfs01\': Device or resource busy" >&2; exit 1;; esac\n'
        'exec /usr/bin/rm "$@"\n',
    )
    (tmp_path / "busy").touch()
    done = extended.run(
        f"export BUSY={tmp_path}/busy; {LOAD}; PATH={tmp_path}:$PATH\n"
        "make-squashfs --remove-directory; echo status $?\n"
        f"echo $SINGULARITY_BINDPATH; rm {tmp_path}/busy; make-squashfs --rollback",
        check=False,
    )
    assert "status 0" in done.stdout
    assert "user-software.squashfs:/user-software" in done.stdout
    assert "Device or resource busy" in done.stderr
    assert "are still open" in done.stderr
    assert not list(root(extended).glob(".packing.*"))
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_a_directory_that_can_not_be_renamed_is_no_failure(extended: User, tmp_path: Path) -> None:
    tools = log_tool(tmp_path / "tools", "mv", before='case "$*" in *looking) echo "mv: busy" >&2; exit 1;; esac')
    done = extended.run(f"{LOAD}; {tools}; make-squashfs --remove-directory")
    assert "can't be removed, and is no longer used: mv: busy" in done.stderr
    assert stat.S_IMODE((root(extended) / "user-software").stat().st_mode) == 0o555


@pytest.mark.slow
def test_what_is_imported_is_traced_by_the_module_s_environment(extended: User) -> None:
    """Users may have made others beside it."""
    extended.run(f"{LOAD}; singularity exec $SIF /usr/bin/python3 -m venv --without-pip /user-software/venv/alt")
    extended.run(f"{LOAD}; make-squashfs --import=greeting")


@pytest.mark.slow
def test_what_was_packed_before_is_named_where_all_else_is_gone(extended: User) -> None:
    gone = extended.prefix / "gone"
    gone.mkdir()
    done = extended.run(f"{LOAD}; cd {gone}; rmdir {gone}; $CONTAINERROOT/bin/make-squashfs")
    # what bash says before it runs the script
    assert [line for line in done.stderr.splitlines() if not line.startswith("shell-init: ")] == []
    assert "read-only" not in extended.run(f"{LOAD}; make-squashfs --replace --remove-directory").stderr
    (root(extended) / "user-software.squashfs").unlink()
    for command in ("module load Python", f"{LOAD} 2>/dev/null; python -c pass", f"sifmod doctor {DEMO_MODULE}"):
        said = extended.run(command, check=False)
        assert "make-squashfs --rollback" in " ".join((said.stderr + said.stdout).split()), said
    extended.run(f"{LOAD}; make-squashfs --rollback")
    assert greet(extended) == "hello"
    (root(extended) / "user-software.squashfs").unlink()
    done = extended.run(f"{LOAD} 2>/dev/null; python -c pass", check=False)
    command = done.stderr.strip().rpartition("without your packages, with: ")[2].partition(". Then")[0]
    assert command == f"module unload {DEMO_MODULE}; eb --rebuild {root(extended)}/easybuild/*.eb"
    extended.run(command)
    extended.run(f"{LOAD}; python -c pass")


def test_what_an_ended_installer_left_is_named(extended: User) -> None:
    """As pip does that a full disk ends: a part of the package, and no record of it."""
    extended.run(f"{LOAD}; rm $CONTAINERROOT/user-software/venv/*/lib/*/site-packages/greeting-1.0.dist-info -r")
    said = " ".join(extended.run(f"sifmod doctor {DEMO_MODULE}", check=False).stdout.split())
    assert "that no package owns: greeting.py" in said
    command = said.partition("put it there yourself: ")[2].split(" ", 3)[:3]
    extended.run(" ".join(command))
    assert "no package owns" not in extended.run(f"sifmod doctor {DEMO_MODULE}", check=False).stdout


DAMAGING = """\
cp -a "$1" "$2.t"; f=$(find "$2.t" -name greeting.py)
touch -r "$f" "$2.r"; sed -i s/hello/jello/ "$f"; touch -r "$2.r" "$f"
/usr/bin/mksquashfs "$2.t" "${@:2}"; rm -rf "$2.t" "$2.r"
"""


def test_remove_directory_removes_only_after_a_full_comparison(extended: User, tmp_path: Path) -> None:
    """A packer that changes one byte and no size: only comparing contents finds it."""
    tools = tmp_path / "tools"
    write_program(tools / "mksquashfs", f"#!/bin/bash\n{DAMAGING}")
    less = "--remove-directory --verify=sizes"
    done = extended.run(f"{LOAD}; PATH={tools}:$PATH; make-squashfs {less}", status=6)
    assert "greeting.py" in done.stderr
    assert (root(extended) / "user-software").is_dir()
    assert greet(extended) == "hello"
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    assert not (root(extended) / "user-software").exists()
    assert greet(extended) == "hello"
    assert not list(root(extended).glob(".removing*"))
    again = extended.run(f"{LOAD}; make-squashfs", status=2)
    assert "packed already" in again.stderr
    assert "run add-layer first" in again.stderr


@pytest.mark.parametrize(
    ("release", "is_compared"),
    [pytest.param("4.7 (2025/06/03)", True, marks=pytest.mark.slow), ("4.7.4", True), ("4.7.5", False)],
)
def test_an_old_packer_compares_all_contents(extended: User, tmp_path: Path, release: str, is_compared: bool) -> None:
    """A packer that says that it is of this release, and changes one byte and no size."""
    tools = tmp_path / "tools"
    told = f"if [[ $1 == -version ]]; then echo 'mksquashfs version {release} '; exit; fi\n"
    write_program(tools / "mksquashfs", f"#!/bin/bash\n{told}{DAMAGING}")
    line = f"{LOAD}; PATH={tools}:$PATH; make-squashfs --replace --read-ahead=no"
    done = extended.run(line, check=False)
    assert ("4.7 to 4.7.4 may damage files" in done.stdout) == is_compared
    assert done.returncode == (6 if is_compared else 0), done.stdout + done.stderr
    if is_compared:
        assert "greeting.py" in done.stderr
        assert greet(extended) == "hello"
    else:
        extended.run(f"{LOAD}; make-squashfs --rollback || unmake-squashfs", check=False)


@pytest.mark.slow
def test_packing_takes_no_more_memory_than_a_login_node_leaves(own_demo: User, tmp_path: Path) -> None:
    """Reading is faster than compressing: what is read ahead must not fill the memory."""
    (root(own_demo) / "user-software" / "random").write_bytes(os.urandom(600 << 20))
    tool = write_program(
        tmp_path / "tools" / "mksquashfs",
        f"#!{sys.executable}\nimport resource, subprocess, sys\n"
        "status = subprocess.call(['/usr/bin/mksquashfs', *sys.argv[1:]])\n"
        f"with open({str(tmp_path / 'kilobytes')!r}, 'w') as out:\n"
        "    out.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
        "sys.exit(status)\n",
    )
    own_demo.run(f"{LOAD}; PATH={tool.parent}:$PATH; make-squashfs")
    assert int((tmp_path / "kilobytes").read_text()) < 300 << 10


@pytest.mark.slow
def test_where_the_runtime_cannot_mount_zstd_it_is_gzip(extended: User, tmp_path: Path) -> None:
    """A runtime that refuses zstd: it looks at the compressor's number in the superblock, as old kernels do."""
    runtime = write_program(
        tmp_path / "bin" / "singularity",
        "#!/bin/bash\n"
        "for file in ${SINGULARITY_BINDPATH%%:/user-software*}; do\n"
        '    if [[ -f $file && $(od -An -tu2 -j20 -N2 "$file") -eq 6 ]]; then echo "FATAL: no zstd" >&2; exit 255; fi\n'
        'done\nexec /usr/bin/singularity "$@"\n',
    )
    done = extended.run(f"{LOAD}; PATH={runtime.parent}:$PATH; make-squashfs")
    assert "gzip" in done.stderr
    assert "Compression gzip" in superblock(root(extended) / "user-software.squashfs")


@pytest.mark.slow
def test_where_no_container_starts_it_says_that(packed_demo: User) -> None:
    """Login nodes limit the address space of processes, and the runtime takes more of it than it uses."""
    packed = root(packed_demo) / "user-software.squashfs"
    for state, commands in (
        ("unmake-squashfs", ("make-squashfs --replace", "make-squashfs --replace --read-ahead=yes")),
        ("make-squashfs --replace", ("unmake-squashfs", "make-squashfs --remove-directory")),
    ):
        packed_demo.run(f"{LOAD}; {state}")
        before = packed.read_bytes()
        for command in commands:
            done = packed_demo.run(f"{LOAD}; ulimit -v 400000; {command}", status=255)
            assert done.stderr.count(": the container did not start (see above).") == 1
            assert "packing.sh: line" not in done.stderr
            assert packed.read_bytes() == before


def test_lumis_packed_file_loads_and_unpacks(extended: User) -> None:
    """`mksquashfs DIR FILE -processors 1 -no-progress`, as the documents' script calls it."""
    extended.run(
        f"cd {root(extended)}; mksquashfs user-software user-software.squashfs -processors 1 -no-progress; "
        "rm -r user-software"
    )
    assert greet(extended) == "hello"
    extended.run(f"{LOAD}; unmake-squashfs")
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_nobody_else_may_write(extended: User) -> None:
    extended.run(f"umask 077; {LOAD}; make-squashfs")
    for name in ("user-software.squashfs", "user-software.txt", ".user-software.lock"):
        assert (root(extended) / name).stat().st_mode & 0o077 == 0
    extended.run(f"rm {root(extended)}/user-software.squashfs; umask 002; {LOAD}; make-squashfs")
    assert (root(extended) / "user-software.squashfs").stat().st_mode & 0o777 == 0o664


def test_without_write_permission_it_says_what_to_type(extended: User) -> None:
    root(extended).chmod(0o555)
    try:
        done = extended.run(f"{LOAD}; make-squashfs", check=False)
    finally:
        root(extended).chmod(0o755)
    assert done.returncode == 9
    assert f"chmod u+w '{root(extended)}'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("read_ahead", "statuses"), [("no", (5, 6)), ("yes", (6,))])
def test_an_unreadable_file_is_not_lost_in_silence(extended: User, read_ahead: str, statuses: tuple[int, ...]) -> None:
    secret = write_file(root(extended) / "user-software" / "secret", "x" * 1000)
    secret.chmod(0)
    done = extended.run(f"{LOAD}; make-squashfs --read-ahead={read_ahead}", check=False)
    secret.chmod(0o600)
    assert done.returncode in statuses
    assert read_ahead == "no" or "secret" in done.stderr
    assert not (root(extended) / "user-software.squashfs").exists()
    assert greet(extended) == "hello"


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(shell, marks=pytest.mark.slow) for shell in ("zsh", "tcsh", "fish"))]
)
def test_the_calling_shell_reloads_by_itself(extended: User, shell: str) -> None:
    init = "csh" if shell == "tcsh" else shell
    script = extended.prefix / f"script.{shell}"
    script.write_text(
        f"source $MODULESHOME/init/{init}\nmodule load {DEMO_MODULE}\nmake-squashfs --verify=full\n"
        'printenv SINGULARITY_BINDPATH | sed "s/^/packed /"\nmake-squashfs --remove-directory\nunmake-squashfs\n'
        f'printenv SINGULARITY_BINDPATH | sed "s/^/unpacked /"\nmodule unload {DEMO_MODULE}\nmake-squashfs\n'
    )
    done = extended.run(f"{shell} {script}", check=False)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith(("packed", "unpacked"))}
    assert "user-software.squashfs:/user-software" in lines["packed"], done.stdout + done.stderr
    assert lines["unpacked"].endswith("/user-software:/user-software")
    assert "In shells that have the module loaded" not in done.stdout
    assert "make-squashfs" in done.stdout.splitlines()[-1] + done.stderr  # no such command any more


def log_tool(folder: Path, name: str, before: str = "") -> str:
    """Put a tool that notes its arguments, a line each, before the real one; what is to be put before PATH."""
    write_program(
        folder / name, f'#!/bin/bash\nprintf \'%s\\n\' "$@" >{folder}/{name}.log\n{before}\nexec /usr/bin/{name} "$@"\n'
    )
    return f"PATH={folder}:$PATH"


@pytest.mark.slow
def test_reading_ahead_packs_the_same(extended: User, tmp_path: Path) -> None:
    odd = root(extended) / "user-software" / "venv" / "demo" / "odd"
    (odd / "empty").mkdir(parents=True)
    (odd / "empty").chmod(0o2750)
    (odd / "dangling").symlink_to("x/" * 300)
    (odd / os.fsdecode(b"new\nline \xff,")).write_text("a")
    (odd / os.fsdecode(b"hard\xff")).hardlink_to(odd / os.fsdecode(b"new\nline \xff,"))
    with (odd / "sparse").open("wb") as stream:
        stream.seek(5_000_000)
        stream.write(b"end")
    os.mkfifo(odd / "pipe")
    deep = odd / ("d" * 120) / ("e" * 120)
    write_file(deep / "file", "deep")
    os.utime(deep / "file", (-1000, -1000))
    root(extended).joinpath("user-software").chmod(0o2755)

    def listing() -> list[bytes]:
        done = subprocess.run(
            ["unsquashfs", "-lln", str(root(extended) / "user-software.squashfs")], capture_output=True, check=True
        )
        # the size of a folder is that of its table, which depends on where its files lie
        return sorted(re.sub(rb"^(d\S+ \S+) +\d+", rb"\1", line) for line in done.stdout.splitlines())

    path = log_tool(tmp_path / "tools", "mksquashfs")
    extended.run(f"{LOAD}; {path}; make-squashfs --read-ahead=no")
    assert "-tar" not in (tmp_path / "tools" / "mksquashfs.log").read_text().splitlines()
    plain = listing()
    extended.run(f"{LOAD}; {path}; make-squashfs --replace --read-ahead=yes --remove-directory")
    assert "-tar" in (tmp_path / "tools" / "mksquashfs.log").read_text().splitlines()
    # but for the time of the top directory, which is when it was packed
    assert [line for line in listing() if not line.endswith(b" squashfs-root")] == [
        line for line in plain if not line.endswith(b" squashfs-root")
    ]
    assert any(line.startswith(b"drwxr-sr-x") and line.endswith(b" squashfs-root") for line in listing())
    extended.run(f"{LOAD}; unmake-squashfs --verify=full")
    assert (odd / "sparse").stat().st_blocks < 1000
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_where_looking_at_files_takes_long_it_reads_ahead(extended: User, tmp_path: Path) -> None:
    many = root(extended) / "user-software" / "many"
    many.mkdir()
    for number in range(120):
        (many / str(number)).touch()
    path = log_tool(tmp_path / "tools", "mksquashfs")
    log_tool(tmp_path / "tools", "find", before="sleep 0.2")
    extended.run(f"{LOAD}; {path}; make-squashfs")
    assert "-tar" in (tmp_path / "tools" / "mksquashfs.log").read_text().splitlines()
    assert greet(extended) == "hello"


@pytest.mark.slow
@pytest.mark.parametrize("read_ahead", ["yes", "no"])
def test_what_imports_read_is_packed_first(extended: User, read_ahead: str) -> None:
    pack = f"{LOAD}; make-squashfs --read-ahead={read_ahead}"
    done = extended.run(f"{pack} --import=torhc", status=5)
    assert "No module named 'torhc'" in done.stderr
    left = sorted(path.name for path in root(extended).glob("*user-software*"))
    assert left == [".user-software.lock", "user-software"]
    packages = root(extended) / "user-software" / "venv" / "demo" / "lib" / "python3.11" / "site-packages"
    for name in ("aaa", "zzz"):
        (packages / f"{name}.py").write_text("import greeting\nopen(__file__[:-3] + '.dat', 'rb').read()\n")
        (packages / f"{name}.dat").write_bytes(f"{name}'s".encode() + os.urandom(2_000_000))
    for name, option in (("zzz", ""), ("aaa", "--replace")):
        extended.run(f"{pack} {option} --import={name}")
        packed = (root(extended) / "user-software.squashfs").read_bytes()
        assert packed.index(f"{name}'s".encode()) < 10_000


@pytest.mark.slow
@pytest.mark.parametrize("read_ahead", ["yes", "no"])
def test_byte_compiled_files_come_first_then_libraries(own_demo: User, read_ahead: str) -> None:
    """Whole blocks of random bytes are packed as they are, so they are found again in the packed file."""
    folder = root(own_demo) / "user-software" / "ordered"
    contents = {}
    for name in ("a.txt", "b/libx.so.1", "z/__pycache__/z.cpython-311.pyc"):
        contents[name] = os.urandom(128 << 10)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents[name])
    own_demo.run(f"{LOAD}; make-squashfs --block-size=128K --read-ahead={read_ahead}")
    packed = (root(own_demo) / "user-software.squashfs").read_bytes()
    places = {name: packed.index(content) for name, content in contents.items()}
    assert sorted(places, key=lambda name: places[name]) == [*reversed(contents)]


LFS = """\
limits() { printf '%7s%c %6s %7s %7s %7s%c %6s %7s %7s\\n' "$@"; }
if [[ "$1 $2" == "project -d" ]]; then
    printf '%5u P %s\\n' 462000265 "$3"
    exit
fi
printf '%15s ' "${@: -1}"
case "$1 $2 $3" in
"quota -q -u") limits 4 ' ' 0 0 - 1 ' ' 0 0 - ;;
"quota -q -g") echo && limits '[4]' '*' 2 0 none 1 ' ' 0 0 - ;;
"quota -q -p") [[ $4 == 462000265 ]] && printf '%s\\npid 1 is using default file quota setting\\n' "$QUOTA" ;;
*) exit 2 ;;
esac
"""
QUOTA = """\
printf 'Disk quotas for %s (%s): \\n' "$*" "$*"
printf '     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\\n'
if [[ $* == "-vwp -u -f "/* ]]; then printf '%15s %s\\n' /dev/sda1 "$QUOTA"; fi
"""


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "script", "read_ahead"), [("lfs", LFS, "yes"), ("quota", QUOTA, "no")])
def test_a_quota_is_checked_before(extended: User, tmp_path: Path, tool: str, script: str, read_ahead: str) -> None:
    """Output in the formats of print_quota in Lustre's lfs.c, and of showquotas in quota.c of the Linux quota tools."""
    write_program(tmp_path / tool, f"#!/bin/bash\n{script}")
    pack = f"{LOAD}; PATH={tmp_path}:$PATH make-squashfs --read-ahead={read_ahead}"
    (root(extended) / "user-software" / "filling").write_bytes(os.urandom(1_000_000))

    done = extended.run(f"export QUOTA='4980* 0 5000 604800 5  0 0 0'; {pack}", status=8)
    assert "quota" in done.stderr
    assert "20480" in done.stderr
    assert not list(root(extended).glob("user-software.squashfs*"))

    for enough in ("4980* 4000 0 604800 5  0 0 0", "[4]  0 50000 - [5]  0 9 -"):
        extended.run(f"export QUOTA='{enough}'; {pack} --replace")
    # a centre's own, in GiB
    (tmp_path / "quota").write_text("#!/bin/bash\necho ' /home  38 100 100  -  1 0 0  -'\n")
    extended.run(f"{pack} --replace")
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_what_a_quota_leaves_of_files_is_looked_at_before(extended: User, tmp_path: Path) -> None:
    write_program(tmp_path / "quota", f"#!/bin/bash\n{QUOTA}")
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    unpack = f"{LOAD}; PATH={tmp_path}:$PATH unmake-squashfs"
    done = extended.run(f"export QUOTA='4  0 0 0 990* 0 1000 0'; {unpack}", status=8)
    assert "10 are free" in done.stderr
    assert not (root(extended) / "user-software").exists()
    extended.run(f"export QUOTA='4  0 0 0 990  0 100000 0'; {unpack}")
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_nothing_can_be_written_where_it_would_be_lost(extended: User, wheel: Path) -> None:
    """A shell that loaded the module before, and a container that was started before: both read, and can't write."""
    go = extended.prefix / "go"
    script = f"""{LOAD}
        singularity exec $SIF bash -c 'while ! [[ -e {go} ]]; do sleep 0.1; done
            python -c "import greeting"; echo running $?
            touch /user-software/venv/demo/new; echo writing $?' & running=$!
        env SIFMOD_RELOADS=1 $CONTAINERROOT/bin/make-squashfs | cat
        touch {go}; wait $running
        singularity exec $SIF python -c 'import greeting; print(greeting.greet())'
        singularity exec $SIF pip install --no-index --no-deps --force-reinstall {wheel}; echo pip $?
        python -c 'import greeting; print(greeting.greet())'"""
    done = extended.run(script, check=False)
    assert [line for line in done.stdout.splitlines() if line in ("running 0", "writing 1", "hello", "pip 1")] == [
        "running 0",
        "writing 1",
        "hello",
        "pip 1",
        "hello",
    ], done.stdout + done.stderr
    assert "After a pipe, your shell still uses" in done.stderr
    assert "Permission denied" in done.stderr
    assert f"python: this shell loaded {DEMO_MODULE} before" in done.stderr
    # removing it by hand would lose what nobody has looked at
    assert extended.run(f"rm -rf {root(extended)}/user-software", check=False).returncode == 1
    assert (root(extended) / "user-software/venv/demo/pyvenv.cfg").exists()


@pytest.mark.slow
def test_options_come_before_words_as_posix_wants_them(extended: User) -> None:
    """With POSIXLY_CORRECT, the tools take every word after the first one for a file name, `--` too."""
    folder = root(extended) / "user-software/venv/demo"
    before = folder.stat().st_mode
    told = extended.run(f"{LOAD}; env POSIXLY_CORRECT=1 make-squashfs").stderr
    assert "could be made read-only" not in told
    assert not folder.stat().st_mode & 0o222
    extended.run(f"{LOAD}; env POSIXLY_CORRECT=1 unmake-squashfs")
    assert folder.stat().st_mode == before


def modes(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): path.lstat().st_mode for path in [top, *top.rglob("*")]}


@pytest.mark.slow
def test_the_second_time_the_directory_is_just_put_into_use(extended: User, tmp_path: Path) -> None:
    """unmake-squashfs, pip install, make-squashfs --replace; and then again."""
    directory = root(extended) / "user-software"
    (directory / "shared").mkdir()
    (directory / "shared").chmod(0o2775)
    (directory / "odd\nname ").mkdir()
    (directory / "closed").mkdir()
    (directory / "closed").chmod(0o555)
    before = modes(directory)
    for command in ("make-squashfs", "make-squashfs --replace"):
        extended.run(f"{LOAD}; {command}")
        assert [name for name, mode in modes(directory).items() if stat.S_ISDIR(mode) and mode & 0o222] == []
        path = log_tool(tmp_path / "tools", "unsquashfs")
        done = extended.run(f"{LOAD}; {path}; unmake-squashfs --verify=full")
        assert "is in use again" in done.stdout
        assert "-d" not in (tmp_path / "tools" / "unsquashfs.log").read_text().splitlines()
        assert modes(directory) == before
        extended.run(f"{LOAD}; singularity exec $SIF touch /user-software/venv/new; rm {directory}/venv/new")
    extended.run(f"{LOAD}; make-squashfs --replace --remove-directory; unmake-squashfs")
    assert modes(directory) == before
    done = extended.run(f"{LOAD}; unmake-squashfs", check=False)
    assert (done.returncode, "is in use already" in done.stderr) == (3, True)


def test_what_only_the_directory_has_is_named_and_not_removed(extended: User) -> None:
    """Somebody has taken the permission back, or packing was killed before it took it."""
    directory = root(extended) / "user-software"
    extended.run(f"{LOAD}; make-squashfs")
    assert not (directory / "venv").stat().st_mode & 0o222
    (directory / "venv").chmod(0o755)
    (directory / "venv" / "late").touch()
    (directory / "venv" / "demo" / "pyvenv.cfg").chmod(0o600)
    for command, status in (("make-squashfs --remove-directory", 6), ("unmake-squashfs", 3)):
        done = extended.run(f"{LOAD}; {command}", status=status)
        assert "only in the directory: 'venv/late'" in done.stderr
        assert "differs: 'venv/demo/pyvenv.cfg'" in done.stderr
        assert (directory / "venv" / "late").exists()
    extended.run(f"{LOAD}; make-squashfs --replace --remove-directory")
    assert not directory.exists()
    assert "late" in extended.out(f"{LOAD}; singularity exec $SIF ls /user-software/venv")


@pytest.mark.slow
def test_when_the_packed_file_is_gone_the_directory_can_be_written_to_again(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs; rm $CONTAINERROOT/user-software.squashfs; unmake-squashfs")
    extended.run(f"{LOAD}; singularity exec $SIF touch /user-software/venv/new")
    extended.run(f"{LOAD}; make-squashfs; rm $CONTAINERROOT/user-software.squashfs; make-squashfs --remove-directory")
    extended.run(f"{LOAD}; unmake-squashfs; singularity exec $SIF rm /user-software/venv/new")


@pytest.mark.slow
def test_a_record_that_somebody_changed_reaches_nothing_outside(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs")
    directory, outside = root(extended) / "user-software", extended.prefix / "outside"
    outside.mkdir(mode=0o700)
    directory.chmod(0o755)
    (directory / "link").symlink_to(outside)
    entries = ["777 ./../../../../../outside", "777 ./link", f"777 {outside}", "u+s ./venv", "755 ./venv"]
    (directory / ".sifmod-folder-modes").write_text("".join(f"{entry}\0" for entry in entries))
    extended.run(f"{LOAD}; make-squashfs --replace")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_directory_on_another_file_system_is_packed_through_its_link(extended: User, tmp_path: Path) -> None:
    """People link user-software to scratch, for quota."""
    link, scratch = root(extended) / "user-software", tmp_path / "scratch a:b,c" / "us"
    scratch.parent.mkdir()
    link.rename(scratch)
    link.symlink_to(scratch)
    extended.run(f"{LOAD}; make-squashfs")
    assert greet(extended) == "hello"
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o555
    extended.run(f"{LOAD}; unmake-squashfs; singularity exec $SIF touch /user-software/new")
    assert (scratch / "new").exists()
    extended.run(f"{LOAD}; make-squashfs --replace --remove-directory --read-ahead=yes")
    assert link.is_symlink()
    assert [path.name for path in scratch.parent.iterdir()] == []
    assert greet(extended) == "hello"
    assert "which does not exist" in extended.run(f"{LOAD}; make-squashfs --replace", check=False).stderr
    extended.run(f"eb --rebuild {DEMO_EASYCONFIG}")
    extended.run(f"{LOAD}; unmake-squashfs; singularity exec $SIF touch /user-software/newer")
    assert (scratch / "newer").exists()
    assert [path.name for path in scratch.parent.iterdir()] == ["us"]
    extended.run(f"eb --rebuild {DEMO_EASYCONFIG}; {LOAD}; make-squashfs --replace --remove-directory")
    scratch.parent.rmdir()
    done = extended.run(f"{LOAD}; unmake-squashfs", status=3)
    assert f"'{link}' is a link to '{scratch}', and there is no folder" in done.stderr
    (root(extended) / "user-software.squashfs").unlink()
    done = extended.eb(DEMO_EASYCONFIG, "--rebuild", check=False)
    assert done.returncode != 0
    assert f"is a link to '{scratch}', which does not exist" in done.stdout
    assert link.is_symlink()


def flip(path: Path) -> None:
    """Change one bit in the middle of the file."""
    with path.open("r+b") as stream:
        stream.seek(path.stat().st_size // 2)
        byte = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte[0] ^ 1]))


def test_a_flipped_bit_is_found_by_the_recorded_sum(extended: User) -> None:
    """Neither SquashFS nor zstd has a checksum of the contents."""
    packed = root(extended) / "user-software.squashfs"
    data = root(extended) / "user-software" / "data"
    data.write_bytes(os.urandom(4 << 20))
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    sums = root(extended) / "user-software.sha256"
    assert sums.read_text() == f"{hashlib.sha256(packed.read_bytes()).hexdigest()}\n"
    flip(packed)
    done = extended.run(f"{LOAD}; unmake-squashfs --verify=full", status=6)
    assert "another one was recorded when it was packed" in done.stderr
    assert not (root(extended) / "user-software").exists()
    done = extended.run("sifmod verify", status=1)
    assert "another one was recorded" in " ".join(done.stdout.split())
    flip(packed)
    extended.run(f"{LOAD}; unmake-squashfs; make-squashfs --replace --level=1 --remove-directory")
    flip(packed.with_name("user-software.squashfs.previous"))
    done = extended.run(f"{LOAD}; make-squashfs --rollback", check=False)
    assert (done.returncode, "another one was recorded" in done.stderr) == (6, True)
    flip(packed.with_name("user-software.squashfs.previous"))
    extended.run(f"{LOAD}; make-squashfs --rollback; unmake-squashfs")


@pytest.mark.slow
def test_a_packed_file_of_before_has_no_sum_and_is_accepted(extended: User) -> None:
    sums = root(extended) / "user-software.sha256"
    extended.run(f"{LOAD}; make-squashfs --remove-directory; rm {sums}")
    done = extended.run(f"{LOAD}; unmake-squashfs")
    assert "no SHA-256 of" in done.stderr
    extended.run(f"{LOAD}; make-squashfs --replace --level=1; make-squashfs --rollback; make-squashfs --rollback")
    assert len(sums.read_text().split()) == 2
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_a_default_acl_counts_instead_of_the_umask(extended: User) -> None:
    """As after `setfacl -d -m u:65534:r`: the group bits are the ACL's mask, and the umask does not count."""
    owner, named, group, mask, other = (1, 7), (2, 4), (4, 0), (16, 4), (32, 0)
    entries = [(tag, bits, 65534 if tag == 2 else 0xFFFFFFFF) for tag, bits in (owner, named, group, mask, other)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(root(extended), "system.posix_acl_default", acl)
    except OSError:
        lacking("this file system has no ACLs")
    extended.run(f"umask 077; {LOAD}; make-squashfs")
    for name in ("user-software.squashfs", "user-software.sha256", "user-software.txt"):
        path = root(extended) / name
        assert "system.posix_acl_access" in os.listxattr(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.slow
def test_what_is_packed_under_any_umask_can_be_read_by_its_owner(extended: User) -> None:
    extended.run(f"umask 777; {LOAD}; command make-squashfs --remove-directory; command unmake-squashfs")
    extended.run(f"umask 777; {LOAD}; command make-squashfs --replace")
    assert greet(extended) == "hello"


@pytest.mark.slow
def test_an_environment_whose_packages_are_elsewhere_is_not_packed(extended: User) -> None:
    library = root(extended) / "user-software/venv/demo/lib"
    library.rename(root(extended) / "elsewhere")
    library.symlink_to("../../../elsewhere")
    done = extended.run(f"{LOAD}; make-squashfs --remove-directory", status=6)
    assert "'venv/demo/lib' is a link to '../../../elsewhere', out of user software" in done.stderr
    assert not (root(extended) / "user-software.squashfs").exists()
    assert library.is_symlink()


@pytest.mark.slow
def test_names_that_are_in_the_way(extended: User) -> None:
    """A line break, whose second line `unsquashfs -ll` has as one of its own, and the record of a killed run."""
    directory, name = root(extended) / "user-software", "a\nb c 99999999999999999 d"
    (directory / name).touch()
    (directory / ".sifmod-folder-modes.AbCdEf").write_text("755")
    for remove in ("", "--remove-directory"):
        extended.run(f"{LOAD}; make-squashfs --replace {remove}; sifmod verify; unmake-squashfs")
        assert sorted(path.name for path in directory.iterdir()) == [name, "venv"]
