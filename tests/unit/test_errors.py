import pytest

from sifmod import errors


def test_a_parameter_error_names_parameter_value_and_remedy() -> None:
    error = errors.ParameterError("gpu", "AMD", "use 'amd' or 'nvidia'")
    assert str(error) == "easyconfig parameter 'gpu' = 'AMD': use 'amd' or 'nvidia'"
    assert (error.parameter, error.value, error.remedy) == ("gpu", "AMD", "use 'amd' or 'nvidia'")


def test_every_error_is_a_sifmod_error_with_an_exit_status_of_its_own() -> None:
    classes = [
        thing for thing in vars(errors).values() if isinstance(thing, type) and thing.__module__ == "sifmod.errors"
    ]
    known = [thing for thing in classes if issubclass(thing, errors.SifmodError)]
    assert known == classes
    assert len({thing.exit_code for thing in known}) == len(classes) > 5


@pytest.mark.parametrize("status", [0, 2])
def test_no_error_ends_like_success_or_like_wrong_usage(status: int) -> None:
    assert all(thing.exit_code != status for thing in errors.SifmodError.__subclasses__())
