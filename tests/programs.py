"""Files and programs that tests write, such as stand-ins for commands, and programs that they run."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union


def write_file(path: Path, text: str = "") -> Path:
    """Write a file into a folder, which is made if needed, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_program(path: Path, text: str) -> Path:
    """Write a file that can be run."""
    write_file(path, text).chmod(0o755)
    return path


def ran(
    words: Sequence[Union[str, os.PathLike[str]]], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its status and the text that it printed; `options` are those of `run`."""
    return subprocess.run(words, capture_output=True, text=True, check=check, **options)
