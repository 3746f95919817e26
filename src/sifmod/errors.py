"""The errors of sifmod: one hierarchy, with the exit status of the command line beside each class."""

from __future__ import annotations


class SifmodError(Exception):
    """Something that the user can act on.

    The message is one sentence or two: what happened, where, and what to do next. The command line and the easyblock
    print it without a traceback.

    Attributes:
        exit_code: the exit status of the `sifmod` command for this class of error.
    """

    exit_code = 1


class ParameterError(SifmodError):
    """An easyconfig parameter has a value that can't be used.

    Args:
        parameter: the name of the easyconfig parameter.
        value: the value as it was given.
        remedy: what to write instead.
    """

    exit_code = 3

    def __init__(self, parameter: str, value: object, remedy: str) -> None:
        super().__init__(f"easyconfig parameter '{parameter}' = {value!r}: {remedy}")
        self.parameter = parameter
        self.value = value
        self.remedy = remedy


class SiteError(SifmodError):
    """A site file or a SIFMOD_* variable can't be used."""

    exit_code = 4


class ImageError(SifmodError):
    """A container image is missing, is not one, or lacks what the easyconfig says that it has."""

    exit_code = 5


class RuntimeMissingError(SifmodError):
    """No container runtime was found on this host."""

    exit_code = 6


class InstallError(SifmodError):
    """A step of the installation failed; nothing that was there before was changed."""

    exit_code = 7


class JobError(SifmodError):
    """A job script was asked for that can't be right."""

    exit_code = 8


class EasyconfigError(SifmodError):
    """An easyconfig can't be evaluated, or is not of the kind that is asked for."""

    exit_code = 9


class KernelError(SifmodError):
    """A Jupyter kernel can't be made of an installation."""

    exit_code = 10


class CommandError(SifmodError):
    """A command of the host can't be started, or took too long."""

    exit_code = 11
