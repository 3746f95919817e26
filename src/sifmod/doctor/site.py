"""Check a site's settings against this host: what exists, what is missing, and what that means."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Optional

from sifmod import names
from sifmod.container.bind import Bind, is_bindable
from sifmod.errors import CommandError, RuntimeMissingError, SiteError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask, run
from sifmod.host.features import bound, feature_states
from sifmod.host.files import content_of
from sifmod.host.owners import problem_of_way
from sifmod.host.runtime import find_runtime
from sifmod.site import cache
from sifmod.site.advisories import load_advisories
from sifmod.site.feature import conflicts
from sifmod.site.server import load_servers
from sifmod.site.settings import Settings, Site
from sifmod.text import quoting
from sifmod.text.printable import few
from sifmod.text.size import counted, size_text

_TIMEOUT = 20  # seconds that Slurm's controller may take to answer

_INTERFACES = Path("/sys/class/net")

# Types of file systems that a cluster has for data, as /proc/mounts and the first field of FUSE's name them.
_LARGE = frozenset({"beegfs", "ceph", "cvmfs2", "gpfs", "lustre", "nfs", "nfs4", "panfs", "pvfs2", "wekafs"})
_MOUNTS = Path("/proc/self/mounts")
_MOST_MOUNTS = 8
# Folders that an image has itself.
_OF_IMAGES = re.compile(r"/(|(bin|boot|etc|lib\d*|opt|run|root|sbin|usr|var)(/.*)?)")


def check_site(settings: Settings) -> tuple[Finding, ...]:
    """Return the findings on a site's settings on this host; the topic is the key, or `squashfs-tools`.

    What is missing here, but is not needed on every host, is a note.
    """
    site = settings.site
    findings = (
        *_runtime(site),
        *_binds(site),
        *_unseen(site, os.environ),
        *_features(settings),
        *_repositories(site),
        *_folders(site),
        *_cache(site),
        *_signatures(site),
        *_squashfs_tools(site),
        *_cpu_masks(site),
        *_slurm(site),
        *_paths_of_variables(site),
        *_network(site),
        *_advisories(site),
        *_servers(site),
    )
    return tuple(_with_origin(finding, settings) for finding in findings)


def _with_origin(finding: Finding, settings: Settings) -> Finding:
    """Return a finding with the origin of its key, or of the first one in its table; as it is if it has an origin."""
    below = f"{finding.topic}."
    keys = (key for key in settings.origins if key == finding.topic or key.startswith(below))
    return replace(finding, origin=finding.origin or str(settings.origins.get(next(keys, ""), "")))


def _runtime(site: Site) -> Iterator[Finding]:
    try:
        runtime = find_runtime(site)
    except RuntimeMissingError as error:
        what = ", ".join(site.runtime_commands)
        other = next((one for one in site.squashfs_runtimes if any(map(shutil.which, one.commands))), None)
        if other:
            why = f"{other.name} runs what eb does, but eb can't pull or build images, nor verify signatures"
            yield Finding(NOTE, "runtime", f"none of {what} on PATH", why, "install SIFs that are named in sources")
        else:
            yield Finding(PROBLEM, "runtime", what, str(error))
        return
    version = runtime.version
    if version:
        yield Finding(OK, "runtime", f"{runtime.path}: {version}")
    else:
        yield Finding(
            PROBLEM,
            "runtime",
            str(runtime.path),
            "it does not run, so no container can start",
            f"see what '{runtime.path} --version' prints, and fix that or name another command",
        )


def _binds(site: Site) -> Iterator[Finding]:
    for bind in site.binds:
        if os.access(bind.source, os.F_OK):
            yield Finding(OK, "binds", bind.source)
        else:
            yield Finding(
                PROBLEM,
                "binds",
                bind.source,
                "does not exist on this host, so no container starts here",
                "correct it, or move it to optional_binds",
            )
    for bind in site.optional_binds:
        if os.access(bind.source, os.F_OK):
            yield Finding(OK, "optional_binds", bind.source)
        else:
            yield Finding(NOTE, "optional_binds", bind.source, "not on this host: containers start without it here")


def mount_point(field: str) -> str:
    """Return the path in a field of the kernel's tables of mounts, where white space is octal numbers (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)


def _unseen(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Name the large file systems of this host of which containers see nothing."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    inner = [_container_home(environ), *(bind.source for bind in (*site.binds, *site.optional_binds))]
    inner += [path for one in site.feature.values() for bind in one.binds for path in bound(bind)]
    found: dict[str, str] = {}
    for device, place, kind, *_more in filter(lambda fields: len(fields) > 2, map(str.split, lines)):
        path = Path(mount_point(place))
        is_known = is_seen(path, site, environ) or any(Path(one).is_relative_to(path) for one in inner if one)
        if {device, kind} & _LARGE and not is_known and not _OF_IMAGES.fullmatch(str(path)):
            found[str(path)] = device if device in _LARGE else kind
    if found:
        shown = [f"{path} ({kind})" for path, kind in sorted(found.items())]
        what = f"no bind path has anything of {few(shown, _MOST_MOUNTS)}"
        remedy = "add to optional_binds what users may need, or: export APPTAINER_BIND=FOLDER"
        yield Finding(NOTE, "optional_binds", what, "containers do not see the files there", remedy)


def _features(settings: Settings) -> Iterator[Finding]:
    site = settings.site
    states = feature_states(site)
    here = [state.feature for state in states if state.feature.name in site.default_features and not state.why_not]
    for first, second in conflicts(here):
        yield Finding(
            PROBLEM,
            "default_features",
            f"'{first.name}' and '{second.name}' conflict, and both apply on this host",
            "no module loads here",
            "remove one from default_features, or limit one of them with gpu, hosts, partitions or exists to other "
            "nodes",
        )
    for state in states:
        feature = state.feature
        topic = f"feature.{feature.name}"
        title = feature.help or "without help"
        if state.why_not:
            nodes = f"it applies on nodes {feature.condition}"
            yield Finding(NOTE, topic, title, f"not used on this host, because {state.why_not}: {nodes}")
            continue
        for source in state.missing:
            yield Finding(
                PROBLEM if feature.name in site.default_features else WARNING,
                topic,
                source,
                "does not exist on this host: commands with the feature do not start here, modules load without it",
                "correct it, move it to optional_binds, or limit the feature with gpu, hosts, partitions or exists to "
                "nodes that have it",
                str(settings.origins.get(f"{topic}.binds", "")),
            )
        if not state.missing:
            count = sum(len(bound(bind)) for bind in (*feature.binds, *feature.optional_binds))
            use = "by default" if feature.name in site.default_features else "if asked for"
            yield Finding(OK, topic, f"{title}: used here {use}, with {counted(count, 'bind path')}")


def _repositories(site: Site) -> Iterator[Finding]:
    for repository in site.image_repositories:
        if not os.path.isdir(repository):  # noqa: PTH112 - without an error where a folder above is not ours
            yield Finding(
                PROBLEM,
                "image_repositories",
                repository,
                "no such directory on this host: images there can't be installed, nor replace a missing copy",
                "correct it, or check on a host that has it",
            )
        elif not os.access(repository, os.R_OK | os.X_OK):
            yield Finding(
                PROBLEM,
                "image_repositories",
                repository,
                "you may not read it",
                site.ask_owner,
            )
        else:
            count = sum(1 for path in Path(repository).iterdir() if path.suffix == ".sif")
            yield Finding(OK, "image_repositories", f"{repository}: {count} image{'s' if count != 1 else ''}")


def _folders(site: Site) -> Iterator[Finding]:
    for key in ("runtime_tmpdir", "runtime_cachedir"):
        folder = getattr(site, key)
        if not folder:
            continue
        # the runtime creates the cache
        there = str(nearest(Path(folder))) if key == "runtime_cachedir" else folder
        if not os.path.isdir(there):  # noqa: PTH112 - likewise
            why, remedy = "no such directory on this host: pulling and building fail here", "create or correct it"
        elif not os.access(there, os.W_OK | os.X_OK):
            why, remedy = "you may not write to it: pulling and building fail here", "name a folder of your own"
        else:
            yield Finding(OK, key, f"{folder}: {size_text(shutil.disk_usage(there).free)} free")
            continue
        yield Finding(PROBLEM, key, folder, why, remedy)


def nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that this user can see."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))  # noqa: PTH110 - without an error where a folder above is not ours


def _cache(site: Site) -> Iterator[Finding]:
    root = site.cache.get(cache.ROOT, "")
    if not root:
        if any(site.cache.values()):
            why = "variables have folders, but there is no root: programs use their defaults"
            yield Finding(WARNING, "cache", "root", why, "set root in the table [cache]")
        return
    topic = f"cache.{cache.ROOT}"
    try:
        path = Path(cache.resolve(root, os.environ))
    except ValueError as error:
        why = f"{error}: here programs use their defaults"
        yield Finding(NOTE, topic, root, why, "check it in a job")
        return
    there = nearest(path)
    problem = next(filter(None, map(problem_of_way, cache.folders(path, site.cache))), "")
    if not problem and not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        problem = f"'{path}' {cache.UNUSABLE}"
    if problem:
        why = f"{problem}: here programs use their defaults"
        yield Finding(PROBLEM, topic, root, why, "name a folder of each user's own, such as one with ${USER}")
        return
    if is_seen(path, site, os.environ):
        free = size_text(shutil.disk_usage(there).free)
        yield Finding(OK, topic, f"{path}: {free} free")
    else:
        why = f"no bind path contains '{path}', so programs in a container can't create it"
        yield Finding(WARNING, topic, root, why, "add its file system to optional_binds")


def _container_home(environ: Mapping[str, str]) -> str:
    """Return the home of containers: the user's choice for the runtime, else the user database's, whatever HOME is."""
    chosen = environ.get("APPTAINER_HOME") or environ.get("SINGULARITY_HOME")
    if chosen:
        return chosen.rpartition(":")[2]
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a node that does not know the user
        return environ.get("HOME", "")


def is_seen(path: Path, site: Site, environ: Mapping[str, str]) -> bool:
    """Return whether the containers of a site see a path of the host under the same name."""
    folders = [_container_home(environ), *names.MOUNTED_ANYWAY]
    folders += [bind.source for bind in (*site.binds, *site.optional_binds) if bind.source == bind.destination]
    return any(folder and path.is_relative_to(folder) for folder in folders)


def _bind_variable(environ: Mapping[str, str]) -> str:
    return "APPTAINER_BIND" if shutil.which("apptainer") or "APPTAINER_BIND" in environ else "SINGULARITY_BIND"


def with_binds(site: Site, binds: Sequence[str], environ: Mapping[str, str]) -> Site:
    """Return a site with the bind paths of an installation and of the user, and the working directory, too."""
    inner = [Bind(str(Path.cwd()), str(Path.cwd()))]
    for text in (environ.get(_bind_variable(environ), ""), *(one.partition(", if ")[0] for one in binds)):
        with contextlib.suppress(ValueError):  # sifmod's own, and what the runtime will refuse
            inner += Bind.parse_list(text)
    return replace(site, binds=(*site.binds, *inner))


@dataclass(frozen=True)
class Unseen:
    """A path of this host that containers lack, and the command that binds it too."""

    path: Path
    way: str
    target: Path  # where it leads through a link


def unseen(words: Sequence[str], binds: Sequence[str], site: Site, environ: Mapping[str, str]) -> Optional[Unseen]:
    """Return the first path in the words of a command that this host has and a container lacks.

    Commands on the node have a simpler rule (wrappers/share/paths.sh), because they look at each start.

    Args:
        words: the words; of an option the value counts.
        binds: the bind paths of the installation, as `Installation.binds` has them.
        site: the settings of the cluster.
        environ: the environment of the user.
    """
    variable = _bind_variable(environ)
    given = environ.get(variable, "")
    working = Path.cwd()
    here = with_binds(site, binds, environ)
    links = [_container_home(environ), *(bind.source for bind in here.binds if bind.source == bind.destination)]
    behind = replace(
        here, binds=(*here.binds, *(Bind(path, path) for path in map(os.path.realpath, filter(None, links))))
    )
    for word in words:
        path = Path(os.path.normpath(working / (word.partition("=")[2] if word.startswith("-") else word)))
        target = path
        if is_seen(path, here, environ):
            target = Path(os.path.realpath(path))
        is_own = len(target.parts) > 2 and not _OF_IMAGES.fullmatch(str(path)) and not _OF_IMAGES.fullmatch(str(target))
        if is_own and os.path.exists(target) and not is_seen(target, behind, environ):  # noqa: PTH110 - without an error where a folder above is not ours
            folder = target if target.is_dir() else target.parent
            while not is_bindable(str(folder)) or set(str(folder)) & {",", ":"}:
                folder = folder.parent
            value = ",".join(filter(None, (given, str(folder))))
            return Unseen(path, f"export {variable}={quoting.shell(value)}", target)
    return None


def _signatures(site: Site) -> Iterator[Finding]:
    if not site.signature_key:
        return
    try:
        is_pem = content_of(Path(site.signature_key)).lstrip().startswith(b"-----BEGIN PUBLIC KEY-----")
    except OSError as error:
        why = f"can't be read ({error.strerror}): every signature is refused"
        yield Finding(PROBLEM, "signature_key", site.signature_key, why, "correct the path or its permissions")
        return
    if is_pem:
        yield Finding(OK, "signature_key", site.signature_key)
    else:
        why = "is not a public key in PEM format: every signature is refused"
        yield Finding(PROBLEM, "signature_key", site.signature_key, why, "export the key with: openssl pkey -pubout")


def _squashfs_tools(site: Site) -> Iterator[Finding]:
    for tool, command in (("mksquashfs", "make-squashfs"), ("unsquashfs", "unmake-squashfs")):
        path = shutil.which(tool)
        if path:
            yield Finding(OK, "squashfs-tools", path)
        else:
            yield Finding(
                WARNING,  # packing can be done on another host
                "squashfs-tools",
                tool,
                f"no such command on PATH: {command} does not work on this host",
                "install squashfs-tools, or tell users on which hosts to pack",
            )
    known = _compressors()
    if known and site.pack_compressor in known:
        yield Finding(OK, "pack_compressor", site.pack_compressor)
    elif known:
        yield Finding(
            PROBLEM,
            "pack_compressor",
            site.pack_compressor,
            "mksquashfs on this host was built without it: make-squashfs uses gzip instead",
            f"choose another: {', '.join(sorted(known))}",
        )


def _compressors() -> set[str]:
    """Return what mksquashfs lists below "Compressors available"; empty if it lists nothing there."""
    tool = shutil.which("mksquashfs")
    if not tool:
        return set()
    listed: set[str] = set()
    for option in ("-help-all", "-help"):  # since 4.6 the second is a summary; older releases have only the second
        _status, said = ask([tool, option])
        for block in re.findall(r"Compressors available[^\n]*\n((?:[ \t]+[^\n]*\n)+)", f"{said}\n"):
            listed.update(re.findall(r"^[ \t]+([a-z0-9]+)\b", block, re.MULTILINE))
    return listed & {"gzip", "lzo", "lz4", "xz", "zstd", "lzma"}


def _cpu_masks(site: Site) -> Iterator[Finding]:
    if not site.cpu_bind_masks:
        return
    needed = max(int(mask, 16).bit_length() for mask in site.cpu_bind_masks)
    here = os.cpu_count() or 1
    what = f"{len(site.cpu_bind_masks)} masks"
    if needed <= here:
        yield Finding(OK, "cpu_bind_masks", f"{what}: CPUs up to {needed - 1}, and this host has {here}")
    else:
        why = f"CPUs up to {needed - 1}, and this host has {here}: it is not a GPU node of the site, or they are wrong"
        yield Finding(NOTE, "cpu_bind_masks", what, why)


def _slurm(site: Site) -> Iterator[Finding]:
    if not site.slurm_partition:
        return
    problem = ""
    try:
        done = run(["sinfo", "--noheader", "--format=%R %D"], time_limit=_TIMEOUT)
        if done.status:
            problem = done.last_lines.splitlines()[0]
    except CommandError as error:
        problem = str(error)
    wanted = site.slurm_partition
    for vendor, name in {"": wanted}.items() if isinstance(wanted, str) else wanted.items():
        topic = f"slurm_partition.{vendor}" if vendor else "slurm_partition"
        if problem:
            yield Finding(NOTE, topic, name, f"can't query Slurm on this host: {problem}")
            continue
        nodes: dict[str, int] = {}
        for partition, count in re.findall(r"^(\S+) +(\d+)$", done.stdout, re.MULTILINE):
            nodes[partition] = nodes.get(partition, 0) + int(count)
        if nodes.get(name):
            yield Finding(OK, topic, name)
        elif name in nodes:
            why = "the partition has no node: jobs for it wait for ever"
            yield Finding(PROBLEM, topic, name, why, "correct it, or leave it out")
        else:
            why = "Slurm has no such partition: jobs for it are refused"
            yield Finding(PROBLEM, topic, name, why, f"choose one of {', '.join(nodes)}")


def _paths_of_variables(site: Site) -> Iterator[Finding]:
    """Look for the paths that variables of containers name, as far as a bind path of the site contains them."""
    binds = sorted((*site.binds, *site.optional_binds), key=lambda bind: len(bind.destination), reverse=True)
    for name, value in site.container_env.items():
        for path in re.findall(r"(?:^|:)(/[^:$*?]+)(?=:|$)", value or ""):
            folder = next((one for one in binds if PurePosixPath(path).is_relative_to(one.destination)), None)
            if folder is None:
                why = "no bind path of the site contains it, so each image must have it"
                yield Finding(NOTE, f"container_env.{name}", path, why)
            elif not os.path.lexists(folder.source + path[len(folder.destination.rstrip("/")) :]):
                why = "does not exist on this host, from where a bind path shows it to containers"
                yield Finding(WARNING, f"container_env.{name}", path, why, "correct it, or check on a compute node")


def _network(site: Site) -> Iterator[Finding]:
    """Look for NCCL's network interfaces: beginnings of names, or whole names after '=' (NCCL user guide)."""
    wanted = site.container_env.get("NCCL_SOCKET_IFNAME", "")
    if not wanted or wanted.startswith("^") or not _INTERFACES.is_dir():
        return
    here = [path.name for path in _INTERFACES.iterdir()]
    whole = wanted.startswith("=")
    for name in wanted.lstrip("=").split(","):
        is_here = any(interface == name or (not whole and interface.startswith(name)) for interface in here)
        why = "" if is_here else "no such network interface on this host: check on a compute node"
        yield Finding(OK if is_here else NOTE, "container_env.NCCL_SOCKET_IFNAME", name, why)


def _advisories(site: Site) -> Iterator[Finding]:
    if not site.advisories:
        return
    files = ", ".join(site.advisories)
    try:
        count = len(load_advisories(site))
    except SiteError as error:
        yield Finding(PROBLEM, "advisories", files, str(error), "correct it: eb and doctor refuse it")
    else:
        yield Finding(OK, "advisories", f"{files}: {count} advisories with those that are shipped")


def _servers(site: Site) -> Iterator[Finding]:
    if not site.servers:
        return
    files = ", ".join(site.servers)
    try:
        found = load_servers(site)
    except SiteError as error:
        yield Finding(PROBLEM, "servers", files, str(error), "correct it: sifmod sbatch --serve refuses it")
    else:
        yield Finding(OK, "servers", f"{files}: with those that are shipped {', '.join(found)}")
