"""What a centre asks of the modules that it has, on a real registry and real containers."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

import pytest
from smallimage import SMALL_URI, small_image

from conftest import HEAD, IMAGES, REGISTRY, User, registry_password

REPOSITORY = f"{REGISTRY}/demo/fleet"
COPY = (
    "skopeo --insecure-policy copy --quiet --src-tls-verify=false --dest-tls-verify=false "
    "--src-creds {0} --dest-creds {0}"
)

# The `bin` of a virtual environment with snakemake and reframe-hpc. The testbed has none, because they are
# large. Without it, in CI too, the test with them is left out.
WORKFLOWS = os.environ.get("SIFMOD_TEST_WORKFLOWS", "")

SNAKEFILE = """
rule greeting:
    output: "greeting.txt"
    envmodules: config["modules"]["Demo"]
    shell: "greet >{output}"
"""
REFRAME_SITE = """site_configuration = {
    "systems": [{"name": "here", "hostnames": [".*"], "modules_system": "lmod", "partitions": [
        {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["builtin"]}]}],
    "environments": [{"name": "builtin"}],
}
"""


def push(user: User, *tags: str) -> None:
    """Give the small image these tags in the repository of these tests."""
    copy = COPY.format(f"'$oauthtoken:{registry_password()}'")
    user.run("\n".join(f"{copy} {SMALL_URI} docker://{REPOSITORY}:{tag}" for tag in tags))


def easyconfig(user: User, version: str, image: str, *lines: str) -> Path:
    path = user.prefix / f"Demo-{version}.eb"
    head = HEAD.replace("'1.0'", f"'{version}'")
    path.write_text("\n".join([head, image, "gpu = None", *lines, ""]))
    return path


@pytest.fixture
def centre(registry_user: User, tmp_path: Path) -> User:
    """A user with the module of a tag to which there is a newer one."""
    user = registry_user
    (tmp_path / "small").mkdir()
    small_image(tmp_path / "small")
    push(user, "24.03-x", "25.10-x", "latest")
    user.eb(str(easyconfig(user, "1.0", f"image_uri = 'docker://{REPOSITORY}:24.03-x'", "wrappers = ['greet']")))
    return user


def test_newer_tags_and_links_of_what_is_installed(centre: User) -> None:
    done = centre.run("sifmod outdated", status=20)
    table, command, count = done.stdout.splitlines()[1:]
    assert table.split() == ["Demo/1.0", "24.03-x", "unchanged", "25.10-x"]
    kept = centre.installdir("Demo/1.0") / "easybuild/Demo-1.0.eb"
    assert command == f"sifmod new docker://{REPOSITORY}:25.10-x --like {kept}"
    assert count == "1 of 1 module outdated"
    written = centre.out(f"{command} --version 2.0 --commands greet -o -")
    assert f"docker://{REPOSITORY}:25.10-x@sha256:" in written.replace("'\n    '", "")
    centre.run("sifmod workflows nextflow nextflow")
    assert (
        centre.out(f"singularity exec nextflow/{REPOSITORY.replace(':', '-').replace('/', '-')}-24.03-x.img greet")
        == "hello"
    )


def test_an_image_that_lies_unpacked_is_a_module(centre: User, tmp_path: Path) -> None:
    image = tmp_path / "unpacked.example.org/demo:1"
    image.parent.mkdir()
    centre.run(f"module load Demo/1.0; singularity build --sandbox {image} $SIF")
    before = centre.run(f"find {image} -printf '%p %m %s %T@ %l\\n' | sort").stdout
    (tag := image.with_name("demo:latest")).symlink_to(image)
    wrong = centre.run(f"eb {easyconfig(centre, '2.0', f'sources = [{str(tag)!r}]')}", check=False)
    assert "is a directory, so write image_mode = 'central'" in wrong.stdout + wrong.stderr
    assert not centre.installdir("Demo/2.0").exists()
    image.chmod(0o777)
    _wrote, command = centre.out(f"sifmod new {tag} --name Demo --version 2.0 --commands greet --force").splitlines()
    text = (centre.prefix / "Demo-2.0.eb").read_text()
    assert f"'{tag}'" in text
    done = centre.run(command.partition("install it with: ")[2])
    assert f"everybody may change the image '{image}'" in done.stdout + done.stderr
    image.chmod(0o755)
    mode = (image / "usr").stat().st_mode
    (image / "usr").chmod(0o777)
    done = centre.run(command.partition("install it with: ")[2].replace("eb ", "eb --rebuild "))
    assert f"everybody may change the image '{image}'" in done.stdout + done.stderr
    (image / "usr").chmod(mode)
    assert centre.out("module load Demo/2.0; echo $SIF; greet").splitlines() == [str(image), "hello"]
    manifest = json.loads((centre.installdir("Demo/2.0") / "share/sifmod.json").read_text())
    assert (manifest["image_sha256"], manifest["image_size"]) == ("", 0)
    said = centre.out("sifmod verify Demo/2.0")
    assert "has the labels that it was installed with; its files are not hashed" in said
    assert centre.run(f"find {image} -printf '%p %m %s %T@ %l\\n' | sort").stdout == before
    assert "a directory" in centre.out("sifmod list")
    labels = image / ".singularity.d/labels.json"
    labels.write_text("{}")
    changed = centre.run("module load Demo/2.0", check=False).stderr
    assert "is another one now than when Demo/2.0 was installed" in changed
    assert (
        "has other labels than when it was installed" in centre.run("sifmod verify --fast Demo/2.0", check=False).stdout
    )
    shutil.rmtree(image)
    gone = " ".join(centre.run("module load Demo/2.0", check=False).stderr.split())  # Lmod breaks lines
    assert f"the directory '{image}', the image, is not there" in gone
    assert "its file system may not be mounted" in centre.run("sifmod doctor Demo/2.0", check=False).stdout


def seconds_of(user: User, command: str) -> tuple[float, str]:
    """Return the processor time of a command, which other tests at the same time do not change, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = user.run(command, check=False).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_forty_modules_are_asked_about_in_seconds(registry_user: User, tmp_path: Path) -> None:
    user = registry_user
    (tmp_path / "small").mkdir()
    small_image(tmp_path / "small")
    copy = COPY.format(f"'$oauthtoken:{registry_password()}'")
    tags = [f"{REGISTRY}/demo/fleet-{number}:{tag}" for number in range(36) for tag in ("1.0", "1.1")]
    user.run("\n".join(f"{copy} {SMALL_URI} docker://{tag}" for tag in tags))
    written = [
        easyconfig(
            user, f"{number}.0", f"image_uri = 'docker://{REGISTRY}/demo/fleet-{number}:1.0'", "wrappers = ['greet']"
        )
        for number in range(36)
    ]
    for number, image in enumerate(("demo", "conda-demo", "bwa", "samtools"), 36):
        written.append(easyconfig(user, f"{number}.0", f"sources = ['{image}.sif']"))
    user.run(f"eb --sourcepath={user.prefix}/sources:{IMAGES} {' '.join(map(str, written))}", timeout=900)
    # that it does not wait for one registry after the other is tested in tests/unit/upkeep/test_outdated.py
    cpu, out = seconds_of(user, "sifmod outdated")
    assert out.splitlines()[-1] == "36 of 36 modules outdated"
    assert cpu < 5


@pytest.mark.slow
@pytest.mark.skipif(not WORKFLOWS, reason="snakemake and reframe: SIFMOD_TEST_WORKFLOWS names no folder")
def test_snakemake_and_reframe_take_what_is_written(centre: User) -> None:
    (centre.prefix / "Snakefile").write_text(SNAKEFILE)
    (centre.prefix / "site.py").write_text(REFRAME_SITE)
    (centre.prefix / "profile").mkdir()
    centre.run("sifmod workflows snakemake >profile/config.yaml")
    centre.run(f"{WORKFLOWS}/snakemake --cores 1 --profile profile")
    assert (centre.prefix / "greeting.txt").read_text() == "hello\n"
    centre.run("sifmod workflows reframe >containers.py")
    assert "Ran 1/1 test case(s)" in centre.out(f"{WORKFLOWS}/reframe -C site.py -c containers.py -r")
