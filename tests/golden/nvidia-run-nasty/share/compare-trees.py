"""Compare two directories: names, types, modes, link targets and sizes. Exit status 0: the same, 1: different.

Runs under the Python of the image, with one tree packed and the other not. Names are bytes: they need not be text.
"""

import os
import stat
import sys

MOST_DIFFERENCES = 10


def entries(top):
    """Yield (relative path, facts) of everything below top, and of top itself."""
    pending = [b"."]
    while pending:
        path = pending.pop()
        full = os.path.join(top, path)
        status = os.lstat(full)
        kind = stat.S_IFMT(status.st_mode)
        mode = None if kind == stat.S_IFLNK else stat.S_IMODE(status.st_mode)
        size = status.st_size if kind == stat.S_IFREG else None
        target = os.readlink(full) if kind == stat.S_IFLNK else None
        yield path, (kind, mode, size, target)
        if kind == stat.S_IFDIR:
            pending.extend(os.path.join(path, name) for name in os.listdir(full))


def main(left_top, right_top):
    left = dict(entries(os.fsencode(left_top)))
    right = dict(entries(os.fsencode(right_top)))
    different = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
    for path in different[:MOST_DIFFERENCES]:
        print("differs: %r" % os.fsdecode(path), file=sys.stderr)
    if len(different) > MOST_DIFFERENCES:
        print("... and %d more" % (len(different) - MOST_DIFFERENCES), file=sys.stderr)
    return 1 if different else 0


sys.exit(main(*sys.argv[1:]))
