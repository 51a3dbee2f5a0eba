"""Operations of an OpenAPI description as tools, with descriptions and servers on the loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.agent.ports import Tool, ToolFailure, Toolset
from sluice.outbound import AddressPolicy, networks
from sluice.tools import build
from sluice.tools.http_call import MAX_OUTPUT
from sluice.tools.openapi_document import Operation, operations
from tests.support.web import Site, site
from tests.tools.support import Config, call, make, setup

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

HERE = "https://api.example.org/v2/openapi.json"
WORD = {"type": "string"}


def described(paths: Json, **more: Any) -> Json:
    return {"openapi": "3.0.3", "info": {"title": "Pets", "version": "1"}, "paths": paths, **more}


def query(name: str, **more: Any) -> Json:
    return {"name": name, "in": "query", "schema": WORD, **more}


def read(paths: Json, **more: Any) -> list[Operation]:
    return operations(described(paths, **more), HERE)


def one(operation: Json, path: str = "/x", method: str = "get", **more: Any) -> Operation:
    (found,) = read({path: {method: operation}}, **more)
    return found


def at(server: Site, rest: str) -> str:
    return f"http://127.0.0.1:{server.port}{rest}"


async def started(server: Site, cwd: Path, document: Json, **options: Any) -> Toolset:
    server.pages["/openapi.json"] = json.dumps(document).encode()
    toolset = make("openapi", cwd, url=at(server, "/openapi.json"), **options)
    await toolset.start()
    server.requests.clear()
    server.bodies.clear()
    return toolset


# --- what is read of a description


@pytest.mark.requirement("tools.openapi.operations")
async def test_each_operation_is_a_tool_and_only_get_and_head_are_read_only(tmp_path: Path) -> None:
    kinds = ("get", "head", "post", "put", "patch", "delete")
    paths = {"/x": {kind: {"operationId": kind} for kind in (*kinds, "options", "trace")}}
    async with site({}) as server:
        toolset = await started(server, tmp_path, described(paths))
    tools: dict[str, Tool] = {tool.name: tool for tool in toolset.tools()}
    assert set(tools) == set(kinds)
    assert {name for name, tool in tools.items() if tool.read_only} == {"get", "head"}
    assert {name for name, tool in tools.items() if tool.destructive} == {"delete"}
    assert {name for name, tool in tools.items() if tool.idempotent} == {"get", "head", "put", "delete"}
    assert all(tool.open_world for tool in tools.values())


def test_names_are_those_of_the_description_as_far_as_models_take_them_and_never_twice() -> None:
    long = "x" * 80
    found = read(
        {
            "/a": {"get": {"operationId": "pets/list all"}, "post": {"operationId": "pets list-all"}},
            "/a/{b}/c": {"get": {}, "put": {"operationId": "pets_list_all"}},
            "/l": {"get": {"operationId": long}, "put": {"operationId": long + "y"}},
            "/é": {"get": {"operationId": "é"}},
        }
    )
    assert [operation.name for operation in found] == [
        "pets_list_all",
        "pets_list-all",
        "get_a_b_c",
        "pets_list_all_2",
        "x" * 64,
        "x" * 60 + "_2",
        "get",
    ]


def test_a_description_is_summary_and_description_and_is_bounded() -> None:
    assert one({"summary": "Lists.", "description": "All of them."}).description == "Lists.\nAll of them."
    assert one({"summary": "Lists.", "description": "Lists."}).description == "Lists."
    assert one({}).description == "GET /x"
    assert len(one({"description": "x" * 5000}).description.encode()) <= 1024


def test_parameters_of_an_operation_outrank_those_of_its_path_and_references_are_followed() -> None:
    (found,) = read(
        {
            "/p/{id}": {
                "$ref": "#/components/pathItems/pet",
            }
        },
        components={
            "pathItems": {
                "pet": {
                    "parameters": [query("limit", required=True), {"$ref": "#/components/parameters/id"}],
                    "get": {"parameters": [query("limit", description="How many", schema={"type": "integer"})]},
                }
            },
            "parameters": {"id": {"name": "id", "in": "path", "schema": {"$ref": "#/components/schemas/a~1b"}}},
            "schemas": {"a/b": {"type": "string", "maxLength": 9, "example": "e", "xml": {}}},
        },
    )
    assert found.schema == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "description": "How many"},
            "id": {"type": "string", "maxLength": 9},
        },
        "required": ["id"],
    }


def test_a_part_of_the_path_that_nobody_describes_is_an_argument_all_the_same() -> None:
    assert one({}, "/a/{id}").schema["required"] == ["id"]


def test_one_name_in_two_places_is_two_arguments_and_odd_names_become_plain() -> None:
    header = {"name": "body", "in": "header", "schema": WORD}
    found = one(
        {
            "parameters": [query("id"), query("filter[name]"), header],
            "requestBody": {"content": {"application/json": {"schema": WORD}}},
        },
        "/a/{id}",
        "post",
    )
    assert [(p.argument, p.name, p.place) for p in found.parameters] == [
        ("id", "id", "query"),
        ("filter_name_", "filter[name]", "query"),
        ("body", "body", "header"),
        ("path_id", "id", "path"),
    ]
    assert found.body is not None and found.body.argument == "request_body"


@pytest.mark.parametrize("name", ["Accept", "authorization", "Content-Type", "Host", "Cookie", "content-length"])
def test_headers_that_are_not_the_callers_are_no_arguments(name: str) -> None:
    parameters = [{"name": name, "in": "header", "schema": WORD}, {"name": "c", "in": "cookie", "schema": WORD}]
    assert one({"parameters": parameters}).parameters == ()


def test_a_schema_that_refers_to_itself_ends_and_what_only_answers_hold_is_left_out() -> None:
    node = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string", "nullable": True},
            "share": {
                "type": "number",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 1,
                "exclusiveMaximum": False,
            },
            "next": {"$ref": "#/components/schemas/node"},
            "any": {"oneOf": [WORD, {"$ref": "elsewhere.json"}]},
        },
    }
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/node"}}}}
    found = one({"requestBody": body}, method="post", components={"schemas": {"node": node}})
    assert found.schema["required"] == ["body"]
    assert found.schema["properties"]["body"] == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": ["string", "null"]},
            "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "next": {},
            "any": {"oneOf": [WORD, {}]},
        },
    }


def test_a_schema_without_end_or_of_any_depth_does_no_harm() -> None:
    deep: Json = WORD
    for _ in range(2000):
        deep = {"type": "array", "items": deep}
    wide = {"type": "object", "properties": {f"p{number}": WORD for number in range(5000)}}
    loop = {"$ref": "#/components/schemas/loop"}
    parameters = [query("d", schema=deep), query("w", schema=wide), query("l", schema=loop)]
    found = one({"parameters": parameters}, components={"schemas": {"loop": loop}}).schema["properties"]
    assert set(found) == {"d", "w", "l"} and found["l"] == {}
    assert len(json.dumps(found)) < 40_000


def test_an_operation_whose_body_cannot_be_written_is_left_out_when_it_needs_one() -> None:
    upload = {"content": {"multipart/form-data": {"schema": WORD}}}
    found = read({"/a": {"post": {"requestBody": {**upload, "required": True}}, "put": {"requestBody": upload}}})
    assert [(operation.name, operation.body) for operation in found] == [("put_a", None)]


@pytest.mark.parametrize(
    ("servers", "base"),
    [
        ([], "https://api.example.org"),
        ([{"url": "/v3/"}], "https://api.example.org/v3"),
        ([{"url": "../v1"}], "https://api.example.org/v1"),
        ([{"url": "https://{where}.example.net:8443/x", "variables": {"where": {"default": "eu"}}}], "https://eu.example.net:8443/x"),
    ],
)  # fmt: skip
def test_where_an_operation_goes(servers: list[Json], base: str) -> None:
    assert one({}, servers=servers).base == base
    assert one({"servers": [{"url": "https://own.example.net/"}]}, servers=servers).base == "https://own.example.net"


@pytest.mark.parametrize("url", ["ftp://x/", "file:///etc", "mailto:a@b"])
def test_an_operation_that_goes_nowhere_is_left_out(url: str) -> None:
    assert read({"/a": {"get": {}, "put": {"servers": [{"url": url}]}}})[0].name == "get_a"
    assert len(read({"/a": {"get": {}, "put": {"servers": [{"url": url}]}}})) == 1


@pytest.mark.parametrize("document", [None, [], "x", {}, {"openapi": "2.0"}, {"swagger": "2.0"}, {"openapi": 3}])
def test_what_is_no_description_of_version_3_is_refused(document: Any) -> None:
    with pytest.raises(ToolFailure, match="OpenAPI"):
        operations(document, HERE)


@pytest.mark.parametrize(
    "odd",
    [
        {"paths": []},
        {"paths": {"/a": None, "/b": [], "/c": {"get": "x"}, 5: {"get": {}}}},
        {"paths": {"/a": {"parameters": "x", "get": {"parameters": [None, 3, {"in": "query"}, {"$ref": 4}]}}}},
        {"paths": {"/a": {"post": {"requestBody": {"content": {"application/json": None}}}}}},
        {"paths": {"/a": {"get": {"servers": "x", "operationId": 4, "summary": [], "description": {"a": 1}}}}},
        {"paths": {"/a": {"get": {"parameters": [query("a", schema={"properties": [], "oneOf": 1})]}}}},
        {"paths": {"/a": {"$ref": "#/paths/~1a"}}, "servers": [None]},
        {"paths": {"/a": {"$ref": "#/servers/9"}, "/b": {"$ref": "#/openapi/x"}}, "servers": []},
    ],
)  # fmt: skip
def test_a_description_with_mistakes_gives_what_can_be_read_of_it(odd: Json) -> None:
    for operation in operations({"openapi": "3.1.0", **odd}, HERE):
        json.dumps(operation.schema)
        assert operation.name and operation.description


# --- what is sent


@pytest.mark.requirement("tools.openapi.operations")
async def test_arguments_go_where_the_description_says(tmp_path: Path) -> None:
    get = {
        "operationId": "find",
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": WORD},
            query("tag", schema={"type": "array"}),
            query("ids", schema={"type": "array"}, explode=False),
            query("pipe", schema={"type": "array"}, style="pipeDelimited"),
            query("deep", schema={"type": "object"}, style="deepObject"),
            query("yes", schema={"type": "boolean"}),
            {"name": "X-Trace", "in": "header", "schema": WORD},
        ],
    }
    async with site({}, any_page=b"{}", type_="application/json") as server:
        toolset = await started(server, tmp_path, described({"/a/{id}/b": {"get": get}}))
        said = await call(
            toolset, tmp_path, "find",
            id="x/y z", tag=["a", "b&c"], ids=[1, 2], pipe=["p", "q"], deep={"k": "v"}, yes=True, **{"X-Trace": "t"},
        )  # fmt: skip
        assert (said.text, said.is_error) == ("{}", False)
        await call(toolset, tmp_path, "find", id="7", tag=None)
    assert [request[""] for request in server.requests] == [
        "GET /a/x%2Fy%20z/b?tag=a&tag=b%26c&ids=1%2C2&pipe=p%7Cq&deep%5Bk%5D=v&yes=true",
        "GET /a/7/b",
    ]
    assert server.requests[0]["x-trace"] == "t"


@pytest.mark.requirement("tools.openapi.operations")
@pytest.mark.parametrize(
    ("kind", "sent_as", "body"),
    [
        ("application/json", "application/json", b'{"name":"R\xc3\xa9x","n":2}'),
        ("application/vnd.pets+json", "application/vnd.pets+json", b'{"name":"R\xc3\xa9x","n":2}'),
        ("*/*", "application/json", b'{"name":"R\xc3\xa9x","n":2}'),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded", b"name=R%C3%A9x&n=2"),
    ],
)
async def test_a_body_is_written_as_its_type_wants(tmp_path: Path, kind: str, sent_as: str, body: bytes) -> None:
    post = {"operationId": "make", "requestBody": {"content": {kind: {"schema": {"type": "object"}}}}}
    async with site({}, any_page=b"made") as server:
        toolset = await started(server, tmp_path, described({"/p": {"post": post}}))
        assert (await call(toolset, tmp_path, "make", body={"name": "Réx", "n": 2})).text == "made"
    assert (server.requests[0][""], server.requests[0]["content-type"]) == ("POST /p", sent_as)
    assert server.bodies == [body]


async def test_the_operators_headers_outrank_an_argument(tmp_path: Path) -> None:
    get = {"operationId": "g", "parameters": [{"name": "X-Key", "in": "header", "schema": WORD}]}
    async with site({}, any_page=b"ok") as server:
        toolset = await started(server, tmp_path, described({"/p": {"get": get}}), headers={"x-key": "operator"})
        await call(toolset, tmp_path, "g", **{"X-Key": "model"})
    assert server.requests[0]["x-key"] == "operator"


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "é", "\ud800"])
async def test_an_argument_that_is_no_header_value_sends_nothing(tmp_path: Path, value: str) -> None:
    get = {"operationId": "g", "parameters": [{"name": "X-A", "in": "header", "schema": WORD}]}
    async with site({}, any_page=b"ok") as server:
        toolset = await started(server, tmp_path, described({"/p": {"get": get}}))
        with pytest.raises(ToolFailure):
            await call(toolset, tmp_path, "g", **{"X-A": value})
        assert server.requests == []


@pytest.mark.parametrize("value", ["", ".", "..", None])
async def test_an_argument_does_not_change_the_shape_of_a_path(tmp_path: Path, value: str | None) -> None:
    async with site({}, any_page=b"ok") as server:
        toolset = await started(server, tmp_path, described({"/p/{id}/q": {"get": {"operationId": "g"}}}))
        with pytest.raises(ToolFailure, match="'id' must not be"):
            await call(toolset, tmp_path, "g", id=value)
        assert server.requests == []


async def test_answers_are_bounded_and_an_error_status_is_an_error(tmp_path: Path) -> None:
    paths = {f"/{name}": {"get": {"operationId": name}} for name in ("long", "none", "away")}
    async with site({"/long": b"x" * 90_000, "/away": "http://127.0.0.2/"}) as server:
        toolset = await started(server, tmp_path, described(paths))
        assert (await call(toolset, tmp_path, "long")).text.startswith("x" * MAX_OUTPUT + "\n[the answer is longer")
        none = await call(toolset, tmp_path, "none")
        assert none.is_error and none.text.startswith("HTTP status 404")
        with pytest.raises(ToolFailure, match="not followed"):
            await call(toolset, tmp_path, "away")
        short = await started(server, tmp_path, described(paths), max_output_bytes=10)
        assert (await call(short, tmp_path, "long")).text.startswith("x" * 10 + "\n[")


async def test_another_host_than_that_of_the_description_is_judged_by_the_address_policy(tmp_path: Path) -> None:
    """A description is text from the network: it must not turn the agent against the machine it runs on."""
    async with site({}, any_page=b"inside") as inside, site({}) as server:
        elsewhere = described({"/p": {"get": {"operationId": "g"}}}, servers=[{"url": at(inside, "")}])
        server.pages["/openapi.json"] = json.dumps(elsewhere).encode()
        config = Config("openapi", options={"url": at(server, "/openapi.json")})
        closed = build(config, setup=setup(tmp_path))
        await closed.start()
        with pytest.raises(ToolFailure, match="may not be reached"):
            await call(closed, tmp_path, "g")
        assert inside.requests == []
        opened = build(config, setup=setup(tmp_path, addresses=AddressPolicy(networks(("127.0.0.1/32",)))))
        await opened.start()
        assert (await call(opened, tmp_path, "g")).text == "inside"
        assert inside.requests[0]["host"] == f"127.0.0.1:{inside.port}"


# --- where the description comes from


async def test_a_description_may_be_yaml(tmp_path: Path) -> None:
    page = b"openapi: 3.0.0\npaths:\n  /pets:\n    get:\n      operationId: pets\n      responses:\n        200: {}\n"
    async with site({"/openapi.yaml": page}, type_="application/yaml", any_page=b"ok") as server:
        toolset = make("openapi", tmp_path, url=at(server, "/openapi.yaml"))
        await toolset.start()
        assert (await call(toolset, tmp_path, "pets")).text == "ok"
        assert "127.0.0.1" in toolset.instruction and "missing" not in toolset.instruction


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"{", "neither JSON nor YAML"),
        (b"a: [", "neither JSON nor YAML"),
        (b"[" * 100_000, "neither JSON nor YAML"),
        (b"hello", "no OpenAPI description"),
        (b"", "no OpenAPI description"),
        (b'{"swagger": "2.0"}', "Swagger"),
        ("http://127.0.0.1/x", "redirects are not followed"),
    ],
)
async def test_a_description_that_cannot_be_read_leaves_no_tools_and_says_why(
    tmp_path: Path, page: bytes | str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with site({"/openapi.json": page}) as server:
        toolset = make("openapi", tmp_path, url=at(server, "/openapi.json"))
        await toolset.start()
    assert toolset.tools() == ()
    assert "missing in this session" in toolset.instruction and reason in toolset.instruction
    assert reason in caplog.text


async def test_a_server_that_refuses_the_description_is_told_by_its_status(tmp_path: Path) -> None:
    async with site({}) as server:
        toolset = make("openapi", tmp_path, url=at(server, "/openapi.json"))
        await toolset.start()
    assert "its server answered with HTTP status 404" in toolset.instruction


@pytest.mark.parametrize("url", ["ftp://x/o.json", "openapi.json", "https://u:p@x/o.json", "https:///o.json"])
def test_a_url_that_cannot_be_fetched_is_refused_when_the_toolset_is_made(tmp_path: Path, url: str) -> None:
    with pytest.raises(ToolFailure):
        make("openapi", tmp_path, url=url)
