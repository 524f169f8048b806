"""Tournaments of checkpoints: who takes part, and that the stronger ones come out above."""

import json

import pytest
import torch

from keisei.evaluation.opponents import make_player
from keisei.evaluation.round_robin import (
    Entrant,
    TournamentError,
    entrants_of,
    play_round_robin,
    tournament_report,
    tournament_text,
)
from keisei.training.run_folder import RunFolder
from keisei.training.trainer import Trainer
from tests.core.small import one_thread, small_config
from tests.training.command_line import keisei

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture
def run(tmp_path):
    """The folder of a run with five checkpoints."""
    config = small_config(runs_folder=str(tmp_path), checkpoints={"keep": 5})
    folder, trainer = RunFolder.create(config), Trainer(config)
    store = folder.checkpoints(5)
    for _ in range(5):
        trainer.collect()
        trainer.perform_ppo_update()
        store.save(trainer.updates, *trainer.state())
    trainer.close()
    return folder.path


@pytest.fixture(scope="module")
def graded():
    """A tournament of players whose order is known."""
    specs = {"random": 0, "mix:0.3:greedy": 1000, "greedy": 2000}
    entrants = [Entrant(make_player(spec, 1), steps) for spec, steps in specs.items()]
    told = []
    return play_round_robin(entrants, games=20, seed=1, on_match=told.append), told


def test_every_checkpoint_takes_part_oldest_first(run):
    entrants = entrants_of(run, most=8, device=CPU)
    names = [entrant.player.name for entrant in entrants]
    assert names == [f"update-{update:08}" for update in range(1, 6)]
    assert [entrant.steps for entrant in entrants] == [64 * update for update in range(1, 6)]


def test_too_many_checkpoints_are_thinned_out_evenly(run):
    entrants = entrants_of(run, most=3, device=CPU)
    assert [entrant.player.name[-1] for entrant in entrants] == ["1", "3", "5"]


def test_checkpoints_of_a_run_play_each_other(run):
    tournament = play_round_robin(entrants_of(run, most=2, device=CPU), games=2, seed=1)
    assert [met[:2] for met in tournament.results] == [("update-00000005", "update-00000001")]
    assert tournament.ratings[0] == (0, 0, 0)


def test_everyone_meets_everyone(graded):
    tournament, told = graded
    assert tuple(told) == tournament.results
    assert {frozenset(met[:2]) for met in tournament.results} == {
        frozenset(pair)
        for pair in (
            ("random", "mix:0.3:greedy"),
            ("random", "greedy"),
            ("mix:0.3:greedy", "greedy"),
        )
    }
    assert all(met.games == 20 for met in tournament.results)


def test_the_stronger_have_the_higher_rating(graded):
    values = [rating.value for rating in graded[0].ratings]
    assert values[0] == 0 < values[1] - 100 < values[2] - 200


def test_the_table_and_the_report_say_the_same(graded):
    tournament = graded[0]
    lines = tournament_text(tournament).splitlines()
    report = json.loads(json.dumps(tournament_report(tournament)))
    for line, row in zip(lines[1:], report["checkpoints"], strict=False):
        assert line.startswith(row["name"])
        assert f"{row['steps']:,}" in line
        assert f"{row['rating']['value']:.0f}  [" in line
    assert len(report["results"]) == 3


def test_a_single_checkpoint_is_no_tournament(run):
    for path in sorted((run / "checkpoints").iterdir())[1:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    with pytest.raises(TournamentError, match=r"at least two checkpoints, and .* has 1"):
        entrants_of(run, most=8, device=CPU)


def test_the_command_prints_the_table_and_draws_the_curve(run, tmp_path):
    arguments = (run, "--games", 2, "--most", 3, "--plot", tmp_path / "curve")
    done = keisei("tournament", *arguments)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [
        "update-00000001",
        "update-00000003",
        "update-00000005",
    ]
    assert done.stderr.startswith("update-00000003 against update-00000001: ")
    assert (tmp_path / "curve.png").is_file()
    assert (tmp_path / "curve.svg").is_file()


def test_the_command_refuses_a_folder_that_is_no_run(tmp_path):
    done = keisei("tournament", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"keisei: {tmp_path} is not a run")
