"""Which libraries for GPUs come first at each start of a container, as `runscripts/at-start.sh` decides on the node.

Here is no GPU: the files of /proc/driver/nvidia and of the image are STAND-INS in a folder of the test, and the script
is given that folder in place of `/`. `integration/test_compat.py` runs it unchanged, in containers.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.standins_gpu import A100, GEFORCE, write_compat, write_driver, write_opengl

from sifmod.container.gpu import VENDORS
from sifmod.container.runtime import LIBRARY_ORDERS, LibraryOrder
from sifmod.render.environment import injected_variables

from ..support import Need, a_site, a_spec
from .cases import ROOT

NVIDIA = VENDORS["nvidia"]
HOST = "/.singularity.d/libs"
COMPAT = "/usr/local/cuda-13.1/compat"


def start(top: Path, shell: str, *, before: str = ":", **environ: str) -> dict[str, str]:
    """Return the variables after a shell has read the script, with these files in place of those of node and image.

    Before that it runs a command, as of another script that the runtime reads.
    """
    script = (ROOT / "wrappers/runscripts/at-start.sh").read_text()
    for path in ("/proc/driver/nvidia/", "/usr/local/cuda"):
        assert path in script
        script = script.replace(path, f"{top}{path}")
    (top / "script").write_text(script)
    words = [shell, "-uc", f'{before}; . "$0"; exec /usr/bin/env -0', str(top / "script")]
    given = {"PATH": "/usr/bin", **environ}
    done = subprocess.run(words, env=given, cwd=top, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = dict(word.split("=", 1) for word in done.stdout.replace(str(top), "").split("\0")[:-1])
    assert not [name for name in found if name.startswith("sifmod")]
    return found


def first(top: Path, shell: str, *, before: str = ":", **environ: str) -> str:
    """Return what was put before the libraries of the host; "" for nothing."""
    path = start(top, shell, before=before, LD_LIBRARY_PATH=HOST, **environ)["LD_LIBRARY_PATH"]
    assert path.endswith(HOST)
    return path[: -len(HOST)].rstrip(":")


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest, need: Need) -> str:
    return need(request.param)


DRIVERS = ["", "535.104.05", "550.54.15", "570.86.15", "580.82.07"]
LIBRARIES = {"none": "", "older": "525.60.13", "newer": "590.44.01"}


@pytest.mark.parametrize("card", ["", A100, GEFORCE])
@pytest.mark.parametrize("compat", LIBRARIES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_newer_libraries_and_data_centre_cards(tmp_path: Path, shell: str, driver: str, compat: str, card: str) -> None:
    write_driver(tmp_path / "proc/driver", driver, *([card] if card else []))
    write_compat(tmp_path / COMPAT[1:], LIBRARIES[compat])
    expected = COMPAT if driver and compat == "newer" and card == A100 else ""
    assert first(tmp_path, shell) == expected
    assert first(tmp_path, shell, SIFMOD_CUDA_COMPAT="never") == ""


def test_the_script_decides_as_doctor_says(tmp_path: Path, need: Need) -> None:
    """The rules are written twice, so each branch, and some that do not exist, is asked of both."""
    shell = need("dash")
    branches = [*NVIDIA.compat_branches, 440, 530, 545, 555, 620]
    for own, driver in itertools.product([*branches, 999], branches):
        top = tmp_path / f"{own}-{driver}"
        write_driver(top / "proc/driver", f"{driver}.5.1", A100)
        write_compat(top / COMPAT[1:], f"{own}.44.01")
        problem = NVIDIA.compat_problem(f"{own}.44.01", driver=f"{driver}.5.1", models=[A100])
        assert first(top, shell) == ("" if problem else COMPAT), problem


@pytest.mark.parametrize(
    ("libraries", "named"),
    [("575.57.08", [535, 550, 560, 565, 570]), ("590.44.01", [535, 550, 570, 575, 580])],
)
def test_older_branches_are_those_that_the_libraries_themselves_name(libraries: str, named: Sequence[int]) -> None:
    """Two of NVIDIA's, as the tests of its container toolkit have read their notes."""
    older = range(400, int(libraries[:3]))
    assert named == [
        branch for branch in older if not NVIDIA.compat_problem(libraries, driver=f"{branch}.1", models=[A100])
    ]


MODELS = {
    **dict.fromkeys([A100, "A100-SXM4-40GB", "Tesla V100-SXM2-16GB", "Tesla T4", "NVIDIA H100 80GB HBM3"], True),
    **dict.fromkeys(["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA B200", "NVIDIA L40S", "NVIDIA L4", "P100"], True),
    **dict.fromkeys([GEFORCE, "GeForce GTX 1080 Ti", "NVIDIA TITAN V", "Quadro P4000", "NVIDIA RTX A6000"], False),
    **dict.fromkeys(["NVIDIA T400", "NVIDIA T1000 8GB", "NVIDIA P106-100", "NVIDIA RTX 6000 Ada", "Orin", ""], False),
    # of desktops and boards
    **dict.fromkeys(["NVIDIA GB10", "NVIDIA P1000", "NVIDIA DGX Display", "NVIDIA Thor"], False),
}


@pytest.mark.parametrize("model", MODELS)
def test_a_model_tells_whether_a_card_is_for_data_centres(tmp_path: Path, need: Need, model: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", model)
    write_compat(tmp_path / COMPAT[1:], "580.65.06")
    assert bool(first(tmp_path, need("dash"))) == MODELS[model]
    assert (not NVIDIA.compat_problem("580.65.06", driver="535.104.05", models=[model])) == MODELS[model]


@pytest.mark.parametrize(
    ("models", "driver", "compat", "too_old"),
    [
        (["Tesla K80"], "450.80.02", "470.57.02", ""),
        (["Tesla K40m"], "470.82.01", "520.61.05", "Tesla K40m"),
        (["NVIDIA Tesla K80", "NVIDIA A100-PCIE-40GB"], "450.80.02", "525.60.13", "NVIDIA Tesla K80"),
        (["Tesla M60"], "535.104.05", "580.65.06", ""),
        (["Tesla M60"], "535.104.05", "590.44.01", "Tesla M60"),
        (["Tesla V100-SXM2-32GB"], "535.104.05", "580.65.06", ""),
        (["Tesla V100-SXM2-32GB"], "535.104.05", "590.44.01", "Tesla V100-SXM2-32GB"),
        (["NVIDIA A100-PCIE-40GB", "Tesla P100-PCIE-16GB"], "535.104.05", "590.44.01", "Tesla P100-PCIE-16GB"),
        (["Tesla T4"], "535.104.05", "590.44.01", ""),
    ],
)
def test_libraries_that_no_longer_know_a_card_are_not_used(
    tmp_path: Path, shell: str, models: Sequence[str], driver: str, compat: str, too_old: str
) -> None:
    write_driver(tmp_path / "proc/driver", driver, *models)
    write_compat(tmp_path / COMPAT[1:], compat)
    assert first(tmp_path, shell) == ("" if too_old else COMPAT)
    problem = NVIDIA.compat_problem(compat, driver=driver, models=models)
    assert problem.startswith(f"the last ones that know {too_old} are those of branch" if too_old else "")
    assert bool(problem) == bool(too_old)


@pytest.mark.parametrize("before", ["IFS=:", "IFS=", "IFS=5.", "set -eu"])
def test_what_an_image_sets_for_its_shell_changes_nothing(tmp_path: Path, shell: str, before: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", A100)
    write_compat(tmp_path / COMPAT[1:], "590.44.01")
    assert first(tmp_path, shell, before=before) == COMPAT


@pytest.mark.parametrize(
    ("cards", "expected"), [([A100, A100], COMPAT), ([A100, GEFORCE], ""), ([GEFORCE, A100], ""), ([A100, ""], "")]
)
def test_all_cards_of_a_node_must_be(tmp_path: Path, shell: str, cards: Sequence[str], expected: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", *cards)
    write_compat(tmp_path / COMPAT[1:], "590.44.01")
    assert first(tmp_path, shell) == expected


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  x",
            True,
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs-builder@U22)\n",
            True,
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build", True),
        # of Tegra
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@mobile)\n",
            False,
        ),
        ("NVRM version: NVIDIA UNIX Kernel Module for aarch64  35.4.1  Release Build\n", False),
        ("", False),
        ("\n535.104.05\n", False),
        ("NVRM version: * $(touch evil) `touch evil` 5350.1 535 -535.1\n", False),
        ("535." + "1" * 5000 + "\n", True),
        ("5" * 5000 + ".1\n", False),
        ("\0\xff\n", False),
    ],
)
def test_the_driver_tells_its_version_in_several_forms(tmp_path: Path, shell: str, text: str, is_known: bool) -> None:
    write_driver(tmp_path / "proc/driver", "1", A100)
    (tmp_path / "proc/driver/nvidia/version").write_text(text, encoding="latin-1")
    write_compat(tmp_path / COMPAT[1:], "590.44.01")
    if shell.endswith("bash") and "\0" in text:
        pytest.skip("bash warns of a NUL, which no driver prints")
    assert bool(first(tmp_path, shell)) == is_known
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("closed", ["version", "gpus/0000:01:00.0/information"])
def test_what_can_not_be_read_decides_nothing(tmp_path: Path, shell: str, closed: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", A100)
    write_compat(tmp_path / COMPAT[1:], "590.44.01")
    path = tmp_path / "proc/driver/nvidia" / closed
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads every file")
    assert first(tmp_path, shell) == ""
    path.unlink()
    path.mkdir()
    assert first(tmp_path, shell) == ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # as in NGC's images
        ({"cuda-12.8/compat/lib.real": "570.86.15"}, "/usr/local/cuda-12.8/compat/lib.real"),
        ({"cuda-12.8/compat/lib": "570.86.15"}, "/usr/local/cuda-12.8/compat/lib"),
        # of several, the newest that the driver runs
        ({"cuda-12.4/compat": "550.54.15", "cuda-13.0/compat": "580.65.06"}, "/usr/local/cuda-13.0/compat"),
        ({"cuda-9/compat": "580.65.06", "cuda/compat": "550.54.15"}, "/usr/local/cuda-9/compat"),
        ({"cuda-12.4/compat": "550.54.15", "cuda/compat": "525.60.13"}, "/usr/local/cuda-12.4/compat"),
        # what is special to ld.so, and no versions
        ({"cuda-1:evil/compat": "570.86.15"}, ""),
        ({"cuda-1;evil/compat": "570.86.15"}, ""),
        ({"cuda-$ORIGIN/compat": "570.86.15"}, ""),
        ({"cuda/compat": "570.$(touch evil)"}, ""),
        ({"cuda/compat": "570.`touch evil`;touch evil"}, ""),
        ({"cuda/compat": "1" * 200 + ".1"}, ""),
        ({"cuda/compat": "570." + "1" * 200}, "/usr/local/cuda/compat"),
        ({"cuda/compat": "5700.1"}, ""),
        ({"cuda/compat": "570.86.15.bak"}, ""),
        ({"cuda/compat": "057.1"}, ""),
        ({"cuda/compat": "570"}, ""),
        ({"cuda/compat": ""}, ""),
        ({"kuda/compat": "570.86.15"}, ""),
    ],
)
def test_image_names_are_only_matched(tmp_path: Path, shell: str, files: Mapping[str, str], expected: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", A100)
    for folder, version in files.items():
        write_compat(tmp_path / "usr/local" / folder, version)
    assert first(tmp_path, shell) == expected
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("links", [{"libcuda.so.1": None}, {"libcuda.so.1": "/nowhere"}])
def test_a_folder_without_the_loaded_name_is_none(tmp_path: Path, shell: str, links: Mapping[str, str]) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", A100)
    folder = write_compat(tmp_path / COMPAT[1:], "590.44.01")
    for name, target in links.items():
        (folder / name).unlink()
        if target:
            (folder / name).symlink_to(target)
    assert first(tmp_path, shell) == ""


IMAGE, USER, DEFAULT = "/image/lib", "/user/lib", "/lib:/usr/lib"


def start_up(order: LibraryOrder, top: Path, shell: str, *, image: str, libraries: str) -> str:
    """Return LD_LIBRARY_PATH as a release has it after a start: by a STAND-IN for its steps (`LibraryOrder`)."""
    is_host = libraries == "host"
    path = ":".join(filter(None, (image, HOST)))  # 99-base.sh
    if order.fills and is_host and path == HOST:
        path = f"{DEFAULT}:{HOST}"
    injected = {"PREPEND_LD_LIBRARY_PATH": HOST} if is_host else {}
    found = start(top, shell, LD_LIBRARY_PATH=path, **injected)
    # Apptainer 1.5 puts it before everything if it is set after that file was read
    last = found.get("PREPEND_LD_LIBRARY_PATH", "") if (order.name, order.since) == ("apptainer", "1.5") else ""
    return ":".join(filter(None, (last, found["LD_LIBRARY_PATH"])))


@pytest.mark.parametrize("compat", ["590.44.01", "525.60.13", ""])
@pytest.mark.parametrize("image", ["", IMAGE])
@pytest.mark.parametrize("order", LIBRARY_ORDERS, ids=lambda order: f"{order.name} {order.since}")
def test_the_release_does_not_matter(tmp_path: Path, need: Need, order: LibraryOrder, image: str, compat: str) -> None:
    write_driver(tmp_path / "proc/driver", "535.104.05", A100)
    write_compat(tmp_path / COMPAT[1:], compat)
    used = [COMPAT] if compat.startswith("59") else []
    found = start_up(order, tmp_path, need("dash"), image=image, libraries="host").split(":")
    assert found[: len(used) + 1] == [*used, HOST]
    assert image in ("", *found)
    (tmp_path / "proc/driver/nvidia/version").unlink()
    # without the option for GPUs the folder of the host's is empty
    own = start_up(order, tmp_path, need("dash"), image=image, libraries="image")
    assert own == ":".join(filter(None, (image, HOST)))


@pytest.mark.parametrize("has_drivers", [False, True])
@pytest.mark.parametrize("order", LIBRARY_ORDERS, ids=lambda order: f"{order.name} {order.since}")
def test_an_old_image_loads_its_own_opengl(tmp_path: Path, need: Need, order: LibraryOrder, has_drivers: bool) -> None:
    """Where the runtime searches the image first; its module hides the image's libraries only with a driver in it."""
    write_opengl(tmp_path / "image", glibc="")
    write_opengl(tmp_path / "host", glibc="GLIBC_2.99")
    module = injected_variables(a_spec(gpu="nvidia", has_drivers=has_drivers), a_site())
    path = f"{DEFAULT}:{HOST}" if order.fills else HOST
    found = start(tmp_path, need("dash"), LD_LIBRARY_PATH=path, **module)
    last = found.get("PREPEND_LD_LIBRARY_PATH", "")
    places = {DEFAULT.split(":")[0]: tmp_path / "image", HOST: tmp_path / "host"}
    path = ":".join(f"{places.get(one, '')}" for one in f"{last}:{found['LD_LIBRARY_PATH']}".split(":"))
    call = "import ctypes; ctypes.CDLL('libGLdispatch.so.0')"
    done = subprocess.run([sys.executable, "-c", call], env={"LD_LIBRARY_PATH": path}, capture_output=True, text=True)
    assert ("`GLIBC_2.99' not found" in done.stderr, done.returncode) == (
        (False, 0) if order.fills and not has_drivers else (True, 1)
    )
