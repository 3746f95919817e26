"""A browser without a window, for the pages that sifmod writes."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from tests.lacking import lacking

DESKTOP = (1280, 860)
PHONE = (390, 844)


@contextmanager
def browser() -> Iterator[Chrome]:
    """Yield Debian's Chromium; nothing is downloaded."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        lacking("chromium and chromedriver are not installed: testbed/setup --all")
    options = ChromeOptions()
    options.binary_location = program
    # the pages are ours, a machine of CI may allow no namespaces, and /dev/shm is small in containers
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    made = Chrome(options=options, service=Service(driver))
    try:
        made.set_script_timeout(300)
        yield made
    finally:
        made.quit()


def look(window: Chrome, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> None:
    """Set the size of the screen, and the colour scheme that the user prefers."""
    is_phone = size == PHONE
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 2 if is_phone else 1, "mobile": is_phone}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def log(window: Chrome, kind: str) -> list[dict[str, Any]]:
    """Return what one of the browser's logs has got since the last call."""
    entries: list[dict[str, Any]] = window.get_log(kind)  # type: ignore[no-untyped-call] # Selenium's gap
    return entries


def requests(window: Chrome) -> list[str]:
    """Return the addresses that were requested since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in log(window, "performance")]
    return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]


_AXE = "const done = arguments[arguments.length - 1]; axe.run(document).then((found) => done(found.violations))"


def violations(window: Chrome) -> list[tuple[str, str, list[str]]]:
    """Return what axe finds on the page that is open: the rule, how bad it is, and the first elements."""
    if sys.version_info < (3, 10):
        lacking("axe-core-python needs Python 3.10")
    import axe_core_python

    window.execute_script((Path(axe_core_python.__path__[0]) / "axe.min.js").read_text())
    found: list[dict[str, Any]] = window.execute_async_script(_AXE)
    return [(one["id"], one["impact"], [node["html"] for node in one["nodes"]][:3]) for one in found]
