import os

import pytest

from sifmod import names
from sifmod.bind import Bind
from sifmod.errors import SiteError
from sifmod.site import Site, load_site, shipped_sites


@pytest.fixture
def write(tmp_path):
    def write(text, name="site.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def users(tmp_path, write):
    """Write the user's own settings, and give the environment in which they are found."""

    def users(text):
        write(text, "config/sifmod/config.toml")
        return {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    return users


def refused(environ):
    with pytest.raises(SiteError) as caught:
        load_site(environ)
    return str(caught.value)


def test_nothing_is_known_about_a_cluster_by_default():
    assert load_site({}) == Site(name="generic")


def test_the_shipped_sites_are_listed():
    assert shipped_sites() == sorted(shipped_sites())
    assert {"generic", "lumi"} <= set(shipped_sites())


@pytest.mark.parametrize("name", shipped_sites())
def test_every_shipped_site_loads(name):
    assert load_site({"SIFMOD_SITE": name}).name == name


def test_lumi_knows_its_image_repository_and_network():
    site = load_site({"SIFMOD_SITE": "lumi"})
    assert site.image_repositories == ("/appl/local/containers/easybuild-sif-images",)
    assert site.container_env["NCCL_SOCKET_IFNAME"] == "hsn0,hsn1,hsn2,hsn3"
    assert Bind("/var/spool/slurmd", "/var/spool/slurmd") in site.optional_binds
    assert site.binds == ()


def test_every_key_of_a_site_file_is_read(write):
    path = write(
        r"""
        runtime = "singularity-ce"
        binds = ["/a:/b:ro", "/with\\,comma"]
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
    assert site.binds == (Bind("/a", "/b", "ro"), Bind("/with,comma", "/with,comma"))
    assert site.optional_binds == (Bind("/c", "/c"),)
    assert site.image_repositories == ("/images", "/more images")
    assert site.master_suffix == "-ib"
    assert dict(site.container_env) == {"A": "", "B": "two words"}


def test_the_process_environment_is_read_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SIFMOD_SITE", "lumi")
    assert load_site().name == "lumi"


def test_a_site_file_is_found_below_the_home_directory(monkeypatch, tmp_path, write):
    write('runtime = "theirs"', "my.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_site({"SIFMOD_SITE": "~/my.toml"}).runtime == "theirs"


def test_the_user_s_file_lies_in_dot_config_without_xdg(tmp_path, write):
    write('runtime = "mine"', ".config/sifmod/config.toml")
    assert load_site({"HOME": str(tmp_path)}).runtime == "mine"


def test_the_user_s_settings_beat_the_site_and_the_environment_beats_both(write, users):
    site = write('runtime = "site"\nmaster_suffix = "-site"\nimage_repositories = ["/site"]')
    environ = {**users('runtime = "user"\nmaster_suffix = "-user"'), "SIFMOD_SITE": site}
    environ["SIFMOD_RUNTIME"] = "environment"
    merged = load_site(environ)
    assert (merged.runtime, merged.master_suffix, merged.image_repositories) == ("environment", "-user", ("/site",))


def test_variables_of_all_origins_are_merged_name_by_name(write, users):
    site = write('[container_env]\nA = "site"\nB = "site"')
    environ = {**users('[container_env]\nB = "user"\nC = "user"'), "SIFMOD_SITE": site}
    assert dict(load_site(environ).container_env) == {"A": "site", "B": "user", "C": "user"}


def test_the_user_can_name_the_site(users):
    assert load_site(users('site = "lumi"')).name == "lumi"


def test_the_environment_s_site_beats_the_user_s(users):
    assert load_site({**users('site = "lumi"'), "SIFMOD_SITE": "generic"}).name == "generic"


def test_lists_can_be_given_in_the_environment(users):
    site = load_site(
        {
            **users(""),
            "SIFMOD_BINDS": r"/a:/b:ro,/with\,comma",
            "SIFMOD_OPTIONAL_BINDS": "/c",
            "SIFMOD_IMAGE_REPOSITORIES": "/one:/two words:",
            "SIFMOD_MASTER_SUFFIX": "-ib",
        }
    )
    assert site.binds == (Bind("/a", "/b", "ro"), Bind("/with,comma", "/with,comma"))
    assert site.optional_binds == (Bind("/c", "/c"),)
    assert site.image_repositories == ("/one", "/two words")
    assert site.master_suffix == "-ib"


def test_a_list_in_the_environment_replaces_the_site_s(write):
    site = write('binds = ["/site"]')
    assert load_site({"SIFMOD_SITE": site, "SIFMOD_BINDS": "/mine"}).binds == (Bind("/mine", "/mine"),)


def test_an_empty_variable_is_no_setting(write):
    site = write('runtime = "theirs"\nbinds = ["/site"]')
    merged = load_site({"SIFMOD_SITE": site, "SIFMOD_RUNTIME": "", "SIFMOD_BINDS": ""})
    assert (merged.runtime, merged.binds) == ("theirs", (Bind("/site", "/site"),))


def test_a_site_can_not_be_changed():
    site = load_site({"SIFMOD_SITE": "lumi"})
    with pytest.raises(TypeError):
        site.container_env["A"] = "b"
    with pytest.raises(AttributeError):
        site.runtime = "x"


def test_an_unknown_site_is_answered_with_the_nearest_and_all_known_ones():
    message = refused({"SIFMOD_SITE": "lummi"})
    assert "no site 'lummi'" in message
    assert "perhaps you meant 'lumi'" in message
    assert "path of a site file" in message
    assert all(name in message for name in shipped_sites())


@pytest.mark.parametrize("value", ["/gone/site.toml", "gone.toml", "./gone"])
def test_a_missing_site_file_is_named_with_what_names_it(value):
    message = refused({"SIFMOD_SITE": value})
    assert value.lstrip("./") in message
    assert "SIFMOD_SITE" in message
    assert "does not exist" in message


def test_a_site_s_name_can_not_leave_the_folder_of_sites():
    assert "../generic" in refused({"SIFMOD_SITE": "../generic"})


def test_an_unknown_key_is_answered_with_the_nearest_and_all_known_ones(write):
    path = write('optional_bind = ["/a"]')
    message = refused({"SIFMOD_SITE": path})
    assert "unknown key 'optional_bind'" in message
    assert path in message
    assert "perhaps you meant 'optional_binds'" in message
    for key in ("runtime", "binds", "optional_binds", "image_repositories", "container_env", "master_suffix"):
        assert key in message
    assert "remove it" in message


def test_a_site_file_can_not_name_a_site(write):
    assert "unknown key 'site'" in refused({"SIFMOD_SITE": write('site = "lumi"')})


def test_an_unknown_key_of_the_user_s_file_is_refused_too(users, tmp_path):
    message = refused(users('runtme = "x"'))
    assert "'runtme'" in message
    assert "perhaps you meant 'runtime'" in message
    assert str(tmp_path / "config" / "sifmod" / "config.toml") in message


@pytest.mark.parametrize(
    ("text", "key", "value", "remedy"),
    [
        ("runtime = 1", "runtime", "1", 'key = "value"'),
        ('binds = "/a"', "binds", "'/a'", 'key = ["one", "two"]'),
        ("binds = [1]", "binds", "[1]", 'key = ["one", "two"]'),
        ('binds = ["a"]', "binds", "'a'", "begin it with '/'"),
        ('binds = ["/ok", "/a:/b:c:d:e"]', "binds", "/a:/b:c:d:e", "source[:destination[:options]]"),
        ('optional_binds = ["/ok", "/a,/b"]', "optional_binds", "/a,/b", r"'\,'"),
        ('optional_binds = ["/a\\\\b"]', "optional_binds", r"/a\b", "rename it"),
        ('image_repositories = ["images"]', "image_repositories", "'images'", "begin it with '/'"),
        ('image_repositories = "/images"', "image_repositories", "'/images'", 'key = ["one", "two"]'),
        ('container_env = "A=b"', "container_env", "'A=b'", "a table of NAME = value lines"),
        ("container_env = ['A']", "container_env", "['A']", "a table of NAME = value lines"),
        ("[container_env]\nA = 1", "container_env", "1", 'A = "1"'),
        ('[container_env]\nA = "a\\nb"', "container_env", "A", "on one line"),
        ('[container_env]\n"1A" = "x"', "container_env", "'1A'", "name of an environment variable"),
        ('[container_env]\n"A-B" = "x"', "container_env", "'A-B'", "name of an environment variable"),
        ("master_suffix = false", "master_suffix", "False", 'key = "value"'),
    ],
)
def test_a_wrong_value_is_refused_with_key_file_value_and_remedy(write, text, key, value, remedy):
    path = write(text)
    message = refused({"SIFMOD_SITE": path})
    assert key in message
    assert path in message
    assert value in message or repr(value)[1:-1] in message
    assert remedy in message


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("SIFMOD_BINDS", "relative", "begin it with '/'"),
        ("SIFMOD_BINDS", "/a:/b:c:d:e", "source[:destination[:options]]"),
        ("SIFMOD_OPTIONAL_BINDS", "relative", "begin it with '/'"),
        ("SIFMOD_IMAGE_REPOSITORIES", "/a:relative", "begin it with '/'"),
    ],
)
def test_a_wrong_variable_is_refused_with_its_name_value_and_remedy(variable, value, remedy):
    message = refused({variable: value})
    assert variable in message
    assert f"'{value}'" in message
    assert remedy in message


@pytest.mark.parametrize("name", names.RESERVED_VARIABLES)
def test_a_site_can_not_set_the_variables_that_sifmod_sets(write, name):
    message = refused({"SIFMOD_SITE": write(f'[container_env]\n{name} = "x"')})
    assert name in message
    assert "container_env" in message
    assert "leave it out" in message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("SIFMOD_BIND", "binds"), ("SIFMOD_RUNTME", "runtime"), ("SIFMOD_CONTAINER_ENV", "container_env")],
)
def test_a_variable_that_is_nearly_a_setting_is_refused_with_the_nearest_one(name, nearest):
    message = refused({name: "/a"})
    assert name in message
    assert f"perhaps you meant '{nearest}'" in message
    assert "unset it" in message


@pytest.mark.parametrize(
    "name", ["SIFMOD_RELOADS", "SIFMOD_USER_BINDPATH", "SIFMOD_VERBOSE", "SIFMOD_TESTBED", "SIFMOD_UPDATE_GOLDEN"]
)
def test_variables_that_are_no_settings_are_let_alone(name):
    assert load_site({name: "/a"}) == load_site({})


def test_options_of_a_bind_may_hold_commas_in_the_environment_too():
    site = load_site({"SIFMOD_BINDS": "/a.squashfs:/b:ro,image-src=/,/c,"})
    assert site.binds == (Bind("/a.squashfs", "/b", "ro,image-src=/"), Bind("/c", "/c"))


@pytest.mark.parametrize("key", ["binds", "optional_binds"])
def test_a_site_can_not_bind_over_sifmod_s_own_folders(write, key):
    message = refused({"SIFMOD_SITE": write(f'{key} = ["/a:/runscripts"]')})
    assert key in message
    assert "'/runscripts'" in message
    assert "choose another" in message


def test_invalid_toml_is_named_with_file_and_place(write):
    path = write("runtime = \n")
    message = refused({"SIFMOD_SITE": path})
    assert path in message
    assert "not valid TOML" in message
    assert "line 1" in message


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    message = refused({"SIFMOD_SITE": str(path)})
    assert str(path) in message
    assert "can't be read" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_site_file_that_can_not_be_read_is_named(tmp_path, write):
    path = write("")
    (tmp_path / "site.toml").chmod(0)
    message = refused({"SIFMOD_SITE": path})
    assert path in message
    assert "Permission denied" in message
