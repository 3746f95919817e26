"""uv in a container keeps what pip keeps: the image's packages are neither replaced nor installed twice."""

import hashlib
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import DEMO_MODULE, HEAD, IMAGES, QUICK_BUILDS, User, install_changed, make_user, make_wheel

LOAD = f"module load {DEMO_MODULE}"
FLAGS = "--no-index --no-cache"

OPTVENV = f"""Bootstrap: localimage
From: {IMAGES}/demo.sif
%post
    python3 -m venv /opt/venv
    site=$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
    mkdir $site/held-1.2.3.dist-info
    cd $site/held-1.2.3.dist-info
    printf 'Metadata-Version: 2.1\\nName: held\\nVersion: 1.2.3\\nProvides-Extra: net\\n' >METADATA
    printf 'Requires-Dist: plain<1.1; extra == "net"\\n' >>METADATA
    printf '[tools]\\none = held\\n' >entry_points.txt
"""


@dataclass(frozen=True)
class Python:
    """One of the three kinds of Python that an image can have, and a package in it."""

    parameters: str
    vendor: str
    version: str


PYTHONS = {
    "system": Python("sources = ['demo.sif']\npython_prefix = '/usr'\n", "demo-vendor", "1.2.3+site"),
    "conda": Python("sources = ['conda-demo.sif']\nconda_env = 'pytorch'\n", "torch", "2.2.0+rocm5.6"),
    "venv": Python("definition = 'Optvenv.def'\npython_prefix = '/opt/venv'\n", "held", "1.2.3"),
}


@dataclass(frozen=True)
class Case:
    """An installed container, an index with a newer release of a package of its image, and its user."""

    python: Python
    user: User
    index: Path

    @property
    def site_packages(self) -> Path:
        return self.user.installdir("Demo/1.0") / "user-software/venv/mine/lib/python3.11/site-packages"

    def state(self) -> set[str]:
        """Return what is installed, without what Python and uv add while they run."""
        return {path.name for path in self.site_packages.iterdir() if path.name != "__pycache__"}

    def run(self, command: str, *, status: int = 0) -> str:
        done = self.user.run(f"module load Demo/1.0; {command}", status=status)
        return done.stdout + done.stderr

    def uv(self, words: str, *, status: int = 0) -> str:
        return self.run(f"uv pip install {FLAGS} --find-links {self.index} {words}", status=status)

    def version(self) -> str:
        show = f"import importlib.metadata as m; print(m.version({self.python.vendor!r}))"
        return self.user.out(f"module load Demo/1.0; python -c {shlex.quote(show)}")


def make_index(folder: Path, vendor: str) -> Path:
    folder.mkdir()
    make_wheel(folder, vendor, "9.0", "")
    make_wheel(folder, "needs-vendor", "1.0", "", requires=(vendor,))
    make_wheel(folder, "needs-newer", "1.0", "", requires=(f"{vendor}>=9",))
    make_wheel(folder, "picky", "1.0", "", requires=(vendor,))
    make_wheel(folder, "picky", "1.1", "", requires=(f"{vendor}>=9",))
    for version in ("1.0", "1.1"):
        make_wheel(folder, "plain", version, "")
    return folder


@pytest.fixture(
    scope="module", params=["system", *(pytest.param(where, marks=pytest.mark.slow) for where in ("venv", "conda"))]
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    python = PYTHONS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    user = make_user(folder / "eb", **QUICK_BUILDS)
    (user.prefix / "Optvenv.def").write_text(OPTVENV)
    (user.prefix / "Demo-1.0.eb").write_text(f"{HEAD}venv = 'mine'\n{python.parameters}")
    user.eb(str(user.prefix / "Demo-1.0.eb"))
    yield Case(python, user, make_index(folder / "index", python.vendor))
    shutil.rmtree(folder, ignore_errors=True)


def test_what_the_image_has_is_kept_and_what_needs_another_version_is_refused(case: Case) -> None:
    new = case.state()
    vendor, version = case.python.vendor, case.python.version
    case.uv("needs-vendor")
    assert case.state() - new == {"needs_vendor.py", "needs_vendor-1.0.dist-info"}
    assert f"{vendor}=={version}" in case.run("uv pip freeze")
    assert "needs-vendor" in case.run(f"uv pip tree --invert --package {vendor}")
    assert "All installed packages are compatible" in case.run("uv pip check")
    assert f"{vendor} is a package of the image" in case.run(f"uv pip uninstall {vendor}", status=2)

    before = case.state()
    said = case.uv("needs-newer", status=1)
    for part in (f"{vendor}>=9", f"{vendor}=={version}", "the image's packages keep their versions"):
        assert part in said
    for words in (
        f"{vendor}==9.0",
        f"-U '{vendor}>8'",
        f"{case.index}/{vendor.replace('-', '_')}-9.0-py3-none-any.whl",
    ):
        assert f"{vendor}=={version}" in case.uv(words, status=1)
    assert case.state() == before

    # the newest release that goes with the image, and it stays so
    for words in ("picky", "-U picky", "--reinstall-package picky picky needs-vendor", f"-U {vendor} picky"):
        case.uv(words)
        assert case.state() - before == {"picky.py", "picky-1.0.dist-info"}
    assert case.version() == version


def test_one_command_can_opt_out(case: Case) -> None:
    vendor = case.python.vendor
    command = f"uv pip install {FLAGS} --find-links {case.index} {vendor}"
    case.run(f"start-shell -c 'UV_EXCLUDE= {command}'")
    assert case.version() == "9.0"
    case.run(f"uv pip uninstall {vendor}")
    assert case.version() == case.python.version


@pytest.mark.slow
@pytest.mark.parametrize("case", ["venv"], indirect=True)
def test_what_an_extra_of_the_image_s_package_needs_is_installed(case: Case) -> None:
    before = case.state()
    case.uv("'held[net]'")
    assert case.state() - before == {"plain.py", "plain-1.0.dist-info"}
    show = "import importlib.metadata as m; print([one.name for one in m.entry_points(group='tools')])"
    assert case.run(f"python -c {shlex.quote(show)}") == "['one']\n"
    case.run("uv pip uninstall plain")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_index(tmp_path_factory.mktemp("index") / "demo-vendor", "demo-vendor")


def there(user: User) -> set[str]:
    """Return the names of the packages in user software."""
    folder = user.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages"
    return {path.name.partition("-")[0] for path in folder.glob("*.dist-info")} - {"pip", "setuptools"}


@pytest.mark.slow
def test_uv_of_the_image(own_demo: User, index: Path) -> None:
    uv = f"singularity exec -B {shutil.which('uv')}:/usr/local/bin/uv $SIF uv pip install {FLAGS} -f {index}"
    own_demo.run(f"{LOAD}; {uv} needs-vendor")
    host = f"{own_demo.installdir(DEMO_MODULE)}/user-software/venv/demo"
    for words in ("needs-newer", f"--python {host}/bin/python demo-vendor==9.0", f"-p{host} demo-vendor==9.0"):
        assert own_demo.run(f"{LOAD}; {uv} {words}", check=False).returncode == 1
    for words in (
        f"uv pip install {FLAGS} -f {index} --target {host}/lib/python3.11/site-packages demo-vendor",
        f"pip install --no-index -f {index} --prefix {host} plain",
        f"uv venv --clear {host}",
        f"UV_PROJECT_ENVIRONMENT={host} uv venv --clear",
        "uv venv --clear /user-software/venv/demo/../demo",
    ):
        done = own_demo.run(f"{LOAD}; {words}", status=1 if words.startswith("pip") else 2)
        assert "the user software, wh" in done.stderr
    assert there(own_demo) == {"needs_vendor"}


@pytest.mark.slow
def test_uv_of_the_user_software(own_demo: User, index: Path) -> None:
    bin_folder = own_demo.installdir(DEMO_MODULE) / "user-software/venv/demo/bin"
    shutil.copy(str(shutil.which("uv")), bin_folder / "uv")
    for uv in ("singularity exec $SIF uv", "uv", "start-shell -c 'uv \"$@\"' uv"):
        own_demo.run(f"{LOAD}; PATH=${{PATH//:*venv*:/:}}; {uv} pip install {FLAGS} -f {index} -U needs-vendor")
        refused = own_demo.run(f"{LOAD}; {uv} pip install {FLAGS} -f {index} needs-newer", status=1)
        assert "demo-vendor>=9" in refused.stderr
    # by its path it never replaces a package of the image, but does not see what needs another version
    exact = f"singularity exec $SIF /user-software/venv/demo/bin/uv pip install {FLAGS} -f {index}"
    own_demo.run(f"{LOAD}; {exact} -U --reinstall needs-vendor needs-newer")
    assert there(own_demo) == {"needs_vendor", "needs_newer"}


@pytest.mark.slow
def test_requirements_from_pipes_are_read(own_demo: User, index: Path) -> None:
    uv = f"uv pip install {FLAGS} -f {index}"
    own_demo.run(f"{LOAD}; printf 'plain==1.0\\nneeds-vendor\\n' | {uv} -r -")
    assert there(own_demo) == {"plain", "needs_vendor"}
    own_demo.run(f'{LOAD}; start-shell -c "{uv} -qr <(echo picky) -c <(echo picky==1.0)"')
    assert there(own_demo) == {"plain", "needs_vendor", "picky"}
    own_demo.run(f"{LOAD}; echo needs-newer | {uv} -r -", status=1)


@pytest.mark.slow
def test_the_user_s_own_settings_count(own_demo: User, index: Path, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("plain<1.1\n")
    (tmp_path / "x.txt").write_text("needs-vendor\n")
    env = f"UV_FIND_LINKS={index} UV_CONSTRAINT={tmp_path}/c.txt UV_NO_CACHE=1"
    own_demo.run(f"{LOAD}; {env} uv --color always pip install --no-index plain picky")
    packages = own_demo.out(f"{LOAD}; uv pip list --format=freeze").splitlines()
    assert {"plain==1.0", "picky==1.0", "demo-vendor==1.2.3+site"} <= set(packages)
    own_demo.run(f"{LOAD}; {env} uv pip install --no-index --excludes {tmp_path}/x.txt needs-vendor demo-vendor")
    assert there(own_demo) == {"plain", "picky"}


def test_no_copy_of_the_image_s_packages_stays(own_demo: User, index: Path) -> None:
    """Neither from a lock, which uv installs as it is, nor of the version that the image has."""
    lock, wheel = own_demo.prefix / "pylock.toml", index / "demo_vendor-9.0-py3-none-any.whl"
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(
        'lock-version = "1.0"\ncreated-by = "uv"\n[[packages]]\nname = "demo-vendor"\nversion = "9.0"\n'
        f'wheels = [{{ path = "{wheel}", hashes = {{ sha256 = "{sha256}" }} }}]\n'
    )
    same = make_wheel(own_demo.prefix, "demo-vendor", "1.2.3+site", "")
    for words, status in ((f"-r {lock}", 1), (f"--reinstall -f {own_demo.prefix} -f {index} needs-vendor {same}", 0)):
        done = own_demo.run(f"{LOAD}; uv pip install {FLAGS} {words}", status=status)
        assert done.stderr.endswith("uv: removed again, as the image has it: demo-vendor\n")
    done = own_demo.run(f"{LOAD}; uv pip sync r.txt", status=2)
    assert "uv pip install -r FILE" in done.stderr
    assert there(own_demo) == {"needs_vendor"}


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A source that waits, while it is built, for a file `go` beside it, and tells by a file `begun` that it does."""
    source = tmp_path / "slow"
    source.mkdir()
    wheel = make_wheel(tmp_path, "slow", "1.0", "")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        '[project]\nname = "slow"\nversion = "1.0"\n'
    )
    (source / "own.py").write_text(
        "import os, shutil, time\n"
        "def build_wheel(folder, *_):\n"
        f"    open('{tmp_path}/begun', 'w').close()\n"
        f"    while not os.path.exists('{tmp_path}/go'): time.sleep(0.05)\n"
        f"    return shutil.copy('{wheel}', folder).rpartition('/')[2]\n"
    )
    return source


def test_one_install_waits_for_another_and_nothing_else_sees_stubs(own_demo: User, index: Path, slow: Path) -> None:
    begun = f"while [[ ! -e {slow.parent}/begun ]]; do sleep 0.1; done"
    show = "import importlib.metadata as m; print(m.version('demo-vendor'))"
    script = f"""{LOAD}
        uv pip install {FLAGS} {slow} & {begun}
        make-squashfs; echo "status $?"
        list-packages --check; python -c {shlex.quote(show)}; carry-over $CONTAINERROOT
        pip install --no-index -f {index} plain & uv pip install {FLAGS} -f {index} picky & sleep 2
        touch {slow.parent}/go; wait
        make-squashfs --remove-directory; cat $CONTAINERROOT/user-software.txt
    """
    done = own_demo.run(script)
    for tool in ("pip", "uv"):
        assert re.search(rf"{tool}: waits for uv of \w+ on .* \(process \d+\) to finish", done.stderr)
    assert "an install is running in" in done.stderr
    assert "status 7\n" in done.stdout
    assert "0 packages of user software" in done.stdout or "no packages" in done.stdout
    assert "\n1.2.3+site\n" in done.stdout
    assert "picky==1.0\nplain==1.1\nslow" in done.stdout


def test_stubs_that_a_killed_uv_leaves_go_and_are_not_packed(own_demo: User, slow: Path) -> None:
    site = own_demo.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages"
    begin = f"""{LOAD}; cd {slow.parent}; rm -f begun go; uv pip install {FLAGS} {slow} &
        while [[ ! -e begun ]]; do sleep 0.1; done
        main=$(grep -o 'process [0-9]*' {site.parents[2]}/.sifmod-lock | grep -o '[0-9]*')
        """
    own_demo.run(f"{begin} kill -TERM $main; wait $! && exit 1; touch go")
    assert list(site.iterdir()) == []
    for then in ("uv pip list", "make-squashfs; unmake-squashfs"):
        own_demo.run(f"{begin} kill -KILL $main $(pgrep -P $main); wait; touch go")
        assert list(site.glob("demo_vendor-v*"))
        own_demo.run(f"{LOAD}; {then}")
        assert list(site.iterdir()) == []


@pytest.mark.slow
def test_tasks_of_a_step_install_once(own_demo: User, index: Path) -> None:
    install = f"pip install --no-index -f {index} --force-reinstall --no-deps plain"
    done = own_demo.run(f"{LOAD}; {install}; srun -n4 {install}; srun -n4 uv pip install {FLAGS} -f {index} picky")
    assert done.stdout.count("Successfully installed plain") == 2
    assert done.stderr.count("+ picky") == 1
    assert own_demo.run(f"{LOAD}; srun -n4 uv pip install {FLAGS} -f {index} needs-newer", check=False).returncode == 1
    assert there(own_demo) == {"plain", "picky"}


def test_a_project_is_refused_with_the_line_that_installs_it(own_demo: User, index: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "below").mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "project"\nversion = "1.0"\nrequires-python = ">=3.9"\ndependencies = ["needs-vendor"]\n'
        f"[tool.uv]\nno-index = true\nfind-links = ['{index}']\n"
    )
    host = f"{own_demo.installdir(DEMO_MODULE)}/user-software/venv/demo"
    own_demo.run(f"{LOAD}; cd {project}; uv lock")
    (project / ".venv").symlink_to(host)
    for words in (
        "uv sync",
        "unset VIRTUAL_ENV; uv --offline run python -c 1 --no-sync",
        f"UV_PROJECT_ENVIRONMENT={host} uv sync",
        "rm ../.venv; uv run --active python",
        "UV_PROJECT_ENVIRONMENT=/user-software/venv/demo uv sync",
        "uv add --active plain",
    ):
        said = own_demo.run(f"{LOAD}; cd {project}/below; {words}", status=2).stderr
    assert there(own_demo) == set()
    own_demo.run(f"{LOAD}; cd {project}; {said.partition('type: ')[2]}")
    assert there(own_demo) == {"needs_vendor", "plain"}
    show = "import demo_vendor, plain, sys; print(demo_vendor.__file__)"
    done = own_demo.run(f"{LOAD}; cd {project}; uv run --active --no-sync python -c '{show}'")
    assert done.stdout == "/usr/lib/python3/dist-packages/demo_vendor/__init__.py\n"
    # an environment of its own
    own_demo.run(f"{LOAD}; cd {project}; uv sync; .venv/bin/python -c 'import demo_vendor'")


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["poetry", "pdm"])
def test_what_can_not_keep_the_image_s_packages_is_refused(own_demo: User, tmp_path: Path, tool: str) -> None:
    entry = "import sys; print('the tool', *sys.argv[1:])"
    make_wheel(tmp_path, tool, "1.0", "", scripts={tool: f"#!python\n{entry}\n"})
    own_demo.run(f"{LOAD}; pip install --no-index --find-links {tmp_path} {tool}")
    for start in (tool, f"singularity exec $SIF {tool}"):
        done = own_demo.run(f"{LOAD}; {start} -C . install -v", status=2)
        assert "type in its folder: pip install -e . " in done.stderr
        assert f"env -u VIRTUAL_ENV {tool} -C . install -v" in done.stderr
        for words in ("install --dry-run", "lock", "--version"):
            assert own_demo.out(f"{LOAD}; {start} {words}") == f"the tool {words}"
    assert own_demo.out(f"{LOAD}; start-shell -c 'UV_EXCLUDE= {tool} install'") == "the tool install"


@pytest.mark.slow
def test_a_build_may_use_another_version_than_the_image_s(own_demo: User, index: Path, tmp_path: Path) -> None:
    source = tmp_path / "built"
    source.mkdir()
    wheel = make_wheel(tmp_path, "built", "1.0", "")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["demo-vendor==9.0"]\nbuild-backend = "own"\nbackend-path = ["."]\n'
        '[project]\nname = "built"\nversion = "1.0"\n'
    )
    (source / "own.py").write_text(
        "import importlib.metadata, shutil\n"
        "def build_wheel(folder, *_):\n"
        "    assert importlib.metadata.version('demo-vendor') == '9.0'\n"
        f"    return shutil.copy({str(wheel)!r}, folder).rpartition('/')[2]\n"
    )
    own_demo.run(f"{LOAD}; uv pip install {FLAGS} -f {index} {source}")
    assert there(own_demo) == {"built"}


@pytest.mark.slow
def test_another_environment_gets_what_it_asks_for(own_demo: User, index: Path) -> None:
    script = f"""{LOAD}; start-shell -c '
        uv venv --quiet --no-cache own && VIRTUAL_ENV=$PWD/own uv pip install {FLAGS} -f {index} needs-newer
        uv pip install {FLAGS} -f {index} -p own/bin/python plain
        uv pip install {FLAGS} -f {index} --target there demo-vendor
    '"""
    own_demo.run(script)
    folder = own_demo.prefix / "own/lib/python3.11/site-packages"
    assert {path.name for path in folder.glob("*.py")} >= {"demo_vendor.py", "needs_newer.py", "plain.py"}
    assert (own_demo.prefix / "there/demo_vendor.py").is_file()
    assert there(own_demo) == set()


@pytest.mark.slow
@pytest.mark.parametrize("lacks", [False, True], ids=["uv", "no-uv"])
def test_eb_and_carry_over_install_with_uv_where_the_site_says_so(tmp_path: Path, index: Path, lacks: bool) -> None:
    user = make_user(tmp_path / "eb", SIFMOD_INSTALLER="uv", UV_FIND_LINKS=str(index), PIP_FIND_LINKS=str(index))
    (tmp_path / "uv.toml").write_text("no-index = true\n")
    user.env.update(UV_CONFIG_FILE=str(tmp_path / "uv.toml"), PIP_NO_INDEX="1")
    if lacks:
        # everything of the testbed but uv
        (tmp_path / "bin").mkdir()
        for program in Path(str(shutil.which("uv"))).parent.iterdir():
            if program.name != "uv":
                (tmp_path / "bin" / program.name).symlink_to(program)
        user.env.update(PATH=f"{tmp_path}/bin:/usr/bin:/bin", EB_PYTHON=sys.executable)
    done = install_changed(user, "pip_requirements = ['needs-vendor', 'picky']\n")
    assert done.returncode == 0, done.stdout
    assert f"installing needs-vendor, picky with {'pip' if lacks else 'uv'}" in done.stdout
    assert there(user) == {"needs_vendor", "picky"}

    (tmp_path / "list.txt").write_text("plain==1.0\nneeds-newer==1.0\n")
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone/uv.toml").write_text("[")  # somebody else's: read, it would be an error
    there_too = f"unset UV_CONFIG_FILE; export UV_OFFLINE=1; cd {tmp_path}/clone"
    carried = user.run(f"{LOAD}; {there_too}; carry-over ../list.txt", status=10)
    assert carried.stdout.splitlines()[-1] == "Could not be carried over: needs-newer==1.0"
    assert ("Using pip instead of uv." in carried.stdout) == lacks
    assert there(user) == {"needs_vendor", "picky", "plain"}


@pytest.mark.slow
def test_pip_and_uv_say_that_the_user_software_is_packed(extended: User, index: Path) -> None:
    extended.run(f"{LOAD}; make-squashfs")
    host = f"{extended.installdir(DEMO_MODULE)}/user-software/venv/demo"
    for words, again in (
        ("pip install --user x", "pip install x"),
        (f"UV_PYTHON={host}/bin/python uv pip install x", "uv pip install x"),
    ):
        done = extended.run(f"{LOAD}; {words}", check=False)
        assert f"host: make-squashfs --remove-directory; add-layer; {again}; make-squashfs\n" in done.stderr
    extended.run(f"{LOAD}; make-squashfs --remove-directory")
    for tool in ("pip", "pip3", "singularity exec $SIF pip", "uv pip", "start-shell -c 'uv pip \"$@\"' uv"):
        for words in (f"install --no-index --find-links {index} plain", "uninstall greeting"):
            done = extended.run(f"{LOAD}; {tool} {words}", status=2 if "uv" in tool else 1)
            assert "the user software is packed" in done.stderr
            assert ("add-layer; " in done.stderr) == ("install" in words.split())
            assert ("unmake-squashfs; " in done.stderr) == ("uninstall" in words.split())
    extended.run(f"{LOAD}; pip install --no-index --find-links {index} --target there plain; uv pip list; pip list")
    assert (extended.prefix / "there/plain.py").is_file()


def test_pip_refuses_the_home(own_demo: User, wheel: Path) -> None:
    for pip in ("pip", "python -m pip", "singularity exec $SIF pip"):
        done = own_demo.run(f"{LOAD}; {pip} install --user {wheel}", status=1)
        assert "/.local/lib/python3.11/site-packages" in done.stderr
        assert f"type: pip install {wheel}" in done.stderr
