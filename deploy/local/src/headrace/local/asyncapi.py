"""The AsyncAPI 3.0 document, worked out from the declared streams, consumers, permissions and questions."""

import string
from typing import Any

from headrace.common.access import PUBLISHES, SERVICES
from headrace.contracts.agents import FindAgent
from headrace.contracts.deliveries import UNSEEN_VERB, FindUnseen, Unseen
from headrace.contracts.hooks import CreateSubscription, DeleteSubscription, ListSubscriptions
from headrace.contracts.journal import ListTools, PlanReplay, PlanResume, ReadJournal
from headrace.contracts.knowledge import DeleteDocument, FindDocument, SearchKnowledge
from headrace.contracts.message import Contract, Message
from headrace.contracts.question import Question, question_subject
from headrace.contracts.run_questions import FindRun
from headrace.contracts.schedules import CreateSchedule, DeleteSchedule, ListSchedules
from headrace.contracts.streams import STREAMS, Stream, matches

QUESTIONS: tuple[type[Question[Any]], ...] = (
    FindAgent,
    FindRun,
    ReadJournal,
    PlanResume,
    PlanReplay,
    ListTools,
    CreateSubscription,
    ListSubscriptions,
    DeleteSubscription,
    CreateSchedule,
    ListSchedules,
    DeleteSchedule,
    SearchKnowledge,
    FindDocument,
    DeleteDocument,
)

_HEADERS = {
    "type": "object",
    "description": "CloudEvents 1.0 (binary mode), W3C trace context, and the broker's deduplication key.",
    "required": ["Nats-Msg-Id", "ce-specversion", "ce-id", "ce-type", "ce-source", "ce-time", "content-type"],
    "properties": {
        name: {"type": "string"}
        for name in (
            "Nats-Msg-Id",
            "ce-specversion",
            "ce-id",
            "ce-type",
            "ce-source",
            "ce-subject",
            "ce-time",
            "content-type",
            "traceparent",
        )
    },
}


def asyncapi() -> dict[str, Any]:
    """Every channel, who sends to it and who receives from it."""
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": "0.1.0",
            "description": "What the services of Headrace say to one another over NATS.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {},
        "operations": {},
        "components": {"messages": {}, "schemas": {}},
    }
    for stream in STREAMS:
        _add_stream(document, stream)
    for question in QUESTIONS:
        _add_question(document, question.service, question.verb, question, question.reply)
    for service in SERVICES:
        _add_question(document, service, UNSEEN_VERB, FindUnseen, Unseen)
    return document


def _add_stream(document: dict[str, Any], stream: Stream) -> None:
    message = stream.message
    name = _add_message(document, message, message.type)
    document["channels"][stream.name] = {
        "address": message.address,
        "description": f"{stream.description} JetStream stream {stream.name}, retention {stream.retention}.",
        "parameters": {field: {} for _, field, _, _ in string.Formatter().parse(message.address) if field},
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
    }
    for service in senders(message):
        _add_operation(document, f"{service}.send.{stream.name}", "send", stream.name)
    for consumer in stream.consumers:
        _add_operation(document, f"{consumer.name}.receive", "receive", stream.name)


def senders(message: type[Message]) -> list[str]:
    """The services that may say a kind of message; a consumer says its own dead letters."""
    named = [s for s in SERVICES if any(matches(message.wildcard(), subject) for subject in PUBLISHES[s])]
    consumers = {consumer.service for stream in STREAMS for consumer in stream.consumers}
    return named or sorted(consumers)


def _add_question(
    document: dict[str, Any], service: str, verb: str, question: type[Contract], reply: type[Contract]
) -> None:
    channel = f"rpc.{service}.{verb}"
    asked, answered = _add_message(document, question), _add_message(document, reply)
    document["channels"][channel] = {
        "address": question_subject(service, verb),
        "description": (question.__doc__ or "").strip(),
        "messages": {asked: {"$ref": f"#/components/messages/{asked}"}},
    }
    document["channels"][f"{channel}.reply"] = {
        "address": None,
        "messages": {answered: {"$ref": f"#/components/messages/{answered}"}},
    }
    _add_operation(document, f"{channel}.answer", "receive", channel)
    document["operations"][f"{channel}.answer"]["reply"] = {
        "address": {"location": "$message.header#/reply"},
        "channel": {"$ref": f"#/channels/{channel}.reply"},
    }


def _add_operation(document: dict[str, Any], name: str, action: str, channel: str) -> None:
    document["operations"][name] = {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}


def _add_message(document: dict[str, Any], contract: type[Contract], ce_type: str | None = None) -> str:
    schema = contract.model_json_schema(ref_template="#/components/schemas/{model}")
    components = document["components"]
    components["schemas"].update(schema.pop("$defs", {}))
    components["schemas"][contract.__name__] = schema
    message: dict[str, Any] = {
        "name": ce_type or contract.__name__,
        "summary": (contract.__doc__ or "").strip().partition("\n")[0],
        "payload": {"$ref": f"#/components/schemas/{contract.__name__}"},
    }
    if ce_type is not None:
        message["headers"] = _HEADERS
    components["messages"][contract.__name__] = message
    return contract.__name__
