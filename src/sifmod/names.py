"""Names used throughout the project (docs/reference/variables.md lists those that users see)."""

from __future__ import annotations

RUNSCRIPTS = "/runscripts"
USER_SOFTWARE = "/user-software"
# Packed user software below the user's own, the newest at /user-layers/1.
USER_LAYERS = "/user-layers"
# How many; the list of bind paths and Python's search path grow with each.
MOST_LAYERS = 8
# Where programs look for what a layer has beside packages and commands: variable -> folder of its virtual environment.
LAYER_VARIABLES = {
    "CMAKE_PREFIX_PATH": "",
    "JUPYTER_PATH": "/share/jupyter",
    "MANPATH": "/share/man",
    "PKG_CONFIG_PATH": "/lib/pkgconfig",
}
# The feature of a site that binds its MPI.
MPI_FEATURE = "mpi"

# The programs of `inside/` that packing runs.
INSIDE = "/sifmod"

# The host's uv, for a container that has none.
HOST_UV = f"{INSIDE}/uv"

# Names in the installation directory.
USER_SOFTWARE_DIRECTORY = "user-software"
USER_SOFTWARE_PACKED = "user-software.squashfs"
# Present while the directory supersedes a packed file that still lies beside it.
USER_SOFTWARE_UNPACKED = "user-software.unpacked"
# The packed file before the last `make-squashfs --replace`.
USER_SOFTWARE_PREVIOUS = "user-software.squashfs.previous"
# The SHA-256 of the packed files that make-squashfs has written, the newest first.
USER_SOFTWARE_SHA256 = "user-software.sha256"
# What is in the packed file, as `pip install -r` reads it.
USER_SOFTWARE_LIST = "user-software.txt"
# A folder with the layers: 1.squashfs is the oldest.
USER_SOFTWARE_LAYERS = "user-software.layers"
# The layers before flatten-layers made one file of them, and what was on top.
USER_SOFTWARE_FLATTENED = "user-software.layers.flattened"
# What remove-layer took away.
USER_SOFTWARE_REMOVED = "user-software.removed"
# Held while a command changes which copy of user software exists.
USER_SOFTWARE_LOCK = ".user-software.lock"

# The commands of user software on the host: links to one launcher, and the lock of those who refresh them.
USER_COMMANDS = "user-bin"
USER_COMMAND = "share/user-command"
USER_COMMANDS_LOCK = ".lock"

# With this begins the name of a folder on a node for one job's copies of images.
NODE_COPIES = "sifmod-copies-"
# With one of these begins every name at the top level of an installation that belongs to users.
USERS = (USER_SOFTWARE_DIRECTORY, USER_COMMANDS)

# What every new virtual environment has in its bin, as a regular expression of Python and of bash.
SEEDED_COMMANDS = "python[0-9.]*t?|pip[0-9.]*|easy_install.*|wheel|[Aa]ctivate.*|deactivate.*"

# Left by an install that is running or was killed: what it prepares, and what it replaces.
STAGE = ".sifmod-stage"
PREVIOUS = ".sifmod-previous"
# Present while a removal deletes the module files, and after it was killed.
REMOVING = ".sifmod-removing"
# With this begins every such name.
OURS = ".sifmod-"

# Runscripts that users do not start: the versions of the image, and the programs that compare, that run pip and uv, and
# that test MPI.
CONSTRAINTS = "pip-constraints.txt"
CONSISTENCY = "consistency.py"
PLAIN_FILES = "plain_files.py"
INSTALLERS = "installers.py"
MPI_CHECK = "mpi_check.py"
MANIFEST = "share/sifmod.json"

# Everything else at the top level of an installation: no image can have one of these names.
INSTALLED = (
    "bin",
    "easybuild",
    "runscripts",
    "share",
    USER_COMMANDS,
    USER_SOFTWARE_DIRECTORY,
    USER_SOFTWARE_PACKED,
    USER_SOFTWARE_UNPACKED,
    USER_SOFTWARE_LIST,
    USER_SOFTWARE_PREVIOUS,
    USER_SOFTWARE_SHA256,
    USER_SOFTWARE_LAYERS,
    USER_SOFTWARE_FLATTENED,
    USER_SOFTWARE_REMOVED,
)

# Set in the container by sifmod itself: another value would break what the module promises.
RESERVED_VARIABLES = (
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "CONDA_PREFIX",
    "CONDA_PROMPT_MODIFIER",
    "CONDA_PYTHON_EXE",
    "CONDA_SHLVL",
    "PIP_CONSTRAINT",
    "PREPEND_PATH",
    "UV_EXCLUDE",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "WITH_CONDA",
    "WITH_CONDA_VENV",
    "WITH_VENV",
    "_CE_CONDA",
    "_CE_M",
)

# The advisories that a shell has shown, separated by colons. It stays after unload: they are shown once.
ADVISED = "__SIFMOD_ADVISED"

# sifmod's own host commands and runscripts: a wrapper of the same name would hide one of them.
COMMANDS = (
    "start-shell",
    "in-container",
    "make-squashfs",
    "unmake-squashfs",
    "add-layer",
    "remove-layer",
    "flatten-layers",
    "carry-over",
    "list-packages",
    "refresh-commands",
    "broadcast-image",
)

# Host commands that sifmod's scripts, Slurm, Lmod and administrators need: a wrapper of the same name would hide one.
HOST_COMMANDS = frozenset(
    {"bash", "csh", "env", "fish", "ksh", "lua", "ml", "module", "sh", "tclsh", "tcsh", "zsh"}
    | {"eb", "sifmod", "ssh", "su", "sudo"}
    | {"sacct", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sinfo", "squeue", "srun"}
    | {
        "cat",
        "chmod",
        "cp",
        "cut",
        "date",
        "df",
        "diff",
        "du",
        "find",
        "flock",
        "fusermount",
        "fusermount3",
        "getent",
        "grep",
        "head",
        "id",
        "ln",
        "ls",
    }
    | {
        "mkdir",
        "mkfifo",
        "mktemp",
        "mountpoint",
        "mv",
        "nproc",
        "nsenter",
        "od",
        "readlink",
        "rm",
        "rmdir",
        "setpriv",
        "setsid",
        "sha256sum",
        "stat",
        "sync",
        "tail",
        "timeout",
        "touch",
        "wc",
        "xargs",
    }
    | {"apptainer", "enroot", "mksquashfs", "singularity", "squashfuse", "squashfuse_ll", "unsquashfs"}
)

# Options to start a container that sees neither the home, nor the working directory, nor /tmp, nor bind paths of the
# runtime's configuration, nor the environment, nor other processes (/proc/PID/root would show the host).
# Apptainer and SingularityCE support these options, with and without setuid.
CONTAINED = ("--containall", "--no-home", "--no-mount", "cwd,hostfs,bind-paths", "--pwd", "/")

# Variables of the runtime, without the prefix, that change only which files a container has and where the runtime keeps
# its own. With another one, tasks of Slurm do not share a container: it may change namespaces, users or variables.
SHAREABLE = (
    *("_BIND", "_BINDPATH", "_MOUNT", "_NO_HOME", "_NO_MOUNT", "_UNDERLAY", "_UNSQUASH", "_USERNS"),
    *("_CACHEDIR", "_CONFIGDIR", "_LOCALCACHEDIR", "_PULLFOLDER", "_TMPDIR"),
    *("_DOCKER_PASSWORD", "_DOCKER_USERNAME", "_DISABLE_CACHE", "_MESSAGELEVEL", "_NOCOLOR"),
)

# Where a runtime puts the host's libraries into a container, those for GPUs among them.
HOST_LIBRARIES = "/.singularity.d/libs"

# Tried in this order, unless the site names one.
CONTAINER_RUNTIMES = ("singularity", "apptainer")
# What may run the containers of a cluster. `apptainer` is what starts SIFs, SingularityCE included.
APPTAINER, ENROOT = "apptainer", "enroot"
RUNTIMES = (APPTAINER, ENROOT)
# What builds Dockerfiles, in the order in which a host is searched.
IMAGE_BUILDERS = ("buildah", "podman", "docker")
