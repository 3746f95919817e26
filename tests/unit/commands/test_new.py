"""`sifmod new`: files, notes and refusals."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.cli import cli
from sifmod.errors import ImageError, ParameterError, SifmodError
from sifmod.fetch.registry import Registry
from sifmod.fetch.uri import ImageUri

from ..imagetrees import write
from ..support import a_runner

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda *words: a_runner().invoke(cli, ["new", *map(str, words)])


NAME = "Python-3.11-singularity-20231114.eb"


def test_the_file_is_written_here_and_the_next_command_named(call: Call, image: Path, tmp_path: Path) -> None:
    result = call(image)
    assert result.exit_code == 0, result.output
    text = (tmp_path / NAME).read_text()
    assert "\nsources = ['demo.sif']\n" in text
    assert "\nvenv = 'python'\n" in text
    assert result.stdout.splitlines() == [
        f"wrote {NAME}",
        f"install it with: eb --sourcepath={image.parent} {NAME}",
    ]


def test_beside_the_image_eb_needs_no_option(call: Call, image: Path, tmp_path: Path) -> None:
    (tmp_path / "demo.sif").symlink_to(image)
    assert f"install it with: eb {NAME}" in call("demo.sif").stdout


@pytest.mark.parametrize("there", [True, False])
def test_a_shell_without_eb_is_told_what_to_load(
    call: Call, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    (tmp_path / "bin").mkdir()
    if there:
        write(tmp_path, "bin/eb").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    note = "note: there is no command eb in this shell: load EasyBuild's module, or activate its environment, first"
    assert (note in call(image).stderr) is not there


def test_an_image_for_other_processors_is_noted(call: Call, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    result = call(image)
    assert result.exit_code == 0
    assert "note: the image is for arm64, and this host is riscv64: install it on a host of that kind" in result.stderr


def test_nothing_is_overwritten_without_force(call: Call, image: Path, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("mine")
    result = call(image)
    assert isinstance(result.exception, SifmodError)
    assert "--force" in str(result.exception)
    assert (tmp_path / NAME).read_text() == "mine"
    assert call(image, "--force").exit_code == 0
    assert "demo.sif" in (tmp_path / NAME).read_text()


def test_output_is_a_file_a_directory_or_standard_output(call: Call, image: Path, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    call(image, "--output", "configs")
    call(image, "--output", "other.eb", "--name", "other", "--version", "2")
    assert "name = 'other'" in (tmp_path / "other.eb").read_text()
    shown = call(image, "-o", "-").stdout
    assert shown == (tmp_path / "configs" / NAME).read_text()
    found = json.loads(call(image, "--json").stdout)
    assert found["file"] == NAME
    assert found["parameters"]["python_prefix"] == "/usr"
    assert found["text"] == (tmp_path / NAME).read_text()


def test_like_another(call: Call, image: Path, tmp_path: Path) -> None:
    write(
        tmp_path,
        "other.eb",
        "easyblock = 'ContainerImage'\nname = 'Mine'\nvenv = 'ours'\nlocal_x = '/a'\nbinds = [local_x]\ngpu = 'amd'\n",
    )
    result = call(image, "--like", "other.eb", "-o", "-")
    assert "name = 'Mine'" in result.stdout
    assert "venv = 'ours'" in result.stdout
    assert "gpu = ''" in result.stdout
    assert "note: binds was not taken over, because other.eb computes it" in result.stderr


@pytest.mark.parametrize("words", [["--name", "../../x"], ["--version", "1/2"]])
def test_a_wrong_name_is_refused(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where no runtime is
    result = call("docker://127.0.0.1:9/x/y", *words)
    assert isinstance(result.exception, ParameterError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.sif"], "can't be read"),
        (["no-scheme:x"], "neither a file nor the URI of an image"),
        (["dokcer://x/y"], "perhaps you meant 'docker'"),
        (["nvcr.io/nvidia/pytorch:24.03-py3"], "perhaps you meant 'docker://nvcr.io/nvidia/pytorch:24.03-py3'"),
        (["debian:12"], "perhaps you meant 'docker://debian:12'"),
        (["docker://user:pw@x/y"], "credentials do not belong"),
        (["."], "neither an image nor user software"),
    ],
)
def test_what_is_no_image_is_refused(call: Call, tmp_path: Path, words: list[str], said: str) -> None:
    result = call(*words)
    assert isinstance(result.exception, ImageError)
    assert said in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_image_or_no_utf_8_is_one_sentence(call: Call, image: Path, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"b\xffd.sif")
    path.symlink_to(image)
    result = call(path)
    assert isinstance(result.exception, ImageError)
    assert "is not UTF-8" in str(result.exception)
    assert not list(tmp_path.glob("*.eb"))
    result = call()
    assert (result.exit_code, "Missing argument 'IMAGE|URI|DOCKERFILE'" in result.stderr) == (2, True)


@pytest.fixture
def dockerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Registry, "digest", lambda _self: f"sha256:{'5' * 64}")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "greet.sh").touch()
    path = tmp_path / "tools" / "samtools-1.9.Dockerfile"
    path.write_text("FROM debian:12\nCOPY greet.sh /\n")
    return path


def test_an_easyconfig_is_written_beside_a_dockerfile(call: Call, dockerfile: Path) -> None:
    result = call("tools/samtools-1.9.Dockerfile")
    assert result.exit_code == 0, result.output
    text = (dockerfile.parent / "samtools-1.9.eb").read_text()
    assert f"# Base image: debian:12, which was sha256:{'5' * 64}\n" in text
    assert "\ndefinition = 'samtools-1.9.Dockerfile'\ndefinition_files = ['greet.sh']\n" in text
    assert result.stdout.splitlines() == [
        "wrote tools/samtools-1.9.eb",
        "install it with: eb tools/samtools-1.9.eb",
    ]
    assert "note: debian:12 may be another image tomorrow" in result.stderr
    assert json.loads(call(dockerfile, "--json", "--force").stdout)["text"] == text
    assert call(dockerfile, "-o", "-").stdout == text
    assert isinstance(call(dockerfile).exception, SifmodError)
    assert call(dockerfile, "-o", "tools", "--force").exit_code == 0
    assert call(dockerfile, "-o", "tools/other.eb").exit_code == 0


def test_an_easyconfig_elsewhere_would_not_find_its_dockerfile(call: Call, dockerfile: Path, tmp_path: Path) -> None:
    result = call(dockerfile, "-o", tmp_path / "x.eb")
    assert result.exit_code == 2
    assert "eb looks for samtools-1.9.Dockerfile beside the easyconfig" in result.stderr
    assert not (tmp_path / "x.eb").exists()


@pytest.mark.parametrize("text", ["docker://x\udcff", "oci-archive:/a\udcff.tar"])
def test_a_uri_that_is_no_utf8_is_one_sentence(call: Call, text: str) -> None:
    result = call(text)
    assert isinstance(result.exception, ImageError)
    assert "not UTF-8" in str(result.exception)


@given(st.text(max_size=12).map(lambda text: "docker://" + text) | st.text(max_size=20))
@settings(max_examples=100)
def test_whatever_is_typed_as_a_uri_is_one_or_is_refused(text: str) -> None:
    try:
        uri = ImageUri.parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - not every text is refused
        return
    assert uri.file_name.endswith(".sif")
    assert "/" not in uri.file_name
