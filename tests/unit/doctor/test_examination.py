import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional

import pytest
from click.testing import CliRunner, Result
from tests.lacking import lacking
from tests.programs import write_file
from tests.standins_gpu import write_compat

from sifmod.cli import cli
from sifmod.container.bind import Bind
from sifmod.doctor import examination as library
from sifmod.doctor.examination import Target, check_libraries, examine, target_of
from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.errors import ImageError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.gpus import HostGpus
from sifmod.image.inspection import Inspection
from sifmod.image.system import glibc_problem
from sifmod.installed.installation import find_installation
from sifmod.site.feature import Feature
from sifmod.site.settings import Site

from ..image.elfs import elf
from ..imagetrees import squashfs, write
from ..support import SIF_HEADER, SQUASHFS, Need, Stubs, a_site, make_installation, settings_of

Found = dict[str, list[Finding]]
Look = Callable[..., Found]
Call = Callable[..., Result]
LibraryFile = Callable[..., Bind]


@pytest.fixture
def library_file(tmp_path: Path) -> LibraryFile:
    """Return a function that makes a shared library that asks for some versions of glibc."""

    def make(*versions: str) -> Bind:
        path = tmp_path / "libcxi.so.1"
        needed = {"libc.so.6": [*(f"GLIBC_{one}" for one in versions), "GLIBC_PRIVATE"]}
        path.write_bytes(elf("libcxi.so.1", list(needed), needed, b"\0GLIBC_2.99\0"))  # its data ask for nothing
        return Bind.parse(str(path))

    return make


@pytest.mark.parametrize(
    ("libc", "severity"),
    [("glibc 2.31", PROBLEM), ("glibc 2.34", OK), ("glibc 2.36", OK), ("musl 1.2.3", PROBLEM), ("", NOTE)],
)
def test_a_host_library_is_compared_with_the_image_s_libc(library_file: LibraryFile, libc: str, severity: str) -> None:
    bind = library_file("2.2.5", "2.4", "2.34", "2.17")
    (finding,) = check_libraries(Inspection("x", "SIF", libc=libc), [bind, Bind.parse("/etc")])
    assert finding.severity == severity
    if severity == PROBLEM and libc.startswith("glibc"):
        assert "GLIBC_2.34' not found" in finding.why
    if severity == PROBLEM:  # the sentence that refuses an MPI of the host
        assert finding.what == f"'{bind.source}' of the host {glibc_problem('2.34', libc)}"


def test_libraries_of_this_host_are_read_and_without_any_nothing_is_said() -> None:
    found = sorted(Path("/").glob("lib*/*/libm.so.6")) or sorted(Path("/").glob("lib*/libm.so.6"))
    if not found:
        lacking("this host has no libm of glibc where it is looked for")
    (finding,) = check_libraries(Inspection("x", "SIF", libc="glibc 2.1"), [Bind.parse(str(found[0]))])
    assert finding.severity == PROBLEM
    assert list(check_libraries(Inspection("x", "SIF"), [Bind.parse("/etc"), Bind.parse("/gone/x.so")])) == []


@pytest.fixture
def look(space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Examine a target without the host's own findings: topic -> findings."""
    monkeypatch.setattr(library, "check_host", lambda *_arguments, **_more: iter(()))
    monkeypatch.setattr(library, "host_gpus", lambda: ())

    def run(target: Target, image: Optional[Inspection] = None, site: Optional[Site] = None) -> Found:
        def inspected(_path: Path) -> Inspection:
            if image is None:
                raise ImageError("damaged")
            return image

        monkeypatch.setattr(library, "inspect_image", inspected)
        found: Found = {}
        for finding in examine(target, settings_of(site or a_site()), space):
            found.setdefault(finding.topic, []).append(finding)
        return found

    return run


def test_a_foreign_damaged_or_missing_image_is_named(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(Target(image=Path("x.sif")), Inspection("x.sif", "SIF", architecture="s390x"))
    assert (found["image"][0].severity, "s390x" in found["image"][0].what) == (PROBLEM, True)
    found = look(Target(image=Path("x.sif")), Inspection("x.sif", "SIF", unread="it is encrypted"))
    assert [finding.severity for finding in found["image"]] == [OK, WARNING]
    assert look(Target(image=Path("x.sif")))["image"][0].severity == PROBLEM
    monkeypatch.setenv("SIF", "/apps/other.sif")
    assert look(Target(image=Path("x.sif")))["image"][0].what == "the module of '/apps/other.sif' is loaded"
    assert [one.severity for one in look(Target(image=Path("/apps/other.sif")))["image"]] == [PROBLEM]
    assert look(Target(missing_image="it is gone"))["image"][0].severity == NOTE


def test_files_of_pythonpath(look: Look, space: SoftwareSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_installation(space, "Demo/1")
    write(root, "runscripts/pip-constraints.txt", "numba==0.60\nnumpy==2.1\nsubmitit==1.5\n")
    for folder, info in (("seen", "numpy-1.0"), ("seen", "other-1.0"), ("unseen", "submitit-1.0")):
        name, _, version = info.partition("-")
        write(tmp_path, f"{folder}/{info}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
    site = a_site(binds=(Bind(f"{tmp_path}/seen", f"{tmp_path}/seen"),))
    monkeypatch.setattr("sifmod.names.MOUNTED_ANYWAY", ())
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", f":relative:{tmp_path}/seen:{tmp_path}/unseen:/gone")
    target = Target(installation=find_installation(space, "Demo/1"))
    found = look(target, site=site)
    (finding,) = found["PYTHONPATH"]
    assert finding.what == f"numpy 1.0 in '{tmp_path}/seen' of PYTHONPATH hides the container's 2.1: unset PYTHONPATH"
    for module in ("submitit/__init__.py", "tests/__init__.py", "data/numpy.txt", "numpy.txt"):
        write(tmp_path, f"seen/{module}", "")
    plain = {finding.what for finding in look(target, site=site)["PYTHONPATH"]} - {finding.what}
    assert plain == {f"'{tmp_path}/seen/submitit' of PYTHONPATH hides the container's submitit: unset PYTHONPATH"}
    assert "NUMBA_CACHE_DIR" in found["numba"][0].remedy
    assert "numba" not in look(target, site=a_site(cache={"NUMBA_CACHE_DIR": "numba"}))
    (finding,) = found["submitit"]
    assert "runs jobs on this host" in finding.what
    assert "which sifmod site discover slurm writes" in finding.remedy
    with_feature = a_site(feature={"slurm": Feature("slurm")})
    assert "export SIFMOD_FEATURES=slurm, then load" in look(target, site=with_feature)["submitit"][0].remedy
    with_srun = a_site(optional_binds=(Bind("/usr/bin/srun", "/usr/bin/srun"),))
    assert "submitit" not in look(target, site=with_srun)


def test_a_feature_that_the_site_has_no_more_is_named(look: Look, space: SoftwareSpace) -> None:
    make_installation(space, "Demo/1", features=("mpi",))
    (finding,) = look(Target(installation=find_installation(space, "Demo/1")))["features"]
    assert (finding.severity, finding.what) == (WARNING, "the site no longer has the feature 'mpi'")


def test_an_environment_whose_packages_are_elsewhere_is_a_problem(look: Look, space: SoftwareSpace) -> None:
    library = make_installation(space, "Demo/1") / "user-software/venv/demo/lib"
    library.rename(library.with_name("other"))
    library.symlink_to("../../..")
    (problem, _counts) = look(Target(installation=find_installation(space, "Demo/1")))["user software"]
    assert (problem.severity, "out of user software" in problem.what) == (PROBLEM, True)


@pytest.mark.parametrize(
    ("default", "changes", "installed", "severity"),
    [
        (["cxi"], (), None, PROBLEM),
        (["cxi"], ("-cxi",), None, None),
        ([], ("cxi",), None, PROBLEM),
        ([], (), ("cxi",), PROBLEM),
        (["cxi"], (), (), None),
    ],
)
def test_the_libraries_of_a_container_s_own_features_are_compared(
    look: Look,
    library_file: LibraryFile,
    space: SoftwareSpace,
    default: list[str],
    changes: tuple[str, ...],
    installed: Optional[tuple[str, ...]],
    severity: Optional[str],
) -> None:
    cxi = Feature("cxi", binds=(library_file("2.34"),))
    site = a_site(feature={"cxi": cxi}, default_features=tuple(default))
    target = Target(image=Path("x.sif"), features=changes)
    if installed is not None:
        make_installation(space, "Demo/1", features=installed)
        target = Target(image=Path("x.sif"), installation=find_installation(space, "Demo/1"))
    found = look(target, Inspection("x.sif", "SIF", libc="glibc 2.31"), site).get("host libraries", [])
    assert [finding.severity for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(("own", "counts"), [("image", "image"), (None, "host"), (["?"], "host")])
def test_libraries_are_chosen_at_installation(look: Look, space: SoftwareSpace, own: object, counts: str) -> None:
    make_installation(space, "Demo/1", parameters={"gpu": "nvidia", "gpu_libraries": own})
    target = target_of(find_installation(space, "Demo/1"), a_site())
    found = look(target, Inspection("x.sif", "SIF"), a_site(gpu_libraries="host"))
    assert found["GPU libraries"][0].what.startswith(f"gpu_libraries is '{counts}'")


def test_a_slurm_that_is_too_new_is_named_once(look: Look, library_file: LibraryFile, space: SoftwareSpace) -> None:
    """And not each library of it: an install leaves it out, unless the host of the install lacks it."""
    slurm = Feature("slurm", binds=(library_file("2.34"),))
    site = a_site(feature={"slurm": slurm}, default_features=("slurm",))
    make_installation(space, "Demo/1", features=("slurm",))
    installed = Target(image=Path("x.sif"), installation=find_installation(space, "Demo/1"))
    for target, severity in ((Target(image=Path("x.sif")), NOTE), (installed, PROBLEM)):
        found = look(target, Inspection("x.sif", "SIF", libc="glibc 2.31"), site)
        (finding,) = found["Slurm"]
        reason = "Slurm of the host needs glibc 2.34, but the image has glibc 2.31"
        assert (finding.severity, finding.what) == (severity, reason)
        assert "host libraries" not in found
    without = Target(image=Path("x.sif"), features=("-slurm",))
    assert "Slurm" not in look(without, Inspection("x.sif", "SIF", libc="glibc 2.31"), site)
    assert "Slurm" not in look(Target(image=Path("x.sif")), Inspection("x.sif", "SIF", libc="glibc 2.36"), site)


def test_user_software_s_state_is_looked_at(look: Look, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_installation(space, "Demo/1")
    target = Target(installation=find_installation(space, "Demo/1"))
    assert look(target)["user software"][0].severity == OK
    info = root / "user-software/venv/demo/lib/python3.11/site-packages/one-1.dist-info"
    write_file(info / "METADATA", "Name: one\nVersion: 1\n")
    (counts,) = look(Target(installation=find_installation(space, "Demo/1")))["user software"]
    assert counts.what == "a directory with 2 files, 1 package"
    monkeypatch.setattr(library, "_MANY_FILES", 0)
    assert "make-squashfs" in look(target)["user software"][0].remedy
    (root / "user-software.squashfs").write_bytes(b"")
    assert look(target)["user software"][0].severity == WARNING
    (root / "user-software").rename(root / "elsewhere")
    assert look(target)["user software"][0].severity == PROBLEM
    (root / "user-software.squashfs").write_bytes(SQUASHFS)
    assert look(target)["user software"][0].severity == OK
    (root / "user-software.squashfs").unlink()
    assert "neither" in look(target)["user software"][0].what
    (root / "user-software").symlink_to("/nowhere")
    (finding,) = look(target)["user software"]
    assert "is a link to '/nowhere', which does not exist" in finding.what
    assert "remove the link" in finding.remedy


def test_a_second_torch_in_user_software_and_layers_are_looked_at(look: Look, space: SoftwareSpace) -> None:
    root = make_installation(space, "Demo/1")
    target = Target(installation=find_installation(space, "Demo/1"))
    layer = root / "user-software.layers/1.squashfs"
    layer.parent.mkdir()
    layer.write_bytes(SQUASHFS)
    layer.with_suffix(".sha256").write_text(f"{64 * '0'}\n")
    (packages,) = root.glob("user-software/venv/demo/lib/python3.11/site-packages")
    (packages / "_below.pth").write_text("import x; p = '/user-layers/1/venv'\n")
    assert "layers" not in look(target)
    layer.rename(layer.with_name("2.squashfs"))
    (finding,) = look(target)["layers"]
    assert (finding.severity, "1.squashfs is missing" in finding.what) == (PROBLEM, True)
    write_file(root / "runscripts" / "pip-constraints.txt", "torch==2.2.0\n")
    info = root / "user-software/venv/demo/lib/python3.11/site-packages/torch-2.9.0.dist-info"
    write_file(info / "METADATA", "Name: torch\nVersion: 2.9.0\n")
    (finding,) = look(Target(installation=find_installation(space, "Demo/1")))["packages"]
    assert (finding.severity, finding.what) == (WARNING, "torch 2.9.0 hides the image's torch 2.2.0")


def test_a_directory_that_is_not_in_use_is_compared(look: Look, space: SoftwareSpace, need: Need) -> None:
    root = make_installation(space, "Demo/1")
    squashfs(need("mksquashfs"), root / "user-software", root / "user-software.squashfs")
    target = Target(installation=find_installation(space, "Demo/1"))
    _, same = look(target)["user software"]
    assert (same.severity, "--remove-directory" in same.remedy) == (NOTE, True)
    (root / "user-software" / "late").touch()
    _, late = look(target)["user software"]
    assert (late.severity, "only in the directory: 'late'" in late.what) == (WARNING, True)
    (root / "user-software.squashfs").write_bytes(SQUASHFS)
    assert "can't be compared" in look(target)["user software"][1].what


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(library, "check_host", lambda *_arguments, **_more: iter(()))
    monkeypatch.setattr(library, "host_gpus", lambda: ())
    return lambda *words: CliRunner().invoke(cli, ["doctor", *words])


def test_the_command_ends_by_severity(call: Call, tmp_path: Path) -> None:
    well = call()
    assert (well.exit_code, "0 problems, 0 warnings, 0 notes" in well.output) == (0, True)
    (tmp_path / "x.sif").write_bytes(SIF_HEADER)
    ill = call(str(tmp_path / "x.sif"), "--json")
    report = json.loads(ill.output)
    assert (ill.exit_code, report["outcome"]) == (1, "problem")
    assert set(report["findings"][0]) == {"severity", "topic", "what", "why", "remedy", "origin"}
    root = make_installation(software_space(), "Demo/1")
    (root / "demo.sif").unlink()
    (root / "user-software.squashfs").write_bytes(b"")
    assert call("Demo/1").exit_code == 20


def test_a_sandbox_for_cuda_meets_a_k40(tmp_path: Path, stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way, but for the card: recorded output of its driver's tool."""
    files = {
        "etc/os-release": 'ID=ubuntu\nPRETTY_NAME="Ubuntu 20.04.4 LTS"\n',
        "usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "11.6.20220318"}}',
        "usr/bin/true": "",
    }
    for name, text in files.items():
        write_file(tmp_path / "sandbox" / name, text)
    stub("nvidia-smi", "echo 'Tesla K40m, 440.33.01, 3.5'")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    result = CliRunner().invoke(cli, ["doctor", str(tmp_path / "sandbox"), "--json"])
    found = {one["topic"]: one for one in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 1
    assert "the driver is 440.33.01, and CUDA 11.6" in found["GPU driver"]["what"]
    assert "needs 450.80.02 or later" in found["GPU driver"]["what"]
    assert found["GPU driver"]["why"]
    assert found["GPU driver"]["remedy"]
    assert "Ubuntu 20.04.4 LTS" in found["image"]["what"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--driver", "580.82.07", "--gpu", "A100"], "fits: driver 580.82.07 runs CUDA 13.0"),
        (["--driver", "535.104.05", "--gpu", "A100"], "fits by compat: CUDA 13.0.1 needs 580"),
        (["--driver", "535.104.05", "--gpu", "nvidia_h100_80gb_hbm3"], "fits by compat: CUDA 13.0.1 needs 580"),
        (["--driver", "535.104.05", "--gpu", "NVIDIA GeForce RTX 4090"], "is not known to be a GPU for data centres"),
        (["--driver", "525.60.13", "--gpu", "A100"], "NVIDIA does not support them on driver 525.60.13"),
        (["--driver", "535.104.05"], "which GPU it is was not said: see --gpu"),
    ],
)
def test_an_image_is_compared_with_a_partition(call: Call, tmp_path: Path, words: Sequence[str], says: str) -> None:
    top = tmp_path / "sandbox"
    write(top, "/etc/os-release", "ID=ubuntu\n")
    write(top, "/usr/local/cuda-13.0/version.json", '{"cuda": {"version": "13.0.1"}}')
    write_compat(top / "usr/local/cuda-13.0/compat", "580.65.06")
    found = json.loads(call(str(top), "--json", *words).stdout)["findings"]
    (driver,) = (one["what"] for one in found if one["topic"] == "GPU driver")
    assert says in driver
    assert driver.startswith(("fits", "does not fit, because"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--driver", "580.82.07"], "name a module or an image too"),
        (["x.sif", "--gpu", "A100"], "write the version of a driver"),
        (["x.sif", "--driver", "", "--gpu", ""], "write the version of a driver"),
        (["x.sif", "--driver", "1" * 1000], "write the version of a driver"),
        (["x.sif", "--driver", "580;id"], "write the version of a driver"),
        (["--all", "--driver", "580.82.07"], "leave out --all"),
    ],
)
def test_nodes_that_are_not_described_are_wrong_usage(call: Call, words: Sequence[str], says: str) -> None:
    result = call(*words)
    assert (result.exit_code, says in result.output.replace("\n", " ")) == (2, True), result.output


def test_a_target_that_is_nothing_is_one_line(call: Call) -> None:
    for words in (["Nothing/1"], ["nothing.eb"], ["./nothing.eb"]):
        result = call(*words)
        assert type(result.exception).__name__ in ("InstallError", "EasyconfigError")


OURS = """
[[advisory]]
id = "jobs-hang"
severity = "{severity}"
text = "Jobs hang."
source = "https://example.org/1"
remedy = "Wait."
set = {{ WAIT = "1" }}
[advisory.match]
{match}
"""


@pytest.fixture
def advise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write an advisory into the site's file."""

    def advise(match: str = 'images = ["demo*"]', severity: str = "warning") -> None:
        (tmp_path / "ours.toml").write_text(OURS.format(match=match, severity=severity))
        monkeypatch.setenv("SIFMOD_ADVISORIES", str(tmp_path / "ours.toml"))

    return advise


def topics(result: Result) -> dict[str, dict[str, str]]:
    return {one["topic"]: one for one in json.loads(result.output)["findings"]}


def test_known_problems_are_found(call: Call, advise: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_installation(software_space(), "Demo/1")
    advise()
    found = topics(call("Demo/1", "--json"))
    assert found["advisory jobs-hang"]["severity"] == "warning"
    assert found["advisory jobs-hang"]["remedy"] == "Wait."
    assert "https://example.org/1" in found["advisory jobs-hang"]["why"]
    assert "the module Demo/1 does not tell of jobs-hang" in found["advisories"]["what"]
    module = software_space().modules / "all" / "Demo" / "1.lua"
    module.write_text(f"{module.read_text()}\nhelp([==[\n  jobs-hang-2: Jobs hang.]==])\n")
    assert "advisories" in topics(call("Demo/1", "--json"))
    module.write_text(f"{module.read_text()}\nhelp([==[\n  jobs-hang: Jobs hang.]==])\n")
    assert "advisories" not in topics(call("Demo/1", "--json"))
    advise('images = ["other*"]')
    assert "the module Demo/1 still tells of jobs-hang" in topics(call("Demo/1", "--json"))["advisories"]["what"]
    advise()
    monkeypatch.setenv("WAIT", "1")
    assert topics(call("Demo/1", "--json"))["advisory jobs-hang"]["severity"] == "note"
    monkeypatch.setenv("WAIT", "2")
    monkeypatch.setenv("SIFMOD_APPLY_ADVISORIES", "true")
    assert topics(call("Demo/1", "--json"))["advisory jobs-hang"]["severity"] == "note"
    assert str(root) in call("Demo/1").output


def test_a_problem_of_some_drivers(call: Call, advise: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    make_installation(software_space(), "Demo/1")
    advise('images = ["demo*"]\ndrivers = { nvidia = "<550" }', "problem")
    assert "only a GPU node can show" in topics(call("Demo/1", "--json"))["advisory jobs-hang"]["why"]
    for driver, severity in (("549.1", "problem"), ("550.54.15", "")):
        gpus = (HostGpus("nvidia", driver, ()),)
        monkeypatch.setattr(library, "host_gpus", lambda gpus=gpus: gpus)
        found = topics(call("Demo/1", "--json"))
        assert found.get("advisory jobs-hang", {}).get("severity", "") == severity
        assert "advisories" not in found
    module = software_space().modules / "all" / "Demo" / "1.lua"
    module.write_text(f"{module.read_text()}\nhelp([==[\n  jobs-hang: Jobs hang.]==])\n")  # of an earlier release
    assert "still tells of jobs-hang" in topics(call("Demo/1", "--json"))["advisories"]["what"]


def test_a_module_without_gpu_support(call: Call, advise: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The site has GPUs and its easyconfig has none: a reinstall would not change what the module tells."""
    monkeypatch.setenv("SIFMOD_GPU", "nvidia")
    advise('gpu = "nvidia"')
    make_installation(software_space(), "Demo/1", parameters={"venv": "demo"})
    make_installation(software_space(), "Demo/2", parameters={"venv": "demo", "gpu": "nvidia"})
    make_installation(software_space(), "Demo/3", parameters={"venv": "demo", "gpu": ""})
    found = [topics(call(f"Demo/{number}", "--json")) for number in (1, 2, 3)]
    said = [("advisories" in one, "advisory jobs-hang" in one) for one in found]
    assert said == [(False, True), (True, True), (False, False)]


def test_all_installations_are_examined(call: Call, advise: Callable[..., None], tmp_path: Path) -> None:
    assert "0 installations: 0 problems" in call("--all").output
    space = software_space()
    for number in range(1, 4):
        make_installation(space, f"Demo/{number}")
    (space.software / "Demo/2/demo.sif").unlink()
    (space.software / "Demo/3/share/sifmod.json").write_text("{")
    advise("since = 2026-01-01", "note")
    result = call("--all", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["outcome"]) == (1, "problem")
    assert [one["topic"] for one in report["findings"]] == ["advisory jobs-hang"]
    assert [one["module"] for one in report["installations"]] == ["Demo/1", "Demo/2"]
    assert "is gone" in json.dumps(report["installations"][1]["findings"])
    assert [Path(one["root"]).name for one in report["damaged"]] == ["3"]
    plain = call("--all")
    assert plain.exit_code == 1
    assert "\nnote " in plain.output
    assert "\nnote " not in call("--all", "--quiet").output
    assert f"Demo/1  {space.software}/Demo/1" in plain.output
    assert call("--all", "Demo/1").exit_code == 2
    (tmp_path / "ours.toml").write_text("[[advisory]]\nid = 1\n")
    assert "line 2, has advisory.id = 1" in str(call("--all").exception)
