"""The program that reads a lock in a build."""

import subprocess
import sys
from pathlib import Path

from sifmod.environment.lock import Locked, lock_text
from sifmod.resources import program

from ..environment.test_lock import LINUX, SHA


def test_a_lock_becomes_requirements_and_links(tmp_path: Path) -> None:
    locked = (
        Locked("greeting", "1.0", SHA, url="https://x.org/a'b\"&<c>/greeting-1.0-py3-none-any.whl?q=1#f"),
        Locked("local-one", "2.0+x", SHA, path="/some folder/local_one-2.0+x-py3-none-any.whl"),
    )
    folder = tmp_path / "my folder"
    folder.mkdir()
    (folder / "pylock.toml").write_text(lock_text(locked, LINUX, base="demo.sif"))
    subprocess.run([sys.executable, "-I", "-", str(folder)], input=program("locked"), text=True, check=True)
    assert (folder / "requirements.txt").read_text().splitlines() == [
        f"greeting==1.0 --hash=sha256:{SHA}",
        f"local-one==2.0+x --hash=sha256:{SHA}",
    ]
    assert (folder / "wheels.html").read_text().splitlines() == [
        f'<a href="https://x.org/a&#x27;b&quot;&amp;&lt;c&gt;/greeting-1.0-py3-none-any.whl?q=1#sha256={SHA}">'
        "greeting-1.0-py3-none-any.whl</a>",
        f'<a href="{(folder / "local_one-2.0+x-py3-none-any.whl").as_uri()}#sha256={SHA}">'
        "local_one-2.0+x-py3-none-any.whl</a>",
    ]
