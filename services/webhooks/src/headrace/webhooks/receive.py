"""What happens at the door: an event is verified, and stored with its wake-up in one transaction, or refused."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from headrace.common.db import Database
from headrace.common.errors import Invalid, NotFound, TooLarge, Unavailable
from headrace.common.secret_box import SecretBox
from headrace.contracts.ids import RunId, Token
from headrace.webhooks import repository
from headrace.webhooks.delivery import Delivery
from headrace.webhooks.errors import NotText
from headrace.webhooks.repository import StoredSubscription
from headrace.webhooks.verify import verify

log = logging.getLogger(__name__)

LONGEST_EVENT_ID = 256


@dataclass(frozen=True, slots=True)
class Receipt:
    """The run that an event is, and whether the event had come before."""

    run_id: RunId
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Takes signed events in."""

    db: Database
    box: SecretBox
    tolerance: timedelta
    max_event_bytes: int

    async def receive(self, subscription_id: Token, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Store an event and what wakes its run, once.

        Args:
            subscription_id: Whose address it came to.
            headers: The request's, by lower-case name.
            body: The request's, as it came.

        Raises:
            NotFound: There is no such subscription.
            NotText | TooLarge: The body cannot become a run's input.
            BadSignature: It is not signed with the subscription's secret, or not lately.
            Invalid: The event's id is too long to be kept.
            Unavailable: Postgres does not answer, or the secret cannot be decrypted.
        """
        now = self.db.clock.now()
        async with self.db.transaction() as tx:
            subscription = await repository.find_subscription(tx.connection, subscription_id)
            if subscription is None:
                raise NotFound(f"there is no webhook subscription {subscription_id}")
            text = readable(body, max_bytes=self.max_event_bytes)
            secret = self._secret_of(subscription)
            event_id = verify(text, headers, secret=secret, now=now, tolerance=self.tolerance)
            if len(event_id) > LONGEST_EVENT_ID:
                raise Invalid(f"webhook-id has {len(event_id)} characters; {LONGEST_EVENT_ID} are allowed")
            delivery = Delivery(
                subscription_id=subscription_id,
                subscription_name=subscription.name,
                account_id=subscription.account_id,
                agent_id=subscription.agent_id,
                event_id=event_id,
                body=body,
                content_type=headers.get("content-type", ""),
                received_at=now,
            )
            is_new = await repository.add_delivery(tx.connection, delivery)
            if is_new:
                await tx.send(delivery.wake_up())
        receipt = Receipt(delivery.run_id, duplicate=not is_new)
        log.info(
            "hook.received",
            extra={"subscription_id": subscription_id, "run_id": receipt.run_id, "new": is_new},
        )
        return receipt

    def _secret_of(self, subscription: StoredSubscription) -> str:
        """The signing secret. That we cannot read it is our fault, so the sender is asked to come again."""
        try:
            return self.box.open(subscription.secret_sealed)
        except Invalid as error:
            log.exception(
                "subscription.secret_unreadable", extra={"subscription_id": subscription.subscription_id}
            )
            raise Unavailable(
                "signatures cannot be checked here at the moment; send the event again"
            ) from error


def readable(body: bytes, *, max_bytes: int) -> str:
    """A body as text that a message, and a database, can carry.

    Raises:
        NotText: It is not UTF-8, or has a NUL character.
        TooLarge: As a JSON string it has more than `max_bytes` bytes.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise NotText(f"the body is not UTF-8 text: byte {error.start} does not fit") from error
    if "\0" in text:
        raise NotText("the body has a NUL character, so it is not text")
    size = len(json.dumps(text, ensure_ascii=False).encode())
    if size > max_bytes:
        raise TooLarge(f"the event has {size} bytes as a JSON string; {max_bytes} are allowed")
    return text
