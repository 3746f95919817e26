"""Where recipes come from: files, a checkout, an index."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sifmod.errors import RecipeError
from sifmod.fetch.recipes import RECIPE, find_recipe, index_address, read_recipe, recipe_files

from ..support import a_site

INDEX: dict[str, Any] = {
    "quay.io/biocontainers/bwa": {"config": {"docker": "quay.io/biocontainers/bwa", "features": {"gpu": True}}},
    "one/samtools": {"config": {"docker": "one/samtools", "env": None}},
    "two/samtools": "nothing",
}


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/shpc/library.json": json.dumps(INDEX).encode(), "/list.json": b"[]"}.get(self.path, b"{")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    for name in INDEX:
        folder = tmp_path / "registry" / name
        folder.mkdir(parents=True)
        (folder / RECIPE).write_text(f"docker: {name}\n")
    return tmp_path / "registry"


def test_a_recipe_is_found_by_its_path_or_by_the_end_of_it(registry: Path) -> None:
    for name in ("quay.io/biocontainers/bwa", "biocontainers/bwa", "bwa"):
        assert find_recipe(str(registry), name, a_site()).text == "docker: quay.io/biocontainers/bwa\n"


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
        find_recipe(str(registry), name, a_site())
    assert problem in str(caught.value)


def test_links_to_folders_are_not_followed(registry: Path) -> None:
    (registry / "loop").symlink_to(registry)
    assert len(recipe_files(registry)) == len(INDEX)


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
    source = find_recipe(str(registry), "bwa", a_site())
    with pytest.raises(RecipeError, match="is not a path inside its own folder"):
        source.other(name)


def test_a_link_out_of_the_folder_of_the_recipe_is_refused(registry: Path, tmp_path: Path) -> None:
    source = find_recipe(str(registry), "bwa", a_site())
    (tmp_path / "token.yaml").write_text("env: {TOKEN: secret}\n")
    (Path(str(source.folder)) / "other.yaml").symlink_to(tmp_path / "token.yaml")
    with pytest.raises(RecipeError, match="leads out of its folder"):
        source.other("other.yaml")


@pytest.mark.parametrize(
    ("registry_url", "address"),
    [
        (
            "https://github.com/singularityhub/shpc-registry",
            "https://singularityhub.github.io/shpc-registry/library.json",
        ),
        ("https://github.com/a/b.git", "https://a.github.io/b/library.json"),
        ("https://gitlab.com/a/b/", "https://a.gitlab.io/b/library.json"),
        ("https://example.org/shpc", "https://example.org/shpc/library.json"),
        ("https://example.org/index.json", "https://example.org/index.json"),
    ],
)
def test_the_index_is_where_shpc_looks_for_it(registry_url: str, address: str) -> None:
    assert index_address(registry_url) == address


def test_a_recipe_of_an_index(server: str) -> None:
    source = find_recipe(f"http://{server}/shpc", "bwa", a_site(insecure_registries=(server,)))
    assert json.loads(source.text) == INDEX["quay.io/biocontainers/bwa"]["config"]
    assert source.origin == f"'quay.io/biocontainers/bwa' of http://{server}/shpc/library.json"
    with pytest.raises(RecipeError, match="which an index lacks: use a checkout"):
        source.other("tags.yaml")


@pytest.mark.parametrize(
    ("path", "problem"), [("list.json", "is not the index of a registry"), ("broken", "can't be read: Expecting")]
)
def test_an_address_that_is_no_index(server: str, path: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        find_recipe(f"http://{server}/{path}", "bwa", a_site(insecure_registries=(server,)))


def test_plain_http_is_for_the_registries_that_the_site_names(server: str) -> None:
    with pytest.raises(RecipeError, match="is not an address with https://"):
        find_recipe(f"http://{server}/shpc", "bwa", a_site())
