"""Evaluating easyconfigs with EasyBuild itself, for the verbs that read them.

An easyconfig is a program, whose constants, templates and defaults are EasyBuild's: only EasyBuild knows what one says.
This is the one module of the command line that imports it, and only while such a verb runs; what the library gets is
plain values. As with `eb`, evaluating an easyconfig runs its code.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from sifmod.container.spec import ContainerSpec
from sifmod.eb.space import software_space
from sifmod.errors import EasyconfigError, SifmodError
from sifmod.site.settings import Site


@dataclass(frozen=True)
class Evaluated:
    """An easyconfig of `ContainerImage` as an install sees it.

    Attributes:
        spec: the container.
        site: the settings of the cluster.
        module: text of the whole module file, EasyBuild's header included.
        module_file: path that it would be written to.
        definitions: paths of the definition files that would be kept.
    """

    spec: ContainerSpec
    site: Site
    module: str
    module_file: Path
    definitions: tuple[Path, ...]


def variables_of(path: Path) -> Mapping[str, Any]:
    """Return every variable that an easyconfig sets, templates such as `%(version)s` unresolved.

    Raises:
        EasyconfigError: it can't be read, or its code fails.
    """
    with _easybuild(path):
        from easybuild.framework.easyconfig.parser import EasyConfigParser

        return dict(EasyConfigParser(str(path)).get_config_dict())


def container_of(path: Path, *, prefix: Optional[Path] = None) -> Evaluated:
    """Return what an install of an easyconfig of `ContainerImage` would do, by asking the easyblock.

    Args:
        path: the easyconfig.
        prefix: EasyBuild prefix in place of the one in force.

    Raises:
        EasyconfigError: it can't be evaluated, or is of another easyblock.
        SifmodError: a parameter or the site is wrong.
    """
    with _easybuild(path):
        from easybuild.framework.easyconfig.easyconfig import EasyConfig, get_easyblock_class

        arguments = []
        if prefix:
            space = software_space(prefix)
            arguments = [f"--prefix={prefix}", f"--installpath={prefix}", f"--installpath-software={space.software}"]
            arguments += [f"--installpath-modules={space.modules}"]
        _configure(arguments)
        easyconfig = EasyConfig(str(path))
        if easyconfig["easyblock"] != "ContainerImage":
            raise EasyconfigError(
                f"'{path}' is of the easyblock {easyconfig['easyblock'] or easyconfig.name}, not ContainerImage: "
                "an easyconfig in the style of LUMI's containers is made one by: sifmod convert"
            )
        block = get_easyblock_class("ContainerImage")(easyconfig)
        block.update_config_template_run_step()  # %(installdir)s is known from here on, as in a step of an install
        spec, site = block.describe()
        definitions = block.definitions()
        return Evaluated(spec, site, block.module_text(), Path(block.mod_filepath), definitions)


class _NotConfiguredError(Exception):
    """EasyBuild refuses its own configuration; the cause says why."""


def _configure(arguments: Sequence[str]) -> None:
    """Set EasyBuild up as `eb` does, with its variables and configuration files, and options in addition."""
    from easybuild.tools.config import build_option
    from easybuild.tools.hooks import load_hooks
    from easybuild.tools.options import set_up_configuration

    try:
        set_up_configuration(args=list(arguments), silent=True)
        load_hooks(build_option("hooks"))
    except (Exception, SystemExit) as error:
        raise _NotConfiguredError from error


@contextlib.contextmanager
def _easybuild(path: Path) -> Iterator[None]:
    """Import and run EasyBuild without a trace: it prints, changes the environment and leaves temporary folders."""
    if not path.is_file():
        raise EasyconfigError(f"there is no easyconfig '{path}': give the path of one")
    environ, directory, no_bytecode = dict(os.environ), tempfile.tempdir, sys.dont_write_bytecode
    folder = tempfile.mkdtemp(prefix="sifmod-")
    os.environ.update(TMPDIR=folder, EASYBUILD_TMPDIR=folder)
    tempfile.tempdir = None
    sys.dont_write_bytecode = True  # beside the hooks and easyblocks of a site
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            warnings.simplefilter("ignore")  # strings of easyconfigs have escapes that Python 3.12 warns of
            yield
    except SifmodError:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "easybuild":
            raise EasyconfigError(f"the easyconfig '{path}' can't be evaluated: {error}") from error
        raise EasyconfigError(
            "EasyBuild can't be imported by sifmod's Python, and it evaluates easyconfigs: install sifmod into the "
            "environment that holds EasyBuild, or load EasyBuild's module"
        ) from error
    except _NotConfiguredError as error:
        why = _reason(error.__cause__, printed.getvalue())
        raise EasyconfigError(
            f"EasyBuild does not start with its configuration: {why}. Try: eb --show-config"
        ) from error
    except (Exception, SystemExit) as error:
        cause = error.__cause__ or error
        if isinstance(cause, SifmodError):
            raise cause from error
        why = _reason(error, printed.getvalue())
        raise EasyconfigError(f"the easyconfig '{path}' can't be evaluated: {why}") from error
    finally:
        os.environ.clear()
        os.environ.update(environ)
        tempfile.tempdir, sys.dont_write_bytecode = directory, no_bytecode
        shutil.rmtree(folder, ignore_errors=True)


def _reason(error: Optional[BaseException], printed: str) -> str:
    """Return why EasyBuild failed, as one line: what it printed last, if it ended itself."""
    lines = printed.strip().splitlines() if isinstance(error, SystemExit) else []
    said = " ".join(lines[-1:]) or str(error) or type(error).__name__
    return " ".join(said.split()).rstrip(".")
