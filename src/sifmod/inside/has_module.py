"""Tests whether the Python that runs it can import a module.

    has_module.py MODULE

Exit status: 0 if it can; 41 if it can't; any other if Python does not run.
"""

import importlib.util
import sys

MISSING = 41

if __name__ == "__main__":
    sys.exit(0 if importlib.util.find_spec(sys.argv[1]) else MISSING)
