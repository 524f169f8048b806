"""The verbs of `keisei bench`: each measures one thing and prints a table or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from keisei.cli_errors import one_sentence_for_bad_input

bench_app = typer.Typer(help="Measure speed.", no_args_is_help=True)


@bench_app.command(epilog="Example: keisei bench engine --json")
def engine(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often all sides take turns.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one turn.")] = 0.5,
) -> None:
    """The shogi engine against cshogi, rsshogi and Pgx, whichever are installed."""
    from keisei.bench.engine import bench_engine
    from keisei.bench.report import engine_table

    report = bench_engine(rounds, seconds)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        Console().print(engine_table(report))


@bench_app.command("train", epilog="Example: keisei bench train shogi-laptop --json")
def bench_train(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG] [key=value]...", help="As for `keisei train`."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    updates: Annotated[int, typer.Option(min=1, help="Updates to measure.")] = 10,
    predecessor: Annotated[
        bool, typer.Option(help="Also collect with the predecessor's 9x256 network.")
    ] = True,
    versus_serial: Annotated[
        bool,
        typer.Option("--versus-serial", help="Also train in parallel and serially, in turns."),
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often those take turns.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of one turn.")] = 8.0,
) -> None:
    """Steps a second of training in one process, where the time goes, and the network's ceiling."""
    from keisei.bench import report
    from keisei.bench.train import bench_predecessor
    from keisei.bench.train import bench_train as measure
    from keisei.bench.versus_serial import bench_versus_serial
    from keisei.config_loading import config_of

    with one_sentence_for_bad_input():
        result = measure(config_of(settings or []), updates)
        if predecessor:
            result |= bench_predecessor()
        if versus_serial:
            result |= bench_versus_serial(settings or [], rounds=rounds, seconds=seconds)
        if as_json:
            typer.echo(json.dumps(result, indent=1))
        else:
            Console().print(report.train_table(result))


@bench_app.command(epilog="Example: keisei bench collect --workers 1,2 --json")
def collect(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG] [key=value]...", help="As for `keisei train`."),
    ] = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers to measure.")] = "1,2",
    games: Annotated[
        int | None,
        typer.Option(min=1, help="Games of each worker; default: `games.count` of the config."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often all sides take turns.")] = 7,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one turn.")] = 3.0,
) -> None:
    """How collecting scales with worker processes, and what transport and weights cost."""
    from keisei.bench import report
    from keisei.bench.collect import bench_collect
    from keisei.config_loading import config_of

    with one_sentence_for_bad_input():
        counts = _whole_numbers(workers)
        config = config_of(settings or [])
        result = bench_collect(
            config,
            counts,
            games_per_worker=config.games.count if games is None else games,
            rounds=rounds,
            seconds=seconds,
        )
        if as_json:
            typer.echo(json.dumps(result, indent=1))
        else:
            Console().print(report.collect_table(result))


@bench_app.command(epilog="Example: keisei bench search --json")
def search(
    model: Annotated[
        Path | None, typer.Argument(help="A run, or one of its checkpoints; default: as for `usi`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often both sides take turns.")] = 7,
    nodes: Annotated[int, typer.Option(min=20, help="Of one search.")] = 8000,
    games: Annotated[int, typer.Option(min=1, help="Searched at once.")] = 64,
    strength: Annotated[
        bool,
        typer.Option("--strength", help="Also a match of 200 nodes against no search, 200 games."),
    ] = False,
) -> None:
    """Nodes a second of the tree search, and of the obvious one in Python."""
    from keisei.bench import report
    from keisei.bench.search import bench_search, search_strength
    from keisei.core.devices import pick_device
    from keisei.play.model_choice import choose_model
    from keisei.training.trained_models import load_model

    with one_sentence_for_bad_input():
        agent = load_model(choose_model(model), pick_device("auto"))
    result = bench_search(agent, rounds=rounds, nodes=nodes, games=games)
    if strength:
        result["strength"] = search_strength(agent)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        Console().print(report.search_table(result))


@bench_app.command(epilog="Example: keisei bench worlds --json")
def worlds(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Agents in parallel against one after the other.")
    ] = False,
    agents: Annotated[str, typer.Option(help="With --parallel: numbers of agents.")] = "3,16,64",
    copies: Annotated[str, typer.Option(help="With --parallel: numbers of copies.")] = "1,8,64",
    model: Annotated[str, typer.Option(help="With --parallel: ppo or iqn.")] = "ppo",
    rounds: Annotated[int, typer.Option(min=1, help="How often all sides take turns.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one turn.")] = 2.0,
    device: Annotated[str, typer.Option(help="With --parallel: cpu, cuda or auto.")] = "cpu",
) -> None:
    """Agent-steps a second of worlds of many agents, with and without learning."""
    from keisei.bench import report
    from keisei.bench.parallel_worlds import bench_parallel_worlds
    from keisei.bench.worlds import bench_worlds

    with one_sentence_for_bad_input():
        if parallel:
            counts = _whole_numbers(agents), _whole_numbers(copies)
            result = bench_parallel_worlds(
                *counts, kind=model, rounds=rounds, seconds=seconds, device=device
            )
        else:
            result = bench_worlds(rounds=rounds, seconds=seconds)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        table = report.parallel_worlds_table if parallel else report.worlds_table
        Console().print(table(result))


def _whole_numbers(text: str) -> list[int]:
    """The numbers of "1,2,4"."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ValueError(f"{text!r} is not a list of numbers of at least 1, such as 1,2,4")
    return numbers
