import os
import re
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name
from tests.programs import write_file

from sifmod.environment import requirements
from sifmod.environment.requirements import Requirements, read_pyproject, read_requirements
from sifmod.errors import SifmodError

HASH = "sha256:" + "0" * 64


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "my wheels" / "greeting-1.0-py3-none-any.whl"
    path.parent.mkdir()
    path.touch()
    return path


def read(folder: Path, text: str) -> Requirements:
    path = write_file(folder / "requirements.txt", text)
    return read_requirements(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(SifmodError) as caught:
        read(folder, text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("numpy\n", ["numpy"]),
        ("# a comment\n\nnumpy>=1.26 # another\n", ["numpy>=1.26"]),
        ("torch[opt]>=2,<3 ; python_version < '3.13'\r\n", ["torch[opt]>=2,<3 ; python_version < '3.13'"]),
        ("\ufeffnumpy\nnumpy\n", ["numpy"]),
        (f"numpy==1.26 \\\n    --hash={HASH} \\\n    --hash={HASH}\n", [f"numpy==1.26 --hash={HASH} --hash={HASH}"]),
        ("numpy==1.26 \\", ["numpy==1.26"]),
        (
            "x @ https://example.org/x-1.0-py3-none-any.whl#sha256=00",
            ["x @ https://example.org/x-1.0-py3-none-any.whl#sha256=00"],
        ),
        ("https://example.org/x-1.0-py3-none-any.whl", ["x @ https://example.org/x-1.0-py3-none-any.whl"]),
        ("--only-binary :all:\n--prefer-binary\nnumpy", ["numpy"]),
    ],
)
def test_requirements_that_are_taken(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert read(tmp_path, text).lines == tuple(lines)


@pytest.mark.parametrize(
    "line",
    [
        "git+https://me:secret@example.org/x",
        "x @ git+https://secret@example.org/x",
        "-r https://me:secret@example.org/more.txt",
        "-e git+ssh://me:secret@example.org/x",
        "https://me:secret@example.org/x-1.tar.gz",
        "https://me:secret@[example.org/x-1-py3-none-any.whl",
        "--trusted-host=https://me:secret@example.org",
        "x @ ftp://me:secret@example.org/x-1-py3-none-any.whl",
    ],
)
def test_no_message_repeats_a_password(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\ndependencies = ['{line}']\n")
    for read, name in ((read_requirements, "requirements.txt"), (read_pyproject, "pyproject.toml")):
        with pytest.raises(SifmodError, match="credentials don't belong") as caught:
            read(tmp_path / name)
        assert "secret" not in str(caught.value)


def test_a_repository_of_ssh_or_a_fifo_is_no_list_of_packages(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("git+ssh://git@github.com/x/y\n")
    with pytest.raises(SifmodError, match="repository of source code"):
        read_requirements(tmp_path / "requirements.txt")
    os.mkfifo(tmp_path / "pipe")
    assert "not a plain file" in refusal(tmp_path, "-r pipe\n")
    with pytest.raises(SifmodError, match="not a plain file"):
        read_requirements(tmp_path / "pipe")


def test_what_would_take_too_long_or_has_no_end_is_refused(tmp_path: Path) -> None:
    """Its parts would be compared with each other for minutes."""
    (tmp_path / "requirements.txt").write_text("numpy\n/" + ".whl[" * 1_000_000 + " x\n")
    with pytest.raises(SifmodError, match="line 2: it has more than 65,536 characters"):
        read_requirements(tmp_path / "requirements.txt")
    for number in range(40):
        (tmp_path / f"r{number}.txt").write_text(f"-r r{number + 1}.txt\n" * 3 + f"-c r{number + 1}.txt\n")
    (tmp_path / "r40.txt").write_text("numpy\n")
    found = read(tmp_path, "-r r0.txt\n")
    assert (found.lines, found.constraints) == (("numpy",), ("numpy",))
    for number in range(2000):
        (tmp_path / f"r{number}.txt").write_text(f"-r r{number + 1}.txt\n")
    assert "included by more than 50 files" in refusal(tmp_path, "-r r0.txt\n")
    assert "is not a requirement" in refusal(tmp_path, f"a ; {'(' * 5000}os_name == 'x'{')' * 5000}")


def test_names_are_normalized_and_unique_and_wheels_have_extras(tmp_path: Path, wheel: Path) -> None:
    assert read(tmp_path, "Ruamel.YAML>=0.1\nruamel_yaml<9\n").names == ("ruamel-yaml",)
    (tmp_path / "greeting-1.0-py3-none-any.whl").touch()
    lines = read(tmp_path, "./greeting-1.0-py3-none-any.whl[loud] ; python_version > '3'").lines
    assert lines == (f'greeting[loud] @ {tmp_path.as_uri()}/greeting-1.0-py3-none-any.whl ; python_version > "3"',)
    line = f"greeting[loud] @ {wheel.as_uri()} ; python_version > '3'"
    assert read(tmp_path, line).lines == (f'greeting[loud] @ {wheel.as_uri()} ; python_version > "3"',)
    assert "is the wheel of greeting" in refusal(tmp_path, f"other @ {wheel.as_uri()}")


@pytest.mark.parametrize(
    "text", ["./my wheels/greeting-1.0-py3-none-any.whl", "{}", "file://{}", "greeting @ file://{}"]
)
def test_a_local_wheel_becomes_an_address(tmp_path: Path, wheel: Path, text: str) -> None:
    text = text.format(str(wheel).replace(" ", "%20") if "file:" in text else wheel)
    assert read(tmp_path, text).lines == (f"greeting @ {wheel.as_uri()}",)


def test_files_that_are_included_lie_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/base.txt").write_text("-c held.txt\nscipy\n")
    (tmp_path / "more/held.txt").write_text("numpy<2\n-r other.txt\n")
    (tmp_path / "more/other.txt").write_text("pandas<3\n")
    found = read(tmp_path, "--requirement=more/base.txt\nnumpy\n")
    assert found.lines == ("scipy", "numpy")
    assert found.constraints == ("numpy<2", "pandas<3")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/dev.txt").write_text("-r ../base.txt\nscipy\n")
    (tmp_path / "base.txt").write_text("numpy\n")
    assert read(tmp_path, "-r sub/dev.txt").lines == ("numpy", "scipy")
    with pytest.raises(SifmodError, match="leads out of its folder"):
        read_requirements(tmp_path / "sub/dev.txt")


def test_indexes_and_settings_of_the_user_count(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "-i https://example.org/simple\n--extra-index-url=https://b.org/s\n--find-links 'my wheels'\n--pre\nnumpy"
    assert read(tmp_path, text).options == (
        "--index-url https://example.org/simple",
        "--extra-index-url https://b.org/s",
        f"--find-links {wheel.parent.as_uri()}",
        "--pre",
    )
    (tmp_path / "clone").mkdir()
    text = f"--find-links '../my wheels'\n{wheel}\n"
    assert "is not below" in refusal(tmp_path / "clone", text)
    monkeypatch.setenv("PIP_FIND_LINKS", wheel.parent.as_uri())
    assert read(tmp_path / "clone", text).options == (f"--find-links {wheel.parent.as_uri()}",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-e .", "source folder"),
        ("--editable=git+https://x.org/y", "source folder"),
        ("git+https://x.org/y.git@main", "repository of source code"),
        ("y @ git+ssh://git@x.org/y.git", "repository of source code"),
        ("./project", "is not a wheel"),
        ("../x-1.0.tar.gz", "is not a wheel"),
        ("x-1.0.tar.gz", "is not a wheel"),
        ("https://x.org/y-1.0.zip", "is not a wheel"),
        ("y @ https://x.org/y-1.0.tar.gz", "is not a wheel"),
        ("./gone-1.0-py3-none-any.whl", "there is no file"),
        ("https://user:pw@x.org/y-1.0-py3-none-any.whl", "credentials"),
        ("--index-url https://user:pw@x.org/simple", "credentials"),
        ("--index-url https://${TOKEN}@x.org/simple", "variable"),
        ("--find-links gone", "to find packages in"),
        ("--find-links /home", "is not below"),
        ("--find-links file:///home", "is not below"),
        ("--find-links ..", "is not below"),
        ("--index-url /home", "set PIP_INDEX_URL"),
        ("/elsewhere/greeting-1.0-py3-none-any.whl", "is not below"),
        ("greeting @ file:///elsewhere/greeting-1.0-py3-none-any.whl", "is not below"),
        ("greeting @ file://host/greeting-1.0-py3-none-any.whl", "not an address"),
        ("https://x.org/y-1.0-1%0A%25setup%0Aid%0A-py3-none-any.whl", "other characters"),
        ("y @ https://x.org/y-1.0-1%0AEND-py3-none-any.whl", "other characters"),
        ("y @ https://x.org/${HTTPS_PROXY}/y-1.0-py3-none-any.whl", "the variable ${HTTPS_PROXY}"),
        ("y @ https://x.org/${a b}/y-1.0-py3-none-any.whl", "the variable in '${...}'"),
        ("--no-binary :all:", "from source"),
        ("--trusted-host x.org", "not supported"),
        ("--indx-url https://x.org", "perhaps you meant '--index-url'"),
        ("-r https://x.org/r.txt", "does not name a file"),
        ("-r gone.txt", "can't be read"),
        ("-r requirements.txt", "includes itself"),
        ("numpy --config-settings=a=b", "options of a single package"),
        ("numpy --hash=md5:00", "not a SHA-2 hash"),
        ("numpy=1.26", "is not a requirement"),
        ("ftp://x.org/y-1.0-py3-none-any.whl", "https, http or file"),
        ("y @ https://x.org/y.whl", "not the file name of a wheel"),
    ],
)
def test_lines_that_are_refused_with_their_place(tmp_path: Path, line: str, said: str) -> None:
    message = refusal(tmp_path, f"# first\nnumpy\n{line}\n")
    assert said in message
    assert "requirements.txt', line 3" in message or "-r" in line
    assert "pw@" not in message or "credentials" not in said


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "names no packages"), (b"\xff\xfe", "not UTF-8"), (b"#" * (11 << 20), "larger")],
)
def test_files_that_are_no_requirements(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(content)
    with pytest.raises(SifmodError, match=said):
        read_requirements(path)


@given(st.text(max_size=80))
@settings(max_examples=200)
def test_whatever_is_in_the_file_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "requirements.txt"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = read_requirements(path)
    except SifmodError:
        return
    assert all(line.isprintable() and not line.startswith("-") for line in found.lines)


PROJECT = """
[project]
name = "demo"
version = "0.3"
requires-python = ">=3.10"
dependencies = ["numpy>=1.26", "scipy ; python_version < '3.14'"]
[project.optional-dependencies]
plot = ["matplotlib"]
all = ["demo[plot,Fast_IO]", "tqdm"]
fast-io = ["zarr"]
[dependency-groups]
test = ["pytest", {include-group = "lint"}]
lint = ["ruff"]
"""


def project(folder: Path, text: str = PROJECT) -> Path:
    return write_file(folder / "pyproject.toml", text)


def test_a_project_with_extras_and_groups(tmp_path: Path) -> None:
    found = read_pyproject(project(tmp_path), extras=["all"], groups=["Test"])
    assert found.names == ("numpy", "scipy", "zarr", "matplotlib", "tqdm", "pytest", "ruff")
    assert (found.name, found.version, str(found.python)) == ("demo", "0.3", ">=3.10")
    assert read_pyproject(project(tmp_path)).names == ("numpy", "scipy")
    with pytest.raises(SifmodError, match=r"no extra 'plots' .perhaps you meant 'plot'.: it has plot, all, fast-io"):
        read_pyproject(project(tmp_path), extras=["plots"])
    with pytest.raises(SifmodError, match="no group 'docs'"):
        read_pyproject(project(tmp_path), groups=["docs"])
    more = (
        "[tool.poetry.dependencies]\npython = '^3.10'\nNumPy = {source = 'ours'}\nMatplotlib = '*'\n"
        "extra = {optional = true}\n[tool.pixi.workspace]\nchannels = ['conda-forge']\n"
        "[tool.pixi.pypi-dependencies]\ndemo = {path = '.'}\n[tool.uv]\n"
    )
    assert read_pyproject(project(tmp_path, PROJECT + more)).notes == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[project]", "[tool.poetry]", "no name in .project"),
        ('"numpy>=1.26"', "3", "not a list of strings"),
        ("version =", 'dynamic = ["dependencies"]\nversion =', "build backend"),
        ('"numpy>=1.26"', '"numpy @ git+https://x.org/n"', "repository of source code"),
        ('">=3.10"', '"3.10 or so"', "requires-python"),
        ('"matplotlib"', '"demo[all]"', "includes itself"),
        ('"ruff"', '{include-group = "test"}', "dependency-groups"),
        ('"ruff"', "7", "dependency-groups"),
        ("[dependency-groups]", "[tool.uv.sources]\nNumPy = {}\n[dependency-groups]", "only uv reads.*'uv export "),
        ("[dependency-groups]", "[", "is not TOML"),
    ],
)
def test_projects_that_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in PROJECT
    with pytest.raises(SifmodError, match=said):
        read_pyproject(project(tmp_path, PROJECT.replace(old, new)), extras=["all"], groups=["test"])


@pytest.mark.parametrize(
    "line", ["http://[x/y-1.0-py3-none-any.whl", "-i http://[x", "-f file://[x", "y @ https://[x/y.whl"]
)
def test_addresses_that_can_t_be_parsed_are_refused(tmp_path: Path, line: str) -> None:
    assert "line 3: " in refusal(tmp_path, f"# first\nnumpy\n{line}\n")


@pytest.mark.parametrize("text", ["a \\\n" * 300_000, "a" + " " * 500_000 + "b", " " * 500_000 + "#", " ;" * 300_000])
def test_a_long_line_takes_no_long_time(tmp_path: Path, text: str) -> None:
    begin = time.monotonic()
    refusal(tmp_path, text)
    assert time.monotonic() - begin < 240


def test_each_extra_and_group_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Mock(side_effect=canonicalize_name)
    monkeypatch.setattr(requirements, "canonicalize_name", look)
    names = [f"x{number}" for number in range(200)]
    tables = "".join(f'{name} = ["p-{name}"]\n' for name in names)
    both = f"[project.optional-dependencies]\n{tables}[dependency-groups]\n{tables}"
    read_pyproject(project(tmp_path, f"[project]\nname = 'a'\n{both}"), extras=names, groups=names)
    assert look.call_count < 20 * len(names)  # 400 * 200 when each was compared with all


def test_extras_and_groups_that_include_each_other_often(tmp_path: Path) -> None:
    extras = "".join(f'e{n} = ["demo[e{n + 1}]", "demo[e{n + 1}]", "x{n}"]\n' for n in range(40))
    groups = "".join(f'g{n} = [{{include-group = "g{n + 1}"}}, {{include-group = "g{n + 1}"}}]\n' for n in range(40))
    text = f"""\
[project]
name = "demo"
[project.optional-dependencies]
{extras}e40 = ["numpy"]
[dependency-groups]
{groups}g40 = ["scipy"]
"""
    found = read_pyproject(project(tmp_path, text), extras=["e0"], groups=["g30"])
    assert set(found.names) == {"numpy", "scipy", *(f"x{number}" for number in range(40))}
    with pytest.raises(SifmodError, match="the groups g0 have more than 100000 requirements"):
        read_pyproject(project(tmp_path, text), groups=["g0"])
    extras = "".join(f'e{number} = ["demo[e{number + 1}]"]\n' for number in range(2000))
    groups = "".join(f'g{number} = [{{include-group = "g{number + 1}"}}]\n' for number in range(2000))
    text = f'[project]\nname = "demo"\n[project.optional-dependencies]\n{extras}[dependency-groups]\n{groups}'
    with pytest.raises(SifmodError, match="included by more than 50 extras"):
        read_pyproject(project(tmp_path, text), extras=["e0"])
    with pytest.raises(SifmodError, match=r"dependency-groups\] can't be used"):
        read_pyproject(project(tmp_path, text), groups=["g0"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x @ https://h/${PIP_INDEX_URL}/x-1.0-py3-none-any.whl", "would replace the variable ${PIP_INDEX_URL}"),
        ("x @ https://h/${HTTPS_PROXY}/x-1.0-py3-none-any.whl", "would replace the variable ${HTTPS_PROXY}"),
        ("x @ https://h/\\n--index-url=http://evil/x-1.0-py3-none-any.whl", "one line of printable text"),
        ("x @ https://h/x-1.0-1%0A%25setup%0Aid-py3-none-any.whl", "other characters"),
        ("x @ file:///home/x-1.0-py3-none-any.whl", "is not below"),
    ],
)
def test_requirements_of_a_project_are_checked_as_those_of_a_file(tmp_path: Path, text: str, said: str) -> None:
    for key in ("dependencies = [", "optional-dependencies = {run = ["):
        end = "]}" if "{" in key else "]"
        (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "demo"\n{key}"{text}"{end}\n')
        with pytest.raises(SifmodError, match=re.escape(said)):
            read_pyproject(tmp_path / "pyproject.toml", extras=["run"] if "{" in key else [])


@pytest.mark.parametrize(
    "line", ["-r ../.netrc", "-c ../.netrc", "-r /etc/passwd", "-r link", "--requirement=sub/../../.netrc"]
)
def test_nothing_of_a_file_outside_of_the_folder_is_shown(tmp_path: Path, line: str) -> None:
    clone = tmp_path / "clone"
    (clone / "sub").mkdir(parents=True)
    (tmp_path / ".netrc").write_text("machine h login me password hunter2\n")
    (clone / "link").symlink_to(tmp_path / ".netrc")
    message = refusal(clone, f"numpy\n{line}\n")
    assert "leads out of its folder" in message
    assert "hunter2" not in message
    assert "root" not in message


@pytest.mark.parametrize("name", ["loop", "fifo", "folder"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    assert "can't be read" in refusal(tmp_path, f"-r {name}\n")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "[tool.poetry.dependencies]\npython = '^3.10'\nrich = '^13'\n",
            "tool.poetry.dependencies. is not read.* rich. ",
        ),
        ("[tool.pixi.dependencies]\npython = '*'\ncuda = '12.*'\n", "tool.pixi.dependencies. is not read.* cuda. "),
        ("[tool.pixi.pypi-dependencies]\nrich = '*'\ndemo = {path = '.'}\n", "pypi-dependencies. is not read.* rich. "),
    ],
)
def test_packages_that_only_another_tool_reads_are_refused(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(SifmodError, match=f"{said}List them in .project., or write a file with '.*, and name that"):
        read_pyproject(project(tmp_path, PROJECT + more))
    with pytest.raises(SifmodError, match=said):  # a project of Poetry 1, without [project]
        read_pyproject(project(tmp_path, more))


@pytest.mark.parametrize(
    "table",
    [
        "tool.poetry.group.dev.dependencies",
        "tool.poetry.dev-dependencies",
        "tool.pixi.feature.test.dependencies",
        "tool.uv.constraint-dependencies",
        "tool.uv.override-dependencies",
        "tool.uv.dev-dependencies",
        "tool.uv.index",
    ],
)
def test_what_else_another_tool_reads_becomes_a_note(tmp_path: Path, table: str) -> None:
    head, _, key = table.rpartition(".")
    is_list = key in ("constraint-dependencies", "override-dependencies") or table == "tool.uv.dev-dependencies"
    more = f"[{head}]\n{key} = ['rich<9']\n" if is_list else f"[{table}]\nrich = '*'\n"
    (note,) = read_pyproject(project(tmp_path, PROJECT + more)).notes
    assert re.match(rf"\[{re.escape('.'.join(table.split('.')[:3]))}\] of pyproject.toml is not read", note)
    assert "write a file with '" in note
