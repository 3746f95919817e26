"""Installations that earlier releases have made, kept by testbed/release-tree: with the testbed's image, elsewhere.

0.1.0 is of commit 2ef1654, the first that packs: its make-squashfs has no options, and its manifest no hashes. 0.2.0 is
of c8a7508, and 0.3.0 of its tag.
"""

import json
import subprocess
from pathlib import Path

from conftest import IMAGES, ROOT, User, make_user
from sifmod.host.files import sha256_of
from sifmod.image.sif import sif_id

_ARCHIVES = ROOT / "tests" / "data" / "releases"
RELEASES = sorted(path.name[: -len(".tar.xz")] for path in _ARCHIVES.glob("*.tar.xz"))
PACKED, DIRECTORY = "Python/3.11-demo-singularity", "Python/3.11-directory"
_PREFIX = "/tmp/sifmod-release"  # in texts of the archive


def restored(folder: Path, release: str) -> User:
    """Unpack the tree of a release, and name this folder and this image in it."""
    user = make_user(folder / "eb")
    subprocess.run(["tar", "-C", user.prefix, "-xJf", _ARCHIVES / f"{release}.tar.xz"], check=True)
    image = IMAGES / "demo.sif"
    now = {"image_id": sif_id(image), "image_sha256": sha256_of(image), "image_size": str(image.stat().st_size)}
    for root in sorted((user.prefix / "software" / "Python").iterdir()):
        manifest = root / "share" / "sifmod.json"
        before = json.loads(manifest.read_text())
        words = {_PREFIX: str(user.prefix), **{str(before[key]): value for key, value in now.items() if key in before}}
        for path in (*root.rglob("*"), *(user.prefix / "modules").rglob("*.lua")):
            if path.is_symlink() and str(path.readlink()).startswith(_PREFIX):
                target = str(path.readlink()).replace(_PREFIX, str(user.prefix))
                path.unlink()
                path.symlink_to(target)
            elif path.is_file() and not path.is_symlink() and path.suffix != ".squashfs":
                text = path.read_text()
                for old, new in words.items():
                    text = text.replace(old, new)
                path.write_text(text)
        data = json.loads(manifest.read_text())
        data["hashes"] = {name: sha256_of(root / name) for name in data.get("hashes", ())}
        files = data.get("module_files", {})
        data["module_files"] = {name: digest and sha256_of(Path(name)) for name, digest in files.items()}
        manifest.write_text(json.dumps(data))
        subprocess.run(["cp", "--reflink=auto", image, root / before["image"]], check=True)
    return user
