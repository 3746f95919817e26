"""Variables of a container: valid names and values."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from sifmod import names
from sifmod.text.printable import is_utf8

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Lmod reads a carriage return in a module in Tcl as the end of a line.
VARIABLE_VALUE = re.compile(r"[^\x00\r\n]*")
# Which GPUs each task of conda-python-distributed sees. A plain variable: a user's export wins over the site's.
TASK_GPUS = "SIFMOD_TASK_GPUS"
# What a shell takes for a command in a word within double quotes.
_COMMAND = re.compile(r"`|\$\(")

# What programs read their proxy from, in lower or upper case.
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")

# Variables that programs of the host read. A value for the container would break these programs, or send them to files
# that only the container has, so it never becomes a variable of the user's shell.
HOST_VARIABLES = (
    # where programs, libraries and documentation are found
    *("PATH", "LD_*", "LIBRARY_PATH", "CPATH", "MANPATH", "PKG_CONFIG_PATH", "GCONV_PATH", "GLIBC_TUNABLES"),
    # the user, the session and the shell
    *("HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "TERM", "TERMINFO", "DISPLAY", "XDG_*"),
    *("TMPDIR", "TMP", "TEMP", "IFS", "ENV", "CDPATH", "PS[0-4]", "PROMPT_COMMAND", "BASH*", "SHELLOPTS", "ZDOTDIR"),
    *("UID", "EUID", "PPID", "LANG", "LANGUAGE", "LC_*", "LOCPATH"),
    # interpreters and package managers
    *("PYTHON*", "PIP_*", "UV_*", "CONDA_*", "JUPYTER_PREFER_ENV_PATH"),
    *("PERL*", "RUBY*", "LUA_*", "TCL*", "JAVA_*", "CLASSPATH"),
    # certificates and configuration of tools that transfer files
    *(*PROXIES, *(name.upper() for name in PROXIES)),
    *("SSL_*", "CURL_*", "REQUESTS_CA_BUNDLE", "GIT_*", "SSH_*"),
    # the container runtime, modules, EasyBuild, Slurm and sifmod
    *("PREPEND_LD_LIBRARY_PATH", "APPEND_LD_LIBRARY_PATH"),
    *("SINGULARITY*", "APPTAINER*", "MODULE*", "LMOD_*", "LOADEDMODULES", "_*", "EB*", "EASYBUILD_*"),
    *("SLURM_*", "SBATCH_*", "SRUN_*", "SALLOC_*", "SIF*", "CONTAINERROOT", "RUNSCRIPTS*"),
)


def is_for_host(name: str) -> bool:
    """Return whether programs of the host read a variable, so that only the container may get a value for it."""
    return name != TASK_GPUS and any(fnmatchcase(name, pattern) for pattern in HOST_VARIABLES)


def check_variable(name: object, value: object) -> None:
    """Check one variable that an easyconfig or a site sets in a container; None removes what an earlier origin sets.

    Raises:
        ValueError: sifmod can't set it; the message says why and what to write.
    """
    if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not the name of an environment variable: use letters, digits and '_', and no digit at the "
            "start"
        )
    if name in names.RESERVED_VARIABLES:
        raise ValueError(f"sifmod sets {name} itself: remove it")
    if value is not None and (not isinstance(value, str) or not VARIABLE_VALUE.fullmatch(value)):
        raise ValueError(f"write the value of {name} in quotes on one line, such as '1'")
    if value is not None and not is_utf8(value):
        raise ValueError(f"write the value of {name} in UTF-8")
    if is_for_host(name):
        check_injected(name, value)


def check_injected(name: str, value: object) -> None:
    """Check the value of a variable that the runtime sets in the container.

    The runtime expands it with a shell in the container of each user (Apptainer, `injectEnvHandler`).

    Raises:
        ValueError: it would run a command; the message says what to write.
    """
    if isinstance(value, str) and _COMMAND.search(value):
        raise ValueError(
            f"the value of {name} would run a command in each container: write what it prints. Variables such as "
            "$HOME are expanded"
        )
