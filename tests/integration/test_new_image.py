"""A new image under an old installation, and moving to a new version: what becomes of the user software."""

import re
import subprocess
from pathlib import Path

import pytest

from conftest import (
    DEMO_EASYCONFIG,
    DEMO_MODULE,
    GREETING,
    HEAD,
    IMAGES,
    QUICK_BUILDS,
    User,
    install_changed,
    make_user,
    make_wheel,
)

LOAD = f"module load {DEMO_MODULE}"


def pretend_older(user: User) -> None:
    """The user software and the manifest say that they are of Python 3.10, as after an image with 3.10."""
    installdir = user.installdir(DEMO_MODULE)
    config = installdir / "user-software/venv/demo/pyvenv.cfg"
    if config.exists():
        config.write_text(config.read_text().replace("3.11", "3.10"))
    manifest = installdir / "share/sifmod.json"
    manifest.write_text(manifest.read_text().replace('"python_version": "3.11"', '"python_version": "3.10"'))


def contents(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_user_software_of_another_python_is_set_aside_and_named(extended: User) -> None:
    pretend_older(extended)
    installdir = extended.installdir(DEMO_MODULE)
    before = contents(installdir / "user-software")
    done = extended.eb(DEMO_EASYCONFIG, "--rebuild")
    told = " ".join((done.stdout + done.stderr).split())
    aside = installdir / "user-software-python3.10"
    assert f"renamed to {aside}" in told
    assert f"load the module and install its packages again with: carry-over {aside}.txt" in told
    assert contents(aside) == before
    assert Path(f"{aside}.txt").read_text() == "greeting==1.0\n"
    assert extended.run(f"{LOAD}; python -c 'import greeting'", check=False).returncode != 0
    assert extended.out(f"{LOAD}; python -c 'print(6 * 7)'") == "42"


@pytest.mark.slow
def test_packed_user_software_of_another_python_is_set_aside_too(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    pretend_older(extended)
    installdir = extended.installdir(DEMO_MODULE)
    before = (installdir / "user-software.squashfs").read_bytes()
    extended.eb(DEMO_EASYCONFIG, "--rebuild")
    assert (installdir / "user-software-python3.10.squashfs").read_bytes() == before
    assert (installdir / "user-software-python3.10.txt").read_text() == "greeting==1.0\n"
    assert extended.out(f"{LOAD}; python -c 'print(6 * 7)'") == "42"
    # and again: the first one is not overwritten
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    pretend_older(extended)
    extended.eb(DEMO_EASYCONFIG, "--rebuild")
    assert (installdir / "user-software-python3.10.squashfs").read_bytes() == before
    assert (installdir / "user-software-python3.10-2.squashfs").exists()


@pytest.mark.slow
def test_what_was_set_aside_is_carried_over_as_the_warning_says_also_without_its_list(extended: User) -> None:
    """Somebody removed the list of the packed file: sifmod reads the file itself."""
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    installdir = extended.installdir(DEMO_MODULE)
    (installdir / "user-software.txt").unlink()
    pretend_older(extended)
    done = extended.eb(DEMO_EASYCONFIG, "--rebuild")
    told = " ".join((done.stdout + done.stderr).split())
    stem = f"{installdir}/user-software-python3.10"
    advice = f"sifmod inspect {stem}.squashfs --packages >{stem}.txt && carry-over {stem}.txt"
    assert f"again with: {advice}" in told
    wheels = make_wheel(extended.prefix, *GREETING).parent
    script = f"{LOAD}; export PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels} APPTAINER_BIND={wheels}; {advice}"
    assert "All packages were carried over" in extended.out(script)
    assert extended.out(f"{LOAD}; python -c 'import greeting; print(greeting.greet())'") == "hello"


@pytest.mark.slow
def test_a_failed_reinstall_sets_nothing_aside(extended: User) -> None:
    pretend_older(extended)
    extended.env["PIP_NO_INDEX"] = "1"
    assert install_changed(extended, "pip_requirements = ['no-such-package']\n", "--rebuild").returncode != 0
    assert (extended.installdir(DEMO_MODULE) / "user-software").is_dir()
    assert not list(extended.installdir(DEMO_MODULE).glob("user-software-python*"))


@pytest.mark.slow
def test_a_reinstall_that_packs_and_fails_gives_the_directory_back(extended: User) -> None:
    pretend_older(extended)
    installdir = extended.installdir(DEMO_MODULE)
    before = contents(installdir / "user-software")
    changes = "pack_user_software = True\nsanity_check_commands = ['false']\n"
    assert install_changed(extended, changes, "--rebuild").returncode != 0
    assert sorted(path.name for path in installdir.glob("user-software*")) == ["user-software", "user-software.txt"]
    assert contents(installdir / "user-software") == before


def carry(user: User, old: Path, wheels: Path) -> subprocess.CompletedProcess[str]:
    return user.run(f"{LOAD}; PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels} carry-over {old}", check=False)


def test_carry_over_brings_the_packages_to_a_new_install(extended: User, wheel: Path, tmp_path: Path) -> None:
    new = make_user(tmp_path / "new")
    new.eb(DEMO_EASYCONFIG)
    # where `sifmod build-wheel` puts wheels
    built = tmp_path / "home/.local/share/sifmod/wheels" / DEMO_MODULE
    built.mkdir(parents=True)
    built.chmod(0o700)
    wheel.rename(built / wheel.name)
    script = f"{LOAD}; HOME={tmp_path}/home PIP_NO_INDEX=1 carry-over {extended.installdir(DEMO_MODULE)}"
    done = new.run(script)
    assert "All packages were carried over" in done.stdout
    assert new.out(f"{LOAD}; python -c 'import greeting; print(greeting.greet())'") == "hello"


def test_a_package_of_one_s_own_is_not_replaced_by_a_stranger_s(own_demo: User, tmp_path: Path) -> None:
    mine = make_wheel(tmp_path, "mine", "1.0", "")
    index = tmp_path / "index"
    index.mkdir()
    make_wheel(index, "mine", "1.0", "raise SystemExit('a stranger')\n")
    own_demo.run(f"{LOAD}; pip install --no-index {mine}; make-squashfs; unmake-squashfs")
    installdir = own_demo.installdir(DEMO_MODULE)
    line = f"mine @ {mine.as_uri()}  # 1.0"
    assert (installdir / "user-software.txt").read_text() == f"{line}\n"
    own_demo.run(f"{LOAD}; cp $CONTAINERROOT/user-software.txt {tmp_path}/list.txt; pip uninstall -y mine")
    for old in (tmp_path / "list.txt", installdir):
        done = carry(own_demo, old, index)
        assert done.returncode == (10 if old.is_file() else 2)
        assert ("install it again from where it came" in done.stdout) == old.is_file()
    assert own_demo.run(f"{LOAD}; python -c 'import mine'", check=False).returncode == 1
    assert own_demo.out("sifmod list --json").count("mine==") == 0


@pytest.mark.slow
def test_carry_over_reports_what_could_not_be_kept(own_demo: User, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "kept", "1.0", "")
    make_wheel(wheels, "newer", "2.0", "")
    (tmp_path / "list.txt").write_text("kept==1.0\nnewer==1.0\ngone==1.0\ndemo-vendor==0.1\n")
    typed = f"script -qec 'carry-over {tmp_path}/list.txt' /dev/null </dev/null"  # on a terminal
    done = own_demo.run(f"{LOAD}; PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels} {typed}", status=10)
    assert re.search(r"\x1b\[Ktrying each package alone: [123] of 4, 0:\d\d left", done.stdout)
    assert "Installed in another version: newer==1.0" in done.stdout
    assert "Could not be carried over: gone==1.0" in done.stdout
    versions = own_demo.out(f"{LOAD}; pip list --format=freeze").splitlines()
    assert {"kept==1.0", "newer==2.0", "demo-vendor==1.2.3+site"} <= set(versions)


@pytest.mark.slow
def test_carry_over_reports_what_another_package_has_replaced(own_demo: User, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "helper", "1.0", "")
    make_wheel(wheels, "helper", "2.0", "")
    make_wheel(wheels, "wants-old", "1.0", "", requires=("helper<2",))
    (tmp_path / "list.txt").write_text("helper==2.0\nwants.old==1.0\n")
    done = carry(own_demo, tmp_path / "list.txt", wheels)
    assert done.returncode == 10
    assert done.stdout.splitlines()[-1] == "Installed in another version: helper==2.0"


def test_carry_over_refuses_what_it_does_not_know(own_demo: User, tmp_path: Path) -> None:
    assert carry(own_demo, tmp_path / "nothing", tmp_path).returncode == 1
    (tmp_path / "empty.txt").write_text("")
    assert carry(own_demo, tmp_path / "empty.txt", tmp_path).returncode == 2
    (tmp_path / "empty.txt").chmod(0)
    refused = carry(own_demo, tmp_path / "empty.txt", tmp_path)
    assert (refused.returncode, refused.stderr) == (1, f"carry-over: '{tmp_path}/empty.txt' can't be read.\n")


@pytest.mark.slow
def test_an_image_whose_python_is_a_virtual_environment_without_ensurepip(user: User, wheel: Path) -> None:
    """What pip, which the image lends, installs goes on top of the packages in /opt/venv, not of those in /usr."""
    (user.prefix / "Optvenv.def").write_text(
        f"""Bootstrap: localimage
From: {IMAGES}/demo.sif
%post
    python3 -m venv /opt/venv
    site=$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
    printf 'where = "venv"\\n' >$site/inimage.py
    rm -r /usr/lib/python3.11/ensurepip
"""
    )
    user.env.update(QUICK_BUILDS)
    (user.prefix / "Demo-1.0.eb").write_text(
        f"{HEAD}definition = 'Optvenv.def'\npython_prefix = '/opt/venv'\nvenv = 'mine'\n"
    )
    user.eb(str(user.prefix / "Demo-1.0.eb"))
    show = "import sys, inimage; print(sys.prefix, inimage.where)"
    assert user.out(f"module load Demo/1.0; python -c '{show}'") == "/user-software/venv/mine venv"
    for pip in ("pip", "singularity exec $SIF pip"):
        user.run(f"module load Demo/1.0; {pip} install --no-index --force-reinstall {wheel}")
    venv = user.installdir("Demo/1.0") / "user-software/venv/mine"
    assert list(venv.glob("lib/python3.11/site-packages/greeting.py"))
    assert {path.name: path.stat().st_mode & 0o777 for path in venv.glob("bin/pip*")} == dict.fromkeys(
        ("pip", "pip3", "pip3.11"), 0o755
    )
