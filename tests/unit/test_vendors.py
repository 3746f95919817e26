"""A vendor of GPUs is one entry of the table: with a third one everything works, and no other file names a vendor."""

import ast
import importlib
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from .support import Stubs, sifmod_imported_anew

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Import sifmod anew, with one more entry in the table and nothing else changed; yield modules by short names."""
    with sifmod_imported_anew():
        gpu = importlib.import_module("sifmod.container.gpu")
        acme = gpu.Vendor(
            key="acme",
            name="ACME",
            stack="Rocket",
            option="acme",
            device="/dev/acme0",
            visibility=("ACME_VISIBLE_DEVICES", "ROCKET_MASK"),
            hints="rocket",
            gpus="/dev/acme[0-9]",
            caches=("ROCKET_CACHE",),
            collectives="ACCL",
            tool="acme-smi",
            queries=(("-L",),),
            read=lambda said: ("7.1", tuple((line, "a1") for line in said.splitlines())),
            driver="acmegpu",
            oldest_drivers=MappingProxyType({"3": "7.0"}),
        )
        monkeypatch.setattr(gpu, "VENDORS", MappingProxyType({**gpu.VENDORS, "acme": acme}))
        wanted = {
            "spec": "container.spec",
            "templates": "render.templates",
            "values": "render.values",
            "helptext": "render.helptext",
            "job": "render.job",
            "schema": "site.schema",
            "settings": "site.settings",
            "proposal": "easyconfig.proposal",
            "conversion": "migrate.conversion",
            "inspection": "image.inspection",
            "gpustack": "image.gpustack",
            "gpus": "host.gpus",
            "doctor": "doctor.gpu",
            "inspect": "commands.inspect",
            "errors": "errors",
        }
        yield SimpleNamespace(**{name: importlib.import_module(f"sifmod.{path}") for name, path in wanted.items()})


def a_spec(third: SimpleNamespace, **parameters: Any) -> Any:
    return third.spec.spec_from_parameters(
        name="Thing",
        version="1.0",
        env_name="THING",
        installdir="/apps/Thing/1.0",
        sif="thing.sif",
        parameters={"gpu": "acme", "conda_env": "thing", "venv": "thing", **parameters},
    )


def test_the_easyconfig_and_the_site_take_it(third: SimpleNamespace, tmp_path: Path) -> None:
    assert a_spec(third).vendor.name == "ACME"
    with pytest.raises(third.errors.ParameterError, match=r"'amd' or 'nvidia' or 'acme' \(perhaps you meant 'acme'"):
        a_spec(third, gpu="acmee")
    assert "acme" in third.schema.site_schema()["properties"]["gpu"]["enum"]
    path = tmp_path / "site.toml"
    path.write_text('gpu = "acme"\n')
    assert third.settings.load_settings({}, str(path)).site.easyconfig_defaults["gpu"] == "acme"


def test_the_module_turns_the_runtime_s_option_on(third: SimpleNamespace) -> None:
    values = third.values.module_values(a_spec(third), third.settings.Site(name="here"))
    assert ["_ACME", "1"] in values["runtime_variables"]


def test_the_scripts_and_the_help_are_for_it(third: SimpleNamespace) -> None:
    spec, site = a_spec(third), third.settings.Site(name="here")
    texts = {str(item.path): item.text for item in third.templates.render(spec, site)}
    values = texts["runscripts/values.sh"].splitlines()
    assert {
        "sifmod_gpu_device=/dev/acme0",
        "sifmod_gpu_variable=_ACME",
        "sifmod_visible=(ACME_VISIBLE_DEVICES ROCKET_MASK)",
        "sifmod_node_caches=(ROCKET_CACHE TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR)",
    } <= {*values}
    for name, text in texts.items():
        # what decides by the driver and the card of the node is the same in every installation
        if name != "runscripts/at-start.sh":
            assert not re.search("nvidia|cuda|rocr", text, re.IGNORECASE), name
        if text.startswith("#!/bin/bash"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "Runscripts" in third.helptext.usage(spec, site)
    assert "srun" in third.helptext.examples(spec, site)
    job = third.job.Job(module=spec.module, command=("train.py",), gpus_per_node=4)
    assert "--gpus-per-node=4" in third.job.render_job(job, site)


def an_image(third: SimpleNamespace) -> Any:
    component = third.gpustack.Component("Rocket", "3.2", "/opt/rocket/version")
    return third.inspection.Inspection("thing.sif", "SIF", components=(component,))


def test_easyconfigs_are_proposed_and_converted_for_it(third: SimpleNamespace) -> None:
    site = third.settings.Site(name="here", gpu="amd")
    proposal = third.proposal.propose(an_image(third), site)
    assert proposal.parameters["gpu"] == "acme"
    assert proposal.parameters["versionsuffix"] == "-rocket-3.2-singularity"
    assert "for ACME GPUs on Rocket 3.2" in proposal.parameters["description"]
    assert any("made for ACME GPUs" in note for note in proposal.notes)
    variables = {
        "easyblock": "MakeCp",
        "name": "X",
        "version": "1",
        "sources": ["x-rocket.sif"],
        "modextravars": {"SINGULARITYENV_ROCKET_MASK": "0", "ACCL_DEBUG": "INFO"},
    }
    text = third.conversion.convert(variables, site, origin="x.eb").text
    assert "gpu = 'acme'" in text
    assert "container_env = {'ACCL_DEBUG': 'INFO'}" in text


def test_doctor_and_inspect_compare_its_driver(third: SimpleNamespace, tools: Stubs) -> None:
    tools("acme-smi", "echo Road Runner")
    hosts = third.gpus.host_gpus()
    assert [(host.vendor, host.gpus[0].name) for host in hosts] == [("acme", "Road Runner")]
    found = list(third.doctor.check_gpus(hosts, an_image(third), vendor=None))
    assert [item.what for item in found] == [
        "gpu_libraries is 'host': --acme brings the host's, which come before the image's",
        "fits: driver 7.1 runs Rocket 3.2, which needs 7.0",
        "1 x Road Runner (a1)",
    ]
    facts = third.inspect._as_json(an_image(third))
    assert facts["driver"] == "acmegpu 7.0 or later, for Rocket 3.2"


_NAMES = re.compile(
    r"nvidia|--nv|_NV\b|\bamd\b|amdgpu|rocm|radeon|cuda|\bhip\b|(rocr|hip|miopen)_|\bn?r?ccl\b", re.IGNORECASE
)
# What may name a vendor, and why.
_EXCEPTIONS = {
    "src/sifmod/container/gpu.py": "the table",
    "src/sifmod/image/gpustack.py": "recognises software in the files of an image, by the names that it has there",
    "src/sifmod/image/fatbin.py": "reads the format of CUDA's compiled code",
    "src/sifmod/image/inspection.py": "has names of distributions: tensorflow-rocm",
    "src/sifmod/fetch/registry.py": "says how to log in to NVIDIA's registry",
    "src/sifmod/container/kinds.py": "has CUDA as an example of a build argument",
    "src/sifmod/container/parameters.py": "has the parameter cuda_compat",
    "src/sifmod/container/spec.py": "has that parameter",
    "src/sifmod/site/settings.py": "has the site's value of that parameter",
    "wrappers/runscripts/at-start.sh": "decides about compat libraries by the driver and the cards",
}


def code_lines(path: Path) -> Iterator[str]:
    """Yield what a file says outside of comments, and of docstrings where it is Python."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from (line for line in text.splitlines() if not re.match(r"\s*(#|--\s|<#--)", line))
        return
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and node.body and ast.get_docstring(node) is not None
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in docstrings
        if token.type != tokenize.COMMENT and not is_docstring:
            yield token.string


def test_no_other_file_names_a_vendor() -> None:
    naming = {
        str(path.relative_to(ROOT)).removesuffix(".j2")
        for folder in ("src", "wrappers", "modulefiles", "jobs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".j2", ".sh", ".lua", ".tcl", "")
        and path.is_file()
        and any(map(_NAMES.search, code_lines(path)))
    }
    assert naming == set(_EXCEPTIONS)
