"""Names used throughout the project (docs/reference/variables.md lists those that users see)."""

from __future__ import annotations

RUNSCRIPTS = "/runscripts"
# In the module file of each release.
WRITTEN_BY = "written by sifmod"
USER_SOFTWARE = "/user-software"
# Packed user software below the user's own, the newest at /user-layers/1.
USER_LAYERS = "/user-layers"
# How many; the list of bind paths and Python's search path grow with each.
MOST_LAYERS = 8
# A runscript that the runtime reads at each start of a container with layers or GPU support, and where it looks for it.
AT_START = "at-start.sh"
READ_AT_START = "/.singularity.d/env/99-sifmod.sh"
# The feature of a site that binds its MPI.
MPI_FEATURE = "mpi"
# The feature of a site that binds its Slurm, and where a container has what only counts with it.
SLURM_FEATURE = "slurm"
SLURM_RUNSCRIPTS = f"{RUNSCRIPTS}/slurm"

# The programs of `inside/` that packing runs.
INSIDE = "/sifmod"

# The host's uv, for a container that has none.
HOST_UV = f"{INSIDE}/uv"
# The wheels that `sifmod build-wheel` has made for a module, and where its pip and uv find them.
WHEELS = ".local/share/sifmod/wheels"
WHEELS_INSIDE = f"{INSIDE}/wheels"

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
# Ending of the mark of a file in that folder that is a layer no longer.
LAYER_UNUSED = ".unused"
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

# Prefixes of the names at the top level of an installation that belong to users.
USERS = (USER_SOFTWARE_DIRECTORY, USER_COMMANDS)

# What every new virtual environment has in its bin, as a regular expression of Python and of bash.
SEEDED_COMMANDS = "python[0-9.]*t?|pip[0-9.]*|easy_install.*|wheel|[Aa]ctivate.*|deactivate.*"

# Left by an install that is running or was killed: what it prepares, and what it replaces.
STAGE = ".sifmod-stage"
PREVIOUS = ".sifmod-previous"
# Present while a removal deletes the module files, and after it was killed.
REMOVING = ".sifmod-removing"
# The prefix of these names.
OURS = ".sifmod-"

# Runscripts that users do not start: the versions of the image, and the programs that compare, that run pip and uv, and
# that test MPI.
CONSTRAINTS = "pip-constraints.txt"
# Files that an install makes from the image instead of rendering them.
OF_THE_IMAGE = (f"runscripts/{CONSTRAINTS}", "share/docker-defs/")
CONSISTENCY = "consistency.py"
PLAIN_FILES = "plain_files.py"
INSTALLERS = "installers.py"
INSTALLING = "installing.py"
MPI_CHECK = "mpi_check.py"
# The values of an installation: scripts read them here, on the host and in the container; few read the second file.
VALUES = "values.sh"
MORE_VALUES = "more-values.sh"
# What all host commands source.
CONTAINER_SCRIPT = "share/container.sh"
# The commands that wrappers run, for containers that the host does not start: a name and its words in each line.
WRAPPED = "commands.txt"
MANIFEST = "share/sifmod.json"
# How much of the manifest of a base is read at each start, in bytes: it may be a colleague's.
MOST_MANIFEST = 1 << 20

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

# Host commands that change what is bound: in the shell of a user they load the module again.
RELOADING = ("make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers")

# sifmod's own host commands: a wrapper of the same name would hide one of them.
COMMANDS = (
    "start-shell",
    "in-container",
    *RELOADING,
    "carry-over",
    "list-packages",
    "refresh-commands",
)

# Commands of the host: a container has a script of each name, which says so.
ON_HOST = ("module", "salloc", "sbatch", "sifmod")
# The same with the feature of Slurm alone: submitit and Open MPI take Slurm for theirs if they find it.
ON_HOST_WITH_SLURM = ("srun",)
ON_HOST_WITH_USER_SOFTWARE = (*RELOADING, "carry-over", "refresh-commands")

# Host commands that sifmod's scripts, Slurm, Lmod and administrators need: a wrapper of the same name would hide one.
HOST_COMMANDS = frozenset(
    {"bash", "csh", "env", "fish", "ksh", "lua", "ml", "module", "sh", "tclsh", "tcsh", "zsh"}
    | {"eb", "sifmod", "ssh", "su", "sudo"}
    | {"sacct", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sinfo", "squeue", "srun"}
    | {"cat", "chmod", "cp", "cut", "date", "df", "diff", "du", "find", "flock", "fusermount", "fusermount3", "getent"}
    | {"grep", "head", "id", "ln", "ls", "mkdir", "mkfifo", "mktemp", "mountpoint", "mv", "nproc", "nsenter", "od"}
    | {"readlink", "rm", "rmdir", "setpriv", "setsid", "sha256sum", "stat", "sync", "tail", "timeout", "touch", "wc"}
    | {"xargs"}
    | {"mksquashfs", "squashfuse", "squashfuse_ll", "unsquashfs"}
)

# Host commands that users need as they are: user software hides none of them. A wrapper in an easyconfig may.
HOST_TOOLS = frozenset(
    {"gpg", "kinit", "klist", "kdestroy", "newgrp", "passwd", "rsync", "scp", "sftp", "sg"}
    | {"ssh-add", "ssh-agent", "ssh-copy-id", "ssh-keygen", "ssh-keyscan"}
    | {"git", "tar"}
    | {"sacctmgr", "scrontab", "sdiag", "sh5util", "sprio", "sreport", "sshare", "sstat", "strigger"}
    | {"awk", "basename", "comm", "dirname", "gawk", "hostname", "join", "sed", "sleep", "sort", "tee", "tr", "uname"}
    | {"uniq", "which"}
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

# What runtimes mount from the host by themselves, beside the home and the working directory (Apptainer user guide,
# "System-defined bind paths").
MOUNTED_ANYWAY = ("/tmp", "/var/tmp")  # noqa: S108 - nothing is written there

# Where a runtime puts the host's libraries into a container, those for GPUs among them.
HOST_LIBRARIES = "/.singularity.d/libs"

# What builds Dockerfiles, in the order in which a host is searched.
IMAGE_BUILDERS = ("buildah", "podman", "docker")
