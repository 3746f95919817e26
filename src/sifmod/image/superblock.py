"""How a SquashFS 4.0 begins: what a program needs that only asks whether a file is a whole one.

The rest of the superblock is PySquashfsImage's `Superblock`, which is loaded only to look into an image
(`image/squashfs.py`); a test holds these values to it.
"""

MAGIC = b"hsqs"
SIZE = 96  # bytes of the superblock
LENGTH_AT = 40  # where it says how long the file system is: 8 bytes, the lowest first
