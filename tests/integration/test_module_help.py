"""What `module help`, `whatis`, `keyword` and `spider` tell: what is in a container, and what to paste."""

import re
import textwrap
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, LUMI_MODULE, User, make_user, make_wheel

WITH_PACKAGES = """
easyblock = 'ContainerImage'
name = 'Bundle'
version = '1.0'
homepage = 'https://www.python.org/'
description = \"\"\"Packages of the image {{with braces}}, [brackets] and 100% more.
  A second line.\"\"\"
toolchain = SYSTEM
sources = ['demo.sif']
python_prefix = '/usr'
expected_packages = {{'demo-vendor': '1.2.3+site'}}
wrappers = ['python', 'demo-tool']
{more}
moduleclass = 'lang'
"""


def install(folder: Path, *flags: str, more: str = "") -> User:
    user = make_user(folder / "eb")
    (folder / "Bundle-1.0.eb").write_text(WITH_PACKAGES.format(more=more))
    user.eb(f"{folder}/Bundle-1.0.eb", *flags)
    return user


@pytest.fixture(scope="module", params=["Lua", pytest.param("Tcl", marks=pytest.mark.slow)])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> User:
    return install(tmp_path_factory.mktemp("bundle"), f"--module-syntax={request.param}")


def help_of(user: User, module: str) -> str:
    return user.run(f"module help {module}").stderr + user.run(f"module help {module}").stdout


def test_help_says_what_there_is(demo: User) -> None:
    text = help_of(demo, DEMO_MODULE)
    for word in ("$SIF", "$SIFPYTHON", "$CONTAINERROOT", "$RUNSCRIPTS", "python, pip", "start-shell", "list-packages"):
        assert word in text
    for word in (
        "make-squashfs",
        "unmake-squashfs",
        "add-layer",
        "conda-python-distributed",
        "/user-software",
        "pip installs your own packages",
        "uv pip install takes less time",
    ):
        assert word in text
    assert "Python 3.11 of Debian" in text


def test_help_is_of_this_container(bundle: User) -> None:
    text = help_of(bundle, "Bundle")
    assert "demo-vendor 1.2.3+site" in text
    assert "python, demo-tool" in text
    assert "100% more" in text
    assert "make-squashfs" not in text
    assert "conda-python-distributed" in text


def test_it_is_found_by_the_names_of_packages_and_commands(bundle: User) -> None:
    for word in ("demo-vendor", "demo-tool", "bundle"):
        assert "Bundle" in bundle.run(f"module keyword {word} 2>&1").stdout, word
    assert "Bundle/1.0" in bundle.run("module spider Bundle 2>&1").stdout
    assert "demo-vendor/1.2.3+site" in bundle.run("module spider demo-vendor 2>&1").stdout
    assert "Bundle/1.0" in bundle.run("module spider demo-vendor/1.2.3+site 2>&1").stdout
    whatis = bundle.run("module whatis Bundle 2>&1").stdout
    assert re.search(r"Keywords: .*demo-vendor", whatis)
    assert "100% more. A second line." in whatis


def test_the_easyconfigs_own_words_stay(tmp_path: Path) -> None:
    more = "usage = 'Own usage.'\nexamples = 'Own examples.'\nwhatis = ['Description: own', 'Keywords: one, Python']"
    user = install(tmp_path, more=more)
    text = help_of(user, "Bundle")
    assert "Own usage." in text
    assert "$CONTAINERROOT" in text
    assert "Own examples." in text
    assert "srun" not in text
    whatis = user.run("module whatis Bundle 2>&1").stdout
    assert "Description: own" in whatis
    assert "Keywords: one, Python, Bundle, demo-vendor, demo-tool, container" in whatis


def test_lmods_own_check_finds_nothing(demo: User, lumi: User, bundle: User) -> None:
    for user, module in ((demo, DEMO_MODULE), (lumi, LUMI_MODULE), (bundle, "Bundle")):
        done = user.run(f"module --checkSyntax load {module}")
        assert done.stdout + done.stderr == ""
        done = user.run(f"$LMOD_DIR/check_module_tree_syntax {user.prefix}/modules/all", check=False)
        assert "No errors found" in done.stdout + done.stderr


def examples(text: str) -> list[str]:
    section = text.split("Examples\n========\n")[1].split("\n\n\n")[0]
    blocks = re.findall(r"^[^ \n].*:\n((?:  .*\n?)+)", section, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


@pytest.mark.slow
def test_the_examples_can_be_pasted(tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb")
    user.eb(DEMO_EASYCONFIG)
    one, ranks, pack = examples(help_of(user, DEMO_MODULE))
    job = tmp_path / "job"
    job.mkdir()
    assert user.out(one, cwd=job) == "Python 3.11.2"
    (job / "script.py").write_text("import os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])\n")
    lines = user.out(ranks, cwd=job).splitlines()
    assert sorted(lines) == [f"{rank} 8" for rank in range(8)]
    make_wheel(tmp_path, "torchmetrics", "1.0", "x = 1\n")
    user.run(f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={tmp_path}\n{pack}", cwd=job)
    script = "rm -r $CONTAINERROOT/user-software; python -c 'import torchmetrics; print(torchmetrics.x)'"
    assert user.out(f"module load {DEMO_MODULE}; {script}") == "1"


def test_the_examples_of_a_container_without_user_software_can_be_pasted(bundle: User, tmp_path: Path) -> None:
    one, _ranks, bind = examples(help_of(bundle, "Bundle"))
    assert bundle.out(one) == "Python 3.11.2"
    assert bundle.out(f"export HOME={tmp_path}; mkdir $HOME/data; touch $HOME/data/mine\n{bind}") == "mine"
