"""`python -m headrace.webhooks [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.webhooks.service import create_service
from headrace.webhooks.settings import WebhooksSettings

if __name__ == "__main__":
    settings = WebhooksSettings()
    main(create_service(settings), InfraSettings(), port=settings.port, argv=sys.argv[1:])
