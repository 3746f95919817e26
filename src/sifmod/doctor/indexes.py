"""Check that containers see what pip and uv are set to use on this host: certificates, and packages in folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sifmod.doctor.site import is_seen
from sifmod.errors import InstallError
from sifmod.finding import NOTE, OK, WARNING, Finding
from sifmod.install.pip import SITE_CONFIGURATION, named_settings
from sifmod.site.settings import Site
from sifmod.text.size import counted

_TOPIC = "package indexes"
_GUIDE = "see 'sifmod help use-own-certificates-or-mirrors'"

# Images have lists of authorities of their own here.
_SYSTEM_CERTIFICATES = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates")


def check_indexes(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on the settings of pip and uv, which containers get with the user's environment and home."""
    try:
        named = named_settings(environ)
    except InstallError as error:
        yield Finding(
            WARNING, _TOPIC, str(error), "pip fails, in containers too", "correct the file or its permissions"
        )
        return
    unseen = [(setting, path) for setting, path in named if not is_seen(path, site, environ)]
    for setting, path in unseen:
        add = f"add '{path}' to optional_binds in the site file; {_GUIDE}"
        if path.is_file() and any(path.is_relative_to(folder) for folder in _SYSTEM_CERTIFICATES):
            why = "containers read the image's own file there, if there is one, which lacks authorities of your site"
            yield Finding(NOTE, _TOPIC, f"{setting}: '{path}'", why, add)
        else:
            why = "containers don't see it, so pip and uv fail in them, such as with CERTIFICATE_VERIFY_FAILED"
            yield Finding(WARNING, _TOPIC, f"{setting}: '{path}'", why, add)
    if named and not unseen:
        yield Finding(OK, _TOPIC, f"containers see {counted(len(named), 'path')} that pip and uv are set to use")
    if Path(SITE_CONFIGURATION).is_file() and not is_seen(Path(SITE_CONFIGURATION), site, environ):
        why = "containers don't read it: pip has the settings of pip.conf only on the host"
        remedy = f"put them into [container_env] of the site file, such as PIP_INDEX_URL; {_GUIDE}"
        yield Finding(NOTE, _TOPIC, SITE_CONFIGURATION, why, remedy)
