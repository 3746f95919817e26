"""Whatever way a centre has EasyBuild name its modules: the verbs find them, and a removal leaves none behind."""

import itertools
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_module_tcl import INIT
from tests.sampling import drawn

from conftest import DEMO_EASYCONFIG, User, demo_with, make_user

LMOD, ENVIRONMENT_MODULES = "Lmod", "environment-modules"

# scheme -> what it puts before the name of a module, and below the tree of modules into MODULEPATH
SCHEMES = {
    "EasyBuildMNS": ("", ""),
    "CategorizedModuleNamingScheme": ("lang/", ""),
    "HierarchicalMNS": ("", "Core"),
    "MigrateFromEBToHMNS": ("", "Core"),
    "CategorizedHMNS": ("", "Core/lang"),
}


@dataclass(frozen=True)
class Way:
    """A way to name modules, and the tool that loads them."""

    scheme: str
    hidden: bool = False
    prefix: str = ""
    tool: str = LMOD
    tree: str = "all"
    fixed: bool = True
    number: str = "3.11"

    @property
    def version(self) -> str:
        return f"{self.prefix}{self.number}-demo-singularity"

    @property
    def module(self) -> str:
        """The name for `module load`."""
        return f"{SCHEMES[self.scheme][0]}Python/{'.' if self.hidden else ''}{self.version}"

    @property
    def folder(self) -> str:
        """The folder of the installation, which the scheme for migration leaves where it is."""
        is_usual = self.fixed or self.scheme == "MigrateFromEBToHMNS"
        return f"{'' if is_usual else '/'.join(SCHEMES[self.scheme])}/Python/{self.version}".strip("/")

    @property
    def flags(self) -> list[str]:
        """What `eb` gets on its command line, so that no verb can read it in EasyBuild's settings."""
        given = {
            f"--module-naming-scheme={self.scheme}": True,
            f"--suffix-modules-path={self.tree}": self.tree != "all",
            "--hidden": self.hidden and self.number == Way.number,
            "--module-syntax=Tcl": self.tool == ENVIRONMENT_MODULES,
            "--disable-fixed-installdir-naming-scheme": not self.fixed,
        }
        return [flag for flag, is_given in given.items() if is_given]

    def shell(self, user: User) -> str:
        """Return the beginning of a script in which `module` finds the modules."""
        init = INIT if self.tool == ENVIRONMENT_MODULES else ""
        return f"{init}\nmodule use '{user.prefix}/modules/{self.tree}/{SCHEMES[self.scheme][1]}'"


QUICK = (
    Way("CategorizedModuleNamingScheme", hidden=True, prefix="site-", tool=ENVIRONMENT_MODULES),
    Way("HierarchicalMNS", hidden=True, tree="", fixed=False),
    Way("CategorizedHMNS", prefix="site-", tree="tree", fixed=False),
)
# What one run of `eb` installs: an easyconfig can hide its module too, and each has a version of its own. With
# the other tool it is the hidden one that has no prefix.
SHARED = [
    tuple(
        Way(scheme, hidden, "site-" if hidden == (tool == LMOD) else "", tool, number="3.12" if hidden else "3.11")
        for hidden in (False, True)
    )
    for scheme, tool in itertools.product(SCHEMES, (LMOD, ENVIRONMENT_MODULES))
]
# Each scheme with its own folders, and each tool with both trees; above is each pair of scheme and tool, half of which
# a run draws.
MOVED = [
    (Way(scheme, tool=(LMOD, ENVIRONMENT_MODULES)[index // 2 % 2], tree=("", "tree")[index % 2], fixed=False),)
    for index, scheme in enumerate(SCHEMES)
]


def name_of(ways: tuple[Way, ...]) -> str:
    way = ways[0]
    return "-".join(filter(None, map(str, (way.scheme, way.prefix, way.tool, *way.flags[1:]))))


def install(ways: tuple[Way, ...], prefix: Path) -> User:
    user = make_user(prefix)
    names = []
    for way in ways:
        changes = f"image_mode = 'link'\nversionprefix = '{way.prefix}'\nversion = '{way.number}'\n"
        names.append(f"Python-{way.version}.eb")
        (prefix / names[-1]).write_text(demo_with(f"{changes}hidden = {way.number != Way.number}\n"))
    user.run(f"eb {' '.join(f'{prefix}/{name}' for name in names)} {shlex.join(ways[0].flags)}")
    return user


@pytest.mark.parametrize(
    "ways",
    [
        (QUICK[-1],),
        *(pytest.param((way,), marks=pytest.mark.slow) for way in QUICK[:-1]),
        *(pytest.param(ways, marks=pytest.mark.slow) for ways in (*drawn("naming schemes", SHARED, 5), *MOVED)),
    ],
    ids=name_of,
)
def test_every_verb_knows_the_module(ways: tuple[Way, ...], tmp_path: Path) -> None:
    user = install(ways, tmp_path / "eb")
    shell = ways[0].shell(user)
    roots = {way: user.prefix / "software" / way.folder for way in ways}
    loads = {way: f"module load {way.module}" for way in ways}

    def all_files() -> list[Path]:
        return sorted(path for path in (user.prefix / "modules").rglob("*") if not path.is_dir())

    first = ways[0]
    found = json.loads(user.out(f"{shell}\n{loads[first]}\nsifmod list --fast --json"))["installations"]
    listed = {one["module"]: one for one in found}
    assert {module: one["root"] for module, one in listed.items()} == {way.module: str(roots[way]) for way in ways}
    assert [module for module, one in listed.items() if one["loaded"]] == [first.module]
    files = {way: [Path(path) for path in listed[way.module]["module_files"]] for way in ways}
    for way in ways:
        assert files[way][0].read_text().count(str(roots[way]))
    assert sorted(itertools.chain.from_iterable(files.values())) == all_files()

    done = user.run("sifmod verify --json", check=False)
    findings = [one for each in json.loads(done.stdout)["installations"] for one in each["findings"]]
    assert {finding["severity"] for finding in findings} == {"ok"}, findings
    for way in ways:
        assert f"{files[way][0]}: unchanged" in [finding["what"] for finding in findings]

    for way, root in roots.items():
        script = user.out(f"sifmod sbatch Python/{way.version} -- x.py")
        (line,) = [line for line in script.splitlines() if line.startswith("module load")]
        assert user.out(f"{shell}\n{line}\necho $CONTAINERROOT") == str(root)

        # a kernel needs the package, and does not start for this
        (root / "user-software/venv/demo/lib/python3.11/site-packages/ipykernel_launcher.py").touch()
        made = user.out(
            f"sifmod kernel Python/{way.version} --json --jupyter-prefix '{tmp_path}/jupyter-{way.version}'"
        )
        spec = json.loads(made)["spec"]
        assert spec["argv"][0] == f"{root}/bin/python"
        assert spec["metadata"]["sifmod"]["module"] == way.module

    for way, root in roots.items():
        user.run(f"sifmod remove Python/{way.version} --delete-user-software --yes")
        assert not root.exists()
        assert not [file for file in all_files() if file in files[way]]
        assert user.run(f"{shell}\n{loads[way]} && echo $CONTAINERROOT", check=False).stdout.strip() in ("", "/")
    assert all_files() == []


@pytest.mark.slow
def test_a_scheme_that_changes_leaves_no_module_behind(user: User) -> None:
    """EasyBuild regenerates modules with another scheme into a second tree, beside the first one."""
    user.eb(DEMO_EASYCONFIG)
    user.eb(DEMO_EASYCONFIG, "--rebuild", "--module-only", "--module-naming-scheme=CategorizedHMNS")
    other = user.prefix / "other"
    user.eb(DEMO_EASYCONFIG, "--rebuild", "--module-only", f"--installpath-modules={other}")
    (listed,) = json.loads(user.out("sifmod list --json"))["installations"]
    assert len([path for path in map(Path, listed["module_files"]) if not path.is_symlink()]) == 3
    assert user.run("sifmod verify").returncode == 0
    refused = user.run("sifmod remove Python --yes", check=False)
    file = other / "all" / "Python" / "3.11-demo-singularity.lua"
    assert refused.returncode == 7
    assert f"'{file}'" in refused.stderr
    assert "would stay" in refused.stderr
    (link,) = [path for path in other.rglob("*") if path.is_symlink()]
    file.unlink()
    link.unlink()
    user.run("sifmod remove Python --yes")
    assert [path for path in (user.prefix / "modules").rglob("*") if not path.is_dir()] == []


def test_a_component_of_a_bundle_is_refused_with_the_reason(user: User) -> None:
    lines = demo_with().splitlines()
    start = [line for line in lines if line.startswith(("homepage", "description", "toolchain", "moduleclass"))]
    component = {"easyblock": "ContainerImage", "sources": ["demo.sif"], "python_prefix": "/usr"}
    text = ["easyblock = 'Bundle'", "name = 'Tools'", "version = '1'", *start]
    (user.prefix / "Tools-1.eb").write_text("\n".join([*text, f"components = [('Python', '3.11', {component!r})]\n"]))
    done = user.eb(str(user.prefix / "Tools-1.eb"), check=False)
    assert done.returncode != 0
    assert "a container image can't be a component of a bundle" in done.stdout + done.stderr
    assert not (user.prefix / "software" / "Tools").exists()


@pytest.mark.slow
def test_a_module_file_that_was_changed_is_named(own_demo: User) -> None:
    file = own_demo.modulefile("Python/3.11-demo-singularity")
    with file.open("a") as stream:
        stream.write('setenv("MINE", "1")\n')
    done = own_demo.run("sifmod verify", status=1)
    assert f"'{file}' was changed since the install" in " ".join(done.stdout.split())
    own_demo.eb(DEMO_EASYCONFIG, "--rebuild", "--module-only")
    assert own_demo.run("sifmod verify").returncode == 0
