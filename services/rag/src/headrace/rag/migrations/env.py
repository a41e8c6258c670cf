from headrace.common.migrate import run
from headrace.rag.models import metadata

run(metadata)
