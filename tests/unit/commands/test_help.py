"""`sifmod help`: the documentation that comes with sifmod, and the pages that messages name."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from sifmod.cli import cli

from ..support import a_runner

ROOT = Path(__file__).parents[3]
Call = Callable[..., Result]


@pytest.fixture
def call() -> Call:
    return lambda *words: a_runner().invoke(cli, ["help", *words])


def programs() -> Iterator[Path]:
    for folder in ("src", "easyblocks", "wrappers", "modulefiles", "jobs", "catalogue", "advisories", "sites"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")


def test_all_pages_are_listed_with_their_titles(call: Call) -> None:
    said = call().output
    for path in (ROOT / "docs").glob("howto/*.md"):
        assert re.search(rf"(?m)^{path.stem} +{re.escape(path.read_text().splitlines()[0][2:])}$", said)
    assert not re.search(r"(?m)^(README|\d{4})", said)


def test_each_page_that_a_message_names_is_printed(call: Call) -> None:
    named = {page for path in programs() for page in re.findall(r"'sifmod help ([\w-]+)'", path.read_text())}
    assert {"run-mpi", "use-own-certificates-or-mirrors"} <= named
    for page in named:
        (path,) = (ROOT / "docs").rglob(f"{page}.md")
        assert call(page).output == path.read_text()


def test_no_message_names_a_file_that_an_installation_lacks() -> None:
    """Comments and docstrings are for who has the sources."""
    for path in programs():
        said = re.sub(r'(?s)"""(?!\\).*?"""|#[^\n]*', "", path.read_text()) if path.suffix == ".py" else ""
        assert not re.search(r"""["' ]docs/[\w/-]+\.md""", said), path


def test_a_path_and_the_name_of_a_command_serve_too(call: Call) -> None:
    assert call("docs/howto/run-mpi.md").output == call("run-mpi").output
    assert call("new").output.startswith("Usage: cli new [OPTIONS] IMAGE|URI|DOCKERFILE\n")


def test_an_unknown_page_is_answered_with_the_most_similar_one(call: Call) -> None:
    done = call("run-mpl")
    assert done.exit_code == 2
    assert "there is no page 'run-mpl' (perhaps you meant 'run-mpi'): see 'sifmod help'" in done.stderr
