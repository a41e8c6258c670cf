"""Chooses the step that answers a request."""

from dataclasses import dataclass

from tests.fakes.scripted_model.chat_request import ChatRequest
from tests.fakes.scripted_model.script import Failure, Rule, Script, Step, When

_RAN_DRY = Step(error=Failure(message="script ran dry"))


@dataclass(frozen=True, slots=True)
class Cue:
    """A step and where it stands: no rule for the script's default, no place when the rule ran dry."""

    step: Step
    rule: int | None = None
    place: int | None = None


class Playbook:
    """A script in progress: how far each rule has come."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._played = [0] * len(script.rules)

    def next_cue(self, request: ChatRequest) -> Cue:
        """Take the next step of the first rule that matches, or the script's default."""
        for index, rule in enumerate(self._script.rules):
            if _matches(rule.when, request):
                return self._advance(index, rule)
        return Cue(self._script.default)

    def models(self) -> list[str]:
        """Return the models that the script names."""
        named = (rule.when.model for rule in self._script.rules)
        return list(dict.fromkeys(("scripted", *(model for model in named if model))))

    def _advance(self, index: int, rule: Rule) -> Cue:
        played = self._played[index]
        if played == len(rule.steps) and not rule.repeat:
            return Cue(_RAN_DRY, index)
        place = played % len(rule.steps)
        self._played[index] = place + 1
        return Cue(rule.steps[place], index, place)


def _matches(when: When, request: ChatRequest) -> bool:
    return (
        (when.model is None or when.model == request.model)
        and (when.last_role is None or when.last_role == request.last_role)
        and (when.turns is None or when.turns == request.turns)
        and (when.contains is None or when.contains in request.last_user_text)
    )
