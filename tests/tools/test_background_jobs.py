"""Background jobs with real processes."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ToolFailure, Toolset
from sluice.tools import background_jobs, jobs
from tests.tools.support import call, make
from tests.tools.test_shell import alive, gone, written

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def toolset(cwd: Path) -> AsyncIterator[Toolset]:
    made = make("background_jobs", cwd)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def started(made: Toolset, cwd: Path, line: str) -> str:
    result = await call(made, cwd, "run_background_job", cmd=line)
    found = re.match(r"Started (job-\d+) \(process \d+\)", result.text)
    assert found, result.text
    return found[1]


@pytest.mark.requirement("tools.background-jobs.lifecycle")
async def test_a_job_is_started_listed_awaited_and_shown(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        assert (await call(made, tmp_path, "list_background_jobs")).text == "There are no background jobs."
        job = await started(made, tmp_path, "pwd; echo err >&2; exit 3")
        waited = await call(made, tmp_path, "wait_background_job", job_id=job)
        assert waited.text == f"{job}: ended with exit code 3: pwd; echo err >&2; exit 3\n{tmp_path}\nerr\n"
        assert (await call(made, tmp_path, "view_background_job", job_id=job)).text == waited.text
        listed = await call(made, tmp_path, "list_background_jobs")
        assert listed.text == f"{job}: ended with exit code 3: pwd; echo err >&2; exit 3"


@pytest.mark.requirement("tools.background-jobs.lifecycle")
async def test_a_running_job_can_be_seen_and_stopped_with_its_children(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        job = await started(made, tmp_path, "echo up; sleep 60 & echo $! > pid; echo $$ >> pid; wait")
        pids: list[int] = []
        while len(pids) < 2:
            pids = [int(line) for line in (await written(tmp_path / "pid")).split()]
        waited = await call(made, tmp_path, "wait_background_job", job_id=job, timeout=0.01)
        assert waited.text.startswith(f"{job}: running: ") and waited.text.endswith("\nup\n")
        stopped = await call(made, tmp_path, "stop_background_job", job_id=job)
        assert stopped.text.startswith(f"{job}: ended by signal 15")
        await gone(*pids)
        again = await call(made, tmp_path, "stop_background_job", job_id=job)
        assert again.text == f"{job} had ended already: ended by signal 15."


@pytest.mark.requirement("tools.background-jobs.lifecycle")
async def test_the_end_of_the_toolset_ends_every_job_with_its_whole_group(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        await started(made, tmp_path, "sleep 60 & echo $! > one; wait")
        await started(made, tmp_path, "trap '' TERM; echo $$ > two; sleep 60")
        await started(made, tmp_path, "sleep 60 & echo $! > three")  # the leader ends, its child does not
        pids = [int(await written(tmp_path / name)) for name in ("one", "two", "three")]
        assert all(map(alive, pids))
    await gone(*pids)


async def test_a_job_whose_children_live_on_says_so_and_can_still_be_stopped(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        job = await started(made, tmp_path, "sleep 60 & echo $! > pid")
        pid = int(await written(tmp_path / "pid"))
        waited = await call(made, tmp_path, "wait_background_job", job_id=job)
        assert "ended with exit code 0, child processes still run" in waited.text
        await call(made, tmp_path, "stop_background_job", job_id=job)
        await gone(pid)


async def test_the_end_of_a_long_output_is_kept_and_a_flood_does_not_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs.BUFFER_BYTES == 10 * 1024 * 1024
    monkeypatch.setattr(jobs, "BUFFER_BYTES", 100_000)
    async with toolset(tmp_path) as made:
        job = await started(made, tmp_path, "head -c 1000000 /dev/zero | tr '\\0' x; echo END")
        shown = (await call(made, tmp_path, "wait_background_job", job_id=job)).text
        assert "[the first " in shown and shown.endswith("xEND\n") and len(shown) < 50 * 1024


async def test_no_more_jobs_run_than_may_and_old_ones_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_jobs, "MOST_RUNNING", 1)
    monkeypatch.setattr(background_jobs, "MOST_ENDED", 1)
    async with toolset(tmp_path) as made:
        for _ in range(3):
            await call(made, tmp_path, "wait_background_job", job_id=await started(made, tmp_path, "true"))
        await started(made, tmp_path, "sleep 60")
        assert len((await call(made, tmp_path, "list_background_jobs")).text.splitlines()) == 2
        with pytest.raises(ToolFailure, match="running already"):
            await call(made, tmp_path, "run_background_job", cmd="true")


async def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        with pytest.raises(ToolFailure, match="could not be started"):
            await call(made, tmp_path, "run_background_job", cmd="true", cwd="nowhere")
        for name in ("view_background_job", "stop_background_job", "wait_background_job"):
            with pytest.raises(ToolFailure, match="there is no job 'job-9'"):
                await call(made, tmp_path, name, job_id="job-9")
        job = await started(made, tmp_path, "true")
        with pytest.raises(ToolFailure, match="timeout"):
            await call(made, tmp_path, "wait_background_job", job_id=job, timeout=0)


async def test_a_wait_that_is_cancelled_leaves_the_job_alone(tmp_path: Path) -> None:
    async with toolset(tmp_path) as made:
        os.mkfifo(tmp_path / "fifo")
        job = await started(made, tmp_path, "read x < fifo; echo got $x")
        with anyio.move_on_after(0.01):
            await call(made, tmp_path, "wait_background_job", job_id=job)
        assert f"{job}: running" in (await call(made, tmp_path, "list_background_jobs")).text
        await anyio.to_thread.run_sync((tmp_path / "fifo").write_text, "it\n")
        assert (await call(made, tmp_path, "wait_background_job", job_id=job)).text.endswith("got it\n")


def test_the_hints_say_which_tools_change_something(tmp_path: Path) -> None:
    made = make("background_jobs", tmp_path)
    changing = [tool.name for tool in made.tools() if not tool.read_only]
    assert changing == ["run_background_job", "stop_background_job"] and len(made.tools()) == 5
