import pytest

from sifmod import names
from sifmod.container.spec import ContainerSpec, PythonLayout
from sifmod.render.environment import injected_variables, proxies, setting_variables, structural_variables

from ..support import CONDA, USR, a_site, a_spec
from .running import Load, Wrapper

ALL = [
    a_spec(python=python, venv=venv, pip_constraints=constraints)
    for python in (None, USR, CONDA, PythonLayout("/opt/venv"), PythonLayout("/opt/conda", "/opt/conda", "base"))
    for venv in ("", "demo")
    for constraints in (True, False)
    if python or not venv
]


def test_the_python_comes_first_in_the_search_path() -> None:
    assert structural_variables(a_spec(python=None, venv="", wrappers=())) == {"PREPEND_PATH": "/runscripts"}
    variables = structural_variables(a_spec(python=CONDA, venv="demo"))
    assert variables["PREPEND_PATH"].split(":") == [
        "/runscripts",
        "/user-software/venv/demo/bin",
        "/opt/miniconda3/envs/pytorch/bin",
        "/opt/miniconda3/condabin",
    ]
    variables = structural_variables(a_spec(python=PythonLayout("/opt/venv"), venv=""))
    assert variables["PREPEND_PATH"] == "/runscripts:/opt/venv/bin"


@pytest.mark.parametrize("prefix", ["/usr", "/usr/local"])
def test_a_prefix_on_the_default_search_path_is_not_put_before_the_rest(prefix: str) -> None:
    variables = structural_variables(a_spec(python=PythonLayout(prefix)))
    assert f"{prefix}/bin" not in variables["PREPEND_PATH"].split(":")


def test_conda_s_variables_are_those_that_its_activation_sets() -> None:
    variables = structural_variables(a_spec(python=CONDA, venv=""))
    conda = {name: value for name, value in variables.items() if name.startswith(("CONDA_", "_CE_"))}
    assert conda == {
        "CONDA_DEFAULT_ENV": "pytorch",
        "CONDA_EXE": "/opt/miniconda3/bin/conda",
        "CONDA_PREFIX": "/opt/miniconda3/envs/pytorch",
        "CONDA_PROMPT_MODIFIER": "(pytorch) ",
        "CONDA_PYTHON_EXE": "/opt/miniconda3/bin/python",
        "CONDA_SHLVL": "1",
        "_CE_CONDA": "",
        "_CE_M": "",
    }
    assert variables["WITH_CONDA"] == "source /opt/miniconda3/bin/activate pytorch"
    assert variables["WITH_CONDA_VENV"] == "source /runscripts/init-conda-venv"
    assert "WITH_VENV" not in variables
    assert "VIRTUAL_ENV" not in variables
    variables = structural_variables(a_spec(python=PythonLayout("/opt/conda", "/opt/conda", "base"), venv=""))
    assert variables["CONDA_PREFIX"] == "/opt/conda"
    assert variables["CONDA_DEFAULT_ENV"] == "base"
    variables = structural_variables(a_spec(venv="demo"))
    assert variables["VIRTUAL_ENV"] == "/user-software/venv/demo"
    assert variables["VIRTUAL_ENV_PROMPT"] == "(demo) "
    assert variables["WITH_VENV"] == "source /user-software/venv/demo/bin/activate"
    assert not any(name.startswith("CONDA") for name in variables)


def test_pip_and_uv_are_kept_from_the_image_s_packages() -> None:
    assert structural_variables(a_spec())["PIP_CONSTRAINT"] == "/runscripts/pip-constraints.txt"
    assert "PIP_CONSTRAINT" not in structural_variables(a_spec(pip_constraints=False))
    assert structural_variables(a_spec())["UV_EXCLUDE"] == "/runscripts/pip-constraints.txt"
    assert "UV_EXCLUDE" not in structural_variables(a_spec(pip_constraints=False))
    assert "UV_EXCLUDE" not in structural_variables(a_spec(venv=""))
    assert setting_variables(a_spec(), a_site())["UV_LINK_MODE"] == "copy"
    assert setting_variables(a_spec(), a_site(container_env={"UV_LINK_MODE": "clone"}))["UV_LINK_MODE"] == "clone"


def test_the_host_s_libraries_for_gpus_come_first_whatever_the_runtime_s_default() -> None:
    """Apptainer 1.5 puts the image's first; earlier ones ignore the variable."""
    first = {"PREPEND_LD_LIBRARY_PATH": "/.singularity.d/libs"}
    assert first.items() <= injected_variables(a_spec(gpu="nvidia"), a_site()).items()
    amd = a_spec(gpu="amd", gpu_libraries="host", has_drivers=False)
    assert first.items() <= injected_variables(amd, a_site()).items()
    no_driver = a_spec(gpu="nvidia", has_drivers=False)
    for spec in (a_spec(), no_driver, a_spec(gpu="amd", gpu_libraries="image")):
        assert "PREPEND_LD_LIBRARY_PATH" not in injected_variables(spec, a_site())
    never = a_spec(gpu="nvidia", cuda_compat="never")
    for spec in (never, a_spec(gpu="nvidia", gpu_libraries="image")):
        assert injected_variables(spec, a_site())["SIFMOD_CUDA_COMPAT"] == "never"
    for spec in (a_spec(gpu="nvidia"), a_spec(gpu="amd", cuda_compat="never")):
        assert "SIFMOD_CUDA_COMPAT" not in injected_variables(spec, a_site())
    own = a_spec(gpu="nvidia", container_env={"PREPEND_LD_LIBRARY_PATH": ""})
    assert injected_variables(own, a_site())["PREPEND_LD_LIBRARY_PATH"] == ""


def test_packages_in_the_user_s_home_do_not_shadow_the_image_unless_the_easyconfig_wants_it() -> None:
    assert setting_variables(a_spec(venv=""), a_site()) == {"PYTHONHOME": "", "PYTHONNOUSERSITE": "1"}
    emptied = setting_variables(a_spec(venv=""), a_site(container_env={"PYTHONNOUSERSITE": ""}))
    assert emptied == {"PYTHONHOME": "", "PYTHONNOUSERSITE": ""}
    assert setting_variables(a_spec(python=None, venv=""), a_site()) == {}


@pytest.mark.parametrize("spec", ALL)
def test_variables_are_reserved_in_order_and_no_element_of_a_path_is_empty(spec: ContainerSpec) -> None:
    assert "" not in structural_variables(spec)["PREPEND_PATH"].split(":")
    assert set(structural_variables(spec)) <= set(names.RESERVED_VARIABLES)
    assert list(structural_variables(spec)) == sorted(structural_variables(spec))


def test_nothing_is_reserved_that_no_container_sets() -> None:
    assert set().union(*(structural_variables(spec) for spec in ALL)) == set(names.RESERVED_VARIABLES)


def test_variables_of_the_easyconfig_beat_the_site_s() -> None:
    site = a_site(container_env={"A": "site", "B": None, "UV_LINK_MODE": None, "JUPYTER_PREFER_ENV_PATH": None})
    spec = a_spec(container_env={"A": None, "PYTHONHOME": None, "PYTHONNOUSERSITE": None, "C": "own"})
    assert setting_variables(spec, site) == {"C": "own"}
    site = a_site(container_env={"B": "site", "A": "site", "C": "site"})
    own = a_spec(container_env={"B": "own", "D": ""}, python=None, venv="")
    assert list(setting_variables(own, site).items()) == [
        ("A", "site"),
        ("B", "own"),
        ("C", "site"),
        ("D", ""),
    ]
    site = a_site(proxies={"https_proxy": "http://site:1"})
    assert proxies(a_spec(container_env={"https_proxy": "y"}), site) == []
    assert injected_variables(a_spec(container_env={"HTTPS_PROXY": "y"}), site)["HTTPS_PROXY"] == "y"


@pytest.mark.parametrize(
    ("users", "proxy"),
    [
        ({}, "http://site:1"),
        ({"https_proxy": "http://me:2"}, "http://me:2"),
        ({"HTTPS_PROXY": "http://me:2"}, "http://me:2"),
        ({"https_proxy": ""}, ""),
        ({"SINGULARITYENV_HTTPS_PROXY": "http://in:3", "SINGULARITYENV_https_proxy": "http://in:3"}, "http://in:3"),
    ],
)
def test_a_proxy_of_the_user_comes_before_the_site_s(
    wrapper: Wrapper, load: Load, installed: ContainerSpec, users: dict[str, str], proxy: str
) -> None:
    site = a_site(proxies={"https_proxy": "http://site:1", "no_proxy": None})
    wrapper.run("python", spec=installed, site=site, environ=users)
    loaded = [load(installed, site, users, syntax=syntax) for syntax in ("Lua", "Tcl")]
    for found in (*loaded, wrapper.fake.calls[-1]["env"]):
        assert {found.get(f"SINGULARITYENV_{name}") for name in ("https_proxy", "HTTPS_PROXY")} == {proxy}
        assert not [name for name in found if "no_proxy" in name]
        assert found.get("https_proxy", users.get("https_proxy")) == users.get("https_proxy")
