"""The picture of a terminal in the README: a session that is run for real, as the testbed's ordinary user.

docs/pictures/terminal.txt is its output, and terminal.svg the picture. `make picture` writes both.
"""

import io
import os
import re
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text
from tests.programs import ran, write_file

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 112  # columns

# An install, packages that stay the image's, packing, and a rebuild that keeps what users installed.
COMMANDS = (
    "eb Python-3.11-demo-singularity.eb | grep -E '>> (copying|looking|making)|COMPLETED'",
    "module load Python/3.11-demo-singularity",
    "pip install --no-index demo-vendor==2.0",
    "pip install --quiet --no-index ./greeting-1.0-py3-none-any.whl",
    "make-squashfs --remove-directory",
    "(module purge; eb --rebuild Python-3.11-demo-singularity.eb | grep COMPLETED)",
    "srun -N2 -n2 python -c 'import greeting; print(greeting.greet())'",
    "sifmod list",
)

# What differs from run to run, and what is too long to show: what mksquashfs counts, and pip's advice. On a busy
# machine also how far packing is, which is taken away again, and that srun waits.
_EDITED = (
    (r"(?:\r\x1b\[K[^\r\n]* (?:passed|left))+\r\x1b\[K", ""),
    (r"srun: job \d+ (?:queued and waiting for|has been allocated) resources\n", ""),
    (r"\(took .*?\)", "(took 4 secs)"),
    (r"(?s)Parallel mksquashfs.*?(?=Packed )", "...\n"),
    (r"(?s)\nTo fix this you could.*?(?=\x1b\[1m\$ )", "\n...\n"),
    (r"\S+(?=/images/demo\.sif)", "..."),
)


def session(folder: Path) -> str:
    """Return what the commands print on a terminal, with each command before it.

    Args:
        folder: an empty folder, in which the user is; it has the wheel of `greeting`.

    Raises:
        CalledProcessError: the shell did not start.
    """
    home = f"{folder}/home"
    lines = [
        f"cd {folder}; export COLUMNS={WIDTH} TERM=xterm-256color PIP_DISABLE_PIP_VERSION_CHECK=1",
        f"export EASYBUILD_PREFIX={home} MODULEPATH={home}/modules/all",
        "unset PIP_FIND_LINKS PIP_INDEX_URL PIP_EXTRA_INDEX_URL",
    ]
    lines += [f"printf '\\033[1m$ %s\\033[0m\\n' {shlex.quote(command)}\n{command}" for command in COMMANDS]
    script = write_file(folder / "session", "\n".join(lines))
    # on a terminal, as a reader sees it
    done = ran(
        ["script", "--quiet", "--return", "--command", f"bash {script}", "/dev/null"],
        env={**os.environ, "COLUMNS": str(WIDTH)},
        timeout=300,
    )
    text = done.stdout.replace("\r\n", "\n").replace(home, "~")
    for pattern, instead in _EDITED:
        text = re.sub(pattern, instead, text)
    return text


def picture(text: str) -> str:
    """Return the picture of a terminal with a text, as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in text.splitlines():
        console.print(Text.from_ansi(line), overflow="fold")  # as a terminal does
    return console.export_svg(title="sifmod", unique_id="terminal")


def make_picture(folder: Path) -> None:
    """Run the session in an empty folder that has the wheel, and write text and picture."""
    FOLDER.mkdir(exist_ok=True)
    text = session(folder)
    (FOLDER / "terminal.txt").write_text(text)
    (FOLDER / "terminal.svg").write_text(picture(text))
