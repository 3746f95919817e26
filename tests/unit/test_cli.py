import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import sifmod
from sifmod import cli as command_line
from sifmod import robot
from sifmod.cli import cli


@pytest.fixture
def call():
    return lambda *words: CliRunner().invoke(cli, words)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_has_examples_and_names_every_command(call, option):
    result = call(option)
    assert result.exit_code == 0
    assert 'eval "$(sifmod env)"' in result.output
    assert all(name in result.output for name in cli.commands)


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_s_help_has_examples(call, command):
    result = call(command, "-h")
    assert result.exit_code == 0
    assert "Examples:" in result.output


def test_the_version_is_the_package_s(call):
    result = call("--version")
    assert (result.exit_code, result.output) == (0, f"sifmod, version {sifmod.__version__}\n")


def test_env_prints_for_bash_unless_told_otherwise(call):
    result = call("env")
    assert result.exit_code == 0
    assert result.output == call("env", "--shell", "bash").output
    assert result.output.startswith("export EASYBUILD_INCLUDE_EASYBLOCKS=")


@pytest.mark.parametrize(("shell", "begins"), [("bash", "export "), ("csh", "setenv "), ("fish", "set -gx ")])
def test_env_prints_nothing_but_settings(call, shell, begins):
    lines = call("env", "--shell", shell).output.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(begins) for line in lines)


def test_an_unknown_shell_is_answered_with_the_known_ones(call):
    result = call("env", "--shell", "ksh")
    assert result.exit_code == 2
    assert "--shell" in result.output
    assert "'ksh'" in result.output
    assert all(shell in result.output for shell in robot.SHELLS)


def test_an_unknown_command_is_wrong_usage(call):
    result = call("install")
    assert result.exit_code == 2
    assert "'install'" in result.output


def test_an_error_that_users_can_act_on_is_one_line_and_an_exit_status(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(robot, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(robot.sysconfig, "get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["sifmod", "env"])
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    printed = capsys.readouterr()
    assert caught.value.code == 7
    assert printed.out == ""
    assert printed.err.startswith("sifmod: sifmod's own easyblock is missing")
    assert printed.err.count("\n") == 1


def test_the_library_imports_neither_click_nor_easybuild():
    modules = sorted(
        path.stem for path in Path(sifmod.__file__).parent.glob("*.py") if path.stem not in ("cli", "__init__")
    )
    code = (
        f"import sys, sifmod.{', sifmod.'.join(modules)}\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('click', 'easybuild')])"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
