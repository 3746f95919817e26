import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.programs import write_file, write_program

from sifmod.environment.conda import CondaSource, make_conda_environment, read_conda
from sifmod.errors import ImageError, ParameterError, SifmodError

from .test_python import REMOTE, SITE, image, proposal_of

MD5 = "0123456789abcdef" * 2
PYTHON = "https://conda.example.org/linux-64/python-3.12.4-h1_0.conda"
ZLIB = "https://conda.example.org/linux-64/zlib-1.3-0.tar.bz2"
YAML = "name: Thesis\nchannels: [conda-forge]\ndependencies:\n  - python=3.12\n  - zlib\n"

LOCK = f"# made for {REMOTE}\n@EXPLICIT\n{PYTHON}#{MD5}\n{ZLIB}#{MD5}\n"
DEFINITION = f"""\
# Written by sifmod environment: the conda packages of lab-1.0-python-3.12-singularity.conda.txt, \
in an environment of their own on {REMOTE}.
# To change them, run sifmod environment again.
Bootstrap: docker
From: {REMOTE.partition("://")[2]}

%setup
    # on the host, where the image that is built lies in $SINGULARITY_ROOTFS
    mkdir -p "$SINGULARITY_ROOTFS"/opt/sifmod-environment

%files
    lab-1.0-python-3.12-singularity.conda.txt /opt/sifmod-environment/lock.txt

%post
    export TMPDIR=/opt/sifmod-environment
    echo '{hashlib.sha256(LOCK.encode()).hexdigest()}  /opt/sifmod-environment/lock.txt' | sha256sum -c >/dev/null || {{
        echo 'lab-1.0-python-3.12-singularity.conda.txt is not the file that this definition was written with: \
run sifmod environment again' >&2
        exit 1
    }}
    export CONDA_PKGS_DIRS=$TMPDIR/pkgs MAMBA_ROOT_PREFIX=$TMPDIR/root
    # packages of the host lie beside it now
    sed 's|^file:.*/|file:///opt/sifmod-environment/|' "$TMPDIR/lock.txt" >"$TMPDIR/explicit.txt"
    /opt/conda/bin/mamba create --yes --quiet --prefix /opt/conda/envs/lab --file "$TMPDIR/explicit.txt"
    rm -r /opt/sifmod-environment

%test
    /opt/conda/envs/lab/bin/python3 --version
"""


def write(folder: Path, text: str, name: str = "environment.yml") -> Path:
    return write_file(folder / name, text)


def fake(folder: Path, tool: str, records: list[Any], *, status: int = 0) -> None:
    """Write a container runtime in which the base's tool leaves these records in conda-meta."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "records").mkdir(exist_ok=True)
    for number, record in enumerate(records):
        text = record if isinstance(record, str) else json.dumps(record)
        (folder / "records" / f"{number}.json").write_text(text)
    runtime = folder / "bin" / "singularity"
    here = shlex.quote(str(folder))
    write_program(
        runtime,
        "#!/bin/bash\n"
        f'if [[ "$*" == *" /bin/sh -s" ]]; then cat >/dev/null; echo {tool}; exit; fi\n'
        f'cat >{here}/given\necho "$*" >{here}/words\n'
        f'((! {status})) || {{ echo "PackagesNotFound: zlibb" >&2; exit {status}; }}\n'
        'scratch=${SINGULARITY_BINDPATH%%:/tmp*}; mkdir -p "$scratch/environment"\n'
        f'cp -r {here}/records "$scratch/environment/conda-meta"\n',
    )


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, source: CondaSource, *, uri: str = REMOTE) -> dict[str, str]:
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    base = image(folder, uri)
    return dict(make_conda_environment(source, base, proposal_of(base), SITE, say=lambda _line: None).files)


RECORDS = [{"url": PYTHON, "md5": MD5, "name": "python"}, {"url": ZLIB, "md5": MD5}]


def test_an_environment_is_made_locked_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "/opt/conda/bin/mamba", RECORDS)
    lock, definition, easyconfig = made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML))).items()
    assert definition == ("lab-1.0-python-3.12-singularity.def", DEFINITION)
    assert lock[0] == "lab-1.0-python-3.12-singularity.conda.txt"
    assert lock[1] == LOCK
    given = json.loads((tmp_path / "given").read_text())
    assert given == {"channels": ["conda-forge"], "dependencies": ["python=3.12", "zlib"]}
    for line in ("conda_root = '/opt/conda'", "conda_env = 'lab'", "venv = 'lab'"):
        assert f"\n{line}\n" in easyconfig[1]
    # the lock gives the same again, without solving
    (tmp_path / "given").unlink()
    again = made(tmp_path, monkeypatch, read_conda(write(tmp_path, lock[1], "lock.txt")))
    assert again[definition[0]] == DEFINITION
    assert not (tmp_path / "given").exists()


def test_micromamba_has_no_root_so_its_environment_is_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(
        tmp_path,
        "/usr/local/bin/micromamba",
        [{"url": f"file://{tmp_path}/linux-64/python-3.12.4-0.conda", "md5": MD5}],
    )
    lock, definition, easyconfig = made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML)), uri="").values()
    assert "python_prefix = '/opt/lab'" in easyconfig
    assert f'cp -- {tmp_path}/linux-64/python-3.12.4-0.conda "$SINGULARITY_ROOTFS"' in definition
    (rewrite,) = (line for line in definition.splitlines() if line.startswith("    sed "))
    (tmp_path / "lock.txt").write_text(lock)
    done = subprocess.run(["sh", "-c", rewrite], env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True)
    assert done.returncode == 0
    explicit = (tmp_path / "explicit.txt").read_text().splitlines()
    assert explicit[-1] == f"file:///opt/sifmod-environment/python-3.12.4-0.conda#{MD5}"
    assert "sha256sum" in definition


@pytest.mark.parametrize(
    ("tool", "records", "error", "said"),
    [
        ("", RECORDS, ImageError, "no conda, mamba or micromamba was found"),
        ("'/opt/x y/bin/conda'", RECORDS, ImageError, "unusual place"),
        ("/opt/c/bin/conda", [RECORDS[1]], SifmodError, "has no Python"),
        ("/opt/c/bin/conda", ["["], SifmodError, "can't be read"),
        ("/opt/c/bin/conda", [{"url": PYTHON}], SifmodError, "can't be read"),
        ("/opt/c/bin/conda", [{"url": PYTHON + "\n%post", "md5": MD5}], SifmodError, "not the address"),
        ("/opt/c/bin/conda", [{"url": PYTHON.replace("3.12", "{{x}}"), "md5": MD5}], SifmodError, "characters"),
        ("/opt/c/bin/conda", [{"url": PYTHON.replace("conda.e", "me:pw@e"), "md5": MD5}], SifmodError, "credentials"),
        ("/opt/c/bin/conda", [{"url": PYTHON.replace("linux", "t/to-ken/linux"), "md5": MD5}], SifmodError, "credent"),
    ],
)
def test_what_the_base_answers_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, records: list[Any], error: type[Exception], said: str
) -> None:
    fake(tmp_path, tool, records)
    with pytest.raises(error, match=said):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML)))


def test_unusable_dependencies_and_addresses_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "/opt/c/bin/conda", RECORDS, status=3)
    with pytest.raises(SifmodError, match=r"'environment.yml' can't be met .*: PackagesNotFound: zlibb. Correct"):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML)))
    fake(tmp_path, "/opt/c/bin/conda", RECORDS)
    with pytest.raises(SifmodError, match=r"line 2: 'http://.x' is not the address"):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, f"@EXPLICIT\nhttp://[x#{MD5}\n")))


def test_links_as_records_and_packages_elsewhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = f"file:///home/victim/linux-64/python-3.12.4-0.conda#{MD5}\n"
    fake(tmp_path, "/opt/c/bin/conda", [{"url": elsewhere.partition("#")[0], "md5": MD5}])
    for text in (YAML, f"@EXPLICIT\n{elsewhere}"):
        with pytest.raises(SifmodError, match=r"'/home/victim/.*, which is not below"):
            made(tmp_path, monkeypatch, read_conda(write(tmp_path, text)))
    fake(tmp_path, "/opt/c/bin/conda", RECORDS)
    (tmp_path / "records/1.json").rename(tmp_path / "secret")
    (tmp_path / "records/1.json").symlink_to(tmp_path / "secret")
    with pytest.raises(SifmodError, match=r"'1.json' that the base's conda wrote can't be read"):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (YAML + "  - pip:\n    - greeting\n", "packages for pip"),
        (YAML + "  - {pip: [greeting]}\n", "packages for pip"),
        (YAML + "  - ? pip\n    : [greeting]\n", "packages for pip"),
        (YAML + '  - "p\\x69p": [greeting]\n', "packages for pip"),
        ("dependencies: [python, {pip: [greeting]}]\n", "packages for pip"),
        (YAML + "variables:\n  LIMIT: 1\n", "variables have no place"),
        (YAML + "again: &a [x]\nmore: *a\n", r"neither .*: line 7: .* repeats another part"),
        ("dependencies: python\n", "neither an environment.yml"),
        ("numpy\n", "neither an environment.yml"),
        ("", "neither an environment.yml"),
        ("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), "neither an environment.yml"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SifmodError, match=said):
        read_conda(write(tmp_path, text))


def test_the_module_is_named_after_the_environment(tmp_path: Path) -> None:
    """An expression with `^\\s*` would need hours: each of a million lines was compared with all that follow."""
    assert read_conda(write(tmp_path, "\n" * 1_000_000 + YAML)).name == "Thesis"
    source = read_conda(write(tmp_path, YAML))
    assert source.named("", "") == ("Thesis", "1.0")
    assert CondaSource("x", "").named("", "2") == ("environment", "2")
    with pytest.raises(ParameterError):
        CondaSource("x", "", name="-x").named("", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (PYTHON, "line 2: a package needs an address and an MD5"),
        (f"{PYTHON}#xyz", "line 2: a package needs"),
        (f"{PYTHON.replace('linux', 'osx')}#{MD5}", "is for osx-64, not for linux-"),
        (f"ftp://x.org/linux-64/python-3.12.4-0.conda#{MD5}", "not the address"),
        (f"https://x.org/${{TOKEN}}/linux-64/python-3.12.4-0.conda#{MD5}", "has characters that"),
        (f"https://me:secret@[x/linux-64/python-3.12.4-0.conda#{MD5}", "^'environment.yml', line 2: credentials"),
    ],
)
def test_locks_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    fake(tmp_path, "/opt/c/bin/conda", RECORDS)
    with pytest.raises(SifmodError, match=said):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, f"@EXPLICIT\n{line}\n")))


@pytest.mark.parametrize(
    "name", ["python-3.12.4-%0A%25setup%0Aid%0A.conda", "python-3.12.4-$(id).conda", "python-3.12.4-'.conda"]
)
@pytest.mark.parametrize("folder", ["https://x.org/linux-64/", "file:///x/linux-64/"])
def test_file_names_have_safe_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str) -> None:
    fake(tmp_path, "/opt/c/bin/conda", [{"url": folder + name, "md5": MD5}])
    with pytest.raises(SifmodError, match="characters"):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, YAML)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("channels: ['https://h/${PIP_INDEX_URL}']", "neither the name"),
        ("channels: [https://h/$HTTPS_PROXY]", "neither the name"),
        ("channels: [https://me:secret@h/c]", "credentials"),
        ("channels: [https://h/t/secret/c]", "credentials"),
        ("channels: [/home]", "put a copy of it there"),
        ("channels: ['file:///home']", "put a copy of it there"),
        ("channels: [./..]", "put a copy of it there"),
        ("channels: [./link]", "put a copy of it there"),
        ("channels: x", "not a list"),
        ("channels: ['--file=/x']", "neither the name"),
    ],
)
def test_channels_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone/link").symlink_to("/home")
    with pytest.raises(SifmodError, match=said) as caught:
        read_conda(write(tmp_path / "clone", f"{text}\ndependencies: [python]\n"))
    assert "secret" not in str(caught.value)


def test_the_base_sees_only_a_channel_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`# see /home` in a comment bound /home, and tokens of pip were passed on."""
    fake(tmp_path, "/opt/c/bin/conda", RECORDS)
    with (tmp_path / "bin/singularity").open("a") as stream:
        stream.write(f"env >{shlex.quote(str(tmp_path))}/env\n")
    channel = tmp_path / "channel"
    (channel / "noarch").mkdir(parents=True)
    (channel / f"linux-{'64' if os.uname().machine == 'x86_64' else os.uname().machine}").symlink_to("/home")
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:token@index")
    text = "channels: [./channel] # see /home\ndependencies: [python]\n"
    made(tmp_path, monkeypatch, read_conda(write(tmp_path, text)))
    env = (tmp_path / "env").read_text()
    (bound,) = [line for line in env.splitlines() if line.startswith("SINGULARITY_BINDPATH=")]
    assert f"{channel}/noarch" in bound
    assert "/home" not in bound
    assert "SINGULARITYENV_PIP_INDEX_URL" not in env
    assert json.loads((tmp_path / "given").read_text())["channels"] == [str(channel)]
    # who may put another folder there while the runtime binds it
    channel.chmod(0o777)
    with pytest.raises(SifmodError, match=r"everybody may replace what is in '.*/channel'"):
        made(tmp_path, monkeypatch, read_conda(write(tmp_path, text)))
