"""What is written is what EasyBuild reads."""

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.lacking import lacking

from sifmod import __version__
from sifmod.easyconfig.text import conversion_comments, easyconfig_text, folded, read_easyconfig
from sifmod.errors import SifmodError
from sifmod.text.quoting import without_templates

ROOT = Path(__file__).resolve().parents[3]
ODD = ["%(name)s", "%%(version)s", "100%", "%%%(x)s %s %", "# EASYCONFIGFORMAT 2.0\n", '"""', "[SUPPORTED]", "\\", "#"]
WORDS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.sampled_from(ODD))
TEXT = st.one_of(WORDS, st.lists(WORDS, max_size=4).map("\n".join))
LIST, DICTIONARY = st.lists(TEXT, max_size=8), st.dictionaries(TEXT, TEXT, max_size=8)
SCALAR = st.one_of(TEXT, st.booleans(), st.integers(), st.none(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8), st.lists(inner, max_size=4).map(tuple), st.dictionaries(TEXT, inner, max_size=8)
    ),
    max_leaves=20,
)
# EasyBuild insists on the types of its own parameters.
KINDS = {
    **dict.fromkeys(("versionsuffix", "image_uri", "gpu", "conda_root", "python_prefix", "venv", "moduleclass"), TEXT),
    **dict.fromkeys(("whatis", "docurls", "sources", "pip_requirements", "wrappers", "binds"), LIST),
    **dict.fromkeys(("container_env", "expected_packages", "modextravars"), DICTIONARY),
    **dict.fromkeys(("pack_user_software", "pip_constraints"), st.booleans()),
    "modluafooter": TEXT,
}
MANDATORY = dict.fromkeys(("name", "version", "homepage", "description"), TEXT)
# Parameters whose types only the easyblock checks.
FREE = ("binds", "container_env", "expected_packages", "wrappers")


def as_easybuild_reads(text: str) -> dict[str, Any]:
    from easybuild.framework.easyconfig.easyconfig import resolve_template
    from easybuild.framework.easyconfig.parser import EasyConfigParser
    from easybuild.tools.config import init_build_options

    init_build_options()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.eb")
        path.write_text(text, encoding="utf-8")
        values = EasyConfigParser(str(path)).get_config_dict()
    return {name: resolve_template(value, {"name": "N", "version": "V", "x": "X"}) for name, value in values.items()}


@settings(max_examples=100)
@given(parameters=st.fixed_dictionaries(MANDATORY, optional=KINDS), comments=st.lists(TEXT, max_size=3))
def test_easybuild_reads_what_was_given(parameters: dict[str, Any], comments: list[str]) -> None:
    parameters = {"easyblock": "ContainerImage", **parameters}
    text = easyconfig_text(without_templates(parameters), comments=[f"- {line}" for line in comments])
    read = as_easybuild_reads(text)
    assert read.pop("toolchain") == {"name": "system", "version": "system"}
    assert read == parameters


@settings(max_examples=100)
@given(values=st.lists(VALUES, min_size=len(FREE), max_size=len(FREE)))
def test_our_own_reader_reads_what_was_given_templates_included(values: list[Any]) -> None:
    parameters = {"easyblock": "ContainerImage", **dict(zip(FREE, values))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.eb")
        path.write_text(easyconfig_text(parameters, comments=[]), encoding="utf-8")
        read, computed = read_easyconfig(path)
    assert computed == ("toolchain",)
    # as text, because True == 1 == 1.0
    assert {name: repr(value) for name, value in read.items()} == {
        name: repr(value) for name, value in parameters.items()
    }


LONG = st.one_of(
    TEXT, st.lists(WORDS, min_size=5, max_size=30).map(" ".join), st.text("a0'\"\\\U0001f600", min_size=120)
)
LONG_VALUES = {
    "homepage": LONG,
    "description": LONG,
    "sanity_check_commands": st.lists(LONG, max_size=3),
    "modextravars": st.dictionaries(LONG, LONG, max_size=3),
    "dependencies": st.lists(st.tuples(LONG, LONG), max_size=2),
}


@pytest.fixture(scope="module")
def style_errors() -> Callable[[str], str]:
    """Return what lists the errors of `eb --check-style` in an easyconfig."""
    if find_spec("pycodestyle") is None:
        lacking("pycodestyle, which EasyBuild's check needs, is not installed")
    from easybuild.framework.easyconfig.style import check_easyconfigs_style

    def errors(text: str) -> str:
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            path = Path(folder, "x.eb")
            path.write_text(text, encoding="utf-8")
            check_easyconfigs_style([str(path)])
        return said.getvalue()

    return errors


@settings(max_examples=100)
@given(parameters=st.fixed_dictionaries({}, optional=LONG_VALUES), comments=st.lists(LONG, max_size=2))
@example(parameters={"modextravars": {"0" * 112: ""}}, comments=[])
def test_long_values_pass(style_errors: Callable[[str], str], parameters: dict[str, Any], comments: list[str]) -> None:
    text = easyconfig_text(parameters, comments=[f"- {line}" for line in comments])
    assert style_errors(text) == ""
    variables: dict[str, Any] = {"SYSTEM": None}
    exec(compile(text, "easyconfig", "exec"), variables)  # noqa: S102 - our own output
    assert {name: variables[name] for name in parameters} == parameters


def test_a_digest_stands_on_one_line() -> None:
    uri = f"docker://registry.example.org/group/project/image:1.0@sha256:{'a' * 64}"
    assert f"\n    '@sha256:{'a' * 64}'\n" in easyconfig_text({"image_uri": uri}, comments=[])


def test_a_template_stays_a_template_unless_it_is_text() -> None:
    parameters = {**dict.fromkeys(MANDATORY, "N"), "binds": ["/%(version)s"], "container_env": {"A": "%(x)s"}}
    read = as_easybuild_reads(easyconfig_text(parameters, comments=[]))
    assert (read["binds"], read["container_env"]) == (["/V"], {"A": "X"})
    read = as_easybuild_reads(easyconfig_text(without_templates(parameters), comments=[]))
    assert (read["binds"], read["container_env"]) == (["/%(version)s"], {"A": "%(x)s"})


@pytest.mark.parametrize("line", ["[SUPPORTED]", "[DEFAULT]", "  [SUPPORTED]", "# EASYCONFIGFORMAT 2.0"])
def test_a_line_that_easybuild_reads_within_quotes_does_no_harm(line: str) -> None:
    parameters = {**dict.fromkeys(MANDATORY, "N"), "description": f"one\n{line}\ntwo"}
    assert as_easybuild_reads(easyconfig_text(parameters, comments=[]))["description"] == parameters["description"]


@pytest.mark.parametrize("value", [{1.5}, b"x", float("inf"), object(), [object()], {"a": (1j,)}])
def test_what_no_easyconfig_holds_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="can't be written as Python"):
        easyconfig_text({"binds": value}, comments=[])


def test_the_text_is_in_the_style_of_the_house() -> None:
    with pytest.raises(ValueError, match="cofnigure"):
        easyconfig_text({"name": "X", "cofnigure": 1}, comments=[])
    text = folded("word " * 40)
    assert max(map(len, f'description = """{text}"""'.splitlines())) <= 120
    assert text.split() == ["word"] * 40
    assert folded("a\\b " * 60) == "a\\b " * 60
    text = easyconfig_text(
        {
            "easyblock": "ContainerImage",
            "version": "1.0",
            "name": "X",
            "description": folded("word " * 40),
            "wrappers": ["a-long-name-of-a-command"] * 6,
            "expected_packages": {"a-long-name-of-a-package": "1.0+long.local.version", "b": "2.0" * 30},
            "venv": "x",
        },
        comments=["from x.sif"],
    )
    assert text.startswith(
        "# from x.sif\neasyblock = 'ContainerImage'\n\nname = 'X'\nversion = '1.0'\n\ndescription = \"\"\"word"
    )
    assert max(map(len, text.splitlines())) <= 120
    assert "\n\ntoolchain = SYSTEM\n\nvenv = 'x'\nwrappers = [\n    'a-long-name-of-a-command',\n" in text
    assert conversion_comments("x.eb", "more", lost=[], look=["a", "b", "a"]) == [
        f"Converted by sifmod {__version__} from x.eb",
        "more",
        "To be reviewed:",
        "- a",
        "- b",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "easyconfigs").glob("[!s]/*/*.eb")), ids=lambda path: path.stem)
def test_shipped_easyconfigs_are_read_without_running_them(path: Path) -> None:
    known, computed = read_easyconfig(path)
    assert computed == ("toolchain",)
    assert known["easyblock"] == "ContainerImage"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not an easyconfig"),
        ("\0", "is not an easyconfig"),
        ("easyblock = 'MakeCp'\n", "not ContainerImage"),
        ("", "not ContainerImage"),
    ],
)
def test_what_is_no_easyconfig_of_ours_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.eb").write_text(text)
    with pytest.raises(SifmodError, match=said):
        read_easyconfig(tmp_path / "x.eb")
    with pytest.raises(SifmodError, match="can't be read"):
        read_easyconfig(tmp_path / "gone.eb")
    os.truncate(tmp_path / "x.eb", 20_000_000_000)
    with pytest.raises(SifmodError, match="can't be read: larger than"):
        read_easyconfig(tmp_path / "x.eb")
    with pytest.raises(SifmodError, match="can't be read: File name too long"):  # and not a traceback of `exists`
        read_easyconfig(tmp_path / ("x" * 300))
    os.mkfifo(tmp_path / "fifo.eb")
    with pytest.raises(SifmodError, match="not a file"):
        read_easyconfig(tmp_path / "fifo.eb")


def test_what_is_computed_is_named_and_the_last_assignment_counts(tmp_path: Path) -> None:
    (tmp_path / "x.eb").write_text(
        "easyblock = 'ContainerImage'\nlocal_x = 1 + 1\nbinds = [f'/{local_x}']\nvenv = 'a'\nvenv = 'b'\n"
        "wrappers = ['a']\nwrappers = wrappers + ['b']\n"
    )
    known, computed = read_easyconfig(tmp_path / "x.eb")
    assert known == {"easyblock": "ContainerImage", "venv": "b"}
    assert computed == ("local_x", "binds", "wrappers")
