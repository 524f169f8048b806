"""Players by name, and the sentences for names that nobody has."""

from collections import Counter

import pytest

from keisei.evaluation.alpha_beta import AlphaBetaPlayer
from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer
from keisei.evaluation.opponents import checkpoint_of, make_player
from keisei.evaluation.players import GreedyPlayer, MixPlayer, RandomPlayer, close_player
from keisei.play.search_player import SearchPlayer
from keisei.training.checkpoints import CheckpointStore
from keisei.training.trainer import Trainer
from tests.core.small import one_thread, small_config
from tests.evaluation.engines import fake_spec


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The path of a small trained model."""
    folder = tmp_path_factory.mktemp("run")
    with one_thread():
        trainer = Trainer(small_config(), folder)
        path = CheckpointStore(folder, keep=1).save(1, *trainer.state())
        trainer.close()
    return path


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("random", RandomPlayer),
        ("greedy", GreedyPlayer),
        ("mix:0.25:greedy", MixPlayer),
        ("mix:0.5:mix:0.5:ab:1", MixPlayer),
        ("ab:2", AlphaBetaPlayer),
    ],
)
def test_a_player_has_the_name_that_made_it(spec, kind):
    player = make_player(spec, 1)
    assert isinstance(player, kind)
    assert player.name == spec


def test_a_model_plays_with_and_without_search(model):
    with one_thread():
        plain, searching = (make_player(f"{model}{more}", 1) for more in ("", ":search=8"))
        assert isinstance(plain, ModelPlayer)
        assert isinstance(searching, SearchPlayer)
        result = play_match(searching, plain, games=2, seed=1, max_moves=30)
    assert (result.player, result.opponent) == (f"{model}:search=8", str(model))


def test_an_engine_is_closed_with_its_mix():
    player = make_player(f"mix:0.5:{fake_spec('plain')}", 1)
    close_player(player)
    close_player(make_player("random", 1))  # which has nothing to close


def test_the_checkpoint_behind_a_name_is_known(model):
    specs = ["random", "ab:3", "usi:engine", str(model), f"{model}:search=9", f"mix:0.5:{model}"]
    found = Counter(checkpoint_of(spec) for spec in specs)
    assert found == {None: 3, str(model): 3}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nobody", "unknown player 'nobody'; use random, greedy, mix:P:OTHER, ab:DEPTH, usi:"),
        ("nobody:search=9", "unknown player 'nobody:search=9'"),
        ("mix:2:random", "mix:2:random is not a probability and a player"),
        ("mix:0.5", "mix:0.5 is not a probability and a player"),
        ("mix:0.5:nobody", "unknown player 'nobody'"),
        ("mix:nan:random", "is not a probability"),
        ("ab:deep", "ab:deep needs a number of at least 1, as in ab:2"),
        ("ab:0", "ab:0 needs a number"),
        ("gnushogi:", "gnushogi: needs a number of at least 1, as in gnushogi:1"),
        ("usi:", "needs a command"),
        ("usi:no-such-engine", "no program 'no-such-engine'"),
    ],
)
def test_a_name_that_nobody_has_is_one_sentence(spec, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_player(spec, 1)


def test_a_search_needs_a_number_of_nodes(model):
    with pytest.raises(ValueError, match=r"needs a number of at least 1, as in .*:search=800"):
        make_player(f"{model}:search=lots", 1)
