"""The module of a site alone: for any image it does what a container's module does for its own."""

from __future__ import annotations

from pathlib import PurePath
from textwrap import wrap

from sifmod.container.gpu import LIBRARIES, VENDORS
from sifmod.container.spec import ContainerSpec
from sifmod.render.environment import injected_variables, plain_variables
from sifmod.render.facts import settings_facts
from sifmod.render.helptext import FEATURES_ADVICE, FEATURES_TITLE, feature_rows
from sifmod.render.module import module_text
from sifmod.render.values import Values, site_values
from sifmod.site.cache import ROOT
from sifmod.site.settings import Site
from sifmod.text.printable import printable

# In the head of each of these files, and in no other.
MARK = "Written by `sifmod site module`."

# The keys of a site that it depends on.
USED_KEYS = (
    "runtime",
    "binds",
    "optional_binds",
    "gpu",
    "gpu_libraries",
    "gpu_setup",
    "container_env",
    "cache",
    "default_features",
    "feature",
)

_WIDTH = 100


def short_name(site: Site) -> str:
    """Return the name of a site without the folder and the suffix of its file, which depend on how it was chosen."""
    return PurePath(site.name).name.removesuffix(".toml")


def render_site_module(name: str, site: Site) -> dict[str, str]:
    """Return the module by file name: Lmod loads the one in Lua, and Environment Modules sees only the other one."""
    spec = _any_image(name, site)
    title = short_name(site)
    comment = f"{MARK} It has the settings of the site {title}: to change them, change the site file and run it again."
    values: Values = {
        **site_values(spec, site),
        "help": _help(spec, site),
        "whatis": [
            f"Description: Bind paths, variables and GPU support of {title} for containers of any image",
            f"Keywords: container, {', '.join(site.runtime_commands)}, {title}",
        ],
    }
    lua, tcl = (module_text(comment, values, syntax) for syntax in ("Lua", "Tcl"))
    return {f"{name}.lua": lua, name: f"#%Module\n{tcl}"}


def _any_image(name: str, site: Site) -> ContainerSpec:
    """Return the description of an image of which nothing is known but that it is used at this site."""
    usual = VENDORS[site.gpu].libraries if site.gpu else LIBRARIES[0]
    return ContainerSpec(
        name=name,
        version="",
        env_name="",
        installdir="",
        sif="",
        gpu=site.gpu,
        gpu_libraries=site.gpu_libraries or usual,
    )


def _help(spec: ContainerSpec, site: Site) -> list[str]:
    """Return the lines of `module help`."""
    facts = settings_facts(spec, site)
    optional = [bind for _, bind in facts.optional_binds]
    vendor = spec.runtime_gpu
    sections = {
        "Bind paths": facts.binds,
        "Bind paths that are used if they exist where the module is loaded": optional,
        FEATURES_TITLE: [f"{name}  {text}" for name, text in feature_rows(spec, site).items()],
        "GPU support": [f"{vendor.switch(site.gpu_setup)} ({vendor.name})"] if vendor else [],
        "Variables, which containers inherit": [
            f"{name}={value}" for name, value in plain_variables(spec, site).items()
        ],
        "Variables in containers only": [f"{name}={value}" for name, value in injected_variables(spec, site).items()],
        f"Caches below {site.cache.get(ROOT)}, if it exists where the module is loaded": facts.loaded_caches,
    }
    lines = [
        f"This module sets what containers of any image need at the site {short_name(site)}:",
        "",
        f"  module load {spec.name}",
        f"  {site.runtime_commands[0]} run IMAGE.sif",
    ]
    for title, items in sections.items():
        if items:
            lines += ["", f"{title}:", *(f"  {item}" for item in items)]
    if site.feature:
        lines += ["", FEATURES_ADVICE]
    lines += [
        "",
        *wrap(
            "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and "
            "variables that you export are used too. The module of a container has all of this and replaces it.",
            _WIDTH,
        ),
    ]
    return [printable(line) for line in lines]
