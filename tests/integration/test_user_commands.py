"""What users install with pip is a command of the host too, and runs in the container."""

import os
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, install_changed, make_wheel

LOAD = f"module load {DEMO_MODULE}"

SAY = """\
import os, sys
def greet():
    print(os.path.isdir("/.singularity.d"), sys.prefix, sys.argv[1:], sys.stdin.read())
    sys.exit(3)
"""
IN_BASH = '#!/bin/bash\n[[ -d /.singularity.d ]] && printf "<%s>" "$@"\n'
PLAIN = ("cowsay", "cowrun")

# Names that no command of a user may have on the host, although they are in the environment.
REFUSED = ("srun", "zsh", "make-squashfs", "refresh-commands", "get-master", "sifmod", "pip4", "wheel", "-x")


@pytest.fixture
def cow(tmp_path: Path) -> Path:
    """A wheel with a console script, a script for bash, and scripts of names that are refused."""
    return make_wheel(
        tmp_path,
        "cowsay",
        "6.1",
        SAY,
        command="cowsay",
        scripts={"cowrun": IN_BASH, "na me": IN_BASH, **dict.fromkeys(REFUSED, IN_BASH)},
    )


@pytest.fixture
def cowboy(own_demo: User, cow: Path) -> User:
    """A user who has installed it with the wrapper of pip."""
    own_demo.run(f"{LOAD}; pip install --no-index {cow}")
    return own_demo


def commands_of(user: User) -> list[str]:
    folder = user.installdir(DEMO_MODULE) / "user-bin"
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def moo(user: User, command: str = "cowsay", before: str = LOAD) -> None:
    done = user.run(f"{before}; printf in | {command} 'a  b' '$c'", check=False)
    said = "True /user-software/venv/demo ['a  b', '$c'] in\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, said, "")


def test_what_pip_installs_is_a_command_of_the_host(cowboy: User, tmp_path: Path) -> None:
    assert commands_of(cowboy) == sorted(PLAIN)
    moo(cowboy)
    assert cowboy.out(f"{LOAD}; cowrun 'a  b'") == "<a  b>"
    by_path = cowboy.installdir(DEMO_MODULE) / "user-bin" / "cowsay"
    moo(cowboy, str(by_path), ":")
    moo(cowboy, "./cowsay", f"cd {by_path.parent}")
    moo(cowboy, "bash cowsay", f"cd {by_path.parent}")
    (tmp_path / "link").symlink_to(by_path)
    (tmp_path / "again").symlink_to("link")
    moo(cowboy, str(tmp_path / "again"), ":")
    cowboy.run(f"{LOAD}; python -m pip uninstall -y cowsay")
    assert commands_of(cowboy) == []
    assert cowboy.run(f"{LOAD}; cowsay", check=False).returncode == 127


@pytest.mark.slow
def test_what_uv_installs_is_a_command_too(own_demo: User, cow: Path) -> None:
    own_demo.run(f"{LOAD}; uv pip install --no-index --no-cache {cow}")
    moo(own_demo)
    own_demo.run(f"{LOAD}; uv pip uninstall cowsay")
    assert commands_of(own_demo) == []


def test_on_every_node_of_a_job_step(cowboy: User, job_directory: Path) -> None:
    done = cowboy.run(f"{LOAD}; cd {job_directory}; srun -N2 -n4 --ntasks-per-node=2 cowrun one", cwd=job_directory)
    assert done.stdout == "<one>" * 4


def test_packed_and_unpacked(cowboy: User, tmp_path: Path) -> None:
    folder = cowboy.installdir(DEMO_MODULE) / "user-bin"
    cowboy.run(f"{LOAD}; make-squashfs --remove-directory; rm {folder}/*; refresh-commands")
    assert commands_of(cowboy) == sorted(PLAIN)
    moo(cowboy)
    more = make_wheel(tmp_path, "more", "1", SAY, command="more-cows")
    cowboy.run(f"{LOAD}; unmake-squashfs; pip install --no-index {more}")
    assert commands_of(cowboy) == sorted((*PLAIN, "more-cows"))
    moo(cowboy)
    cowboy.run(f"{LOAD}; make-squashfs --replace --remove-directory; make-squashfs --rollback")
    assert commands_of(cowboy) == sorted(PLAIN)
    moo(cowboy)


@pytest.mark.slow
def test_after_a_direct_call_it_is_refresh_commands_that_sees_it(own_demo: User, cow: Path) -> None:
    direct = f"{LOAD}; singularity exec $SIF pip"
    own_demo.run(f"{direct} install --no-index {cow}")
    assert commands_of(own_demo) == []
    own_demo.run(f"{LOAD}; refresh-commands")
    moo(own_demo)
    own_demo.run(f"{direct} uninstall -y cowsay")
    done = own_demo.run(f"{LOAD}; cowsay", status=127)
    assert "no longer has this command; run: refresh-commands" in done.stderr
    own_demo.run(f"{LOAD}; refresh-commands")
    assert commands_of(own_demo) == []


@pytest.mark.slow
@pytest.mark.usefixtures("cow")
def test_what_is_carried_over_has_its_commands(own_demo: User, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("cowsay==6.1\nnot-there-at-all==1\n")
    own_demo.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    # neither the commands nor what pip imports is that of a clone, or of a colleague in /tmp
    clone = tmp_path / "clone"
    (clone / "pip").mkdir(parents=True)
    for name in ("pip/__init__", "pip/__main__", "typing", "json", "runpy", "encodings"):
        (clone / f"{name}.py").write_text(f"open({str(tmp_path / 'hostile')!r}, 'w'); raise SystemExit('hostile')")
    load = f"cd {clone}; export PYTHONPATH=:{tmp_path}:; {LOAD}"
    for command in ("pip --version", "pip list", "list-packages", "list-packages --check"):
        own_demo.run(f"{load}; {command}; singularity exec $SIF {command}")
    own_demo.run(f"{load}; carry-over {tmp_path}/list.txt", status=10)
    assert not (tmp_path / "hostile").exists()
    moo(own_demo)


def test_behind_the_wrappers_before_the_host_and_gone_after_unload(cowboy: User) -> None:
    root = cowboy.installdir(DEMO_MODULE)
    script = f'before=$PATH; {LOAD}; echo "${{PATH%"$before"}}"; module unload {DEMO_MODULE}; [[ $PATH == "$before" ]]'
    assert cowboy.out(script) == f"{root}/bin:{root}/user-bin:"


def test_what_is_no_link_of_ours_is_left_alone(cowboy: User, tmp_path: Path) -> None:
    folder = cowboy.installdir(DEMO_MODULE) / "user-bin"
    environment = cowboy.installdir(DEMO_MODULE) / "user-software/venv/demo/bin"
    (environment / "cowlink").symlink_to("cowrun")
    (environment / "out").symlink_to("/bin/true")
    (environment / "above").symlink_to("../../../../share/user-command")
    (folder / "mine").write_text("my own")
    (folder / "$(touch here)").symlink_to("../share/user-command")
    (folder / "theirs").symlink_to("/bin/true")
    (folder / "cowsay").unlink()
    (folder / "cowsay").write_text("something else")
    done = cowboy.run(f"{LOAD}; cd {tmp_path}; refresh-commands")
    assert commands_of(cowboy) == sorted((*PLAIN, "cowlink", "mine", "theirs"))
    assert (folder / "cowsay").read_text() == "something else"
    assert f"'{folder}/cowsay' is not a link of sifmod and was left alone." in done.stderr
    assert not list(tmp_path.rglob("here"))
    named = cowboy.run("sifmod verify").stdout
    assert all(str(folder / name) in named for name in ("cowsay", "mine", "theirs"))
    refused = cowboy.run(f"sifmod remove --yes --delete-user-software {DEMO_MODULE}", check=False)
    assert refused.returncode != 0
    assert "user-bin/mine" in refused.stderr
    for name in ("cowsay", "mine", "theirs"):
        (folder / name).unlink()
    cowboy.run(f"{LOAD}; refresh-commands")
    cowboy.run(f"sifmod remove --yes --delete-user-software {DEMO_MODULE}")
    assert not folder.parent.exists()


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("prepare", "status", "says"),
    [
        ("rm -r user-bin; ln -s /tmp user-bin", 5, "is not a directory"),
        ("rm user-bin/.lock; ln -s ../bin/pip user-bin/.lock", 5, "is not a file"),
        ("rm user-bin/.lock; mkfifo user-bin/.lock", 5, "is not a file"),
        ("mv user-software/venv/demo/bin x; ln -s ../../../x user-software/venv/demo/bin", 5, "is a symbolic link"),
        ("chmod a-w user-bin", 9, "no permission"),
    ],
)
def test_unexpected_files_are_named_and_not_changed(cowboy: User, prepare: str, status: int, says: str) -> None:
    root = cowboy.installdir(DEMO_MODULE)
    done = cowboy.run(f"cd {root}; {prepare}; bin/refresh-commands", status=status)
    assert says in done.stderr
    assert (root / "bin/pip").stat().st_size


@pytest.mark.slow
def test_two_pips_at_once(own_demo: User, tmp_path: Path) -> None:
    wheels = [
        make_wheel(tmp_path, f"pack{number}", "1", SAY, scripts={f"p{number}-{one}": IN_BASH for one in range(20)})
        for number in range(3)
    ]
    own_demo.run(f"{LOAD}; {' & '.join(f'pip install --no-index {wheel}' for wheel in wheels)} & wait")
    assert len(commands_of(own_demo)) == 60


@pytest.mark.slow
def test_a_reinstall_keeps_them_and_a_parameter_turns_them_off(cowboy: User) -> None:
    folder = cowboy.installdir(DEMO_MODULE) / "user-bin"
    (folder / "cowsay").unlink()
    cowboy.eb(DEMO_EASYCONFIG, "--rebuild")
    moo(cowboy)
    done = install_changed(cowboy, "user_commands = False\n", "--rebuild")
    assert done.returncode == 0, done.stdout
    (cowboy.prefix / DEMO_EASYCONFIG).unlink()
    assert not folder.exists()
    assert "user-bin" not in cowboy.out(f"{LOAD}; echo $PATH")
    cowboy.run(f"{LOAD}; pip uninstall -y cowsay")
    assert not folder.exists()
    cowboy.env["SIFMOD_USER_COMMANDS"] = "false"
    cowboy.eb(DEMO_EASYCONFIG, "--rebuild", "--module-only")
    assert not folder.exists()
    del cowboy.env["SIFMOD_USER_COMMANDS"]
    cowboy.eb(DEMO_EASYCONFIG, "--rebuild", "--module-only")
    assert folder.is_dir()
    assert "user-bin" in cowboy.out(f"{LOAD}; echo $PATH")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TERM", "KILL", "HUP"])
def test_a_signal_that_ends_the_wrapper_of_pip_ends_pip(own_demo: User, tmp_path: Path, name: str) -> None:
    source = tmp_path / f"slow{os.getpid()}"
    source.mkdir()
    (source / "setup.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(60)\n")
    own_demo.env["SOURCE"] = source.name  # a process that has it in its command line is pip, and not this script
    script = (
        f"{LOAD}; cd {tmp_path}; pip install --no-index --no-build-isolation ./$SOURCE & "
        "for _ in {1..1200}; do [[ -e $SOURCE/begun ]] && break; sleep 0.1; done; "
        f"kill -{name} $!; wait $!; echo $?; "
        "for _ in {1..600}; do pgrep -f '[.]/'$SOURCE >/dev/null || break; sleep 0.1; done; pgrep -f '[.]/'$SOURCE"
    )
    done = own_demo.run(script, check=False)
    assert (source / "begun").exists(), done.stdout + done.stderr
    assert done.returncode == 1, done.stdout
