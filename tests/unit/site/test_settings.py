import contextlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Callable, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.container.bind import Bind
from sifmod.container.runtime import RUNTIMES
from sifmod.errors import SiteError
from sifmod.render.environment import cache_folders
from sifmod.site.file import SiteFile
from sifmod.site.settings import KEYS, Origin, Site, load_settings, load_site, shipped_sites, site_title

from ..support import a_spec


class Write(Protocol):
    """Writes a settings file, and returns its path."""

    def __call__(self, text: str, name: str = ...) -> str: ...


# Writes the user's own settings, and returns the environment in which they are found.
Users = Callable[[str], dict[str, str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "site.toml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def users(tmp_path: Path, write: Write) -> Users:
    def users(text: str) -> dict[str, str]:
        write(text, "config/sifmod/config.toml")
        return {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    return users


def refused(environ: Mapping[str, str]) -> str:
    with pytest.raises(SiteError) as caught:
        load_site(environ)
    return str(caught.value)


def test_no_cluster_is_known_by_default(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_site({}) == Site(name="generic")
    write('gpu = "amd"', "sifmod/config.toml")
    monkeypatch.chdir(tmp_path)
    assert load_site({"XDG_CONFIG_HOME": "."}) == Site(name="generic")  # a clone that is the working directory
    site = load_site({})
    assert (site.pack_compressor, site.pack_level, site.pack_block_size, site.pack_processors) == ("zstd", 5, "256K", 0)
    assert (site.gpu, site.signatures) == ("", "none")


def test_the_shipped_sites_are_listed_with_the_cluster_of_each() -> None:
    assert shipped_sites() == sorted(FACTS)
    titles = [site_title(name) for name in shipped_sites()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_every_key_of_a_site_file_is_read(write: Write) -> None:
    path = write(
        r"""
        runtime = "singularity-ce"
        binds = ["/a:/b:ro", "/with\\,comma:/plain"]
        optional_binds = ["/c"]
        image_repositories = ["/images", "/more images"]
        master_suffix = "-ib"
        [container_env]
        A = ""
        B = "two words"
        """
    )
    site = load_site({"SIFMOD_SITE": path})
    assert site.name == path
    assert site.runtime == "singularity-ce"
    assert site.binds == (Bind("/a", "/b", "ro"), Bind("/with,comma", "/plain"))
    assert site.optional_binds == (Bind("/c", "/c"),)
    assert site.image_repositories == ("/images", "/more images")
    assert site.master_suffix == "-ib"
    assert dict(site.container_env) == {"A": "", "B": "two words"}


def test_settings_are_found_in_three_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write: Write) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SIFMOD_SITE", "lumi")
    assert load_site().name == "lumi"
    write('runtime = "theirs"', "my.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_site({"SIFMOD_SITE": "~/my.toml"}).runtime == "theirs"
    write('runtime = "mine"', ".config/sifmod/config.toml")
    assert load_site({"HOME": str(tmp_path)}).runtime == "mine"


def test_settings_of_all_origins_are_merged(write: Write, users: Users) -> None:
    site = write('runtime = "site"\nmaster_suffix = "-site"\nimage_repositories = ["/site"]')
    environ = {**users('runtime = "user"\nmaster_suffix = "-user"'), "SIFMOD_SITE": site}
    environ["SIFMOD_RUNTIME"] = "environment"
    merged = load_site(environ)
    assert (merged.runtime, merged.master_suffix, merged.image_repositories) == ("environment", "-user", ("/site",))
    site = write('[container_env]\nA = "site"\nB = "site"')
    environ = {**users('[container_env]\nB = "user"\nC = "user"'), "SIFMOD_SITE": site}
    assert dict(load_site(environ).container_env) == {"A": "site", "B": "user", "C": "user"}


def test_the_user_can_name_the_site_unless_another_one_is_given(users: Users) -> None:
    assert load_site(users('site = "lumi"')).name == "lumi"
    environ = {**users('site = "zih"'), "SIFMOD_SITE": "quest"}
    assert load_settings(environ, "lumi").site.name == "lumi"
    assert load_settings(environ).site.name == "quest"
    assert "line 2," in refused(users("\nsite = 1"))


def test_lists_of_the_environment_replace_the_site_s(users: Users, write: Write) -> None:
    site = load_site(
        {
            **users(""),
            "SIFMOD_BINDS": r"/a:/b:ro,/with\,comma:/plain",
            "SIFMOD_OPTIONAL_BINDS": "/c",
            "SIFMOD_IMAGE_REPOSITORIES": "/one:/two words:",
            "SIFMOD_MASTER_SUFFIX": "-ib",
        }
    )
    assert site.binds == (Bind("/a", "/b", "ro"), Bind("/with,comma", "/plain"))
    assert site.optional_binds == (Bind("/c", "/c"),)
    assert site.image_repositories == ("/one", "/two words")
    assert site.master_suffix == "-ib"
    theirs = write('runtime = "theirs"\nbinds = ["/site"]')
    assert load_site({"SIFMOD_SITE": theirs, "SIFMOD_BINDS": "/mine"}).binds == (Bind("/mine", "/mine"),)
    merged = load_site({"SIFMOD_SITE": theirs, "SIFMOD_RUNTIME": "", "SIFMOD_BINDS": ""})
    assert (merged.runtime, merged.binds) == ("theirs", (Bind("/site", "/site"),))


def test_a_site_can_not_be_changed() -> None:
    site = load_site({"SIFMOD_SITE": "lumi"})
    with pytest.raises(TypeError):
        site.container_env["A"] = "b"  # type: ignore[index]  # mypy forbids it too
    with pytest.raises(AttributeError):
        site.runtime = "x"  # type: ignore[misc]  # mypy forbids it too


def test_an_unknown_site_is_answered_with_the_nearest_and_all_known_ones() -> None:
    message = refused({"SIFMOD_SITE": "lummi"})
    assert "no site 'lummi'" in message
    assert "perhaps you meant 'lumi'" in message
    assert "path of a site file" in message
    assert all(name in message for name in shipped_sites())
    assert "../generic" in refused({"SIFMOD_SITE": "../generic"})


@pytest.mark.parametrize("value", ["/gone/site.toml", "gone.toml", "./gone"])
def test_a_missing_site_file_is_named_with_what_names_it(value: str) -> None:
    message = refused({"SIFMOD_SITE": value})
    assert value.lstrip("./") in message
    assert "SIFMOD_SITE" in message
    assert "does not exist" in message


def test_an_unknown_key_is_answered_with_the_known_ones(write: Write, users: Users, tmp_path: Path) -> None:
    path = write('optional_bind = ["/a"]')
    message = refused({"SIFMOD_SITE": path})
    assert "unknown key 'optional_bind'" in message
    assert path in message
    assert "perhaps you meant 'optional_binds'" in message
    for key in ("runtime", "binds", "optional_binds", "image_repositories", "container_env", "master_suffix"):
        assert key in message
    assert "remove it" in message
    assert "unknown key 'site'" in refused({"SIFMOD_SITE": write('site = "lumi"')})
    message = refused(users('runtme = "x"'))
    assert "'runtme'" in message
    assert "perhaps you meant 'runtime'" in message
    assert str(tmp_path / "config" / "sifmod" / "config.toml") in message


@pytest.mark.parametrize(("key", "remedy"), [("node_local_dir", "sbcast"), ("stripe", "lfs setstripe")])
def test_a_removed_key_is_refused_with_its_release_and_what_to_do(write: Write, key: str, remedy: str) -> None:
    message = refused({"SIFMOD_SITE": write(f'{key} = "/tmp"')})
    assert f"unknown key '{key}' in the site file" in message
    for told in (message, refused({f"SIFMOD_{key.upper()}": "/tmp"})):
        assert "removed in sifmod 0.4.0" in told
        assert remedy in told


@pytest.mark.parametrize(
    ("text", "key", "value", "remedy"),
    [
        ("runtime = 1", "runtime", "1", 'key = "value"'),
        ('runtimes = "enroot"', "runtimes", "'enroot'", 'key = ["one", "two"]'),
        ('runtimes = ["enrot"]', "runtimes", "'enrot'", "perhaps you meant 'enroot'"),
        ('runtimes = ["singularity"]', "runtimes", "'singularity'", "use 'apptainer' or 'enroot'"),
        ('runtimes = ["apptainer", ""]', "runtimes", "''", "use 'apptainer' or 'enroot'"),
        ('runtimes = ["enroot", "enroot"]', "runtimes", "'enroot'", "name each runtime once"),
        ('runtime = "enroot"', "runtime", "'enroot'", 'write runtimes = ["enroot"]'),
        ('runtime = "/opt/bin/enroot"', "runtime", "'/opt/bin/enroot'", 'write runtimes = ["enroot"]'),
        ('binds = "/a"', "binds", "'/a'", 'key = ["one", "two"]'),
        ("binds = [1]", "binds", "[1]", 'key = ["one", "two"]'),
        ('binds = ["a"]', "binds", "'a'", "begin it with '/'"),
        ('binds = ["/ok", "/a:/b:c:d:e"]', "binds", "/a:/b:c:d:e", "source[:destination[:options]]"),
        ('optional_binds = ["/ok", "/a,/b"]', "optional_binds", "/a,/b", r"'\,'"),
        ('optional_binds = ["/a\\\\b"]', "optional_binds", r"/a\b", "rename it"),
        ('image_repositories = ["images"]', "image_repositories", "'images'", "begin it with '/'"),
        ('dependents_dir = "/tmp/$USER"', "dependents_dir", "'/tmp/$USER'", "an absolute path without $"),
        ('dependents_dir = "~"', "dependents_dir", "'~'", "an absolute path without $"),
        ('dependents_dir = "/a,b"', "dependents_dir", "'/a,b'", "an absolute path without $"),
        ('image_repositories = "/images"', "image_repositories", "'/images'", 'key = ["one", "two"]'),
        ('container_env = "A=b"', "container_env", "'A=b'", "a table of NAME = value lines"),
        ("container_env = ['A']", "container_env", "['A']", "a table of NAME = value lines"),
        ("[container_env]\nA = 1", "container_env", "A = 1", "the value of A in quotes"),
        ('[container_env]\nA = "a\\nb"', "container_env", "A", "on one line"),
        ('[container_env]\n"1A" = "x"', "container_env", "'1A'", "name of an environment variable"),
        ('[container_env]\n"A-B" = "x"', "container_env", "'A-B'", "name of an environment variable"),
        ('cache = "/scratch"', "cache", "'/scratch'", 'a table with root = "/path"'),
        ("[cache]\nroot = 1", "cache", "root = 1", "in quotes"),
        ('[cache]\nroot = "scratch"', "cache", "'scratch'", "not an absolute path"),
        ('[cache]\nroot = "~/caches"', "cache", "'~/caches'", "such as ${HOME}"),
        ('[cache]\nroot = "/scratch/$USER"', "cache", "$USER", "write variables as ${NAME}"),
        ('[cache]\nroot = "/scratch/$(id -un)"', "cache", "$(id -un)", "write variables as ${NAME}"),
        ('[cache]\nroot = "/scratch/${X:-/tmp}"', "cache", "${X:-/tmp}", "write variables as ${NAME}"),
        ('[cache]\nroot = "/scratch/${UID}"', "cache", "${UID}", "only bash knows UID"),
        ('[cache]\nroot = "/scratch/../${USER}"', "cache", "/scratch/../${USER}", "leave out '.', '..'"),
        ('[cache]\nroot = "/scratch//${USER}"', "cache", "/scratch//${USER}", "'//'"),
        ('[cache]\nroot = "/scratch/"', "cache", "'/scratch/'", "a '/' at the end"),
        ('[cache]\nroot = "/scr\\natch"', "cache", r"'/scr\natch'", "without control characters"),
        ('[cache]\nroot = "/c"\nHF_HOME = "/hf"', "cache", "HF_HOME = '/hf'", "name a folder below root"),
        ('[cache]\nroot = "/c"\nHF_HOME = "../hf"', "cache", "HF_HOME = '../hf'", "leave out '.', '..'"),
        ('[cache]\nroot = "/c"\nHF_HOME = "${USER}"', "cache", "'${USER}'", "put variables into root"),
        ('[cache]\nroot = "/c"\nHF_HOME = "hf/{modul}"', "cache", "'hf/{modul}'", "only {module} is expanded"),
        ('[cache]\nroot = "/c"\nhf_home = "hf"', "cache", "hf_home = 'hf'", "in upper case"),
        ('[cache]\nroot = "/c"\nPATH = "bin"', "cache", "PATH = 'bin'", "programs of the host read it"),
        ('[cache]\nroot = "/c"\nVIRTUAL_ENV = "v"', "cache", "VIRTUAL_ENV = 'v'", "sifmod sets VIRTUAL_ENV"),
        ("master_suffix = false", "master_suffix", "False", 'key = "value"'),
        ('runtime = "a\\u0007b"', "runtime", r"a\x07b", "on one line"),
        ('gpu = "nvidea"', "gpu", "'nvidea'", "perhaps you meant 'nvidia'"),
        ("gpu = 1", "gpu", "1", 'key = "value"'),
        ('cpu_bind_masks = ["fe"]', "cpu_bind_masks", "'fe'", "hexadecimal, such as '0xfe'"),
        ('cpu_bind_masks = ["0x0"]', "cpu_bind_masks", "'0x0'", "hexadecimal"),
        ('pack_compressor = "zst"', "pack_compressor", "'zst'", "perhaps you meant 'zstd'"),
        ("pack_level = 0", "pack_level", "0", "from 1 to 22"),
        ("pack_level = 1.5", "pack_level", "1.5", "a whole number"),
        ("pack_level = true", "pack_level", "True", "a whole number"),
        ('pack_level = "six"', "pack_level", "'six'", "a whole number"),
        ('pack_block_size = "100K"', "pack_block_size", "'100K'", "64K, 128K"),
        ('pack_block_size = "2M"', "pack_block_size", "'2M'", "1M"),
        ("pack_processors = -1", "pack_processors", "-1", "from 0"),
        ('insecure_registries = ["/images"]', "insecure_registries", "'/images'", "belong in image_repositories"),
        ('insecure_registries = ["http://a:5000"]', "insecure_registries", "'http://a:5000'", "without 'http://'"),
        ('insecure_registries = ["a:5000/b"]', "insecure_registries", "'a:5000/b'", "without a path"),
        ('image_repositories = ["docker://a/b"]', "image_repositories", "docker://a/b", "image_uri in its easyconfig"),
        ('image_repositories = ["localhost:5000"]', "image_repositories", "localhost:5000", "insecure_registries"),
        ('binds = ["nfs.example.org:/export"]', "binds", "nfs.example.org:/export", "the name of a host"),
        ('optional_binds = ["10.0.0.1:/export"]', "optional_binds", "10.0.0.1:/export", "the name of a host"),
        ('binds = ["/scratch:data"]', "binds", "'data'", "begin it with '/'"),
        ('binds = ["/a:/runscripts"]', "binds", "'/runscripts'", "choose another"),
        ('optional_binds = ["/a:/runscripts"]', "optional_binds", "'/runscripts'", "choose another"),
        ('support = "a\\u001b[2Jb"', "support", r"a\x1b[2Jb", "without control characters"),
        ('support = "a\\u009bb"', "support", r"a\x9bb", "without control characters"),
        ('support = "a\\u202eb"', "support", r"a\u202eb", "without control characters"),
        ('slurm_partition = { amd = "gpu", nvidia = "" }', "slurm_partition", "nvidia = ''", "it has no partition"),
        ('slurm_partition = { nvidea = "gpu" }', "slurm_partition", "nvidea = 'gpu'", "use 'amd' or 'nvidia'"),
        ("slurm_partition = 1", "slurm_partition", "1", "the name of a partition, or a table"),
        ('gpu_setup = "cuda"', "gpu_setup", "'cuda'", "use 'rocm' or 'nv' or 'cdi' or 'nvccli'"),
        ('partition_gpus = "A100"', "partition_gpus", "'A100'", 'PARTITION = "DRIVER MODEL"'),
        ('[partition_gpus]\ngpu = "A100"', "partition_gpus", "gpu = 'A100'", "as in '535.104.05 A100"),
        ('[partition_gpus]\ngpu = "535.1 A\\u001bB"', "partition_gpus", r"A\x1bB", "without control characters"),
        ('[proxies]\nhttps_proxy = "http://$(id)"', "proxies", "https_proxy = 'http://$(id)'", "without spaces"),
        ('[proxies]\nhttps_proxy = "x:-y"', "proxies", "https_proxy = 'x:-y'", "without spaces"),
        ('[proxies]\nHTTPS_PROXY = "x"', "proxies", "HTTPS_PROXY = 'x'", "use 'http_proxy' or"),
        ('image_mode = "move"', "image_mode", "'move'", "use 'copy' or 'link' or 'central'"),
        ('module_family = "a b"', "module_family", "'a b'", "letters"),
        ('runtime_tmpdir = "login1:5000"', "runtime_tmpdir", "login1:5000", "the name of a host"),
    ],
)
def test_a_wrong_value_is_refused_with_a_remedy(write: Write, text: str, key: str, value: str, remedy: str) -> None:
    path = write(text)
    message = refused({"SIFMOD_SITE": path})
    assert key in message
    assert path in message
    assert value in message or repr(value)[1:-1] in message
    assert remedy in message


def test_the_documentation_s_caches_are_valid(write: Write) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs/reference/sites.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\[cache\]\n.*?(?=```)", text, re.DOTALL | re.MULTILINE)
    site = load_site({"SIFMOD_SITE": write(table)})
    folders = cache_folders(a_spec(), site)
    assert set(folders) == set(site.cache) - {"root"}
    assert folders["TORCH_EXTENSIONS_DIR"] == "Demo/1.0-x/extensions"
    assert "TORCH_EXTENSIONS_DIR" not in cache_folders(a_spec(installdir=""), site)  # for any image


def test_a_user_s_caches_are_merged_with_the_site_s(write: Write, users: Users) -> None:
    site = write('[cache]\nroot = "/site/${USER}"\nHF_HOME = "hf"\nTORCH_HOME = "torch"\nPIP_CACHE_DIR = "pip"')
    environ = {**users('[cache]\nroot = "${WORK}/cache"\nTORCH_HOME = ""'), "SIFMOD_SITE": site}
    merged = {"root": "${WORK}/cache", "HF_HOME": "hf", "TORCH_HOME": "", "PIP_CACHE_DIR": "pip"}
    assert dict(load_site(environ).cache) == merged
    assert cache_folders(a_spec(), load_site(environ)) == {"HF_HOME": "hf", "PIP_CACHE_DIR": "pip"}
    assert cache_folders(a_spec(container_env={"HF_HOME": "/own"}), load_site(environ)) == {"PIP_CACHE_DIR": "pip"}
    origins = {entry.name: str(entry.origin) for entry in load_settings(environ).entries()}
    assert origins["cache.HF_HOME"] == f"{site}:3"
    assert origins["cache.root"].endswith("config.toml:2")


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("SIFMOD_BINDS", "relative", "begin it with '/'"),
        ("SIFMOD_BINDS", "/a:/b:c:d:e", "source[:destination[:options]]"),
        ("SIFMOD_OPTIONAL_BINDS", "relative", "begin it with '/'"),
        ("SIFMOD_IMAGE_REPOSITORIES", "/a:relative", "begin it with '/'"),
        ("SIFMOD_PACK_LEVEL", "high", "a whole number"),
        ("SIFMOD_PACK_LEVEL", "23", "from 1 to 22"),
        ("SIFMOD_GPU", "intel", "use 'amd' or 'nvidia'"),
        ("SIFMOD_CPU_BIND_MASKS", "0xfe,10", "hexadecimal"),
        ("SIFMOD_DEFAULT_FEATURES", "a b", "can't be the name"),
        ("SIFMOD_DEFAULT_FEATURES", "mip", "there is no feature 'mip'"),
    ],
)
def test_a_wrong_variable_is_refused_with_its_name_value_and_remedy(variable: str, value: str, remedy: str) -> None:
    message = refused({variable: value})
    assert variable in message
    assert f"'{value}'" in message
    assert remedy in message


def test_runtimes_are_read_in_their_order_and_leave_the_command_alone(write: Write) -> None:
    site = load_site({"SIFMOD_SITE": write('runtime = "singularity-ce"\nruntimes = ["enroot", "apptainer"]')})
    assert (site.runtimes, site.squashfs_runtimes) == (("enroot", "apptainer"), (RUNTIMES["enroot"],))
    assert site.runtime_commands == ("singularity-ce",)
    assert load_site({"SIFMOD_RUNTIMES": "apptainer,enroot"}).runtimes == ("apptainer", "enroot")
    assert "SIFMOD_RUNTIMES is 'podman'" in refused({"SIFMOD_RUNTIMES": "podman"})
    site = load_site({})
    assert (site.runtimes, site.squashfs_runtimes, site.runtime_commands) == ((), (), RUNTIMES["apptainer"].commands)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("SIFMOD_BIND", "binds"), ("SIFMOD_RUNTME", "runtime"), ("SIFMOD_CONTAINER_ENV", "container_env")],
)
def test_a_variable_that_is_nearly_a_setting_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    message = refused({name: "/a"})
    assert name in message
    assert f"perhaps you meant '{nearest}'" in message
    assert "unset it" in message


VARIABLES = Path(__file__).resolve().parents[3] / "docs" / "reference" / "variables.md"
DOCUMENTED = re.findall(r"^\| `(SIFMOD_[A-Z_]+)`", VARIABLES.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", sorted({*DOCUMENTED, "SIFMOD_TESTBED", "SIFMOD_UPDATE_GOLDEN"} - {"SIFMOD_SITE"}))
def test_variables_that_are_no_settings_are_let_alone(name: str) -> None:
    assert "SIFMOD_RUNTIME_OPTIONS" in DOCUMENTED
    assert load_site({name: "/a"}) == load_site({})


def test_a_file_that_is_no_text_or_toml_is_named(write: Write, tmp_path: Path) -> None:
    path = write("runtime = \n")
    message = refused({"SIFMOD_SITE": path})
    assert path in message
    assert "not valid TOML" in message
    assert "line 1" in message
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    message = refused({"SIFMOD_SITE": str(binary)})
    assert str(binary) in message
    assert "can't be read" in message


def _directory(path: Path) -> None:
    path.mkdir()


def _named_pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_loop(path: Path) -> None:
    path.symlink_to(path)


def _link_to_nothing(path: Path) -> None:
    path.symlink_to("gone")


def _locked(path: Path) -> None:
    path.touch(mode=0)


def _in_a_link_loop(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(path.parent)


NO_FILES: dict[Callable[[Path], None], str] = {
    _directory: "is a directory",
    _named_pipe: "is not a regular file",
    _link_loop: "Too many levels of symbolic links",
    _link_to_nothing: "No such file or directory",
    _locked: "Permission denied",
    _in_a_link_loop: "Too many levels of symbolic links",
}


@pytest.mark.parametrize("layer", ["site", "user"])
@pytest.mark.parametrize("made", NO_FILES)
def test_what_is_no_file_that_can_be_read_is_named(tmp_path: Path, made: Callable[[Path], None], layer: str) -> None:
    if made is _locked and os.geteuid() == 0:
        pytest.skip("root reads every file")
    path = tmp_path / "sifmod/config.toml"
    path.parent.mkdir()
    made(path)
    message = refused({"SIFMOD_SITE": str(path)} if layer == "site" else {"XDG_CONFIG_HOME": str(tmp_path)})
    assert f"'{path}'" in message
    assert NO_FILES[made] in message


@pytest.mark.parametrize("site", ["~nobody-of-this-name/site.toml", "x/" * 3000 + "y", "x" * 300, "a\0/b.toml"])
def test_a_name_that_no_file_can_have_is_refused(site: str) -> None:
    assert site in refused({"SIFMOD_SITE": site})


def test_partitions_by_vendor(write: Write, users: Users) -> None:
    path = write('slurm_partition = { amd = "gpu-a", nvidia = "gpu-n" }')
    site = load_site({"SIFMOD_SITE": path, "SIFMOD_GPU": "amd"})
    assert [site.partition(vendor) for vendor in ("amd", "nvidia", "")] == ["gpu-a", "gpu-n", "gpu-a"]
    assert load_site({"SIFMOD_SITE": path, "SIFMOD_SLURM_PARTITION": "mine"}).partition("amd") == "mine"
    own = users('slurm_partition = { amd = "mine" }')
    assert load_site({"SIFMOD_SITE": path, **own}).partition("nvidia") == "gpu-n"
    one_for_all = write('slurm_partition = "all"', "other.toml")
    assert load_site({"SIFMOD_SITE": one_for_all, **own}).partition("nvidia") == ""
    entries = {entry.name: entry.value for entry in load_settings({"SIFMOD_SITE": path}).entries()}
    assert entries["slurm_partition.amd"] == "gpu-a"


def test_an_empty_text_is_the_default_and_a_variable_holds_true_or_false(write: Write) -> None:
    site = load_site({"SIFMOD_SITE": write('gpu = ""\nsignatures = ""\npack_compressor = ""')})
    assert (site.gpu, site.signatures, site.pack_compressor) == ("", "none", "zstd")
    assert load_site({}).user_commands is True
    assert load_site({"SIFMOD_USER_COMMANDS": "false"}).user_commands is False
    assert load_site({"SIFMOD_USER_COMMANDS": "true"}).user_commands is True
    assert load_site({"SIFMOD_SHARE_CONTAINER": "1"}).share_container is True
    assert load_site({"SIFMOD_SHARE_CONTAINER": "0"}).share_container is False
    assert "SIFMOD_USER_COMMANDS is 'no': it takes true or false" in refused({"SIFMOD_USER_COMMANDS": "no"})


def test_a_site_s_gpu_counts_where_the_easyconfig_gives_none() -> None:
    site = load_site({"SIFMOD_GPU": "amd", "SIFMOD_GPU_LIBRARIES": "image"})
    assert site.easyconfig_defaults == {
        "gpu": "amd",
        "gpu_libraries": "image",
        "cuda_compat": "",
        "image_mode": "copy",
        "module_family": "container",
        "share_container": False,
        "user_commands": True,
    }


@pytest.mark.parametrize(("compressor", "highest"), [("gzip", 9), ("lzo", 9), ("zstd", 22)])
def test_a_level_must_be_one_of_the_compressor(write: Write, users: Users, compressor: str, highest: int) -> None:
    environ = users(f"pack_level = {highest + 1}") if highest < 22 else users("")
    environ["SIFMOD_SITE"] = write(f'pack_compressor = "{compressor}"')
    if highest < 22:
        message = refused(environ)
        assert f"from 1 to {highest}" in message
        assert f"{environ['SIFMOD_SITE']}:1" in message
        assert "config.toml:1" in message
    environ["SIFMOD_PACK_LEVEL"] = str(highest)
    assert load_site(environ).pack_level == highest


@pytest.mark.parametrize("compressor", ["lz4", "xz"])
def test_compressors_without_levels_take_any(compressor: str) -> None:
    assert load_site({"SIFMOD_PACK_COMPRESSOR": compressor, "SIFMOD_PACK_LEVEL": "20"}).pack_level == 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('# a comment\n\nruntime = 1\nmaster_suffix = ""', 3),
        ('binds = [\n  "/ok",\n  "relative",\n]', 3),
        ("binds = [\n  \"/ok\",\n  'relative',\n]", 3),
        ('runtime = "x"\n[container_env]\nA = "1"\nB = 2', 4),
        ('runtime = "x"\ncontainer_env.A = "1"\ncontainer_env.B = 2', 3),
        ('runtime = "x"\ncontainer_env = { A = 1 }', 2),
        ('[cache]\nroot = "/c"\n\nHF_HOME = 1', 4),
        ('runtime = "x"\n\nruntme = "y"', 3),
        ('master_suffix = """\\\nruntme = 1"""\nruntme = "y"', 3),
        ('"gpu" = "intel"', 1),
        ('runtime = "relative"\nbinds = [\n"relative"]', 3),
        ('runtime = """\\\n[container_env]"""\ncontainer_env = 1', 3),
        ('[container_env]\nA = "1"\nbinds = ["/a"]', 3),
        ('[container_env]\nA = "1"\nmaster_suffix = "-ib"', 3),
        ("\nbinds = [\n", 2),
        ("runtime = \n", 1),
    ],
)
def test_a_message_names_the_line(write: Write, text: str, line: int) -> None:
    path = write(text)
    assert f"'{path}', line {line}" in refused({"SIFMOD_SITE": path})


def test_a_key_below_the_table_of_variables_is_not_taken_for_a_variable(write: Write) -> None:
    for line in ('master_suffix = "-ib"', 'binds = ["/a"]'):
        message = refused({"SIFMOD_SITE": write(f"[container_env]\n{line}")})
        assert f"has {line.partition(' ')[0]} in the table container_env" in message
        assert "above the line [container_env]" in message


def test_the_origin_of_each_setting_is_known(write: Write, users: Users, tmp_path: Path) -> None:
    site = write('\nbinds = ["/a"]\nruntime = "site"\n[container_env]\nA = "site"\nB = "site"')
    environ = {**users('runtime = "user"\n[container_env]\nB = "user"\n'), "SIFMOD_SITE": site}
    environ.update(SIFMOD_MASTER_SUFFIX="-ib", SIFMOD_GPU="")
    user = str(tmp_path / "config" / "sifmod" / "config.toml")
    settings = load_settings(environ)
    origins = {entry.name: entry.origin for entry in settings.entries()}
    assert origins["binds"] == Origin("site", site, 2)
    assert origins["runtime"] == Origin("user", user, 1)
    assert origins["master_suffix"] == Origin("environment", variable="SIFMOD_MASTER_SUFFIX")
    assert origins["container_env.A"] == Origin("site", site, 5)
    assert origins["container_env.B"] == Origin("user", user, 3)
    assert origins["gpu"] == Origin("default")
    assert [str(origins[name]) for name in ("binds", "master_suffix", "gpu")] == [
        f"{site}:2",
        "SIFMOD_MASTER_SUFFIX",
        "default",
    ]
    assert str(settings.path) == site
    names = [entry.name for entry in load_settings({"SIFMOD_SITE": "lumi"}).entries()]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in names} == set(KEYS)


# What the centres' documents say; a new line in a shipped file needs a new fact here.
FACTS: dict[str, dict[str, object]] = {
    "generic": {},
    "lumi": {
        "gpu": "amd",
        "gpu_libraries": "image",
        "slurm_partition": "standard-g",
        "image_repositories": ("/appl/local/containers/easybuild-sif-images",),
        "optional_binds": (
            "/var/spool/slurmd /opt/cray /usr/lib64/libcxi.so.1 /usr/lib64/libjansson.so.4 /pfs /scratch /projappl "
            "/project /flash /appl"
        ),
        "container_env": {"SIFMOD_TASK_GPUS": "own", "NCCL_SOCKET_IFNAME": "hsn0,hsn1,hsn2,hsn3"},
    },
    "sdumont": {
        "runtime": "singularity",
        "gpu": "nvidia",
        "slurm_partition": "sequana_gpu_dev",
        "optional_binds": "/scratch",
    },
    "zih": {
        "runtime": "singularity",
        "gpu": "nvidia",
        "slurm_partition": "alpha",
        "optional_binds": "/scratch/ws /beegfs/global0/ws",
    },
    "quest": {"runtime": "singularity", "gpu": "nvidia", "optional_binds": "/software/cuda"},
}


@pytest.mark.parametrize("name", FACTS)
def test_a_shipped_site_holds_what_its_document_says_and_nothing_else(name: str) -> None:
    site = load_site({"SIFMOD_SITE": name})
    found = {key: getattr(site, key) for key in KEYS if getattr(site, key) != KEYS[key].default}
    found.pop("cpu_bind_masks", None)
    expected = dict(FACTS[name])
    if "optional_binds" in expected:
        expected["optional_binds"] = tuple(Bind(path, path) for path in str(expected["optional_binds"]).split())
    assert found == expected


def test_lumi_s_masks_are_those_of_its_job_script() -> None:
    c = "fe"
    masks = f"0x{c}000000000000,0x{c}00000000000000,0x{c}0000,0x{c}000000,0x{c},0x{c}00,0x{c}00000000,0x{c}0000000000"
    assert ",".join(load_site({"SIFMOD_SITE": "lumi"}).cpu_bind_masks) == masks


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "9" * 5000,
        f"pack_level = {'9' * 5000}",
        f"pack_level = 0x{'f' * 5000}",
        f"binds = [{'9' * 5000}]",
        "[" + ".".join(["container_env", *["a"] * 900]) + "]\nb = 1",
        "pack_level = " + "{a = " * 300 + "1" + "}" * 300,
    ],
    ids=["brackets", "digits", "level", "hexadecimal", "item", "dots", "tables"],
)
def test_a_file_that_is_made_to_break_its_reader_is_one_sentence(write: Write, text: str) -> None:
    message = refused({"SIFMOD_SITE": write(text)})
    assert "site.toml" in message
    assert len(message) < 2000
    assert "\n" not in message


VALUES = st.sampled_from(
    ["1", "'x'", "[", "]", "{", "}", "[]", "{}", "true", "0xff", "1e999", "nan", "1979-05-27", '"""', "\\"]
)


@given(
    st.text(max_size=80).map(str.encode)
    | st.binary(max_size=60)
    | st.lists(st.tuples(st.sampled_from([*KEYS, "[container_env]", "a.b"]), VALUES), max_size=4).map(
        lambda lines: "\n".join(f"{key} = {value}" for key, value in lines).encode()
    )
)
@settings(max_examples=200)
def test_a_site_file_is_settings_or_one_refusal(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_bytes(content)
    with contextlib.suppress(SiteError):
        load_site({"SIFMOD_SITE": str(path)})


def test_lines_of_a_large_file_are_found_quickly(tmp_path: Path) -> None:
    part = '[[a]]\nx = """\n[b]\ny = 1\n"""\n[a.c]\n"d e".f = [\n  "[g]",\n]\n[[a.h]]\ni = {j = 1}\n'
    (tmp_path / "site.toml").write_text(part * 200)
    began = time.process_time()
    file = SiteFile.read(tmp_path / "site.toml")
    last = 199 * 11
    for keys, line in (
        (("a", 199), 1),
        (("a", 199, "x"), 2),
        (("a", 199, "c"), 6),
        (("a", 199, "c", "d e", "f"), 7),
        (("a", 199, "h", 0), 10),
        (("a", 199, "h", 0, "i"), 11),
    ):
        assert file.line(*keys) == last + line
    assert file.line("b", "y") == 0
    assert time.process_time() - began < 2


def test_a_file_without_end_is_no_site_file(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    with path.open("wb") as stream:
        stream.truncate(20 << 30)
    with pytest.raises(SiteError, match="has more than 4194304 characters, so it is not one"):
        SiteFile.read(path)
