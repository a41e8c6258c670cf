from headrace.common.migrate import run
from headrace.runner.models import metadata

run(metadata)
