"""Compare two directories: names, types, modes, link targets and sizes, and with `full` every byte.

A last argument, a time, says since when nothing of the first one may have changed.

Exit status 0: the same, 1: different or unreadable.

Runs under the Python of the image, with one tree packed and the other not. Names are bytes: they need not be text.
"""

import os
import stat
import sys

MOST_DIFFERENCES = 10


def entries(top):
    """Yield (relative path, facts, time of the last change) of everything below top, and of top itself."""
    pending = [b"."]
    while pending:
        path = pending.pop()
        full = os.path.join(top, path)
        status = os.lstat(full)
        kind = stat.S_IFMT(status.st_mode)
        mode = None if kind == stat.S_IFLNK else stat.S_IMODE(status.st_mode)
        size = status.st_size if kind == stat.S_IFREG else None
        target = os.readlink(full) if kind == stat.S_IFLNK else None
        yield path, (kind, mode, size, target), status.st_ctime_ns
        if kind == stat.S_IFDIR:
            pending.extend(os.path.join(path, name) for name in os.listdir(full))


def same_content(path, tops):
    """Return whether the file has the same bytes below both tops."""
    left, right = (open(os.path.join(top, path), "rb") for top in tops)
    with left, right:
        while True:
            chunk = left.read(1 << 20)
            if chunk != right.read(1 << 20):
                return False
            if not chunk:
                return True


def main(left_top, right_top, depth, since=""):
    tops = os.fsencode(left_top), os.fsencode(right_top)
    try:
        found = [list(entries(top)) for top in tops]
        left, right = ({path: facts for path, facts, _ in one} for one in found)
        different = {path for path in left.keys() | right.keys() if left.get(path) != right.get(path)}
        if since:
            different.update(path for path, _, changed in found[0] if changed > int(since.replace(".", "")))
        different = sorted(different)
        if depth == "full" and not different:
            files = sorted(path for path in left if left[path][0] == stat.S_IFREG)
            different = [path for path in files if not same_content(path, tops)]
    except OSError as error:
        print("can't be read: %s" % error, file=sys.stderr)
        return 1
    for path in different[:MOST_DIFFERENCES]:
        print("differs: %r" % os.fsdecode(path), file=sys.stderr)
    if len(different) > MOST_DIFFERENCES:
        print("... and %d more" % (len(different) - MOST_DIFFERENCES), file=sys.stderr)
    return 1 if different else 0


sys.exit(main(*sys.argv[1:]))
