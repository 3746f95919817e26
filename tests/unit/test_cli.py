import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner, Result
from tests.programs import write_file

import sifmod
from sifmod import cli as command_line
from sifmod.cli import cli
from sifmod.commands import completion, site
from sifmod.eb import robot

from .support import Need, a_runner
from .terminal import on_a_terminal

Call = Callable[..., Result]
SiteFile = Callable[[str], str]


@pytest.fixture
def call() -> Call:
    return lambda *words: CliRunner().invoke(cli, words)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_has_examples_and_names_every_command(call: Call, option: str) -> None:
    result = call(option)
    assert result.exit_code == 0
    assert 'eval "$(sifmod env)"' in result.output
    assert all(name in result.output for name in NAMES)


def verb(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found
    return found


@pytest.mark.parametrize("words", [["list"], ["site", "show"], ["doctor", "/"]], ids=" ".join)
def test_with_closed_streams_the_status_is_the_usual_one(words: list[str], tmp_path: Path) -> None:
    # no command of the host: doctor would wait for the answers of Slurm and of a runtime
    environ = {**os.environ, "EASYBUILD_PREFIX": str(tmp_path), "SIFMOD_SITE": "generic", "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "sifmod", *words]
    usual = subprocess.run(command, env=environ, capture_output=True, check=False)
    for closed in (">&-", ">&- 2>&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command], env=environ, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (usual.returncode, usual.stderr if closed == ">&-" else b"")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        *((words, "") for words in ("list", "list --json", "site show", "env", "--help", "list --help", "--version")),
        *((words, "1") for words in ("list", "--help")),
    ],
)
def test_a_full_disk_behind_standard_output_is_named(words: str, unbuffered: str, tmp_path: Path) -> None:
    environ = {**os.environ, "EASYBUILD_PREFIX": str(tmp_path), "SIFMOD_SITE": "generic"}
    environ["PYTHONUNBUFFERED"] = unbuffered
    command = [sys.executable, "-m", "sifmod", *words.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "sifmod: standard output can't be written: No space left on device\n"
    assert done.returncode == 12


def test_a_reader_that_has_ended_is_no_accident(tmp_path: Path) -> None:
    environ = {**os.environ, "EASYBUILD_PREFIX": str(tmp_path), "SIFMOD_SITE": "generic"}
    theirs, ours = os.pipe()
    os.close(theirs)
    command = [sys.executable, "-m", "sifmod", "site", "show"]
    done = subprocess.run(command, env=environ, stdout=ours, stderr=subprocess.PIPE, text=True, check=False)
    os.close(ours)
    assert (done.returncode, done.stderr) == (1, "")


NAMES = cli.list_commands(click.Context(cli))
VERBS = sorted([(name,) for name in NAMES] + [("site", name) for name in site.site.commands])


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_verb_s_help_has_examples_with_the_verb(call: Call, words: tuple[str, ...], option: str) -> None:
    result = call(*words, option)
    assert result.exit_code == 0
    _usage, _heading, examples = result.output.partition("Examples:")
    assert f"sifmod {' '.join(words)}" in examples
    assert max(map(len, result.output.splitlines())) <= 80


def test_usage_names_the_program_and_its_version_however_it_was_started(call: Call) -> None:
    result = call("--version")
    assert (result.exit_code, result.output) == (0, f"sifmod, version {sifmod.__version__}\n")
    command, environ = as_program("--help")
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: sifmod ")


def test_env_prints_for_bash_unless_told_otherwise(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    result = call("env")
    assert result.exit_code == 0
    assert result.stdout == call("env", "--shell", "bash").stdout
    assert result.stdout.startswith("export EASYBUILD_INCLUDE_EASYBLOCKS=")
    monkeypatch.setenv("PATH", "/nowhere")
    assert f"the command itself is in {sysconfig.get_path('scripts')}: add" in call("env").output
    result = call("env", "--shell", "ksh")
    assert result.exit_code == 2
    assert "--shell" in result.output
    assert "'ksh'" in result.output
    assert all(shell in result.output for shell in robot.SHELLS)


@pytest.mark.parametrize(("shell", "begins"), [("bash", "export "), ("csh", "setenv "), ("fish", "set -gx ")])
def test_env_prints_nothing_but_settings(call: Call, shell: str, begins: str) -> None:
    lines = call("env", "--shell", shell).stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(begins) for line in lines)


@pytest.mark.parametrize(("word", "said"), [("zzz", "'zzz'\n"), ("lst", "'lst' (perhaps you meant 'list')\n")])
def test_an_unknown_command_is_wrong_usage_with_the_most_similar_one(call: Call, word: str, said: str) -> None:
    result = call(word)
    assert result.exit_code == 2
    assert result.output.endswith(f"there is no command {said}")


def test_an_error_that_users_can_act_on_is_one_line_and_an_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(robot, "_LIBRARY", tmp_path / "src")
    monkeypatch.setattr(sys, "argv", ["sifmod", "env"])
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    printed = capsys.readouterr()
    assert caught.value.code == 7
    assert printed.out == ""
    assert printed.err.startswith("sifmod: sifmod's own easyblock is missing")
    assert printed.err.count("\n") == 1


def test_a_system_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> NoReturn:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr("sifmod.commands.list.software_space", lambda _prefix: refuse())
    monkeypatch.setattr(sys, "argv", ["sifmod", "list"])
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "sifmod: [Errno 13] Permission denied: '/somewhere'\n"


def test_the_library_imports_neither_click_nor_easybuild() -> None:
    package = Path(sifmod.__file__).parent
    files = [path.relative_to(package).with_suffix("") for path in package.rglob("*.py")]
    modules = sorted(
        ".".join(("sifmod", *file.parts))
        for file in files
        if file.parts[0] not in ("__main__", "cli", "commands", "data")
    )
    if find_spec("packaging.pylock") is None:  # of the extra `environment`
        modules = [name for name in modules if not name.startswith("sifmod.environment.")]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('click', 'easybuild')])"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def site_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteFile:
    """Write a site file, and put it in force."""

    def write(text: str) -> str:
        path = write_file(tmp_path / "our site.toml", text)
        monkeypatch.setenv("SIFMOD_SITE", str(path))
        return str(path)

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    return write


def as_program(*words: str, **environ: str) -> tuple[list[str], dict[str, str]]:
    """Run `sifmod` in a process of its own."""
    code = "from sifmod.cli import main; main()"
    return [sys.executable, "-B", "-c", code, *words], {**os.environ, **environ}


def test_features_and_what_is_unset_are_shown(call: Call, site_file: SiteFile) -> None:
    path = site_file(
        'container_env = { X = false }\n[feature.mpi]\nhelp = "of the host"\nenv.A = "1"\nhosts = ["none"]'
    )
    lines = call("site", "show").output.splitlines()
    rows = [re.split(r"  +", line.strip()) for line in lines]
    assert ["container_env.X", "(not set)", f"{path}:1"] in rows
    assert ["feature.mpi", "of the host", f"{path}:3"] in rows
    assert ["feature.mpi.env.A", "1", f"{path}:4"] in rows
    assert ["apply_advisories", "false", "default"] in rows
    assert ["user_commands", "true", "default"] in rows
    assert ["pack_processors", "0", "default"] in rows
    assert ["cache", "-", "default"] in rows
    shown = json.loads(call("site", "show", "--json").output)["settings"]
    assert shown["container_env.X"]["value"] is False
    assert shown["feature.mpi.hosts"] == {"value": ["none"], "origin": {"layer": "site", "file": path, "line": 5}}
    checked = json.loads(call("site", "check", "--json").output)["findings"]
    (finding,) = (item for item in checked if item["topic"] == "feature.mpi")
    assert (finding["severity"], finding["what"], finding["origin"]) == ("note", "of the host", f"{path}:2")


def test_errors_of_a_site_name_the_line(call: Call, site_file: SiteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = site_file(
        'default_features = ["mpi"]\n\nbinds = [\n"/",\n"/gone"]\n[feature.mpi]\nhelp = "x"\nbinds = ["/gone/too"]\n'
        '[cache]\nHF_HOME = "hf"\n'
    )
    monkeypatch.setenv("SIFMOD_IMAGE_REPOSITORIES", "/gone/images")
    origins = {
        "/": f"{path}:3",
        "/gone": f"{path}:3",
        "/gone/too": f"{path}:8",
        "/gone/images": "SIFMOD_IMAGE_REPOSITORIES",
        "root": f"{path}:10",
    }
    checked = {one["what"]: one for one in json.loads(call("site", "check", "--json").output)["findings"]}
    assert {what: checked[what]["origin"] for what in origins} == origins
    lines = [line.strip() for line in call("site", "check").output.splitlines()]
    shown = [line[len("from: ") :] for line in lines if line.startswith("from: ")]
    assert sorted(shown) == sorted(origin for what, origin in origins.items() if what != "/")  # it is well


def test_the_schema_sites_and_their_titles_are_printed(call: Call) -> None:
    result = call("site", "discover", "mpi", "--library", "/nowhere/libmpi.so.12")
    assert (result.exit_code, "'/nowhere/libmpi.so.12' does not exist" in result.output) == (2, True)
    lines = call("site", "list").output.splitlines()
    assert lines[0].split() == ["SITE", "TITLE"]
    assert any(line.split() == ["lumi", "LUMI"] for line in lines)
    listed = json.loads(call("site", "list", "--json").output)
    assert [item["name"] for item in listed] == [line.split()[0] for line in lines[1:]]
    assert "site" not in json.loads(call("site", "schema").output)["properties"]
    assert "site" in json.loads(call("site", "schema", "--user").output)["properties"]


def test_show_names_the_origin_of_each_value(call: Call, site_file: SiteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = site_file('binds = ["/a", "/b:/c"]\n[container_env]\nX = "1"\n')
    monkeypatch.setenv("SIFMOD_RUNTIME", "udocker")
    output = call("site", "show").output
    rows = [line.split("  ") for line in output.splitlines()]
    rows = [[cell.strip() for cell in row if cell] for row in rows]
    assert ["binds", "/a", f"{path}:1"] in rows
    assert ["/b:/c"] in rows
    assert ["container_env.X", "1", f"{path}:3"] in rows
    assert ["runtime", "udocker", "SIFMOD_RUNTIME"] in rows
    assert ["pack_processors", "0", "default"] in rows
    assert ["gpu", "-", "default"] in rows


def test_show_prints_json_and_takes_another_site_than_the_one_in_force(call: Call, site_file: SiteFile) -> None:
    path = site_file('\nbinds = ["/a"]\n')
    shown = json.loads(call("site", "show", "--json").output)
    assert (shown["site"], shown["file"]) == (path, path)
    assert shown["settings"]["binds"] == {"value": ["/a"], "origin": {"layer": "site", "file": path, "line": 2}}
    assert shown["settings"]["pack_level"] == {"value": 5, "origin": {"layer": "default"}}
    site_file("")
    assert json.loads(call("site", "show", "--site", "lumi", "--json").output)["site"] == "lumi"
    assert json.loads(call("site", "check", "--site", "lumi", "--json").output)["site"] == "lumi"


@pytest.mark.usefixtures("fake")
def test_check_ends_with_0_or_1_and_says_what_to_do(call: Call, site_file: SiteFile, tmp_path: Path) -> None:
    site_file(f'optional_binds = ["{tmp_path}", "{tmp_path}/gone"]\npack_compressor = "gzip"')
    well = call("site", "check")
    assert (well.exit_code, "no problems" in well.output) == (0, True), well.output
    site_file(f'binds = ["{tmp_path}/gone"]')
    ill = call("site", "check")
    assert ill.exit_code == 1
    assert re.search(r"^problem  binds +\S+/gone$", ill.output, re.M)
    assert "do: correct it, or move it to optional_binds" in ill.output
    assert "1 problem " in ill.output
    result = call("site", "check", "--json")
    report = json.loads(result.output)
    assert (result.exit_code, report["problems"]) == (1, 1)
    (problem,) = (item for item in report["findings"] if item["severity"] == "problem")
    assert (problem["topic"], problem["what"]) == ("binds", f"{tmp_path}/gone")
    assert set(problem) == {"severity", "topic", "what", "why", "remedy", "origin"}


@pytest.mark.parametrize("verb", ["show", "check"])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_wrong_site_file_is_one_line_and_exit_status_4(site_file: SiteFile, verb: str, flags: list[str]) -> None:
    path = site_file('\noptional_bind = ["/a"]')
    command, environ = as_program("site", verb, *flags)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"sifmod: unknown key 'optional_bind' in the site file '{path}', line 2")


def test_colour_is_for_terminals_only(call: Call, site_file: SiteFile, tmp_path: Path) -> None:
    site_file(f'binds = ["{tmp_path}/gone"]')
    assert "\x1b[31mproblem\x1b[0m  binds" in on_a_terminal("site", "check")
    assert "\x1b[" not in call("site", "check").output


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_shell_reads_the_script_of_its_completion(call: Call, need: Need, tmp_path: Path, shell: str) -> None:
    script = write_file(tmp_path / "script", call("completion", shell).output)
    assert "_SIFMOD_COMPLETE" in script.read_text()
    subprocess.run([need(shell), "-n", str(script)], check=True)


def test_bash_completes_verbs_options_and_sites(call: Call, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sifmod"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -B\nfrom sifmod.cli import main\nmain()\n")
    program.chmod(0o755)

    def completed(*words: str) -> list[str]:
        line = " ".join(words)
        script = f"""
            {call("completion", "bash").output}
            COMP_WORDS=(sifmod {line}) COMP_CWORD={len(words)} COMP_LINE="sifmod {line}"
            _sifmod_completion sifmod {words[-1]}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("comp") == ["completion"]
    assert completed("site", "ch") == ["check"]
    assert completed("site", "show", "--js") == ["--json"]
    assert completed("site", "show", "--site", "lu") == ["lumi"]
    assert completed("completion", "z") == ["zsh"]


@pytest.mark.parametrize("verb", [[], ["env"], ["site", "show"], ["site", "check"], ["completion"]])
def test_examples_stand_on_lines_of_their_own(verb: list[str]) -> None:
    text = CliRunner().invoke(cli, [*verb, "--help"]).output
    assert "\\b" not in text
    assert re.search(r"^  Examples?:\n    \S", text, re.M), text


@pytest.mark.parametrize(
    "words",
    [
        ["new", "x"],
        ["on", "Demo/1", "--name", "x"],
        ["environment", "x", "--base", "x.sif"],
        ["convert", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_missing_folder_is_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").touch()
    done = a_runner().invoke(cli, [*words, "--output", "a b/"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no folder 'a b/': make it with: mkdir -p 'a b/'" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
