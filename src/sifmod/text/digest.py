"""SHA-256 sums, and the digests that registries and container runtimes write with them."""

from __future__ import annotations

import re

SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(rf"sha256:{SHA256.pattern}")
