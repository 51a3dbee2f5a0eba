"""YAML text to a tree of values that know their line.

Only the events of the safe parser are used, so no tag can name a Python object and nothing recurses on the depth
of the input. Scalars follow YAML 1.2's core schema: `yes`, `on` and dates are text, so that a team called `no` or
a command called `on` is what its author wrote. Anchors, aliases and merge keys (`<<`) work; what they expand to is
bounded. Source: YAML 1.2.2 chapters 7 and 10.3; requirement config-file.format.yaml.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from yaml.reader import Reader, ReaderError

from sluice.config.errors import ConfigError
from sluice.config.values import Frozen, replace

__all__ = ["MAX_DEPTH", "MAX_WEIGHT", "Node", "parse"]

MAX_DEPTH = 50
"""Levels of nesting, aliases followed."""

MAX_WEIGHT = 100_000
"""Values in the whole file, aliases followed; 64 characters of text count as one more."""

Value = None | bool | int | float | str | list["Node"] | dict[str, "Node"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")}
_STR_TAG = "tag:yaml.org,2002:str"


class Node(Frozen, frozen=True):
    """A value and where it stands.

    `line` is the line of the key when the value stands under one, else its own first line. `weight` and `depth`
    measure the value with all aliases followed. `raw` is the scalar as written, "" for lists and mappings.
    """

    value: Value
    line: int
    weight: int = 1
    depth: int = 1
    raw: str = ""

    def plain(self) -> Any:
        """The value as lists, dictionaries and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def parse(text: str, file: str, loader: Any = _LOADER) -> Node | None:
    """Read one YAML document.

    Args:
        text: the whole file.
        file: the name used in errors.
        loader: the PyYAML loader whose parser is used; both the C and the Python one give the same tree.

    Returns:
        The root, None when there is no document or it is empty.

    Raises:
        ConfigError: for everything that is not one well-formed document within the bounds.
    """
    lines = _Lines(text, file)
    bad = Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        raise lines.error(bad.start(), f"holds the character U+{ord(bad.group()):04X}, which YAML does not allow")
    builder = _Builder(lines)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        raise lines.syntax_error(error) from None
    except (ReaderError, UnicodeError, RecursionError, OverflowError, ValueError) as error:
        raise ConfigError(file, None, "", f"is not YAML ({type(error).__name__})") from None
    return builder.root


class _Lines:
    """Line numbers as an editor counts them: only LF ends a line, whatever YAML 1.1 takes for a break."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, index: int) -> int:
        """The line of the character at `index`, from 1."""
        return bisect_right(self._starts, index)

    def error(self, index: int, message: str, key: str = "") -> ConfigError:
        """An error at a character."""
        return ConfigError(self.file, self.at(index), key, message)

    def syntax_error(self, error: yaml.MarkedYAMLError) -> ConfigError:
        """The parser's error, with a hint for the one mistake that its own words hide."""
        mark = error.problem_mark or error.context_mark
        index = min(mark.index, len(self.text)) if mark is not None else len(self.text)
        start = self._starts[self.at(index) - 1]
        indent = re.match(r"[ \t]*", self.text[start:])
        if indent is not None and "\t" in indent.group():
            return self.error(index, "a tab indents this line; YAML is indented with spaces")
        problem = " ".join(str(error.problem or error.context or "not well-formed").split())
        return self.error(index, f"YAML syntax: {problem}")


class _Open(msgspec.Struct):
    """A list or mapping whose end has not been read; a mapping keeps the key that waits for its value."""

    index: int
    anchor: str | None
    mapping: bool
    items: list[Node] = msgspec.field(default_factory=list)
    entries: dict[str, Node] = msgspec.field(default_factory=dict)
    merged: list[Node] = msgspec.field(default_factory=list)
    key: str | None = None
    key_index: int = 0
    weight: int = 1


class _Builder:
    """Builds the tree from parser events, with a stack of its own instead of the interpreter's."""

    def __init__(self, lines: _Lines) -> None:
        self.root: Node | None = None
        self._lines = lines
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}  # None while the anchored value is still open
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        """Take the next event."""
        index = event.start_mark.index if event.start_mark is not None else 0
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._lines.error(index, "holds a second document; an agent file is one")
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._alias(event.anchor or "", index), index)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, index)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event, index)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _alias(self, name: str, index: int) -> Node:
        if name not in self._anchors:
            raise self._lines.error(index, f"alias *{name} has no anchor before it")
        node = self._anchors[name]
        if node is None:
            raise self._lines.error(index, f"alias *{name} stands inside the value it names")
        return node

    def _scalar(self, event: yaml.ScalarEvent, index: int) -> None:
        self._check_tag(event.tag, index)
        value = event.value
        text = event.tag in (_STR_TAG, "!") or (event.tag is None and not event.implicit[0])
        weight = 1 + len(value) // 64
        node = Node(value if text else _resolve(value), self._lines.at(index), weight, raw=value)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._add(node, index)

    def _open(self, event: yaml.CollectionStartEvent, index: int) -> None:
        self._check_tag(event.tag, index)
        if len(self._stack) >= MAX_DEPTH:
            raise self._lines.error(index, f"is nested deeper than {MAX_DEPTH} levels")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(index, event.anchor, isinstance(event, yaml.MappingStartEvent)))

    def _close(self) -> None:
        done = self._stack.pop()
        for merged in done.merged:
            for key, child in _children(merged):
                if key not in done.entries:
                    done.entries[key] = child
                    done.weight += child.weight
        children = list(done.entries.values()) if done.mapping else done.items
        depth = 1 + max((child.depth for child in children), default=0)
        value: Value = done.entries if done.mapping else done.items
        node = Node(value, self._lines.at(done.index), done.weight, depth)
        if done.anchor is not None:
            self._anchors[done.anchor] = node
        self._add(node, done.index)

    def _add(self, node: Node, index: int) -> None:
        """Put a finished value where it belongs: root, item, key or value."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if parent.mapping and parent.key is None:
            self._key(parent, node, index)
            return
        parent.weight += node.weight
        if parent.weight > MAX_WEIGHT or len(self._stack) + node.depth > MAX_DEPTH + 1:
            raise self._lines.error(index, f"expands to more than {MAX_WEIGHT} values or {MAX_DEPTH} levels")
        if not parent.mapping:
            parent.items.append(replace(node, line=self._lines.at(index)))
            return
        assert parent.key is not None
        if parent.key == "<<":
            self._merge(parent, node)
        else:
            parent.entries[parent.key] = replace(node, line=self._lines.at(parent.key_index))
        parent.key = None

    def _key(self, parent: _Open, node: Node, index: int) -> None:
        if isinstance(node.value, (list, dict)):
            raise self._lines.error(index, "a key is a list or a mapping; keys are text")
        if node.raw in parent.entries or (node.raw == "<<" and parent.merged):
            before = parent.entries.get(node.raw)
            first = f", first on line {before.line}" if before is not None else ""
            raise self._lines.error(index, f"stands twice in one mapping{first}", key=self._path(node.raw))
        parent.key, parent.key_index = node.raw, index

    def _merge(self, parent: _Open, node: Node) -> None:
        sources = node.value if isinstance(node.value, list) else [node]
        for source in sources:
            if not isinstance(source.value, dict):
                raise self._lines.error(parent.key_index, "merges something that is not a mapping", self._path("<<"))
        parent.merged = list(sources)

    def _path(self, key: str) -> str:
        """The dotted path of a key in the innermost open mapping."""
        steps: list[str] = []
        for level in self._stack[:-1]:
            steps.append(f".{level.key}" if level.mapping else f"[{len(level.items)}]")
        return "".join([*steps, f".{key}"]).lstrip(".")

    def _check_tag(self, tag: str | None, index: int) -> None:
        if tag is not None and tag != "!" and tag not in _TAGS:
            raise self._lines.error(index, f"the tag {tag} is not allowed")


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict):
        yield from node.value.items()


def _resolve(text: str) -> bool | int | float | str | None:
    """A plain scalar under the core schema. Numbers that are not finite or have over 300 digits stay text."""
    lowered = text.lower() if text in (text.lower(), text.upper(), text.capitalize()) else text
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INT.fullmatch(text):
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text
