import pytest

from sluice.config.expand import Unset, expand, has_template

ENV = {"A": "1", "EMPTY": "", "NESTED": "${env.A}"}


@pytest.mark.requirement("config-file.expand.env")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x${env.A}y", "x1y"),
        ("${ env.A }${env.A}", "11"),
        ("${env.NONE || 'd'}", "d"),
        ('${env.NONE||"d e"}', "d e"),
        ("${env.EMPTY || 'd'}", "d"),
        ("${env.EMPTY}", ""),
        ("${env.A || 'd'}", "1"),
        ("${env.NONE || ''}", ""),
        ("${A} $A $5 ${}", "${A} $A $5 ${}"),
        ("${env.NESTED}", "${env.A}"),
    ],
)
def test_variables_are_put_in_once(text: str, expected: str) -> None:
    assert expand(text, ENV) == expected


def test_bare_variables_are_put_in_only_where_they_are_asked_for() -> None:
    assert expand("${A}/${env.A}/$A", ENV, bare=True) == "1/1/$A"


@pytest.mark.parametrize(("text", "bare"), [("${env.NONE}", False), ("${NONE}", True)])
def test_a_variable_without_value_is_named(text: str, bare: bool) -> None:
    with pytest.raises(Unset) as caught:
        expand(text, ENV, bare=bare)
    assert caught.value.name == "NONE"


def test_other_templates_are_recognised() -> None:
    assert has_template("${shell({cmd: 'ls'})}")
    assert has_template("${HOME}")
    assert not has_template("${env.A} costs $5 {x}")
