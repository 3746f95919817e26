"""Names packages of user software that do not fit the image's packages, or that are there twice.

    consistency.py USER_SOFTWARE

It is run by the image's Python, with -I: its search path has the image's packages. USER_SOFTWARE has the virtual
environments, which are read and not started. Printed is one line for each requirement of user software's packages that
is not met, and for each package that is there twice. What only the image's packages lack among each other is not named.

Exit status: 0 if nothing was named, 1 if something was, 2 if it can't be checked.
Everything here comes from metadata that anyone may have written: text is escaped, and files are read to a limit.
"""

import collections
import glob
import importlib
import json
import os
import re
import shlex
import sys
import urllib.parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Optional

# Packages of every new virtual environment, which no user installed; the same as in trees.py.
SEEDED = ("pip", "setuptools", "wheel")

# What is packed below user software, the newest first.
LAYERS = "/user-layers"

MOST_READ = 1 << 20  # bytes of one package's metadata
MOST_CHARACTERS = 1000  # of one requirement; no tool writes longer ones
MOST_SHOWN = 200  # characters of one value in a line
MOST_LINES = 100
MOST_ENTRIES = 10000  # of one folder of PYTHONPATH

# Folders of this name are in many sources and packages, and nobody imports them by it.
NOT_IMPORTED = frozenset(("doc", "docs", "example", "examples", "test", "tests"))

# Where the metadata is in an entry of site-packages; distutils installed it as a file of this name.
METADATA = ("METADATA", "PKG-INFO", "EGG-INFO/PKG-INFO", "")

# name and version as the metadata have them, and the requirements with their markers
Package = collections.namedtuple("Package", "name version requires")

# name and extras of what a package needs, the set of specifiers, and the text of the marker
Need = collections.namedtuple("Need", "name extras specifier marker")

# A requirement as tools write it, without an address: name, extras, specifiers with brackets or without, marker.
IDENTIFIER = r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?"
PLAIN = re.compile(
    rf"\s*({IDENTIFIER})\s*(?:\[\s*({IDENTIFIER}(?:\s*,\s*{IDENTIFIER})*)\s*\])?\s*(?!.*(?:,\s*,|[^ -~]))"
    r"(?:\(([^();@]*)\)|([<>=!~][^();@]*)|)\s*(?:;([^;]+))?$",
    re.IGNORECASE | re.ASCII,
)
# the last term of a marker without "or" that only one extra meets
ONE_EXTRA = re.compile(r"""(?:^|\sand\s)\s*extra\s*==\s*(['"])([^'"]*)\1\s*$""")


def canonical(name: str) -> str:
    """Return the normalized name of a package, by which pip compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def shown(text: object) -> str:
    """Return foreign text for a line: not too long, in ASCII, without control characters."""
    plain = str(text).encode("ascii", "backslashreplace").decode()
    plain = re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found.group()):02x}", plain)
    return plain if len(plain) <= MOST_SHOWN else plain[: MOST_SHOWN - 3] + "..."


def package_of(metadata: str) -> "Optional[Package]":
    """Return the package that a METADATA or PKG-INFO file describes; None if it has no name or version."""
    fields = {}  # type: dict[str, list[str]]
    for line in metadata.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip():
            break
        if colon and not line[0].isspace():
            fields.setdefault(key.strip().lower(), []).append(value.strip())
    if not (fields.get("name") and fields.get("version")):
        return None
    return Package(fields["name"][0], fields["version"][0], tuple(fields.get("requires-dist", ())))


def text_of(path: str) -> str:
    """Return the beginning of a file; empty if it is not a regular one: opening a FIFO would wait for a writer."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                return stream.read(MOST_READ).decode("utf-8", "replace")
    except OSError:
        pass
    return ""


def packages_in(folder: str) -> "Iterator[Package]":
    """Yield the packages in one folder of Python's search path."""
    entries = [folder] if folder.endswith(".egg") else []
    # pip renames what it replaces to ~NAME, and leaves it behind if interrupted; NAME-vVERSION is a stub for uv
    for pattern in ("[!~]*-[!v]*.dist-info", "[!~]*.egg-info", "[!~]*.egg"):
        entries += sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
    for entry in entries:
        texts = (text_of(os.path.join(entry, name).rstrip("/")) for name in METADATA)
        package = package_of(next(filter(None, texts), ""))
        if package:
            yield package


def of_name(packages: "Iterable[Package]") -> "dict[str, Package]":
    """Return the packages by normalized name; of several, the first, which is the one that Python imports."""
    found = {}  # type: dict[str, Package]
    for package in packages:
        found.setdefault(canonical(package.name), package)
    return found


def twice(own: "Iterable[Package]", image: "Mapping[str, Package]") -> "Iterator[str]":
    """Yield a line for each package that user software has although it has or the image has it already."""
    first = {}  # type: dict[str, Package]
    for package in own:
        key = canonical(package.name)
        if key in first:
            versions = shown(first[key].version), shown(package.version)
            yield "{} is there twice in user software: {} and {}".format(shown(package.name), *versions)
        elif key in image and key not in SEEDED:
            name, version = shown(package.name), shown(package.version)
            yield f"{name} {version} hides the image's {name} {shown(image[key].version)}"
        first.setdefault(key, package)


def of_pythonpath(value: str) -> "Iterator[tuple[str, Package]]":
    """Yield the packages in the folders of a PYTHONPATH, each with its folder; the current folder has none."""
    for folder in filter(os.path.isabs, value.split(os.pathsep)):
        for package in packages_in(folder):
            yield folder, package


def hidden(ahead: "Iterable[tuple[str, Package]]", container: "Mapping[str, Package]") -> "Iterator[str]":
    """Yield a line for each package of the container before which Python finds another of PYTHONPATH."""
    for folder, package in ahead:
        there = container.get(canonical(package.name))
        if there is not None:
            line = f"{shown(package.name)} {shown(package.version)} in '{shown(folder)}' of PYTHONPATH"
            yield f"{line} hides the container's {shown(there.version)}: unset PYTHONPATH"


def modules_in(folder: str) -> "Iterator[tuple[str, str]]":
    """Yield the names that can be imported from a folder, each with its entry there."""
    try:
        entries = sorted(os.listdir(folder))[:MOST_ENTRIES]
    except OSError:
        return
    for entry in entries:
        name, dot, ending = entry.partition(".")
        is_folder = not dot and os.path.isfile(os.path.join(folder, entry, "__init__.py"))
        if name.isidentifier() and name not in NOT_IMPORTED and (is_folder or re.fullmatch(r"(.*\.)?(py|so)", ending)):
            yield name, entry


def hidden_modules(value: str, modules: "Iterable[str]") -> "Iterator[str]":
    """Yield a line for each folder or file of a PYTHONPATH that Python imports before a module of the container.

    What belongs to a package with metadata there is left to `hidden`.
    """
    known = frozenset(map(canonical, modules))
    for folder in filter(os.path.isabs, value.split(os.pathsep)):
        installed = set()  # type: set[str]
        for info in glob.glob(os.path.join(glob.escape(folder), "*.*-info")):
            lines = text_of(os.path.join(info, "RECORD")) + "\n" + text_of(os.path.join(info, "top_level.txt"))
            installed.update(re.split(r"[/.,]", line.strip())[0] for line in lines.splitlines())
            installed.add(canonical(os.path.basename(info).partition("-")[0]))
        for name, entry in modules_in(folder):
            if canonical(name) in known and not {name, canonical(name)} & installed:
                path = shown(os.path.join(folder, entry))
                yield f"'{path}' of PYTHONPATH hides the container's {shown(name)}: unset PYTHONPATH"


def editable_in(folder: str) -> "Iterator[tuple[Package, str]]":
    """Yield the packages in a folder that are used from their sources, each with the folder of these (PEP 610)."""
    for file in sorted(glob.glob(os.path.join(glob.escape(folder), "[!~]*.dist-info", "direct_url.json"))):
        text = text_of(file)
        package = package_of(text_of(os.path.join(os.path.dirname(file), "METADATA")))
        source = source_of_editable(text)
        if package and source:
            yield package, source


def source_of_editable(text: str) -> str:
    """Return the folder that a direct_url.json of an editable install names; empty for another."""
    try:
        found = json.loads(text)
        url = urllib.parse.urlsplit(found["url"])
        return urllib.parse.unquote(url.path) if url.scheme == "file" and found["dir_info"]["editable"] is True else ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def gone(editable: "Iterable[tuple[Package, str]]") -> "Iterator[str]":
    """Yield a line for each editable package whose sources the container lacks.

    Where sifmod looks by itself, in /, the container has nothing of the user's.
    """
    if os.getcwd() == "/":
        return
    variable = "SINGULARITY_BIND" if "APPTAINER_CONTAINER" not in os.environ else "APPTAINER_BIND"
    for package, source in editable:
        if not os.path.isdir(source):
            said = f"{shown(package.name)} {shown(package.version)} is an editable install of '{shown(source)}'"
            yield f"{said}, which is gone or in no bind path: export {variable}={shlex.quote(shown(source))}"


def covered(folders: "Sequence[str]") -> "Iterator[str]":
    """Yield a line for each package that Python finds in part: a newer layer has a regular folder of its name."""
    regular = {}  # type: dict[str, bool]

    def is_regular(folder: str) -> bool:
        """Return whether Python looks for what is in a folder nowhere else."""
        if folder not in regular:
            path = os.path.join(folder, "__init__.py")
            # what such files have who share a folder
            regular[folder] = os.path.isfile(path) and not re.search("extend_path|declare_namespace", text_of(path))
        return regular[folder]

    for at, folder in enumerate(folders):
        above = folders[:at]
        newer = of_name(package for one in above for package in packages_in(one))
        for record in sorted(glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "RECORD"))) if above else ():
            package = package_of(text_of(os.path.join(os.path.dirname(record), "METADATA")))
            if package is None or canonical(package.name) in newer:
                continue
            for line in text_of(record).splitlines():
                path = line.partition(",")[0]
                parts = path.split("/")[:-1]
                names = ("/".join(parts[: depth + 1]) for depth in range(len(parts)) if ".." not in parts)
                hiding = next((one for one in names if any(is_regular(os.path.join(top, one)) for top in above)), None)
                if hiding and not any(os.path.exists(os.path.join(one, path)) for one in above):
                    name, version = shown(package.name), shown(package.version)
                    said = f"{name} {version} of a layer is hidden in part, by a newer '{shown(hiding)}'"
                    yield f"{said}: pip install --force-reinstall --no-deps {name}=={version}"
                    break


class Requirements:
    """What packages require, as far as it applies to the container's Python, or one with other values for markers.

    Requirements as tools write them are taken apart here, and each marker is evaluated once: parsers of older releases
    take a millisecond for each, and large environments have thousands. Any other requirement is left to the parser, the
    module `packaging.requirements` of any release.
    """

    def __init__(self, parsing: "Any", environment: "Mapping[str, str]") -> None:
        self.parse = parsing.Requirement
        markers, specifiers, versions = (
            importlib.import_module(f"{parsing.__package__}.{name}") for name in ("markers", "specifiers", "version")
        )
        self.marker, self.specifiers, self.version = markers.Marker, specifiers.SpecifierSet, versions.Version
        self.environment = environment
        self.needs = {}  # type: dict[str, Need]
        self.applying = {}  # type: dict[tuple[str, str], bool]

    def of(self, package: "Package", extra: str) -> "Iterator[Need]":
        """Yield what a package requires without extras, or what one of its extras adds to that."""
        for whole in package.requires:
            text = whole[:MOST_CHARACTERS]
            try:
                marker = text.partition(";")[2]
                if is_of_another_extra(marker, extra):
                    continue
                need = self._need(text)
                if self._applies(need.marker, extra) and not (extra and self._applies(need.marker, "")):
                    yield need
            except Exception:  # noqa: S112 - nobody reads a log here
                # A malformed requirement is a fault of the package, which pip reports. Parsers of some releases fail
                # with SyntaxError or KeyError for a backslash or quotes in a marker.
                continue

    def _need(self, text: str) -> "Need":
        if text not in self.needs:
            self.needs[text] = self._plain(text) or self._parsed(text)
        return self.needs[text]

    def _plain(self, text: str) -> "Optional[Need]":
        found = PLAIN.match(text)
        if found is None:
            return None
        name, extras, bracketed, bare, marker = (group or "" for group in found.groups())
        try:
            specifier = self.specifiers(bracketed or bare)
        except ValueError:
            return None
        return Need(name, frozenset(re.findall(r"[\w.-]+", extras)), specifier, marker.strip())

    def _parsed(self, text: str) -> "Need":
        need = self.parse(text)
        return Need(need.name, frozenset(need.extras), need.specifier, str(need.marker or ""))

    def _applies(self, marker: str, extra: str) -> bool:
        key = (marker, extra)
        if key not in self.applying:
            self.applying[key] = not marker or self.marker(marker).evaluate(dict(self.environment, extra=extra))
        return self.applying[key]

    def are_met(self, need: "Need", version: str) -> bool:
        """Return whether a version meets a requirement; also if they can't be compared (1.1build1 of Linux)."""
        try:
            return bool(need.specifier.contains(self.version(version), prereleases=True))
        except ValueError:
            return True


def is_of_another_extra(marker: str, extra: str) -> bool:
    """Return whether a marker asks for another extra, as most do. False says nothing."""
    asked = None if re.search(r"\bor\b", marker) else ONE_EXTRA.search(marker)
    return asked is not None and canonical(asked.group(2)) != canonical(extra)


def unmet(
    own: "Sequence[Package]",
    image: "Mapping[str, Package]",
    requirements: "Requirements",
    is_complete: bool,
    below: "Mapping[str, Package]",
) -> "Iterator[str]":
    """Yield a line for each requirement of user software that is not met; extras count if a package asks for them.

    Of what the packages of layers require, only what one of user software's own does not meet.
    """
    visible, on_top = dict(image), of_name(own)
    visible.update(below)
    visible.update(on_top)
    for name, package in below.items():
        for need in requirements.of(package, "") if name not in on_top else ():
            there = on_top.get(canonical(need.name))
            if there is not None and not requirements.are_met(need, there.version):
                said = f"{shown(package.name)} {shown(package.version)} of a layer"
                said += f" requires {shown(f'{need.name}{need.specifier}')}"
                yield f"{said}, but user software has {shown(there.name)} {shown(there.version)}"
    asked = [(package, "") for package in own]
    known = set(asked)
    for package, extra in asked:
        for need in requirements.of(package, extra):
            there = visible.get(canonical(need.name))
            extras = "[{}]".format(",".join(sorted(need.extras))) if need.extras else ""
            name = f"{package.name}[{extra}]" if extra else package.name
            said = f"{shown(name)} {shown(package.version)} requires {shown(f'{need.name}{extras}{need.specifier}')}"
            if there is None:
                if is_complete:
                    yield f"{said}, which is not installed"
                continue
            if not requirements.are_met(need, there.version):
                places = {"the image": image, "a layer": below, "user software": visible}
                where = next(name for name, place in places.items() if place.get(canonical(need.name)) is there)
                yield f"{said}, but {where} has {shown(there.name)} {shown(there.version)}"
            more = [(there, word) for word in sorted(need.extras) if (there, word) not in known]
            asked += more
            known.update(more)


def named(
    own: "Iterable[Package]",
    image: "Iterable[Package]",
    parsing: "Any",
    environment: "Optional[Mapping[str, str]]" = None,
    is_complete: bool = True,
    below: "Iterable[Package]" = (),
    ahead: "Iterable[tuple[str, Package]]" = (),
) -> "list[str]":
    """Return a line for each package of a virtual environment that does not fit, sorted.

    Args:
        own: its packages.
        image: the image's packages, in the order of Python's search path.
        parsing: the module `packaging.requirements`, of any release.
        environment: values for markers, if another Python runs this than the container's.
        is_complete: whether `image` has all packages of the image; else none is said to be missing.
        below: the packages of the layers, the first layer's first.
        ahead: packages of PYTHONPATH, each with its folder.
    """
    own, by_name = list(own), of_name(image)
    of_layers = of_name(below)
    requirements = Requirements(parsing, environment or {})
    named_here = {*twice(own, by_name), *unmet(own, by_name, requirements, is_complete, of_layers)}
    lines = sorted({*named_here, *hidden(ahead, {**by_name, **of_layers, **of_name(own)})})
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES} more"]
    return lines


def packaging_requirements(folders: "Iterable[str]") -> "Any":
    """Return a module that understands requirements, of the image or of a pip in one of these folders; None without."""
    for folder in ([], *([folder] for folder in folders)):
        sys.path += folder
        try:
            for name in ("packaging", "pip._vendor.packaging"):
                try:
                    return importlib.import_module(f"{name}.requirements")
                except ImportError:
                    continue
        finally:
            sys.path[len(sys.path) - len(folder) :] = []
    return None


def main(user_software: str) -> int:
    """Print the lines for each virtual environment; return the exit status."""
    folders = sorted(glob.glob(os.path.join(glob.escape(user_software), "venv/*/lib/python3*/site-packages")))
    image = [package for folder in sys.path for package in packages_in(folder)]
    layers = sorted(glob.glob(os.path.join(LAYERS, "[1-9]/venv/*/lib/python3*/site-packages")))
    below = [package for folder in layers for package in packages_in(folder)]
    own = [list(packages_in(folder)) for folder in folders]
    parsing = packaging_requirements(folders)
    if parsing is None:
        print("can't be checked: the image has neither the Python package packaging nor pip", file=sys.stderr)
        return 2
    # a folder that Python searches anyway hides nothing
    searched = {os.path.realpath(folder) for folder in (*sys.path, *folders, *layers)}
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    pythonpath = os.pathsep.join(part for part in parts if os.path.realpath(part) not in searched)
    ahead = list(of_pythonpath(pythonpath))
    found = {line for packages in own for line in named(packages, image, parsing, below=below, ahead=ahead)}
    lines = sorted({*found, *(line for folder in folders for line in covered([folder, *layers]))})
    lines += sorted({*gone(one for folder in (*folders, *layers) for one in editable_in(folder))})
    if pythonpath:
        modules = (name for folder in (*sys.path, *folders, *layers) for name, _entry in modules_in(folder))
        lines += sorted(set(hidden_modules(pythonpath, modules)))
    for line in lines:
        print(line)
    if not lines:
        count = sum(canonical(package.name) not in SEEDED for packages in own for package in packages)
        visible = {canonical(package.name) for packages in own for package in packages}
        low = len({canonical(package.name) for package in below} - {*visible, *SEEDED})
        counted = f"{count} package{'' if count == 1 else 's'} of user software"
        counted += f" and {low} of layers" if low else ""
        print(f"{counted}: each fits the others and the image's")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
