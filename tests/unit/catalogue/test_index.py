"""The search data: words lead to the modules that have them."""

import json
from itertools import accumulate
from typing import Any

from sifmod.catalogue.index import search_script

from .made import HOSTILE, a_catalogue, an_entry


def data(script: str) -> dict[str, Any]:
    start, end = "globalThis.sifmodIndex = ", ";\n"
    assert script.startswith(start)
    assert script.endswith(end)
    found: dict[str, Any] = json.loads(script[len(start) : -len(end)])
    return found


def test_postings_lead_to_modules_and_versions() -> None:
    entries = [
        an_entry("A/1", packages={"Num_Py": "1"}, commands=("run",)),
        an_entry("B/1"),
        an_entry("C/1", packages={"num.py": "2"}, commands=("run",)),
        an_entry("D/1", packages={"num-py": "1"}),
    ]
    found = data(search_script(entries))
    assert found["modules"] == ["A/1", "B/1", "C/1", "D/1"]
    assert found["commands"] == [["run", [0, 2]]]
    ((name, versions, postings),) = found["packages"]
    assert name == "num-py"
    modules = accumulate(postings[0::2])
    assert [(module, versions[one]) for module, one in zip(modules, postings[1::2])] == [(0, "1"), (2, "2"), (3, "1")]


def test_the_script_is_plain_ascii_and_ends_no_element() -> None:
    script = search_script([*a_catalogue().modules, an_entry("Größe/1", commands=("\u2028", "\U0001f600"))])
    assert script.isascii()
    assert "<" not in script
    assert HOSTILE in [name for name, _ in data(script)["commands"]]
