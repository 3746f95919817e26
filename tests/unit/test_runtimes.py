"""A container runtime is one row of a table: with a third one everything works, and few other files name one."""

import importlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from tests.programs import ran, write_file

from sifmod.container.runtime import APPTAINER, RUNTIMES

from .support import Stubs, sifmod_imported_anew

ROOT = Path(__file__).resolve().parents[2]

STARTER = """source "$sifmod_root/share/runtimes.sh"
start_container() {
    can_mount ACME "$PWD" || die 126 "$sifmod_refusal or use another runtime."
    exec "$sifmod_runtime" "$sifmod_image" "$@"
}
"""


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Import sifmod anew, with one more row, and its script beside the others; yield modules by short names."""
    with sifmod_imported_anew():
        runtime = importlib.import_module("sifmod.container.runtime")
        acme = runtime.Runtime(
            key="acme",
            name="ACME",
            commands=("acme-run",),
            about="`acme` is fast.",
            oldest=MappingProxyType({"acme": "2.0"}),
            starter="share/acme.sh",
            files=("share/runtimes.sh",),
            mounts=runtime.Mounts("%[:space:]", "a percent sign"),
            tested="2.1",
            tools=MappingProxyType({"acme-mount": "ACME needs it"}),
            folders=MappingProxyType({"ACME_HOME": (str(tmp_path), 1)}),
            configuration=str(tmp_path / "acme.conf"),
            plugin=runtime.Plugin(
                "acmed", "share/acme.sh", ("--acme", "--acme-mounts"), "1", runtime.Mounts(",", "a comma")
            ),
        )
        monkeypatch.setattr(runtime, "RUNTIMES", MappingProxyType({**runtime.RUNTIMES, "acme": acme}))
        wanted = {
            "doctor": "doctor.squashfs",
            "helptext": "render.helptext",
            "schema": "site.schema",
            "settings": "site.settings",
            "spec": "container.spec",
            "starter": "install.starter",
            "templates": "render.templates",
            "errors": "errors",
            "wrappers": "container.wrappers",
        }
        modules = SimpleNamespace(**{name: importlib.import_module(f"sifmod.{path}") for name, path in wanted.items()})
        shutil.copytree(ROOT / "wrappers", tmp_path / "wrappers")
        (tmp_path / "wrappers/share/acme.sh").write_text(STARTER)
        monkeypatch.setattr(modules.templates, "data_path", lambda name: tmp_path / name)
        modules.site = modules.settings.Site(name="here", runtimes=("acme", "apptainer"), runtime="no-apptainer")
        yield modules


def written(third: SimpleNamespace, top: Path) -> Any:
    """Write an installation with an image for the runtime, and return its spec."""
    spec = third.spec.spec_from_parameters(
        name="Thing", version="1.0", env_name="THING", installdir=str(top), sif="thing.sif", parameters={}
    )
    spec = replace(spec, squashfs="thing.sqsh")
    for item in third.templates.render(spec, third.site):
        write_file(top / item.path, item.text)
        (top / item.path).chmod(0o755 if item.executable else 0o644)
    (top / "thing.sqsh").touch()
    return spec


def test_the_site_takes_it(third: SimpleNamespace, tmp_path: Path) -> None:
    schema = third.schema.site_schema()["properties"]["runtimes"]
    assert "acme" in schema["items"]["enum"]
    assert "`apptainer` stands for SingularityCE too. With `enroot`" in schema["description"]
    path = write_file(tmp_path / "site.toml", 'runtimes = ["acme"]\n')
    site = third.settings.load_settings({}, str(path)).site
    assert [one.name for one in site.squashfs_runtimes] == ["ACME"]
    assert site.prefers_plugin
    path.write_text('runtime = "/opt/acme-run"\n')
    with pytest.raises(third.errors.SiteError, match=r'ACME does not: remove it, and write runtimes = \["acme"\]'):
        third.settings.load_settings({}, str(path))


def test_commands_of_modules_start_it(third: SimpleNamespace, tools: Stubs, tmp_path: Path) -> None:
    spec = written(third, tmp_path / "top")
    acme = tools("acme-run", 'echo "$@"')
    (tmp_path / "50%").mkdir()

    def called(folder: Path, **environ: str) -> tuple[int, str]:
        path = f"{acme.parent}:/usr/bin:/bin"
        words = [f"{spec.installdir}/bin/in-container", "echo", "a b"]
        done = ran(words, cwd=folder, env={"PATH": path, **environ})
        return done.returncode, done.stdout + done.stderr

    assert called(tmp_path) == (0, f"{spec.installdir}/thing.sqsh echo a b\n")
    refusal = f"ACME can't mount '{tmp_path}/50%', because of a percent sign in it: rename it, or use another runtime."
    assert called(tmp_path / "50%") == (126, f"in-container: {refusal}\n")
    status, said = called(tmp_path, SIFMOD_RUNTIMES="acne")
    assert (status, "'acne' is not a runtime: use apptainer or enroot or acme, or several with commas" in said) == (
        2,
        True,
    )


def test_a_site_that_has_it_no_more_starts_sifs(third: SimpleNamespace, tmp_path: Path) -> None:
    third.site = replace(third.site, runtimes=(), runtime="acme-less")
    spec = written(third, tmp_path / "top")
    words = [f"{spec.installdir}/bin/in-container", "true"]
    done = ran(words)
    assert "looked for acme-less on PATH" in done.stderr


def test_its_users_are_told_of_it(third: SimpleNamespace, tmp_path: Path) -> None:
    spec = written(third, tmp_path / "top")
    told = " ".join(third.helptext.usage(spec, third.site).split())
    assert "the image for enroot and pyxis and ACME and acmed" in told
    assert "Commands start Apptainer or enroot or ACME, whichever" in told
    assert "--acmed -- script.py writes a job script for Slurm's plugin acmed, and with --no-acmed one without" in told
    assert third.wrappers.why_not_a_wrapper("acme-run")


def test_doctor_looks_for_what_it_needs(third: SimpleNamespace, tools: Stubs, tmp_path: Path) -> None:
    def found() -> dict[str, str]:
        return {item.topic: item.what for item in third.doctor.check_squashfs_runtimes(third.site, {})}

    tools("srun", "echo '--acme=IMAGE'")
    assert found()["ACME"] == "there is no command acme-run on PATH"
    tools("acme-run", "echo 1.9")
    said = found()
    assert said == {
        "ACME": "ACME 1.9 is older than 2.0",
        "acme-mount": "there is no command acme-mount on PATH",
        "ACME_HOME": said["ACME_HOME"],
        "acmed": "srun has no option --acme-mounts",
    }
    assert said["ACME_HOME"].startswith(f"{tmp_path}: ")


def test_an_install_uses_its_class(third: SimpleNamespace, tools: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    tools("acme-run", "echo 2.1")
    with pytest.raises(third.errors.RuntimeMissingError):
        third.starter.find_install_runtime(third.site)
    monkeypatch.setitem(third.starter._STARTERS, "acme", str)
    assert third.starter.find_install_runtime(third.site).endswith("/acme-run")


# What may name a runtime other than the one for SIFs, and why. This list may only become shorter.
_EXCEPTIONS = {
    "src/sifmod/container/runtime.py": "the table",
    "src/sifmod/host/enroot.py": "starts it while a container is installed",
    "src/sifmod/install/starter.py": "has the class for each row",
    "src/sifmod/commands/sbatch.py": "has --pyxis, an option of users",
    "src/sifmod/render/job.py": "refuses jobs with that option, and has it in --json",
    "src/sifmod/installed/job.py": "refuses jobs with that option",
    "src/sifmod/catalogue/collection.py": "sets that option",
    "src/sifmod/commands/list.py": "has a key of --json",
    "src/sifmod/commands/show.py": "reads that key",
    "jobs/sbatch": "calls srun with the options of the plugin",
    "wrappers/share/enroot.sh": "starts it",
    "wrappers/share/pyxis.sh": "makes what a job gives to the plugin",
    "wrappers/runscripts/with-environment": "sets what it does not set in the container",
}


def test_no_other_file_names_a_runtime() -> None:
    others = [one for one in RUNTIMES.values() if one is not APPTAINER]
    words = {word for one in others for word in (one.key, *one.commands, *([one.plugin.name] if one.plugin else []))}
    assert {"enroot", "pyxis"} <= words
    naming = {
        str(path.relative_to(ROOT)).removesuffix(".j2")
        for folder in ("src", "easyblocks", "wrappers", "modulefiles", "jobs")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and re.search("|".join(words), path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    assert naming == set(_EXCEPTIONS)
