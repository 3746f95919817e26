"""Where recipes come from: files, a checkout."""

from pathlib import Path

import pytest

from sifmod.errors import RecipeError
from sifmod.fetch.recipes import RECIPE, find_recipe, read_recipe, recipe_files

NAMES = ("quay.io/biocontainers/bwa", "one/samtools", "two/samtools")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    for name in NAMES:
        folder = tmp_path / "registry" / name
        folder.mkdir(parents=True)
        (folder / RECIPE).write_text(f"docker: {name}\n")
    return tmp_path / "registry"


def test_a_recipe_is_found_by_its_path_or_by_the_end_of_it(registry: Path) -> None:
    for name in ("quay.io/biocontainers/bwa", "biocontainers/bwa", "bwa"):
        assert find_recipe(registry, name).text == "docker: quay.io/biocontainers/bwa\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("samtools", "has 2 recipes 'samtools': name one of one/samtools, two/samtools"),
        ("samtool", "has no recipe 'samtool' (perhaps you meant 'samtools')"),
        ("wa", "has no recipe 'wa'"),
        ("../bwa", "has no recipe '../bwa'"),
    ],
)
def test_a_name_that_names_no_recipe_or_several(registry: Path, name: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        find_recipe(registry, name)
    assert problem in str(caught.value)


def test_links_to_folders_are_not_followed(registry: Path) -> None:
    (registry / "loop").symlink_to(registry)
    assert len(recipe_files(registry)) == len(NAMES)


def test_a_folder_without_recipes_is_no_registry(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"has no container\.yaml in any folder"):
        recipe_files(tmp_path)


def test_files_that_are_no_recipes_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"#" * (1024 * 1024 + 1))
    for name, problem in (("binary", "not UTF-8"), ("large", "has more than"), ("gone", "can't be read")):
        with pytest.raises(RecipeError, match=problem):
            read_recipe(tmp_path / name)


@pytest.mark.parametrize("name", ["../other.yaml", "/etc/hostname", "a/../../b"])
def test_a_file_outside_the_folder_of_the_recipe_is_refused(registry: Path, name: str) -> None:
    source = find_recipe(registry, "bwa")
    with pytest.raises(RecipeError, match="is not a path inside its own folder"):
        source.other(name)


def test_a_link_out_of_the_folder_of_the_recipe_is_refused(registry: Path, tmp_path: Path) -> None:
    source = find_recipe(registry, "bwa")
    (tmp_path / "token.yaml").write_text("env: {TOKEN: secret}\n")
    (source.folder / "other.yaml").symlink_to(tmp_path / "token.yaml")
    with pytest.raises(RecipeError, match="leads out of its folder"):
        source.other("other.yaml")
