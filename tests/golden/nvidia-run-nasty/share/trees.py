"""What packing needs to know of directories; runs under the Python of the image.

    trees.py compare LEFT RIGHT sizes|full [SINCE VENV]   compare names, types, modes, link targets and sizes (full: bytes too)
    trees.py tar DIRECTORY FREE VENV [MODULE...]          write it as a tar archive to standard output
    trees.py order DIRECTORY VENV [MODULE...]             print the same order in the form of mksquashfs's option -sort
    trees.py packages VENV                                list name==version of a virtual environment
    trees.py set-id-bits FROM TO                          give the entries of TO these bits of the same ones of FROM

RIGHT is a mounted SquashFS file, and standard input what `unsquashfs -lln` lists of it. SINCE, a time, says since when nothing
of LEFT may have changed; if the same, packages of VENV are listed. FREE is how many bytes the packed file may take. What
importing the MODULEs in VENV reads comes first in the archive, in that order; then what imports read in general; then the rest.

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

# an entry in a listing of `unsquashfs -lln`, up to its name
LISTED = re.compile(rb"(\S{10}) [^\n]*? +(\d+) \d{4}-\d\d-\d\d \d\d:\d\d ")

# Writes what importing modules opens, in that order, to a file descriptor: each name with a zero byte after it.
TRACE = """
import importlib, os, sys
names = {}
def watch(event, arguments):
    name = arguments[0] if event == "open" else arguments[1] if event == "import" else None
    if isinstance(name, (str, bytes)):
        names.setdefault(os.fsencode(name))
getattr(sys, "addaudithook", lambda hook: None)(watch)
for module in sys.argv[2:]:
    importlib.import_module(module)
for module in list(sys.modules.values()):
    for name in (getattr(module, "__cached__", None), getattr(module, "__file__", None)):
        if isinstance(name, str):
            names.setdefault(os.fsencode(name))
with open("/proc/self/maps", "rb") as maps:
    for line in maps:
        names.setdefault(line.rstrip(b"\\n").split(b" ", 5)[-1].strip())
with open(int(sys.argv[1]), "wb") as out:
    out.write(b"".join(name + b"\\0" for name in names))
"""


def pool(count):
    """Return so many threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count)


def mapping(top):
    """Return what maps a function over the files of a directory: threads, or none."""
    count, begin = 0, time.monotonic()
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            os.lstat(os.path.join(folder, name))
        count += len(folders) + len(files)
        if count > 256:
            break
    return pool(THREADS).map if time.monotonic() - begin > count * SLOW else map


def scan(top, each):
    """Return {path below top: its status} of everything, top itself included as b"."."""

    def inside(folder):
        with os.scandir(os.path.join(top, folder)) as found:
            # most file systems give the type with the name, for nothing
            return [(folder + one.name, one, one.is_dir(follow_symlinks=False)) for one in found]

    def statuses(some):
        return [(path, one.stat(follow_symlinks=False)) for path, one, _ in some]

    entries, folders = [], [b""]
    while folders:
        deeper = list(itertools.chain.from_iterable(each(inside, folders)))
        entries += deeper
        folders = [path + b"/" for path, _, is_folder in deeper if is_folder]
    at_once = [entries[first : first + AT_ONCE] for first in range(0, len(entries), AT_ONCE)]
    return dict(itertools.chain([(b".", os.lstat(top))], *each(statuses, at_once)))


def facts(status):
    """Return what two copies of an entry have in common, but for contents and targets."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        return (kind,)
    return kind, stat.S_IMODE(status.st_mode), status.st_size if kind == stat.S_IFREG else None


def is_listed(found, top, listing):
    """Return whether a listing of `unsquashfs -lln` has just these entries: names, types, modes, targets and sizes."""
    # before it old releases say how many inodes there are
    start = re.search(rb"(?m)^d\S{9} ", listing)
    at = start.start() if start else 0
    words = {}
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


def same_target(path, tops):
    """Return whether the symbolic link has the same target below both tops."""
    return os.readlink(os.path.join(tops[0], path)) == os.readlink(os.path.join(tops[1], path))


def same_content(path, tops):
    """Return whether the file has the same bytes below both tops."""
    left, right = (open(os.path.join(top, path), "rb") for top in tops)
    with left, right:
        while True:
            chunk = left.read(PIECE)
            if chunk != right.read(PIECE):
                return False
            if not chunk:
                return True


def compare(left_top, right_top, depth, since="", venv=""):
    """Print what differs, or else the packages."""
    tops = os.fsencode(left_top), os.fsencode(right_top)
    each = mapping(tops[0])
    left = scan(tops[0], each)
    limit = int(since.replace(".", "")) if since else sys.maxsize
    different = {path for path, status in left.items() if status.st_ctime_ns > limit}

    def paths_that_differ(kind, same, each=each):
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
        print("differs: %r" % os.fsdecode(path), file=sys.stderr)
    if len(different) > MOST_DIFFERENCES:
        print("... and %d more" % (len(different) - MOST_DIFFERENCES), file=sys.stderr)
    if different:
        return 1
    return packages(venv) if venv else 0


def imported_first(top, found, venv, modules):
    """Return the paths of all but folders: first what importing the modules opens, then what imports read in general."""
    traced = {}
    if modules:
        import subprocess

        ours, theirs = os.pipe()
        python = os.path.join(venv, "bin/python")
        command = [python, "-B", "-c", TRACE, str(theirs), *modules]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs])
        os.close(theirs)
        with open(ours, "rb") as stream:
            names = stream.read().split(b"\0")
        if child.wait():
            print("importing %s failed" % ", ".join(modules), file=sys.stderr)
            sys.exit(5)
        traced = {os.path.relpath(name, top): rank for rank, name in enumerate(names) if name.startswith(top + b"/")}

    def rank(path):
        usual = 0 if path.endswith(b".pyc") else 1 if re.search(rb"\.so(\.|$)", path) else 2
        return traced.get(path, len(traced) + usual), path

    return sorted((path for path, status in found.items() if not stat.S_ISDIR(status.st_mode)), key=rank)


def pieces(top, path, size, readers):
    """Yield (length, future of the bytes) of a file."""

    def read(offset, length):
        with open(os.path.join(top, path), "rb", 0) as stream:
            data = os.pread(stream.fileno(), length, offset)
            while 0 < len(data) < length:
                more = os.pread(stream.fileno(), length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        if len(data) != length:
            raise OSError("%r was changed while it was read" % os.fsdecode(path))
        return data

    for offset in range(0, size, PIECE):
        length = min(PIECE, size - offset)
        yield length, readers.submit(read, offset, length)


def header(top, path, status, first_names):
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
        raise OSError("%r is neither a file, a folder, a link nor a pipe" % os.fsdecode(path))
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"), entry.size


def archive(top, free, venv, *modules):
    """Write the archive; the files are read ahead, as much as may be in memory."""
    top = os.fsencode(top)
    out = sys.stdout.buffer
    with pool(THREADS) as readers:
        found = scan(top, readers.map)
        size = sum(status.st_size for status in found.values() if stat.S_ISREG(status.st_mode))
        # Nothing that pip installs shrinks to a twentieth: less than that can't be enough.
        if size // 20 > int(free):
            print("%d bytes don't fit into the %s that are left" % (size, free), file=sys.stderr)
            return 8
        # the top's own mode is an option of mksquashfs
        folders = sorted(path for path, status in found.items() if stat.S_ISDIR(status.st_mode) and path != b".")
        first_names = {}

        def planned():
            """Yield (length, future of bytes or None, bytes) of all that is written, in order."""
            for path in itertools.chain(folders, imported_first(top, found, venv, modules)):
                text, length = header(top, path, found[path], first_names)
                yield len(text), None, text
                for piece in pieces(top, path, length, readers):
                    yield piece + (b"",)
                yield -length % TAR_BLOCK, None, bytes(-length % TAR_BLOCK)

        ahead, in_memory = deque(), 0
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


def order(top, venv, *modules):
    """Print lines of a path and its priority: higher ones are packed first."""
    top = os.fsencode(top)
    found = scan(top, mapping(top))
    for rank, path in enumerate(imported_first(top, found, venv, modules)):
        # priorities have 16 bits; a name that would end early in a line, or look like a comment, goes where it goes
        if re.match(rb"[\w./+@=-]+$", path):
            sys.stdout.buffer.write(b"%s %d\n" % (path, max(32767 - rank, -32768)))
    return 0


def set_id_bits(from_top, to_top):
    """Give entries these bits, which unsquashfs does for root only."""
    for path, status in scan(os.fsencode(from_top), mapping(from_top)).items():
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(status.st_mode):
            os.chmod(os.path.join(os.fsencode(to_top), path), stat.S_IMODE(status.st_mode))
    return 0


def packages(venv):
    """Print name==version of what is installed in a virtual environment, as `pip install -r` reads it."""
    versions = {}
    for pattern in ("*.dist-info/METADATA", "*.egg-info/PKG-INFO"):
        for path in glob.glob(os.path.join(glob.escape(venv), "lib/python3*/site-packages", pattern)):
            with open(path, encoding="utf-8", errors="replace") as stream:
                lines = [line.partition(":") for line in itertools.takewhile(str.strip, stream)]
            headers = {key.lower(): value.strip() for key, _, value in reversed(lines)}
            # what an interrupted pip leaves behind has no name
            if headers.get("name") and headers.get("version"):
                versions[headers["name"]] = headers["version"]
    for name in sorted(versions.keys() - {"pip", "setuptools", "wheel"}, key=str.lower):
        print("%s==%s" % (name, versions[name]))
    return 0


COMMANDS = {
    "compare": compare,
    "tar": archive,
    "order": order,
    "packages": packages,
    "set-id-bits": set_id_bits,
}
try:
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
except BrokenPipeError:
    # the packer has ended, and says why; nothing more can be written at the end either
    os._exit(141)
except OSError as error:
    print("can't be read: %s" % error, file=sys.stderr)
    sys.exit(1)
