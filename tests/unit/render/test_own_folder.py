"""A folder of the user's on a node: it is opened once, and refused if others can change or replace it.

The cases that other languages know too are in test_caches.py.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import ran, write_program

from sifmod.resources import data_path
from sifmod.site.cache import LINK, UNUSABLE

SCRIPT = """set -euo pipefail
source "$1"
if own_folder "$2" "${@:3}"; then
    eval "${THEN-}"
    ls "/proc/self/fd/$sifmod_own/"
else
    printf '%s\\n' "$sifmod_own_problem" >&2
fi
"""


def own_folder(folder: object, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
    script = data_path("wrappers") / "share" / "on-node.sh"
    return ran(
        ["bash", "-p", "-c", SCRIPT, "sh", script, str(folder), *more],
        env={"PATH": os.environ["PATH"], **environ},
        timeout=240,
        check=True,
    )


def private(path: Path) -> Path:
    path.mkdir(mode=0o700)
    (path / "kept").touch()
    return path


def test_a_folder_of_one_s_own_is_made_for_the_user_alone_and_opened(tmp_path: Path) -> None:
    assert own_folder(tmp_path / "new", "make").stderr == ""
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert f"'/proc/new' {UNUSABLE}" in own_folder("/proc/new", "make").stderr
    assert f"missing' {UNUSABLE}" in own_folder(tmp_path / "missing").stderr
    assert not (tmp_path / "missing").exists()
    assert own_folder(private(tmp_path / "a b")).stdout == "kept\n"
    assert own_folder(f"{tmp_path}/a b/").stdout == "kept\n"


def test_a_link_above_it_leads_to_what_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    private(tmp_path / "real" / "own")
    (tmp_path / "link").symlink_to("real")
    opened = own_folder(tmp_path / "link" / "own", THEN='echo "$sifmod_own_path"')
    assert opened.stdout == f"{tmp_path}/real/own\nkept\n"


def _is_open_to_the_group(path: Path) -> Path:
    private(path).chmod(0o750)
    return path


def _is_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "open to the group": (_is_open_to_the_group, "is open to other users"),
    "a pipe": (_is_pipe, UNUSABLE),
    "in no folder": (lambda path: path / "none" / "own", UNUSABLE),
    "no path": (lambda _path: Path("own"), "is not the absolute path of a folder"),
    "the root": (lambda _path: Path("/"), "is not the absolute path of a folder"),
    "above": (lambda path: path / "..", "is not the absolute path of a folder"),
    "with a line break": (lambda path: path.with_name("a\nb"), "is not the absolute path of a folder"),
}


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("environ", [{}, {"POSIXLY_CORRECT": "1"}])
def test_what_others_can_change_is_refused(tmp_path: Path, how: str, environ: dict[str, str]) -> None:
    make, said = REFUSED[how]
    done = own_folder(make(tmp_path / "own"), "make", **environ)
    assert done.stdout == ""
    assert said in done.stderr


# Stand-ins that swap the folder for a link to another one of the user's at the moment of the look.
SWAP = 'mv "$PLACE" "$PLACE.old"; ln -s "$PLACE.other" "$PLACE"'


def test_a_folder_that_is_swapped_before_the_look_is_refused(tmp_path: Path) -> None:
    place = private(tmp_path / "own")
    private(tmp_path / "own.other")
    stat = write_program(tmp_path / "bin" / "stat", f'#!/bin/bash\n{SWAP}\nexec /usr/bin/stat "$@"\n')
    done = own_folder(place, PATH=f"{stat.parent}:{os.environ['PATH']}", PLACE=str(place))
    assert (done.stdout, done.stderr) == ("", f"'{place}' {LINK}\n")


def test_what_is_swapped_after_the_look_is_not_what_is_used(tmp_path: Path) -> None:
    place = private(tmp_path / "own")
    (tmp_path / "own.other").mkdir()
    assert own_folder(place, THEN=SWAP, PLACE=str(place)).stdout == "kept\n"
