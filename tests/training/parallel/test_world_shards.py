"""Worlds played by worker processes: each agent gets its own turns, and the run is repeatable."""

import time

import numpy as np
import pytest

from keisei.config_schema import ParallelConfig
from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import NoMemory
from keisei.gridworld.parallel_pace import EpochPace
from keisei.training.parallel.world_shard import acting_networks, shards_of
from keisei.training.parallel.world_shards import ShardedGame
from keisei.training.world_games import make_game
from keisei.world_config import WorldConfig
from tests.core.small import bits, one_thread
from tests.training.parallel.sharded_worlds import (
    COPIES,
    IN_PARALLEL,
    SHARDS,
    Run,
    outcome_in_one_process,
    supervised,
    world_config,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_copies_are_shared_out_evenly():
    found = [(group.first_game, group.games) for group in shards_of(7, 3)]
    assert found == [(0, 3), (3, 2), (5, 2)]
    for shards in (0, 8):
        with pytest.raises(WorldError, match="7 copies of a world can be played in 1 to 7 shards"):
            shards_of(7, shards)


@pytest.mark.parametrize("observe", ["in_turn", "together"])
@pytest.mark.parametrize("kind", ["ppo", "iqn"])
def test_the_first_epoch_of_one_shard_is_that_of_the_plain_game(kind, observe):
    # From then on they differ: there one generator serves acting and learning, here each has its
    # own.
    config = world_config(kind, observe=observe)
    plain = make_game(config)
    plain.play_epoch()
    with Run(config, shards=1) as run:
        run.game.play_epoch()
        assert run.game.rewards.tolist() == plain.rewards.tolist()
        assert (run.game.steps, run.game.turns()) == (plain.steps, plain.turns())
        for ours, theirs in zip(run.game.agents, plain.agents, strict=True):
            found = ours.model.memory.stored_turns()
            assert bits(found) == bits(theirs.model.memory.stored_turns())


@pytest.mark.parametrize("kind", ["ppo", "iqn"])
def test_each_agent_gets_its_own_turns_of_all_copies_and_nobody_elses(kind):
    config = world_config(kind)
    with Run(config).epochs(0) as run:
        run.game.play_epoch()
        for group in shards_of(COPIES, SHARDS):
            part = config.model_copy(update={"copies": group.games})
            alone = make_game(part, first_copy=group.first_game)
            for agent, learner in zip(alone.agents, run.game.agents, strict=True):
                agent.model.network.load_state_dict(learner.model.network.state_dict())
            alone.play_epoch()
            columns = slice(group.first_game, group.first_game + group.games)
            assert run.game.rewards[:, columns].tolist() == alone.rewards.tolist()
            for agent, learner in zip(alone.agents, run.game.agents, strict=True):
                turns = learner.model.memory.stored_turns()
                found = {name: array[:, columns] for name, array in turns.items()}
                assert bits(found) == bits(agent.model.memory.stored_turns())


def test_the_worlds_of_a_shard_are_those_of_the_whole_run():
    whole, part = make_game(world_config()), make_game(world_config(copies=2), first_copy=3)
    assert part.world.map.tolist() == whole.world.map[3:5].tolist()
    assert part.world.random_state.tolist() == whole.world.random_state[3:5].tolist()


PARALLEL = {
    "one after the other": {},
    "in stacks": IN_PARALLEL,
    "beside": {**IN_PARALLEL, "async_learning": True, "deterministic": True},
}


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("kind", ["ppo", "iqn"])
def test_processes_play_and_learn_what_one_process_does(kind, parallel):
    config = world_config(kind, parallel=PARALLEL[parallel])
    expected = outcome_in_one_process(config)
    with Run(config) as run:
        assert run.epochs(4).outcome() == expected
        assert run.news == []


@pytest.mark.parametrize("game", ["cleanup", "tag"])
def test_counts_are_means_over_all_copies(game):
    config = WorldConfig(game=game, copies=5, learner={"kind": "random"})
    shares = [
        (make_game(config.model_copy(update={"copies": g.games}), first_copy=g.first_game), g.games)
        for g in shards_of(5, 2)
    ]
    for part, _ in shares:
        part.play_epoch()
    with Run(config, shards=2) as run:
        result = run.game.run_epoch()
    for name, value in result.counts.items():
        mean = sum(part.counts()[name] * copies for part, copies in shares) / 5
        assert value == pytest.approx(mean)
    assert result.steps == sum(part.steps for part, _ in shares)
    assert result.rewards.tolist() == pytest.approx(
        np.concatenate([part.rewards for part, _ in shares], axis=1).mean(axis=1).tolist()
    )


@pytest.mark.parametrize("parallel", ["one after the other", "beside"])
def test_experience_may_travel_through_pipes(parallel):
    config = world_config(parallel=PARALLEL[parallel])
    with Run(config, supervision=supervised(use_shared_memory=False)) as run:
        assert run.epochs(4).outcome() == outcome_in_one_process(config)
        assert not run.game.get_statistics()["shared_memory"]


@pytest.mark.parametrize("parallel", ["one after the other", "beside"])
@pytest.mark.parametrize("kind", ["ppo", "iqn", "random"])
def test_a_resumed_run_equals_an_unbroken_one(kind, parallel):
    config = world_config(kind, parallel=PARALLEL[parallel])
    with Run(config) as run:
        state = run.epochs(2).game.state()
        unbroken = run.epochs(2).outcome()
        run.game.load_state(*state)  # into the same game, whose workers are ahead
        assert run.epochs(2).outcome()[:2] == unbroken[:2]
    with Run(config) as resumed:
        resumed.game.load_state(*state)
        assert resumed.epochs(2).outcome()[:2] == unbroken[:2]
        assert resumed.rewards == unbroken[2][2:]


def test_beside_a_learner_the_next_epoch_is_played_before_it_is_asked_for():
    with Run(world_config(parallel=PARALLEL["beside"])) as run:
        run.epochs(2)
        workers = run.game.workers
        deadline = time.monotonic() + 60
        while not all((2, worker.number) in workers._played for worker in workers.each):
            assert time.monotonic() < deadline
            for committed in workers._running.supervisor.listen(0.1):
                key = committed.rollout.number, committed.worker.number
                workers._played[key] = committed
        assert run.game.epoch == 2
        run.epochs(1)
        assert set(workers._played) == set()


def test_workers_play_an_epoch_as_slowly_as_they_are_told():
    pace = EpochPace(seconds=9.0, longest_wait=0.05)
    with Run() as run:
        run.epochs(1)  # when all workers have started
        for began, wait in ((1, 8 * 0.05), (2, 0.0)):
            started = time.monotonic()
            run.game.workers.begin(began, *([pace] if wait else []))
            run.epochs(1)
            assert time.monotonic() - started > wait
        assert run.rewards == outcome_in_one_process(epochs=3)[2]


def test_a_paced_learner_beside_slows_the_workers_down():
    config = world_config(parallel={**PARALLEL["beside"], "deterministic": False})
    with Run(config) as run:
        run.epochs(3)
        run.game.learners.lessons._pace.learned(100.0)
        assert run.game.learners.next_pace().seconds >= 50
        run.epochs(2)
        assert run.game.workers._pace.seconds >= 10
        assert run.game.workers._pace.longest_wait > 0


def test_lessons_that_are_finished_between_count_for_the_epoch_after_the_next():
    def outcome(**options):
        with Run(world_config(parallel=PARALLEL["beside"]), **options) as run:
            run.epochs(2).game.finish_lessons()
            return run.epochs(2).outcome()

    assert outcome() == outcome(debug_serial=True)


def test_a_closed_game_can_be_read_and_goes_on_with_new_workers():
    with Run() as run:
        before = run.epochs(2).outcome()
        run.game.close()
        run.game.close()
        assert run.outcome() == before
        assert run.epochs(2).outcome() == outcome_in_one_process()


def test_a_state_of_other_shards_is_refused():
    with Run(shards=2) as two, Run(shards=3) as three:
        with pytest.raises(WorldError, match="is of 2 shards, this game has 3"):
            three.game.load_state(*two.game.state())
        with pytest.raises(WorldError, match="is of no shards"):
            three.game.load_state(*two.game.learners.state())


def test_what_cannot_be_sharded_is_refused_in_words():
    config = world_config()
    with pytest.raises(WorldError, match="sync mode"):
        ShardedGame(config, 2, supervision=ParallelConfig(mode="async"))
    with Run(config) as run, pytest.raises(WorldError, match="cannot be watched"):
        run.game.play_epoch(print)
    agents = make_game(config).agents
    agents[1].model.memory = NoMemory()
    with pytest.raises(WorldError, match="Agent 1 has a PPOModel, which worker processes cannot"):
        acting_networks(agents)


def test_statistics_tell_what_each_worker_did():
    with Run().epochs(2) as run:
        figures = run.game.get_statistics()
    steps = [worker["steps"] for worker in figures["workers"]]
    assert steps == [2 * 2 * 9 * copies for copies in (3, 2, 2)]
    for worker in figures["workers"]:
        assert worker["memory_mb"] > 10
        assert 0 < worker["playing_share"] <= 1
        assert worker["restarts"] == 0
    assert (figures["syncs"], figures["restarts"]) == (2, 0)


def test_agents_in_shards_learn():
    config = WorldConfig(seed=1, copies=32, rules={"height": 11, "width": 11})
    with Run(config, shards=2) as run:
        results = run.game.run_experiment(20)
    rewards = [result.total_reward for result in results]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 50
