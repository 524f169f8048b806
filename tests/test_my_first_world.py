import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "my_first_world.py"


@pytest.fixture
def tutorial():
    spec = importlib.util.spec_from_file_location("my_first_world", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def total_of_last_line(text):
    first, second = text.strip().splitlines()[-1].split(":")[1].split()
    return float(first) + float(second)


def test_the_tutorial_prints_rewards_and_its_gatherers_learn(tutorial, capsys):
    tutorial.main(epochs=20)
    random, learning = capsys.readouterr().out.split("learning:")
    assert random.startswith("random:")
    assert learning.count("epoch") == 3
    assert total_of_last_line(learning) > 5 + 2 * total_of_last_line(random)
