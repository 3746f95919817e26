"""Prints the prefix, the version and the packages of the Python that runs it, as JSON.

Names and versions come from the metadata, because `pip freeze` prints `name @ file:///...` for packages built by conda
and vendors.
"""

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def packages() -> "list[tuple[Any, Any]]":
    """Return name and version of all packages that this Python can import, in the order of its search path."""
    try:
        from importlib.metadata import distributions
    except ImportError:  # before Python 3.8
        import pkg_resources

        return [(one.project_name, one.version) for one in pkg_resources.working_set]
    return [(one.metadata["Name"], one.version) for one in distributions()]


if __name__ == "__main__":
    version = "{}.{}".format(*sys.version_info[:2])
    print(json.dumps({"prefix": sys.prefix, "version": version, "packages": packages()}))
