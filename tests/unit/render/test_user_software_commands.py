"""The host commands for user software, which are the same files in every installation."""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import ran, write_file, write_program

from sifmod import names
from sifmod.container.bind import escape
from sifmod.container.spec import ContainerSpec
from sifmod.inside.trees import requirements

from ..imagetrees import squashfs
from ..support import SQUASHFS, Need, a_site, snapshot
from .cases import ROOT, text_of, write_out
from .running import Done, Wrapper


@pytest.mark.parametrize("command", ["make-squashfs", "unmake-squashfs", "carry-over", "refresh-commands"])
def test_they_find_their_installation_through_links(installed: ContainerSpec, tmp_path: Path, command: str) -> None:
    top = write_out(installed, a_site())
    link = tmp_path / "link"
    link.symlink_to(top / "bin" / command)
    (tmp_path / "linked").symlink_to(top)
    for path in (link, tmp_path / "linked" / "bin" / command):
        done = ran([path, "--help"])
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {command} ")
    for words, folder in (
        ([f"./{command}"], top / "bin"),
        (["bash", "-p", command], top / "bin"),
        ([f"bin/{command}"], top),
    ):
        done = ran([*words, "--help"], cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_tool_that_is_missing_is_named_with_its_package(installed: ContainerSpec, tmp_path: Path) -> None:
    top = write_out(installed, a_site())
    (tmp_path / "bin").mkdir()
    packages = {"mksquashfs": "squashfs-tools", "unsquashfs": "squashfs-tools", "flock": "util-linux"}
    for tool, package in {**packages, "sha256sum": "coreutils"}.items():
        done = ran(["/bin/bash", "-p", top / "bin" / "make-squashfs"], env={"PATH": str(tmp_path / "bin")})
        assert done.returncode == 4
        assert f"'{tool}' (of {package}) is not installed" in done.stderr
        (tmp_path / "bin" / tool).symlink_to("/bin/true")


def test_seeded_packages_are_not_carried_over(wrapper: Wrapper, tmp_path: Path, installed: ContainerSpec) -> None:
    (tmp_path / "list.txt").write_text("pip==24\nsetuptools==69\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert done.returncode == 2
    assert wrapper.fake.calls == []
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    lines = [
        "# a list",
        "",
        "pip==24",
        "Pip @ file:///x",
        "Setuptools==69.0",
        "WHEEL==1",
        "a_b==1",
        "setuptools-scm==8",
    ]
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, done.stdout) == (0, "Carrying over 2 packages.\nAll packages were carried over.\n")
    (call,) = wrapper.fake.calls
    python, _isolated, program, *_options = call["argv"][2:]
    assert (python, program) == ("/user-software/venv/demo/bin/python", "/runscripts/installers.py")
    assert call["argv"][-5:] == ["pip", "--disable-pip-version-check", "install", "a_b==1", "setuptools-scm==8"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_of_another_installation_nothing_is_run(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, need: Need, is_packed: bool
) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    other = tmp_path / "other"
    tree = other / "user-software"
    for path in (
        "theirs/lib/python3.9/site-packages/a_b-1.0+x_y.dist-info",
        "theirs/lib/python3.9/site-packages/old-2-py3.9.egg-info",
        "theirs/lib/python3.9/site-packages/a_b/_vendor/old-1.dist-info",
        "theirs/lib/python3.9/site-packages/a_b/_vendor/venv/theirs/lib/python3/site-packages/deep-1.dist-info",
        "theirs/lib/python3.9/site-packages/pip-24.dist-info",
        "theirs/lib/python3.9/site-packages/$(touch x)-1.dist-info",
        "another/lib/python3.9/site-packages/c-3.dist-info",
    ):
        (tree / "venv" / path).mkdir(parents=True)
    for name in ("list-packages", "make-squashfs"):
        write_program(other / "bin" / name, f"#!/bin/sh\ntouch {tmp_path}/hostile\n")
    (other / "share").mkdir()
    (other / "share/sifmod.json").write_text('{\n  "venv": "theirs"\n}\n')
    if is_packed:
        squashfs(need("mksquashfs"), tree, other / "user-software.squashfs")
        need("unsquashfs")
    done = wrapper.run("carry-over", str(other))
    assert done.returncode == 10, done.stderr
    assert "Left out, because it is not the name of a package with its version: \\$\\(touch\\ x\\)==1" in done.stdout
    assert not (tmp_path / "hostile").exists()
    (call,) = wrapper.fake.calls
    assert sorted(call["argv"][-2:]) == ["a-b==1.0+x_y", "old==2"]


CLONED = '{"url": "https://me:secret@host/x.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}'


@pytest.mark.parametrize("form", ["directory", "packed", "list", "layer"])
def test_local_packages(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, need: Need, form: str) -> None:
    """An index may have a package of a stranger by that name."""
    own = Path(installed.installdir, "user-software/venv/demo/lib/python3.11/site-packages")
    (own / "cloned-9.dist-info").mkdir(parents=True)
    other = tmp_path / "other"
    site = other / "user-software/venv/demo/lib/python3.11/site-packages"
    notes = {"my_proj-0.1": '{"dir_info": {"editable": true}, "url": "file:///home/my%20proj"}', "cloned-2": CLONED}
    deep = site / "usual/_vendor/venv/demo/lib/python3/site-packages/usual-1.dist-info"
    write_file(deep / "direct_url.json", CLONED)
    for name, note in {**notes, "odd-3": "[", "usual-1": ""}.items():
        (site / f"{name}.dist-info").mkdir(parents=True)
        (site / f"{name}.dist-info/METADATA").write_text("Name: {}\nVersion: {}\n".format(*name.split("-")))
        if note:
            (site / f"{name}.dist-info/direct_url.json").write_text(note)
    if form == "packed":
        squashfs(need("mksquashfs"), other / "user-software", other / "user-software.squashfs")
    elif form == "layer":
        (other / "user-software.layers").mkdir()
        squashfs(need("mksquashfs"), other / "user-software", other / "user-software.layers/1.squashfs")
        # as an earlier make-squashfs wrote it
        (other / "user-software.layers/1.txt").write_text("cloned==2\nMy.Proj==0.1\nodd==3\nusual==1\n")
        shutil.rmtree(site)
    elif form == "list":
        (tmp_path / "list.txt").write_text("\n".join([*requirements([str(site)]), "by-hand @ git+ssh://a:b@host/y"]))
    done = wrapper.run("carry-over", str(tmp_path / "list.txt" if form == "list" else other))
    assert done.returncode == 10, done.stderr
    (call,) = wrapper.fake.calls
    assert call["argv"][-2:] == ["install", "usual==1"]
    head = "Not from an index: install it again from where it came: "
    named = {line[len(head) :].lower() for line in done.stdout.splitlines() if line.startswith(head)}
    mine = {"directory": "my-proj", "packed": "my-proj", "list": "my_proj", "layer": "my.proj"}[form]
    expected = {f"{mine} @ file:///home/my%20proj  # 0.1", "cloned @ git+https://host/x.git@c0ffee  # 2"}
    expected |= {"odd @ unknown  # 3", *(["by-hand @ git+ssh://host/y"] if form == "list" else [])}
    assert named == expected
    assert done.stdout.splitlines()[-1].endswith("another package requires it, and may not be yours: cloned==9")


def test_other_commands_leave_variables_of_the_user_alone(wrapper: Wrapper) -> None:
    """A variable that is exported and set anew would be another one in the container."""
    scripts = ("central", "container", "expand", "layers", "lend", "packed", "paths")
    read = "".join(text_of(f"share/{name}.sh", wrapper.installed) for name in scripts)
    set_there = re.findall(r"(?<![$\w-])([a-z_]+)\+?=|\bfor ([a-z_]+) in", read)
    names_set = {one or other for one, other in set_there} | {"root", "sif", "directory", "packed", "runtime", "magic"}
    assert {"binds", "below", "previous"} < names_set
    mine = dict.fromkeys((name for name in names_set if not name.startswith("sifmod_")), "mine")
    environ = wrapper("python", environ=mine)["env"]
    assert mine.items() <= environ.items()


def test_they_hold_the_lock_that_removal_takes(wrapper: Wrapper, installed: ContainerSpec) -> None:
    wrapper.run("unmake-squashfs")
    assert Path(installed.installdir, names.USER_SOFTWARE_LOCK).exists()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_leads_to_another_file_does_not_empty_it(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    victim = write_file(tmp_path / "victim", "years of work")
    lock = Path(installed.installdir, names.USER_SOFTWARE_LOCK)
    link(victim, lock)
    done = wrapper.run("unmake-squashfs")
    assert victim.read_text() == "years of work"
    if lock.is_symlink():
        assert done.returncode == 5
        assert f"'{lock}' is no plain file" in done.stderr


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_lock_must_be_a_file(wrapper: Wrapper, installed: ContainerSpec, make: Callable[[Path], None]) -> None:
    lock = Path(installed.installdir, names.USER_SOFTWARE_LOCK)
    make(lock)
    done = wrapper.run("make-squashfs")
    assert done.returncode == 5
    assert f"'{lock}' is no plain file" in done.stderr
    assert not Path(installed.installdir, "nowhere").exists()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "--index-url=http://evil/",
            "-r/etc/passwd",
            "../x",
            "./x",
            "/x",
            ".x",
            "a @ file:///x y",
            "http://evil/x.whl",
        ),
        *(
            "a==1 --pre",
            "$(touch x)",
            "a[$(touch x)]",
            "a;b",
            "\x1b[31m",
            "a==1 ; python_version > '3'",
            "x.whl",
            "x-1.Tar.gz",
        ),
    ],
)
def test_words_that_are_no_package(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, line: str) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (tmp_path / "list.txt").write_text(f"{line}\na==1\nb[x,y]>=2,<3\n\r\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert done.returncode == 10
    assert "Left out, because it is not the name of a package" in done.stdout
    assert "\x1b" not in done.stdout
    assert len(wrapper.fake.calls) == 1, (done, wrapper.fake.calls)
    (call,) = wrapper.fake.calls
    assert call["argv"][-3:] == ["install", "a==1", "b[x,y]>=2,<3"]


@pytest.mark.parametrize("status", [126, 127, 255])
def test_a_container_does_not_start(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, status: int) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (tmp_path / "list.txt").write_text("a==1\nb==2\n")
    (wrapper.fake.bin / "singularity").write_text(f"#!/bin/sh\necho no container >&2\nexit {status}\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, done.stderr) == (status, "no container\n")


def test_nothing_is_tried_on_packed_software(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    (tmp_path / "list.txt").write_text("a==1\n")
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"))
    assert (done.returncode, "run add-layer or unmake-squashfs first" in done.stderr) == (9, True)
    assert wrapper.fake.calls == []


def test_names_of_others_do_not_change_the_terminal(wrapper: Wrapper, installed: ContainerSpec) -> None:
    odd = "é\x1b[31m\n\t\x7f"
    directory = Path(installed.installdir, "user-software")
    directory.rmdir()
    directory.symlink_to(f"/nowhere/{odd}")
    said = "is a link to '/nowhere/é?[31m???', which does not exist"
    for name in ("python", "make-squashfs"):
        done = wrapper.run(name)
        assert said in done.stderr
        assert name != "python" or done.returncode == 126
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    directory.unlink()
    write_program(wrapper.fake.bin / "unsquashfs", f"#!/bin/sh\nprintf 'FATAL: no {odd}' >&2\nexit 1\n")
    assert "no é?[31m\n??\n" in wrapper.run("unmake-squashfs").stderr


@pytest.mark.parametrize(("mode", "is_named"), [(0o644, False), (0o664, False), (0o646, True), (0o666, True)])
def test_a_shared_layer(wrapper: Wrapper, installed: ContainerSpec, need: Need, mode: int, is_named: bool) -> None:
    packed = Path(installed.installdir, "user-software.squashfs")
    squashfs(need("mksquashfs"), packed.with_name("user-software"), packed)
    packed.with_name("user-software").rmdir()
    packed.chmod(mode)
    packed.with_name("user-software.sha256").write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}\n")
    done = wrapper.run("add-layer")
    layer = Path(installed.installdir, "user-software.layers/1.squashfs")
    assert (done.returncode, layer.samefile(packed)) == (0, True), done.stderr
    quoted = str(layer).replace("'", "'\\''")
    said = f"add-layer: everybody may change '{layer}', and so run code as each user of the module. To end that: "
    assert done.stderr == (f"{said}chmod o-w '{quoted}'\n" if is_named else "")


@pytest.mark.parametrize("reason", ["ENOSYS", "EBADF", "ENOLCK"])
def test_no_locks_on_the_file_system(wrapper: Wrapper, installed: ContainerSpec, need: Need, reason: str) -> None:
    """Nobody else holds the lock, so waiting would be no help."""
    need("flock")
    write_program(
        wrapper.fake.bin / "flock",
        f'#!/bin/sh\nexec {need("strace")} -qq -o /dev/null -e inject=flock:error={reason} /usr/bin/flock "$@"\n',
    )
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)

    def users_own() -> dict[str, object]:
        return {name: one for name, one in snapshot(installed.installdir).items() if name.startswith("user-")}

    before = users_own()
    for command in ("make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers"):
        done = wrapper.run(command)
        assert users_own() == before
        assert (done.returncode, "is running" in done.stderr) == (5, False), done.stderr
        assert "can't be locked (flock: " in done.stderr
        assert "mount option flock" in done.stderr


@pytest.mark.parametrize("command", ["make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers"])
def test_a_held_lock_is_waited_for(wrapper: Wrapper, installed: ContainerSpec, need: Need, command: str) -> None:
    need("mksquashfs")
    with Path(installed.installdir, ".user-software.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        done = wrapper.run(command)
    assert (done.returncode, "is running in" in done.stderr) == (7, True), done.stderr


@pytest.mark.parametrize("command", ["make-squashfs", "make-squashfs --replace", "unmake-squashfs"])
def test_a_packed_file_that_is_none_is_named(wrapper: Wrapper, installed: ContainerSpec, command: str) -> None:
    packed = Path(installed.installdir, "user-software.squashfs")
    packed.mkdir()
    done = wrapper.run(*command.split())
    assert done.returncode == 3
    assert f"'{packed}' is a directory, but should be a SquashFS file: move it away" in done.stderr
    packed.rmdir()
    if os.geteuid() == 0:
        return  # root reads every file
    packed.write_bytes(SQUASHFS)
    packed.chmod(0)
    done = wrapper.run(*command.split())
    assert done.returncode == 9
    quoted = str(packed).replace("'", "'\\''")
    assert f"chmod ug+r '{quoted}'" in done.stderr


def test_a_stale_shell_is_told_so_once(wrapper: Wrapper, installed: ContainerSpec) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    stale = {"SINGULARITY_BINDPATH": f"/a,{escape(installed.installdir)}/user-software:/user-software,/b"}
    assert f"this shell loaded {installed.module} before" in wrapper.run("python", environ=stale).stderr
    assert wrapper.run("python", environ={**stale, "SLURM_PROCID": "1"}).stderr == ""


@pytest.mark.parametrize("is_packed", [True, False])
def test_commands_of_users_do_not_hide_the_host_s(
    wrapper: Wrapper, installed: ContainerSpec, need: Need, tmp_path: Path, is_packed: bool
) -> None:
    tree = Path(installed.installdir, "user-software") if not is_packed else tmp_path / "tree"
    folder = tree / "venv" / installed.venv / "bin"
    folder.mkdir(parents=True)
    for name in ("cowsay", "new\nline", "a -> b", "git", "sed", "ssh-agent", "sbatch", *names.HOST_TOOLS):
        write_program(folder / name, "#!/bin/sh\n")
    (folder / "moo").symlink_to("cowsay")
    if is_packed:
        squashfs(need("mksquashfs"), tree, Path(installed.installdir, "user-software.squashfs"))
    done = wrapper.run("refresh-commands")
    assert done.returncode == 0, done.stderr
    commands = Path(installed.installdir, "user-bin")
    assert sorted(path.name for path in commands.iterdir() if path.name != ".lock") == ["cowsay", "moo"]
    (said,) = done.stderr.splitlines()
    assert "stay the host's" in said
    assert {"git", "sbatch", "sleep", "scp"} <= set(said.split())


@pytest.mark.parametrize("name", ["user-software.layers", "user-software.layers.flattened", "user-software.removed"])
@pytest.mark.parametrize("command", ["add-layer", "remove-layer", "flatten-layers"])
def test_a_linked_layer(wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, name: str, command: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    root = Path(installed.installdir)
    (root / "user-software.squashfs").write_bytes(SQUASHFS)
    (root / name).symlink_to(other)
    done = wrapper.run(command)
    assert (done.returncode, list(other.iterdir())) == (5, [])
    assert f"'{root / name}' is a link, which is not followed" in done.stderr


def test_pip_is_not_ended_where_a_site_ends_idle_shells(wrapper: Wrapper, installed: ContainerSpec) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (wrapper.fake.bin / "singularity").write_text("#!/bin/sh\nsleep 2\necho installed\n")
    done = wrapper.run("pip", "install", "a", environ={"TMOUT": "1"})
    assert (done.returncode, done.stdout) == (0, "installed\n")


def packing(top: Path, script: str, *, text: str = "") -> Done:
    """Run a script that has what packing.sh has; a text may take its place."""
    path = top / "share/packing.sh"
    if text:
        path.write_text(text, encoding="utf-8")
    sourced = 'source "$1/share/container.sh"; sifmod_root=$1; source "$1/share/packing.sh"; put_back() { :; }\n'
    return ran(["bash", "-c", sourced + script, "make-squashfs", top], env={"PATH": "/usr/bin:/bin", "TMOUT": "1"})


def test_what_packing_reads_is_waited_for_where_a_site_ends_idle_shells(installed: ContainerSpec) -> None:
    script = "exec {lock}</dev/null\nsum_of() { sleep 2; printf SUM; }; begin_sums x; read_sum; printf '%s' \"$sum\""
    done = packing(write_out(installed, a_site()), script)
    assert (done.stderr, done.stdout) == ("", "SUM")


def test_a_step_that_fails_is_named_in_words_and_not_as_a_function(installed: ContainerSpec) -> None:
    texts = [path.read_text() for path in (ROOT / "wrappers").rglob("*") if path.is_file()]
    functions = {name for text in texts for name in re.findall(r"(?m)^(\w+)\(\)", text)}
    tried = re.compile(r"(?m)(?:^|;) *(?:then )?try (\w+)")
    steps = sorted({name for text in texts for name in tried.findall(text)} & functions)
    assert len(steps) > 5
    script = (
        'while read -r step; do (said=why; eval "$step() { printf why; return 1; }"; try "$step"); done <<\'END\'\n'
        + "\n".join(steps)
        + "\nEND\ntry false"
    )
    done = packing(write_out(installed, a_site()), script)
    lines = [line for line in done.stderr.splitlines() if line != "why"]
    assert len(lines) == len(steps) + 1
    for step, line in zip(steps, lines):
        assert step not in line
        assert re.match(
            r"make-squashfs: (mv|[a-z]+ing [A-Za-z0-9 -]+) failed \(see above\)\. Nothing was changed", line
        )
    assert lines[-1].startswith("make-squashfs: false failed. Nothing was changed")


@pytest.mark.parametrize(
    ("group", "limits", "count"),
    [
        ("/job/step/task", {"/job": "100000 100000"}, 1),
        ("/job/step/task", {"/job": "max 100000", "/job/step": "150000 100000", "/job/step/task": "max 100000"}, 2),
        ("/job", {"/job": "900000 100000"}, 4),
        ("/", {"": "200000 100000"}, 2),
        ("/", {}, 4),
    ],
)
def test_processors_are_those_that_every_control_group_above_allows(
    installed: ContainerSpec, tmp_path: Path, group: str, limits: dict[str, str], count: int
) -> None:
    """Files stand for those of the kernel: only root can make control groups."""
    top = write_out(installed, a_site())
    for name, limit in limits.items():
        (tmp_path / f"groups{name}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"groups{name}/cpu.max").write_text(f"{limit}\n")
    (tmp_path / "mine").write_text(f"1:cpu:/other\n0::{group}\n")
    text = (top / "share/packing.sh").read_text(encoding="utf-8")
    for kernel, ours in (("/proc/self/cgroup", "mine"), ("/sys/fs/cgroup", "groups")):
        assert text.count(kernel) == 1
        text = text.replace(kernel, str(tmp_path / ours))
    done = packing(top, "nproc() { echo 4; }; usable_processors", text=text)
    assert (done.stderr, done.stdout) == ("", str(count))
