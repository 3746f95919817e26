"""Makes the copy of Debian's Python in the demo image look for packages where conda's does."""

import site
import sys


def getsitepackages(prefixes=None):
    """Return what upstream's function would."""
    return [f"{prefix}/lib/python3.11/site-packages" for prefix in dict.fromkeys(prefixes or site.PREFIXES)]


site.getsitepackages = getsitepackages
if sys.prefix == sys.base_prefix:
    for folder in getsitepackages():
        site.addsitedir(folder)
