"""Scripts understand names and messages alike in every locale.

In Turkish, i and I belong to two pairs of letters: `${x,,}` does not make an i of an I, and `[A-Za-z]` has neither.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.lacking import lacking
from tests.programs import ran

from sifmod.container.spec import ContainerSpec
from sifmod.resources import data_path

from .running import GetMaster, Wrapper

DOTLESS = "\N{LATIN SMALL LETTER DOTLESS I}"


@pytest.fixture(scope="session")
def turkish(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variables of a shell in Turkish."""
    folder = tmp_path_factory.mktemp("locales")
    subprocess.run(
        ["localedef", "-i", "tr_TR", "-f", "UTF-8", folder / "tr_TR.UTF-8"], capture_output=True, check=False
    )
    if not (folder / "tr_TR.UTF-8" / "LC_CTYPE").exists():
        lacking("there is no Turkish, nor a localedef that makes it (Debian's package locales)")
    environ = {"LOCPATH": str(folder), "LC_ALL": "tr_TR.UTF-8"}
    said = subprocess.run(
        ["bash", "-c", "x=I; echo ${x,,}"], env={**os.environ, **environ}, capture_output=True, check=True
    )
    assert said.stdout == f"{DOTLESS}\n".encode()  # it is in use
    return environ


def test_the_master_is_found(get_master: GetMaster, turkish: Mapping[str, str]) -> None:
    done = get_master("nid[001-004],IB7", **turkish)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nid001\n", "")


def test_packages_are_recognised(
    wrapper: Wrapper, installed: ContainerSpec, tmp_path: Path, turkish: Mapping[str, str]
) -> None:
    Path(installed.installdir, "user-software", "venv", "demo").mkdir(parents=True)
    (tmp_path / "list.txt").write_text(
        "PIP==24\nsetuptools==69.0\nevil.ZIP\nIPython==8\nmkdocs_\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}==1\n"
    )
    done = wrapper.run("carry-over", str(tmp_path / "list.txt"), environ=turkish)
    assert done.returncode == 10  # some are not carried over
    assert "evil.ZIP" in done.stdout
    assert done.stdout.count("Left out") == 2
    assert wrapper.fake.calls[0]["argv"][-2:] == ["install", "IPython==8"]
    assert wrapper.fake.calls[0]["env"]["LC_ALL"] == "tr_TR.UTF-8"  # the container's programs have the user's


def call(script: str, function: str, command: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command that uses one function of a script in share/."""
    text = (data_path("wrappers") / "share" / script).read_text()
    (found,) = re.findall(rf"(?ms)^{function}\(\) \{{$.*?^\}}$", text)
    return ran(["bash", "-c", f"{found}\n{command}"], env={"PATH": os.environ["PATH"], **environ})


@pytest.mark.parametrize(
    ("node", "is_one"), [("nid001", True), ("GPUI-1.cluster", True), ("a/b", False), (DOTLESS, False)]
)
def test_a_step_of_slurm_is_recognised(turkish: Mapping[str, str], node: str, is_one: bool) -> None:
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_GTIDS": "0,1"}
    done = call("share-container.sh", "in_step", "in_step", {**step, "SLURMD_NODENAME": node, **turkish})
    assert (done.returncode == 0) == is_one


@pytest.mark.parametrize(
    ("name", "is_one"), [("CUDA_VISIBLE_DEVICES", True), ("i_1", True), ("1i", False), ("a.b", False), (DOTLESS, False)]
)
def test_names_of_variables_are_recognised(turkish: Mapping[str, str], name: str, is_one: bool) -> None:
    done = call("hold-container", "is_variable", 'is_variable "$NAME"', {"NAME": name, **turkish})
    assert (done.returncode == 0) == is_one
