"""The variables that a module sets for its container: the effect of activation scripts, and settings."""

from __future__ import annotations

from sifmod import names
from sifmod.container.gpu import NEVER
from sifmod.container.spec import ContainerSpec
from sifmod.container.variables import is_for_host
from sifmod.site.cache import MODULE, ROOT
from sifmod.site.settings import Site

# Already on the container's default search path: prepending one would put it before /usr/local/bin.
_DEFAULT_PREFIXES = ("/", "/usr", "/usr/local")


def structural_variables(spec: ContainerSpec) -> dict[str, str]:
    """Return the variables that make the container's Python and user software work, by name.

    The CONDA_* variables have the values that `activate` of conda 23 and 24 sets. With PREPEND_PATH the runtime puts
    directories before the image's PATH (Apptainer user guide, "Environment").
    """
    search_path = [names.RUNSCRIPTS]
    variables = {}
    if spec.venv:
        search_path.append(f"{spec.venv_path}/bin")
        variables["VIRTUAL_ENV"] = spec.venv_path
        variables["VIRTUAL_ENV_PROMPT"] = f"({spec.venv}) "
        variables["WITH_VENV"] = f"source {spec.venv_path}/bin/activate"
    if spec.python:
        if spec.python.prefix not in _DEFAULT_PREFIXES:
            search_path.append(f"{spec.python.prefix}/bin")
        variables["WITH_CONDA_VENV"] = f"source {names.RUNSCRIPTS}/init-conda-venv"
        if spec.pip_constraints:
            variables["PIP_CONSTRAINT"] = f"{names.RUNSCRIPTS}/{names.CONSTRAINTS}"
        if spec.pip_constraints and spec.venv:
            # for uv that passes no wrapper: it does not see the image's packages, so it must not install them
            variables["UV_EXCLUDE"] = f"{names.RUNSCRIPTS}/{names.CONSTRAINTS}"
    if spec.python and spec.python.conda_env:
        root, env = spec.python.conda_root, spec.python.conda_env
        search_path.append(f"{root}/condabin")
        variables.update(
            {
                "CONDA_DEFAULT_ENV": env,
                "CONDA_EXE": f"{root}/bin/conda",
                "CONDA_PREFIX": spec.python.prefix,
                "CONDA_PROMPT_MODIFIER": f"({env}) ",
                "CONDA_PYTHON_EXE": f"{root}/bin/python",
                "CONDA_SHLVL": "1",
                "WITH_CONDA": spec.python.activation,
                "_CE_CONDA": "",
                "_CE_M": "",
            }
        )
    variables["PREPEND_PATH"] = ":".join(search_path)
    return dict(sorted(variables.items()))


def setting_variables(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return the configurable variables, by name: the easyconfig overrides the site, the site sifmod's defaults.

    What one of them removes (None) is not among them. Remedies that the site applies override the site's own variables.
    """
    own = dict(spec.mpi_env)
    if spec.python:
        own["PYTHONNOUSERSITE"] = "1"
        # PYTHONHOME of a Python of the host, which its module may set, would stop the container's. Empty means unset.
        own["PYTHONHOME"] = ""
    if spec.venv:
        # uv's cache is in the home, mostly another file system: uv would warn that it can't link
        own["UV_LINK_MODE"] = "copy"
        # else jupyter_core takes kernels and configuration of the environment before the home's for its owner only
        own["JUPYTER_PREFER_ENV_PATH"] = "1"
    if spec.host_libraries_first:
        # read at the start by `AT_START`
        own["PREPEND_LD_LIBRARY_PATH"] = names.HOST_LIBRARIES
    if spec.vendor and spec.vendor.compat_variable and not (spec.runtime_gpu and spec.uses_compat):
        own[spec.vendor.compat_variable] = NEVER  # `AT_START` is bound for layers too
    applied = spec.advisories if site.apply_advisories else ()
    remedies = {name: value for one in applied for name, value in one.variables.items()}
    merged = {**own, **site.container_env, **remedies, **spec.container_env}
    return {name: value for name, value in sorted(merged.items()) if value is not None}


def plain_variables(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return the settings that become variables of the user's shell, which the container inherits."""
    return {name: value for name, value in setting_variables(spec, site).items() if not is_for_host(name)}


def injected_variables(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return the settings that only the container gets, because programs of the host read variables of these names."""
    return {name: value for name, value in setting_variables(spec, site).items() if is_for_host(name)}


def proxies(spec: ContainerSpec, site: Site) -> list[tuple[str, str, str]]:
    """Return each variable for a proxy in both spellings: its name, the other one, and the site's value.

    One that the user has when the module is loaded comes before the site's. A setting of that name replaces it.
    """
    others = setting_variables(spec, site)
    rows: list[tuple[str, str, str]] = []
    for lower, value in site.proxies.items():
        upper = lower.upper()
        if value is not None and lower not in others and upper not in others:
            rows += [(lower, upper, value), (upper, lower, value)]
    return rows


def cache_folders(spec: ContainerSpec, site: Site) -> dict[str, str]:
    """Return the folder below the root of the site's caches by variable; empty if the site has no root.

    A variable that the site, a feature or the easyconfig sets (`container_env`) has that value. A module for any image
    has no folder of its own.
    """
    if not site.cache.get(ROOT):
        return {}
    of_features = (name for item in site.feature.values() for name in (*item.env, *item.container_env))
    others = {*setting_variables(spec, site), *of_features}
    return {
        name: folder.replace(MODULE, spec.module)
        for name, folder in sorted(site.cache.items())
        if name != ROOT and folder and name not in others and (spec.installdir or MODULE not in folder)
    }
