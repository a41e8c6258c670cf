from headrace.common.migrate import run
from headrace.scheduler.models import metadata

run(metadata)
