"""`sifmod catalogue`: what is collected, and how it is written."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from tests.programs import write_file

from sifmod import names
from sifmod.catalogue import collection
from sifmod.cli import cli
from sifmod.container.naming import Naming
from sifmod.doctor import examination
from sifmod.eb.evaluation import Described, Evaluated
from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.errors import EasyBuildError, EasyconfigError, InstallError, SifmodError
from sifmod.image.gpustack import Component, Torch
from sifmod.image.inspection import Inspection

from ..support import a_runner, a_site, a_spec, make_installation, snapshot

EASYCONFIG = """easyblock = 'ContainerImage'
import os
os.abort()
name = 'Demo'
version = '1'
homepage = 'https://example.org/'
description = '''A
 demo %(version)s.'''
moduleclass = 'ai'
gpu = 'amd'
"""
SAID = Described("https://example.org/", "A\n demo.", "ai", "amd")


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SoftwareSpace:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1769846400")
    (tmp_path / "eb").mkdir()
    return software_space(tmp_path / "eb")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "www" / "containers"


def run(*words: object) -> Result:
    return a_runner().invoke(cli, ["catalogue", *map(str, words)])


def modules(output: Path) -> dict[str, dict[str, Any]]:
    data = json.loads((output / "catalogue.json").read_text())
    jsonschema.validate(data, json.loads((output / "catalogue.schema.json").read_text()))
    return {entry["module"]: entry for entry in data["modules"]}


def installed(space: SoftwareSpace, module: str = "Demo/1", *commands: str, **changes: Any) -> Path:
    files = ("bin/start-shell", "demo.sif", names.MANIFEST, *(f"bin/{command}" for command in commands))
    return make_installation(space, module, files=tuple(sorted(files)), **changes)


def test_the_installed_are_written_with_what_the_install_recorded(space: SoftwareSpace, output: Path) -> None:
    root = installed(space, "Demo/1", "python", "demo", expected_packages={"torch": "2.2.0"}, mpi="host")
    write_file(root / "runscripts" / names.CONSTRAINTS, "numpy==1.26.4\nTorch==2.2.0\n")
    (root / "user-software/venv/demo/lib/python3.11/site-packages/extra-1.dist-info").mkdir()
    (root / "user-software/venv/demo/lib/python3.11/site-packages/extra-1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: extra\nVersion: 1\n"
    )
    result = run("--output", output)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"wrote 1 module to {output}/index.html\n"
    entry = modules(output)["Demo/1"]
    assert [tuple(one.values()) for one in entry["packages"]] == [
        ("extra", "1"),
        ("numpy", "1.26.4"),
        ("Torch", "2.2.0"),
    ]
    assert entry["commands"] == ["demo", "python"]
    assert (entry["state"], entry["mpi"], entry["python_version"]) == ("installed", "host", "3.11")
    assert entry["image"]["size"] > 0
    assert entry["load"] == "module load Demo/1"
    assert entry["run"] == "srun -n1 python --version"
    assert "module load Demo/1" in entry["job"]
    assert json.loads((output / "catalogue.json").read_text())["time"] == "2026-01-31T08:00:00Z"


@pytest.mark.parametrize(("runtimes", "is_pyxis"), [("enroot,apptainer", True), ("apptainer,enroot", False)])
def test_the_job_is_for_pyxis_where_the_site_names_enroot_first(
    space: SoftwareSpace, output: Path, monkeypatch: pytest.MonkeyPatch, runtimes: str, is_pyxis: bool
) -> None:
    root = installed(space, "Demo/1", "python")
    manifest = json.loads((root / names.MANIFEST).read_text())
    manifest.update(
        squashfs="demo.sqsh",
        squashfs_sha256="ab" * 32,
        squashfs_size=1,
        files=sorted([*manifest["files"], "demo.sqsh"]),
    )
    (root / names.MANIFEST).write_text(json.dumps(manifest))
    monkeypatch.setenv("SIFMOD_RUNTIMES", runtimes)
    assert run("--output", output).exit_code == 0
    assert ("--container-image" in modules(output)["Demo/1"]["job"]) == is_pyxis


def test_what_the_easyconfig_says_is_shown_and_its_code_is_not_run(space: SoftwareSpace, output: Path) -> None:
    root = installed(space, "Demo/1", "demo", python_version="", venv="")
    (root / "easybuild").mkdir()
    (root / "easybuild/Demo-1.eb").write_text(EASYCONFIG)
    assert run("--output", output).exit_code == 0
    entry = modules(output)["Demo/1"]
    assert (entry["description"], entry["homepage"], entry["module_class"]) == ("A demo 1.", SAID.homepage, "ai")
    assert (entry["gpu"], entry["run"]) == ("amd", "srun -n1 --gpus-per-node=1 demo")
    assert "--gpus-per-node=1" in entry["job"]


def test_partitions_fit(space: SoftwareSpace, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is a stand-in for one with CUDA 13, whose PyTorch was built for these architectures."""
    torch = Torch("/usr", "2.9", "13.0", "", ("8.0", "9.0"), "")
    components = (Component("CUDA", "13.0", "/usr/local/cuda/version.json"),)
    image = Inspection("demo.sif", "SIF", components=components, torch=(torch,))
    looks = []

    def look(path: Path) -> Inspection:
        looks.append(path)
        return image

    monkeypatch.setattr(examination, "inspect_image", look)
    site = tmp_path / "site.toml"
    site.write_text(
        'gpu = "nvidia"\n[partition_gpus]\nnew = "580.82.07 NVIDIA H100 80GB"\nold = "535.104.05 NVIDIA A100-SXM4"\n'
        'older = "580.82.07 Tesla V100"\nodd = "580.82.07 NVIDIA Some Card"\nother = "6.12.12 AMD Instinct MI300A"\n'
        '"<b>&" = "580.82.07 <i>H100"\n'
    )
    monkeypatch.setenv("SIFMOD_SITE", str(site))
    installed(space)
    root = installed(space, "Plain/1")
    (root / "easybuild").mkdir()
    (root / "easybuild/x.eb").write_text(EASYCONFIG.replace("'amd'", "''"))
    manifest = json.loads((root / names.MANIFEST).read_text())
    (root / names.MANIFEST).write_text(json.dumps({**manifest, "parameters": {"gpu": ""}}))
    assert run("--output", output).exit_code == 0
    entry = modules(output)["Demo/1"]
    assert [(one["partition"], one["fits"]) for one in entry["partitions"]] == [
        ("new", "yes"),
        ("old", "no"),
        ("older", "no"),
        ("odd", "unknown"),
        ("other", "no"),
        ("<b>&", "yes"),
    ]
    assert len(looks) == 2  # one for each module
    why = {one["partition"]: one["why"] for one in entry["partitions"]}
    assert "the driver is 535.104.05, and CUDA 13.0 of the image needs 580" in why["old"]
    assert "Tesla V100 is 7.0" in why["older"]
    page = (output / entry["page"]).read_text()
    assert "<code>new</code>: fits</li>" in page
    assert "<code>&lt;b&gt;&amp;</code>: fits</li>" in page
    assert f"<code>old</code>: no; {why['old'][:20]}" in page
    assert modules(output)["Plain/1"]["partitions"] == []


def test_an_address_that_is_no_web_page_is_left_out(space: SoftwareSpace, output: Path) -> None:
    root = installed(space)
    (root / "easybuild").mkdir()
    (root / "easybuild/Demo-1.eb").write_text(EASYCONFIG.replace("https:", "javascript:"))
    assert run("--output", output).exit_code == 0
    assert modules(output)["Demo/1"]["homepage"] == ""


def test_lines_name_partition_and_account(space: SoftwareSpace, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, gpu in (("Demo/1", "amd"), ("Plain/1", "")):
        root = installed(space, module, "demo", python_version="", venv="")
        (root / "easybuild").mkdir()
        (root / "easybuild/x.eb").write_text(EASYCONFIG.replace("amd", gpu))
    monkeypatch.setenv("SIFMOD_SLURM_PARTITION", "gpu nodes")
    monkeypatch.setenv("SIFMOD_SLURM_ACCOUNT", "project_1")
    result = run("--output", output)
    assert result.exit_code == 0, result.exception
    lines = {module: entry["run"] for module, entry in modules(output).items()}
    assert lines == {
        "Demo/1": "srun -n1 --gpus-per-node=1 '--partition=gpu nodes' --account=project_1 demo",
        "Plain/1": "srun -n1 --account=project_1 demo",
    }


def test_the_newest_version_is_first(space: SoftwareSpace, output: Path) -> None:
    for version in ("1.9", "1.10"):
        installed(space, f"Demo/{version}", expected_packages={"torch": version})
    assert run("--output", output, "--quiet").output == ""
    assert list(modules(output)) == ["Demo/1.10", "Demo/1.9"]


def test_a_second_run_replaces_the_whole_catalogue(space: SoftwareSpace, output: Path) -> None:
    installed(space, "Demo/1")
    assert run("--output", output).exit_code == 0
    output.chmod(0o2750)
    first = snapshot(output)
    installed(space, "Other/1")
    assert run("--output", output).exit_code == 0
    assert (output / "modules/Other-1.html").is_file()
    assert output.stat().st_mode & 0o7777 == 0o2750
    assert [path.name for path in output.parent.iterdir()] == ["containers"]
    for path in sorted((space.software / "Other").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert run("--output", output).exit_code == 0
    assert {name: fact[3] for name, fact in snapshot(output).items()} == {name: fact[3] for name, fact in first.items()}


def test_nothing_to_list_keeps_an_earlier_catalogue(space: SoftwareSpace, output: Path) -> None:
    installed(space)
    assert run("--output", output).exit_code == 0
    before = snapshot(output)
    space.software.rename(space.software.with_name("not-mounted"))
    result = run("--output", output, "--quiet")
    assert isinstance(result.exception, InstallError)
    assert f"there is no container in '{space.software}'" in str(result.exception)
    assert snapshot(output) == before


def test_foreign_files_stay_and_a_missing_folder_is_named(space: SoftwareSpace, output: Path, tmp_path: Path) -> None:
    installed(space)
    result = run("--output", output, "--easyconfigs", tmp_path / "nowhere")
    assert "nowhere': name a folder of easyconfigs" in str(result.exception)
    assert not output.exists()
    write_file(output / "thesis.tex", "years")
    result = run("--output", output)
    assert isinstance(result.exception, SifmodError)
    assert "has files that are not of an earlier one" in str(result.exception)
    assert [path.name for path in output.rglob("*")] == ["thesis.tex"]


def test_the_first_of_two_prefixes_lists_a_module(space: SoftwareSpace, output: Path, tmp_path: Path) -> None:
    prefixes = [space.software.parent, tmp_path / "other"]
    for prefix, torch in zip(prefixes, ("2.2.0", "2.7.1")):
        prefix.mkdir(exist_ok=True)
        installed(software_space(prefix), "Demo/1", expected_packages={"torch": torch})
    for first, second in (prefixes, reversed(prefixes)):
        assert run("--output", output, "--prefix", first, "--prefix", second).exit_code == 0
        data = json.loads((output / "catalogue.json").read_text())
        assert [entry["module"] for entry in data["modules"]] == ["Demo/1"]
        torch = "2.2.0" if first == prefixes[0] else "2.7.1"
        assert {"name": "torch", "version": torch} in data["modules"][0]["packages"]


@pytest.mark.parametrize("gone", ["--prefix", "--easyconfigs"])
def test_an_unmounted_place_keeps_the_catalogue(space: SoftwareSpace, output: Path, tmp_path: Path, gone: str) -> None:
    installed(space)
    here = space.software.parent
    assert run("--output", output, "--prefix", here).exit_code == 0
    before = snapshot(output)
    (tmp_path / "not-mounted").mkdir()
    result = run("--output", output, "--prefix", here, gone, tmp_path / "not-mounted", "--quiet")
    assert isinstance(result.exception, InstallError)
    assert f"there is no container in '{tmp_path}/not-mounted" in str(result.exception)
    assert f"'{space.software}'" not in str(result.exception)
    assert snapshot(output) == before


def test_what_can_t_be_read_is_named_and_the_rest_is_written(space: SoftwareSpace, output: Path) -> None:
    installed(space, "Demo/1")
    (installed(space, "Bad/1") / names.MANIFEST).write_text("{")
    result = run("--output", output, "--quiet")
    assert (result.exit_code, result.stdout) == (20, "")
    assert "Bad/1/share/sifmod.json' can't be read" in result.stderr
    assert list(modules(output)) == ["Demo/1"]


def test_modules_whose_names_are_alike_have_pages_of_their_own(space: SoftwareSpace, output: Path) -> None:
    for module in ("Demo/1", "demo/1", "Demo/1+x", "Demo/1=x", "Demo/1@x"):
        installed(space, module)
    assert run("--output", output).exit_code == 0
    pages = [entry["page"].lower() for entry in modules(output).values()]
    assert len(set(pages)) == len(pages) == 5
    assert all((output / entry["page"]).is_file() for entry in modules(output).values())


def test_a_wrong_time_is_refused(space: SoftwareSpace, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(space)
    for wrong in ("tomorrow", "99999999999999", "-1"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        assert "SOURCE_DATE_EPOCH" in str(run("--output", output).exception)
    assert not output.exists()


@pytest.fixture
def offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with easyconfigs of Demo/1, Demo/2 and, in the archive, Demo/0; evaluation is imitated."""
    folder = tmp_path / "easyconfigs"
    for name in ("d/Demo/Demo-1.eb", "d/Demo/Demo-2.eb", "d/Demo/Bad-1.eb", "__archive__/d/Demo/Demo-0.eb"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("easyblock = 'ContainerImage'\n")
    (folder / "d/Demo/USER.md").write_text("# Ask us\n")

    def container_of(path: Path) -> Evaluated:
        name, _, version = path.stem.partition("-")
        if name == "Bad":
            raise EasyconfigError(f"'{path}' is bad")
        naming = Naming(f"{name}/{version}", f"{name}/{version}", f"{name}/{version}", ("/x.lua",))
        spec = a_spec(name=name, version=version, expected_packages={"torch": version}, gpu="amd")
        digest = f"sha256:{'b' * 64}"
        uri = f"docker://example.org/demo@{digest}"
        return Evaluated(spec, a_site(), naming, "", (), SAID, uri, digest, "a" * 64)

    monkeypatch.setattr(collection, "container_of", container_of)
    return folder


def test_what_is_on_offer_is_listed_without_the_installed(space: SoftwareSpace, offers: Path, output: Path) -> None:
    installed(space, "Demo/1")
    prefix = space.software.parent
    result = run("--output", output, "--prefix", prefix, "--easyconfigs", offers)
    assert result.exit_code == 20
    assert "Bad-1.eb' is bad" in result.stderr
    found = modules(output)
    assert {module: entry["state"] for module, entry in found.items()} == {"Demo/2": "offered", "Demo/1": "installed"}
    assert found["Demo/2"]["easyconfig"] == "Demo-2.eb"
    image = found["Demo/2"]["image"]
    assert (image["sha256"], image["digest"]) == ("a" * 64, f"sha256:{'b' * 64}")
    assert image["origin"].startswith("docker://example.org/demo@sha256:")
    assert {entry["guide"] for entry in found.values()} == {"# Ask us\n"}
    assert json.loads((output / "catalogue.json").read_text())["archived"] == {"Demo": ["0"]}


@pytest.mark.usefixtures("space")
@pytest.mark.parametrize(
    "put",
    [
        lambda path: subprocess.run(["truncate", "-s", "65M", path], check=True),
        lambda path: path.symlink_to("/etc/passwd"),
    ],
)
def test_unreadable_easyconfigs_and_guides_are_named(offers: Path, output: Path, put: Callable[[Path], object]) -> None:
    (offers / "d/Demo/Bad-1.eb").unlink()
    (offers / "d/Demo/Gone-1.eb").symlink_to("nowhere.eb")
    (offers / "d/Demo/.#Demo-1.eb").symlink_to("me@login1.123")  # Emacs marks open files so
    (offers / "d/Demo/USER.md").unlink()
    put(offers / "d/Demo/USER.md")
    result = run("--output", output, "--easyconfigs", offers, "--quiet")
    assert result.exit_code == 20, result.exception
    first, second = result.stderr.splitlines()
    assert first == f"sifmod: '{offers}/d/Demo/Gone-1.eb' can't be read: No such file or directory"
    assert second.startswith(f"sifmod: '{offers}/d/Demo/USER.md' can't be read: ")
    assert set(modules(output)) == {"Demo/1", "Demo/2"}


@pytest.mark.usefixtures("space")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_folders_of_easyconfigs_that_can_t_be_read_are_named(offers: Path, output: Path) -> None:
    (offers / "d/Demo/Bad-1.eb").chmod(0)
    (offers / "p").mkdir(mode=0)
    result = run("--output", output, "--easyconfigs", offers, "--quiet")
    (offers / "p").chmod(0o700)
    assert result.exit_code == 20, result.exception
    assert result.stderr.splitlines() == [
        f"sifmod: '{offers}/d/Demo/Bad-1.eb' can't be read: Permission denied",
        f"sifmod: '{offers}/p' can't be read: Permission denied",
    ]
    assert set(modules(output)) == {"Demo/1", "Demo/2"}


def test_easyconfigs_alone_leave_the_installed_out(space: SoftwareSpace, offers: Path, output: Path) -> None:
    installed(space, "Other/1")
    (offers / "d/Demo/Bad-1.eb").unlink()
    assert run("--output", output, "--easyconfigs", offers).exit_code == 0
    assert list(modules(output)) == ["Demo/2", "Demo/1"]


def test_a_broken_easybuild(space: SoftwareSpace, offers: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> Evaluated:
        raise EasyBuildError("EasyBuild does not start")

    installed(space)
    monkeypatch.setattr(collection, "container_of", refuse)
    result = run("--output", output, "--prefix", space.software.parent, "--easyconfigs", offers)
    assert isinstance(result.exception, EasyBuildError)
    assert not output.exists()
