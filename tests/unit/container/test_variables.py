"""An easyconfig and a site file take the same variables, and refuse the others with the same words."""

from pathlib import Path
from typing import Any

import pytest

from sifmod import names
from sifmod.container.kinds import WrongItemError
from sifmod.container.spec import spec_from_parameters
from sifmod.container.variables import check_variable
from sifmod.errors import ParameterError, SiteError
from sifmod.site.keys import VARIABLES
from sifmod.site.settings import load_site


def of_easyconfig(variables: dict[Any, Any]) -> str:
    parameters = {"container_env": variables}
    try:
        spec_from_parameters(name="X", version="1", env_name="X", installdir="/x", sif="x.sif", parameters=parameters)
    except ParameterError as error:
        return error.remedy
    return ""


def of_site(variables: dict[Any, Any]) -> str:
    try:
        VARIABLES.read(variables)
    except WrongItemError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("A", "x", ""),
        ("_a1", "", ""),
        ("A", 'tab\tand "quotes" and $HOME', ""),
        ("1A", "x", "use letters, digits and '_'"),
        ("A-B", "x", "use letters, digits and '_'"),
        ("A\n", "x", "use letters, digits and '_'"),
        ("", "x", "use letters, digits and '_'"),
        ("é", "x", "use letters, digits and '_'"),
        (names.RESERVED_VARIABLES[0], "x", "remove it"),
        ("A", 1, "the value of A in quotes"),
        ("A", None, ""),
        ("A", ["x"], "the value of A in quotes"),
        ("A", "two\nlines", "on one line"),
        ("A", "n\0ul", "on one line"),
        ("A", "two\rlines", "on one line"),
        ("A", "\ud800", "in UTF-8"),
        ("A", "$(id) `id`", ""),
        ("LD_PRELOAD", "$HOME/x.so", ""),
        ("LD_PRELOAD", "$(id)", "would run a command in each container"),
        ("PYTHONPATH", "`id`", "would run a command in each container"),
    ],
)
def test_both_give_the_same_answer(name: str, value: object, remedy: str) -> None:
    answer = of_easyconfig({name: value})
    assert answer == of_site({name: value})
    assert remedy in answer
    assert bool(answer) == bool(remedy)


def test_what_is_no_text_is_no_name() -> None:
    with pytest.raises(ValueError, match="3 is not the name"):
        check_variable(3, "x")


def test_what_only_the_container_gets_of_a_feature_has_no_command(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('[feature.mpi]\nenv = { INNER = "$(id)" }\n')
    assert load_site({"SIFMOD_SITE": str(path)}).feature
    path.write_text('[feature.mpi]\ncontainer_env = { INNER = "$(id)" }\n')
    with pytest.raises(SiteError, match="would run a command in each container"):
        load_site({"SIFMOD_SITE": str(path)})
