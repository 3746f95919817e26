"""Definition files: what is read in one, as Apptainer 1.4.5 reads it."""

from typing import Optional

import pytest

from sifmod.container.definitionfile import Stage, stages_of


def stage(text: str, build_args: Optional[dict[str, str]] = None) -> Stage:
    (found,) = stages_of(text, build_args or {})
    return found


TWO_STAGES = """# a comment
Bootstrap: docker
From: {{ BASE }}
Stage: build

%arguments
    BASE = debian:{{ TAG }}
    # TAG=1
    TAG=12

%post
    bootstrap: docker
    echo {{ WORD }} {{ BASE }}

bootstrap:docker
From: {{ BASE }}

%Files
    a.txt /opt
%files from build
    /opt/x /opt/x
%files
    # b.txt
    {{ BASE }}.txt
"""


def test_each_stage_has_its_own_arguments_and_sections() -> None:
    first, last = stages_of(TWO_STAGES, {})
    assert (first.agent, first.base, first.header["stage"]) == ("docker", "debian:12", "build")
    assert first.unset_arguments == ("WORD",)
    assert (last.base, last.unset_arguments) == ("", ("BASE",))
    first, last = stages_of(TWO_STAGES, {"BASE": "a/b:{{ TAG }}", "TAG": "13"})
    assert (first.base, last.base) == ("a/b:13", "a/b:13")
    assert last.unset_arguments == ()
    last = stages_of(TWO_STAGES, {"BASE": "b"})[-1]
    assert list(last.section("files")) == [(19, "a.txt /opt"), (24, "b.txt")]
    assert stages_of("FROM a\n%post\n bootstrap: x\n", {}) == ()


@pytest.mark.parametrize(
    ("section", "copied"),
    [
        ("%files\n a.txt /opt\n# b\n c", ["a.txt", "c"]),
        ('%files\n "a b.txt" /opt', ["a b.txt"]),
        ("%files\n a~b#1,[x]*?.txt:\t/opt", ["a~b#1,[x]*?.txt:"]),
        ("%%files\n a", ["a"]),
        ("%appfiles x\n a b", ["a"]),
        ("%arguments\n s=%files\n%post\n {{ s }}\n a", ["a"]),
        ("%files\n {{ unset }}/x /opt", []),
        *((f"%files\n {one} /opt", [""]) for one in ("$(id>x)", "`id`", "s{a,b}", "s${x}", '"s{a,b}"', "s\\a", "s;a")),
        *(
            (f"%files\n {one} /opt", [""])
            for one in ('s""x', "s''x", "'s'x", '"a"b', '"a', "~/x", "-t/x", '"-t/x"', "@(s)")
        ),
        (f"%arguments\n x={'./' * 600}a\n%files\n {{{{ x }}}} /opt", [""]),
    ],
)
def test_what_is_copied_is_told_as_the_runtime_sees_it(section: str, copied: list[str]) -> None:
    assert [source for _number, source in stage(f"Bootstrap: docker\nFrom: a\n{section}\n").copied()] == copied


@pytest.mark.parametrize(
    ("header", "base"),
    [
        ("Bootstrap: docker\nFrom: a", "a"),
        ("  Bootstrap : docker\r\n  FROM : a:1 # the base\r\n", "a:1"),
        ("Bootstrap: docker\nFrom: a.org/\\\n    b", "a.org/b"),
        ("Bootstrap: docker\n# of \\\nFrom: a", "a"),
        ("Bootstrap: docker\nRegistry: a.org\nNamespace: b\nFrom: c", "a.org/b/c"),
        ("Bootstrap: docker\nRegistry: {{ X }}\nFrom: c", ""),
        ("Bootstrap: oras\nRegistry: a.org\nFrom: c", "c"),
        ("Bootstrap: localimage\nFrom: /a b/c.sif", "/a b/c.sif"),
        ("Bootstrap: docker", ""),
        ("Bootstrap: docker\n%post\nFrom: a", ""),
    ],
)
def test_the_header_names_the_base(header: str, base: str) -> None:
    assert stage(header).base == base


def test_a_long_value_is_not_multiplied() -> None:
    values = f"%arguments\nA={'x' * 2_000}\nB={'{{A}}' * 100}\nC={'x' * 900}\nD={'{{C}}' * 100}\n"
    found = stage(f"Bootstrap: docker\nFrom: {'{{A}}{{B}}{{D}}' * 100}\n{values}")
    assert len(found.header["from"]) < 100_000
    assert found.base == ""
