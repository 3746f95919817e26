"""Features in site files: what is read, what is refused with file, line and remedy, and how origins merge."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sifmod.container.bind import Bind, BindPattern
from sifmod.errors import ParameterError, SiteError
from sifmod.site.feature import FEATURE_KEYS, SWITCHES, VALUED, Feature
from sifmod.site.settings import Settings, load_settings

from ..support import a_site

# Write a site file, and the user's if there is one, and read them.
Read = Callable[..., Settings]

WHOLE = """
default_features = ["mpi"]
[feature.mpi]
help = "MPICH of the host"
binds = ["/a*:/host/", '/b\\,c:/host/c:ro']
optional_binds = ["/dev/cxi[0-9]"]
env = { PLAIN = "$HOME", OFF = false }
container_env.INNER = ""
library_path = ["/host/", "/host/lib"]
runtime_options = ["--no-umask", "--no-mount=tmp,home"]
conflicts = ["other"]
gpu = "nvidia"
hosts = ["nid*"]
partitions = ["gpu*"]
exists = "/dev/cxi0"
[feature.other]
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str, users: str = "", **variables: str) -> Settings:
        (tmp_path / "site.toml").write_text(text)
        (tmp_path / "home" / "sifmod").mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / "sifmod" / "config.toml").write_text(users)
        where = {"SIFMOD_SITE": str(tmp_path / "site.toml"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
        return load_settings({**where, **variables})

    return read


def values(feature: Feature) -> Mapping[str, Any]:
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in vars(feature).items()}


def test_a_feature_has_all_that_its_table_says(read: Read) -> None:
    site = read(WHOLE).site
    assert list(site.feature) == ["mpi", "other"]
    assert values(site.feature["mpi"]) == {
        "name": "mpi",
        "help": "MPICH of the host",
        "binds": (BindPattern("/a*", "/host/"), Bind("/b,c", "/host/c", "ro")),
        "optional_binds": (BindPattern("/dev/cxi[0-9]"),),
        "env": {"PLAIN": "$HOME", "OFF": None},
        "container_env": {"INNER": ""},
        "library_path": ("/host", "/host/lib"),
        "runtime_options": ("--no-umask", "--no-mount=tmp,home"),
        "conflicts": ("other",),
        "gpu": "nvidia",
        "hosts": ("nid*",),
        "partitions": ("gpu*",),
        "exists": "/dev/cxi0",
    }
    assert site.feature["mpi"].options == {"_NO_UMASK": "1", "_NO_MOUNT": "tmp,home"}
    assert (
        site.feature["mpi"].condition
        == "with GPUs of NVIDIA, named nid*, in a job in the partition gpu*, that have /dev/cxi0"
    )
    assert site.feature["other"] == Feature("other")
    assert [feature.name for feature in site.features_of(())] == ["mpi"]


def test_every_key_has_a_meaning_and_options_are_of_one_kind() -> None:
    assert set(FEATURE_KEYS) == {field.name for field in fields(Feature)} - {"name"}
    assert all(key.help_text and key.kind.title for key in FEATURE_KEYS.values())
    assert not {*SWITCHES} & {*VALUED}


def test_each_setting_has_its_origin(read: Read) -> None:
    shown = {entry.name: (entry.value, entry.origin.line) for entry in read(WHOLE).entries() if "feature" in entry.name}
    assert shown["default_features"] == (("mpi",), 2)
    assert shown["feature.mpi"] == ("MPICH of the host", 4)
    assert shown["feature.mpi.env.OFF"] == (None, 7)
    assert shown["feature.mpi.container_env.INNER"] == ("", 8)
    assert shown["feature.mpi.exists"] == ("/dev/cxi0", 15)
    assert shown["feature.other"] == ("", 16)


def test_origins_merge_key_by_key(read: Read) -> None:
    users = """
        [feature.mpi]
        binds = ["/host"]
        env = { OFF = "1", MORE = "2" }
        [feature.own]
        help = "mine"
    """
    settings = read(WHOLE, users, SIFMOD_DEFAULT_FEATURES="own,other")
    mpi = settings.site.feature["mpi"]
    assert mpi.binds == (Bind("/host", "/host"),)
    assert dict(mpi.env) == {"PLAIN": "$HOME", "OFF": "1", "MORE": "2"}
    assert (mpi.help, mpi.hosts) == ("MPICH of the host", ("nid*",))
    assert settings.site.default_features == ("own", "other")
    assert [feature.name for feature in settings.site.features_of(())] == ["other", "own"]
    assert {name: origin.layer for name, origin in settings.origins.items() if name.startswith("feature.mpi.env")} == {
        "feature.mpi.env.PLAIN": "site",
        "feature.mpi.env.OFF": "user",
        "feature.mpi.env.MORE": "user",
    }


# The text of a site file, the line that a message names, and what it says.
REFUSED = [
    ("feature = 3", 1, ["feature = 3", "[feature.NAME]"]),
    ("[feature]\nmpi = 3", 1, ["[feature.NAME]"]),
    ('[feature."a b"]', 1, ["'a b' can't be the name"]),
    ("[feature.-a]", 1, ["'-a' can't be the name"]),
    ('[feature.x]\nhlep = ""', 2, ["unknown key 'hlep' of the feature x", "perhaps you meant 'help'"]),
    ("[feature.x]\n\nmaster_suffix = ''", 3, ["unknown key 'master_suffix'", "above the first line in brackets"]),
    ("[feature.x]\nhelp = 3", 2, ["feature.x.help = 3", "in quotes"]),
    ('[feature.x]\nhelp = "a\\nb"', 2, ["on one line"]),
    ("[feature.x]\nbinds = '/a'", 2, ["a list of strings"]),
    ("[feature.x]\nbinds = [\n'/a',\n'b',\n]", 4, ["'b' is not an absolute path", "feature.x.binds"]),
    ("[feature.x]\nbinds = ['/a*:/b']", 2, ["end the destination '/b' with '/'"]),
    ("[feature.x]\nbinds = ['/a*:/b*/']", 2, ["'/b*/' can't be a pattern"]),
    ("[feature.x]\nbinds = ['/a[!b]']", 2, ["such as [0-9]"]),
    ("[feature.x]\nbinds = ['/a[]']", 2, ["such as [0-9]"]),
    ("[feature.x]\nbinds = ['/a/.*']", 2, ["hidden files"]),
    ("[feature.x]\nbinds = ['/a\\,b*']", 2, ["comma or colon"]),
    ("[feature.x]\noptional_binds = ['/a:/runscripts/x']", 2, ["sifmod uses the destination"]),
    ("[feature.x]\nenv = { PATH = '/x' }", 2, ["programs of the host read PATH", "container_env"]),
    ("[feature.x.env]\nA = '1'\nB = true", 3, ["B = True in feature.x.env", "in quotes"]),
    ("[feature.x]\nenv.A = 1", 2, ["A = 1 in feature.x.env"]),
    ("[feature.x]\ncontainer_env = { LD_LIBRARY_PATH = '/x' }", 2, ["library_path"]),
    ("[feature.x]\ncontainer_env = { PREPEND_PATH = '/x' }", 2, ["sifmod sets PREPEND_PATH itself"]),
    ("[feature.x]\nlibrary_path = ['lib']", 2, ["not an absolute path"]),
    ("[feature.x]\nlibrary_path = ['/a:/b']", 2, ["can't be in a library path"]),
    ("[feature.x]\nlibrary_path = ['/$(id)']", 2, ["can't be in a library path"]),
    ("[feature.x]\nlibrary_path = ['/a/../b']", 2, ["can't be in a library path"]),
    ("[feature.x]\nlibrary_path = ['/']", 2, ["can't be in a library path"]),
    ("[feature.x]\n\nlibrary_path = ['/a/b']", 3, ["no bind path", "'/a/b'", "add one to binds"]),
    ("[feature.x]\nbinds = ['/ab', '/a/bc']\nlibrary_path = ['/a/b']", 3, ["no bind path"]),
    ("[feature.x]\nruntime_options = ['-B']", 2, ["as a long option"]),
    ("[feature.x]\nruntime_options = ['--bind=/a']", 2, ["write it in binds"]),
    ("[feature.x]\nruntime_options = ['--env=A=1']", 2, ["write it in env or container_env"]),
    ("[feature.x]\nruntime_options = ['--no-umsak']", 2, ["perhaps you meant 'no-umask'"]),
    ("[feature.x]\nruntime_options = ['--no-umask=1']", 2, ["takes no value"]),
    ("[feature.x]\nruntime_options = ['--no-mount']", 2, ["takes a value: --no-mount=VALUE"]),
    ("[feature.x]\nruntime_options = ['--no-mount=a\\nb']".replace("'", '"'), 2, ["on one line"]),
    ("[feature.x]\nconflicts = ['y']\n[feature.why]", 2, ["there is no feature 'y'", "write one of x, why"]),
    ("[feature.x]\nconflicts = ['x']", 2, ["conflict with itself"]),
    ("[feature.x]\ngpu = 'intel'", 2, ["use 'amd' or 'nvidia'"]),
    ("[feature.x]\nhosts = 'nid*'", 2, ["a list of strings"]),
    ("[feature.x]\nhosts = ['nid*', 'a b']", 2, ["'a b' is not a pattern of names"]),
    ("[feature.x]\nhosts = ['nid[!0]']", 2, ["is not a pattern of names"]),
    ("[feature.x]\nhosts = ['nid[0-9']", 2, ["such as [0-9]"]),
    ("[feature.x]\nexists = 'dev'", 2, ["not an absolute path"]),
    ("default_features = ['mip']\n[feature.mpi]", 1, ["there is no feature 'mip'", "perhaps you meant 'mpi'"]),
    ("default_features = ['mpi']", 1, ["the site has no features"]),
    ("default_features = ['-mpi']\n[feature.mpi]", 1, ["can't be the name of a feature"]),
    (
        "default_features = ['a', 'b']\n[feature.a]\n[feature.b]\nconflicts = ['a']",
        1,
        ["'a' and 'b' conflict", "remove one"],
    ),
    (
        "default_features = ['a', 'b']\n[feature.a]\ngpu = 'amd'\n[feature.b]\nconflicts = ['a']",
        1,
        ["'a' and 'b' conflict"],
    ),
    (
        "default_features = ['a', 'b']\n[feature.a]\ngpu = 'amd'\n[feature.b]\ngpu = 'amd'\nconflicts = ['a']",
        1,
        ["'a' and 'b' conflict"],
    ),
]


@pytest.mark.parametrize(("text", "line", "words"), REFUSED)
def test_an_error_is_named_with_its_line(read: Read, tmp_path: Path, text: str, line: int, words: list[str]) -> None:
    with pytest.raises(SiteError) as caught:
        read(text)
    message = str(caught.value)
    assert f"{tmp_path / 'site.toml'}', line {line}" in message
    assert [word for word in words if word not in message] == []
    assert message.count("\n") == 0


@pytest.mark.parametrize(
    ("bind", "path"),
    [
        ("/a:/host", "/host"),
        ("/a:/host", "/host/lib"),
        ("/a/libx.so:/host/libx.so", "/host"),
        ("/a/lib*:/host/", "/host"),
        ("/opt/lib*", "/opt"),
        ("/opt/mpich/*/lib", "/opt/mpich/4.2/lib"),
    ],
)
def test_a_library_path_lies_within_a_bind_path_of_the_feature_or_the_site(read: Read, bind: str, path: str) -> None:
    for key in ("binds", "optional_binds"):
        assert read(f"[feature.x]\n{key} = ['{bind}']\nlibrary_path = ['{path}']").site.feature["x"].library_path
        if "*" not in bind:
            assert read(f"{key} = ['{bind}']\n[feature.x]\nlibrary_path = ['{path}']").site.feature["x"].library_path


def test_the_features_of_an_easyconfig_are_the_site_s() -> None:
    features = {
        "mpi": Feature("mpi", conflicts=("other",)),
        "other": Feature("other"),
        "gdr": Feature("gdr"),
    }
    site = a_site(default_features=("mpi",), feature=features)
    assert [item.name for item in site.features_of(("gdr",))] == ["mpi", "gdr"]
    assert [item.name for item in site.features_of(("other", "-mpi"))] == ["other"]
    with pytest.raises(
        ParameterError, match=r"no feature 'gdd' \(perhaps you meant 'gdr'\): use one of mpi, other, gdr"
    ):
        site.features_of(("gdd",))
    with pytest.raises(ParameterError, match="'mpi' and 'other' conflict: take one away, with '-mpi' or '-other'"):
        site.features_of(("other",))
    with pytest.raises(ParameterError, match="use none: it has no features"):
        a_site().features_of(("mpi",))


def test_features_for_different_nodes_may_conflict(read: Read) -> None:
    site = read(
        """
        default_features = ["cpu", "gpu"]
        [feature.cpu]
        hosts = ["cpu*"]
        conflicts = ["gpu"]
        [feature.gpu]
        exists = "/dev/kfd"
        """
    ).site
    assert [item.name for item in site.features_of(())] == ["cpu", "gpu"]
