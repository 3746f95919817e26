"""A small image in the testbed's registry and in an archive: for tests that need no Python in it."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from conftest import REGISTRY, make_user, registry_password

SMALL = f"{REGISTRY}/demo/small:1"
SMALL_URI = f"docker://{SMALL}"

_PROGRAMS = ("sh", "ls", "chmod", "chown", "mkdir", "sleep", "touch", "true")


def small_image(folder: Path) -> Path:
    """Write the image as `docker save` writes it, push it to the registry, and return the archive."""
    layer = small_layer()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": ["demo/small:1"], "Layers": ["layer.tar"]}]
    path = folder / "small.tar"
    with tarfile.open(path, "w") as archive:
        _add(archive, "config.json", json.dumps(config).encode())
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        _add(archive, "layer.tar", layer)
    make_user(folder / "eb").run(
        "skopeo --insecure-policy copy --quiet --dest-tls-verify=false "
        f"--dest-creds '$oauthtoken:{registry_password()}' docker-archive:{path} {SMALL_URI}"
    )
    return path


def small_layer() -> bytes:
    """A root file system with a few of this machine's programs and their libraries, and `greet`."""
    programs = [shutil.which(name) or name for name in _PROGRAMS]
    libraries = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            layer.addfile(link)
        for name in ("opt", "tmp", "usr/local/bin"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        for word in dict.fromkeys(programs + [word for word in libraries if word.startswith("/")]):
            if not word.endswith(":"):
                _add(layer, f"usr/{word.removeprefix('/usr').lstrip('/')}", Path(word).read_bytes(), mode=0o755)
        _add(layer, "usr/bin/greet", b"#!/bin/sh\necho hello\n", mode=0o755)
        _add(layer, "etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
