"""What is written is what EasyBuild reads."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.easyconfig.text import easyconfig_text, read_easyconfig
from sifmod.errors import SifmodError
from sifmod.text.quoting import easyconfig

ROOT = Path(__file__).resolve().parents[3]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
ODD = ["%(name)s", "%%(version)s", "100%", "%%%(x)s %s %", "# EasyBuild Format 2", '"""', "[SUPPORTED]", "\\", "#"]
TEXT = st.one_of(TEXT, st.sampled_from(ODD))
LIST, DICTIONARY = st.lists(TEXT, max_size=8), st.dictionaries(TEXT, TEXT, max_size=8)
VALUES = st.one_of(TEXT, st.booleans(), LIST, DICTIONARY)
# EasyBuild insists on the types of its own parameters.
KINDS = {
    **dict.fromkeys(("versionsuffix", "image_uri", "gpu", "conda_root", "python_prefix", "venv", "moduleclass"), TEXT),
    **dict.fromkeys(("whatis", "docurls", "sources", "pip_requirements", "wrappers", "binds"), LIST),
    **dict.fromkeys(("container_env", "expected_packages"), DICTIONARY),
    **dict.fromkeys(("pack_user_software", "pip_constraints"), st.booleans()),
}
MANDATORY = dict.fromkeys(("name", "version", "homepage", "description"), TEXT)


def as_easybuild_reads(text):
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
@given(parameters=st.fixed_dictionaries(MANDATORY, optional=KINDS), comment=TEXT)
def test_easybuild_reads_what_was_given(parameters, comment) -> None:
    parameters = {"easyblock": "ContainerImage", **parameters}
    text = easyconfig_text(parameters, comment=comment)
    read = as_easybuild_reads(text)
    assert read.pop("toolchain") == {"name": "system", "version": "system"}
    if "description" in read and isinstance(read["description"], str):  # its lines are wrapped
        assert read.pop("description").split() == parameters.pop("description").split()
    assert read == parameters


@settings(max_examples=100)
@given(value=VALUES)
def test_our_own_reader_agrees_but_for_templates(value) -> None:
    assert eval(easyconfig(value), {}) == _doubled(value)  # noqa: S307 - what was just quoted


def _doubled(value):
    if isinstance(value, str):
        import re

        return re.sub(r"%(?=%*\(\w+\)s)", "%%", value)
    if isinstance(value, list):
        return [_doubled(item) for item in value]
    if isinstance(value, dict):
        return {_doubled(key): _doubled(item) for key, item in value.items()}
    return value


def test_what_no_easyconfig_holds_is_refused() -> None:
    with pytest.raises(TypeError):
        easyconfig({1.5})


def test_the_text_is_in_the_style_of_the_house() -> None:
    text = easyconfig_text(
        {
            "easyblock": "ContainerImage",
            "version": "1.0",
            "name": "X",
            "description": "word " * 40,
            "wrappers": ["a-long-name-of-a-command"] * 6,
            "expected_packages": {"a-long-name-of-a-package": "1.0+long.local.version", "b": "2.0" * 30},
            "venv": "x",
        },
        comment="from x.sif",
    )
    assert text.startswith(
        "# from x.sif\neasyblock = 'ContainerImage'\n\nname = 'X'\nversion = '1.0'\n\ndescription = "
    )
    assert max(map(len, text.splitlines())) <= 120
    assert "\n\ntoolchain = SYSTEM\n\nvenv = 'x'\nwrappers = [\n    'a-long-name-of-a-command',\n" in text


@pytest.mark.parametrize("path", sorted((ROOT / "easyconfigs").glob("[!s]/*/*.eb")), ids=lambda path: path.stem)
def test_shipped_easyconfigs_are_read_without_running_them(path) -> None:
    known, computed = read_easyconfig(path)
    assert computed == ("toolchain",)
    assert known["easyblock"] == "ContainerImage"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is no easyconfig"),
        ("\0", "is no easyconfig"),
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
    os.mkfifo(tmp_path / "fifo.eb")
    with pytest.raises(SifmodError, match="no file"):
        read_easyconfig(tmp_path / "fifo.eb")


def test_what_is_computed_is_named_and_the_last_assignment_counts(tmp_path: Path) -> None:
    (tmp_path / "x.eb").write_text(
        "easyblock = 'ContainerImage'\nlocal_x = 1 + 1\nbinds = [f'/{local_x}']\nvenv = 'a'\nvenv = 'b'\n"
        "wrappers = ['a']\nwrappers = wrappers + ['b']\n"
    )
    known, computed = read_easyconfig(tmp_path / "x.eb")
    assert known == {"easyblock": "ContainerImage", "venv": "b"}
    assert computed == ("local_x", "binds", "wrappers")
