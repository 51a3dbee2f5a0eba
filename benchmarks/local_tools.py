"""How well the embedded model uses tools: ten questions of which tool and which path, and ten small tasks done.

    python benchmarks/local_tools.py [0.5b|1.5b] [--models-dir DIR] [--only tools|tasks]

The first part asks the model directly and looks at its first call only. The second runs `sluice serve acp` on a
directory made for it, as an editor would, and looks at what the directory and the answer hold afterwards. Needs the
weights (`sluice model pull`) and the extra `local`. A measurement, not a test: it prints and decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from sluice import models
from sluice.agent.ports import Delta, ModelError, ModelRequest, ToolSpec
from sluice.client.agent import connect
from sluice.client.connection import ClientHandlers, ClientOptions
from sluice.client.files import LocalFiles
from sluice.client.permissions import PermissionRequest, choose_option
from sluice.client.process import AgentCommand
from sluice.client.session import SessionUpdate
from sluice.config.load import loads
from sluice.config.models import resolve
from sluice.config.weights import MODELS_DIR
from sluice.persistence import paths
from sluice.persistence.records import Message, Part
from sluice.tools.filesystem_specs import tool

TOOLS = ("list_directory", "read_file", "search_files_content", "write_file")

INSTRUCTION = "You help a person with the files of one project."


@dataclass(frozen=True)
class Choice:
    """A question, and the call it asks for."""

    question: str
    tool: str
    path: str
    more: Mapping[str, str]


CHOICES = (
    Choice("What does README.md say?", "read_file", "README.md", {}),
    Choice("List the files in the src directory.", "list_directory", "src", {}),
    Choice("Show me the contents of src/main.py.", "read_file", "src/main.py", {}),
    Choice("Where is the word TODO used below src?", "search_files_content", "src", {"query": "TODO"}),
    Choice("What is in the docs folder?", "list_directory", "docs", {}),
    Choice("Create a file notes.txt that says hello.", "write_file", "notes.txt", {}),
    Choice("Which version does pyproject.toml give?", "read_file", "pyproject.toml", {}),
    Choice(
        "Find every line with 'import os' in the tests directory.",
        "search_files_content",
        "tests",
        {"query": "import os"},
    ),
    Choice("Which files are in the current directory?", "list_directory", ".", {}),
    Choice("Write the line 'done' to out/status.txt.", "write_file", "out/status.txt", {}),
)

FILES = {
    "README.md": "# Larch\n\nLarch counts trees. Run it with `python src/main.py`.\n",
    "pyproject.toml": '[project]\nname = "larch"\nversion = "4.7.1"\n',
    "src/main.py": "import os\n\n\ndef count(trees):\n    return len(trees)\n\n\nprint(count(os.listdir('.')))\n",
    "src/trees.py": "KINDS = ['oak', 'birch', 'larch']\n",
    "tests/test_count.py": "from main import count\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n",
    "docs/guide.md": "# Guide\n\nThe port is 8042.\n",
    "todo.txt": "buy seeds\ncall Ada\n",
}


@dataclass(frozen=True)
class Task:
    """A prompt, and whether answer and directory show that it was done."""

    prompt: str
    done: Callable[[str, Path], bool]


def says(*words: str) -> Callable[[str, Path], bool]:
    return lambda answer, _: all(word.lower() in answer.lower() for word in words)


def holds(name: str, text: str) -> Callable[[str, Path], bool]:
    return lambda _, root: (root / name).is_file() and text in (root / name).read_text(encoding="utf-8")


TASKS = (
    Task("Which version does pyproject.toml give?", says("4.7.1")),
    Task("Which files are in the src directory?", says("main.py", "trees.py")),
    Task("What does README.md say that Larch does?", says("count")),
    Task("Read docs/guide.md: which port is it?", says("8042")),
    Task("Create a file hello.txt that holds the word hello.", holds("hello.txt", "hello")),
    Task("Which file below src has the word birch in it?", says("trees.py")),
    Task("What does todo.txt say?", says("seeds", "Ada")),
    Task("Write the text 42 to out/answer.txt.", holds("out/answer.txt", "42")),
    Task("Which function does src/main.py define?", says("count")),
    Task("Find the word assert in the tests directory. In which file is it?", says("test_count.py")),
)


def plain(path: object) -> str:
    return str(path or "").removeprefix("./").rstrip("/") or "."


async def choices(reference: str, models_dir: str) -> None:
    file = loads(f"agents: {{root: {{model: {reference}}}}}", Path("agent.yaml"), {})
    model = models.build(resolve(file, reference, {MODELS_DIR: models_dir}))
    specs: list[ToolSpec] = [tool(name, _never).spec for name in TOOLS]
    right = named = 0
    for choice in CHOICES:
        messages = [
            Message("system", (Part("text", INSTRUCTION),)),
            Message("user", (Part("text", choice.question),)),
        ]
        begun = time.monotonic()
        response = await model.complete(ModelRequest(messages, specs), _ignore)
        seconds = time.monotonic() - begun
        call = response.tool_calls[0] if response.tool_calls else None
        given = json.loads(call.arguments) if call else {}
        same_tool = call is not None and call.name == choice.tool
        ok = same_tool and plain(given.get("path")) == choice.path
        ok = ok and all(given.get(name) == value for name, value in choice.more.items())
        right, named = right + ok, named + same_tool
        shown = f"{call.name} {call.arguments}" if call else f"says: {response.text[:70]!r}"
        print(f"{'ok' if ok else '--'}  {seconds:5.1f} s  {choice.question}  ->  {shown}", flush=True)
    await model.aclose()
    print(f"{reference}: tool and arguments right {right} of {len(CHOICES)}, tool right {named}\n", flush=True)


async def _never(*_: object) -> object:
    raise AssertionError("nothing is run here")


async def _ignore(_: Delta) -> None:
    pass


async def tasks(reference: str, models_dir: str) -> None:
    with tempfile.TemporaryDirectory() as base:
        agent = Path(base, "agent.yaml")
        toolset = {"type": "filesystem", "tools": list(TOOLS)}
        root = {"model": reference, "instruction": INSTRUCTION, "max_iterations": 8, "toolsets": [toolset]}
        agent.write_text(json.dumps({"agents": {"root": root}}), encoding="utf-8")
        arguments = ["serve", "acp", f"--data-dir={base}/data", str(agent)]
        command = AgentCommand(
            [sys.executable, "-m", "sluice", *arguments], env={**os.environ, MODELS_DIR: models_dir}
        )
        done = 0
        heard = Heard()
        # As an editor has them: without a client's files the agent is not offered read_file and write_file at all.
        files = LocalFiles([Path(base)])
        handlers = ClientHandlers(on_update=heard, on_permission=_allow, requests=files.requests())
        options = ClientOptions(capabilities={"fs": files.capabilities(), "terminal": False})
        async with connect(command, handlers, options) as client:
            await client.initialize()
            for number, task in enumerate(TASKS):
                directory = Path(base, f"project{number}")
                for name, text in FILES.items():
                    (directory / name).parent.mkdir(parents=True, exist_ok=True)
                    (directory / name).write_text(text, encoding="utf-8")
                begun = time.monotonic()
                heard.clear()
                session = await client.new_session(directory)
                await client.prompt(session.id, task.prompt)
                ok = task.done(heard.answer, directory)
                done += ok
                seconds = time.monotonic() - begun
                answer = " ".join(heard.answer.split())
                calls = ", ".join(heard.calls)
                print(
                    f"{'ok' if ok else '--'}  {seconds:5.1f} s  {task.prompt}  [{calls}]  {answer[:110]!r}",
                    flush=True,
                )
                await client.close_session(session.id)
        print(f"{reference}: {done} of {len(TASKS)} tasks ended well\n", flush=True)


class Heard:
    """What the agent said since the last tool call, and what it called."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.answer = ""
        self.calls: list[str] = []

    def __call__(self, update: SessionUpdate) -> None:
        kind = update.raw.get("sessionUpdate")
        if kind == "tool_call":
            self.calls.append(str(update.raw.get("title")))
            self.answer = ""
        elif kind == "agent_message_chunk":
            self.answer += str(update.raw["content"].get("text", ""))


async def _allow(request: PermissionRequest) -> str | None:
    return choose_option(request.options, "allow_once")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="0.5b")
    parser.add_argument("--models-dir", help="where the weights are (default: where `sluice model pull` puts them)")
    parser.add_argument("--only", choices=("tools", "tasks"))
    options = parser.parse_args()
    models_dir = options.models_dir or str(paths.models_dir(os.environ))
    if options.only != "tasks":
        await choices(f"local/{options.model}", models_dir)
    if options.only != "tools":
        await tasks(f"local/{options.model}", models_dir)


if __name__ == "__main__":
    try:
        anyio.run(main)
    except ModelError as error:
        sys.exit(f"{error}")
