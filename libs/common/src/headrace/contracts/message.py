"""Message: a frozen, versioned payload that owns its subject and its deduplication key."""

import string
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

from headrace.contracts.ids import Token

_TOKEN: TypeAdapter[str] = TypeAdapter(Token)


class Contract(BaseModel):
    """A value that crosses a service boundary: immutable, and tolerant of fields that a newer peer adds."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Message(Contract):
    """A command or fact that travels on a JetStream stream.

    A subclass says its `type` (the versioned CloudEvents type), its `address` (the subject, with the fields that
    fill it in braces), and its `message_id`. Nobody else writes a subject down.
    """

    type: ClassVar[str]
    address: ClassVar[str]

    @property
    def message_id(self) -> str:
        """The key under which any number of deliveries count once (`Nats-Msg-Id`, and the inbox's primary key)."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """The subject this message is published on.

        Raises:
            pydantic.ValidationError: A field in the address is not a safe subject token.
        """
        return self.address.format_map({name: self._token(name) for name in _fields(self.address)})

    @classmethod
    def wildcard(cls, **known: str) -> str:
        """The subject filter for all messages of this class, with some fields fixed."""
        return cls.address.format_map({name: known.get(name, "*") for name in _fields(cls.address)})

    def _token(self, name: str) -> str:
        value: Any = getattr(self, name)
        return _TOKEN.validate_python(str(value))


def _fields(address: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(address) if name]
