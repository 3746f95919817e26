"""python -m bench.scale.replay FOLDER METADATA READS: look at so many names, read so many pages, one after the other.

FOLDER holds files named 0, 1 ... and a file `data`; what was looked at before is in the kernel's memory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PAGE = 4096


def write_folder(folder: Path, metadata: int, reads: int) -> None:
    """Write what `replay` needs for so many operations."""
    folder.mkdir()
    for number in range(metadata):
        (folder / str(number)).touch()
    (folder / "data").write_bytes(bytes(reads * PAGE))


def main() -> None:
    folder, metadata, reads = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    data = os.open(folder / "data", os.O_RDONLY)
    # the kernel would read ahead
    os.posix_fadvise(data, 0, 0, os.POSIX_FADV_RANDOM)
    steps = max(metadata, reads)
    for step in range(steps):
        for number in range(metadata * step // steps, metadata * (step + 1) // steps):
            (folder / str(number)).lstat()
        for number in range(reads * step // steps, reads * (step + 1) // steps):
            os.pread(data, PAGE, number * PAGE)


if __name__ == "__main__":
    main()
