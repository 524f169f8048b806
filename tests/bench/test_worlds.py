"""What `keisei bench worlds` measures, and how it is shown."""

from rich.console import Console

from keisei.bench import report
from keisei.bench.parallel_worlds import bench_parallel_worlds, in_processes
from keisei.bench.worlds import SORREL, Side, sides
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.model import RandomModel
from keisei.training.parallel.process_counts import usable_cores
from keisei.world_config import WorldConfig


def shown(table):
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_side_runs_whole_epochs_and_counts_agent_steps():
    game = Treasurehunt(RandomModel, TreasurehuntRules(max_turns=5), copies=3)
    rate = Side(game, 0).steps_per_second(0.05)
    assert rate > 0
    assert game.epoch > 0
    assert game.steps == 2 * 3 * 5


def test_every_side_with_a_rival_names_its_rate():
    assert set(SORREL.values()) == {804, 618, 309}
    for name in ("treasurehunt, 1 copy", "cleanup, 256 copies"):
        assert sides()[name]().sorrel in SORREL.values()


def test_agents_in_parallel_are_measured_against_one_after_the_other():
    result = bench_parallel_worlds([2], [3], kind="ppo", rounds=1, seconds=0.05)
    (row,) = result["rows"]
    assert (row["agents"], row["copies"]) == (2, 3)
    assert (result["model"], result["device"]) == ("ppo", "cpu")
    assert min(row[name] for name in row if name.endswith(("ratio", "second"))) > 0
    assert 0 < row["beside_learned_share"] <= 1
    assert 0 < row["paced_learned_share"] <= 1
    assert row["paced_longest_pause_of_all_seconds"] >= row["paced_longest_snapshot_seconds"] > 0
    assert "agent-steps/s" in shown(report.parallel_worlds_table(result))


def test_worker_processes_leave_a_core_to_the_learner_and_every_epoch_is_learned_from():
    config = WorldConfig(game="treasurehunt", copies=2, rules={"max_turns": 5})
    with in_processes(config) as game:
        for _ in range(3):
            assert game.run_epoch().steps == 2 * 2 * 5
        game.finish_lessons()
        workers = len(game.get_statistics()["workers"])
        assert workers == max(1, min(usable_cores() - 1, 2))
        assert game.learners.learned_steps == game.learners.collected_steps == 3 * 20


def test_the_table_has_a_row_for_each_side():
    result = {
        "agent_steps_per_second": {"one": 1234567.0, "two": 8.0},
        "times_sorrel": {"one": 12.3},
        "sixteen_agents_to_two": {},
    }
    text = shown(report.worlds_table(result))
    assert "1,234,567" in text
    assert "12" in text
