"""The one error by which a tool says that nothing was done."""


class ToolError(Exception):
    """The tool could not do it, and nothing was done; the sentence is for the model, which may try otherwise.

    For a tool with an effect it is the only exception that means "did not happen": every other one leaves that
    unknown, and the call waits for a reconciliation or a person.
    """
