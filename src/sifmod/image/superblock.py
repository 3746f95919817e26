"""The fields of a SquashFS 4.0 superblock that show whether a file is complete.

PySquashfsImage has the whole superblock, but is loaded only to read an image (`image/squashfs.py`); a test compares
these values with it.
"""

MAGIC = b"hsqs"
SIZE = 96  # bytes of the superblock
LENGTH_AT = 40  # offset of the file system's length: 8 bytes, little-endian
