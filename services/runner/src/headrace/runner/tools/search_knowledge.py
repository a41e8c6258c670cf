"""Search in the account's knowledge."""

import json

from headrace.common.errors import HeadraceError
from headrace.common.rpc import Rpc
from headrace.contracts.knowledge import SearchKnowledge
from headrace.tools import Tool, ToolContext, ToolError, tool

MAX_QUERY = 4_000


def search_knowledge_tool(rpc: Rpc) -> Tool:
    """The tool that finds passages in the documents that an account has indexed."""

    @tool(effect="none")
    async def search_knowledge(context: ToolContext, query: str) -> str:
        """Search the documents of this account; answers the best passages with their titles.

        Args:
            context: The run.
            query: What to look for
        """
        if not query.strip():
            raise ToolError("the argument `query` must be a text that is not empty")
        try:
            found = await rpc.ask(SearchKnowledge(account_id=context.account_id, query=query[:MAX_QUERY]))
        except HeadraceError as error:
            raise ToolError(f"the search did not work: {error}") from error
        if not found.items:
            return "nothing was found"
        return json.dumps(
            [{"title": p.title, "document": p.document_id, "text": p.text} for p in found.items]
        )

    return search_knowledge
