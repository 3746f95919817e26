"""What `sifmod convert` does and prints for recipes and modules of SHPC."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Optional

from sifmod.commands.output import echo_error, echo_json, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.migrate.conversion import Converted
from sifmod.migrate.shpc import ConvertedTool, convert_tool
from sifmod.migrate.shpcbatch import Batch, convert_all
from sifmod.migrate.shpctree import installed_modules, read_module
from sifmod.site.settings import Site
from sifmod.text.size import counted


def convert_installed(tree: Path, site: Site, *, output: Path, full_name: bool, force: bool) -> Batch:
    """Convert all modules that SHPC has installed into a folder."""

    def one(path: Path) -> ConvertedTool:
        tool, sif = read_module(path, tree)
        option = f"--sourcepath={shlex.quote(str(sif.parent))}"
        comments = [
            f"the module file {path}.",
            "Install it, without a copy of the image, with:",
            f"    eb {option} FILE.eb",
        ]
        return convert_tool(tool, site, full_name=full_name, comments=comments)

    return convert_all(installed_modules(tree), one, output=output, force=force, progress=shown_progress())


def echo_converted(result: Converted, target: Optional[Path], *, prefix: str = "") -> None:
    """Print what was not carried over on standard error, and the path of the easyconfig, or else its text."""
    for note in result.lost:
        echo_error(f"sifmod: {prefix}not carried over: {note}")
    for note in result.look:
        echo_error(f"sifmod: {prefix}note: {note}")
    echo_whole(f"wrote {target}" if target else result.text)


def echo_batch(batch: Batch, output: Path, *, as_json: bool) -> None:
    """Print a summary, and end with the exit status of what was refused first."""
    if as_json:
        done = [{"file": str(path), "written": str(target), **vars(one)} for path, target, one in batch.written]
        failed = [{"file": str(path), "reason": one.reason, "problem": str(one)} for path, one in batch.refused]
        echo_json({"converted": done, "failed": failed})
    else:
        for _path, error in batch.refused:
            echo_error(f"sifmod: {error}")
        echo_whole(f"wrote {counted(len(batch.written), 'easyconfig')} to {output}")
        for reason, count in Counter(error.reason for _path, error in batch.refused).most_common():
            echo_whole(f"{count} refused: {reason}")
        for topic, count in Counter(topic for *_paths, one in batch.written for topic in one.topics).most_common():
            echo_whole(f"{count} with a note: {topic}")
    if batch.refused:
        sys.exit(batch.refused[0][1].exit_code)
