"""Servers of models: how each is told where to listen and what its key is. A row of a file is one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from sifmod.errors import JobError, SiteError
from sifmod.resources import data_path
from sifmod.site.cache import VARIABLE
from sifmod.site.file import SiteFile
from sifmod.site.keys import FLAG, Key, Kind, described, keys_of, list_schema, read_items, read_text
from sifmod.site.reading import read_table
from sifmod.site.settings import Site
from sifmod.text.suggest import perhaps

KIND = "file of servers"

# What stands in braces, which the job knows.
PLACES = ("host", "port", "key_file", "key_config", "nodes", "rank", "head", "join", "folder")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PATH = re.compile(r"/[A-Za-z0-9/_.~?=&%+-]*")


def _words(value: Any) -> str:
    text = read_text(value)
    for place in re.findall(r"\{(\w+)\}", text):
        if place == "key":
            raise ValueError(
                "every user of a node can read the arguments of its processes: write {key_file}, or name key_variable"
            )
        if place not in PLACES:
            raise ValueError(f"there is no {{{place}}}: use {_places()}")
    return text


def _places() -> str:
    return ", ".join(f"{{{one}}}" for one in PLACES)


def check_path(text: str) -> str:
    """Return the path of a URL; ValueError says what is wrong with it."""
    if not _PATH.fullmatch(text):
        raise ValueError(f"'{text}' is not the path of a URL: begin it with '/', such as '/health'")
    return text


def _key_config(value: Any) -> str:
    text = read_text(value)
    if text and text.count("{key}") != 1:
        raise ValueError(f"'{text}' does not say where the key stands: write {{key}} there")
    return text


def _key_variable(value: Any) -> str:
    text = read_text(value)
    if text and not VARIABLE.fullmatch(text):
        raise ValueError(f"'{text}' is not a variable's name in capital letters, such as API_KEY")
    return text


def _release(value: Any) -> str:
    text = read_text(value)
    if text and not re.fullmatch(r"[0-9]+\.[0-9]+", text):
        raise ValueError(f"'{text}' is not a release: write MAJOR.MINOR, such as 2.52")
    return text


def _variable(text: str) -> str:
    if not re.fullmatch(rf"{VARIABLE.pattern}=.*", text):
        raise ValueError(f"'{text}' is not NAME=VALUE")
    return _words(text)


_WORDS = Kind("words with spaces between them", _words, {"type": "string"})
_LIST = Kind("list of strings", read_items, list_schema(""))


def _value(options: Sequence[str], command: Sequence[str]) -> str:
    """Return the value of the first of these options that a command has; empty if it has none."""
    for option in options:
        for word, following in zip(command, [*command[1:], ""]):
            if word == option or word.startswith(f"{option}="):
                return following if word == option else word.partition("=")[2]
    return ""


@dataclass(frozen=True)
class Server:
    """A program that serves a model over HTTP; the keys of its table are the fields after `name`."""

    name: str
    commands: tuple[str, ...] = described(_LIST, (), "Names of the program, and of modules after `python -m`.")
    arguments: str = described(_WORDS, "", "What is added to the command, such as `--host {host} --port {port}`.")
    key_variable: str = described(
        Kind("string", _key_variable, {"type": "string"}), "", "The variable from which the server reads the key."
    )
    key_config: str = described(
        Kind("string", _key_config, {"type": "string"}),
        "",
        "The line of the file `{key_config}`, in YAML, from which the server reads the key: `{key}` in it.",
    )
    keyless: bool = described(
        FLAG, False, "Whether the server checks no key. Then it listens on 127.0.0.1 of its node alone."
    )
    refused: tuple[str, ...] = described(_LIST, (), "Options that users must leave out, because the job sets them.")
    model: tuple[str, ...] = described(_LIST, (), "Options that name the model; else it is the word after `serve`.")
    served: tuple[str, ...] = described(_LIST, (), "Options that name it otherwise for requests.")
    health: str = described(
        Kind("path of a URL", lambda value: check_path(read_text(value)), {"type": "string", "pattern": "^/"}),
        "/health",
        "Where it says if it is ready.",
    )
    several: str = described(_WORDS, "", "What is also added to the command on several nodes.")
    others: str = described(_WORDS, "", "What is also added to it on all nodes but the first.")
    head: str = described(_WORDS, "", "What runs beside the server on its node, if there are several.")
    oldest: str = described(
        Kind("release, MAJOR.MINOR", _release, {"type": "string", "pattern": "^[0-9]+[.][0-9]+$"}),
        "",
        "The first release of the program of `head` that asks for the key; an older one is refused.",
    )
    member: str = described(
        _WORDS, "", "What runs on the other nodes. If there is neither, the command itself runs on each."
    )
    variables: tuple[str, ...] = described(
        Kind("list of NAME=VALUE", partial(read_items, check=_variable), list_schema("=")),
        (),
        "Variables for all of these on several nodes.",
    )

    def model_of(self, command: Sequence[str]) -> str:
        """Return the model that a command names; empty if it names none."""
        after = command[command.index("serve") + 1 :] if "serve" in command else []
        return _value(self.model, command) or (after[0] if after and not after[0].startswith("-") else "")

    def name_of(self, command: Sequence[str]) -> str:
        """Return by which name requests ask for the model of a command."""
        return _value(self.served, command) or self.model_of(command)

    def check(self, command: Sequence[str]) -> None:
        """Refuse, with JobError, options that the job sets itself."""
        for word in command:
            # some servers take an option with either
            option = word.partition("=")[0].replace("_", "-")
            if option in self.refused:
                raise JobError(
                    f"leave {option} out: the job itself sets where {self.name} listens, its key, which nobody else "
                    "may know, and its nodes"
                )


# What is served as it is: TGI and others read this variable.
OTHER = Server(name="", key_variable="API_KEY")

SERVER_KEYS: Mapping[str, Key] = keys_of(Server)


def load_servers(site: Site) -> Mapping[str, Server]:
    """Return the servers by name: those that are shipped, then those of the site's files; a later row replaces one.

    Raises:
        SiteError: a file can't be read, or has a wrong key or value; the message names file and line.
    """
    found: dict[str, Server] = {}
    for path in (data_path("jobs") / "servers.toml", *map(Path, site.servers)):
        file = SiteFile.read(path, kind=KIND)
        for name, table in file.values.items():
            if not _NAME.fullmatch(name) or not isinstance(table, dict):
                raise SiteError(f"{file.place(name)} has {name}: write each server under a line [NAME]")
            found[name] = Server(name, **read_table(file, table, SERVER_KEYS, top=(name,), of=f"the server {name}"))
    return MappingProxyType(found)


def server_of(command: Sequence[str], servers: Mapping[str, Server], name: str = "") -> Server:
    """Return the server of a command, or the one of this name; `OTHER` if it is none that is known.

    Raises:
        JobError: there is no server of this name, or the command is one of a known server with a typing error.
    """
    if name:
        if name not in servers:
            raise JobError(
                f"'{name}' is not a server{perhaps(name, servers)}: write --serve={'|'.join(servers)}, or --serve "
                "alone before another option or --"
            )
        return servers[name]
    words = {PurePosixPath(command[0]).name}
    if "-m" in command[:-1]:
        words.add(command[command.index("-m") + 1])
    found = next((one for one in servers.values() if words & {*one.commands}), OTHER)
    known = [name for one in servers.values() for name in one.commands]
    if found == OTHER and "{port}" not in " ".join(command):
        for word in words:
            if perhaps(word, known):
                raise JobError(
                    f"'{word}' is not a server that is known{perhaps(word, known)}: correct it, or add {{port}}"
                )
    return found


def check_places(command: Sequence[str]) -> None:
    """Refuse, with JobError, a command that is served as it is and does not take its port, or takes the key in argv."""
    if any("{key}" in word for word in command):
        raise JobError(
            "every user of a node can read the arguments of its processes, so {key} can't be one: write {key_file}, or "
            f"let the program read the variable {OTHER.key_variable}"
        )
    for place in re.findall(r"\{(\w+)\}", " ".join(command)):
        # of another word, braces may be the program's own
        if place not in PLACES and perhaps(place, PLACES):
            raise JobError(f"there is no {{{place}}}{perhaps(place, PLACES)}: use {_places()}")
    if not any("{port}" in word for word in command):
        raise JobError(
            f"'{command[0]}' is not a server that is known, so its arguments must say where it listens: write {{host}} "
            "and {port} where the address and the port stand, or name the server with --serve=NAME"
        )
