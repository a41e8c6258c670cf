"""One spelling of addresses and names, so that one intent has one key."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.tools import ToolError, email_address, text


@pytest.mark.parametrize(
    ("address", "canonical"),
    [
        ("ann@example.com", "ann@example.com"),
        ("  Ann@Example.COM ", "ann@example.com"),
        ("Ann Lee <ANN@example.com>", "ann@example.com"),
        ('"Lee, Ann" <ann@example.com>', "ann@example.com"),
        ("<ann@example.com>", "ann@example.com"),
        ('"ann"@example.com', "ann@example.com"),
        ("ann@example.com.", "ann@example.com"),
        ("ann@localhost", "ann@localhost"),
        ("ann+shop@example.com", "ann+shop@example.com"),
        ("ann@Bücher.de", "ann@xn--bcher-kva.de"),
        ("ann@bu\u0308cher\u3002de", "ann@xn--bcher-kva.de"),
        ("ann@XN--BCHER-KVA.de", "ann@xn--bcher-kva.de"),
        ("JOSÉ@example.com", "josé@example.com"),
        ("Bob@x.com <ann@example.com>", "ann@example.com"),
    ],
)
def test_canonical_address(address: str, canonical: str) -> None:
    assert email_address(address) == canonical


@pytest.mark.parametrize(
    ("address", "canonical"),
    [
        ("ann+shop@example.com", "ann@example.com"),
        ("ann+a+b@example.com", "ann@example.com"),
        ("+a@example.com", "+a@example.com"),
        ("ann@example.com", "ann@example.com"),
    ],
)
def test_stripped_tag(address: str, canonical: str) -> None:
    assert email_address(address, plus="strip") == canonical


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "@example.com",
        "ann@",
        "ann@@example.com",
        "ann@example..com",
        "ann@-example.com",
        "ann lee@example.com",
        "ann@exam ple.com",
        "ann@exa\u200bmple.com",
        "a\0nn@example.com",
        "a\u202enn@example.com",
        ".ann@example.com",
        "ann.@example.com",
        "ann@example.com, bob@example.com",
        "ann@example.com <bob",
        '"ann@example.com',
        "ann@[127.0.0.1]",
        "ann@" + "a" * 64 + ".com",
        "ann@" + "a." * 130 + "com",
        "ann@\u2100.com",
        "ann@\uff20example.com",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ToolError, match="is not an e-mail address"):
        email_address(address)


def test_endless_address_is_refused_before_it_is_read() -> None:
    with pytest.raises(ToolError, match="at most 1000 characters, not 1000011"):
        email_address("a" * 1_000_000 + "@ex.example")


def test_domains_of_different_owners_stay_apart() -> None:
    assert email_address("ann@straße.de") != email_address("ann@strasse.de")


LOCAL = st.from_regex(r"[a-z0-9éñü_-]{1,6}(\.[a-z0-9é]{1,3})?(\+[a-z0-9]{0,3})?", fullmatch=True)
DOMAIN = st.from_regex(r"[a-z0-9éñü]{1,6}\.(com|de|example)", fullmatch=True)


@given(LOCAL, DOMAIN, st.sampled_from(["{}", " {} ", "Ann <{}>", "<{}>", '"A, B" < {} >']), st.data())
def test_letter_case_and_form_and_dress_do_not_count(
    local: str, domain: str, dress: str, data: st.DataObject
) -> None:
    plain = f"{local}@{domain}"
    cased = "".join(data.draw(st.sampled_from([letter, letter.upper()])) for letter in plain)
    form = data.draw(st.sampled_from(["NFC", "NFD"]))

    assert email_address(dress.format(unicodedata.normalize(form, cased))) == email_address(plain)  # type: ignore[arg-type]  # a drawn literal


@given(st.tuples(LOCAL, DOMAIN), st.tuples(LOCAL, DOMAIN))
def test_different_addresses_stay_different(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (email_address("@".join(one)) == email_address("@".join(other))) == (one == other)


@given(st.text(max_size=12), st.text(max_size=8))
def test_anything_is_an_address_or_a_tool_error(local: str, domain: str) -> None:
    try:
        canonical = email_address(f"{local}@{domain}")
    except ToolError:
        return

    assert email_address(canonical) == canonical


@given(st.text())
def test_text_is_stable_under_itself_case_form_and_space(value: str) -> None:
    canonical = text(value)

    assert text(canonical) == canonical
    assert text(f"  {unicodedata.normalize('NFD', value)}\t\n") == canonical
    assert text(value.casefold()) == canonical


@pytest.mark.parametrize(
    ("value", "canonical"), [(" Straße \n 12 ", "strasse 12"), ("É", "é"), ("", ""), ("a\u00a0b", "a b")]
)
def test_text(value: str, canonical: str) -> None:
    assert text(value) == canonical
