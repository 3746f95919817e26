"""Layouts on Lustre, with a stand-in for `lfs` that records what it is asked and says what real ones say."""

from pathlib import Path
from typing import Callable

import pytest

from sifmod.errors import InstallError
from sifmod.host.striping import is_unstriped, restripe, spreads_nothing, stripe_folder, striped

from ..support import Stubs

LAYOUT = "-E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M"

ONE_TARGET = """\
{path}
lmm_stripe_count:  1
lmm_stripe_size:   1048576
lmm_pattern:       raid0
\tobdidx\t\t objid\t\t objid\t\t group
\t     3\t       1234567\t     0x12d687\t             0
"""
FOUR_TARGETS = ONE_TARGET.replace("count:  1", "count:  4")
COMPONENTS = """\
{path}
  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   3
    lcme_id:             1
    lcme_extent.e_start: 0
    lcme_extent.e_end:   4194304
      lmm_stripe_count:  1
"""
NO_LUSTRE = "lfs setstripe: unable to open '/tmp/x': Inappropriate ioctl for device (25)"
REFUSED = "lfs setstripe: setstripe error for '/tmp/x': Numerical result out of range"

Lfs = Callable[..., Path]


@pytest.fixture
def lfs(stub: Stubs) -> Lfs:
    """Make an `lfs` that writes down its arguments, prints a text and ends with a status."""

    def make(says: str = "", status: int = 0) -> Path:
        folder = stub.folder
        (folder / "says").write_text(says)
        stub("lfs", f'printf "%s\\n" "$*" >>"{folder}/asked"\ncat "{folder}/says"\nexit {status}')
        return folder / "asked"

    return make


def test_a_large_file_is_made_in_a_folder_with_the_layout(lfs: Lfs, tmp_path: Path) -> None:
    asked, target, warnings = lfs(), tmp_path / "image.sif", list[str]()
    with striped(target, LAYOUT, warn=warnings.append) as draft:
        assert draft.parent.parent == tmp_path
        assert draft.parent.stat().st_mode & 0o777 == 0o700
        assert asked.read_text() == f"setstripe {LAYOUT} {draft.parent}\n"
        draft.write_text("image")
        assert not target.exists()
    assert (target.read_text(), warnings) == ("image", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image.sif", "stubs"]


def test_what_fails_leaves_nothing(lfs: Lfs, tmp_path: Path) -> None:
    lfs()

    def write_half() -> None:
        with striped(tmp_path / "image.sif", LAYOUT, warn=print) as draft:
            draft.write_text("ima")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["stubs"]


def test_without_a_layout_or_without_lfs_the_file_is_made_in_place(
    lfs: Lfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = lfs()
    with striped(tmp_path / "image.sif", "", warn=print) as draft:
        assert draft == tmp_path / "image.sif"
    monkeypatch.setenv("PATH", "/nowhere")
    with striped(tmp_path / "image.sif", LAYOUT, warn=print) as draft:
        assert draft == tmp_path / "image.sif"
    assert not is_unstriped(tmp_path, LAYOUT)
    assert not asked.exists()


def test_another_file_system_is_no_news_and_a_refusal_is(lfs: Lfs, tmp_path: Path) -> None:
    asked, warnings = lfs(NO_LUSTRE, 25), list[str]()
    stripe_folder(tmp_path, LAYOUT, warn=warnings.append)
    assert warnings == []
    (asked.parent / "says").write_text(REFUSED)
    stripe_folder(tmp_path, LAYOUT, warn=warnings.append)
    (warning,) = warnings
    assert "Numerical result out of range" in warning
    assert "sifmod restripe" in warning


@pytest.mark.parametrize(
    ("says", "layout", "expected"),
    [
        (ONE_TARGET, LAYOUT, True),
        (ONE_TARGET, "-c 8", True),
        (ONE_TARGET, "-c 1 -S 4M", False),
        (FOUR_TARGETS, "-c 8", False),
        (COMPONENTS, LAYOUT, False),
        ("", LAYOUT, False),
        (ONE_TARGET, "", False),
    ],
    ids=["one for three components", "one for eight", "one for one", "four", "components", "nothing", "no layout"],
)
def test_a_file_on_one_target_is_found(lfs: Lfs, tmp_path: Path, says: str, layout: str, expected: bool) -> None:
    lfs(says.format(path=tmp_path))
    assert is_unstriped(tmp_path, layout) is expected


def test_a_file_of_another_file_system_is_not_unstriped(lfs: Lfs, tmp_path: Path) -> None:
    lfs(ONE_TARGET, 1)
    assert not is_unstriped(tmp_path, LAYOUT)


@pytest.mark.parametrize(
    ("layout", "nothing"),
    [("-c 1", True), ("-S 4M", True), ("-E 4M -c 1 -E -1 -c 1", True), ("-c -1", False), ("--stripe-count 2", False)],
)
def test_layouts_that_spread_nothing(layout: str, nothing: bool) -> None:
    assert spreads_nothing(layout) is nothing


def test_a_file_is_migrated_or_as_it_was(lfs: Lfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = lfs()
    restripe(tmp_path / "a b", "-c 8")
    assert asked.read_text() == f"migrate -c 8 {tmp_path}/a b\n"
    lfs("lfs migrate: cannot get group lock: Device or resource busy", 16)
    with pytest.raises(InstallError, match=r"is as it was, because `lfs migrate -c 8` failed: .*busy"):
        restripe(tmp_path, "-c 8")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InstallError, match="mounts Lustre"):
        restripe(tmp_path, "-c 8")
