"""The module of a site alone, in Lua and in Tcl: it does what a container's module does, without the image."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from tests.programs import ran

from sifmod.container.bind import Bind
from sifmod.container.spec import ContainerSpec
from sifmod.render.sitemodule import MARK, render_site_module
from sifmod.site.settings import Site, load_site

from ..support import Need, a_site, split_binds
from .cases import GOLDEN, NASTY_SITE, without_parts
from .running import Load, Wrapper

NAME = "any-image"
CASES = {
    "generic": load_site({}),
    "lumi": load_site({"SIFMOD_SITE": "lumi"}),
    "nasty": replace(NASTY_SITE, gpu="nvidia", container_env={**NASTY_SITE.container_env, "PIP_INDEX_URL": "a'b"}),
}
FILES = {"Lua": f"{NAME}.lua", "Tcl": NAME}
SYNTAXES = pytest.mark.parametrize("syntax", FILES)


@pytest.fixture(params=CASES)
def site(request: pytest.FixtureRequest) -> Site:
    """Return one site after the other."""
    return CASES[request.param]


def loaded(
    load: Load,
    folder: Path,
    site: Site,
    syntax: str,
    environ: Optional[Mapping[str, str]] = None,
    *,
    mode: str = "load",
) -> dict[str, str]:
    """Return what the module of a site sets."""
    for name, text in render_site_module(NAME, site).items():
        (folder / name).write_text(text, encoding="utf-8")
    return load.variables(load.run_file(folder / FILES[syntax], environ, syntax=syntax, mode=mode))


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_what_the_golden_files_hold(case: str) -> None:
    folder = GOLDEN / "sites" / case
    rendered = {name: without_parts(text) for name, text in render_site_module(NAME, CASES[case]).items()}
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in rendered.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == rendered


def test_every_golden_folder_belongs_to_a_case() -> None:
    assert {path.name for path in (GOLDEN / "sites").iterdir()} == set(CASES)


def test_both_files_say_what_wrote_them_however_it_is_named(site: Site) -> None:
    lua, tcl = render_site_module(NAME, site).values()
    assert MARK in lua.splitlines()[0]
    assert tcl.splitlines()[0] == "#%Module"
    assert MARK in tcl.splitlines()[1]
    once, again = (render_site_module(NAME, a_site(name=name)) for name in ("/apps/our.toml", "our.toml"))
    assert once == again
    assert any("at the site our:" in line for line in once[NAME].splitlines())


def test_lua_and_tcl_can_read_it(site: Site, need: Need, tmp_path: Path) -> None:
    for name, text in render_site_module(NAME, site).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = ran([need("luac5.3", "luac"), "-p", tmp_path / f"{NAME}.lua"])
    assert (done.returncode, done.stderr) == (0, "")
    complete = "fconfigure stdin -encoding utf-8; exit [expr {![info complete [read stdin]]}]"
    (tmp_path / "complete.tcl").write_text(complete)
    with (tmp_path / NAME).open() as module:
        assert subprocess.run([need("tclsh"), tmp_path / "complete.tcl"], stdin=module, check=False).returncode == 0


@SYNTAXES
def test_it_needs_no_image(site: Site, installed: ContainerSpec, load: Load, tmp_path: Path, syntax: str) -> None:
    environ = {"HOME": "/home/it's", "USER": "me", "SLURM_JOB_ACCOUNT": "p", "SINGULARITY_BINDPATH": "/mine"}
    libraries = site.gpu_libraries or "host"
    spec = replace(
        installed, python=None, venv="", wrappers=(), gpu=site.gpu, gpu_libraries=libraries, has_drivers=False
    )
    expected = load(spec, site, environ, syntax=syntax)
    own = ["SIF", "SIFDEMO", "CONTAINERROOT", "RUNSCRIPTS", "RUNSCRIPTSDEMO"]
    own += ["SINGULARITYENV_PREPEND_PATH", "APPTAINERENV_PREPEND_PATH"]
    for name in own:
        del expected[name]
    for name in ("SINGULARITY_BINDPATH", "APPTAINER_BINDPATH", "__SIFMOD_BINDPATH"):
        first, _, others = expected[name].partition(":/runscripts:ro,")
        assert first.endswith("runscripts")
        # of what runs at each start it has no file
        script, found, behind = others.partition(":/.singularity.d/env/99-sifmod.sh:ro,")
        assert bool(found) == (site.gpu != "" and libraries == "host"), script
        expected[name] = behind if found else others
    if site.feature:
        expected["__SIFMOD_FEATURES_"] = expected.pop("__SIFMOD_FEATURES_DEMO")
    assert loaded(load, tmp_path, site, syntax, environ) == expected


@SYNTAXES
def test_optional_binds_are_those_that_exist(load: Load, tmp_path: Path, syntax: str) -> None:
    (tmp_path / "there").mkdir()
    optional = (Bind(str(tmp_path / "there"), "/there"), Bind(str(tmp_path / "gone"), "/gone"))
    site = a_site(binds=(Bind("/always", "/always"),), optional_binds=optional)
    binds = split_binds(loaded(load, tmp_path, site, syntax)["APPTAINER_BINDPATH"])
    assert binds == [("/always", "/always", ""), (str(tmp_path / "there"), "/there", "")]


@SYNTAXES
@pytest.mark.parametrize(("gpu", "libraries", "on"), [("nvidia", "", "NV"), ("amd", "", ""), ("amd", "host", "ROCM")])
def test_gpu_support_on_the_host(load: Load, tmp_path: Path, syntax: str, gpu: str, libraries: str, on: str) -> None:
    variables = loaded(load, tmp_path, a_site(gpu=gpu, gpu_libraries=libraries), syntax)
    assert [name for name in ("NV", "ROCM") if variables.get(f"SINGULARITY_{name}") == "1"] == ([on] if on else [])
    assert "SINGULARITYENV_PREPEND_LD_LIBRARY_PATH" not in variables  # nothing is known of the image


@SYNTAXES
def test_the_user_s_own_binds_are_used_by_commands(load: Load, tmp_path: Path, wrapper: Wrapper, syntax: str) -> None:
    variables = loaded(load, tmp_path, a_site(), syntax)
    assert variables["SINGULARITY_BINDPATH"] == ""
    kept = {name: value for name, value in variables.items() if name.startswith("__SIFMOD")}
    call = wrapper("python", environ={**kept, "SINGULARITY_BINDPATH": "/a,/b"})
    assert call["env"]["SINGULARITY_BINDPATH"].endswith(",/a,/b")


def test_the_help_names_everything_that_is_set() -> None:
    site = replace(
        CASES["nasty"], cache={"root": "/scratch/${USER}", "HF_HOME": "hf"}, container_env={"A": "b", "PIP_X": "c\x1b"}
    )
    help_text = render_site_module(NAME, site)[f"{NAME}.lua"].partition(" help = ")[2]
    assert [name for name in site.feature if f" {name}  " not in help_text] == []
    for said in ("/data 1:ro", "$HOME", "--nv (NVIDIA)", "A=b", "PIP_X=c", "/scratch/${USER}", "HF_HOME"):
        assert said in help_text
    assert "\x1b" not in help_text


@SYNTAXES
def test_the_module_of_lumi_has_the_bind_paths_of_lumi_s_own(syntax: str) -> None:
    """singularity-AI-bindings-24.03.eb of LUMI-EasyBuild-contrib, of May 2026: docs/howto/use-any-image.md."""
    paths = "/var/spool/slurmd /opt/cray /usr/lib64/libcxi.so.1 /usr/lib64/libjansson.so.4"
    paths += " /pfs /scratch /projappl /project /flash /appl"
    assert [bind.argument for bind in (*CASES["lumi"].binds, *CASES["lumi"].optional_binds)] == paths.split()
    text = render_site_module(NAME, CASES["lumi"])[FILES[syntax]]
    for path in paths.split():
        assert f'"{path}"' in text
