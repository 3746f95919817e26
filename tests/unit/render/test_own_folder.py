"""A folder of the user's on a node: it is opened once, and refused if others can change or replace it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import ran, write_program

from sifmod.resources import data_path

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
    assert "'/proc/new' can't be made" in own_folder("/proc/new", "make").stderr
    assert "missing' was removed meanwhile" in own_folder(tmp_path / "missing").stderr
    assert not (tmp_path / "missing").exists()
    assert own_folder(private(tmp_path / "a b")).stdout == "kept\n"
    assert own_folder(f"{tmp_path}/a b/").stdout == "kept\n"


def test_a_link_above_it_leads_to_what_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    private(tmp_path / "real" / "own")
    (tmp_path / "link").symlink_to("real")
    assert own_folder(tmp_path / "link" / "own").stdout == "kept\n"
    (tmp_path / "real").chmod(0o777)
    assert f"in '{tmp_path}/real', where other users may rename it" in own_folder(tmp_path / "link" / "own").stderr


def _is_link(path: Path) -> Path:
    private(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    return path


def _has_mode(mode: int) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        private(path).chmod(mode)
        return path

    return make


def _is_below(mode: int) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.mkdir()
        private(path / "own")
        path.chmod(mode)
        return path / "own"

    return make


def _is_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a link": (_is_link, "is a link, or was removed meanwhile"),
    "open to the group": (_has_mode(0o750), "is open to other users"),
    "open to all": (_has_mode(0o1777), "is open to other users"),
    "below a folder of all without the sticky bit": (_is_below(0o777), "that folder has no sticky bit"),
    "below a folder of the group without the sticky bit": (_is_below(0o770), "that folder has no sticky bit"),
    "a pipe": (_is_pipe, "is not a folder of yours"),
    "another user's": (lambda _path: Path("/usr"), "belongs to another user"),
    "in no folder": (lambda path: path / "none" / "own", "there is no folder"),
    "no path": (lambda _path: Path("own"), "there is no folder"),
    "the root": (lambda _path: Path("/"), "there is no folder"),
    "with a line break": (lambda path: path.with_name("a\nb"), "there is no folder"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_others_can_change_is_refused(tmp_path: Path, how: str) -> None:
    make, said = REFUSED[how]
    done = own_folder(make(tmp_path / "own"), "make")
    assert done.stdout == ""
    assert said in done.stderr


def test_a_shell_in_posix_mode_says_so_too(tmp_path: Path) -> None:
    assert "is not a folder of yours" in own_folder(_is_pipe(tmp_path / "own"), POSIXLY_CORRECT="1").stderr


def test_below_a_folder_of_all_with_the_sticky_bit_it_is_used(tmp_path: Path) -> None:
    assert own_folder(_is_below(0o1777)(tmp_path / "all")).stdout == "kept\n"


# Stand-ins that swap the folder for a link to another one of the user's at the moment of the look.
SWAP = 'mv "$PLACE" "$PLACE.old"; ln -s "$PLACE.other" "$PLACE"'


def test_a_folder_that_is_swapped_before_the_look_is_refused(tmp_path: Path) -> None:
    place = private(tmp_path / "own")
    private(tmp_path / "own.other")
    stat = write_program(tmp_path / "bin" / "stat", f'#!/bin/bash\n{SWAP}\nexec /usr/bin/stat "$@"\n')
    done = own_folder(place, PATH=f"{stat.parent}:{os.environ['PATH']}", PLACE=str(place))
    assert (done.stdout, done.stderr) == ("", f"'{place}' is a link, or was removed meanwhile\n")


def test_what_is_swapped_after_the_look_is_not_what_is_used(tmp_path: Path) -> None:
    place = private(tmp_path / "own")
    (tmp_path / "own.other").mkdir()
    assert own_folder(place, THEN=SWAP, PLACE=str(place)).stdout == "kept\n"
