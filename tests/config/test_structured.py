from __future__ import annotations

import pytest

from sluice.config.structured import answer_problem
from tests.config.support import error, read

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def form(*lines: str) -> str:
    return "agents:\n  root:\n    model: auto\n    structured_output:\n" + "".join(
        f"      {line}\n" for line in lines
    )


def test_the_form_is_read_as_it_was_written() -> None:
    found = read(
        form("name: review", "description: d", "strict: true", "schema: {type: object, required: [a], x: '${env.A}'}")
    ).default_agent.structured_output
    assert found is not None
    assert (found.name, found.description, found.strict) == ("review", "d", True)
    assert found.schema == {"type": "object", "required": ["a"], "x": "${env.A}"}
    assert read("agents: {root: {model: auto}}").default_agent.structured_output is None


@pytest.mark.requirement("config-file.errors.before-start")
@pytest.mark.parametrize(
    ("lines", "line", "key", "message"),
    [
        (["name: a"], 4, ".schema", "structured_output needs a name and a schema"),
        (["schema: {}"], 4, ".name", "structured_output needs a name and a schema"),
        (["name: a b", "schema: {}"], 4, ".name", "expected 1 to 64 letters, digits, _ and - without spaces"),
        (["name: a", "schema: [x]"], 6, ".schema", "is no usable JSON schema: it is a list"),
        (
            ["name: a", "schema: {$ref: 'https://x/y'}"],
            6,
            ".schema",
            'is no usable JSON schema: "https://x/y" leads out of the schema',
        ),
        (
            ["name: a", "schema: {$ref: '#/$defs/y'}"],
            6,
            ".schema",
            'is no usable JSON schema: "#/$defs/y" leads nowhere',
        ),
        (["name: a", "schema: {type: objekt}"], 6, ".schema", "is no usable JSON schema: "),
        (["name: a", "schmea: {}"], 6, ".schmea", 'unknown key; did you mean "schema"?'),
    ],
)
def test_a_form_that_cannot_be_used_is_an_error_at_load(lines: list[str], line: int, key: str, message: str) -> None:
    found = error(form(*lines))
    assert (found.line, found.key) == (line, f"agents.root.structured_output{key}")
    assert found.message.startswith(message)


@pytest.mark.requirement("config-file.agents.structured-output")
@pytest.mark.parametrize("answer", ['{"n": 1}', ' \n{"n": -3}\n'])
def test_an_answer_that_fits_has_no_problem(answer: str) -> None:
    assert answer_problem(SCHEMA, answer) is None


@pytest.mark.requirement("config-file.agents.structured-output")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "it is not JSON"),
        ("Here you are: {}", "it is not JSON"),
        ('```json\n{"n": 1}\n```', "it is not JSON"),
        ('{"n": NaN}', "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("{}", "'n' is a required property"),
        ('{"n": "1"}', "$.n: '1' is not of type 'integer'"),
        ("[1]", "[1] is not of type 'object'"),
    ],
)
def test_an_answer_that_does_not_fit_says_where_and_why(answer: str, problem: str) -> None:
    assert answer_problem(SCHEMA, answer) == problem


def test_a_problem_is_short_and_on_one_line() -> None:
    found = answer_problem({"type": "integer"}, '"' + "x\\n" * 1000 + '"')
    assert found is not None
    assert len(found) <= 200
    assert "\n" not in found


def test_a_schema_that_refers_to_itself_is_followed() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    assert answer_problem(tree, '{"next": {"next": {}}}') is None
    assert answer_problem(tree, '{"next": {"other": {}}}') is not None
