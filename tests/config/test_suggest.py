from sluice.config.suggest import did_you_mean, nearest


def test_a_typo_finds_the_key_it_is_near_to() -> None:
    assert nearest("modle", ["model", "models", "instruction"]) == "model"
    assert did_you_mean("instuction", ["model", "instruction"]) == '; did you mean "instruction"?'


def test_the_case_of_letters_does_not_matter_and_the_known_spelling_is_given() -> None:
    assert nearest("TOP_P", ["top_p"]) == "top_p"
    assert nearest("httptimeout", ["httpTimeout"]) == "httpTimeout"


def test_a_word_that_is_near_to_nothing_gives_no_hint() -> None:
    assert nearest("zzz", ["model"]) is None
    assert did_you_mean("zzz", ["model"]) == ""
    assert nearest("model", []) is None


def test_an_endless_word_is_not_compared() -> None:
    assert nearest("m" * 100_000, ["m" * 100_000]) is None


def test_a_word_that_is_part_of_one_known_word_finds_it() -> None:
    assert nearest("url", ["base_url", "token_key"]) == "base_url"
    assert nearest("to", ["something_to"]) is None
