"""`make demo`: a conversation with the small model on this machine; where that cannot be had in time, with a script.

What it does not find it fetches: the engine (34 MB) and the model (491 MB), within `SLUICE_DEMO_SECONDS` (300 if not
said). Prompts may be given as arguments. Nothing is changed but the directory of the models.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sluice.config.weights import WEIGHTS, weights_file
from sluice.persistence.paths import models_dir

ROOT = Path(__file__).parent.parent
SECONDS = float(os.environ.get("SLUICE_DEMO_SECONDS", "300"))
PROMPTS = ("Which files are in the examples directory?", "Which model does examples/local.yaml name?")


def main(prompts: list[str]) -> int:
    deadline = time.monotonic() + SECONDS
    why = without_engine(deadline) or without_weights(deadline)
    if not why:
        print("This is a real model on this machine: nothing leaves it. It is small, so judge it kindly.", flush=True)
        if converse("local.yaml", prompts or list(PROMPTS)) == 0:
            return 0
        why = "the model could not be talked to"
    print(f"\nNo model on this machine: {why}.")
    print("So this is the scripted agent: it plays examples/scripted.yaml and asks no model.", flush=True)
    return converse("scripted.yaml", prompts or ["hello"])


def without_engine(deadline: float) -> str:
    """Why there is no engine, "" when there is one; installs it when it is missing."""
    if importlib.util.find_spec("xllamacpp") is not None:
        return ""
    print("Installing the engine of the local model (34 MB) …", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", f"{ROOT}[local]"]
    return "" if within(deadline, pip) else "its engine could not be installed"


def without_weights(deadline: float) -> str:
    """Why there are no weights, "" when there are some; fetches them when they are missing."""
    directory = models_dir(os.environ)
    if any(weights_file(directory, weights) for weights in WEIGHTS.values()):
        return ""
    pull = [sys.executable, "-m", "sluice", "model", "pull", "0.5b", "--yes"]
    return "" if within(deadline, pull) else "it could not be fetched; `sluice model pull` goes on with it"


def within(deadline: float, command: list[str]) -> bool:
    """Run a command to its end, or end it with everything it started at the deadline. Whether it succeeded."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            # An interrupt, so that it tidies up; it may not take long over that.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def converse(agent: str, prompts: list[str]) -> int:
    """Hold one conversation of several turns; its sessions are kept nowhere."""
    status = 0
    with tempfile.TemporaryDirectory() as directory:
        for number, prompt in enumerate(prompts):
            run = ["run", *(["--continue"] if number else []), f"examples/{agent}", prompt]
            print(f"\n$ {shlex.join(['sluice', *run])}", flush=True)
            command = [sys.executable, "-m", "sluice", *run, f"--session-db={directory}/demo.db"]
            status = status or subprocess.run(command, cwd=ROOT, check=False).returncode
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
