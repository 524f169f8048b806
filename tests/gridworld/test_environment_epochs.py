"""`Environment`: epochs and experiments, and who is told of them."""

from keisei.gridworld.model import RandomModel
from tests.gridworld.small_worlds import STILL, Doing, Lane, Meadow, handing_out


class Told(Doing):
    """Notes what it is told, in a list that others share."""

    def __init__(self, name, heard):
        super().__init__("wait")
        self._name, self._heard = name, heard

    def start_epoch_action(self, epoch):
        self._heard.append(f"{self._name} starts {epoch}")

    def end_epoch_action(self, epoch):
        self._heard.append(f"{self._name} ends {epoch}")

    def train_step(self):
        self._heard.append(f"{self._name} trains")
        return {"loss": 1.5}


class Heard(Lane):
    def start_epoch_action(self, epoch):
        self.heard.append(f"world starts {epoch} at turn {self.turns()}")

    def end_epoch_action(self, epoch):
        self.heard.append(f"world ends {epoch} at turn {self.turns()}")

    def counts(self):
        return {"coins": 2.0}


def heard_game():
    heard = []
    game = Heard(handing_out(Told("a", heard), Told("b", heard)), STILL)
    game.heard = heard
    return game


def test_an_epoch_is_started_played_ended_and_then_trained_on():
    game = heard_game()
    game.run_experiment(1, train_steps=2)
    starts = ["world starts 0 at turn 0", "a starts 0", "b starts 0"]
    ends = ["world ends 0 at turn 12", "a ends 0", "b ends 0"]
    assert game.heard == [*starts, *ends, "a trains", "a trains", "b trains", "b trains"]


def test_an_experiment_tells_the_log_and_numbers_its_epochs_on():
    game, logged = heard_game(), []
    results = game.run_experiment(2, log=logged.append)
    assert results == logged
    (more,) = game.run_experiment(1, train_steps=0)
    assert [result.epoch for result in [*results, more]] == [0, 1, 2]
    assert game.epoch == 3
    assert results[0].figures == [{"loss": 1.5}, {"loss": 1.5}]
    assert more.figures == [{}, {}]
    first = results[0]
    assert (first.turns, first.steps, first.counts) == (12, 24, {"coins": 2.0})
    assert first.seconds == first.playing_seconds + first.training_seconds > 0


def test_who_watches_sees_the_world_before_each_turn():
    turns = []
    Meadow(RandomModel).run_experiment(2, watch=lambda world: turns.append(world.turn))
    assert turns == [*range(12), *range(12)]
