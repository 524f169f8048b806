"""The life of a manager and its workers, and what they tell about it."""

import time

import psutil
import pytest

from keisei.training.parallel.experience_collector import CollectorReport
from keisei.training.parallel.packed_games import unpacked_games
from keisei.training.parallel.self_play import SelfPlay
from keisei.training.parallel.worker_process import work
from tests.core.small import bits, one_thread
from tests.training.parallel.collecting import (
    GAMES,
    STEPS,
    Learner,
    experience,
    new_version,
    parallel_config,
)
from tests.training.parallel.conftest import wait_until

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")

HELD_AT = 45  # in the middle of the second rollout of 30 plies


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def pids(learner):
    return [worker.pid for worker in learner.collector.workers]


def work_and_count_plies(setup):
    """A worker that adds a byte to a file with every ply, and waits once for the file `go`.

    While it waits there is a file `held`.
    """
    play_one_step = SelfPlay._play_one_step
    played = setup.log_path.with_suffix(f".{setup.number}")
    held, go = played.with_suffix(f".held{setup.number}"), played.with_suffix(".go")
    played.touch()

    def play_and_count(self, *arguments):
        if played.stat().st_size == HELD_AT:
            held.touch()
            while not go.exists():
                time.sleep(0.01)
        play_one_step(self, *arguments)
        with played.open("ab") as file:
            file.write(b".")

    SelfPlay._play_one_step = play_and_count
    work(setup)


def test_workers_start_when_asked_and_end_with_the_context():
    with Learner(parallel_config()).parallel() as learner:
        assert pids(learner) == [None, None]
        learner.collector.start_workers()
        learner.collector.start_workers()  # they have started already
        started = pids(learner)
        assert all(psutil.pid_exists(pid) for pid in started)
        learner.collect()
        assert pids(learner) == started
        with learner.collector:
            pass
        assert pids(learner) == [None, None]
        assert not any(psutil.pid_exists(pid) for pid in started)
        learner.collector.close()  # once more does no harm


def test_pausing_what_has_not_started_does_nothing():
    with Learner(parallel_config()).parallel() as learner:
        learner.collector.pause()
        learner.collector.resume()
        learner.collector.synchronize_models()
        assert pids(learner) == [None, None]


@pytest.mark.parametrize("use_shared_memory", [True, False])
def test_paused_workers_play_nothing_until_they_are_resumed(use_shared_memory, tmp_path):
    config = parallel_config(
        mode="async",
        max_policy_lag=1,
        rollout_length=30,
        use_shared_memory=use_shared_memory,
        worker_timeout=600,  # one that is held is silent
    )
    log = tmp_path / "run.log"
    learner = Learner(config).parallel(worker_main=work_and_count_plies, log_path=log)

    def plies():
        return [path.stat().st_size for path in sorted(tmp_path.glob("run.[01]"))]

    with learner:
        learner.collector.start_workers()
        supervisor = learner.collector._running.supervisor
        # Before both can play, one is asked for all rollouts, and is held in the second.
        wait_until(
            lambda: not supervisor.listen(0.05) and len(supervisor.playing) == 2, seconds=120
        )
        learner.collect()
        wait_until(lambda: len(list(tmp_path.glob("run.held[01]"))) == 2, seconds=120)
        learner.collector.pause()
        log.with_suffix(".go").touch()
        # Not to the end of the rollout: the ply that each was about to play, and through pipes
        # perhaps one or two more before it hears of the pause.
        wait_until(lambda: min(plies()) > HELD_AT, seconds=120)
        time.sleep(1)
        paused = plies()
        assert max(paused) < 2 * 30
        time.sleep(0.5)
        assert plies() == paused
        learner.collector.resume()
        wait_until(lambda: min(plies()) > max(paused) + 4, seconds=120)
        learner.collect()


def test_a_pause_changes_nothing_in_what_is_played():
    config = parallel_config()
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        for _ in range(3):
            serial.collect()
            parallel.collect()
            assert experience(parallel.buffer) == experience(serial.buffer)
            parallel.collector.pause()
            parallel.collector.resume()


def test_reset_begins_new_games_after_what_was_ordered():
    games = {"random_start_share": 0.0, "rewind_share": 0.0, "max_moves": 400}
    with Learner(parallel_config(games=games)).parallel() as learner:
        learner.collect()
        learner.collect()
        assert (learner.collector.state()["ply"] == 2 * STEPS).all()
        learner.collector.workers[1].reset(learner.collector._running.communicator)
        learner.collect()
        plies = learner.collector.state()["ply"].tolist()
        assert plies == [3 * STEPS] * GAMES + [STEPS] * GAMES


def test_a_closed_manager_goes_on_where_it_was_collected():
    config = parallel_config(mode="async", max_policy_lag=4, games_per_worker=GAMES)
    with Learner(config).parallel() as learner:
        learner.collect()
        time.sleep(0.5)  # workers play ahead, and what they play is thrown away
        learner.collect()
        state = bits(learner.collector.state())
        learner.collector.close()
        assert bits(learner.collector.state()) == state
        starts = [
            bits(unpacked_games(worker.state, config.games.max_moves))
            for worker in learner.collector.workers
        ]
        assert starts == [
            bits({name: array[part] for name, array in learner.collector.state().items()})
            for part in (slice(0, GAMES), slice(GAMES, 2 * GAMES))
        ]
        learner.collect()
        assert sum(worker.steps for worker in learner.collector.workers) == 3 * 2 * GAMES * STEPS


def test_games_are_loaded_before_the_workers_start_or_not_at_all():
    config = parallel_config()
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        serial.collect()
        parallel.collector.load_state(serial.collector.state())
        assert parallel.collector.board() == serial.collector.board()
        serial.collect()
        parallel.collect()
        assert experience(parallel.buffer) == experience(serial.buffer)
        with pytest.raises(RuntimeError, match="playing already"):
            parallel.collector.load_state(serial.collector.state())


def test_the_statistics_tell_everything():
    config = parallel_config(mode="async", model_sync_interval=2, max_policy_lag=2)
    with Learner(config).parallel() as learner:
        unstarted = learner.collector.get_statistics()
        assert (unstarted["workers_playing"], unstarted["syncs"]) == (0, 0)
        games = stale = 0
        for _ in range(5):
            collected = learner.collect()
            games, stale = games + collected.games, stale + collected.stale_steps
            new_version(learner)
        told = learner.collector.get_statistics()
        assert told.keys() == unstarted.keys()
        assert (told["mode"], told["shared_memory"]) == ("async", True)
        assert 1 <= told["workers_playing"] <= 2
        assert told["queue_depth"] >= 0
        assert 0 <= told["rollouts_under_way"] <= 2
        assert 0 <= told["lag_min"] <= told["lag_mean"] <= told["lag_max"] <= 2
        assert told["stale_steps"] == stale  # of a worker that the other has overtaken, if any
        assert told["restarts"] == told["refused_messages"] == 0
        assert told["syncs"] == 3  # at the start, after 2 updates and after 4
        weights = sum(tensor.numel() for tensor in learner.agent.model.state_dict().values())
        assert told["sync_bytes"] == 3 * 4 * weights
        assert told["sync_seconds"] > 0
        assert told["main_memory_mb"] > 50
        workers = told["workers"]
        assert [worker["worker"] for worker in workers] == [0, 1]
        assert sum(worker["steps"] for worker in workers) == 5 * 2 * GAMES * STEPS
        assert sum(worker["games"] for worker in workers) == games
        for worker in workers:
            assert worker["pid"] in pids(learner)
            assert worker["memory_mb"] > 50
            assert (worker["restarts"], worker["given_up"]) == (0, False)
            if worker["steps"]:
                shares = [share for name, share in worker.items() if name.endswith("_share")]
                assert len(shares) == 3
                assert sum(shares) == pytest.approx(1)
                assert worker["playing_share"] > 0


def test_weights_in_half_precision_take_half_the_bytes():
    with Learner(parallel_config(compression_enabled=True)).parallel() as learner:
        learner.collect()
        weights = sum(tensor.numel() for tensor in learner.agent.model.state_dict().values())
        assert learner.collector.get_statistics()["sync_bytes"] == 2 * weights


def test_the_report_has_figures_for_metrics_and_lines_for_people():
    with Learner(parallel_config()).parallel() as learner:
        assert "worker 0 (pid starting): 0 plies" in learner.collector.report().workers[1]
        learner.collect()
        report = learner.collector.report()
    assert all(isinstance(value, float) for value in report.figures.values())
    assert report.figures["parallel/workers_playing"] == 2
    assert {f"worker_{number}/steps" for number in (0, 1)} <= report.figures.keys()
    assert "parallel/mode" not in report.figures
    assert report.figures["worker_1/steps"] == GAMES * STEPS
    summary, _, last = report.workers
    assert summary.startswith("2 playing, 0 rollouts waiting, weights 0.0 versions old")
    assert last.startswith("worker 1 (pid ")
    assert f"{GAMES * STEPS} plies" in last
    assert "% of its time playing" in last


def test_the_serial_collector_has_nothing_more_to_report():
    with Learner(parallel_config()).serial() as learner:
        learner.collector.pause()
        learner.collector.resume()
        assert learner.collector.report() == CollectorReport()


def test_workers_log_what_they_do_with_their_number_and_process(tmp_path):
    path = tmp_path / "run.log"
    with Learner(parallel_config()).parallel(log_path=path) as learner:
        learner.collect()
        expected = pids(learner)
    text = path.read_text()
    for number, pid in enumerate(expected):
        for words in (f"ready with {GAMES} games", "stopped"):
            assert f"INFO [worker {number}, pid {pid}] {words}" in text


def test_workers_write_a_timeline_if_they_are_told_where(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("")
    config = parallel_config(mode="async", max_policy_lag=9, games_per_worker=GAMES)
    with Learner(config).parallel(trace_path=path) as learner:
        for _ in range(4):
            learner.collect()
            new_version(learner)
    text = path.read_text()
    for words in ("worker 0", "worker 1", "playing", "waiting for slot", "waiting for weights"):
        assert f'"{words}"' in text
