"""Journey 1: `eb NAME.eb` installs, and bad input stops it before anything is written."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tests.programs import write_file

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, HEAD, IMAGES, User, demo_with, install_changed, make_user


def fingerprint(top: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every path below top with its mode, owner, time and content."""
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if path.is_symlink():
            content = str(path.readlink()).encode()
        found[str(path.relative_to(top))] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


def files_of(top: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """The same without the folders: what was put back into one is as it was, the folder has another time."""
    return {path: facts for path, facts in fingerprint(top).items() if not stat.S_ISDIR(facts[0])}


def test_the_install_tree_is_the_documented_one(demo: User) -> None:
    installdir = demo.installdir(DEMO_MODULE)
    commands = {path.name for path in (installdir / "bin").iterdir()}
    assert {"start-shell", "make-squashfs", "unmake-squashfs", "list-packages"} <= commands
    assert {"python", "python3", "python3.11", "pip", "pip3", "pip3.11"} <= commands
    assert {path.name for path in (installdir / "runscripts").iterdir()} >= {
        "conda-python-simple",
        "conda-python-distributed",
        "get-master",
        "init-conda-venv",
        "list-packages",
    }
    assert (installdir / "user-software" / "venv" / "demo" / "pyvenv.cfg").is_file()
    assert not list(installdir.glob(".sifmod*"))


@pytest.mark.slow
def test_on_a_terminal_the_work_is_part_of_easybuild_s_display(user: User) -> None:
    """Rich allows one display at a time, and EasyBuild's is there while the image is copied."""
    user.env["EASYBUILD_OUTPUT_STYLE"] = "rich"
    # `script` has no window, and in one of no size Rich draws nothing while a display is there
    done = user.run(f"TERM=xterm COLUMNS=200 LINES=40 script -qec 'eb {DEMO_EASYCONFIG}' /dev/null")
    assert "\x1b[2K" in done.stdout  # drawn anew
    assert "copying the image" in done.stdout
    assert user.modulefile(DEMO_MODULE).is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "written"), [("copy", 1), pytest.param("link", 0, marks=pytest.mark.slow)])
def test_a_large_image_is_read_once_and_written_once(user: User, tmp_path: Path, mode: str, written: int) -> None:
    """Bytes as the kernel counts them (proc(5), /proc/PID/io), of eb and all that it starts.

    A hard link is read too: its SHA-256 shows later whether somebody has changed it in place.
    """
    image = tmp_path / "images" / "large.sif"
    image.parent.mkdir()
    shutil.copyfile(IMAGES / "demo.sif", image)
    with (tmp_path / "random").open("wb") as stream:
        stream.truncate(512 << 20)
    subprocess.run(["singularity", "sif", "add", "--datatype", "7", image, tmp_path / "random"], check=True)
    (user.prefix / DEMO_EASYCONFIG).write_text(demo_with(f"sources = ['large.sif']\nimage_mode = {mode!r}\n"))
    told = user.out(
        f"SIFMOD_IMAGE_REPOSITORIES={image.parent} eb {DEMO_EASYCONFIG} >&2; cat /proc/$$/io", cwd=user.prefix
    )
    counted = dict(line.split(": ") for line in told.splitlines())
    size = image.stat().st_size
    rest = 150 << 20  # Python's and EasyBuild's own files, the virtual environment, logs
    assert size <= int(counted["rchar"]) < size + rest
    assert written * size <= int(counted["wchar"]) < written * size + rest


@pytest.mark.slow
def test_sifmod_env_serves_an_easybuild_elsewhere(user: User, tmp_path: Path) -> None:
    """An EasyBuild without sifmod in its environment, as where EasyBuild is a module."""
    site_packages = tmp_path / "site-packages"
    venv_packages = Path(shutil.which("eb") or "").parents[1] / "lib" / "python3.11" / "site-packages"
    shutil.copytree(venv_packages / "easybuild", site_packages / "easybuild")
    (site_packages / "easybuild" / "easyblocks" / "generic" / "containerimage.py").unlink()
    shutil.rmtree(site_packages / "easybuild" / "easyconfigs")
    eb = f"PYTHONPATH={site_packages}:$PYTHONPATH /usr/bin/python3 -m easybuild.main"
    without = user.run(f"cd /; {eb} {DEMO_EASYCONFIG}", check=False)
    assert without.returncode != 0
    user.run(f'cd /; eval "$(sifmod env)"; {eb} {DEMO_EASYCONFIG}')
    assert user.modulefile(DEMO_MODULE).is_file()
    inside = user.out(f'eval "$(sifmod env)"; module load {DEMO_MODULE}; singularity exec $SIF python -m site')
    assert str(venv_packages) not in inside


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ("venv = 'a/b'", ["'venv'", "a/b", "no slash"]),
        ("gpu = 'nvidea'", ["'gpu'", "nvidea", "perhaps you meant 'nvidia'"]),
        ("binds = ['/scratch:data']", ["'binds'", "/scratch:data", "begin it with '/'"]),
        ("binds = ['scratch']", ["'binds'", "scratch", "not an absolute path"]),
        ("wrappers = ['demo-tol']", ["'wrappers'", "no such command", "perhaps you meant 'demo-tool'"]),
        ("wrappers = ['make-squashfs']", ["'wrappers'", "make-squashfs", "remove it from the list"]),
        ("container_env = {'A B': '1'}", ["'container_env'", "A B", "not the name"]),
        ("image_mode = 'move'", ["'image_mode'", "move", "use 'copy'"]),
        ("conda_env = 'pytorch'", ["'python_prefix'", "remove conda_root"]),
        ("sources = ['one.sif', 'two.sif']", ["'sources'", "exactly one"]),
        ("sources = ['missing.sif']", ["'sources'", "missing.sif", "--sourcepath"]),
        ("python_prefix = None", ["'venv'", "python_prefix"]),
        ("python_prefix = '/opt/none'", ["/opt/none/bin/python3", "python_prefix"]),
        ("checksums = ['" + "0" * 64 + "']", ["checksums", "demo.sif", "0" * 64]),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_stays(user: User, changes: str, named: list[str]) -> None:
    done = install_changed(user, changes)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in output
    failure = next(line for line in output.splitlines() if "FAILED: Installation ended unsuccessfully" in line)
    for word in named:
        assert word in failure
    assert not user.installdir(DEMO_MODULE).exists()
    assert not user.modulefile(DEMO_MODULE).exists()


def test_what_is_not_a_sif_is_refused(user: User, tmp_path: Path) -> None:
    (tmp_path / "demo.sif").write_text("<html>404</html>")
    user.env["SIFMOD_IMAGE_REPOSITORIES"] = str(tmp_path)
    done = user.eb(DEMO_EASYCONFIG, check=False)
    assert done.returncode != 0
    assert f"'{tmp_path}/demo.sif' is not a SIF but a web page" in done.stdout + done.stderr
    assert not user.installdir(DEMO_MODULE).exists()
    assert not user.modulefile(DEMO_MODULE).exists()


def test_without_a_runtime_the_commands_looked_for_are_named(user: User, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in ("singularity", "apptainer"):
            (tools / tool.name).symlink_to(tool)
    eb = shutil.which("eb")
    done = user.run(f"PATH={Path(eb or '').parent}:{tools}; eb {DEMO_EASYCONFIG}", check=False)
    assert done.returncode != 0
    assert "looked for singularity and apptainer on PATH" in done.stdout + done.stderr
    assert not user.installdir(DEMO_MODULE).exists()


def test_a_reinstall_keeps_user_software_byte_for_byte(own_demo: User, wheel: Path) -> None:
    own_demo.run(f"module load {DEMO_MODULE}; umask 002; pip install --no-index {wheel}")
    user_software = own_demo.installdir(DEMO_MODULE) / "user-software"
    before = fingerprint(user_software)
    assert any(path.endswith("greeting.py") for path in before)
    own_demo.eb(DEMO_EASYCONFIG, "--rebuild")
    assert fingerprint(user_software) == before
    assert own_demo.out(f"module load {DEMO_MODULE}; python -c 'import greeting; print(greeting.greet())'") == "hello"


@pytest.mark.parametrize(
    "changes",
    [
        "sanity_check_commands = ['false']",
        pytest.param("python_prefix = '/opt/none'", marks=pytest.mark.slow),
        pytest.param("checksums = ['" + "0" * 64 + "']", marks=pytest.mark.slow),
    ],
)
def test_a_failed_reinstall_leaves_the_earlier_install_working(own_demo: User, changes: str) -> None:
    installdir = own_demo.installdir(DEMO_MODULE)
    before = fingerprint(installdir / "user-software")
    scripts = {name: files_of(installdir / name) for name in ("bin", "runscripts", "share")}
    assert install_changed(own_demo, f"wrappers = ['python', 'demo-tool']\n{changes}", "--rebuild").returncode != 0
    assert fingerprint(installdir / "user-software") == before
    assert {name: files_of(installdir / name) for name in scripts} == scripts
    script = f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import sys; print(sys.prefix)'"
    assert own_demo.out(script) == "/user-software/venv/demo"
    assert not list(installdir.glob(".sifmod*"))


def test_a_sites_change_reaches_module_and_scripts_by_module_only(own_demo: User, tmp_path: Path) -> None:
    site = write_file(tmp_path / "site.toml", '[container_env]\nOMP_NUM_THREADS = "7"\n')
    own_demo.env["SIFMOD_SITE"] = str(site)
    commands = own_demo.installdir(DEMO_MODULE) / "bin"
    before = fingerprint(commands)
    rebuild = f"eb {DEMO_EASYCONFIG} --module-only --rebuild"
    loaded = own_demo.run(f"module load {DEMO_MODULE}; {rebuild}", check=False)
    assert (loaded.returncode != 0, f"Type first: module unload {DEMO_MODULE}" in loaded.stderr) == (True, True)
    own_demo.run(rebuild)
    assert fingerprint(commands) == before
    assert own_demo.out(f"module load {DEMO_MODULE}; singularity exec $SIF printenv OMP_NUM_THREADS") == "7"
    assert own_demo.out(f"{commands}/python -c 'import os; print(os.environ[\"OMP_NUM_THREADS\"])'") == "7"


@pytest.mark.slow
def test_an_install_that_finds_another_at_work_undoes_nothing_of_it(own_demo: User, tmp_path: Path) -> None:
    easyconfig, begun, go = (tmp_path / name for name in (DEMO_EASYCONFIG, "begun", "go"))
    easyconfig.write_text(
        demo_with(
            "container_env = {'NEWER': 'yes'}\nenhance_sanity_check = True\n"
            f"sanity_check_commands = ['touch {begun}; until [ -e {go} ]; do sleep 0.1; done']\n"
        )
    )
    done = own_demo.run(
        f"eb --rebuild {easyconfig} >/dev/null 2>&1 & first=$!; until [[ -e {begun} ]]; do sleep 0.1; done; "
        f"eb --rebuild {DEMO_EASYCONFIG} >second.log 2>&1; echo $?; touch {go}; wait $first; echo $?"
    )
    second, first = done.stdout.split()
    assert (second != "0", first) == (True, "0")
    assert own_demo.out(f"module load {DEMO_MODULE}; start-shell -c 'echo $NEWER'") == "yes"
    assert "NEWER" in (own_demo.installdir(DEMO_MODULE) / "runscripts/values.sh").read_text()


def test_a_dry_run_of_an_image_that_is_not_built_yet_does_not_miss_it(user: User) -> None:
    (user.prefix / "Small.def").write_text("Bootstrap: localimage\nFrom: nowhere.sif\n")
    easyconfig = write_file(user.prefix / "Demo-1.0.eb", f"{HEAD}definition = 'Small.def'\n")
    done = user.eb(str(easyconfig), "-x")
    assert "checksum" in done.stdout
    assert "index out of range" not in done.stdout + done.stderr


def test_a_dry_run_writes_nothing(user: User) -> None:
    done = user.eb(DEMO_EASYCONFIG, "-x")
    assert "bin/make-squashfs" in done.stdout
    assert not user.installdir(DEMO_MODULE).exists()


@pytest.mark.slow
def test_a_software_space_with_odd_characters_works(tmp_path: Path, wheel: Path) -> None:
    user = make_user(tmp_path / "my group's,$HOME & (more)")
    user.eb(DEMO_EASYCONFIG)
    script = f"""
        module load {DEMO_MODULE}
        set -e
        singularity exec "$SIF" pip install --no-index {wheel}
        python -c 'import greeting'
        make-squashfs --remove-directory
        singularity exec "$SIF" python -c 'import greeting'
        unmake-squashfs
        srun -N2 -n2 python -c 'import greeting; print(greeting.greet())'
    """
    assert user.out(script).splitlines()[-2:] == ["hello", "hello"]


def test_a_software_space_that_the_runtime_cannot_bind_is_refused(tmp_path: Path) -> None:
    user = make_user(tmp_path / "ours, yours")
    done = user.eb(DEMO_EASYCONFIG, check=False)
    assert done.returncode != 0
    assert "white space beside one of these" in done.stdout
    assert not user.installdir(DEMO_MODULE).exists()
