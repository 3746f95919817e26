"""The Linux system in an image: distribution, libc, architecture, packages, and the runtime's metadata."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
import struct
from collections import ChainMap
from collections.abc import Mapping
from typing import Any, Optional

from sifmod.errors import ImageError
from sifmod.image.files import ImageFiles
from sifmod.image.notes import control_fields, json_object
from sifmod.text.version import version_order

Files = ImageFiles[Any]

_METADATA = "/.singularity.d"
# The runtimes' default for an image that does not set PATH.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# e_machine of ELF, and the name of the architecture in the SIF format.
_MACHINES = {3: "386", 40: "arm", 62: "amd64", 183: "arm64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
_LIBRARY_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_PACKAGE_DATABASE = 32 << 20  # bytes
_LIBC = 16 << 20  # bytes
_OS_RELEASE = 16_384  # bytes
_MOST_FOLDERS = 20
_MOST_CONFIGURED = 500  # folders, and files, of the loader's configuration
_MOST_LOCALES = 100  # commands read the list at each start
# Limits of Linux for the environment of a program (fs/exec.c): no working image sets more.
_MOST_FILLED_IN = 128 << 10  # bytes from references in one variable: MAX_ARG_STRLEN
_MOST_ENVIRONMENT = 6 << 20  # bytes of all assignments: three quarters of the usual stack
_POINTER = 8  # bytes that the kernel adds for each variable

# Scripts of the runtime itself, which put PREPEND_PATH and APPEND_PATH around PATH.
_RUNTIME_SCRIPTS = ("01-base.sh", "94-appsbase.sh", "95-apps.sh", "99-base.sh", "99-runtimevars.sh")
_ASSIGNMENT = re.compile(r"(?:export +)?([A-Za-z_]\w*)=(.*)")
# A line, or a command after an assignment, that may change a variable.
_CHANGES = r"(?<![\w$]){}\+?=|(?:^|[;&|]|\b(?:then|else|do)\b)\s*(?:\.|source|eval)\s"
_CONDITION = re.compile(r"\$\{\w+(?!\w|\}|:-)")  # such as ${PATH:+:$PATH}

_REFERENCE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


def os_release(files: Files) -> dict[str, str]:
    """Return the variables of `os-release` (os-release(5)); empty if the file does not exist."""
    fields = {}
    text = files.text("/etc/os-release", limit=_OS_RELEASE) or files.text("/usr/lib/os-release", limit=_OS_RELEASE)
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[A-Z0-9_]+", name):
            fields[name] = _unquoted(value)
    return fields


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:
        return value


def locales(files: Files, libc: str) -> tuple[str, ...]:
    """Return the locales in UTF-8 of an image with glibc, as `C.utf8`; empty if there are many, or not that one."""
    folder = "/usr/lib/locale"
    found = {name for name in files.names(folder) if name != "locale-archive"}
    head = files.read(f"{folder}/locale-archive", limit=28)
    if len(head) == 28:  # struct locarhead of glibc's locale/locarchive.h
        start, used = struct.unpack_from("=II", head, 20)
        found.update(
            files.read(f"{folder}/locale-archive", start=start, limit=used).decode(errors="replace").split("\0")
        )
    known = {re.sub(r"\.(UTF-8|utf8)$", ".utf8", name) for name in found}
    known = {name for name in known if re.fullmatch(r"[A-Za-z_]{1,20}\.utf8(@[a-z]{1,20})?", name)}
    if libc.startswith("glibc ") and version_order(libc[len("glibc ") :]) >= version_order("2.35"):
        known.add("C.utf8")
    return tuple(sorted(known)) if "C.utf8" in known and len(known) <= _MOST_LOCALES else ()


def dpkg_packages(files: Files) -> tuple[dict[str, str], ...]:
    """Return the fields of each package that dpkg has installed (deb-control(5)); of a field the first line."""
    text = files.text("/var/lib/dpkg/status", limit=_PACKAGE_DATABASE)
    paragraphs = map(control_fields, text.split("\n\n"))
    return tuple(one for one in paragraphs if one.get("Status", "").endswith(" installed") and "Package" in one)


def system_packages(files: Files) -> dict[str, str]:
    """Return the versions of the packages of Debian, Ubuntu or Alpine, by name; RPM's database is not read."""
    packages = {one["Package"]: re.sub(r"^\d+:", "", one.get("Version", "")) for one in dpkg_packages(files)}
    text = files.text("/lib/apk/db/installed", limit=_PACKAGE_DATABASE)  # of Alpine: name `P` and version `V`
    paragraphs = (dict(re.findall(r"^([PV]):(\S.*)$", one, re.M)) for one in text.split("\n\n"))
    return {**packages, **{one["P"]: one["V"] for one in paragraphs if "P" in one and "V" in one}}


def listed_packages(files: Files) -> tuple[tuple[str, str], ...]:
    """Return name and version of the packages in `/.sbom.json`, as images of the LUMI AI Factory have it.

    It has a list of packages for each package manager. Other files of that name are ignored.
    """
    lists = json_object(files.text("/.sbom.json", limit=_PACKAGE_DATABASE)).values()
    entries = (entry for listed in lists if isinstance(listed, list) for entry in listed if isinstance(entry, dict))
    pairs = ((entry.get("name"), entry.get("version")) for entry in entries)
    return tuple((name, version) for name, version in pairs if isinstance(name, str) and isinstance(version, str))


def library_folders(files: Files) -> list[str]:
    """Return the folders of the system's libraries, without links and duplicates."""
    folders = [*_LIBRARY_FOLDERS]
    for folder in ("/lib", "/usr/lib"):
        folders += [f"{folder}/{name}" for name in files.names(folder) if "-linux-gnu" in name][:_MOST_FOLDERS]
    return list(dict.fromkeys(filter(None, map(files.resolved, folders))))


def configured_folders(files: Files) -> tuple[str, ...]:
    """Return the folders that the loader's configuration names, with the files that it includes (ldconfig(8))."""
    folders: dict[str, None] = {}
    paths = ["/etc/ld.so.conf"]
    for path in paths:  # which grows
        for line in files.text(path).splitlines():
            entry = line.partition("#")[0].strip()
            word, *patterns = entry.split() or [""]
            for pattern in patterns if word == "include" else ():
                folder, _, name = posixpath.join(posixpath.dirname(path), pattern).rpartition("/")
                included = (f"{folder}/{one}" for one in fnmatch.filter(files.names(folder), name[:_MOST_CONFIGURED]))
                paths += [one for one in included if one not in paths][: _MOST_CONFIGURED - len(paths)]
            if entry.startswith("/"):
                folders[entry.partition("=")[0].rstrip()] = None
    return tuple(folders)


def libc(files: Files, packages: Mapping[str, str]) -> str:
    """Return name and version of the C library, such as `glibc 2.36`; empty if neither file nor package has it."""
    for folder in library_folders(files):
        text = files.read(f"{folder}/libc.so.6", limit=_LIBC)
        match = re.search(rb"GNU C Library [^\n]{0,200}version (\d+\.\d+)", text)
        if match:
            return f"glibc {match[1].decode()}"
    if "musl" in packages:
        return f"musl {packages['musl'].partition('-')[0]}"
    return "musl" if any(name.startswith("ld-musl-") for name in files.names("/lib")) else ""


def glibc_problem(needed: str, present: str) -> str:
    """Return why a library that needs a glibc can't be loaded with the one present; empty if it can, or if unknown."""
    name, _, version = present.partition(" ")
    is_older = name == "glibc" and version_order(version) < version_order(needed)
    return f"needs glibc {needed}, but the image has {present}" if needed and (name == "musl" or is_older) else ""


def architecture(files: Files) -> str:
    """Return the processor architecture of a program in the image; empty if unknown."""
    for path in ("/bin/sh", "/usr/bin/env", "/bin/ls"):
        head = files.read(path, limit=20)
        if head[:4] == b"\x7fELF" and len(head) == 20:
            return _MACHINES.get(int.from_bytes(head[18:20], "big" if head[5] == 2 else "little"), "")
    return ""


def labels(files: Files) -> dict[str, str]:
    """Return the labels of an image."""
    labels = json_object(files.text(f"{_METADATA}/labels.json"))
    return {str(name): str(value) for name, value in labels.items()}


def script(files: Files, name: str) -> str:
    """Return a script of the runtime: `runscript`, `startscript`, `test`; empty if there is none."""
    return files.text(f"{_METADATA}/{name}").strip()


def definition(files: Files) -> str:
    """Return the text of the definition file that the runtime stores in an image; empty if there is none."""
    return files.text(f"{_METADATA}/Singularity").strip()


def environment(files: Files) -> dict[str, str]:
    """Return the variables that the image sets, read from its scripts without running them.

    Only simple assignments are evaluated: `${NAME:-default}` as the default, and references to earlier variables.
    Anything that needs a shell is returned as written.

    Raises:
        ImageError: with references replaced, the variables exceed the limits of Linux.
    """
    variables: dict[str, str] = {}
    known = ChainMap(variables, {"PATH": DEFAULT_PATH})
    size = 0
    folder = f"{_METADATA}/env"
    for name in files.names(folder):
        # other scripts are internal to the runtime
        if re.fullmatch(r"(10-docker.*|90-environment|91-.*)\.sh", name):
            for line in files.text(f"{folder}/{name}").splitlines():
                match = _ASSIGNMENT.match(line.strip().rstrip(";"))
                if not match:
                    continue
                value = _value(match[2], known)
                size += len(match[1]) + len(value or "") + len("=\0") + _POINTER
                if value is None or size > _MOST_ENVIRONMENT:
                    raise ImageError(
                        f"the environment of '{files.name}' exceeds a limit of Linux ({_MOST_FILLED_IN >> 10} KiB in "
                        f"one variable, {_MOST_ENVIRONMENT >> 20} MiB in total) with the variable "
                        f"'{match[1][:100]}'. Build the image again without it"
                    )
                variables[match[1]] = value
    return variables


def search_path(files: Files, variable: str = "PATH", default: str = DEFAULT_PATH) -> Optional[tuple[str, ...]]:
    """Return every folder that a search path may have in the image; None if a script of the image computes it.

    Raises:
        ImageError: the variables of the image exceed the limits of Linux.
    """
    variables = environment(files)
    folders = default.split(":")
    changes = re.compile(_CHANGES.format(variable))
    folder = f"{_METADATA}/env"
    # images of before Singularity 2.3 have one file
    scripts = [f"{folder}/{name}" for name in files.names(folder) if name not in _RUNTIME_SCRIPTS] or ["/environment"]
    for script_path in scripts:
        for line in (line.strip().rstrip(";") for line in files.text(script_path).splitlines()):
            assignment = _ASSIGNMENT.match(line)
            if assignment and assignment[1] == variable:
                value = _value(assignment[2], {**variables, variable: ":".join(folders)})
                if value is None or re.search(r"[$`;]", value) or _CONDITION.search(assignment[2]):
                    return None
                folders = list(dict.fromkeys([*folders, *value.split(":")]))
            elif not line.startswith("#") and changes.search(line):
                return None
    return tuple(one for one in folders if one.startswith("/"))


def _value(text: str, known: Mapping[str, str]) -> Optional[str]:
    """Return the value of an assignment; None if references make it longer than Linux allows."""
    quote = text[:1] if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1 else ""
    if quote:
        text = text[1:-1]
    if quote != "'":
        # both runtimes write the variables of a Docker image in this form
        text = re.sub(r'^\$\{\w+:-"?(.*?)"?\}$', r"\1", text)
        if sum(len(known.get(name, "")) for name in _REFERENCE.findall(text)) > _MOST_FILLED_IN:
            return None
        text = _REFERENCE.sub(lambda match: known.get(match[1], match[0]), text)
        text = re.sub(r"\\(.)", r"\1", text)
    return text
