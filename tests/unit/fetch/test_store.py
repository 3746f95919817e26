"""The store of pulled images: what it believes, and where it writes."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.programs import write_file, write_program

from sifmod.errors import ImageError
from sifmod.fetch import making
from sifmod.fetch.definition import Definition
from sifmod.fetch.records import record_of
from sifmod.fetch.store import ImageStore
from sifmod.fetch.uri import image_uri
from sifmod.host import owners
from sifmod.host.runtime import ContainerRuntime
from sifmod.site.settings import Site

from ..support import SIF_HEADER, a_site

AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")

# Notes each call beside itself, and makes an image.
RUNTIME = """#!/bin/sh
[ "$1" != --version ] || exec echo fake version 1.0
echo "$1" >>"$0.calls"
stat -c %a "$(dirname "$2")" >>"$0.modes"
cp "$0.image" "$2"
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    path = write_program(tmp_path / "singularity", RUNTIME)
    (tmp_path / "singularity.image").write_bytes(SIF_HEADER)
    (tmp_path / "image.tar").touch()
    return path


class Store:
    """Pulls one image into a folder, as often as it is called."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.said: list[str] = []
        self.folder, self._runtime = folder, runtime
        self.images = ImageStore(folder, ContainerRuntime(runtime), a_site(), self.said.append)
        self.uri = image_uri(f"docker-archive:{runtime.parent}/image.tar")
        self.target = folder / self.uri.file_name

    def __call__(self) -> Path:
        return self.images.pull(self.uri)[0]

    @property
    def pulls(self) -> int:
        calls = Path(f"{self._runtime}.calls")
        return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.fixture
def store(tmp_path: Path, runtime: Path) -> Store:
    return Store(tmp_path / "store", runtime)


def test_a_pull_is_ended_only_if_it_stalls(store: Store, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_POLL", 0.02)
    monkeypatch.setattr(making, "_STALLED", 0.3)
    runtime.write_text(RUNTIME + "sleep 600\n")
    began = time.monotonic()
    with pytest.raises(
        ImageError, match=r"pulling docker-archive:.*nothing has arrived for .* seconds, so it was ended"
    ):
        store()
    assert time.monotonic() - began < 240
    assert not [path for path in store.folder.iterdir() if path.name.endswith(".partial")]
    monkeypatch.setattr(making, "_STALLED", 8)  # a machine may be busy between two reads
    # one process: what starts and ends changes the sum as well
    works = "exec 3<> <(:)\nfor i in {1..25}; do printf %9000s '' >/dev/null; read -r -t 0.4 -u 3; done\ntrue\n"
    runtime.write_text(RUNTIME.replace("/bin/sh", "/bin/bash") + works)
    assert store() == store.target


def test_an_image_is_pulled_once_and_in_a_private_folder(store: Store, runtime: Path) -> None:
    assert store() == store() == store.target
    assert store.pulls == 1
    assert Path(f"{runtime}.modes").read_text() == "700\n"
    assert [path for path in store.folder.iterdir() if path.suffix != ".lock"] == [store.target]


def test_what_a_killed_pull_has_left_is_in_nobody_s_way(store: Store, tmp_path: Path) -> None:
    store.folder.mkdir()
    write_file(tmp_path / "victim" / "file")
    partial = store.folder / f".{store.target.name}.partial"
    partial.symlink_to(tmp_path / "victim")
    store()
    assert (tmp_path / "victim" / "file").exists()
    write_file(partial / "half")
    store.target.unlink()
    store()
    assert not partial.exists()


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/sifmod/images"


def test_an_image_of_a_clone_is_used_only_with_a_checksum(store: Store, records: Path, runtime: Path) -> None:
    """It lies where an image would be pulled to, with the record that sifmod 1 kept there."""
    store.folder.mkdir()
    store.target.write_bytes(b"evil")
    sha256 = hashlib.sha256(b"evil").hexdigest()
    record = {"origin": store.uri.text, "digest": f"sha256:{'0' * 64}", "sha256": sha256, "size": 4, "runtime": "x"}
    Path(f"{store.target}.json").write_text(json.dumps(record))
    assert store.images.pull(store.uri, sha256=sha256)[1].digest == ""
    runtime.write_text(RUNTIME.replace("cp ", "exit 1 #"))
    with pytest.raises(ImageError, match=r"To use '.*' as it is, write its SHA-256 \(see sha256sum\) into checksums"):
        store()
    assert store.target.read_bytes() == b"evil"
    runtime.write_text(RUNTIME)
    store()
    assert store.target.read_bytes() == SIF_HEADER
    os.utime(store.target, ns=(0, 0))  # as a copy of it has; then its content counts
    store()
    assert store.pulls == 2
    store.target.write_bytes(SIF_HEADER[::-1])
    store()
    assert store.pulls == 3
    assert len(list(records.glob(f"{hashlib.sha256(SIF_HEADER).hexdigest()}-*.json"))) == 1


def test_records_of_a_held_folder(store: Store, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store()
    forged = records.rename(tmp_path / "forged")
    (tmp_path / "mine").mkdir()
    records.symlink_to("../../mine")

    def swapping(path: Path, **options: bool) -> str:
        records.unlink()
        records.symlink_to(forged)
        return owners.other_writers(path, **options)

    monkeypatch.setattr("sifmod.fetch.records.other_writers", swapping)
    assert record_of(store.target, store.uri.text) is None


@AS_ROOT
def test_a_folder_that_a_centre_fetches_into_is_only_read(store: Store) -> None:
    store()
    store.folder.chmod(0o555)
    assert store() == store.target
    os.utime(store.target, ns=(0, 0))
    store.target.chmod(0o644)
    store.target.write_bytes(b"new")
    with pytest.raises(ImageError, match=r"can't make the folder .* into checksums"):
        store()
    assert store.images.pull(store.uri, sha256="0" * 64)[0] == store.target
    store.folder.chmod(0o755)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_folder_the_group_swaps_gives_no_image(store: Store, records: Path, runtime: Path, is_empty: bool) -> None:
    """Who may write to the source path renames the folder that the runtime writes into, and has the image's name."""
    swap = 'mv "${2%/*}" "${2%/*}.own"; mkdir "${2%/*}"; cp "$0.image" "$2"\n'
    swap += 'printf %s evil >>"$2"; mv "${2%/*}" "${2%/*}.evil"; mv "${2%/*}.own" "${2%/*}"\n' if is_empty else ""
    runtime.write_text(RUNTIME.replace('cp "$0.image" "$2"\n', swap))
    with pytest.raises(ImageError):
        store()
    assert not store.target.exists()
    assert not records.exists()


@pytest.mark.parametrize("above", [".", ".."])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_records_of_others(store: Store, records: Path, monkeypatch: pytest.MonkeyPatch, above: str, mode: int) -> None:
    monkeypatch.setattr(owners, "_is_own_group", lambda _number: False)
    store()
    folder = (records / above).resolve()
    folder.chmod(folder.stat().st_mode | mode)
    store()
    assert store.pulls == 2
    assert f"may write to '{folder}'" in "\n".join(store.said)


def sized(data: dict[str, Any]) -> None:
    data["size"] = True


def renamed(data: dict[str, Any]) -> None:
    data["runtime"] = "\x1b[2J"


def undigested(data: dict[str, Any]) -> None:
    data["digest"] = "sha256:../../x"


def hashless(data: dict[str, Any]) -> None:
    data["sha256"] = ""


def emptied(data: dict[str, Any]) -> None:
    data.clear()


@pytest.mark.parametrize("change", [sized, renamed, undigested, hashless, emptied])
def test_a_record_with_wrong_values(store: Store, records: Path, change: Callable[[dict[str, Any]], None]) -> None:
    store()
    (record,) = records.iterdir()
    data = json.loads(record.read_text())
    change(data)
    record.write_text(json.dumps(data))
    store()
    assert store.pulls == 2


@pytest.mark.parametrize("text", ["[" * 100_000, "[1, 2]", "", "null", "9" * 5000, "\udcff"])
def test_a_record_that_is_no_record_is_none(store: Store, records: Path, text: str) -> None:
    store()
    (record,) = records.iterdir()
    record.write_text(text, errors="surrogateescape")
    store()
    assert store.pulls == 2


def test_the_lock_is_not_opened_through_a_link(store: Store, tmp_path: Path) -> None:
    store.folder.mkdir()
    victim = write_file(tmp_path / "victim", "precious")
    lock = store.folder / f".{store.target.name}.lock"
    lock.symlink_to(victim)
    with pytest.raises(ImageError, match="is a symbolic link, and should be a lock file: remove it"):
        store()
    assert victim.read_text() == "precious"


def test_the_lock_is_not_emptied(store: Store) -> None:
    store.folder.mkdir()
    lock = write_file(store.folder / f".{store.target.name}.lock", "somebody's file")
    os.link(lock, store.folder.parent / "victim")
    store()
    assert (store.folder.parent / "victim").read_text() == "somebody's file"


def test_a_build_sends_no_password_elsewhere(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refused(registry: str, _site: Site) -> None:
        asked.append(registry)
        raise ImageError("it was not sent")

    monkeypatch.setattr("sifmod.fetch.store.check_login", refused)
    for variable in ("USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"SINGULARITY_DOCKER_{variable}", "x")
    definition = write_file(tmp_path / "x.def", "Bootstrap: docker\nFrom: registry.example.org/a/b:1\n")
    site = a_site(credential_registries=("registry.example.org",))
    with pytest.raises(ImageError, match="was not sent"):
        ImageStore(tmp_path, ContainerRuntime(runtime), site, print).build(Definition(definition, {}), stem="x")
    assert asked == ["registry.example.org"]
    assert not Path(f"{runtime}.calls").exists()


def test_a_definition_copies_nothing_through_a_link_out_of_its_folder(tmp_path: Path, runtime: Path) -> None:
    folder = tmp_path / "clone"
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/settings.txt").touch()
    (folder / "x.def").write_text(
        "Bootstrap: docker\nFrom: scratch\n%files\n  {{ what }}/* /opt\n  /etc/hostname /opt\n  ../x /opt\n"
    )
    definition = Definition(folder / "x.def", {"what": "src"})
    definition.check_copied()
    (folder / "src/deep/x").symlink_to("/proc/self/environ")
    store = ImageStore(tmp_path, ContainerRuntime(runtime), a_site(), print)
    with pytest.raises(ImageError, match=r"x\.def, line 4: '.*/src/deep/x'.* it leads out of its folder"):
        store.build(definition, stem="x")
    assert not Path(f"{runtime}.calls").exists()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("%appfiles x\n settings.txt", "it leads out of its folder"),
        ("%files\n [^z]ettings.txt", "it leads out of its folder"),
        ('%files\n settings.txt""x', "write the path that is copied as it is"),
        ("%files\n $(id>x)", "write the path that is copied as it is"),
    ],
)
def test_a_definition_is_read_as_the_runtime_reads_it(tmp_path: Path, files: str, said: str) -> None:
    (tmp_path / "x.def").write_text(f"Bootstrap: docker\nFrom: scratch\n{files}\n")
    (tmp_path / "settings.txt").symlink_to("/proc/self/environ")
    for name in ("zettings.txt", "settings.txtx", "$(id>x)"):
        (tmp_path / name).touch()
    with pytest.raises(ImageError, match=said):
        Definition(tmp_path / "x.def", {}).check_copied()


def test_a_base_image_is_no_folder_to_which_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "clone/own").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "x.sif").touch()
    (tmp_path / "clone/base.sif").symlink_to("../home")
    (tmp_path / "clone/image.sif").symlink_to("../x.sif")
    definition = Definition(tmp_path / "clone/x.def", {})
    for base in ("own", "image.sif", "../home", str(tmp_path / "home")):
        definition.path.write_text(f"Bootstrap: localimage\nFrom: {base}\n")
        definition.check_copied()
    definition.path.write_text("Bootstrap: localimage\nFrom: base.sif\n")
    with pytest.raises(ImageError, match=r"the base image 'base\.sif' is a link to a folder, '/.*/home'"):
        definition.check_copied()


# What Apptainer prints of a registry's answer, with the image's own names in it.
REFUSALS = {
    "a certificate": (
        'Get "https://127.0.0.1:404/v2/": tls: failed to verify: x509: certificate signed by unknown authority',
        "x509: certificate signed by unknown authority",
    ),
    "no mksquashfs": ('exec: "mksquashfs": executable file not found in $PATH', "mksquashfs"),
    "an error of the server": (
        "reading manifest 404 in 127.0.0.1:404/a/not-found-401: received unexpected HTTP status: 500 Internal Error",
        "HTTP status: 500",
    ),
    "a manifest that is unknown": (
        "reading manifest 404 in 127.0.0.1:404/a/not-found-401: manifest unknown",
        "has no image",
    ),
    "a status": ("Requesting bearer token: invalid status code from registry 404 (Not Found)", "has no image"),
    "a body": ("error parsing HTTP 404 response body: invalid character '<'", "has no image"),
    "a wrong password": ("Requesting bearer token: invalid status code from registry 403 (Forbidden)", "refused"),
    "a login that is needed": ("initializing source docker://127.0.0.1:404/a/b:1: unauthorized: log in", "refused"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_failed_pull_is_explained_by_the_answer_not_its_names(tmp_path: Path, runtime: Path, case: str) -> None:
    printed, told = REFUSALS[case]
    (tmp_path / "printed").write_text(f"FATAL:   While making image from oci registry: {printed}\n")
    runtime.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec echo fake version 1.0\ncat {tmp_path}/printed\nexit 255\n'
    )
    store = ImageStore(tmp_path / "store", ContainerRuntime(runtime), a_site(), lambda _line: None)
    with pytest.raises(ImageError) as failed:
        # a port of the system that no server uses: the digest of the tag is not asked for
        store.pull(image_uri("docker://127.0.0.1:404/a/not-found-401:404"))
    assert told in str(failed.value)
    assert ("has no image" in str(failed.value)) is (told == "has no image")
