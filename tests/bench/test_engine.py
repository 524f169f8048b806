"""`keisei bench engine` measures what it says; how fast is not a matter for tests."""

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from keisei.bench import engine
from keisei.bench.report import engine_table


@pytest.fixture(scope="module")
def report():
    command = [Path(sys.executable).parent / "keisei", "bench", "engine", "--json"]
    command += ["--rounds", "1", "--seconds", "0.05"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_it_reports_every_rate_and_the_start_up(report):
    ours = ("rules", "rules_all_threads", "obs_mask", "obs_mask_all_threads")
    assert all(report["steps_per_second"][name] > 1000 for name in ours)
    assert report["perft_nodes_per_second"]["perft"] > 1e5
    assert report["cold_compile_seconds"] > report["warm_start_seconds"] > 0
    assert report["bytes_per_game"] <= 16 * 1024


def test_ratios_are_quotients_of_the_rates(report):
    pytest.importorskip("cshogi")
    steps, nodes = report["steps_per_second"], report["perft_nodes_per_second"]
    for name, quotient in {
        "all_threads_vs_one": steps["rules_all_threads"] / steps["rules"],
        "vs_cshogi_rules": steps["rules"] / steps["cshogi_rules"],
        "vs_cshogi_obs_mask": steps["obs_mask"] / steps["cshogi_obs_mask"],
        "vs_cshogi_perft": nodes["perft"] / nodes["cshogi_perft"],
    }.items():
        assert math.isclose(report[name], quotient), name


def test_the_table_shows_rates_and_names_who_is_missing(report):
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(engine_table({**report, "opponents_missing": ["pgx"]}))
    text = console.export_text()
    assert f"{report['steps_per_second']['rules']:,.0f}" in text
    assert "not installed" in text


def test_without_the_opponents_script_only_we_are_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "PEER_SCRIPT", tmp_path / "missing.py")
    monkeypatch.setattr(engine, "start_up_seconds", dict)
    report = engine.bench_engine(rounds=1, seconds=0.01)
    assert report["opponents_missing"] == list(engine.PEER_NAMES)
    assert "vs_cshogi_rules" not in report


def test_a_peer_that_dies_is_named(monkeypatch, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("raise SystemExit(1)")
    monkeypatch.setattr(engine, "PEER_SCRIPT", script)
    with pytest.raises(RuntimeError, match="process of cshogi died"):
        engine.Peer("cshogi")
