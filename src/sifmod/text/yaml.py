"""YAML that is not trusted: lists and mappings of texts, each as it is written.

Versions stay what they are: YAML takes `3.10` for the number 3.1. The events of PyYAML are read one by one, because its
loaders call themselves for each level of nesting, so that a small file ends the interpreter.
"""

from __future__ import annotations

from typing import Union

Node = Union[str, list["Node"], dict[str, "Node"]]

_DEEPEST = 20  # levels of nesting


def read_yaml(text: str) -> Node:
    """Return the document of a text, of limited size and without anchors; a scalar that is left out is empty.

    Raises:
        ValueError: it can't be read; the message says why, and on which line.
    """
    import yaml  # most verbs don't need it

    document = _Document()
    try:
        for event in yaml.parse(text, Loader=yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.ScalarEvent):
                document.put(event.value, line)
            elif isinstance(event, yaml.MappingStartEvent):
                document.open({}, line)
            elif isinstance(event, yaml.SequenceStartEvent):
                document.open([], line)
            elif isinstance(event, yaml.CollectionEndEvent):
                document.close()
            elif isinstance(event, yaml.AliasEvent):
                raise ValueError(f"line {line}: '*{event.anchor}' repeats another part: write it out")  # noqa: TRY004 - the text is wrong
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{where}{error.problem or error.context or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    return document.node()


class _Document:
    """A document that is being read: the collections that are open, each with the key that waits for its value."""

    def __init__(self) -> None:
        self._top: list[Node] = []
        self._open: list[tuple[Union[list[Node], dict[str, Node]], list[str]]] = [(self._top, [])]

    def put(self, node: Node, line: int) -> None:
        """Add a node to the collection that is open: a key, a value or an item."""
        collection, key = self._open[-1]
        if isinstance(collection, list):
            collection.append(node)
        elif key:
            collection[key.pop()] = node
        elif not isinstance(node, str):
            raise ValueError(f"line {line}: a list or a mapping can't be a key")
        elif node in collection:
            raise ValueError(f"line {line}: the key '{node}' is there twice")
        else:
            key.append(node)

    def open(self, collection: Union[list[Node], dict[str, Node]], line: int) -> None:
        """Begin a list or a mapping."""
        if len(self._open) > _DEEPEST:
            raise ValueError(f"line {line}: nested more than {_DEEPEST} levels deep")
        self.put(collection, line)
        self._open.append((collection, []))

    def close(self) -> None:
        """End the list or mapping that was begun last."""
        self._open.pop()

    def node(self) -> Node:
        """Return the whole document."""
        if len(self._top) != 1:
            raise ValueError("several documents" if self._top else "it is empty")
        return self._top[0]
