"""A known problem of an installed container, from the site's file to what users see, before and after an update."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_module_tcl import INIT

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user

HANGS = """
[[advisory]]
id = "demo-hangs"
severity = "problem"
text = "Jobs hang with demo-vendor 1."
source = "https://support.example.org/1"
remedy = "Set DEMO_MODE=safe and do not set DEMO_FAST."
set = { DEMO_MODE = "safe" }
unset = ["DEMO_FAST"]
[advisory.match]
images = ["demo.sif"]
packages = { demo-vendor = ">=1,<2" }
runtimes = { apptainer = ">=1" }
"""
UPDATE = """
[[advisory]]
id = "since-the-update"
severity = "warning"
text = "Since the update of today the network is slow."
source = "https://support.example.org/2"
remedy = "Use one node."
[advisory.match]
labels = { "org.label-schema.usage.singularity.version" = "*" }
"""


@pytest.fixture(scope="module", params=["Lua", pytest.param("Tcl", marks=pytest.mark.slow)])
def user(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo image installed on a site that has an advisory about it; `eb` has told it."""
    folder = tmp_path_factory.mktemp("advisories")
    (folder / "ours.toml").write_text(HANGS)
    user = make_user(folder / "eb", SIFMOD_ADVISORIES=str(folder / "ours.toml"))
    user.env["EASYBUILD_MODULE_SYNTAX"] = request.param
    done = user.eb(DEMO_EASYCONFIG)
    assert "advisory demo-hangs: Jobs hang with demo-vendor 1. Set DEMO_MODE=safe" in done.stdout + done.stderr
    return user


def findings(user: User, *words: str) -> tuple[int, dict[str, Any]]:
    done = user.run(f"sifmod doctor --json {' '.join(words)}", check=False)
    return done.returncode, json.loads(done.stdout)


def test_help_and_show_tell_it(user: User) -> None:
    text = user.run(f"module help {DEMO_MODULE} 2>&1").stdout
    assert "demo-hangs: Jobs hang with demo-vendor 1." in text
    assert "https://support.example.org/1" in text
    assert "advisory demo-hangs: Jobs hang" in user.out(f"sifmod show {DEMO_MODULE}")


def test_load_tells_it_once_in_a_shell_unless_the_remedy_is_in_force(user: User) -> None:
    """With Lmod, and with Environment Modules, which reads only Tcl."""
    load, unload = f"module load {DEMO_MODULE}", f"module unload {DEMO_MODULE}"
    for begin in ("", INIT) if user.env["EASYBUILD_MODULE_SYNTAX"] == "Tcl" else ("",):
        twice = user.run(f"{begin}\n{load}\n{unload}\n{load}\nbash -c '{load}'")
        assert twice.stderr.count("Known problem (demo-hangs): Jobs hang") == 1, twice.stderr
        cured = user.run(f"{begin}\nexport DEMO_MODE=safe\n{load}")
        assert "demo-hangs" not in cured.stderr
        spoilt = user.run(f"{begin}\nexport DEMO_MODE=safe DEMO_FAST=1\n{load}")
        assert spoilt.stderr.count("demo-hangs") == 1


@pytest.mark.slow
def test_doctor_goes_through_all_installations_after_an_update(user: User) -> None:
    ours = Path(user.env["SIFMOD_ADVISORIES"])
    status, report = findings(user, "--all")
    assert (status, report["outcome"]) == (1, "problem")
    (item,) = report["installations"]
    found = {finding["topic"]: finding for finding in item["findings"]}
    assert (item["module"], found["advisory demo-hangs"]["severity"]) == (DEMO_MODULE, "problem")
    assert "advisories" not in found  # the module tells of it
    try:
        ours.write_text(HANGS.replace('">=1"', '">=99"') + UPDATE)
        status, report = findings(user, "--all")
        found = {finding["topic"]: finding for finding in report["installations"][0]["findings"]}
        assert status == 20
        assert "advisory demo-hangs" not in found
        assert found["advisory since-the-update"]["severity"] == "warning"
        told = [one["what"] for one in report["installations"][0]["findings"] if one["topic"] == "advisories"]
        assert [" ".join(what.split()[3:]) for what in told] == [
            "does not tell of since-the-update",
            "still tells of demo-hangs",
        ]
        ours.write_text(HANGS.replace("severity", "severty"))
        wrong = user.run("sifmod doctor --all", check=False)
        assert (wrong.returncode, "unknown key 'severty'" in wrong.stderr) == (4, True)
        assert f"{ours}', line 4" in wrong.stderr
        done = user.eb(DEMO_EASYCONFIG, "--rebuild", check=False)
        assert done.returncode != 0
        assert "unknown key 'severty'" in done.stdout + done.stderr
    finally:
        ours.write_text(HANGS)
