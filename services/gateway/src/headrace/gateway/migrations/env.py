from headrace.common.migrate import run
from headrace.gateway.models import metadata

run(metadata)
