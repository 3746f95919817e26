"""The easyconfigs that come with sifmod: each is one that EasyBuild and sifmod take as it is."""

import importlib.util
import inspect
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod.container.dockerfile import Dockerfile
from sifmod.container.parameters import OWN
from sifmod.container.spec import ContainerSpec, spec_from_parameters
from sifmod.fetch.uri import image_uri
from sifmod.render.templates import render
from sifmod.render.values import module_values
from sifmod.site.settings import load_site

from .support import Need

ROOT = Path(__file__).resolve().parents[2]
# sifmod's own easyconfig is no container: test_robot.py and tests/integration/test_sites.py have it
EASYCONFIGS = sorted(path for path in (ROOT / "easyconfigs").rglob("*.eb") if path.parent.name != "sifmod")
DEFINITIONS = sorted((ROOT / "easyconfigs").rglob("*.def"))
DOCKERFILES = sorted((ROOT / "easyconfigs").rglob("*.Dockerfile"))
MOST_LINES = 26
MOST_LINES_OF_A_TOOL = 16
# The first line of an easyconfig of a tool: the repository of the image, and the tag whose digest is known.
RECIPE = r"# Facts: SHPC's recipe of (\S+), tag ([\w.-]*\w)(?:, and .*)?\.\n"
TOOLS = [path for path in EASYCONFIGS if re.match(RECIPE, path.read_text())]
IMAGE_SOURCES = ("sources", "image_uri", "definition")

# What an easyconfig sets: parameter -> value.
Values = dict[str, Any]


def name_of(path: Path) -> str:
    return path.stem


every_easyconfig = pytest.mark.parametrize("path", EASYCONFIGS, ids=name_of)
every_definition = pytest.mark.parametrize("path", DEFINITIONS, ids=name_of)
every_dockerfile = pytest.mark.parametrize("path", DOCKERFILES, ids=name_of)


class EasyBuild:
    """What EasyBuild says of an easyconfig file, without an installation of it being set up."""

    def __init__(self) -> None:
        from easybuild.framework.easyconfig.default import DEFAULT_CONFIG
        from easybuild.tools.config import DEFAULT_MODULECLASSES, init_build_options

        init_build_options()
        location = importlib.util.spec_from_file_location("containerimage", ROOT / "easyblocks" / "containerimage.py")
        assert location is not None
        assert location.loader is not None
        easyblock = importlib.util.module_from_spec(location)
        location.loader.exec_module(easyblock)
        self.easyblock: type = easyblock.ContainerImage
        self.own_parameters = set(easyblock.ContainerImage.extra_options())
        self.known_parameters = self.own_parameters | set(DEFAULT_CONFIG)
        self.module_classes = {name for name, _description in DEFAULT_MODULECLASSES}

    def read(self, path: Path) -> Values:
        from easybuild.framework.easyconfig.parser import EasyConfigParser

        values: Values = EasyConfigParser(str(path)).get_config_dict()
        return values

    def full_version(self, values: Values) -> str:
        from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version

        return str(det_full_ec_version(values))

    def relative_path(self, values: Values) -> Path:
        from easybuild.framework.easyconfig.easyconfig import letter_dir_for

        name = values["name"]
        return Path(letter_dir_for(name), name, f"{name}-{self.full_version(values)}.eb")

    def spec(self, path: Path) -> ContainerSpec:
        from easybuild.tools.filetools import convert_name

        values = self.read(path)
        name, version = values["name"], self.full_version(values)
        return spec_from_parameters(
            name=name,
            version=version,
            env_name=convert_name(name, upper=True),
            installdir=f"/apps/{name}/{version}",
            sif=sif_of(path, values),
            parameters={key: value for key, value in values.items() if key in self.own_parameters},
        )


@pytest.fixture(scope="session")
def easybuild() -> EasyBuild:
    return EasyBuild()


def sif_of(path: Path, values: Values) -> str:
    if "sources" in values:
        source: str
        (source,) = values["sources"]
        return source
    return image_uri(values["image_uri"]).file_name if "image_uri" in values else f"{path.stem}.sif"


def code_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_there_are_easyconfigs_of_every_kind_tools_of_many_subjects_and_dockerfiles(easybuild: EasyBuild) -> None:
    kinds = {kind for path in EASYCONFIGS for kind in IMAGE_SOURCES if kind in easybuild.read(path)}
    assert kinds == set(IMAGE_SOURCES)
    assert len(TOOLS) >= 20
    assert {"bio", "chem", "lang", "math", "vis"} <= {easybuild.read(path)["moduleclass"] for path in TOOLS}
    assert [path.stem for path in DOCKERFILES] == ["Lightning-ngc", "nbody-12.4.1-efficient", "nbody-12.4.1"]
    used = {path.parent / str(easybuild.read(path).get("definition")) for path in EASYCONFIGS}
    assert set(DEFINITIONS) <= used
    for path in [*EASYCONFIGS, *DEFINITIONS, *DOCKERFILES]:
        assert not re.search(r"/(work|home|tmp|scratch|projappl)\b", path.read_text())


@every_easyconfig
def test_easybuild_knows_its_place_parameters_image_and_files(easybuild: EasyBuild, path: Path) -> None:
    assert path.relative_to(ROOT / "easyconfigs") == easybuild.relative_path(easybuild.read(path))
    values = easybuild.read(path)
    assert set(values) - easybuild.known_parameters == set()
    assert values["easyblock"] == "ContainerImage"
    assert values["toolchain"] == {"name": "system", "version": "system"}
    assert values["moduleclass"] in easybuild.module_classes
    assert "checksums" not in values
    # `eb --check-contrib` wants those of sources
    assert ("\n# no checksums: " in path.read_text()) == ("sources" in values)
    assert sum(key in values for key in IMAGE_SOURCES) == 1
    assert "build_args" not in values or "definition" in values
    named = [*values.get("definition_files", []), *([values["definition"]] if "definition" in values else [])]
    assert all((path.parent / name).is_file() for name in named)


@every_easyconfig
def test_it_is_short_and_module_spider_finds_it_by_its_packages(path: Path, easybuild: EasyBuild) -> None:
    text = path.read_text()
    assert len(code_lines(text)) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 120
    assert text.startswith("# ")
    assert not text.splitlines()[1].startswith("#")
    values = easybuild.read(path)
    kinds = [line.partition(": ")[0] for line in values["whatis"]]
    assert kinds == ["Description", "Keywords"]
    assert values["homepage"].startswith("https://")
    assert len(values["description"]) > 40
    keywords = values["whatis"][1].partition(": ")[2].lower().split(", ")
    for package in values.get("expected_packages", {}):
        assert package in keywords


@pytest.mark.parametrize("path", TOOLS, ids=name_of)
def test_a_tool_is_loaded_beside_others_and_has_nothing_of_python(easybuild: EasyBuild, path: Path) -> None:
    values, spec = easybuild.read(path), easybuild.spec(path)
    assert len(code_lines(path.read_text())) <= MOST_LINES_OF_A_TOOL
    assert values["gpu"] in ("", "nvidia")
    assert spec.python is None
    assert not spec.module_family
    names = {artefact.path.name for artefact in render(spec, load_site({"SIFMOD_SITE": "generic"}))}
    assert set(spec.wrappers) <= names
    assert not [name for name in names if re.search("python|pip|venv|squashfs", name)]


@every_easyconfig
def test_name_of_the_image_and_name_of_the_module_agree(easybuild: EasyBuild, path: Path) -> None:
    values = easybuild.read(path)
    version = easybuild.full_version(values)
    if "sources" in values and values["sources"][0].startswith("lumi-multitorch-"):
        (sif,) = values["sources"]
        suffix = re.match(r"-rocm-([\d.]+)-python-[\d.]+-singularity-(\d{8})$", values["versionsuffix"])
        assert suffix
        short = f"r{suffix[1]}f21m43t{values['version']}".replace(".", "")
        assert re.fullmatch(rf"lumi-multitorch-full-u24{short}-{suffix[2]}_\d{{6}}\.sif", sif)
    elif "sources" in values and values["sources"][0].startswith("lumi-"):
        (sif,) = values["sources"]
        parts = re.findall(r"(?:rocm|python|horovod)-[0-9.]+[0-9]", values["versionsuffix"])
        assert all(f"-{part}-" in sif for part in parts)
        assert values["version"] in sif
        assert re.fullmatch(rf"lumi-{values['name'].lower()}-.*-dockerhash-[0-9a-f]{{12}}\.sif", sif)
    elif recipe := re.match(RECIPE, path.read_text()):
        repository, tag = recipe.groups()
        uri = image_uri(values["image_uri"])
        assert uri.location == f"{repository}@{uri.digest}"
        assert values["version"] in (tag, tag.partition("--")[0], tag.removeprefix("egl-py3-"))
    elif "nvcr.io/" in values.get("image_uri", ""):
        release = image_uri(values["image_uri"]).tag.partition("-")[0]
        assert release in version.split("-")
    elif "build_args" in values:
        assert all(value in re.split("[-_]", version) for value in values["build_args"].values())


@every_easyconfig
@pytest.mark.parametrize("site_name", ["generic", "lumi"])
def test_sifmod_accepts_and_renders_it(easybuild: EasyBuild, path: Path, site_name: str) -> None:
    values, spec, site = easybuild.read(path), easybuild.spec(path), load_site({"SIFMOD_SITE": site_name})
    spec = replace(spec, python_version="3.11" if spec.python else "")
    artefacts = {str(artefact.path): artefact.text for artefact in render(spec, site)}
    assert {f"bin/{command}" for command in spec.wrappers} <= set(artefacts)
    assert ("bin/make-squashfs" in artefacts) == bool(spec.venv)
    module = module_values(spec, site)
    assert (module["image"], module["env_name"]) == (f"{spec.installdir}/{spec.sif}", spec.env_name)
    options = str(module["runtime_variables"])
    # programs use the image's ROCm
    assert ("'_NV'" in options, "'_ROCM'" in options) == (values.get("gpu") == "nvidia", False)


@every_easyconfig
def test_its_build_arguments_are_those_of_its_definition(easybuild: EasyBuild, path: Path) -> None:
    values = easybuild.read(path)
    if "definition" not in values:
        return
    stages = stages_of((path.parent / values["definition"]).read_text())
    arguments = OWN["build_args"].read(values.get("build_args"))
    assert set(arguments) <= set().union(*(placeholders(stage) for stage in stages))
    for stage in stages:
        defaults = dict(line.split("=", 1) for line in section(stage, "arguments"))
        assert {name: defaults[name] for name in arguments if name in defaults} == arguments


def stages_of(definition: str) -> list[str]:
    """Return the text of each build stage."""
    starts = [match.start() for match in re.finditer("^Bootstrap:", definition, re.M)]
    return [definition[start:end] for start, end in zip(starts, [*starts[1:], len(definition)])]


def section(stage: str, name: str) -> list[str]:
    """Return the lines of a section of a build stage, without those that are empty."""
    match = re.search(rf"^%{name}[^\n]*\n(.*?)(?=^%|\Z)", stage, re.M | re.S)
    return [line.strip() for line in match[1].splitlines() if line.strip()] if match else []


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{\{ *(\w+) *\}\}", text))


@every_definition
def test_a_definition_file_says_what_it_is_tests_itself_and_fetches_over_https(path: Path) -> None:
    text = path.read_text()
    last = stages_of(text)[-1]
    assert text.startswith("# ")
    assert max(map(len, text.splitlines())) <= 120
    labels = [line.split()[0] for line in section(last, "labels")]
    assert labels[:2] == ["software", "software.version"]
    assert section(last, "test")
    assert set(re.findall(r"\b(\w+)://", text)) <= {"https", "file"}
    for url in re.findall(r"https://\S+\.tar\.gz", text):
        assert re.search(r"/v?(\{\{ \w+ \}\}|[0-9.]+)\.tar\.gz$", url)
    for stage in stages_of(text):
        assert re.search(r"^From: \S+:(\S|\{\{ \w+ \}\})+$|^From: \{\{ \w+ \}\}$", stage, re.M)
    for words in (line.split() for line in text.splitlines() if " pip " in line and "install" in line):
        assert "--constraint" in words
    for stage in stages_of(path.read_text()):
        defaults = {line.partition("=")[0] for line in section(stage, "arguments")}
        assert placeholders(stage) == defaults


@every_definition
def test_the_scripts_of_a_definition_file_are_right_for_sh(path: Path, need: Need) -> None:
    text = re.sub(r"\{\{ *\w+ *\}\}", "1", path.read_text())
    for stage in stages_of(text):
        for name in ("post", "test", "runscript", "environment"):
            script = "\n".join(section(stage, name))
            subprocess.run([need("dash", "sh"), "-n", "-c", script], check=True)


def test_the_efficient_nbody_leaves_its_tools_in_the_first_stage() -> None:
    (path,) = (path for path in DEFINITIONS if path.stem.endswith("-efficient"))
    build, final = stages_of(path.read_text())
    assert "-devel-" in build
    assert "-base-" in final
    assert not any("-dev" in line for line in section(final, "post"))
    assert section(final, "files from build") == ["/usr/local/bin/nbody /usr/local/bin/nbody"]


@every_dockerfile
def test_a_dockerfile_takes_the_place_of_the_definition_beside_it(easybuild: EasyBuild, path: Path) -> None:
    definition = path.with_suffix(".def").name
    (values,) = (found for found in map(easybuild.read, path.parent.glob("*.eb")) if found["definition"] == definition)
    dockerfile = Dockerfile(path.name, path.read_text(), OWN["build_args"].read(values["build_args"]))
    dockerfile.check(target="", files=[path.name])
    stages = stages_of(path.with_suffix(".def").read_text())
    froms = [re.findall(r"(?m)^From: (.+)$", stage)[0] for stage in stages]
    expected = [re.sub(r"\{\{ (\w+) \}\}", lambda match: values["build_args"][match[1]], source) for source in froms]
    assert list(dockerfile.images.values()) == expected
    defaults = Dockerfile(path.name, path.read_text(), {})
    assert dockerfile.images == defaults.images
    for line in section(stages[-1], "labels"):
        assert re.sub(r"\{\{ (\w+) \}\}", r"${\1}", line).replace(" ", '="') + '"' in path.read_text()


@every_dockerfile
def test_a_dockerfile_fetches_what_its_definition_fetches(path: Path, need: Need) -> None:
    ours, theirs = path.read_text(), path.with_suffix(".def").read_text()
    theirs = re.sub(r"\{\{ (\w+) \}\}", r"${\1}", theirs)
    for pattern in (r"https://[^\s\"]+", r"[a-z0-9-]+-dev\b", r"--constraint \"\S+\""):
        assert set(re.findall(pattern, ours)) == set(re.findall(pattern, theirs))
    for one in Dockerfile(path.name, path.read_text(), {}).instructions:
        if one.keyword == "RUN":
            subprocess.run([need("dash", "sh"), "-n", "-c", one.rest], check=True)


def test_the_easyblock_s_methods_take_what_other_releases_of_easybuild_pass(easybuild: EasyBuild) -> None:
    base = easybuild.easyblock.__bases__[0]
    overridden = {
        name for name, found in vars(easybuild.easyblock).items() if inspect.isfunction(found) and hasattr(base, name)
    }
    assert {"make_extension_list", "fetch_step", "make_module_step"} <= overridden
    for name in overridden:
        kinds = {
            parameter.kind for parameter in inspect.signature(getattr(easybuild.easyblock, name)).parameters.values()
        }
        assert {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds, name
