"""The host's Slurm: found with what `scontrol` says, written as a feature, and compared with images."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.programs import write_program

from sifmod.container.bind import Bind
from sifmod.errors import ParameterError, SifmodError
from sifmod.image.inspection import Inspection
from sifmod.install import hostslurm
from sifmod.install.hostslurm import discover_slurm, with_slurm
from sifmod.render.helptext import feature_rows
from sifmod.render.templates import render
from sifmod.site.feature import Feature
from sifmod.site.settings import Site

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from ..image.elfs import GLIBC, elf
from ..imagetrees import write
from ..support import a_site, a_spec

CONFIG = """AuthInfo                = {auth}
AuthType                = auth/munge
CliFilterPlugins        = lua
CredType                = cred/munge
MpiDefault              = none
PluginDir               = {prefix}/lib/slurm
PlugStackConfig         = (null)
SlurmUser               = slurm(64030)
SlurmdSpoolDir          = /var/spool/slurmd/%n
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 23.11.1
SwitchType              = switch/hpe_slingshot
"""


def script(path: Path, text: str) -> None:
    write_program(path, f"#!/bin/sh\n{text}")


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm in a folder of its own, and an ldd that knows what its programs need."""
    prefix = tmp_path / "opt" / "slurm"
    for name in ("sbatch", "srun"):
        write(prefix, f"/bin/{name}").write_bytes(elf("", ["libslurmfull.so"], GLIBC))
    built = f"\0{prefix}/etc/slurm.conf\0/run/slurm/conf/slurm.conf\0".encode()
    write(prefix, "/lib/slurm/libslurmfull.so").write_bytes(elf("libslurmfull.so", [], GLIBC, built))
    for name in ("auth_munge.so", "cli_filter_lua.so", "mpi_pmix.so", "switch_hpe_slingshot.so"):
        write(prefix, f"/lib/slurm/{name}").write_bytes(elf(name, [], GLIBC))
    munge = elf("libmunge.so.2", [], {"libc.so.6": ["GLIBC_2.36"]}, b"\0/var/run/munge/munge.socket.2\0")
    write(tmp_path, "/lib/libmunge.so.2").write_bytes(munge)
    write(tmp_path, "/lib/liblua.so.5").write_bytes(elf("liblua.so.5", [], GLIBC))
    write(tmp_path, "/lib/libcurl.so.4").write_bytes(elf("libcurl.so.4", [], GLIBC))
    tools = tmp_path / "tools"
    script(
        tools / "ldd",
        f"""case $1 in
*/auth_munge.so) echo '	libmunge.so.2 => {tmp_path}/lib/libmunge.so.2 (0x00007fd0df08d000)' ;;
*/cli_filter_lua.so) echo '	liblua.so.5 => {tmp_path}/lib/liblua.so.5 (0x00007fd0df08d000)' ;;
*/switch_hpe_slingshot.so) echo '	libcurl.so.4 => {tmp_path}/lib/libcurl.so.4 (0x00007fd0df08d000)' ;;
*/srun) echo '	libgone.so.1 => not found' ;;
*) echo '	libslurmfull.so => {prefix}/lib/slurm/libslurmfull.so (0x00007fd0df031000)' ;;
esac
echo '	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fd0dc511000)'
""",
    )
    says(prefix)
    # a script of the site comes first
    script(tools / "sbatch", "exec sbatch-of-slurm\n")
    monkeypatch.setenv("PATH", f"{tools}:{prefix}/bin:/usr/bin:/bin")
    monkeypatch.setattr(hostslurm, "NSSWITCH", tmp_path / "nsswitch.conf")
    return prefix


def says(prefix: Path, auth: str = "(null)") -> None:
    script(prefix / "bin/scontrol", f"cat <<'END'\n{CONFIG.format(prefix=prefix, auth=auth)}END\n")


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **more}


def table_of(**env: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(discover_slurm(environ(**env)).text)["feature"]["slurm"]
    return table


def binds(table: dict[str, Any], key: str = "binds") -> dict[str, str]:
    return {bind.destination: bind.source for bind in map(Bind.parse, table[key])}


def test_a_slurm_with_a_prefix_of_its_own_is_a_feature(prefix: Path, tmp_path: Path) -> None:
    found = discover_slurm(environ())
    table = table_of()
    assert binds(table) == {
        **{f"/host/slurm/bin/{name}": f"{prefix}/bin/{name}" for name in ("sbatch", "scontrol", "srun")},
        "/host/slurm/lib/libcurl.so.4": f"{tmp_path}/lib/libcurl.so.4",
        "/host/slurm/lib/liblua.so.5": f"{tmp_path}/lib/liblua.so.5",
        "/host/slurm/lib/libmunge.so.2": f"{tmp_path}/lib/libmunge.so.2",
        "/host/slurm/lib/libslurmfull.so": f"{prefix}/lib/slurm/libslurmfull.so",
        f"{prefix}/lib/slurm": f"{prefix}/lib/slurm",
        "/var/run/munge": "/var/run/munge",
        "/etc/passwd": "/etc/passwd",
        "/etc/group": "/etc/group",
    }
    assert all(text.endswith(":ro") for text in (*table["binds"], *table["optional_binds"]))
    assert list(binds(table, "optional_binds")) == [
        *(f"{prefix}/etc", "/run/slurm/conf", "/etc/slurm"),
        "/var/spool/slurmd/*/conf-cache",
    ]
    assert table["exists"] == f"{prefix}/bin/sbatch"
    assert table["library_path"] == ["/host/slurm/lib"]
    assert table["container_env"] == {"APPEND_PATH": "/runscripts/slurm:/host/slurm/bin"}
    assert f"Slurm 23.11.1, {prefix}/bin/sbatch.\n" in found.text
    assert "# The image must have glibc 2.36 or later." in found.text  # that of a library of a plugin
    assert "# ldd does not find libgone.so.1" in found.text


def test_the_settings_and_the_socket_may_be_elsewhere(prefix: Path, tmp_path: Path) -> None:
    says(prefix, auth=f"socket={tmp_path}/munge/socket,ttl=60")
    real = write(tmp_path, "/slurm/shared/slurm.conf")
    conf = tmp_path / "slurm" / "slurm.conf"
    conf.symlink_to(real)
    assert binds(table_of())[f"{tmp_path}/munge"] == f"{tmp_path}/munge"
    table = table_of(SLURM_CONF=str(conf))
    optional = binds(table, "optional_binds")
    assert optional[str(conf.parent)] == str(conf.parent)
    assert optional[str(real.parent)] == str(real.parent)
    # where commands look without the variable, unless that is where all nodes have theirs
    assert optional[f"{prefix}/etc"] == str(conf.parent)
    script(
        prefix / "bin/scontrol", f"echo 'PluginDir = {prefix}/lib/slurm'; echo 'SLURM_CONF = {prefix}/etc/slurm.conf'\n"
    )
    assert binds(table_of(SLURM_CONF=str(conf)), "optional_binds")[f"{prefix}/etc"] == f"{prefix}/etc"


def test_the_settings_of_this_host_count_and_not_those_of_the_controller(prefix: Path, tmp_path: Path) -> None:
    says(prefix, auth="socket=/run/of-the-controller/munge/s")
    write(tmp_path, "/slurm/more.conf").write_text(f"plugstackconfig={tmp_path}/slurm/spank/plugstack.conf\n")
    conf = write(tmp_path, "/slurm/slurm.conf")
    conf.write_text(
        f"ClusterName=a AuthType=auth/munge # AuthInfo=socket=/wrong\nauthinfo = \\\n socket={tmp_path}/munge/s,ttl=6\n"
        "Include ../slurm/more.conf\nINCLUDE slurm.conf\ninclude /dev/zero\n"
    )
    table = table_of(SLURM_CONF=str(conf))
    assert binds(table)[f"{tmp_path}/munge"] == f"{tmp_path}/munge"
    assert f"{tmp_path}/slurm/spank" in binds(table, "optional_binds")
    assert "/run/of-the-controller/munge" in binds(table, "optional_binds")  # of nodes, in jobs
    # without one there munge is where its library looks
    conf.write_text("AuthType=auth/munge\n")
    assert "/var/run/munge" in binds(table_of(SLURM_CONF=str(conf)))
    # where commands look without the variable, or a variable that leads nowhere
    write(prefix, "/etc/slurm.conf").write_text(f"AuthInfo=socket={tmp_path}/munge/other/s\n")
    for named in ("", f"{tmp_path}/nowhere", "relative"):
        assert f"{tmp_path}/munge/other" in binds(table_of(SLURM_CONF=named))


def test_a_folder_with_other_things_is_not_bound(prefix: Path, tmp_path: Path) -> None:
    says(prefix, auth="socket=/run/munge.socket")
    home = write(tmp_path, "/home/me/slurm.conf")
    for path in ("/etc/slurm.conf", "/opt/slurm.conf", str(home)):
        table = table_of(SLURM_CONF=path)
        assert binds(table, "optional_binds")[path] == path
        folders = {*binds(table).values(), *binds(table, "optional_binds").values()}
        assert {"/", "/etc", "/opt", "/run", str(home.parent)}.isdisjoint(folders)
    says(prefix, auth="socket=/run/munge.socket")
    assert binds(table_of())["/run/munge.socket"] == "/run/munge.socket"


@pytest.mark.parametrize(
    "socket", ["munge.socket", "/run/../munge/s", "/run/a:b/munge/s", "/run/munge*/s", "/run\\/munge/s"]
)
def test_paths_that_no_site_file_can_have_are_refused(prefix: Path, tmp_path: Path, socket: str) -> None:
    conf = write(tmp_path, "/slurm/slurm.conf")
    conf.write_text(f"AuthInfo=socket={socket}\n")
    with pytest.raises(SifmodError, match="can't be a bind path"):
        table_of(SLURM_CONF=str(conf))
    conf.unlink()
    with pytest.raises(SifmodError, match="can't be a bind path"):
        table_of(SLURM_CONF=f"{tmp_path}/slurm,/a\n/slurm.conf")
    assert prefix


@pytest.mark.usefixtures("prefix")
def test_names_of_users_come_from_services_in_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nsswitch.conf").write_text("passwd: files sss [NOTFOUND=return] winbind systemd\ngroup: files\n")
    write(tmp_path, "/lib/libnss_sss.so.2").write_bytes(elf("libnss_sss.so.2", [], GLIBC))
    cache = {"libnss_sss.so.2": f"{tmp_path}/lib/libnss_sss.so.2", "libnss_winbind.so.2": "/lib/libnss_winbind.so.2"}
    monkeypatch.setattr(hostslurm, "cached_libraries", lambda _environ: cache)
    table = table_of()
    assert binds(table)["/host/slurm/lib/libnss_sss.so.2"] == f"{tmp_path}/lib/libnss_sss.so.2"
    assert binds(table)["/etc/nsswitch.conf"] == "/etc/nsswitch.conf"
    assert {"/var/lib/sss/pipes", "/var/lib/sss/mc"} <= {*binds(table, "optional_binds")}
    assert "# Names of users that winbind knows are numbers in containers." in discover_slurm(environ()).text


def test_a_host_without_a_slurm_that_answers_is_told_what_to_do(prefix: Path, tmp_path: Path) -> None:
    script(prefix / "bin/scontrol", "echo 'Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(SifmodError, match=r"scontrol show config failed: .*Unable to contact slurm controller"):
        discover_slurm(environ())
    (prefix / "bin/scontrol").unlink()
    with pytest.raises(SifmodError, match="Slurm's settings are not known"):
        discover_slurm(environ())
    with pytest.raises(SifmodError, match="no program sbatch is in the search path: load the module of Slurm first"):
        discover_slurm({"PATH": f"{tmp_path}/tools:/nowhere"})
    script(prefix / "bin/scontrol", "echo 'PluginDir = /nowhere/lib'\n")
    with pytest.raises(SifmodError, match="lacks the folder of Slurm's plugins, '/nowhere/lib'"):
        discover_slurm(environ())


@pytest.fixture
def site(prefix: Path) -> Site:
    feature = Feature("slurm", binds=(Bind(f"{prefix}/bin/sbatch", "/host/slurm/bin/sbatch"),))
    return a_site(feature={"slurm": feature}, default_features=("slurm",))


def image(libc: str) -> Inspection:
    return Inspection(path="demo.sif", kind="SIF", libc=libc)


@pytest.fixture
def said() -> list[str]:
    """What users are told."""
    return []


@pytest.mark.parametrize("libc", ["glibc 2.34", "glibc 2.36", ""])
def test_an_image_that_fits_has_the_feature(site: Site, libc: str, said: list[str]) -> None:
    spec = a_spec()
    assert with_slurm(spec, site, image(libc), say=said.append) == spec
    assert with_slurm(spec, site, None, say=said.append) == spec
    assert with_slurm(spec, a_site(), image("glibc 2.17"), say=said.append) == spec
    assert said == []


@pytest.mark.parametrize("libc", ["glibc 2.31", "musl 1.2"])
def test_an_image_that_is_too_old_does_without_and_says_why(site: Site, libc: str, said: list[str]) -> None:
    spec = with_slurm(a_spec(), site, image(libc), say=said.append)
    reason = f"Slurm of the host needs glibc 2.34, but the image has {libc}"
    assert said == [f"not using the feature 'slurm': {reason}"]
    assert spec.unusable_features == {"slurm": reason}
    assert site.features_of(spec.feature_changes(site.feature)) == ()
    assert list(feature_rows(spec, site)) == ["  slurm"]
    # nothing is compared where the install does not see Slurm
    unseen = replace(site.feature["slurm"], binds=(Bind("/nowhere/sbatch", "/host/slurm/bin/sbatch"),))
    assert with_slurm(a_spec(), replace(site, feature={"slurm": unseen}), image(libc), say=said.append) == a_spec()
    # a site without it later
    assert spec.feature_changes({}) == ()


def test_an_easyconfig_that_asks_for_it_is_refused(site: Site, said: list[str]) -> None:
    with pytest.raises(ParameterError, match=r"needs glibc 2\.34, but the image has glibc 2\.31.*out 'slurm'"):
        with_slurm(a_spec(features=("slurm",)), site, image("glibc 2.31"), say=said.append)
    with_slurm(a_spec(features=("-slurm",)), site, image("glibc 2.31"), say=said.append)
    assert said == []


def test_srun_of_the_container_is_there_with_the_feature_alone(site: Site) -> None:
    for each, expected in ((site, True), (a_site(), False)):
        paths = {str(artefact.path) for artefact in render(a_spec(), each)}
        assert ("runscripts/slurm/srun" in paths) == expected
