"""The files of a catalogue: what is in them, and that foreign text in them is text."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Optional
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.catalogue.model import Catalogue, Package
from sifmod.catalogue.pages import catalogue_files, is_catalogue
from sifmod.resources import data_path
from sifmod.text.printable import printable

from .made import HOSTILE, a_catalogue, an_entry

VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


class Page(HTMLParser):
    """A page as a browser would take it: its elements, and their text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, Optional[str]]]] = []
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag] = self.texts.get(tag, "") + data

    def attributes(self, tag: str, name: str) -> Iterator[str]:
        yield from (found[name] or "" for one, found in self.elements if one == tag and name in found)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return a_catalogue()


@pytest.fixture(scope="module")
def files(catalogue: Catalogue) -> dict[str, str]:
    return catalogue_files(catalogue, title="Containers on test")


@pytest.fixture(scope="module")
def pages(files: dict[str, str]) -> dict[str, Page]:
    return {name: Page(text) for name, text in files.items() if name.endswith(".html")}


def test_the_data_fits_its_schema_which_knows_every_key(files: dict[str, str]) -> None:
    schema = json.loads(files["catalogue.schema.json"])
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(json.loads(files["catalogue.json"]), schema)
    data = json.loads(files["catalogue.json"])
    assert set(schema["properties"]) == set(data)
    assert set(schema["definitions"]["module"]["properties"]) == set(data["modules"][0])
    assert set(schema["definitions"]["module"]["required"]) == set(data["modules"][0])


def test_the_same_catalogue_makes_the_same_bytes_of_every_file(catalogue: Catalogue, files: dict[str, str]) -> None:
    assert catalogue_files(catalogue, title="Containers on test") == files
    templates = {path.name for path in data_path("catalogue").iterdir() if path.suffix == ".j2"}
    assert templates == {"index.html.j2", "layout.html.j2", "macros.html.j2", "module.html.j2"}
    assert {path.name for path in data_path("catalogue").iterdir() if path.is_file()} - templates <= set(files)


def test_the_list_has_every_module_and_leads_to_its_page(pages: dict[str, Page], catalogue: Catalogue) -> None:
    links = [unquote(link) for link in pages["index.html"].attributes("a", "href") if link.startswith("modules/")]
    assert links == [entry.page for entry in catalogue.modules]
    assert set(links) == set(pages) - {"index.html"}
    assert "Containers on test" in pages["index.html"].texts["h1"]


def test_pages_load_their_own_files_only(pages: dict[str, Page], files: dict[str, str]) -> None:
    for name, page in pages.items():
        loaded = [*page.attributes("script", "src"), *page.attributes("link", "href")]
        folder = Path(name).parent
        for file in loaded:
            assert file == "data:," or str(folder / file).replace("modules/../", "") in files
        assert not list(page.attributes("img", "src"))
        assert all(found.get("src") for tag, found in page.elements if tag == "script")
        assert not any(key.startswith("on") or key == "style" for _, found in page.elements for key in found)
    for name in ("catalogue.css", "copy.js", "search.js"):
        assert "http" not in files[name].replace("over plain http", "")
        assert "url(" not in files[name]
        assert "@import" not in files[name]


def test_a_page_has_what_users_copy_and_how_to_install(pages: dict[str, Page]) -> None:
    assert "eb samtools-1.22.eb" in pages["modules/samtools-1.22.html"].texts["code"]
    assert "eb " not in pages["modules/PyTorch-2.2.0.html"].texts["code"]
    page = pages["modules/PyTorch-2.7.1.html"]
    assert "module load PyTorch/2.7.1" in page.texts["code"]
    assert "srun -n1 python --version" in page.texts["code"]
    assert "#!/bin/bash" in page.texts["code"]
    text = " ".join(page.texts["main"].split())
    for wanted in (
        "Problem: It is slow. What to do: Set X=1.",
        "torchmetrics 1.7.0",
        "torchrun",
        "PyTorch/2.2.0",
        "1.13.0, archived",
        "53.6 MB",
    ):
        assert wanted in text
    assert "https://example.org/1" in set(page.attributes("a", "href"))


def test_a_guide_is_markdown_without_html_pictures_or_scripts(pages: dict[str, Page]) -> None:
    page = pages["modules/PyTorch-2.7.1.html"]
    assert "Before you start" in page.texts["h3"]
    assert "small" in page.texts["td"]
    assert "a <picture>" in page.texts["p"]
    assert HOSTILE in page.texts["p"]
    links = set(page.attributes("a", "href"))
    assert "https://example.org/docs" in links
    assert not any(link.startswith("javascript") for link in links)
    assert len([tag for tag, _ in page.elements if tag == "h1"]) == 1


def test_foreign_text_is_text(pages: dict[str, Page]) -> None:
    page = pages["modules/hostile-1.html"]
    assert page.texts["main"].count(HOSTILE) >= 4
    assert HOSTILE in pages["index.html"].texts["option"]
    for one in pages.values():
        assert "script" not in one.texts
        assert not any(tag == "img" for tag, _ in one.elements)


@settings(max_examples=60)
@given(
    st.text(st.sampled_from("<>&\"'/!-=;#abx ") | st.characters(codec="utf-8"), min_size=1, max_size=40).map(printable)
)
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    entry = replace(an_entry(), description=text, commands=(text,), packages=(Package(text, text),), job=text)
    made = catalogue_files(Catalogue("2026-01-31T08:00:00Z", "x", (entry,)))
    plain = Page(catalogue_files(Catalogue("2026-01-31T08:00:00Z", "x", (an_entry(),)))[entry.page])
    page = Page(made[entry.page])
    assert text in page.texts["code"]
    assert {tag for tag, _ in page.elements} - {tag for tag, _ in plain.elements} <= {
        "section",
        "ul",
        "li",
        "p",
        "span",
    }
    assert json.loads(made["catalogue.json"])["modules"][0]["description"] == text


def test_an_earlier_catalogue_is_known_by_its_files(tmp_path: Path, files: dict[str, str]) -> None:
    assert not is_catalogue(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert is_catalogue(tmp_path)
    for mine in ("thesis.tex", "modules/thesis.tex", "modules/years"):
        (tmp_path / mine).touch()
        assert not is_catalogue(tmp_path), mine
        (tmp_path / mine).unlink()
    assert is_catalogue(tmp_path)


@pytest.mark.parametrize("data", ["", "[]", '{"type": "Catalog", "dataset": []}\n'])
def test_a_catalogue_of_something_else_is_not_an_earlier_one(tmp_path: Path, data: str) -> None:
    (tmp_path / "catalogue.json").write_text(data)
    assert not is_catalogue(tmp_path)
