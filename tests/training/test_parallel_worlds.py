"""`keisei train` of a world whose agents act together, learn together, and learn beside."""

import io
import json
from itertools import product

import numpy as np
import pytest

from keisei.config_loading import any_config_of
from keisei.training.metrics import read_metrics
from keisei.training.run_folder import RunFolder
from keisei.training.world_games import make_game
from keisei.training.world_training import WorldTraining
from keisei.training_session import Switches
from keisei.training_start import begin
from tests.core.small import bits, one_thread
from tests.gridworld.learning_doubles import threads_called
from tests.training.command_line import assert_same_end, logged_updates, newest, saved_updates
from tests.training.small_run import InterruptingDisplay
from tests.training.tiny_world_runs import command, resumed

pytestmark = pytest.mark.timeout(240)
TINY = [
    "treasurehunt",
    "rules.height=7",
    "rules.width=9",
    "rules.max_turns=12",
    "rules.spawn_chance=0.05",
    "rules.agents=3",
    "copies=6",
    "epochs=10",
    "learner.settings.minibatch=60",
    "checkpoints.interval=4",
    "name=tiny",
    "parallel.enabled=true",
]
IQN = [
    "learner={kind: iqn, settings: {layer_size: 8, memory_turns: 50, batch_size: 8}}",
    "learner.train_steps=2",
]
BESIDE = ["parallel.async_learning=true"]
DETERMINISTIC = [*BESIDE, "parallel.deterministic=true"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


def trained(folder, *settings, **switches):
    """The folder of a run that was trained to its end."""
    words = [*TINY, f"runs_folder={folder}", *settings]
    session = begin(words, Switches(**{"trace": False, "debug_serial": False, **switches}))
    assert session.run(io.StringIO())
    return next(folder.iterdir())


def interrupted(folder, *settings, after):
    """The folder of a run that was stopped by Ctrl-C after so many epochs."""
    config = any_config_of([*TINY, f"runs_folder={folder}", *settings])
    training = WorldTraining(config, make_game(config), RunFolder.create(config))
    display = InterruptingDisplay(after)

    class NoMetrics:
        def log(self, update, values):
            """Not looked at."""

    assert not training.run(NoMetrics(), display)
    training.close()
    run = next(folder.iterdir())
    assert saved_updates(run)[-1] == after
    return run


# What a run leaves behind


@pytest.mark.parametrize("learner", [[], IQN], ids=["ppo", "iqn"])
def test_a_run_in_parallel_plays_as_one_after_the_other_does(tmp_path, learner):
    plain = trained(tmp_path / "0", "parallel.enabled=false", "observe=together", *learner)
    run = trained(tmp_path / "1", *learner)
    lines, expected = (read_metrics(path / "metrics.jsonl") for path in (run, plain))
    for name in ("reward", "agent_0/reward", "agent_2/reward", "steps"):
        assert [line[name] for line in lines] == [line[name] for line in expected]
    ours, theirs = newest(run).tensors, newest(plain).tensors
    for name, array in theirs.items():
        if ".network." in name:
            np.testing.assert_allclose(ours[name], array, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("learner", "beside"), list(product([[], IQN], [[], BESIDE, DETERMINISTIC])), ids=str
)
def test_the_metrics_tell_of_each_agent_how_stale_its_weights_are(tmp_path, learner, beside):
    run = trained(tmp_path, *learner, *beside)
    assert logged_updates(run) == list(range(1, 11))
    lines = read_metrics(run / "metrics.jsonl")
    stale = [[line.get(f"agent_{n}/staleness") for line in lines] for n in range(3)]
    if not beside:
        assert stale == [[0] * 10] * 3
    elif beside is DETERMINISTIC:
        assert stale == [[None, *[1] * 9]] * 3
    else:
        assert all(value is None or 0 <= value < 10 for its in stale for value in its)
    assert np.isfinite([line["agent_1/loss"] for line in lines if "agent_1/loss" in line]).all()
    assert not [line for line in (run / "run.log").read_text().splitlines() if "failed" in line]


def spans(run):
    """(name, thread, begin, end) of each bar of a trace, and the threads' names."""
    events = json.loads((run / "trace.json").read_text())
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    bars = [e for e in events if e["ph"] == "X"]
    return [(e["name"], names[e["tid"]], e["ts"], e["ts"] + e["dur"]) for e in bars]


def test_the_trace_shows_the_learner_learning_while_others_play(tmp_path):
    run = trained(tmp_path, *BESIDE, "epochs=30", "copies=32", trace=True)
    bars = spans(run)
    learning = [bar for bar in bars if bar[:2] == ("learn", "learner")]
    playing = [bar for bar in bars if bar[:2] == ("play", "main")]
    assert len(playing) == 30
    assert len(learning) > 3
    overlapping = [
        min(play[3], learn[3]) - max(play[2], learn[2]) for play in playing for learn in learning
    ]
    assert sum(microseconds > 0 for microseconds in overlapping) > 3


@pytest.mark.parametrize("paced", [False, True])
def test_the_trace_shows_what_the_collection_waits_for(tmp_path, paced):
    words = (*BESIDE, f"parallel.keep_pace={str(paced).lower()}", "epochs=20")
    bars = spans(trained(tmp_path, *words, trace=True))
    main = [bar for bar in bars if bar[1] == "main"]
    kinds = {"play", "train", "pause", "snapshot", "publish", "save"}
    assert {bar[0] for bar in main} - ({"pace"} if paced else set()) <= kinds
    pauses = [bar for bar in main if bar[0] == "pause"]
    inside = [bar for bar in main if bar[0] in ("snapshot", "publish")]
    assert {bar[0] for bar in inside} == {"snapshot", "publish"}
    in_a_run = inside[:-1]  # the last lesson of a run is handed over when all is collected
    assert all(any(p[2] <= b[2] and b[3] <= p[3] for p in pauses) for b in in_a_run)


def test_the_metrics_tell_how_long_the_collection_stood_still(tmp_path):
    lines = read_metrics(trained(tmp_path, *DETERMINISTIC) / "metrics.jsonl")
    assert all(line["longest_pause"] >= line["snapshot_seconds"] > 0 for line in lines[1:])
    assert "longest_pause" not in lines[0]
    lines = read_metrics(trained(tmp_path / "here") / "metrics.jsonl")
    assert not any("longest_pause" in line for line in lines)


def test_the_trace_of_agents_that_learn_here_has_a_bar_for_it(tmp_path):
    bars = spans(trained(tmp_path, "epochs=3", trace=True))
    assert [bar[1] for bar in bars if bar[0] == "learn"] == ["main"] * 3


# The same again


@pytest.mark.parametrize("learner", [[], IQN], ids=["ppo", "iqn"])
@pytest.mark.parametrize("beside", [[], DETERMINISTIC], ids=["here", "beside"])
def test_a_run_that_was_stopped_resumes_to_the_same_end(tmp_path, learner, beside):
    words = [*learner, *beside]
    unbroken = trained(tmp_path / "unbroken", *words)
    run = interrupted(tmp_path / "stopped", *words, after=5)
    assert any(name.startswith("twin") for name in newest(run).tensors) == bool(beside)
    resumed(run)
    assert_same_end(run, unbroken)


def test_learning_beside_in_one_thread_comes_to_the_same_end(tmp_path):
    beside = trained(tmp_path / "beside", *DETERMINISTIC)
    assert_same_end(trained(tmp_path / "serial", *BESIDE, debug_serial=True), beside)


def test_the_last_lesson_is_in_the_last_checkpoint(tmp_path):
    run = trained(tmp_path, *BESIDE, "parallel.train_interval=3")
    checkpoint = newest(run)
    tensors, game = checkpoint.tensors, checkpoint.state["game"]
    assert (checkpoint.update, game["learned"]) == (10, {})
    assert [lesson["owed_epochs"] for lesson in game["lessons"]] == [0, 0, 0]
    assert game["counted"][0] == checkpoint.state["steps"]
    for number in range(3):
        acting, learning = (
            bits({n: a for n, a in tensors.items() if n.startswith(f"{kind}{number}.network.")})
            for kind in ("agent", "twin")
        )
        assert list(acting.values()) == list(learning.values())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["parallel.enabled=false", "observe=together"], ["parallel.enabled=true"]),
        ([], BESIDE),
        (DETERMINISTIC, ["parallel.async_learning=false"]),
        (DETERMINISTIC, ["parallel.enabled=false"]),
    ],
    ids=["begun plain", "begun here", "begun beside", "ended plain"],
)
def test_a_resumed_run_may_do_other_things_at_the_same_time(tmp_path, before, after):
    run = interrupted(tmp_path, *before, after=5)
    resumed(run, *after)
    assert newest(run).update == 10


# What is refused


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("parallel.train_interval=5", "backlog is 4, but must be at least train_interval (5)"),
        ("parallel.backlog=0", "parallel.backlog"),
        ("parallel.num_workers=0", "parallel.num_workers"),
        ("parallel.threads=2", "parallel.threads"),
        ("parallel.lesson_timeout=5", "lesson_timeout is for a learner beside: set async_learning"),
        ("parallel.max_agents_per_lesson=1", "max_agents_per_lesson is for a learner beside"),
        (
            "parallel={enabled: true, parallel_training: false, training_processes: 2}",
            "training_processes train at the same time: set parallel_training",
        ),
        (
            "observe=in_turn",
            "parallel_actions needs observe: together, where all look before any acts.",
        ),
    ],
)
def test_wrong_settings_are_one_sentence_and_leave_no_folder(tmp_path, setting, sentence):
    runs = tmp_path / "runs"
    said = command("train", *TINY, f"runs_folder={runs}", setting)
    assert said.exit_code == 2
    assert said.stderr.startswith("keisei: ")
    assert said.stderr.count("\n") == 1
    assert sentence in said.stderr
    assert not runs.exists()


@pytest.mark.parametrize(
    ("settings", "observe"),
    [
        (["parallel.enabled=false"], "in_turn"),
        ([], "together"),
        (["parallel.parallel_actions=false"], "in_turn"),
        (["parallel.parallel_actions=false", "observe=together"], "together"),
        (["parallel.parallel_actions=false", "observe=in_turn"], "in_turn"),
    ],
    ids=str,
)
def test_who_looks_when_follows_from_what_is_done_at_once_unless_it_is_said(settings, observe):
    game = make_game(any_config_of([*TINY, *settings]))
    assert game.observe == observe
    game.close()


def test_an_environment_of_pettingzoo_is_not_run_in_parallel(tmp_path):
    words = ["pettingzoo:mpe2.simple_spread_v3:parallel_env", *TINY[6:8], TINY[-1]]
    said = command("train", *words, f"runs_folder={tmp_path / 'runs'}")
    assert said.exit_code == 2
    assert said.stderr == (
        "keisei: parallel is for worlds of this package, not for PettingZoo's.\n"
    )


IN_PROCESSES = ["parallel.use_threads=false", "parallel.num_workers=2"]


def test_worlds_played_by_processes_give_the_same_run_as_in_one(tmp_path):
    processes = trained(tmp_path / "processes", *IN_PROCESSES)
    assert_same_end(trained(tmp_path / "serial", *IN_PROCESSES, debug_serial=True), processes)


def test_a_run_in_processes_that_was_extended_equals_an_unbroken_one(tmp_path):
    short = trained(tmp_path / "short", *IN_PROCESSES, "epochs=4")
    resumed(short, "epochs=10")
    assert_same_end(short, trained(tmp_path / "long", *IN_PROCESSES))


def test_what_processes_play_is_not_filmed_and_that_is_said(tmp_path):
    words = [*TINY, f"runs_folder={tmp_path / 'runs'}", *IN_PROCESSES, "record_interval=2"]
    answer = command("train", *words)
    assert answer.exit_code == 2
    assert answer.output.startswith("keisei: record_interval films worlds of this process")
    assert not (tmp_path / "runs").exists()
