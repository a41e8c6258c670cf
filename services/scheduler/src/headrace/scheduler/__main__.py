"""`python -m headrace.scheduler [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.scheduler.service import create_service
from headrace.scheduler.settings import SchedulerSettings

if __name__ == "__main__":
    settings = SchedulerSettings()
    main(create_service(settings), InfraSettings(), port=settings.port, argv=sys.argv[1:])
