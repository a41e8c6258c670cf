"""`python -m headrace.runner [serve|migrate]`."""

import sys

from headrace.common.app import main
from headrace.common.settings import InfraSettings
from headrace.runner.service import create_service
from headrace.runner.settings import MailboxSettings, ModelSettings, RunnerSettings

if __name__ == "__main__":
    settings = RunnerSettings()
    main(
        create_service(settings, ModelSettings(), MailboxSettings()),
        InfraSettings(),
        port=settings.port,
        argv=sys.argv[1:],
    )
