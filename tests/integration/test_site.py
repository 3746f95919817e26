"""The documentation as a site, as `make site` builds it."""

import html
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import DESKTOP, browser, look, violations
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


# As readers see it: the narrowest phone, and a screen.
NARROW = (360, 780)
PATIENCE = 240


@pytest.fixture(scope="module")
def window() -> Iterator[Chrome]:
    with browser() as made:
        yield made


class _Server(SimpleHTTPRequestHandler):
    """What a web server for static pages does: an unknown address gets 404.html."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the class above
        pass

    def send_error(self, code: int, message: object = None, explain: object = None) -> None:  # noqa: ARG002
        self.send_response(code)
        self.end_headers()
        self.wfile.write(Path(self.directory, "404.html").read_bytes())


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The search of the site reads its index, which browsers refuse for files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Server, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESKTOP, NARROW])
@pytest.mark.parametrize("page", ["index.html", "tutorial.html", "howto/extend-and-pack.html", "gone.html"])
def test_axe_finds_nothing(window: Chrome, address: str, page: str, size: tuple[int, int], dark: bool) -> None:
    look(window, size, dark=dark)
    window.get(f"{address}/{page}")
    assert window.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert violations(window) == []


def test_the_landing_page_has_the_four_commands_the_picture_and_who_reads_what(window: Chrome, address: str) -> None:
    look(window)
    window.get(f"{address}/index.html")
    text = window.find_element(By.TAG_NAME, "article").text
    for said in ("eb Python-3.11-demo-singularity.eb", "module load", "srun -N2 -n4 python", "make-squashfs"):
        assert said in text
    for reader in ("For users", "For support staff", "For newcomers"):
        assert reader in text
    width = "return document.querySelector('article img').naturalWidth"
    WebDriverWait(window, PATIENCE).until(lambda _window: window.execute_script(width))


def test_an_unknown_address_says_so_and_leads_back(window: Chrome, address: str) -> None:
    window.get(f"{address}/howto/gone.html")
    assert "404" in window.find_element(By.TAG_NAME, "article").text
    assert str(window.find_element(By.CSS_SELECTOR, "a.md-logo").get_attribute("href")).startswith(address)


@pytest.mark.parametrize("words", ["pack user software", "layer", "mpi"])
def test_the_search_has_pages_for_users_before_those_of_the_library(window: Chrome, address: str, words: str) -> None:
    look(window)
    window.get(f"{address}/index.html?q={words.replace(' ', '+')}")
    results = "return [...document.querySelectorAll('.md-search-result__link')].map((one) => one.href)"
    WebDriverWait(window, PATIENCE).until(lambda _window: window.execute_script(results))
    found = [one.removeprefix(address) for one in window.execute_script(results)]
    assert not [one for one in found[:5] if one.startswith("/api/")], found
    assert [one for one in found[:5] if re.match("/(howto|explanation|reference|tutorial)", one)], found
