"""Images and packed files on Lustre, with a stand-in for `lfs`: here is no Lustre."""

import json
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User

# It writes down what it is asked; a file that it made or migrated has a layout, which a rename keeps, as on Lustre.
LFS = """\
#!/bin/bash
printf '%s\\n' "$*" >>"{folder}/asked"
path=${{!#}}
case $1 in
setstripe | migrate)
    if [[ -e {folder}/refuses ]]; then echo "lfs $1: no space on OST0001"; exit 28; fi
    if [[ $1 == setstripe && ! -e $path ]]; then : >"$path"; fi
    stat -c %i -- "$path" >>"{folder}/spread"
    ;;
getstripe)
    count=1
    if grep -qx -e "$(stat -c %i -- "$path")" {folder}/spread; then count=4; fi
    printf '%s\\nlmm_stripe_count:  %s\\n' "$path" "$count"
    ;;
quota | project) exit 1 ;;
esac
"""


@pytest.fixture
def lfs(own_demo: User, tmp_path: Path) -> Path:
    """The folder of a stand-in that the user has on the path, with a site that spreads large files."""
    folder = tmp_path / "lustre"
    folder.mkdir()
    (folder / "spread").touch()
    (folder / "lfs").write_text(LFS.format(folder=folder))
    (folder / "lfs").chmod(0o755)
    own_demo.env["PATH"] = f"{folder}:{own_demo.env.get('PATH') or own_demo.out('echo $PATH')}"
    own_demo.env["SIFMOD_STRIPE"] = "-c 4 -S 4M"
    return folder


@pytest.mark.slow
def test_large_files_are_spread_reported_and_mended(own_demo: User, lfs: Path) -> None:
    root = own_demo.installdir(DEMO_MODULE)
    image, packed = root / "demo.sif", root / "user-software.squashfs"

    # what was installed before the site had a layout
    own_demo.eb(DEMO_EASYCONFIG, "--module-only", "--rebuild")
    own_demo.run(f"module load {DEMO_MODULE}; make-squashfs")
    asked = (lfs / "asked").read_text().splitlines()
    assert [line for line in asked if line.startswith("setstripe -c 4 -S 4M ") and ".packing." in line]
    assert str(packed.stat().st_ino) in (lfs / "spread").read_text().split()

    said = own_demo.run("sifmod verify", check=False)
    assert f"'{image}' lies on one storage target of Lustre" in " ".join(said.stdout.split())
    assert f"'{packed}'" not in said.stdout
    assert json.loads(own_demo.out("sifmod list --json"))["installations"][0]["unstriped"] == [str(image)]

    (lfs / "refuses").touch()
    done = own_demo.run("sifmod restripe", check=False)
    assert (done.returncode, "is as it was" in done.stderr) == (1, True)
    (lfs / "refuses").unlink()
    before = image.read_bytes()
    assert own_demo.out("sifmod restripe --dry-run") == f"would spread {image}"
    assert own_demo.out("sifmod restripe") == f"spread {image}"
    assert image.read_bytes() == before
    assert own_demo.out("sifmod restripe") == "1 installation: no large file lies on one target"

    # a new image is made in a folder that has the layout
    (lfs / "asked").unlink()
    own_demo.eb(DEMO_EASYCONFIG, "--rebuild")
    (made,) = [line for line in (lfs / "asked").read_text().splitlines() if line.startswith("setstripe")]
    assert "/.sifmod-striped-" in made
    assert not list(root.glob(".sifmod-*"))


@pytest.mark.slow
def test_a_refusal_is_said_and_nothing_fails(own_demo: User, lfs: Path) -> None:
    (lfs / "refuses").touch()
    assert "no space on OST0001" in own_demo.eb(DEMO_EASYCONFIG, "--rebuild").stderr
    done = own_demo.run(f"module load {DEMO_MODULE}; make-squashfs")
    assert "packed without the layout of the site" in done.stderr
    assert (own_demo.installdir(DEMO_MODULE) / "user-software.squashfs").is_file()
