import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.programs import write_file

from sifmod.errors import SiteError
from sifmod.resources import data_path
from sifmod.site.schema import site_schema
from sifmod.site.settings import Site, load_site, shipped_sites

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TYPES: dict[str, type] = {"boolean": bool, "string": str, "integer": int, "array": list, "object": dict}
# The words of JSON Schema that `allows` below understands, and those that say nothing about a value.
WORDS = {"anyOf", "not", "type", "enum", "pattern", "minimum", "maximum", "items", "properties", "propertyNames"}
WORDS |= {"required", "minItems", "uniqueItems"}
SILENT = {"$schema", "title", "description", "default", "format"}


def allows(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value is valid: the part of JSON Schema (draft 7) that the schema uses."""
    assert set(schema) <= WORDS | SILENT | {"additionalProperties"}
    if "type" in schema:
        kind = TYPES[schema["type"]]
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            return False
    known = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    checks = [
        "anyOf" not in schema or any(allows(inner, value) for inner in schema["anyOf"]),
        "not" not in schema or not allows(schema["not"], value),
        value in schema.get("enum", [value]),
        "pattern" not in schema or bool(re.search(schema["pattern"], value)),
        "minimum" not in schema or value >= schema["minimum"],
        "maximum" not in schema or value <= schema["maximum"],
        "minItems" not in schema or len(value) >= schema["minItems"],
        "uniqueItems" not in schema or len({*map(str, value)}) == len(value),
        "required" not in schema or set(schema["required"]) <= set(value),
        "items" not in schema or all(allows(schema["items"], item) for item in value),
    ]
    if isinstance(value, dict):
        for name, content in value.items():
            checks.append("propertyNames" not in schema or allows(schema["propertyNames"], name))
            checks.append(
                allows(known.get(name, more), content)
                if known.get(name, more) not in (True, False)
                else bool(name in known or more)
            )
    return all(checks)


def test_the_schema_is_json_and_knows_every_key_with_its_meaning_and_default() -> None:
    schema = json.loads(json.dumps(site_schema()))
    assert set(schema["properties"]) == {field.name for field in fields(Site)} - {"name"}
    assert all(item["description"] and allows(item, item["default"]) for item in schema["properties"].values())


@pytest.mark.parametrize("name", shipped_sites())
def test_every_shipped_site_is_valid(name: str) -> None:
    assert allows(site_schema(), tomllib.loads((data_path("sites") / f"{name}.toml").read_text()))


GOOD = [
    'binds = ["/a:/b:ro"]',
    "pack_level = 22",
    'pack_level = "6"',
    "pack_processors = 0",
    'pack_block_size = "1M"',
    'insecure_registries = ["localhost:5000", "[::1]:5000"]',
    'runtime_tmpdir = "$HOME/tmp"',
    'gpu = ""',
    'container_env = { A_1 = "" }',
    'runtimes = ["enroot", "apptainer"]',
    "runtimes = []",
    'cpu_bind_masks = ["0xfe"]',
    "user_commands = false",
    'cache = { root = "/scratch/${SLURM_JOB_ACCOUNT}/${USER}", HF_HOME = "hugging/face", TORCH_HOME = "" }',
    'cache = { root = "${WORK}/cache" }',
    'cache = { root = "" }',
]
BAD = [
    "unknown = 1",
    'site = "lumi"',
    'binds = "/a"',
    'binds = ["a"]',
    "runtime = 1",
    'runtimes = "enroot"',
    'runtimes = ["enroot", "enroot"]',
    'runtimes = ["singularity"]',
    'runtimes = [""]',
    "pack_level = 23",
    "pack_level = 1.5",
    "pack_level = true",
    'pack_block_size = "100K"',
    'insecure_registries = ["/a"]',
    'gpu = "intel"',
    'signatures = "maybe"',
    'runtime_tmpdir = "tmp"',
    'container_env = { "A-B" = "" }',
    'container_env = { PIP_CONSTRAINT = "" }',
    "container_env = { A = 1 }",
    'cpu_bind_masks = ["fe"]',
    'user_commands = "false"',
    "user_commands = 0",
    'cache = { root = "scratch" }',
    'cache = { root = "/scratch/$USER" }',
    "cache = { root = 1 }",
    'cache = { hf_home = "hf" }',
    'cache = { HF_HOME = "/hf" }',
    'cache = { HF_HOME = "$USER" }',
]


@pytest.mark.parametrize("text", GOOD)
def test_the_schema_allows_what_is_read(tmp_path: Path, text: str) -> None:
    path = write_file(tmp_path / "site.toml", text)
    load_site({"SIFMOD_SITE": str(path)})
    assert allows(site_schema(), tomllib.loads(text))


@pytest.mark.parametrize("text", BAD)
def test_the_schema_forbids_what_is_refused(tmp_path: Path, text: str) -> None:
    path = write_file(tmp_path / "site.toml", text)
    with pytest.raises(SiteError):
        load_site({"SIFMOD_SITE": str(path)})
    assert not allows(site_schema(), tomllib.loads(text))


def test_the_user_s_own_settings_can_name_the_site() -> None:
    assert allows(site_schema(users=True), {"site": "lumi"})
    assert not allows(site_schema(users=True), {"sites": "lumi"})
