"""The tools that an agent can be given: ours by an explicit list, and those of installed packages by entry points."""

from collections.abc import Mapping, Sequence

from headrace.common.clock import Clock
from headrace.common.files import Files
from headrace.common.rpc import Rpc
from headrace.runner.tools.calculate import calculate
from headrace.runner.tools.current_time import current_time_tool
from headrace.runner.tools.read_file import FilesOf, read_file_tool
from headrace.runner.tools.search_knowledge import search_knowledge_tool
from headrace.runner.tools.send_email import MailSettings, send_email_tool
from headrace.tools import Tool, installed


def all_tools(
    *, clock: Clock, rpc: Rpc, files: Files, files_of: FilesOf, mail: MailSettings | None
) -> Mapping[str, Tool]:
    """Every tool by its name, in name order.

    Args:
        clock: The time.
        rpc: Asks other services.
        files: Contents of files.
        files_of: What a run was given.
        mail: The mailbox that mail is sent from; without one there is no `send_email`.

    Raises:
        TypeError: Two tools have one name.
    """
    own: Sequence[Tool] = (
        calculate,
        current_time_tool(clock),
        read_file_tool(files, files_of),
        search_knowledge_tool(rpc),
        *(() if mail is None else (send_email_tool(mail, clock=clock),)),
    )
    tools: dict[str, Tool] = {}
    for tool in sorted((*own, *installed()), key=lambda tool: tool.name):
        if tool.name in tools:
            raise TypeError(f"two installed tools are named {tool.name!r}; rename one")
        tools[tool.name] = tool
    return tools
