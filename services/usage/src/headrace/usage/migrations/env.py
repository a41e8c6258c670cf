from headrace.common.migrate import run
from headrace.usage.models import metadata

run(metadata)
