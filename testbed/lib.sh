# shellcheck shell=bash disable=SC2034
# What the testbed's scripts share: places, names, small helpers. Sourced, never run.

TB=${SIFMOD_TESTBED:-/opt/sifmod-testbed}
TB_USER=hpcuser
TB_HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
TB_CHECKOUT=$(dirname -- "$TB_HERE")
SLURM_CONF=$TB/slurm/slurm.conf
REGISTRY=127.0.0.1:5000
REGISTRY_USER=\$oauthtoken # literally so, as NVIDIA's registry wants it
REGISTRY_PASSWORD=demo-api-key
REGISTRY_IMAGE=demo/python
REGISTRY_TAG=3.11

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit "${2:-1}"
}

# The end of a log, for an error message.
show_log() {
    printf -- '--- end of %s\n' "$1" >&2
    tail -n 20 -- "$1" >&2 || true
}

# Runs a command as the ordinary user, without the environment that as-user makes.
run_as() { setpriv --reuid="$TB_USER" --regid="$TB_USER" --init-groups -- "$@"; }

# The machine's Debian mirror, as apt knows it. Assign it: as another command's argument its failure goes unseen.
debian_mirror() {
    local uri
    # shellcheck disable=SC2016 # apt's own variables
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' \
        'Codename: bookworm' 2>/dev/null | head -n 1) || true
    case $uri in
        http://* | https://* | file:*) printf '%s\n' "${uri%/}" ;;
        *) die 'apt has no mirror of Debian 12: add one in /etc/apt/sources.list.d, then run "apt-get update"' ;;
    esac
}

# Prints the path of Lmod's initialisation for bash; fails if there is no Lmod.
lmod_init() {
    local file
    for file in "${LMOD_PKG:-/nonexistent}/init/bash" /usr/share/lmod/lmod/init/bash \
        /opt/apps/lmod/lmod/init/bash /usr/local/lmod/lmod/init/bash; do
        if [[ -r $file ]]; then
            printf '%s\n' "$file"
            return 0
        fi
    done
    return 1
}

on_debian12() {
    # shellcheck disable=SC1091
    [[ -r /etc/os-release ]] && (. /etc/os-release && [[ $ID == debian && $VERSION_ID == 12 ]])
}

# Prints why an ordinary user can't run containers on this machine, which no package changes; nothing if that can be.
hindrance() {
    local as=() node=/dev/fuse work=
    if ((EUID == 0)); then as=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
    if ! ${as[@]+"${as[@]}"} unshare --user --map-root-user true 2>/dev/null; then
        printf 'an ordinary user can make no user namespaces'
        return
    fi
    if [[ ! -e $node ]] && ((EUID == 0)); then
        work=$(mktemp -d)
        node=$work/fuse
        mknod "$node" c 10 229 2>/dev/null || true
    fi
    # by its numbers: something else may lie there
    if [[ $(stat -c %t:%T "$node" 2>/dev/null) != a:e5 ]] || { ((EUID == 0)) && ! (exec 3<>"$node") 2>/dev/null; }; then
        printf '/dev/fuse is not there or can not be used'
    fi
    [[ -z $work ]] || rm -rf -- "$work"
}
