from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod import names
from sifmod.artefact import Artefact
from sifmod.errors import InstallError
from sifmod.install.manifest import Manifest
from sifmod.install.preview import Preview, differences, preview
from sifmod.render.templates import render

from ..support import USR, a_site, a_spec

# Root, manifest, artefacts and module of an installation.
Installed = tuple[Path, Manifest, tuple[Artefact, ...], tuple[Path, str]]


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        module="Demo/1.0-x",
        image="demo.sif",
        image_source="/images/demo.sif",
        image_sha256="",
        image_size=1,
        python_version="3.9",
        files=(),
        tools={},
    )


def paths(found: Preview) -> list[str]:
    return [str(artefact.path) for artefact in found.artefacts]


@pytest.mark.parametrize(
    ("changes", "given", "installed", "version", "origin"),
    [
        ({}, "3.8", True, "3.8", "the command line"),
        ({"version": "1-python-3.12-x"}, "", True, "3.9", "the earlier install"),
        ({"version": "1-python-3.12-x"}, "", False, "3.12", "the module's version"),
        ({"name": "Python", "version": "3.11-demo"}, "", False, "3.11", "the module's version"),
    ],
)
def test_the_python_is_the_nearest_known_one(
    manifest: Manifest, changes: dict[str, Any], given: str, installed: bool, version: str, origin: str
) -> None:
    spec = a_spec(**{"python_version": "", **changes})
    found = preview(spec, a_site(), manifest=manifest if installed else None, python_version=given)
    assert f"bin/pip{version}" in paths(found)
    assert f"assuming that the image's Python is {version}, from {origin}" in found.notes[0]


def test_what_an_install_makes_from_the_image_is_named(tmp_path: Path) -> None:
    (*_, note) = preview(a_spec(), a_site()).notes
    assert note.endswith("share/sifmod.json, runscripts/pip-constraints.txt")
    (*_, note) = preview(a_spec(pip_constraints=False), a_site()).notes
    assert note.endswith(": share/sifmod.json")
    assert "path of the image is not known yet" in preview(a_spec(image_mode="central"), a_site()).notes[-1]
    (tmp_path / "x.def").write_text("Bootstrap: docker\n")
    assert "share/docker-defs/x.def" in paths(preview(a_spec(), a_site(), definitions=[tmp_path / "x.def"]))
    with pytest.raises(InstallError, match="can't be read"):
        preview(a_spec(), a_site(), definitions=[tmp_path / "gone.def"])
    found = preview(a_spec(python_version="", version="3.2-thing"), a_site())
    assert [path for path in paths(found) if path.startswith(("bin/pip", "bin/python"))] == ["bin/pip", "bin/python"]
    assert "is unknown" in found.notes[0]


@pytest.fixture
def installed(tmp_path: Path, manifest: Manifest) -> Installed:
    """Write the artefacts of a container as if they were installed; return root, manifest, artefacts and module."""
    spec = a_spec(installdir=str(tmp_path), python=USR)
    artefacts = render(spec, a_site())
    for artefact in artefacts:
        path = tmp_path / artefact.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(artefact.text)
    module = tmp_path / "module.lua"
    module.write_text("-- module\n")
    files = tuple(sorted([names.MANIFEST, "demo.sif", *(str(artefact.path) for artefact in artefacts)]))
    return tmp_path, replace(manifest, files=files), artefacts, (module, "-- module\n")


def diff(installed: Installed, **changes: Any) -> list[str]:
    root, manifest, artefacts, module = installed
    given: dict[str, Any] = {
        "artefacts": artefacts,
        "installdir": root,
        "manifest": manifest,
        "module": module,
        **changes,
    }
    return list(differences(given["artefacts"], given["installdir"], given["manifest"], given["module"]))


def test_an_install_of_the_same_differs_in_nothing(installed: Installed) -> None:
    assert diff(installed) == []


def test_changed_new_and_vanishing_files_are_shown(installed: Installed) -> None:
    root, manifest, artefacts, module = installed
    (root / "bin" / "pip").unlink()
    (root / "bin" / "old").write_text("old\n")
    more = replace(manifest, files=(*manifest.files, "bin/old"))
    changed = tuple(
        replace(item, text=item.text + "more\n") if item.path.name == "get-master" else item for item in artefacts
    )
    lines = diff(installed, artefacts=changed, manifest=more, module=(module[0], "-- other\n"))
    assert [line for line in lines if line.startswith("--- ")][:3] == [
        "--- installed/bin/old",
        "--- /dev/null",
        "--- installed/runscripts/get-master",
    ]
    for line in ("-old", "+more", "-" + "-- module", "+-- other", "+++ new/bin/pip"):
        assert line in lines


def test_a_file_that_can_t_be_read_is_named(installed: Installed) -> None:
    root = installed[0]
    (root / "bin" / "pip").unlink()
    (root / "bin" / "pip").mkdir()
    with pytest.raises(InstallError, match="bin/pip' can't be read"):
        diff(installed)
