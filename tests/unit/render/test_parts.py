"""The parts of modules, as they lie: each can be read by itself, and a module has those that it needs."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sifmod.container.spec import ContainerSpec
from sifmod.render.module import PARTS, parts, render_module
from sifmod.render.values import module_values
from sifmod.site.settings import load_site
from sifmod.text import pattern, quoting, tables

from ..support import Need, a_site, a_spec
from .cases import CASES, ROOT

FOLDER = ROOT / "modulefiles"
SYNTAXES = pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
TOOL = replace(
    a_spec(),
    python=None,
    venv="",
    wrappers=("gmx",),
    gpu="nvidia",
    container_env={"OMP_NUM_THREADS": "4", "LD_PRELOAD": "/x"},
)


def test_every_file_is_a_part() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{part}.{end}" for part in PARTS for end in ("lua", "tcl")}


def test_lua_can_read_every_part(need: Need) -> None:
    tool = need("luac5.3", "luac")
    for path in FOLDER.glob("*.lua"):
        done = subprocess.run([tool, "-p", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_tcl_can_read_every_part(need: Need, tmp_path: Path) -> None:
    script = tmp_path / "complete.tcl"
    script.write_text(
        "foreach path $argv { set file [open $path]; if {![info complete [read $file]]} { puts $path }; close $file }"
    )
    done = subprocess.run([need("tclsh"), script, *FOLDER.glob("*.tcl")], capture_output=True, text=True, check=True)
    assert done.stdout == ""


LOCAL = {"Lua": r"(?m)^local (?:function )?(\w+(?:, \w+)*)", "Tcl": r"(?m)^(?:proc|array set|set) (\w+)"}


@SYNTAXES
def test_a_part_says_which_names_of_others_it_uses(syntax: str) -> None:
    """Those of `helpers` are for all. What Tcl sets may have a usual name: there only procedures are looked for."""
    earlier: dict[str, str] = {}
    for part in PARTS:
        text = (FOLDER / f"{part}.{syntax.lower()}").read_text(encoding="utf-8")
        code = re.sub(r"(?m)(^|\s)(--|#) .*|\"[^\"$\n]*\"", "", text)
        own = {name for names in re.findall(LOCAL[syntax], text) for name in names.split(", ")}
        used = {name for name in earlier if re.search(rf"(?<![\w.]){name}\b", code) and name not in own}
        line = re.search(r"(?m)^(?:--|#) Uses (.*)\.$", text)
        said = {
            name: where
            for names, where in re.findall(r"([\w, ]+) \((\w+)\)", line[1] if line else "")
            for name in names.strip().split(", ")
        }
        assert {name: earlier[name] for name in said} == said
        assert {name for name in used if syntax == "Lua" or name.startswith("sifmod_")} <= said.keys() <= used, part
        if part != "helpers":
            earlier.update(dict.fromkeys(own, part))


@SYNTAXES
def test_a_module_ends_with_its_parts_as_they_lie(case: str, syntax: str) -> None:
    spec, site = CASES[case]
    names, texts = zip(*parts(module_values(spec, site), syntax))
    assert render_module(spec, site, syntax).endswith("".join(texts))
    assert [(FOLDER / name).read_text(encoding="utf-8") for name in names] == [*texts]


@SYNTAXES
def test_the_module_of_a_tool_is_short_and_begins_with_what_it_sets(syntax: str) -> None:
    lines = render_module(TOOL, load_site({}), syntax).splitlines()
    assert len(lines) <= 122
    head = "\n".join(lines[:40])
    for value in (TOOL.installdir, TOOL.sif, "/runscripts:ro", "_NV", "OMP_NUM_THREADS", "ENV_LD_PRELOAD", "container"):
        assert value in head


def test_a_part_that_is_not_needed_is_not_in_the_module(case: str) -> None:
    names = {name for name, _text in parts(module_values(*CASES[case]), "Lua")}
    assert ("user_software.lua" in names) == bool(CASES[case][0].venv)
    assert ("features.lua" in names) == bool(CASES[case][1].feature)
    assert ("builds_on.lua" in names) == (case == "on-a-base")


def printed(need: Need, tmp_path: Path, syntax: str, part: str, program: str) -> str:
    """Return what a program prints that has a part before it."""
    end = syntax.lower()
    file = tmp_path / f"part.{end}"
    file.write_text((FOLDER / f"{part}.{end}").read_text(encoding="utf-8") + program, encoding="utf-8")
    run = [need("lua5.3", "lua")] if syntax == "Lua" else [need("tclsh")]
    environ = {"HOME": "/h $USER ${USER}", "USER": "007", "LANG": "C.UTF-8"}
    done = subprocess.run([*run, file], capture_output=True, text=True, env=environ, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


DOLLARS = st.lists(st.sampled_from(["$", "{", "}", "HOME", "USER", "S", "_", "/", "'", "\\"]), max_size=8).map("".join)


@pytest.mark.parametrize("syntax", ["Lua", "Tcl", "bash"])
@settings(max_examples=15)
@given(texts=st.lists(DOLLARS, min_size=60, max_size=90))
@example(texts=["$HOME", "${HOME}", "$HOMES ${HOME $HOME}", "$$USER", "${USER}x", "$USER", "${x$HOME}", ""])
def test_variables_are_expanded_as_in_bash(need: Need, tmp_path: Path, syntax: str, texts: list[str]) -> None:
    environ = {"HOME": "/h $USER ${USER}", "USER": "007"}
    variable = re.compile(r"\$(?:(HOME|USER)(?![A-Za-z0-9_])|\{(HOME|USER)\})")
    expected = "".join(variable.sub(lambda found: environ[found[1] or found[2]], text) + "\n" for text in texts)
    if syntax == "bash":
        text = (ROOT / "wrappers/share/expand.sh").read_text(encoding="utf-8")
        (function,) = re.findall(r"(?ms)^expand_variables\(\) \{$.*?^\}$", text)
        values = tables.bash({"expanded": quoting.EXPANDED, "texts": texts}, "sifmod_")
        loop = 'for text in "${sifmod_texts[@]}"; do expand_variables "$text"; printf "%s\\n" "$sifmod_text"; done'
        command = ["bash", "-euc", f"{values}{function}\n{loop}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=True)
        assert done.stdout == expected
        return
    if syntax == "Lua":
        program = f'for _, text in ipairs({tables.lua(texts)}) do print(expand(text, {{ "HOME", "USER" }})) end'
    else:
        program = "proc sifmod_has {name} { return 1 }\n"
        program += f"foreach text {tables.tcl(texts)} {{ puts [sifmod_expand $text {{HOME USER}}] }}"
    assert printed(need, tmp_path, syntax, "expand", program) == expected


NAMES = st.text("ab-09.[%]^$", max_size=4)
PATTERNS = st.lists(st.sampled_from(["*", "?", "[a-c]", "[0-9x]", "a", "-", ".", "%", "^", "$", "0"]), max_size=5).map(
    "".join
)


@settings(max_examples=15)
@given(pairs=st.lists(st.tuples(PATTERNS, NAMES), min_size=60, max_size=90))
@example(pairs=[("%*", "%a"), ("a-b", "a-b"), ("[a-c]-?", "b-x"), ("[0-9]*", "9.")])
def test_lua_matches_the_names_that_python_matches(need: Need, tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    program = f"for _, pair in ipairs({tables.lua(pairs)}) do print(pair[2]:match(as_lua(pair[1])) ~= nil) end"
    expected = [str(pattern.fits(name, wild)).lower() for wild, name in pairs]
    assert printed(need, tmp_path, "Lua", "patterns", program).splitlines() == expected


@SYNTAXES
def test_settings_without_variables_are_not_expanded_at_load(syntax: str) -> None:
    spec: ContainerSpec = replace(TOOL, container_env={"A": "b"})
    assert "expand" not in render_module(spec, a_site(), syntax)
    assert "expand" in render_module(replace(spec, container_env={"A": "$HOME"}), a_site(), syntax)
