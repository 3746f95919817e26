"""`sifmod list`, `show`, `verify` and `remove` with real installations."""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, ROOT, User, make_user, make_wheel

LOAD = f"module load {DEMO_MODULE}"


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo image installed, with a package of the user's own in it; tests leave it as they find it."""
    user = make_user(tmp_path_factory.mktemp("installed") / "eb with space")
    user.eb(DEMO_EASYCONFIG)
    wheel = make_wheel(user.prefix, "greeting", "1.0", "def greet():\n    return 'hello'\n")
    user.run(f"""{LOAD}; singularity exec "$SIF" pip install --no-index '{wheel}'""")
    return user


def verified(user: User, *flags: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """Return exit status and findings of `sifmod verify`, by topic."""
    done = user.run(f"sifmod verify --json {' '.join(flags)}", check=False)
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(done.stdout)["installations"][0]["findings"]:
        found.setdefault(finding["topic"], []).append(finding)
    return done.returncode, found


def test_the_catalogue_has_lines_that_run(owner: User, tmp_path: Path) -> None:
    pages, offers = tmp_path / "pages", tmp_path / "offers"
    easyconfig = offers / "b/bwa/bwa-0.7.18-singularity.eb"
    easyconfig.parent.mkdir(parents=True)
    easyconfig.write_text((ROOT / "easyconfigs/b/bwa/bwa-0.7.18-singularity.eb").read_text())
    owner.run(f"sifmod catalogue --output '{pages}' --prefix '{owner.prefix}' --easyconfigs '{offers}' --quiet")
    offered, installed = json.loads((pages / "catalogue.json").read_text())["modules"]
    assert (offered["state"], offered["commands"]) == ("offered", ["bwa"])
    assert offered["module_class"] == "bio"
    image = offered["image"]
    assert image["origin"] == f"docker://quay.io/biocontainers/bwa@{image['digest']}"
    assert re.fullmatch("sha256:[0-9a-f]{64}", image["digest"])
    assert installed["module"] == DEMO_MODULE
    assert installed["description"].startswith("Python 3.11 of Debian")
    assert {"name": "greeting", "version": "1.0"} in installed["packages"]
    assert installed["load"] == LOAD
    assert "Python 3.11" in owner.out(f"{installed['load']}; {installed['run']}")
    (tmp_path / "train.py").write_text("import greeting; print(greeting.greet())\n")
    (tmp_path / "job.sh").write_text(installed["job"])
    owner.run(f"cd '{tmp_path}' && sbatch --wait job.sh")
    (output,) = tmp_path.glob("*.out")
    assert output.read_text().splitlines()[-1] == "hello"


def test_verify_names_a_node_that_does_not_know_the_user(owner: User) -> None:
    done = owner.run("unshare --user --map-user=12345 sifmod verify", status=1)
    assert "has no entry for you (getent passwd 12345)" in done.stdout
    assert "try on another node" in done.stdout
    assert "eb --rebuild" not in done.stdout


def test_verify_is_content_with_an_install_and_with_eb_s_own_check(owner: User) -> None:
    status, found = verified(owner, "--eb")
    assert status == 0
    assert {finding["severity"] for findings in found.values() for finding in findings} == {"ok"}
    assert "unchanged" in found["files"][0]["what"]
    assert "passed" in found["eb sanity check"][0]["what"]


@pytest.mark.slow
def test_verify_reads_what_is_packed_and_compares_it(owner: User) -> None:
    packed = owner.installdir(DEMO_MODULE) / "user-software.squashfs"
    # what is compressed: damage of anything else is noticed by its sum alone
    (packed.parent / "user-software" / "filling").write_text(os.urandom(2_000_000).hex())
    owner.run(f"{LOAD}; make-squashfs")
    try:
        status, found = verified(owner)
        assert status == 0
        assert [item["severity"] for item in found["user software"]] == ["ok", "note"]
        assert "SHA-256 as packed" in found["user software"][0]["what"]
        assert "equals the packed file" in found["user software"][1]["what"]

        stray = owner.installdir(DEMO_MODULE) / "user-software" / "stray"
        stray.parent.chmod(0o755)
        stray.touch()
        status, found = verified(owner)
        stray.unlink()
        assert (status, found["user software"][1]["severity"]) == (0, "warning")
        assert "only in the directory: 'stray'" in found["user software"][1]["what"]

        whole = packed.read_bytes()
        middle = len(whole) // 3
        packed.write_bytes(whole[:middle] + bytes(200_000) + whole[middle + 200_000 :])
        status, found = verified(owner)
        assert status == 1
        assert "another one was recorded when it was packed" in found["user software"][0]["what"]
        (packed.parent / "user-software.sha256").unlink()
        status, found = verified(owner)
        assert status == 1
        assert "can't be read" in found["user software"][0]["what"]
    finally:
        packed.unlink(missing_ok=True)
        packed.with_suffix(".txt").unlink(missing_ok=True)
        owner.run(f"{LOAD}; unmake-squashfs")  # the directory can be written to again


def test_verify_finds_a_flipped_byte_in_the_image(owner: User) -> None:
    image = owner.installdir(DEMO_MODULE) / "demo.sif"
    with image.open("r+b") as stream:
        stream.seek(-5000, 2)
        byte = stream.read(1)
        stream.seek(-5000, 2)
        stream.write(bytes([byte[0] ^ 1]))
        try:
            stream.flush()
            status, found = verified(owner)
        finally:
            stream.seek(-5000, 2)
            stream.write(byte)
    assert (status, found["image"][0]["severity"]) == (1, "problem")
    assert verified(owner)[0] == 0


def test_an_installation_of_a_newer_sifmod_is_named_and_left_alone(owner: User) -> None:
    root = owner.installdir(DEMO_MODULE)
    path = root / "share" / "sifmod.json"
    text = path.read_text()
    path.write_text(re.sub(r'"format": \d', '"format": 9', text))
    module = owner.prefix / "modules" / "all" / f"{DEMO_MODULE}.lua"
    before = (module.read_text(), sorted(str(item) for item in root.rglob("*")))
    try:
        for command in (
            f"eb {DEMO_EASYCONFIG} --rebuild",
            f"eb {DEMO_EASYCONFIG} --rebuild --module-only",
            *("sifmod list", f"sifmod show {DEMO_MODULE}", "sifmod verify", f"sifmod remove {DEMO_MODULE} --yes"),
        ):
            done = owner.run(command, check=False)
            assert done.returncode != 0, command
            assert "was written by a newer sifmod" in done.stdout + done.stderr, command
        assert (module.read_text(), sorted(str(item) for item in root.rglob("*"))) == before
    finally:
        path.write_text(text)


def test_doctor_finds_nothing_wrong_here(owner: User) -> None:
    # the machine that the tests run on may have mirrors and certificates of its own
    unset = "unset ${!PIP_*} ${!UV_*} SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE"
    for target in ("", "Python", DEMO_EASYCONFIG, f"'{owner.installdir(DEMO_MODULE)}/demo.sif'"):
        done = owner.run(f"{unset}; sifmod doctor --json {target}", check=False)
        report = json.loads(done.stdout)
        # notes on the machine: settings of pip, what mounts packed files, shells that do not know `module`
        notes = {("note", topic) for topic in ("package indexes", "packed files", "modules")}
        found = {(item["severity"], item["topic"]) for item in report["findings"]} - notes
        severities = {severity for severity, topic in found if topic != "package indexes"}
        assert (done.returncode, severities) == (0, {"ok"}), report
        topics = {finding["topic"] for finding in report["findings"]}
        assert {"runtime", "user namespaces", "FUSE", "squashfs-tools", "modules", "EasyBuild"} <= topics
        assert ("image" in topics) == bool(target)
        assert ("user software" in topics) == (target == "Python")


@pytest.mark.slow
def test_remove_keeps_what_users_installed_and_a_new_install_takes_it_back(user: User, wheel: Path) -> None:
    user.eb(DEMO_EASYCONFIG)
    user.run(f"""{LOAD}; singularity exec "$SIF" pip install --no-index '{wheel}'""")
    refused = user.run(f"sifmod remove {DEMO_MODULE} --yes", status=7)
    assert "--keep-user-software DIR" in refused.stderr
    kept = user.prefix / "kept"
    stray = user.installdir(DEMO_MODULE) / "user-software" / "stray"
    user.run(f"{LOAD}; make-squashfs; chmod u+w '{stray.parent}'; touch '{stray}'")
    refused = user.run(f"sifmod remove {DEMO_MODULE} --keep-user-software '{kept}' --yes", status=7)
    assert "differs from the packed file" in refused.stderr
    assert "make-squashfs --replace" in refused.stderr
    assert user.out(f"{LOAD}; python -c 'import greeting; print(greeting.greet())'") == "hello"
    stray.unlink()
    done = user.run(f"{LOAD}; sifmod remove {DEMO_MODULE} --keep-user-software '{kept}' --yes")
    assert f"module unload {DEMO_MODULE}" in done.stderr
    assert not user.installdir(DEMO_MODULE).exists()
    assert not list((user.prefix / "modules").rglob("*demo*"))
    assert "no container modules" in user.out("sifmod list")
    folder = kept / DEMO_MODULE.replace("/", "-")
    assert (folder / "user-software.txt").read_text() == f"greeting @ {wheel.as_uri()}  # 1.0\n"
    user.eb(DEMO_EASYCONFIG)
    user.run(f"cp '{folder}'/user-software.* {user.installdir(DEMO_MODULE)}")
    greeted = user.out(f"{LOAD}; singularity exec $SIF python -c 'import greeting; print(greeting.greet())'")
    assert greeted == "hello"
