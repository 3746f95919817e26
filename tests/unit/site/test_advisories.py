"""The files of advisories: what they may have, and the messages for what they may not."""

import json
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Optional

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from tests.programs import write_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from sifmod.advice.advisory import Advisory
from sifmod.errors import SiteError
from sifmod.resources import data_path
from sifmod.site.advisories import load_advisories
from sifmod.site.schema import advisories_schema

from ..support import a_site
from .test_schema import allows

SHIPPED = load_advisories(a_site())

ENTRY = """\
# ours
[[advisory]]
id = "jobs-hang"
severity = "problem"
text = '''
Jobs
hang'''
source = "https://example.org/1"
remedy = "Wait."
set = { B = "1" }
unset = ["A"]

[advisory.match]
images = ["demo*"]
packages = { torch = ">=2,<3" }
drivers = { nvidia = "<550" }
built_before = 2026-01-31
"""

SOURCES = 'source = ["https://example.org/1", "http://x.org/?a=b#c"]'

Load = Callable[[str], dict[str, Advisory]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return the advisories of a file, without the shipped ones."""

    def load(text: str) -> dict[str, Advisory]:
        path = write_file(tmp_path / "ours.toml", text)
        found = load_advisories(a_site(advisories=(str(path),)))
        return {one.identifier: one for one in found if one not in SHIPPED}

    return load


def test_an_entry_is_read(load: Load) -> None:
    (found,) = load(ENTRY).values()
    assert (found.identifier, found.severity, found.remedy) == ("jobs-hang", "problem", "Wait.")
    assert (found.text, found.sources) == ("Jobs hang.", ("https://example.org/1",))
    assert found.variables == {"A": None, "B": "1"}
    assert found.match.images == ("demo*",)
    assert found.match.packages == {"torch": SpecifierSet(">=2,<3")}
    assert found.match.built_before == date(2026, 1, 31)


def test_a_later_file_replaces_and_withdraws(tmp_path: Path) -> None:
    ours, later = tmp_path / "ours.toml", tmp_path / "later.toml"
    shipped = SHIPPED[0].identifier
    ours.write_text(ENTRY + f'\n[[advisory]]\nid = "{shipped}"\nwithdrawn = true\n')
    later.write_text(ENTRY.replace('"Wait."', '"Don\'t wait."'))
    found = {one.identifier: one for one in load_advisories(a_site(advisories=(str(ours), str(later))))}
    assert set(found) == {"jobs-hang", *(one.identifier for one in SHIPPED)} - {shipped}
    assert found["jobs-hang"].remedy == "Don't wait."


WRONG: dict[str, tuple[str, str, int, str]] = {
    "key": ('remedy = "Wait."', 'remedey = "Wait."', 9, "(perhaps you meant 'remedy'): remove it, or write one of id"),
    "condition": ("images =", "image =", 14, "(perhaps you meant 'images'): remove it, or write one of images"),
    "table": ("[[advisory]]", "[[advisry]]", 2, "unknown key 'advisry'"),
    "entry": ("[[advisory]]", "[advisory]", 2, "each of which begins with a line [[advisory]]"),
    "severity": ('"problem"', '"problm"', 4, "use 'note' or 'warning' or 'problem' (perhaps you meant 'problem')"),
    "name": ('"jobs-hang"', '"Jobs hang"', 3, "use lower-case letters"),
    "no name": ('id = "jobs-hang"\n', "", 2, "without id"),
    "no source": ('source = "https://example.org/1"\n', "", 2, "has no source"),
    "source": ('"https://example.org/1"', '"see our wiki"', 8, "not an address"),
    "bracket": ("Jobs\n", "Jobs [1]\n", 5, "can't have '['"),
    "range": ('">=2,<3"', '"2 to 3"', 15, "'2 to 3' is not a range of versions"),
    "number": ('">=2,<3"', "2", 15, "it takes a table of strings, such as { torch"),
    "driver": ('"<550"', '"new"', 16, "not a range of versions"),
    "vendor": ("nvidia =", "nvidea =", 16, "perhaps you meant 'nvidia'"),
    "date": ("2026-01-31", '"2026-01-31"', 17, "it takes a date without quotes"),
    "time": ("2026-01-31", "2026-01-31T12:00:00", 17, "it takes a date without quotes"),
    "variable": ('{ B = "1" }', '{ "B-" = "1" }', 10, "not the name of an environment variable"),
    "reserved": ('["A"]', '["PREPEND_PATH"]', 11, "sifmod sets PREPEND_PATH itself"),
    "both": ('["A"]', '["B"]', 11, "which is in set too"),
    "no match": (ENTRY[ENTRY.index("images") :], "", 13, "without conditions"),
    "twice": ("# ours\n", ENTRY, 19, "has the id 'jobs-hang', which an earlier entry has too"),
    "withdrawn": ('id = "jobs-hang"', 'id = "jobs-hang"\nwithdrawn = true', 4, "write only its id"),
    "toml": ('"Wait."', "Wait.", 9, "is not valid TOML"),
}


# What only reading finds: it compares two places, the text is not TOML, or its dates differ from JSON's.
BEYOND_SCHEMA = ("reserved", "both", "no match", "twice", "withdrawn", "date", "time", "toml")


def as_editors_have_it(text: str) -> Any:
    """Return a file as editors compare it with a schema: JSON has no dates."""
    return json.loads(json.dumps(tomllib.loads(text), default=str))


def test_the_schema_allows_what_is_read() -> None:
    shipped = (data_path("advisories") / "advisories.toml").read_text()
    withdrawn = '[[advisory]]\nid = "x"\nwithdrawn = true\n'
    for text in (ENTRY, shipped, withdrawn, "", ENTRY.replace('source = "https://example.org/1"', SOURCES)):
        assert allows(advisories_schema(), as_editors_have_it(text))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_line_and_the_schema_forbids_it(load: Load, name: str) -> None:
    old, new, line, said = WRONG[name]
    assert old in ENTRY
    wrong = ENTRY.replace(old, new, 1)
    assert name in BEYOND_SCHEMA or not allows(advisories_schema(), as_editors_have_it(wrong))
    with pytest.raises(SiteError) as found:
        load(wrong)
    assert said in str(found.value)
    assert re.search(rf"the advisory file '.*/ours\.toml', line {line}\b", str(found.value)), found.value


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SiteError, match=r"the advisory file '/nowhere/ours\.toml' can't be read"):
        load_advisories(a_site(advisories=("/nowhere/ours.toml",)))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
).filter(lambda value: value is not None)
KEYS = ("id", "severity", "text", "source", "remedy", "set", "unset", "match", "withdrawn", "other")
CONDITIONS = ("images", "digests", "labels", "packages", "drivers", "gpu", "built_from", "sites", "until", "other")


def plain(value: Any) -> Any:
    """Return a value without None, which TOML does not have."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return [plain(item) for item in value if item is not None] if isinstance(value, list) else value


@given(
    key=st.sampled_from(KEYS),
    value=ANYTHING,
    condition=st.none() | st.sampled_from(CONDITIONS),
)
def test_any_value_is_read_or_refused_with_its_file(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any, condition: Optional[str]
) -> None:
    """Whatever an entry has, there is an advisory that can be shown in a module, or one message of ours."""
    entry: dict[str, Any] = {"id": "x", "severity": "note", "text": "T", "source": "https://x.org", "remedy": "R"}
    entry = {**entry, "match": {condition: plain(value)} if condition else {"sites": ["x"]}}
    if not condition:
        entry[key] = plain(value)
    path = write_file(tmp_path_factory.mktemp("advisories") / "x.toml", tomli_w.dumps({"advisory": [entry]}))
    found: tuple[Advisory, ...] = ()
    message = f"the advisory file '{path}'"
    try:
        found = load_advisories(a_site(advisories=(str(path),)))
    except SiteError as error:
        message = str(error)
    assert f"the advisory file '{path}'" in message
    for one in found:
        assert not set("[]{}\\%\n") & set(one.sentences)


def test_what_is_shipped_names_where_it_was_reported() -> None:
    assert len(SHIPPED) > 5
    for one in SHIPPED:
        forms = r"https://(github\.com/[\w./-]+/(issues|pull)/\d+|docs\.nvidia\.com/[\w./-]+)"
        assert all(re.fullmatch(forms, source) for source in one.sources)
