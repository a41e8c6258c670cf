"""`python -m headrace.rag [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.rag.service import create_service
from headrace.rag.settings import RagSettings

if __name__ == "__main__":
    settings = RagSettings()
    main(create_service(settings), InfraSettings(), port=settings.port, argv=sys.argv[1:])
