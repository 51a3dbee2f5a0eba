"""The MCP servers a client brings: malformed, ambiguous and dangerous ones are refused, and the field is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import acp
from sluice.wire.errors import InvalidParams

STDIO = {"name": "s", "command": "/bin/s"}
HTTP = {"type": "http", "name": "h", "url": "https://example.org/mcp"}
SSE = {"type": "sse", "name": "e", "url": "http://example.org/sse"}
METHODS = ["session/new", "session/load", "session/resume"]


def decode(servers: Any, method: str = "session/new") -> Any:
    params = {"cwd": "/w", "sessionId": "s", "mcpServers": servers}
    return acp.decode_params(method, json.dumps(params).encode()).mcp_servers


def path_of(servers: Any, method: str = "session/new") -> str:
    with pytest.raises(InvalidParams) as caught:
        decode(servers, method)
    assert caught.value.data is not None
    assert len(caught.value.message.splitlines()) == 1
    return str(caught.value.data["path"])


@pytest.mark.requirement("client-mcp.accept.three-transports")
@pytest.mark.parametrize("method", METHODS)
def test_the_three_transports_may_be_mixed(method: str) -> None:
    servers = decode([STDIO, HTTP, SSE], method)
    assert [type(server) for server in servers] == [acp.McpServerStdio, acp.McpServerHttp, acp.McpServerSse]


@pytest.mark.requirement("client-mcp.accept.missing-optional-lists")
@pytest.mark.parametrize("nulls", [False, True])
def test_missing_and_null_lists_are_empty(nulls: bool) -> None:
    extra = {"args": None, "env": None, "headers": None} if nulls else {}
    stdio, http, sse = decode([{**STDIO, **extra}, {**HTTP, **extra}, {**SSE, **extra}])
    assert (stdio.args, stdio.env, http.headers, sse.headers) == ([], [], [], [])


@pytest.mark.parametrize("kind", [None, "stdio"])
def test_a_spelled_out_stdio_type_is_stdio(kind: str | None) -> None:
    assert isinstance(decode([{**STDIO, "type": kind}])[0], acp.McpServerStdio)


@pytest.mark.requirement("client-mcp.accept.malformed-entry")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (3, ""),
        (None, ""),
        ([], ""),
        ("s", ""),
        ({}, ".name"),
        ({"name": "x"}, ".command"),
        ({"command": "/bin/s"}, ".name"),
        ({**STDIO, "name": 3}, ".name"),
        ({**STDIO, "args": "x"}, ".args"),
        ({**STDIO, "args": [3]}, ".args[0]"),
        ({**STDIO, "args": [None]}, ".args[0]"),
        ({**STDIO, "env": {"K": "v"}}, ".env"),
        ({**STDIO, "env": [{"name": "K"}]}, ".env[0].value"),
        ({**STDIO, "type": "acp"}, ".type"),
        ({**STDIO, "type": "HTTP"}, ".type"),
        ({**STDIO, "type": 3}, ".type"),
        ({"type": "http", "name": "h"}, ".url"),
        ({**HTTP, "headers": {"a": "b"}}, ".headers"),
        ({**HTTP, "headers": [{"name": "a"}]}, ".headers[0].value"),
    ],
    ids=str,
)
def test_a_malformed_entry_fails_the_whole_call(method: str, entry: Any, path: str) -> None:
    assert path_of([STDIO | {"name": "fine"}, entry], method) == f"$.mcpServers[1]{path}"


@pytest.mark.parametrize("servers", ["x", {}, 3, True])
def test_the_servers_are_a_list(servers: Any) -> None:
    assert path_of(servers) == "$.mcpServers"


@pytest.mark.requirement("client-mcp.names.unique")
@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_a_name_is_not_empty(name: str) -> None:
    assert path_of([{**STDIO, "name": name}]) == "$.mcpServers[0].name"


@pytest.mark.requirement("client-mcp.names.unique")
def test_names_are_unique_across_transports() -> None:
    assert path_of([STDIO, {**HTTP, "name": "s"}]) == "$.mcpServers[1].name"
    assert len(decode([STDIO, {**HTTP, "name": "S"}])) == 2


@pytest.mark.parametrize("command", ["", "s", "./s", "~/s", "bin/s", "/bin/s\0"])
def test_a_command_is_an_absolute_path(command: str) -> None:
    assert path_of([{**STDIO, "command": command}]) == "$.mcpServers[0].command"


def test_arguments_and_environment_are_kept_verbatim() -> None:
    (server,) = decode([{**STDIO, "args": ["a b", "", "$HOME"], "env": [{"name": "K", "value": "${X} y"}]}])
    assert server.args == ["a b", "", "$HOME"]
    assert server.env == [acp.EnvVariable("K", "${X} y")]


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("args", ["a\0"], "args[0]"),
        ("env", [{"name": "", "value": ""}], "env[0].name"),
        ("env", [{"name": "A=B", "value": ""}], "env[0].name"),
        ("env", [{"name": "A\0", "value": ""}], "env[0].name"),
        ("env", [{"name": "A", "value": "\0"}], "env[0].value"),
    ],
)
def test_what_no_process_can_be_given_is_refused(field: str, value: Any, path: str) -> None:
    assert path_of([{**STDIO, field: value}]) == f"$.mcpServers[0].{path}"


@pytest.mark.requirement("client-mcp.url.form")
@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/mcp",
        "/mcp",
        "ftp://example.org/",
        "file:///etc/passwd",
        "ws://example.org/",
        "http:",
        "http://",
        "http:///mcp",
        "https://:443/",
        "https://secret@example.org/",
        "https://user:secret@example.org/",
        "https://@example.org/",
        "https://example.org/#secret",
        "https://example.org/#",
        "https://example.org:x/",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://[::1/",
        "https://example.org/a b",
        " https://example.org/",
        "https://exa\nmple.org/",
        "https://example.org\\@evil.example/",
        "https:example.org",
    ],
)
def test_a_url_of_another_form_is_refused_without_being_repeated(kind: str, url: str) -> None:
    servers = [{"type": kind, "name": "x", "url": url}]
    assert path_of(servers) == "$.mcpServers[0].url"
    with pytest.raises(InvalidParams) as caught:
        decode(servers)
    assert "secret" not in caught.value.message


@pytest.mark.requirement("client-mcp.url.form")
@pytest.mark.parametrize(
    "url",
    ["http://example.org", "HTTPS://Example.org:8443/a?b=c&d=%20", "http://[2001:db8::1]:80/", "http://127.0.0.1/"],
)
def test_an_http_url_passes_and_where_it_leads_is_checked_when_it_is_called(url: str) -> None:
    assert decode([{**HTTP, "url": url}])[0].url == url


@pytest.mark.requirement("client-mcp.headers.valid-and-unique")
@pytest.mark.parametrize("name", ["", " ", "a b", "a:", "a\r\n", "ä", "a\0", "(x)", "x,y", '"x"'])
def test_a_header_name_is_an_http_token(name: str) -> None:
    assert path_of([{**HTTP, "headers": [{"name": name, "value": ""}]}]) == "$.mcpServers[0].headers[0].name"


@pytest.mark.requirement("client-mcp.headers.valid-and-unique")
def test_header_names_are_unique_ignoring_case() -> None:
    headers = [{"name": "X-Key", "value": "a"}, {"name": "x-kEY", "value": "b"}]
    assert path_of([{**HTTP, "headers": headers}]) == "$.mcpServers[0].headers[1].name"


@pytest.mark.parametrize("value", ["secret\r\nHost: x", "secret\n", "secret\0", " secret", "secret ", "\x7fsecret"])
def test_a_header_value_cannot_smuggle_another_header(value: str) -> None:
    servers = [{**SSE, "headers": [{"name": "X-Key", "value": value}]}]
    assert path_of(servers) == "$.mcpServers[0].headers[0].value"
    with pytest.raises(InvalidParams) as caught:
        decode(servers)
    assert "secret" not in caught.value.message


@pytest.mark.requirement("client-mcp.headers.controlled-refused")
@pytest.mark.parametrize(
    "name",
    [
        "Host", "Mcp-Session-Id", "MCP-Protocol-Version", "mcp-anything", "Content-Length", "content-type",
        "Content-Encoding", "Accept", "Accept-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive", "TE",
        "Trailer", "Upgrade", "Proxy-Authorization", "proxy-connection", "Last-Event-ID", "Idempotency-Key", "Expect",
    ],
)  # fmt: skip
def test_a_header_that_the_transport_controls_is_refused(name: str) -> None:
    assert path_of([{**HTTP, "headers": [{"name": name, "value": "x"}]}]) == "$.mcpServers[0].headers[0].name"


@pytest.mark.requirement("client-mcp.headers.literal")
def test_other_headers_pass_with_their_values_untouched() -> None:
    headers = [
        {"name": "Authorization", "value": "Bearer ${TOKEN} $(x)"},
        {"name": "X-Tab", "value": "a\tb"},
        {"name": "User-Agent", "value": ""},
        {"name": "Cookie", "value": "a=b"},
    ]
    (server,) = decode([{**HTTP, "headers": headers}])
    assert [{"name": header.name, "value": header.value} for header in server.headers] == headers


@given(st.text(max_size=30))
def test_a_url_that_passes_has_a_host_and_no_user_info_or_fragment(tail: str) -> None:
    url = f"https://{tail}"
    try:
        decode([{**HTTP, "url": url}])
    except InvalidParams:
        return
    authority = tail.split("/")[0].split("?")[0]
    assert authority
    assert "@" not in authority
    assert "#" not in url


SERVERS_BY_GATE = {"mcpCapabilities.http": HTTP, "mcpCapabilities.sse": SSE}


@pytest.mark.requirement("client-mcp.accept.unadvertised-transport")
@pytest.mark.parametrize(("gate", "server"), SERVERS_BY_GATE.items())
def test_a_transport_that_is_not_advertised_is_refused_by_name(gate: str, server: dict[str, Any]) -> None:
    servers = decode([STDIO, server])
    other = acp.McpCapabilities(http=gate != "mcpCapabilities.http", sse=gate != "mcpCapabilities.sse")
    with pytest.raises(InvalidParams, match=gate) as caught:
        acp.check_transport_gates(servers, acp.AgentCapabilities(mcp_capabilities=other))
    assert caught.value.data == {"path": "$.mcpServers[1].type"}
    acp.check_transport_gates(servers, acp.AgentCapabilities(mcp_capabilities=acp.McpCapabilities(True, True)))


BLOCKS: list[tuple[str, acp.ContentBlock]] = [
    ("image", acp.ImageContent("AA==", "image/png")),
    ("audio", acp.AudioContent("AA==", "audio/wav")),
    ("embedded_context", acp.EmbeddedResource(acp.TextResourceContents("x:", ""))),
]


@pytest.mark.requirement("turn-admission.params.ungated-block")
@pytest.mark.parametrize(("capability", "block"), BLOCKS)
def test_a_block_of_a_kind_that_is_not_advertised_is_refused(capability: str, block: acp.ContentBlock) -> None:
    request = acp.PromptRequest("s", [acp.TextContent("hi"), block])
    allowed: dict[str, Any] = {name: name != capability for name, _ in BLOCKS}
    others = acp.PromptCapabilities(**allowed)
    with pytest.raises(InvalidParams) as caught:
        acp.check_prompt_gates(request, acp.AgentCapabilities(prompt_capabilities=others))
    assert caught.value.data == {"path": "$.prompt[1].type"}
    full = acp.PromptCapabilities(True, True, True)
    acp.check_prompt_gates(request, acp.AgentCapabilities(prompt_capabilities=full))


def test_text_and_links_are_never_gated() -> None:
    request = acp.PromptRequest("s", [acp.TextContent("hi"), acp.ResourceLink("x:", "x")])
    acp.check_prompt_gates(request, acp.AgentCapabilities())
