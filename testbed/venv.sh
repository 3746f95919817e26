# shellcheck shell=bash disable=SC2154
# A virtual environment with what is locked, and this checkout in it; "venvs" are those that get the checkout. Sourced after lib.sh.

locks=("$TB_HERE/requirements-build.txt" "$TB_HERE/requirements.txt")
lock_hash() { cat "${locks[@]}" | sha256sum | cut -d' ' -f1; }
locked() { [[ $(cat "$1/.complete" 2>/dev/null) == "$(lock_hash)" ]]; } # locked VENV: it has what the locks name

# compile_for_eb VENV FOLDER...: eb runs python -O, for which pip compiles nothing, and the user can't write these files here
compile_for_eb() { "$1/bin/python" -O -m compileall -q -j 0 "${@:2}" || true; }

# fill_venv VENV PYTHON: makes it, with what is locked. The locks hold no pip setting, so the machine's indexes and folders
# serve: the hashes say that they have the same.
fill_venv() {
    rm -rf "$1"
    "$2" -m venv "$1"
    "$1/bin/pip" install --require-hashes -r "${locks[0]}"
    # what comes as source is built by the tools just installed, not by others of an index
    "$1/bin/pip" install --require-hashes --no-build-isolation -r "${locks[1]}"
    compile_for_eb "$1" "$1"/lib/python3*/site-packages
    lock_hash >"$1/.complete"
}

# What the wheel is made of. The user may not be able to read the checkout, so a copy is built.
wheel_parts() {
    (cd "$TB_CHECKOUT" && find pyproject.toml README* LICENSE* COPYING* CHANGELOG* src easyblocks easyconfigs \
        wrappers modulefiles jobs sites advisories catalogue docs/{explanation,howto,reference} docs/{operate,tutorial}.md \
        -name __pycache__ -prune -o -type f -print0 2>/dev/null | sort -z) || true
}
tree_hash() { wheel_parts | (cd "$TB_CHECKOUT" && xargs -0 -r sha256sum) | sha256sum | cut -d' ' -f1; }

have_checkout() {
    local venv tree
    [[ ! -e $TB_CHECKOUT/pyproject.toml ]] && return 0
    tree=$(tree_hash)
    for venv in "${venvs[@]}"; do [[ $(cat "$venv/.sifmod-tree" 2>/dev/null) == "$tree" ]] || return 1; done
}
install_checkout() {
    local work tree part venv
    tree=$(tree_hash)
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf $work" EXIT
    for part in src easyblocks easyconfigs wrappers modulefiles jobs sites advisories catalogue; do # empty ones too
        [[ ! -d $TB_CHECKOUT/$part ]] || mkdir "$work/$part"
    done
    wheel_parts | tar -C "$TB_CHECKOUT" --null -T - -cf - | tar -C "$work" --no-same-owner -xf -
    for venv in "${venvs[@]}"; do
        rm -f "$venv/.sifmod-tree"
        "$venv/bin/pip" install --no-index --no-build-isolation --no-deps --force-reinstall "$work"
        "$venv/bin/pip" check || die 'testbed/requirements.txt lacks packages that pyproject.toml requires: run "make lock"'
        compile_for_eb "$venv" "$venv"/lib/python3*/site-packages/{sifmod,easybuild/easyblocks/generic}
        printf '%s\n' "$tree" >"$venv/.sifmod-tree"
    done
}
