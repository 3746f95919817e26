"""Check whether the site's runtimes that start no SIFs, and their plugins of Slurm, can work on this host."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sifmod.container.runtime import Plugin, Runtime
from sifmod.doctor.site import mount_point, nearest
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask
from sifmod.site.settings import Site
from sifmod.text.size import size_text
from sifmod.text.version import version_order

_KERNEL = Path("/proc/sys")
_MOUNTINFO = Path("/proc/self/mountinfo")

# File systems that several nodes share.
_SHARED = re.compile(
    r"afs|beegfs.*|ceph|cifs|fuse\.(ceph|glusterfs|sshfs|quobyte).*|fhgfs|gfs2|glusterfs|gpfs|lustre|nfs4?|ocfs2|"
    r"orangefs|panfs|pvfs2|smb3?|wekafs"
)


def check_squashfs_runtimes(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on the site's runtimes that start no SIFs; none if it has only the one for SIFs."""
    for one in site.squashfs_runtimes:
        yield _release(one, is_first=one.key == site.runtimes[0])
        yield from _kernel(one)
        yield from _tools(one)
        for name, (default, needed) in one.folders.items():
            yield _folder(one, name, default, needed, environ)
        if one.plugin:
            yield from _plugin(one.plugin)


def _release(runtime: Runtime, *, is_first: bool) -> Finding:
    topic, oldest = runtime.name, runtime.oldest.get(runtime.key, "")
    command = next(filter(shutil.which, runtime.commands), "")
    if not command:
        what = f"there is no command {' or '.join(runtime.commands)} on PATH"
        why = "wrappers on this node need another runtime"
        if runtime.plugin:
            why += f"; jobs with {runtime.plugin.name} use the {runtime.name} of their nodes"
        return Finding(WARNING if is_first else NOTE, topic, what, why, "load its module, or install it")
    status, said = ask([command, "version"])
    if status or not re.match(r"\d+(\.\d+)+", said):
        why = "no container starts with it"
        return Finding(PROBLEM, topic, f"'{command} version' fails: {said.splitlines()[-1] if said else ''}", why)
    if version_order(said) < version_order(oldest):
        why = f"modules are written for {runtime.tested}, and older releases read mounts and variables otherwise"
        return Finding(WARNING, topic, f"{topic} {said} is older than {oldest}", why, f"update {topic}")
    return Finding(OK, topic, f"{topic} {said}")


def _kernel(runtime: Runtime) -> Iterator[Finding]:
    topic, why = "user namespaces", f"{runtime.name} can't make containers"
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
            f"ask an administrator for {runtime.name}'s AppArmor profile, or to set it to 0",
        )


def _setting(key: str) -> str:
    """Return a setting of the kernel; empty if this kernel does not have it."""
    try:
        return (_KERNEL / key).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _tools(runtime: Runtime) -> Iterator[Finding]:
    for tool, why in runtime.tools.items():
        path = shutil.which(tool)
        if path:
            yield Finding(OK, tool, path)
        else:
            yield Finding(WARNING, tool, f"there is no command {tool} on PATH", why, f"install {tool} on the nodes")


def _folder(runtime: Runtime, name: str, default: str, needed: int, environ: Mapping[str, str]) -> Finding:
    text = environ.get(name) or _configured(name, runtime.configuration) or default
    path = _expanded(text, environ)
    if not path.startswith("/") or "$" in path:
        return Finding(NOTE, name, f"'{text}' can't be resolved here, so it is not checked")
    there = nearest(Path(path))
    kind = _file_system(there)
    free = shutil.disk_usage(there).free
    if _SHARED.fullmatch(kind):
        why = "nodes must not share it: containers of one node damage those of another"
        file = Path(runtime.configuration).name
        remedy = f"ask an administrator to set {name} in {file} to a folder on a local disk, or set it yourself"
        return Finding(WARNING, name, f"'{path}' is on a shared file system, {kind}", why, remedy)
    if free < needed:
        what = f"{size_text(free)} free in '{there}', and {size_text(needed)} may be needed"
        return Finding(WARNING, name, what, f"{runtime.name} fails when it is full", f"make room, or set {name}")
    return Finding(OK, name, f"{path}: {kind or 'unknown file system'}, {size_text(free)} free")


def _configured(name: str, configuration: str) -> str:
    try:
        text = Path(configuration).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"(?m)^{name}[ \t=]+(.*?)[ \t]*$", text)
    return found[1].strip("\"'") if found else ""


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """Return a path of a configuration, which a shell evaluates, with variables and the user's ID replaced."""
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
        target = mount_point(fields.split()[4])
        if f"{real}/".startswith(target.rstrip("/") + "/") and len(target) >= len(best):
            best, kind = target, others.split()[0]
    return kind


def _plugin(plugin: Plugin) -> Iterator[Finding]:
    if not shutil.which("srun"):
        return
    _status, said = ask(["srun", "--help"])
    name, (image, mounts) = plugin.name, plugin.options
    if image not in said:
        what, why = f"srun has no option {image}", f"jobs of 'sifmod sbatch --{name}' end before they start"
        yield Finding(WARNING, name, what, why, f"ask an administrator to load {name} in Slurm's plugstack.conf")
    elif mounts not in said:
        what, why = f"srun has no option {mounts}", "containers would lack the module's bind paths"
        yield Finding(PROBLEM, name, what, why, f"ask an administrator to update {name}: {plugin.tested} was tested")
    else:
        yield Finding(OK, name, f"srun has its options {image} and {mounts}")
