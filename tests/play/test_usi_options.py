"""The options that a graphical program shows and sets."""

import pytest

from keisei.play.usi_options import OPTIONS, Options, option_lines, with_option


def test_every_option_is_declared_with_its_default():
    lines = option_lines(Options())
    assert len(lines) == len(OPTIONS)
    assert "option name USI_Hash type spin default 256 min 1 max 65536" in lines
    assert "option name USI_Ponder type check default true" in lines
    assert "option name DeclarationRule type combo default 27 var 27 var 24 var off" in lines


def test_every_field_can_be_set():
    assert {option.field for option in OPTIONS} == set(vars(Options()))


def test_the_declared_defaults_can_be_set():
    options = Options()
    for line in option_lines(options):
        words = line.split()
        assert with_option(options, words[2], words[words.index("default") + 1]) == options


def test_names_are_found_in_any_case():
    assert with_option(Options(), "nodes", "800").nodes == 800
    assert with_option(Options(), "USI_PONDER", "false").ponder is False
    assert with_option(Options(), "DeclarationRule", "off").declaration == "off"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("Nodes", text) for text in ("", "-1", "1e3", "１", "9" * 5000, "10000000000", "--1")],
        ("USI_Ponder", "yes"),
        ("DeclarationRule", "25"),
    ],
)
def test_a_bad_value_gets_a_sentence_that_names_the_option(name, value):
    with pytest.raises(ValueError, match=name):
        with_option(Options(), name, value)


def test_an_unknown_option_gets_a_sentence():
    with pytest.raises(ValueError, match="there is no option 'Book'"):
        with_option(Options(), "Book", "1")
