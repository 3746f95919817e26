"""What the documentation names exists: files, headings, commands and their options."""

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
    """All the code of a page: its blocks and what stands between backquotes; of the changelog, of what exists still."""
    text = page.read_text().split("\n### Removed\n")[0]
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
    if page.name == "CHANGELOG.md":
        return  # it also names what is gone
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


def test_the_readme_is_read_in_a_minute_and_shows_the_easyconfig_of_the_demo() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 650
    assert f"```\n{(ROOT / 'easyconfigs/p/Python/Python-3.11-demo-singularity.eb').read_text()}```\n" in text


def test_an_explanation_has_at_most_two_pages() -> None:
    """Of some 700 words."""
    words = {page.name: len(page.read_text().split()) for page in (ROOT / "docs/explanation").glob("*.md")}
    assert {name: count for name, count in words.items() if count > 1400} == {}


PEERS = "LUMI's|SHPC|Tykky|cotainr|uenv|podman-hpc|CSCS's|Sarus|enroot|pyxis"
CLAIMS = ROOT / "docs/explanation/other-projects.md"


def test_each_claim_about_another_project_has_its_source_and_a_day() -> None:
    rows = [line.strip("|").split("|") for line in CLAIMS.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for project, claim, source, day in rows:
        assert re.search(PEERS, project), project
        assert claim.strip()
        assert "https://" in source or source.strip().startswith("the same"), claim
        assert re.fullmatch(r" 20\d\d-\d\d-\d\d ", day), claim


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_compares_with_another_project_names_sources(page: Path) -> None:
    text = page.read_text()
    compared = re.findall(rf"(?m)^\|.*(?:{PEERS}).*\|\n\|---", text)  # a table with a column of another project
    if compared:
        assert (
            "other-projects.md" in text
            or page == CLAIMS
            or re.search(r"https://github\.com/[^)\s]+/(blob|tree)/", text)
        ), compared


def test_what_is_named_for_those_who_add_something_exists() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text().split("\n## How to add\n")[1]
    folders = ("src/sifmod", "easyblocks", "wrappers", "modulefiles", "jobs", "tests")
    files = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".j2", ".lua", ".tcl") and "golden" not in path.parts
    }

    def defined(name: str, text: str) -> bool:
        return re.search(rf"(?m)^\s*(?:(?:def|class|proc) )?{name}\b(?: *[:={{(]|$)", text) is not None

    def named(path: str) -> list[str]:
        return [text for name, text in files.items() if f"/{name}".endswith(f"/{path}")]

    missing = []
    of_an_installation = ("runscripts/values.sh", "share/inside")
    for word in re.findall(r"`(\w[\w./-]*)(?:\(\))?`", guide):
        if "NAME" in word or word in of_an_installation:
            continue
        if "/" in word or word.endswith((".py", ".lua", ".tcl")):
            is_there = bool(named(word)) or any((ROOT / top / word).exists() for top in ("", "src/sifmod", "wrappers"))
        else:
            name = word.rpartition(".")[2]
            is_name = "_" in name[:-1] or "." in word
            is_there = not is_name or any(defined(name, text) for text in files.values())
        missing += [] if is_there else [word]
    for name, path in re.findall(r"`(\w+)(?:\(\))?`\s+of\s+`([\w/]+\.py)`", guide):
        missing += [] if any(defined(name, text) for text in named(path)) else [f"{name} of {path}"]
    assert missing == []
