"""What a module and the scripts of an installation set, as tables of plain values: static code reads them.

The code is in `modulefiles/` and `wrappers/`.

A row of variables has a name and a value, for bash as `NAME=VALUE`; one without a value unsets the variable.
`runtime_variables` stand without the prefix `SINGULARITY` or `APPTAINER`; those that only the container gets begin
with `ENV_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from sifmod import names
from sifmod.container.bind import Bind, BindPattern, escape
from sifmod.container.gpu import VENDORS
from sifmod.container.runtime import APPTAINER, RUNTIMES, SYSTEM_FOLDERS, runtime_commands, squashfs_runtimes
from sifmod.container.spec import ContainerSpec
from sifmod.container.variables import is_for_host
from sifmod.finding import PROBLEM
from sifmod.image import sif, superblock
from sifmod.image.unpacked import LABELS, MOST_LABELS
from sifmod.inside.installers import AS_MODULE, OTHERS
from sifmod.inside.installing import LOCK, STUBS
from sifmod.inside.trees import FOLDER_MODES, SEEDED
from sifmod.inside.venv import line_of_layer
from sifmod.render.environment import setting_variables
from sifmod.render.facts import InstallationFacts, SettingsFacts, installation_facts, settings_facts
from sifmod.render.features import RECORD, Features, RenderedFeature
from sifmod.site import cache
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.tables import Value

Values = dict[str, Value]

# Messages of `facts.py` on a packed file that can't be used.
_OF_PACKED = ("unreadable_beside_directory", "unreadable_alone", "damaged_beside_directory", "damaged_alone")


def _unpacked(spec: ContainerSpec) -> Values:
    """Return what of an unpacked image is compared at load."""
    return {"labels": spec.image_labels, "labels_file": LABELS, "most": MOST_LABELS} if spec.image_labels else {}


def module_values(spec: ContainerSpec, site: Site) -> Values:
    """Return what the module of a container sets."""
    known = installation_facts(spec, site)
    advisories = list(_shown_at_load(spec, site))
    hides_python = any(re.fullmatch("python[0-9.]*", command) for command in spec.wrappers)
    return _without_empty(
        {
            "family": spec.module_family,
            "image": spec.image_path,
            "unpacked": {**_unpacked(spec), "has_changed": known.messages["image_has_changed"]}
            if spec.is_unpacked
            else {},
            "squashfs": known.path(spec.squashfs) if spec.squashfs else "",
            "installdir": spec.installdir,
            "env_name": spec.env_name,
            **_settings_values(spec, site, known.settings, known.binds, known.structural),
            "user_software": _user_software_values(spec, known) if spec.venv else {},
            "reloading": names.RELOADING if spec.venv else (),
            "bases": known.bases,
            "mounted_anyway": names.MOUNTED_ANYWAY if spec.python else (),
            "own_python_in": known.path("bin") if hides_python else "",
            "central": known.central,
            "image_header": {"id_at": sif.ID_AT, "id_length": sif.ID_LENGTH} if known.central else {},
            "is_closed": known.messages["is_closed"],
            "image_is_gone": known.messages["image_is_gone"],
            "advised": names.ADVISED if advisories else "",
            "advisories": advisories,
        }
    )


def site_values(spec: ContainerSpec, site: Site) -> Values:
    """Return what the module of a site sets for any image."""
    known = settings_facts(spec, site)
    return _without_empty({"family": spec.module_family, **_settings_values(spec, site, known, known.binds, {})})


def script_values(spec: ContainerSpec, site: Site) -> Values:
    """Return what the start of a container reads: `runscripts/values.sh` has these as variables `sifmod_NAME`.

    A value that a script looks at is there, if need be empty. Values of user software, features, caches, GPUs and
    runtimes are there if the container has them. In a list of lists, each has the same number of fields: bash does not
    see where one ends. Each start pays for what is here: see `more_values`.
    """
    known = installation_facts(spec, site)
    own_path, settings, features, caches = known.path, known.settings, known.settings.features, known.settings.caches
    cache_root = site.cache.get(cache.ROOT, "")
    return {
        "module": spec.module,
        "root": spec.installdir,
        "env_name": spec.env_name,
        "image": spec.image_path,
        "squashfs": own_path(spec.squashfs) if spec.squashfs else "",
        # a path, and what the image must have there
        "central": known.central,
        "runtime_commands": site.runtime_commands,
        "launch": spec.launch,
        "share_container": "true" if spec.share_container else "false",
        "master_suffix": site.master_suffix,
        "binds": known.binds,
        "optional_binds": settings.optional_binds,
        "structural": _assignments(known.structural),
        "unset": [name for name in names.RESERVED_VARIABLES if name not in known.structural],
        "injected": _assignments(settings.injected),
        "proxies": settings.proxies,
        "exported": _assignments(settings.exported),
        "locales": spec.locales,
        # of the image, and of the users: that of the virtual environment, if there is one
        "image_python": spec.python.executable if spec.python else "",
        "python": spec.interpreter,
        **_script_gpus(spec, site),
        "caches": _assignments(caches),
        # text, and a variable after it
        **({"cache_root": cache_root, "cache_parts": cache.pieces(cache_root)} if caches else {}),
        "features": [feature.name for feature in features.all],
        **({f"feature_{key}": value for key, value in _script_features(features).items()} if features else {}),
        **(_script_runtimes(spec, site, settings) if spec.squashfs else {}),
        "directory": own_path(names.USER_SOFTWARE_DIRECTORY),
        "packed": own_path(names.USER_SOFTWARE_PACKED),
        "unpacked_mark": own_path(names.USER_SOFTWARE_UNPACKED),
        "venv": spec.venv,
        "packed_bind": known.packed_bind if spec.venv else "",
        **(_script_user_software(spec, known) if spec.venv else {}),
    }


def more_values(spec: ContainerSpec, site: Site) -> Values:
    """Return what few starts read, such as messages, and other commands: these are in `runscripts/more-values.sh`."""
    known = installation_facts(spec, site)
    of_user_software = (*_OF_PACKED, "stale", "missing", "may_not_write") if spec.venv else ()
    of_python = ("own_environment", "own_kernel") if spec.python else ()
    of_images = ("image_is_gone", "squashfs_is_gone")[: 2 if spec.squashfs else 1]
    # the site's defaults
    packing: Values = {
        "user_commands": "true" if spec.user_commands else "false",
        "installer": site.installer,
        "pack": {
            "compressor": site.pack_compressor,
            "level": site.pack_level,
            "block_size": site.pack_block_size,
            "processors": site.pack_processors,
        },
        "site_packages": f"lib/python{spec.python_version}/site-packages",
        "line_of_layer": line_of_layer(spec.venv_path, spec.python_version) if spec.python_version else "",
    }
    return {
        **(packing if spec.venv else {}),
        "said": {
            **{key: known.messages[key] for key in of_images},
            "runtime_is_missing": site.runtime_is_missing,
            **{key: known.messages[key] for key in (*of_python, *of_user_software)},
        },
    }


# in /tmp, under a name that can be guessed, or in the home
_COMPILER_CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


def _script_gpus(spec: ContainerSpec, site: Site) -> Values:
    vendor, of_runtime = spec.vendor, spec.runtime_gpu
    setup = of_runtime.setup(site.gpu_setup) if of_runtime else None
    # a name for --device, and the releases that have it; others get the vendor's usual option
    named = [setup.device, *(f"{one} {number}" for one, number in APPTAINER.devices.items())] if setup else []
    return {
        "gpu_device": of_runtime.device if of_runtime else "",
        "gpu_variable": (setup and setup.variable) or (of_runtime.variable if of_runtime else ""),
        **({"gpu_named": named} if setup and setup.device else {}),
        "visible": vendor.visibility if vendor else (),
        **({"gpus": vendor.gpus, "node_caches": (*vendor.caches, *_COMPILER_CACHES)} if vendor else {}),
    }


def _script_features(features: Features) -> Values:
    """Return the values of features: the first field of a row is the feature, empty for what is so without features."""
    every = [
        ("", features.exported, features.runtime_variables),
        *((one.name, one.exported, one.runtime_variables) for one in features.all),
    ]
    return {
        "chosen": features.chosen,
        # paths that must be there; and patterns, of which one of a kind must match
        "conditions": [
            [one.name, kind, text]
            for one in features.all
            for kind, texts in (
                *(("path", one.needs), ("host", one.feature.hosts)),
                ("partition", one.feature.partitions),
            )
            for text in texts
        ],
        # one or two features
        "refusals": [[*(*one.features, *one.features)[:2], one.message] for one in features.refusals],
        "bind_paths": [[one.name, *_bind_fields(bind), missing] for one in features.all for bind, missing in one.binds],
        "exported": [[name, row] for name, exported, _other in every for row in _assignments(exported)],
        "runtime_variables": [[name, row] for name, _other, variables in every for row in _assignments(variables)],
        "library_path": [[one.name, one.library_path] for one in features.all if one.library_path],
        "library_tail": features.library_tail,
    }


def _assignments(variables: Mapping[str, Optional[str]]) -> list[str]:
    """Return what bash's export takes; a name without a value is one that is unset."""
    return [name if value is None else f"{name}={value}" for name, value in variables.items()]


def _script_runtimes(spec: ContainerSpec, site: Site, known: SettingsFacts) -> Values:
    """Return what a choice between runtimes needs, and what those that start no SIFs do."""
    of_gpu = spec.runtime_gpu.brought_by if spec.runtime_gpu else {}
    starters = [other for one in squashfs_runtimes() for other in (one, one.plugin) if other and other.mounts]
    passed = {*known.exported, *known.loaded_caches, *known.features.exported, *of_gpu}
    return {
        "runtimes": ",".join(site.runtimes or (APPTAINER.key,)),
        # key and command of each, and the script that starts it; empty for what starts SIFs
        "known_runtimes": [
            [one.key, command, one.starter]
            for one in RUNTIMES.values()
            for command in (site.runtime_commands if one.starts_sifs else one.commands)
        ],
        "use_runtimes": f"use {' or '.join(RUNTIMES)}, or several with commas between them",
        # what they can't mount: characters of paths, and these in words
        "unmountable": {one.name: one.mounts.never for one in starters if one.mounts},
        "unmountable_words": {one.name: one.mounts.words for one in starters if one.mounts},
        "contained_variables": [f"{name}={no}" for one in squashfs_runtimes() for name, no in one.contained.items()],
        "brought_by": _assignments(of_gpu),
        # variables that the module may set in the shell for its container
        "passed": " ".join(sorted(passed)),
    }


def _script_user_software(spec: ContainerSpec, known: InstallationFacts) -> Values:
    base_keys = ("root", "manifest", "python_line", "venv_line", "other_python", "other_venv", "is_missing", "is_gone")
    return {
        "venv_path": spec.venv_path,
        "directory_bind": known.directory_bind,
        "layers": known.path(names.USER_SOFTWARE_LAYERS),
        # bound where there are layers; empty if it is bound anyway
        "at_start": known.at_start,
        "bases": [[base[key] for key in base_keys] for base in known.bases],
    }


def script_constants() -> Values:
    """Return what the start of a container reads that is the same in every installation; see `script_values`."""
    return {
        # for $NAME and ${NAME} in values of the shell
        "expanded": quoting.EXPANDED,
        "as_module": AS_MODULE,
        # of the module that was loaded last
        "feature_record": RECORD,
        "most_layers": names.MOST_LAYERS,
        "most_manifest": names.MOST_MANIFEST,
        "packed_format": [*_packed_format().values()],
        # in the container
        "inner_layers": names.USER_LAYERS,
    }


def gpu_switches() -> Iterator[str]:
    """Yield the runtime's variables, without the prefix, that give containers GPUs."""
    for vendor in VENDORS.values():
        yield vendor.variable
        yield from (setup.variable for setup in vendor.setups.values() if setup.variable)


def more_constants() -> Values:
    """Return what few starts and other commands read that is the same in every installation; see `more_values`."""
    return {
        "image_header": [sif.ID_AT, sif.ID_LENGTH],
        # variables of the runtime with which tasks share a container, without the prefix
        "shareable": " ".join((*names.SHAREABLE, *gpu_switches())),
        "layer_said": _layer_said(),
        # in an installation
        "names": {
            "directory": names.USER_SOFTWARE_DIRECTORY,
            "packed": names.USER_SOFTWARE_PACKED,
            "unpacked_mark": names.USER_SOFTWARE_UNPACKED,
            "layers": names.USER_SOFTWARE_LAYERS,
            "previous": names.USER_SOFTWARE_PREVIOUS,
            "flattened": names.USER_SOFTWARE_FLATTENED,
            "removed": names.USER_SOFTWARE_REMOVED,
            "sums": names.USER_SOFTWARE_SHA256,
            "package_list": names.USER_SOFTWARE_LIST,
            "lock_file": names.USER_SOFTWARE_LOCK,
            "commands": names.USER_COMMANDS,
            "commands_lock": f"{names.USER_COMMANDS}/{names.USER_COMMANDS_LOCK}",
        },
        # in a directory of user software that is no longer used
        "folder_modes": FOLDER_MODES,
        # in an environment
        "install_lock": LOCK,
        "stubs": STUBS,
        # in the container
        "inner": {
            "user_software": names.USER_SOFTWARE,
            "inside": names.INSIDE,
            "uv": names.HOST_UV,
            "wheels": names.WHEELS_INSIDE,
            "wheels_at_home": names.WHEELS,
            "installers": f"{names.RUNSCRIPTS}/{names.INSTALLERS}",
            "consistency": f"{names.RUNSCRIPTS}/{names.CONSISTENCY}",
        },
        "contained_options": names.CONTAINED,
        "system_folders": SYSTEM_FOLDERS,
        # whose runscripts start the user's
        "other_installers": [*OTHERS],
        # what every new virtual environment has
        "seeded": SEEDED,
        "seeded_commands": names.SEEDED_COMMANDS,
        # no command of a user may hide these
        "host_commands": sorted({*names.HOST_COMMANDS, *names.HOST_TOOLS, *runtime_commands()}),
    }


def _layer_said() -> dict[str, str]:
    """Return what is said of a layer, after its path."""
    missing = "is left out, and its packages are missing"
    return {
        "too_many_layers": f"{missing}: containers have at most {names.MOST_LAYERS} layers",
        "layer_is_left_out": f"{missing}: it can't be read, or it is damaged. Its owner can restore it from a backup, "
        "or make it readable with chmod ug+r",
        "layer_is_gone": "is gone, and its packages and those of newer layers are missing: its owner can restore it "
        "from a backup",
    }


def _packed_format() -> Values:
    return {"magic": superblock.MAGIC.decode(), "length_at": superblock.LENGTH_AT, "size": superblock.SIZE}


def _settings_values(
    spec: ContainerSpec, site: Site, known: SettingsFacts, binds: Sequence[str], structural: Mapping[str, str]
) -> Values:
    switch = spec.runtime_gpu.setup(site.gpu_setup).variable if spec.runtime_gpu else ""
    gpu = {switch: "1"} if switch else {}
    inner = {f"ENV_{name}": value for name, value in {**structural, **known.injected}.items()}
    constant = {name: value for name, value in known.exported.items() if "$" not in value}
    expanding = {name: value for name, value in known.exported.items() if "$" in value}
    caches = known.loaded_caches
    return {
        "binds": binds,
        "optional_binds": known.optional_binds,
        "runtime_variables": _variable_rows({**gpu, **inner}),
        "proxies": known.proxies,
        "exported": _variable_rows(constant),
        "expanding": _variable_rows(expanding),
        "expanded": quoting.EXPANDED if expanding or known.features or caches else (),
        "cache": _cache_values(site.cache[cache.ROOT], caches) if caches else {},
        "features": _features_values(known.features) if known.features else {},
    }


def _without_empty(values: Values) -> Values:
    """Return values without the empty ones, whose parts are not in the module. The code always reads two."""
    return {key: value for key, value in values.items() if value or key in ("binds", "runtime_variables")}


def _variable_rows(variables: Mapping[str, Optional[str]]) -> list[list[str]]:
    return [[name] if value is None else [name, value] for name, value in variables.items()]


def _cache_values(root: str, folders: Mapping[str, str]) -> Values:
    return {
        "root": root,
        "expanded": cache.parts(root),
        "folders": _variable_rows(folders),
        "unclean": cache.UNCLEAN,
        "missing": cache.MISSING,
        # why a folder on the way to the root lets others put their files there
        "way": {"foreign": cache.FOREIGN, "shared": cache.SHARED, "link": cache.LINK, "unseen": cache.UNSEEN},
        "unusable": cache.UNUSABLE,
        "advice": f"so `singularity exec` uses default places for caches. The site has them in {root}",
    }


def _features_values(features: Features) -> Values:
    return {
        "names": [feature.name for feature in features.all],
        "chosen": features.chosen,
        # as they are without features
        "exported": _variable_rows(features.exported),
        "runtime_variables": _variable_rows(features.runtime_variables),
        "library_tail": features.library_tail,
        "record": features.record,
        "all": [_feature_values(feature) for feature in features.all],
        "refusals": [{"features": one.features, "message": one.message} for one in features.refusals],
    }


def _feature_values(feature: RenderedFeature) -> Values:
    return {
        "name": feature.name,
        "needs": feature.needs,
        "hosts": feature.feature.hosts,
        "partitions": feature.feature.partitions,
        "binds": [_bind_values(bind, missing) for bind, missing in feature.binds],
        "exported": _variable_rows(feature.exported),
        "runtime_variables": _variable_rows(feature.runtime_variables),
        "library_path": feature.library_path,
    }


def _bind_fields(bind: Union[Bind, BindPattern]) -> tuple[str, str, str, str]:
    """Return the source of a bind path, and the path itself or, of a pattern, folder and options of matches."""
    if isinstance(bind, BindPattern):
        return bind.pattern, "", bind.folder, bind.options
    return bind.source, bind.argument, "", ""


def _bind_values(bind: Union[Bind, BindPattern], missing: str) -> Values:
    source, argument, folder, options = _bind_fields(bind)
    of_pattern = {"pattern": source, "folder": folder, "options": options}
    return {
        **({"source": source, "argument": argument} if argument else of_pattern),
        **({"missing": missing} if missing else {}),
    }


def _user_software_values(spec: ContainerSpec, known: InstallationFacts) -> Values:
    return {
        "venv": spec.venv,
        "packed_bind": known.packed_bind,
        "directory_bind": known.directory_bind,
        # bound where there are layers; empty if it is bound anyway
        "at_start": known.at_start,
        "layers_at": f"{names.USER_LAYERS}/",
        "most_layers": names.MOST_LAYERS,
        "most_manifest": names.MOST_MANIFEST,
        # the installation directory in a bind path
        "source": escape(spec.installdir),
        # names in an installation directory
        "names": {
            "directory": f"/{names.USER_SOFTWARE_DIRECTORY}",
            "packed": f"/{names.USER_SOFTWARE_PACKED}",
            "unpacked_mark": f"/{names.USER_SOFTWARE_UNPACKED}",
            "layers": f"/{names.USER_SOFTWARE_LAYERS}/",
        },
        "packed_format": _packed_format(),
        # of a problem with the packed file, the first is for a directory beside it
        "said": {
            "unreadable": [known.messages[key] for key in _OF_PACKED[:2]],
            "damaged": [known.messages[key] for key in _OF_PACKED[2:]],
            "missing": known.messages["missing"],
            **_layer_said(),
        },
    }


def _shown_at_load(spec: ContainerSpec, site: Site) -> Iterator[Values]:
    """Yield the severe advisories whose remedy the module does not apply, with what decides about each at load.

    `variables` are those of the remedy that the module itself does not set: if all are as the remedy says, nothing is
    shown.
    """
    settings = setting_variables(spec, site)
    for advisory in spec.advisories:
        others = {name: value for name, value in advisory.variables.items() if name not in settings}
        is_spoilt = any(settings[name] != value for name, value in advisory.variables.items() if name in settings)
        is_applied = bool(advisory.variables) and not others and not is_spoilt
        if advisory.severity == PROBLEM and not is_applied:
            yield {
                "id": advisory.identifier,
                "text": f"Known problem ({advisory.identifier}): {advisory.sentences}",
                "variables": [] if is_spoilt else _variable_rows(_as_users_set_them(others)),
            }


def _as_users_set_them(variables: Mapping[str, Optional[str]]) -> dict[str, Optional[str]]:
    """Return variables under the names that users set for the container."""
    return {f"SINGULARITYENV_{name}" if is_for_host(name) else name: value for name, value in variables.items()}
