import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import ran, write_file

from sifmod.container.spec import ContainerSpec

from ..support import FakeRuntime, Need, a_site, a_spec
from .cases import CASES, text_of, write_out
from .running import Done, GetMaster, Load, Runscript, Wrapper, put_runscript


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    """Name one of the five containers after the other."""
    name: str = request.param
    return name


@pytest.fixture
def load(need: Need) -> Load:
    return Load(need)


@pytest.fixture
def installed(tmp_path: Path) -> ContainerSpec:
    """Return a spec whose installation directory is there, with an image, and has an unusual name."""
    spec: ContainerSpec = a_spec(installdir=str(tmp_path / "a b,c'd$e"))
    write_out(spec, a_site())
    Path(spec.installdir, spec.sif).write_text("")
    Path(spec.installdir, "user-software").mkdir()
    return spec


@pytest.fixture
def wrapper(tmp_path: Path, installed: ContainerSpec) -> Wrapper:
    return Wrapper(FakeRuntime(tmp_path / "fake"), installed)


@pytest.fixture(scope="session")
def get_master(tmp_path_factory: pytest.TempPathFactory) -> GetMaster:
    path = tmp_path_factory.mktemp("runscripts") / "get-master"
    put_runscript(path, text_of("runscripts/get-master", a_spec()))
    put_runscript(path.with_name("values.sh"), text_of("runscripts/values.sh", a_spec()))

    def get_master(*words: str, **environ: str) -> Done:
        return ran(["bash", path, *words], env={"PATH": "/usr/bin:/bin", **environ}, cwd=path.parent)

    return get_master


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[[str], Runscript]:
    """Return what runs a runscript of a launch, by its name."""
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    interpreter = write_file(prefix / "bin" / "python3", "#!/bin/bash\nprintf '%s\\0' \"$@\"\nexec env -0\n")
    interpreter.chmod(interpreter.stat().st_mode | stat.S_IXUSR)
    return lambda name: Runscript(name, tmp_path, prefix)


@pytest.fixture
def distributed(launcher: Callable[[str], Runscript]) -> Runscript:
    return launcher("conda-python-distributed")


@pytest.fixture
def torchrun(launcher: Callable[[str], Runscript]) -> Runscript:
    return launcher("torchrun-distributed")
