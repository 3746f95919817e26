"""The errors of sifmod: one hierarchy, with the exit status of the command line beside each class."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class SifmodError(Exception):
    """A problem that the user can solve.

    The message is one sentence or two: what happened, where, and what to do next. The command line and the easyblock
    print it without a traceback.
    """

    exit_code = 1  # of the `sifmod` command, for this class of error


class ParameterError(SifmodError):
    """An easyconfig parameter has an invalid value; the remedy says what to write instead."""

    exit_code = 3

    def __init__(self, parameter: str, value: object, remedy: str) -> None:
        super().__init__(f"easyconfig parameter '{parameter}' = {value!r}: {remedy}")
        self.parameter = parameter
        self.value = value
        self.remedy = remedy


class SiteError(SifmodError):
    """A site file, a file of advisories or a SIFMOD_* variable can't be used."""

    exit_code = 4


class ImageError(SifmodError):
    """A container image is missing or invalid, or differs from its description in the easyconfig."""

    exit_code = 5


class RuntimeMissingError(SifmodError):
    """No container runtime, or nothing that builds Dockerfiles, was found on this host."""

    exit_code = 6


class InstallError(SifmodError):
    """A step of the installation failed; an earlier installation is unchanged."""

    exit_code = 7


class JobError(SifmodError):
    """The options of a job script contradict each other or the module."""

    exit_code = 8


class EasyconfigError(SifmodError):
    """An easyconfig can't be evaluated, or is not of the requested kind."""

    exit_code = 9


class EasyBuildError(EasyconfigError):
    """EasyBuild itself can't be used, or its configuration can't be read."""

    exit_code = 14


class KernelError(SifmodError):
    """No Jupyter kernel can be made from an installation."""

    exit_code = 10


class CommandError(SifmodError):
    """A command of the host can't be started, or took too long."""

    exit_code = 11


class OutputError(SifmodError):
    """Standard output can't be written."""

    exit_code = 12


class RecipeError(SifmodError):
    """A recipe or a module of SHPC can't be converted; the reason has the same words for all with this problem."""

    exit_code = 13

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@contextlib.contextmanager
def os_errors(kind: Callable[[str], SifmodError], what: str) -> Iterator[None]:
    """Raise an error of this kind in place of one of the operating system: what has failed, and the reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror}") from error
