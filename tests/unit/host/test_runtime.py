from pathlib import Path
from typing import Any, Callable

import pytest

from sifmod.container.bind import Bind
from sifmod.errors import InstallError, RuntimeMissingError
from sifmod.host.runtime import ContainerRuntime, Release, find_runtime, look
from sifmod.site.settings import Site

from ..support import FakeRuntime, Stubs, a_site, split_binds

# Puts runtimes of these names on PATH, and nothing else.
Search = Callable[..., dict[str, Path]]


def ran(fake: FakeRuntime, runtime: ContainerRuntime, image: Path, *command: str, **options: Any) -> dict[str, Any]:
    """Run a command and return how the runtime was called."""
    runtime.run(image, command or ["true"], **options)
    return fake.calls[-1]


def test_a_command_is_verbatim_and_sees_no_host(fake: FakeRuntime, runtime: ContainerRuntime, image: Path) -> None:
    words = ["echo", "a b", "", "$(touch x)", "it's", '"', "-n", "é☃", "*"]
    assert ran(fake, runtime, image, *words)["argv"] == ["exec", str(image), *words]
    assert ran(fake, runtime, image)["contained"]
    assert ran(fake, runtime, image, stdin="torch\né\n")["stdin"] == "torch\né\n"
    assert ran(fake, runtime, image)["stdin"] == ""


@pytest.mark.parametrize("name", ["SINGULARITY_DOCKER_PASSWORD", "APPTAINER_DOCKER_USERNAME"])
def test_what_runs_an_image_needs_no_credentials(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "secret")
    assert name not in ran(fake, runtime, image)["env"]


def test_a_look_through_an_installation_sees_nothing_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINGULARITY_BIND", "/home")
    monkeypatch.setenv("SIFMOD_USER_BINDPATH", "/home")
    environ = dict(line.partition("=")[::2] for line in look(["env"]).stdout.splitlines())
    assert "/home" not in (environ.get("SINGULARITY_BIND"), environ.get("SIFMOD_USER_BINDPATH"))
    assert "--containall" in environ["SIFMOD_RUNTIME_OPTIONS"].split()


def test_output_may_be_no_text(fake: FakeRuntime, runtime: ContainerRuntime, image: Path, tmp_path: Path) -> None:
    fake.answer(stdout="one\ntwo é\n\n")
    assert runtime.run(image, ["cat"]) == "one\ntwo é\n\n"
    path = Stubs(tmp_path)("binary", "printf 'a\\377b'")
    assert ContainerRuntime(path).run(image, ["true"]) == "a\ufffdb"


def test_binds_and_variables_have_both_spellings(fake: FakeRuntime, runtime: ContainerRuntime, image: Path) -> None:
    binds = [Bind("/a,b", "/c:d", "ro"), Bind("/x y", "/x y")]
    environ = ran(fake, runtime, image, binds=binds)["env"]
    assert split_binds(environ["APPTAINER_BINDPATH"]) == [("/a,b", "/c:d", "ro"), ("/x y", "/x y", "")]
    assert environ["SINGULARITY_BINDPATH"] == environ["APPTAINER_BINDPATH"]
    environ = ran(fake, runtime, image, env={"A": "b c", "EMPTY": ""})["env"]
    for prefix in ("SINGULARITYENV_", "APPTAINERENV_"):
        assert (environ[prefix + "A"], environ[prefix + "EMPTY"]) == ("b c", "")


@pytest.mark.parametrize("prefix", ["SINGULARITY", "APPTAINER"])
@pytest.mark.parametrize("suffix", ["ENV_LD_PRELOAD", "_BIND", "_BINDPATH", "_NV", "_ROCM"])
def test_a_loaded_module_and_the_user_s_own_binds_take_no_part(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, suffix: str
) -> None:
    monkeypatch.setenv(prefix + suffix, "/from/outside")
    environ = ran(fake, runtime, image)["env"]
    assert "/from/outside" not in environ.values()


@pytest.mark.parametrize("prefix", ["SINGULARITY", "APPTAINER"])
@pytest.mark.parametrize(
    "suffix", ["OVERLAY", "MOUNT", "CONTAINALL", "CONTAIN", "CLEANENV", "HOME", "NO_HOME", "PWD", "ENV_FILE", "WORKDIR"]
)
def test_no_other_setting_of_the_user_s_containers_takes_part(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, suffix: str
) -> None:
    monkeypatch.setenv(f"{prefix}_{suffix}", "/from/outside")
    assert f"{prefix}_{suffix}" not in ran(fake, runtime, image)["env"]


@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PIP_TARGET", "PIP_USER", "PIP_CONSTRAINT"]
)
def test_the_settings_of_the_host_s_python_and_pip_stay_outside(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/host")
    environ = ran(fake, runtime, image)["env"]
    assert environ.get(name, "") != "/host"


@pytest.mark.parametrize(
    "name",
    [
        "APPTAINER_TMPDIR",
        "SINGULARITY_CACHEDIR",
        "APPTAINER_CACHEDIR",
        "TMPDIR",
        "HTTPS_PROXY",
    ],
)
def test_the_runtime_keeps_its_own_folders_and_the_way_to_the_network(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/mine")
    assert ran(fake, runtime, image)["env"][name] == "/mine"


def test_a_failure_names_image_command_and_status(fake: FakeRuntime, runtime: ContainerRuntime, image: Path) -> None:
    fake.answer(fail="other", status=42)
    with pytest.raises(InstallError) as caught:
        runtime.run(image, ["frobnicate", "--all"])
    message = str(caught.value)
    assert "'demo.sif'" in message
    assert "'frobnicate --all'" in message
    assert "status 42" in message
    assert message.endswith("\n".join(f"err {number}" for number in range(26, 41)))
    assert "err 25" not in message


def test_a_short_failure_is_shown_with_standard_output(tmp_path: Path, image: Path) -> None:
    path = Stubs(tmp_path)("short", "echo to stdout; echo to stderr >&2; exit 1")
    with pytest.raises(InstallError, match=r"last lines: to stdout\nto stderr$"):
        ContainerRuntime(path).run(image, ["true"])


def test_the_version_is_what_the_runtime_prints_if_it_does(runtime: ContainerRuntime, tmp_path: Path) -> None:
    assert runtime.version == "fake version 1.0"
    path = Stubs(tmp_path)("old", "echo 'unknown flag' >&2; exit 1")
    assert ContainerRuntime(path).version == ""


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Let only runtimes of the given names be on PATH."""

    def search(*names: str) -> dict[str, Path]:
        paths = {name: FakeRuntime(tmp_path / name, name).path for name in names}
        monkeypatch.setenv("PATH", ":".join(str(path.parent) for path in paths.values()))
        return paths

    return search


def test_the_site_s_choice_comes_first(search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = search("apptainer", "singularity", "sarus")
    assert find_runtime(a_site()).path == paths["singularity"]
    assert find_runtime(a_site(runtime="sarus")).path == paths["sarus"]
    other = FakeRuntime(tmp_path / "elsewhere", "apptainer-1.4").path
    assert find_runtime(a_site(runtime=str(other))).path == other
    monkeypatch.setenv("PATH", str(paths["apptainer"].parent))
    assert find_runtime(a_site()).path == paths["apptainer"]


@pytest.mark.parametrize(
    ("site", "names"),
    [(a_site(), ["singularity", "apptainer"]), (a_site(runtime="sarus"), ["sarus"])],
    ids=["any", "one"],
)
def test_a_missing_runtime_is_named_with_the_remedy(search: Search, site: Site, names: list[str]) -> None:
    search("podman")
    with pytest.raises(RuntimeMissingError) as caught:
        find_runtime(site)
    message = str(caught.value)
    assert f"looked for {' and '.join(names)} on PATH" in message
    assert "Load its module" in message
    assert "'runtime' in the site file" in message


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ("apptainer version 1.5.0-rc.1", Release("apptainer", "1.5.0")),
        ("apptainer version 1.4.5-2.el9", Release("apptainer", "1.4.5")),
        ("singularity-ce version 4.5.1-noble", Release("singularity-ce", "4.5.1")),
        ("singularity version 3.8.7-1", Release("singularity", "3.8.7")),
        ("something else", Release()),
    ],
)
def test_the_release_is_read_from_the_version(tmp_path: Path, said: str, release: Release) -> None:
    command = Stubs(tmp_path)("singularity", f"echo '{said}'")
    assert ContainerRuntime(command).release == release


@pytest.mark.parametrize(
    ("difference", "name", "before", "since"),
    [
        ("puts_image_libraries_first", "apptainer", "1.4.5", "1.5.0"),
        ("leaves_out_variables", "apptainer", "1.4.5", "1.10.0"),
        ("requires_ecl", "singularity-ce", "4.4.2", "4.5.0"),
    ],
)
def test_what_differs_is_decided_by_the_release(difference: str, name: str, before: str, since: str) -> None:
    assert getattr(Release(name, since), difference)
    for other in (Release(name, before), Release("singularity", "9"), Release()):
        assert not getattr(other, difference)
