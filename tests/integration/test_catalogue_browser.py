"""The pages of `sifmod catalogue` in a real browser, opened as files: what users do with them."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import DESKTOP, PHONE, browser, log, look, requests, violations
from tests.unit.catalogue.made import HOSTILE, a_catalogue, a_large_catalogue

from sifmod.catalogue.model import Catalogue
from sifmod.catalogue.pages import catalogue_files
from sifmod.host.writing import write_folder

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# Seconds, for a loaded machine; docs/howto/publish-a-catalogue.md says what a keystroke takes on a quiet one.
PATIENCE = 240
KEYSTROKE = 2.0


@pytest.fixture(scope="module")
def window() -> Iterator[Chrome]:
    with browser() as made:
        yield made


@pytest.fixture(autouse=True)
def _usual_look(window: Chrome) -> None:
    window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    look(window)


def written(folder: Path, catalogue: Catalogue) -> str:
    write_folder(folder, catalogue_files(catalogue), replaceable=lambda _folder: False)
    return folder.as_uri()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("small") / "pages", a_catalogue())


Shown = Callable[[], list[str]]


@pytest.fixture
def shown(window: Chrome) -> Shown:
    """Return the modules in the list, as far as they are visible."""
    script = "return [...document.querySelectorAll('#modules > li:not([hidden]) h2')].map((one) => one.textContent)"
    return lambda: [str(name) for name in window.execute_script(script)]


def by_id(window: Chrome, name: str) -> WebElement:
    return window.find_element(By.ID, name)


def open_list(window: Chrome, address: str, search: str = "") -> WebElement:
    """Open the list anew, as from a link, and return the search field."""
    window.get("about:blank")
    window.get(f"{address}/index.html{search}")
    return by_id(window, "query")


def test_typing_finds_modules_by_package_command_and_name(window: Chrome, small: str, shown: Shown) -> None:
    query = open_list(window, small)
    assert len(shown()) == 4
    for typed, found in (
        ("TorchM", ["PyTorch/2.7.1"]),
        ("torchrun", ["PyTorch/2.7.1", "PyTorch/2.2.0"]),
        ("samt", ["samtools/1.22"]),
        ("numpy==1.26", ["PyTorch/2.2.0"]),
        ("pytorch apex", ["PyTorch/2.2.0"]),
        ("nothing-like-it", []),
        ("", ["hostile/1", "PyTorch/2.7.1", "PyTorch/2.2.0", "samtools/1.22"]),
    ):
        query.send_keys(Keys.CONTROL, "a")
        query.send_keys(Keys.DELETE, *typed)
        assert shown() == found, typed
        assert by_id(window, "nothing").is_displayed() == (not found)
        assert by_id(window, "status").text == (f"{len(found)} of 4 modules" if typed else "4 modules")


def test_a_result_says_which_package_matches_the_exact_one_first(window: Chrome, small: str) -> None:
    open_list(window, small, "#q=torch")
    marks = window.find_elements(By.CSS_SELECTOR, "#modules > li:nth-child(2) mark")
    assert [mark.text for mark in marks] == ["torch 2.7.1", "torchmetrics 1.7.0", "torchrun"]


def test_filters_narrow_the_search_and_clear_resets_them(window: Chrome, small: str, shown: Shown) -> None:
    open_list(window, small)
    form = by_id(window, "search")
    form.find_element(By.CSS_SELECTOR, "[name=gpu] option[value=none]").click()
    assert shown() == ["hostile/1", "samtools/1.22"]
    form.find_element(By.CSS_SELECTOR, "[name=state] option[value=offered]").click()
    assert shown() == ["samtools/1.22"]
    form.find_element(By.CSS_SELECTOR, "[name=python]").click()
    assert shown() == []
    form.find_element(By.CSS_SELECTOR, "[type=reset]").click()
    WebDriverWait(window, PATIENCE).until(lambda _window: len(shown()) == 4)
    assert window.switch_to.active_element == by_id(window, "query")
    assert "=" not in window.current_url


def test_the_address_keeps_the_search_and_restores_it(window: Chrome, small: str, shown: Shown) -> None:
    open_list(window, small).send_keys("torch metrics")
    window.find_element(By.CSS_SELECTOR, "[name=gpu] option[value=amd]").click()
    address = window.current_url
    assert address.endswith("#q=torch+metrics&gpu=amd")
    window.get("about:blank")
    window.get(address)
    assert by_id(window, "query").get_attribute("value") == "torch metrics"
    assert shown() == ["PyTorch/2.7.1"]
    # a link within the page, and an address that somebody has mistyped
    window.execute_script("location.hash = '#q=samtools'")
    WebDriverWait(window, PATIENCE).until(lambda _window: shown() == ["samtools/1.22"])
    open_list(window, small, "#gpu=abacus&python=perhaps&x=1")
    assert len(shown()) == 4


def test_the_way_back_from_a_page_keeps_the_search(window: Chrome, small: str, shown: Shown) -> None:
    open_list(window, small, "#q=torchmetrics")
    window.find_element(By.LINK_TEXT, "PyTorch/2.7.1").click()
    assert "torchmetrics 1.7.0" in window.find_element(By.TAG_NAME, "main").text
    window.back()
    assert shown() == ["PyTorch/2.7.1"]


def test_copy_puts_the_line_into_the_clipboard(window: Chrome, small: str) -> None:
    query = open_list(window, small, "#q=torchmetrics")
    button = window.find_element(By.CSS_SELECTOR, "#modules > li:not([hidden]) button.copy")
    # it would say so for two seconds, which the test may miss on a busy machine
    window.execute_script("globalThis.setTimeout = () => 0")
    button.click()
    WebDriverWait(window, PATIENCE).until(lambda _window: button.text == "Copied")
    query.clear()
    query.send_keys(Keys.CONTROL, "v")
    assert query.get_attribute("value") == "module load PyTorch/2.7.1"


def test_the_keyboard_reaches_everything(window: Chrome, small: str) -> None:
    open_list(window, small, "#q=torchmetrics")
    window.find_element(By.TAG_NAME, "body").send_keys("/")
    active = window.switch_to.active_element
    assert active.get_attribute("id") == "query"
    ring = "const style = getComputedStyle(document.activeElement); return [style.outlineStyle, style.outlineWidth]"
    assert window.execute_script(ring) == ["solid", "3px"]
    active.send_keys("/")  # a character like any other in the field
    assert active.get_attribute("value") == "/"
    active.send_keys(Keys.BACKSPACE, "torchmetrics")
    reached = []
    for _ in range(12):
        window.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(window.switch_to.active_element)
        if reached[-1].text == "PyTorch/2.7.1":
            break
    assert [one.get_attribute("name") for one in reached[:4]] == ["gpu", "class", "state", "python"]
    reached[-1].send_keys(Keys.ENTER)
    WebDriverWait(window, PATIENCE).until(lambda _window: window.title.startswith("PyTorch/2.7.1"))


def test_foreign_text_does_nothing(window: Chrome, small: str) -> None:
    open_list(window, small, "#q=script")
    assert window.find_element(By.CSS_SELECTOR, "#modules > li:not([hidden]) .about").text == HOSTILE
    assert HOSTILE in window.find_element(By.CSS_SELECTOR, "#modules > li:not([hidden]) mark").text
    for page in ("index.html", "modules/hostile-1.html", "modules/PyTorch-2.7.1.html"):
        window.get(f"{small}/{page}")
        assert window.title != "run"
        assert not window.find_elements(By.TAG_NAME, "img")


def test_nothing_is_requested_from_elsewhere(window: Chrome, small: str) -> None:
    requests(window)
    open_list(window, small).send_keys("torch")
    window.get(f"{small}/modules/PyTorch-2.7.1.html")
    asked = requests(window)
    assert f"{small}/search-data.js" in asked
    assert [url for url in asked if not url.startswith((f"{small}/", "data:", "about:"))] == []
    complaints = [entry for entry in log(window, "browser") if entry["level"] == "SEVERE"]
    assert complaints == []


def test_without_javascript_the_list_and_the_pages_are_there(window: Chrome, small: str) -> None:
    window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    window.get(f"{small}/index.html")
    assert not by_id(window, "search").is_displayed()
    assert "your browser's search" in window.find_element(By.TAG_NAME, "noscript").text
    assert not any(button.is_displayed() for button in window.find_elements(By.CSS_SELECTOR, "button.copy"))
    link = window.find_element(By.LINK_TEXT, "PyTorch/2.7.1")
    link.click()
    assert "torchmetrics 1.7.0" in window.find_element(By.TAG_NAME, "main").text


def brightness(window: Chrome, element: str, what: str) -> float:
    script = f"return getComputedStyle(document.querySelector('{element}')).{what}.match(/[0-9.]+/g).slice(0, 3)"
    return statistics.mean(float(value) for value in window.execute_script(script))


@pytest.mark.parametrize("page", ["index.html", "modules/PyTorch-2.7.1.html"])
def test_dark_is_dark_and_light_is_light(window: Chrome, small: str, page: str) -> None:
    window.get(f"{small}/{page}")
    assert brightness(window, "body", "backgroundColor") > 200 > 80 > brightness(window, "body", "color")
    look(window, dark=True)
    assert brightness(window, "body", "backgroundColor") < 60 < 200 < brightness(window, "body", "color")


@pytest.mark.parametrize("page", ["index.html", "modules/PyTorch-2.7.1.html", "modules/hostile-1.html"])
def test_a_phone_needs_no_scrolling_sideways(window: Chrome, small: str, page: str) -> None:
    look(window, PHONE)
    window.get(f"{small}/{page}")
    assert window.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("page", ["index.html#q=torch", "modules/PyTorch-2.7.1.html", "modules/samtools-1.22.html"])
def test_axe_finds_nothing(window: Chrome, small: str, page: str, size: tuple[int, int], dark: bool) -> None:
    look(window, size, dark=dark)
    window.get("about:blank")
    window.get(f"{small}/{page}")
    assert violations(window) == []


# Types a text, and returns the time of each keystroke until the list is laid out.
TYPING = """
const [text] = arguments;
const query = document.getElementById("query");
const times = [];
for (let length = 1; length <= text.length; length++) {
  query.value = text.slice(0, length);
  const start = performance.now();
  query.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.offsetHeight;
  times.push(performance.now() - start);
}
return times;
"""


def test_two_thousand_modules_answer_at_once(window: Chrome, tmp_path: Path, shown: Shown) -> None:
    address = written(tmp_path / "pages", a_large_catalogue())
    start = time.monotonic()
    open_list(window, address)
    opened = time.monotonic() - start
    times: list[float] = []
    for text in ("library-1234", "common-3==1.2", "software249 tool", "e"):
        # the quicker of two: a busy machine may stop the browser at any keystroke
        times += map(min, zip(*(window.execute_script(TYPING, text) for _ in range(2))))
    assert len(shown()) == 2000
    print(f"opened in {opened:.2f} s; keystroke: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms")
    assert max(times) < KEYSTROKE * 1000
