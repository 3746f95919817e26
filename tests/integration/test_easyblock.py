"""What EasyBuild's own test suite asks of every easyblock, with the installed package and the command `eb`."""

from conftest import User

# As that suite writes it for each easyblock, without any parameter of its own.
EMPTY = """
easyblock = 'ContainerImage'
name = 'foo'
version = '1.3.2'
homepage = 'http://example.com'
description = 'Dummy easyconfig file.'
toolchain = SYSTEM
sources = []
"""

# What that suite does with it (`test.easyblocks.module`), which is no part of the installed package.
ALL_STEPS = """
import os, sys
from pathlib import Path
from easybuild.tools import config, options
found = options.parse_options(args=["--prefix=" + os.environ["EASYBUILD_PREFIX"]])
config.init(found.options, found.get_options_by_section("config"))
config.init_build_options(build_options=dict(
    external_modules_metadata={}, force=True, module_only=True, silent=True, suffix_modules_path="all",
    valid_module_classes=config.module_classes(), valid_stops=[],
))
options.set_tmpdir()
from easybuild.framework.easyconfig.easyconfig import EasyConfig, get_easyblock_class
block = get_easyblock_class("ContainerImage")(EasyConfig(sys.argv[1]))
Path(block.installdir).mkdir(parents=True)
block.run_all_steps(run_test_cases=False)
"""


def test_module_only_writes_the_module_of_an_empty_easyconfig_when_forced(user: User) -> None:
    easyconfig = user.prefix / "foo-1.3.2.eb"
    easyconfig.write_text(EMPTY)
    (user.prefix / "steps.py").write_text(ALL_STEPS)
    done = user.run(f"python steps.py {easyconfig}")
    assert "the easyconfig names no image" in done.stderr
    text = user.modulefile("foo/1.3.2").read_text()
    assert "container.sh" in text
    assert "None" not in text


def test_eb_refuses_such_an_easyconfig(user: User) -> None:
    """Also when forced: the module of what is not there does not load, and does not stay."""
    easyconfig = user.prefix / "foo-1.3.2.eb"
    easyconfig.write_text(EMPTY)
    refused = user.eb(str(easyconfig), "--module-only", check=False)
    assert refused.returncode != 0
    assert "give one of sources, image_uri, definition and builds_on" in refused.stdout + refused.stderr
    forced = user.eb(str(easyconfig), "--module-only", "--force", check=False)
    assert forced.returncode != 0
    assert not user.modulefile("foo/1.3.2").exists()


def test_easybuild_lists_it_and_its_parameters(user: User) -> None:
    assert "ContainerImage" in user.out("eb --list-easyblocks")
    assert "image_uri" in user.out("eb -a -e ContainerImage")
