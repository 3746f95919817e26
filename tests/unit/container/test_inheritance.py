from typing import Any

import pytest

from sifmod.container.inheritance import inherited
from sifmod.container.parameters import INHERITED, OF_THE_IMAGE
from sifmod.container.spec import Base, ContainerSpec, spec_from_parameters
from sifmod.errors import ParameterError

BASE = Base("Team/1", "/apps/Team/1", "team", "3.11", "00")
PARAMETERS: dict[str, Any] = {
    "python_prefix": "/usr",
    "venv": "team",
    "binds": ["/a"],
    "features": ["mpi"],
    "container_env": {"ONE": "1", "TWO": "2"},
    "wrappers": ["python"],
    "gpu": "nvidia",
}


def spec_of(parameters: dict[str, Any]) -> ContainerSpec:
    return spec_from_parameters(
        name="Mine", version="1", env_name="MINE", installdir="/mine", sif="x.sif", parameters=parameters
    )


def test_lists_and_tables_are_added_and_other_values_replaced() -> None:
    assert inherited(BASE, PARAMETERS, {}) == PARAMETERS
    assert spec_of(inherited(BASE, PARAMETERS, {})) == spec_of(PARAMETERS)
    own = {
        "binds": ("/b",),
        "container_env": {"TWO": "zwei", "THREE": None},
        "gpu": "",
        "wrappers": {"x": "/opt/x -y 'a b'"},
    }
    found = spec_of(inherited(BASE, PARAMETERS, own))
    assert [bind.source for bind in found.binds] == ["/a", "/b"]
    assert dict(found.container_env) == {"ONE": "1", "TWO": "zwei", "THREE": None}
    assert found.gpu == ""
    assert found.features == ("mpi",)
    assert {name: found.command_of(name) for name in found.wrappers} == {
        "python": ("python",),
        "x": ("/opt/x", "-y", "a b"),
    }
    without = {name: value for name, value in PARAMETERS.items() if name != "wrappers"}
    assert spec_of(inherited(BASE, without, {"wrappers": ["tool"]})).wrappers == ("python", "pip", "tool")


def test_only_what_is_inherited_is_taken_from_a_manifest_and_names_are_no_code() -> None:
    hostile = {**PARAMETERS, "image_mode": "link", "pip_requirements": ["evil"], "sources": ["x"]}
    assert inherited(BASE, hostile, {}) == PARAMETERS
    assert set(spec_of(hostile).inheritable) <= set(INHERITED)
    # easyBuild writes them into the module
    hostile = {**PARAMETERS, "expected_packages": {'alpha"); os.execute("id") --': "1"}}
    with pytest.raises(ParameterError, match="that `pip list` shows"):
        spec_of(inherited(BASE, hostile, {}))


@pytest.mark.parametrize("name", OF_THE_IMAGE)
def test_the_image_is_the_base_s(name: str) -> None:
    with pytest.raises(ParameterError, match=r"those of Team/1 \(builds_on\)"):
        inherited(BASE, PARAMETERS, {name: "x"})
    assert name not in inherited(BASE, {}, {name: []}) or inherited(BASE, {}, {name: []})[name] == []


def test_user_software_has_one_environment() -> None:
    assert inherited(BASE, PARAMETERS, {"venv": "team"}) == PARAMETERS
    with pytest.raises(ParameterError, match="has the virtual environment 'team'"):
        inherited(BASE, PARAMETERS, {"venv": "other"})
    without = Base("Team/1", "/apps/Team/1", "", "3.11", "00")
    assert inherited(without, {}, {"venv": "other"}) == {"venv": "other"}


@pytest.mark.parametrize("value", ["x", 1, [1]])
@pytest.mark.parametrize("name", ["container_env", "expected_packages", "gpu"])
def test_a_wrong_value_ends_in_a_sentence(name: str, value: Any) -> None:
    """It may be the easyconfig's or that of a manifest."""
    for below, own in (({}, {name: value}), ({name: value}, {}), ({name: value}, {name: value})):
        with pytest.raises(ParameterError, match=name):
            spec_of(inherited(BASE, {**PARAMETERS, **below}, own))
