"""The host commands of an install: they behave as the container's own would."""

import fcntl
import os
import pty
import re
import select
import shlex
import subprocess
import termios
import time
from pathlib import Path

import pytest
from tests.programs import write_file, write_program
from tests.waiting import until

from conftest import DEMO_MODULE, LUMI_MODULE, User

LOAD = f"module load {DEMO_MODULE}"

ARGUMENTS = ["a b", "", "$HOME", "*", "'", '"', "new\nline", "\\", "é"]


def test_arguments_pass_through_untouched(demo: User) -> None:
    import json

    words = " ".join(shlex.quote(word) for word in ARGUMENTS)
    out = demo.out(f"{LOAD}; python -c 'import json, sys; print(json.dumps(sys.argv[1:]))' {words}")
    assert json.loads(out) == ARGUMENTS


def test_standard_input_and_exit_codes_pass_through(demo: User) -> None:
    assert demo.out(f"{LOAD}; echo 'print(6 * 7)' | python -") == "42"
    assert demo.run(f"{LOAD}; python -c 'raise SystemExit(37)'", check=False).returncode == 37


def test_by_absolute_path_without_the_module(demo: User) -> None:
    python = demo.installdir(DEMO_MODULE) / "bin" / "python3.11"
    assert demo.out(f"{python} -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"


def test_without_a_home_directory(demo: User) -> None:
    python = demo.installdir(DEMO_MODULE) / "bin" / "python"
    assert demo.out(f"env -u HOME {python} -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"


def test_of_another_install_than_the_loaded_one(demo: User, lumi: User) -> None:
    """A kernel of one install started in a shell that has another loaded sees nothing of the other."""
    code = "import os, sys; print(sys.prefix, os.environ.get('CONDA_PREFIX'))"
    python = demo.installdir(DEMO_MODULE) / "bin" / "python"
    assert lumi.out(f'module load {LUMI_MODULE}; {python} -c "{code}"') == "/user-software/venv/demo None"


def test_xargs_and_a_shebang_line_find_the_wrapper(demo: User, tmp_path: Path) -> None:
    script = write_program(tmp_path / "script", "#!/usr/bin/env python\nimport sys\nprint(sys.prefix)\n")
    assert demo.out(f"{LOAD}; {script}") == "/user-software/venv/demo"
    assert demo.out(f"{LOAD}; printf '1 2' | xargs -n1 python -c 'import sys; print(sys.argv[1])'") == "1\n2"


def test_start_shell_takes_bashs_arguments(demo: User) -> None:
    assert demo.out(f"{LOAD}; start-shell -c 'command -v python; exit 0'") == "/user-software/venv/demo/bin/python"
    assert demo.run(f"{LOAD}; start-shell -c 'exit 5'", check=False).returncode == 5


def test_the_users_home_packages_do_not_shadow_the_image(demo: User, tmp_path: Path) -> None:
    packages = tmp_path / ".local/lib/python3.11/site-packages"
    write_file(packages / "demo_vendor.py", "__version__ = 'shadow'\n")
    show = "python -c 'import demo_vendor; print(demo_vendor.__version__)'"
    out = demo.out(f"{LOAD}; HOME={tmp_path} {show}; HOME={tmp_path} singularity exec --home {tmp_path} $SIF {show}")
    assert out.splitlines() == ["1.2.3+site"] * 2


@pytest.mark.some(1)
@pytest.mark.parametrize("twin", ["SINGULARITY", "APPTAINER"])
def test_what_is_added_to_the_binds_after_loading_is_there(demo: User, tmp_path: Path, twin: str) -> None:
    (tmp_path / "file").write_text("content\n")
    add = f"export {twin}_BINDPATH=${twin}_BINDPATH,{tmp_path}:/added"
    assert demo.out(f"{LOAD}; {add}; start-shell -c 'cat /added/file; command -v python'").splitlines() == [
        "content",
        "/user-software/venv/demo/bin/python",
    ]
    replaced = f"export {twin}_BINDPATH={tmp_path}:/added"
    assert demo.out(f"{LOAD}; {replaced}; start-shell -c 'cat /added/file'") == "content"


def test_a_tool_of_the_image_sees_what_users_installed(demo: User) -> None:
    out = demo.out(f"{LOAD}; singularity exec $SIF run-tool demo-tool")
    assert out.splitlines()[0] == "/user-software/venv/demo"
    assert demo.run(f"{LOAD}; singularity exec $SIF run-tool no-such", check=False).returncode == 127


def test_large_standard_input_arrives_whole_and_is_not_read_by_the_wrapper(demo: User, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(range(256)) * 4096)
    count = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    out = demo.out(f'{LOAD}; cd {tmp_path}; cat data | python -c "{count}"; sha256sum <data | cut -d" " -f1')
    assert len(set(out.splitlines())) == 1
    assert demo.out(f"{LOAD}; echo 4 | {{ python -c 'print(3)'; cat; }}") == "3\n4"


def test_find_exec_and_a_relative_entry_of_the_search_path(demo: User, tmp_path: Path) -> None:
    for name in ("a b", "$c", "d\ne"):
        (tmp_path / name).touch()
    show = "import sys; print(*(repr(name) for name in sys.argv[1:]), sep=chr(10))"
    found = demo.out(f"{LOAD}; cd {tmp_path}; find . -type f -exec python -c {shlex.quote(show)} {{}} +")
    assert sorted(found.splitlines()) == sorted(repr(f"./{name}") for name in ("a b", "$c", "d\ne"))
    root = demo.installdir(DEMO_MODULE)
    out = demo.out(f"cd {root}; PATH=bin:$PATH; cd /tmp; cd {root}; python -c 'import sys; print(sys.prefix)'")
    assert out == "/user-software/venv/demo"


_KEEPS_RUNNING = """
import os, sys, time
result = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
if sys.argv[2:] and os.fork():
    os._exit(0)
end = time.monotonic() + (240 if sys.argv[2:] else 5)
try:
    while time.monotonic() < end:
        os.listdir(os.path.dirname(os.__file__) + "/xml")
        time.sleep(0.1)
    os.write(result, b"there")
except OSError:
    os.write(result, b"gone")
"""


@pytest.mark.parametrize(("daemon", "image"), [("", "there"), ("daemon", "gone")])
def test_a_background_job_keeps_the_image_unlike_a_daemon(demo: User, tmp_path: Path, daemon: str, image: str) -> None:
    """As the documentation has it: the container ends with its command."""
    (tmp_path / "server.py").write_text(_KEEPS_RUNNING)
    result = tmp_path / "result"
    demo.run(f"{LOAD}; cd {tmp_path}; python server.py {result} {daemon} </dev/null >/dev/null 2>&1 & wait $!")
    until(lambda: result.read_text() == image)


def test_from_inside_the_container(demo: User, lumi: User) -> None:
    """By its path, where the container sees it; and it says so where that is another container."""
    python = demo.installdir(DEMO_MODULE) / "bin" / "python"
    show = "-c 'import sys; print(sys.prefix)'"
    assert demo.out(f"{LOAD}; singularity exec -B /tmp $SIF {python} {show}") == "/user-software/venv/demo"
    done = lumi.run(f"module load {LUMI_MODULE}; singularity exec -B /tmp $SIF {python} {show}", status=127)
    assert "you are inside another container, which has no" in done.stderr


def test_what_bash_env_says_is_not_heard(demo: User, tmp_path: Path) -> None:
    """A site's BASH_ENV is for scripts that want `module`: it costs time, and may print."""
    (tmp_path / "noise").write_text("echo noise; cd /\n")
    out = demo.out(
        f"{LOAD}; export BASH_ENV={tmp_path}/noise; cd {tmp_path}; python -c 'import os; print(os.getcwd())'"
    )
    assert out == str(tmp_path)
    master = "singularity exec $SIF get-master nid[007-009]"
    assert demo.out(f"{LOAD}; export BASH_ENV={tmp_path}/noise; {master}") == "nid007"


def test_no_function_of_the_host_reaches_the_container(demo: User) -> None:
    """RHEL, Fedora and SUSE export a `which` with options that the image's lacks; Lmod exports `module`."""
    export = 'which() { (alias; declare -f) | /usr/bin/which --tty-only --read-alias "$@"; }; export -f which'
    shell = "which python; env | grep BASH_FUNC; exit 0"
    shared = "SIFMOD_SHARE_CONTAINER=1 srun -n2 in-container bash -c"
    for command in ("start-shell -c", "in-container bash -c", "srun -n1 in-container sh -c", shared):
        done = demo.run(f"{LOAD}; {export}; {command} '{shell}'")
        assert (set(done.stdout.split()), done.stderr) == ({"/user-software/venv/demo/bin/python"}, ""), command
    run = "import os, subprocess; subprocess.run('which python', shell=True, check=True, executable='/bin/bash')"
    assert demo.out(f'{LOAD}; {export}; python -c "{run}"') == "/user-software/venv/demo/bin/python"


def test_a_working_directory_that_the_container_does_not_show_is_named(demo: User, tmp_path: Path) -> None:
    done = demo.run(f"{LOAD}; cd /mnt; python -c 'import os; print(os.getcwd())'")
    assert done.stdout == "/mnt\n"
    assert "python: in the container /mnt is the directory of the image." in done.stderr
    assert "APPTAINER_BIND=/mnt" in done.stderr
    for shown in (f"cd {tmp_path}", "cd /mnt; export SINGULARITY_BIND=/mnt APPTAINER_BIND=/mnt", "cd /"):
        assert demo.run(f"{LOAD}; {shown}; python -c pass").stderr == ""


def test_a_path_that_the_container_does_not_have_is_named_with_what_binds_it(demo: User, scratch: Path) -> None:
    data = write_file(scratch / "a b,c.csv", "1\n")
    done = demo.run(f"{LOAD}; start-shell -c 'cat \"$2\"' - --x=/etc/passwd '{data}' '{data}'", check=False)
    named, *errors = done.stderr.splitlines()
    assert named.startswith(
        f"start-shell: '{data}' exists on this host, but no bind path of the container contains it."
    )
    assert any("No such file" in line for line in errors)
    command = named.partition("To see it there: ")[2]
    assert command == f"export APPTAINER_BIND={scratch}"
    for others in ("", "export APPTAINER_BIND=/mnt; ", "export SINGULARITY_BIND=/mnt; "):
        said = demo.run(f"{LOAD}; {others}start-shell -c : '{data}'").stderr
        (bind,) = re.findall("(?m)there: (.*)$", said)
        done = demo.run(f"{LOAD}; {others}{bind}; start-shell -c 'cat \"$1\"; ls -d /mnt' - '{data}'")
        assert done.stdout == "1\n/mnt\n"
        assert "exists on this host" not in done.stderr
    done = demo.run(f"{LOAD}; cd {scratch}; start-shell -c 'cat \"$1\"' - '{data}'")
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_links_that_lead_to_what_the_container_lacks(demo: User, scratch: Path, tmp_path: Path) -> None:
    """The runtime starts in the home, or says that it can't, where a link of a bind path is part of the name in PWD."""
    (scratch / "proj").mkdir()
    (scratch / "proj/a.py").write_text("import os; print(os.getcwd())\n")
    for name, target in (("link", scratch), ("here", "."), ("inner", tmp_path / "here")):
        (tmp_path / name).symlink_to(target)
    export = f"export APPTAINER_BIND={scratch}/proj"
    for state in ("true", export):
        done = demo.run(
            f"{LOAD}; {state}; cd {tmp_path}/link/proj; export OLDPWD=/mnt; python a.py; start-shell -c 'echo $OLDPWD'"
        )
        assert (done.stdout, done.stderr) == (f"{scratch}/proj\n/mnt\n", "")
    script = f"{tmp_path}/link/proj/a.py"
    done = demo.run(f"{LOAD}; python {script}", cwd=tmp_path, status=2)
    assert done.stderr.startswith(
        f"python: '{script}' leads through a link to '{scratch}/proj/a.py' on this host, and no bind path of the "
        f"container contains that. To see it there: {export}\n"
    )
    done = demo.run(f"{LOAD}; {export}; python {script}", cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{tmp_path}\n", "")
    # more than one bind path is named as a shell reads it
    said = demo.run(f"{LOAD}; export APPTAINER_BIND=/mnt; start-shell -c : {tmp_path}/link", cwd=tmp_path).stderr
    assert said.endswith(f"export APPTAINER_BIND=/mnt,{scratch}\n")
    # neither a relative path, nor the link of a file, nor what comes after 50 arguments is looked at
    (tmp_path / "file.py").symlink_to(scratch / "proj/a.py")
    words = f"link/proj/a.py {tmp_path}/file.py"
    assert demo.run(f"{LOAD}; python -c pass {words}", cwd=tmp_path).stderr == ""
    for count, named in ((47, True), (48, False)):
        done = demo.run(f"{LOAD}; python -c pass {'x ' * count} {script}", cwd=tmp_path)
        assert ("leads through a link" in done.stderr) is named
    # a link to what the container has too is left as it is, and so is a bind path that is one
    inner = f"{LOAD}; cd inner; ls -d here; start-shell -c : {tmp_path}/here {tmp_path}/inner"
    assert demo.run(inner, cwd=tmp_path).stderr == ""
    (scratch / "bound").symlink_to(scratch / "proj")
    (tmp_path / "second").symlink_to(scratch / "bound")
    script = (
        f"{LOAD}; export APPTAINER_BIND={scratch}/bound; cd second; start-shell -c 'ls a.py; pwd' - {tmp_path}/second"
    )
    done = demo.run(script, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"a.py\n{scratch}/bound\n", "")


def test_an_exported_home_is_not_the_home_of_the_container(demo: User, scratch: Path) -> None:
    """The runtime mounts the home of the user database, or the one in APPTAINER_HOME."""
    (scratch / "x.py").write_text("print(1)\n")
    (scratch / "tmp").mkdir()
    temporary = f"TMPDIR={scratch}/tmp python -c 'import tempfile; print(tempfile.gettempdir())'"
    named = f"python: HOME is '{scratch}', but the home of the container is '{Path.home()}'. "
    remedy = f"To have yours there: export APPTAINER_HOME={scratch}\n"
    for command, out in (
        (f"python {scratch}/x.py", ""),
        (f"cd {scratch}; python x.py", "1\n"),
        (temporary, f"{scratch}/tmp\n"),
        (f"python --x={scratch}/x.py -c pass", ""),
    ):
        done = demo.run(f"{LOAD}; cd /tmp; export HOME={scratch}; {command}", check=False)
        assert (done.stdout, done.stderr.startswith(named + remedy)) == (out, True), (command, done.stderr)
        assert done.stderr.count("python: ") <= 2  # Python's own
        done = demo.run(f"{LOAD}; cd /tmp; export HOME={scratch} SLURM_PROCID=1; {command}", check=False)
        assert (done.stdout, "HOME" in done.stderr) == (out, False)
    for home in (scratch, f"{scratch}:{scratch}"):
        done = demo.run(f"{LOAD}; cd /tmp; export APPTAINER_HOME={home}; python {scratch}/x.py; {temporary}")
        assert (done.stdout, done.stderr) == (f"1\n{scratch}/tmp\n", "")
    done = demo.run(f"{LOAD}; cd /tmp; export APPTAINER_HOME={scratch}:/home/me; python {scratch}/x.py", status=2)
    assert "no bind path of the container contains it" in done.stderr
    unnamed = f"unset HOME; python -c pass {Path.home()}; HOME={scratch} python -c pass /tmp"
    assert demo.run(f"{LOAD}; {unnamed}").stderr == ""


def test_the_user_s_folders_for_temporary_files_are_bound(demo: User, scratch: Path, tmp_path: Path) -> None:
    """The wrappers look on each node, a module in a job: `singularity exec` then has it too."""
    show = "import tempfile; print(tempfile.gettempdir())"
    folder = scratch / "job"
    folder.mkdir()
    job = f"export SLURMD_NODENAME=nid001 TMPDIR={folder}; {LOAD}"
    in_job = f"{job}; singularity exec $SIF python"
    # Python looks at TMPDIR, TEMP and TMP, C++ at TEMPDIR too
    others = [f"export TMPDIR={folder}/; python", f"export TMP={folder} TEMPDIR={folder}; python"]
    for command in (*others, f"export TEMP={folder}; python", in_job, in_job.replace("TMPDIR", "TMP")):
        done = demo.run(f'{LOAD}; {command} -c "{show}"')
        assert (done.stdout.rstrip("/\n"), done.stderr) == (str(folder), "")
    (folder / "relative").mkdir()
    done = demo.run(f"{LOAD}; cd {folder}; TEMPDIR=relative python -c 'import os; print(os.listdir())'")
    assert (done.stdout, done.stderr) == ("['relative']\n", "")
    assert str(folder) not in demo.out(f"{job}; module unload {DEMO_MODULE}; env | grep BINDPATH || :")
    link, odd = scratch / "link", scratch / "a,b:c\n"
    link.symlink_to(folder)
    odd.mkdir()
    (tmp_path / "out").symlink_to(scratch)
    for hostile in (link, odd, Path("/var/lib"), tmp_path / "out", tmp_path / "out/job"):
        path = shlex.quote(str(hostile))
        done = demo.run(f'export SLURMD_NODENAME=nid001 TMPDIR={path}; {LOAD}; echo "$SINGULARITY_BINDPATH"')
        assert str(scratch) not in done.stdout
        done = demo.run(f'{LOAD}; export TMPDIR={path}; python -c "{show}"')
        assert done.stdout in ("/tmp\n", "/var/lib\n")
        assert done.stderr.startswith("python: TMPDIR, '"), done.stderr
        assert done.stderr.count("\n") == 1


def test_a_runtime_folder_is_bound_if_others_can_not_look_into_it(demo: User, scratch: Path) -> None:
    (scratch / "link").symlink_to(scratch)
    for folder, mode, status in ((scratch, 0o700, 0), (scratch, 0o750, 2), (scratch / "link", 0o700, 2)):
        scratch.chmod(mode)
        seen = f"XDG_RUNTIME_DIR={folder} start-shell -c 'ls -d {folder}' 2>/dev/null"
        demo.run(f"{LOAD}; cd /tmp; {seen}", status=status)


def test_a_locale_that_the_image_lacks_becomes_one_that_it_has(demo: User) -> None:
    show = "python -c 'import locale; print(locale.setlocale(locale.LC_ALL, \"\"))'"
    for given in ("LC_ALL=tlh_GB.UTF-8", "LANG=tlh_GB.utf8", "LANG=C.UTF-8 LC_TIME=tlh_GB.UTF-8"):
        # the host's own bash warns too
        assert demo.out(f"{LOAD}; env -u LANG {given} {show}") == "C.UTF-8", given
    assert demo.out(f"{LOAD}; LC_ALL=POSIX {show}; LC_ALL=tlh_GB.UTF-8 SINGULARITYENV_LC_ALL=C {show}") == "C\nC"


def test_a_working_directory_that_is_gone_is_named(demo: User, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = demo.run(f"{LOAD}; cd {gone}; rmdir {gone}; python -c pass", status=126)
    assert done.stderr.splitlines()[-1].startswith(f"python: the working directory, '{gone}', is gone")
    gone.mkdir()
    done = demo.run(f"{LOAD}; cd {gone}; rmdir {gone}; env -u PWD $CONTAINERROOT/bin/python -c pass", check=False)
    assert (done.returncode, "is gone" in done.stderr) == (126, True)


LISTEN = """\
import signal, sys, time
def hear(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number not in (signal.SIGCONT, signal.SIGWINCH):
        sys.exit(40 + number)
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT"):
    signal.signal(getattr(signal, name), hear)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.some(2)
@pytest.mark.parametrize(("name", "status"), [("TERM", 55), ("INT", 42), ("HUP", 41), ("USR1", 50), ("USR2", 52)])
def test_a_signal_reaches_the_program(demo: User, tmp_path: Path, name: str, status: int) -> None:
    (tmp_path / "listen.py").write_text(LISTEN)
    # bash starts it with SIGINT ignored, and on a busy node the program is ready before the runtime passes signals on
    script = (
        "python listen.py >out & until grep -q ready out; do sleep 0.05; done; while kill -%s $! 2>/dev/null; do "
        "for _ in {1..100}; do kill -0 $! 2>/dev/null || break; sleep 0.1; done; done; wait $!"
    )
    demo.run(f"{LOAD}; {script % name}", cwd=tmp_path, status=status)
    assert (tmp_path / "out").read_text() == f"ready\nSIG{name}\n"


def test_a_stopped_wrapper_stops_the_program(demo: User, tmp_path: Path) -> None:
    """SIGTSTP to the wrapper's process stops what runs in the container; SIGCONT lets it go on."""
    (tmp_path / "listen.py").write_text(LISTEN)
    done = demo.run(
        # with job control the wrapper has a process group of its own: SIGTSTP does nothing to an orphaned one
        f"set -m; {LOAD}; python listen.py >out & until grep -q ready out; do sleep 0.05; done\n"
        "state() { ps -o stat= -p \"$(pgrep -f '[l]isten.py' -P $!)\" | cut -c1; }\n"
        # on a busy node the program is ready before the runtime passes signals on
        "until [[ $(state) == T ]]; do kill -TSTP $!; sleep 0.1; done; cat out\n"
        "until grep -q SIGCONT out && [[ $(state) == S ]]; do kill -CONT $!; sleep 0.1; done\n"
        "kill -TERM $!; wait $!",
        cwd=tmp_path,
        check=False,
        timeout=300,
    )
    assert done.stdout == "ready\n"
    assert done.returncode == 55


def test_the_keys_of_a_terminal_stop_go_on_and_interrupt(demo: User) -> None:
    """An interactive bash: Ctrl-Z suspends the wrapper's job, `fg` takes it back, Ctrl-C interrupts it."""
    environ = {**os.environ, "MODULEPATH": str(demo.prefix / "modules/all"), "PS1": "ready> ", "TERM": "dumb"}
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noediting", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environ,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # the terminal of the session
    )
    os.close(slave)
    seen = ""

    def type_in(text: str) -> None:
        os.write(master, text.encode())

    def until(text: str, again: str = "") -> None:
        """Wait until the terminal shows a text; where it shows nothing for a while, type something again."""
        nonlocal seen
        deadline = time.monotonic() + 240
        while text not in seen:
            if select.select([master], [], [], 5)[0]:
                seen += os.read(master, 4096).decode()
            else:
                assert time.monotonic() < deadline, f"no {text!r} in {seen!r}"
                type_in(again)
        seen = seen[seen.index(text) + len(text) :]

    try:
        until("ready> ")
        type_in(f". $BASH_ENV; {LOAD}; echo lo''aded\n")
        until("loaded")
        type_in('python -c \'import time; print("sta" + "rted", flush=True); time.sleep(600)\'\n')
        until("started")
        type_in("\x1a")
        until("Stopped", again="\x1a")  # the first may come before the runtime passes signals on
        type_in("jobs -s | wc -l; echo em''pty\n")
        until("1")
        until("empty")
        type_in("fg\n")
        until("import time")
        type_in("\x03")
        until("KeyboardInterrupt", again="\x03")  # the first may come before the job goes on
        type_in("echo status=$?\n")
        until("status=130")
        type_in("exit\n")
        assert shell.wait(120) == 0
    finally:
        shell.kill()
        os.close(master)


def test_a_wrapper_starts_no_process_of_its_own(own_demo: User, tmp_path: Path) -> None:
    """Each would cost a millisecond, for every rank: the wrapper becomes the runtime, and nothing else is started."""
    write_program(tmp_path / "singularity", "#!/bin/sh\n")
    log = tmp_path / "log"
    trace = f"PATH={tmp_path}:$PATH strace -f -o {log} -e trace=process $CONTAINERROOT/bin/python -c pass"
    for state in ("true", "make-squashfs", "make-squashfs --remove-directory"):
        own_demo.run(f"{LOAD}; {state}")
        own_demo.run(f"{LOAD}; {trace}")
        calls = log.read_text()
        assert not [line for line in calls.splitlines() if "fork(" in line or "clone" in line]
        # the wrapper, env without the functions of Lmod, the runtime
        assert calls.count("execve(") == 3 + calls.count("ENOENT")


def test_a_long_command_line_takes_linear_time(own_demo: User, tmp_path: Path) -> None:
    """Processor time: 10,000 arguments of 30 characters, paths too, and programs of 100,000 characters took minutes."""
    write_program(tmp_path / "singularity", "#!/bin/sh\necho $#\n")
    root = own_demo.installdir(DEMO_MODULE)
    (root / "user-bin").mkdir(exist_ok=True)
    (root / "user-bin/python3").symlink_to("../share/user-command")
    commands = ("bin/python -c pass", "bin/pip list", "bin/uv pip list", "bin/python -m pip list")
    for command in (*commands, "bin/in-container true", "bin/start-shell -c : -", "user-bin/python3 -c pass"):
        run = f"PATH={tmp_path}:$PATH $CONTAINERROOT/{command}"
        done = own_demo.run(
            f'{LOAD}; words=($(seq -f "/%029.0f" 10000)) program=$(yes "x = 1 # nothing" | head -c 100000)\n'
            f'ulimit -t 1; {run} "${{words[@]}}"; {run} "$program"; {run} "-c$program"'
        )
        many, *counts = map(int, done.stdout.split())
        assert many == counts[0] + 9999 == counts[1] + 9999
