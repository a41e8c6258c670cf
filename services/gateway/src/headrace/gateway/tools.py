"""Tools by name: whether those that an agent names exist."""

from collections.abc import Sequence

from headrace.common.errors import Invalid, Unavailable
from headrace.common.rpc import Rpc
from headrace.contracts.agents import TOOLS
from headrace.contracts.journal import ListTools


async def see_that_tools_exist(names: Sequence[str], rpc: Rpc) -> None:
    """Look the names up; the runner is asked only for those that not every runner has.

    Raises:
        Invalid: There is no such tool.
        Unavailable: The runner, which knows its tools, does not answer.
    """
    special = sorted(set(names) - set(TOOLS))
    if not special:
        return
    try:
        known = await rpc.ask(ListTools())
    except Unavailable as error:
        raise Unavailable(
            f"the runner does not answer, so whether there is a tool {special[0]!r} cannot be said now; try again",
            after=1,
        ) from error
    there = {tool.name for tool in known.tools}
    for name in special:
        if name not in there:
            raise Invalid(f"there is no tool {name!r}; there are: {', '.join(sorted(there))}")
