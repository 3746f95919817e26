"""`sifmod render` and `sifmod convert`: easyconfigs evaluated by the real EasyBuild."""

import json
import re
from pathlib import Path
from typing import Optional

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, LUMI_EASYCONFIG, LUMI_MODULE, LUMI_SIF, User, make_user

LUMI_STYLE = Path(__file__).parents[1] / "data" / "lumi-style.eb"
# What every easyconfig has.
MINIMAL = (
    "easyblock = 'ContainerImage'",
    "name = 'X'",
    "version = '1'",
    "homepage = 'h'",
    "description = 'd'",
    "toolchain = SYSTEM",
)


def files_below(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix != ".sif"
    }


def test_what_is_rendered_is_what_was_installed(demo: User) -> None:
    same = demo.run(f"sifmod render {DEMO_EASYCONFIG} --diff", check=False)
    assert (same.returncode, same.stdout) == (0, "")
    other = demo.run(f"SIFMOD_MASTER_SUFFIX=-ib sifmod render {DEMO_EASYCONFIG} --diff", status=1)
    assert [line for line in other.stdout.splitlines() if line.startswith("+++ ")] == ["+++ new/runscripts/values.sh"]


@pytest.mark.slow
def test_files_are_written_like_a_prefix_also_before_an_install(demo: User, user: User) -> None:
    done = user.run(f"sifmod render {DEMO_EASYCONFIG} --output out --prefix '{demo.prefix}'")
    assert "assuming that the image's Python is 3.11, from the earlier install" in done.stderr
    written = files_below(user.prefix / "out" / "software" / DEMO_MODULE)
    installed = files_below(demo.installdir(DEMO_MODULE))
    assert {name: installed[name] for name in written} == written
    missing = {name for name in installed if name.startswith(("bin/", "share/", "runscripts/")) and name not in written}
    assert missing == {"share/sifmod.json", "runscripts/pip-constraints.txt"}
    module = user.prefix / "out" / "modules" / "all" / f"{DEMO_MODULE}.lua"
    assert module.read_text() == demo.modulefile(DEMO_MODULE).read_text()
    before = sorted(path.name for path in user.prefix.iterdir())
    fresh = json.loads(user.out(f"sifmod render {DEMO_EASYCONFIG} --json"))
    assert "from the module's version" in fresh["notes"][0]
    module_text = fresh["files"][str(user.modulefile(DEMO_MODULE))]
    # what UCX needs with this runtime is asked at the install
    part = (Path(__file__).parents[2] / "modulefiles" / "exported.lua").read_text()
    without_ucx = re.sub(r".*UCX_POSIX.*\n", "", module.read_text()).replace(part, "")
    assert module_text.replace(str(user.prefix), str(demo.prefix)) == without_ucx
    assert sorted(path.name for path in user.prefix.iterdir()) == before
    refused = user.run(f"sifmod render {DEMO_EASYCONFIG} --output out", check=False)
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["render", "convert"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'X'\nversion = \n", "can't be evaluated"),
        ("import sys; sys.exit(3)\n", "can't be evaluated"),
        ("1 / 0\n", "division by zero"),
        ("\udcff", "can't be evaluated"),
        (None, "there is no easyconfig"),
    ],
)
def test_what_eb_would_not_take_is_one_line(user: User, verb: str, text: Optional[str], says: str) -> None:
    path = user.prefix / "X-1.eb"
    if text is not None:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    done = user.run(f"sifmod {verb} ./X-1.eb", check=False)
    assert (done.returncode, done.stdout) == (9, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_templates_are_those_of_an_install(user: User) -> None:
    lines = [*MINIMAL, "sources = ['x.sif']", "modextravars = {'A': '%(installdir)s/%(version)s'}"]
    (user.prefix / "X-1.eb").write_text("\n".join([*lines, 'modluafooter = \'setenv("B", "%(installdir)s")\'\n']))
    printed = user.out("sifmod render ./X-1.eb")
    assert f'setenv("A", "{user.prefix}/software/X/1/1")' in printed
    assert f'setenv("B", "{user.prefix}/software/X/1")' in printed


def test_a_wrong_parameter_is_named_as_by_an_install(user: User) -> None:
    text = "easyblock = 'ContainerImage'\nname = 'X'\nversion = '1'\nhomepage = 'h'\ndescription = 'd'\n"
    (user.prefix / "X-1.eb").write_text(f"{text}toolchain = SYSTEM\nsources = ['x.sif']\nbinds = ['relative']\n")
    done = user.run("sifmod render ./X-1.eb", status=3)
    assert "easyconfig parameter 'binds'" in done.stderr
    (user.prefix / "Y-1.eb").write_text(f"{text.replace('ContainerImage', 'Bundle')}toolchain = SYSTEM\n")
    done = user.run("sifmod render ./Y-1.eb", status=9)
    assert "sifmod convert" in done.stderr


def test_a_converted_easyconfig_installs_and_runs(user: User, lumi_images: Path) -> None:
    user.env.update(SIFMOD_SITE="lumi", SIFMOD_IMAGE_REPOSITORIES=str(lumi_images))
    done = user.run(f"sifmod convert '{LUMI_STYLE}' --output .")
    easyconfig = user.prefix / LUMI_EASYCONFIG
    assert f"wrote {LUMI_EASYCONFIG}" in done.stdout
    assert "not carried over: the script bin/report" in done.stderr
    assert f"[PASS] {easyconfig}" in user.out(f"eb --check-style '{easyconfig}'")
    refused = user.run(f"sifmod convert '{LUMI_STYLE}' --output .", check=False)
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    # The image stands in for LUMI's: it has neither these packages nor these paths.
    changes = ["pip_requirements = []", "binds = []", "modluafooter = ''"]
    last_check = "sanity_check_commands = sanity_check_commands[-1:]"
    easyconfig.write_text("\n".join([easyconfig.read_text(), *changes, last_check, ""]))
    lacking = user.eb(str(easyconfig), check=False)
    assert "'wrappers' = 'torchrun': the container has no such command" in lacking.stdout + lacking.stderr
    easyconfig.write_text(easyconfig.read_text() + "wrappers[wrappers.index('torchrun')] = 'demo-tool'\n")
    user.eb(str(easyconfig))
    said = user.out(f"module load {LUMI_MODULE}; echo $OUR_DATA; python -c 'import os, sys; print(sys.prefix)'")
    assert said == "/data\n/user-software/venv/pytorch"
    assert user.out(f"module load {LUMI_MODULE}; singularity exec $SIF printenv OMP_NUM_THREADS") == "7"
    assert (user.installdir(LUMI_MODULE) / "user-software.squashfs").is_file()
    assert (user.installdir(LUMI_MODULE) / "bin" / "demo-tool").is_file()


def test_the_python_of_an_older_easyconfig_is_read_from_its_image(user: User, lumi_images: Path) -> None:
    script = "cat >%(installdir)s/runscripts/conda-python-simple <<EOF \n\\$WITH_CONDA\nEOF"
    lines = [*MINIMAL[1:], "easyblock = 'MakeCp'", f"sources = ['{LUMI_SIF}']", f"postinstallcmds = [{script!r}]"]
    (user.prefix / "X.eb").write_text("\n".join([*lines, ""]))
    unknown = user.run("sifmod convert X.eb")
    assert "the runscripts that need it (conda-python-simple)" in unknown.stderr
    assert "conda_env" not in unknown.stdout.replace("Add conda_env", "")
    user.env["SIFMOD_IMAGE_REPOSITORIES"] = str(lumi_images)
    found = user.run("sifmod convert X.eb")
    assert "\nconda_env = 'pytorch'\n" in found.stdout
    assert "conda-python-simple" not in found.stderr


def test_a_conversion_leaves_no_trace(tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb")
    user.env["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    user.run(f"sifmod convert --site lumi '{LUMI_STYLE}' >/dev/null; sifmod render {DEMO_EASYCONFIG} >/dev/null")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [path.name for path in user.prefix.iterdir()] == ["modules"]


HOOKS = """
def module_write_hook(self, filepath, module_txt):
    assert filepath.endswith((".lua", "/1"))
    comment = "--" if filepath.endswith(".lua") else "#"
    return module_txt + f"{comment} site: {self.name} {len(module_txt.splitlines()) > 20}\\n"

def parse_hook(ec, *args, **kwargs):
    ec["modextravars"] = {"SITE_PARSED": "1"}
"""


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["Lua", "Tcl"])
def test_hooks_of_the_site_count(tmp_path: Path, syntax: str) -> None:
    user = make_user(tmp_path / "eb", EASYBUILD_MODULE_SYNTAX=syntax, TMPDIR=str(tmp_path / "tmp"))
    hooks = tmp_path / "hooks.py"
    hooks.write_text(HOOKS)
    (tmp_path / "tmp").mkdir()
    lines = [*MINIMAL, "sources = ['demo.sif']", "modextrapaths = {'X_SCRIPTS': 'runscripts'}"]
    (user.prefix / "X-1.eb").write_text("\n".join(lines) + "\n")
    user.env.update(EASYBUILD_HOOKS=str(hooks), SIFMOD_IMAGE_REPOSITORIES=str(IMAGES))
    module = user.prefix / "modules" / "all" / "X" / ("1.lua" if syntax == "Lua" else "1")
    before = sorted(path for path in tmp_path.rglob("*") if "/.cache" not in str(path))
    printed = json.loads(user.out("sifmod render ./X-1.eb --json"))["files"][str(module)]
    assert sorted(path for path in tmp_path.rglob("*") if "/.cache" not in str(path)) == before
    user.eb("X-1.eb")
    installed = module.read_text()
    assert "site: X True\n" in installed
    assert all(text in installed for text in ("SITE_PARSED", "X_SCRIPTS"))
    assert printed == installed
    same = user.run("sifmod render ./X-1.eb --diff", check=False)
    assert (same.returncode, same.stdout) == (0, ""), same.stderr
    hooks.write_text(HOOKS.replace("site: ", "other: "))
    changed = user.run("sifmod render ./X-1.eb --diff", status=1)
    assert "other: X True" in changed.stdout
