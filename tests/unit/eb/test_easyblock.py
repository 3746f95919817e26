"""The file of the easyblock is one that EasyBuild's repository of easyblocks could take."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

from tests.lacking import lacking
from tests.programs import ran

from sifmod.eb.robot import easyblock_path

TEXT = easyblock_path().read_text()
MOST_LINES = 700
# The oldest Python of EasyBuild's continuous integration.
OLDEST = (3, 7)

WITHOUT_SIFMOD = """
import importlib.util, sys
sys.modules["sifmod"] = None
location = importlib.util.spec_from_file_location("containerimage", sys.argv[1])
module = importlib.util.module_from_spec(location)
location.loader.exec_module(module)
try:
    module.ContainerImage.extra_options()
except module.EasyBuildError as error:
    print(error.msg)
"""


def test_it_passes_the_style_check_of_easybuild() -> None:
    """Its settings of flake8 (setup.cfg) are pycodestyle's own, but for the length of lines."""
    if importlib.util.find_spec("pycodestyle") is None:
        lacking("pycodestyle is not installed")
    command = [sys.executable, "-m", "pycodestyle", "--max-line-length=120", str(easyblock_path())]
    done = ran(command)
    assert (done.returncode, done.stdout) == (0, "")


def test_its_syntax_is_that_of_the_oldest_python_of_easybuild() -> None:
    ast.parse(TEXT, feature_version=OLDEST)
    assert "cached_property" not in TEXT  # which Python 3.8 brought
    assert len(TEXT.splitlines()) < MOST_LINES


def test_it_has_the_head_of_an_easyblock() -> None:
    """The class is the first that EasyBuild's tests find by this pattern, and no other may derive before it."""
    assert re.findall(r"^class (.*)\(.*", TEXT, re.MULTILINE) == ["ContainerImage"]
    assert "the Free Software Foundation v2." in TEXT
    assert re.search(r"^@author: ", TEXT, re.MULTILINE)


def test_without_sifmod_it_can_be_listed_and_says_in_a_sentence_what_it_needs(tmp_path: Path) -> None:
    done = ran([sys.executable, "-c", WITHOUT_SIFMOD, str(easyblock_path())], cwd=tmp_path, check=True)
    (sentence,) = done.stdout.splitlines()
    assert "needs sifmod, which this Python can't import" in sentence
    assert "pip install sifmod" in sentence
