"""`python -m headrace.usage [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.usage.service import create_service
from headrace.usage.settings import UsageSettings

if __name__ == "__main__":
    settings = UsageSettings()
    main(create_service(settings), InfraSettings(), port=settings.port, argv=sys.argv[1:])
