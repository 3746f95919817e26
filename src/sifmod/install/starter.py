"""What runs commands in the image while it is installed."""

from __future__ import annotations

from sifmod import names
from sifmod.errors import RuntimeMissingError
from sifmod.host.command import first_on_path
from sifmod.host.enroot import Enroot
from sifmod.host.runtime import ContainerRuntime, find_runtime
from sifmod.render.templates import render_template
from sifmod.site.settings import Site


def find_starter(site: Site) -> ContainerRuntime:
    """Return the site's container runtime for SIFs, or enroot where there is none and the site has enroot.

    Raises:
        RuntimeMissingError: there is no runtime; the message names the commands that were tried.
    """
    try:
        return find_runtime(site)
    except RuntimeMissingError:
        path = first_on_path((names.ENROOT,)) if site.has_enroot else None
        if path is None:
            raise
        return Enroot(path, render_template("runscripts/with-environment", commands={}))
