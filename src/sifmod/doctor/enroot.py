"""Check whether enroot and its Slurm plugin pyxis can work on this host, at sites that have them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sifmod import names
from sifmod.doctor.site import nearest
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask
from sifmod.site.settings import Site
from sifmod.text.size import size_text
from sifmod.text.version import version_order

_TOPIC, _PYXIS = "enroot", "pyxis"
_OLDEST = "4.0"  # 4.1.2 was run with images from SIFs

_KERNEL = Path("/proc/sys")
_MOUNTINFO = Path("/proc/self/mountinfo")
_CONFIGURATION = Path("/etc/enroot/enroot.conf")

# File systems that several nodes share.
_SHARED = re.compile(
    r"afs|beegfs.*|ceph|cifs|fuse\.(ceph|glusterfs|sshfs|quobyte).*|fhgfs|gfs2|glusterfs|gpfs|lustre|nfs4?|ocfs2|"
    r"orangefs|panfs|pvfs2|smb3?|wekafs"
)
# enroot.in, config::export: each with its default and the free space that it may need: an unpacked image, or its layers
_FOLDERS = {
    "ENROOT_RUNTIME_PATH": ("${XDG_RUNTIME_DIR}/enroot", 10**6),
    "ENROOT_CACHE_PATH": ("${XDG_CACHE_HOME}/enroot", 10**10),
    "ENROOT_DATA_PATH": ("${XDG_DATA_HOME}/enroot", 3 * 10**10),
}


def check_enroot(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on enroot and pyxis; none if the site does not name enroot.

    Args:
        site: the settings of the cluster.
        environ: the environment of the user.
    """
    if not site.has_enroot:
        return
    yield _enroot(site)
    yield from _kernel()
    yield from _tools()
    for name, (default, needed) in _FOLDERS.items():
        yield _folder(name, default, needed, environ)
    yield from _pyxis()


def _enroot(site: Site) -> Finding:
    if not shutil.which(names.ENROOT):
        why = "wrappers on this node need another runtime; jobs with pyxis use the enroot of their nodes"
        severity = WARNING if site.prefers_enroot else NOTE
        return Finding(severity, _TOPIC, "there is no command enroot on PATH", why, "load its module, or install it")
    status, said = ask([names.ENROOT, "version"])
    if status or not re.match(r"\d+(\.\d+)+", said):
        why = "no container starts with it"
        return Finding(PROBLEM, _TOPIC, f"'enroot version' fails: {said.splitlines()[-1] if said else ''}", why)
    if version_order(said) < version_order(_OLDEST):
        why = "modules are written for 4.1.2, and older releases read mounts and variables otherwise"
        return Finding(WARNING, _TOPIC, f"enroot {said} is older than {_OLDEST}", why, "update enroot")
    return Finding(OK, _TOPIC, f"enroot {said}")


def _kernel() -> Iterator[Finding]:
    topic, why = "user namespaces", "enroot can't make containers"
    for key in ("kernel/unprivileged_userns_clone", "user/max_user_namespaces"):
        name = key.replace("/", ".")
        if _setting(key) == "0":
            yield Finding(PROBLEM, topic, f"{name} is 0", why, f"ask an administrator to set {name}")
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        yield Finding(
            WARNING,
            topic,
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            f"{why}, unless AppArmor has a profile for it",
            "ask an administrator for enroot's AppArmor profile, or to set it to 0",
        )


def _setting(key: str) -> str:
    """Return a setting of the kernel; empty if this kernel does not have it."""
    try:
        return (_KERNEL / key).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _tools() -> Iterator[Finding]:
    for tool, why in (
        ("squashfuse", "enroot can't start an image without unpacking it, and packed user software can't be mounted"),
        ("fuse-overlayfs", "enroot needs it to start an image without unpacking it, unless the kernel's is enabled"),
    ):
        path = shutil.which(tool)
        if path:
            yield Finding(OK, tool, path)
        else:
            yield Finding(WARNING, tool, f"there is no command {tool} on PATH", why, f"install {tool} on the nodes")


def _folder(name: str, default: str, needed: int, environ: Mapping[str, str]) -> Finding:
    text = environ.get(name) or _configured(name) or default
    path = _expanded(text, environ)
    if not path.startswith("/") or "$" in path:
        return Finding(NOTE, name, f"'{text}' can't be resolved here, so it is not checked")
    there = nearest(Path(path))
    kind = _file_system(there)
    free = shutil.disk_usage(there).free
    if _SHARED.fullmatch(kind):
        why = "nodes must not share it: containers of one node damage those of another"
        remedy = f"ask an administrator to set {name} in enroot.conf to a folder on a local disk, or set it yourself"
        return Finding(WARNING, name, f"'{path}' is on a shared file system, {kind}", why, remedy)
    if free < needed:
        what = f"{size_text(free)} free in '{there}', and {size_text(needed)} may be needed"
        return Finding(WARNING, name, what, "enroot fails when it is full", f"make room, or set {name}")
    return Finding(OK, name, f"{path}: {kind or 'unknown file system'}, {size_text(free)} free")


def _configured(name: str) -> str:
    try:
        text = _CONFIGURATION.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"(?m)^{name}[ \t=]+(.*?)[ \t]*$", text)
    return found[1].strip("\"'") if found else ""


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """Return a path of enroot's configuration, which a shell evaluates, with variables and the user's ID replaced."""
    home = environ.get("HOME", "")
    usual = {
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_RUNTIME_DIR": "/run",
        "UID": str(os.getuid()),
        "EUID": str(os.geteuid()),
    }
    variables = {**usual, **environ}
    text = re.sub(r"\$\(id -u\)", str(os.getuid()), text)
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], found[0]), text)


def _file_system(path: Path) -> str:
    """Return the type of the file system of a path, as the kernel names it; empty if it can't be told."""
    best, kind = "", ""
    try:
        lines = _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        real = str(path.resolve())
    except (OSError, RuntimeError):
        return ""
    for line in lines:
        fields, _, others = line.partition(" - ")
        target = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split()[4])
        if f"{real}/".startswith(target.rstrip("/") + "/") and len(target) >= len(best):
            best, kind = target, others.split()[0]
    return kind


def _pyxis() -> Iterator[Finding]:
    if not shutil.which("srun"):
        return
    _status, said = ask(["srun", "--help"])
    if "--container-image" not in said:
        what, why = "srun has no option --container-image", "jobs of 'sifmod sbatch --pyxis' end before they start"
        yield Finding(WARNING, _PYXIS, what, why, "ask an administrator to load pyxis in Slurm's plugstack.conf")
    elif "--container-mounts" not in said:
        what, why = "srun has no option --container-mounts", "containers would lack the module's bind paths"
        yield Finding(PROBLEM, _PYXIS, what, why, "ask an administrator to update pyxis: 0.24 was tested")
    else:
        yield Finding(OK, _PYXIS, "srun has its options --container-image and --container-mounts")
