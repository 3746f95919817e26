"""Dockerfiles: which files are some, and what is read in one."""

from typing import Any, Optional

import pytest

from sifmod.container.dockerfile import Dockerfile, is_dockerfile
from sifmod.errors import ParameterError


@pytest.mark.parametrize(
    "name",
    [
        "Dockerfile",
        "Containerfile",
        "dockerfile",
        "nbody-12.4.1.Dockerfile",
        "nbody.Containerfile",
        "Dockerfile.nbody",
        "Dockerfile.nbody-efficient",
    ],
)
def test_a_dockerfile_is_known_by_its_name(name: str) -> None:
    assert is_dockerfile(name)


@pytest.mark.parametrize(
    "name",
    ["image.def", "Definition.nbody", "Singularity", ".dockerignore", "Dockerfile.dockerignore", "MyDockerfile", ""],
)
def test_other_files_are_none(name: str) -> None:
    assert not is_dockerfile(name)


def dockerfile(text: str, build_args: Optional[dict[str, str]] = None) -> Dockerfile:
    return Dockerfile("Dockerfile", text, build_args or {})


def test_instructions_go_over_lines_and_comments_do_not_count() -> None:
    found = dockerfile(
        "# syntax=docker/dockerfile:1\n\nFROM \\\n  # the base\n\n  debian:12 \\\n  AS base\n"
        "run echo \\\n  FROM x\nRUN echo # y\n"
    ).instructions
    assert [(one.keyword, one.rest) for one in found] == [
        ("FROM", "debian:12 AS base"),
        ("RUN", "echo FROM x"),
        ("RUN", "echo # y"),
    ]
    assert (found[0].first, found[0].last) == (2, 6)


def test_heredocs_and_escapes_are_no_instructions() -> None:
    text = (
        "FROM a\nRUN <<EOF cat >/x\nFROM b\nEOF\nCOPY <<-'END' /y\nFROM c\n\tEND\nRUN echo $((1 << 2)) << 3\nFROM d\n"
    )
    assert list(dockerfile(text).images) == ["a", "d"]
    assert list(dockerfile("FROM a\nRUN cat <<EOF\nFROM b\n").images) == ["a", "b"]
    assert list(dockerfile("# escape=`\nFROM `\n  a\\b`\n  :1\n").images) == ["a\\b"]


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM debian", {"debian": "debian"}),
        ("FROM --platform=linux/amd64 debian AS x", {"debian": "debian"}),
        ("FROM debian AS debian\nFROM debian AS x\nFROM X", {"debian": "debian"}),
        ("FROM scratch\nCOPY --from=busybox:1 /a /a", {"busybox:1": "busybox:1"}),
        ("FROM a AS one\nFROM b\nCOPY --from=one --chown=1 /a /a\nCOPY --from=0 /a /a", {"a": "a", "b": "b"}),
        ("FROM a\nRUN --mount=type=bind,from=c:2,target=/c ls", {"a": "a", "c:2": "c:2"}),
        ("ARG V=1\nFROM a:$V", {"a:$V": "a:1"}),
        ("ARG V=1\nARG W=${V}.2\nFROM a:${W}-b", {"a:${W}-b": "a:1.2-b"}),
        ("ARG V\nFROM a:${V:-3}", {"a:${V:-3}": "a:3"}),
        ("ARG V=1\nARG V\nFROM a:$V", {"a:$V": "a:1"}),
        ("ARG V=1\nFROM a${V:+:new}", {"a${V:+:new}": "a:new"}),
        ("ARG GIVEN=1 X='a b'\nFROM a:${GIVEN}", {"a:${GIVEN}": "a:9"}),
        ("FROM a:${TARGETARCH}", {"a:${TARGETARCH}": ""}),
        ("ARG V=1\nFROM a:${V%%.*}", {"a:${V%%.*}": ""}),
        ("FROM a\nARG V=1\nFROM b:${V}", {"a": "a", "b:${V}": ""}),
    ],
)
def test_the_images_that_it_needs_are_known(text: str, images: dict[str, str]) -> None:
    assert dockerfile(text, {"GIVEN": "9"}).images == images


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("FROM --platform=linux/amd64 debian AS x", "debian"),
        ("FROM a AS one\nFROM b AS two\nFROM ONE", "a"),
        ("FROM a AS a\nFROM A", "a"),
        ("FROM one\nFROM b AS one", "b"),
        ("FROM Scratch", ""),
        ("FROM", ""),
        ("RUN true", ""),
    ],
)
def test_the_image_below_the_last_stage(text: str, base: str) -> None:
    assert dockerfile(text).base == base


def test_arguments_may_have_a_value_in_one_of_their_places() -> None:
    found = dockerfile("ARG A B='b c'\nFROM a\nARG A=\nARG B C\nRUN ARG D\n")
    assert found.arguments == {"A": True, "B": True, "C": False}


def test_references_are_written_in_the_place_of_images() -> None:
    text = (
        "ARG V=1\nFROM --platform=linux/amd64 \\\n  a:${V} AS a\nRUN echo a:${V}\nFROM debian\n"
        "COPY --chown=1 --from=busybox:1 /busybox:1 /x\nRUN --mount=type=bind,from=c,target=/c ls c\n"
    )
    references = {"a:${V}": "a@sha256:1", "busybox:1": "b@sha256:2", "c": "c@sha256:3", "debian": ""}
    assert dockerfile(text).as_built(references) == (
        "ARG V=1\nFROM --platform=linux/amd64 a@sha256:1 AS a\nRUN echo a:${V}\nFROM debian\n"
        "COPY --chown=1 --from=b@sha256:2 /busybox:1 /x\nRUN --mount=type=bind,from=c@sha256:3,target=/c ls c\n"
    )


@pytest.mark.parametrize(
    ("before", "flag", "built"),
    [
        ("WORKDIR /app", "type=bind,source=uv.lock,target=uv.lock", "type=bind,source=uv.lock,target=/app/uv.lock"),
        ("WORKDIR /app\nWORKDIR sub", "source=x,dst=x", "source=x,dst=/app/sub/x"),
        ('WORKDIR "/a"', "type=cache,destination=.cache/uv", "type=cache,destination=/a/.cache/uv"),
        ("WORKDIR /a", "type=bind,source=x,target=/x", "type=bind,source=x,target=/x"),
        ("WORKDIR /a", "type=bind,source=x,target=${X}/x", "type=bind,source=x,target=${X}/x"),
        ("WORKDIR /a", "type=secret,id=target=x", "type=secret,id=target=x"),
        ("WORKDIR /a", "from=img,source=x,target=x", "from=img@sha256:1,source=x,target=/a/x"),
        ("WORKDIR /a\nFROM b AS c\nWORKDIR /c\nFROM c", "source=x,target=x", "source=x,target=/c/x"),
    ],
)
def test_targets_of_mounts_are_absolute_for_old_builders(before: str, flag: str, built: str) -> None:
    text = f"FROM a AS a\n{before}\nRUN --mount=type=tmpfs,target=/t \\\n  # why\n  --mount={flag} \\\n"
    text += "  echo 'a  \\\n  b' target=x\n"
    dockerfile(text).check(target="", files=["x", "uv.lock"])
    assert dockerfile(text).as_built({"img": "img@sha256:1"}) == text.replace(f"--mount={flag}", f"--mount={built}")


@pytest.mark.parametrize("before", ["", "WORKDIR sub\n", "WORKDIR $X\n", "WORKDIR /a\nFROM b\n"])
def test_a_target_relative_to_the_folder_of_an_image_is_refused(before: str) -> None:
    text = f"FROM a\n{before}RUN --mount=source=x,target=y ls\n"
    with pytest.raises(
        ParameterError, match=r"line \d: the mount target 'y' is relative, and only the base image knows"
    ):
        dockerfile(text).check(target="", files=["x"])


def test_heredocs_and_mounts_are_known() -> None:
    assert not dockerfile("FROM a\nRUN --network=none mount --mount=x\n").mount
    assert dockerfile("FROM a\n\nRUN --network=none --mount=target=/x ls\n").mount == "line 3, RUN --mount=target=/x"
    assert not dockerfile("FROM a\nRUN echo '<<EOF' $((1<<2)) <<<EOF\nENV X=<<EOF\n").heredoc
    assert dockerfile("FROM a\n\nCOPY <<-'EOF' /x\nEOF\n").heredoc == "line 3, COPY <<-'EOF' /x"


GOOD = """ARG V=1
FROM a AS one
ARG W
COPY data.txt ./data.txt /other.* /opt/
COPY . /opt
COPY --from=x ../../etc /etc
RUN --mount=type=bind,src=data.txt,target=/x --mount=from=x,source=y,target=/y --mount=type=cache,target=/c ls
RUN --mount=target=/all ls
COPY ["data.txt", "/a b/"]
COPY ${WHAT} /opt
COPY <<EOF /opt/x
COPY nothing /opt
EOF
ADD https://example.org/x.tar git@example.org:x /opt/
FROM one AS Two
"""


@pytest.mark.parametrize("target", ["", "one", "TWO", "0", "1"])
def test_what_can_be_built_is_let_through(target: str) -> None:
    build_args = {"V": "2", "W": "3", "http_proxy": "x", "TARGETARCH": "amd64"}
    dockerfile(GOOD, build_args).check(target=target, files=["data.txt", "other.c", "Dockerfile"])


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "the file has no instruction FROM: correct it"),
        ("Bootstrap: docker\nFrom: debian\n", {}, "no instruction FROM: correct it. A definition file has another"),
        ("FROM a\nCOPY x ../y /opt/\n", {}, "line 2, COPY x: the build context has no such file, only data.txt"),
        ("FROM a\n\nCOPY ../y /opt/\n", {}, "line 3, COPY ../y: this is outside of the build context"),
        ("FROM a\nADD sub/../../y /opt/\n", {}, "line 2, ADD sub/../../y: this is outside of the build context"),
        ("FROM a\nCOPY src/ /opt/\n", {}, "ADD unpacks a folder that is packed as .tar"),
        (
            "FROM a\nRUN --mount=source=x,target=/x ls\n",
            {},
            "line 2, RUN --mount of x: the build context has no such file",
        ),
        ("FROM a\nCOPY *.c /opt/\n", {}, "COPY *.c: the build context has no such file"),
        ("FROM a AS one\n", {"target": "on"}, "'build_target' = 'on': Dockerfile has no stage of this name: use one"),
        ("FROM a\n", {"target": "x"}, "use its number, 0 to 0"),
        ("FROM a\n", {"build_args": {"V": "1"}}, "'build_args' = 'V': Dockerfile has no ARG of this name: it has none"),
        ("ARG VERSION\nFROM a\n", {"build_args": {"VERSON": "1"}}, "perhaps you meant 'VERSION'"),
    ],
)
def test_what_nothing_would_build_is_refused(text: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        dockerfile(text, options.get("build_args")).check(target=options.get("target", ""), files=["data.txt"])
    assert said in str(caught.value)


@pytest.mark.parametrize("line", ["COPY . /app", "ADD * /app", "COPY ./ /app", "RUN --mount=target=/app make -C /app"])
def test_a_folder_without_files_is_not_copied(line: str) -> None:
    """A build of it would succeed, with nothing in the image."""
    found = dockerfile(f"FROM a\n{line}\n")
    with pytest.raises(ParameterError, match=r"line 2, .*: the build context has nothing but the Dockerfile"):
        found.check(target="", files=["Dockerfile", ".dockerignore"])
    found.check(target="", files=["Dockerfile", "data.txt"])


@pytest.mark.parametrize(
    "text",
    [
        "FROM oci-archive:/home/x/a.tar",
        "FROM dir:/home/x",
        "FROM dir:home/x AS y",
        "FROM containers-storage:[overlay@/home/x]a",
        "ARG A=oci-archive:\nARG B\nFROM $A/home/x/a.tar$B",
        "FROM oci-archive:/home/x/a-$TARGETARCH.tar",
        "FROM a\nCOPY --from=oci-archive:/home/x/a.tar /x /x",
        "FROM a\nRUN --mount=type=bind,from=dir:/home/x,target=/x ls /x",
    ],
)
def test_an_image_that_is_a_file_of_this_host_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="is a place on this host: name an image of a registry"):
        _ = dockerfile(text).images


@pytest.mark.parametrize("base", ["oci:5000/a/b", "dir:5000/a:1", "sif:1", "localhost:5000/a", "a.org/dir:1", "$X/a"])
def test_an_image_of_a_registry_may_have_such_a_name(base: str) -> None:
    assert list(dockerfile(f"FROM {base}").images) == [base]
