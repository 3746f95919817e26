"""The git repository of a source, with its submodules, whose addresses are the text of its author."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Callable

from sifmod.errors import InstallError
from sifmod.host.command import Result, run
from sifmod.install.pip import network_settings
from sifmod.text.printable import one_line

# What git sets for a hook or an alias, so that its commands work on the repository of that. Those on what the user
# configures stay, as "git rev-parse --local-env-vars" has them, and names of which that knows nothing.
_OF_ANOTHER_REPOSITORY = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE"),
    *("GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)
# Without the user's home and configuration git knows no helper for credentials, no .netrc, no key and no token.
_WITHOUT_LOGIN = {
    "HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "http:https",
}
_OF_PROGRAMS = ("PATH", "LD_LIBRARY_PATH", "LANG", "TMPDIR", "GIT_EXEC_PATH", "GIT_SSL_CAINFO", "SSL_CERT_DIR")
_MOST = 1000  # submodules: a repository may be its own
_GITLINK = "160000"
# The user's own login on a host of files could lead through links there; a forge has the same user for all.
_SCP = re.compile(r"^git@([\w.-]+):/?(?=[^/])")
_ADDRESS = re.compile(
    r"(https?://|ssh://git@)([\w.-]+(?::\d+)?)/((?:(?!\.\.?/)[\w.+~-]+/)*)(?!\.\.?/?$)[\w.+~-]+/?", re.ASCII
)


def clone(
    repository: str, revision: str, target: Path, *, say: Callable[[str], object], environ: Mapping[str, str]
) -> None:
    """Clone a repository and its submodules; no program of a repository runs on the host.

    This user's logins are for the repository, and for submodules that the same owner has on the same host. Others are
    fetched without a login: their address could be a private repository of this user's, and the source's own program
    would get it.

    Raises:
        InstallError: git can't bring the repository, or a submodule of its owner.
    """
    own = {name: value for name, value in environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    kept = {name: environ[name] for name in _OF_PROGRAMS if name in environ}
    without_login = {**network_settings(environ), **kept, **_WITHOUT_LOGIN}
    done = _cloned(repository, revision or "HEAD", target, own)
    if done.status:
        raise InstallError(f"git could not bring {repository}: {done.last_lines}")
    waiting, number = [(target, repository, True)], 0
    while waiting:
        folder, above, has_login = waiting.pop()
        for path, address, commit in _submodules(folder, above, own):
            number += 1
            place = folder / path
            if number > _MOST or os.path.realpath(place) != str(place):
                raise InstallError(f"{repository} has more than {_MOST} submodules, or one behind a link")
            ways = [(without_login, "http.emptyAuth=false")]
            if has_login and _is_beside(address, repository):
                # a redirection could lead the login to another owner's repository
                ways.insert(0, (own, "http.followRedirects=false"))
            results = []
            for variables, option in ways:
                results.append(_cloned(address, commit, place, variables, "-c", option))
                if not results[-1].status:
                    waiting.append((place, address, variables is own))
                    break
            else:
                why = f"the submodule {one_line(address)}: {results[0].last_lines}"
                if len(ways) > 1:
                    raise InstallError(f"git could not bring {why}")
                say(
                    f"left out: {why}. Your logins are only for submodules beside {repository}. If the build needs "
                    "it, clone the repository with --recurse-submodules, and name its folder"
                )


def _cloned(address: str, revision: str, target: Path, environ: Mapping[str, str], *options: str) -> Result:
    """Clone a repository and check a revision out; return the result of the last command, or of the one that failed."""
    git = ["git", "-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false", *options]
    here, checkout = [*git, "-C", str(target)], ["checkout", "--quiet", revision, "--"]
    done = run([*git, "clone", "--quiet", "--no-checkout", "--", address, str(target)], env=environ)
    if done.status:
        return done
    done = run([*here, *checkout], env=environ)
    if done.status and not run([*here, "fetch", "--quiet", "origin", revision], env=environ).status:
        done = run([*here, *checkout], env=environ)  # a commit that is on no branch
    return done


def _submodules(folder: Path, address: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield path, whole address and commit of each submodule of a clone.

    The paths are those in git's index, which has checked that they stay in the clone.
    """
    git = ["git", "-C", str(folder)]
    keys = r"^submodule\..*\.(path|url)$"
    texts = run([*git, "config", "-z", "--blob", ":.gitmodules", "--get-regexp", keys], env=environ).stdout
    values = dict(text.split("\n", 1) for text in texts.split("\0") if "\n" in text)
    urls = {path: values.get(f"{key[: -len('.path')]}.url") for key, path in values.items() if key.endswith(".path")}
    for entry in run([*git, "ls-files", "-s", "-z"], env=environ).stdout.split("\0") if urls else ():
        facts, _, path = entry.partition("\t")
        url = urls.get(path)
        if facts.startswith(_GITLINK) and url:
            yield path, _absolute(address, url), facts.split()[1]


def _absolute(address: str, url: str) -> str:
    """Return the address of a submodule, which may be relative to that of the repository above it."""
    if not url.startswith(("./", "../")):
        return url
    address = address.rstrip("/")
    while url.startswith(("./", "../")):
        step, _, url = url.partition("/")
        address = address.rpartition("/")[0] if step == ".." else address
    return f"{address}/{url}"


def _is_beside(address: str, repository: str) -> bool:
    """Return whether an address is in the folder of a repository's on its host, which forges call owner or group."""
    places = [_ADDRESS.fullmatch(_SCP.sub(r"ssh://git@\1/", one)) for one in (address, repository)]
    if not all(places):
        return False
    (scheme, host, folder), (own_scheme, own_host, own_folder) = (place.groups() for place in places if place)
    is_there = host.lower() == own_host.lower() and scheme in (own_scheme, "ssh://git@")
    return is_there and bool(own_folder) and folder.startswith(own_folder)
