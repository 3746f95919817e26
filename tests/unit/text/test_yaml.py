"""YAML that is not trusted: texts stay as they are written, and hostile documents are refused."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sifmod.text.yaml import read_yaml

# White space to YAML, and what it does not allow.
NOT_ITSELF = "\u2028\u2029\ufeff\ufffe\uffff"
NODES = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=NOT_ITSELF)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(autouse=True, scope="module", params=[True, False], ids=["libyaml", "python"])
def parser(request: pytest.FixtureRequest) -> Iterator[None]:
    """PyYAML with libyaml, and without it, as in sifmod's own module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", request.param)
        yield


def test_versions_and_switches_stay_as_they_are_written() -> None:
    text = "tags: {3.10: 1e3, 012: no}\nempty:\nday: 2024-01-02\nlist:\n- ~\n- 'quoted'\n"
    assert read_yaml(text) == {
        "tags": {"3.10": "1e3", "012": "no"},
        "empty": "",
        "day": "2024-01-02",
        "list": ["~", "quoted"],
    }


@given(NODES)
def test_json_of_texts_reads_as_itself(node: Any) -> None:
    assert read_yaml(json.dumps(node, ensure_ascii=False)) == node


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        read_yaml(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x [1]\nb: *x\n", "line 2: '*x' repeats another part"),
        ("a: &x [*x]\n", "repeats another part"),
        ("[" * 50, "nested more than 20 levels deep"),
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is there twice"),
        ("? [a]\n: b\n", "a list or a mapping can't be a key"),
        ("a: 1\n---\nb: 1\n", "several documents"),
        ("", "it is empty"),
        ("a: [1\n", "line 2: "),
        ("\0", "characters are not allowed"),
        ("\ud800", "character"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_yaml(text)


@pytest.mark.parametrize("one", ["[", "- ", "? ", "{a: "])
def test_nesting_that_ends_the_interpreter_in_the_loaders_of_pyyaml_is_refused(one: str) -> None:
    with pytest.raises(ValueError, match=r"levels deep|deeply|nest|depth|expected|be a key"):
        read_yaml(one * 400_000)


def test_python_objects_are_texts() -> None:
    assert read_yaml("!!python/object/apply:os.system ['true']") == ["true"]
