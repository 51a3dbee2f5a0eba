"""One configured HTTP call as a tool, to real servers on the loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import ToolFailure, Toolset
from sluice.config.schema import ApiConfig
from sluice.tools.http_call import MAX_OUTPUT
from tests.support.web import Site, site
from tests.tools.support import call, make

pytestmark = pytest.mark.anyio

WORD = {"type": "string"}


def api(cwd: Path, endpoint: str, **more: Any) -> Toolset:
    return make("api", cwd, api_config=ApiConfig(name="tickets", endpoint=endpoint, **more))


def at(server: Site, rest: str) -> str:
    return f"http://127.0.0.1:{server.port}{rest}"


@pytest.mark.requirement("tools.api.configured-call")
async def test_arguments_fill_the_path_and_the_query_encoded_and_the_rest_becomes_query(tmp_path: Path) -> None:
    async with site({}, any_page=b'{"ok": true}', type_="application/json") as server:
        made = api(
            tmp_path,
            at(server, "/t/${id}?lang=${lang}"),
            args={"id": WORD, "lang": WORD, "n": {"type": "integer"}},
            required=("id",),
            headers={"x-key": "k"},
        )
        said = await call(made, tmp_path, "tickets", id="../a b?c#d&e=f", lang="\u00e9", n=3)
        assert (said.text, said.is_error) == ('{"ok": true}', False)
        assert (await call(made, tmp_path, "tickets", id="7")).text == '{"ok": true}'
    assert [request[""] for request in server.requests] == [
        "GET /t/..%2Fa%20b%3Fc%23d%26e%3Df?lang=%C3%A9&n=3",
        "GET /t/7?lang=",
    ]
    assert server.requests[0]["x-key"] == "k"


@pytest.mark.requirement("tools.api.configured-call")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_request_with_a_body_carries_the_rest_as_json(tmp_path: Path, method: str) -> None:
    async with site({}, any_page=b"made") as server:
        made = api(tmp_path, at(server, "/t/${id}"), method=method, args={"id": WORD, "n": {"type": "integer"}})
        assert (await call(made, tmp_path, "tickets", id="7", n=3)).text == "made"
    assert server.requests[0][""] == f"{method} /t/7"
    assert (server.requests[0]["content-type"], server.bodies[0]) == ("application/json", b'{"n":3}')


@pytest.mark.requirement("tools.api.configured-call")
@pytest.mark.parametrize(
    ("method", "read_only", "destructive"), [("GET", True, None), ("POST", False, None), ("DELETE", False, True)]
)
def test_only_get_is_read_only(tmp_path: Path, method: str, read_only: bool, destructive: bool | None) -> None:
    (tool,) = api(tmp_path, "https://example.org/", method=method, instruction="Does it.").tools()
    assert (tool.name, tool.spec.description) == ("tickets", "Does it.")
    assert (tool.read_only, tool.destructive, tool.open_world) == (read_only, destructive, True)


@pytest.mark.requirement("tools.api.configured-call")
async def test_an_answer_is_bounded_an_error_status_is_an_error_and_a_redirect_is_not_followed(
    tmp_path: Path,
) -> None:
    async with site({"/long": b"x" * 90_000, "/away": "http://127.0.0.2/"}) as server:
        long = await call(api(tmp_path, at(server, "/long")), tmp_path, "tickets")
        assert long.text.startswith("x" * MAX_OUTPUT + "\n[the answer is longer") and not long.is_error
        none = await call(api(tmp_path, at(server, "/none")), tmp_path, "tickets")
        assert none.is_error and none.text.startswith("HTTP status 404")
        with pytest.raises(ToolFailure, match="not followed"):
            await call(api(tmp_path, at(server, "/away")), tmp_path, "tickets")


@pytest.mark.parametrize("value", [".", ".."])
async def test_an_argument_does_not_climb_up_the_path(tmp_path: Path, value: str) -> None:
    made = api(tmp_path, "https://example.org/a/${id}/b", args={"id": WORD})
    with pytest.raises(ToolFailure, match="must not be"):
        await call(made, tmp_path, "tickets", id=value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "ftp://x/",
        "example.org",
        "https://${id}/",
        "https://${id}.example.org/x",
        "https://x:${id}/",
        "https://x/${no}",
    ],
)
def test_an_endpoint_that_leaves_its_host_open_is_refused(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(ToolFailure):
        api(tmp_path, endpoint, args={"id": WORD})


async def test_a_server_that_is_not_there_is_told_without_its_address(tmp_path: Path) -> None:
    async with site({}) as server:
        gone = at(server, "/s3cr3t")
    with pytest.raises(ToolFailure) as failed:
        await call(api(tmp_path, gone), tmp_path, "tickets")
    assert "s3cr3t" not in str(failed.value)
