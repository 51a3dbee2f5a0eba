"""Elicitation: questions to the user, as a form or as a page to visit.

Source: ACP "Elicitation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from sluice.acp.base import Message, Untagged

__all__ = [
    "BooleanPropertySchema",
    "CompleteElicitationNotification",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "ElicitationFormMode",
    "ElicitationPropertySchema",
    "ElicitationSchema",
    "ElicitationUrlMode",
    "EnumOption",
    "IntegerPropertySchema",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NumberPropertySchema",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "TitledMultiSelectItems",
]

StringFormat = Literal["email", "uri", "date", "date-time"]
Natural = Annotated[int, msgspec.Meta(ge=0)]


class EnumOption(Message, frozen=True):
    """A value with a title for people."""

    const: str
    title: str
    description: str | None = None


class StringPropertySchema(Message, frozen=True, tag="string", tag_field="type"):
    """A text field, or a choice of one value (`enum` or `one_of`)."""

    title: str | None = None
    description: str | None = None
    min_length: Natural | None = None
    max_length: Natural | None = None
    pattern: str | None = None
    format: StringFormat | None = None
    default: str | None = None
    enum: Sequence[str] | None = None
    one_of: Sequence[EnumOption] | None = None


class NumberPropertySchema(Message, frozen=True, tag="number", tag_field="type"):
    """A number field."""

    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None


class IntegerPropertySchema(Message, frozen=True, tag="integer", tag_field="type"):
    """A field for a whole number."""

    title: str | None = None
    description: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None


class BooleanPropertySchema(Message, frozen=True, tag="boolean", tag_field="type"):
    """A switch."""

    title: str | None = None
    description: str | None = None
    default: bool | None = None


class MultiSelectItems(Untagged):
    """What can be chosen: `TitledMultiSelectItems` (key `anyOf`) or `StringMultiSelectItems`."""

    __slots__ = ()

    @staticmethod
    def select(value: Mapping[str, Any]) -> type[Any]:
        """Titled items are those with `anyOf`."""
        return TitledMultiSelectItems if "anyOf" in value else StringMultiSelectItems


class StringMultiSelectItems(Message, MultiSelectItems, frozen=True, tag="string", tag_field="type"):
    """Plain values."""

    enum: Sequence[str]


class TitledMultiSelectItems(Message, MultiSelectItems, frozen=True):
    """Values with titles."""

    any_of: Sequence[EnumOption]


class MultiSelectPropertySchema(Message, frozen=True, tag="array", tag_field="type"):
    """A choice of several values."""

    items: MultiSelectItems
    title: str | None = None
    description: str | None = None
    min_items: Natural | None = None
    max_items: Natural | None = None
    default: Sequence[str] | None = None


ElicitationPropertySchema = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
)


class ElicitationSchema(Message, frozen=True, tag="object", tag_field="type"):
    """A flat form."""

    properties: dict[str, ElicitationPropertySchema] | None = None
    required: Sequence[str] | None = None
    title: str | None = None
    description: str | None = None


class ElicitationFormMode(Message, frozen=True, tag="form", tag_field="mode"):
    """Show a form; needs `elicitation.form`. Exactly one of `session_id` and `request_id` is given."""

    message: str
    requested_schema: ElicitationSchema
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None


class ElicitationUrlMode(Message, frozen=True, tag="url", tag_field="mode"):
    """Show a page; needs `elicitation.url`. Exactly one of `session_id` and `request_id` is given."""

    message: str
    elicitation_id: str
    url: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None


CreateElicitationRequest = ElicitationFormMode | ElicitationUrlMode


class CreateElicitationResponse(Message, frozen=True):
    """The answer: only `action` "accept" is a consent, any unknown action is none. `content` goes with accept."""

    action: str
    content: dict[str, Any] | None = None


class CompleteElicitationNotification(Message, frozen=True):
    """The page of this elicitation has done its work."""

    elicitation_id: str
