"""What is said at an install and on a node is one sentence, stated in Python and rendered into the other languages."""

from pathlib import Path

import pytest
from tests.programs import ran, write_file

from sifmod.container.spec import image_is_gone
from sifmod.render.templates import render
from sifmod.render.values import module_values

from ..support import a_site, a_spec


def said_by_start_shell(tmp_path: Path, runtime: str) -> tuple[int, str]:
    """Run `start-shell` of an installation that has its scripts, and no image."""
    spec = a_spec(installdir=str(tmp_path / "it's here"))
    for artefact in render(spec, a_site(runtime=runtime)):
        write_file(tmp_path / "it's here" / artefact.path, artefact.text)
    done = ran(["bash", "-p", str(tmp_path / "it's here" / "bin" / "start-shell")])
    return done.returncode, done.stderr


def test_a_node_without_a_runtime(tmp_path: Path) -> None:
    status, said = said_by_start_shell(tmp_path, "no-such-runtime")
    assert (status, said) == (127, f"start-shell: {a_site(runtime='no-such-runtime').runtime_is_missing}\n")


def test_an_image_that_is_gone(tmp_path: Path) -> None:
    status, said = said_by_start_shell(tmp_path, "bash")
    image = image_is_gone(tmp_path / "it's here" / a_spec().sif)
    assert (status, said) == (126, f"start-shell: {image}. Reinstall the module with: eb --rebuild\n")


def test_the_module_says_the_same_of_the_image() -> None:
    spec = a_spec()
    sentence = f"{image_is_gone(f'{spec.installdir}/{spec.sif}')}. Reinstall the module with: eb --rebuild"
    assert module_values(spec, a_site())["image_is_gone"] == sentence


@pytest.mark.parametrize(
    ("runtime", "runtimes"), [("", ("singularity", "apptainer")), ("sarus", ("sarus",))], ids=["any", "the site's"]
)
def test_the_runtimes_that_are_looked_for(runtime: str, runtimes: tuple[str, ...]) -> None:
    site = a_site(runtime=runtime)
    assert site.runtime_commands == runtimes
    assert all(name in site.runtime_is_missing for name in runtimes)
