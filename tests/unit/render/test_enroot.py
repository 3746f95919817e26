"""The host commands with enroot: how it is called, what variables the command gets, how packed files are mounted."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import ran, write_file, write_program
from tests.standins import StandIns, write_stand_ins
from tests.waiting import until

from sifmod import names
from sifmod.container.bind import Bind, escape
from sifmod.container.spec import ContainerSpec
from sifmod.render.helptext import examples, usage
from sifmod.site.cache import LINK
from sifmod.site.settings import Site

from ..support import SQUASHFS, FakeRuntime, Need, a_site, a_spec, split_binds
from .cases import ROOT, text_of, write_out
from .running import Done, put_into_state

ENROOT = a_site(runtimes=("enroot",))
BOTH = a_site(runtimes=("apptainer", "enroot"))


@dataclass(frozen=True)
class Commands:
    """Calls commands of an installation on a node with enroot.

    Attributes:
        spec: the container.
        stand_ins: the stand-in for enroot.
        work: the working directory.
        more: further folders for PATH.
    """

    spec: ContainerSpec
    stand_ins: StandIns
    work: Path
    more: tuple[Path, ...] = ()

    @property
    def top(self) -> Path:
        return Path(self.spec.installdir)

    def command(self, name: str, *words: str, **environ: str) -> dict[str, Any]:
        """Return how to call a command, as keywords of subprocess."""
        folders = [*self.more, self.stand_ins.folder, "/usr/bin", "/bin"]
        environ = {"PATH": ":".join(map(str, folders)), "XDG_RUNTIME_DIR": str(self.work.parent / "run"), **environ}
        return {"args": [self.top / "bin" / name, *words], "env": environ, "cwd": self.work}

    def run(self, name: str, *words: str, **environ: str) -> Done:
        """Return what a command has printed, and how it ended."""
        command = self.command(name, *words, **environ)
        return subprocess.run(**command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def __call__(self, name: str, *words: str, **environ: str) -> dict[str, Any]:
        """Return how a command has called enroot."""
        done = self.run(name, *words, **environ)
        assert (done.returncode, done.stderr) == (0, "")
        call: dict[str, Any] = self.stand_ins.calls[-1]
        return call

    def refusal(self, status: int, name: str = "python", **environ: str) -> str:
        """Return the one sentence with which a command has ended, before it called enroot."""
        done = self.run(name, **environ)
        assert (done.returncode, self.stand_ins.calls) == (status, [])
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix(f"{name}: ").rstrip("\n")


Install = Callable[..., Commands]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Return what writes an installation, with an image for enroot and a directory of user software."""
    stand_ins = write_stand_ins(tmp_path / "stand-ins")
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()

    def install(
        site: Site = ENROOT, *, folder: str = "a,b'c$d", more: tuple[Path, ...] = (), **changes: Any
    ) -> Commands:
        spec = a_spec(installdir=str(tmp_path / folder), squashfs="demo.sqsh", **changes)
        top = write_out(spec, site)
        (top / "demo.sif").touch()
        (top / "demo.sqsh").write_bytes(SQUASHFS)
        (top / "user-software").mkdir()
        return Commands(spec, stand_ins, tmp_path / "work", more)

    return install


def mounts(call: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return target -> (source, flags)."""
    return {mount["target"]: (mount["source"], ",".join(mount["flags"])) for mount in call["mounts"]}


# The call


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("python3.11", ["/user-software/venv/demo/bin/python"]),
        ("torchrun", ["/runscripts/run-tool", "torchrun"]),
        ("in-container", []),
        ("start-shell", ["/bin/bash", "--norc"]),
        ("list-packages", ["/runscripts/list-packages"]),
    ],
)
def test_each_command_runs_its_namesake_in_the_container(install: Install, name: str, command: list[str]) -> None:
    commands = install(wrappers=("python", "torchrun"))
    words = ["-c", "print('a b')", "", "$(touch x)", "*", "--", "é\n"]
    call = commands(name, *words)
    top, here = commands.top, str(commands.work)
    started = [f"{top}/demo.sqsh", "/runscripts/with-environment", "--in", here]
    assert (call["command"], call["words"]) == ("start", [*started, *command, *words])
    assert mounts(call) == {
        "/tmp": ("/tmp", ""),
        "/var/tmp": ("/var/tmp", ""),
        here: (here, ""),
        "/runscripts": (f"{top}/runscripts", "rbind,ro,x-create=auto"),
        "/user-software": (f"{top}/user-software", ""),
    }
    assert not {"--root", "--rw", "--rc", "--conf"} & {option for option, _value in call["options"]}
    assert {key: value for key, value in call["environ"].items() if key.startswith("ENROOT")} == {
        "ENROOT_LOGIN_SHELL": "no",
        "ENROOT_MOUNT_HOME": "yes",
        "ENROOT_REMAP_ROOT": "no",
    }


def test_a_command_that_users_installed_starts_in_it(install: Install) -> None:
    commands = install(user_commands=True)
    (commands.top / "user-software/venv/demo/bin").mkdir(parents=True)
    (commands.top / "user-software/venv/demo/bin/tool").touch()
    (commands.top / "user-bin").mkdir()
    (commands.top / "user-bin/tool").symlink_to("../share/user-command")
    call = commands("../user-bin/tool", "x")
    assert call["words"][-2:] == ["/user-software/venv/demo/bin/tool", "x"]


def test_an_image_that_sets_itself_up_starts_through_its_runscript(install: Install) -> None:
    assert install(launch="run")("in-container", "x")["words"][-2:] == ["/.singularity.d/runscript", "x"]


def test_bind_paths_of_the_site_and_of_the_user_are_mounted(install: Install, tmp_path: Path) -> None:
    for name in ("site", "there", "a,b:c", "later", "own"):
        (tmp_path / name).mkdir()
    site = a_site(
        runtimes=("enroot",),
        binds=(Bind(str(tmp_path / "site"), "/site", "ro"),),
        optional_binds=(Bind(str(tmp_path / "there"), "/there"), Bind(str(tmp_path / "gone"), "/gone")),
    )
    binds = {"SINGULARITY_BINDPATH": f"{tmp_path}/own:/own", "SINGULARITY_BIND": f"{tmp_path}/later,ro"}
    found = mounts(install(site)("python", **binds))
    assert {target: found[target] for target in ("/site", "/there", "/own", f"{tmp_path}/later")} == {
        "/site": (f"{tmp_path}/site", "rbind,ro,x-create=auto"),
        "/there": (f"{tmp_path}/there", ""),
        "/own": (f"{tmp_path}/own", ""),
        f"{tmp_path}/later": (f"{tmp_path}/later", "rbind,ro,x-create=auto"),
    }
    assert "/gone" not in found


@pytest.mark.parametrize("name", ["a b", "a:b", "a\tb", "a\\b"])
def test_a_path_that_enroot_can_not_mount_is_refused(install: Install, name: str) -> None:
    commands = install(folder=name)
    shown = str(commands.top).replace("\t", "?")
    assert commands.refusal(126) == (
        f"enroot can't mount '{shown}/runscripts', because of white space, a colon, a backslash or a control "
        "character in it: rename it, or start Apptainer with SIFMOD_RUNTIMES=apptainer."
    )


def test_options_of_apptainer_are_refused(install: Install) -> None:
    assert install().refusal(2, SIFMOD_RUNTIME_OPTIONS="--cleanenv") == (
        "SIFMOD_RUNTIME_OPTIONS is '--cleanenv', and enroot has no such options: unset it, or start Apptainer with "
        "SIFMOD_RUNTIMES=apptainer."
    )


def test_a_look_into_the_container_sees_the_module_s_own_alone(install: Install, tmp_path: Path) -> None:
    commands = install()
    environ = {"SIFMOD_RUNTIME_OPTIONS": " ".join(names.CONTAINED), "MINE": "1", "BASH_FUNC_f%%": "() { :; }"}
    call = commands("python", **environ)
    assert call["words"][1:5] == ["/runscripts/with-environment", "--in", "/", "/user-software/venv/demo/bin/python"]
    assert not {"/tmp", "/var/tmp", str(tmp_path)} & set(mounts(call))
    assert {"/runscripts", "/user-software"} <= set(mounts(call))
    assert "SINGULARITYENV_PREPEND_PATH" in call["env"]
    assert "MINE" not in call["env"]
    assert "f" not in call["environ"].get("__SIFMOD_QUOTED", "")
    assert call["environ"]["ENROOT_MOUNT_HOME"] == "no"


def test_a_lost_image_is_named(install: Install) -> None:
    commands = install()
    (commands.top / "demo.sqsh").unlink()
    image = commands.top / "demo.sqsh"
    assert commands.refusal(126) == f"the image for enroot, {image}, is gone: reinstall the module with: eb --rebuild"


@pytest.mark.parametrize("own", ["", "video"])
@pytest.mark.parametrize("there", [True, False])
def test_enroot_is_asked_for_gpus_of_the_node(install: Install, tmp_path: Path, there: bool, own: str) -> None:
    commands = install(gpu="nvidia")
    if there:
        (tmp_path / "nvidiactl").touch()
    path = commands.top / "runscripts/values.sh"
    path.write_text(path.read_text().replace("/dev/nvidiactl", str(tmp_path / "nvidiactl")))
    call = commands("python", NVIDIA_DRIVER_CAPABILITIES=own)
    assert ("NVIDIA_VISIBLE_DEVICES" in call["env"]) == there
    assert call["environ"].get("NVIDIA_VISIBLE_DEVICES") == ("all" if there else None)
    assert call["environ"]["NVIDIA_DRIVER_CAPABILITIES"] == (own or ("all" if there else ""))


def test_the_python_that_compares_user_software_sees_nothing_else(install: Install, tmp_path: Path) -> None:
    commands = install()
    shown = tmp_path / "shown"
    shown.mkdir()
    script = (
        f"set -euo pipefail; source {shlex.quote(str(commands.top))}/share/container.sh\n"
        "source $sifmod_root/share/packing.sh\n"
        f"run_python {shown}:/mnt:ro /mnt/x.py 'a b'"
    )
    command = commands.command("python", MINE="1", SINGULARITY_BIND="/etc")
    command["args"] = ["bash", "-p", "-c", script]
    subprocess.run(**command, check=True)
    call: dict[str, Any] = commands.stand_ins.calls[-1]
    assert mounts(call) == {"/mnt": (str(shown), "rbind,ro,x-create=auto")}
    assert call["words"][1:] == ["/bin/sh", "-c", 'exec "$@"', "sh", "/usr/bin/python3", "-I", "/mnt/x.py", "a b"]
    assert call["env"] == {"SHELL": "/bin/sh"}
    assert call["environ"]["ENROOT_MOUNT_HOME"] == "no"


# What `module help` says


def test_the_help_shows_both_ways_and_enroot_s_where_it_comes_first(install: Install) -> None:
    spec = install().spec
    text = usage(spec, BOTH)
    assert "$SQSH, $SQSHDEMO" in text
    assert "sifmod sbatch Demo/1.0-x --pyxis -- script.py" in " ".join(text.split())
    assert "Runscripts, after singularity exec $SIF:" in text
    assert "srun -n1 singularity exec $SIF python3 --version" in examples(spec, BOTH)
    assert "Runscripts, after in-container:" in usage(spec, ENROOT)
    assert "srun -n1 in-container python3 --version" in examples(spec, ENROOT)
    assert "$SIF " not in examples(spec, ENROOT)
    assert "SQSH" not in usage(a_spec(), BOTH)
    assert "pyxis" not in usage(a_spec(), BOTH)


# Which runtime


@pytest.fixture
def apptainer(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path / "fake", "apptainer")


@pytest.mark.parametrize(
    ("runtimes", "variable", "used"),
    [
        (("apptainer", "enroot"), "", "apptainer"),
        (("enroot", "apptainer"), "", "enroot"),
        (("apptainer", "enroot"), "enroot", "enroot"),
        (("apptainer", "enroot"), "enroot,apptainer", "enroot"),
        (("enroot",), "apptainer", "apptainer"),
    ],
)
def test_the_site_s_first_runtime_that_is_there_is_used_unless_the_variable_names_another(
    install: Install, apptainer: FakeRuntime, runtimes: tuple[str, ...], variable: str, used: str
) -> None:
    commands = install(a_site(runtimes=runtimes, runtime="apptainer"), more=(apptainer.bin,))
    assert commands.run("python", **({"SIFMOD_RUNTIMES": variable} if variable else {})).returncode == 0
    assert (len(apptainer.calls), len(commands.stand_ins.calls)) == ((1, 0) if used == "apptainer" else (0, 1))


def test_without_apptainer_the_next_runtime_is_enroot(install: Install) -> None:
    assert install(a_site(runtimes=("apptainer", "enroot"), runtime="no-apptainer"))("python")["command"] == "start"


def test_an_unknown_runtime_is_one_sentence(install: Install) -> None:
    assert install(BOTH).refusal(2, SIFMOD_RUNTIMES="enroot2,apptainer") == (
        "SIFMOD_RUNTIMES is 'enroot2,apptainer', and 'enroot2' is not a runtime: use apptainer or enroot, or several "
        "with commas between them."
    )


def test_where_both_are_missing_the_sentence_names_both(install: Install) -> None:
    commands = install(a_site(runtimes=("enroot", "apptainer"), runtime="no-apptainer"))
    (commands.stand_ins.folder / "enroot").unlink()
    assert commands.refusal(127) == (
        "no container runtime on this node: looked for enroot and no-apptainer on PATH. Load its module, use a node "
        "that has one, or name another in SIFMOD_RUNTIMES."
    )


# The variables


def environment(commands: Commands, tmp_path: Path, **environ: str) -> dict[str, str]:
    """Return the environment of a command in the container: enroot's, then what with-environment makes of it."""
    call = commands("in-container", "env", "-0", **environ)
    given = {name: call["environ"][name] if value is None else value for name, value in call["env"].items()}
    image = tmp_path / "image"
    write_file(image / "10-docker.sh", 'export PATH="/image/bin:$PATH" OF_IMAGE=1\n')
    script = tmp_path / "with-environment"
    script.write_text(
        text_of("runscripts/with-environment", commands.spec, ENROOT).replace("/.singularity.d/env", str(image))
    )
    done = ran(["/bin/sh", script, *call["words"][2:]], env=given, check=True)
    return dict(word.split("=", 1) for word in done.stdout.split("\0")[:-1])


def test_the_command_gets_the_variables_of_the_shell_word_for_word(install: Install, tmp_path: Path) -> None:
    values = {
        "EMPTY": "",
        "LINES": "a\n'b' \"c\"\n\n$HOME\\n",
        "QUOTED": '"x"',
        "SINGLE": "'it''s'",
        "SPACES": "  a  ",
        "value": "1",
        "SHELL": "/bin/zsh",
        "SINGULARITYENV_INNER": "'a'\nb",
        "BASH_ENV": "/x",
        "BASH_FUNC_hello%%": '() {  echo "it\'s"\n}',
        "BASH_FUNC_a.b%%": "() {  :\n}",
    }
    found = environment(install(), tmp_path, **values, LD_LIBRARY_PATH="/host")
    lacking = dict.fromkeys(("SINGULARITYENV_INNER", "BASH_FUNC_hello%%", "BASH_FUNC_a.b%%"))
    assert {name: found.get(name) for name in values} == {**values, **lacking}
    assert found["INNER"] == values["SINGULARITYENV_INNER"]
    assert found["VIRTUAL_ENV"] == "/user-software/venv/demo"
    assert found["OF_IMAGE"] == "1"
    assert found["PATH"].startswith("/runscripts:/user-software/venv/demo/bin:")
    assert ":/image/bin:/usr/local/sbin:" in found["PATH"]
    assert "LD_LIBRARY_PATH" not in found
    assert not [name for name in found if "SIFMOD_Q" in name or name.startswith(("sifmod_n", "SINGULARITY", "ENROOT"))]


def test_a_sh_that_is_bash_passes_no_functions_of_the_host_on(tmp_path: Path) -> None:
    """For pyxis, which lets all variables of the job in."""
    script = tmp_path / "with-environment"
    script.write_text(text_of("runscripts/with-environment", a_spec(squashfs="x.sqsh"), ENROOT))
    environ = {"BASH_FUNC_which%%": "() {  :\n}", "MINE": "1"}
    command = ["/bin/bash", "--posix", str(script), "env"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ("MINE=1\n" in done.stdout, "BASH_FUNC" in done.stdout, done.stderr) == (True, False, "")


def test_it_starts_in_the_working_directory_or_the_home(install: Install, tmp_path: Path) -> None:
    commands = install()
    assert environment(commands, tmp_path)["PWD"] == str(commands.work)
    script = tmp_path / "with-environment"
    script.write_text(text_of("runscripts/with-environment", a_spec(squashfs="x.sqsh"), ENROOT))
    for home, expected in ((str(tmp_path), str(tmp_path)), ("/nonexistent", "/")):
        command = ["/bin/sh", str(script), "--in", "/not/in/the/container", "pwd"]
        done = subprocess.run(command, env={"HOME": home}, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_a_wrapper_s_command_is_not_taken_for_another_wrapper(install: Install, tmp_path: Path) -> None:
    """The wrapper gmx runs `gmx -quiet`, which with-environment would turn into `gmx -quiet -quiet`."""
    wrapped = {"gmx": ("echo", "gmx")}
    commands = install(python=None, python_version="", venv="", wrappers=("gmx",), wrapper_commands=wrapped)
    (tmp_path / "commands.txt").write_text("echo echo twice\n")
    text = text_of("runscripts/with-environment", commands.spec, ENROOT)
    text = text.replace("/runscripts/commands.txt", str(tmp_path / "commands.txt"))
    command = ["/bin/sh", "-s", "--", *commands("gmx")["words"][2:]]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "gmx\n"


# Packed files


@pytest.fixture
def packed(install: Install, need: Need, tmp_path: Path) -> Iterator[Commands]:
    """An installation with packed user software, on a node with FUSE; at the end nothing may be mounted any more."""
    need("squashfuse_ll", "squashfuse")
    commands = install()
    tree = tmp_path / "tree"
    write_file(tree / "file", "packed\n")
    command = [need("mksquashfs"), str(tree), str(commands.top / "user-software.squashfs"), "-quiet", "-no-progress"]
    subprocess.run(command, check=True, capture_output=True)
    (commands.top / "user-software").rmdir()
    yield commands
    try:
        until(lambda: not list((tmp_path / "run" / "sifmod-mounts").glob("*")))
        assert mounted(tmp_path) == []
    finally:
        for place in mounted(tmp_path):
            subprocess.run([need("fusermount3", "fusermount"), "-u", "-z", place], check=True)


def mounted(tmp_path: Path) -> list[str]:
    """Return the folders below a folder at which something is mounted."""
    targets = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [target for target in targets if target.startswith(f"{tmp_path}/run/")]


def start(commands: Commands, **environ: str) -> subprocess.Popen[str]:
    """Start a command that goes on until it is killed, and return it once it is in the container."""
    commands.stand_ins.then("#!/bin/bash\necho there\nexec sleep 600\n")
    process = subprocess.Popen(**commands.command("python", **environ), stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "there\n"
    return process


def kill(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def holder(tmp_path: Path) -> int:
    (path,) = (tmp_path / "run" / "sifmod-mounts").glob("*/holder")
    return int(path.read_text().partition("-")[0])


def test_packed_user_software_is_mounted_once_for_all_and_until_the_last_ends(packed: Commands, tmp_path: Path) -> None:
    first = start(packed)
    second = start(packed)
    (place,) = mounted(tmp_path)
    sources = {mounts(call)["/user-software"] for call in packed.stand_ins.calls}
    assert sources == {(place, "")}
    assert Path(place, "file").read_text() == "packed\n"
    assert Path(place).parents[1].stat().st_mode & 0o777 == 0o700
    kill(first)
    time.sleep(1.5)
    assert mounted(tmp_path) == [place]
    kill(second)


def test_each_step_has_a_mount_of_its_own(packed: Commands, tmp_path: Path) -> None:
    steps = [start(packed, SLURM_JOB_ID="7", SLURM_STEP_ID=step) for step in ("0", "1")]
    assert len(mounted(tmp_path)) == 2
    kill(*steps)


def test_the_command_has_no_child_that_it_did_not_start(packed: Commands) -> None:
    # programs that the wrapper starts, and that end late after their last word
    for name in ("stat", "od"):
        write_program(
            packed.stand_ins.folder / name, f'#!/bin/bash\n"{shutil.which(name)}" "$@"\nexec >&-\nsleep 0.3\n'
        )
    process = start(packed)
    assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == ""
    kill(process)


def test_what_slurm_has_killed_is_cleared_by_the_next_command(packed: Commands, tmp_path: Path) -> None:
    process = start(packed, SLURM_JOB_ID="7", SLURM_STEP_ID="0")
    (place,) = mounted(tmp_path)
    os.kill(holder(tmp_path), signal.SIGKILL)
    kill(process)
    time.sleep(1.5)
    assert mounted(tmp_path) == [place]
    kill(start(packed))
    assert place not in mounted(tmp_path)


def test_where_only_its_holder_was_killed_the_next_command_starts_another(packed: Commands, tmp_path: Path) -> None:
    first = start(packed)
    killed = holder(tmp_path)
    os.kill(killed, signal.SIGKILL)
    until(lambda: not _words(Path("/proc", str(killed)))[0])
    second = start(packed)
    assert holder(tmp_path) != killed
    assert len(mounted(tmp_path)) == 1
    kill(first, second)


def test_a_mount_whose_program_is_gone_is_made_again(packed: Commands, tmp_path: Path) -> None:
    first = start(packed)
    (place,) = mounted(tmp_path)
    (pid,) = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and place.encode() in _words(entry)[1:] and b"squashfuse" in _words(entry)[0]
    ]
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: not _words(Path("/proc", pid))[0])
    second = start(packed)
    assert Path(place, "file").read_text() == "packed\n"
    kill(first, second)


def _words(process: Path) -> list[bytes]:
    try:
        return process.joinpath("cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def test_a_bind_path_into_a_packed_file_is_that_folder_of_it(packed: Commands) -> None:
    bind = f"{escape(str(packed.top))}/user-software.squashfs:/data:image-src=/file"
    call = packed("python", SINGULARITY_BIND=bind)
    assert Path(mounts(call)["/data"][0]).name == "file"


def test_without_squashfuse_one_sentence_says_what_to_do(install: Install, tmp_path: Path) -> None:
    commands = install()
    put_into_state(commands.top, "packed")
    tools = tmp_path / "tools"
    tools.mkdir()
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith(("squashfuse", "enroot", "singularity", "apptainer")):
            (tools / path.name).symlink_to(path)
    assert commands.refusal(126, PATH=f"{commands.stand_ins.folder}:{tools}") == (
        f"'{commands.top}/user-software.squashfs' can't be mounted: 'squashfuse' is not installed on this node, and "
        "this runtime needs it for packed files. Use a node that has it, unpack the user software with "
        "unmake-squashfs, or start Apptainer with SIFMOD_RUNTIMES=apptainer."
    )


def test_a_file_that_is_no_squashfs_is_one_sentence(install: Install, need: Need, tmp_path: Path) -> None:
    tool = Path(need("squashfuse_ll", "squashfuse")).name
    (tmp_path / "data.ext3").write_bytes(bytes(4096))
    commands = install()
    said = commands.refusal(126, SINGULARITY_BIND=f"{tmp_path}/data.ext3:/data:image-src=/")
    assert said == f"'{tmp_path}/data.ext3' can't be mounted with {tool}: This doesn't look like a squashfs image."
    assert list((tmp_path / "run" / "sifmod-mounts").iterdir()) == []


def test_where_locks_are_refused_a_file_is_not_mounted(install: Install, need: Need) -> None:
    need("squashfuse_ll", "squashfuse")
    commands = install()
    put_into_state(commands.top, "packed")
    flock = commands.stand_ins.folder / "flock"
    write_program(flock, '#!/bin/sh\necho "flock: $1: Function not implemented" >&2\nexit 1\n')
    said = commands.refusal(126)
    assert re.search(r"mounted: '.*/sifmod-mounts' can't be locked \(flock: \d+: Function not .*\)\. Set", said)


def test_a_folder_of_somebody_else_is_not_used(install: Install, need: Need, tmp_path: Path) -> None:
    need("squashfuse_ll", "squashfuse")
    commands = install()
    put_into_state(commands.top, "packed")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run/sifmod-mounts").symlink_to(tmp_path / "elsewhere")
    assert commands.refusal(126) == (
        f"'{commands.top}/user-software.squashfs' can't be mounted: '{tmp_path}/run/sifmod-mounts' {LINK}. "
        "Set XDG_RUNTIME_DIR to a folder that only you can enter, or ask an administrator."
    )


# The lists of bind paths

PATHS = st.text("abc/ ,:'\"$é", max_size=6).map(lambda text: f"/{text}")
BINDS = st.tuples(PATHS, st.one_of(st.just(""), PATHS), st.sampled_from(["", "ro", "rw", "ro,image-src=/"])).map(
    lambda bind: ":".join([escape(bind[0]), *([escape(bind[1] or bind[0]), bind[2]] if bind[1] or bind[2] else [])])
)


@settings(max_examples=60)
@given(st.lists(BINDS, min_size=1, max_size=4))
def test_bash_reads_a_list_of_bind_paths_as_the_runtime_does(binds: list[str]) -> None:
    script = (
        'source "$1"; read_binds "$2"\n'
        "for i in ${!sifmod_bind_sources[@]}; do\n"
        '    printf "%s\\0" "${sifmod_bind_sources[i]}" "${sifmod_bind_destinations[i]}" "${sifmod_bind_options[i]}"\n'
        "done"
    )
    command = ["bash", "-c", script, "-", str(ROOT / "wrappers/share/runtimes.sh"), ",".join(binds)]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    found = [(words[i], words[i + 1], words[i + 2]) for i in range(0, len(words), 3)]
    assert found == split_binds(",".join(binds))
