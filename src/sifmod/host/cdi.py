"""What files of the Container Device Interface (CDI) say about devices of this host.

An administrator's tool writes them in JSON or YAML, and again when the driver changes (CDI, SPEC.md 1.0). They are read
as texts of limited size; what is of another form is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sifmod.host.files import content_of
from sifmod.text.printable import one_line, shortened
from sifmod.text.yaml import Node, read_yaml

# Where Apptainer looks too: option --cdi-dirs of its 1.5. A device of a later folder replaces one of the same name.
FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))

_MOST_FILES = 100
_LARGEST = 4 << 20  # bytes; the file for a node of eight GPUs with MIG has about 0.1 MB
_LONGEST = 4095  # characters of a path
_MOST_SAID = 200  # characters of an error, which may repeat a part of the file


@dataclass(frozen=True)
class CdiFile:
    """One file. Names and paths are printable."""

    path: Path
    kind: str = ""  # vendor and class of its devices, such as `nvidia.com/gpu`
    devices: tuple[str, ...] = ()  # their names, such as `0` or `all`
    nodes: tuple[str, ...] = ()  # device files of the host that they bring
    mounts: tuple[tuple[str, str], ...] = ()  # paths of the host, each with its path in containers
    has_hooks: bool = False  # whether it names programs that a runtime starts beside a container
    problem: str = ""  # why it can't be read; empty if it can


def cdi_files(folders: Sequence[Path] = FOLDERS) -> tuple[CdiFile, ...]:
    """Return the files of these folders, in this order; a folder that can't be listed stands for its files."""
    return tuple(file for folder in folders for file in _files_of(folder))


def _files_of(folder: Path) -> Iterator[CdiFile]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".yaml"))
    except FileNotFoundError:
        return
    except OSError as error:
        yield CdiFile(folder, problem=error.strerror or "it can't be listed")
        return
    yield from map(_read, found[:_MOST_FILES])


def _read(path: Path) -> CdiFile:
    try:
        # JSON as these tools write it is YAML
        document = read_yaml(content_of(path, most=_LARGEST).decode())
    except OSError as error:
        return CdiFile(path, problem=error.strerror or "it can't be read")
    except ValueError as error:
        return CdiFile(path, problem=shortened(one_line(str(error)), _MOST_SAID))
    top = _mapping(document)
    devices = [_mapping(device) for device in _list(top.get("devices"))]
    edits = [_mapping(one.get("containerEdits")) for one in (top, *devices)]
    mounts = (_mapping(mount) for edit in edits for mount in _list(edit.get("mounts")))
    nodes = (_mapping(node) for edit in edits for node in _list(edit.get("deviceNodes")))
    return CdiFile(
        path,
        kind=_text(top.get("kind")),
        devices=_names(_text(device.get("name")) for device in devices),
        nodes=_names(_text(node.get("hostPath")) or _text(node.get("path")) for node in nodes),
        mounts=tuple(dict.fromkeys((_text(one.get("hostPath")), _text(one.get("containerPath"))) for one in mounts)),
        has_hooks=any(_list(edit.get("hooks")) for edit in edits),
    )


def _names(texts: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _mapping(node: object) -> Mapping[str, Node]:
    return node if isinstance(node, dict) else {}


def _list(node: object) -> Sequence[Node]:
    return node if isinstance(node, list) else ()


def _text(node: object) -> str:
    return one_line(node) if isinstance(node, str) and len(node) <= _LONGEST else ""
