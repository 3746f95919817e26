"""The container runtimes: what sifmod knows about each is in one row of a table, and code asks the row.

What starts a runtime is code of its own: a class in `host/`, which `install/starter.py` lists, and the script that the
row names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Optional

from sifmod.text.version import version_order


@dataclass(frozen=True)
class Mounts:
    """What a runtime, or a plugin of Slurm, can't mount."""

    never: str  # characters that no path may have, as a shell writes them between brackets: `[:space:]`
    words: str  # these in words, after "because of"

    def refuses(self, path: str) -> bool:
        """Return whether the path can't be mounted."""
        never = self.never.replace("[:space:]", r"\s").replace("[:cntrl:]", r"\x00-\x1f\x7f")
        return re.search(f"[{never}]", path) is not None


@dataclass(frozen=True)
class Plugin:
    """A plugin of Slurm that starts containers with a runtime."""

    name: str  # its name in messages; `sifmod sbatch` has an option of this name
    script: str  # the script in an installation that a job script sources for it
    options: tuple[str, str]  # options of `srun` with which it is there, and can mount
    tested: str  # its release that was tested
    mounts: Mounts


@dataclass(frozen=True)
class Runtime:
    """One container runtime."""

    key: str  # its name in site files and in `SIFMOD_RUNTIMES`
    name: str  # its name in messages, one word
    commands: tuple[str, ...]  # its commands; the first one on PATH is used
    about: str  # what the description of the site key `runtimes` says of it
    oldest: Mapping[str, str]  # its oldest release that works, by the name of the release
    # whether it starts, makes and verifies SIFs. The others start the image's SquashFS, which an installation then
    # holds too
    starts_sifs: bool = False
    # script in an installation that starts its containers; empty if it takes what modules set as it is
    starter: str = ""
    files: tuple[str, ...] = ()  # scripts that it and its plugin need besides
    # what it can't mount; None if it has a way to write each path. One with a `starter` is given the folder of a mount
    # for what is in a packed file
    mounts: Optional[Mounts] = None
    # variables of its own with which a container sees nothing of the user
    contained: Mapping[str, str] = field(default_factory=dict)
    tested: str = ""  # its release that was tested
    # commands that it needs on nodes, each with what does not work without it
    tools: Mapping[str, str] = field(default_factory=dict)
    # variables that name its folders on a node, each with its default, and the free bytes that may be needed there
    folders: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    configuration: str = ""  # file in which an administrator sets these
    plugin: Optional[Plugin] = None  # the plugin of Slurm that uses it
    # the first release with an option --device for names of CDI, by the name of the release
    devices: Mapping[str, str] = field(default_factory=dict)


APPTAINER = Runtime(
    key="apptainer",
    name="Apptainer",
    commands=("singularity", "apptainer"),
    about="`apptainer` stands for SingularityCE too.",
    # the first releases with the bind option `image-src`, which mounts packed user software (their CHANGELOGs)
    oldest=MappingProxyType({"apptainer": "1.0", "singularity": "3.6", "singularity-ce": "3.6"}),
    starts_sifs=True,
    # Apptainer's CHANGELOG, 1.5.0. SingularityCE has the option with --oci alone (4.0 to August 2026,
    # internal/pkg/runtime/launcher/native: "CDI device mappings unsupported in native launcher")
    devices=MappingProxyType({"apptainer": "1.5"}),
)

_PYXIS = Plugin(
    name="pyxis",
    script="share/pyxis.sh",
    options=("--container-image", "--container-mounts"),
    tested="0.24",
    # commas and colons separate, without an escape, and it writes paths into a bash script between double quotes
    mounts=Mounts(
        r""",:"$`\\[:cntrl:]""",
        "a comma, colon, quote, dollar sign, backquote, backslash or control character",
    ),
)

_ENROOT = Runtime(
    key="enroot",
    name="enroot",
    commands=("enroot",),
    about="With `enroot`, each installation also holds [an image for enroot and pyxis](../howto/use-enroot.md).",
    oldest=MappingProxyType({"enroot": "4.0"}),
    starter="share/enroot.sh",
    files=(
        *("runscripts/with-environment", "share/runtimes.sh", "share/hold-mount", "share/mount-in-job"),
        "share/mounts.sh",
    ),
    # colons and white space separate the fields of a mount, without an escape (4.1.2, enroot-mount.c)
    mounts=Mounts(r":\\[:space:][:cntrl:]", "white space, a colon, a backslash or a control character"),
    # no home, no rights of root and no shell's profile. ENROOT_RESTRICT_DEV is left out: its hook 10-devices.sh fails
    # on hosts that lack one of the devices.
    contained=MappingProxyType(
        {
            "ENROOT_LOGIN_SHELL": "no",
            "ENROOT_MOUNT_HOME": "no",
            "ENROOT_REMAP_ROOT": "no",
            "ENROOT_ROOTFS_WRITABLE": "no",
        }
    ),
    tested="4.1.2",
    tools=MappingProxyType(
        {
            "squashfuse": "enroot can't start an image without unpacking it, and packed user software can't be mounted",
            "fuse-overlayfs": "enroot needs it to start an image without unpacking it, unless the kernel's is enabled",
        }
    ),
    # enroot.in, config::export; an unpacked image needs the space, or its layers
    folders=MappingProxyType(
        {
            "ENROOT_RUNTIME_PATH": ("${XDG_RUNTIME_DIR}/enroot", 10**6),
            "ENROOT_CACHE_PATH": ("${XDG_CACHE_HOME}/enroot", 10**10),
            "ENROOT_DATA_PATH": ("${XDG_DATA_HOME}/enroot", 3 * 10**10),
        }
    ),
    configuration="/etc/enroot/enroot.conf",
    plugin=_PYXIS,
)

# The one for SIFs comes first: it is that of sites that name none.
RUNTIMES: Mapping[str, Runtime] = MappingProxyType({one.key: one for one in (APPTAINER, _ENROOT)})


@dataclass(frozen=True)
class LibraryOrder:
    """How releases of a runtime make LD_LIBRARY_PATH of a container with the host's libraries for GPUs.

    All put the folder of these behind what the image sets, and then read `runscripts/at-start.sh`, which modules bind:
    it puts PREPEND_LD_LIBRARY_PATH, which modules inject, in front, and before that an image's compat libraries.
    """

    name: str  # the runtime, as its `--version` says
    since: str  # the first of these releases; later ones have a row of their own if they differ
    # whether the image's default search path is put before that folder, if the image does not set LD_LIBRARY_PATH
    fills: bool


LIBRARY_ORDERS = (
    # 1.4.5 was run; 1.3.6 was read: action_script.sh, 99-base.sh
    LibraryOrder("apptainer", "1.3", fills=False),
    # 1.5.3 and August 2026 were read; CHANGELOG.md, v1.5.0; #3346
    LibraryOrder("apptainer", "1.5", fills=True),
    # the sources of August 2026 were read: action_script.sh
    LibraryOrder("singularity-ce", "4.0", fills=False),
)


def library_order(name: str, number: str) -> Optional[LibraryOrder]:
    """Return the order of a release; None if it is unknown."""
    # of a package's version, such as 4.1.0-1.el8, and of a candidate, such as 1.5.0-rc.1, the number counts
    known = [one for one in LIBRARY_ORDERS if one.name == name and version_order(number) >= version_order(one.since)]
    return known[-1] if known else None


# Working directories that no runtime mounts in a container (Apptainer, addCwdMount), and whose such a folder is there.
SYSTEM_FOLDERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("/bin", "/etc", "/lib", "/lib64", "/mnt", "/opt", "/sbin", "/usr", "/var"), "image"),
        **dict.fromkeys(("/", "/dev", "/proc", "/sys"), "runtime"),
    }
)


def squashfs_runtimes() -> tuple[Runtime, ...]:
    """Return the runtimes that start no SIFs."""
    return tuple(one for one in RUNTIMES.values() if not one.starts_sifs)


def squashfs_image() -> str:
    """Return what messages call the image that these start: `image for enroot`."""
    return f"image for {' and '.join(one.name for one in squashfs_runtimes())}"


def squashfs_users() -> tuple[str, ...]:
    """Return the names of all that start it: runtimes, and plugins of Slurm."""
    return tuple(name for one in squashfs_runtimes() for name in (one.name, one.plugin and one.plugin.name) if name)


def runtime_commands() -> frozenset[str]:
    """Return the commands of all runtimes."""
    return frozenset(command for one in RUNTIMES.values() for command in one.commands)
