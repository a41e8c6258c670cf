"""Names at the broker that are not messages: inboxes, advisories, and the word that a stream was made again."""

MAX_DELIVERIES_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{consumer}"
"""Said by JetStream when it gives up delivering a message to a consumer."""

REBUILT_SUBJECT = "topology.rebuilt"
"""Said by the keeper of the topology when it had to make a stream again: every sweeper looks at once."""


def inbox_prefix(user: str) -> str:
    """Where replies to a user arrive, so that no user can listen to another's replies."""
    return f"_INBOX.{user}"
