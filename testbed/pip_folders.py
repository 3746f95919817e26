"""Folders that a container must be given for pip to work in it as it does on the host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit


def folders_of_pip() -> list[str]:
    """Return the folders that pip's settings name, for packages and certificates, which a container does not see."""
    folders = set()
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE"):
        for word in os.environ.get(name, "").split():
            path = Path(urlsplit(word).path)
            if urlsplit(word).scheme in ("", "file") and path.exists():
                # an index refers to files beside it
                folders.add(str(path.parent if path.is_file() or name.endswith("INDEX_URL") else path))
    return sorted(folders)


if __name__ == "__main__":
    # a site file's line: TOML writes such a list as JSON does
    print("optional_binds =", json.dumps([folder for folder in folders_of_pip() if not set(folder) & set(",:\\")]))
