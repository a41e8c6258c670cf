"""Why the webhooks door refuses an event."""

from headrace.common.errors import Terminal, Unauthorized


class BadSignature(Unauthorized):
    """Not signed, signed with another secret, or signed too long ago."""

    code = "bad_signature"

    @property
    def headers(self) -> dict[str, str]:
        """The scheme that would work."""
        return {"WWW-Authenticate": "StandardWebhooks"}


class NotText(Terminal):
    """The body is no text, so no model could read it."""

    status = 415
    code = "not_text"
