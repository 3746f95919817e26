"""What builds Dockerfiles on this host: buildah, podman or docker, with all that a build writes in one folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sifmod.errors import CommandError, ImageError, RuntimeMissingError
from sifmod.host.command import LOOK, Result, first_on_path, run
from sifmod.host.writing import remove_tree
from sifmod.site.settings import Site

_BUILDAH, _DOCKER = "buildah", "docker"
_LONGEST_RUNROOT = 50  # characters that podman takes (libpod, before version 5)


@dataclass(frozen=True)
class ImageBuilder:
    """A command that builds Dockerfiles."""

    path: Path

    @property
    def name(self) -> str:
        """`buildah`, `podman` or `docker`."""
        return self.path.name

    def check(self) -> None:
        """Refuse, with ImageError, a host without user namespaces or subordinate ids, before anything is downloaded."""
        if not self.is_rootless:
            return
        done = run([self.path, "unshare", "cat", "/proc/self/uid_map"], time_limit=LOOK)
        if done.status:
            raise ImageError(
                f"{self.name} can't make a user namespace for you on this node, and so can't build without root. Build "
                "on another node, or ask the administrator for user namespaces and the commands newuidmap and "
                f"newgidmap; its last lines: {done.last_lines}"
            )
        if len(done.stdout.splitlines()) < 2:
            raise ImageError(
                "you have no subordinate user ids on this node, and files of images belong to several users. Ask the "
                "administrator for entries in /etc/subuid and /etc/subgid (usermod --add-subuids 100000-165535 "
                "--add-subgids 100000-165535 NAME). What works without: a definition file of the container runtime "
                "(definition = 'image.def'), or an image that was built elsewhere (image_uri)"
            )

    @property
    def is_rootless(self) -> bool:
        """Whether it builds as this user, in a user namespace; docker asks its service."""
        return self.name != _DOCKER and os.geteuid() != 0

    @property
    def has_tls_option(self) -> bool:
        """Whether an option of a build allows plain HTTP; docker's service has settings for that."""
        return self.name != _DOCKER

    def remove(self, folder: Path) -> None:
        """Remove a folder, in which files may belong to subordinate ids."""
        if self.is_rootless and folder.exists():
            with contextlib.suppress(CommandError):
                run([self.path, "unshare", "rm", "-rf", "--", folder])
        remove_tree(folder)


@dataclass(frozen=True)
class BuildFolder:
    """A folder for one build, and the commands of a builder that write there only.

    Buildah and podman have the same options (buildah-build(1), podman-build(1)). Docker's service keeps the image and
    the logins.
    """

    builder: ImageBuilder
    path: Path  # the folder, which only this user can read

    @property
    def context(self) -> Path:
        """Folder of the files that the Dockerfile copies."""
        return self.path / "context"

    @property
    def dockerfile(self) -> Path:
        """The Dockerfile as it is built, outside of the context."""
        return self.path / "Dockerfile"

    @property
    def logins(self) -> Path:
        """The file with the passwords of registries."""
        return self.path / "auth.json"

    @property
    def archive(self) -> Path:
        """The image, for the container runtime."""
        return self.path / "image.tar"

    @property
    def archive_scheme(self) -> str:
        """The scheme of a URI of the archive."""
        return "docker-archive" if self.builder.name == _DOCKER else "oci-archive"

    @property
    def _storage(self) -> Path:
        return self.path / "storage"

    @property
    def _image(self) -> str:
        """Name of the image, which docker's service has beside others."""
        return f"sifmod-build-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment of the commands."""
        if self.builder.name == _DOCKER:
            return dict(environ)
        folders = {"TMPDIR": "tmp", "XDG_DATA_HOME": "data"}
        if self.builder.name == _BUILDAH:  # podman keeps the process of its user namespace there, for all commands
            folders["XDG_RUNTIME_DIR"] = "run"
        for name in folders.values():
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        places = {variable: str(self.path / name) for variable, name in folders.items()}
        return {**environ, **places, "REGISTRY_AUTH_FILE": str(self.logins)}

    def knows_heredocs(self) -> bool:
        """Whether the builder knows heredocs, docker's with BuildKit: packages of one version differ."""
        return not self._tried("COPY <<EOF /x\nEOF\n").status

    def knows_mounts(self) -> bool:
        """Whether the builder knows `RUN --mount`, which docker knows only with BuildKit."""
        return (
            self.builder.name != _DOCKER
            or "requires BuildKit" not in self._tried('RUN --mount=type=cache,target=/x ["/x"]').stderr
        )

    def _tried(self, line: str) -> Result:
        """Return how the build of a line on no image ends."""
        probe = self.path / "probe"
        probe.mkdir(exist_ok=True)
        (probe / "Dockerfile").write_text(f"FROM scratch\n{line}\n")
        build = ["build", "--no-cache", "--tag", self._image]
        if self.builder.name != _DOCKER:
            build = [*self._storage_options(), "build", "--isolation", "chroot", "--layers=false"]
        return run([self.builder.path, *build, str(probe)], env=self.environment(), time_limit=LOOK)

    def commands(self, options: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the command that builds the image with options of its own, and the one that writes the archive."""
        program = str(self.builder.path)
        what = [*options, "--tag", self._image, "--file", str(self.dockerfile), str(self.context)]
        if self.builder.name == _DOCKER:
            build = [program, "build", "--no-cache", "--force-rm", *what]
            return build, [program, "save", "--output", str(self.archive), self._image]
        storage = self._storage_options()
        # chroot needs neither an OCI runtime nor cgroups, which batch jobs lack; with the format oci, the instruction
        # SHELL would have no effect (buildah-build(1))
        build = [program, *storage, "build", "--isolation", "chroot", "--format", "docker", "--layers=false", *what]
        save = [program, *storage, "push", "--format", "oci", self._image, f"oci-archive:{self.archive}:latest"]
        return build, save

    def _storage_options(self) -> list[str]:
        """Return the options for storage in this folder.

        The driver `vfs` stores the whole file system of each layer, and `overlay` its changes, which old kernels and
        network file systems do not support.
        """
        self._make_runroot()
        places = ["--root", str(self._storage / "root"), "--runroot", str(self._runroot)]
        if os.environ.get("STORAGE_DRIVER"):
            return places
        look = [str(self.builder.path), *places, "--storage-driver", "overlay", "info"]
        has_overlay = run(look, env=self.environment(), time_limit=LOOK).status == 0
        return [*places, "--storage-driver", "overlay" if has_overlay else "vfs"]

    @property
    def _runroot(self) -> Path:
        path = self._storage / "run"
        is_too_long = self.builder.name != _BUILDAH and len(str(path)) > _LONGEST_RUNROOT
        return Path("/tmp", self._image) if is_too_long else path  # noqa: S108 - see _make_runroot

    def _make_runroot(self) -> None:
        """Make the folder in /tmp, where others may have made one of its name."""
        path = self._runroot
        if path.is_relative_to(self.path):
            return
        try:
            path.mkdir(mode=0o700)
        except FileExistsError as error:
            status = path.lstat()
            if (status.st_uid, status.st_mode) != (os.geteuid(), stat.S_IFDIR | 0o700):
                raise ImageError(f"'{path}' is not a folder of yours alone: remove it, or have it removed") from error

    def drop_image(self) -> None:
        """Free the space of the image, which is in the archive, if that is possible now."""
        with contextlib.suppress(OSError, CommandError):
            if self.builder.name == _DOCKER:
                run([self.builder.path, "image", "rm", "--force", self._image], time_limit=LOOK)
            self.builder.remove(self._storage)

    def remove(self) -> None:
        """Remove all that the build has written."""
        if self.builder.name == _DOCKER:
            self.drop_image()
        elif not self._runroot.is_relative_to(self.path):
            self.builder.remove(self._runroot)
        self.builder.remove(self.path)


def find_builder(site: Site) -> ImageBuilder:
    """Return the site's builder of Dockerfiles, or the first known one on PATH; else RuntimeMissingError names them."""
    path = first_on_path(site.image_builders)
    if path:
        return ImageBuilder(path)
    raise RuntimeMissingError(
        f"nothing on this node builds Dockerfiles: looked for {', '.join(site.image_builders)} on PATH. Install "
        "buildah (the package has this name in Debian, Fedora, RHEL and SUSE) or load its module, or set "
        "'image_builder' in the site file. Without one, use a definition file of the container runtime"
    )
