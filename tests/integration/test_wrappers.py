"""The host commands of an install: they behave as the container's own would."""

from __future__ import annotations

from pathlib import Path

from conftest import DEMO_MODULE, LUMI_MODULE, User

LOAD = f"module load {DEMO_MODULE}"

ARGUMENTS = ["a b", "", "$HOME", "*", "'", '"', "new\nline", "\\", "é"]


def test_arguments_pass_through_untouched(demo: User) -> None:
    import json
    import shlex

    words = " ".join(shlex.quote(word) for word in ARGUMENTS)
    out = demo.out(f"{LOAD}; python -c 'import json, sys; print(json.dumps(sys.argv[1:]))' {words}")
    assert json.loads(out) == ARGUMENTS


def test_standard_input_and_exit_codes_pass_through(demo: User) -> None:
    assert demo.out(f"{LOAD}; echo 'print(6 * 7)' | python -") == "42"
    assert demo.run(f"{LOAD}; python -c 'raise SystemExit(37)'", check=False).returncode == 37


def test_by_absolute_path_without_the_module(demo: User) -> None:
    python = demo.installdir(DEMO_MODULE) / "bin" / "python3.11"
    assert demo.out(f"{python} -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"


def test_without_a_home_directory(demo: User) -> None:
    python = demo.installdir(DEMO_MODULE) / "bin" / "python"
    assert demo.out(f"env -u HOME {python} -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"


def test_of_another_install_than_the_loaded_one(demo: User, lumi: User) -> None:
    """A kernel of one install started in a shell that has another loaded sees nothing of the other."""
    code = "import os, sys; print(sys.prefix, os.environ.get('CONDA_PREFIX'))"
    python = demo.installdir(DEMO_MODULE) / "bin" / "python"
    assert lumi.out(f'module load {LUMI_MODULE}; {python} -c "{code}"') == "/user-software/venv/demo None"


def test_xargs_and_a_shebang_line_find_the_wrapper(demo: User, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python\nimport sys\nprint(sys.prefix)\n")
    script.chmod(0o755)
    assert demo.out(f"{LOAD}; {script}") == "/user-software/venv/demo"
    assert demo.out(f"{LOAD}; printf '1 2' | xargs -n1 python -c 'import sys; print(sys.argv[1])'") == "1\n2"


def test_start_shell_takes_bashs_arguments(demo: User) -> None:
    assert demo.out(f"{LOAD}; start-shell -c 'command -v pip; exit 0'") == "/user-software/venv/demo/bin/pip"
    assert demo.run(f"{LOAD}; start-shell -c 'exit 5'", check=False).returncode == 5


def test_the_users_home_packages_do_not_shadow_the_image(demo: User, tmp_path: Path) -> None:
    packages = tmp_path / ".local/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "demo_vendor.py").write_text("__version__ = 'shadow'\n")
    show = "python -c 'import demo_vendor; print(demo_vendor.__version__)'"
    out = demo.out(f"{LOAD}; HOME={tmp_path} {show}; HOME={tmp_path} singularity exec --home {tmp_path} $SIF {show}")
    assert out.splitlines() == ["1.2.3+site"] * 2


def test_optional_binds_are_looked_at_on_the_node(own_demo: User, tmp_path: Path) -> None:
    here, gone = tmp_path / "he,re", tmp_path / "gone"
    here.mkdir()
    (here / "file").write_text("content")
    site = tmp_path / "site.toml"
    site.write_text(
        f'image_repositories = ["/opt/sifmod-testbed/images"]\n'
        f"optional_binds = ['{str(here).replace(',', chr(92) + ',')}:/data', '{gone}:/gone']\n"
    )
    own_demo.env["SIFMOD_SITE"] = str(site)
    own_demo.eb("Python-3.11-demo-singularity.eb", "--rebuild")
    read = "python -c 'print(open(\"/data/file\").read())'"
    assert own_demo.out(f"{LOAD}; singularity exec $SIF {read}") == "content"
    assert own_demo.out(f"{LOAD}; {read}") == "content"
    gone.mkdir()
    assert own_demo.out(f"{own_demo.installdir(DEMO_MODULE)}/bin/start-shell -c 'ls -d /gone'") == "/gone"
    (here / "file").unlink()
    here.rmdir()
    # loaded where the directory was, used where it is not
    assert own_demo.out(f"mkdir '{here}'; {LOAD}; rmdir '{here}'; python -c 'print(1)'") == "1"


def test_a_tool_of_the_image_sees_what_users_installed(demo: User) -> None:
    out = demo.out(f"{LOAD}; singularity exec $SIF run-tool demo-tool")
    assert out.splitlines()[0] == "/user-software/venv/demo"
    assert demo.run(f"{LOAD}; singularity exec $SIF run-tool no-such", check=False).returncode == 127
