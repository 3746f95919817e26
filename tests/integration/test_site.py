"""The documentation as a site, as `make site` builds it."""

import html
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.lacking import lacking

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mkdocs = Path(os.environ["SIFMOD_TESTBED"], "site/bin/mkdocs")
    if not mkdocs.exists():
        lacking("missing: MkDocs; run docs/setup")
    folder = tmp_path_factory.mktemp("site") / "site"
    build = [str(mkdocs), "build", "--strict", "--site-dir", str(folder)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return folder


def test_the_search_has_every_page_and_the_library(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    places = {entry["location"].partition("#")[0] for entry in entries}
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    made = {("" if str(path) == "README.md" else str(path).replace("README.md", "index.md")) for path in pages}
    assert {path.replace(".md", ".html") for path in made} - places - {"index.html"} <= {""}
    assert {"project/about.html", "project/changelog.html", "catalogue-example.html"} <= places
    assert any(entry["location"] == "api/image.html#sifmod.image.inspection.inspect_image" for entry in entries)


def test_the_navigation_has_the_sections_of_the_index(site: Path) -> None:
    page = (site / "howto/run-mpi.html").read_text()
    for target in ("../tutorial.html", "publish-a-catalogue.html", "../reference/sites.html", "../api/eb.html"):
        assert f'href="{target}"' in page


def test_links_lead_to_pages_of_the_site_or_are_text(site: Path) -> None:
    about = (site / "project/about.html").read_text()
    assert 'href="../tutorial.html' in about
    assert 'src="../pictures/terminal.svg"' in about
    for page in set(site.rglob("*.html")) - {site / "404.html"}:  # the server shows it for any address
        for link in map(html.unescape, re.findall(r'<a[^>]* href="([^"]+)"', page.read_text())):
            target = re.split(r"[#?]", link)[0]
            assert re.match(r"\w+:", link) or (page.parent / target).exists(), f"{page}: {link}"


def test_code_in_lists_is_code(site: Path) -> None:
    page = (site / "howto/tell-users-of-a-known-problem.html").read_text()
    (item,) = re.findall(r"(?s)<li>\s*<p>Find out what.*?</li>", page)
    assert re.search(r"(?s)<code>.*sifmod inspect image.sif", item)


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = re.findall(r'<(?:script|img|link|iframe)[^>]* (?:src|href)="([^"]+)"', page.read_text())
        assert not [one for one in loads if one.startswith(("http", "//"))], page


def test_the_catalogue_of_the_shipped_easyconfigs_is_there(site: Path) -> None:
    assert 'href="catalogue/index.html"' in (site / "catalogue-example.html").read_text()
    found = json.loads((site / "catalogue/catalogue.json").read_text())
    assert {"samtools", "PyTorch"} <= {module["name"] for module in found["modules"]}
