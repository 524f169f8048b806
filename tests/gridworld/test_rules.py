"""Settings by name as a dataclass, and a sentence for what is wrong."""

from dataclasses import dataclass
from typing import Literal

import pytest

from keisei.gridworld.errors import WorldError
from keisei.gridworld.rules import dataclass_of


@dataclass(frozen=True, kw_only=True)
class Rules:
    agents: int = 2
    chance: float = 0.5
    walls: bool = True
    title: str = "small"
    order: Literal["fixed", "random"] = "fixed"


def test_what_is_not_named_keeps_its_default():
    assert dataclass_of(Rules, {}, "the rules") == Rules()
    given = {"agents": 3, "walls": False, "title": "x", "order": "random"}
    assert dataclass_of(Rules, given, "the rules") == Rules(**given)


def test_a_whole_number_will_do_for_a_number():
    rules = dataclass_of(Rules, {"chance": 1}, "the rules")
    assert (rules.chance, type(rules.chance)) == (1.0, float)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"agent": 3}, "agent is not among the rules of x; did you mean agents?"),
        ({"zebra": 3}, "zebra is not among the rules of x; known are agents, chance, walls"),
        ({"agents": 2.5}, "agents of the rules of x is 2.5, but must be a whole number"),
        ({"agents": True}, "agents of the rules of x is True, but must be a whole number"),
        ({"chance": "often"}, "chance of the rules of x is 'often', but must be a number"),
        ({"chance": False}, "chance of the rules of x is False, but must be a number"),
        ({"walls": 1}, "walls of the rules of x is 1, but must be true or false"),
        ({"title": 3}, "title of the rules of x is 3, but must be text"),
    ],
)
def test_a_wrong_name_or_type_is_told_in_a_sentence(values, sentence):
    with pytest.raises(WorldError) as refused:
        dataclass_of(Rules, values, "the rules of x")
    assert str(refused.value).startswith(sentence)
