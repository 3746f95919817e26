"""The kinds of site settings: how to read each from TOML and from a variable, and its JSON schema."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Callable, Optional

from sifmod import names
from sifmod.container import kinds, runtime
from sifmod.container.bind import Bind, BindPattern
from sifmod.container.gpu import VENDORS
from sifmod.container.kinds import WrongItemError, check_choice, checked_items, naming_item
from sifmod.container.variables import PROXIES, VARIABLE_NAME, VARIABLE_VALUE, check_variable
from sifmod.site import cache
from sifmod.text.printable import STEERING

COMPRESSORS = ("zstd", "gzip", "lz4", "lzo", "xz")

# mksquashfs -help-comp all; the others have no levels
LEVELS = MappingProxyType({"zstd": 22, "gzip": 9, "lzo": 9})

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?")
# Nothing that a shell reads: the value stands in an expression that the runtime evaluates.
_PROXY = re.compile(r"(?!.*:-)[A-Za-z0-9._~:/@%,*+=\[\]-]+")
# The driver of a partition's GPUs, and their model.
_GPUS = r"[0-9]{1,6}(\.[0-9]{1,6}){1,3} \S.*"
_SEEMS_A_HOST = re.compile(
    r"(localhost|\d+(\.\d+){3}|([A-Za-z0-9-]+\.)+[A-Za-z][A-Za-z0-9-]*)(:.*)?|[A-Za-z0-9-]+:\d{1,5}(/.*)?"
)


@dataclass(frozen=True)
class Kind:
    """One kind of setting."""

    title: str  # the values that it takes, for the documentation
    # converts a TOML value to the setting. It raises TypeError with what the key takes, or ValueError with what is
    # wrong with the value
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]  # JSON schema of the TOML value
    # converts the text of a SIFMOD_* variable to a TOML value; None if no variable can hold one
    from_variable: Optional[Callable[[str], Any]] = None


@dataclass(frozen=True)
class Key:
    """One key of a site file, or of a table in it."""

    name: str
    kind: Kind
    help_text: str
    default: Any

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty if there is none."""
        return f"SIFMOD_{self.name.upper()}" if self.kind.from_variable else ""


def described(kind: Kind, default: Any, help_text: str) -> Any:
    """Return a field of a dataclass that is a key: its kind, its default and its meaning."""
    metadata = {"kind": kind, "help": help_text}
    if isinstance(default, dict):
        return field(default_factory=lambda: MappingProxyType(dict(default)), metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(described_class: Any) -> Mapping[str, Key]:
    """Return the keys of a dataclass: its fields that were made with `described`."""
    return MappingProxyType(
        {
            item.name: Key(
                item.name,
                item.metadata["kind"],
                item.metadata["help"],
                item.default_factory() if item.default_factory is not MISSING else item.default,
            )
            for item in fields(described_class)
            if item.metadata
        }
    )


def plain(setting: Any) -> Any:
    """Return a setting as the TOML or JSON value that `read` converts."""
    if isinstance(setting, Mapping):
        return {name: False if value is None else value for name, value in setting.items()}
    if isinstance(setting, tuple):
        return [item.argument if isinstance(item, (Bind, BindPattern)) else item for item in setting]
    return setting


def read_string(value: Any) -> str:
    """Return a text, of one or several lines."""
    if not isinstance(value, str):
        raise TypeError('a string in quotes, such as key = "value"')
    return value


def read_text(value: Any) -> str:
    """Return a text of one line."""
    text = read_string(value)
    if re.search(r"[\t\n]", text) or STEERING.search(text):
        raise ValueError("write it on one line, without control characters")
    return text


def _one_of(known: tuple[str, ...], empty: Optional[str], value: Any) -> str:
    text = read_text(value) or empty or ""
    return text if text == empty else check_choice(text, known)


def choice(*known: str, empty: Optional[str] = "") -> Kind:
    """Return the kind for a choice of words; an empty text stands for a word, or is refused (None)."""
    allowed = {*known} if empty is None else {*known, empty}
    return Kind(" or ".join(known), partial(_one_of, known, empty), {"type": "string", "enum": sorted(allowed)}, str)


def _whole(lowest: int, highest: int, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number, such as key = {lowest}")
    if not lowest <= value <= highest:
        raise ValueError(f"use a whole number from {lowest} to {highest}")
    return value


def number(lowest: int, highest: int) -> Kind:
    """Return the kind for a whole number in a range, also accepted as text."""
    text = {"type": "string", "pattern": "^[0-9]{1,9}$"}
    whole = {"type": "integer", "minimum": lowest, "maximum": highest}
    return Kind(f"{lowest} to {highest}", partial(_whole, lowest, highest), {"anyOf": [whole, text]}, str)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false, without quotes")
    return value


def _flag_of_variable(text: str) -> bool:
    if text not in ("true", "1", "false", "0"):
        raise TypeError("true or false")
    return text in ("true", "1")


def _block_size(value: Any) -> str:
    sizes = [*(f"{2**power}K" for power in range(2, 10)), "1M"]
    if read_text(value) not in sizes:
        raise ValueError(f"use a block size of SquashFS: {', '.join(sizes)}")
    return str(value)


def absolute(path: str) -> str:
    """Return the path if it is absolute; else ValueError says what it is instead."""
    if path.startswith("/"):
        return path
    if "://" in path:
        raise ValueError(
            f"'{path}' is an address, but this key takes paths: begin it with '/'. To pull an image, set image_uri in "
            "its easyconfig"
        )
    if _SEEMS_A_HOST.fullmatch(path):
        raise ValueError(
            f"'{path}' is the name of a host, but this key takes paths on the cluster's nodes: begin it with '/'. "
            "Registries accessed over plain HTTP belong in insecure_registries"
        )
    raise ValueError(f"'{path}' is not an absolute path: begin it with '/'")


def _path(value: Any) -> str:
    path = os.path.expanduser(os.path.expandvars(read_text(value)))  # noqa: PTH111 - text, no Path: it may be empty
    return path and absolute(path)


def _node_path(value: Any) -> str:
    """Return an absolute path for other hosts and users: nothing in it is expanded, and it can stand in a bind path."""
    path = read_text(value)
    if path and not re.fullmatch(r"/[^,:\\$~]*", path):
        raise ValueError("write an absolute path without $ ~ , : and backslash, such as '/tmp'")
    return path and absolute(path)


def read_items(value: Any, check: Callable[[str], Any] = str) -> tuple[Any, ...]:
    """Return the list with each item checked; an error names its item."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError('a list of strings, such as key = ["one", "two"]')
    return checked_items(value, check)


def _host(text: str) -> str:
    if _HOST.fullmatch(text):
        return text
    if text.startswith("/"):
        raise ValueError(
            f"'{text}' is a path, but this key takes hosts of registries: write 'host:port'. Folders with images "
            "belong in image_repositories"
        )
    raise ValueError(f"'{text}' is not a host: write 'host' or 'host:port' alone, without 'http://' and without a path")


def _runtimes(value: Any) -> tuple[str, ...]:
    found = read_items(value, check=partial(_one_of, tuple(runtime.RUNTIMES), None))
    for number, name in enumerate(found):
        if name in found[:number]:
            raise WrongItemError(name, "it is there twice: name each runtime once")
    return found


def read_bind(text: str) -> Bind:
    """Return a bind path; an address or the name of a host gets a message of its own."""
    if "://" in text or _SEEMS_A_HOST.fullmatch(text):
        absolute(text)
    return Bind.parse(text)


def _mask(text: str) -> str:
    if not re.fullmatch(r"0x[0-9A-Fa-f]+", text) or not int(text, 16):
        raise ValueError(f"'{text}' is not a CPU mask: write it in hexadecimal, such as '0xfe'")
    return text


def read_variables(value: Any, check: Callable[[object, object], None] = check_variable) -> Mapping[str, Any]:
    """Return a table of variables, with None for those that are not to be set: TOML has no null, so it is `false`."""
    if not isinstance(value, dict):
        raise TypeError("a table of NAME = value lines")
    read = {name: None if content is False else content for name, content in value.items()}
    for name, content in read.items():
        with naming_item(name):
            check(name, content)
    return MappingProxyType(read)


def _proxy(name: object, value: object) -> None:
    check_choice(str(name), PROXIES)
    if value is not None and not (isinstance(value, str) and _PROXY.fullmatch(value)):
        raise ValueError(
            f"write the address of {name}, or the hosts of no_proxy, in quotes, without spaces, quotes, '$' and ':-', "
            "such as 'http://proxy:3128'"
        )


def _partition(value: Any) -> Any:
    if isinstance(value, str):
        return read_text(value)
    if not isinstance(value, dict):
        raise TypeError(f"the name of a partition, or a table such as {{ {', '.join(f'{v} = ...' for v in VENDORS)} }}")
    for vendor, name in value.items():
        with naming_item(vendor):
            if not isinstance(name, str) or not name.strip():
                raise ValueError("it has no partition: name one in quotes, or leave this vendor out")
            check_choice(vendor, tuple(VENDORS))
            read_text(name)
    return MappingProxyType(dict(value))


def _partition_gpus(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError('a table of lines PARTITION = "DRIVER MODEL"')
    for name, content in value.items():
        with naming_item(name):
            if not isinstance(content, str) or not re.fullmatch(_GPUS, read_text(content)):
                raise ValueError(
                    "write the version of the driver and the model of the GPUs, as in '535.104.05 A100-SXM4-40GB'"
                )
            read_text(name)
    return MappingProxyType(dict(value))


def _cache(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError('a table with root = "/path" and lines NAME = "folder"')
    for name, content in value.items():
        with naming_item(name):
            cache.check_entry(name, content)
    return MappingProxyType(dict(value))


def list_schema(pattern: str) -> Mapping[str, Any]:
    """Return the schema of a list of strings that match a regular expression."""
    return {"type": "array", "items": {"type": "string", "pattern": pattern}}


def key_schema(key: Key) -> dict[str, Any]:
    """Return the schema of a key's value, with its meaning and its default."""
    default = {} if key.default is None else {"default": plain(key.default)}
    return {"description": key.help_text, **default, **key.kind.schema}


def table_schema(
    of: Optional[Mapping[str, Any]] = None, *, keys: Iterable[Key] = (), names: Iterable[str] = ()
) -> Mapping[str, Any]:
    """Return the schema of a table."""
    named = {"properties": {key.name: key_schema(key) for key in keys}} if keys else {}
    allowed = {"propertyNames": {"enum": [*names]}} if names else {}
    return {"type": "object", **named, **allowed, "additionalProperties": False if of is None else of}


def split(separator: str, text: str) -> list[str]:
    """Return the items of a variable's text, without empty ones."""
    return [item for item in text.split(separator) if item]


FLAG = Kind("true or false", _flag, {"type": "boolean"}, _flag_of_variable)
TEXT = Kind("string", read_text, {"type": "string"}, str)
PATH = Kind(
    "absolute path; `~` and `$VARIABLES` are expanded", _path, {"type": "string", "pattern": "^([/~$].*)?$"}, str
)
NODE_PATH = Kind(
    "absolute path on compute nodes, in which nothing is expanded",
    _node_path,
    {"type": "string", "pattern": r"^(/[^,:\\$~]*)?$"},
    str,
)
PATHS = Kind(
    "list of absolute paths",
    partial(read_items, check=absolute),
    list_schema("^/"),
    partial(split, ":"),
)
BINDS = Kind(
    "list of bind paths",
    partial(read_items, check=read_bind),
    list_schema("^/"),
    lambda text: [bind.argument for bind in Bind.parse_list(text)],
)
HOSTS = Kind(
    "list of `host:port`",
    partial(read_items, check=_host),
    list_schema(r"^[A-Za-z0-9\[][^/]*$"),
    partial(split, ","),
)
MASKS = Kind(
    "list of hexadecimal masks",
    partial(read_items, check=_mask),
    list_schema("^0x[0-9A-Fa-f]+$"),
    partial(split, ","),
)
RUNTIMES = Kind(
    f"list of {' and '.join(f'`{name}`' for name in runtime.RUNTIMES)}",
    _runtimes,
    {"type": "array", "items": {"type": "string", "enum": [*runtime.RUNTIMES]}, "uniqueItems": True},
    partial(split, ","),
)
BLOCK_SIZE = Kind(
    "`4K`, `8K` ... `512K`, `1M`", _block_size, {"type": "string", "pattern": "^(4|8|16|32|64|128|256|512)K$|^1M$"}, str
)
VARIABLES = Kind(
    "table of strings; `false` unsets",
    read_variables,
    {
        "type": "object",
        "propertyNames": {"pattern": f"^{VARIABLE_NAME.pattern}$", "not": {"enum": list(names.RESERVED_VARIABLES)}},
        "additionalProperties": {
            "anyOf": [
                {"type": "string", "pattern": f"^{VARIABLE_VALUE.pattern}$"},
                {"type": "boolean", "enum": [False]},
            ]
        },
    },
)
PROXY_TABLE = Kind(
    f"table of {', '.join(f'`{name}`' for name in PROXIES)}; `false` unsets",
    partial(read_variables, check=_proxy),
    {
        "type": "object",
        "propertyNames": {"enum": [*PROXIES]},
        "additionalProperties": {
            "anyOf": [{"type": "string", "pattern": f"^{_PROXY.pattern}$"}, {"type": "boolean", "enum": [False]}]
        },
    },
)
PARTITION = Kind(
    f"string, or table of {' and '.join(f'`{name}`' for name in VENDORS)}",
    _partition,
    {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "propertyNames": {"enum": [*VENDORS]},
                "additionalProperties": {"type": "string", "minLength": 1},
            },
        ]
    },
    str,
)
FAMILY = Kind("name, empty for none", kinds.FAMILY.read, {"type": "string"}, str)
PARTITION_GPUS = Kind(
    "table: driver and model by partition",
    _partition_gpus,
    {"type": "object", "additionalProperties": {"type": "string", "pattern": f"^{_GPUS}$"}},
)
CACHE = Kind(
    "table: `root`, and the folder of each variable",
    _cache,
    {
        "type": "object",
        "properties": {cache.ROOT: {"type": "string", "pattern": cache.ROOT_PATTERN}},
        "propertyNames": {"pattern": f"^({cache.ROOT}|{cache.VARIABLE.pattern})$"},
        "additionalProperties": {"type": "string", "pattern": cache.FOLDER_PATTERN},
    },
)
