"""Secrets at rest, and keys that are replaced."""

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from headrace.common.errors import Invalid
from headrace.common.secret_box import SecretBox

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


def box(*keys: str) -> SecretBox:
    return SecretBox(SecretStr(",".join(keys)))


def test_what_was_sealed_is_opened() -> None:
    assert box(NEW).open(box(NEW).seal("whsec_é")) == "whsec_é"


def test_sealed_secret_does_not_show() -> None:
    assert b"whsec" not in box(NEW).seal("whsec")


def test_old_key_still_opens() -> None:
    assert box(NEW, OLD).open(box(OLD).seal("secret")) == "secret"


def test_newest_key_seals() -> None:
    assert box(NEW).open(box(NEW, OLD).seal("secret")) == "secret"


def test_rotated_secret_no_longer_needs_the_old_key() -> None:
    assert box(NEW).open(box(NEW, OLD).rotate(box(OLD).seal("secret"))) == "secret"


def test_secret_whose_key_is_gone_is_refused_with_a_sentence() -> None:
    with pytest.raises(Invalid, match="its key is not in HEADRACE_SECRET_KEYS"):
        box(NEW).open(box(OLD).seal("secret"))


@pytest.mark.parametrize(
    "keys", ["", " , ", "no-key", "é", NEW[:-1]], ids=["none", "blank", "word", "accent", "cut"]
)
def test_no_key_is_refused_with_the_command_that_makes_one(keys: str) -> None:
    with pytest.raises(Invalid, match=r"at least one Fernet key; make one with: python"):
        box(keys)


def test_refusal_does_not_repeat_the_keys() -> None:
    with pytest.raises(Invalid) as refused:
        box("no-key")

    assert "no-key" not in str(refused.value)


def test_spaces_around_keys_do_not_count() -> None:
    assert box(f" {NEW} ", f" {OLD} ").open(box(OLD).seal("secret")) == "secret"
