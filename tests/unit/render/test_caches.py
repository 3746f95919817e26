"""The site's caches: commands, runscripts, both kinds of modules and `sifmod site check` resolve them by one rule."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import ran

from sifmod.container.spec import ContainerSpec
from sifmod.host.owners import problem_of_way
from sifmod.resources import data_path
from sifmod.site import cache
from sifmod.site.settings import Site

from ..support import Need, a_site
from .running import AS_ANOTHER, STEP, Done, Load, Runscript, Wrapper, variables_of
from .test_own_folder import own_folder

FOLDERS = {"HF_HOME": "huggingface", "PIP_CACHE_DIR": "pip", "TRITON_CACHE_DIR": "torch/triton"}

IN_JOB = {"SLURM_JOB_ACCOUNT": "project 1", "USER": "ann"}

SYNTAXES = pytest.mark.parametrize("syntax", ["Lua", "Tcl"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "scratch" / "project 1").mkdir(parents=True)
    return a_site(cache={"root": f"{tmp_path}/scratch/${{SLURM_JOB_ACCOUNT}}/${{USER}}", **FOLDERS})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the folder that a job of the user's has; it is not there yet."""
    return tmp_path / "scratch" / "project 1" / "ann"


@pytest.fixture
def simple(launcher: Callable[[str], Runscript]) -> Runscript:
    return launcher("conda-python-simple")


def caches_of(variables: dict[str, str]) -> dict[str, str]:
    return {name: variables[name] for name in FOLDERS if name in variables}


def below(root: Path) -> dict[str, str]:
    return {name: f"{root}/{folder}" for name, folder in FOLDERS.items()}


def call(wrapper: Wrapper, site: Site, **environ: str) -> tuple[Done, dict[str, str]]:
    """Call a command of the host; return what it printed, and the variables that the container inherits."""
    done = wrapper.run("python", site=site, environ=environ)
    assert done.returncode == 0, done.stderr
    return done, wrapper.fake.calls[-1]["env"]


def run(script: Runscript, site: Site, gpu: str = "", **environ: str) -> tuple[Done, dict[str, str]]:
    done = replace(script, site=site).run(gpu=gpu, **environ)
    assert done.returncode == 0, done.stderr
    return done, variables_of(done.stdout.split("\0"))


def test_a_command_makes_the_folders_for_the_user_alone(wrapper: Wrapper, site: Site, root: Path) -> None:
    done, variables = call(wrapper, site, **IN_JOB)
    assert done.stderr == ""
    assert caches_of(variables) == below(root)
    folders = [root, *(root / folder for folder in FOLDERS.values()), root / "torch"]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_a_runscript_does_the_same(simple: Runscript, site: Site, root: Path) -> None:
    done, variables = run(simple, site, **IN_JOB)
    assert done.stderr == ""
    assert caches_of(variables) == below(root)
    assert stat.S_IMODE((root / "huggingface").stat().st_mode) == 0o700


def test_the_mode_of_a_folder_that_is_there_is_not_changed(simple: Runscript, site: Site, root: Path) -> None:
    root.mkdir()
    root.chmod(0o750)
    run(simple, site, **IN_JOB)
    assert stat.S_IMODE(root.stat().st_mode) == 0o750


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("spelling", ["{}", "SINGULARITYENV_{}", "APPTAINERENV_{}"])
@pytest.mark.parametrize("value", ["/my own", ""])
def test_user_values_are_kept(wrapper: Wrapper, site: Site, root: Path, name: str, spelling: str, value: str) -> None:
    _done, variables = call(wrapper, site, **IN_JOB, **{spelling.format(name): value})
    assert variables[spelling.format(name)] == value
    assert variables.get(name, value) == value
    assert {**below(root), **caches_of(variables)} == {**below(root), **({name: value} if spelling == "{}" else {})}
    assert not (root / FOLDERS[name]).exists()


def test_nothing_is_resolved_without_root_or_if_the_user_set_all(wrapper: Wrapper, site: Site, root: Path) -> None:
    own = dict.fromkeys(FOLDERS, "/own")
    done, variables = call(wrapper, site, **own)
    assert (done.stderr, caches_of(variables)) == ("", own)
    assert not root.exists()
    done, variables = call(wrapper, a_site(cache=FOLDERS), **IN_JOB)
    assert (done.stderr, caches_of(variables)) == ("", {})


# Variables of the job, and why the root can't be used then.
UNUSABLE: list[tuple[dict[str, str], str]] = [
    ({"USER": "ann"}, "SLURM_JOB_ACCOUNT is not set"),
    ({**IN_JOB, "SLURM_JOB_ACCOUNT": ""}, "SLURM_JOB_ACCOUNT is not set"),
    ({"SLURM_JOB_ACCOUNT": "project 1"}, "USER is not set"),
    ({**IN_JOB, "USER": ".."}, cache.UNCLEAN),
    ({**IN_JOB, "USER": "."}, cache.UNCLEAN),
    ({**IN_JOB, "USER": "/"}, cache.UNCLEAN),
    ({**IN_JOB, "USER": "/ann"}, cache.UNCLEAN),
    ({**IN_JOB, "SLURM_JOB_ACCOUNT": "a/../b"}, cache.UNCLEAN),
    ({**IN_JOB, "USER": "a\nb"}, cache.UNCLEAN),
]


@pytest.mark.parametrize(("environ", "why"), UNUSABLE)
def test_a_root_that_can_not_be_resolved_is_a_warning_and_the_default(
    wrapper: Wrapper, simple: Runscript, site: Site, tmp_path: Path, environ: dict[str, str], why: str
) -> None:
    for done, variables in (call(wrapper, site, **environ), run(simple, site, **environ)):
        assert f"{why}, so caches are in their default places" in done.stderr
        assert "/scratch/${SLURM_JOB_ACCOUNT}/${USER}" in done.stderr
        assert done.stderr.count("\n") == 1
        assert caches_of(variables) == {}
    with pytest.raises(ValueError, match=why.replace(".", "[.]")):
        cache.resolve(site.cache["root"], environ)
    assert sorted(path.name for path in (tmp_path / "scratch").rglob("*")) == ["project 1"]


@pytest.mark.parametrize(("environ", "why"), UNUSABLE)
@SYNTAXES
def test_a_module_then_sets_nothing_and_is_silent_about_a_variable_of_jobs(
    load: Load, installed: ContainerSpec, site: Site, environ: dict[str, str], why: str, syntax: str
) -> None:
    assert caches_of(load(installed, site, environ, syntax=syntax)) == {}
    said = load.run(installed, site, environ, syntax=syntax).stderr.decode()
    assert said.count("Warning:") == (why == cache.UNCLEAN)
    assert (why in said) == (why == cache.UNCLEAN)


def plain(_root: Path) -> None:
    pass


def shared_by_a_group(root: Path) -> None:
    root.parent.chmod(0o770)


def shared_by_all(root: Path) -> None:
    root.parent.parent.chmod(0o777)


def sticky(root: Path) -> None:
    root.parent.chmod(0o1777)


def writable_root(root: Path) -> None:
    root.chmod(0o770)


def sticky_root(root: Path) -> None:
    root.chmod(0o1777)


def linked_root(root: Path) -> None:
    root.rename(root.parent / "real")
    root.symlink_to("real")


def linked_parent(root: Path) -> None:
    root.parent.rename(root.parent.parent / "real")
    root.parent.symlink_to("../scratch/./real")


def linked_from_the_top(root: Path) -> None:
    real = root.parent.rename(root.parent.parent.parent / "real")
    root.parent.symlink_to(real)


def linked_to_a_shared_place(root: Path) -> None:
    linked_from_the_top(root)
    (root.parent.parent.parent / "real").chmod(0o777)


def linked_in_a_sticky_folder(root: Path) -> None:
    linked_parent(root)
    root.parent.parent.chmod(0o1777)


def dangling(root: Path) -> None:
    root.rmdir()
    root.symlink_to(root.parent / "nowhere" / "at all")


def circle(root: Path) -> None:
    shutil.rmtree(root.parent)
    root.parent.symlink_to(root.parent.name)


def occupied(root: Path) -> None:
    root.rmdir()
    root.write_text("")


def closed(root: Path) -> None:
    root.chmod(0o500)


def closed_parent(root: Path) -> None:
    root.parent.chmod(0)


def give_away(path: Path) -> None:
    """Let a file or link belong to another user, a subordinate one of this user."""
    if subprocess.run([*AS_ANOTHER, "chown", "-h", "1", path], check=False, capture_output=True).returncode:
        pytest.skip("this user has no other user's number: see /etc/subuid")


def foreign_root(root: Path) -> None:
    give_away(root)


def foreign_parent(root: Path) -> None:
    give_away(root.parent)


def foreign_link(root: Path) -> None:
    linked_parent(root)
    give_away(root.parent)


def foreign_folder(root: Path) -> None:
    (root / "huggingface").mkdir()
    give_away(root / "huggingface")


def foreign_folder_between(root: Path) -> None:
    (root / "torch" / "triton").mkdir(parents=True)
    give_away(root / "torch")


def linked_folder(root: Path) -> None:
    (root / "huggingface").symlink_to(root)


def shared_folder(root: Path) -> None:
    (root / "torch").mkdir()
    (root / "torch").chmod(0o777)


def occupied_folder(root: Path) -> None:
    (root / "huggingface").touch()


# What is on the way, the part of it that the message names, relative to the root, and why; nothing if the root is used.
WAYS: list[tuple[Callable[[Path], None], str, str]] = [
    (plain, "", ""),
    (sticky, "", ""),
    (linked_parent, "", ""),
    (linked_from_the_top, "", ""),
    (shared_by_a_group, "..", cache.SHARED),
    (shared_by_all, "../..", cache.SHARED),
    (writable_root, ".", cache.SHARED),
    (sticky_root, ".", cache.SHARED),
    (linked_root, ".", cache.LINK),
    (linked_to_a_shared_place, "../../../real", cache.SHARED),
    (linked_in_a_sticky_folder, "..", cache.LINK),
    (dangling, ".", cache.LINK),
    (circle, "..", cache.LINK),
    (occupied, ".", cache.UNUSABLE),
    (closed, ".", cache.UNUSABLE),
    (closed_parent, ".", cache.UNUSABLE),
    (foreign_root, ".", cache.FOREIGN),
    (foreign_parent, "..", cache.FOREIGN),
    (foreign_link, "..", cache.FOREIGN),
    (foreign_folder, "huggingface", cache.FOREIGN),
    (foreign_folder_between, "torch", cache.FOREIGN),
    (linked_folder, "huggingface", cache.LINK),
    (shared_folder, "torch", cache.SHARED),
    (occupied_folder, "huggingface", cache.UNUSABLE),
]


@pytest.mark.parametrize(("arrange", "part", "why"), WAYS)
def test_a_root_that_others_could_swap_is_not_used_by_any_language(
    wrapper: Wrapper,
    simple: Runscript,
    load: Load,
    installed: ContainerSpec,
    site: Site,
    root: Path,
    arrange: Callable[[Path], None],
    part: str,
    why: str,
) -> None:
    root.mkdir(mode=0o700)
    arrange(root)
    problem = why and f"'{os.path.normpath(root / part)}' {why}"
    for done, variables in (call(wrapper, site, **IN_JOB), run(simple, site, **IN_JOB)):
        assert problem in done.stderr
        assert done.stderr.count("\n") == bool(why)
        assert caches_of(variables) == ({} if why else below(root))
    for syntax in ("Lua", "Tcl"):
        assert problem in load.run(installed, site, IN_JOB, syntax=syntax).stderr.decode()
        loaded = caches_of(load(installed, site, IN_JOB, syntax=syntax))
        assert loaded == ({} if why else {name: path for name, path in below(root).items() if name != "PIP_CACHE_DIR"})
    problems = list(map(problem_of_way, cache.folders(root, site.cache)))
    assert next(filter(None, problems), "") == problem
    assert own_folder(root).stderr.strip() == problems[0]
    if why == cache.FOREIGN:  # pytest removes it later
        subprocess.run([*AS_ANOTHER, "chown", "-hR", "0", root.parent.parent], check=True)


def test_a_root_refused_on_the_host_is_not_used(wrapper: Wrapper, site: Site, root: Path, tmp_path: Path) -> None:
    """So they do in the user namespace of a container."""
    root.mkdir(mode=0o700)
    give_away(root.parent)
    for script in ("runscripts/caches.sh", "share/on-node.sh"):
        shutil.copy(data_path("wrappers") / script, tmp_path)
    code = 'sifmod_caches=(HF_HOME=hf) sifmod_cache_parts=("$1" ""); source "$0"; echo "${HF_HOME-none}"'
    command = ["unshare", f"--map-user={os.geteuid()}", "bash", "-c", code, str(tmp_path / "caches.sh"), str(root)]
    done = ran(command, env=call(wrapper, site, **IN_JOB)[1], timeout=60)
    subprocess.run([*AS_ANOTHER, "chown", "0", root.parent], check=True)
    assert (done.stdout, done.stderr) == ("none\n", "")


def test_a_path_of_others_is_refused(wrapper: Wrapper, simple: Runscript, load: Load, installed: ContainerSpec) -> None:
    candidates = (path for top in ("/etc", "/var/lib", "/var/cache") for path in Path(top).iterdir())
    foreign = next((path for path in candidates if path.lstat().st_uid not in (0, os.geteuid())), None)
    if foreign is None:
        pytest.skip("no folder of another user is here")
    site = a_site(cache={"root": f"{foreign}/${{USER}}", **FOLDERS})
    for done, variables in (call(wrapper, site, **IN_JOB), run(simple, site, **IN_JOB)):
        assert f"'{foreign}' {cache.FOREIGN}, so caches" in done.stderr
        assert caches_of(variables) == {}
    for syntax in ("Lua", "Tcl"):
        assert f"'{foreign}' {cache.FOREIGN}" in load.run(installed, site, IN_JOB, syntax=syntax).stderr.decode()
        assert caches_of(load(installed, site, IN_JOB, syntax=syntax)) == {}
    assert problem_of_way(foreign / "ann") == f"'{foreign}' {cache.FOREIGN}"


# Somebody else makes the user's folder first, for all to write to, and puts her caches in the place of what the user
# makes in it.
ATTACK = """cd "$1" || exit
echo ready
while [ -d . ] && [ ! -e stop ]; do
    mkdir -m 777 ann 2>/dev/null || continue
    for round in 1 2 3 4 5 6 7 8; do
        if mv ann/caches "$(mktemp -d -p "$2")" 2>/dev/null; then mkdir -p ann/caches/huggingface; fi
    done
    rm -rf ann 2>/dev/null
done
"""


def test_somebody_else_who_makes_the_user_s_folder_first_and_swaps_it_wins_never(wrapper: Wrapper, need: Need) -> None:
    for tool in ("unshare", "newuidmap", "setpriv"):
        need(tool)
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    project, loot = top / "project 1", top / "loot"
    try:
        top.chmod(0o755)
        for folder in (project, loot):
            folder.mkdir()
            folder.chmod(0o1777)
        attack = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups", "bash", "-c", ATTACK, "attack"]
        with subprocess.Popen([*AS_ANOTHER, *attack, str(project), str(loot)], stdout=subprocess.PIPE) as attacker:
            if not attacker.stdout or attacker.stdout.readline() != b"ready\n":
                pytest.skip("this user has no other user's number: see /etc/subuid")
            site = a_site(cache={"root": f"{top}/${{SLURM_JOB_ACCOUNT}}/${{USER}}/caches", "HF_HOME": "huggingface"})
            used, won = 0, 0
            for _ in range(12):
                _done, variables = call(wrapper, site, **IN_JOB)
                if "HF_HOME" in variables:
                    used += 1
                    won += {path.owner() for path in project.glob("ann")} != {top.owner()}
                    shutil.rmtree(project / "ann", ignore_errors=True)
            (project / "stop").touch()
        assert won == 0, f"{won} of {used}"
    finally:
        (project / "stop").touch()
        subprocess.run([*AS_ANOTHER, "rm", "-rf", top], check=True)


def test_nothing_is_made_in_a_place_of_others(wrapper: Wrapper, site: Site, root: Path) -> None:
    root.parent.chmod(0o777)
    done, variables = call(wrapper, site, **IN_JOB)
    assert f"'{root.parent}' {cache.SHARED}" in done.stderr
    assert (caches_of(variables), root.exists()) == ({}, False)


def test_one_task_of_a_node_warns(distributed: Runscript, site: Site) -> None:
    assert "default places" in run(distributed, site, **{**STEP, "SLURM_LOCALID": "0"})[0].stderr
    assert run(distributed, site, **STEP)[0].stderr == ""


@pytest.mark.parametrize("gpu", ["amd", "nvidia"])
def test_the_site_s_cache_comes_first(distributed: Runscript, site: Site, root: Path, tmp_path: Path, gpu: str) -> None:
    _done, variables = run(distributed, site, gpu, **STEP, **IN_JOB)
    assert variables["TRITON_CACHE_DIR"] == f"{root}/torch/triton"
    done, variables = run(distributed, site, gpu, **{**STEP, "SLURM_LOCALID": "0"})
    assert "SLURM_JOB_ACCOUNT is not set" in done.stderr
    assert variables["TRITON_CACHE_DIR"].startswith(f"{tmp_path}/sifmod-")


@SYNTAXES
def test_a_module_sets_safe_values(load: Load, installed: ContainerSpec, site: Site, root: Path, syntax: str) -> None:
    assert caches_of(load(installed, site, IN_JOB, syntax=syntax)) == {}
    assert f"'{root}' {cache.MISSING}" in load.run(installed, site, IN_JOB, syntax=syntax).stderr.decode()
    assert not root.exists()
    root.mkdir()
    loaded = load(installed, site, IN_JOB, syntax=syntax)
    assert caches_of(loaded) == {name: path for name, path in below(root).items() if name != "PIP_CACHE_DIR"}
    assert loaded["__SIFMOD_CACHE"] == str(root)
    assert list(root.iterdir()) == []
    own = load(installed, site, {**IN_JOB, "HF_HOME": "/own"}, syntax=syntax)
    assert own["HF_HOME"] == "/own"
    assert own["TRITON_CACHE_DIR"] == f"{root}/torch/triton"


@SYNTAXES
def test_a_value_that_the_module_resolved_elsewhere_is_resolved_again(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, site: Site, root: Path, syntax: str
) -> None:
    root.mkdir()
    loaded = load(replace(installed, module_family=""), site, IN_JOB, syntax=syntax)
    there = {name: loaded[name] for name in ("__SIFMOD_CACHE", "HF_HOME", "TRITON_CACHE_DIR")}
    (root.parent.parent / "other").mkdir()
    in_other_job = {**IN_JOB, "SLURM_JOB_ACCOUNT": "other"}
    _done, variables = call(wrapper, site, **in_other_job, **there)
    assert caches_of(variables) == below(root.parent.parent / "other" / "ann")
    _done, variables = call(wrapper, site, **in_other_job, **{**there, "HF_HOME": "/own"})
    assert variables["HF_HOME"] == "/own"
    done, variables = call(wrapper, site, USER="ann", **there)
    assert "SLURM_JOB_ACCOUNT is not set" in done.stderr
    assert caches_of(variables) == {}
