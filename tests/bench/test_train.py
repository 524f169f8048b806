"""`keisei bench train` reports what it says; how fast is not a matter for tests."""

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from keisei.bench import train
from keisei.bench.report import train_table
from tests.core.small import SMALL_MODEL, one_thread, small_config


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def report():
    return train.bench_train(small_config(ppo={"epochs": 2}), updates=3)


def test_it_reports_rates_and_shares(report):
    assert set(report) == {
        "device",
        "model",
        "parameters",
        "steps_per_second",
        "ceiling_steps_per_second",
        "share_of_ceiling",
        "share_of_time",
    }
    assert (report["device"], report["model"]) == ("cpu", "1x8")
    for name in ("steps_per_second", "ceiling_steps_per_second", "share_of_ceiling"):
        assert report[name] > 0
    assert json.loads(json.dumps(report)) == report


def test_the_parameters_are_counted(report):
    stem = 46 * 8 * 9 + 8
    block = 2 * (8 * 8 * 9 + 8)
    policy = 8 * 27 + 27
    value = (8 * 4 + 4) + (4 * 81 * 8 + 8) + (8 + 1)
    assert report["parameters"] == stem + block + policy + value


def test_the_shares_of_time_add_up_to_1(report):
    shares = report["share_of_time"]
    assert set(shares) == {"games", "inference", "update", "other"}
    assert all(0 <= share < 1 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert shares["other"] < 0.5


def test_the_predecessor_is_compared_by_its_rate(monkeypatch):
    assert (train.PREDECESSOR.depth, train.PREDECESSOR.width) == (9, 256)
    monkeypatch.setattr(train, "PREDECESSOR", SMALL_MODEL)  # the real one takes seconds a step
    report = train.bench_predecessor(seconds=0.05)
    rate = report["predecessor_network_steps_per_second"]
    assert rate > 0
    assert math.isclose(report["vs_predecessor"], rate / train.PREDECESSOR_STEPS_PER_SECOND)


def test_the_table_shows_every_figure(report):
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(train_table(report))
    text = console.export_text()
    assert "Training 1x8 on cpu" in text
    assert f"{report['steps_per_second']:,.0f}" in text
    for part, share in report["share_of_time"].items():
        assert f"share_of_time: {part}" in text
        assert f"{share:.1%}" in text


def test_the_command_prints_json_of_the_settings_it_was_given():
    words = ["model.depth=0", "model.width=4", "games.count=4", "training.rollout_length=50"]
    command = [Path(sys.executable).parent / "keisei", "bench", "train", *words]
    command += ["training.threads=1", "--json", "--updates", "1", "--no-predecessor"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(run.stdout)
    assert report["model"] == "0x4"
    assert "vs_predecessor" not in report
