"""The verbs about installations: list, show, verify and remove."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from tests.programs import write_file, write_program

from sifmod import names
from sifmod.cli import cli
from sifmod.commands.options import complete_modules
from sifmod.commands.show import show
from sifmod.container.spec import Base
from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.errors import InstallError, SifmodError
from sifmod.install.manifest import read_manifest

from ..support import SQUASHFS, a_runner, make_installation, snapshot

MODULE = "Python/3.11-demo"

Call = Callable[..., Result]


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    for name in ("CONTAINERROOT", "MODULEPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "eb").mkdir()
    return tmp_path / "eb"


@pytest.fixture
def root(prefix: Path) -> Path:
    return make_installation(software_space(prefix), MODULE)


@pytest.fixture
def call() -> Call:
    return lambda *words, **more: a_runner().invoke(cli, words, **more)


def rows(result: Result) -> list[list[str]]:
    return [line.split("  ") for line in result.output.splitlines()]


def test_list_says_what_there_is(call: Call, root: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_LIST).write_text("a==1\nb==2\n")
    robot = prefix / "robot"
    write_file(robot / "Python-3.12-demo.eb", "easyblock = 'ContainerImage'\n")
    monkeypatch.setenv("EASYBUILD_ROBOT_PATHS", f"{robot}:")
    monkeypatch.setenv("LOADEDMODULES", MODULE)
    monkeypatch.setenv("EBROOTPYTHON", str(root))
    result = call("list")
    assert result.exit_code == 0
    line = result.output.splitlines()[1]
    for text in (MODULE, "packed, 2 packages, 96 B", "  loaded  ", "Python-3.12-demo.eb"):
        assert text in line
    (fact,) = json.loads(call("list", "--json").output)["installations"]
    assert (fact["module"], fact["loaded"], fact["user_software"]["packages"]) == (MODULE, True, ["a==1", "b==2"])
    assert fact["newer_easyconfigs"] == [str(robot / "Python-3.12-demo.eb")]


def test_list_names_an_environment_whose_packages_are_elsewhere(call: Call, root: Path) -> None:
    library = root / "user-software/venv"
    library.rename(root / "elsewhere")
    library.symlink_to("../elsewhere")
    result = call("list")
    assert result.exit_code == 1
    assert "sifmod: in '" in result.stderr
    assert "'venv' is a link to '../elsewhere', out of user software" in result.stderr
    assert call("list", "--json").exit_code == 1


def test_fast_leaves_sizes_of_directories_out_and_the_largest_come_first(call: Call, root: Path, prefix: Path) -> None:
    assert ", 0 packages, " in call("list").output
    assert "directory, 0 packages  " in call("list", "--fast").output
    (root / "demo.sif").unlink()
    assert "(gone)" in call("list").output
    other = make_installation(software_space(prefix), "Zzz/1")
    (other / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS + bytes(100_000))
    lines = call("list", "--by-size").output.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["Zzz/1", MODULE]
    assert lines[-1].startswith("2 installations: 100")
    assert root.name in call("list").output.splitlines()[1]


def test_an_empty_space_is_said_to_be_so(call: Call, prefix: Path) -> None:
    result = call("list")
    assert (result.exit_code, result.output) == (0, f"no container modules in {prefix}/software\n")
    assert json.loads(call("list", "--json").output)["installations"] == []
    for options in ((), ("--quiet",), ("--json",)):
        result = call("verify", *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"no container modules in '{prefix}/software', so nothing was verified" in str(result.exception)


def test_a_damaged_one_is_named_beside_the_others(call: Call, root: Path, prefix: Path) -> None:
    (make_installation(software_space(prefix), "Bad/1") / names.MANIFEST).write_text("{")
    result = call("list")
    assert (result.exit_code, call("list", "--json").exit_code) == (1, 1)
    assert "Bad/1/share/sifmod.json' can't be read" in result.stderr
    assert str(root.name) in result.output
    listed = json.loads(call("list", "--json").stdout)
    assert [item["root"] for item in listed["damaged"]] == [str(prefix / "software" / "Bad" / "1")]
    assert call("verify").exit_code == 1


def test_quiet_prints_problems_only(call: Call, root: Path, prefix: Path) -> None:
    assert (call("verify", "--quiet").exit_code, call("verify", "--quiet").output) == (0, "")
    (make_installation(software_space(prefix), "Bad/1") / "share" / "container.sh").unlink()
    result = call("verify", "--quiet")
    assert result.exit_code == 1
    assert "Bad/1  " in result.output
    assert "gone: share/container.sh" in result.output
    assert root.name not in result.output
    assert "  ok  " not in result.output
    assert "1 of 2 installations in order" in result.output


def test_user_software_is_kept_and_put_back(call: Call, root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert (call("keep", str(kept)).output, call("keep", str(kept), MODULE).output) == (
        "",
        f"{MODULE}: no user software\n",
    )
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    done = call("keep", str(kept), "--json")
    assert (done.exit_code, json.loads(done.output)["problems"]) == (0, [])
    assert (kept / MODULE.replace("/", "-") / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    (root / names.USER_SOFTWARE_PACKED).unlink()
    assert call("keep", str(kept), "--restore").exit_code == 2
    assert call("keep", str(kept), MODULE, "--restore").exit_code == 0
    assert (root / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    (kept / MODULE.replace("/", "-") / names.USER_SOFTWARE_PACKED).write_bytes(b"another")
    assert "already exists with other content" in call("keep", str(kept)).stderr


def test_other_users_modules_are_found(call: Call, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = SoftwareSpace(tmp_path / "theirs", tmp_path / "modules")
    central = make_installation(theirs, "Torch/2.0")
    make_installation(theirs, "Torch/2.1")
    for module in ("Torch/2.0", "Torch/2.1", "Own/1"):
        (tmp_path / "modules" / module).parent.mkdir(parents=True, exist_ok=True)
        own_root = theirs.software / module if module != "Own/1" else root
        text = f"#%Module\n\nset root {own_root}\n# {names.WRITTEN_BY}\n"
        (tmp_path / "modules" / module).write_text(text)
    monkeypatch.setenv("MODULEPATH", f"/missing:{tmp_path / 'modules'}")
    listed = call("list").output
    assert listed.count(root.name) == 1
    assert [line.split()[0] for line in listed.splitlines()[-3:]] == ["OTHER", "Torch/2.0", "Torch/2.1"]
    assert json.loads(call("list", "--json").output)["others"][0]["root"] == str(central)
    assert json.loads(call("show", "Torch/2.0", "--json").output)["root"] == str(central)
    assert f"Torch/2.0  {central}" in call("verify", "Torch/2.0").output
    assert "several versions of 'Torch': choose one of Torch/2." in str(call("show", "Torch").exception)
    (central / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    assert call("keep", str(tmp_path / "kept"), "Torch/2.0").exit_code == 0
    assert (tmp_path / "kept" / "Torch-2.0" / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    whose = f"'{central}', which belongs to {central.owner()}, is not in '"
    assert whose in str(call("remove", "Torch/2.0", "--yes").exception)
    assert central.is_dir()
    monkeypatch.setenv("CONTAINERROOT", str(central))
    assert json.loads(call("show", "Torch", "--json").output)["root"] == str(central)
    (central / names.MANIFEST).write_text("{")
    assert json.loads(call("show", "Torch/2.1", "--json").output)["root"] == str(central.parent / "2.1")
    in_own = ("--prefix", str(tmp_path / "eb"))
    for verb in (("remove",), ("keep", "x")):
        assert "there is no module 'Torch/2.1'" in str(call(*verb, "Torch/2.1", *in_own).exception)
    for words in (("show", "Torch", *in_own), ("show", "../modules/Torch"), ("show", "Tor*")):
        assert isinstance(call(*words).exception, InstallError)
    assert "OTHER" not in call("list", "--prefix", str(tmp_path / "eb")).output


def test_who_builds_on_a_module_is_listed(call: Call, root: Path, prefix: Path) -> None:
    base = Base(module=MODULE, root=str(root), venv="demo", python_version="3.11", image_id="")
    make_installation(software_space(prefix), "Mine/1", bases=(base,))
    assert f"\nMine/1 ({root.owner()}) builds on {MODULE}\n" in call("list").output
    listed = json.loads(call("list", "--json").output)["installations"]
    assert [[one["module"] for one in fact["built_on_by"]] for fact in listed] == [[], ["Mine/1"]]


def test_another_prefix_can_be_named(call: Call, tmp_path: Path, root: Path) -> None:
    (tmp_path / "other").mkdir()
    assert "no container modules" in call("list", "--prefix", str(tmp_path / "other")).output
    assert root.name in call("list", "--prefix", str(tmp_path / "eb")).output
    assert isinstance(call("list", "--prefix", "/nowhere").exception, InstallError)


def test_show_tells_everything(call: Call, root: Path) -> None:
    (root / "user-software-python3.10").mkdir()
    result = call("show", "Python")
    for text in (MODULE, str(root), "demo.sif", "set aside", "user-software-python3.10", "start-shell", "sifmod 0."):
        assert text in result.output
    shown = json.loads(call("show", str(root), "--json").output)
    assert shown["set_aside"] == ["user-software-python3.10"]
    assert shown["commands"] == ["start-shell"]
    assert isinstance(call("show", "Nothing").exception, SifmodError)


def test_verify_prints_installations_in_order_also_if_one_fails(call: Call, root: Path, prefix: Path) -> None:
    """The first and the last have no easyconfig for EasyBuild's sanity check."""
    space = software_space(prefix)
    slow = make_installation(space, "Aaa/1.0", hashes={}) / "bin/start-shell"
    slow.write_text(slow.read_text().replace("echo", "sleep 0.5; echo"))
    make_installation(space, "Zzz/1.0")
    (root / "easybuild").mkdir()
    (root / "easybuild/Python-3.11-demo.eb").touch()
    eb = write_program(prefix / "bin/eb", "#!/bin/bash\n[[ $PWD == / && $2 == /* ]]\n")
    result = call("verify", "--eb", env={"PATH": f"{eb.parent}:/usr/bin:/bin"})
    assert result.exit_code == 1
    titles = [line.split("  ")[0] for line in result.output.splitlines() if f"  {prefix}/software" in line]
    assert [title for title in titles if title != "ok"] == ["Aaa/1.0", MODULE, "Zzz/1.0"]
    assert result.output.count("has no easyconfig: eb can't run its sanity check") == 2
    assert "passed, with Python-3.11-demo.eb" in result.output
    report = json.loads(call("verify", "--eb", "--json", env={"PATH": f"{eb.parent}:/usr/bin:/bin"}).output)
    assert [one["module"] for one in report["installations"]] == ["Aaa/1.0", MODULE, "Zzz/1.0"]
    assert report["problems"] == 2


@pytest.mark.parametrize("others", [[], ["Zzz/1.0"]])
def test_verify_fast_starts_no_container(call: Call, root: Path, prefix: Path, others: list[str]) -> None:
    space = software_space(prefix)
    for top in (root, *(make_installation(space, other) for other in others)):
        (top / "user-software").rename(top / "kept")
        (top / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
        for script in ("bin/start-shell", "share/container.sh"):
            (top / script).write_text(f"#!/bin/bash\ntouch {prefix}/started\n")
    result = call("verify", "--fast")
    assert "changed since the install: bin/start-shell, share/container.sh" in " ".join(result.output.split())
    assert "user software" in result.output
    assert "sanity check" not in result.output
    assert not (prefix / "started").exists()
    assert call("verify", "--fast", "--eb").exit_code == 2


def test_ctrl_c_ends_verify_and_its_containers_at_once(prefix: Path) -> None:
    space = software_space(prefix)
    for number in range(12):
        shell = make_installation(space, f"Demo/{number}.0", hashes={}) / "bin/start-shell"
        shell.write_text(f"#!/bin/bash\necho $$ >{prefix}/{number}.pid\nsleep 600 & wait\n")
    process = subprocess.Popen(
        [sys.executable, "-c", "from sifmod.cli import main; main()", "verify"], stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 240
    while not [path for path in prefix.glob("*.pid") if path.read_text()] and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    process.communicate(timeout=300)
    assert time.monotonic() - begun < 240
    assert process.returncode == 1
    started = [path.read_text().strip() for path in prefix.glob("*.pid")]
    assert started
    assert not [pid for pid in started if pid and Path("/proc", pid).exists()]


def test_verify_ends_by_its_outcome(call: Call, root: Path) -> None:
    well = call("verify")
    assert (well.exit_code, "1 of 1 installation in order" in well.output) == (0, True), well.output
    (root / "bin" / "start-shell").unlink()
    ill = call("verify", MODULE)
    assert (ill.exit_code, "0 of 1 installation in order" in ill.output) == (1, True)
    assert any(row[0] == "problem" for row in rows(ill))
    assert "do: reinstall it with: eb --rebuild" in ill.output
    report = json.loads(call("verify", "--json").output)
    assert (report["problems"], report["installations"][0]["outcome"]) == (1, "problem")


def test_remove_asks_first_and_for_programs_needs_yes(call: Call, root: Path) -> None:
    assert call("remove", MODULE, "--json").exit_code == 2
    assert root.exists()
    result = call("remove", MODULE, input="n\n")
    assert (result.exit_code, root.exists()) == (1, True)
    assert "Remove it?" in result.output
    result = call("remove", MODULE, input="y\n")
    assert (result.exit_code, root.exists()) == (0, False)
    assert f"removed {MODULE}" in result.output


def test_remove_wants_to_know_about_user_software(call: Call, root: Path, tmp_path: Path) -> None:
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    result = call("remove", MODULE, "--yes")
    assert isinstance(result.exception, InstallError)
    assert "--keep-user-software DIR or delete them with --delete-user-software" in str(result.exception)
    assert root.exists()
    both = call("remove", MODULE, "--keep-user-software", str(tmp_path), "--delete-user-software")
    assert both.exit_code == 2
    asked = call("remove", MODULE, "--delete-user-software", input="n\n")
    assert "user-software.squashfs, to be deleted" in asked.output
    assert call("remove", MODULE, "--keep-user-software", str(tmp_path / "kept"), "--yes").exit_code == 0
    assert (tmp_path / "kept" / "Python-3.11-demo" / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    assert not root.exists()


def test_remove_names_files_of_others_before_it_asks(call: Call, root: Path) -> None:
    (root / "mydata").mkdir()
    result = call("remove", MODULE, "--yes")
    assert "that sifmod did not install (mydata)" in str(result.exception)
    assert "mydata, to be deleted" in call("remove", MODULE, "--delete-other-files", input="n\n").output
    assert root.exists()
    assert call("remove", MODULE, "--delete-other-files", "--yes").exit_code == 0
    assert not root.exists()


def test_an_image_for_enroot_is_shown(call: Call, root: Path) -> None:
    manifest = read_manifest(root)
    assert manifest
    assert "  for enroot" not in call("show", MODULE).output
    files, name = (*manifest.files, "demo.sqsh"), root / names.MANIFEST
    changed = replace(manifest, files=files, squashfs="demo.sqsh", squashfs_sha256="1" * 64, squashfs_size=2_000_000)
    name.write_text(changed.text)
    assert f"{root}/demo.sqsh (gone), 2 MB, SHA-256 1111" in call("show", MODULE).output
    (root / "demo.sqsh").touch()
    assert json.loads(call("show", MODULE, "--json").output)["image"]["for_enroot"]["is_there"]


def test_an_old_image_is_shown_and_removed_alone(call: Call, root: Path) -> None:
    assert call("remove", MODULE, "--old-images", "--yes").output == "there is no old image\n"
    manifest = read_manifest(root)
    assert manifest
    (root / "old.sif").write_bytes(b"x" * 2048)
    changed = replace(manifest, files=(*manifest.files, "old.sif"), old_images=("old.sif",))
    (root / names.MANIFEST).write_text(changed.text)
    assert "(+ old 2.05 kB)" in call("list").output
    assert f"{root}/old.sif" in call("show", MODULE).output
    assert f"sifmod remove --old-images {MODULE}" in call("verify", MODULE).output.replace("\n", " ")
    assert call("remove", MODULE, "--old-images", "--delete-user-software").exit_code == 2
    assert call("remove", MODULE, "--old-images", input="n\n").exit_code == 1
    assert json.loads(call("remove", MODULE, "--old-images", "--yes", "--json").output) == {
        "removed": [f"{root}/old.sif"]
    }
    assert sorted(path.name for path in root.glob("*.sif")) == ["demo.sif"]


def test_remove_warns_when_the_module_is_loaded(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADEDMODULES", MODULE)
    monkeypatch.setenv("EBROOTPYTHON", str(root))
    result = call("remove", MODULE, "--yes", "--json")
    assert f"module unload {MODULE}" in result.stderr
    assert json.loads(result.stdout) == {"removed": MODULE}


def test_remove_finishes_what_was_interrupted(call: Call, root: Path) -> None:
    root.rename(root.with_name(".removing-3.11-demo.0a1b2c3d"))
    result = call("remove", MODULE, "--yes")
    assert (result.exit_code, "finished the interrupted removal" in result.output) == (0, True)
    assert not root.parent.exists()
    assert isinstance(call("remove", MODULE, "--yes").exception, InstallError)


def test_modules_are_completed(root: Path) -> None:
    context = show.make_context("show", [], resilient_parsing=True)
    parameter = context.command.params[0]
    assert [item.value for item in complete_modules(context, parameter, "Py")] == [MODULE]
    assert complete_modules(context, parameter, "X") == []
    assert root.exists()


# Each verb on what a newer sifmod has written: what is typed after it, and its exit status; `{}` is the installation.
NEWER = {
    ("list",): 1,
    ("verify",): 1,
    ("verify", MODULE): 7,
    ("show", MODULE): 7,
    ("show", "{}"): 7,
    ("kernel", MODULE): 7,
    ("doctor", MODULE): 7,
    ("doctor", "--all"): 1,
    ("keep", "{}.kept"): 1,
    ("keep", "{}.kept", MODULE, "--restore"): 7,
    ("remove", MODULE, "--yes"): 7,
    ("remove", MODULE, "--old-images", "--yes"): 7,
    ("on", MODULE, "--name", "Mine"): 3,
    ("catalogue", "--output", "{}.pages"): 7,
}


@pytest.mark.parametrize("words", NEWER, ids=" ".join)
def test_what_a_newer_sifmod_has_written_is_named_and_left_alone(
    call: Call, root: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    manifest = root / names.MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    before = snapshot(prefix)
    monkeypatch.chdir(prefix)
    result = call(*(word.replace("{}", str(root)) for word in words))
    raised = result.exception
    status = raised.exit_code if isinstance(raised, SifmodError) else result.exit_code
    said = str(raised) if isinstance(raised, SifmodError) else result.output + result.stderr
    assert (status, "written by a newer sifmod" in said) == (NEWER[words], True), said
    after = snapshot(prefix)
    assert {name: after.get(name) for name in before} == before
