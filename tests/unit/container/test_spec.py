from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.naming import Naming
from sifmod.container.parameters import OWN
from sifmod.container.spec import ContainerSpec, PythonLayout, spec_from_parameters
from sifmod.errors import ParameterError

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=3)
    | st.sampled_from(["amd", "run", "/usr"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)


def made(
    *,
    name: str = "Demo",
    version: str = "1.0-x",
    env_name: str = "DEMO",
    installdir: str = "/apps/Demo",
    sif: str = "demo.sif",
    **parameters: object,
) -> ContainerSpec:
    return spec_from_parameters(
        name=name, version=version, env_name=env_name, installdir=installdir, sif=sif, parameters=parameters
    )


def refused(**parameters: Any) -> ParameterError:
    with pytest.raises(ParameterError) as caught:
        made(**parameters)
    return caught.value


def test_an_image_alone_is_a_container_without_a_python() -> None:
    spec = made()
    assert (spec.python, spec.venv, spec.wrappers, spec.interpreter) == (None, "", (), "")
    assert (spec.gpu, spec.launch, spec.module_family, spec.pip_constraints) == ("", "exec", "container", True)
    assert spec.module == "Demo/1.0-x"
    spec = replace(made(), naming=Naming("devel/Demo/.1", "Core/devel/Demo/.1", "Demo/1", ("/modules/1.lua",)))
    assert spec.module == "devel/Demo/.1"


@pytest.mark.parametrize(("name", "env_name"), [("7 zip", "7 ZIP"), ("a/b", "A/B"), ("\xe9", "\xc9")])
def test_a_name_that_makes_no_variable_is_refused(name: str, env_name: str) -> None:
    error = refused(name=name, env_name=env_name)
    assert (error.parameter, f"'SIF{env_name}' can't be the name of a variable" in str(error)) == ("name", True)
    assert made(name="7zip", env_name="7ZIP").env_name == "7ZIP"


def test_the_python_is_a_prefix_or_a_conda_environment() -> None:
    spec = made(conda_env="pytorch")
    assert spec.python == PythonLayout("/opt/miniconda3/envs/pytorch", "/opt/miniconda3", "pytorch")
    assert spec.python.executable == "/opt/miniconda3/envs/pytorch/bin/python3"
    assert spec.python.activation == "source /opt/miniconda3/bin/activate pytorch"
    assert spec.interpreter == spec.python.executable
    assert made(conda_root="/opt/conda/", conda_env="base").python == PythonLayout("/opt/conda", "/opt/conda", "base")
    python = made(python_prefix="/opt/venv/").python
    assert python == PythonLayout("/opt/venv")
    assert python.activation == ""
    python = made(python_prefix="/usr/").python
    assert python is not None
    assert python.executable == "/usr/bin/python3"
    spec = made(python_prefix="/usr", venv="demo")
    assert spec.venv_path == "/user-software/venv/demo"
    assert spec.interpreter == "/user-software/venv/demo/bin/python"


def test_wrappers_are_python_and_pip_or_those_that_are_named_each_once() -> None:
    assert made(python_prefix="/usr").wrappers == ("python", "pip")
    assert made(python_prefix="/usr", wrappers=[]).wrappers == ()
    assert made(wrappers=["nvcc", "nvidia-smi", "nvcc"]).wrappers == ("nvcc", "nvidia-smi")


def test_every_parameter_arrives_in_the_description() -> None:
    spec = made(
        python_prefix="/usr",
        venv="demo",
        wrappers=["python"],
        binds=["/a:/b:ro"],
        container_env={"A": "b c", "EMPTY": ""},
        gpu="nvidia",
        launch="run",
        pip_requirements=["torchmetrics", "x==1"],
        pack_user_software=True,
        pip_constraints=False,
        module_family="",
        image_mode="copy",
    )
    assert spec.wrappers == ("python",)
    assert spec.binds == (Bind("/a", "/b", "ro"),)
    assert dict(spec.container_env) == {"A": "b c", "EMPTY": ""}
    assert (spec.gpu, spec.launch, spec.module_family) == ("nvidia", "run", "")
    assert spec.pip_requirements == ("torchmetrics", "x==1")
    assert (spec.pack_user_software, spec.pip_constraints) == (True, False)


def test_a_description_can_not_be_changed_and_keeps_its_own_values() -> None:
    given = {"A": "b"}
    spec = made(container_env=given)
    given["A"] = "changed"
    assert spec.container_env["A"] == "b"
    with pytest.raises(TypeError):
        spec.container_env["A"] = "c"  # type: ignore[index]  # mypy forbids it too
    with pytest.raises(AttributeError):
        spec.venv = "x"  # type: ignore[misc]  # mypy forbids it too


def test_values_that_may_be_said_in_several_ways() -> None:
    assert (made().mpi, made(mpi="").mpi, made(mpi="image").mpi) == ("", "", "image")
    assert "'host' or 'image'" in str(refused(mpi="hosts"))
    assert made(gpu="amd", gpu_libraries="host").gpu_libraries == made(gpu="nvidia", gpu_libraries="").gpu_libraries
    assert made(gpu="nvidia").gpu_libraries == "host"
    assert made(gpu="amd").runtime_gpu is None
    assert "'host' or 'image'" in str(refused(gpu="amd", gpu_libraries="own"))


def test_compat_libraries_are_used_unless_the_easyconfig_says_never() -> None:
    assert made(gpu="nvidia").uses_compat
    assert made(gpu="nvidia", cuda_compat="").uses_compat
    assert not made(gpu="nvidia", cuda_compat="never").uses_compat
    assert "'auto' or 'never'" in str(refused(gpu="nvidia", cuda_compat="always"))
    assert made(python_prefix="/usr", venv="x").user_commands
    assert not made(python_prefix="/usr", venv="x", user_commands=False).user_commands
    assert not made(python_prefix="/usr").user_commands


@pytest.mark.parametrize("gpu", ["", None, False])
def test_no_gpu_can_be_said_in_several_ways(gpu: object) -> None:
    assert made(gpu=gpu).gpu == ""


@pytest.mark.parametrize("family", ["", False])
def test_no_family_can_be_said_in_two_ways(family: object) -> None:
    assert made(module_family=family).module_family == ""


# parameter, value, what else is needed to come so far, what the remedy says
WRONG = [
    ("gpu", "AMD", {}, "'amd' or 'nvidia'"),
    ("gpu", "nvidea", {}, "perhaps you meant 'nvidia'"),
    ("gpu", ["amd"], {}, "'amd' or 'nvidia'"),
    ("gpu", True, {}, "'amd' or 'nvidia'"),
    ("launch", "start", {}, "'exec' or 'run'"),
    ("launch", "", {}, "'exec' or 'run'"),
    ("image_mode", "lnik", {}, "'copy'"),
    ("conda_root", "/opt/conda", {}, "conda_env = 'base'"),
    ("conda_root", "opt/conda", {"conda_env": "base"}, "absolute path in the image"),
    ("conda_root", "/opt/../etc", {"conda_env": "base"}, "absolute path in the image"),
    ("conda_root", "/opt/a b", {"conda_env": "base"}, "absolute path in the image"),
    ("conda_root", 3, {"conda_env": "base"}, "absolute path in the image"),
    ("conda_env", "a/b", {}, "no slash"),
    ("conda_env", "$(id)", {}, "letters, digits"),
    ("conda_env", "..", {}, "letters, digits"),
    ("conda_env", 3, {}, "letters, digits"),
    ("python_prefix", "usr", {}, "absolute path in the image"),
    ("python_prefix", "/", {}, "absolute path in the image"),
    ("python_prefix", "/usr:/opt", {}, "absolute path in the image"),
    ("python_prefix", "/usr\n", {}, "absolute path in the image"),
    ("python_prefix", ["/usr"], {}, "absolute path in the image"),
    ("python_prefix", "/usr", {"conda_env": "base"}, "remove conda_root and conda_env"),
    ("python_prefix", "/usr", {"conda_root": "/opt"}, "remove conda_root and conda_env"),
    ("venv", "demo", {}, "conda_env or python_prefix"),
    ("venv", "a/b", {"python_prefix": "/usr"}, "no slash"),
    ("venv", "../x", {"python_prefix": "/usr"}, "no slash"),
    ("venv", "-x", {"python_prefix": "/usr"}, "letters, digits"),
    ("venv", "a b", {"python_prefix": "/usr"}, "letters, digits"),
    ("venv", "démo", {"python_prefix": "/usr"}, "letters, digits"),
    ("venv", "demo\n", {"python_prefix": "/usr"}, "letters, digits"),
    ("venv", True, {"python_prefix": "/usr"}, "letters, digits"),
    ("venv", ["demo"], {"python_prefix": "/usr"}, "letters, digits"),
    ("module_family", "a/b", {}, "no slash"),
    ("module_family", ["x"], {}, "letters, digits"),
    ("pip_requirements", ["torch"], {"python_prefix": "/usr"}, "set venv, the virtual environment for them"),
    ("pip_requirements", "torch", {"python_prefix": "/usr", "venv": "x"}, "a list of strings"),
    ("pip_requirements", ["torch", ""], {"python_prefix": "/usr", "venv": "x"}, "a list of strings"),
    ("pip_requirements", [None], {"python_prefix": "/usr", "venv": "x"}, "a list of strings"),
    ("pack_user_software", True, {}, "there is nothing to pack without venv"),
    ("pack_user_software", "yes", {"python_prefix": "/usr", "venv": "x"}, "True or False"),
    ("pip_constraints", 1, {}, "True or False"),
    ("share_container", 1, {}, "True or False"),
    ("user_commands", "yes", {}, "True or False"),
    ("pip_constraints", "no", {}, "True or False"),
    ("wrappers", "python", {}, "a list of names"),
    ("binds", "/a", {}, "a list of strings"),
    ("container_env", ["A=b"], {}, "a dictionary"),
    ("features", "mpi", {}, "a list of strings"),
    ("features", ["mpi", 3], {}, "a list of strings"),
    ("container_env", "A=b", {}, "a dictionary"),
]


@pytest.mark.parametrize(("parameter", "value", "others", "remedy"), WRONG)
def test_a_wrong_value_names_its_remedy(parameter: str, value: object, others: dict[str, str], remedy: str) -> None:
    error = refused(**{**others, parameter: value})
    assert error.parameter == parameter
    assert f"'{parameter}' = {value!r}" in str(error)
    assert remedy in str(error)


# parameter, the list or dictionary, the element that is wrong, what the remedy says
WRONG_ELEMENTS = [
    ("wrappers", ["python", "bin/python"], "bin/python", "without a folder"),
    ("wrappers", ["-x"], "-x", "name of a command"),
    ("wrappers", ["a b"], "a b", "name of a command"),
    ("wrappers", [".."], "..", "name of a command"),
    ("wrappers", ["start-shell"], "start-shell", "remove it from the list"),
    ("binds", ["/ok", "relative"], "relative", "begin it with '/'"),
    ("binds", ["/a,/b"], "/a,/b", "commas inside a path"),
    ("binds", ["/a:/runscripts"], "/a:/runscripts", "choose another"),
    ("binds", ["/a:/runscripts/x"], "/a:/runscripts/x", "choose another"),
    ("binds", ["/a:/user-software"], "/a:/user-software", "choose another"),
    ("binds", ["/user-software/venv"], "/user-software/venv", "choose another"),
    ("binds", ["/a\n"], "/a\n", "each item on one line"),
    ("pip_requirements", ["a\n--index-url x"], "a\n--index-url x", "each item on one line"),
    ("container_env", {"A B": "x"}, {"A B": "x"}, "name of an environment variable"),
    ("container_env", {3: "x"}, {3: "x"}, "name of an environment variable"),
    ("container_env", {"A": "x", "N": 7}, {"N": 7}, "the value of N in quotes"),
    ("container_env", {"A": "two\nlines"}, {"A": "two\nlines"}, "on one line"),
]


@pytest.mark.parametrize(("parameter", "value", "element", "remedy"), WRONG_ELEMENTS)
def test_a_wrong_element_is_refused_with_a_remedy(parameter: str, value: object, element: object, remedy: str) -> None:
    error = refused(**{"python_prefix": "/usr", "venv": "x", parameter: value})
    assert error.parameter == parameter
    assert f"'{parameter}' = {element!r}" in str(error)
    assert remedy in str(error)


@pytest.mark.parametrize("destination", ["/runscripts2", "/user-software-of-mine", "/data/runscripts"])
def test_a_destination_that_only_looks_like_sifmod_s_own_is_accepted(destination: str) -> None:
    assert made(binds=[f"/a:{destination}"]).binds == (Bind("/a", destination),)


@pytest.mark.parametrize("destination", ["//runscripts", "/./user-software", "/x/../runscripts", "/user-software/"])
def test_another_spelling_of_sifmod_s_own_destinations_is_refused_too(destination: str) -> None:
    assert "choose another" in str(refused(binds=[f"/a:{destination}"]))


NO_FILE_NAMES = ["a/b.sif", "..", ".", ".hidden.sif", "-x.sif", "a\nb.sif", "a\\b.sif", ""]


@pytest.mark.parametrize("sif", [*NO_FILE_NAMES, *names.INSTALLED])
def test_an_image_has_a_file_name_of_its_own(sif: str) -> None:
    error = refused(sif=sif)
    assert f"'sources' = {sif!r}" in str(error)
    assert ("rename the image" if sif in names.INSTALLED else "the file name of a SIF") in str(error)


def test_every_folder_of_an_installation_is_closed_to_images() -> None:
    own = {"bin", "runscripts", "share", "user-software", "user-software.squashfs", "user-software.unpacked"}
    assert own <= set(names.INSTALLED)


@pytest.mark.parametrize("sif", ["a b.sif", "it's,$x:y.sif", "é.sif", "image"])
def test_an_image_may_have_an_unusual_name(sif: str) -> None:
    assert made(sif=sif).sif == sif


@pytest.mark.parametrize("value", ["..", ".", "../../x", "1/../../x", "1\n2", "1\x1b[31m"])
@pytest.mark.parametrize("parameter", ["name", "version"])
def test_a_name_that_leads_out_of_the_software_or_steers_a_terminal_is_refused(parameter: str, value: str) -> None:
    with pytest.raises(ParameterError, match=f"'{parameter}' = .*becomes part of paths"):
        made(**{parameter: value})


@pytest.mark.parametrize("version", ["1..2", "..1", "1.0-x y", "-h"])
def test_other_versions_are_taken(version: str) -> None:
    assert made(version=version).version == version


@pytest.mark.parametrize("installdir", ["apps/Demo", "", "/a\\b", "/a\nb", "/a\x00b", "/a, b", "/a ,b", "/a "])
def test_an_installation_directory_that_can_not_be_bound_is_refused(installdir: str) -> None:
    error = refused(installdir=installdir)
    assert f"'installdir' = {installdir!r}" in str(error)
    assert "choose another installation path" in str(error)
    assert "rename it" in str(error)


@pytest.mark.parametrize("installdir", ["/a b", "/a,b", "/a:b", "/it's/$HOME", "/é", "/a  b,c d"])
def test_an_installation_directory_may_have_an_unusual_name(installdir: str) -> None:
    assert made(installdir=installdir).installdir == installdir


@given(st.dictionaries(st.sampled_from([*OWN]), ANYTHING))
def test_any_value_is_either_accepted_or_refused_with_its_parameter(parameters: dict[str, Any]) -> None:
    refusal: Optional[ParameterError] = None
    try:
        spec = made(**parameters)
    except ParameterError as error:
        refusal = error
    else:
        assert all(isinstance(name, str) for name in (*spec.wrappers, *spec.pip_requirements, *spec.container_env))
    if refusal is not None:
        assert refusal.parameter in parameters
        assert refusal.remedy
