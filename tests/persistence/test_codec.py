"""The codecs built once agree with the records' own `to_dict` and `from_dict`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from sluice.persistence.codec import decode, encode, from_dict, to_dict
from sluice.persistence.records import Item, Message, SessionRecord
from tests.persistence.strategies import ITEMS, SESSIONS


@given(ITEMS)
def test_an_item_is_written_and_read_as_dataclasses_json_does(item: Item) -> None:
    stored = to_dict(item)
    assert json.dumps(encode(item)) == json.dumps(stored)
    assert decode(Item, json.loads(json.dumps(stored))) == item == from_dict(Item, stored)


@given(SESSIONS)
def test_a_session_is_written_and_read_as_dataclasses_json_does(record: SessionRecord) -> None:
    assert encode(record) == to_dict(record)
    assert decode(SessionRecord, json.loads(json.dumps(to_dict(record)))) == record


def test_unknown_members_are_left_out_and_missing_ones_have_defaults() -> None:
    stored = {"kind": "message", "later": 1, "message": {"role": "user", "newer": {}}}
    assert decode(Item, stored) == Item("message", Message("user")) == from_dict(Item, stored)


@pytest.mark.parametrize("stored", [{}, {"kind": "message", "message": {}}, {"kind": "message", "message": 3}])
def test_what_cannot_be_a_record_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        decode(Item, stored)
