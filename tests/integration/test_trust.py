"""What an image can see of this host, and do to it, while it is installed and looked at."""

import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import write_file

from conftest import GREETING, IMAGES, QUICK_BUILDS, SCRATCH, User, make_wheel

# Every Python of the image runs this first, with -I too. It ends where it has seen something of the user.
SPY = """
import glob, os, pwd, sys
home = pwd.getpwuid(os.getuid()).pw_dir
seen = glob.glob(home + "/.sifmod-trust-*/secret") + glob.glob("SCRATCH/*/secret")
for environ in glob.glob("/proc/*/environ"):
    try:
        if b"NAME_OF_THE_USER" in open(environ, "rb").read():
            seen.append(environ)
    except OSError:
        pass
for folder in (home, os.getcwd(), os.environ.get("HOME", "/"), "/tmp", "/var/tmp", "/runscripts"):
    try:
        open(folder + "/WRITTEN", "w").close()
    except OSError:
        pass
if seen:
    os.write(1, ("the image saw " + repr(seen) + "\\n").encode())
    os._exit(3)
"""

EASYCONFIG = """easyblock = 'ContainerImage'
name = 'Spy'
version = '1.0'
homepage = 'https://example.org/'
description = 'An image that looks around.'
toolchain = SYSTEM
sources = ['spy.sif']
python_prefix = '/usr'
venv = 'spy'
pip_requirements = ['greeting']
pack_user_software = True
expected_packages = {'greeting': '1.0'}
moduleclass = 'tools'
"""


# Name of the file that the image tries to leave everywhere.
NAME = f"sifmod-pwned-{uuid.uuid4().hex}"


@pytest.fixture
def written() -> Iterator[str]:
    """The name of that file, which is gone after each test."""
    yield NAME
    for folder in (Path.home(), Path("/tmp"), Path("/var/tmp")):
        (folder / NAME).unlink(missing_ok=True)


@pytest.fixture
def secret() -> Iterator[Path]:
    """A file in the home of the user, as a key of SSH is one."""
    folder = Path.home() / f".sifmod-trust-{uuid.uuid4().hex}"
    folder.mkdir()
    path = write_file(folder / "secret", "secret")
    yield path
    path.unlink()
    folder.rmdir()


@pytest.fixture(scope="module")
def spy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo image with a Python that looks around, and tries to write."""
    folder = tmp_path_factory.mktemp("spy")
    (folder / "spy.py").write_text(SPY.replace("WRITTEN", NAME).replace("SCRATCH", str(SCRATCH)))
    definition = folder / "spy.def"
    definition.write_text(
        f"Bootstrap: localimage\nFrom: {IMAGES}/demo.sif\n"
        f"%files\n    {folder}/spy.py /usr/lib/python3/dist-packages/spy.py\n"
        "%post\n    echo 'import spy' >/usr/lib/python3/dist-packages/spy.pth\n"
    )
    image = folder / "spy.sif"
    User(folder, QUICK_BUILDS).run(f"singularity build {image} {definition}")
    return image


@pytest.mark.parametrize("launch", ["exec", pytest.param("run", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("secret")
def test_an_image_is_isolated(user: User, spy: Path, written: str, tmp_path: Path, launch: str, scratch: Path) -> None:
    wheel = make_wheel(tmp_path, *GREETING)
    easyconfig = write_file(user.prefix / "Spy-1.0.eb", f"{EASYCONFIG}launch = '{launch}'\n")
    user.env.update(
        NAME_OF_THE_USER="1", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheel.parent), EASYBUILD_SOURCEPATH=str(spy.parent)
    )
    user.eb(str(easyconfig))
    (scratch / "secret").touch()
    done = user.run(f"TMPDIR={scratch} XDG_RUNTIME_DIR={scratch} sifmod verify Spy/1.0")
    assert "the image saw" not in done.stdout + done.stderr
    user.run("module load Spy/1.0; unmake-squashfs && make-squashfs --replace --verify=full")

    elsewhere = [Path.home(), Path("/tmp"), Path("/var/tmp"), *user.prefix.rglob("*")]
    assert not [folder for folder in elsewhere if (folder / written).exists()]
    # as its user, who has chosen to run it, one is seen
    seen = user.run(f"module load Spy/1.0; cd {shlex.quote(str(tmp_path))}; python -c pass", check=False)
    assert "the image saw" in seen.stdout
