"""A mail provider: SMTP that accepts, IMAP that shows what was accepted in Sent, faults on demand."""

from tests.fakes.mail_server.client import MailServer
from tests.fakes.mail_server.record import AcceptedMail, Totals
from tests.fakes.mail_server.script import Fault, Point, Refusal, Script

__all__ = ["AcceptedMail", "Fault", "MailServer", "Point", "Refusal", "Script", "Totals"]
