"""Tcl modules, in real environment-modules and in Lmod: the same effect as the Lua ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import (
    DEMO_EASYCONFIG,
    DEMO_MODULE,
    LMODS,
    LUMI_EASYCONFIG,
    LUMI_MODULE,
    TESTBED,
    User,
    make_user,
    with_lmod,
)

MODULECMD = TESTBED / "environment-modules/usr/lib/x86_64-linux-gnu/modulecmd.tcl"

# As in a login on a cluster that has environment-modules and no Lmod.
INIT = f"""
unset -f module ml
for name in $(compgen -e | grep -E '^(LMOD|__LMOD|_ModuleTable|MODULESHOME)'); do unset $name; done
module() {{ eval "$(tclsh {MODULECMD} bash "$@")"; }}
"""
OWN = """
export SIF=mine SINGULARITY_BINDPATH=/opt APPTAINERENV_VIRTUAL_ENV=/mine CONTAINERROOT=/mine
export SINGULARITY_BIND=/srv SINGULARITYENV_X=1 PATH=/mine/bin:$PATH NCCL_SOCKET_IFNAME='a b:$c "{['
"""
# Lmod's pushenv does not give an empty value back
EMPTY = "export APPTAINERENV_CONDA_EXE="
# What environment-modules keeps for itself, and what the modules keep there.
KEPT = ("__MODULES_", "MODULES_", "__SIFMOD_")


@dataclass
class EnvironmentModulesUser:
    """A user whose `module` is that of environment-modules."""

    user: User

    def run(self, script: str, *, check: bool = True) -> str:
        done = self.user.run(f"{INIT}\n{OWN}\n{EMPTY}\n{script}", check=check)
        return done.stdout + done.stderr

    def environment(self, script: str) -> dict[str, str]:
        found = self.user.environment(f"{INIT}\n{OWN}\n{EMPTY}\nmodule list &>/dev/null\n{script} >/dev/null")
        return {name: value for name, value in found.items() if not name.startswith(KEPT)}


@pytest.fixture(scope="module")
def tcl(tmp_path_factory: pytest.TempPathFactory, lumi_images: Path) -> User:
    """Both images installed with Tcl modules, for Lmod and environment-modules."""
    user = make_user(tmp_path_factory.mktemp("tcl") / "eb")
    user.eb(DEMO_EASYCONFIG, "--module-syntax=Tcl")
    lumi = User(user.prefix, {"SIFMOD_SITE": "lumi", "SIFMOD_IMAGE_REPOSITORIES": str(lumi_images)})
    lumi.eb(LUMI_EASYCONFIG, "--module-syntax=Tcl")
    return user


@pytest.fixture(scope="module")
def modules(tcl: User) -> EnvironmentModulesUser:
    return EnvironmentModulesUser(tcl)


def container_part(found: dict[str, str]) -> dict[str, str]:
    names = ("SIF", "CONTAINERROOT", "RUNSCRIPTS", "SINGULARITY", "APPTAINER", "NCCL", "PATH", "EBROOT", "EBVERSION")
    settings = ("SIFMOD_SITE", "SIFMOD_IMAGE_REPOSITORIES", "SIFMOD_TESTBED")
    return {name: value for name, value in found.items() if name.startswith(names) and name not in settings}


def differences(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


@pytest.mark.parametrize("module", [DEMO_MODULE, LUMI_MODULE])
def test_all_three_set_the_same(modules: EnvironmentModulesUser, demo: User, lumi: User, module: str) -> None:
    user = demo if module == DEMO_MODULE else lumi
    lua = container_part(user.environment(f"{OWN}\n{EMPTY}\nmodule load {module}"))
    lua = {name: value.replace(str(user.prefix), str(modules.user.prefix)) for name, value in lua.items()}
    assert len(lua) > 20
    assert container_part(modules.environment(f"module load {module}")) == lua
    # Lmod takes white space from the end of what a Tcl module sets
    prompts = [name for name in lua if "PROMPT" in name]
    lua.update({name: lua[name].rstrip() for name in prompts})
    for version in LMODS:
        tcl = with_lmod(modules.user, version)
        found = container_part(tcl.environment(f"{OWN}\n{EMPTY}\nmodule load {module}"))
        found.update({name: found[name].rstrip() for name in prompts})
        assert found == lua


@pytest.mark.parametrize("tool", [*LMODS, "environment-modules"])
@pytest.mark.parametrize(
    "script",
    [
        "module load {demo}; module unload {demo}",
        "module load {lumi}; module unload {lumi}",
        "module load {demo}; module purge",
        "module load {demo}; module switch {demo} {lumi}; module unload {lumi}",
        "module load {demo}; module switch {demo} {lumi}; module switch {lumi} {demo}; module purge",
        "module load {lumi}; module switch {lumi} {lumi}; module purge",
        "module load {lumi}; module load {lumi}; module purge",
        "module load {lumi}; module load {demo}; module purge",
        "module load {demo}; module reload; module purge",
        "module load {demo}; module load no/such; module purge",
    ],
)
def test_afterwards_the_environment_is_as_before(modules: EnvironmentModulesUser, tool: str, script: str) -> None:
    script = script.format(demo=DEMO_MODULE, lumi=LUMI_MODULE)
    script = "{ " + script + "; } 2>/dev/null; type -t make-squashfs"
    if tool in LMODS:
        user = with_lmod(modules.user, tool)
        after, before = user.environment(f"{OWN}\n{script} >/dev/null"), user.environment(OWN)
    else:
        after, before = modules.environment(script), modules.environment("true")
    assert differences(after, before) == {}


@pytest.mark.parametrize("tool", [*LMODS, "environment-modules"])
def test_a_swap_leaves_nothing_of_the_first_one(modules: EnvironmentModulesUser, tool: str) -> None:
    swap = f"module load {LUMI_MODULE}; module switch {LUMI_MODULE} {DEMO_MODULE} 2>/dev/null"
    if tool in LMODS:
        user = with_lmod(modules.user, tool)
        alone = user.environment(f"{OWN}\nmodule load {DEMO_MODULE}")
        assert differences(user.environment(f"{OWN}\n{swap}"), alone) == {}
        family = f"module load {LUMI_MODULE}; module load {DEMO_MODULE} 2>/dev/null"
        assert differences(user.environment(f"{OWN}\n{family}"), alone) == {}
    else:
        assert differences(modules.environment(swap), modules.environment(f"module load {DEMO_MODULE}")) == {}


def test_environment_modules_refuses_a_second_container_and_says_how_to_swap(modules: EnvironmentModulesUser) -> None:
    out = modules.run(f"module load {DEMO_MODULE}; module load {LUMI_MODULE}; echo status $?; echo $SIF")
    assert "conflict" in out
    assert "module unload container" in out
    assert "status 1" in out
    assert f"{modules.user.installdir(DEMO_MODULE)}/demo.sif" in out


def test_a_collection_is_restored(modules: EnvironmentModulesUser, tmp_path: Path) -> None:
    home = f"export HOME={tmp_path}; module load {LUMI_MODULE}; module save mine 2>/dev/null"
    assert modules.environment(f"{home}; module purge; module restore mine 2>/dev/null") == modules.environment(home)
    assert modules.environment(f"{home}; module restore mine; module purge") == modules.environment(
        f"export HOME={tmp_path}"
    )


@pytest.mark.slow
def test_the_container_works_and_packing_reloads_the_module(tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb")
    user.eb(DEMO_EASYCONFIG, "--module-syntax=Tcl")
    out = (
        EnvironmentModulesUser(user)
        .run(
            f"""unset SINGULARITY_BINDPATH SINGULARITY_BIND
        module load {DEMO_MODULE}
        singularity exec $SIF python -c 'import sys; print(sys.prefix)'
        make-squashfs &>/dev/null; echo packed $SINGULARITY_BINDPATH
        make-squashfs --remove-directory &>/dev/null; python -c 'import sys; print(sys.prefix)'
        unmake-squashfs &>/dev/null; echo unpacked $SINGULARITY_BINDPATH"""
        )
        .splitlines()
    )
    assert out[0] == out[2] == "/user-software/venv/demo"
    assert "packed" in out[1].split()[0]
    assert out[1].endswith("user-software.squashfs:/user-software:ro,image-src=/")
    assert out[3].endswith("/user-software:/user-software")


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Lmod", "environment-modules"])
def test_without_an_image_loading_fails_and_unloading_works(tmp_path: Path, tool: str) -> None:
    (tmp_path / "site.toml").write_text("")
    user = make_user(tmp_path / "eb", SIFMOD_SITE=str(tmp_path / "site.toml"))
    user.eb(DEMO_EASYCONFIG, "--module-syntax=Tcl", f"--sourcepath={TESTBED}/images")
    init = "" if tool == "Lmod" else f"{INIT}\nmodule list &>/dev/null"
    before = user.environment(f"{init}\ntrue")
    after = user.environment(f"{init}\nmodule load {DEMO_MODULE}; rm $SIF; module unload {DEMO_MODULE}")
    assert {n for n in after if not n.startswith(KEPT)} == {n for n in before if not n.startswith(KEPT)}
    done = user.run(f"{init}\nmodule load {DEMO_MODULE}", check=False)
    assert done.returncode != 0
    assert "demo.sif' is gone, and the site has no copy of it" in " ".join(done.stderr.split())


def test_eb_takes_environment_modules_as_its_modules_tool(tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb", EASYBUILD_MODULES_TOOL="EnvironmentModules", MODULES_CMD=str(MODULECMD))
    # eb looks at the definition of `module` in a shell of its own
    user.run(f"{INIT}\nexport -f module; unset BASH_ENV; eb {DEMO_EASYCONFIG} --module-syntax=Tcl")
    script = f"{INIT}\nmodule load {DEMO_MODULE}; singularity exec $SIF python -c 'print(42)'"
    assert user.out(script) == "42"


def test_an_installation_path_that_easybuild_can_not_write_into_tcl_is_refused(tmp_path: Path) -> None:
    user = make_user(tmp_path / "a b")
    done = user.eb(DEMO_EASYCONFIG, "--module-syntax=Tcl", check=False)
    assert done.returncode != 0
    assert "module-syntax" in done.stdout
    assert "choose another path" in done.stdout
    assert not (user.prefix / "software").exists() or not list((user.prefix / "software").rglob("*.sif"))


def test_show_help_and_whatis_work_in_environment_modules(modules: EnvironmentModulesUser) -> None:
    shown = modules.run(f"module show {DEMO_MODULE}")
    assert "SINGULARITYENV_VIRTUAL_ENV /user-software/venv/demo" in shown
    assert "ERROR" not in shown
    assert "make-squashfs" in modules.run(f"module help {DEMO_MODULE}")
    assert DEMO_MODULE in modules.run("module keyword pip")
    assert LUMI_MODULE in modules.run("module keyword deepspeed")


@pytest.mark.slow
def test_values_that_tcl_could_read_as_code_pass_through(tmp_path: Path) -> None:
    value = 'a b; $(x) [exit] {x "q" it\'s \\ :c,$HOME/${USER}'
    site = tmp_path / "site.toml"
    site.write_text(f"image_repositories = ['{TESTBED}/images']\n[container_env]\nNASTY = '''{value}'''\n")
    user = make_user(tmp_path / "eb", SIFMOD_SITE=str(site))
    user.eb(DEMO_EASYCONFIG, "--module-syntax=Tcl")
    expanded = value.replace("$HOME", "/home/it's").replace("${USER}", "me")
    show = f'export HOME=/home/it\\\'s USER=me; module load {DEMO_MODULE}; printf %s "$NASTY"'
    assert user.out(show) == expanded
    assert user.out(f"{INIT}\n{show}") == expanded
