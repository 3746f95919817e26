"""A proposal for an easyconfig, based on the contents of an image."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Optional, Union

from sifmod.container.gpu import VENDORS, vendor_of
from sifmod.container.parameters import TAKEN_OVER, USER_SOFTWARE
from sifmod.container.spec import (
    DEFAULT_CONDA_ROOT,
    DEFAULT_WRAPPERS,
    PythonLayout,
    conda_prefix,
    spec_from_parameters,
)
from sifmod.container.wrappers import why_not_a_wrapper
from sifmod.easyconfig.program import Program, matching, others_than_python, program_of
from sifmod.easyconfig.text import folded
from sifmod.errors import ImageError, ParameterError
from sifmod.fetch.uri import DOCKER_HUB, LOCAL_SCHEMES, ImageUri
from sifmod.image.gpustack import newest
from sifmod.image.inspection import MAIN_PACKAGES, SANDBOX, SIF, Inspection
from sifmod.image.programs import Programs
from sifmod.image.python import ImagePython
from sifmod.site.settings import Site
from sifmod.text.package import NAME
from sifmod.text.printable import without_unprintable
from sifmod.text.quoting import without_templates

# Descriptions of modules by name: home page, a few words, module class.
_ABOUT = {
    "PyTorch": ("https://pytorch.org/", "a machine learning package", "devel"),
    "TensorFlow": ("https://www.tensorflow.org/", "a machine learning package", "devel"),
    "jax": ("https://docs.jax.dev/", "automatic differentiation and XLA for numerical computing", "devel"),
    "mpi4py": ("https://mpi4py.readthedocs.io/", "the Message Passing Interface for Python", "devel"),
    "vLLM": ("https://docs.vllm.ai/", "a server for language models", "devel"),
    "SGLang": ("https://docs.sglang.io/", "a server for language models", "devel"),
    "Python": ("https://www.python.org/", "a programming language", "lang"),
}
# Packages on top of PyTorch, and the module of an image that is named after one.
_SERVERS = {"vllm": "vLLM", "sglang": "SGLang"}
NO_HOMEPAGE = "https://apptainer.org/"
# Characters of NAME-VERSION.eb. Names of files have at most 255; EasyBuild's logs of an install have date and time too.
_LONGEST = 200

# Packages for which users choose an image: the description names them, and expected_packages has their versions.
_NOTABLE = (
    *("torchvision", "torchaudio", "deepspeed", "flash-attn", "xformers", "apex", "vllm", "sglang", "transformers"),
    *("lightning", "horovod", "jaxlib", "keras", "cupy", "mpi4py", "ray", "numpy", "scipy"),
)
_MOST_NOTABLE = 6
# Commands of Python packages that are worth a wrapper.
_TOOLS = (
    *("accelerate", "deepspeed", "horovodrun", "huggingface-cli", "ipython", "jupyter", "lightning", "ray"),
    *("sglang", "tensorboard", "torchrun", "vllm"),
)


@dataclass(frozen=True)
class Proposal:
    """Parameters of an easyconfig, checked as an install checks them, and notes for its author, one sentence each.

    Of the values, `%%(name)s` is text, and `%(name)s` a template of EasyBuild. The Python is the one of the image that
    the module provides.
    """

    parameters: Mapping[str, Any]
    notes: tuple[str, ...]
    python: Optional[PythonLayout] = None

    @property
    def file_name(self) -> str:
        """The name by which `eb` finds the easyconfig."""
        given = (str(self.parameters.get(key, "")) for key in ("version", "versionsuffix"))
        return f"{self.parameters['name']}-{''.join(given)}.eb"


def propose(
    image: Inspection,
    site: Site,
    *,
    sha256: str = "",
    uri: Optional[ImageUri] = None,
    name: str = "",
    version: str = "",
    like: Optional[Mapping[str, Any]] = None,
    programs: Optional[Programs] = None,
    origin: str = "",
    commands: Sequence[str] = (),
) -> Proposal:
    """Return a proposal for the easyconfig of an image.

    It has the SHA-256 of a file, or the URI that it was pulled from. Name and version are by default those of the main
    package, and so are the commands, of which patterns name those that get wrappers. Parameters of a similar
    container's easyconfig (`like`) are taken over where they still apply. `programs` is None if they were not looked
    for. The origin is what the user gave, a URI or a file name, which may name a program; empty for the image's.

    Raises:
        ImageError: this kind of image can't be installed, or its files can't be read.
        ParameterError: a given value can't be used.
    """
    _check_image(image)
    like, notes, program = like or {}, list[str](), None
    reference = origin or PurePosixPath(image.path).name
    if not (like.get("conda_env") or like.get("python_prefix")):
        program = program_of(image, programs or Programs(), reference=reference, name=name, commands=commands)
    python = None if program else _python(image, like, notes)
    main, main_version = _main_package(program or python, programs, name, reference, notes)
    module = checked_name("name", name or like.get("name") or main or "container")
    gpu = _gpu(image, site, notes)
    suffix = "" if program and not gpu else _suffix(image, python, gpu, without_python=module == "Python")
    file_name = uri.file_name if uri else PurePosixPath(image.path).name
    parameters: dict[str, Any] = {
        "easyblock": "ContainerImage",
        "name": module,
        "version": version or main_version or "1.0",
        "versionsuffix": suffix,
        **_words(image, python or program, gpu, module, version or main_version, uri),
        **_source(image, uri, sha256),
        "gpu": gpu,
        **(_program_parameters(program, notes) if program else _python_parameters(python, module, commands, notes)),
    }
    notes += _notes_on(uri)
    # texts of the image hold no templates of EasyBuild; those of the other easyconfig may
    parameters = without_templates(parameters)
    for key in TAKEN_OVER:
        is_settled = (key == "name" and name) or (key == "image_mode" and image.kind == SANDBOX)
        if key in like and not is_settled:
            _take_over(key, like[key], parameters, python, notes)
    return _checked(Proposal(parameters=parameters, notes=tuple(notes)), file_name)


def _source(image: Inspection, uri: Optional[ImageUri], sha256: str) -> dict[str, Any]:
    """Return the parameters that say where the image is; one that lies unpacked is used there."""
    if image.kind == SANDBOX:
        return {"sources": [os.path.abspath(image.path)], "image_mode": "central"}  # noqa: PTH100 - links stay
    return {"image_uri": uri.text} if uri else {"sources": [PurePosixPath(image.path).name], "checksums": [sha256]}


def _check_image(image: Inspection) -> None:
    if image.kind not in (SIF, SANDBOX):
        raise ImageError(
            f"'{image.path}' is a {image.kind}, but only a SIF can be installed: build one with "
            f"'singularity build NEW.sif {image.path}'"
        )
    if image.unread:
        raise ImageError(f"'{image.path}' can't be read: {image.unread}")


def _notes_on(uri: Optional[ImageUri]) -> Iterator[str]:
    """Yield what the author should know of the place that an image comes from."""
    if uri and not uri.digest:
        yield "image_uri has no digest, so it may name another image tomorrow: pin it if that is possible"
    if uri and uri.scheme in LOCAL_SCHEMES:
        yield "the image is on this host only, and another user or host can't fetch it: for them, push it to a registry"


def checked_proposal(proposal: Proposal) -> Proposal:
    """Return a proposal whose image is built from a definition, or that was changed; checked as an install does."""
    return _checked(proposal, "image.sif")


def _python(image: Inspection, like: Mapping[str, Any], notes: list[str]) -> Optional[ImagePython]:
    """Return the similar container's Python if the image has it too, else the image's default one."""
    root, env = like.get("conda_root") or DEFAULT_CONDA_ROOT, like.get("conda_env")
    wanted = like.get("python_prefix") or (conda_prefix(root, env) if env else "")
    for python in image.pythons:
        if wanted and python.prefix == wanted:
            return python
    if wanted:
        notes.append(f"the image has no Python in {wanted}, where the other easyconfig has it")
    return image.python() if image.default_python else None


def _main_package(
    about: Union[ImagePython, Program, None], programs: Optional[Programs], name: str, reference: str, notes: list[str]
) -> tuple[str, str]:
    """Return the name and version that the main package gives to the module, if it is not given another name."""
    if not isinstance(about, ImagePython):
        return (about.name, about.version) if about else ("", "")
    words = re.split(r"[^a-z0-9]+", PurePosixPath(reference).name.lower())
    named = {package: module for package, module in _SERVERS.items() if package in words}
    packages = ((module, about.version_of(package)) for package, module in {**named, **MAIN_PACKAGES}.items())
    main, version = next(((module, one) for module, one in packages if one), ("Python", about.minor_version))
    others = others_than_python(programs) if programs else ()
    if others and not name and main == "Python":
        notes.append(f"the image has {others[0]} too: for a module of it instead of Python, add --name {others[0]}")
    version = (about.version_of(name) if name else "") or version
    return main, version.partition("+")[0]


def _gpu(image: Inspection, site: Site, notes: list[str]) -> str:
    gpu = vendor_of(image.stacks)
    if gpu and site.gpu and site.gpu != gpu:
        notes.append(f"the image is made for {VENDORS[gpu].name} GPUs, but the site '{site.name}' has others")
    return gpu


def _suffix(image: Inspection, python: Optional[ImagePython], gpu: str, *, without_python: bool) -> str:
    """Return the suffix in the pattern of the easyconfigs: -rocm-5.6.1-python-3.10-singularity-20240315."""
    parts = []
    if gpu:
        stack = VENDORS[gpu].stack
        numbers = re.match(r"\d+(\.\d+)*", newest(image.components, stack))
        parts += [stack.lower(), numbers[0]] if numbers else []
    if python and not without_python:
        parts += ["python", python.minor_version]
    parts.append("singularity")
    if 0 < image.created < 1 << 35:
        parts.append(time.strftime("%Y%m%d", time.gmtime(image.created)))
    return "-" + "-".join(parts)


def _words(
    image: Inspection,
    about: Union[ImagePython, Program, None],
    gpu: str,
    module: str,
    version: str,
    uri: Optional[ImageUri],
) -> dict[str, Any]:
    """Return the texts for users: home page, description, whatis, module class."""
    python = about if isinstance(about, ImagePython) else None
    homepage, what, moduleclass = _ABOUT.get(module, ("", "", "tools"))
    if isinstance(about, Program):
        homepage, what, moduleclass = about.homepage, about.summary, about.moduleclass
    pages = [image.labels.get(f"org.opencontainers.image.{key}", "") for key in ("url", "source", "documentation")]
    if uri and uri.registry == DOCKER_HUB:
        pages.append(f"https://hub.docker.com/r/{uri.repository}")
    homepage = homepage or next((one for one in pages if re.fullmatch(r"https?://[\w./%~-]+", one)), NO_HOMEPAGE)
    notable = {one: two for one, two in _notable(python).items() if one != module.lower()}
    platform = [f"Python {python.minor_version}"] if python and module != "Python" else []
    vendor = VENDORS.get(gpu)
    if vendor:
        version_of_stack = newest(image.components, vendor.stack)
        platform += [f"{vendor.stack} {version_of_stack}"] if version_of_stack else []
    platform += [image.os] if image.os else []
    sentence = " ".join(
        part
        for part in (
            f"{module} {version}".strip(),
            f"for {vendor.name} GPUs" if vendor else "",
            f"with {_listed([f'{one} {two}' for one, two in notable.items()])}" if notable else "",
            f"on {_listed(platform)}" if platform else "",
        )
        if part
    )
    sentence = _clean(f"{sentence}, in a container.")
    about_program = f"{what[:1].upper()}{what[1:].rstrip('.')}." if what and isinstance(about, Program) else ""
    label = _clean(about_program or image.labels.get("org.opencontainers.image.description", ""))
    whatis = _clean(f"Description: {module}, {what}" if what else f"Description: {module} in a container")
    expected = _expected(python, module)
    keywords = ", ".join(dict.fromkeys([module, *expected, *([vendor.stack] if vendor else []), "container"]))
    return {
        "homepage": homepage,
        "description": folded(f"{sentence} {label}".strip()),
        "whatis": [whatis, _clean(f"Keywords: {keywords}")],
        "moduleclass": moduleclass,
        **({"expected_packages": expected} if expected else {}),
    }


def _notable(python: Optional[ImagePython]) -> dict[str, str]:
    found = {name: python.version_of(name) for name in _NOTABLE if python.version_of(name)} if python else {}
    return dict(list(found.items())[:_MOST_NOTABLE])


def _expected(python: Optional[ImagePython], module: str) -> dict[str, str]:
    if python is None:
        return {}
    main = {one: python.version_of(one) for one in MAIN_PACKAGES if python.version_of(one)}
    own = {module: python.version_of(module)} if python.version_of(module) and not main else {}
    return {**main, **own, **_notable(python)}


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _clean(text: str) -> str:
    """Return a text of the image on one line of limited length, without unprintable characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return without_unprintable(" ".join(text.split()))[:1000].strip()


def _program_parameters(program: Program, notes: list[str]) -> dict[str, Any]:
    """Return what a module without Python has: its commands, and no family, so that programs are loaded together."""
    notes += program.notes
    return {"wrappers": [*program.wrappers], "module_family": ""}


def _python_parameters(
    python: Optional[ImagePython], module: str, commands: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    if python is None:
        notes.append("no Python was found in the image: name its commands in wrappers")
        return {"wrappers": []}
    found: dict[str, Any] = {}
    if python.conda_env:
        found = {"conda_root": python.conda_root, "conda_env": python.conda_env}
        if python.conda_root == DEFAULT_CONDA_ROOT:
            del found["conda_root"]
    else:
        found["python_prefix"] = python.prefix
    if python.makes_venvs:
        named = python.conda_env if python.conda_env not in ("", "base") else module.lower()
        found["venv"] = re.sub(r"[^a-z0-9_.+-]", "-", named.lower()).lstrip(".+-") or "venv"
    else:
        notes.append(
            f"the Python in {python.prefix} lacks venv, or both ensurepip and pip: without a virtual environment users "
            "can't install packages"
        )
    tools = [tool for tool in _TOOLS if tool in python.commands]
    if commands:
        remedy = "no command beside the Python of the image matches: name the program with --name"
        found_names = matching(commands, python.commands, remedy=remedy)
        tools = [name for name in found_names if not why_not_a_wrapper(name) and name not in DEFAULT_WRAPPERS]
    if tools:
        found["wrappers"] = [*DEFAULT_WRAPPERS, *tools]
    return found


def _take_over(
    key: str, value: Any, parameters: dict[str, Any], python: Optional[ImagePython], notes: list[str]
) -> None:
    """Take a parameter of the similar container over, as far as it still applies."""
    if key in USER_SOFTWARE and "venv" not in parameters:
        notes.append(f"{key} of the other easyconfig was left out: this image can't have a virtual environment")
        return
    if key == "wrappers" and isinstance(value, (list, tuple)):
        known = {*DEFAULT_WRAPPERS, *(python.commands if python else ())}
        gone = [str(item) for item in value if python and item not in known]
        if gone:
            notes.append(f"check that the image has these wrappers, not found beside its Python: {', '.join(gone)}")
    parameters[key] = value


def _checked(proposal: Proposal, file_name: str) -> Proposal:
    """Return a proposal with its Python; refuse what an install would refuse."""
    parameters = proposal.parameters
    checked_name("version", parameters["version"])
    if len(proposal.file_name) > _LONGEST:
        raise ParameterError(
            "name",
            parameters["name"],
            f"the name with the version has more than {_LONGEST} characters: choose a shorter one",
        )
    spec = spec_from_parameters(
        name=parameters["name"],
        version=parameters["version"] + parameters["versionsuffix"],
        env_name=re.sub(r"\W", "_", parameters["name"]).upper(),
        installdir=f"/apps/{parameters['name']}",
        sif=file_name,
        parameters=parameters,
    )
    return replace(proposal, python=spec.python)


def checked_name(key: str, value: Any) -> str:
    """Return a name or version of a module, which becomes part of paths."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ParameterError(key, value, "use letters, digits, '_', '.', '+' and '-' only, without a slash")
    return value
