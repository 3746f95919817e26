import contextlib
import hashlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.easyconfig.newimage import NewImage
from sifmod.easyconfig.proposal import Proposal, propose
from sifmod.environment.definition import Basis, basis, last_look
from sifmod.environment.lock import Locked, lock_text, locked_wheel
from sifmod.environment.python import Source, file_names, make_environment, python_definition
from sifmod.environment.requirements import Requirements
from sifmod.errors import ImageError, ParameterError, SifmodError
from sifmod.fetch.uri import ImageUri
from sifmod.image.inspection import SIF, Inspection
from sifmod.image.python import ImagePython
from sifmod.site.settings import Site

from .test_lock import LINUX, SHA
from .test_resolution import ITEM, answering, report

SITE = Site("generic")
REMOTE = "docker://docker.io/library/python@sha256:" + "1" * 64
PROBE = '{"prefix": "/usr", "version": "3.11", "packages": [["demo-vendor", "1.2.3+site"], ["pip", "24.0"]]}'
WANTED = Requirements("requirements.txt", ("greeting", "demo-vendor"), ("greeting", "demo-vendor"), options=("--pre",))


def image(folder: Path, uri: str = "") -> NewImage:
    python = ImagePython("/usr", "system", "3.11.2", (), makes_venvs=True)
    inspection = Inspection(str(folder / "demo.sif"), SIF, pythons=(python,), default_python="/usr")
    parsed: Optional[ImageUri] = ImageUri.parse(uri) if uri else None
    return NewImage(folder / "demo.sif", inspection, uri or "demo.sif", sha256="" if uri else "c" * 64, uri=parsed)


def proposal_of(base: NewImage) -> Proposal:
    return propose(base.inspection, SITE, sha256=base.sha256, uri=base.uri, name="lab", version="1.0")


def make(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, uri: str = "", on_top: bool = False, place: str = ""
) -> dict[str, str]:
    """Return the files of an environment of one package, as pip's report describes it."""
    item = {**ITEM, "download_info": {**ITEM["download_info"], **({"url": place} if place else {})}}
    monkeypatch.setenv("PATH", f"{answering(folder, report(item), probe=PROBE).parent}:/usr/bin:/bin")
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    base = image(folder, uri)
    source = Source(requirements=WANTED)
    environment = make_environment(source, base, proposal_of(base), SITE, on_top=on_top, say=lambda _line: None)
    assert environment.text == list(environment.files.values())[-1]
    return dict(environment.files)


def start(setup: str, rootfs: Path) -> subprocess.CompletedProcess[str]:
    """Run the section %setup as the runtime does."""
    env = {"SINGULARITY_ROOTFS": str(rootfs), "PATH": "/usr/bin:/bin"}
    return subprocess.run(["/bin/sh", "-e"], input=setup, env=env, text=True, capture_output=True, check=False)


def test_the_files_are_named_after_the_easyconfig(tmp_path: Path) -> None:
    proposal = proposal_of(image(tmp_path))
    assert file_names(proposal, on_top=False) == (
        "pylock.lab-1_0-python-3_11-singularity.toml",
        "lab-1.0-python-3.11-singularity.def",
        "lab-1.0-python-3.11-singularity.eb",
    )
    assert len(file_names(proposal, on_top=True)) == 2


def test_a_local_base_is_compared_with_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "it's a $base"
    folder.mkdir()
    lock, definition, easyconfig = make(folder, monkeypatch).values()
    assert f"\nBootstrap: localimage\nFrom: {folder}/demo.sif\n" in definition
    assert "c" * 64 in definition
    assert 'base = "demo.sif sha256:' in lock
    assert "\ndefinition = 'lab-1.0-python-3.11-singularity.def'\n" in easyconfig
    assert "'pylock.lab-1_0-python-3_11-singularity.toml'" in easyconfig
    assert "expected_packages = {'greeting': '1.0', 'demo-vendor': '1.2.3+site'}" in easyconfig
    assert "sources" not in easyconfig
    setup = definition.partition("%setup\n")[2].partition("%post")[0]
    done = start(setup, tmp_path)
    assert done.returncode != 0
    (folder / "demo.sif").write_text("another image")
    done = start(setup, tmp_path)
    assert f"{folder}/demo.sif is not the image that the packages were locked for" in done.stderr


def test_a_base_of_a_registry_is_named_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, definition, easyconfig = make(tmp_path, monkeypatch, uri=REMOTE).values()
    assert f"\nBootstrap: docker\nFrom: {REMOTE.partition('://')[2]}\n" in definition
    assert f'base = "{REMOTE}"' in lock
    assert "image_uri" not in easyconfig
    assert "sha256sum <" not in definition
    assert 'url = "https://x.org/greeting-1.0-py3-none-any.whl"' in lock
    assert hashlib.sha256(lock.encode()).hexdigest() in definition
    assert "greeting" not in definition
    assert "PIP_CERT" not in definition


def test_certificates_of_the_host_are_taken_for_downloads_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.conf").write_text(f"[global]\ncert = {tmp_path}/ours.pem\n")
    (tmp_path / "ours.pem").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    definition = list(make(tmp_path, monkeypatch).values())[1]
    assert f'cp -- {tmp_path}/ours.pem "$SINGULARITY_ROOTFS"/opt/sifmod-environment/certificates.pem' in definition
    assert "PIP_CERT=/opt/sifmod-environment/certificates.pem" in definition
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    place = f"{tmp_path.as_uri()}/greeting-1.0-py3-none-any.whl"
    definition = list(make(tmp_path, monkeypatch, place=place).values())[1]
    assert "certificates.pem" not in definition
    assert f"cp -- {tmp_path}/greeting-1.0-py3-none-any.whl" in definition


def test_on_top_pip_installs_the_locked_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path.as_uri()}/some%20wheels")
    place = f"{tmp_path.as_uri()}/some%20wheels/greeting-1.0-py3-none-any.whl"
    _, easyconfig = make(tmp_path, monkeypatch, on_top=True, place=place).values()
    assert "image_mode = 'central'" in easyconfig
    assert "sources = ['demo.sif']" in easyconfig
    whole = re.sub(r"'\n *'", "", easyconfig)  # a long value stands in several lines
    for line in ("--pre", f"--find-links {tmp_path.as_uri()}/some%20wheels", f"greeting==1.0 --hash=sha256:{SHA}"):
        assert f"'{line}'" in whole


@pytest.mark.parametrize("folder", ["a {{ b }}", "a\nb"])
def test_a_path_that_a_definition_can_t_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    (tmp_path / folder).mkdir()
    with pytest.raises(SifmodError, match="rename it"):
        make(tmp_path / folder, monkeypatch)


def test_a_base_without_python_or_venv(tmp_path: Path) -> None:
    base = image(tmp_path)
    for changes, on_top, said in (({"python_prefix": None}, False, "no Python"), ({"venv": None}, True, "virtual env")):
        found = proposal_of(base)
        kept = {name: value for name, value in found.parameters.items() if name not in changes}
        found = replace(found, parameters=kept, python=None if "python_prefix" in changes else found.python)
        with pytest.raises(ImageError, match=said):
            make_environment(Source(WANTED), base, found, SITE, on_top=on_top, say=lambda _line: None)


def test_the_name_is_the_given_one_else_the_project_s() -> None:
    project = Source(requirements=replace(WANTED, name="thesis", version="0.3"))
    assert project.named("", "") == ("thesis", "0.3")
    assert project.named("lab", "2") == ("lab", "2")
    assert Source(lock=Path("pylock.toml")).named("", "") == ("environment", "1.0")
    with pytest.raises(ParameterError, match="'name'"):
        Source(requirements=replace(WANTED, name="../x")).named("", "")


# What strangers choose: characters that end a line, a word, a heredoc or a section, and harmless ones.
_HOSTILE = st.one_of(
    st.text(st.sampled_from("ab1.-_+!%/\\'\"`$(){}<>|;&#@:=~*? \t\n\r\x0b\x0c\x85\u2028\x1b\0\xe9"), max_size=12),
    st.sampled_from(
        [
            *("\n%setup\ntouch pwned\n", "%0A%25setup%0Aid%0A", "\nEND\n", "%0AEND%0A", "{{x}}", "${PIP_INDEX_URL}"),
            *("$(id)", "\nBootstrap: docker\n", "%0d%0a%25post"),
        ]
    ),
)


@settings(max_examples=300)
@given(
    name=_HOSTILE,
    version=_HOSTILE,
    build=_HOSTILE,
    folder=st.tuples(st.sampled_from(["https://h/", "file:///w/", "/w/", ""]), _HOSTILE),
    sha256=st.one_of(st.just(SHA), _HOSTILE),
    origin=_HOSTILE,
    python=st.tuples(st.sampled_from(["/usr", ""]), _HOSTILE),
)
def test_nothing_of_a_stranger_becomes_a_line_of_a_definition(
    name: str, version: str, build: str, folder: tuple[str, str], sha256: str, origin: str, python: tuple[str, str]
) -> None:
    """Whatever an index, a lock or a base says, the definition has its own lines and no others, or is not made."""
    base = Basis("", "x", "Bootstrap: docker\nFrom: x")
    locked = [Locked("greeting", "1.0", SHA, url="https://x.org/greeting-1.0-py3-none-any.whl")]
    usual = python_definition(base, "/usr/bin/python3", locked, ("pylock.toml", ""))
    for wheel in (
        (f"greeting{name}", "1.0", "https://h/greeting-1.0-py3-none-any.whl", SHA),
        ("greeting", f"1.0{version}", "https://h/greeting-1.0-py3-none-any.whl", SHA),
        ("greeting", "1.0", f"{''.join(folder)}/greeting-1.0-py3-none-any.whl", sha256),
        ("greeting", "1.0", f"{folder[0]}greeting-1.0-1{build}-py3-none-any.whl", SHA),
    ):
        with contextlib.suppress(ValueError):
            locked.append(locked_wheel(*wheel))
    lock = lock_text(locked, LINUX, base=origin)
    made_from = basis(replace(image(Path("/images"), REMOTE), origin=origin))
    try:
        text = python_definition(made_from, "".join(python), locked, ("pylock.toml", lock))
    except SifmodError:
        return
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.strip().startswith("%")] == ["%setup", "%files", "%post"]
    assert "{{" not in text
    others = [line for line in lines if line not in usual.split("\n")]
    ours = ("# Written by", "From: docker.io/", "    cp -- ", "    echo '", "        ", "    ")
    assert all(line.startswith(ours) for line in others)
    assert len(lines) == len(usual.split("\n")) + sum(1 for one in dict.fromkeys(one.path for one in locked) if one)


def test_a_base_with_tag_and_digest_is_named_by_its_digest() -> None:
    """Apptainer up to 1.3 refuses a reference with both, and `sifmod new` and `environment` pin with both."""
    remote = REMOTE.replace("python@", "python:3.11@")
    made_from = basis(replace(image(Path("/images"), REMOTE), uri=ImageUri.parse(remote)))
    assert made_from.header == f"Bootstrap: docker\nFrom: {REMOTE.partition('://')[2]}"
    assert made_from.identity == remote


@pytest.mark.parametrize(
    "line", ["%setup", "  %setup", "\t%Post x", "bootstrap: docker", "a {{ b }}", "a\rb", "a\x85b", "\u2028%setup"]
)
def test_a_definition_with_another_section_is_not_written(line: str) -> None:
    good = "Bootstrap: docker\nFrom: x\n\n%setup\n    :\n"
    assert last_look(good, sections=["%setup"]) == good
    with pytest.raises(SifmodError, match="more than it is meant to"):
        last_look(f"{good}{line}\n", sections=["%setup"])
