"""Where credentials come from: an immutable snapshot of the sources, in a fixed order.

1. the files of `--env-from-file`, in the order given; 2. the process environment as it was at start;
3. `/run/secrets/NAME`; 4. `.env` in the configuration directory. The first that has a value wins; an empty value
counts only when no source has another. `reload` reads the files again and keeps the process environment.
Nothing here writes: neither the process environment nor a file. Source: requirements
models.credentials.sources-in-order, auth.authenticate.reloads-sources, auth.authenticate.source-precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from sluice.config.values import Frozen

__all__ = ["SECRETS_DIR", "EnvFileError", "Environment", "parse_dotenv"]

SECRETS_DIR = Path("/run/secrets")
"""One file per secret, its name the variable's."""

MAX_SECRET_BYTES = 1 << 16
"""Bytes of a secret file; a larger one is no key and is passed over."""

MAX_ENV_FILE_BYTES = 1 << 20
"""Bytes of an env file."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\n'"][^\n]*)? )
    [ \t]*(?P<rest>[^\n]*)(?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_SKIPPED = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


class EnvFileError(Exception):
    """An env file cannot be used. The text is fixed, so it may be shown to a client.

    Attributes:
        path: the file, for the log only.
        reason: why, for the log only; never holds a value.
    """

    TEXT = "an environment file could not be read"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(self.TEXT)
        self.path = path
        self.reason = reason


class Environment(Frozen, frozen=True):
    """A snapshot of the credential sources. Its repr shows no value.

    Build one with `Environment.read`; `sources` are the values in the order in which they are asked.
    """

    HIDDEN: ClassVar[frozenset[str]] = frozenset({"sources", "process"})

    sources: tuple[Mapping[str, str], ...]
    process: Mapping[str, str]
    env_files: tuple[Path, ...] = ()
    config_dir: Path | None = None
    secrets_dir: Path = SECRETS_DIR

    @classmethod
    def read(
        cls,
        process: Mapping[str, str],
        env_files: Sequence[Path] = (),
        config_dir: Path | None = None,
        secrets_dir: Path = SECRETS_DIR,
    ) -> Environment:
        """Take a snapshot.

        Args:
            process: the process environment; copied, so later changes are not seen.
            env_files: the files of `--env-from-file`, in the order given.
            config_dir: the directory whose `.env` is the last source, None for no such source.
            secrets_dir: the directory with one file per secret; it may be missing.

        Raises:
            EnvFileError: a file of `env_files`, or an existing `.env`, cannot be read or is not of the form.
        """
        fixed = MappingProxyType(dict(process))
        files = tuple(MappingProxyType(_env_file(path)) for path in env_files)
        last = MappingProxyType(_optional_env_file(config_dir / ".env") if config_dir is not None else {})
        sources = (*files, fixed, MappingProxyType(_secrets(secrets_dir)), last)
        return cls(sources, fixed, tuple(env_files), config_dir, secrets_dir)

    def get(self, name: str, /) -> str | None:
        """The value of a variable; None when no source has it, "" when some has it but each without a value."""
        found = [source[name] for source in self.sources if name in source]
        return next((value for value in found if value), found[0] if found else None)

    def reload(self) -> Environment:
        """A new snapshot: the files are read again, the process environment stays that of the start.

        Raises:
            EnvFileError: as for `read`; this snapshot stays as it was.
        """
        return Environment.read(self.process, self.env_files, self.config_dir, self.secrets_dir)


def parse_dotenv(text: str) -> dict[str, str]:
    r"""Read `NAME=value` lines.

    A line may begin with `export`. `#` starts a comment at the beginning of a line or after a blank. A value in
    single quotes is taken as it is; in double quotes `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are understood. A quoted
    value may go over several lines. Nothing is expanded. The last of several lines for one name counts.

    Raises:
        ValueError: a line is something else; the text names its number and nothing of what it holds.
    """
    text = text.replace("\r\n", "\n")
    values: dict[str, str] = {}
    position = 0
    while position < len(text):
        skipped = _SKIPPED.match(text, position)
        if skipped is not None:
            position = skipped.end()
            continue
        found = _ASSIGNMENT.match(text, position)
        rest = found.group("rest") if found is not None else ""
        if found is None or (rest and not rest.startswith("#")):
            raise ValueError(f"line {text.count(chr(10), 0, position) + 1} is not NAME=value")
        values[found.group("name")] = _value(found)
        position = found.end()
    return values


def _value(found: re.Match[str]) -> str:
    single, double, plain = found.group("single", "double", "plain")
    if single is not None:
        return single
    if double is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape.group(1), escape.group()), double)
    return re.split(r"(?:^|[ \t])#", plain or "", maxsplit=1)[0].strip()


def _env_file(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ENV_FILE_BYTES + 1)
        if len(data) > MAX_ENV_FILE_BYTES:
            raise EnvFileError(path, f"has more than {MAX_ENV_FILE_BYTES} bytes")
        return parse_dotenv(data.decode("utf-8-sig"))
    except OSError as error:
        raise EnvFileError(path, error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise EnvFileError(path, "is not UTF-8") from None
    except ValueError as error:
        raise EnvFileError(path, str(error)) from None


def _optional_env_file(path: Path) -> dict[str, str]:
    """The same for a file that need not exist."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise EnvFileError(path, error.strerror or "cannot be read") from None
    return _env_file(path)


def _secrets(directory: Path) -> dict[str, str]:
    """The secrets that can be read; one that cannot is as good as absent."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return {}
    values: dict[str, str] = {}
    for name in names:
        path = directory / name
        try:
            if not (_NAME.fullmatch(name) and path.is_file() and path.stat().st_size <= MAX_SECRET_BYTES):
                continue
            values[name] = path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            continue
    return values
