"""What `sifmod new` writes for a Dockerfile or a definition file, which it reads and does not run."""

import ast
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.container.dockerfile import Dockerfile
from sifmod.easyconfig.buildfile import BuildFile, base_comment, is_build_file, propose_build, read_build_file
from sifmod.easyconfig.text import easyconfig_text
from sifmod.errors import ImageError, ParameterError, SifmodError
from sifmod.fetch.registry import Registry

from ..support import a_site

DIGEST = f"sha256:{'5' * 64}"


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "digest", lambda _self: DIGEST)


def read(folder: Path, text: str, name: str = "Dockerfile") -> BuildFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_build_file(path)


def parameters(folder: Path, text: str, file: str = "Dockerfile", **more: Any) -> dict[str, Any]:
    proposal = propose_build(read(folder, text, file), a_site(), **more)
    # it must be possible to write them, and eb must read the same
    written = easyconfig_text(proposal.parameters, comments=[])
    values = {
        one.targets[0].id: ast.literal_eval(one.value)
        for one in ast.parse(written).body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id != "toolchain"
    }
    assert values == dict(proposal.parameters)
    return values


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("Dockerfile", True),
        ("Containerfile", True),
        ("samtools.Dockerfile", True),
        ("image.def", True),
        ("Singularity.samtools", True),
        ("Singularity", True),
        ("Definition.nbody", True),
        ("singularity.sif", False),
        ("tool.sif", False),
        (".dockerignore", False),
    ],
)
def test_names_of_such_files(tmp_path: Path, name: str, is_one: bool) -> None:
    (tmp_path / name).touch()
    assert is_build_file(tmp_path / name) is is_one
    assert not is_build_file(tmp_path / "gone" / name)


LABELS = "LABEL org.opencontainers.image.title=bwa org.opencontainers.image.version=0.7.17\n"


@pytest.mark.parametrize(
    ("file", "text", "name", "version"),
    [
        ("samtools-1.16.1.Dockerfile", f"FROM a/star:2\n{LABELS}", "bwa", "0.7.17"),
        ("samtools-1.16.1.Dockerfile", "FROM a/star:2\n", "samtools", "1.16.1"),
        ("Dockerfile.samtools", "FROM a/star:2\n", "samtools", "1.0"),
        ("Dockerfile", "FROM quay.io/biocontainers/star:2.7--h1\n", "star", "2.7"),
        ("Dockerfile", "FROM debian:12\n", "folder", "1.0"),
        ("Dockerfile", "FROM scratch\n", "folder", "1.0"),
        ("Definition.nbody-efficient", "Bootstrap: docker\nFrom: nvcr.io/nvidia/cuda:12\n", "nbody-efficient", "1.0"),
        # as AlphaFold has it
        ("docker/Dockerfile", "ARG CUDA=12.2.2\nFROM nvidia/cuda:${CUDA}-runtime-ubuntu20.04\n", "folder", "1.0"),
        ("image.def", "Bootstrap: docker\nFrom: a/star:2.7\n", "star", "2.7"),
        ("Singularity.bwa-0.7", "Bootstrap: docker\nFrom: debian:12\n", "bwa", "0.7"),
        ("image.def", "Bootstrap: localimage\nFrom: /x/bwa_0.7.sif\n", "bwa", "0.7"),
    ],
)
def test_name_and_version(tmp_path: Path, file: str, text: str, name: str, version: str) -> None:
    folder = (tmp_path / "folder" / file).parent
    folder.mkdir(parents=True)
    file = Path(file).name
    found = parameters(folder, text, file)
    assert (found["name"], found["version"]) == (name, version)
    assert found["definition"] == file
    chosen = parameters(folder, text, file, name="mine", version="7")
    assert (chosen["name"], chosen["version"]) == ("mine", "7")


WHOLE = """# escape=`
# a comment
ARG BASE=docker.io/library/debian:12
FROM ${BASE} AS build
ARG VERSION=1.16.1 TOKEN
COPY "greet.sh" *.txt /opt/
COPY ["data.tar", "/x"]
COPY --from=other/image:1 ../x /y
ADD https://example.org/x /x
RUN <<END
COPY no /x
ARG NOT
END
COPY <<A <<-B /opt/
FROM no
A
\tLABEL org.opencontainers.image.title=no
\tB
FROM build
ARG HTTP_PROXY TARGETARCH
LABEL org.opencontainers.image.title=samtools `
# between
    org.opencontainers.image.version="${VERSION}"
LABEL org.opencontainers.image.description Tools for alignments of sequences
ONBUILD COPY gone /x
ONBUILD ARG GONE
ENTRYPOINT ["/usr/bin/samtools"]
CMD ["--help"]
"""


def test_a_whole_dockerfile(tmp_path: Path) -> None:
    for name in ("greet.sh", "a.txt", "b.txt", "data.tar", "other"):
        (tmp_path / name).touch()
    found = parameters(tmp_path, WHOLE)
    assert (found["name"], found["version"]) == ("samtools", "1.16.1")
    assert found["definition_files"] == ["greet.sh", "a.txt", "b.txt", "data.tar"]
    assert found["build_args"] == {"TOKEN": ""}
    assert found["wrappers"] == ["samtools"]
    assert "Tools for alignments" in found["description"]
    image = read(tmp_path, WHOLE)
    assert (image.written, image.base) == ("${BASE}", "docker://docker.io/library/debian:12")
    notes: list[str] = []
    assert base_comment(image, a_site(), notes) == f"Base image: ${{BASE}}, which was {DIGEST}"
    assert f"write docker.io/library/debian@{DIGEST}" in notes[0]


def test_whole_names_of_commands_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    text = "FROM a/star:2\r\nLABEL org.opencontainers.image.title=bwa \\\r\n org.opencontainers.image.version=3\r\n"
    found = parameters(tmp_path, text)
    assert (found["name"], found["version"]) == ("bwa", "3")
    assert parameters(tmp_path, "FROM a/star:2\n", commands=["STAR", "STARlong"])["wrappers"] == ["STAR", "STARlong"]
    with pytest.raises(ParameterError, match="give whole names of commands"):
        parameters(tmp_path, "FROM a/star:2\n", commands=["STAR*"])


DEFINITION = """Bootstrap: docker
From: {{ BASE }}
Stage: build

%arguments
    BASE=nvcr.io/nvidia/cuda:12.4.1
    WORD = hello

%files
    greet.sh /opt/greet
    binary.bin
    sub/x /x

%post
    echo {{ WORD }} {{ TOKEN }}
    # Bootstrap
    COPY gone /x

Bootstrap: docker
From: {{ BASE }}:{{ TAG }}

%arguments
    BASE=nvcr.io/nvidia/cuda
    TAG=12.4.1

%files from build
    /opt/x /opt/x

%labels
    # a comment
    org.opencontainers.image.title samtools
    org.opencontainers.image.version\t1.16.1

%runscript
    exec /usr/bin/samtools "$@"
"""


def test_a_whole_definition_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("greet.sh", "sub/x"):
        (tmp_path / name).touch()
    (tmp_path / "binary.bin").write_bytes(b"\xff")
    found = parameters(tmp_path, DEFINITION, "image.def")
    assert (found["name"], found["version"]) == ("samtools", "1.16.1")
    assert found["definition_files"] == ["greet.sh"]
    assert found["build_args"] == {"TOKEN": ""}
    assert (found["wrappers"], found["gpu"]) == (["samtools"], "nvidia")
    proposal = propose_build(read(tmp_path, DEFINITION, "image.def"), a_site())
    assert "'binary.bin' is copied, but not kept with the installation: it is not text" in proposal.notes
    assert "image.def, line 12: 'sub/x' is copied, but not kept with the installation" in proposal.notes
    text = DEFINITION.replace("    TAG=12.4.1\n", "").replace("    WORD = hello\n", "    TAG=12.4.1\n")
    assert parameters(tmp_path, text, "image.def")["build_args"] == {"WORD": "", "TOKEN": "", "TAG": ""}


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("Dockerfile", "COPY gone /x", r"Dockerfile, line 2: 'gone' is not there"),
        ("Dockerfile", "COPY ../x /x", r"'\.\./x' is outside of the folder"),
        ("Dockerfile", "ADD a/../../x /x", r"is outside of the folder"),
        ("Dockerfile", "COPY sub /x", r"'sub' is a folder, and a build has only files: pack it as \.tar"),
        ("Dockerfile", "COPY sub/x /x", r"'sub/x' is in a folder"),
        ("Dockerfile", "COPY none* /x", r"'none\*' is not there"),
        ("Dockerfile", "COPY .hidden /x", r"a leading dot\. Rename it"),
        ("image.def", "%files\n/etc/passwd", r"'/etc/passwd' is outside of the folder"),
        ("image.def", "%files\n../x", r"'\.\./x' is outside of the folder"),
        ("image.def", "%files\ngone", r"image.def, line 3: 'gone' is not there"),
    ],
)
def test_what_can_not_be_copied_is_one_sentence(tmp_path: Path, file: str, line: str, said: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("sub/x", ".hidden"):
        (tmp_path / name).touch()
    head = "FROM a/star:2\n" if file == "Dockerfile" else "Bootstrap: docker\n"
    with pytest.raises(ImageError, match=said):
        propose_build(read(tmp_path, f"{head}{line}\n", file), a_site())


@pytest.mark.parametrize("file", ["x.Dockerfile", "image.def"])
@pytest.mark.parametrize("target", ["../id_x", "/proc/self/environ", "nested", "fifo"])
@pytest.mark.parametrize("written", ["settings.txt", "set*.txt"])
def test_a_link_out_of_the_folder_is_not_copied(tmp_path: Path, file: str, target: str, written: str) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    (tmp_path / "id_x").write_text("a key")
    (folder / "nested").symlink_to("../id_x")
    os.mkfifo(folder / "fifo")
    (folder / "settings.txt").symlink_to(target)
    text = {
        "x.Dockerfile": f"FROM a/star:2\nCOPY {written} /opt/\n",
        "image.def": f"Bootstrap: docker\nFrom: a/star:2\n%files\n{written} /opt/\n",
    }[file]
    said = "not a plain file" if target == "fifo" else "it leads out of its folder, to '/.*': put a copy there"
    with pytest.raises(ImageError, match=rf"{file}, line \d: '.*/settings.txt' can't be copied: {said}"):
        propose_build(read(folder, text, file), a_site())


def test_a_link_within_the_folder_and_what_a_mount_names_are_copied(tmp_path: Path) -> None:
    for name in ("uv.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    text = (
        "FROM a/star:2\nWORKDIR /app\nRUN --mount=type=cache,target=/root/.cache/uv \\\n"
        "  --mount=type=bind,source=uv.lock,target=uv.lock \\\n"
        "  --mount=type=bind,source=pyproject.toml,target=pyproject.toml \\\n"
        "  uv sync --locked\n"
    )
    assert parameters(tmp_path, text)["definition_files"] == ["uv.lock", "pyproject.toml"]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/real").touch()
    (tmp_path / "settings.txt").symlink_to("sub/real")
    assert parameters(tmp_path, "FROM a/star:2\nCOPY settings.txt /\n")["definition_files"] == ["settings.txt"]
    proposal = propose_build(read(tmp_path, "FROM a/star:2\nCOPY . /x\n"), a_site())
    assert "Dockerfile, line 2 copies a folder: add the files that it needs to definition_files" in proposal.notes


@pytest.mark.parametrize("name", [".dockerignore", "x.Dockerfile.dockerignore"])
def test_a_list_of_what_is_ignored_is_a_file_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/proc/self/environ")
    with pytest.raises(ImageError, match=f"{name}' can't be copied: it leads out of its folder"):
        propose_build(read(tmp_path, "FROM a/star:2\n", "x.Dockerfile"), a_site())


def test_the_file_itself_is_one_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM a\n")
    (tmp_path / "clone/Dockerfile").symlink_to("../Dockerfile")
    with pytest.raises(ImageError, match="can't be read: it leads out of its folder"):
        read_build_file(tmp_path / "clone/Dockerfile")


def test_a_folder_of_a_definition_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "clone/src/deep").mkdir(parents=True)
    (tmp_path / "id_x").write_text("a key")
    text = "Bootstrap: docker\nFrom: a/star:2\n%files\nsrc /opt\n"
    (tmp_path / "clone/src/deep/inside").symlink_to("../..")
    propose_build(read(tmp_path / "clone", text, "image.def"), a_site())
    (tmp_path / "clone/src/deep/x").symlink_to("../../../id_x")
    with pytest.raises(ImageError, match=r"image\.def, line 4: '.*/src/deep/x' can't be copied: it leads out"):
        propose_build(read(tmp_path / "clone", text, "image.def"), a_site())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it has no instruction FROM"),
        (b"RUN true\n", "it has no instruction FROM"),
        (b"FROM a\0b\n", "it is not text"),
        (b"FROM \xff\n", "it is not text in UTF-8"),
        (b"FROM a\n" * 100_000, "it has more than 128 KiB"),
    ],
)
def test_what_is_no_dockerfile_is_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "Dockerfile"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=said):
        read_build_file(path)


def test_what_is_no_build_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"it has no line 'Bootstrap: \.\.\.'"):
        read(tmp_path, "%post\n", "image.def")
    os.mkfifo(tmp_path / "Dockerfile")
    assert not is_build_file(tmp_path / "Dockerfile")
    with pytest.raises(ImageError, match="can't be read"):
        read_build_file(tmp_path / "Dockerfile")


@pytest.mark.parametrize(
    ("started", "wrappers"),
    [
        ('ENTRYPOINT ["/bin/bash", "-c", "x"]', []),
        ("CMD python3 -m x", []),
        ("ENTRYPOINT tool --flag", ["tool"]),
        ('ENTRYPOINT "tool"', ["tool"]),
        ('ENTRYPOINT ["env"]\nCMD ["tool"]', ["tool"]),
        ('ENTRYPOINT ["$X"]', []),
        ("ENTRYPOINT []", []),
        ("ENTRYPOINT 'not closed", []),
        (f"ENTRYPOINT {'[' * 50_000}", []),
    ],
)
def test_the_command_that_the_image_starts(tmp_path: Path, started: str, wrappers: list[str]) -> None:
    assert parameters(tmp_path, f"FROM a/star:2\n{started}\n")["wrappers"] == wrappers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"FROM a/b@{DIGEST}\n", f"Base image: a/b@{DIGEST}"),
        ("FROM scratch\n", ""),
        ("FROM ${X}\n", ""),
    ],
)
def test_a_base_that_needs_no_digest_or_has_none(tmp_path: Path, text: str, said: str) -> None:
    notes: list[str] = []
    assert base_comment(read(tmp_path, text), a_site(), notes) == said
    assert notes == (["the base image ${X} depends on a build argument"] if "$" in text else [])


@pytest.mark.parametrize(
    "line", [f"COPY {'[' * 50_000}", f"COPY --from={'9' * 9_000} /a /b", "COPY [1, null]", "COPY {}"]
)
def test_copies_that_no_builder_would_make(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, f"FROM a\n{line}\n").base == "docker://a"


@pytest.mark.parametrize(
    "text",
    [
        "RUN <<A\n" * 100_000,
        "ARG " + " ".join(f"a{number}=$b" for number in range(100_000)) + "\n",
        "FROM a AS b\nCOPY --from=9 a b\n" * 20_000,
        "LABEL " + "a=b \\\n" * 100_000 + "a=b\n",
        "COPY --from=" + "9" * 100_000 + " a b\n",
    ],
    ids=lambda text: text[:8],
)
def test_a_hostile_dockerfile_takes_no_long_time(text: str) -> None:
    begin = time.process_time()
    found = Dockerfile("Dockerfile", f"{text}FROM a\n", {})
    assert found.images
    assert time.process_time() - begin < 30


WORDS = (
    *("FROM", "ARG", "LABEL", "COPY", "ADD", "RUN", "ONBUILD", "ENTRYPOINT", "CMD", "ENV", "#", "escape=`", "syntax=x"),
    *("a", "debian:12", "${A:-b}", "${A", "$A", "A=1", "A", "AS", "b", "--from=b", "--from=0", "--platform=x", ".."),
    *("/", "\n", "\n", "\n", "\\\n", "`\n", "\r\n", "<<A", "<<-'A'", "A\n", '["a", "b"]', "[", "'", '"', "*"),
    *("\u2028", "\t", "Bootstrap: docker", "From: a", "%files", "%labels", "%arguments", "%runscript", "{{ A }}"),
    *("{{", "Registry: x"),
)


@given(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=40), st.sampled_from(["Dockerfile", "image.def"])
)
@settings(max_examples=300)
def test_whatever_is_in_a_file_it_is_read_or_one_sentence(tmp_path: Path, words: list[str], name: str) -> None:
    text = "FROM a\n" * (name == "Dockerfile") + "Bootstrap: x\n" * (name == "image.def") + " ".join(words)
    try:
        found = parameters(tmp_path, text.encode("utf-8", "replace").decode(), name)
        base_comment(read_build_file(tmp_path / name), a_site(), [])
    except SifmodError as error:
        assert str(error)  # noqa: PT017 - not every file is refused
        return
    for one in found.get("definition_files", []):
        assert (tmp_path / one).is_file()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9.]{0,8}", fullmatch=True), st.text("ab c=", max_size=6), min_size=1, max_size=30
    ),
    st.lists(st.sampled_from([" ", " \\\n", " \\\n# comment\n", " \\\n\n"]), min_size=30, max_size=30),
)
@settings(max_examples=100)
def test_labels_are_the_same_on_however_many_lines(tmp_path: Path, labels: dict[str, str], gaps: list[str]) -> None:
    pairs = [f'{key}="{value}"' for key, value in labels.items()]
    text = "FROM a\nLABEL " + "".join(f"{pair}{gap}" for pair, gap in zip(pairs, gaps)).rstrip("\\\n# coment") + "\n"
    assert read(tmp_path, text).labels == {key: value for key, value in labels.items() if value}
