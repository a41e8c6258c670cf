"""`python -m headrace.gateway [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.gateway.service import create_service
from headrace.gateway.settings import GatewaySettings

if __name__ == "__main__":
    settings = GatewaySettings()
    main(create_service(settings), InfraSettings(), port=settings.port, argv=sys.argv[1:])
