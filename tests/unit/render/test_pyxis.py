"""A container for enroot and pyxis: what the module sets, what a job gives to srun, and what runs in the container."""

import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.programs import ran, write_file, write_program
from tests.standins import StandIns, write_stand_ins
from tests.waiting import until

from sifmod.container.bind import Bind
from sifmod.container.spec import ContainerSpec
from sifmod.errors import JobError
from sifmod.render.job import Job, render_job
from sifmod.render.module import render_module
from sifmod.site.feature import Feature
from sifmod.site.server import OTHER
from sifmod.site.settings import Site

from ..support import SQUASHFS, Need, a_site, a_spec
from .cases import outputs, write_out
from .running import Done, Load, put_into_state

ENROOT = a_site(runtimes=("apptainer", "enroot"))


@pytest.fixture
def installed(tmp_path: Path) -> ContainerSpec:
    """Return a container with an image for enroot, in a directory with an unusual name that pyxis can mount."""
    installdir = str(tmp_path / "a b'c")
    spec: ContainerSpec = a_spec(installdir=installdir, squashfs="demo.sqsh", container_env={"OMP_NUM_THREADS": "4"})
    write_out(spec, ENROOT)
    top = Path(spec.installdir)
    (top / "demo.sif").touch()
    (top / "demo.sqsh").write_bytes(SQUASHFS)
    (top / "user-software").mkdir()
    return spec


# The module


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_the_module_names_the_image_and_keeps_the_user_s(installed: ContainerSpec, load: Load, syntax: str) -> None:
    variables = load(installed, syntax=syntax)
    assert variables["SQSH"] == variables["SQSHDEMO"] == f"{installed.installdir}/demo.sqsh"
    assert variables["SIF"] == f"{installed.installdir}/demo.sif"
    Path(installed.installdir, "demo.sqsh").unlink()
    assert "SQSH" not in load(installed, syntax=syntax)
    assert load(installed, environ={"SQSH": "/mine.sqsh"}, syntax=syntax)["SQSH"] == "/mine.sqsh"


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_without_one_the_module_does_not_know_the_variable(syntax: str) -> None:
    assert "SQSH" not in render_module(a_spec(), ENROOT, syntax)
    assert not {"share/pyxis.sh", "runscripts/with-environment"} & set(outputs(a_spec(), ENROOT))


@pytest.mark.parametrize("was", [None, "/mine.sqsh"])
def test_unload_in_tcl_restores_the_user_s_value(installed: ContainerSpec, load: Load, was: Optional[str]) -> None:
    before = {"SQSH": was} if was else {}
    module = Path(installed.installdir).parent / "module.tcl"
    module.write_text(render_module(installed, ENROOT, "Tcl"), encoding="utf-8")
    # the stub prints what setenv and unsetenv set; the stack is what a loaded module leaves
    stack = f"Demo/1.0-x {{{installed.installdir}/demo.sqsh}}" + (f" {{}} {was}" if was else "")
    environ = {**before, "SQSH": f"{installed.installdir}/demo.sqsh", "__SIFMOD_STACK_SQSH": stack}
    Path(installed.installdir, "demo.sqsh").unlink()
    done = load.run_file(module, environ, mode="unload", syntax="Tcl")
    assert load.variables(done)["SQSH"] == (was or "")


# The job


@dataclass(frozen=True)
class RunJob:
    """Runs a job script with the stand-in for srun, after a module that sets what the real one sets."""

    load: Load
    stand_ins: StandIns
    folder: Path

    def run(
        self,
        job: Job,
        spec: ContainerSpec,
        site: Site = ENROOT,
        environ: Optional[Mapping[str, str]] = None,
        *,
        before: str = "",
        after: str = "",
    ) -> Done:
        """Return what the script, between other lines, has printed, and how it ended."""
        environ = environ or {}
        variables = self.load(spec, site, environ)
        own = {name: value for name, value in variables.items() if name.isidentifier() and "\0" not in value}
        own.pop("family", None)
        lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in own.items())
        (self.folder / "module").write_text(lines)
        text = (
            f"module() {{ source {shlex.quote(str(self.folder / 'module'))}; }}\n{before}{render_job(job, site)}{after}"
        )
        (self.folder / "work dir").mkdir(exist_ok=True)
        return ran(
            ["bash", "-e", "-c", text],
            env={"PATH": f"{self.stand_ins.folder}:/usr/bin:/bin", **environ},
            cwd=self.folder / "work dir",
        )

    def __call__(self, job: Job, spec: ContainerSpec, **more: Any) -> dict[str, Any]:
        """Return how srun was called."""
        done = self.run(job, spec, **more)
        assert (done.returncode, done.stderr) == (0, "")
        (call,) = self.stand_ins.calls
        return call


@pytest.fixture
def run(load: Load, tmp_path: Path) -> RunJob:
    stand_ins = write_stand_ins(tmp_path / "stand-ins")
    stand_ins.run_steps()
    return RunJob(load, stand_ins, tmp_path)


def mounts(call: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return target -> (source, flags)."""
    return {mount["target"]: (mount["source"], "+".join(mount["flags"])) for mount in call["mounts"]}


SERVES = ("--health=/health", "--limit=1800", "--nodes=1", "--key-variable=API_KEY")
JOBS = {
    "single task": (Job("Demo/1", ("x.py", "a b"), pyxis=True), ["conda-python-distributed", "-u", "x.py", "a b"], {}),
    "a rank a task": (
        Job("Demo/1", ("x.py",), nodes=2, processes_per_node=4, pyxis=True),
        ["conda-python-distributed", "-u", "x.py"],
        {},
    ),
    "torchrun": (
        Job("Demo/1", ("-m", "x"), nodes=2, gpus_per_node=4, launcher="torchrun", pyxis=True),
        ["torchrun-distributed", "--nproc_per_node=4", "-m", "x"],
        {},
    ),
    "program": (Job("Demo/1", ("pip", "list"), launcher="program", is_wrapper=True, pyxis=True), ["pip", "list"], {}),
    "server of a model": (
        Job("Demo/1", ("x", "it's", "{port}"), launcher="program", gpus_per_node=2, server=OTHER, pyxis=True),
        ["serve", *SERVES, "--", "x", "it's", "{port}"],
        {},
    ),
    "masks": (
        Job("Demo/1", ("x.py",), gpus_per_node=2, pyxis=True),
        ["conda-python-distributed", "-u", "x.py"],
        {"cpu_bind_masks": ("0x1", "0x2")},
    ),
}


@pytest.mark.parametrize("case", JOBS)
def test_srun_is_called_as_pyxis_documents_it(run: RunJob, installed: ContainerSpec, case: str, tmp_path: Path) -> None:
    job, words, more = JOBS[case]
    call = run(job, installed, site=a_site(runtimes=("apptainer", "enroot"), **more))
    top, here = installed.installdir, str(tmp_path / "work dir")
    assert call["image"] == f"{top}/demo.sqsh"
    assert call["words"] == ["/runscripts/with-environment", *words]
    assert mounts(call) == {
        here: (here, ""),
        "/runscripts": (f"{top}/runscripts", "ro"),
        "/user-software": (f"{top}/user-software", ""),
    }
    assert dict(call["others"]) == {
        "container-mount-home": None,
        "container-workdir": here,
        "no-container-remap-root": None,
    }
    bound = [["--cpu-bind", "mask_cpu:0x1,0x2"]] if case == "masks" else []
    assert call["options"] == [["--kill-on-bad-exit", None], *bound]
    assert call["env"][0] == "SQSH"
    assert {"SINGULARITYENV_PREPEND_PATH", "APPTAINERENV_VIRTUAL_ENV", "OMP_NUM_THREADS"} <= set(call["env"])
    for name in call["env"]:
        assert call["environ"][name]


def test_bind_paths_of_site_features_and_user_mounted(run: RunJob, installed: ContainerSpec, tmp_path: Path) -> None:
    for name in ("site", "here", "feature", "users", "later", "x y"):
        (tmp_path / name).mkdir()
    site = a_site(
        runtimes=("enroot",),
        binds=(Bind(str(tmp_path / "site"), "/site", "ro"), Bind(str(tmp_path / "x y"), "/x y")),
        optional_binds=(Bind(str(tmp_path / "here"), "/here"), Bind(str(tmp_path / "gone"), "/gone")),
        default_features=("f",),
        feature={"f": Feature("f", binds=(Bind(str(tmp_path / "feature"), "/f"),), env={"F": "1"})},
    )
    write_out(installed, site)
    environ = {"SINGULARITY_BINDPATH": f"{tmp_path}/users:/u:rw", "SINGULARITY_BIND": f"{tmp_path}/later,ro"}
    call = run(Job("Demo/1", ("x.py",), pyxis=True), installed, site=site, environ=environ)
    found = mounts(call)
    assert {target: found[target] for target in ("/site", "/here", "/x y", "/f", "/u", f"{tmp_path}/later")} == {
        "/site": (f"{tmp_path}/site", "ro"),
        "/x y": (f"{tmp_path}/x y", ""),
        "/here": (f"{tmp_path}/here", ""),
        "/f": (f"{tmp_path}/feature", ""),
        "/u": (f"{tmp_path}/users", "rw"),
        f"{tmp_path}/later": (f"{tmp_path}/later", "ro"),
    }
    assert "/gone" not in found
    assert "F" in call["env"]
    assert call["mounts"][0]["target"] == str(tmp_path / "work dir")


def test_variables_of_several_lines_and_empty_ones_are_not_named(run: RunJob, installed: ContainerSpec) -> None:
    environ = {"SINGULARITYENV_LINES": "a\nb", "SINGULARITYENV_EMPTY": "", "SINGULARITYENV_MINE": "1", "OTHER": "1"}
    call = run(Job("Demo/1", ("x.py",), pyxis=True), installed, environ=environ)
    assert "SINGULARITYENV_MINE" in call["env"]
    assert not {"SINGULARITYENV_LINES", "SINGULARITYENV_EMPTY", "OTHER"} & set(call["env"])


# Packed files, on a node with FUSE

WHERE = Path(f"/tmp/sifmod-mounts-{os.getuid()}")
IN_A_JOB = {"SLURM_JOB_ID": f"{os.getpid()}", "SLURM_JOB_NUM_NODES": "2"}
A_SCRIPT = Job("Demo/1", ("x.py",), pyxis=True)


@pytest.fixture
def packed(installed: ContainerSpec, need: Need, tmp_path: Path) -> Iterator[ContainerSpec]:
    """Return the container with packed user software; at the end nothing of its jobs is mounted any more."""
    need("squashfuse_ll", "squashfuse")
    tree = tmp_path / "tree"
    write_file(tree / "file", "packed\n")
    target = Path(installed.installdir, "user-software.squashfs")
    command = [need("mksquashfs"), str(tree), str(target), "-quiet", "-no-progress"]
    subprocess.run(command, check=True, capture_output=True)
    Path(installed.installdir, "user-software").rmdir()
    yield installed
    left = mounted()
    for place in left:
        subprocess.run([need("fusermount3", "fusermount"), "-u", "-z", place], check=True)
    assert left == []
    assert not list(WHERE.glob(f"{IN_A_JOB['SLURM_JOB_ID']}.*"))


def mounted() -> list[str]:
    """Return the folders at which packed files are mounted for the jobs of this test."""
    targets = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [target for target in targets if target.startswith(f"{WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-")]


def of_container(stand_ins: StandIns) -> dict[str, Any]:
    """Return the only call of srun that starts a container."""
    (call,) = [call for call in stand_ins.calls if call["image"]]
    return call


@pytest.mark.parametrize("state", ["packed", "packed beside the directory"])
def test_packed_software_is_mounted_while_the_job_runs(run: RunJob, packed: ContainerSpec, state: str) -> None:
    if state != "packed":
        Path(packed.installdir, "user-software").mkdir()
    run.stand_ins.then(f"#!/bin/sh\nexec cat {WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-*.1/root/file\n")
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB)
    assert (done.returncode, done.stdout, done.stderr) == (0, "packed\n", "")
    calls: list[dict[str, Any]] = run.stand_ins.calls
    first, second = calls
    assert first["words"][0] == f"{packed.installdir}/share/mount-in-job"
    assert {("--nodes", "2"), ("--ntasks", "2")} <= {(name, value) for name, value in first["options"]}
    source, _ = mounts(second)["/user-software"]
    assert re.fullmatch(rf"{WHERE}/[^/]*\.1/root", source)


def test_a_bind_path_into_another_file_is_that_folder_of_it(run: RunJob, packed: ContainerSpec) -> None:
    file = f"{packed.installdir}/user-software.squashfs".replace(":", "\\:").replace(",", "\\,")
    run.stand_ins.then(f"#!/bin/sh\nexec cat {WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-*.2/root/file\n")
    done = run.run(A_SCRIPT, packed, environ={**IN_A_JOB, "SINGULARITY_BIND": f"{file}:/data:image-src=/file"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "packed\n", "")
    source, _ = mounts(of_container(run.stand_ins))["/data"]
    assert source.endswith(".2/root/file")


def test_the_status_of_the_job_is_that_of_the_program(run: RunJob, packed: ContainerSpec) -> None:
    run.stand_ins.then("#!/bin/sh\necho failed >&2; exit 42\n")
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB)
    assert (done.returncode, done.stdout, done.stderr) == (42, "", "failed\n")


def test_a_job_script_with_a_trap_that_waits_for_its_children_ends_too(run: RunJob, packed: ContainerSpec) -> None:
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB, before="trap 'echo its own' EXIT\n", after="sleep 0 & wait\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "its own\n", "")
    until(lambda: not mounted())


def test_a_module_loaded_after_another_one_leaves_nothing_either(run: RunJob, packed: ContainerSpec) -> None:
    # the trap runs what the script has set before, which still sees the status
    again = f"source {shlex.quote(packed.installdir)}/share/pyxis.sh\nexit 3\n"
    # the tasks of the stand-in have one pipe, in which only one of them sees the line
    one_node = {**IN_A_JOB, "SLURM_JOB_NUM_NODES": "1"}
    done = run.run(A_SCRIPT, packed, environ=one_node, before="trap 'echo $?' EXIT\n", after=again)
    assert (done.returncode, done.stdout, done.stderr) == (3, "3\n", "")
    assert mounted() == []


def test_a_job_script_may_have_a_coproc_of_its_own(run: RunJob, packed: ContainerSpec) -> None:
    run.stand_ins.then("#!/bin/sh\nexit 0\n")
    own = "coproc MINE { cat; }\n"
    lines = "echo mine >&${MINE[1]}; read -r line <&${MINE[0]}; echo $line\n"
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB, before=own, after=lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")


def test_a_program_left_in_the_background_does_not_hold_the_job_up(run: RunJob, packed: ContainerSpec) -> None:
    start = time.monotonic()
    one_node = {**IN_A_JOB, "SLURM_JOB_NUM_NODES": "1"}
    done = run.run(A_SCRIPT, packed, environ=one_node, after="{ sleep 600; :; } >/dev/null 2>&1 &\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - start < 240
    assert mounted() == []


def test_signals_for_the_job_script_do_not_reach_the_step(run: RunJob, packed: ContainerSpec) -> None:
    own = f"mount-in-job {WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-"
    run.stand_ins.then(f'#!/bin/bash\nps -o pgid= -p $$; ps -o pgid= -p "$(pgrep -d, -f "{own}")"\n')
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB)
    of_script, *of_step = done.stdout.split()
    assert of_step
    assert of_script not in of_step


def test_a_job_script_may_become_its_step(run: RunJob, packed: ContainerSpec) -> None:
    own = f"{WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-*.1/root/file"
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB, after=f"exec sh -c 'sleep 1; cat {own}'\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "packed\n", "")
    until(lambda: not mounted())


def test_the_step_that_mounts_gets_none_of_srun_s_options_from_variables(run: RunJob, packed: ContainerSpec) -> None:
    # --gpus-per-node does not go with --gres=none, --ntasks-per-gpu with --ntasks-per-node, and output that goes into a
    # file never says that files are mounted
    options = {
        "SLURM_GPUS_PER_NODE": "4",
        "SLURM_NTASKS_PER_GPU": "1",
        "SLURM_STDOUTMODE": "out.%t",
        "SLURM_DEBUG": "1",
        "SRUN_CPUS_PER_TASK": "8",
    }
    kept = {**IN_A_JOB, "SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_JWT": "x"}
    done = run.run(A_SCRIPT, packed, environ={**options, **kept})
    assert (done.returncode, done.stderr) == (0, "")
    calls: list[dict[str, Any]] = run.stand_ins.calls
    of_step, of_tasks = (call["environ"] for call in calls)
    assert {name: of_step.get(name) for name in (*options, *kept)} == {**dict.fromkeys(options), **kept}
    assert options.items() <= of_tasks.items()


def test_a_task_that_writes_a_checkpoint_has_its_software(run: RunJob, packed: ContainerSpec) -> None:
    # Slurm sends SIGTERM to all processes of all steps; a container has a mount of its own, here an open folder
    own = f"{WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-"
    run.stand_ins.then(
        f"#!/bin/bash\ncd {own}*.1/root\npkill -TERM -f {own}\n"
        f"for i in {{1..600}}; do [[ $(</proc/self/mountinfo) == *{own}* ]] || break; sleep 0.1; done\n"
        f"[[ $(</proc/self/mountinfo) != *{own}* ]] && cat file\n"
    )
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB)
    assert (done.returncode, done.stdout) == (0, "packed\n")


def test_without_a_mount_no_container_is_started(run: RunJob, installed: ContainerSpec, need: Need) -> None:
    tool = Path(need("squashfuse_ll", "squashfuse")).name
    put_into_state(Path(installed.installdir), "packed")
    file = f"{installed.installdir}/user-software.squashfs"
    Path(file).write_bytes(SQUASHFS + bytes(4096))
    done = run.run(A_SCRIPT, installed, environ={**IN_A_JOB, "SLURM_JOB_NUM_NODES": "1"})
    assert (done.returncode, [call["image"] for call in run.stand_ins.calls]) == (1, [""])
    assert done.stderr.splitlines() == [
        f"node1: '{file}' can't be mounted with {tool}: Squashfs version 0.0 detected, only version 4.0 supported.",
        "Demo/1.0-x: packed files were mounted on 0 of 1 nodes, for the reason above: unpack user software with "
        "unmake-squashfs, or run the job without pyxis",
    ]
    assert not list(WHERE.glob(f"{IN_A_JOB['SLURM_JOB_ID']}.*"))


def test_a_slow_mount_is_waited_for_with_tmout(run: RunJob, packed: ContainerSpec, need: Need) -> None:
    tool = Path(need("squashfuse_ll", "squashfuse"))
    write_program(run.stand_ins.folder / tool.name, f'#!/bin/sh\nsleep 2\nexec {tool} "$@"\n')
    run.stand_ins.then("#!/bin/sh\n:\n")
    done = run.run(A_SCRIPT, packed, environ={**IN_A_JOB, "TMOUT": "1"}, before="readonly TMOUT\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_packed_file_without_a_plain_job_is_refused(run: RunJob, packed: ContainerSpec) -> None:
    done = run.run(A_SCRIPT, packed, environ={**IN_A_JOB, "SLURM_HET_SIZE": "2"})
    assert (done.returncode, run.stand_ins.calls) == (1, [])
    assert "can't be mounted on all nodes of a heterogeneous job: unpack user software" in done.stderr
    done = run.run(A_SCRIPT, packed)
    assert (done.returncode, run.stand_ins.calls) == (1, [])
    assert done.stderr == (
        f"Demo/1.0-x: '{packed.installdir}/user-software.squashfs' is a packed file, which only a job of sbatch or "
        "salloc can mount for pyxis: use one, or unpack user software with unmake-squashfs\n"
    )


def test_a_mount_that_is_lost_while_the_job_runs_is_told(run: RunJob, packed: ContainerSpec) -> None:
    own = f"{WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-"
    run.stand_ins.then(
        f"#!/bin/bash\npkill -KILL -f '^squashfuse.* {own}'\n"
        f"for i in {{1..600}}; do pgrep -f '/share/mount-in-job {own}' >/dev/null || break; sleep 0.1; done\n"
    )
    done = run.run(A_SCRIPT, packed, environ=IN_A_JOB)
    assert "a packed file was unmounted while the job ran." in done.stderr


def test_a_step_that_has_lost_its_mount_ends_although_the_job_runs_on(packed: ContainerSpec) -> None:
    # Slurm's step lasts as long as a process has its standard error open
    folder = f"{WHERE}/{IN_A_JOB['SLURM_JOB_ID']}.pyxis-1"
    command = [f"{packed.installdir}/share/mount-in-job", folder, f"{packed.installdir}/user-software.squashfs"]
    pipe = subprocess.PIPE
    idle = {**os.environ, "TMOUT": "1"}  # of a site that ends idle shells
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=idle) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "mounted\n"
        time.sleep(1.5)
        subprocess.run(["pkill", "-KILL", "-f", f"^squashfuse.* {folder}"], check=True)
        # at the latest, so that the test ends
        close = threading.Timer(120, process.stdin.close)
        close.start()
        assert "a packed file was unmounted while the job ran." in process.stderr.read()
        assert close.is_alive()
        close.cancel()
        assert process.wait(120) == 126
    # the job's later steps name the mount: nobody else may make what has this name
    status = WHERE.lstat()
    assert (status.st_uid, status.st_mode) == (os.getuid(), 0o40700)


@pytest.mark.parametrize("name", ["SLURM_HET_SIZE", "SLURM_JOB_NUM_NODES"])
def test_a_variable_of_slurm_is_not_evaluated(run: RunJob, packed: ContainerSpec, tmp_path: Path, name: str) -> None:
    done = run.run(A_SCRIPT, packed, environ={**IN_A_JOB, name: f"a[$(touch {tmp_path}/ran)]"})
    assert (done.returncode, run.stand_ins.calls) == (1, [])
    assert not (tmp_path / "ran").exists()


# Locks the folder of mounts, and removes it as the last command that uses one does.
LOCKS = """
source "$1"
for i in {1..40}; do
    lock_mounts "$2" || { echo refused; exit 1; }
    mkdir "$2/$BASHPID"
    rmdir "$2/$BASHPID" "$2"
    exec {sifmod_mounts_lock}<&-
done
"""


def test_a_folder_of_mounts_is_made_again_or_refused(installed: ContainerSpec, tmp_path: Path) -> None:
    command = ["bash", "-p", "-c", LOCKS, "sh", f"{installed.installdir}/share/mounts.sh", str(tmp_path / "mounts")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=240)[0] for process in started] == [""] * 4
    link = tmp_path / "mounts"
    link.symlink_to(tmp_path)
    script = 'source "$1"; lock_mounts "$2" || echo refused'
    for place in (link, tmp_path / "gone" / "mounts"):
        command = ["bash", "-p", "-c", script, "sh", f"{installed.installdir}/share/mounts.sh", str(place)]
        assert ran(command, check=True, timeout=240).stdout == "refused\n"


@pytest.mark.parametrize("name", ["a,b", "a:b", 'a"b', "a$b", "a`b"])
def test_a_path_pyxis_can_not_mount(run: RunJob, installed: ContainerSpec, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    site = a_site(runtimes=("enroot",), binds=(Bind(str(tmp_path / name), "/a"),))
    done = run.run(Job("Demo/1", ("x.py",), pyxis=True), installed, site)
    assert (done.returncode, run.stand_ins.calls) == (1, [])
    assert done.stderr.startswith(f"Demo/1.0-x: pyxis can't mount '{tmp_path}/{name}', because of a comma, colon,")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", ["--cpus-per-task", "--container-image=[USER@]IMAGE"])
def test_a_slurm_without_usable_pyxis_ends_the_job(run: RunJob, installed: ContainerSpec, options: str) -> None:
    (run.stand_ins.folder / "srun").write_text(f"#!/bin/sh\necho '{options}'\n")
    done = run.run(Job("Demo/1", ("x.py",), pyxis=True), installed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Demo/1.0-x: srun has no options --container-image and --container-mounts: ask an administrator to load pyxis, "
        "or run the job without it\n"
    )


def test_a_module_without_an_image_for_enroot_ends_the_job(run: RunJob, installed: ContainerSpec) -> None:
    job = Job("Demo/1", ("x.py",), pyxis=True)
    Path(installed.installdir, "demo.sqsh").unlink()
    done = run.run(job, installed)
    image = f"{installed.installdir}/demo.sqsh"
    assert (done.returncode, done.stderr) == (
        1,
        f"Demo/1.0-x: the image for enroot, {image}, is gone: reinstall the module with: eb --rebuild\n",
    )
    Path(installed.installdir, "share/pyxis.sh").unlink()
    done = run.run(job, installed)
    assert (done.returncode, done.stderr.startswith("Demo/1 was installed without an image for enroot")) == (1, True)
    assert run.stand_ins.calls == []


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (a_site(), "the site 'test' does not have enroot"),
        (a_site(runtimes=("apptainer",)), "SIFMOD_RUNTIMES"),
    ],
)
def test_pyxis_needs_a_site_with_enroot(site: Site, said: str) -> None:
    with pytest.raises(JobError, match=re.escape(said)):
        render_job(Job("Demo/1", ("x.py",), pyxis=True), site)


@pytest.mark.parametrize("own", ["", "video"])
@pytest.mark.parametrize("there", [True, False])
def test_enroot_gets_the_gpus(run: RunJob, installed: ContainerSpec, tmp_path: Path, there: bool, own: str) -> None:
    spec = replace(installed, gpu="nvidia")
    if there:
        (tmp_path / "nvidiactl").touch()
    write_out(spec, ENROOT)
    path = Path(spec.installdir, "runscripts/values.sh")
    path.write_text(path.read_text().replace("/dev/nvidiactl", shlex.quote(str(tmp_path / "nvidiactl"))))
    environ = {"NVIDIA_DRIVER_CAPABILITIES": own}
    call = run(Job("Demo/1", ("x.py",), pyxis=True), spec, environ=environ)
    assert ("NVIDIA_VISIBLE_DEVICES" in call["env"]) == there
    assert call["environ"].get("NVIDIA_VISIBLE_DEVICES") == ("all" if there else None)
    assert call["environ"]["NVIDIA_DRIVER_CAPABILITIES"] == (own or ("all" if there else ""))


# In the container

Inside = Callable[..., Done]


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    """Run with-environment, with /.singularity.d in a folder."""
    env = tmp_path / "singularity.d" / "env"
    write_file(env / "10-docker.sh", 'export PATH="/image/bin:$PATH"\nexport OF_IMAGE="${OF_IMAGE:-image}" A=image\n')
    (env / "90-environment.sh").write_text("export LD_LIBRARY_PATH=/image/lib\n")
    # of a container with layers: it needs what is set
    (env / "99-sifmod.sh").write_text('export LATE="${LATE-}once $A $PATH"\n')

    def run(*words: str, spec: Optional[ContainerSpec] = None, **environ: str) -> Done:
        texts = outputs(spec or a_spec(squashfs="demo.sqsh"), ENROOT)
        (tmp_path / "commands.txt").write_text(texts["runscripts/commands.txt"])
        text = texts["runscripts/with-environment"].replace("/.singularity.d/env", str(env))
        script = tmp_path / "with-environment"
        write_program(script, text.replace("/runscripts/commands.txt", str(tmp_path / "commands.txt")))
        return ran([script, *words], env=environ)

    return run


def test_the_image_s_variables_come_first_then_the_module_s(inside: Inside) -> None:
    done = inside(
        *("env", "-0"),
        PATH="/host/bin",
        LD_LIBRARY_PATH="/host/lib",
        HOST="1",
        OF_IMAGE="host",
        SINGULARITYENV_A="module",
        APPTAINERENV_A="module",
        SINGULARITYENV_B="wrong",
        APPTAINERENV_B='it\'s "$HOME" `id`\nA=2\\n',
        SINGULARITYENV_PREPEND_PATH="/runscripts:/venv/bin",
        APPTAINERENV_PREPEND_PATH="/runscripts:/venv/bin",
        APPTAINERENV_PREPEND_LD_LIBRARY_PATH="/.singularity.d/libs",
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(word.split("=", 1) for word in done.stdout.split("\0")[:-1])
    assert {name: found[name] for name in ("A", "B", "HOST", "OF_IMAGE", "LD_LIBRARY_PATH")} == {
        "A": "module",
        "B": 'it\'s "$HOME" `id`\nA=2\\n',
        "HOST": "1",
        "OF_IMAGE": "host",
        "LD_LIBRARY_PATH": "/image/lib",
    }
    default = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert found["PATH"] == f"/runscripts:/venv/bin:/image/bin:{default}"
    assert found["LATE"] == f"once module {found['PATH']}"
    assert not [name for name in found if "sifmod" in name or name.startswith(("SINGULARITY", "APPTAINER", "PREPEND"))]


def test_a_value_that_looks_like_other_variables_sets_none(inside: Inside) -> None:
    done = inside("env", "-0", SINGULARITYENV_X="1\nSINGULARITYENV_Y=2\nAPPTAINERENV_$(id)=3")
    found = dict(word.split("=", 1) for word in done.stdout.split("\0")[:-1])
    assert found["X"].startswith("1\n")
    assert found.get("Y", "") == ""


def test_commands_are_found_by_the_names_that_they_have_on_the_host(inside: Inside) -> None:
    wrapped = {"train": ("echo", "a  b", "$HOME", "it's")}
    spec = a_spec(
        squashfs="demo.sqsh", python=None, python_version="", venv="", wrappers=("train",), wrapper_commands=wrapped
    )
    done = inside("train", "*", "", spec=spec)
    assert (done.stdout, done.stderr, done.returncode) == ("a  b $HOME it's * \n", "", 0)


@pytest.mark.parametrize(("words", "status"), [((), 2), (("no-such-command",), 127), (("sh", "-c", "exit 3"), 3)])
def test_the_exit_status_is_that_of_the_command(inside: Inside, words: tuple[str, ...], status: int) -> None:
    assert inside(*words).returncode == status


def test_an_image_without_such_files_has_the_usual_path(inside: Inside, tmp_path: Path) -> None:
    for path in (tmp_path / "singularity.d" / "env").iterdir():
        path.unlink()
    done = inside("sh", "-c", "echo $PATH", PATH=os.environ["PATH"])
    assert done.stdout == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
