"""sifmod as people install it: with pip, beside EasyBuild from the package index."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sifmod
from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, ROOT, TESTBED, User, make_user

USER_OF_THE_DEMO = """easyblock = 'Bundle'
name = 'Uses'
version = '1.0'
homepage = 'https://example.org'
description = 'Depends on a container'
toolchain = SYSTEM
dependencies = [('Python', '3.11', '-demo-singularity', SYSTEM)]
moduleclass = 'tools'
"""


def assert_eb_finds_containers(user: User, *, path: str) -> None:
    """Look for the demo easyconfig by name, by searching, as a dependency, and as `sifmod doctor` does."""
    begin = f"PATH={path}:$PATH; cd {user.prefix}; "
    found = user.out(f"{begin}eb --terse --search ^{DEMO_EASYCONFIG}$")
    assert found.endswith(f"/site-packages/easybuild/easyconfigs/p/Python/{DEMO_EASYCONFIG}")
    assert f"(module: {DEMO_MODULE})" in user.out(f"{begin}eb --dry-run {DEMO_EASYCONFIG}")
    (user.prefix / "Uses-1.0.eb").write_text(USER_OF_THE_DEMO)
    assert f"(module: {DEMO_MODULE})" in user.out(f"{begin}eb --dry-run --robot Uses-1.0.eb")
    said = user.run(f"{begin}sifmod doctor", check=False).stdout
    assert re.search(r"^ok +easyconfigs ", said, re.MULTILINE), said


def test_eb_finds_containers_beside_easybuild_s_own_easyconfigs(user: User) -> None:
    own = TESTBED / "venv" / "easybuild" / "easyconfigs"
    assert (own / ".eb-path-index").is_file(), "the testbed's EasyBuild is older than testbed/setup: remove its venv"
    assert_eb_finds_containers(user, path=f"{TESTBED}/venv/bin")


def test_sifmod_env_keeps_both_in_the_robot_path(user: User) -> None:
    (user.prefix / "Uses-1.0.eb").write_text(USER_OF_THE_DEMO)
    done = user.out('eval "$(sifmod env)"; eb --dry-run --robot Uses-1.0.eb && eb --terse --search ^zlib-1.3.1.eb$')
    assert f"(module: {DEMO_MODULE})" in done
    assert done.endswith(f"{sys.prefix}/easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb")


def test_doctor_names_the_remedy_where_eb_does_not_look_at_sifmod_s_easyconfigs(user: User) -> None:
    (user.prefix / "empty").mkdir()
    script = f"export EASYBUILD_ROBOT_PATHS={user.prefix}/empty; {{}} sifmod doctor"
    said = user.run(script.format(""), check=False).stdout
    assert re.search(rf"^warning +easyconfigs .*not found: {DEMO_EASYCONFIG}", said, re.MULTILINE), said
    assert 'eval "$(sifmod env)"' in said
    said = user.run(script.format('eval "$(sifmod env)";'), check=False).stdout
    assert re.search(r"^ok +easyconfigs ", said, re.MULTILINE), said


# Environments of their own, from the package index


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout") / "sifmod"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    return copy


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> dict[str, Path]:
    """What `python -m build` makes, and the checkout for an editable install."""
    folder = tmp_path_factory.mktemp("dist")
    user = make_user(tmp_path_factory.mktemp("builder") / "eb")
    venv = user.prefix / "venv"
    user.run(
        f"/usr/bin/python3 -m venv {venv} && {venv}/bin/pip install --quiet build && "
        f"{venv}/bin/python -m build --outdir {folder} {checkout}"
    )
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "editable": checkout}


MakeEnvironment = Callable[..., Path]


def easybuild(release: str) -> str:
    """Return the requirement of the oldest or the newest EasyBuild that the metadata promises."""
    (promised,) = (one for one in map(Requirement, requires("sifmod") or []) if one.name == "easybuild-framework")
    (bound,) = (one.version for one in promised.specifier if one.operator == ">=")
    return f"easybuild=={bound}" if release == "oldest" else f"easybuild{promised.specifier}"


@pytest.fixture
def environment(user: User, distributions: dict[str, Path]) -> MakeEnvironment:
    """Make a virtual environment with EasyBuild and sifmod, and return its folder of commands."""

    def make(*easybuild: str, kind: str = "wheel") -> Path:
        venv = user.prefix / "venv"
        pip = f"{venv}/bin/pip install --quiet --no-compile --disable-pip-version-check"
        words = " ".join(f"'{word}'" for word in easybuild)
        sifmod = f"{'--editable ' if kind == 'editable' else ''}{distributions[kind]}"
        user.run(f"/usr/bin/python3 -m venv {venv} && {pip} {words} && {pip} {sifmod}")
        return venv / "bin"

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist", "editable"])
def test_a_clean_environment_has_sifmod_and_eb(user: User, environment: MakeEnvironment, kind: str) -> None:
    """One without easybuild-easyconfigs."""
    path = environment("easybuild-framework", "easybuild-easyblocks", kind=kind)
    assert not (path.parent / "easybuild" / "easyconfigs").exists()
    assert "Debian GNU/Linux 12" in user.out(f"{path}/sifmod inspect {IMAGES}/demo.sif")
    assert_eb_finds_containers(user, path=str(path))


@pytest.mark.slow
@pytest.mark.parametrize("release", ["oldest", "newest"])
def test_oldest_and_newest_easybuild_install(user: User, environment: MakeEnvironment, release: str) -> None:
    path = environment(easybuild(release))
    ours = {one.name for one in path.parent.glob("lib/python3*/site-packages/easybuild/easyconfigs/**/*.eb")}
    theirs = {one.name for one in path.parent.glob("easybuild/easyconfigs/**/*.eb")}
    assert (DEMO_EASYCONFIG in ours, "zlib-1.2.13.eb" in theirs) == (True, True)
    assert not ours & theirs
    assert_eb_finds_containers(user, path=str(path))
    assert f"(module: {DEMO_MODULE})" in user.out(
        f"PATH={path}:$PATH; sifmod env | (. /dev/stdin; eb -D {DEMO_EASYCONFIG})"
    )
    user.run(f"PATH={path}:$PATH; eb {DEMO_EASYCONFIG} && eb --rebuild --module-only {DEMO_EASYCONFIG}")
    assert user.out(f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'print(6 * 7)'") == "42"
    shown = user.out(f"PATH={path}:$PATH; sifmod render --diff {DEMO_EASYCONFIG}; sifmod list")
    assert DEMO_MODULE in shown


@pytest.mark.slow
def test_the_bill_of_materials_of_sifmod_names_what_it_needs_and_nothing_else(user: User, checkout: Path) -> None:
    user.run(f"make -C {checkout} sbom")
    text = (checkout / "dist" / f"sifmod-{sifmod.__version__}.cdx.json").read_text()
    document = json.loads(text)
    root = document["metadata"]["component"]
    assert (root["name"], root["version"]) == ("sifmod", sifmod.__version__)
    found = {canonicalize_name(one["name"]) for one in document["components"]}
    needed = {canonicalize_name(one.name) for one in map(Requirement, requires("sifmod") or []) if not one.marker}
    assert needed <= found
    assert not found & {"pip", "setuptools", "pytest", "cyclonedx-bom"}
    assert str(checkout) not in text
