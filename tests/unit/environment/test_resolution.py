import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod.container.spec import PythonLayout
from sifmod.environment.lock import Locked
from sifmod.environment.requirements import Requirements, read_pyproject, read_requirements
from sifmod.environment.resolution import Base, without_held
from sifmod.errors import SifmodError
from sifmod.host.runtime import ContainerRuntime
from sifmod.install.probe import PythonFacts

from .test_lock import LINUX, SHA

FACTS = PythonFacts("3.11", (("demo-vendor", "1.2.3+site"), ("pip", "24.0"), ("distro-info", "1.1build1")))
WANTED = Requirements(origin="requirements.txt", lines=("wants-new",), names=("wants-new",), options=("--pre",))
PLATFORM = {"pip": "24.0", "environment": dict(LINUX.environment), "tags": list(LINUX.tags)}
ARCHIVE = {"hash": f"sha256={SHA}"}
ITEM: dict[str, Any] = {
    "metadata": {"name": "Greeting", "version": "1.0"},
    "download_info": {"url": "https://x.org/greeting-1.0-py3-none-any.whl", "archive_info": ARCHIVE},
}
# The base is not trusted: it may name any file of the host.
HOME = {**ITEM, "download_info": {"url": "file:///home/victim/greeting-1.0-py3-none-any.whl", "archive_info": ARCHIVE}}

CONFLICT = """Collecting wants-new
ERROR: Cannot install -r /tmp/requirements.txt (line 2) because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/

The conflict is caused by:
    wants-new 1.0 depends on demo-vendor>=2
    The user requested (constraint) demo-vendor==1.2.3+site

To fix this you could try to:
"""


def answering(folder: Path, answer: Any, *, probe: str = "") -> Path:
    """Return a container runtime in which every program prints an answer, and `inside/probe.py` another."""
    (folder / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    (folder / "probe").write_text(probe)
    (folder / "bin").mkdir(exist_ok=True)
    runtime = folder / "bin" / "singularity"
    here = shlex.quote(str(folder))
    runtime.write_text(f"#!/bin/sh\nif grep -q resolve.py; then cat {here}/answer; else cat {here}/probe; fi\n")
    runtime.chmod(0o755)
    return runtime


def base(folder: Path, answer: Any) -> Base:
    runtime = ContainerRuntime(answering(folder, answer))
    return Base(image=folder / "demo.sif", runtime=runtime, python=PythonLayout("/usr"))


def resolve(folder: Path, answer: Any, wanted: Requirements = WANTED) -> tuple[Locked, ...]:
    return base(folder, answer).resolve(wanted, FACTS, constraints=FACTS.all_constraints)


def report(*items: Any) -> dict[str, Any]:
    return {**PLATFORM, "status": 0, "output": "", "report": {"install": list(items)}}


def test_the_report_of_pip_becomes_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    place = f"{tmp_path.as_uri()}/greeting-1.0-py3-none-any.whl"
    newer = {**ITEM, "download_info": {"url": place, "archive_info": {"hashes": {"sha256": SHA}}}}
    assert resolve(tmp_path, report(ITEM)) == (
        Locked("greeting", "1.0", SHA, url="https://x.org/greeting-1.0-py3-none-any.whl"),
    )
    assert resolve(tmp_path, report(newer))[0].path == f"{tmp_path}/greeting-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (CONFLICT, "wants-new 1.0 depends on demo-vendor>=2; the base has demo-vendor==1.2.3+site."),
        ("ERROR: No matching distribution found for x (from -r /tmp/requirements.txt (line 2))", "x (from wants-new)."),
        (
            "WARNING: NewConnectionError('<c at 0x7f>: [Errno 111] Connection refused')",
            "reached to resolve 'requirements.txt' ([Errno 111] Connection refused): check",
        ),
        ("OSError: [Errno 28] No space left on device", "out of space: set TMPDIR"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "a hash that the package does not have"),
        ("ERROR: All must be pinned:\n    x from y", "All must be pinned: x from y"),
        ("", "printed nothing"),
    ],
)
def test_what_pip_says_becomes_one_sentence(tmp_path: Path, output: str, said: str) -> None:
    with pytest.raises(SifmodError) as caught:
        resolve(tmp_path, {**PLATFORM, "status": 1, "output": output, "report": None})
    assert said in str(caught.value)
    assert "requirements.txt" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "printed something else"),
        ("[" * 100_000, "printed something else"),
        ({"pip": "24.0"}, "printed something else"),
        ({**PLATFORM, "pip": ""}, "has no pip, and pip 22.2 or later"),
        ({**PLATFORM, "pip": "22.0.2"}, "has pip 22.0.2, and pip 22.2 or later"),
        ({**PLATFORM, "tags": 3}, "in another form"),
        ({**PLATFORM, "environment": {}}, "in another form"),
        ({**PLATFORM, "environment": {**LINUX.environment, "sys_platform": 'x" or os_name'}}, "in another form"),
        ({**PLATFORM, "environment": {**LINUX.environment, "python_full_version": "three"}}, "in another form"),
        ({**PLATFORM, "environment": {**LINUX.environment, "platform_machine": 7}}, "in another form"),
        ({**PLATFORM, "environment": {**LINUX.environment, "platform_release": "x" * 9999}}, "in another form"),
        ({**PLATFORM, "pip": "9" * 5000}, "has pip 0, and"),
        (report({**ITEM, "metadata": {"name": "greeting", "version": "9" * 5000}}), "can't be locked"),
        (report(HOME), "pip was not given '/home/victim/greeting-1.0-py3-none-any.whl'"),
        (PLATFORM, "no list 'install'"),
        (report(7), "not a wheel"),
        (report({**ITEM, "download_info": {"url": "git+https://x.org/y", "vcs_info": {}}}), "not a wheel"),
        (report({**ITEM, "download_info": {**ITEM["download_info"], "archive_info": {}}}), "no SHA-256"),
        (report({**ITEM, "metadata": {"name": "demo-vendor", "version": "2.0"}}), "another package"),
    ],
)
def test_answers_of_an_image_are_not_trusted(tmp_path: Path, answer: Any, said: str) -> None:
    with pytest.raises(SifmodError, match=said):
        resolve(tmp_path, answer)


def test_packages_beside_the_file_are_copied_for_the_base_which_sees_nothing_else(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    (project / "wheels").mkdir(parents=True)
    (project / "wheels/greeting-1.0-py3-none-any.whl").write_text("a wheel")
    (project / "wheels/secret.txt").touch()
    (project / "wheels/other-1.0-py3-none-any.whl").symlink_to(project / "wheels/greeting-1.0-py3-none-any.whl")
    (project / "requirements.txt").write_text("--find-links wheels\n./wheels/greeting-1.0-py3-none-any.whl\n# /home\n")
    wanted = read_requirements(project / "requirements.txt")
    copy = "file:///tmp/packages/0/greeting-1.0-py3-none-any.whl"
    seen = base(tmp_path, report({**ITEM, "download_info": {"url": copy, "archive_info": ARCHIVE}}))
    runtime = tmp_path / "bin/singularity"
    here = shlex.quote(str(tmp_path))
    watch = f"env >{here}/env; cp -r ${{SINGULARITY_BINDPATH%%:/tmp*}} {here}/copy"
    runtime.write_text(runtime.read_text().replace("#!/bin/sh\n", f"#!/bin/bash\n{watch}\n"))
    (found,) = seen.resolve(wanted, FACTS, constraints="")
    assert found.path == f"{project}/wheels/greeting-1.0-py3-none-any.whl"
    copies = tmp_path / "copy"
    assert (copies / "requirements.txt").read_text().splitlines() == [
        "--find-links file:///tmp/packages/0",
        f"greeting @ {copy}",
    ]
    names = ["greeting-1.0-py3-none-any.whl", "other-1.0-py3-none-any.whl"]
    assert sorted(path.name for path in (copies / "packages/0").iterdir()) == names
    (bound,) = [
        line for line in (tmp_path / "env").read_text().splitlines() if line.startswith("SINGULARITY_BINDPATH=")
    ]
    assert str(project) not in bound
    assert "/home" not in bound


def test_another_python_is_refused_and_one_between_releases_taken(tmp_path: Path) -> None:
    environment = {**LINUX.environment, "python_full_version": "3.14.0a1+"}
    assert base(tmp_path, {**PLATFORM, "environment": environment}).platform().python == "3.14.0a1+local"
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'x'\nrequires-python = '>=3.12'\ndependencies = ['greeting']\n")
    with pytest.raises(SifmodError, match=r"'pyproject.toml' is for Python >=3.12, and the base 'demo.sif' has 3.11.2"):
        resolve(tmp_path, report(ITEM), read_pyproject(path))


@pytest.mark.parametrize("what", ["link", "fifo"])
def test_what_is_no_plain_wheel_beside_the_file_is_not_copied(tmp_path: Path, what: str) -> None:
    (tmp_path / "clone").mkdir()
    path = tmp_path / "clone/x-1.0-py3-none-any.whl"
    if what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/passwd")
    (tmp_path / "clone/requirements.txt").write_text("--find-links .\nx\n")
    with pytest.raises(SifmodError, match=r"x-1\.0-py3-none-any\.whl' can't be copied.*(plain file|leads out)"):
        resolve(tmp_path, report(ITEM), read_requirements(tmp_path / "clone/requirements.txt"))


@pytest.mark.parametrize(
    "line", ["x @ https://h/${PIP_INDEX_URL}", "x\n--index-url=https://h", "x\\", "x @ https://me:secret@h/"]
)
def test_every_line_is_looked_at_once_more_before_pip_reads_it(tmp_path: Path, line: str) -> None:
    for wanted in (
        replace(WANTED, lines=(line,)),
        replace(WANTED, options=(line,)),
        replace(WANTED, constraints=(line,)),
    ):
        with pytest.raises(SifmodError, match=r"^'requirements.txt': ") as caught:
            resolve(tmp_path, report(ITEM), wanted)
        assert "secret" not in str(caught.value)


def test_a_package_of_the_base_is_never_replaced_and_held_in_an_image(tmp_path: Path) -> None:
    place = "https://x.org/demo_vendor-2.0-py3-none-any.whl"
    item = {
        "metadata": {"name": "demo-vendor", "version": "2.0"},
        "download_info": {"url": place, "archive_info": ARCHIVE},
    }
    with pytest.raises(SifmodError, match=r"would replace packages of the base: demo-vendor 1.2.3\+site by 2.0"):
        resolve(tmp_path, report(item))
    mine = Locked("greeting", "1.0", SHA)
    assert without_held([Locked("demo-vendor", "1.2.3", SHA), mine], FACTS, "pylock.toml") == (mine,)
    for other in ("1.2.4", "1.2.3+other"):
        with pytest.raises(SifmodError, match=r"demo-vendor 1.2.* \(the base has 1.2.3\+site\)"):
            without_held([Locked("demo-vendor", other, SHA), mine], FACTS, "pylock.toml")
    assert FACTS.all_constraints == "demo-vendor==1.2.3+site\npip==24.0\n"
    assert FACTS.constraints == "demo-vendor==1.2.3+site\n"
