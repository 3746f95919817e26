"""SHA-256 sums, and the digests that registries and container runtimes write with them."""

from __future__ import annotations

import re

SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(rf"sha256:{SHA256.pattern}")


def sha256_in(checksum: object) -> str:
    """Return the SHA-256 in a checksum of an easyconfig, or in a pair with its kind, in small letters; else ''."""
    if isinstance(checksum, tuple) and len(checksum) == 2 and checksum[0] == "sha256":
        checksum = checksum[1]
    return checksum.lower() if isinstance(checksum, str) and SHA256.fullmatch(checksum.lower()) else ""
