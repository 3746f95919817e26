"""Recipes of SHPC as easyconfigs: what is carried over, dropped with a note, or refused."""

import ast
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod.errors import RecipeError
from sifmod.fetch.recipes import RECIPE, RecipeSource, read_recipe
from sifmod.migrate import shpc
from sifmod.migrate.shpc import ConvertedTool, convert_recipe
from sifmod.site.settings import Site

from ..support import a_site

RECIPES = Path(__file__).parent / "recipes"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def converted(name: str, site: Site = a_site(), **options: Any) -> ConvertedTool:  # noqa: B008 - frozen
    return convert_recipe(read_recipe(RECIPES / name / RECIPE), site, **options)


def parameters(made: ConvertedTool) -> dict[str, Any]:
    tree = ast.parse(made.text)
    return {
        one.targets[0].id: ast.literal_eval(one.value)
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id != "toolchain"
    }


def of_sections(**sections: Any) -> ConvertedTool:
    """Convert a recipe with these sections, written as JSON, which is YAML."""
    usual = {"docker": "example/tool", "latest": {"1.0": DIGEST}, "tags": {"1.0": DIGEST}}
    return convert_recipe(RecipeSource("'it'", json.dumps({**usual, **sections}, ensure_ascii=False), Path()), a_site())


def test_a_biocontainer() -> None:
    made = converted("quay.io/biocontainers/aligner")
    values = parameters(made)
    assert (made.module, made.file_name) == ("aligner/1.10--h5bf99c6_0", "aligner-1.10--h5bf99c6_0.eb")
    assert (values["version"], values["versionsuffix"]) == ("1.10", "--h5bf99c6_0")
    assert values["image_uri"].startswith("docker://quay.io/biocontainers/aligner@sha256:")
    assert values["wrappers"] == {
        "aligner": "/usr/local/bin/aligner",
        "aligner-index": "/usr/local/bin/aligner-index -t 1",
    }
    assert (values["module_family"], values["moduleclass"], values["gpu"]) == ("", "bio", "")
    assert values["description"] == "aligner 1.10, in a container of quay.io/biocontainers/aligner."
    assert made.lost == ("no wrapper for cat, bash: the host needs its own commands of these names",)
    assert "# - no wrapper for cat, bash" in made.text


def test_the_full_name_and_another_tag() -> None:
    for tag in ("1.9--h0_1", "1.9"):
        assert converted("quay.io/biocontainers/aligner", tag=tag).module == "aligner/1.9--h0_1"
    with pytest.raises(RecipeError, match=r"has no tag '1\.8'.*1\.9--h0_1, 1\.10--h5bf99c6_0"):
        converted("quay.io/biocontainers/aligner", tag="1.8")
    made = converted("quay.io/biocontainers/aligner", full_name=True)
    values = parameters(made)
    assert made.module == "quay.io/biocontainers/aligner/1.10--h5bf99c6_0"
    assert values["name"] == "quay.io-biocontainers-aligner"
    assert values["modaltsoftname"] == "quay.io/biocontainers/aligner"


def test_aliases_as_a_list_and_those_that_no_wrapper_can_run() -> None:
    made = converted("docker.example.org/notes/lab")
    assert parameters(made)["version"] == "3.10"  # which YAML takes for a number
    assert parameters(made)["wrappers"] == {"lab": "/opt/lab/bin/lab"}
    assert made.lost == (
        "no wrapper for run-notebook, lab-count: it needs a shell of the host; put a script into the image",
        "no wrapper for lab-near: its path in the container is relative",
        "the options of the runtime for lab: a module has the same options for all commands",
    )


def test_variables_and_features(tmp_path: Path) -> None:
    made = converted("example/gpu-tool")
    values = parameters(made)
    assert "gpu" not in values, "unset, it is the site's vendor"
    assert values["container_env"] == {"TOOL_THREADS": "4", "PYTHONUSERBASE": ""}
    assert values["wrappers"] == ["gpu-tool", "tool"], "commands of their own names"
    assert made.lost == ("the variable TOOL_CACHE: a shell would evaluate its value",)
    assert [note.partition(":")[0] for note in made.look] == ["the feature home", "the feature x11"]
    assert values["homepage"].startswith("https://")
    from sifmod.site.settings import load_settings

    file = tmp_path / "site.toml"
    file.write_text("[feature.x11]\nhelp = 'X11'\noptional_binds = ['/tmp/.X11-unix']\n")
    site = load_settings(site=str(file)).site
    made = converted("example/gpu-tool", site)
    assert parameters(made)["features"] == ["x11"]
    assert [note.partition(":")[0] for note in made.look] == ["the feature home"]


def test_an_override_replaces_whole_sections_for_its_tag() -> None:
    values = parameters(converted("example/solver", tag="v1"))
    assert values["wrappers"] == {"solve-all": "/opt/solver-1/bin/solve all"}
    assert values["container_env"] == {"SOLVER": "one"}
    assert values["description"] == "A solver for fluid dynamics"
    with pytest.raises(RecipeError, match="is not a path inside its own folder"):
        converted("example/solver", tag="v2")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("example/limited", r"'1\.0' has no usable digest.*TOOMANYREQUESTS.*choose another with --tag, such as 0\.9"),
        ("example/nameless", "no usable digest, because the tag 'crane ls example/nameless.*is not one"),
    ],
)
def test_errors_in_place_of_digests_and_tags_are_refused(name: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem) as caught:
        converted(name)
    assert caught.value.reason == "no digest"


def test_images_of_releases_of_registries_of_sifs_and_beside_the_recipe() -> None:
    made = converted("example/released")
    address = "https://github.com/example/released/releases/download/0.0.12/example-released.salad.sif"
    assert parameters(made)["image_uri"] == address
    assert made.topics == (shpc.RELEASES, shpc.SCRIPTS)
    assert "the script fork" in made.lost[0]
    made = converted("ghcr.io/example/packed")
    assert parameters(made)["image_uri"].startswith("oras://ghcr.io/example/packed@sha256:")
    assert made.topics == (shpc.NO_ALIASES,)
    assert parameters(made)["wrappers"] == {
        "packed-exec": "/bin/sh -c 'exec \"$@\"' sh",
        "packed-run": "/.singularity.d/runscript",
        "packed-shell": "/bin/sh",
    }
    values = parameters(converted("local/beside"))
    assert values["name"] == "beside"
    assert values["sources"] == [f"sha256:{values['checksums'][0]}.sif"]


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"docker": ""}, "it names no image: it has none of docker, oras, gh, path"),
        ({"docker": ["a"]}, "'docker' is not a text"),
        ({"docker": "user:secret@example.org/x"}, "does not name an image"),
        ({"docker": "docker://x"}, "does not name an image"),
        ({"docker": "", "path": "../other.sif"}, "does not name an image"),
        ({"docker": "", "gh": "only-an-owner"}, "does not name an image"),
        ({"latest": {}}, "it has no latest tag: name one with --tag"),
        ({"latest": {"1.0": DIGEST.upper()}, "tags": {}}, "has no usable digest"),
        ({"latest": {"1/0": DIGEST}}, "has no usable digest"),
        (
            {"latest": {"sha256-ab.sig": DIGEST}, "tags": {"1.0": DIGEST, "sha256-ab.att": DIGEST, "x.sbom": DIGEST}},
            "because it names a signature, an attestation or an SBOM: choose another with --tag, such as 1.0",
        ),
        ({"tags": ["1.0"]}, "'tags' is not a mapping"),
        ({"aliases": "tool"}, "'aliases' is not a mapping"),
        ({"aliases": ["tool"]}, "an item of 'aliases' is not a mapping of a name and a command"),
        ({"aliases": {"tool": ["a"]}}, "'aliases' has values that are not texts"),
    ],
)
def test_what_is_no_recipe_is_refused_with_a_sentence(sections: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        of_sections(**sections)
    assert problem in str(caught.value)


def test_values_that_are_null_are_empty_and_templates_are_text() -> None:
    values = parameters(of_sections(aliases=None, env=None, features={"gpu": None}, url=None, overrides=None))
    assert (next(iter(values["wrappers"])), values["gpu"]) == ("tool-exec", "")
    made = of_sections(aliases={"tool": None, "other": "other"}, env={"TOOL_HOME": None})
    assert parameters(made)["wrappers"] == ["other"]
    assert parameters(made)["container_env"] == {"TOOL_HOME": ""}
    assert any(note.startswith("no wrapper for tool: ") for note in made.lost)
    made = of_sections(aliases=[{"name": "tool", "command": "/bin/tool", "singularity_options": None}])
    assert (parameters(made)["wrappers"], made.lost) == ({"tool": "/bin/tool"}, ())
    values = parameters(of_sections(description="%(name)s is 100% text", aliases={"tool": "/bin/tool %(version)s"}))
    assert values["description"] == "%%(name)s is 100% text"
    assert values["wrappers"] == {"tool": "/bin/tool %%(version)s"}


@pytest.mark.parametrize("text", ["", "[]", "text", "a: *b", "\t- x: [", "a: 1\na: 2"])
def test_a_text_that_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="'it' is not a recipe of SHPC"):
        convert_recipe(RecipeSource("'it'", text, Path()), a_site())


TEXT = st.text(max_size=12)
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)


@given(
    docker=st.one_of(st.just("a/b"), TEXT),
    latest=st.one_of(st.dictionaries(st.sampled_from(["1.0", "v2--h0", "x y"]), st.just(DIGEST), max_size=2), TEXTS),
    aliases=st.one_of(TEXTS, st.lists(st.fixed_dictionaries({"name": TEXT, "command": TEXT}), max_size=3)),
    env=TEXTS,
    url=TEXT,
    description=TEXT,
    full_name=st.booleans(),
)
def test_any_recipe_becomes_an_easyconfig_or_a_sentence(full_name: bool, **sections: Any) -> None:
    source = RecipeSource("'it'", json.dumps(sections, ensure_ascii=False), Path())
    with contextlib.suppress(RecipeError):
        made = convert_recipe(source, a_site(), full_name=full_name)
        values = parameters(made)
        aliases = sections["aliases"]
        names = set(aliases) if isinstance(aliases, dict) else {one["name"] for one in aliases}
        assert not aliases or set(values["wrappers"]) <= names
        assert made.text.encode()
        assert "\n#" not in made.text.partition("easyblock")[2]
