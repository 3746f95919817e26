"""The host's MPI: found with ldd, written as a feature, and compared with images."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.programs import write_program

from sifmod.container.bind import Bind, BindPattern
from sifmod.container.spec import ContainerSpec
from sifmod.errors import ParameterError, SifmodError
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import Inspection, inspect_image
from sifmod.install import hostmpi, mpi
from sifmod.install.hostmpi import discover, find_library, host_mpi
from sifmod.install.mpi import choose_mpi, with_mpi, with_namespaces
from sifmod.render.helptext import feature_rows
from sifmod.site.feature import Feature
from sifmod.site.settings import Site

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from ..image.elfs import GLIBC, elf, mpich, open_mpi
from ..imagetrees import linux, write
from ..support import a_site, a_spec


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with MPICH as Debian has it, and an ldd that knows what it needs."""
    folder = tmp_path / "lib"
    write(folder, "/libmpich.so.12").write_bytes(mpich(soname="libmpich.so.12"))
    write(folder, "/libmpichfort.so.12").write_bytes(elf("libmpichfort.so.12", ["libmpich.so.12", "libgfortran.so.5"]))
    write(folder, "/libucs.so.0").write_bytes(elf("libucs.so.0", ["libc.so.6"], {"libc.so.6": ["GLIBC_2.36"]}))
    write(folder, "/libibverbs.so.1").write_bytes(elf("libibverbs.so.1", [], GLIBC))
    write(folder, "/ucx/libuct_ib.so.0").write_bytes(elf("libuct_ib.so.0", ["libibverbs.so.1"], GLIBC))
    ldd = tmp_path / "bin" / "ldd"
    ldd.parent.mkdir()
    write_program(
        ldd,
        f"""#!/bin/sh
echo '	linux-vdso.so.1 (0x00007fd0df0fc000)'
case $1 in
*/libuct_ib.so.0) echo '	libibverbs.so.1 => {folder}/libibverbs.so.1 (0x00007fd0df08d000)' ;;
*) echo '	libucs.so.0 => {folder}/libucs.so.0 (0x00007fd0df031000)'; echo '	libgone.so.3 => not found' ;;
esac
echo '	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fd0dc511000)'
echo '	libstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007fd0dc511000)'
echo '	/lib64/ld-linux-x86-64.so.2 (0x00007fd0df0fe000)'
""",
    )
    monkeypatch.setenv("PATH", f"{ldd.parent}:/usr/bin:/bin")
    return folder


def feature_of(table: dict[str, Any]) -> Feature:
    return Feature(
        "mpi",
        binds=tuple(Bind.parse(text) for text in table["binds"]),
        library_path=tuple(table["library_path"]),
        container_env=table["container_env"],
    )


def test_what_is_found_is_a_feature_that_tells_which_mpi_it_is(libraries: Path) -> None:
    found = discover(libraries / "libmpich.so.12")
    table = tomllib.loads(found.text)["feature"]["mpi"]
    source = {bind.destination: bind.source for bind in (Bind.parse(text) for text in table["binds"])}
    assert source == {
        "/host/mpi/libibverbs.so.1": f"{libraries}/libibverbs.so.1",
        "/host/mpi/libmpi.so.12": f"{libraries}/libmpich.so.12",
        "/host/mpi/libmpich.so.12": f"{libraries}/libmpich.so.12",
        "/host/mpi/libmpichfort.so.12": f"{libraries}/libmpichfort.so.12",
        "/host/mpi/libmpifort.so.12": f"{libraries}/libmpichfort.so.12",
        "/host/mpi/libucs.so.0": f"{libraries}/libucs.so.0",
        "/host/mpi/ucx": f"{libraries}/ucx",
    }
    assert table["optional_binds"] == ["/etc/libibverbs.d"]
    assert table["library_path"] == ["/host/mpi"]
    assert table["container_env"] == {"MPI4PY_LIBMPI": "/host/mpi/libmpi.so.12", "UCX_MODULE_DIR": "/host/mpi/ucx"}
    assert "MPICH 4.0.2 (ch4:ucx)" in found.text
    assert "glibc 2.36 or later" in found.text  # a library that is bound with it needs a newer one
    assert "# ldd does not find libgone.so.3" in found.text
    (one,) = host_mpi(feature_of(table))
    assert (one.library.words, one.glibc) == ("MPICH 4.0.2", "2.36")
    assert host_mpi(Feature("mpi", binds=(Bind.parse("/nowhere/libmpi.so.12:/host/mpi/libmpi.so.12"),))) == ()


@pytest.mark.parametrize(
    ("bind", "library_path"),
    [
        ("{lib}:/host/mpi", "/host/mpi"),
        ("{lib}:/usr/lib/mpich", ""),  # over a folder of the image
        ("{top}:/opt/mpich", "/opt/mpich/lib"),
        ("{top}", ""),
        ("{lib}/lib*.so.*:/host/mpi/", "/host/mpi"),
        ("{top}/l[i]b:/host/", "/host/lib"),
    ],
)
def test_a_folder_or_a_pattern_binds_an_mpi_too(libraries: Path, bind: str, library_path: str) -> None:
    text = bind.format(lib=libraries, top=libraries.parent)
    write(libraries, "/libucp.so.0").write_bytes(elf("libucp.so.0", ["libucs.so.0", "libc.so.6"], GLIBC))
    one = BindPattern.parse(text) if "*" in text or "[" in text else Bind.parse(text)
    path = (library_path,) if library_path else ()
    (found,) = host_mpi(Feature("mpi", binds=(one,), library_path=path))
    # that of another library, which it needs and which comes with it
    assert (found.library.words, found.glibc) == ("MPICH 4.0.2", "2.36")


def test_a_folder_that_the_site_binds_may_have_the_mpi(libraries: Path) -> None:
    site = a_site(
        binds=(Bind(str(libraries.parent), "/opt/x"),),
        feature={"mpi": Feature("mpi", library_path=("/opt/x/lib",))},
    )
    assert [one.library.words for one in host_mpi(site.feature["mpi"], site.binds)] == ["MPICH 4.0.2"]
    assert host_mpi(Feature("mpi"), site.binds) == ()  # the site's folder alone is not what the feature is for


def test_the_mpi_of_a_folder_that_fits_is_the_one_that_programs_find(libraries: Path, image: Path) -> None:
    write(libraries, "/libmpi.so.40").write_bytes(open_mpi())
    site = a_site(feature={"mpi": Feature("mpi", binds=(Bind(str(libraries), "/host/mpi"),))})
    for data, words in ((open_mpi(), "Open MPI 4.1.4"), (mpich(), "MPICH 4.0.2")):
        choice = choose_mpi(site, with_library(image, data), mpi="host")
        assert choice.host
        assert choice.host.library.words == words


@pytest.mark.parametrize("namespaces", [True, False])
def test_variables_for_user_namespaces(libraries: Path, monkeypatch: pytest.MonkeyPatch, namespaces: bool) -> None:
    monkeypatch.setattr(mpi, "makes_user_namespaces", lambda _runtime: namespaces)
    found = with_namespaces(discover(libraries / "libmpich.so.12"), ContainerRuntime(Path("singularity")))
    table = tomllib.loads(found.text)["feature"]["mpi"]
    # that of the library, whose UCX of unknown version may be an old one
    needed = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "UCX_POSIX_USE_PROC_LINK": "n", "UCX_TLS": "^cma"}
    assert table.get("env", {}) == (needed if namespaces else {})
    assert ("without setuid" in found.text) == namespaces


def test_what_is_no_mpi_or_fails_is_named(libraries: Path, tmp_path: Path) -> None:
    for path in (libraries / "libucs.so.0", tmp_path / "none", tmp_path):
        with pytest.raises(SifmodError, match="is not an MPI library: name the file"):
            discover(path)
    (tmp_path / "bin" / "ldd").write_text("#!/bin/sh\necho 'not a dynamic executable' >&2\nexit 1\n")
    with pytest.raises(SifmodError, match=r"ldd failed for .*not a dynamic executable"):
        discover(libraries / "libmpich.so.12")


def test_the_library_path_comes_before_the_loader_s_cache(libraries: Path, tmp_path: Path) -> None:
    cached = write_program(
        tmp_path / "bin" / "ldconfig", "#!/bin/sh\necho '	libmpi.so.40 (libc6,x86-64) => /usr/lib/libmpi.so.40'\n"
    )
    environ = {"PATH": f"{cached.parent}:/usr/bin:/bin"}
    assert find_library(environ) == Path("/usr/lib/libmpi.so.40")
    assert find_library({**environ, "LD_LIBRARY_PATH": f":/nowhere:{libraries}"}) == libraries / "libmpich.so.12"
    # one library for two architectures: the loader takes the first that fits, and that of this host is listed first
    old = "echo '	libmpi.so.40 (libc6) => /usr/lib32/libmpi.so.40'\n"
    cached.write_text(f"{cached.read_text()}{old}")
    assert find_library(environ) == Path("/usr/lib/libmpi.so.40")
    cached.write_text("#!/bin/sh\n")
    with pytest.raises(SifmodError, match="load the module of the host's MPI first"):
        find_library(environ)


def a_cluster(libraries: Path, *, default: bool = True) -> Site:
    binds = (Bind(f"{libraries}/libmpich.so.12", "/host/mpi/libmpi.so.12"),)
    return a_site(feature={"mpi": Feature("mpi", binds=binds)}, default_features=("mpi",) if default else ())


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return linux(tmp_path / "box")


def with_library(image: Path, data: bytes) -> Inspection:
    write(image, "/usr/lib/libmpi.so").write_bytes(data)
    return inspect_image(image)


def test_the_site_s_mpi_is_the_default_unless_it_does_not_fit(libraries: Path, image: Path) -> None:
    choice = choose_mpi(a_cluster(libraries), with_library(image, mpich("5.0.2")))
    assert (choice.whose, choice.misfit) == ("host", "")
    assert choice.host
    assert choice.host.library.version == "4.0.2"
    assert choose_mpi(a_cluster(libraries, default=False), inspect_image(image)).whose == "image"
    assert choose_mpi(a_cluster(libraries), inspect_image(image), mpi="image").whose == "image"
    assert choose_mpi(a_cluster(libraries), inspect_image(image), features=("-mpi",)).whose == "image"
    site = a_cluster(libraries)
    choice = choose_mpi(site, with_library(image, open_mpi()))
    assert (choice.whose, choice.host, choice.is_left_out) == ("image", None, True)
    assert "has the ABI of MPICH, but the image has that of Open MPI" in choice.misfit
    assert a_spec(mpi=choice.whose).feature_changes(site.feature) == ("-mpi",)


@pytest.mark.parametrize("fields", [{"mpi": "host"}, {"features": ("mpi",)}])
def test_what_can_t_work_is_refused_if_it_is_asked_for(libraries: Path, image: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"has the ABI of MPICH.* Use mpi = 'image', or an image that fits"):
        choose_mpi(a_cluster(libraries, default=False), with_library(image, open_mpi()), **fields)


def settled(site: Site, image: Path, **fields: Any) -> tuple[ContainerSpec, list[str]]:
    """Return the description after a look at the image, and what users are warned of."""
    warned: list[str] = []
    runtime = ContainerRuntime(Path("/nowhere"))
    return with_mpi(
        a_spec(**fields), site, inspect_image(image), runtime, say=lambda _line: None, warn=warned.append
    ), warned


@pytest.mark.parametrize(("fields", "default"), [({}, True), ({}, False), ({"mpi": "image"}, True)])
def test_an_mpi_that_does_not_fit_is_known(libraries: Path, image: Path, fields: dict[str, Any], default: bool) -> None:
    """So that a user who asks for it at load is told, and not left to a program that fails."""
    with_library(image, open_mpi())
    spec, warned = settled(a_cluster(libraries, default=default), image, **fields)
    assert (spec.mpi, list(spec.unusable_features), warned) == ("image", ["mpi"], [])
    assert "has the ABI of MPICH, but the image has that of Open MPI" in spec.unusable_features["mpi"]


def test_an_mpi_that_fits_is_no_misfit_nor_is_none(libraries: Path, image: Path) -> None:
    assert choose_mpi(a_cluster(libraries), inspect_image(image)).whose == ""
    assert choose_mpi(a_cluster(libraries), inspect_image(image), mpi="host").whose == "host"
    assert hostmpi.host_mpi(a_cluster(libraries).feature["mpi"])
    with_library(image, mpich())
    assert settled(a_cluster(libraries), image, mpi="image")[0].unusable_features == {}


@pytest.mark.parametrize(("fields", "default"), [({"mpi": "host"}, False), ({}, True)])
def test_an_unseen_mpi_is_unchecked(libraries: Path, image: Path, fields: dict[str, Any], default: bool) -> None:
    """A login node often lacks what compute nodes have."""
    with_library(image, open_mpi())
    (libraries / "libmpich.so.12").unlink()
    spec, (warning,) = settled(a_cluster(libraries, default=default), image, **fields)
    assert (spec.mpi, spec.unusable_features) == ("host", {})
    assert warning.startswith("the MPI of the host was not compared with the image: no bind path of the feature 'mpi'")
    assert f"run 'sifmod doctor {spec.module}' on a compute node" in warning


def test_an_older_glibc_or_a_site_without_the_feature_is_refused(libraries: Path, image: Path) -> None:
    write(image, "/usr/lib/aarch64-linux-gnu/libc.so.6", "GNU C Library (GNU libc) stable version 2.31.\n")
    with pytest.raises(ParameterError, match=r"needs glibc 2\.34, but the image has glibc 2\.31"):
        choose_mpi(a_cluster(libraries), with_library(image, mpich()), mpi="host")
    with pytest.raises(ParameterError, match=r"has no feature 'mpi'.*sifmod site discover mpi"):
        choose_mpi(a_site(), inspect_image(image), mpi="host")


@pytest.mark.parametrize(("mpi", "row"), [("", "* mpi"), ("host", "* mpi"), ("image", "  mpi")])
def test_the_help_shows_whether_the_host_s_mpi_is_in_use(libraries: Path, mpi: str, row: str) -> None:
    assert list(feature_rows(a_spec(mpi=mpi), a_cluster(libraries))) == [row]
