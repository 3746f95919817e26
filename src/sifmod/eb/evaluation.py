"""Evaluate easyconfigs with EasyBuild itself, for the verbs that read them.

An easyconfig is a program that uses EasyBuild's constants, templates and defaults, so only EasyBuild can evaluate it.
No other module of the command line imports EasyBuild, and this one only while such a verb runs; the library gets plain
values. As with `eb`, evaluating an easyconfig runs its code.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from sifmod.container.naming import Naming
from sifmod.container.spec import ContainerSpec
from sifmod.eb.space import software_space
from sifmod.errors import EasyBuildError, EasyconfigError, SifmodError
from sifmod.site.settings import Site


@dataclass(frozen=True)
class Described:
    """What an easyconfig says of its software, templates resolved; its `gpu` is None for that of the site."""

    homepage: str
    description: str
    module_class: str
    gpu: Optional[str]


@dataclass(frozen=True)
class Evaluated:
    """An easyconfig of `ContainerImage` as an install sees it."""

    spec: ContainerSpec
    site: Site
    naming: Naming
    module: str  # text of the whole module file, EasyBuild's header included
    definitions: tuple[Path, ...]  # paths of the definition files that an install keeps
    described: Described  # what the easyconfig says of the software
    image_uri: str = ""  # URI of the image; empty if it is fetched in another way
    image_digest: str = ""  # its digest in the registry, if the URI states it
    image_sha256: str = ""  # SHA-256 of the image in `checksums`; empty if it is not there

    @property
    def module_file(self) -> Path:
        """Path of the module file."""
        return Path(self.naming.module_files[0])


def variables_of(path: Path) -> Mapping[str, Any]:
    """Return every variable of an easyconfig, with templates such as `%(version)s` unresolved, or EasyconfigError."""
    with _easybuild(path):
        from easybuild.framework.easyconfig.parser import EasyConfigParser

        return dict(EasyConfigParser(str(path)).get_config_dict())


def container_of(path: Path, *, prefix: Optional[Path] = None) -> Evaluated:
    """Return what the easyblock would install from an easyconfig, with a prefix instead of the configured one.

    Raises:
        EasyconfigError: it can't be evaluated, or uses another easyblock.
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
                f"'{path}' uses the easyblock {easyconfig['easyblock'] or easyconfig.name}, not ContainerImage: "
                "convert an easyconfig in the style of LUMI's containers with: sifmod convert"
            )
        block = get_easyblock_class("ContainerImage")(easyconfig)
        block.update_config_template_run_step()  # %(installdir)s is known from here on, as in a step of an install
        spec, site = block.describe()
        definitions = block.definitions()
        described, stated = _described(easyconfig), block.stated_image()
        return Evaluated(spec, site, block.naming(), block.module_text(), definitions, described, *stated)


def _described(easyconfig: Any) -> Described:
    """Return the description in an easyconfig of EasyBuild, a mapping of its parameters."""
    homepage, description, module_class = (
        str(easyconfig[key] or "") for key in ("homepage", "description", "moduleclass")
    )
    gpu = easyconfig["gpu"]
    return Described(homepage, description, module_class, None if gpu is None else str(gpu))


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
    """Import and run EasyBuild, and undo what it does: output, changes of the environment, temporary folders."""
    if not path.is_file():
        raise EasyconfigError(f"there is no easyconfig '{path}': give the path of one")
    environ, directory, no_bytecode = dict(os.environ), tempfile.tempdir, sys.dont_write_bytecode
    handlers = _log_handlers()
    folder = tempfile.mkdtemp(prefix="sifmod-")
    os.environ.update(TMPDIR=folder, EASYBUILD_TMPDIR=folder)
    tempfile.tempdir = None
    sys.dont_write_bytecode = True  # it would be written beside the hooks and easyblocks of a site
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
        raise EasyBuildError(
            "sifmod's Python can't import EasyBuild, which evaluates easyconfigs: install sifmod into EasyBuild's "
            "environment, or load EasyBuild's module"
        ) from error
    except _NotConfiguredError as error:
        why = _reason(error.__cause__, printed.getvalue())
        raise EasyBuildError(
            f"EasyBuild does not start with its configuration: {why}. Try: eb --show-config"
        ) from error
    except (Exception, SystemExit) as error:
        cause = error.__cause__ or error
        if isinstance(cause, SifmodError):
            raise cause from error
        why = _reason(error, printed.getvalue())
        raise EasyconfigError(f"the easyconfig '{path}' can't be evaluated: {why}") from error
    finally:
        for logger, handler in _log_handlers() - handlers:
            logger.removeHandler(handler)
            handler.close()
        os.environ.clear()
        os.environ.update(environ)
        tempfile.tempdir, sys.dont_write_bytecode = directory, no_bytecode
        shutil.rmtree(folder, ignore_errors=True)


def _log_handlers() -> set[tuple[logging.Logger, logging.Handler]]:
    """Return where loggers write to. EasyBuild adds two places each time, and each line would go to all of them."""
    loggers = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    return {(logger, handler) for logger in (logging.root, *loggers) for handler in logger.handlers}


def _reason(error: Optional[BaseException], printed: str) -> str:
    """Return why EasyBuild failed, as one line: its last output if it exited, else the error."""
    lines = printed.strip().splitlines() if isinstance(error, SystemExit) else []
    said = " ".join(lines[-1:]) or str(error) or type(error).__name__
    return " ".join(said.split()).rstrip(".")
