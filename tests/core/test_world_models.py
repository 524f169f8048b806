"""`model_maker`: kinds and settings by name, and a sentence for what is wrong."""

import pytest

from keisei.core.iqn_model import IQNModel
from keisei.core.ppo_model import PPOModel
from keisei.core.world_models import MODEL_KINDS, model_maker
from keisei.gridworld.model import RandomModel


@pytest.mark.parametrize(
    ("kind", "expected"), [("ppo", PPOModel), ("iqn", IQNModel), ("random", RandomModel)]
)
def test_each_kind_makes_its_model(kind, expected):
    assert type(model_maker(kind, {})((2, 3), 4, copies=2, seed=1)) is expected
    assert kind in MODEL_KINDS


def test_settings_reach_the_model_and_the_others_keep_their_defaults():
    model = model_maker("iqn", {"layer_size": 16, "gamma": 1})((3,), 2, copies=1, seed=0)
    assert (model.config.layer_size, model.config.gamma, model.config.n_step) == (16, 1.0, 3)
    assert model.network.mixed.weight.shape == (16, 16)


def test_a_list_from_yaml_will_do_for_the_hidden_layers():
    model = model_maker("ppo", {"hidden": [5, 6]})((3,), 2, copies=1, seed=0)
    assert model.config.hidden == (5, 6)


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        ("pp0", {}, "there is no model 'pp0'; there are ppo, iqn, random"),
        ("random", {"gamma": 1}, "the model random has no setting 'gamma'; it has none"),
        ("ppo", {"gama": 0.9}, "the model ppo has no setting 'gama'; it has hidden, "),
        ("ppo", {"gamma": 1.5}, "ppo.gamma cannot be 1.5: input should be less than or equal to 1"),
        ("ppo", {"epochs": 2.5}, "ppo.epochs cannot be 2.5: input should be a valid integer"),
        ("ppo", {"epochs": True}, "ppo.epochs cannot be True: input should be a valid integer"),
        ("ppo", {"hidden": []}, r"ppo.hidden cannot be \[\]: "),
        ("ppo", {"hidden": [8, 0]}, "ppo.hidden.1 cannot be 0: "),
        ("ppo", {"clip": float("nan")}, "ppo.clip cannot be nan: "),
        ("iqn", {"batch_size": "64"}, "iqn.batch_size cannot be '64': "),
        ("iqn", {"epsilon_schedule": "cosine"}, "iqn.epsilon_schedule cannot be 'cosine': "),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(kind, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        model_maker(kind, settings)
