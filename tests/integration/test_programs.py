"""Programs without Python: from the image to a pipe of two containers on the host, without an edit."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import HEAD, IMAGES, User, make_user

REFERENCE = "ACGTTGCAAGCTTAGGCTAACCGTTAGCATCGGATCCTAGGATTACAGGCATGAGCCACCGTGCCCGGCCTAATTTTTGTATTTTTAGTAGAGACGGGG"
READS = "".join(f"@read{at}\n{REFERENCE[at : at + 60]}\n+\n{'I' * 60}\n" for at in (0, 10, 20))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Both programs installed, each with two commands and no edit; tests leave them as they are."""
    user = make_user(tmp_path_factory.mktemp("programs") / "eb")
    for name in ("samtools", "bwa"):
        written, command = user.out(f"sifmod new {IMAGES / name}.sif").splitlines()
        assert written.startswith(f"wrote {name}-")
        said = user.out(command.partition("install it with: ")[2])
        (user.prefix / f"{name}.out").write_text(said)
    return user


def test_a_pipe_of_two_containers_on_the_host(programs: User, tmp_path: Path) -> None:
    (tmp_path / "ref.fa").write_text(f">one\n{REFERENCE}\n")
    (tmp_path / "reads.fq").write_text(READS)
    script = """set -euo pipefail
module load samtools bwa
bwa index ref.fa 2>/dev/null
bwa mem ref.fa reads.fq 2>/dev/null | samtools sort -o sorted.bam -
samtools view -c -F 4 sorted.bam
samtools view -u sorted.bam | samtools fastq - 2>/dev/null | bwa mem ref.fa - 2>/dev/null | samtools view -c -F 4
"""
    assert programs.out(script, cwd=tmp_path).split() == ["3", "3"]


def test_the_modules_say_what_they_are(programs: User) -> None:
    whatis = programs.run("module whatis samtools bwa").stderr
    assert "SAM, BAM and CRAM" in whatis
    assert "bwa" in whatis
    assert "samtools/1" in programs.run("module spider samtools").stderr
    shown = programs.run("module help samtools").stderr
    assert "start-shell" in shown
    assert "Python" not in shown


def test_nothing_of_python_is_installed_and_the_log_has_the_versions(programs: User) -> None:
    (root,) = (programs.prefix / "software" / "samtools").iterdir()
    names = {path.name for folder in ("bin", "runscripts") for path in (root / folder).iterdir()}
    assert {"samtools", "start-shell", "get-master"} <= names
    assert not [name for name in names if "python" in name or "pip" in name or "venv" in name]
    assert "samtools --version: samtools 1." in (programs.prefix / "samtools.out").read_text()


def test_inspect_lists_what_new_has_written(programs: User) -> None:
    found = json.loads(programs.out(f"sifmod inspect --commands --json {IMAGES / 'samtools.sif'}"))
    assert {one["package"] for one in found} == {"samtools"}
    (easyconfig,) = programs.prefix.glob("samtools-*.eb")
    assert all(f"'{one['name']}'" in easyconfig.read_text() for one in found)


def test_a_job_starts_the_program_itself(programs: User) -> None:
    script = programs.out("sifmod sbatch samtools -- samtools view -c 'a b.bam'")
    assert script.endswith("srun --kill-on-bad-exit \\\n    samtools view -c 'a b.bam'")


def test_a_container_that_does_not_start_is_told_with_what_the_runtime_says(programs: User, tmp_path: Path) -> None:
    """The commands that are asked for their versions show that it starts; if none can be, EasyBuild starts it too."""
    (easyconfig,) = programs.prefix.glob("samtools-*.eb")
    broken = tmp_path / "bin" / "singularity"
    broken.parent.mkdir()
    runtime = shutil.which("singularity")
    fails = '[ "$1" != exec ] || { echo "FATAL: no room" >&2; exit 255; }'
    broken.write_text(f'#!/bin/sh\n{fails}\nexec {runtime} "$@"\n')
    broken.chmod(0o755)
    check = f"eb {easyconfig} --sanity-check-only"
    done = programs.run(f"PATH={broken.parent}:$PATH {check}", check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode
    assert '"$SIF" true failed with exit code 255 (output: FATAL: no room' in said
    assert " true" not in programs.out(f"{check} --trace")


def test_a_map_gives_commands_other_names_and_arguments(user: User) -> None:
    source = f"sources = ['samtools.sif']\n{HEAD}module_family = ''\n"
    commands = {"sam-head": "samtools view -H", "sort-bam": "/usr/bin/samtools sort -O bam"}
    (user.prefix / "Demo-1.0.eb").write_text(f"{source}wrappers = {commands}\n")
    user.eb("Demo-1.0.eb")
    header = "@HD\tVN:1.6\tSO:unsorted\n@SQ\tSN:one\tLN:9\n"
    (user.prefix / "in.sam").write_text(header)
    said = user.out("module load Demo; sort-bam in.sam | sam-head - | head -n 1")
    assert said == "@HD\tVN:1.6\tSO:coordinate"
    (user.prefix / "Demo-1.0.eb").write_text(f"{source}wrappers = {{'sort-bam': '/usr/bin/samtool'}}\n")
    refused = user.eb("Demo-1.0.eb", "--rebuild", check=False)
    assert "the image has no file '/usr/bin/samtool' (perhaps you meant 'samtools')" in refused.stdout + refused.stderr


@pytest.mark.slow
def test_an_image_with_nothing_but_its_program_is_installed_and_verified(user: User) -> None:
    """A static program named cal, which is BusyBox's: such images have no shell, no C library and no /etc."""
    script = f"""set -euo pipefail
        mkdir -p tree/usr/bin
        singularity exec {IMAGES / "bwa.sif"} cat /bin/busybox >tree/usr/bin/cal
        chmod 755 tree/usr/bin/cal
        singularity build cal_1.0.sif tree
        sifmod new cal_1.0.sif
    """
    user.run(script, cwd=user.prefix)
    user.eb("cal-1.0.eb")
    assert user.out("module load cal; cal 2 2024").startswith("   February 2024")
    assert "the image has no shell" in user.out("sifmod verify cal/1.0")
