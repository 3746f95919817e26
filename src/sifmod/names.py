"""Names inside a container that the whole project agrees on (docs/reference/variables.md lists them for users)."""

from __future__ import annotations

RUNSCRIPTS = "/runscripts"
USER_SOFTWARE = "/user-software"

# Names in the installation directory.
USER_SOFTWARE_DIRECTORY = "user-software"
USER_SOFTWARE_PACKED = "user-software.squashfs"
# Present while the directory supersedes a packed file that still lies beside it.
USER_SOFTWARE_UNPACKED = "user-software.unpacked"

CONSTRAINTS = "pip-constraints.txt"
MANIFEST = "share/sifmod.json"

# The host commands and runscripts of sifmod itself: a wrapper of the same name would hide one of them.
COMMANDS = ("start-shell", "make-squashfs", "unmake-squashfs", "list-packages")

# Looked for in this order, unless the site names one.
CONTAINER_RUNTIMES = ("singularity", "apptainer")
