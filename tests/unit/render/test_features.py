"""A site's features: modules and commands decide by one rule which of them apply on a node, and what they do there."""

import contextlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings, strategies

from sifmod.container.bind import BindPattern
from sifmod.container.spec import ContainerSpec
from sifmod.host.features import bound, feature_states
from sifmod.render.helptext import feature_rows
from sifmod.site.feature import Feature, chosen
from sifmod.site.settings import Site, load_site

from ..support import a_site
from .running import Done, Load, Wrapper

HERE = "node7"

# Below {top} lie lib1.so, lib2.so, "lib,3.so", .libhidden.so, and the directory "a b" with lib.so.
FEATURES = """
default_features = ["mpi"]

[container_env]
SHARED = "site"
PYTHONSTARTUP = "site"

[feature.mpi]
binds = ["{top}/lib[1-9].so:/host/", "{top}/a b"]
optional_binds = ["{top}/nowhere", "{top}/*/lib.so:/deep/:ro"]
env = {{ SHARED = "mpi", HOMELY = "$HOME/mpi" }}
container_env = {{ INNER = "it's", PYTHONSTARTUP = false }}
library_path = ["/host", "/deep"]
runtime_options = ["--no-umask", "--no-mount=tmp"]

[feature.fabric]
binds = ["{top}/lib1.so:/host/fabric", "{top}/a b"]
env = {{ SHARED = "fabric", FABRIC = "1" }}
library_path = ["/host/fabric"]
hosts = ["nid[0-9]*", "node?"]
conflicts = ["slow"]

[feature.slow]
exists = "{top}/lib1.so"

[feature.gpus]
gpu = "amd"
env = {{ GPUS = "1" }}

[feature.queue]
partitions = ["gpu*", "big"]
env = {{ QUEUE = "1" }}

[feature.broken]
binds = ["{top}/gone*", "{top}/lib1.so"]
env = {{ BROKEN = "1" }}

[feature.literal]
binds = ["{top}/gone"]
"""


@dataclass(frozen=True)
class Case:
    """What a user asks for on which node, and what happens there.

    Attributes:
        users: SIFMOD_FEATURES; None without the variable.
        applied: the features that apply.
        said: what is said about it, in this order.
        node: Slurm's name of the node.
        partition: that of the job; empty without a job.
        changes: features of the easyconfig.
    """

    users: Optional[str]
    applied: tuple[str, ...]
    said: tuple[str, ...] = ()
    node: str = HERE
    partition: str = ""
    changes: tuple[str, ...] = ()


CASES = {
    "the site's": Case(None, ("mpi",)),
    "nothing asked for": Case("", ("mpi",)),
    "one more": Case("fabric", ("mpi", "fabric")),
    "in the site's order": Case("slow,mpi", ("mpi", "slow")),
    "one less": Case("-mpi", ()),
    "the last word counts": Case("-mpi,mpi,fabric,-fabric", ("mpi",)),
    "blanks and empty words": Case(" fabric , ,,\t-mpi\n", ("fabric",)),
    "the easyconfig's": Case(None, ("mpi", "slow"), changes=("slow",)),
    "one less of the easyconfig": Case(None, (), changes=("-mpi",)),
    "the user has the last word": Case("mpi,-slow", ("mpi",), changes=("-mpi", "slow")),
    "another host": Case("fabric", ("mpi",), node="login1"),
    "a host by a range": Case("fabric", ("mpi", "fabric"), node="nid001"),
    "a pattern matches the whole name": Case("fabric", ("mpi",), node="xnid001"),
    "a partition by a pattern": Case("queue", ("mpi", "queue"), partition="gpu-large"),
    "the second of two partitions": Case("queue", ("mpi", "queue"), partition="big"),
    "another partition": Case("queue", ("mpi",), partition="small"),
    "no job": Case("queue", ("mpi",)),
    "no such GPU": Case("gpus", ("mpi",)),
    "no conflict where one does not apply": Case("fabric,slow", ("mpi", "slow"), node="login1"),
    "no such name": Case("mpich,-zz", ("mpi",), ("no feature 'mpich': use mpi, fabric", "no feature 'zz': use")),
    "a name with control characters": Case("a\033]b", ("mpi",), ("no feature 'a??b'",)),
    "a pattern is no name": Case("*", ("mpi",), ("no feature '?'",)),
    "a long name": Case("x" * 90, ("mpi",), (f"no feature '{'x' * 40}'",)),
}

SYNTAXES = pytest.mark.parametrize("syntax", ["Lua", "Tcl"])


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "it's $HOME"
    (folder / "a b").mkdir(parents=True)
    for name in ("lib1.so", "lib2.so", "lib,3.so", ".libhidden.so", "a b/lib.so"):
        (folder / name).write_text("")
    return folder


@pytest.fixture
def site(tmp_path: Path, top: Path) -> Site:
    path = tmp_path / "site.toml"
    path.write_text(FEATURES.format(top=top))
    return load_site({"SIFMOD_SITE": str(path)})


def environ_of(case: Case) -> dict[str, str]:
    users = {} if case.users is None else {"SIFMOD_FEATURES": case.users}
    partition = {"SLURM_JOB_PARTITION": case.partition} if case.partition else {}
    return {"HOME": "/home/ann", "SLURMD_NODENAME": case.node, **partition, **users}


def of_command(wrapper: Wrapper, spec: ContainerSpec, site: Site, environ: Mapping[str, str]) -> dict[str, str]:
    done = wrapper.run("python", spec=spec, site=site, environ=environ)
    assert done.returncode == 0, done.stderr
    variables: dict[str, str] = wrapper.fake.calls[-1]["env"]
    return variables


def effect(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return what features have changed."""
    plain = {name: variables.get(name) for name in ("SHARED", "HOMELY", "FABRIC", "GPUS", "BROKEN")}
    inner = ("ENV_INNER", "ENV_PYTHONSTARTUP", "ENV_LD_LIBRARY_PATH", "_NO_UMASK", "_NO_MOUNT")
    twins = {name: {variables.get(f"SINGULARITY{name}"), variables.get(f"APPTAINER{name}")} for name in inner}
    assert all(len(values) == 1 for values in twins.values()), twins
    binds = [bind for bind in variables["SINGULARITY_BINDPATH"].split(",") if "/it's $HOME/" in bind]
    return {**plain, **{name: values.pop() for name, values in twins.items()}, "binds": binds}


def expected(applied: tuple[str, ...], top: Path) -> dict[str, Any]:
    mpi, fabric = "mpi" in applied, "fabric" in applied
    folders = ":".join([*(["/host:/deep"] if mpi else []), *(["/host/fabric"] if fabric else [])])
    binds = [
        f"{top}/lib1.so:/host/lib1.so",
        f"{top}/lib2.so:/host/lib2.so",
        f"{top}/a b",
        f"{top}/a b/lib.so:/deep/lib.so:ro",
    ]
    own = [f"{top}/lib1.so:/host/fabric", *([] if mpi else [f"{top}/a b"])]  # what both have is bound once
    return {
        "SHARED": "fabric" if fabric else "mpi" if mpi else "site",
        "HOMELY": "/home/ann/mpi" if mpi else None,
        "FABRIC": "1" if fabric else None,
        "GPUS": None,
        "BROKEN": None,
        "ENV_INNER": "it's" if mpi else None,
        "ENV_PYTHONSTARTUP": None if mpi else "site",
        "ENV_LD_LIBRARY_PATH": f"{folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" if folders else None,
        "_NO_UMASK": "1" if mpi else None,
        "_NO_MOUNT": "tmp" if mpi else None,
        "binds": [*(binds if mpi else []), *(own if fabric else [])],
    }


@pytest.mark.parametrize("name", CASES)
def test_modules_and_commands_decide_alike(
    wrapper: Wrapper,
    load: Load,
    installed: ContainerSpec,
    site: Site,
    top: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES[name]
    spec = replace(installed, features=case.changes)
    asked = site, environ_of(case)
    found = {syntax: effect(load(spec, *asked, syntax=syntax)) for syntax in ("Lua", "Tcl")}
    found["bash"] = effect(of_command(wrapper, spec, *asked))
    assert found == dict.fromkeys(found, expected(case.applied, top))
    monkeypatch.setenv("SLURMD_NODENAME", case.node)
    monkeypatch.setenv("SLURM_JOB_PARTITION", case.partition)
    changes = (*site.default_features, *case.changes, *re.split(r"[,\s]+", case.users or ""))
    usable = {state.feature.name for state in feature_states(site) if not state.problem}
    assert tuple(name for name in chosen(changes, site.feature)[0] if name in usable) == case.applied
    said = {syntax: load.run(spec, *asked, syntax=syntax).stderr.decode() for syntax in ("Lua", "Tcl")}
    said["bash"] = wrapper.run("python", spec=spec, site=site, environ=environ_of(case)).stderr
    for text in said.values():
        assert text.count("SIFMOD_FEATURES: ") == len(case.said), text
        assert [part in line for part, line in zip(case.said, text.splitlines())] == [True] * len(case.said), text


MISSING = {"broken": "/gone*", "literal": "/gone"}


@pytest.mark.parametrize("name", MISSING)
def test_a_bind_path_that_is_missing_is_named(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, site: Site, top: Path, name: str
) -> None:
    environ = {**environ_of(CASES["the site's"]), "SIFMOD_FEATURES": name}
    sentence = f"the feature '{name}' needs '{top}{MISSING[name]}', which this node does not have"
    remedy = f"without the feature with SIFMOD_FEATURES=-{name}"
    for syntax in ("Lua", "Tcl"):
        done = load.run(installed, site, environ, syntax=syntax)
        assert done.returncode == 0
        said = done.stderr.decode()
        assert sentence in said
        assert remedy in said
        assert said.count("\n") == 1
        assert effect(load(installed, site, environ, syntax=syntax)) == expected(("mpi",), top)
    refused: Done = wrapper.run("python", site=site, environ=environ)
    assert refused.returncode == 126
    assert sentence in refused.stderr
    assert wrapper.fake.calls == []


@SYNTAXES
def test_conflicting_features_are_refused(load: Load, installed: ContainerSpec, site: Site, syntax: str) -> None:
    environ = environ_of(Case("fabric,slow", ()))
    done = load.run(installed, site, environ, syntax=syntax)
    assert "the features 'fabric' and 'slow' conflict: choose one with SIFMOD_FEATURES=-fabric" in done.stderr.decode()
    assert load.run(installed, site, environ, syntax=syntax, mode="unload").stderr == b""


def test_conflicting_features_are_refused_and_unknown_ones_named(wrapper: Wrapper, site: Site) -> None:
    done = wrapper.run("python", site=site, environ=environ_of(Case("fabric,slow", ())))
    assert done.returncode == 126
    assert "the features 'fabric' and 'slow' conflict" in done.stderr
    environ = {"SIFMOD_FEATURES": "mpich", "SLURM_PROCID": "1"}
    assert wrapper.run("python", site=site, environ=environ).stderr == ""


UNFIT = "/usr/lib/libmpi.so.12 of the host needs glibc 2.36, but the image has glibc 2.31"


@pytest.mark.parametrize(
    ("users", "node", "is_refused"),
    [
        ("-mpi,fabric", HERE, True),
        ("-mpi,fabric", "login1", False),  # it does not apply there
        ("-mpi", HERE, False),
    ],
)
def test_a_feature_that_the_image_can_t_use_is_refused(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, site: Site, users: str, node: str, is_refused: bool
) -> None:
    spec = replace(installed, unusable_features={"fabric": UNFIT, "gone from the site": "never mind"})
    environ = environ_of(Case(users, (), node=node))
    said = {syntax: load.run(spec, site, environ, syntax=syntax).stderr.decode() for syntax in ("Lua", "Tcl")}
    done = wrapper.run("python", spec=spec, site=site, environ=environ)
    assert done.returncode == (126 if is_refused else 0)
    said["bash"] = done.stderr
    sentence = f"the feature 'fabric' does not work with this image: {UNFIT}. Do without it: SIFMOD_FEATURES=-fabric"
    for text in said.values():
        assert (sentence in text) == is_refused, text
    for syntax in ("Lua", "Tcl"):
        assert load.run(spec, site, environ, syntax=syntax, mode="unload").stderr == b""


def test_the_help_names_a_feature_that_the_image_can_t_use(installed: ContainerSpec, site: Site) -> None:
    rows = feature_rows(replace(installed, unusable_features={"slow": UNFIT}), site)
    assert rows["  slow"].endswith(f"; not for this image: {UNFIT}")


@SYNTAXES
@pytest.mark.parametrize(("login", "compute"), [("login1", HERE), (HERE, "login1"), (HERE, HERE)])
def test_a_command_decides_anew_on_another_node(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, site: Site, top: Path, syntax: str, login: str, compute: str
) -> None:
    spec = replace(installed, module_family="")
    before = {"HOME": "/home/ann", "SLURMD_NODENAME": login}
    loaded = load(spec, site, {**before, "SIFMOD_FEATURES": "fabric"}, syntax=syntax)
    loaded = {name: value for name, value in loaded.items() if not name.startswith("function ")}
    # SIFMOD_FEATURES was set for the load alone
    there = of_command(wrapper, spec, site, {**before, **loaded, "SLURMD_NODENAME": compute})
    applied = ("mpi", "fabric") if compute == HERE else ("mpi",)
    assert effect(there) == expected(applied, top)
    changed = {**before, **loaded, "SLURMD_NODENAME": compute, "SHARED": "mine", "SINGULARITYENV_INNER": "mine"}
    there = of_command(wrapper, spec, site, changed)
    assert (there["SHARED"], there["SINGULARITYENV_INNER"]) == ("mine", "mine")
    assert there.get("FABRIC") == ("1" if compute == HERE else None)


def test_easyconfig_and_user_override(wrapper: Wrapper, installed: ContainerSpec, site: Site, load: Load) -> None:
    own = {"SHARED": "", "SINGULARITYENV_LD_LIBRARY_PATH": "/mine", "SLURMD_NODENAME": HERE}
    found = of_command(wrapper, installed, site, own)
    assert (found["SHARED"], found["SINGULARITYENV_LD_LIBRARY_PATH"]) == ("", "/mine")
    assert "APPTAINERENV_LD_LIBRARY_PATH" not in found
    spec = replace(installed, container_env={"SHARED": "own", "INNER": None, "LD_LIBRARY_PATH": "/own"})
    for found in (load(spec, site), load(spec, site, syntax="Tcl"), of_command(wrapper, spec, site, {})):
        assert found["SHARED"] == "own"
        assert "SINGULARITYENV_INNER" not in found
        assert found["SINGULARITYENV_LD_LIBRARY_PATH"] == "/host:/deep:/own"


@SYNTAXES
def test_unload_uses_features_of_the_load(load: Load, installed: ContainerSpec, site: Site, syntax: str) -> None:
    """Whatever the user asks for by then: each variable that is pushed is popped, and no other."""
    loaded = load(installed, site, environ_of(Case("fabric", ())), syntax=syntax)
    of_features = {"SHARED", "HOMELY", "FABRIC", "GPUS", "BROKEN"}
    # which values are whose: what the module keeps where pushenv is not to be had
    stacks = {f"__SIFMOD_STACK_{name}": f"Demo/1.0-x {{{loaded[name]}}}" for name in of_features & loaded.keys()}
    environ = {name: value for name, value in loaded.items() if name.isidentifier() and "\n" not in value}
    environ.update({**environ_of(Case("-mpi,-fabric,slow", ())), **stacks})
    unloaded = load(installed, site, environ, mode="unload", syntax=syntax)
    assert of_features & unloaded.keys() == of_features & loaded.keys() == {"SHARED", "HOMELY", "FABRIC"}


# Names of files, and patterns: nothing that a language understands in its own way may make a difference.
_CHARACTERS = "ab1- .,'\"$*?[]{}~\\^"
_FILES = strategies.lists(strategies.text(_CHARACTERS, min_size=1, max_size=4), min_size=1, max_size=6, unique=True)
_PATTERNS = strategies.lists(
    strategies.one_of(
        strategies.sampled_from(("*", "?", "[ab]", "[a-z0-9]")), strategies.sampled_from("ab1- .'\"${}~")
    ),
    min_size=1,
    max_size=4,
).map("".join)


@given(files=_FILES, patterns=strategies.lists(_PATTERNS, min_size=1, max_size=4))
@settings(max_examples=12)
def test_a_pattern_has_the_same_matches_everywhere(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, tmp_path: Path, files: list[str], patterns: list[str]
) -> None:
    folder = tmp_path / "matches"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in files:
        if name not in (".", ".."):
            (folder / name).write_text("")
    binds = []
    for pattern in patterns:
        with contextlib.suppress(ValueError):
            binds.append(BindPattern.parse(f"{folder}/{pattern}"))
    site = a_site(default_features=("x",), feature={"x": Feature("x", optional_binds=tuple(binds))})
    expected = {path for bind in binds for path in bound(bind)}
    for found in (
        load(installed, site, syntax="Lua"),
        load(installed, site, syntax="Tcl"),
        of_command(wrapper, installed, site, {"LC_ALL": "C.UTF-8"}),
    ):
        assert {bind for bind in found["SINGULARITY_BINDPATH"].split(",") if bind.startswith(f"{folder}/")} == expected


_TEXTS = strategies.text(
    strategies.characters(blacklist_categories=("Cs", "Cc"), max_codepoint=0x2FFF), max_size=12
)  # what a site file can hold on one line


@given(value=_TEXTS, inner=_TEXTS)
@settings(max_examples=12)
def test_values_are_unchanged(wrapper: Wrapper, load: Load, installed: ContainerSpec, value: str, inner: str) -> None:
    feature = Feature("x", env={"VALUE": value}, container_env={"INNER": inner})
    site = a_site(default_features=("x",), feature={"x": feature})
    environ = {"HOME": "/h", "USER": "u", "LC_ALL": "C.UTF-8"}
    expanded = re.sub(
        r"\$(?:(HOME|USER)(?![A-Za-z0-9_])|\{(HOME|USER)\})", lambda m: {"HOME": "/h", "USER": "u"}[m[1] or m[2]], value
    )
    for found in (
        load(installed, site, environ, syntax="Lua"),
        load(installed, site, environ, syntax="Tcl"),
        of_command(wrapper, installed, site, environ),
    ):
        assert (found["VALUE"], found["SINGULARITYENV_INNER"], found["APPTAINERENV_INNER"]) == (expanded, inner, inner)
