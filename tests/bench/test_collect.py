"""`keisei bench collect`: every number is of processes that really played."""

from __future__ import annotations

import pytest

from keisei.bench.collect import bench_collect
from keisei.bench.report import collect_table
from keisei.bench.unlinked_play import UnlinkedPlay
from keisei.config_loading import config_of

SMALL = config_of(["model.depth=0", "model.width=4", "model.value_width=1"])


def test_processes_that_know_nothing_of_each_other_play_when_told_to() -> None:
    with UnlinkedPlay(SMALL, 2, 4) as alone:
        processes = list(alone._processes)
        assert alone.steps_per_second(0.1) > 0
        assert all(process.is_alive() for process in processes)
    assert not any(process.is_alive() for process in processes)


def test_the_report_has_workers_and_unlinked_processes_for_every_count() -> None:
    report = bench_collect(SMALL, [1, 2], games_per_worker=4, rounds=1, seconds=0.1)
    for side in ("", "unlinked_"):
        rates = report[f"{side}steps_per_second"]
        assert set(rates) == {"1", "2"}
        assert min(rates.values()) > 0
        assert report[f"{side}speed_up"]["2"] == pytest.approx(rates["2"] / rates["1"])
        assert report[f"{side}efficiency"]["2"] == pytest.approx(rates["2"] / rates["1"] / 2)
    assert report["transport_steps_per_second"] > 0
    assert report["publish_ms"] > 0
    assert collect_table(report)
