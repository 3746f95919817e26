#!/bin/sh
# The command `sifmod` of sifmod's own module, installed as bin/sifmod (easyconfigs/s/sifmod).
# It takes EasyBuild's Python, or the one that it had when this was installed: `python3` may be that of a loaded container.
library=$(dirname "$(dirname "$(readlink -f "$0")")")/python
read -r installed <"$library/interpreter"
for python in "${EB_PYTHON:-}" "${EB_INSTALLPYTHON:-}" "$installed" python3; do
    ! command -v "$python" >/dev/null || break
done
exec "$python" "$library" "$@" # a folder with a __main__.py: Python finds the modules beside it, before any others
