"""Verify an installation: is everything there, unchanged, and does it still run?"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from sifmod import __version__, names
from sifmod.container.runtime import squashfs_image, squashfs_users
from sifmod.container.spec import image_is_gone
from sifmod.errors import CommandError, ImageError, InstallError, RuntimeMissingError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding, worst
from sifmod.host.command import Result, run
from sifmod.host.files import content_of, cvmfs_repository, inside, sha256_of
from sifmod.host.owners import everybody_may_change
from sifmod.host.runtime import look
from sifmod.image.inspection import has_shell
from sifmod.image.sif import check_is_sif
from sifmod.image.unpacked import unpacked_id
from sifmod.install.packages import check_packages, python_facts
from sifmod.install.starter import find_install_runtime
from sifmod.installed.base import base_findings
from sifmod.installed.consistency import packages_in_container, packages_on_disk
from sifmod.installed.installation import Installation
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.printable import few
from sifmod.text.progress import QUIET, Progress, Step
from sifmod.text.size import counted, size_text
from sifmod.usersoftware.commands import others_among_commands
from sifmod.usersoftware.layers import layer_findings
from sifmod.usersoftware.startup import starting_code
from sifmod.usersoftware.state import (
    DAMAGED,
    DIRECTORY,
    GONE,
    NONE,
    PACK_AGAIN,
    PACKED,
    problems,
    sum_findings,
    sums_in,
)

_ON_ANOTHER_NODE = "look on another node, or mount its file system here"
_REINSTALL = "reinstall it with: eb --rebuild"
_MEND_FIRST = "mend its user software first, as said above: a reinstall keeps it"

# Read all of the packed file, or only its folders; or compare it with the directory. Both use functions
# of the scripts in the installation, which those of an early sifmod lack.
_TOO_OLD = 78
_FUNCTIONS = f"""
[[ -e $1/share/packing.sh ]] || exit {_TOO_OLD}
source "$1/share/container.sh"
source "$1/share/packing.sh"
declare -F trees compare_trees bind_source >/dev/null || exit {_TOO_OLD}
"""
_READ = f"""{_FUNCTIONS}
trees "$(bind_source "$packed"):$2:ro,image-src=/" compare "$2" "$2" "$3"
"""
_COMPARE = f"""{_FUNCTIONS}
compare_trees "$packed" "$directory" full
"""
_REWRITE = "eb --module-only --rebuild"
_NOT_FOR_THEM = "for them the module can't be loaded, or commands fail or are the host's"


def verify(
    installation: Installation, site: Site, *, progress: Progress = QUIET, fast: bool = False, whole: bool = False
) -> Iterator[Finding]:
    """Check an installation and yield the findings, check by check; change nothing.

    If it is to be `fast`, start no container, so read packed user software only as far as its packages. Images on CVMFS
    are read to their end if `whole` says so.
    """
    files = list(_files(installation))
    yield from files
    # The scripts that start the container run on the host, with the permissions of whoever became suspicious.
    is_whole = worst(files) != PROBLEM
    yield from _user_commands(installation)
    yield from module_file_findings(installation)
    yield from _closed(installation)
    yield from _writable(installation)
    yield from _image(installation, site, progress, whole=whole)
    yield from _squashfs(installation, site, progress, whole=whole)
    yield from _old_images(installation)
    yield from base_findings(installation, site)
    with progress.step(f"{installation.module}: reading user software"):
        findings = list(_user_software(installation, fast=fast or not is_whole))
    yield from findings
    remedy = _MEND_FIRST if worst(findings) == PROBLEM else _REINSTALL
    if installation.user_software.state == PACKED and remedy == _REINSTALL:
        remedy += f"; if the packed user software is the cause: {installation.user_software.restoring}"
    yield from _starting_code(installation)
    if fast:
        yield from packages_on_disk(installation)
        return
    if not is_whole:
        what, why = "not done: it would run files that are not as installed", "they would run with your permissions"
        yield Finding(WARNING, "sanity check", what, why, "look at the files first, or rewrite them")
        return
    with progress.step(f"{installation.module}: starting the container"):
        findings = [*_running(installation, remedy), *packages_in_container(installation)]
    if worst(findings) == PROBLEM:
        problem = _problem_of_node(site)
        if problem:  # no reinstall mends that
            why, remedy = "no container starts on this host", "try on another node, or start none: sifmod verify --fast"
            findings = [Finding(PROBLEM, "sanity check", f"not done: {problem}", why, remedy)]
    yield from findings


def _problem_of_node(site: Site) -> str:
    """Return why this node starts no container, whatever the installation; empty if that is not known."""
    try:
        find_install_runtime(site)
        pwd.getpwuid(os.geteuid())
    except RuntimeMissingError as error:
        return str(error)
    except KeyError:
        return f"the user database of this node has no entry for you (getent passwd {os.geteuid()})"
    return ""


def difference_from_packed(installation: Installation) -> str:
    """Compare every byte of the user software's directory with the packed file; return what differs, else ''."""
    done = _script(installation, _COMPARE)
    if done.status == _TOO_OLD:
        raise InstallError(
            f"'{installation.root}' was made by sifmod {installation.made_by}, whose scripts can't compare the "
            f"directory with the packed file: write this sifmod's first, with {_REWRITE}"
        )
    return done.last_lines if done.status else ""


def sanity_check_with_easybuild(installation: Installation) -> Finding:
    """Run EasyBuild's sanity check, including that of the easyconfig, with the easyconfig kept in the installation.

    Raises:
        InstallError: there is no `eb`, or no easyconfig was kept.
    """
    kept = sorted((installation.root / "easybuild").glob("*.eb"))
    if not kept:
        raise InstallError(f"'{installation.root}/easybuild' has no easyconfig: eb can't run its sanity check")
    command = ["eb", "--sanity-check-only", str(kept[0].absolute())]
    command += [f"--installpath-software={installation.space.software.absolute()}"]
    command += [f"--installpath-modules={installation.space.modules.absolute()}"]
    try:
        done = run(command, cwd=Path("/"))  # its Python takes modules from the working directory
    except CommandError as error:
        raise InstallError(f"{error}: load EasyBuild's module, or leave out --eb") from error
    if done.status == 0:
        return Finding(OK, "eb sanity check", f"passed, with {kept[0].name}")
    return Finding(
        PROBLEM,
        "eb sanity check",
        f"failed: {done.last_lines}",
        "the module may not work as its easyconfig states",
        f"see what is wrong with: eb --sanity-check-only {quoting.shell(kept[0])}",
    )


def _files(installation: Installation) -> Iterator[Finding]:
    root, manifest = installation.root, installation.manifest
    images = (manifest.image, manifest.squashfs, *manifest.old_images)
    texts = [name for name in manifest.files if name not in (names.MANIFEST, *images)]
    gone, changed = [], []
    for name in texts:
        try:
            path = inside(root, name)
            if path.is_symlink():
                changed.append(f"{name} (a symbolic link)")
            elif not path.is_file():
                gone.append(name)
            elif name in manifest.hashes and sha256_of(path) != manifest.hashes[name]:
                changed.append(name)
        except OSError as error:
            changed.append(f"{name} ({error.strerror})")
        except InstallError as error:
            changed.append(str(error))
    if gone:
        yield Finding(PROBLEM, "files", f"gone: {', '.join(gone)}", "commands of the module fail", _REINSTALL)
    if changed:
        of_image = any(name.startswith(names.OF_THE_IMAGE) for name in changed)
        yield Finding(
            PROBLEM,
            "files",
            f"changed since the install: {', '.join(changed)}",
            "they may no longer work as tested",
            _REINSTALL if of_image else f"rewrite them with: {_REWRITE}",
        )
    if installation.made_by not in ("", __version__):
        what = f"made by sifmod {installation.made_by}, and this is {__version__}"
        why = "commands of the module may lack options that messages of this sifmod name"
        yield Finding(NOTE, "files", what, why, f"write this sifmod's scripts with: {_REWRITE}")
    scripts = [root / name for name in texts if name in manifest.hashes] if not gone and not changed else []
    if scripts and not any(installation.is_named_in(path.read_text(errors="replace")) for path in scripts):
        what, why = f"no script names '{root}': it was moved", "commands and containers look for it where it was"
        yield Finding(PROBLEM, "files", what, why, f"rewrite them with: {_REWRITE}")
    elif not gone and not changed:
        how = "present and unchanged" if manifest.hashes else "present; the install recorded no checksums"
        yield Finding(OK, "files", f"{len(texts)} {how}")


def _user_commands(installation: Installation) -> Iterator[Finding]:
    others = others_among_commands(installation.root)
    if others:
        what = f"sifmod did not put them there: {', '.join(map(str, others))}"
        why = "who loads the module runs them on the host, not in the container"
        yield Finding(WARNING, "user commands", what, why, "remove them, unless you know who put them there")


def module_file_findings(installation: Installation) -> Iterator[Finding]:
    """Compare the module file with what was written, and the folder that it names with that of the installation."""
    topic, remedy = "module file", f"rewrite it with: {_REWRITE}"
    root, found, recorded = installation.root, installation.module_files, installation.manifest.module_files
    files = [path for path in found if not path.is_symlink()]
    if not files and found:
        what = f"'{found[0]}' is a symbolic link to '{found[0].resolve()}'"
        is_there = os.path.exists(found[0])  # noqa: PTH110 - without an error where a folder above is not ours
        why = "loading the module runs that file" if is_there else "that file is gone: the module can't be loaded"
        yield Finding(PROBLEM, topic, what, why, remedy)
        return
    if not files:
        places = ", ".join(f"'{path}'" for path in recorded) or f"it is not in '{installation.space.modules}'"
        what = f"{installation.module} has no module file ({places})"
        yield Finding(PROBLEM, topic, what, "the module can't be loaded", remedy)
        return
    gone = sorted({*map(Path, recorded)} - {*found})
    unseen = [path for path in gone if _is_out_of_sight(path)]
    if unseen:
        gone = [path for path in gone if path not in unseen]
        what = f"you may not look into the folder of {', '.join(map(str, unseen))}"
        yield Finding(PROBLEM, topic, what, "who may not either can't load the module from there", "chmod a+rX")
    if gone:
        what = f"gone: {', '.join(map(str, gone))}"
        yield Finding(PROBLEM, topic, what, "the module can't be loaded from there", remedy)
    for path in files:
        try:
            content = content_of(path)
        except OSError as error:
            yield Finding(PROBLEM, topic, f"'{path}' can't be read: {error.strerror}", "it can't be loaded")
            continue
        digest = recorded.get(str(path), "")
        if not installation.is_named_in(content.decode(errors="replace")):
            what = f"'{path}' belongs to another installation, or this one was moved: it does not name '{root}'"
            yield Finding(PROBLEM, topic, what, "loading it does not load this container", remedy)
        elif digest and hashlib.sha256(content).hexdigest() != digest:
            why = "it runs as everybody who loads the module"
            yield Finding(PROBLEM, topic, f"'{path}' was changed since the install", why, remedy)
        else:
            how = "unchanged" if digest else "the install recorded no checksum"
            yield Finding(OK, topic, f"{path}: {how}")
    targets = {path.resolve() for path in files}
    for path in found:
        if path.is_symlink() and path.resolve() not in targets:
            what = f"'{path}' leads to '{path.resolve()}'"
            yield Finding(PROBLEM, topic, what, "loading it does not load this container", remedy)


def _is_out_of_sight(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _closed(installation: Installation) -> Iterator[Finding]:
    """Compare the modes: who may read the module file needs the installation, and who may enter that needs its files.

    An installation for its group only is no fault, whatever its module file says: EasyBuild's option group makes them.
    """
    root, topic, manifest = installation.root, "permissions", installation.manifest
    names_of = [*manifest.files, names.USER_SOFTWARE_PACKED, names.USER_SOFTWARE_DIRECTORY]
    folders = {folder for name in manifest.files for folder in Path(name).parents}
    try:
        audience = root.stat().st_mode & 0o055
        readers = {file.stat().st_mode & 0o044 for file in installation.module_files if not file.is_symlink()}
    except OSError:
        return  # said elsewhere
    if not audience and any(readers):
        what = f"others may read the module file, and not '{root}' ({oct(root.stat().st_mode & 0o777)})"
        yield Finding(PROBLEM, topic, what, _NOT_FOR_THEM, f"chmod -R go+rX {quoting.shell(root)}")
        return
    shut, idle = [], []
    for name in sorted({*names_of, *map(str, folders - {Path()})}):
        try:
            mode = (root / name).lstat().st_mode
        except OSError:
            continue  # it is not there, which is said elsewhere
        wanted = 0o055 if stat.S_ISDIR(mode) else 0o044 | (mode & 0o100) >> 3 | (mode & 0o100) >> 6
        if not stat.S_ISLNK(mode) and audience & wanted & ~mode:
            shut.append(name)
        if name.startswith("bin/") and not mode & 0o100:
            idle.append(name)
    if shut:
        what = f"{few(shut)} may not be read by all who may enter '{root}'"
        who = "go" if audience & 0o005 else "g"
        yield Finding(PROBLEM, topic, what, _NOT_FOR_THEM, f"chmod -R {who}+rX {quoting.shell(root)}")
    if idle:
        why = "the command of the host is run instead, or none"
        yield Finding(PROBLEM, topic, f"no programs: {few(idle)}", why, f"chmod a+x {quoting.shell(root)}/bin/*")


def _writable(installation: Installation) -> Iterator[Finding]:
    """Look for what everybody on the machine may change, at the folders above too: there they may put another one."""
    root, image = installation.root, installation.image
    own = [root, *(root / name for name in installation.manifest.files), root / names.USER_SOFTWARE_DIRECTORY]
    own += [layer.path for layer in installation.layers]
    found: set[Path] = set()
    for path in (*own, root / names.USER_SOFTWARE_PACKED, image, *installation.module_files):
        found.update(one for one in (path, *path.parents) if everybody_may_change(one))
    if found:
        shown = [*map(str, sorted(found))]
        what = f"everybody may change {few([*map(repr, shown)])}"
        why = "they may run code as each user who loads the module"
        yield Finding(WARNING, "permissions", what, why, f"chmod o-w {' '.join(map(quoting.shell, shown[:3]))}")


def _image(installation: Installation, site: Site, progress: Progress, *, whole: bool) -> Iterator[Finding]:
    manifest, image = installation.manifest, installation.image
    why = "containers may fail to start, or run something else"
    if not installation.has_image:
        stand_in = installation.stand_in(site)
        if not stand_in:
            gone = image_is_gone(image, is_unpacked=manifest.is_unpacked)
            yield Finding(PROBLEM, "image", gone, why, _ON_ANOTHER_NODE if manifest.is_unpacked else _REINSTALL)
            return
        yield Finding(NOTE, "image", f"'{image}' is gone: the site's '{stand_in}' is used instead")
        image = stand_in
    if manifest.is_unpacked:
        if unpacked_id(image) != manifest.image_id:
            what = f"'{image}' has other labels than when it was installed"
            yield Finding(PROBLEM, "image", what, why, f"look at it first, then {_REINSTALL}")
        else:
            what = f"the directory '{image}' has the labels that it was installed with; its files are not hashed"
            yield Finding(OK if manifest.image_labels else NOTE, "image", what)
        return
    hashing = partial(progress.step, f"{installation.module}: hashing the image")
    yield from _compared(image, "image", manifest.image_size, manifest.image_sha256, why, hashing, whole=whole)


def _squashfs(installation: Installation, site: Site, progress: Progress, *, whole: bool) -> Iterator[Finding]:
    """Check the image's SquashFS. Nothing stands in for a missing one: jobs name it by its path."""
    manifest, image, topic = installation.manifest, installation.squashfs, squashfs_image()
    users = " or ".join(squashfs_users())
    if image:
        why, hashing = f"jobs with {users} fail, or run something else", f"{installation.module}: hashing the {topic}"
        step = partial(progress.step, hashing)
        yield from _compared(image, topic, manifest.squashfs_size, manifest.squashfs_sha256, why, step, whole=whole)
    elif site.squashfs_runtimes:
        what = f"the site has {site.squashfs_runtimes[0].name}, and the module was installed without an image for it"
        yield Finding(WARNING, topic, what, f"jobs can't use {users}", _REINSTALL)


def _compared(
    path: Path,
    topic: str,
    size: int,
    sha256: str,
    why: str,
    hashing: Callable[..., AbstractContextManager[Step]],
    *,
    whole: bool,
) -> Iterator[Finding]:
    """Compare an image with what was installed."""
    try:
        found = path.stat().st_size
        if found != size:
            what = f"'{path}' has {found} bytes, and {size} were installed"
            yield Finding(PROBLEM, topic, what, why, _REINSTALL)
            return
        if topic == "image":
            check_is_sif(path)
        if not sha256:
            what = f"{size_text(size)}, as installed; no checksum was recorded because the image was linked"
            yield Finding(NOTE, topic, what)
            return
        repository = "" if whole else cvmfs_repository(path)
        if repository:
            what = f"{size_text(size)}, as installed; not read, because CVMFS ({repository}) checks what it loads"
            yield Finding(NOTE, topic, what, "", "to read all of it: sifmod verify --whole")
            return
        with hashing(size=size) as step:
            digest = sha256_of(path, progress=step.advance)
    except FileNotFoundError:
        yield Finding(PROBLEM, topic, f"'{path}' is gone", why, _REINSTALL)
    except (OSError, ImageError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        yield Finding(PROBLEM, topic, f"'{path}' can't be read: {reason}", why, _REINSTALL)
    else:
        if digest == sha256:
            yield Finding(OK, topic, f"{size_text(size)}, SHA-256 {digest} as installed")
        else:
            what = f"'{path}' has the SHA-256 {digest}, and {sha256} was installed"
            yield Finding(PROBLEM, topic, what, why, _REINSTALL)


def _old_images(installation: Installation) -> Iterator[Finding]:
    for path in installation.old_images:
        yield Finding(
            NOTE,
            "old image",
            f"'{path}', {size_text(path.stat().st_size)}, stays for running jobs until the next rebuild",
            "it takes space",
            f"when no job uses it: sifmod remove --old-images {installation.module}",
        )


def _user_software(installation: Installation, *, fast: bool) -> Iterator[Finding]:
    state = installation.user_software
    topic = "user software"
    if state.state == NONE:
        return
    yield from problems(state)
    yield from layer_findings(installation.root, installation.bases_below, sums=True, venv=installation.manifest.venv)
    if state.state in (DAMAGED, GONE):
        return
    count = counted(len(state.packages), "package")
    if state.state == DIRECTORY:
        yield Finding(OK, topic, f"the directory is in use: {count}")
        # shells that have the module loaded need a second name of the newest layer
        is_layer = any(
            state.packed.samefile(one.path) for one in installation.layers if state.has_packed and one.path.exists()
        )
        if state.has_packed and not state.packed_problem and not is_layer:
            yield Finding(NOTE, topic, f"'{state.packed}' is older than the directory, and not in use")
        return
    recorded = sums_in(installation.root / names.USER_SOFTWARE_SHA256)
    damaged = list(sum_findings(state))
    if damaged:
        yield from damaged
        return
    if fast:
        yield Finding(OK, topic, f"packed: {count}, {size_text(state.size)}")
        return
    # what has the right SHA-256 was mounted and compared when it was packed
    done = _script(installation, _READ, names.USER_SOFTWARE, "sizes" if recorded else "full")
    if done.status == _TOO_OLD:
        how = "SHA-256 as packed" if recorded else "not read, so damage would not be seen"
        what = f"packed: {count}, {size_text(state.size)}, {how}: its scripts are too old for more"
        yield Finding(NOTE if recorded else WARNING, topic, what, "", f"write this sifmod's with: {_REWRITE}")
        return
    if done.status:
        # 1: a file in it can't be read; else the runtime could not mount it
        yield Finding(
            PROBLEM,
            topic,
            f"'{state.packed}' can't be {'read' if done.status == 1 else 'mounted'}: {done.last_lines}",
            "packages in it are lost or can't be imported",
            state.restoring,
        )
        return
    how = (
        "SHA-256 as packed" if recorded else "every file in it is readable; no SHA-256 was recorded when it was packed"
    )
    yield Finding(OK, topic, f"packed: {count}, {size_text(state.size)}, {how}")
    if state.has_directory:
        difference = difference_from_packed(installation)
        if difference:
            what = f"'{state.directory}' is not in use and differs from the packed file: {difference}"
            yield Finding(WARNING, topic, what, "containers do not see what only the directory has", PACK_AGAIN)
        else:
            what = f"'{state.directory}' equals the packed file: it may be removed"
            yield Finding(NOTE, topic, what, "it takes space", "make-squashfs --remove-directory")


def _starting_code(installation: Installation) -> Iterator[Finding]:
    """List code in user software that no command of a user names; whether it is welcome only they know."""
    state = installation.user_software
    if state.state not in (DIRECTORY, PACKED):
        return
    copy = state.packed if state.state == PACKED else state.directory
    try:
        found = starting_code(copy, venv=installation.manifest.venv, image=installation.image)
    except ImageError:
        return  # the check of user software has said so
    if found:
        what = f"runs whenever its Python starts: {', '.join(found)}"
        yield Finding(NOTE, "user software", what, "in all jobs of all users of the module", "look whether you know it")


def _running(installation: Installation, remedy: str) -> Iterator[Finding]:
    """Run the commands of EasyBuild's sanity check, through the installation's own scripts."""
    manifest, topic = installation.manifest, "sanity check"
    why = "the module does not work on this host"
    if not manifest.python_version:
        if not has_shell(installation.image):
            yield Finding(NOTE, topic, "the image has no shell, so the container was not started")
            return
        try:
            command = [str(installation.root / "bin" / "start-shell"), "-c", "true"]
            done = look(command)
        except CommandError as error:
            yield Finding(PROBLEM, topic, f"the container does not start: {error}", why, remedy)
            return
        if done.status:
            yield Finding(PROBLEM, topic, f"the container does not start: {done.last_lines}", why, remedy)
        else:
            yield Finding(OK, topic, "the container starts")
        return
    interpreter = f"{names.RUNSCRIPTS}/conda-python-simple"
    try:
        facts = python_facts(installation.root, installation.module, interpreter)
        check_packages(facts, manifest.expected_packages)
    except InstallError as error:
        yield Finding(PROBLEM, topic, str(error), why, remedy)
        return
    if facts.version != manifest.python_version:
        what = f"the container runs Python {facts.version}, and {manifest.python_version} was installed"
        yield Finding(PROBLEM, topic, what, "user software works with one version only", remedy)
        return
    expected = len(manifest.expected_packages)
    more = f", {counted(expected, 'expected package')}" if expected else ""
    yield Finding(OK, topic, f"Python {facts.version} runs, with {counted(len(facts.packages), 'package')}{more}")


def _script(installation: Installation, script: str, *arguments: str) -> Result:
    return run(["bash", "-c", script, "sifmod verify", installation.root, *arguments])
