"""Programs that tests write: stand-ins for commands, and scripts."""

from pathlib import Path


def write_program(path: Path, text: str) -> Path:
    """Write a program into a folder, which is made if needed, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
