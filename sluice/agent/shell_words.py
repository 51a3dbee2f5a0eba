"""Shell command lines as a shell reads them: simple commands and their words.

Rules and the classifier look at these and never at the text of a line, because text lies: `ls*` as a text pattern
covers `lsof` and `ls; rm -r ~`. The grammar is tree-sitter-bash, which knows more than `/bin/sh` does; what is more
than words and spaces is never *plain* here, so it does not matter where the two differ. Nothing is expanded and
nothing is run.

Only a plain line may be allowed by what it says: one simple command whose words are all written out. Everything else
can still be looked through for what a rule forbids (`every_command`), generously: a wrong hit costs a question.

Source: requirement `permission.grant.shell-words`.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["MAX_LINE", "Line", "SimpleCommand", "every_command", "parse"]

log = logging.getLogger(__name__)

MAX_LINE = 16_384
"""Characters of a line that is parsed; a longer one counts as not understood."""

_DEEPEST = 4
"""How many command lines inside command lines (`sh -c "…"`) are looked through."""

_RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"),
        *("function", "select", "coproc", "time", "!", "{", "}", "[[", "]]"),
    )
)
"""Words that are no command's name, whatever the grammar made of the line."""

_COMMANDS = frozenset(("command", "declaration_command", "unset_command", "test_command"))

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "eval", "source", "."))
"""What runs text as commands."""

_RUNNERS = frozenset(
    (
        *("sudo", "doas", "su", "runuser", "env", "command", "builtin", "exec", "nohup", "nice", "ionice", "chrt"),
        *("setsid", "stdbuf", "timeout", "time", "xargs", "parallel", "watch", "strace", "ltrace", "unshare"),
        *("nsenter", "chroot", "flock", "busybox", "toybox", "coproc", "taskset", "unbuffer", "systemd-run"),
        *("script", "trap", "ssh"),
    )
)
"""What runs the command that its own arguments end with."""

_EXEC = {
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
}
"""What runs the command behind one of its flags."""

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
"""What the grammar is not shown: each such byte is a letter to it, as it is an ordinary part of a word to a shell.

The grammar's scanner, in C, looks characters up in a table of 256 without asking whether they are in it: `{` before
an emoji could end the process. Byte for byte, so the places it reports are those of the line, and the words are cut
out of the line itself.
"""

_SPECIAL = re.compile(r"[*?\[\](){}$`<>|;&]")
"""Characters that, without a quote or a backslash, can make a word into something else than what is written."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command of a line. `literal` says that the words are exactly those its program gets.

    Where they are not, a word that the shell works out (`$HOME`, `*.py`) stands as it is written.
    """

    words: tuple[str, ...]
    literal: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was understood.

    Attributes:
        commands: all simple commands, also those inside substitutions, functions and loops.
        plain: whether the line is one simple command with literal words and nothing else.
        inputs: texts given to standard input in the line itself (here-documents).
    """

    commands: tuple[SimpleCommand, ...]
    plain: bool
    inputs: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def parse(line: str) -> Line | None:
    """Read a line.

    Returns:
        Its commands; None when it is no valid shell, too long, or cannot be parsed here at all. None is never safe.
    """
    parser = _parser()
    if parser is None or len(line) > MAX_LINE:
        return None
    try:
        data = line.strip(" \t\n").encode()
    except UnicodeEncodeError:
        return None
    root = parser.parse(_NOT_ASCII.sub(b"x", data)).root_node
    if root.has_error:
        return None
    found = [node for node in _walk(root) if node.type in _COMMANDS]
    commands = tuple(_command(node, data) for node in found)
    return Line(commands, _is_plain(root, line, commands), tuple(_inputs(root, data)))


def every_command(line: str) -> tuple[tuple[str, ...], ...]:
    """All commands that a line may run, as words: those it shows and those inside runners and quoted scripts.

    For what forbids, so rather too many than too few: `sudo -u x rm y` gives `rm y` and some that are none. A
    command named by its path is there under its bare name too. A line that was not understood is cut at everything
    that may separate commands.
    """
    return tuple(dict.fromkeys(_every(line, _DEEPEST)))


def _every(line: str, depth: int) -> Iterator[tuple[str, ...]]:
    parsed = parse(line)
    commands = _pieces(line) if parsed is None else [command.words for command in parsed.commands]
    found = [variant for words in commands for variant in _variants(words)]
    yield from found
    if depth and any(words[0] in _SHELLS or words[0] in _RUNNERS for words in found):
        # Text may become commands here, from whatever part of the line it comes.
        texts = [word for words in commands for word in words if any(one.isspace() for one in word)]
        texts += [" ".join(words[1:]) for words in found if words[0] == "eval"]
        for text in (*texts, *(parsed.inputs if parsed is not None else ())):
            if text != line:
                yield from _every(text, depth - 1)


def _variants(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for run in _runs(words):
        yield run
        bare = run[0].rpartition("/")[2]
        if bare and bare != run[0]:
            yield (bare, *run[1:])


def _runs(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command itself, and what it runs: every tail of a runner's arguments, or what stands behind its flag."""
    if not words:
        return
    yield words
    name = words[0].rpartition("/")[2]
    flags = _EXEC.get(name, ())
    for at in range(1, min(len(words), 64)):
        if name in _RUNNERS or words[at - 1] in flags:
            yield words[at:]


def _pieces(line: str) -> list[tuple[str, ...]]:
    """A line that is not understood, cut roughly."""
    pieces = (
        re.sub(r"[\"'\\]", "", piece).split() for piece in re.split(r"[;&|\n\r(){}`]|\$\(", line[: 4 * MAX_LINE])
    )
    return [tuple(words) for words in pieces if words]


# --- the tree ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parser() -> Parser | None:
    """The parser, loaded when a shell command is first judged; None where there is no build of it."""
    try:
        import tree_sitter
        import tree_sitter_bash

        return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    except (ImportError, OSError, ValueError, TypeError) as error:
        log.warning("shell commands cannot be parsed here, so none counts as safe: %s", error)
        return None


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _text(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode(errors="replace")


def _is_plain(root: Node, line: str, commands: Sequence[SimpleCommand]) -> bool:
    if len(root.children) != 1 or root.children[0].type != "command" or len(commands) != 1:
        return False
    command = commands[0]
    if not command.literal or not command.words[0] or command.words[0] in _RESERVED:
        return False
    # Other kinds of blanks, invisible characters and line ends look to people like what they are not.
    if not line.strip(" \t\n").replace("\t", " ").isprintable():
        return False
    try:
        # A second opinion: where two readings of one line differ, it is not plain.
        return shlex.split(line) == list(command.words)
    except ValueError:
        return False


def _inputs(root: Node, data: bytes) -> Iterator[str]:
    for node in _walk(root):
        if node.type == "heredoc_body":
            yield _text(node, data)
        elif node.type == "herestring_redirect":
            text = node.children[-1]
            yield _word(text, data) or _text(text, data)


def _command(node: Node, data: bytes) -> SimpleCommand:
    if node.type != "command":
        return SimpleCommand(tuple(_text(node, data).split()), literal=False)
    words: list[str] = []
    literal = True
    end = node.start_byte
    for child in node.children:
        if data[end : child.start_byte].replace(b"\\\n", b"").strip(b" \t"):
            literal = False
        end = child.end_byte
        if child.type in ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"):
            literal = False
            continue
        inner = child.children[0] if child.type == "command_name" and child.child_count == 1 else child
        word = _word(inner, data)
        literal = literal and word is not None
        words.append(_text(child, data) if word is None else word)
    return SimpleCommand(tuple(words) or ("",), literal and end == node.end_byte)


def _word(node: Node, data: bytes) -> str | None:
    """What a program gets for a word, None when the shell works it out."""
    text = _text(node, data)
    if node.type == "concatenation":
        parts = [_word(child, data) for child in node.children]
        joined = all(a.end_byte == b.start_byte for a, b in zip(node.children, node.children[1:], strict=False))
        return "".join(part for part in parts if part is not None) if joined and None not in parts else None
    if node.type == "raw_string" and len(text) >= 2:
        return text[1:-1]
    if node.type == "string" and len(text) >= 2:
        return _unescaped(text[1:-1], r"[$`]", r'\\([$`"\\\n])')
    if node.type in ("word", "number") and not node.named_child_count and not text.startswith("~"):
        return _unescaped(text, _SPECIAL.pattern, r"\\(.)")
    return None


def _unescaped(text: str, special: str, escape: str) -> str | None:
    """The text without its backslashes; None when a special character stands there without one."""
    escapes = re.compile(escape, re.DOTALL)
    if re.search(special, escapes.sub("", text)):
        return None
    return escapes.sub(lambda found: "" if found[1] == "\n" else found[1], text)
