from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.errors import ConfigError
from sluice.config.tree import MAX_DEPTH, MAX_WEIGHT, Node, parse

LOADERS: list[Any] = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def loader(request: pytest.FixtureRequest) -> Any:
    return request.param


def tree(text: str, loader: Any) -> Node:
    root = parse(text, "f.yaml", loader)
    assert root is not None
    return root


def failure(text: str, loader: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml", loader)
    assert caught.value.file == "f.yaml"
    return caught.value


def at(node: Node, *steps: str | int) -> Node:
    for step in steps:
        if isinstance(node.value, dict):
            node = node.value[str(step)]
        else:
            assert isinstance(node.value, list)
            node = node.value[int(step)]
    return node


def test_values_know_the_line_of_their_key(loader: Any) -> None:
    root = tree("a: 1\nb:\n  c: |\n    x\n    y\n  d: [1,\n    2]\n", loader)
    assert root.plain() == {"a": 1, "b": {"c": "x\ny\n", "d": [1, 2]}}
    assert at(root, "a").line == 1
    assert at(root, "b").line == 2
    assert at(root, "b", "c").line == 3
    assert at(root, "b", "d").line == 6
    assert at(root, "b", "d", 1).line == 7


@pytest.mark.parametrize("brk", ["\u2028", "\u0085", "é\u2029"])
def test_lines_are_counted_as_an_editor_counts_them(loader: Any, brk: str) -> None:
    assert at(tree(f"a: |\n  x{brk}  y\n\r\nb: 2\n", loader), "b").line == 4


def test_lines_after_a_shebang_and_with_carriage_returns(loader: Any) -> None:
    assert at(tree("#!/usr/bin/env sluice\r\n\r\na: 1\r\nb: 2\r\n", loader), "b").line == 4


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("0x1f", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("2026-08-01", "2026-08-01"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("tRuE", "tRuE"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 400, "9" * 400),
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
    ],
)
def test_scalars_follow_the_core_schema(loader: Any, scalar: str, value: object) -> None:
    found = tree(f"k: {scalar}\n", loader).plain()["k"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_the_text_that_was_written(loader: Any) -> None:
    assert tree("1: a\nno: b\nnull: c\n'': d\n", loader).plain() == {"1": "a", "no": "b", "null": "c", "": "d"}


def test_anchors_aliases_and_merge_keys_work(loader: Any) -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 5, z: 3}\nl: [*b]\nm: {<<: *b, y: 9}\nn:\n  <<: [*b, *o]\n  w: 0\n"
    plain = tree(text, loader).plain()
    assert plain["l"] == [{"x": 1, "y": 2}]
    assert plain["m"] == {"x": 1, "y": 9}
    assert plain["n"] == {"x": 1, "y": 2, "z": 3, "w": 0}


def test_nothing_and_only_comments_are_no_document(loader: Any) -> None:
    assert parse("", "f.yaml", loader) is None
    assert parse("# only\n", "f.yaml", loader) is None


@pytest.mark.requirement("config-file.format.yaml")
@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "", "YAML syntax"),
        ('a: "x\n', 2, "", "YAML syntax"),
        ("a: 1\n b: 2\n", 2, "", "YAML syntax"),
        ("a:\n\tb: 1\n", 2, "", "a tab indents this line"),
        ("a:\n  b: 1\n \t c: 1\n", 3, "", "a tab indents this line"),
        ("a: 1\nb: 2\na: 3\n", 3, "a", "stands twice in one mapping, first on line 1"),
        ("o:\n  - x:\n      a: 1\n      a: 2\n", 4, "o[0].x.a", "stands twice in one mapping, first on line 3"),
        ("a: {<<: {x: 1}, <<: {y: 1}}", 1, "a.<<", "stands twice"),
        ("a: 1\n---\nb: 2\n", 2, "", "second document"),
        ("a: 1\nb: *x\n", 2, "", ""),
        ("a: &x [1, *x]\n", 1, "", ""),
        ("a: &x {b: {c: *x}}\n", 1, "", ""),
        ("? [a]\n: 1\n", 1, "", "keys are text"),
        ("a: 1\n<<: 3\n", 2, "<<", "not a mapping"),
        ("a: !!python/object:os.system x\n", 1, "", "tag"),
        ("a: !Ref x\n", 1, "", "tag"),
        ("a: !!set {x}\n", 1, "", "tag"),
        ("a: x\nb: y\x01z\n", 2, "", "U+0001"),
        ("a: x\nb: \x00\n", 2, "", "U+0000"),
        ("%YAML 9.9.9\n---\na: 1\n", 1, "", ""),
        ("a: %x\n", 1, "", "YAML syntax"),
        ("a: @x\n", 1, "", "YAML syntax"),
    ],
)
def test_what_is_not_one_sound_document_is_an_error_with_its_line(
    loader: Any, text: str, line: int, key: str, words: str
) -> None:
    found = failure(text, loader)
    assert found.line == line
    assert found.key == key
    assert words in found.message


@pytest.mark.parametrize("shape", ["[", "{a: ", "- ", "&x [", "? "])
def test_deep_nesting_is_refused(loader: Any, shape: str) -> None:
    assert failure(shape * 10_000, loader)
    assert str(MAX_DEPTH) in failure("[" * (MAX_DEPTH + 1), loader).message


def test_nesting_within_the_bound_is_read(loader: Any) -> None:
    assert tree("[" * MAX_DEPTH + "]" * MAX_DEPTH, loader).depth == MAX_DEPTH


def test_aliases_cannot_make_nesting_deeper_than_the_bound(loader: Any) -> None:
    deep = "".join(f"k{i}: &a{i} [[[[[[[[[[{f'*a{i - 1}' if i else ''}]]]]]]]]]]\n" for i in range(8))
    assert failure(deep, loader).line is not None


@pytest.mark.parametrize("item", ["x", "x" * 900])
def test_an_alias_bomb_is_refused_at_once(loader: Any, item: str) -> None:
    lines = [f"a0: &a0 [{', '.join([item] * 10)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert str(MAX_WEIGHT) in failure("\n".join(lines), loader).message


def test_merge_keys_cannot_be_used_as_a_bomb(loader: Any) -> None:
    lines = ["m0: &m0 {a: 1, b: 2}"]
    lines += [f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}], k{i}: 1}}" for i in range(1, 8)]
    with pytest.raises(ConfigError):
        parse("\n".join(lines), "f.yaml", loader)


@given(st.text())
def test_any_text_gives_a_tree_or_a_config_error(text: str) -> None:
    for loader in LOADERS:
        try:
            parse(text, "f.yaml", loader)
        except ConfigError:
            continue


@given(st.text(alphabet="ab:- []{}&*<>|?!#'\"\\\n\t,%@`~0.\u00e9\u2028", max_size=60))
def test_text_full_of_yaml_signs_gives_a_tree_or_a_config_error(text: str) -> None:
    for loader in LOADERS:
        try:
            root = parse(text, "f.yaml", loader)
        except ConfigError as caught:
            assert "\n" not in str(caught)
            assert caught.line is None or 1 <= caught.line <= text.count("\n") + 1
        else:
            assert root is None or root.weight >= 1
