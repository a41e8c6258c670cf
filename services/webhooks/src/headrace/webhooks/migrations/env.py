from headrace.common.migrate import run
from headrace.webhooks.models import metadata

run(metadata)
