"""Where images come from: registries, archives, definition files; and how they get into an installation."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from smallimage import SMALL_URI, small_image
from tests.daemon import daemon
from tests.programs import write_file, write_program
from tests.waiting import until

from conftest import (
    DEMO_EASYCONFIG,
    DEMO_MODULE,
    HEAD,
    IMAGES,
    QUICK_BUILDS,
    REGISTRY,
    User,
    demo_with,
    failure,
    make_user,
    make_wheel,
    registry_password,
)
from sifmod.fetch.uri import image_uri

PASSWORD = registry_password()
URI = f"docker://{REGISTRY}/demo/python:3.11"

PYTHON = "python_prefix = '/usr'\nvenv = 'demo'\n"

GREET = "wrappers = ['greet']\n"


@pytest.fixture(scope="module")
def small_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_image(tmp_path_factory.mktemp("small"))


def install(user: User, text: str, *flags: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    easyconfig = write_file(user.prefix / "Demo-1.0.eb", HEAD + text)
    return user.eb(str(easyconfig), *flags, check=check)


def refused(user: User, text: str, *flags: str) -> str:
    return failure(install(user, text, *flags, check=False))


def stored(user: User) -> list[Path]:
    """Everything below the source path that is no lock."""
    return [path for path in (user.prefix / "sources").rglob("*") if path.is_file() and path.suffix != ".lock"]


def nothing_is_left(user: User) -> bool:
    return not (user.installdir("Demo/1.0").exists() or user.modulefile("Demo/1.0").exists() or stored(user))


@pytest.mark.usefixtures("small_archive")
def test_an_image_of_a_registry_is_pulled_once_and_recorded(registry_user: User) -> None:
    done = install(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}")
    assert f"pulling {SMALL_URI}" in done.stdout
    assert registry_user.out("module load Demo/1.0; greet; singularity exec $SIF greet") == "hello\nhello"
    installdir = registry_user.installdir("Demo/1.0")
    manifest = json.loads((installdir / "share/sifmod.json").read_text())
    sif = installdir / manifest["image"]
    assert manifest["image_sha256"] == hashlib.sha256(sif.read_bytes()).hexdigest()
    assert manifest["image_origin"] == SMALL_URI
    raw = registry_user.run(
        f"skopeo inspect --raw --tls-verify=false --creds '$oauthtoken:{PASSWORD}' {SMALL_URI}"
    ).stdout
    assert manifest["image_digest"] == "sha256:" + hashlib.sha256(raw.encode()).hexdigest()

    again = install(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}", "--rebuild")
    assert "was pulled before" in again.stdout
    assert "pulling" not in again.stdout

    # pinned to the digest, it is another URI for the same image
    pinned = f"docker://{REGISTRY}/demo/small@{manifest['image_digest']}"
    install(registry_user, f"image_uri = '{pinned}'\n{GREET}", "--rebuild")

    # without the record, as on another cluster or in a clone, it may be anybody's
    shutil.rmtree(registry_user.prefix / "state")
    again = install(registry_user, f"image_uri = '{pinned}'\n{GREET}", "--rebuild")
    assert "is fetched again: you have no record" in again.stdout
    shutil.rmtree(registry_user.prefix / "state")
    (image,) = (path for path in stored(registry_user) if path.name == image_uri(pinned).file_name)
    text = f"image_uri = '{pinned}'\nchecksums = ['{hashlib.sha256(image.read_bytes()).hexdigest()}']\n{GREET}"
    assert "was pulled before" in install(registry_user, text, "--rebuild").stdout
    assert json.loads((installdir / "share/sifmod.json").read_text())["image_digest"] == ""
    with image.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    assert "but checksums in the easyconfig expects" in refused(registry_user, text, "--rebuild")


@pytest.mark.usefixtures("small_archive")
def test_credentials_are_in_no_file_and_no_message(registry_user: User) -> None:
    (registry_user.prefix / "tmp").mkdir()
    registry_user.env["TMPDIR"] = str(registry_user.prefix / "tmp")
    done = install(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}", "--debug")
    assert PASSWORD not in done.stdout + done.stderr
    for path in registry_user.prefix.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".sif":
            assert PASSWORD.encode() not in path.read_bytes(), path


@pytest.mark.slow
@pytest.mark.usefixtures("small_archive")
def test_the_password_is_in_no_process_list(registry_user: User) -> None:
    script = write_file(registry_user.prefix / "Demo-1.0.eb", f"{HEAD}image_uri = '{SMALL_URI}'\n{GREET}")
    watch = f"for i in $(seq 40); do ps -eo args | grep -v grep | grep -F {PASSWORD[:6]}-api; sleep 0.1; done"
    done = registry_user.run(f"eb {script} >/dev/null 2>&1 & {watch}; wait $!", check=False)
    assert PASSWORD not in done.stdout
    assert registry_user.modulefile("Demo/1.0").exists()


@pytest.mark.some(1)
@pytest.mark.parametrize("how", ["wrong", "none"])
def test_a_registry_that_refuses_is_named_with_the_way_in(registry_user: User, tmp_path: Path, how: str) -> None:
    registry_user.env["HOME"] = str(tmp_path)  # the user may have logged in
    if how == "wrong":
        registry_user.env.update(SINGULARITY_DOCKER_PASSWORD="not-the-password")  # noqa: S106 - wrong on purpose
    else:
        del registry_user.env["SINGULARITY_DOCKER_USERNAME"], registry_user.env["SINGULARITY_DOCKER_PASSWORD"]
    message = refused(registry_user, f"image_uri = '{URI}'\n{PYTHON}")
    assert f"registry {REGISTRY} refused access to demo/python" in message
    assert "SINGULARITY_DOCKER_PASSWORD" in message
    assert "not-the-password" not in message
    assert ("no credentials were given" in message) == (how == "none")
    assert nothing_is_left(registry_user)


@pytest.mark.slow
@pytest.mark.usefixtures("small_archive")
def test_the_command_of_the_message_logs_in(registry_user: User, tmp_path: Path) -> None:
    del registry_user.env["SINGULARITY_DOCKER_USERNAME"], registry_user.env["SINGULARITY_DOCKER_PASSWORD"]
    registry_user.env["HOME"] = str(tmp_path)
    message = " ".join(refused(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}").split())
    found = re.search(r"log in with (singularity registry login --username NAME \S+?),", message)
    assert found, message
    command = found[1].replace("NAME", "'$oauthtoken' --password-stdin")
    registry_user.run(f"printf %s {PASSWORD} | {command}")
    install(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}")


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (f"docker://{REGISTRY}/demo/python:9.99", ["has no image demo/python with the tag '9.99'"]),
        ("docker://127.0.0.1:5999/demo/python:3.11", ["127.0.0.1:5999 can't be reached"]),
        (
            "ftp://example.org/x.sif",
            ["'image_uri'", "'ftp' is not an image scheme", "use docker, oras, library, https"],
        ),
        ("dokcer://debian", ["'image_uri'", "perhaps you meant 'docker'"]),
        (f"docker://{REGISTRY}/demo/python@sha256:{'0' * 64}", ["demo/python"]),
        ("docker-archive:/no/such.tar", ["there is no archive '/no/such.tar'"]),
        ("https://127.0.0.1:5998/x.sif", ["can't be reached"]),
        ("docker://user:secret@host/x", ["credentials do not belong in an easyconfig"]),
    ],
)
def test_an_image_that_cannot_be_had_is_one_clear_sentence(registry_user: User, uri: str, said: list[str]) -> None:
    registry_user.env["SIFMOD_INSECURE_REGISTRIES"] = f"{REGISTRY},127.0.0.1:5999"
    message = refused(registry_user, f"image_uri = '{uri}'\n{PYTHON}")
    for words in said:
        assert words in message
    assert nothing_is_left(registry_user)


@pytest.mark.slow
def test_plain_http_is_the_sites_decision(registry_user: User) -> None:
    del registry_user.env["SIFMOD_INSECURE_REGISTRIES"]
    message = refused(registry_user, f"image_uri = '{URI}'\n{PYTHON}")
    assert "insecure_registries" in message


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["docker-archive", "oci-archive"])
def test_an_archive_is_an_image_too(user: User, small_archive: Path, scheme: str) -> None:
    archive = small_archive
    if scheme == "oci-archive":
        archive = user.prefix / "small.tar"
        user.run(f"skopeo copy docker-archive:{small_archive} oci-archive:{archive}:small")
    install(user, f"image_uri = '{scheme}:{archive}'\n{GREET}")
    assert user.out("module load Demo/1.0; greet") == "hello"


@pytest.mark.slow
def test_an_image_of_a_docker_daemon_is_pinned_to_its_id_and_fetched_once(user: User, small_archive: Path) -> None:
    identifier = f"sha256:{hashlib.sha256(b'small').hexdigest()}"
    with (
        tempfile.TemporaryDirectory(prefix="sifmod") as folder,  # the path of a socket is at most 108 bytes long
        daemon(Path(folder, "socket"), {"demo/small:1": identifier}, archive=small_archive) as docker,
    ):
        user.env["DOCKER_HOST"] = f"unix://{docker.path}"
        written = user.run(
            "sifmod new docker-daemon:demo/small:1 --commands greet --name Demo --version 1.0", cwd=user.prefix
        )
        assert "the image is on this host only" in written.stderr
        easyconfig = next(user.prefix.glob("Demo-1.0*.eb"))
        assert f"image_uri = 'docker-daemon:demo/small:1@{identifier}'" in easyconfig.read_text()
        user.eb(str(easyconfig))
        assert docker.saved == [identifier]
    assert user.out(f"module load Demo/{easyconfig.stem.partition('-')[2]}; greet") == "hello"


@pytest.mark.slow
def test_an_image_that_buildah_has_built_is_an_image_too(user: User, small_archive: Path) -> None:
    user.env.update(XDG_DATA_HOME=str(user.prefix / "data"), STORAGE_DRIVER="vfs")
    storage = "containers-storage:localhost/small:1"
    user.run(f"buildah tag $(buildah pull --quiet docker-archive:{small_archive}) localhost/small:1")
    identifier = user.out("buildah inspect --type image --format '{{.FromImageID}}' localhost/small:1")
    install(user, f"image_uri = '{storage}'\n{GREET}")
    assert user.out("module load Demo/1.0; greet") == "hello"
    manifest = json.loads((user.installdir("Demo/1.0") / "share/sifmod.json").read_text())
    assert manifest["image_digest"] == f"sha256:{identifier}"
    assert [path.suffix for path in stored(user)] == [".sif"]
    user.run("buildah rmi --all; buildah unshare rm -rf data", cwd=user.prefix)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "greeter-2.0.Dockerfile",
            f"FROM {REGISTRY}/demo/small:1\nARG WORD\nCOPY word.txt /opt/\nENTRYPOINT greet\nLABEL a=b\n",
            id="Dockerfile",
        ),
        pytest.param(
            "greeter-2.0.def",
            f"Bootstrap: docker\nFrom: {REGISTRY}/demo/small:1\n%files\nword.txt /opt/{{{{ WORD }}}}x\n"
            "%runscript\nexec greet\n",
            id="definition file",
        ),
    ],
)
@pytest.mark.usefixtures("small_archive")
def test_what_is_written_for_a_file_is_rendered_and_built(registry_user: User, name: str, text: str) -> None:
    user = registry_user
    (user.prefix / name).write_text(text)
    (user.prefix / "word.txt").write_text("word")
    written = user.run(f"sifmod new {name}", cwd=user.prefix)
    assert "set WORD in build_args" in written.stderr
    easyconfig = (user.prefix / "greeter-2.0.eb").read_text()
    assert re.search(rf"# Base image: {REGISTRY}/demo/small:1, which was\s+(# )?sha256:[0-9a-f]{{64}}", easyconfig)
    assert "definition_files = ['word.txt']" in easyconfig
    assert "greeter-2.0" in user.out("sifmod render greeter-2.0.eb")
    user.eb("greeter-2.0.eb")
    assert user.out("module load greeter/2.0; greet; singularity exec $SIF ls /opt").split()[0] == "hello"
    assert user.out("cat $EASYBUILD_PREFIX/software/greeter/2.0/share/docker-defs/word.txt", check=False) == "word"


@pytest.mark.slow
def test_oras_brings_a_sif_as_it_is(registry_user: User) -> None:
    tag = f"oras://{REGISTRY}/demo/sif:1"
    registry_user.run(f"singularity push --no-https {IMAGES}/demo.sif {tag}")
    install(registry_user, f"image_uri = '{tag}'\n{PYTHON}")
    digest = hashlib.sha256((IMAGES / "demo.sif").read_bytes()).hexdigest()
    manifest = json.loads((registry_user.installdir("Demo/1.0") / "share/sifmod.json").read_text())
    assert manifest["image_sha256"] == digest
    raw = registry_user.run(
        f"skopeo inspect --raw --tls-verify=false --creds '$oauthtoken:{PASSWORD}' docker://{REGISTRY}/demo/sif:1"
    ).stdout
    assert manifest["image_digest"] == "sha256:" + hashlib.sha256(raw.encode()).hexdigest()


def counting_runtime(user: User, body: str = "") -> Path:
    """A runtime that notes each pull before it does what the real one does."""
    folder = user.prefix / "runtime"
    folder.mkdir()
    write_program(
        folder / "singularity",
        f'#!/bin/bash\nif [[ $1 == pull || $1 == build ]]; then echo "$1" >>{folder}/calls; {body}\nfi\n'
        'exec /usr/bin/singularity "$@"\n',
    )
    return folder


@pytest.mark.slow
def test_two_installs_at_once_pull_once(registry_user: User) -> None:
    folder = counting_runtime(registry_user, "sleep 2;")
    for number in (1, 2):
        text = HEAD.replace("'1.0'", f"'{number}.0'") + f"image_uri = '{URI}'\n{PYTHON}"
        (registry_user.prefix / f"Demo-{number}.0.eb").write_text(text)
    done = registry_user.run(
        f"export PATH={folder}:$PATH; eb Demo-1.0.eb >one.log 2>&1 & first=$!; eb Demo-2.0.eb >two.log 2>&1; "
        "echo $?; wait $first; echo $?"
    )
    assert done.stdout.split() == ["0", "0"]
    assert (folder / "calls").read_text().split() == ["pull"]
    logs = (registry_user.prefix / "one.log").read_text() + (registry_user.prefix / "two.log").read_text()
    assert "waiting for it" in logs or "was pulled before" in logs
    # a good installation survives a pull that fails
    refused(registry_user, f"image_uri = 'docker://{REGISTRY}/demo/python:9.99'\n{PYTHON}", "--rebuild")
    assert registry_user.out("module load Demo/1.0; python -c 'print(6 * 7)'") == "42"


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["-9", "-TERM"])
def test_an_interrupted_pull_leaves_nothing_that_is_taken_for_an_image(registry_user: User, kill: str) -> None:
    """The runtime has written half of the file when everything is killed."""
    folder = counting_runtime(
        registry_user, f'target=${{@: -2:1}}; head -c 100000 {IMAGES}/demo.sif >"$target"; touch {{}}; sleep 300;'
    )
    script = folder / "singularity"
    script.write_text(script.read_text().replace("{}", str(folder / "half")))
    easyconfig = write_file(registry_user.prefix / "Demo-1.0.eb", f"{HEAD}image_uri = '{URI}'\n{PYTHON}")
    environ = {**os.environ, **registry_user.env, "EASYBUILD_PREFIX": str(registry_user.prefix)}
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    with subprocess.Popen(
        ["eb", str(easyconfig)],
        env=environ,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until((folder / "half").exists)
        subprocess.run(["kill", kill, "--", f"-{process.pid}"], check=True)
    assert process.returncode != 0
    assert not [path for path in stored(registry_user) if path.name.endswith(".sif")]
    assert not registry_user.modulefile("Demo/1.0").exists()
    shutil.rmtree(registry_user.prefix / "software" / ".locks", ignore_errors=True)
    registry_user.run(f"eb {easyconfig}")
    assert [path.name for path in stored(registry_user) if path.name.endswith(".partial")] == []
    assert registry_user.out("module load Demo/1.0; python -c 'print(6 * 7)'") == "42"


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("kill -9 $$;", ["was killed", "memory", "compute node", "runtime_tmpdir"]),
        (
            "echo 'FATAL: write /tmp/x: no space left on device' >&2; exit 255;",
            ["ran out of space", "runtime_cachedir"],
        ),
        ("echo 'FATAL: While making image: something odd' >&2; exit 255;", ["exit status 255", "something odd"]),
    ],
    ids=["killed", "full", "odd"],
)
def test_a_runtime_that_fails_names_the_way_out(registry_user: User, body: str, said: list[str]) -> None:
    folder = counting_runtime(registry_user, body)
    registry_user.env["SIFMOD_RUNTIME"] = str(folder / "singularity")
    message = refused(registry_user, f"image_uri = '{URI}'\n{PYTHON}")
    for words in said:
        assert words in message
    assert nothing_is_left(registry_user)


@pytest.mark.slow
@pytest.mark.usefixtures("small_archive")
def test_the_site_says_where_the_runtime_works(registry_user: User, tmp_path: Path) -> None:
    folder = counting_runtime(registry_user, f"env >{tmp_path}/seen;")
    registry_user.env.update(
        SIFMOD_RUNTIME=str(folder / "singularity"),
        SIFMOD_RUNTIME_TMPDIR=str(tmp_path),
        SIFMOD_RUNTIME_CACHEDIR=str(tmp_path / "cache"),
    )
    install(registry_user, f"image_uri = '{SMALL_URI}'\n{GREET}")
    seen = (tmp_path / "seen").read_text().splitlines()
    assert {f"SINGULARITY_TMPDIR={tmp_path}", f"APPTAINER_CACHEDIR={tmp_path}/cache"} <= set(seen)


TWO_STAGES = """Bootstrap: docker-archive
From: {{ base }}
Stage: build

%post
    printf '#!/bin/sh\\necho bodies: $((6 * 7))\\n' >/opt/nbody
    chmod 755 /opt/nbody
    touch /opt/compiler

Bootstrap: docker-archive
From: {{ base }}

%files from build
    /opt/nbody /usr/local/bin/nbody

%test
    /usr/local/bin/nbody
"""


def test_a_definition_with_two_stages_is_built_once_and_kept(user: User, small_archive: Path) -> None:
    (user.prefix / "Definition.nbody").write_text(TWO_STAGES)
    text = (
        "definition = 'Definition.nbody'\n"
        f"build_args = {{'base': '{small_archive}'}}\n"
        "wrappers = ['nbody']\ndefinition_files = ['Definition.nbody']\n"
    )
    install(user, text)
    assert user.out("module load Demo/1.0; nbody") == "bodies: 42"
    assert user.out("module load Demo/1.0; singularity exec $SIF ls /opt") == ""
    kept = user.installdir("Demo/1.0") / "share/docker-defs/Definition.nbody"
    assert kept.read_text() == TWO_STAGES
    again = install(user, text, "--rebuild")
    assert "was built before" in again.stdout


LIGHTNING = """Bootstrap: localimage
From: {{ base }}

%files
    wheels /wheels

%post
    python3 -m pip list --format=freeze | grep -vE '^(pip|setuptools|wheel)=' >/root/base_constraints.txt
    export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
    python3 -m pip install -c /root/base_constraints.txt {{ what }}
"""


@pytest.mark.slow
def test_a_definition_on_top_of_an_image_keeps_to_its_constraints(user: User) -> None:
    user.env.update(QUICK_BUILDS)
    wheels = user.prefix / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "lightning", "2.2", "", requires=("demo-vendor",))
    make_wheel(wheels, "greedy", "1.0", "", requires=("demo-vendor>=2",))
    make_wheel(wheels, "demo-vendor", "9.9", "")
    (user.prefix / "Definition.lightning").write_text(LIGHTNING)
    text = f"definition = 'Definition.lightning'\n{PYTHON}"
    args = f"build_args = {{'base': '{IMAGES}/demo.sif', 'what': '%s'}}\n"
    message = refused(user, text + args % "greedy")
    assert "building Definition.lightning failed" in message
    assert "constraint" in message
    assert nothing_is_left(user)
    install(user, text + args % "lightning" + "expected_packages = {'lightning': '2.2'}\n")
    show = "module load Demo/1.0; python -c 'import lightning, demo_vendor; print(demo_vendor.__version__)'"
    assert user.out(show) == "1.2.3+site"


def test_a_definition_that_is_not_there_is_named(user: User) -> None:
    message = refused(user, "definition = 'Definition.none'\n")
    assert "'definition' = 'Definition.none'" in message
    assert "beside the easyconfig" in message


@pytest.mark.slow
def test_inject_checksums_and_what_they_refuse(user: User, tmp_path: Path) -> None:
    easyconfig = write_file(user.prefix / "Demo-1.0.eb", f"{HEAD}sources = ['demo.sif']\n{PYTHON}")
    user.run(f"eb {easyconfig} --inject-checksums")
    digest = hashlib.sha256((IMAGES / "demo.sif").read_bytes()).hexdigest()
    assert f"checksums = ['{digest}']" in easyconfig.read_text()
    assert user.eb(str(easyconfig)).returncode == 0
    shutil.copyfile(IMAGES / "demo.sif", tmp_path / "demo.sif")
    with (tmp_path / "demo.sif").open("r+b") as stream:
        stream.seek(30_000_000)
        stream.write(b"x")
    user.env["SIFMOD_IMAGE_REPOSITORIES"] = str(tmp_path)
    message = failure(user.eb(str(easyconfig), "--rebuild", check=False))
    assert digest in message
    assert "checksums" in message
    assert user.out("module load Demo/1.0; python -c 'print(6 * 7)'") == "42"


@pytest.mark.slow
def test_no_checksum_of_a_pulled_image_is_injected(user: User, small_archive: Path) -> None:
    easyconfig = write_file(user.prefix / "Demo-1.0.eb", f"{HEAD}image_uri = 'docker-archive:{small_archive}'\n{GREET}")
    done = user.run(f"eb {easyconfig} --inject-checksums", check=False)
    assert done.returncode != 0
    assert "has different bytes each time, so only this copy would have the checksum" in done.stdout + done.stderr
    assert "checksums" not in easyconfig.read_text()


@pytest.mark.slow
def test_a_job_installs_a_pulled_image(user: User, small_archive: Path) -> None:
    """eb pulls the image where it is started, and the job finds it in the source path."""
    easyconfig = write_file(user.prefix / "Demo-1.0.eb", f"{HEAD}image_uri = 'docker-archive:{small_archive}'\n{GREET}")
    said = user.out(f"eb {easyconfig} --job --job-backend=Slurm --job-max-walltime=1")
    (number,) = re.findall(r"Demo-1\.0 \(Demo/1\.0\): (\d+)", said)
    user.run(f"while [[ $(squeue --noheader --jobs={number}) ]]; do sleep 0.5; done")
    assert user.out("module load Demo/1.0; greet") == "hello"


@pytest.mark.slow
def test_only_signed_images_where_the_site_says_so(user: User, tmp_path: Path) -> None:
    user.run(f"cd {tmp_path}; openssl genpkey -algorithm ed25519 -out key.pem")
    user.run(f"cd {tmp_path}; openssl pkey -in key.pem -pubout -out pub.pem")
    shutil.copyfile(IMAGES / "demo.sif", tmp_path / "demo.sif")
    user.env.update(
        SIFMOD_SIGNATURES="required",
        SIFMOD_SIGNATURE_KEY=str(tmp_path / "pub.pem"),
        SIFMOD_IMAGE_REPOSITORIES=str(tmp_path),
    )
    message = failure(user.eb(DEMO_EASYCONFIG, check=False))
    assert "requires signed images" in message
    assert str(tmp_path / "demo.sif") in message
    assert not user.installdir(DEMO_MODULE).exists()
    user.run(f"singularity sign --key {tmp_path}/key.pem {tmp_path}/demo.sif")
    user.eb(DEMO_EASYCONFIG)


@pytest.mark.slow
def test_link_shares_the_bytes_and_verify_sees_a_change(user: User, tmp_path: Path) -> None:
    shutil.copyfile(IMAGES / "demo.sif", tmp_path / "demo.sif")
    user.env["SIFMOD_IMAGE_REPOSITORIES"] = str(tmp_path)
    install(user, f"sources = ['demo.sif']\nimage_mode = 'link'\n{PYTHON}")
    sif = user.installdir("Demo/1.0") / "demo.sif"
    assert sif.stat().st_ino == (tmp_path / "demo.sif").stat().st_ino
    assert user.out("module load Demo/1.0; python -c 'print(6 * 7)'") == "42"
    with (tmp_path / "demo.sif").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    changed = user.run("sifmod verify Demo/1.0 --json", check=False)
    assert changed.returncode != 0
    assert "has the SHA-256" in changed.stdout
    (tmp_path / "demo.sif").unlink()
    assert user.out("module load Demo/1.0; python -c 'print(6 * 7)'") == "42"


@pytest.mark.slow
def test_from_copy_to_central_removes_the_copy(own_demo: User) -> None:
    easyconfig = write_file(own_demo.prefix / DEMO_EASYCONFIG, demo_with("image_mode = 'central'\n"))
    own_demo.eb(str(easyconfig), "--rebuild")
    assert not (own_demo.installdir(DEMO_MODULE) / "demo.sif").exists()
    assert own_demo.out(f"module load {DEMO_MODULE}; python -c 'print(6 * 7)'") == "42"


@pytest.mark.slow
def test_a_package_that_builds_with_newer_tools_still_installs(user: User, tmp_path: Path) -> None:
    """pip's isolated build environment reads PIP_CONSTRAINT too; build tools are not in the list."""
    done = install(user, f"sources = ['demo.sif']\nimage_mode = 'link'\n{PYTHON}")
    assert "copying the image" in done.stdout  # it is root's: neither a reflink (ext4) nor a hard link is allowed
    constraints = (user.installdir("Demo/1.0") / "runscripts/pip-constraints.txt").read_text()
    assert constraints == "demo-vendor==1.2.3+site\n"
    wheels = tmp_path / "wheels"
    user.run(f"python -m pip download --quiet --no-deps --dest {wheels} 'setuptools>=70' wheel")
    source = tmp_path / "modern"
    write_file(source / "modern.py", "answer = 42\n")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "modern"\nversion = "1.0"\n[tool.setuptools]\npy-modules = ["modern"]\n'
    )
    script = f"""module load Demo/1.0; singularity exec $SIF pip install --no-index --find-links {wheels} {source} >&2
        python -c 'import modern; print(modern.answer)'"""
    assert user.out(script) == "42"


@pytest.mark.slow
def test_two_sources_of_one_image_are_refused(tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb")
    message = refused(user, f"sources = ['demo.sif']\nimage_uri = '{URI}'\n{PYTHON}")
    assert "give one of sources, image_uri, definition and builds_on" in message
    message = refused(user, PYTHON)
    assert "found none" in message


@pytest.mark.usefixtures("small_archive")
def test_a_recipe_of_shpc_is_installed_under_its_short_name_and_under_shpc_s(registry_user: User) -> None:
    """The same recipe twice, so the modules are loaded together."""
    user = registry_user
    look = f"skopeo inspect --tls-verify=false --creds '$oauthtoken:{PASSWORD}' {SMALL_URI}"
    digest = json.loads(user.out(look))["Digest"]
    folder = user.prefix / "registry/demo/small"
    folder.mkdir(parents=True)
    (folder / "container.yaml").write_text(
        f"docker: {REGISTRY}/demo/small\nlatest: {{'1.10': '{digest}'}}\nfeatures: {{gpu: false}}\n"
        f"env: {{GREETED: 'yes'}}\naliases: {{hi: /usr/bin/greet, shout: sh -c}}\n"
    )
    without_aliases = f"docker: {REGISTRY}/demo/small\nlatest: {{'1.9': '{digest}'}}\n"
    (user.prefix / "container.yaml").write_text(without_aliases)
    user.run("sifmod convert --shpc small:1.10 --registry registry --output .")
    user.run("sifmod convert container.yaml --output .")
    user.run("mkdir out; sifmod convert registry/demo/small/container.yaml --full-name --output out")
    full = f"{REGISTRY.replace(':', '-')}/demo/small"
    (made,) = (user.prefix / "out").rglob("*.eb")
    assert made.name == f"{full.replace('/', '-')}-1.10.eb"
    assert f"modules/all/{full}/1.10.lua" in user.out(f"sifmod render {made}")
    user.eb("small-1.10.eb", "small-1.9.eb", str(made))
    script = "module load small/1.9; small-exec greet; small-shell -c 'echo $0 $1' x y; small-run greet"
    assert user.out(script).splitlines() == ["hello", "x y", "hello"]
    assert user.out("module load small/1.10; hi; shout 'echo $GREETED'").splitlines() == ["hello", "yes"]
    assert user.out(f"module load small/1.10 {full}/1.10; module -t list 2>&1; hi").splitlines() == [
        "small/1.10",
        f"{full}/1.10",
        "hello",
    ]


@pytest.mark.slow
def test_a_module_that_shpc_installed_is_moved_without_another_copy_of_its_image(user: User) -> None:
    folder = user.prefix / "shpc/modules/example/python/3.11"
    folder.mkdir(parents=True)
    (user.prefix / "shpc/images").mkdir()
    sif = user.prefix / "shpc/images/example-python-3.11-sha256:ab.sif"
    shutil.copyfile(IMAGES / "demo.sif", sif)
    (folder / "module.lua").write_text(
        "-- Created by singularity-hpc\nhelp([[\n - py:\n"
        '       singularity exec -B x:y <container> /usr/bin/python3 -I "$@"\n]])\n'
        f"local containerPath = '{sif}'\n"
    )
    user.run("sifmod convert --installed shpc/modules --output out")
    user.eb(f"--sourcepath={sif.parent}", "out/p/python/python-3.11.eb")
    assert user.out("module load python/3.11; py -c 'print(6 * 7)'") == "42"
    installed = user.installdir("python/3.11") / sif.name
    assert installed.samefile(sif)  # the testbed's file systems have no reflinks
