"""Dockerfiles, built by the real buildah as the ordinary user on images of the testbed's registry.

Podman and docker are not on the testbed: tests/unit/host/test_builder.py has what they are started with. Where one is,
SIFMOD_IMAGE_BUILDER names it; docker needs BuildKit, a login and a service that this user may ask.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from smallimage import SMALL, small_image
from tests.waiting import until

from conftest import HEAD, REGISTRY, User, failure, make_user, registry_password

BUILDER = shutil.which(os.environ.get("SIFMOD_IMAGE_BUILDER", "buildah"))

# With its SHELL, a RUN is the first argument of another script.
# The mounts are those of uv's manual.
DOCKERFILE = f"""ARG BASE={REGISTRY}/demo
FROM ${{BASE}}/small:1 AS build
SHELL ["/bin/sh", "-c", "GREETING=$WORD; eval \\"$0\\""]
ARG WORD=hello
COPY *.sh /opt/
WORKDIR /app
RUN --mount=type=cache,target=/root/.cache/uv \\
    --mount=type=bind,source=greet.sh,target=greet.sh \\
    . /app/greet.sh >/opt/mounted
RUN printf '#!/bin/sh\\necho %s\\n' "$GREETING" >/opt/greet.sh; chmod 755 /opt/greet.sh; touch /opt/compiler

FROM ${{BASE}}/small:1
COPY --from=build /opt/greet.sh /usr/local/bin/greeter
COPY --from=build /opt/mounted /opt/mounted
COPY . /opt/context/
RUN mkdir /opt/other && touch /opt/other/file && chown -R 1000:1000 /opt/other && chmod 700 /opt/other
"""

EASYCONFIG = f"""{HEAD}definition = 'Demo.Dockerfile'
definition_files = ['greet.sh', 'blob.bin']
build_args = {{'WORD': 'hi'}}
wrappers = ['greeter']
"""


def write(user: User, dockerfile: str = DOCKERFILE, easyconfig: str = EASYCONFIG) -> str:
    """Write a Dockerfile, what it copies, and its easyconfig, and return the name of the latter."""
    (user.prefix / "tmp").mkdir(exist_ok=True)
    (user.prefix / "Demo.Dockerfile").write_text(dockerfile)
    (user.prefix / "Demo-1.0.eb").write_text(easyconfig)
    (user.prefix / "greet.sh").write_text("#!/bin/sh\necho WORD\n")
    (user.prefix / "blob.bin").write_bytes(b"\xff\0")
    (user.prefix / "secret.key").write_text("secret")
    (user.prefix / ".dockerignore").write_text("*.bin\n")
    return "Demo-1.0.eb"


def may_pull(user: User) -> User:
    user.env.update(
        SIFMOD_INSECURE_REGISTRIES=REGISTRY,
        SIFMOD_CREDENTIAL_REGISTRIES=REGISTRY,
        SIFMOD_RUNTIME_TMPDIR=str(user.prefix / "tmp"),
        SINGULARITY_DOCKER_USERNAME="$oauthtoken",
        SINGULARITY_DOCKER_PASSWORD=registry_password(),
    )
    return user


@pytest.fixture(scope="module", autouse=True)
def _base(tmp_path_factory: pytest.TempPathFactory) -> None:
    small_image(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[User, str]:
    """A user who has built the Dockerfile, and what `eb` has printed; tests leave the installation as it is."""
    user = may_pull(make_user(tmp_path_factory.mktemp("dockerfile") / "eb"))
    return user, user.eb(write(user)).stdout


@pytest.fixture
def builder(user: User) -> User:
    """A user who may build."""
    return may_pull(user)


def nothing_is_left(user: User) -> bool:
    stored = [path for path in (user.prefix / "sources").rglob("*") if path.is_file() and path.suffix != ".lock"]
    return not (user.installdir("Demo/1.0").exists() or list((user.prefix / "tmp").iterdir()) or stored)


def test_a_dockerfile_becomes_a_module(built: tuple[User, str]) -> None:
    user, said = built
    assert re.search(r"STEP \d/\d: COPY \*\.sh /opt/", said)
    assert re.search(rf"\$\{{BASE\}}/small:1 is {REGISTRY}/demo/small@sha256:[0-9a-f]{{64}}", said)
    assert user.out("module load Demo/1.0; greeter") == "hi"
    listed = user.out("module load Demo/1.0; singularity exec $SIF ls -A /opt /opt/context").split()
    assert {"context:", "greet.sh", "Demo.Dockerfile", ".dockerignore"} <= {word.split("/")[-1] for word in listed}
    assert user.out("module load Demo/1.0; singularity exec $SIF sh -c 'read x </opt/mounted; echo $x'") == "WORD"
    assert not {"compiler", "secret.key", "blob.bin"} & set(listed)


def test_it_is_built_once_and_leaves_nothing(built: tuple[User, str]) -> None:
    user, _said = built
    assert not list((user.prefix / "tmp").iterdir())
    assert "was built before" in user.eb("Demo-1.0.eb", "--rebuild").stdout
    assert user.out("module load Demo/1.0; greeter") == "hi"


def test_what_went_in_is_recorded_and_the_text_of_it_kept(built: tuple[User, str]) -> None:
    installdir = built[0].installdir("Demo/1.0")
    kept = sorted(path.name for path in (installdir / "share/docker-defs").iterdir())
    assert kept == [".dockerignore", "Demo.Dockerfile", "greet.sh"]
    origin = json.loads((installdir / "share/sifmod.json").read_text())["image_origin"]
    assert re.fullmatch(
        r'Demo\.Dockerfile sha256:\w+ \{"WORD": "hi"\} target="" context=\{.*"blob.bin": "\w+".*\}', origin
    )


def test_the_password_is_nowhere(built: tuple[User, str]) -> None:
    user, said = built
    assert registry_password() not in said
    found = user.run(f"grep -rlF '{registry_password()}' {user.prefix}", check=False).stdout
    assert not found


@pytest.mark.slow
def test_a_stage_is_built_that_is_not_the_last(builder: User) -> None:
    easyconfig = EASYCONFIG.replace("wrappers = ['greeter']\n", "build_target = 'build'\n")
    builder.eb(write(builder, easyconfig=easyconfig))
    assert "compiler" in builder.out("module load Demo/1.0; singularity exec $SIF ls /opt")


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("COPY ../x /", "line 2, COPY ../x: this is outside of the build context"),
        ("COPY secret.key /", "line 2, COPY secret.key: the build context has no such file"),
        ("COPY . /app", "line 2, COPY .: the build context has nothing but the Dockerfile"),
        (
            "RUN <<EOF\nUSER root\nEOF",
            f"line 2, RUN <<EOF: {BUILDER} takes the lines of a heredoc for instructions",
        ),
        ("RUN echo something odd; exit 3", "something odd"),
        # not the first process of a container of docker, which this signal does not reach
        ("RUN sh -c 'kill -9 $$'; exit $?", "was killed, most likely because this node ran out of memory"),
        ("RUN echo 'write /x: no space left on device'; exit 1", "ran out of space. Set 'runtime_tmpdir'"),
    ],
    ids=["outside", "not-named", "nothing-named", "heredoc", "fails", "killed", "full"],
)
def test_a_build_that_can_t_be_says_why_and_leaves_nothing(builder: User, line: str, said: str) -> None:
    easyconfig = EASYCONFIG.replace("build_args = {'WORD': 'hi'}\n", "")
    # an image without layers to pull: quick
    if line == "COPY . /app":
        easyconfig = easyconfig.replace("definition_files = ['greet.sh', 'blob.bin']\n", "")
    source = f"FROM scratch\n{line}\n" if line.startswith("COPY") else f"FROM {SMALL}\n{line}\n"
    message = failure(builder.eb(write(builder, source, easyconfig), check=False))
    assert said in message
    assert nothing_is_left(builder)


def test_a_tag_that_is_not_there_is_named_before_anything_is_built(builder: User) -> None:
    easyconfig = EASYCONFIG.replace("build_args = {'WORD': 'hi'}\n", "")
    message = failure(builder.eb(write(builder, f"FROM {REGISTRY}/demo/small:9\n", easyconfig), check=False))
    assert f"has no image demo/small with the tag '9': correct {REGISTRY}/demo/small:9 in the Dockerfile" in message
    assert nothing_is_left(builder)


def test_without_a_builder_the_ones_that_were_looked_for_are_named(builder: User) -> None:
    builder.env["SIFMOD_IMAGE_BUILDER"] = "podman"
    builder.env["PATH"] = ":".join(
        folder for folder in os.environ["PATH"].split(":") if not Path(folder, "podman").exists()
    )
    message = failure(builder.eb(write(builder), check=False))
    assert "nothing on this node builds Dockerfiles: looked for podman on PATH. Install buildah" in message
    assert nothing_is_left(builder)


def test_an_interrupted_build_ends_its_processes_and_leaves_nothing(builder: User) -> None:
    """A process that a RUN has started in the background outlives a buildah that is ended alone."""
    mark = f"86{os.getpid()}"  # seconds: what the process is found by
    easyconfig = EASYCONFIG.replace("build_args = {'WORD': 'hi'}\n", "")
    name = write(builder, f"FROM {SMALL}\nRUN sleep {mark} & echo has started; sleep {mark}\n", easyconfig)

    def sleepers() -> list[str]:
        # a zombie, which nobody waits for on this machine, is none
        looked = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True)
        return [line for line in looked.stdout.splitlines() if f"sleep {mark}" in line and not line.startswith("Z")]

    with subprocess.Popen(
        ["eb", name],
        cwd=builder.prefix,
        env=builder.environ(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until(lambda: any("/bin/sh" not in line for line in sleepers()))
        process.send_signal(signal.SIGTERM)
    assert process.returncode != 0
    until(lambda: not sleepers())
    assert nothing_is_left(builder)


@pytest.mark.parametrize("name", ["settings.txt", ".dockerignore"])
def test_a_link_of_a_clone_brings_nothing_of_the_user_s_into_the_image(builder: User, name: str) -> None:
    """Neither `sifmod new` nor `eb` reads a key, or the environment of eb with the registry's password."""
    easyconfig = write(builder, f"FROM {SMALL}\nCOPY *.txt /opt/\n")
    (builder.prefix / easyconfig).write_text(
        f"{HEAD}definition = 'Demo.Dockerfile'\ndefinition_files = ['settings.txt']\n"
    )
    (builder.prefix / "settings.txt").write_text("mine")
    (builder.prefix / name).unlink()
    (builder.prefix / name).symlink_to("/proc/self/environ")
    message = failure(builder.eb(easyconfig, check=False))
    assert re.search(
        rf"{name}', of which the image is built, can't be used: it leads out of its folder, to '/proc", message
    )
    done = builder.run(f"sifmod new {builder.prefix}/Demo.Dockerfile", check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{name}' can't be copied: it leads out of its folder" in done.stderr
    assert registry_password() not in message + done.stderr
    assert nothing_is_left(builder)
    (builder.prefix / name).unlink()
    (builder.prefix / name).symlink_to("greet.sh")
    builder.eb(easyconfig)
    assert builder.out("module load Demo/1.0; singularity exec $SIF ls /opt") == "settings.txt"
