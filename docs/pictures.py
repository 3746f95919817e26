"""Takes the pictures of the catalogue: `make shots`, as the ordinary user, whose EasyBuild evaluates easyconfigs.

They show the easyconfigs that come with sifmod, in the folder that is the argument.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser import DESKTOP, PHONE, browser, look

ROOT = Path(__file__).parents[1]
PAGE = "modules/PyTorch-2.7.1-rocm-6.2.4-python-3.12-singularity-20250827.html"
# name -> page, screen, and whether it is dark
PICTURES = {
    "catalogue": ("index.html#q=torch&gpu=amd", DESKTOP, False),
    "catalogue-module": (PAGE, PHONE, True),
}


def main() -> None:
    """Write the pictures."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, browser() as window:
        pages = Path(folder, "pages")
        places = ["--output", str(pages), "--easyconfigs", str(ROOT / "easyconfigs")]
        names = ["--site", "lumi", "--title", "Containers on LUMI"]
        subprocess.run(["sifmod", "catalogue", *places, *names], check=True)
        for name, (page, size, dark) in PICTURES.items():
            look(window, size, dark=dark)
            window.get("about:blank")
            window.get(f"{pages.as_uri()}/{page}")
            window.save_screenshot(str(target / f"{name}.png"))


if __name__ == "__main__":
    main()
