import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sifmod.render.templates
from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.spec import PythonLayout, spec_from_parameters
from sifmod.render.templates import render, render_module
from sifmod.site.settings import load_site

from ..support import CONDA, SQUASHFS, USR, FakeRuntime, a_site, a_spec, split_binds

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LMOD = Path(__file__).with_name("lmod_stub.lua")
MODULES = Path(__file__).with_name("modules_stub.tcl")
MODULE = "module.lua"
TCL_MODULE = "module.tcl"

NASTY_SITE = a_site(
    runtime="singularity ce",
    binds=(Bind("/site,data", "/data 1", "ro"),),
    optional_binds=(Bind("/it's/$HOME", "/it's/$HOME"),),
    image_repositories=('/central "images"', "/cent`ral`"),
    container_env={"QUOTES": 'it\'s "$HOME" `id` \\n', "SHARED": "site"},
    master_suffix="-ib'0",
)


def made(python_version, **parameters):
    fields = {key: parameters.pop(key) for key in ("name", "version", "env_name", "installdir", "sif")}
    return replace(spec_from_parameters(**fields, parameters=parameters), python_version=python_version)


CASES = {
    "conda-amd-lumi": (
        made(
            "3.10",
            name="PyTorch",
            version="2.2.0-rocm-5.6.1-python-3.10-singularity-20240315",
            env_name="PYTORCH",
            installdir="/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1",
            sif="lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif",
            gpu="amd",
            conda_env="pytorch",
            venv="pytorch",
            wrappers=["python", "pip", "torchrun"],
        ),
        load_site({"SIFMOD_SITE": "lumi"}),
    ),
    "usr-python-generic": (
        made(
            "3.11",
            name="Python",
            version="3.11-demo-singularity",
            env_name="PYTHON",
            installdir="/apps/Python/3.11-demo-singularity",
            sif="demo.sif",
            python_prefix="/usr",
            venv="demo",
        ),
        load_site({}),
    ),
    "no-python": (
        made(
            "",
            name="GROMACS",
            version="2024.1",
            env_name="GROMACS",
            installdir="/apps/GROMACS/2024.1",
            sif="gromacs.sif",
            wrappers=["gmx"],
            module_family="",
        ),
        load_site({}),
    ),
    "nvidia-run-nasty": (
        made(
            "3.12",
            name="PyTorch-NGC",
            version="24.05 it's",
            env_name="PYTORCHMINNGC",
            installdir="/tmp/a b,c'd$e",
            sif='nasty $image "1".sif',
            gpu="nvidia",
            launch="run",
            python_prefix="/opt/venv",
            venv="a+b",
            wrappers=["python", "nvidia-smi"],
            binds=[r"/own\,data:/own:rw", "/plain"],
            container_env={"SHARED": "easyconfig's", "EMPTY": ""},
            pip_constraints=False,
        ),
        NASTY_SITE,
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest):
    return request.param


def outputs(spec, site):
    """Return everything that is rendered for a container: relative path -> text."""
    return {
        MODULE: render_module(spec, site),
        TCL_MODULE: render_module(spec, site, "Tcl"),
        **{str(item.path): item.text for item in render(spec, site)},
    }


def text_of(path, spec, site=None):
    return outputs(spec, site or a_site())[path]


# Golden files: `make golden` writes them anew.


def test_what_is_rendered_is_what_the_golden_files_hold(case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sifmod.render.templates, "__version__", "VERSION")
    rendered = outputs(*CASES[case])
    folder = GOLDEN / case
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            path.unlink()
        for name, text in rendered.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert sorted(rendered) == sorted(stored), "run `make golden` and look at the differences"
    for name, text in rendered.items():
        assert text == (folder / name).read_text(encoding="utf-8"), f"{case}/{name}: run `make golden` and look"


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name[0] != "."} == {*CASES, "jobs"}


def test_the_module_says_which_sifmod_wrote_it() -> None:
    assert f"written by sifmod {sifmod.__version__}." in render_module(*CASES["usr-python-generic"])


# The same bytes for the same input


def test_rendering_twice_gives_the_same_bytes(case) -> None:
    assert outputs(*CASES[case]) == outputs(*CASES[case])
    assert render(*CASES[case]) == render(*CASES[case])


def digest():
    return hashlib.sha256(repr([outputs(*CASES[name]) for name in CASES]).encode()).hexdigest()


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_rendering_does_not_depend_on_the_order_of_hashes(seed: str) -> None:
    code = "from unit.render.test_templates import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": ":".join([str(GOLDEN.parent), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_rendering_does_not_depend_on_the_environment(case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = outputs(*CASES[case])
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USER", "TZ", "LANG", "SIFMOD_RUNTIME"):
        monkeypatch.setenv(name, "other")
    assert outputs(*CASES[case]) == before


# Which files there are


def test_artefacts_come_sorted_each_path_once(case) -> None:
    paths = [item.path for item in render(*CASES[case])]
    assert paths == sorted(set(paths))
    assert all(isinstance(path, PurePosixPath) and not path.is_absolute() and len(path.parts) == 2 for path in paths)


@pytest.mark.parametrize("wrappers", [("python", "python3"), ("pip3.11", "pip"), ("python3.11", "python", "python3")])
def test_a_versioned_name_that_is_asked_for_as_well_is_one_file(wrappers: tuple[str, ...]) -> None:
    paths = [item.path for item in render(a_spec(wrappers=wrappers), a_site())]
    assert len(paths) == len(set(paths))


def test_commands_are_executable_and_what_is_sourced_is_not(case) -> None:
    for item in render(*CASES[case]):
        sourced = item.path.parts[0] == "share" or str(item.path) == "runscripts/init-conda-venv"
        assert item.executable != sourced
        assert item.text.startswith("#!/bin/bash") != sourced


def test_a_container_without_a_python_has_no_python_commands() -> None:
    assert sorted(outputs(*CASES["no-python"])) == [
        "bin/gmx",
        "bin/start-shell",
        MODULE,
        TCL_MODULE,
        "runscripts/get-master",
        "share/container.sh",
    ]


def test_a_container_without_a_venv_has_nothing_to_pack() -> None:
    paths = outputs(a_spec(venv=""), a_site())
    assert not [path for path in paths if "squashfs" in path or "compare" in path]
    assert "user-software" not in paths[MODULE] + paths[TCL_MODULE]


def test_sifmod_s_own_commands_are_those_that_no_wrapper_may_hide() -> None:
    assert {path for path in outputs(a_spec(wrappers=()), a_site()) if path.startswith("bin/")} == {
        f"bin/{name}" for name in names.COMMANDS
    }


def test_wrappers_have_their_versioned_names() -> None:
    paths = outputs(a_spec(python_version="3.11", wrappers=("python", "pip", "torchrun")), a_site())
    own = {path[4:] for path in paths if path.startswith("bin/")} - set(names.COMMANDS)
    assert own == {"python", "python3", "python3.11", "pip", "pip3", "pip3.11", "torchrun"}


def test_before_the_image_was_looked_into_there_are_the_plain_names() -> None:
    paths = outputs(a_spec(python_version=""), a_site())
    own = {path[4:] for path in paths if path.startswith("bin/")} - set(names.COMMANDS)
    assert own == {"python", "pip"}


def test_every_rendered_text_ends_with_one_line_break(case) -> None:
    for path, text in outputs(*CASES[case]).items():
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n\n"), path
        assert "{{" not in text, path
        assert "{%" not in text, path


# What the languages' own checkers say


@pytest.fixture
def written(case, tmp_path: Path):
    """Write a case out as it is installed: in a folder of that nasty name, where its own path is written into it."""
    spec, site = CASES[case]
    top = tmp_path / ("a b,c'd$e" if "nasty" in case else "plain")
    return write_out(replace(spec, installdir=str(top)), site)


def write_out(spec, site):
    top = Path(spec.installdir)
    for item in render(spec, site):
        path = top / item.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item.text, encoding="utf-8")
        path.chmod(0o755 if item.executable else 0o644)
    (top / MODULE).write_text(render_module(spec, site), encoding="utf-8")
    (top / TCL_MODULE).write_text(render_module(spec, site, "Tcl"), encoding="utf-8")
    return top


def bash_files(top):
    return sorted(path for path in top.rglob("*") if path.is_file() and path.suffix not in (".py", ".lua", ".tcl"))


def test_bash_can_read_every_script(written) -> None:
    assert len(bash_files(written)) > 3
    for path in bash_files(written):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def test_shellcheck_finds_nothing(written, need) -> None:
    tool = need("shellcheck")
    files = bash_files(written)
    # what init-conda-venv sources lies in the image
    own = [path for path in files if path.name != "init-conda-venv"]
    assert len(own) > 3
    run = {"capture_output": True, "text": True, "check": False, "cwd": written}
    # a name with a dollar sign in it stands in single quotes, which is what SC2016 asks about
    but = ["-e", "SC2016"] if "$" in str(written) else []
    done = subprocess.run([tool, "-x", "-S", "style", *but, *own], **run)
    assert done.stdout + done.stderr == ""
    for path in set(files) - set(own):
        done = subprocess.run([tool, "-s", "bash", "-e", "SC1091", "-S", "style", path], **run)
        assert done.stdout + done.stderr == ""


def test_lua_can_read_the_module(written, need) -> None:
    done = subprocess.run(
        [need("luac5.3", "luac"), "-p", written / MODULE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_tcl_can_read_the_module(written, need, tmp_path: Path) -> None:
    script = tmp_path / "complete.tcl"
    script.write_text(
        "set file [open [lindex $argv 0]]\nfconfigure $file -encoding utf-8\n"
        "exit [expr {![info complete [read $file]]}]"
    )
    assert subprocess.run([need("tclsh"), script, written / TCL_MODULE], check=False).returncode == 0


def test_python_can_read_the_comparison(written) -> None:
    for path in written.rglob("*.py"):
        done = subprocess.run([sys.executable, "-m", "py_compile", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


# The module, run by a plain Lua


@pytest.fixture
def load(need):
    """Load a module in a plain Lua or Tcl with a little of a modules tool, and return what it set."""

    def load(spec, site=None, environ=None, *, mode="load", calling="bash", check=True, syntax="Lua"):
        top = Path(spec.installdir)
        module = top.parent / f"{top.name}.{syntax.lower()}"
        module.write_text(render_module(spec, site or a_site(), syntax), encoding="utf-8")
        run = [need("lua5.3", "lua"), LMOD] if syntax == "Lua" else [need("tclsh"), MODULES]
        done = subprocess.run(
            [*run, module, mode, calling], env={"LANG": "C.UTF-8", **(environ or {})}, capture_output=True, check=False
        )
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        words = [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]
        return dict(zip(words[::2], words[1::2]))

    return load


@pytest.fixture
def installed(tmp_path: Path):
    """Give a spec whose installation directory is there, with an image, and an unusual name."""
    spec = a_spec(installdir=str(tmp_path / "a b,c'd$e"))
    write_out(spec, a_site())
    Path(spec.installdir, spec.sif).write_text("")
    Path(spec.installdir, "user-software").mkdir()
    return spec


def test_a_loaded_module_names_the_image_and_the_folders(installed, load) -> None:
    variables = load(installed)
    top = installed.installdir
    assert variables["SIF"] == variables["SIFDEMO"] == f"{top}/demo.sif"
    assert variables["CONTAINERROOT"] == top
    assert variables["RUNSCRIPTS"] == variables["RUNSCRIPTSDEMO"] == f"{top}/runscripts"
    assert variables["family"] == "container"


def test_a_module_without_a_family_has_none(installed, load) -> None:
    assert "family" not in load(replace(installed, module_family=""))


def test_every_singularity_variable_has_its_apptainer_twin(installed, load) -> None:
    variables = load(replace(installed, gpu="nvidia", container_env={"A": "b"}))
    twins = {name: value for name, value in variables.items() if name.startswith("SINGULARITY")}
    assert len(twins) > 5
    assert {"APPTAINER" + name[len("SINGULARITY") :]: value for name, value in twins.items()} == {
        name: value for name, value in variables.items() if name.startswith("APPTAINER")
    }


@pytest.mark.parametrize(("gpu", "flag"), [("", None), ("amd", "ROCM"), ("nvidia", "NV")])
def test_the_gpu_is_switched_on_by_its_own_variable(installed, load, gpu: str, flag: Optional[str]) -> None:
    variables = load(replace(installed, gpu=gpu))
    on = {name for name in ("ROCM", "NV") if variables.get(f"SINGULARITY_{name}") == "1"}
    assert on == ({flag} if flag else set())


def binds_of(variables):
    return {
        destination: (source, options) for source, destination, options in split_binds(variables["APPTAINER_BINDPATH"])
    }


def test_the_user_software_s_directory_is_bound_while_it_is_not_packed(installed, load) -> None:
    binds = binds_of(load(installed))
    assert binds["/user-software"] == (f"{installed.installdir}/user-software", "")
    assert binds["/runscripts"] == (f"{installed.installdir}/runscripts", "")


def test_the_packed_file_is_bound_read_only_as_soon_as_it_is_there(installed, load) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    source, options = binds_of(load(installed))["/user-software"]
    assert source == f"{installed.installdir}/user-software.squashfs"
    assert set(options.split(",")) == {"ro", "image-src=/"}


def test_an_unpacked_directory_beats_the_packed_file_beside_it(installed, load) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    Path(installed.installdir, "user-software.unpacked").write_text("")
    assert binds_of(load(installed))["/user-software"][0] == f"{installed.installdir}/user-software"


def test_the_mark_alone_does_not_hide_the_packed_file(installed, load) -> None:
    Path(installed.installdir, "user-software.squashfs").write_bytes(SQUASHFS)
    Path(installed.installdir, "user-software.unpacked").write_text("")
    Path(installed.installdir, "user-software").rmdir()
    assert binds_of(load(installed))["/user-software"][0] == f"{installed.installdir}/user-software.squashfs"


def test_optional_binds_are_used_where_their_source_is(installed, load, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file,1").write_text("")
    places = {"there": "/there", "gone": "/gone", "file,1": "/file"}
    site = a_site(optional_binds=tuple(Bind(str(tmp_path / name), place) for name, place in places.items()))
    binds = binds_of(load(installed, site))
    assert {"/there", "/file"} <= set(binds)
    assert "/gone" not in binds


@pytest.mark.parametrize("variable", ["SINGULARITY_BINDPATH", "APPTAINER_BINDPATH"])
def test_the_user_s_own_binds_stay_behind_the_container_s(installed, load, variable: str) -> None:
    variables = load(installed, environ={variable: "/mine:/m"})
    assert split_binds(variables["SINGULARITY_BINDPATH"])[-1] == ("/mine", "/m", "")
    assert variables["SIFMOD_USER_BINDPATH"] == "/mine:/m"


def test_loading_over_a_loaded_module_does_not_repeat_its_binds(installed, load) -> None:
    first = load(installed, environ={"SINGULARITY_BINDPATH": "/mine"})
    again = {name: value for name, value in first.items() if "\0" not in value and name.isidentifier()}
    assert load(installed, environ=again)["APPTAINER_BINDPATH"] == first["APPTAINER_BINDPATH"]


def test_no_list_of_binds_has_an_empty_element(installed, load) -> None:
    for spec in (installed, replace(installed, venv="", python=None)):
        for environ in ({}, {"SINGULARITY_BINDPATH": ""}):
            assert not re.search(r"^,|,,|,$", load(spec, environ=environ)["SINGULARITY_BINDPATH"])


def test_a_central_image_takes_the_place_of_a_removed_one(installed, load, tmp_path: Path) -> None:
    Path(installed.installdir, installed.sif).unlink()
    central = tmp_path / "cen'tral"
    central.mkdir()
    (central / installed.sif).write_text("")
    site = a_site(image_repositories=("/no/such/folder", str(central)))
    assert load(installed, site)["SIF"] == f"{central}/demo.sif"


def test_loading_without_any_image_fails_with_one_clear_line_and_unloading_does_not(installed, load) -> None:
    Path(installed.installdir, installed.sif).unlink()
    done = load(installed, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert os.fsencode(f"{installed.installdir}/demo.sif") in done.stderr
    assert b"eb --rebuild" in done.stderr
    assert load(installed, mode="unload", check=False).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_packing_reloads_the_module_in_the_calling_shell(installed, load, shell: str) -> None:
    variables = load(installed, calling=shell)
    for command in ("make-squashfs", "unmake-squashfs"):
        assert variables[f"function {command}"] == f'env SIFMOD_RELOADS=1 {command} "$@" && module load Demo/1.0-x'


@pytest.mark.parametrize("state", ["directory", "packed", "both", "unpacked", "empty", "text", "short", "central"])
@pytest.mark.parametrize("case", CASES)
def test_both_syntaxes_have_the_same_effect(load, tmp_path: Path, case, state: str) -> None:
    spec, site = CASES[case]
    top = tmp_path / "a b,c'd$e{["
    spec = replace(spec, installdir=str(top))
    write_out(spec, site)
    (top / "user-software").mkdir()
    put_into_state(top, state)
    central = tmp_path / "cen'tral $[x]"
    central.mkdir()
    ((central if state == "central" else top) / spec.sif).write_text("")
    site = replace(
        site, image_repositories=(str(central),), optional_binds=(Bind(str(central), "/c"), Bind("/gone", "/g"))
    )
    for environ in (
        {},
        {"SINGULARITY_BINDPATH": "/mine"},
        {"__SIFMOD_CONTAINER": "Demo/1.0-x", "SIFMOD_USER_BINDPATH": "/a,/b", "APPTAINER_BINDPATH": "/x"},
        {"__SIFMOD_CONTAINER": "Other/2", "APPTAINER_BINDPATH": "/x"},
    ):
        lua = load(spec, site, environ)
        tcl = load(spec, site, environ, syntax="Tcl")
        functions = [name for name in tcl if name.startswith("function")]
        assert [name in lua for name in functions] == [bool(spec.venv)] * len(functions)
        for name in functions:
            assert tcl.pop(name) == lua.pop(name).replace("module load", f"module switch {spec_name(lua)}")
        assert tcl == lua
    assert len(lua) > 8


def spec_name(variables):
    return variables["__SIFMOD_CONTAINER"]


def put_into_state(top, state):
    """Arrange user software: a directory is there, and what else the state says."""
    packed = top / "user-software.squashfs"
    contents = {"empty": b"", "text": b"hello\n" * 100, "short": SQUASHFS[:-1]}
    if state not in ("directory", "central"):
        packed.write_bytes(contents.get(state, SQUASHFS))
    if state == "packed":
        (top / "user-software").rmdir()
    if state == "unpacked":
        (top / "user-software.unpacked").write_text("")


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
@pytest.mark.parametrize("state", ["empty", "text", "short"])
def test_a_damaged_packed_file_is_named_with_the_remedy_and_not_bound(installed, load, syntax: str, state: str) -> None:
    top = Path(installed.installdir)
    put_into_state(top, state)
    done = load(installed, syntax=syntax, check=False)
    assert done.returncode == 0
    assert os.fsencode(f"{top}/user-software.squashfs is damaged") in done.stderr
    assert done.stderr.endswith(b"; make-squashfs\n")
    assert binds_of(load(installed, syntax=syntax))["/user-software"][0] == f"{top}/user-software"
    (top / "user-software").rmdir()
    done = load(installed, syntax=syntax, check=False)
    assert done.returncode == 0
    assert b"Restore it from a backup" in done.stderr
    assert "/user-software" not in binds_of(load(installed, syntax=syntax))
    assert load(installed, syntax=syntax, mode="unload", check=False).stderr == b""


@pytest.mark.parametrize("state", ["empty", "text", "short"])
def test_a_wrapper_takes_the_directory_where_the_packed_file_is_damaged(wrapper, installed, state: str) -> None:
    top = Path(installed.installdir)
    put_into_state(top, state)
    done = wrapper("python", check=False)
    assert done.returncode == 0
    assert done.stderr.startswith(f"python: {top}/user-software.squashfs is damaged")
    assert binds_of(wrapper.fake.calls[-1]["env"])["/user-software"][0] == f"{top}/user-software"
    (top / "user-software").rmdir()
    done = wrapper("python", check=False)
    assert done.returncode == 126
    assert "Restore it from a backup" in done.stderr


@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_without_any_image_tcl_fails_as_lua_does(installed, load, syntax: str) -> None:
    Path(installed.installdir, installed.sif).unlink()
    done = load(installed, check=False, syntax=syntax)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert load(installed, mode="unload", check=False, syntax=syntax).returncode == 0


def test_a_container_that_is_not_the_last_one_has_the_last_one_loaded_again_on_unload(installed, load) -> None:
    last = {"__SIFMOD_CONTAINER": "Other/2"}
    assert '*:"Other/2":*) module load "Other/2"' in load(installed, environ=last, mode="unload")["execute"]
    assert "execute" not in load(installed, environ={"__SIFMOD_CONTAINER": "Demo/1.0-x"}, mode="unload")
    assert "execute" not in load(installed, environ=last)
    assert "execute" not in load(installed, environ=last, mode="unload", calling="fish")


def test_sh_gets_no_function(installed, load) -> None:
    """A name with a hyphen is no function name in dash: its `eval` of the whole module would fail."""
    assert not [name for name in load(installed, calling="sh") if name.startswith("function")]


# The wrappers, run by bash with a fake runtime: what the runtime would get


@pytest.fixture
def wrapper(tmp_path: Path, installed):
    """Write an installation out and call one of its commands; the environment holds nothing but PATH."""
    fake = FakeRuntime(tmp_path / "fake")

    def wrapper(name, *words, spec=installed, site=None, environ=None, check=True, path=f"{fake.bin}:/usr/bin:/bin"):
        top = write_out(spec, site or a_site())
        done = subprocess.run(
            [top / "bin" / name, *words],
            env={"PATH": path, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not check:
            return done
        assert (done.returncode, done.stderr) == (0, "")
        return fake.calls[-1]

    wrapper.fake = fake
    return wrapper


def test_a_wrapper_passes_its_arguments_word_for_word(wrapper, installed) -> None:
    words = ["-c", "print('a b')", "", "$(touch x)", "*", "--", "é\n"]
    assert wrapper("python", *words)["argv"] == [
        "exec",
        f"{installed.installdir}/demo.sif",
        "/user-software/venv/demo/bin/python",
        *words,
    ]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("python3.11", ["/user-software/venv/demo/bin/python"]),
        ("pip3", ["/user-software/venv/demo/bin/python", "-m", "pip"]),
        ("torchrun", ["/runscripts/run-tool", "torchrun"]),
        ("start-shell", ["/bin/bash", "--norc"]),
        ("list-packages", ["/runscripts/list-packages"]),
    ],
)
def test_each_command_runs_its_namesake_in_the_container(wrapper, installed, name: str, command: list[str]) -> None:
    call = wrapper(name, "x", spec=replace(installed, wrappers=("python", "pip", "torchrun")))
    assert call["argv"][2:] == [*command, "x"]


def test_an_image_that_sets_itself_up_is_run(wrapper, installed) -> None:
    assert wrapper("python", spec=replace(installed, launch="run"))["argv"][0] == "run"


@pytest.mark.parametrize("status", [1, 42, 255])
def test_a_wrapper_ends_with_the_command_s_own_status(wrapper, status: int) -> None:
    wrapper.fake.answer(fail="other", status=status)
    assert wrapper("start-shell", check=False).returncode == status


def container_variables(environ):
    names_ = [name for name in environ if name.startswith(("SINGULARITY", "APPTAINER"))]
    return {name: environ[name] for name in names_ if not name.endswith(("_NV", "_ROCM"))}


RICH_SITE = a_site(
    binds=(Bind("/etc", "/host etc", "ro"),),
    optional_binds=(Bind("/usr", "/host'usr"), Bind("/no/such/folder", "/gone")),
    container_env={"A": "site", "B": "si'te $HOME"},
)


@pytest.mark.parametrize("python", [USR, CONDA, PythonLayout("/opt/venv")], ids=["usr", "conda", "prefix"])
@pytest.mark.parametrize("state", ["directory", "packed", "both", "unpacked"])
def test_a_wrapper_without_the_module_gives_the_container_what_the_module_gives(
    wrapper, load, installed, python, state: str
) -> None:
    top = Path(installed.installdir)
    if state != "directory":
        (top / "user-software.squashfs").write_bytes(SQUASHFS)
    if state == "packed":
        (top / "user-software").rmdir()
    if state == "unpacked":
        (top / "user-software.unpacked").write_text("")
    spec = replace(installed, python=python, binds=(Bind("/tmp", "/host tmp"),), container_env={"A": "own", "C": ""})
    module = container_variables(load(spec, RICH_SITE))
    assert container_variables(wrapper("python", spec=spec, site=RICH_SITE)["env"]) == module


@pytest.mark.parametrize("name", ["PYTHONNOUSERSITE", "NCCL_DEBUG"])
def test_an_easyconfig_s_variable_wins_in_the_module_and_in_the_wrapper(wrapper, load, installed, name: str) -> None:
    spec = replace(installed, python=CONDA, container_env={name: "own"})
    assert load(spec)[f"APPTAINERENV_{name}"] == "own"
    assert wrapper("python", spec=spec)["env"][f"APPTAINERENV_{name}"] == "own"


def test_a_wrapper_clears_what_another_module_set_for_its_container(wrapper) -> None:
    other = {
        f"{prefix}ENV_{name}": "other" for prefix in ("SINGULARITY", "APPTAINER") for name in names.RESERVED_VARIABLES
    }
    environ = wrapper("python", environ=other)["env"]
    assert "other" not in environ.values()
    assert "APPTAINERENV_CONDA_PREFIX" not in environ


@pytest.mark.parametrize("prefix", ["SINGULARITYENV_", "APPTAINERENV_"])
def test_the_user_s_own_value_of_a_site_s_variable_wins(wrapper, prefix: str) -> None:
    site = a_site(container_env={"NCCL_DEBUG": "WARN"})
    environ = wrapper("python", site=site, environ={f"{prefix}NCCL_DEBUG": "INFO"})["env"]
    values = {environ[name] for name in ("SINGULARITYENV_NCCL_DEBUG", "APPTAINERENV_NCCL_DEBUG") if name in environ}
    assert values == {"INFO"}


@pytest.mark.parametrize("variable", ["SINGULARITY_BINDPATH", "APPTAINER_BINDPATH"])
def test_a_wrapper_keeps_the_user_s_own_binds(wrapper, variable: str) -> None:
    environ = wrapper("python", environ={variable: "/mine:/m"})["env"]
    assert split_binds(environ["SINGULARITY_BINDPATH"])[-1] == ("/mine", "/m", "")
    assert environ["SINGULARITY_BINDPATH"] == environ["APPTAINER_BINDPATH"]


def test_with_the_module_loaded_the_binds_are_not_repeated(wrapper, load, installed) -> None:
    loaded = load(installed, environ={"APPTAINER_BINDPATH": "/mine"})
    loaded = {name: value for name, value in loaded.items() if name.isidentifier()}
    assert wrapper("python", environ=loaded)["env"]["APPTAINER_BINDPATH"] == loaded["APPTAINER_BINDPATH"]


def test_a_wrapper_without_an_image_fails_and_names_it_with_the_remedy(wrapper, installed) -> None:
    Path(installed.installdir, installed.sif).unlink()
    done = wrapper("python", check=False)
    assert done.returncode == 126
    assert f"'{installed.installdir}/demo.sif' is gone" in done.stderr
    assert "eb --rebuild" in done.stderr
    assert wrapper.fake.calls == []


def test_a_container_without_a_venv_binds_nothing_of_the_user_s(wrapper, load, installed) -> None:
    spec = replace(installed, venv="")
    assert set(binds_of(load(spec))) == {"/runscripts"}
    assert set(binds_of(wrapper("python", spec=spec)["env"])) == {"/runscripts"}


def test_a_member_of_the_family_is_unloaded_first(installed, load) -> None:
    member = {"LMOD_FAMILY_CONTAINER": "Other"}
    assert load(installed, environ=member)["unload"] == "Other"
    for environ, options in [
        ({}, {}),
        ({"LMOD_FAMILY_CONTAINER": "Demo"}, {}),
        ({**member, "LMOD_AUTO_SWAP": "no"}, {}),
        (member, {"mode": "unload"}),
    ]:
        assert "unload" not in load(installed, environ=environ, **options)
    assert "unload" not in load(replace(installed, module_family="mpi"), environ=member)
    assert load(replace(installed, module_family="mpi"), environ={"LMOD_FAMILY_MPI": "Other"})["unload"] == "Other"


def test_a_wrapper_without_user_software_fails_and_names_it_with_the_remedy(wrapper, installed) -> None:
    Path(installed.installdir, "user-software").rmdir()
    done = wrapper("python", check=False)
    assert done.returncode == 126
    assert f"{installed.installdir}/user-software" in done.stderr
    assert "eb --rebuild" in done.stderr


def test_a_wrapper_without_a_runtime_fails_and_names_what_it_looked_for(wrapper) -> None:
    done = wrapper("python", check=False, site=a_site(runtime="no-such-runtime"))
    assert done.returncode == 127
    assert "no-such-runtime" in done.stderr
    assert "no container runtime on this node" in done.stderr


def test_a_wrapper_uses_a_central_image(wrapper, installed, tmp_path: Path) -> None:
    Path(installed.installdir, installed.sif).unlink()
    (tmp_path / "central").mkdir()
    (tmp_path / "central" / "demo.sif").write_text("")
    call = wrapper("python", site=a_site(image_repositories=("/no/such/folder", str(tmp_path / "central"))))
    assert call["argv"][1] == f"{tmp_path}/central/demo.sif"


# get-master


@pytest.fixture(scope="module")
def get_master(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("runscripts") / "get-master"
    path.write_text(text_of("runscripts/get-master", a_spec()))
    path.chmod(0o755)

    def get_master(*words, **environ):
        return subprocess.run(
            ["bash", path, *words],
            env={"PATH": "/usr/bin:/bin", **environ},
            capture_output=True,
            text=True,
            check=False,
            cwd=path.parent,
        )

    return get_master


NODE_LISTS = [
    ("nid[001,003-005]", "nid001"),
    ("a[1-2],b3", "a1"),
    ("nid[001-002]-ib", "nid001-ib"),
    ("rack[1-2]n[01-04]", "rack1n01"),
    ("rack[1-2]n[01-04],b7-ib", "rack1n01"),
    ("x1000c[0-1]s0b0n0", "x1000c0s0b0n0"),
    ("nid001", "nid001"),
    ("nid001,nid[002-004]", "nid001"),
    ("node-1.cluster.example", "node-1.cluster.example"),
    ("n[10-12,7]", "n10"),
    ("[1-4]", "1"),
    ("gpu_a[007]", "gpu_a007"),
]


@pytest.mark.parametrize(("nodelist", "first"), NODE_LISTS)
def test_the_master_is_the_first_node_of_the_list(get_master, nodelist, first) -> None:
    done = get_master(nodelist)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{first}\n", "")


HOSTILE = [
    "$(touch x)",
    "`touch x`",
    "nid[",
    "[]",
    "nid[]",
    "nid]",
    "a b",
    "'",
    '"',
    "a[$(touch x)]",
    "a;touch x",
    "-n[",
    "é",
]


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_node_list_may_be_quoted(get_master, quote: str) -> None:
    assert get_master(f"{quote}nid[007-009],b1{quote}").stdout == "nid007\n"


@pytest.mark.parametrize("nodelist", [*HOSTILE, "nid[a-b]", "nid[001", "nid[-3]", "*", "a\nb", "~", "\\"])
def test_what_is_no_node_list_is_refused_and_never_run(
    get_master, tmp_path_factory: pytest.TempPathFactory, nodelist
) -> None:
    done = get_master(nodelist)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("get-master: ")
    assert nodelist in done.stderr
    assert not list(tmp_path_factory.getbasetemp().glob("runscripts*/x"))


@pytest.mark.parametrize("words", [[], [""], [","]])
def test_no_node_list_is_refused_with_the_remedy(get_master, words) -> None:
    done = get_master(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "give one, or run this in a Slurm step" in done.stderr


def test_the_step_s_node_list_beats_the_job_s(get_master) -> None:
    job = {"SLURM_JOB_NODELIST": "job[1-4]", "SLURM_NODELIST": "old[1-4]"}
    assert get_master(**job, SLURM_STEP_NODELIST="step[3-4]").stdout == "step3\n"
    assert get_master(**job).stdout == "job1\n"
    assert get_master(SLURM_NODELIST="old[1-4]").stdout == "old1\n"
    assert get_master("argument", **job).stdout == "argument\n"


def test_the_site_s_suffix_is_appended_to_the_master(tmp_path: Path) -> None:
    path = tmp_path / "get-master"
    path.write_text(text_of("runscripts/get-master", a_spec(), a_site(master_suffix="-hsn0 'q'$x")))
    done = subprocess.run(["bash", path, "nid[001-002]"], capture_output=True, text=True, check=True)
    assert done.stdout == "nid001-hsn0 'q'$x\n"


@st.composite
def node_lists(draw):
    """Write node lists as Slurm 22.05 accepts them: names, and names with up to three groups of brackets at the end."""
    letters = st.text("abcdefgnrx-_", min_size=0, max_size=4)

    def element():
        text = draw(st.sampled_from("abcnrx")) + draw(letters)
        groups = draw(st.integers(0, 3))
        for index in range(groups):
            width = draw(st.integers(1, 4))
            ranges = []
            for _ in range(draw(st.integers(1, 3))):
                low = draw(st.integers(0, 99))
                high = low + draw(st.integers(0, 2))
                ranges.append(f"{low:0{width}}" if high == low else f"{low:0{width}}-{high:0{width}}")
            text += f"[{','.join(ranges)}]"
            if index + 1 < groups:
                text += draw(st.sampled_from("abcnrx")) + draw(letters)
        if not groups:
            text += draw(st.sampled_from(["", "1", "007", "1n2", "1-ib", "12.local"]))
        return text

    return ",".join(element() for _ in range(draw(st.integers(1, 3))))


@pytest.mark.integration
@settings(max_examples=150)
@given(nodelist=node_lists())
@example(nodelist="nid[001,003-005]")
@example(nodelist="rack[1-2]n[01-04],b7-ib")
@example(nodelist="r[1-2]s[08-11]n[001,005]")
def test_the_master_is_the_first_node_that_scontrol_shows(get_master, need, nodelist) -> None:
    if not os.environ.get("SLURM_CONF"):
        pytest.skip("SLURM_CONF is not set")
    shown = subprocess.run(
        [need("scontrol"), "show", "hostnames", nodelist], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert get_master(nodelist).stdout.splitlines() == shown[:1]


# conda-python-distributed, with an interpreter that prints what it gets


@pytest.fixture
def launcher(tmp_path: Path):
    """Run a runscript of a launch; its Python prints arguments and environment, with null characters between them."""
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    interpreter = prefix / "bin" / "python3"
    interpreter.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\nexec env -0\n")
    interpreter.chmod(interpreter.stat().st_mode | stat.S_IXUSR)

    def make(name):
        def run(*words, gpu="", check=True, **environ):
            spec = a_spec(python=PythonLayout(str(prefix)), venv="", gpu=gpu)
            script = tmp_path / "script"
            script.write_text(text_of(f"runscripts/{name}", spec))
            done = subprocess.run(
                ["bash", script, *words],
                env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), **environ},
                capture_output=True,
                text=True,
                check=False,
            )
            if not check:
                return done
            assert done.returncode == 0, done.stderr
            return done.stdout.split("\0")

        return run

    return make


@pytest.fixture
def distributed(launcher):
    return launcher("conda-python-distributed")


@pytest.fixture
def torchrun(launcher):
    return launcher("torchrun-distributed")


STEP = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "3",
    "MASTER_ADDR": "nid001",
}


def variables_of(words):
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_each_task_of_a_step_becomes_a_rank(distributed) -> None:
    words = distributed("-u", "a b.py", "", **STEP)
    assert words[:3] == ["-u", "a b.py", ""]
    variables = variables_of(words)
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")
    assert [variables[name] for name in ranks] == ["5", "8", "1", "4", "1", "nid001"]


@pytest.mark.parametrize(
    ("counts", "node", "expected"),
    [("4(x2)", "0", "4"), ("4(x2),1", "2", "1"), ("3,2,1", "1", "2"), ("08", "0", "08"), ("2(x10),7", "10", "7")],
)
def test_the_tasks_of_this_node_are_read_from_slurm_s_list(distributed, counts: str, node: str, expected: str) -> None:
    variables = variables_of(distributed(**{**STEP, "SLURM_STEP_TASKS_PER_NODE": counts, "SLURM_NODEID": node}))
    assert int(variables["LOCAL_WORLD_SIZE"], 10) == int(expected, 10)


@pytest.mark.parametrize("job", ["1", "1234", "99999999", "4294967295", "0123"])
@pytest.mark.parametrize("step", ["0", "63", "4294967291"])
def test_the_port_is_below_the_ephemeral_range(distributed, job: str, step: str) -> None:
    port = int(variables_of(distributed(**{**STEP, "SLURM_JOB_ID": job, "SLURM_STEP_ID": step}))["MASTER_PORT"])
    assert 20000 <= port < 32000


def test_two_steps_have_two_ports_and_all_tasks_of_one_the_same(distributed) -> None:
    def port(**changes):
        return variables_of(distributed(**{**STEP, **changes}))["MASTER_PORT"]

    assert port() == port(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0")
    assert len({port(), port(SLURM_STEP_ID="4"), port(SLURM_JOB_ID="1235")}) == 3


def test_the_user_s_own_port_is_kept(distributed) -> None:
    assert variables_of(distributed(**STEP, MASTER_PORT="29500"))["MASTER_PORT"] == "29500"


def test_outside_of_slurm_it_is_one_process_of_one(distributed) -> None:
    done = distributed("x.py", check=False)
    variables = variables_of(done.stdout.split("\0"))
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")
    assert "one process of one" in done.stderr


@pytest.mark.parametrize(
    "name", ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID"]
)
@pytest.mark.parametrize("value", ["", "x", "a[$(touch y)]", "1;2", "-1"])
def test_a_variable_that_is_no_number_is_named_and_never_evaluated(
    distributed, tmp_path: Path, name: str, value: str
) -> None:
    done = distributed(check=False, **{**STEP, name: value})
    assert done.returncode == 1
    assert f"{name} is '{value}'" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("y"))


@pytest.mark.parametrize("counts", ["", "x", "4(x", "$(id)", "4"])
def test_a_list_of_tasks_that_says_nothing_of_this_node_is_named(distributed, counts: str) -> None:
    done = distributed(check=False, **{**STEP, "SLURM_STEP_TASKS_PER_NODE": counts})
    assert done.returncode == 1
    assert f"'{counts}'" in done.stderr
    assert done.stdout == ""


VISIBLE = {"amd": "ROCR_VISIBLE_DEVICES", "nvidia": "CUDA_VISIBLE_DEVICES"}


@pytest.mark.parametrize("gpu", VISIBLE)
@pytest.mark.parametrize(
    ("granted", "expected"), [("2,3,6,7", "3"), ("3", "3"), ("4,5", "4,5"), ("GPU-aa,GPU-bb,GPU-cc,GPU-dd", "GPU-bb")]
)
def test_a_task_takes_its_own_gpu_of_those_that_slurm_granted(distributed, gpu, granted: str, expected: str) -> None:
    variables = variables_of(distributed(gpu=gpu, **STEP, **{VISIBLE[gpu]: granted}))
    assert variables[VISIBLE[gpu]] == expected


@pytest.mark.parametrize("gpu", VISIBLE)
def test_where_slurm_granted_nothing_no_gpu_is_hidden(distributed, gpu) -> None:
    assert VISIBLE[gpu] not in variables_of(distributed(gpu=gpu, **STEP))


def test_the_cache_of_an_amd_gpu_is_the_job_s_own_and_private(distributed, tmp_path: Path) -> None:
    variables = variables_of(distributed(gpu="amd", **STEP))
    cache = Path(variables["MIOPEN_USER_DB_PATH"])
    assert cache.parent == tmp_path
    assert "1234" in cache.name
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert variables["MIOPEN_CUSTOM_CACHE_DIR"] == str(cache)


def test_what_happens_can_be_shown(distributed) -> None:
    done = distributed(check=False, **STEP, SIFMOD_VERBOSE="1")
    assert "rank 5 of 8 (local 1 of 4 on node 1), master nid001:" in done.stderr


def test_a_batch_script_without_srun_is_told_so(distributed) -> None:
    """Slurm sets the variables of a task in batch scripts too, but for those of a step."""
    done = distributed(check=False, **{name: value for name, value in STEP.items() if name != "SLURM_STEP_ID"})
    assert done.returncode == 1
    assert "is this a Slurm step?" in done.stderr


@pytest.mark.parametrize("script", ["conda-python-distributed", "torchrun-distributed"])
@pytest.mark.parametrize("gpu", VISIBLE)
@pytest.mark.parametrize("asked", ["SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK"])
@pytest.mark.parametrize("granted", ["", "NoDevFiles"])
def test_gpus_that_were_asked_for_and_not_granted_are_missed(
    launcher, script: str, gpu, asked: str, granted: str
) -> None:
    step = {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NNODES": "2"}
    done = launcher(script)("x.py", gpu=gpu, check=False, **step, **{asked: "mi250:8", VISIBLE[gpu]: granted})
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"asked for GPUs and Slurm granted none to this task ({VISIBLE[gpu]} is '{granted}')" in done.stderr


@pytest.mark.parametrize("asked", [{}, {"SLURM_GPUS_PER_NODE": "0"}])
def test_a_job_that_asked_for_no_gpu_misses_none(distributed, asked) -> None:
    distributed("x.py", gpu="amd", **STEP, **asked, ROCR_VISIBLE_DEVICES="")


def test_the_cache_outside_of_slurm_is_one_for_all_runs(distributed, tmp_path: Path) -> None:
    for _ in range(2):
        done = distributed("x.py", gpu="amd", check=False)
        assert f"TRITON_CACHE_DIR={tmp_path}/sifmod-{os.getuid()}\0" in done.stdout
    assert len(list(tmp_path.glob("sifmod-*"))) == 1


def test_no_wrapper_may_have_the_name_of_a_command_that_the_scripts_use() -> None:
    texts = [path.read_text() for pattern in ("*/bin/*", "*/share/*.sh") for path in GOLDEN.glob(pattern)]
    start = r"(?:^|[|;&(!{]|\b(?:if|then|else|do|while|until|try|exec|timeout \d+|LC_ALL=C))\s*"
    used = {name for text in texts for name in re.findall(rf"(?m){start}([a-z][a-z0-9]*)(?=[ ;)]|$)", text)}
    # bash's own, and words in the same places that are no commands there
    used -= {"echo", "false", "kill", "printf", "pwd", "test", "true", "eb", "pip", "size", "tar", "xz"}
    tools = {name for name in used if shutil.which(name)}
    assert {"find", "od", "flock"} <= tools
    assert tools <= names.HOST_COMMANDS


def test_a_cache_folder_of_somebody_else_is_refused(distributed, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    if os.geteuid() == 0:
        os.chown(others, 12345, -1)
    else:
        others = Path("/usr")
    (tmp_path / f"sifmod-{os.getuid()}-1234").symlink_to(others)
    done = distributed("x.py", gpu="amd", check=False, **STEP)
    assert done.returncode == 1
    assert "belongs to somebody else: set TMPDIR" in done.stderr


def test_a_cache_folder_that_can_not_be_made_is_said_to_be_so(distributed, tmp_path: Path) -> None:
    (tmp_path / f"sifmod-{os.getuid()}-1234").touch()
    done = distributed("x.py", gpu="amd", check=False, **STEP)
    assert done.returncode == 1
    assert "can't be made: is TMPDIR" in done.stderr


TORCHRUN_STEP = {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NUM_NODES": "2"}


def test_torchrun_is_told_the_nodes_of_the_step_and_the_gpus_granted(torchrun) -> None:
    words = torchrun("--nproc-per-node=9", "a b.py", gpu="amd", **TORCHRUN_STEP, ROCR_VISIBLE_DEVICES="4,6")
    arguments = ["--nnodes=2", "--node_rank=1", "--master_addr=nid001"]
    assert words[:5] == ["-m", "torch.distributed.run", *arguments]
    assert words[5].startswith("--master_port=")
    assert words[6:9] == ["--nproc_per_node=2", "--nproc-per-node=9", "a b.py"]


def test_torchrun_counts_the_gpus_of_the_node_where_no_list_says_them(torchrun) -> None:
    assert "--nproc_per_node=4" in torchrun("x.py", **TORCHRUN_STEP, SLURM_GPUS_ON_NODE="4")
    assert "--nproc_per_node=1" in torchrun("x.py", **TORCHRUN_STEP, SLURM_GPUS_ON_NODE="a[$(touch y)]")


@pytest.mark.parametrize("name", ["SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID", "SLURM_STEP_ID"])
@pytest.mark.parametrize("value", ["", "a[$(touch y)]", "`touch y`"])
def test_torchrun_names_a_variable_that_is_no_number_and_never_evaluates_it(
    torchrun, tmp_path: Path, name: str, value: str
) -> None:
    done = torchrun("x.py", check=False, **{**TORCHRUN_STEP, name: value})
    assert done.returncode == 1
    assert f"{name} is '{value}'" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("y"))


@pytest.mark.parametrize("variable", ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"])
def test_an_empty_node_list_of_slurm_is_refused(get_master, variable: str) -> None:
    done = get_master(**{"SLURM_JOB_NODELIST": "job[1-2]", variable: ""})
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no node list" in done.stderr
