"""Question: a typed request that one service asks another, and its reply (NATS request/reply)."""

from typing import ClassVar, Generic, TypeVar

from headrace.contracts.message import Contract

R = TypeVar("R", bound=Contract)


class Question(Contract, Generic[R]):
    """Asked on `rpc.<service>.<verb>`; answered with one value of `reply`, or with a problem."""

    service: ClassVar[str]
    verb: ClassVar[str]
    reply: ClassVar[type[Contract]]

    @classmethod
    def subject(cls) -> str:
        """The subject this question is asked on."""
        return question_subject(cls.service, cls.verb)


def question_subject(service: str, verb: str) -> str:
    """The subject of a verb of a service."""
    return f"rpc.{service}.{verb}"
