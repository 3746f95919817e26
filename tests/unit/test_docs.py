"""What the documentation names exists: files, headings, commands and their options."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sifmod.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "testbed").glob("*.md")])
HOST_COMMANDS = ROOT / "wrappers/bin"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(page: Path) -> str:
    """All the code of a page: its blocks and what stands between backquotes."""
    text = page.read_text()
    fenced = re.findall(r"(?ms)^```\w*\n(.*?)^```$", text)
    rest = re.sub(r"(?ms)^```.*?^```$", "", text)
    return "\n".join([*fenced, *re.findall(r"(?m)^    (.*)$", rest), *re.findall(r"`([^`\n]+)`", rest)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def test_every_page_is_linked_from_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "README.md":
            assert f"({page.relative_to(ROOT / 'docs')})" in index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_sifmod_and_their_options_exist(page: Path) -> None:
    for line in re.findall(r"(?m)\bsifmod ((?:[a-z]+)(?: .*)?)$", code(page)):
        words = re.split(r"[|>;&)]| -- ", line.replace("\\|", " "))[0].split()
        command: click.Command = cli
        while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z-]+", words[0]):
            name = words.pop(0)
            found = command.get_command(click.Context(command), name)
            assert found, line
            command = found
        options = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            option = re.match(r"\[?(--[a-z-]+)", word)
            if option:
                assert option[1] in options | {"--help", "--version"}, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.parametrize("command", ["make-squashfs", "unmake-squashfs"])
def test_options_of_packing_exist(page: Path, command: str) -> None:
    text = (HOST_COMMANDS / command).read_text()
    for line in re.findall(rf"(?m)(?<![\w-]){command} (.*)$", code(page)):
        for option in re.findall(r"(?<!\S)--[a-z-]+", re.split(r"[|;&]", line)[0]):
            assert option in text, line


def test_the_generated_parts_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
