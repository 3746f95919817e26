"""Journey 3: what users install, packed into one file and back."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.programs import write_file, write_program

from conftest import DEMO_MODULE, LUMI_EASYCONFIG, User, greet, make_user, make_wheel

LOAD = f"module load {DEMO_MODULE}"


def test_pip_installs_into_the_users_tree(extended: User) -> None:
    site_packages = extended.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages"
    assert (site_packages / "greeting.py").is_file()
    assert greet(extended) == "hello"
    assert "greeting" in extended.out(f"{LOAD}; list-packages")


def test_packed_it_is_there_and_read_only(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    assert greet(extended) == "hello"
    done = extended.run(f"{LOAD}; singularity exec $SIF touch /user-software/new", check=False)
    assert done.returncode != 0
    assert "Read-only" in done.stderr


def test_unpacked_it_can_be_written_to_again(extended: User) -> None:
    extended.run(f"{LOAD}; make-squashfs --remove-directory; unmake-squashfs")
    installdir = extended.installdir(DEMO_MODULE)
    assert (installdir / "user-software.squashfs").exists()
    extended.run(f"{LOAD}; singularity exec $SIF touch /user-software/new")
    assert (installdir / "user-software/new").exists()
    extended.run("rm " + str(installdir / "user-software.squashfs"))
    assert greet(extended) == "hello"
    bound = extended.out(f"{LOAD}; make-squashfs >/dev/null; echo $SINGULARITY_BINDPATH")
    assert bound.endswith("/user-software.squashfs:/user-software:ro,image-src=/")


@pytest.mark.slow
def test_the_mark_of_an_unpacked_directory_replaces_a_link(extended: User, tmp_path: Path) -> None:
    """Whoever may write to the installation could let others empty their own files."""
    victim = write_file(tmp_path / "victim", "years of work")
    mark = extended.installdir(DEMO_MODULE) / "user-software.unpacked"
    mark.symlink_to(victim)
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    mark.symlink_to(victim)
    extended.run(f"{LOAD}; unmake-squashfs")
    assert victim.read_text() == "years of work"
    assert not mark.is_symlink()


def test_a_script_without_the_function_is_told_to_reload(extended: User) -> None:
    assert f"module load {DEMO_MODULE}" in extended.out(f"{LOAD}; command make-squashfs")


def test_what_is_packed_is_what_was_there(extended: User, tmp_path: Path) -> None:
    tree = extended.installdir(DEMO_MODULE) / "user-software"
    (tree / "name with\nnewline").write_text("x")
    (tree / "empty").mkdir()
    (tree / "dangling").symlink_to("nowhere")
    with (tree / "sparse").open("wb") as stream:
        stream.truncate(10_000_000)
    (tree / "private").write_text("x")
    (tree / "private").chmod(0o600)
    extended.run(f"cp -a {tree} {tmp_path}/copy; {LOAD}; make-squashfs; rm -r {tree}; unmake-squashfs")
    assert extended.run(f"diff -r --no-dereference {tmp_path}/copy {tree}").stdout == ""
    listing = "find . -printf '%P %y %m %s %l %Ts\\0' | sort -z | sha256sum"
    # sizes of directories belong to the file system, not to the tree
    listing = listing.replace("%s", "%l").replace("find .", "find . ! -type d")
    assert extended.out(f"cd {tree}; {listing}") == extended.out(f"cd {tmp_path}/copy; {listing}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "command", "status", "says"),
    [
        ("singularity exec -B $CONTAINERROOT $SIF", "$CONTAINERROOT/bin/make-squashfs", 1, "outside the container"),
        (
            "singularity exec -B $CONTAINERROOT $SIF",
            "$CONTAINERROOT/bin/unmake-squashfs",
            1,
            "outside the container",
        ),
        ("mv $CONTAINERROOT/user-software $CONTAINERROOT/away;", "make-squashfs", 2, "the user software is missing"),
        ("", "unmake-squashfs", 2, "nothing to unpack"),
        ("touch $CONTAINERROOT/user-software.squashfs;", "make-squashfs", 3, "exists"),
        ("touch $CONTAINERROOT/user-software.squashfs;", "unmake-squashfs", 3, "exists"),
        ("PATH=$CONTAINERROOT/bin:/nowhere;", "make-squashfs", 4, "squashfs-tools"),
        ("flock $CONTAINERROOT/.user-software.lock", "$CONTAINERROOT/bin/make-squashfs", 7, "is running"),
    ],
)
def test_exit_codes_are_the_documented_ones(extended: User, prepare: str, command: str, status: int, says: str) -> None:
    if not prepare.endswith(";"):
        done = extended.run(f"{LOAD}; {prepare} {command}", check=False)
    else:
        done = extended.run(f"{LOAD}; {prepare} /bin/bash $CONTAINERROOT/bin/{command}", check=False)
    assert done.returncode == status, done.stderr
    assert says in done.stderr


def fake_tool(folder: Path, name: str, body: str) -> Path:
    write_program(folder / name, f"#!/bin/bash\n{body}\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("exit 1", 5, "mksquashfs failed"),
        ("echo 'Write failed because No space left on device' >&2; exit 1", 8, "not enough space"),
        (': >"$2"', 6, "can't mount"),
        (
            'cp -r "$1" "$2.t"; rm "$2.t/venv/demo/pyvenv.cfg"; /usr/bin/mksquashfs "$2.t" "${@:2}"; rm -r "$2.t"',
            6,
            "pyvenv.cfg",
        ),
    ],
    ids=["fails", "full", "empty", "lost-a-file"],
)
def test_a_failed_packer_keeps_the_directory(extended: User, tmp_path: Path, body: str, status: int, says: str) -> None:
    tools = fake_tool(tmp_path / "tools", "mksquashfs", body)
    done = extended.run(f"{LOAD}; PATH={tools}:$PATH; command make-squashfs", status=status)
    assert says in done.stderr
    installdir = extended.installdir(DEMO_MODULE)
    assert not (installdir / "user-software.squashfs").exists()
    assert not list(installdir.glob(".packing.*"))
    assert greet(extended) == "hello"


def test_a_killed_packer_leaves_one_complete_copy_and_a_repeated_run_succeeds(extended: User, tmp_path: Path) -> None:
    tools = fake_tool(tmp_path / "tools", "mksquashfs", 'head -c 100000 /dev/zero >"$2"; kill -9 $PPID')
    done = extended.run(f"{LOAD}; PATH={tools}:$PATH; command make-squashfs", check=False)
    assert done.returncode in (-9, 137)
    assert greet(extended) == "hello"
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    assert greet(extended) == "hello"
    assert not list(extended.installdir(DEMO_MODULE).glob(".packing.*"))


def test_the_images_own_packages_can_not_be_replaced(own_demo: User, tmp_path: Path) -> None:
    make_wheel(tmp_path, "demo-vendor", "9.9", "")
    wanting = make_wheel(tmp_path, "wanting", "1.0", "", requires=("demo-vendor>=2",))
    done = own_demo.run(
        f"{LOAD}; singularity exec $SIF pip install --no-index --find-links {tmp_path} {wanting}", check=False
    )
    assert done.returncode != 0
    assert "constraint" in done.stdout + done.stderr
    done = own_demo.run(
        f"{LOAD}; singularity exec --env PIP_CONSTRAINT= $SIF pip install --no-index -f {tmp_path} {wanting}"
    )
    assert "Successfully installed" in done.stdout


def test_requirements_are_installed_and_packed_by_eb(tmp_path: Path, lumi_images: Path) -> None:
    """LUMI's exampleVenv; wheels made here stand in for the two packages, which need the real torch."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "torchmetrics", "1.3.2", "__version__ = '1.3.2'\n", requires=("torch>=1.10",))
    make_wheel(wheels, "pytorch-lightning", "2.2.1", "", requires=("torch>=1.13", "torchmetrics>=0.7"))
    user = make_user(tmp_path / "eb", SIFMOD_SITE="lumi", SIFMOD_IMAGE_REPOSITORIES=str(lumi_images))
    user.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    easyconfig = LUMI_EASYCONFIG.replace("singularity-", "singularity-exampleVenv-")
    user.eb(easyconfig)
    module = "PyTorch/" + easyconfig[len("PyTorch-") : -len(".eb")]
    assert (user.installdir(module) / "user-software.squashfs").is_file()
    assert not (user.installdir(module) / "user-software").exists()
    packages = user.out(f"module load {module}; singularity exec $SIF pip list --format=freeze").splitlines()
    assert {"torchmetrics==1.3.2", "pytorch-lightning==2.2.1", "torch==2.2.0+rocm5.6"} <= set(packages)


def test_a_package_that_pythonpath_hides_is_named(demo: User, tmp_path: Path) -> None:
    info = tmp_path / "site/demo_vendor-9.dist-info"
    write_file(info / "METADATA", "Name: demo-vendor\nVersion: 9\n")
    hidden = f"demo-vendor 9 in '{info.parent}' of PYTHONPATH hides the container's 1.2.3+site: unset PYTHONPATH"
    own = "/usr/lib/python3/dist-packages:/usr/lib/python3.11"
    assert demo.run(f"{LOAD}; SINGULARITYENV_PYTHONPATH={own} list-packages --check").returncode == 0
    for command in ("list-packages --check", f"sifmod doctor {DEMO_MODULE}"):
        done = demo.run(f"{LOAD}; export PYTHONPATH={info.parent}; {command}", check=False)
        assert hidden in " ".join(done.stdout.split())
    # a clone, and a file that hides one of Python itself
    clone = tmp_path / "clone"
    for name in ("demo_vendor/__init__.py", "other/__init__.py", "wave.py", "tests/__init__.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    plain = f"'{clone}/demo_vendor' of PYTHONPATH hides the container's demo_vendor: unset PYTHONPATH"
    done = demo.run(f"{LOAD}; export PYTHONPATH={clone}; list-packages --check", check=False)
    assert done.stdout.splitlines() == [
        plain,
        plain.replace("demo_vendor' ", "wave.py' ").replace("demo_vendor:", "wave:"),
    ]
    assert plain in " ".join(
        demo.run(f"export PYTHONPATH={clone}; sifmod doctor {DEMO_MODULE}", check=False).stdout.split()
    )


@pytest.mark.slow
def test_metadata_that_never_end_stop_neither_list_packages_nor_verify(own_demo: User) -> None:
    entry = own_demo.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages/evil-1.0.dist-info"
    entry.mkdir()
    for name, target in (("METADATA", ""), ("RECORD", "/dev/zero")):
        (entry / name).symlink_to(target) if target else os.mkfifo(entry / name)
        inside = f"/user-software/{str(entry / name).partition('user-software/')[2]}"
        said = f"'{inside}' is not a plain file: Python would not get past it, so remove it"
        for command in ("list-packages", "list-packages --check", "singularity exec $SIF list-packages"):
            done = own_demo.run(f"{LOAD}; {command}", check=False)
            assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{said}\n")
        verified = own_demo.run("sifmod verify", status=1)
        assert said in verified.stdout
        (entry / name).unlink()
    entry.rmdir()
    own_demo.run("sifmod verify")


@pytest.mark.slow
def test_what_does_not_fit_the_image_is_named_wherever_one_looks(own_demo: User, tmp_path: Path, scratch: Path) -> None:
    """A second demo-vendor beside the image's, and a package that needs another version than that."""
    second = make_wheel(tmp_path, "demo-vendor", "9.9", "")
    wanting = make_wheel(
        tmp_path, "wanting", "1.0", "", requires=("demo-vendor<9", "absent>=1", "more; extra == 'more'")
    )
    site_packages = own_demo.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages"
    sources = scratch / "a b"
    sources.mkdir()
    info = site_packages / "edited-1.0.dist-info"
    write_file(info / "METADATA", "Name: edited\nVersion: 1.0\n")
    url = f"file://{scratch}/a%20b"
    (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))
    edited = f"edited 1.0 is an editable install of '{sources}'"
    said = f"{edited}, which is gone or in no bind path: export APPTAINER_BIND='{sources}'"
    assert own_demo.run(f"{LOAD}; list-packages --check", check=False).stdout == f"{said}\n"
    assert own_demo.run(f"export APPTAINER_BIND={scratch}; {LOAD}; list-packages --check").returncode == 0
    told = " ".join(own_demo.run(f"sifmod doctor {DEMO_MODULE}", check=False).stdout.split())
    assert edited in told
    assert f"export APPTAINER_BIND='{sources}'" in told
    sources.rmdir()
    assert f"{edited}, which is gone" in own_demo.run(f"sifmod doctor --json {DEMO_MODULE}", check=False).stdout
    shutil.rmtree(info)
    assert own_demo.out(f"{LOAD}; list-packages --check").startswith("0 packages of user software")
    own_demo.run(
        f"{LOAD}; singularity exec --env PIP_CONSTRAINT= $SIF pip install --no-index --no-deps {second} {wanting}"
    )
    hidden = "demo-vendor 9.9 hides the image's demo-vendor 1.2.3+site"
    missing = "wanting 1.0 requires absent>=1, which is not installed"
    unmet = "wanting 1.0 requires demo-vendor<9, but user software has demo-vendor 9.9"
    for command in ("list-packages --check", "singularity exec $SIF list-packages --check"):
        done = own_demo.run(f"{LOAD}; {command}", check=False)
        assert (done.returncode, done.stdout.splitlines()) == (1, [hidden, missing, unmet])
    verified = own_demo.run("sifmod verify --json")
    assert all(f'"what": "{line}"' in verified.stdout for line in (hidden, missing, unmet))
    packed = own_demo.run(f"{LOAD}; make-squashfs --remove-directory")
    assert packed.stderr.splitlines()[-5:-2] == [hidden, missing, unmet]
    assert own_demo.run(f"{LOAD}; list-packages --check", check=False).stdout.splitlines() == [hidden, missing, unmet]
    examined = own_demo.run(f"sifmod doctor --json {DEMO_MODULE}", check=False).stdout
    assert all(f'"what": "{line}"' in examined for line in (hidden, unmet))
    own_demo.run(f"{LOAD}; unmake-squashfs; singularity exec $SIF pip uninstall -y demo-vendor wanting")
    assert own_demo.run(f"{LOAD}; list-packages --check").stdout.startswith("0 packages of user software")
