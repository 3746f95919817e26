"""Reads, orders and compares directories and packed files, and lists their packages.

    trees.py compare LEFT RIGHT sizes|full [SINCE VENV [PROGRAM ARGUMENT...]]
                                                          compare names, types, modes, link targets, sizes (full: bytes)
    trees.py tar DIRECTORY FREE VENV [MODULE...]          write it as a tar archive to standard output
    trees.py order DIRECTORY VENV [MODULE...]             print the same order for mksquashfs's option -sort
    trees.py packages VENV...                             list the packages of virtual environments, the first wins
    trees.py set-id-bits FROM TO                          copy setuid and setgid bits from FROM to TO

LEFT is a directory; if it has the record FOLDER_MODES, its folders count with the modes in that. RIGHT is a mounted
SquashFS file, and standard input is its listing by `unsquashfs -lln`. A zero byte and what `unsquashfs -pf` writes may
follow: a file that has the same bytes there need not be read through the mount, which takes longer. Changes in LEFT
after the time SINCE count as differences; if there are none, the packages of VENV are listed. PROGRAM is one in Python
that runs beside the comparison: its exit status, what it prints and an empty line come first. FREE is the maximum size
of the packed file in bytes.
In the archive, files that importing the MODULEs in VENV reads come first, in that order; then files that imports
usually read; then the rest.

Exit status: 0 if done, or if both are the same; 1 if they differ, or something was changed meanwhile or can't be read;
5 if an import failed; 8 if there is not enough space; 141 if the reader of the archive has ended.
Names are bytes, because they need not be valid text.
Modules that only some commands need are imported there: each container reads them again, which takes 0.1 s.
"""

import glob
import io
import itertools
import os
import re
import signal
import stat
import sys
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor
    from typing import Any, Optional

    Each = Callable[..., Iterable[Any]]
    Found = dict[bytes, os.stat_result]
    Stream = io.BufferedReader[io.FileIO]

# Packages of every new virtual environment, which no user installed.
SEEDED = ("pip", "setuptools", "wheel")

# The folders of a virtual environment; lib64 is a link to lib.
ENVIRONMENT = ("venv", "venv/*", *("venv/*/" + name for name in ("bin", "lib", "lib64", "lib/python3*")))
ENVIRONMENT += ("venv/*/lib/python3*/site-packages",)

# At the top of a directory that is no longer used: the modes that its folders had before write permission was taken.
FOLDER_MODES = ".sifmod-folder-modes"
# pip renames packages that it replaces to ~NAME, and leaves them behind if interrupted; NAME-vVERSION is a stub for uv
PACKAGES = "[!~]*-[!v]*.dist-info"

MOST_DIFFERENCES = 10
# On a file system with a high latency many parallel operations are faster; on others they slow each other down.
THREADS = 32
SLOW = 0.0001  # seconds for the status of one file; above this the latency counts as high
FEW = 64  # files, of which the measured time says more of a busy node than of the file system
# number of files whose status one thread reads at once
AT_ONCE = 32
# characters of a package's metadata; the headers come first, and name and version before the long ones
MOST_METADATA = 1 << 20
# bytes of one file that one thread reads at once, and of all files in memory
PIECE = 1 << 20
MOST_IN_MEMORY = 128 << 20
TAR_BLOCK = 512
LATEST = 0xFFFFFFFF  # seconds since 1970 that SquashFS can store

# writes the names of files that importing modules opens
IMPORTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "imports.py")

# an entry of a file in what `unsquashfs -pf` writes: its escaped name, and length and place of its bytes
PSEUDO = re.compile(rb"((?:[^\\\n ]|\\.)+) R \d+ [0-7]+ \d+ \d+ (\d+) (\d+)(?: \d+)?\n")
# what follows the entries there
PSEUDO_DATA = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"

# an entry in a listing of `unsquashfs -lln`, up to its name
LISTED = re.compile(rb"(\S{10}) [^\n]*? +(\d+) \d{4}-\d\d-\d\d \d\d:\d\d ")


def pool(count: int) -> "ThreadPoolExecutor":
    """Return a pool of threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count)


def mapping(top: bytes) -> "Each":
    """Return a `map` for functions on files of a directory, with threads if its file system has a high latency."""
    count, begin = 0, time.monotonic()
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            os.lstat(os.path.join(folder, name))
        count += len(folders) + len(files)
        if count > 256:
            break
    return pool(THREADS).map if count > FEW and time.monotonic() - begin > count * SLOW else map


def scan(top: bytes, each: "Each") -> "Found":
    """Return {path below top: its status} for all entries, and top itself as b"."."""

    def inside(folder: bytes) -> "list[tuple[bytes, os.DirEntry[bytes], bool]]":
        with os.scandir(os.path.join(top, folder)) as found:
            # most file systems return the type together with the name
            return [(folder + one.name, one, one.is_dir(follow_symlinks=False)) for one in found]

    def statuses(some: "list[tuple[bytes, os.DirEntry[bytes], bool]]") -> "list[tuple[bytes, os.stat_result]]":
        return [(path, one.stat(follow_symlinks=False)) for path, one, _ in some]

    entries = []  # type: list[tuple[bytes, os.DirEntry[bytes], bool]]
    folders = [b""]
    while folders:
        deeper = list(itertools.chain.from_iterable(each(inside, folders)))
        entries += deeper
        folders = [path + b"/" for path, _, is_folder in deeper if is_folder]
    at_once = [entries[first : first + AT_ONCE] for first in range(0, len(entries), AT_ONCE)]
    return dict(itertools.chain([(b".", os.lstat(top))], *each(statuses, at_once)))


def facts(status: os.stat_result) -> "tuple[Optional[int], ...]":
    """Return what must be equal in two copies of an entry, except contents and link targets."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        return (kind,)
    return kind, stat.S_IMODE(status.st_mode), status.st_size if kind == stat.S_IFREG else None


def with_recorded_modes(found: "Found", top: bytes) -> "Found":
    """Return the entries without the record of modes in them, and with the modes that it lists for folders."""
    record = os.fsencode(FOLDER_MODES)
    # a killed run leaves a draft of it
    there = {path: status for path, status in found.items() if not path.startswith(record)}
    if record not in found or not stat.S_ISREG(found[record].st_mode):
        return there
    with open(os.path.join(top, record), "rb") as stream:
        recorded = re.findall(rb"([0-7]{1,4}) \./([^\0]*)\0", stream.read())
    for mode, name in recorded:
        path = name or b"."
        if path in there and stat.S_ISDIR(there[path].st_mode):
            there[path] = os.stat_result((stat.S_IFDIR | int(mode, 8), *there[path][1:]))
    return there


def is_listed(found: "Found", top: bytes, listing: bytes) -> bool:
    """Return whether a listing of `unsquashfs -lln` has exactly these names, types, modes, targets and sizes."""
    # old releases print the number of inodes first
    start = re.search(rb"(?m)^d\S{9} ", listing)
    at = start.start() if start else 0
    words = {}  # type: dict[int, bytes]
    # a folder is followed by its entries, sorted by bytes
    for path in sorted(found, key=lambda path: b"" if path == b"." else path.replace(b"/", b"\0")):
        status = found[path]
        mode = status.st_mode
        name = b"squashfs-root" if path == b"." else b"squashfs-root/" + path
        if stat.S_ISLNK(mode):
            name += b" -> " + os.readlink(os.path.join(top, path))
        if mode not in words:
            words[mode] = stat.filemode(mode).encode()
        entry = LISTED.match(listing, at)
        if not entry or entry.group(1) != words[mode]:
            return False
        if stat.S_ISREG(mode) and int(entry.group(2)) != status.st_size:
            return False
        if not listing.startswith(name + b"\n", entry.end()):
            return False
        at = entry.end() + len(name) + 1
    return at == len(listing)


def same_target(path: bytes, tops: "tuple[bytes, bytes]") -> bool:
    """Return whether the symbolic link has the same target below both tops."""
    return os.readlink(os.path.join(tops[0], path)) == os.readlink(os.path.join(tops[1], path))


def same_content(path: bytes, tops: "tuple[bytes, bytes]") -> bool:
    """Return whether the file has the same bytes below both tops."""
    with open(os.path.join(tops[0], path), "rb") as left, open(os.path.join(tops[1], path), "rb") as right:
        while True:
            chunk = left.read(PIECE)
            if chunk != right.read(PIECE):
                return False
            if not chunk:
                return True


def up_to_zero(stream: "Stream") -> bytes:
    """Return what comes before a zero byte, which is read too, or before the end."""
    parts = []
    while True:
        ahead = stream.peek()
        end = ahead.find(b"\0")
        parts.append(stream.read(end + 1 if end >= 0 else len(ahead)))
        if end >= 0 or not ahead:
            return b"".join(parts).rstrip(b"\0")


def pseudo_files(stream: "Stream") -> "list[tuple[bytes, int]]":
    """Return path and length of the files whose bytes follow in what `unsquashfs -pf` writes; none if it isn't that."""
    files, end = [], 0
    first, *others = PSEUDO_DATA.splitlines(keepends=True)
    for line in iter(stream.readline, first):
        entry = PSEUDO.fullmatch(line)
        if entry and int(entry.group(3)) == end:
            files.append((re.sub(rb"\\(.)", rb"\1", entry.group(1)), int(entry.group(2))))
            end += files[-1][1]
        elif entry or not line:
            return []
    return files if [stream.readline() for _ in others] == others else []


def content(top: bytes, path: bytes, length: int) -> "Optional[bytes]":
    """Return the bytes of a file, and one more if it is longer; None if it can't be read."""
    try:
        with open(os.path.join(top, path), "rb", 0, opener=at_once) as file:
            return file.read(length + 1)
    except OSError:
        return None


def follows(stream: "Stream", top: bytes, path: bytes, length: int) -> bool:
    """Read as many bytes from a stream, and return whether they are those of a file."""
    with open(os.path.join(top, path) if path else os.devnull, "rb", opener=at_once) as file:
        same = True
        while length:
            packed = stream.read(min(PIECE, length))
            length -= len(packed)
            same = same and file.read(len(packed)) == packed
            if not packed:
                return False
        return same and not file.read(1)


def confirmed(stream: "Stream", found: "Found", top: bytes, each: "Each", done: "Progress") -> "set[bytes]":
    """Return the files that have the bytes which `unsquashfs -pf` writes for them. Of others nothing is known.

    What it writes is taken for what it says only as far as each file, by name and length, is there.
    """
    wanted = {path for path, status in found.items() if stat.S_ISREG(status.st_mode)}
    equal, unequal = set(), set()  # type: tuple[set[bytes], set[bytes]]
    files = pseudo_files(stream)
    for first in range(0, len(files), AT_ONCE):
        some = [(path if path in wanted else b"", length) for path, length in files[first : first + AT_ONCE]]
        small = [(path, length) for path, length in some if path and length <= PIECE]
        contents = dict(zip(small, each(content, itertools.repeat(top), *zip(*small)))) if small else {}
        for path, length in some:
            if (path, length) in contents:
                packed = stream.read(length)
                same = len(packed) == length and packed == contents[path, length]
            else:
                same = follows(stream, top, path, length)
            (equal if same else unequal).add(path)
            if same:
                done.advance(length)
    return equal - unequal - {b""}


class Progress:
    """Says how far work is that takes long, on standard error: on a terminal a line that changes, else one a minute.

    It says so by itself, until its `with` ends, so that work that counts nothing is not silent. Without a size it tells
    the time that has passed. The unit is MiB, of which `size` and `advance` have the bytes, or what is counted.
    """

    def __init__(self, what: str, size: int = 0, unit: str = "MiB") -> None:
        self.what, self.size, self.done = what, size, 0
        self.unit, self.shift = unit, 20 if unit == "MiB" else 0
        self.is_terminal, self.was_said = os.isatty(2), False
        self.begun = self.counted = time.monotonic()
        signal.signal(signal.SIGALRM, self.say)
        signal.setitimer(signal.ITIMER_REAL, *((2, 1) if self.is_terminal else (60, 60)))

    def advance(self, count: int) -> None:
        """Count what was done."""
        if not self.done:
            self.counted = time.monotonic()
        self.done += count

    def say(self, *_signal: object) -> None:
        """Say it now."""
        now = time.monotonic()
        done, size = self.done >> self.shift, self.size >> self.shift
        if done and size:
            minutes, seconds = divmod(round(max(0, self.size - self.done) * (now - self.counted) / self.done), 60)
            said = f"{self.what}: {done} of {size} {self.unit}, {minutes}:{seconds:02} left"
        else:
            minutes, seconds = divmod(int(now - self.begun), 60)
            said = f"{self.what}: {minutes}:{seconds:02} passed"
        self.was_said = True
        self.write(f"\r\x1b[K{said}" if self.is_terminal else f"{said}\n")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_error: object) -> None:
        """Take the line from the terminal, for what is said next."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.is_terminal and self.was_said:
            self.write("\r\x1b[K")

    def write(self, text: str) -> None:
        """Write without a buffer, in which the work may be writing."""
        try:  # noqa: SIM105 - contextlib would be one more module to read
            os.write(2, text.encode())
        except OSError:
            pass


def is_refused(status: os.stat_result) -> bool:
    """Return whether an entry can't be packed."""
    return stat.S_ISSOCK(status.st_mode)


def refusal(path: bytes) -> str:
    """Return why an entry can't be packed."""
    return f"{os.fsdecode(path)!r} is a socket, which can't be unpacked again: end its program, or remove it"


def links_out(top: str) -> "list[str]":
    """Return a sentence for each folder of a virtual environment that is a link out of the tree, or to nothing.

    No tool makes such a link. Containers may not see its target, and a packed file has the link alone.
    """
    real, found = os.path.realpath(top), []  # type: str, list[str]
    for part in ENVIRONMENT:
        for path in sorted(glob.glob(os.path.join(glob.escape(top), part))):
            target = os.path.realpath(path)
            is_inside = (target + "/").startswith(real + "/") and os.path.exists(target)
            if os.path.islink(path) and not is_inside and not path.startswith(tuple(one + "/" for one in found)):
                found.append(path)
    names = [os.path.relpath(path, top) for path in found]
    return [f"{name!r} is a link to {os.readlink(os.path.join(top, name))!r}, out of user software" for name in names]


def attributes(path: bytes, top: bytes) -> "list[str]":
    """Return the names of the user's extended attributes and ACLs of a file or folder; other ones are the system's."""
    try:
        names = os.listxattr(top + b"/" + path, follow_symlinks=False)
    except OSError:
        return []
    if not names:
        return names
    return [name for name in names if name.startswith(("user.", "system.posix_acl_"))]


def losses(found: "Found", top: bytes, each: "Each") -> "Iterator[str]":
    """Yield a sentence for each kind of information that packing loses."""

    def named(paths: "list[bytes]") -> str:
        return f"{os.fsdecode(paths[0])!r}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")

    wrapped = [path for path, status in found.items() if not 0 <= status.st_mtime_ns // 10**9 <= LATEST]
    if wrapped:
        yield f"the times of {named(sorted(wrapped))} change: SquashFS has times from 1970 to 2106"
    # where latency is high, another look at each file takes too long; ACLs are usually those of folders too
    kinds = (stat.S_IFDIR, stat.S_IFREG) if each is map else (stat.S_IFDIR,)
    paths = [path for path, status in found.items() if stat.S_IFMT(status.st_mode) in kinds]
    lost = {path: names for path, names in zip(paths, each(attributes, paths, itertools.repeat(top))) if names}
    if lost:
        kept = ", ".join(sorted(set(itertools.chain.from_iterable(lost.values()))))
        yield f"extended attributes and ACLs are not packed ({kept}): those of {named(sorted(lost))}"


def compare(left_top: str, right_top: str, depth: str, since: str = "", venv: str = "", *program: str) -> int:
    """Print the differences; if there are none, what the program has printed, and the packages."""
    ends = start(*program) if program else str  # before there are threads
    with Progress("comparing") as progress:
        tops = os.fsencode(left_top), os.fsencode(right_top)
        each = mapping(tops[0])
        found = scan(tops[0], each)
        limit = int(since.replace(".", "")) if since else sys.maxsize
        different = {path for path, status in found.items() if status.st_ctime_ns > limit}
        left = with_recorded_modes(found, tops[0])
        refused = sorted(path for path, status in found.items() if is_refused(status)) if since else []
        refusals = [*links_out(left_top), *map(refusal, refused)] if since else []
        only_left, only_right = set(), set()  # type: tuple[set[bytes], set[bytes]]

        def in_both(kind: int) -> "list[bytes]":
            both = left.keys() - different - only_left
            return [path for path in left if path in both and stat.S_IFMT(left[path].st_mode) == kind]

        # Reading the status of each mounted file takes several times as long: it is done only if the listing differs.
        packed = io.BufferedReader(io.FileIO(0, closefd=False), PIECE)
        listed = is_listed(left, tops[0], up_to_zero(packed))
        top_names = {path for path in left if b"/" not in path and path != b"."}
        if not listed or top_names != set(os.listdir(tops[1])):
            right = scan(tops[1], each)
            only_left, only_right = left.keys() - right.keys(), right.keys() - left.keys()
            different.update(path for path in left.keys() & right.keys() if facts(left[path]) != facts(right[path]))
            links = in_both(stat.S_IFLNK)
            same_links = each(same_target, links, itertools.repeat(tops))
            different.update(path for path, same in zip(links, same_links) if not same)
        if depth == "full" and not (different or only_left or only_right):
            files = in_both(stat.S_IFREG)
            progress.size = sum(left[path].st_size for path in files)
            known = confirmed(packed, left, tops[0], each, progress)
            files = [path for path in files if path not in known]
            # the process behind the mount decompresses in parallel with this one
            readers = pool(2).map if each is map else each
            for path, same in zip(files, readers(same_content, files, itertools.repeat(tops))):
                progress.advance(left[path].st_size)
                if not same:
                    different.add(path)
        said = ends()
    differences = {
        "only in the directory": only_left,
        "only in the packed file": only_right,
        "differs": different - only_left,
    }
    for what, paths in differences.items():
        for path in sorted(paths)[:MOST_DIFFERENCES]:
            print(f"{what}: {os.fsdecode(path)!r}", file=sys.stderr)
        if len(paths) > MOST_DIFFERENCES:
            print(f"... and {len(paths) - MOST_DIFFERENCES} more", file=sys.stderr)
    for sentence in refusals:
        print(sentence, file=sys.stderr)
    if refusals or any(differences.values()):
        return 1
    for sentence in losses(found, tops[0], each) if since else ():
        print(f"note: {sentence}", file=sys.stderr)
    if program:
        sys.stdout.write(said + "\n")
    return packages(venv) if venv else 0


def start(program: str, *arguments: str) -> "Callable[[], str]":
    """Run a Python program in a process of its own; what is returned waits for it and returns its status and output."""
    import runpy

    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        status = 2
        try:
            os.dup2(theirs, 1)
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            os.close(ours)
            sys.argv = [program, *arguments]
            runpy.run_path(program, run_name="__main__")
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 2
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(theirs)

    def ends() -> str:
        with open(ours, encoding="utf-8", errors="replace") as stream:
            said = stream.read()
        status = os.waitpid(child, 0)[1]
        return f"{status >> 8 if os.WIFEXITED(status) else 2}\n{said}"

    return ends


def imported_first(top: bytes, found: "Found", venv: str, modules: "tuple[str, ...]") -> "list[bytes]":
    """Return the paths of all entries except folders: first files that importing the modules opens, then usual ones."""
    traced = {}  # type: dict[bytes, int]
    if modules:
        import subprocess

        ours, theirs = os.pipe()
        python = os.path.join(venv, "bin/python")
        # from standard input, because Python would put a script's folder before the packages
        with open(IMPORTS, "rb") as program:
            child = subprocess.Popen(  # noqa: S603 - the user's own Python
                [python, "-B", "-", str(theirs), *modules], stdin=program, stdout=subprocess.DEVNULL, pass_fds=[theirs]
            )
        os.close(theirs)
        with open(ours, "rb") as stream:
            names = stream.read().split(b"\0")
        if child.wait():
            print(f"importing {', '.join(modules)} failed", file=sys.stderr)
            sys.exit(5)
        traced = {os.path.relpath(name, top): rank for rank, name in enumerate(names) if name.startswith(top + b"/")}

    def rank(path: bytes) -> "tuple[int, bytes]":
        usual = 0 if path.endswith(b".pyc") else 1 if re.search(rb"\.so(\.|$)", path) else 2
        return traced.get(path, len(traced) + usual), path

    return sorted((path for path, status in found.items() if not stat.S_ISDIR(status.st_mode)), key=rank)


def pieces(top: bytes, path: bytes, size: int, readers: "ThreadPoolExecutor") -> "Iterator[tuple[int, Future[bytes]]]":
    """Yield (length, future of the bytes) for each piece of a file."""

    def read(offset: int, length: int) -> bytes:
        with open(os.path.join(top, path), "rb", 0) as stream:
            data = os.pread(stream.fileno(), length, offset)
            while 0 < len(data) < length:
                more = os.pread(stream.fileno(), length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        if len(data) != length:
            raise OSError(f"{os.fsdecode(path)!r} was changed while it was read")
        return data

    for offset in range(0, size, PIECE):
        length = min(PIECE, size - offset)
        yield length, readers.submit(read, offset, length)


def header(
    top: bytes, path: bytes, status: os.stat_result, first_names: "dict[tuple[int, int], bytes]"
) -> "tuple[bytes, int]":
    """Return the header of an entry in the archive, and the number of bytes that follow it."""
    import tarfile

    entry = tarfile.TarInfo(os.fsdecode(path))
    entry.mode, entry.uid, entry.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    # SquashFS has 32 bits for the time, and mksquashfs does not read negative times
    entry.mtime = status.st_mtime_ns // 10**9 & LATEST
    kind = stat.S_IFMT(status.st_mode)
    other = first_names.setdefault((status.st_dev, status.st_ino), path)
    if kind == stat.S_IFDIR:
        entry.type = tarfile.DIRTYPE
    elif other != path:
        entry.type, entry.linkname = tarfile.LNKTYPE, os.fsdecode(other)
    elif kind == stat.S_IFREG:
        entry.size = status.st_size
    elif kind == stat.S_IFLNK:
        entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(os.readlink(os.path.join(top, path)))
    elif kind == stat.S_IFIFO:
        entry.type = tarfile.FIFOTYPE
    else:
        kinds = "neither a file, a folder, a link nor a pipe"
        raise OSError(refusal(path) if is_refused(status) else f"{os.fsdecode(path)!r} is {kinds}")
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"), entry.size


def archive(directory: str, free: str, venv: str, *modules: str) -> int:
    """Write the archive; files are read ahead, up to the limit of memory."""
    top = os.fsencode(directory)
    out = sys.stdout.buffer
    with pool(THREADS) as readers:
        found = scan(top, readers.map)
        size = sum(status.st_size for status in found.values() if stat.S_ISREG(status.st_mode))
        # No Python package compresses to a twentieth, so less space than that can't be enough.
        if size // 20 > int(free):
            print(f"{size} bytes don't fit into {free} bytes of free space", file=sys.stderr)
            return 8
        # the mode of top itself is passed to mksquashfs as an option
        folders = sorted(path for path, status in found.items() if stat.S_ISDIR(status.st_mode) and path != b".")
        first_names = {}  # type: dict[tuple[int, int], bytes]

        def planned() -> "Iterator[tuple[int, Optional[Future[bytes]], bytes]]":
            """Yield (length, future of bytes or None, bytes) for each part of the archive, in order."""
            for path in itertools.chain(folders, imported_first(top, found, venv, modules)):
                text, length = header(top, path, found[path], first_names)
                yield len(text), None, text
                for size, data in pieces(top, path, length, readers):
                    yield size, data, b""
                yield -length % TAR_BLOCK, None, bytes(-length % TAR_BLOCK)

        ahead = deque()  # type: deque[tuple[int, Optional[Future[bytes]], bytes]]
        in_memory = 0
        for length, future, text in itertools.chain(planned(), [(0, None, bytes(2 * TAR_BLOCK))]):
            ahead.append((length, future, text))
            in_memory += length
            while ahead and (in_memory > MOST_IN_MEMORY or ahead[0][1] is None or ahead[0][1].done()):
                length, future, text = ahead.popleft()
                in_memory -= length
                out.write(future.result() if future else text)
        for _, future, text in ahead:
            out.write(future.result() if future else text)
        out.flush()
    return 0


def order(directory: str, venv: str, *modules: str) -> int:
    """Print lines with a path and its priority: higher ones are packed first."""
    top = os.fsencode(directory)
    found = scan(top, mapping(top))
    for rank, path in enumerate(imported_first(top, found, venv, modules)):
        # priorities have 16 bits; names that the format can't express, with spaces for example, get no priority
        if re.match(rb"[\w./+@=-]+$", path):
            sys.stdout.buffer.write(b"%s %d\n" % (path, max(32767 - rank, -32768)))
    return 0


def set_id_bits(from_top: str, to_top: str) -> int:
    """Set setuid and setgid bits, which unsquashfs does only for root."""
    top = os.fsencode(from_top)
    for path, status in scan(top, mapping(top)).items():
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(status.st_mode):
            os.chmod(os.path.join(os.fsencode(to_top), path), stat.S_IMODE(status.st_mode))
    return 0


def canonical(name: str) -> str:
    """Return the normalized name of a package, by which pip compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def at_once(path: str, flags: int) -> int:
    """Open a file; opening a FIFO would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def metadata(path: str) -> "Optional[str]":
    """Return the beginning of a file; None if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=at_once) as stream:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return stream.read(MOST_METADATA)
    except OSError:
        pass
    return None


def distribution(entry: str) -> "tuple[str, str]":
    """Return name and version of an entry in site-packages; empty if its metadata lack them or can't be read."""
    # distutils installed the metadata as a file
    for path in (os.path.join(entry, "METADATA"), os.path.join(entry, "PKG-INFO"), entry):
        text = metadata(path)
        if text is None:
            continue
        lines = [line.partition(":") for line in itertools.takewhile(str.strip, io.StringIO(text))]
        headers = {key.lower(): value.strip() for key, _, value in reversed(lines)}
        return headers.get("name", ""), headers.get("version", "")
    return "", ""


def origin(text: "Optional[str]") -> str:
    """Return where a package comes from by its direct_url.json (PEP 610), as pip writes it, without passwords.

    `unknown` if the text says no address.
    """
    import json
    from urllib.parse import quote, urlsplit

    try:
        noted = json.loads(text or "")
        parts = urlsplit(noted["url"])
        control, below = noted.get("vcs_info", {}), noted.get("subdirectory", "")
        user, _, host = parts.netloc.rpartition("@")
        # that of each repository, which ssh needs
        address = parts._replace(netloc=f"git@{host}" if user == "git" else host).geturl()
        if control:
            address = "{}+{}@{}".format(control["vcs"], address, control["commit_id"])
        address += f"#subdirectory={below}" if below else ""
        return quote(address, safe="!#$%&'()*+,/:;=?@[]~") if parts.scheme else "unknown"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "unknown"


def requirements(folders: "Iterable[str]") -> "list[str]":
    """Return a line for each package that users installed in these folders, as `pip install -r` reads it.

    It is name==version of what came from an index, and `name @ address  # version` of what did not: an index may have
    another package of that name.

    The metadata are parsed here because importlib.metadata needs Python 3.8.
    """
    found = {}  # type: dict[str, str]
    for folder in folders:
        for pattern in (PACKAGES, "[!~]*.egg-info"):
            for entry in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
                name, version = distribution(entry)
                if name and version and canonical(name) not in SEEDED:
                    noted, line = os.path.join(entry, "direct_url.json"), f"{name}=={version}"
                    if os.path.lexists(noted):
                        line = f"{name} @ {origin(metadata(noted))}  # {version}"
                    found.setdefault(canonical(name), line)
    return sorted(found.values(), key=str.lower)


def packages(*venvs: str) -> int:
    """Print the packages in virtual environments, as `requirements` does; of one in several, what the first has."""
    pattern = "lib/python3*/site-packages"
    for line in requirements(path for venv in venvs for path in glob.glob(os.path.join(glob.escape(venv), pattern))):
        print(line)
    return 0


COMMANDS = {
    "compare": compare,
    "tar": archive,
    "order": order,
    "packages": packages,
    "set-id-bits": set_id_bits,
}  # type: dict[str, Callable[..., int]]


def main() -> int:
    """Run the command; return the exit status."""
    try:
        return COMMANDS[sys.argv[1]](*sys.argv[2:])
    except BrokenPipeError:
        # the packer has ended and printed the reason; exit without flushing, which would fail too
        os._exit(141)
    except OSError as error:
        print(f"can't be read: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
