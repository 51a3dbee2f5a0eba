"""Print the table of requirements: `python -m tests.requirements`.

With `--settle`, drop the deferrals of ids that a test carries by now instead; with `--readme`, put the count into the
README too; with the names of areas, list their ids.
"""

from __future__ import annotations

import os
import re
import sys

from tests.requirements.manifest import TESTS, load, markers, modules

COUNT = re.compile(r"\d+ of \d+ requirements hold")


def main(arguments: list[str]) -> int:
    if "--settle" in arguments:
        settle()
        return 0
    chosen = [argument for argument in arguments if not argument.startswith("-")]
    areas = load()
    for area in areas:
        if area.name in chosen:
            for name, statement in area.statements.items():
                print(f"{'deferred' if name in area.deferred else 'holds':9} {name}: {statement}")
    if chosen:
        return 0
    held, total = sum(len(area.held()) for area in areas), sum(len(area.statements) for area in areas)
    print(f"{'area':22} {'ids':>5} {'hold':>5} {'deferred':>9}")
    for area in areas:
        print(f"{area.name:22} {len(area.statements):5} {len(area.held()):5} {len(area.deferred):9}")
    line = f"{held} of {total} requirements hold"
    if "--readme" in arguments:
        readme = TESTS.parent / "README.md"
        readme.write_text(COUNT.sub(line, readme.read_text(encoding="utf-8")), encoding="utf-8")
    print(line)
    return 0


def settle() -> None:
    """Take the lines of carried ids out of the `deferred` dictionaries; everything else stays as it is written."""
    carried = markers()
    for path, area in modules():
        done = {name for name in area.deferred if name in carried}
        if not done:
            continue
        head, mark, tail = path.read_text(encoding="utf-8").partition("    deferred={\n")
        lines = [line for line in tail.splitlines(True) if line.strip().split('"')[1:2] not in [[n] for n in done]]
        text = head + mark + "".join(lines)
        path.write_text(text.replace("    deferred={\n    },\n", ""), encoding="utf-8")
        print(f"{path.name}: {len(done)} settled")


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
