"""`sifmod environment`: environments from a file, as modules of their own."""

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.programs import write_file

from conftest import IMAGES, QUICK_BUILDS, REGISTRY, User, make_user, make_wheel, registry_password

BASE = IMAGES / "demo.sif"
PACKAGES = "python -m pip list --format=freeze --disable-pip-version-check"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels, with a name that needs quotes everywhere."""
    folder = tmp_path_factory.mktemp("it's $HOME") / "wheels"
    folder.mkdir()
    make_wheel(folder, "greeting", "1.0", "def greet():\n    return 'hello'\n")
    make_wheel(folder, "needs-vendor", "1.0", "", requires=("demo-vendor>=1", "greeting"))
    make_wheel(folder, "needs-new-vendor", "1.0", "", requires=("demo-vendor>=2",))
    make_wheel(folder, "demo-vendor", "2.0", "")
    return folder


@dataclass(frozen=True)
class Lab:
    """A user who writes environments in a folder, with the wheels as their only index."""

    user: User

    def new(self, words: str, *, base: object = BASE, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.user.run(f"sifmod environment {words} --base '{base}'", check=check)

    def refused(self, words: str, *, base: object = BASE) -> str:
        """Return the one line with which a request is refused; nothing is written."""
        before = self.files()
        done = self.new(words, base=base, check=False)
        assert done.returncode == 1, done.stdout + done.stderr
        assert done.stdout == ""
        assert self.files() == before
        return done.stderr.splitlines()[-1]

    def write(self, name: str, text: str) -> None:
        (self.user.prefix / name).write_text(text)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.user.prefix.iterdir() if path.is_file()}

    def install(self, words: str, *, base: object = BASE) -> str:
        """Write an environment, install it by the command that is named, and return the module."""
        last = self.new(words, base=base).stdout.splitlines()[-1]
        command = last.partition("install it with: ")[2]
        self.user.run(command)
        name, _, version = Path(command.split()[-1]).name.removesuffix(".eb").partition("-")
        return f"{name}/{version}"

    def packages(self, module: str) -> set[str]:
        return set(self.user.out(f"module load {module}; {PACKAGES}").splitlines())


def make_lab(prefix: Path, wheels: Path) -> Lab:
    # pip divides PIP_FIND_LINKS at white space
    user = make_user(prefix, **QUICK_BUILDS, PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels.as_uri())
    lab = Lab(user)
    lab.write("requirements.txt", "# for the lab\nneeds-vendor>=1\n")
    return lab


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> tuple[Lab, str]:
    """An environment of the requirements, installed."""
    lab = make_lab(tmp_path_factory.mktemp("installed") / "eb", wheels)
    return lab, lab.install("requirements.txt --name lab")


@pytest.fixture
def lab(tmp_path: Path, wheels: Path) -> Lab:
    return make_lab(tmp_path / "eb", wheels)


@pytest.mark.slow
def test_an_image_has_the_packages_and_keeps_the_base_s(installed: tuple[Lab, str]) -> None:
    lab, module = installed
    base = set(
        lab.user.out(f"singularity exec --containall {BASE} python3 -I -m pip list --format=freeze").splitlines()
    )
    assert lab.packages(module) == base | {"greeting==1.0", "needs-vendor==1.0"}
    where = "import greeting, needs_vendor; print(greeting.__file__)"
    assert lab.user.out(f'module load {module}; python -c "{where}"').startswith("/usr/")
    kept = lab.user.installdir(module) / "share/docker-defs"
    lock = next(kept.glob("pylock.*.toml"))
    assert lock.read_bytes() == (lab.user.prefix / lock.name).read_bytes()
    assert list(kept.glob("*.def"))
    # nothing of the build is left in it, and pip in user software keeps the packages of the environment too
    left = (
        "ls /opt/sifmod-environment; cat /usr/local/lib/python3.11/dist-packages/greeting-1.0.dist-info/direct_url.json"
    )
    assert lab.user.out(f"module load {module}; singularity exec $SIF sh -c '{left}'", check=False) == ""


@pytest.mark.slow
def test_a_lock_gives_the_same_set_again(installed: tuple[Lab, str], registry_user: User, wheels: Path) -> None:
    first, module = installed
    (lock,) = first.user.prefix.glob("pylock.*.toml")
    registry_user.env.update(QUICK_BUILDS)
    registry_user.env["PIP_FIND_LINKS"] = wheels.as_uri()  # the lock alone may not choose files of the host
    lab = Lab(registry_user)
    again = lab.install(f"'{lock}' --name lab", base=f"docker://{REGISTRY}/demo/python:3.11")
    assert lab.packages(again) == first.packages(module)
    (definition,) = lab.user.prefix.glob("*.def")
    assert f"\nBootstrap: docker\nFrom: {REGISTRY}/demo/python@sha256:" in definition.read_text()
    assert registry_password() not in "".join(path.read_text() for path in lab.user.prefix.glob("*.*"))


@pytest.mark.slow
def test_a_lock_gives_the_definition_that_it_was_written_with(installed: tuple[Lab, str], tmp_path: Path) -> None:
    lab, _ = installed
    (lock,) = lab.user.prefix.glob("pylock.*.toml")
    (tmp_path / "again").mkdir()
    lab.new(f"{lock.name} --name lab -o '{tmp_path}/again'")
    for path in (lock, *lab.user.prefix.glob("*.def")):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_on_top_the_image_is_the_base_s_in_place(lab: Lab) -> None:
    module = lab.install("requirements.txt --name lab --on-top")
    root = lab.user.installdir(module)
    assert {"greeting==1.0", "needs-vendor==1.0", "demo-vendor==1.2.3+site"} <= lab.packages(module)
    assert lab.user.out(f"module load {module}; echo $SIF") == str(BASE)
    assert not list(root.glob("*.sif"))
    assert list((root / "user-software/venv/lab").glob("lib/*/site-packages/greeting.py"))
    assert list((root / "share/docker-defs").glob("pylock.*.toml"))


@pytest.mark.slow
def test_a_mirror_on_disk_whose_pages_link_beside_it(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mirror/files").mkdir(parents=True)
    wheel = make_wheel(tmp_path / "mirror/files", "greeting", "1.0", "")
    write_file(tmp_path / "mirror/simple/greeting/index.html", f'<a href="../../files/{wheel.name}">{wheel.name}</a>\n')
    lab.write("pyproject.toml", "[project]\nname = 'thesis'\nversion = '1'\ndependencies = ['greeting']\n")
    lab.user.env.update(PIP_NO_INDEX="", PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="")
    lab.user.env["PIP_INDEX_URL"] = (tmp_path / "mirror/simple").as_uri()
    assert "greeting==1.0" in lab.packages(lab.install("pyproject.toml --name lab --on-top"))


def test_a_project_with_its_extra(lab: Lab) -> None:
    lab.write(
        "pyproject.toml",
        "[build-system]\nrequires = ['gone']\nbuild-backend = 'gone'\n"
        "[project]\nname = 'Thesis'\nversion = '0.3'\ndependencies = ['demo-vendor']\n"
        "[project.optional-dependencies]\nrun = ['greeting']\n",
    )
    shown = json.loads(lab.new("pyproject.toml --extra run --json").stdout)
    assert shown["parameters"]["name"] == "Thesis"
    assert shown["parameters"]["version"] == "0.3"
    assert shown["parameters"]["expected_packages"] == {"demo-vendor": "1.2.3+site", "greeting": "1.0"}
    assert [Path(name).suffix for name in shown["files"]] == [".toml", ".def", ".eb"]
    assert all((lab.user.prefix / name).read_text() == text for name, text in shown["files"].items())


@pytest.mark.slow
def test_requirements_that_can_t_be_met_are_one_sentence(lab: Lab) -> None:
    lab.write("new.txt", "needs-new-vendor\n")
    assert (
        "needs-new-vendor 1.0 depends on demo-vendor>=2; the base has demo-vendor==1.2.3+site. The base's packages are "
        "kept" in lab.refused("new.txt")
    )
    lab.write("none.txt", "greeting\nno-such-package\n")
    assert "satisfies the requirement no-such-package" in lab.refused("none.txt")
    lab.write("base.txt", "demo-vendor\n")
    assert "the base has all packages of 'base.txt'" in lab.refused("base.txt")
    lab.write("hash.txt", f"greeting==1.0 --hash=sha256:{'0' * 64}\n")
    assert "has a hash that the package does not have" in lab.refused("hash.txt")


def test_an_index_that_can_t_be_reached_is_one_sentence(lab: Lab) -> None:
    del lab.user.env["PIP_NO_INDEX"], lab.user.env["PIP_FIND_LINKS"]
    lab.user.env.update(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_EXTRA_INDEX_URL="", PIP_RETRIES="1")
    said = lab.refused("requirements.txt")
    assert "the package index can't be reached" in said
    assert "Connection refused): check the network" in said


@pytest.mark.slow
def test_a_base_or_wheel_that_changed_stops_the_build_and_the_old_module_stays(installed: tuple[Lab, str]) -> None:
    lab, module = installed
    (definition,) = lab.user.prefix.glob("*.def")
    (lock,) = lab.user.prefix.glob("pylock.*.toml")
    text, locked = definition.read_text(), lock.read_text()
    other = re.sub(r'sha256 = "\w{64}"', f'sha256 = "{"0" * 64}"', locked)
    digest, digest_of_other = (hashlib.sha256(one.encode()).hexdigest() for one in (locked, other))
    try:
        for changed, packages, said in (
            (re.sub(r'" = \w{64}', '" = ' + "0" * 64, text), locked, "not the image that the packages were locked for"),
            (f"{text}# \n", other, f"{lock.name} is not the file that this definition was written with"),
            (text.replace(digest, digest_of_other), other, "DO NOT MATCH THE HASHES"),
        ):
            definition.write_text(changed)
            lock.write_text(packages)
            done = lab.user.run(f"eb --rebuild '{definition.with_suffix('.eb')}'", check=False)
            assert done.returncode != 0
            assert said in " ".join((done.stdout + done.stderr).split())
    finally:
        definition.write_text(text)
        lock.write_text(locked)
    assert "greeting==1.0" in lab.packages(module)


@pytest.mark.slow
def test_wheels_beside_the_file_are_copied_for_the_base_and_others_are_not(lab: Lab, wheels: Path) -> None:
    """The base sees copies, so a file can't name /home to it; the lock has the places of the wheels themselves."""
    del lab.user.env["PIP_FIND_LINKS"]
    folder = lab.user.prefix / "it's mine"
    folder.mkdir()
    for wheel in wheels.iterdir():
        (folder / wheel.name).write_bytes(wheel.read_bytes())
    lab.write("below.txt", '--find-links "it\'s mine"\nneeds-vendor\n')
    shown = json.loads(lab.new("below.txt --json").stdout)
    (lock,) = (text for name, text in shown["files"].items() if name.endswith(".toml"))
    assert f'path = "{folder}/greeting-1.0-py3-none-any.whl"' in lock
    lab.write("outside.txt", f"--find-links {wheels.as_uri()}\nneeds-vendor\n")
    assert "is not below" in lab.refused("outside.txt")


EVIL = "greeting-1.0-1%0A%25setup%0Atouch%20pwned%0Aexit%201%0A-py3-none-any.whl"


def test_the_name_of_a_wheel_does_not_run_on_the_host(lab: Lab) -> None:
    head = 'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\n'
    lock = f'{head}name = "greeting"\nversion = "1.0"\n[[packages.wheels]]\n'
    lab.write("pylock.toml", f'{lock}url = "http://127.0.0.1:9/{EVIL}"\nhashes = {{sha256 = "{"0" * 64}"}}\n')
    lab.write("evil.txt", f"greeting @ http://127.0.0.1:9/{EVIL}\n")
    lab.write("pyproject.toml", f"[project]\nname = 'x'\ndependencies = ['greeting @ http://127.0.0.1:9/{EVIL}']\n")
    for words in ("pylock.toml", "evil.txt", "pyproject.toml"):
        assert "other characters" in lab.refused(words)


# Makes what micromamba leaves: a prefix with a Python, and a record of each package.
MICROMAMBA = """#!/bin/sh
set -e
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=$2 ;;
        --file) file=$2 ;;
    esac
    shift
done
if grep -q dependencies "$file"; then
    url=https://conda.example.org/linux-64/python-3.11.2-0.conda
else
    url=$(grep -o 'https:[^#]*python[^#]*' "$file")
fi
python3 -m venv "$prefix"
mkdir "$prefix/conda-meta"
printf '{"url": "%s", "md5": "0123456789abcdef0123456789abcdef"}' "$url" >"$prefix/conda-meta/python.json"
"""


@pytest.mark.slow
def test_a_conda_environment_with_a_stand_in_of_micromamba(lab: Lab) -> None:
    prefix = lab.user.prefix
    lab.write("micromamba", MICROMAMBA)
    lab.write(
        "base.def",
        f"Bootstrap: localimage\nFrom: {BASE}\n%files\n    micromamba /usr/local/bin/micromamba\n"
        "%post\n    chmod 755 /usr/local/bin/micromamba\n",
    )
    lab.user.run("singularity build base.sif base.def")
    lab.write("environment.yml", "name: thesis\nchannels: [conda-forge]\ndependencies: [python=3.11]\n")
    module = lab.install("environment.yml", base=prefix / "base.sif")
    assert module.startswith("thesis/1.0-python-3.11-singularity-")
    python = "import sys; print(sys.prefix, sys.version_info[:2])"
    assert lab.user.out(f"module load {module}; python -c '{python}'") == "/user-software/venv/thesis (3, 11)"
    assert lab.user.out(f"module load {module}; singularity exec $SIF /opt/thesis/bin/python -c 'print(6 * 7)'") == "42"
    (lock,) = (lab.user.installdir(module) / "share/docker-defs").glob("*.conda.txt")
    assert lock.read_text().splitlines()[1:] == [
        "@EXPLICIT",
        "https://conda.example.org/linux-64/python-3.11.2-0.conda#0123456789abcdef0123456789abcdef",
    ]
