"""The embedded model: the engine's process, what is sent to it, and what happens when it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import ModelError
from sluice.models import Engines, build
from sluice.models.local import engines as engines_module
from sluice.models.local.chat import CONTEXT
from sluice.models.local.engines import threads
from tests.models.helpers import Heard, ask, asked
from tests.models.local.library.xllamacpp import BROKEN_CONTEXT, SILENT_CONTEXT, WAITING_CONTEXT
from tests.models.local.support import gone, local, pretend

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("library")]


async def test_it_answers_with_tokens_and_a_cost_of_zero(tmp_path: Path) -> None:
    from sluice.config.schema import Cost

    model = build(local(pretend(tmp_path)).with_options(cost=Cost()))
    heard = Heard()
    try:
        response = await ask(model, "hello there", heard=heard)
    finally:
        await model.aclose()
    assert response.text == "hello there" and heard.texts == ["hello there"]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cost) == (50, 7, 0.0)
    assert (model.ref, model.context_size) == ("local/0.5b", CONTEXT)


async def test_one_engine_serves_all_sessions_with_the_same_weights_and_window(tmp_path: Path) -> None:
    engines = Engines()
    weights = pretend(tmp_path)
    models = [build(local(weights, context), engines=engines) for context in (None, None, 4096)]
    pids = [(await ask(model, "pid")).text for model in models]
    assert pids[0] == pids[1] != pids[2]
    await models[0].aclose()
    assert (await ask(models[1], "pid")).text == pids[1]
    for model in models:
        await model.aclose()
    await engines.aclose()
    for pid in pids:
        await gone(int(pid))


async def test_a_crash_is_told_and_the_next_call_starts_the_engine_again(tmp_path: Path) -> None:
    model = build(local(pretend(tmp_path)))
    try:
        before = (await ask(model, "pid")).text
        with pytest.raises(ModelError) as caught:
            await ask(model, "crash")
        assert caught.value.text == "the local model's process was ended by SIGKILL; the next call starts it again"
        assert caught.value.retryable
        assert (await ask(model, "pid")).text not in ("", before)
    finally:
        await model.aclose()


async def test_an_engine_that_ended_between_two_calls_is_started_again(tmp_path: Path) -> None:
    model = build(local(pretend(tmp_path)))
    try:
        before = int((await ask(model, "pid")).text)
        os.kill(before, 9)
        await gone(before)
        with anyio.fail_after(20):
            while True:
                try:
                    answer = await ask(model, "pid")
                    break
                except ModelError as error:
                    assert error.retryable  # the exit was not noticed yet
        assert int(answer.text) != before
    finally:
        await model.aclose()


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (BROKEN_CONTEXT, "the local model could not be started: the weights are broken"),
        (SILENT_CONTEXT, "the local model ended with status 9 while it was starting: last words"),
    ],
)
async def test_an_engine_that_cannot_start_says_why(tmp_path: Path, context: int, text: str) -> None:
    model = build(local(pretend(tmp_path), context))
    with pytest.raises(ModelError) as caught:
        await ask(model, "hello")
    assert caught.value.text == text and not caught.value.retryable
    await model.aclose()


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines_module, "READY_SECONDS", 0.2)
    model = build(local(pretend(tmp_path), WAITING_CONTEXT))
    with pytest.raises(ModelError, match="was not ready within 0 seconds"):
        await ask(model, "hello")
    await model.aclose()


async def test_a_call_that_is_cancelled_while_the_weights_load_leaves_them_loading(tmp_path: Path) -> None:
    engines = Engines()
    resolved = local(pretend(tmp_path), WAITING_CONTEXT)
    model = build(resolved, engines=engines)
    engine = engines.engine(engines_module.Spec(resolved.weights, WAITING_CONTEXT))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.complete, asked("hello"), Heard())
        with anyio.fail_after(20):
            while engine.pid is None:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    loading = engine.pid
    assert loading is not None
    (tmp_path / "go").touch()
    assert (await ask(model, "pid")).text == str(loading)
    await model.aclose()
    await engines.aclose()


async def test_the_engine_has_no_keys_of_ours_and_wants_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    engines = Engines()
    resolved = local(pretend(tmp_path))
    model = build(resolved, engines=engines)
    names = json.loads((await ask(model, "environment")).text)
    assert "PATH" in names and "OPENAI_API_KEY" not in names
    engine = engines.engine(engines_module.Spec(resolved.weights, CONTEXT))
    address = await engine.address()
    assert address.base_url.startswith("http://127.0.0.1:") and len(address.key) > 20
    assert address.key.encode() not in Path(f"/proc/{engine.pid}/cmdline").read_bytes()
    assert address.key.encode() not in Path(f"/proc/{engine.pid}/environ").read_bytes()
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{address.base_url}/chat/completions", json={"messages": []})
    assert answer.status_code == 401
    await model.aclose()
    await engines.aclose()


async def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    model = build(local(pretend(tmp_path)))
    assert (await ask(model, "hello")).text == "hello"
    await model.aclose()


async def test_what_is_sent_suits_a_small_model(tmp_path: Path) -> None:
    model = build(local(pretend(tmp_path)))
    try:
        body = json.loads((await ask(model, "body")).text)
        bare = json.loads((await model.complete(asked("body", tools=()), Heard())).text)
    finally:
        await model.aclose()
    assert (body["temperature"], body["max_tokens"], body["parallel_tool_calls"]) == (0.0, 1024, False)
    assert body["logit_bias"] == [["```", 3.0]]
    assert "logit_bias" not in bare and "tools" not in bare


async def test_what_the_file_says_outranks_the_defaults(tmp_path: Path) -> None:
    extra = {"extra_body": {"top_k": 3}}
    resolved = local(pretend(tmp_path)).with_options(temperature=0.7, max_tokens=9, provider_opts=extra)
    model = build(resolved)
    try:
        body = json.loads((await ask(model, "body")).text)
    finally:
        await model.aclose()
    assert (body["temperature"], body["max_tokens"], body["top_k"]) == (0.7, 9, 3)


def test_one_core_is_left_to_the_others() -> None:
    assert threads() == max(1, threads())
    assert threads() <= max(1, len(os.sched_getaffinity(0)) - 1)
