"""What a site's settings do to installed modules, and sites whose EasyBuild is a module."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.programs import write_file, write_program

import sifmod
from conftest import DEMO_EASYCONFIG, DEMO_MODULE, TESTBED, User, make_user

ROOT = Path(__file__).resolve().parents[2]
MODULECMD = TESTBED / "environment-modules/usr/lib/x86_64-linux-gnu/modulecmd.tcl"
SIFMOD_EASYCONFIG = ROOT / "easyconfigs" / "s" / "sifmod" / f"sifmod-{sifmod.__version__}.eb"


def use_site(user: User, text: str) -> Path:
    path = write_file(user.prefix / "our site.toml", f'image_repositories = ["{TESTBED}/images"]\n{text}')
    user.env["SIFMOD_SITE"] = str(path)
    return path


def test_a_site_s_packing_reaches_installed_commands_by_module_only(own_demo: User) -> None:
    use_site(own_demo, 'pack_compressor = "gzip"\npack_level = 1\npack_block_size = "64K"\npack_processors = 1\n')
    own_demo.eb(DEMO_EASYCONFIG, "--module-only", "--rebuild")
    own_demo.run(f"module load {DEMO_MODULE}; make-squashfs")
    facts = own_demo.out(f"unsquashfs -s {own_demo.installdir(DEMO_MODULE)}/user-software.squashfs")
    assert "Compression gzip" in facts
    assert "compression-level 1" in facts
    assert "Block size 65536" in facts


def test_a_wrong_site_stops_an_install_with_file_line_and_remedy(user: User) -> None:
    path = use_site(user, '\nbinds = [\n  "/tmp",\n  "registry.example.org:5000",\n]\n')
    done = user.eb(DEMO_EASYCONFIG, check=False)
    assert done.returncode != 0
    assert f"'{path}', line 5," in done.stdout
    assert "'registry.example.org:5000' is the name of a host" in done.stdout
    assert not user.installdir(DEMO_MODULE).exists()


def test_check_finds_the_testbed_s_tools_and_partition(user: User) -> None:
    partition = user.out("sinfo --noheader --format=%R | head -n 1")
    use_site(user, f'slurm_partition = "{partition}"\nbinds = ["/tmp"]\n')
    done = user.run("sifmod site check --json", check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["problems"]) == (0, 0), report
    found = {finding["topic"] for finding in report["findings"] if finding["severity"] == "ok"}
    assert found == {"runtime", "binds", "image_repositories", "squashfs-tools", "pack_compressor", "slurm_partition"}
    use_site(user, 'slurm_partition = "no-such"\n')
    done = user.run("sifmod site check", status=1)
    assert f"choose one of {partition}" in done.stdout


# An EasyBuild without sifmod in its environment, as where EasyBuild is a module


@dataclass
class ModuleUser:
    """A user on a cluster whose EasyBuild is a module, and who has no pip."""

    user: User
    path: str

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.user.run(f"export PATH={self.path}; unset EASYBUILD_ROBOT_PATHS\n{script}", check=check)

    def out(self, script: str) -> str:
        return self.run(script).stdout.rstrip("\n")


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of sifmod's own easyconfig: a wheel of the checkout, and from the package index what it needs."""
    folder = tmp_path_factory.mktemp("sources")
    checkout = tmp_path_factory.mktemp("checkout") / "sifmod"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    pip = ["python", "-m", "pip", "--disable-pip-version-check"]
    flags = ["--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *flags, "--wheel-dir", str(folder), str(checkout)], check=True)
    for name in re.findall(r"'filename': '([^']+)'", SIFMOD_EASYCONFIG.read_text()):
        kind = "--only-binary" if name.endswith(".whl") else "--no-binary"
        anywhere = ["--platform", "any", "--python-version", "3.12"] if name.endswith(".whl") else []
        ((project, version),) = re.findall(r"^(.+?)-([0-9.]*[0-9])[-.]", name)
        command = [*pip, "download", *flags, kind, ":all:", *anywhere, "--dest", str(folder), f"{project}=={version}"]
        subprocess.run(command, check=True)
        assert (folder / name).is_file()
    return folder


@pytest.fixture
def cluster(tmp_path: Path) -> ModuleUser:
    prefix = tmp_path / "EasyBuild"
    site_packages = Path(shutil.which("eb") or "").parents[1] / "lib" / "python3.11" / "site-packages"
    shutil.copytree(site_packages / "easybuild", prefix / "lib" / "easybuild")
    (prefix / "lib" / "easybuild" / "easyblocks" / "generic" / "containerimage.py").unlink()
    shutil.rmtree(prefix / "lib" / "easybuild" / "easyconfigs")  # sifmod's
    shutil.copytree(site_packages.parents[2] / "easybuild" / "scripts", prefix / "easybuild" / "scripts")
    write_file(prefix / "easybuild" / "easyconfigs" / "t" / "toy" / "toy-0.0.eb", "easyblock = 'Toy'\n")
    # an older library than sifmod needs, as Debian 12 and Enterprise Linux 9 have it among their own
    write_file(prefix / "lib" / "packaging" / "__init__.py", "__version__ = '23.0'\n")
    (prefix / "lib" / "packaging" / "utils.py").write_text("canonicalize_name = str.lower\n")
    write_program(
        prefix / "bin" / "eb",
        f'#!/bin/sh\nexport PYTHONPATH={prefix}/lib${{PYTHONPATH:+:$PYTHONPATH}} EB_SCRIPT_PATH="$0"\n'
        'exec /usr/bin/python3 -m easybuild.main "$@"\n',
    )
    return ModuleUser(make_user(tmp_path / "eb"), f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_sifmod_as_a_module_serves_an_easybuild_that_is_one(cluster: ModuleUser, sources: Path, syntax: str) -> None:
    module = f"sifmod/{sifmod.__version__}"
    assert cluster.run(f"cd /; eb {DEMO_EASYCONFIG}", check=False).returncode != 0
    cluster.run(f"cd /; eb --module-syntax={syntax} --sourcepath={sources} {SIFMOD_EASYCONFIG}")
    done = cluster.run(f"cd /; module load {module}; eb {DEMO_EASYCONFIG}")
    assert "WARNING" not in done.stdout + done.stderr
    assert cluster.user.modulefile(DEMO_MODULE).is_file()
    use = f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import sys; print(sys.prefix)'"
    assert cluster.out(use) == "/user-software/venv/demo"
    # sifmod's command, from its module alone
    assert cluster.out(f"module load {module}; command -v sifmod; sifmod --version").splitlines() == [
        f"{cluster.user.prefix}/software/{module}/bin/sifmod",
        f"sifmod, version {sifmod.__version__}",
    ]
    assert "lumi" in cluster.out(f"module load {module}; sifmod site list")
    assert "LUMI" in cluster.out(f"module load {module}; TERM=xterm script -qc 'sifmod site list' /dev/null")
    # beside a container, whose `python3` is not the command's and which keeps its own libraries
    beside = cluster.out(f"module load {module} {DEMO_MODULE}; type -P python3; sifmod --version; python -m site")
    assert beside.startswith(f"{cluster.user.installdir(DEMO_MODULE)}/bin/python3\nsifmod, version")
    assert f"/{module}/python" not in beside
    # EasyBuild's own easyconfigs stay in force, and nothing but sifmod's come with them
    config = cluster.out(f"cd /tmp; module load {module}; eb --show-config | grep robot-paths")
    easybuild = cluster.path.partition("/bin:")[0]
    assert config.partition("= ")[2].split(", ") == [
        f"{easybuild}/easybuild/easyconfigs",
        f"{cluster.user.prefix}/software/{module}/python/easybuild/easyconfigs",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_sifmod_s_module_leaves_the_environment_as_it_was(cluster: ModuleUser, sources: Path, syntax: str) -> None:
    module = f"sifmod/{sifmod.__version__}"
    cluster.run(f"cd /; eb --module-syntax={syntax} --sourcepath={sources} {SIFMOD_EASYCONFIG}")
    init = ""
    if syntax == "Tcl":
        init = f'module() {{ eval "$(tclsh {MODULECMD} bash "$@")"; }}; export MODULESHOME=; '
    own = (
        "export EASYBUILD_ROBOT_PATHS=/a:/b EASYBUILD_INCLUDE_EASYBLOCKS=/c.py,/d.py SIFMOD_PYTHONPATH=/e "
        "EASYBUILD_ALLOW_LOADED_MODULES=EasyBuild,other"
    )
    root = f"{cluster.user.prefix}/software/{module}"
    show = "env | grep -E '^(EASYBUILD_(ROBOT|INCLUDE|ALLOW)|PYTHONPATH|PATH|LD_LIBRARY_PATH|SIFMOD|__SIFMOD)' | sort"
    for settings, robot_paths, allowed in (
        ("", f":{root}/python/easybuild/easyconfigs", "EasyBuild,sifmod"),
        (own, f"/a:/b:{root}/python/easybuild/easyconfigs", "EasyBuild,other,sifmod"),
    ):
        begin = f"{init}{settings}\n"
        before = cluster.out(f"{begin}{show}")
        loaded = cluster.out(f"{begin}module load {module}\n{show}")
        assert f"EASYBUILD_ROBOT_PATHS={robot_paths}" in loaded.splitlines()
        assert f"EASYBUILD_ALLOW_LOADED_MODULES={allowed}" in loaded.splitlines()
        assert f"EASYBUILD_INCLUDE_EASYBLOCKS={root}/python/easybuild/easyblocks/generic/containerimage.py" in loaded
        assert f"SIFMOD_PYTHONPATH={root}/python" in loaded
        assert f"PATH={root}/bin:" in loaded
        assert not re.search(r"^(PYTHONPATH|LD_LIBRARY_PATH)=", loaded, re.MULTILINE)
        assert cluster.out(f"{begin}module load {module}; module load {module}\n{show}") == loaded
        assert cluster.out(f"{begin}module load {module}; module unload {module}\n{show}") == before
