import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from sifmod.container.bind import Bind, BindPattern
from sifmod.doctor import site as sitecheck
from sifmod.doctor.site import check_site
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.site.cache import UNCLEAN, UNUSABLE
from sifmod.site.feature import Feature
from sifmod.site.settings import Site

from ..support import FakeRuntime, Need, Stubs, a_site, settings_of


def bind(path: Path) -> Bind:
    return Bind(str(path), "/anywhere")


def found(site: Site, topic: str) -> list[Finding]:
    return [finding for finding in check_site(settings_of(site)) if finding.topic == topic]


def one(site: Site, topic: str) -> Finding:
    (finding,) = found(site, topic)
    return finding


def test_features_are_checked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "nid001")
    for name in ("lib1.so", "lib2.so"):
        (tmp_path / name).write_text("")
    binds = (BindPattern(f"{tmp_path}/lib*.so", "/host/"), Bind("/", "/host/root"))
    gone = (BindPattern(f"{tmp_path}/*.x"), Bind("/gone", "/gone"))
    features = (
        Feature("here", help="the fabric", binds=binds, optional_binds=gone, hosts=("nid*",)),
        Feature("there", help="elsewhere", binds=gone, hosts=("uan*",), exists="/gone", gpu="amd"),
        Feature("needed", binds=gone),
        Feature("asked", binds=gone[1:]),
    )
    site = a_site(default_features=("here", "needed"), feature={feature.name: feature for feature in features})
    assert one(site, "feature.here") == Finding(
        OK, "feature.here", "the fabric: used here by default, with 3 bind paths"
    )
    there = one(site, "feature.there")
    assert (there.severity, there.what) == (NOTE, "elsewhere")
    assert "not used on this host, because it has no '/dev/kfd', the device of AMD's GPUs, its name is " in there.why
    assert there.why.endswith("it has no '/gone': it applies on nodes with GPUs of AMD, named uan*, that have /gone")
    needed = found(site, "feature.needed")
    assert [(item.severity, item.what) for item in needed] == [(PROBLEM, f"{tmp_path}/*.x"), (PROBLEM, "/gone")]
    assert "commands with the feature do not start here" in needed[0].why
    assert "limit the feature with gpu, hosts, partitions or exists" in needed[0].remedy
    assert one(site, "feature.asked").severity == WARNING


def test_default_features_that_conflict_here_are_named(tmp_path: Path) -> None:
    features = {
        "cpu": Feature("cpu", exists=str(tmp_path), conflicts=("gpu", "fabric")),
        "gpu": Feature("gpu", exists=str(tmp_path.parent)),
        "fabric": Feature("fabric", exists="/gone"),
    }
    finding = one(a_site(default_features=tuple(features), feature=features), "default_features")
    assert (finding.severity, finding.what) == (PROBLEM, "'cpu' and 'gpu' conflict, and both apply on this host")
    assert finding.why == "no module loads here"
    assert "limit one of them with gpu, hosts, partitions or exists" in finding.remedy


def test_large_file_systems_without_binds_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [
        *("srv:/a /work lustre", "srv:/b /pro\\040ject/x nfs4", "cvmfs2 /cvmfs/sw fuse", "x /big/home gpfs"),
        *("x /bound nfs", "x /above nfs", "x /usr/local nfs", "x / nfs", "x /data ext4", "x /srv nfs", "broken"),
    ]
    (tmp_path / "mounts").write_text("".join(f"{line} rw 0 0\n" for line in mounts), encoding="utf-8")
    monkeypatch.setattr(sitecheck, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setenv("APPTAINER_HOME", "/elsewhere:/big/home/me")
    feature = Feature("one", binds=(Bind("/srv", "/x"),))
    site = a_site(optional_binds=(Bind("/bound", "/bound"), Bind("/above/a", "/a")), feature={"one": feature})
    finding = next(one for one in found(site, "optional_binds") if "has anything" in one.what)
    named = "/cvmfs/sw (cvmfs2), /pro ject/x (nfs4), /work (lustre)"
    assert (finding.severity, finding.what) == (NOTE, f"no bind path has anything of {named}")
    (tmp_path / "mounts").write_text("".join(f"x /fs{number} nfs\n" for number in range(10)))
    assert found(a_site(), "optional_binds")[0].what.endswith("/fs7 (nfs) and 2 more")
    (tmp_path / "mounts").unlink()
    assert found(a_site(), "optional_binds") == []


def test_a_runtime_that_runs_is_found_with_its_version(fake: FakeRuntime) -> None:
    finding = one(a_site(), "runtime")
    assert (finding.severity, finding.what) == (OK, f"{fake.path}: fake version 1.0")


@pytest.mark.usefixtures("tools")
def test_a_missing_runtime_is_a_problem_that_names_what_was_looked_for() -> None:
    finding = one(a_site(runtime="udocker"), "runtime")
    assert (finding.severity, finding.what) == (PROBLEM, "udocker")
    assert "udocker" in finding.why


def test_where_only_enroot_is_the_site_says_what_eb_can_not_do(tools: Stubs) -> None:
    tools("enroot", "echo 4.1.2")
    finding = one(a_site(runtimes=("enroot",)), "runtime")
    assert (finding.severity, finding.what) == (NOTE, "none of singularity, apptainer on PATH")
    assert "eb can't pull or build images, nor verify signatures" in finding.why
    assert one(a_site(), "runtime").severity == PROBLEM


def test_a_runtime_that_does_not_run_is_a_problem(tools: Stubs) -> None:
    path = tools("singularity", "exit 1")
    finding = one(a_site(), "runtime")
    assert (finding.severity, finding.what) == (PROBLEM, str(path))
    assert f"{path} --version" in finding.remedy


def test_a_required_bind_that_is_missing_is_a_problem_and_an_optional_one_is_not(tmp_path: Path) -> None:
    there, gone = bind(tmp_path), bind(tmp_path / "gone")
    site = a_site(binds=(there, gone), optional_binds=(there, gone))
    assert [finding.severity for finding in found(site, "binds")] == [OK, PROBLEM]
    assert [finding.severity for finding in found(site, "optional_binds")] == [OK, NOTE]
    assert "optional_binds" in found(site, "binds")[1].remedy
    assert found(site, "binds")[1].what == str(tmp_path / "gone")


def test_a_repository_is_found_with_the_number_of_its_images(tmp_path: Path) -> None:
    (tmp_path / "a.sif").write_text("")
    (tmp_path / "b.txt").write_text("")
    finding = one(a_site(image_repositories=(str(tmp_path),)), "image_repositories")
    assert (finding.severity, finding.what) == (OK, f"{tmp_path}: 1 image")
    (tmp_path / "file").write_text("")
    site = a_site(image_repositories=(str(tmp_path / "gone"), str(tmp_path / "file")))
    assert [finding.severity for finding in found(site, "image_repositories")] == [PROBLEM, PROBLEM]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_what_the_user_may_not_read_or_write_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    for name, mode in (("unreadable", 0), ("unwritable", stat.S_IRUSR | stat.S_IXUSR)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    closed = tmp_path / "unreadable"
    site = a_site(
        image_repositories=(str(closed), str(closed / "inner")),
        runtime_tmpdir=str(tmp_path / "unwritable"),
        binds=(bind(closed / "inner"),),
        signature_key=str(closed / "key.pem"),
    )
    problems = [finding.topic for finding in check_site(settings_of(site)) if finding.severity == PROBLEM]
    for key in ("binds", "image_repositories", "runtime_tmpdir", "signature_key"):
        assert key in problems
    assert problems.count("image_repositories") == 2


def cached(root: str, **more: Any) -> Finding:
    return one(a_site(cache={"root": root, "HF_HOME": "hf"}, **more), "cache.root")


def test_a_root_for_caches_is_resolved_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=2_500_000_000))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ACCOUNT", raising=False)
    monkeypatch.setenv("USER", "ann")
    finding = cached(f"{tmp_path}/${{USER}}/cache")
    assert (finding.severity, finding.what) == (OK, f"{tmp_path}/ann/cache: 2.5 GB free")
    assert not (tmp_path / "ann").exists()
    finding = cached("/scratch/${SLURM_JOB_ACCOUNT}/${USER}")
    assert (finding.severity, finding.what) == (NOTE, "/scratch/${SLURM_JOB_ACCOUNT}/${USER}")
    assert "SLURM_JOB_ACCOUNT is not set" in finding.why
    for unclean in ("..", "/ann", "a\nb"):
        monkeypatch.setenv("USER", unclean)
        assert UNCLEAN in cached("/scratch/${USER}/x").why
    monkeypatch.setenv("USER", "ann")
    (tmp_path / "file").write_text("")
    finding = cached("${HOME}/file/${USER}")
    assert finding.severity == PROBLEM
    assert f"'{tmp_path}/file/ann' {UNUSABLE}" in finding.why


def test_a_root_for_caches_outside_of_binds_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    scratch = Path("/dev/shm")  # outside of /tmp, and everybody may write to it
    finding = cached(f"{scratch}/x")
    assert finding.severity == WARNING
    assert "optional_binds" in finding.remedy
    assert cached(f"{scratch}/x", optional_binds=(bind(scratch),)).severity == WARNING, "it is elsewhere in containers"
    assert cached(f"{scratch}/x", optional_binds=(Bind.parse(str(scratch)),)).severity == OK


def test_folders_for_caches_without_a_root_are_a_warning() -> None:
    finding = one(a_site(cache={"HF_HOME": "hf"}), "cache")
    assert finding.severity == WARNING
    assert "there is no root" in finding.why
    assert not found(a_site(cache={"root": ""}), "cache")


def test_the_runtime_s_tmpdir_must_exist_and_the_cache_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=2_500_000_000))
    for key in ("runtime_tmpdir", "runtime_cachedir"):
        assert one(a_site(**{key: str(tmp_path)}), key).severity == OK
        assert one(a_site(**{key: str(tmp_path)}), key).what == f"{tmp_path}: 2.5 GB free"
    missing = one(a_site(runtime_tmpdir=str(tmp_path / "gone")), "runtime_tmpdir")
    assert (missing.severity, missing.what) == (PROBLEM, str(tmp_path / "gone"))
    assert missing.remedy
    made_later = one(a_site(runtime_cachedir=str(tmp_path / "gone" / "deeper")), "runtime_cachedir")
    assert (made_later.severity, made_later.what) == (OK, f"{tmp_path}/gone/deeper: 2.5 GB free")
    (tmp_path / "file").touch()
    assert one(a_site(runtime_cachedir=str(tmp_path / "file" / "below")), "runtime_cachedir").severity == PROBLEM


def test_the_key_of_signatures_must_be_a_public_one_in_pem(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    assert "No such file" in one(a_site(signature_key=str(key)), "signature_key").why
    key.write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    assert "PEM" in one(a_site(signature_key=str(key)), "signature_key").why
    key.write_text("-----BEGIN PUBLIC KEY-----\nMFkw\n")
    assert one(a_site(signature_key=str(key)), "signature_key").severity == OK


def test_the_compressor_must_be_one_that_mksquashfs_was_built_with(tools: Stubs) -> None:
    tools("mksquashfs", "exit 1")
    findings = found(a_site(), "squashfs-tools")
    assert [finding.severity for finding in findings] == [OK, WARNING]
    assert "unmake-squashfs" in findings[1].why
    tools("mksquashfs", HELP)
    assert one(a_site(pack_compressor="lzo"), "pack_compressor").severity == OK
    lacking = one(a_site(), "pack_compressor")
    assert (lacking.severity, lacking.what) == (PROBLEM, "zstd")
    assert "gzip" in lacking.why
    assert lacking.remedy.endswith("gzip, lzo")
    tools("mksquashfs", "echo usage; exit 1")
    assert found(a_site(), "pack_compressor") == []


HELP = 'printf "%s\\n" "-comp <comp>" "  Compressors available:" "    gzip (default)" "    lzo" "-b <block_size>  zstd"'


def test_the_real_mksquashfs_lists_its_compressors(need: Need) -> None:
    need("mksquashfs")
    assert one(a_site(pack_compressor="gzip"), "pack_compressor").severity == OK


def test_masks_are_compared_with_the_host_s_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert one(a_site(cpu_bind_masks=("0xf0",)), "cpu_bind_masks").severity == OK
    wide = one(a_site(cpu_bind_masks=("0xf", "0x1f0")), "cpu_bind_masks")
    assert (wide.severity, "up to 8" in wide.why) == (NOTE, True)


@pytest.mark.parametrize(
    ("script", "severity", "said"),
    [
        ("echo 'small 1'; echo 'large 2'", OK, ""),
        ("echo 'small 1'", PROBLEM, "choose one of small"),
        ("echo 'large 0'; echo 'small 2'", PROBLEM, "has no node"),
        ("echo 'sinfo: error: no controller' >&2; exit 1", NOTE, "no controller"),
        ("exit 3", NOTE, "exit status 3"),
    ],
)
def test_the_partition_is_asked_of_slurm(tools: Stubs, script: str, severity: str, said: str) -> None:
    tools("sinfo", script)
    finding = one(a_site(slurm_partition="large"), "slurm_partition")
    assert finding.severity == severity
    assert said in finding.why + finding.remedy


def test_of_two_vendors_one_has_no_node(tools: Stubs) -> None:
    tools("sinfo", "echo 'a 3'; echo 'n 0'")
    site = a_site(slurm_partition={"amd": "a", "nvidia": "n"})
    assert [one(site, f"slurm_partition.{vendor}").severity for vendor in ("amd", "nvidia")] == [OK, PROBLEM]


@pytest.mark.parametrize(
    ("value", "severity", "said"),
    [
        ("/data/there/x.pem", None, ""),
        ("/data/gone:/data/there", WARNING, "does not exist on this host"),
        ("/etc/x.pem", NOTE, "no bind path of the site contains it"),
        ("text", None, ""),
        ("$HOME/x", None, ""),
    ],
)
def test_paths_of_variables_are_checked(tmp_path: Path, value: str, severity: Optional[str], said: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.pem").touch()
    site = a_site(binds=(Bind(str(tmp_path), "/data"),), container_env={"SSL_CERT_FILE": value})
    findings = found(site, "container_env.SSL_CERT_FILE")
    assert [one.severity for one in findings] == [severity] * (severity is not None)
    assert all(said in one.why for one in findings)


@pytest.mark.usefixtures("tools")
def test_without_slurm_the_partition_is_unknown_and_no_problem() -> None:
    finding = one(a_site(slurm_partition="large"), "slurm_partition")
    assert (finding.severity, "no command sinfo" in finding.why) == (NOTE, True)


@pytest.mark.parametrize(
    ("wanted", "severities"),
    [("hsn", [OK]), ("hsn0,hsn9", [OK, NOTE]), ("=hsn", [NOTE]), ("=hsn0", [OK]), ("^lo", []), ("", [])],
)
def test_nccl_s_interfaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str, severities: list[str]) -> None:
    (tmp_path / "hsn0").mkdir()
    monkeypatch.setattr(sitecheck, "_INTERFACES", tmp_path)
    site = a_site(container_env={"NCCL_SOCKET_IFNAME": wanted})
    assert [finding.severity for finding in found(site, "container_env.NCCL_SOCKET_IFNAME")] == severities


@pytest.mark.usefixtures("fake")
def test_a_site_that_names_nothing_is_asked_only_for_tools() -> None:
    assert {finding.topic for finding in check_site(settings_of(a_site()))} <= {
        "runtime",
        "squashfs-tools",
        "pack_compressor",
    }


@pytest.mark.usefixtures("tools")
def test_every_problem_says_what_follows_and_what_to_do(tmp_path: Path) -> None:
    site = a_site(
        binds=(bind(tmp_path / "gone"),),
        image_repositories=(str(tmp_path / "gone"),),
        runtime_tmpdir=str(tmp_path / "gone"),
        signature_key=str(tmp_path / "gone"),
    )
    problems = [finding for finding in check_site(settings_of(site)) if finding.severity == PROBLEM]
    assert len(problems) == 5
    # the message of the missing runtime, the first one, has its remedy in it
    assert all(finding.why and finding.remedy for finding in problems[1:])
    assert "Load its module" in problems[0].why
