"""Whether a container has the runscript of a job."""

from pathlib import Path

import pytest

from sifmod.cli import cli
from sifmod.eb.space import software_space

from ..support import a_runner, make_installation


@pytest.fixture(autouse=True)
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    return tmp_path


@pytest.mark.parametrize(
    ("launcher", "runscript"), [("srun", "conda-python-distributed"), ("torchrun", "torchrun-distributed")]
)
def test_a_job_whose_runscript_the_container_lacks_is_refused(prefix: Path, launcher: str, runscript: str) -> None:
    make_installation(software_space(prefix), "GROMACS/2024")
    words = ("sbatch", "--launcher", launcher)
    result = a_runner().invoke(cli, [*words, "GROMACS/2024", "--", "train.py"])
    assert result.exit_code != 0
    assert f"has no {runscript}" in str(result.exception)
    make_installation(software_space(prefix), "PyTorch/2", files=(f"runscripts/{runscript}",))
    for module in ("PyTorch/2", "Elsewhere/1"):
        result = a_runner().invoke(cli, [*words, module, "--", "train.py"])
        assert (result.exit_code, f"{runscript} " in result.output) == (0, True)


def test_a_job_loads_the_module_by_the_name_that_a_naming_scheme_has_made(prefix: Path) -> None:
    space = software_space(prefix)
    runscripts = ("runscripts/conda-python-distributed",)
    make_installation(space, "devel/Demo/1", name="Demo", version="1", install_subdir="Demo/1", files=runscripts)
    for version in ("1", "2"):
        make_installation(space, f"Twice/{version}")
    for wanted, loaded in (("Demo/1", "devel/Demo/1"), ("Demo", "devel/Demo/1"), ("Twice", "Twice")):
        result = a_runner().invoke(cli, ["sbatch", wanted, "--", "train.py"])
        assert (result.exit_code, f"module load {loaded}\n" in result.output) == (0, True), result.output


def test_without_a_python_the_command_is_a_program_of_the_container(prefix: Path) -> None:
    make_installation(software_space(prefix), "samtools/1.16.1", files=("bin/samtools", "runscripts/get-master"))

    def script(*words: str) -> str:
        result = a_runner().invoke(cli, ["sbatch", *words])
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    text = script("samtools/1.16.1", "--cpus-per-task", "8", "--", "samtools", "sort", "-@", "8", "a b.bam")
    assert text.endswith("srun --kill-on-bad-exit \\\n    samtools sort -@ 8 'a b.bam'\n")
    assert "--job-name=samtools\n" in text
    assert "--cpus-per-task=8\n" in text
    assert script("samtools/1.16.1", "--", "/bin/ls").endswith(
        "srun --kill-on-bad-exit \\\n    in-container \\\n    /bin/ls\n"
    )
    assert "conda-python-distributed" in script("Elsewhere/1", "--", "train.py")
    elsewhere = script("Elsewhere/1", "--launcher", "program", "--", "samtools")
    assert elsewhere.endswith("in-container \\\n    samtools\n")


def test_a_job_with_pyxis_needs_an_image_for_enroot(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, runscripts = software_space(prefix), ("runscripts/conda-python-distributed",)
    make_installation(space, "Old/1", files=runscripts)
    recorded = {"squashfs": "demo.sqsh", "squashfs_sha256": "1" * 64, "squashfs_size": 1}
    make_installation(space, "New/1", files=(*runscripts, "demo.sqsh"), **recorded)

    def call(*words: str) -> tuple[int, str]:
        result = a_runner().invoke(cli, ["sbatch", *words, "--", "train.py"])
        return result.exit_code, result.output + str(result.exception or "")

    assert "does not have enroot" in call("New/1", "--pyxis")[1]
    monkeypatch.setenv("SIFMOD_RUNTIMES", "apptainer,enroot")
    assert "--container-image" not in call("New/1")[1]
    assert "'Old/1' was installed without an image for enroot" in call("Old/1", "--pyxis")[1]
    for module in ("New/1", "Elsewhere/1"):
        status, said = call(module, "--pyxis")
        assert (status, '    --container-image="$SQSH"' in said) == (0, True)
    monkeypatch.setenv("SIFMOD_RUNTIMES", "enroot,apptainer")
    assert "--container-image" in call("New/1")[1]
    assert "--container-image" not in call("New/1", "--no-pyxis")[1]


def test_a_path_that_the_container_lacks_is_named(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_installation(software_space(prefix), "Demo/1", files=("runscripts/conda-python-distributed",))
    (root / "runscripts").mkdir()
    bound, home = prefix / "bound", prefix / "home"
    (root / "runscripts/values.sh").write_text(f"sifmod_binds=(\n/x:/runscripts:ro\n{bound}\n)\n")
    for folder in (prefix / "project", prefix / "a,b", bound, home):
        folder.mkdir()
        (folder / "train.py").touch()
    monkeypatch.setattr("sifmod.names.MOUNTED_ANYWAY", ())
    monkeypatch.setenv("APPTAINER_BIND", "")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)

    def said(*words: str, module: str = "Demo/1") -> str:
        return str(a_runner().invoke(cli, ["sbatch", module, "--", *words]).stderr)

    script = prefix / "project" / "train.py"
    assert said(str(script)) == (
        f"sifmod: '{script}' exists on this host, but no bind path of Demo/1 contains it. To see it in the job, type "
        f"before sbatch: export APPTAINER_BIND={prefix}/project\n"
    )
    assert f"BIND={prefix}/project\n" in said("train.py", f"--data={home}/../project")
    # what no runtime can bind is in a folder above
    assert said(f"{prefix}/a,b/train.py").endswith(f"BIND={prefix}\n")
    seen = (f"{bound}/train.py", f"{home}/train.py", "train.py", "/bin/sh", "/etc/hosts", f"{prefix}/nothing", "/")
    assert said(*seen) == ""
    assert said(str(script), module="Elsewhere/1") == ""
    monkeypatch.setenv("APPTAINER_BIND", f"{prefix}/project:/data")
    assert said(str(script)).endswith(f"export APPTAINER_BIND={prefix}/project:/data,{prefix}/project\n")
    monkeypatch.setenv("APPTAINER_BIND", f"{prefix}/project:{prefix}/project:ro")
    assert said(str(script)) == ""
    monkeypatch.setenv("APPTAINER_BIND", "")
    (home / "link").symlink_to(prefix / "project")
    (home / "known").symlink_to(bound)
    told = said(f"{home}/link/train.py")
    assert f"'{home}/link/train.py' leads through a link to '{script}' on this host, and no bind path of Demo/1" in told
    assert told.endswith(f"export APPTAINER_BIND={prefix}/project\n")
    assert said("link/train.py") == told
    assert said(f"{home}/known/train.py", "known", "train.py") == ""
    # and a bind path that is a link itself
    (prefix / "other").symlink_to(prefix / "project")
    monkeypatch.setenv("APPTAINER_BIND", f"{prefix}/other")
    (home / "second").symlink_to(prefix / "other")
    assert said("second/train.py") == ""
    monkeypatch.chdir(prefix / "project")
    monkeypatch.setenv("APPTAINER_BIND", "")
    assert said(str(script)) == ""
