import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.lacking import lacking

from sifmod.eb.space import SoftwareSpace
from sifmod.host.runtime import ContainerRuntime

from .support import SIF_HEADER, FakeRuntime, Need, Stubs

# Without deadlines and a database: these tests share machines with builds, and must not write into the checkout.
settings.register_profile(
    "sifmod",
    deadline=None,
    database=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("sifmod")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep a loaded container module and the developer's own settings and records out of every test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    for name in list(os.environ):
        if name.startswith(("SINGULARITY", "APPTAINER", "SIFMOD_")) and name not in ("SIFMOD_UPDATE_GOLDEN",):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def need() -> Need:
    """Give the path of a tool; without it the test is skipped on a laptop and fails in CI."""

    def find(*names: str) -> str:
        for name in names:
            path = shutil.which(name)
            if path:
                return path
        return lacking(f"{' or '.join(names)} is not installed")

    return find


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """Put commands before all others on PATH."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Stubs(folder)


@pytest.fixture
def tools(stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """Put commands on PATH, and nothing else."""
    monkeypatch.setenv("PATH", str(stub.folder))
    return stub


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    """Put a fake container runtime on PATH, before any real one."""
    runtime = FakeRuntime(tmp_path / "fake-runtime")
    monkeypatch.setenv("PATH", f"{runtime.bin}:{os.environ['PATH']}")
    return runtime


@pytest.fixture
def runtime(fake: FakeRuntime) -> ContainerRuntime:
    """Give the fake container runtime as the library sees it."""
    return ContainerRuntime(fake.path)


@pytest.fixture
def space(tmp_path: Path) -> SoftwareSpace:
    """Give a software space in which nothing is installed yet."""
    return SoftwareSpace(tmp_path / "eb" / "software", tmp_path / "eb" / "modules")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Give a file that begins as a SIF does."""
    path = tmp_path / "images" / "demo.sif"
    path.parent.mkdir()
    path.write_bytes(SIF_HEADER + os.urandom(100_000))
    return path
