"""The background_jobs toolset: commands that go on while the conversation does, and end with the session.

A job is a process group on the agent's host, also when the shell tool uses the client's terminal. It is a resource of
the session, not an agent: it holds no slot and blocks nothing. Requirement `tools.background-jobs.lifecycle`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import anyio
import anyio.to_thread

from sluice.agent.ports import Tool, ToolContext, ToolFailure, ToolResult, ToolSpec
from sluice.tools import process
from sluice.tools.jobs import Job
from sluice.tools.paths import absolute
from sluice.tools.setup import ToolsetConfigLike, ToolsetSetup, text
from sluice.tools.shell import INTERPRETER, NO_OUTPUT, environment

__all__ = ["DEFAULT_WAIT", "MOST_ENDED", "MOST_RUNNING", "BackgroundJobsToolset", "build"]

MOST_RUNNING = 20
"""Jobs that may run at the same time in one session."""

MOST_ENDED = 20
"""Jobs that have ended and whose output is kept; of more, the oldest are forgotten."""

DEFAULT_WAIT = 60.0
"""How long a wait may take when the call does not say, in seconds."""

MAX_WAIT = 3600.0
"""The longest wait a call may ask for, in seconds."""

_INSTRUCTION = (
    "Use run_background_job for commands that should go on while you do other things: servers, watchers, long builds."
    " It returns at once with a job id. See the output with view_background_job, wait with wait_background_job, and"
    " stop what is no longer needed. Jobs end with the session. For anything short use the shell tool."
)

_JOB_ID = {"type": "string", "description": "The id that run_background_job returned"}


class BackgroundJobsToolset:
    """Starts, lists, shows, awaits and ends the jobs of one session."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)
        self._tools = self._make_tools()

    @property
    def instruction(self) -> str:
        """How to use the tools, for the system prompt."""
        return _INSTRUCTION

    async def start(self) -> None:
        """Nothing to start: each job has its own process."""

    def tools(self) -> Sequence[Tool]:
        """The five tools."""
        return self._tools

    async def stop(self) -> None:
        """End every job with its whole group, side by side.

        Raises:
            ToolFailure: something of a job still runs.
        """
        jobs, self._jobs = list(self._jobs.values()), {}
        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(job.end)
        if left := [job.id for job in jobs if job.group() is not None]:
            raise ToolFailure(f"background jobs could not be ended: {', '.join(left)}")

    # --- the tools

    def _make_tools(self) -> tuple[Tool, ...]:
        start = {
            "cmd": {"type": "string", "description": "The command line"},
            "cwd": {"type": "string", "description": "Directory to run in, default '.', the working directory"},
        }
        wait = {
            "job_id": _JOB_ID,
            "timeout": {"type": "number", "description": f"Seconds to wait, default {DEFAULT_WAIT:g}"},
        }
        one = {"job_id": _JOB_ID}
        return (
            Tool(
                _spec(
                    "run_background_job",
                    f"Starts a command line with {INTERPRETER} and returns at once.",
                    start,
                    "cmd",
                ),
                self._run,
                subject="cmd",
            ),
            Tool(
                _spec("list_background_jobs", "Lists the background jobs and how they are.", {}),
                self._list,
                read_only=True,
            ),
            Tool(
                _spec("view_background_job", "Shows how a job is, and the end of its output.", one, "job_id"),
                self._view,
                read_only=True,
                subject="job_id",
            ),
            Tool(
                _spec("stop_background_job", "Ends a job and its child processes.", one, "job_id"),
                self._stop,
                subject="job_id",
            ),
            Tool(
                _spec("wait_background_job", "Waits until a job has ended, then shows it.", wait, "job_id"),
                self._wait,
                read_only=True,
                subject="job_id",
            ),
        )

    async def _run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        line = text(arguments, "cmd" if "cmd" in arguments else "command")
        cwd = absolute(text(arguments, "cwd") if arguments.get("cwd") else ".", context.cwd)
        if sum(job.code is None for job in self._jobs.values()) >= MOST_RUNNING:
            raise ToolFailure(f"{MOST_RUNNING} jobs are running already; stop one first")
        # Shielded: a cancellation between the fork and the assignment would lose the process.
        with anyio.CancelScope(shield=True):
            child = await anyio.to_thread.run_sync(_spawn, line, cwd, self._env)
        job = Job(f"job-{next(self._numbers)}", line, child)
        self._jobs[job.id] = job
        self._forget()
        return ToolResult(f"Started {job.id} (process {child.pid}): {line}")

    def _forget(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.group() is None]
        for job_id in ended[: max(0, len(ended) - MOST_ENDED)]:
            self._jobs.pop(job_id).close()

    async def _list(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        lines = [f"{job.id}: {_state(job)}: {job.line}" for job in self._jobs.values()]
        return ToolResult("\n".join(lines) or "There are no background jobs.")

    async def _view(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(_shown(self._named(arguments)))

    async def _stop(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        job = self._named(arguments)
        if job.group() is None:
            return ToolResult(f"{job.id} had ended already: {_state(job)}.")
        await job.end()
        if job.group() is not None:
            raise ToolFailure(f"{job.id} could not be ended; it still runs")
        return ToolResult(_shown(job))

    async def _wait(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        job = self._named(arguments)
        with anyio.move_on_after(_seconds(arguments.get("timeout"))):
            await job.ended.wait()
        return ToolResult(_shown(job))

    def _named(self, arguments: Mapping[str, Any]) -> Job:
        job_id = text(arguments, "job_id")
        if job_id not in self._jobs:
            raise ToolFailure(f"there is no job {job_id!r}; list_background_jobs shows the ones there are")
        return self._jobs[job_id]


def _spawn(line: str, cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            (INTERPRETER, "-c", line),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "invalid value"
        raise ToolFailure(f"the job could not be started in {cwd}: {reason}") from error


def _state(job: Job) -> str:
    code = job.code
    if code is None:
        return "running"
    said = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return said if job.group() is None else f"{said}, child processes still run"


def _shown(job: Job) -> str:
    output, before = job.output(process.KEEP_BYTES)
    cut = f"[the first {before} bytes of the output are left out]\n" if before else ""
    return f"{job.id}: {_state(job)}: {job.line}\n{cut}{output or NO_OUTPUT}"


def _seconds(value: object) -> float:
    if value is None:
        return DEFAULT_WAIT
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_WAIT:
        raise ToolFailure(f"the argument 'timeout' must be a number of seconds above 0 and at most {MAX_WAIT:g}")
    return float(value)


def _spec(name: str, description: str, properties: Mapping[str, Any], *required: str) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(required)})


def build(config: ToolsetConfigLike, setup: ToolsetSetup) -> BackgroundJobsToolset:
    """Build the toolset; reads the option `env`. Raises ToolFailure for a bad one."""
    return BackgroundJobsToolset(environment(setup, config.options))
