"""The site's caches, resolved in Slurm's jobs: by commands, by runscripts, and by modules for `singularity exec`."""

import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_module_tcl import INIT

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, TESTBED, User, make_user

LOAD = f"module load {DEMO_MODULE}"
SHOW = '-c \'import os; print([os.environ.get(n) for n in ("HF_HOME", "PIP_CACHE_DIR")])\''
NONE = "[None, None]"


@dataclass(frozen=True)
class Cluster:
    """A user on a cluster whose site has caches below `scratch`, by account and user."""

    user: User
    scratch: Path
    syntax: str

    def project(self, name: str) -> Path:
        """Make the folder of a project; return that of the user in it, which is not there yet."""
        (self.scratch / name).mkdir(parents=True)
        return self.scratch / name / self.user.out("echo $USER")


@pytest.fixture(scope="module", params=["Lua", pytest.param("Tcl", marks=pytest.mark.slow)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    top = tmp_path_factory.mktemp("caches")
    (top / "site.toml").write_text(
        f'image_repositories = ["{TESTBED}/images"]\n[cache]\n'
        f'root = "{top}/scratch/${{SLURM_JOB_ACCOUNT}}/${{USER}}"\nHF_HOME = "huggingface"\nPIP_CACHE_DIR = "pip"\n'
    )
    user = make_user(top / "eb", SIFMOD_SITE=str(top / "site.toml"))
    user.eb(DEMO_EASYCONFIG, f"--module-syntax={request.param}")
    return Cluster(user, top / "scratch", request.param)


def said(text: str) -> str:
    """Return what Lmod has wrapped on one line."""
    return " ".join(text.split())


def below(root: Path) -> str:
    return str([f"{root}/huggingface", f"{root}/pip"])


def modes(root: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in (root, root / "huggingface", root / "pip")}


@pytest.mark.some(1)
@pytest.mark.parametrize("python", ["python", "singularity exec $SIF conda-python-simple"])
def test_a_job_resolves_its_account_on_the_node(cluster: Cluster, python: str) -> None:
    """The module is loaded where there is no job yet."""
    name = f"resolved-{len(python)}"
    root = cluster.project(name)
    found = cluster.user.out(f"{LOAD}; srun -A {name} -N2 -n4 {python} {SHOW}")
    assert found.splitlines() == [below(root)] * 4
    assert modes(root) == {0o700}


def test_a_module_that_a_job_loads_serves_singularity_exec(cluster: Cluster) -> None:
    root = cluster.project("in-job")
    in_job = f"srun -A in-job bash -c '{LOAD}; singularity exec $SIF python \"$@\"' job {SHOW}"
    done = cluster.user.run(in_job)
    assert done.stdout.strip() == NONE
    assert f"'{root}' does not exist" in said(done.stderr)
    cluster.user.run(f"{LOAD}; srun -A in-job python -V")
    done = cluster.user.run(in_job)
    assert done.stdout.strip() == str([f"{root}/huggingface", None])
    assert "does not exist" not in said(done.stderr)


def test_pip_in_the_container_has_the_job_s_cache(cluster: Cluster) -> None:
    root = cluster.project("pip")
    found = cluster.user.out(f"{LOAD}; srun -A pip singularity exec $SIF pip --disable-pip-version-check cache dir")
    assert found == f"{root}/pip"
    assert cluster.user.out(f"{LOAD}; srun -A pip pip --disable-pip-version-check cache dir") == f"{root}/pip"


def test_the_job_s_account_counts_and_not_that_of_the_shell_that_loaded(cluster: Cluster) -> None:
    old, new = cluster.project("old"), cluster.project("new")
    old.mkdir(mode=0o700)
    loaded = f"export SLURM_JOB_ACCOUNT=old; {LOAD}"
    assert cluster.user.out(f"{loaded}; echo $HF_HOME") == f"{old}/huggingface"
    assert cluster.user.out(f"{loaded}; srun -A new python {SHOW}") == below(new)
    assert cluster.user.out(f"{loaded}; srun -A new singularity exec $SIF conda-python-simple {SHOW}") == below(new)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "python", ["python", "singularity exec $SIF conda-python-simple", "singularity exec $SIF python"]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_user_s_own_values_are_kept(cluster: Cluster, python: str, when: str) -> None:
    name = f"own-{len(python)}-{when}"
    cluster.project(name).mkdir(mode=0o700)
    own = "export HF_HOME=/my/own PIP_CACHE_DIR=/tmp"
    first, then = (own, LOAD) if when == "before" else (LOAD, own)
    found = cluster.user.out(f"export SLURM_JOB_ACCOUNT={name}; {first}; {then}; srun -A {name} {python} {SHOW}")
    assert found == "['/my/own', '/tmp']"


@pytest.mark.some(1)
@pytest.mark.parametrize("python", ["python", "singularity exec $SIF conda-python-simple"])
def test_a_job_without_an_account_has_a_warning_and_the_defaults(cluster: Cluster, python: str) -> None:
    done = cluster.user.run(f"{LOAD}; srun {python} {SHOW}")
    assert done.stdout.strip() == NONE
    assert "SLURM_JOB_ACCOUNT is not set, so caches are in their default places" in done.stderr
    assert not [path for path in cluster.scratch.glob("*") if path.name == cluster.user.out("echo $USER")]


@pytest.mark.parametrize("own", ["", "export HF_HOME=/own; "])
def test_unloading_restores_the_environment(cluster: Cluster, own: str) -> None:
    name = f"unloaded-{len(own)}"
    cluster.project(name).mkdir(mode=0o700)
    kept = "env | grep -E '^(HF_HOME|__SIFMOD_CACHE|__SIFMOD_STACK_HF_HOME)=' || true"
    for tool in ("", INIT) if cluster.syntax == "Tcl" else ("",):
        setup = f"{tool}\nexport SLURM_JOB_ACCOUNT={name}; {own}"
        before = cluster.user.out(f"{setup} {kept}")
        assert "__SIFMOD_CACHE" in cluster.user.out(f"{setup} {LOAD}; {kept}")
        assert cluster.user.out(f"{setup} {LOAD}; module unload Python; {kept}") == before
        assert cluster.user.out(f"{setup} {LOAD}; {LOAD}; module unload Python; {kept}") == before
        left = f"{setup} {LOAD}; export SLURM_JOB_ACCOUNT=gone; module unload Python; {kept}"
        assert cluster.user.out(left) == before


def test_the_site_s_check_resolves_the_root_in_a_job(cluster: Cluster) -> None:
    root = cluster.project("checked")
    assert f"{root}" in cluster.user.run("srun -A checked sifmod site check", check=False).stdout
    assert "SLURM_JOB_ACCOUNT is not set" in cluster.user.run("sifmod site check", check=False).stdout
