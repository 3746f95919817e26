"""Check whether containers can work on this host: runtime, user namespaces, FUSE, Lmod, EasyBuild, space and quota."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.version import Version

from sifmod.doctor.indexes import check_indexes
from sifmod.doctor.runtime import check_runtime
from sifmod.doctor.site import check_site, is_seen, nearest
from sifmod.doctor.squashfs import check_squashfs_runtimes
from sifmod.eb.robot import DEMO_EASYCONFIG
from sifmod.eb.space import SoftwareSpace, source_paths
from sifmod.errors import RuntimeMissingError
from sifmod.fetch.credentials import secrets
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask
from sifmod.host.files import FEW_INODES, free_inodes
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.host.runtime import find_runtime
from sifmod.site.settings import Settings, Site
from sifmod.text import quoting
from sifmod.text.size import counted, size_text
from sifmod.text.version import version_order

_FULL = 0.95  # of a quota
# kB used, soft limit, hard limit and grace period; then the same for files: print_quota in Lustre's lfs.c
_LIMITS = re.compile(2 * r"\s\[?(\d+)\]?\**\s+\[?(\d+)\]?\s+\[?(\d+)\]?\s+\S+")

_OLDEST_LMOD = "7.7"  # pushenv, family and isloaded as the modulefiles use them; 8.6 and 8.7 are tested
_OLDEST_EASYBUILD = "5.0"


def check_host(settings: Settings, space: SoftwareSpace, *, image_size: int = 0) -> Iterator[Finding]:
    """Yield the findings on this host."""
    site = settings.site
    yield from check_runtime(site, os.environ)
    yield from _user_namespaces(site)
    yield from _fuse(site)
    yield from check_squashfs_runtimes(site, os.environ)
    yield from check_site(settings)
    yield from check_indexes(site, os.environ)
    if secrets() and not site.credential_registries:
        why = "'eb' sends it to the registry that an easyconfig names, whoever wrote it; Apptainer does so too"
        remedy = "name the registries that it is for, such as: export SIFMOD_CREDENTIAL_REGISTRIES=registry.example.org"
        yield Finding(NOTE, "passwords", "the password of a registry is in a variable", why, remedy)
    yield from _variables(site, os.environ)
    yield from _modules(os.environ)
    yield from _module_tree(space, os.environ)
    yield from _shells(os.environ)
    yield from _easybuild(os.environ)
    yield from _places(site, space, image_size)


def _variables(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Name variables of this shell that programs in containers inherit to their harm."""
    libraries = [path for path in re.split("[ :]", environ.get("LD_PRELOAD", "")) if path.startswith("/")]
    lacking = [path for path in libraries if not is_seen(Path(path), site, environ)]
    if lacking and "LD_PRELOAD" not in site.container_env and "SINGULARITYENV_LD_PRELOAD" not in environ:
        why = "each program in a container prints an error of ld.so"
        remedy = "in the site file or the easyconfig: container_env = {'LD_PRELOAD': ''}"
        yield Finding(WARNING, "LD_PRELOAD", f"containers lack '{lacking[0]}'", why, remedy)
    for name in ("UV_SYSTEM_PYTHON", "UV_PYTHON"):
        if environ.get(name):
            why = "uv in containers takes another Python than the module's, and fails or asks for --system"
            yield Finding(WARNING, "uv", f"{name} is '{environ[name]}'", why, f"unset {name}")


def _user_namespaces(site: Site) -> Iterator[Finding]:
    if _is_setuid(site):
        yield Finding(OK, "user namespaces", "not needed: the runtime is installed setuid root")
        return
    tool = shutil.which("unshare")
    status, said = ask([tool, "--user", "--map-root-user", "true"]) if tool else (0, "")
    if not tool:
        yield Finding(NOTE, "user namespaces", "not tested: there is no command unshare")
    elif status == 0:
        yield Finding(OK, "user namespaces", "an ordinary user can create them")
    else:
        yield Finding(
            PROBLEM,
            "user namespaces",
            f"they can't be created: {said}",
            "the runtime is not setuid root, so containers do not start",
            "ask an administrator to allow them (user.max_user_namespaces, kernel.unprivileged_userns_clone, on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns), or to install apptainer-suid",
        )


def _fuse(site: Site) -> Iterator[Finding]:
    device = Path("/dev/fuse")
    if os.access(device, os.R_OK | os.W_OK):
        yield Finding(OK, "FUSE", f"{device} can be used")
    elif _is_setuid(site):
        yield Finding(NOTE, "FUSE", f"{device} can't be used; the setuid runtime mounts with the kernel")
    else:
        yield Finding(
            PROBLEM,
            "FUSE",
            f"{device} does not exist, or you may not use it",
            "images are unpacked at every start instead of mounted, and packed user software can't be mounted at all",
            "ask an administrator to load the kernel's fuse module and to make the device usable for all",
        )


def _is_setuid(site: Site) -> bool:
    try:
        return not makes_user_namespaces(find_runtime(site))
    except RuntimeMissingError:
        return False


def _modules(environ: Mapping[str, str]) -> Iterator[Finding]:
    lmod = environ.get("LMOD_VERSION", "")
    tcl = environ.get("MODULES_CMD", "")
    if lmod and _order(lmod) < _order(_OLDEST_LMOD):
        what = f"Lmod {lmod} is too old: {_OLDEST_LMOD} or later is required, 8.6 and 8.7 are tested"
        yield Finding(PROBLEM, "modules", what, "modules of containers do not load", "update Lmod")
    elif lmod:
        yield Finding(OK, "modules", f"Lmod {lmod}")
    elif tcl:
        status, said = ask([tcl, "--version"] if os.access(tcl, os.X_OK) else ["tclsh", tcl, "--version"])
        found = re.search(r"Release (\d+(\.\d+)+)", said)
        if status == 0 and found and _order(found[1]) >= _order("5.0"):
            why = "EasyBuild must write modules in Tcl for it"
            yield Finding(OK, "modules", f"Environment Modules {found[1]}", why, "eb --module-syntax=Tcl")
        else:
            what = f"Environment Modules {found[1] if found else 'of unknown version'}: 5.0 or later is required"
            yield Finding(PROBLEM, "modules", what, "modules of containers do not load", "update it, or use Lmod")
    else:
        what = "neither Lmod nor Environment Modules is set up in this shell"
        yield Finding(
            WARNING, "modules", what, "modules can't be loaded here", "start a login shell, or source its init file"
        )


def _module_tree(space: SoftwareSpace, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Say if the modules that are installed here can't be loaded in this shell; a hierarchy has folders of the tree."""
    if not (environ.get("LMOD_VERSION") or environ.get("MODULES_CMD")):
        return
    tree = space.modules / space.suffix
    folders = (os.path.realpath(path) for path in environ.get("MODULEPATH", "").split(":") if path)
    top = os.path.realpath(tree)
    if not any(folder == top or folder.startswith(f"{top}/") for folder in folders):
        what, why = f"'{tree}' is not in MODULEPATH", "module load does not find what eb installs"
        yield Finding(WARNING, "MODULEPATH", what, why, f"module use {quoting.shell(tree)}")


def _shells(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look whether scripts that this shell starts know the command `module`: they read no init file of a login."""
    home = environ.get("LMOD_PKG") or environ.get("MODULESHOME")
    if not home:
        return
    for shell in filter(shutil.which, ("bash", "sh")):
        if not ask([shell, "-c", "command -v module"])[0]:
            continue
        what = f"scripts that begin with #!/bin/{shell} do not know the command module"
        yield Finding(
            NOTE, "modules", what, "in them no module is loaded", f"let them begin with: . {home}/init/{shell}"
        )


def _easybuild(environ: Mapping[str, str]) -> Iterator[Finding]:
    found = environ.get("EBVERSIONEASYBUILD", "")
    if not found:
        try:
            found = version("easybuild-framework")
        except PackageNotFoundError:
            found = ""
    if not shutil.which("eb"):
        what, why = "there is no command eb on PATH", "nothing can be installed from this shell"
        yield Finding(WARNING, "EasyBuild", what, why, "load EasyBuild's module, or activate its environment")
    elif found and _order(found) < _order(_OLDEST_EASYBUILD):
        what = f"EasyBuild {found} is too old: {_OLDEST_EASYBUILD} or later is required"
        yield Finding(PROBLEM, "EasyBuild", what, "its easyblock API differs", "update EasyBuild")
    else:
        yield Finding(OK, "EasyBuild", f"{found or 'of unknown version'}, {shutil.which('eb')}")
        yield _easyconfigs()


def _easyconfigs() -> Finding:
    """Ask the `eb` on PATH for an easyconfig of sifmod: only EasyBuild knows where it looks.

    A dry run reads robot path, index, easyconfig, easyblock and sifmod's library as an install does.
    """
    # not in the current directory, where eb looks first; with Rich it would break the path at the width of a terminal
    status, said = ask(["eb", "--dry-run", DEMO_EASYCONFIG, "--output-style=basic"], directory=Path("/"))
    topic, asked = "easyconfigs", f"eb --dry-run {DEMO_EASYCONFIG}"
    if status == 0 and DEMO_EASYCONFIG in said:
        return Finding(OK, topic, f"eb finds sifmod's easyconfigs, such as {DEMO_EASYCONFIG}")
    errors = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()
    error = errors[-1] if errors else "it prints nothing"
    why = "eb can't install containers by the names of sifmod's easyconfigs"
    remedy = f"fix what EasyBuild reports, then try again: {asked}"
    if re.search(r"not found|ContainerImage|sifmod", error):
        remedy = (
            "if EasyBuild and sifmod are in different environments, load sifmod's module or run: "
            'eval "$(sifmod env)"; if they share one, reinstall sifmod'
        )
    return Finding(WARNING, topic, f"'{asked}' fails: {error}", why, remedy)


def _places(site: Site, space: SoftwareSpace, image_size: int) -> Iterator[Finding]:
    """Check space, inodes and quota in the folders that installing, pulling and packing write to."""
    environ = os.environ
    home = environ.get("HOME", "/")
    temporary = site.runtime_tmpdir or environ.get("APPTAINER_TMPDIR") or environ.get("SINGULARITY_TMPDIR")
    cache = site.runtime_cachedir or environ.get("APPTAINER_CACHEDIR") or environ.get("SINGULARITY_CACHEDIR")
    image = image_size or 10**9
    # needed: the image, and a packed file beside its directory; layers, and the image made of them
    places = {
        "install and packing": (space.software, image + 10**9),
        "source path": (source_paths()[0], image),
        "runtime's temporary folder": (Path(temporary or environ.get("TMPDIR") or "/tmp"), 3 * image),  # noqa: S108 - the runtime's own default
        "runtime's cache": (Path(cache or f"{home}/.apptainer/cache"), 2 * image),
    }
    for purpose, (path, needed) in places.items():
        yield from _place(purpose, path, needed)
    yield from _quota(space.software)


def _place(purpose: str, path: Path, needed: int) -> Iterator[Finding]:
    there = nearest(path)
    topic = f"space: {purpose}"
    if not os.access(there, os.W_OK | os.X_OK):
        severity = WARNING if purpose != "install and packing" else PROBLEM
        yield Finding(
            severity, topic, f"you may not write to '{there}'", f"{purpose} fails", "name a folder of your own"
        )
        return
    try:
        free, inodes = shutil.disk_usage(there).free, free_inodes(there)
    except OSError as error:
        yield Finding(WARNING, topic, f"can't query '{there}': {error.strerror}")
        return
    if free < needed:
        what = f"{size_text(free)} free in '{there}', and {size_text(needed)} may be needed"
        yield Finding(
            WARNING, topic, what, f"{purpose}: an install may fail half way", "make room, or name another folder"
        )
    elif inodes is not None and inodes < FEW_INODES:
        what = f"only {counted(inodes, 'inode')} free in '{there}'"
        yield Finding(
            WARNING, topic, what, "a virtual environment needs tens of thousands", "pack user software, or make room"
        )
    else:
        yield Finding(OK, topic, f"{size_text(free)} free in '{there}'")


def _quota(path: Path) -> Iterator[Finding]:
    """Query the quota tools on this host; limits that they don't report are ignored."""
    there = nearest(path)
    remedy = "remove what is not needed (sifmod list, sifmod remove), pack user software, or ask for more"
    if shutil.which("lfs"):
        for whose, option, number in _owners(there):
            _status, said = ask(["lfs", "quota", "-q", option, number, str(there)])
            limits = _LIMITS.search(said)
            if not limits:
                continue
            for what, (used, soft, hard) in (("kB", limits.groups()[:3]), ("files", limits.groups()[3:])):
                most = int(hard) or int(soft)
                if most and int(used) > _FULL * most:
                    seen = f"{used} of {most} {what} of the {whose} quota are used in '{there}'"
                    yield Finding(WARNING, "quota", seen, "an install or pip may fail half way", remedy)
    if shutil.which("quota"):
        _status, said = ask(["quota", "-q"])
        # a centre's own command of this name may print a table of anything
        if said.startswith("Disk quotas for ") and "none" not in said.lower():
            yield Finding(
                WARNING,
                "quota",
                f"{shutil.which('quota')} says: {' '.join(said.split())}",
                "an install or pip may fail half way",
                remedy,
            )


def _owners(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the owners whose Lustre quotas apply to new files of a folder: kind, option of `lfs quota`, ID."""
    yield "user", "-u", str(os.getuid())
    status = folder.stat()
    yield "group", "-g", str(status.st_gid if status.st_mode & stat.S_ISGID else os.getgid())
    _status, said = ask(["lfs", "project", "-d", str(folder)])
    project = re.match(r"\s*([1-9]\d*) ", said)
    if project:
        yield "project", "-p", project[1]


def _order(text: str) -> Version:
    return version_order(re.sub(r"[^0-9.].*", "", text))
