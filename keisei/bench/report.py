"""Benchmark results as tables for people."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

_ROWS = (
    ("Random play, compact positions and legal lists, one thread", "rules", "rules"),
    ("… all threads", "rules_all_threads", None),
    ("… with dense mask and 46 float planes, one thread", "obs_mask", "obs_mask"),
    ("… all threads", "obs_mask_all_threads", None),
    ("Perft 5, one thread", "perft", "perft"),
)
_PEERS = ("cshogi", "rsshogi", "pgx")


def engine_table(report: dict[str, Any]) -> RenderableType:
    """The report of `bench_engine`: rates a second, then ratios and start-up."""
    rates: dict[str, float] = {**report["steps_per_second"], **report["perft_nodes_per_second"]}
    table = Table(title=f"Steps or nodes per second ({report['threads']} threads)")
    table.add_column("")
    for side in ("keisei", *_PEERS):
        table.add_column(side, justify="right")
    for title, ours, theirs in _ROWS:
        peers = [rates.get(f"{peer}_{theirs}") for peer in _PEERS]
        table.add_row(title, *(_number(rate) for rate in (rates[ours], *peers)))
    facts = Table(show_header=False)
    for name, value in report.items():
        if isinstance(value, float):
            facts.add_row(name, f"{value:.2f}")
    facts.add_row("bytes_per_game", str(report["bytes_per_game"]))
    missing = report["opponents_missing"]
    if missing:
        facts.add_row("not installed (extra `peers`)", ", ".join(missing))
    return Group(table, facts)


def train_table(report: dict[str, Any]) -> RenderableType:
    """The report of `bench_train`."""
    table = Table(title=f"Training {report['model']} on {report['device']}", show_header=False)
    for name, value in report.items():
        if isinstance(value, dict):
            for part, share in value.items():
                table.add_row(f"{name}: {part}", f"{share:.1%}")
        elif isinstance(value, float):
            table.add_row(name, f"{value:,.0f}" if value > 100 else f"{value:.2f}")
        else:
            table.add_row(name, str(value))
    return table


def collect_table(report: dict[str, Any]) -> RenderableType:
    """The report of `bench_collect`."""
    table = Table(title=f"Collecting on {report['cores']} cores")
    for title in ("workers", "steps/s", "speed-up", "efficiency", "unlinked", "of these"):
        table.add_column(title, justify="right")
    for count, rate in report["steps_per_second"].items():
        speed_up, efficiency = report["speed_up"][count], report["efficiency"][count]
        alone = report["unlinked_steps_per_second"][count]
        shares = (f"{ratio:.2f}" for ratio in (speed_up, efficiency))
        table.add_row(count, _number(rate), *shares, _number(alone), f"{rate / alone:.2f}")
    facts = Table(show_header=False)
    for name, value in report.items():
        if isinstance(value, float):
            facts.add_row(name, f"{value:,.0f}" if value > 100 else f"{value:.2f}")
    return Group(table, facts)


def _number(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}"


def search_table(report: dict[str, Any]) -> Table:
    """The report of `bench_search`."""
    table = Table(title=f"Search with {report['model']} on {report['device']}", show_header=False)
    for name, rate in report["nodes_per_second"].items():
        table.add_row(f"nodes/s: {name.replace('_', ' ')}", _number(rate))
    for name in ("one_tree_vs_plain", "many_games_vs_plain"):
        table.add_row(name, f"{report[name]:.1f}")
    for name, figure in report.get("strength", {}).items():
        table.add_row(f"strength: {name}", f"{figure:g}")
    return table


def worlds_table(report: dict[str, Any]) -> Table:
    """The result of `bench_worlds` as a table."""
    table = Table(title="Worlds")
    table.add_column("")
    table.add_column("agent-steps/s", justify="right")
    table.add_column("times Sorrel", justify="right")
    for name, rate in report["agent_steps_per_second"].items():
        times = report["times_sorrel"].get(name)
        table.add_row(name, f"{rate:,.0f}", "" if times is None else f"{times:,.0f}")
    return table


def parallel_worlds_table(report: dict[str, Any]) -> Table:
    """The result of `bench_parallel_worlds` as a table."""
    table = Table(title=f"Treasurehunt, {report['model']}, in parallel to one after the other")
    headings = ("agents", "copies", "deciding", "training", "beside", "learned")
    for heading in (*headings, "paced", "learned", "in processes", "agent-steps/s one by one"):
        table.add_column(heading, justify="right")
    for row in report["rows"]:
        table.add_row(
            str(row["agents"]),
            str(row["copies"]),
            f"{row['deciding_ratio']:.2f}",
            f"{row['training_ratio']:.2f}",
            f"{row['beside_ratio']:.2f}",
            f"{row['beside_learned_share']:.0%}",
            f"{row['paced_ratio']:.2f}",
            f"{row['paced_learned_share']:.0%}",
            f"{row['processes_ratio']:.2f}",
            f"{row['one_by_one_agent_steps_per_second']:,.0f}",
        )
    return table
