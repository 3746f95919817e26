import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sifmod.container.bind import Bind, escape

from ..support import split_binds

# Everything that a path may hold but what the runtime can't be told: backslashes, '^', control characters, and white
# space at an end. A source may have one comma or colon besides, without white space beside it.
CHARACTERS = st.characters(exclude_characters="\\^,:", exclude_categories=["Cs"], min_codepoint=32)
PATHS = (
    st.text(CHARACTERS | st.sampled_from("' "), max_size=40)
    .map(lambda text: "/" + text.strip())
    # Hypothesis reads constants in the source under test, and these are refused
    .filter(lambda path: "runscripts" not in path and "user-software" not in path)
)
SOURCES = PATHS | st.builds(
    lambda path, separator, name: path + separator + name[1:], PATHS, st.sampled_from(",:"), PATHS
)
OPTIONS = st.sampled_from(["", "ro", "rw", "image-src=/", "ro,image-src=/a b", "ro,id=2"])
BINDS = st.builds(Bind, SOURCES, PATHS, OPTIONS)


@given(BINDS)
@example(Bind("/a,b", "/d", "ro"))
@example(Bind("/a:b", "/d", ""))
@example(Bind("/a b'\"$`é☃", "/a b'\"$`é☃", ""))
@example(Bind("/same", "/same", "ro"))
@example(Bind("/", "/", ""))
def test_the_argument_of_a_bind_is_read_back_as_the_same_bind(bind: Bind) -> None:
    assert Bind.parse(bind.argument) == bind
    assert str(bind) == bind.argument


@given(st.lists(BINDS, min_size=1, max_size=6))
def test_the_runtime_reads_a_list_of_arguments_as_the_same_binds(binds: list[Bind]) -> None:
    read = split_binds(",".join(bind.argument for bind in binds))
    assert read == [(bind.source, bind.destination, bind.options) for bind in binds]


@given(st.lists(BINDS, max_size=6))
def test_a_list_of_arguments_is_read_back_as_the_same_binds(binds: list[Bind]) -> None:
    assert Bind.parse_list(",".join(bind.argument for bind in binds)) == tuple(binds)


def test_empty_elements_and_a_destination_that_is_the_source_are_left_out() -> None:
    assert Bind.parse_list(",/a,,/b:/c:ro,rw,") == (Bind("/a", "/a"), Bind("/b", "/c", "ro,rw"))
    assert Bind.parse_list("") == ()
    assert Bind("/data", "/data").argument == "/data"


@pytest.mark.parametrize("text", ["ro", "ro,/a", "/a,relative", "/a:/b,bogus=1", "/a,ro"])
def test_a_list_with_something_else_in_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Bind.parse_list(text)


@pytest.mark.parametrize("option", ["bogus", "noexec", "image-src=relative", "id=x", "RO", " ro", ""])
def test_an_option_that_the_runtime_does_not_have_is_refused_with_those_that_it_has(option: str) -> None:
    with pytest.raises(ValueError, match="use ro, rw, image-src=PATH or id=NUMBER") as caught:
        Bind.parse(f"/a:/b:ro,{option}")
    assert f"'{option}'" in str(caught.value)


@given(PATHS)
def test_a_path_alone_is_seen_at_the_same_place(path: str) -> None:
    bind = Bind.parse(escape(path))
    assert (bind.source, bind.destination, bind.options) == (path, path, "")
    assert bind.argument == escape(path)


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("", "''", "begin it with '/'"),
        ("data", "'data'", "begin it with '/'"),
        ("~/data", "'~/data'", "begin it with '/'"),
        ("$HOME/data:/data", "'$HOME/data'", "begin it with '/'"),
        ("/data:there", "'there'", "begin it with '/'"),
        ("/data:", "the destination ''", "begin it with '/'"),
        ("/data::ro", "the destination ''", "begin it with '/'"),
        (":/data", "the source ''", "begin it with '/'"),
        ("/a:/b:ro:/c", "source[:destination[:options]]", r"colons inside a path as '\:'"),
        ("/a,/b", "one bind path per list element", r"commas inside a path as '\,'"),
        ("/a:/b,/c", "one bind path per list element", r"commas inside a path as '\,'"),
        ("/a\\b", "backslash", "rename it"),
        ("/a:/b\n", "control character", "rename it"),
        ("/a\x00", "control character", "rename it"),
        ("/a ", "'/a '", "rename it"),
        ("/a :/b", "'/a '", "rename it"),
        (r"/a\, b:/c", "'/a, b'", "rename it"),
        (r"/a:/b \,c", "'/b ,c'", "rename it"),
        (r"/a:/b\,c", "'/b,c'", "another destination"),
        (r"/a:/b\:c:ro", "'/b:c'", "another destination"),
        (r"/a\,b:/a\,b:ro", "'/a,b'", "another destination"),
        (r"/a\,b", "'/a,b'", "another destination"),
        (r"/a\,b\,c:/d", "'/a,b,c'", "rename it"),
        (r"/a\,b\:c:/d", "'/a,b:c'", "rename it"),
        (r"/a\: b:/d", "'/a: b'", "rename it"),
        ("/a^b:/d", "'/a^b'", "rename it"),
    ],
)
def test_what_is_no_bind_path_is_refused_with_the_problem_and_the_remedy(text: str, problem: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Bind.parse(text)
    assert problem in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("text", ["/a:/b:ro,/etc", "/a:/b:ro,/etc:/x", "/a:/b:ro\n", "/a:/b:ro,"])
def test_options_can_not_smuggle_in_a_second_bind(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Bind.parse(text)


@given(st.text(max_size=30))
def test_whatever_is_accepted_is_one_absolute_bind_for_the_runtime(text: str) -> None:
    try:
        bind = Bind.parse(text)
    except ValueError:
        return
    assert bind.source.startswith("/")
    assert bind.destination.startswith("/")
    assert split_binds(bind.argument)[0][:2] == (bind.source, bind.destination)
