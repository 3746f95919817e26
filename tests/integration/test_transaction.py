"""A rebuild is one transaction: whatever ends it, the old installation or the new one is there, with its module."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, User, demo_with, greet, install_changed

LOADS = f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import sys; print(sys.prefix)'"
NEW = "wrappers = ['python', 'demo-tool']\n"


def hooks(user: User, text: str) -> str:
    """Write hooks for EasyBuild, and return the option that names them."""
    path = user.prefix / "hooks.py"
    path.write_text(f"import os, signal\n\n{text}\n")
    return f"--hooks={path}"


def scripts(user: User) -> dict[str, bytes]:
    root = user.installdir(DEMO_MODULE)
    paths = (path for folder in ("bin", "runscripts", "share") for path in (root / folder).rglob("*"))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


def modules(user: User) -> dict[str, str]:
    """Return what is in the trees of modules: texts, and where links lead."""
    top = user.prefix / "modules"
    paths = [path for path in top.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(top)): str(path.readlink()) if path.is_symlink() else path.read_text() for path in paths
    }


def no_litter(user: User) -> None:
    assert not list(user.installdir(DEMO_MODULE).glob(".sifmod*"))
    assert not list((user.prefix / "software" / ".locks").glob("*"))


@pytest.mark.slow
def test_a_failed_rebuild_does_not_undo_what_a_killed_one_has_installed(extended: User) -> None:
    """The killed one had put everything in place; weeks later another one fails."""
    killed = hooks(extended, "def post_install_hook(self):\n    os.kill(os.getpid(), signal.SIGKILL)")
    assert install_changed(extended, NEW, "--rebuild", killed).returncode != 0
    root = extended.installdir(DEMO_MODULE)
    before = scripts(extended)
    assert "bin/demo-tool" in before
    (root / "user-software" / "weeks").write_text("of work")
    done = install_changed(extended, "sanity_check_commands = ['false']", "--rebuild", "--ignore-locks")
    assert done.returncode != 0
    assert f"an earlier eb ended after it had replaced '{root}': what it installed is kept" in done.stdout + done.stderr
    assert scripts(extended) == before
    assert (root / "user-software" / "weeks").read_text() == "of work"
    assert greet(extended) == "hello"
    assert not list(root.glob(".sifmod*"))


@pytest.mark.some(1)
@pytest.mark.parametrize("how", ["raise RuntimeError('no')", "os.kill(os.getpid(), signal.SIGHUP)"])
def test_a_rebuild_that_fails_after_its_module_was_written_restores_it(own_demo: User, how: str) -> None:
    before = scripts(own_demo), modules(own_demo)
    failing = hooks(own_demo, f"def post_module_hook(self):\n    {how}")
    assert install_changed(own_demo, NEW + "moduleclass = 'ai'\n", "--rebuild", failing).returncode != 0
    assert (scripts(own_demo), modules(own_demo)) == before
    assert own_demo.out(LOADS) == "/user-software/venv/demo"
    no_litter(own_demo)


def test_of_a_first_install_that_fails_no_module_is_left(user: User) -> None:
    failing = hooks(user, "def post_module_hook(self):\n    raise RuntimeError('no')")
    assert user.eb(DEMO_EASYCONFIG, failing, check=False).returncode != 0
    assert modules(user) == {}
    assert not user.installdir(DEMO_MODULE).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGHUP,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_signal_undoes_the_run_while_the_lock_is_held(own_demo: User, number: signal.Signals) -> None:
    before = scripts(own_demo), modules(own_demo)
    easyconfig, begun, trace = (own_demo.prefix / name for name in (DEMO_EASYCONFIG, "begun", "trace"))
    easyconfig.write_text(
        demo_with(f"{NEW}enhance_sanity_check = True\nsanity_check_commands = ['touch {begun}; sleep 600']\n")
    )
    eb = shutil.which("eb")
    process = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", trace, "-e", "trace=rename,rmdir", str(eb), easyconfig, "--rebuild"],
        env=own_demo.environ(),
        cwd=own_demo.prefix,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, number)  # as a terminal or a batch system does; strace blocks it for itself
    assert process.wait(timeout=240) != 0
    lines = trace.read_text().splitlines()
    restored = [number for number, line in enumerate(lines) if re.search(r'rename\(".*/.sifmod-previous/', line)]
    freed = [number for number, line in enumerate(lines) if re.search(r'rmdir\(".*\.lock"', line)]
    assert restored[-1] < freed[0]
    assert (scripts(own_demo), modules(own_demo)) == before
    no_litter(own_demo)


@pytest.mark.slow
def test_a_read_only_installation_says_how_it_is_rebuilt(user: User) -> None:
    user.eb(DEMO_EASYCONFIG, "--read-only-installdir")
    for options in (["--rebuild"], ["--rebuild", "--module-only"]):
        done = user.eb(DEMO_EASYCONFIG, *options, check=False)
        assert done.returncode != 0
        assert "type: eb --rebuild --read-only-installdir" in done.stdout + done.stderr
    user.eb(DEMO_EASYCONFIG, "--rebuild", "--read-only-installdir")
    assert user.out(LOADS) == "/user-software/venv/demo"


@pytest.mark.slow
def test_a_rebuild_to_another_image_breaks_no_loaded_shell(own_demo: User) -> None:
    """In a shell that loaded the module before containers start all the time, also with --stop."""
    image = own_demo.prefix / "another.sif"
    shutil.copyfile(IMAGES / "demo.sif", image)
    easyconfig, failed = own_demo.prefix / DEMO_EASYCONFIG, own_demo.prefix / "failed"
    easyconfig.write_text(demo_with(f"sources = ['another.sif']\nsource_urls = []\n{NEW}"))
    own_demo.env["SIFMOD_IMAGE_REPOSITORIES"] = f"{own_demo.prefix}:{IMAGES}"
    start = "singularity exec $SIF true"
    own_demo.run(
        f"""module load {DEMO_MODULE}
        (module purge; eb {easyconfig} --rebuild --stop=install) >stop.log 2>&1; {start} || echo stopped >>{failed}
        (module purge; exec eb {easyconfig} --rebuild) >eb.log 2>&1 & eb=$!
        while kill -0 $eb 2>/dev/null; do {start} || echo during >>{failed}; done
        wait $eb || {{ cat eb.log; exit 1; }}
        {start} || echo afterwards >>{failed}""",
        timeout=400,
    )
    assert not failed.exists(), failed.read_text()
    root = own_demo.installdir(DEMO_MODULE)
    assert sorted(path.name for path in root.glob("*.sif")) == ["another.sif", "demo.sif"]
    assert "another.sif" in own_demo.modulefile(DEMO_MODULE).read_text()
    own_demo.run(f"sifmod remove --old-images {DEMO_MODULE} --yes")
    assert [path.name for path in root.glob("*.sif")] == ["another.sif"]
    assert own_demo.out(LOADS) == "/user-software/venv/demo"
    own_demo.env["SIFMOD_REPLACED_IMAGE"] = "remove"
    easyconfig.write_text(demo_with())
    own_demo.eb(str(easyconfig), "--rebuild")
    assert [path.name for path in root.glob("*.sif")] == ["demo.sif"]
