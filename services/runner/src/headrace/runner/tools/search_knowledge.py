"""Search in the account's knowledge."""

import json
from typing import Any, ClassVar

from headrace.common.errors import HeadraceError
from headrace.common.rpc import Rpc
from headrace.contracts.knowledge import SearchKnowledge
from headrace.runner.tools.base import ToolError, text_argument

MAX_QUERY = 4_000


class SearchKnowledgeTool:
    """Finds passages in the documents that the account has indexed."""

    name: ClassVar[str] = "search_knowledge"
    description: ClassVar[str] = (
        "Search the documents of this account; answers the best passages with their titles."
    )
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for"}},
        "required": ["query"],
    }

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:
        """The passages as JSON, best first."""
        query = text_argument(arguments, "query")[:MAX_QUERY]
        try:
            found = await self._rpc.ask(SearchKnowledge(account_id=account_id, query=query))
        except HeadraceError as error:
            raise ToolError(f"the search did not work: {error}") from error
        if not found.items:
            return "nothing was found"
        return json.dumps(
            [{"title": p.title, "document": p.document_id, "text": p.text} for p in found.items]
        )
