"""Reads, orders and compares directories and packed files, and lists their packages.

    trees.py compare LEFT RIGHT sizes|full [SINCE VENV]   compare names, types, modes, link targets, sizes (full: bytes)
    trees.py tar DIRECTORY FREE VENV [MODULE...]          write it as a tar archive to standard output
    trees.py order DIRECTORY VENV [MODULE...]             print the same order in the form of mksquashfs's option -sort
    trees.py packages VENV                                list name==version of a virtual environment
    trees.py set-id-bits FROM TO                          give the entries of TO these bits of the same ones of FROM

RIGHT is a mounted SquashFS file, and standard input what `unsquashfs -lln` lists of it. SINCE, a time, says since when
nothing of LEFT may have changed; if the same, packages of VENV are listed. FREE is how many bytes the packed file may
take. What importing the MODULEs in VENV reads comes first in the archive, in that order; then what imports read in
general; then the rest.

Exit status 0: done, or the same; 1: different, changed meanwhile or unreadable; 5: an import failed; 8: no space;
141: who reads the archive has ended.
Names are bytes: they need not be text.
What only some commands need is imported there: each container reads its modules anew, a tenth of a second for these.
"""

import glob
import itertools
import os
import re
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

# What every new virtual environment has; nobody installed it.
SEEDED = ("pip", "setuptools", "wheel")

MOST_DIFFERENCES = 10
# Where each operation takes its time, many at once are what makes it fast; elsewhere they get into each other's way.
THREADS = 32
SLOW = 0.0001  # seconds to look at a file, from which on it is so
# how many files one thread looks at in one go
AT_ONCE = 32
# bytes of one file that one thread reads in one go, and of all files in memory at once
PIECE = 1 << 20
MOST_IN_MEMORY = 128 << 20
TAR_BLOCK = 512

# writes what importing modules opens
IMPORTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "imports.py")

# an entry in a listing of `unsquashfs -lln`, up to its name
LISTED = re.compile(rb"(\S{10}) [^\n]*? +(\d+) \d{4}-\d\d-\d\d \d\d:\d\d ")


def pool(count: int) -> "ThreadPoolExecutor":
    """Return so many threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count)


def mapping(top: bytes) -> "Each":
    """Return what maps a function over the files of a directory: threads, or none."""
    count, begin = 0, time.monotonic()
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            os.lstat(os.path.join(folder, name))
        count += len(folders) + len(files)
        if count > 256:
            break
    return pool(THREADS).map if time.monotonic() - begin > count * SLOW else map


def scan(top: bytes, each: "Each") -> "Found":
    """Return {path below top: its status} of everything, top itself included as b"."."""

    def inside(folder: bytes) -> "list[tuple[bytes, os.DirEntry[bytes], bool]]":
        with os.scandir(os.path.join(top, folder)) as found:
            # most file systems give the type with the name, for nothing
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
    """Return what two copies of an entry have in common, but for contents and targets."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        return (kind,)
    return kind, stat.S_IMODE(status.st_mode), status.st_size if kind == stat.S_IFREG else None


def is_listed(found: "Found", top: bytes, listing: bytes) -> bool:
    """Return whether a listing of `unsquashfs -lln` has just these entries: names, types, modes, targets and sizes."""
    # before it old releases say how many inodes there are
    start = re.search(rb"(?m)^d\S{9} ", listing)
    at = start.start() if start else 0
    words = {}  # type: dict[int, bytes]
    # a folder is followed by what is in it, in the order of bytes
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


def compare(left_top: str, right_top: str, depth: str, since: str = "", venv: str = "") -> int:
    """Print what differs, or else the packages."""
    tops = os.fsencode(left_top), os.fsencode(right_top)
    each = mapping(tops[0])
    left = scan(tops[0], each)
    limit = int(since.replace(".", "")) if since else sys.maxsize
    different = {path for path, status in left.items() if status.st_ctime_ns > limit}

    def paths_that_differ(kind: int, same: "Callable[..., bool]", each: "Each" = each) -> "list[bytes]":
        paths = [path for path, status in left.items() if path not in different and stat.S_IFMT(status.st_mode) == kind]
        return [path for path, is_same in zip(paths, each(same, paths, itertools.repeat(tops))) if not is_same]

    # Looking at each mounted file takes several times as long; what the listing does not show is looked for there.
    listed = is_listed(left, tops[0], sys.stdin.buffer.read())
    if not listed or set(os.listdir(tops[0])) != set(os.listdir(tops[1])):
        right = scan(tops[1], each)
        different.update(left.keys() ^ right.keys())
        different.update(path for path in left.keys() & right.keys() if facts(left[path]) != facts(right[path]))
        different.update(paths_that_differ(stat.S_IFLNK, same_target))
    if depth == "full" and not different:
        # whoever unpacks for the mount works beside this process
        readers = pool(2).map if each is map else each
        different.update(paths_that_differ(stat.S_IFREG, same_content, readers))
    for path in sorted(different)[:MOST_DIFFERENCES]:
        print(f"differs: {os.fsdecode(path)!r}", file=sys.stderr)
    if len(different) > MOST_DIFFERENCES:
        print(f"... and {len(different) - MOST_DIFFERENCES} more", file=sys.stderr)
    if different:
        return 1
    return packages(venv) if venv else 0


def imported_first(top: bytes, found: "Found", venv: str, modules: "tuple[str, ...]") -> "list[bytes]":
    """Return the paths of all but folders: first what importing the modules opens, then what any import reads."""
    traced = {}  # type: dict[bytes, int]
    if modules:
        import subprocess

        ours, theirs = os.pipe()
        python = os.path.join(venv, "bin/python")
        # on standard input: a script's folder would come before the packages
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
    """Yield (length, future of the bytes) of a file."""

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
    """Return the header of an entry in the archive, and how many bytes follow it."""
    import tarfile

    entry = tarfile.TarInfo(os.fsdecode(path))
    entry.mode, entry.uid, entry.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
    # SquashFS has 32 bits for it, and mksquashfs reads no negative ones
    entry.mtime = status.st_mtime_ns // 10**9 & 0xFFFFFFFF
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
        raise OSError(f"{os.fsdecode(path)!r} is neither a file, a folder, a link nor a pipe")
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"), entry.size


def archive(directory: str, free: str, venv: str, *modules: str) -> int:
    """Write the archive; the files are read ahead, as much as may be in memory."""
    top = os.fsencode(directory)
    out = sys.stdout.buffer
    with pool(THREADS) as readers:
        found = scan(top, readers.map)
        size = sum(status.st_size for status in found.values() if stat.S_ISREG(status.st_mode))
        # Nothing that pip installs shrinks to a twentieth: less than that can't be enough.
        if size // 20 > int(free):
            print(f"{size} bytes don't fit into the {free} that are left", file=sys.stderr)
            return 8
        # the top's own mode is an option of mksquashfs
        folders = sorted(path for path, status in found.items() if stat.S_ISDIR(status.st_mode) and path != b".")
        first_names = {}  # type: dict[tuple[int, int], bytes]

        def planned() -> "Iterator[tuple[int, Optional[Future[bytes]], bytes]]":
            """Yield (length, future of bytes or None, bytes) of all that is written, in order."""
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
    """Print lines of a path and its priority: higher ones are packed first."""
    top = os.fsencode(directory)
    found = scan(top, mapping(top))
    for rank, path in enumerate(imported_first(top, found, venv, modules)):
        # priorities have 16 bits; a name that would end early in a line, or look like a comment, goes where it goes
        if re.match(rb"[\w./+@=-]+$", path):
            sys.stdout.buffer.write(b"%s %d\n" % (path, max(32767 - rank, -32768)))
    return 0


def set_id_bits(from_top: str, to_top: str) -> int:
    """Give entries these bits, which unsquashfs does for root only."""
    top = os.fsencode(from_top)
    for path, status in scan(top, mapping(top)).items():
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(status.st_mode):
            os.chmod(os.path.join(os.fsencode(to_top), path), stat.S_IMODE(status.st_mode))
    return 0


def canonical(name: str) -> str:
    """Return the name of a package in the form in which pip compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution(entry: str) -> "tuple[str, str]":
    """Return name and version of an entry of a folder of packages; empty if its metadata lack them or can't be read."""
    # what distutils installed is a file
    for path in (os.path.join(entry, "METADATA"), os.path.join(entry, "PKG-INFO"), entry):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                lines = [line.partition(":") for line in itertools.takewhile(str.strip, stream)]
        except OSError:
            continue
        headers = {key.lower(): value.strip() for key, _, value in reversed(lines)}
        return headers.get("name", ""), headers.get("version", "")
    return "", ""


def requirements(folders: "Iterable[str]") -> "list[str]":
    """Return name==version of what users installed in folders of packages, as `pip install -r` reads it.

    The metadata are read by hand because Python has importlib.metadata from 3.8 on only.
    """
    found = {}  # type: dict[str, str]
    for folder in folders:
        # pip renames what it is about to replace to ~NAME; an interrupted one leaves it behind
        for pattern in ("[!~]*.dist-info", "[!~]*.egg-info"):
            for entry in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
                name, version = distribution(entry)
                if name and version and canonical(name) not in SEEDED:
                    found.setdefault(canonical(name), f"{name}=={version}")
    return sorted(found.values(), key=str.lower)


def packages(venv: str) -> int:
    """Print name==version of what is installed in a virtual environment."""
    for line in requirements(glob.glob(os.path.join(glob.escape(venv), "lib/python3*/site-packages"))):
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
        # the packer has ended, and says why; nothing more can be written at the end either
        os._exit(141)
    except OSError as error:
        print(f"can't be read: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
