from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from sluice.agent.ports import Delta, Model, ModelError
from sluice.config.errors import ConfigError
from sluice.config.schema import Cost
from sluice.models import build
from sluice.models.scripted import Scripted
from sluice.persistence.records import Message, Part
from tests.models.helpers import Heard, Options, Resolved, ask, asked, assistant, made, result, user

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("models.providers.scripted-fake")]

Make = Callable[[str], Model]


@pytest.fixture
def script(tmp_path: Path) -> Make:
    """Makes a scripted model from the text of a script; every call is a new process's model."""

    def make(text: str) -> Model:
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        return build(resolved(), directory=tmp_path)

    return make


def resolved(**options: object) -> Resolved:
    opts = Options(provider_opts={"script": "s.yaml"}, **options)  # type: ignore[arg-type]  # tests name real options
    return Resolved(None, "scripted", "demo", "scripted", None, opts)


async def said(model: Model, *messages: Message | str) -> str:
    return (await ask(model, *messages)).text


async def failed(model: Model, *messages: Message | str, heard: Heard | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, *messages, heard=heard)
    return caught.value


async def test_it_says_that_it_is_a_script(script: Make) -> None:
    model = script("turns: [{text: a}]")
    assert model.ref == "scripted/demo"
    response = await ask(model, "hi")
    assert response.model == "scripted/demo"
    assert response.usage is None


async def test_pieces_thoughts_calls_and_usage(script: Make) -> None:
    model = script(
        "turns: [{thought: hm, text: [a, '', b], tool_calls: [{name: shell, arguments: {cmd: ls}}, {name: x, id: k}],"
        " usage: {input_tokens: 5, output_tokens: 2, cached_input_tokens: 1, reasoning_tokens: 1}}]"
    )
    heard = Heard()
    response = await ask(model, "hi", heard=heard)
    assert heard.deltas == [Delta("thought", "hm"), Delta("content", "a"), Delta("content", "b")]
    assert (response.text, response.thought, response.finish_reason) == ("ab", "hm", "tool_calls")
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("shell", '{"cmd": "ls"}'), ("x", "{}")]
    assert len({call.id for call in response.tool_calls}) == 2
    assert response.tool_calls[1].id == "k"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.cached_input_tokens) == (5, 1)


async def test_turns_follow_the_history_also_in_a_new_process(script: Make) -> None:
    text = "turns: [{text: one, tool_calls: [{name: shell}]}, {text: two}, {text: three}]\nclosing: end"
    history: list[Message] = [user("a")]
    for expected in ("one", "two"):
        assert await said(script(text), *history) == expected
        history.append(assistant(expected, made("c")) if expected == "one" else assistant(expected))
        if expected == "one":
            history.append(result("c"))
    history.append(user("b"))
    assert await said(script(text), *history) == "three"
    history += [assistant("three"), user("c")]
    assert await said(script(text), *history) == "end"
    history += [assistant("end"), user("d")]
    assert await said(script(text), *history) == "end"


async def test_asking_again_gives_the_same_turn(script: Make) -> None:
    model = script("turns: [{text: one}, {text: two}]")
    assert [await said(model, "a"), await said(model, "a")] == ["one", "one"]


async def test_a_condition_is_never_used_up_and_comes_first(script: Make) -> None:
    text = "turns: [{text: one}, {when: Hello, text: hi}, {text: two}]"
    history: list[Message] = []
    for prompt, expected in (("x", "one"), ("well HELLO there", "hi"), ("hello", "hi"), ("y", "two")):
        history.append(user(prompt))
        assert await said(script(text), *history) == expected
        history.append(assistant(expected))


async def test_steps_tools_and_results(script: Make) -> None:
    model = script(
        "turns: [{when: {user: go, step: 1, tool: shell, result: NO}, text: denied},"
        " {when: {user: go, step: 1, tool: shell}, text: ran}, {when: {user: go, step: 2}, text: second},"
        " {text: other}, {text: last}]"
    )
    call = assistant("", made("c"))
    assert await said(model, "go") == "other"
    assert await said(model, "go", call, result("c")) == "ran"
    assert await said(model, "go", call, result("c", "oh no!")) == "denied"
    assert await said(model, "go", call, result("c"), call, result("c")) == "second"
    assert await said(model, "go", call, result("c", name="fetch")) == "last"


async def test_a_stopped_prompt_has_used_up_one_turn(script: Make) -> None:
    model = script("turns: [{text: one}, {text: two}]")
    assert await said(model, "a", "b") == "two"


async def test_a_prompt_stopped_during_its_calls_has_not_used_up_the_next_turn(script: Make) -> None:
    model = script("turns: [{tool_calls: [{name: shell}]}, {text: after cancel}]")
    assert await said(model, "a", assistant("", made("c")), result("c", "cancelled"), "b") == "after cancel"


async def test_a_failure_is_played_for_every_attempt_and_used_up_by_the_next_prompt(script: Make) -> None:
    text = "turns: [{error: {status: 500, text: 'bad key=sk-TEST-123'}}, {text: fine}]"
    model = script(text)
    for _ in range(3):
        error = await failed(model, "one")
        assert (error.code, error.retryable, error.status) == ("model_error", True, 500)
        assert "sk-TEST" not in error.text
    assert await said(script(text), "one", "two") == "fine"


async def test_a_failure_after_text_is_used_up_by_the_text_it_left(script: Make) -> None:
    text = (
        "turns: [{text: [He, l], error: {after_text: true, retryable: true, text: reset}}, {text: fine}, {text: x}]"
    )
    heard = Heard()
    error = await failed(script(text), "one", heard=heard)
    assert (heard.texts, error.retryable, error.text) == (["He", "l"], True, "reset")
    assert await said(script(text), "one", assistant("Hel"), "two") == "fine"
    assert await said(script(text), "one", "two") == "fine"


async def test_an_attempt_succeeds_after_the_failures_that_were_asked_for(script: Make) -> None:
    text = "turns: [{error: {status: 503, times: 2}}, {text: fine}, {text: next}]"
    model = script(text)
    await failed(model, "a")
    await failed(model, "a")
    assert await said(model, "a") == "fine"
    assert await said(script(text), "a", assistant("fine"), "b") == "next"


async def test_a_failure_after_tool_results_is_used_up(script: Make) -> None:
    text = "turns: [{tool_calls: [{name: shell}]}, {error: {status: 400}}, {text: fine}]"
    history = [user("a"), assistant("", made("c")), result("c")]
    assert (await failed(script(text), *history)).retryable is False
    assert await said(script(text), *history, user("b")) == "fine"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ("{status: 429, retry_after: 3}", "rate_limited", False),
        ("{status: 413}", "request_too_large", False),
        ("{status: 408}", "model_error", True),
        ("{code: context_exceeded}", "context_exceeded", False),
        ("{code: media_too_large, retryable: true}", "media_too_large", True),
        ("{}", "model_error", False),
    ],
)
async def test_codes_follow_the_status(script: Make, error: str, code: str, retryable: bool) -> None:
    caught = await failed(script(f"turns: [{{error: {error}}}]"), "a")
    assert (caught.code, caught.retryable) == (code, retryable)
    assert caught.text


async def test_a_delay_comes_before_each_piece(tmp_path: Path) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    (tmp_path / "s.yaml").write_text(
        "turns: [{delay: 2, thought: a, text: [b, c]}, {delay: 3, tool_calls: [{name: x}]}]"
    )
    model = Scripted(resolved(), directory=tmp_path, sleep=sleep)
    await ask(model, "a")
    assert waits == [2, 2, 2]
    await ask(model, "a", assistant("bc"), "b")
    assert waits == [2, 2, 2, 3]


async def test_a_delay_can_be_cancelled(script: Make) -> None:
    model = script("turns: [{text: [a, b], delay: 0}, {text: [a, b], delay: 3600}]")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.complete, asked("a", "b"), Heard())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()


async def test_two_sessions_do_not_disturb_each_other(script: Make) -> None:
    first, second = script("turns: [{text: one}, {text: two}]"), script("turns: [{text: one}, {text: two}]")
    assert await said(first, "a") == "one"
    assert await said(first, "a", assistant("one"), "b") == "two"
    assert await said(second, "a") == "one"


async def test_a_summary_is_no_unanswered_prompt(script: Make) -> None:
    model = script("turns: [{text: one}, {text: two}]")
    summary = Message("user", (Part("text", "Summary: ..."),), implicit=True)
    assert await said(model, summary, "b") == "one"


async def test_a_missing_script_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"s\.yaml"):
        build(resolved(), directory=tmp_path)
    with pytest.raises(ConfigError, match=r"provider_opts\.script"):
        build(Resolved(None, "scripted", "demo", "scripted", None, Options()))


async def test_window_and_price_are_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("turns: [{text: a, usage: {input_tokens: 1000000}}]")
    model = build(resolved(context_size=8000, cost=Cost(input=3.0)), directory=tmp_path)
    assert model.context_size == 8000
    response = await ask(model, "a")
    assert response.usage is not None
    assert response.usage.cost == 3.0
