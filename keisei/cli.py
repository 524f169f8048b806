"""The `keisei` command: one short function per verb."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from keisei.bench.verbs import bench_app
from keisei.cli_errors import FAILED, INTERRUPTED, one_sentence_for_bad_input

app = typer.Typer(
    help="Keisei trains game-playing agents in parallel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")


@app.command(epilog="Example: keisei train shogi-laptop seed=2 training.total_steps=1000000")
def train(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG] [key=value]...",
            help="A name in configs/ or a YAML file (default: shogi-laptop), then settings.",
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue the run in this folder.")
    ] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="Write every process's timeline to trace.json in the run's folder."
        ),
    ] = False,
    debug_serial: Annotated[
        bool, typer.Option("--debug-serial", help="Do it all in one process, to use a debugger.")
    ] = False,
) -> None:
    """Train, with a live display: shogi by self-play, or the agents of a world. Ctrl-C saves."""
    from keisei.core.ppo_agent import NonFiniteLossError
    from keisei.gridworld.errors import WorldError
    from keisei.training.checkpoint_format import CheckpointError
    from keisei.training.parallel.worker_supervisor import WorkersLostError
    from keisei.training_start import Switches, begin, go_on

    switches = Switches(trace=trace, debug_serial=debug_serial)
    with one_sentence_for_bad_input():
        if resume is None:
            session = begin(settings or [], switches)
        else:
            session = go_on(resume, settings or [], switches)
    try:
        finished = session.run(sys.stdout)
    except (CheckpointError, NonFiniteLossError, WorkersLostError, WorldError) as error:
        sys.stderr.write(f"keisei: {error}\n")
        raise typer.Exit(FAILED) from None
    if not finished:
        raise typer.Exit(INTERRUPTED)


@app.command(epilog="Example: keisei evaluate runs/shogi-laptop-20260101-120000 --against ab:2")
def evaluate(
    player: Annotated[str, typer.Argument(help="A run, a checkpoint, or as for --against.")],
    against: Annotated[
        str,
        typer.Option(
            help="random, greedy, mix:P:OTHER, ab:DEPTH, usi:COMMAND?name=value&…, "
            "gnushogi:DEPTH, or a model, alone or with :search=NODES."
        ),
    ] = "random",
    games: Annotated[int, typer.Option(min=2, help="How many; an even number.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same games.")] = 1,
    openings: Annotated[str, typer.Option(help="book or random.")] = "book",
    random_plies: Annotated[
        int | None, typer.Option(min=0, help="At most so many after a book opening, or in all.")
    ] = None,
    sprt: Annotated[
        str | None,
        typer.Option(metavar="ELO0,ELO1", help="Stop once it is clear which is nearer the truth."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep games, also as KIF and CSA; go on if stopped."),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="For a model on a CPU; more help large ones only.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Play a match: even openings, each with both colours. Ctrl-C ends it."""
    from keisei.core.devices import pick_device
    from keisei.evaluation.arena import Arena, MatchSettings, opening_kind
    from keisei.evaluation.match_progress import progress_bar
    from keisei.evaluation.sprt import parse_sprt

    with one_sentence_for_bad_input():
        test = None if sprt is None else parse_sprt(sprt)
        kind = opening_kind(openings)
        settings = MatchSettings(player, against, games, seed, kind, random_plies, sprt=test)
        arena = Arena(settings, save=save)
        with progress_bar(games, len(arena.played)) as on_progress:
            finished = arena.play(pick_device("auto"), on_progress, threads=threads)
        if arena.played:
            typer.echo(json.dumps(arena.report(), indent=1) if as_json else arena.text())
    if not finished:
        sys.stderr.write(arena.words_when_stopped())
        raise typer.Exit(INTERRUPTED)


@app.command(epilog="Example: keisei ladder runs/shogi-laptop-20260101-120000 --games 200")
def ladder(
    player: Annotated[
        str | None,
        typer.Argument(help="A run, a checkpoint, or as for `evaluate`; default: as for `usi`."),
    ] = None,
    games: Annotated[int, typer.Option(min=10, help="The most games.")] = 200,
    precision: Annotated[
        float, typer.Option(min=0, help="Stop when the rating is known to so many points.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same games.")] = 1,
    plot: Annotated[
        Path, typer.Option(metavar="NAME", help="Where NAME.png and NAME.svg are written.")
    ] = Path("ladder"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rate a player on one scale, by games against players of graded strength."""
    from keisei.core.devices import pick_device
    from keisei.evaluation.ladder import climb, ladder_report, ladder_text, standing_line
    from keisei.evaluation.ladder_plot import draw_ladder
    from keisei.evaluation.ladder_rungs import rungs
    from keisei.evaluation.opponents import make_player
    from keisei.evaluation.players import close_player
    from keisei.play.model_choice import choose_model

    with one_sentence_for_bad_input():
        spec = str(choose_model(None)) if player is None else player
        climber, all_rungs = make_player(spec, seed, pick_device("auto")), rungs()
        try:
            result = climb(
                climber,
                all_rungs,
                games=games,
                seed=seed,
                precision=precision,
                on_visit=lambda so_far: typer.echo(standing_line(so_far), err=True),
                on_missing=lambda sentence: typer.echo(f"keisei: {sentence}", err=True),
            )
        finally:
            close_player(climber)
        typer.echo(json.dumps(ladder_report(result), indent=1) if as_json else ladder_text(result))
        _name_files(draw_ladder(result, all_rungs).save(plot))


@app.command(epilog="Example: keisei tournament runs/shogi-laptop-20260101-120000 --games 20")
def tournament(
    run: Annotated[Path, typer.Argument(help="A run of shogi.")],
    games: Annotated[int, typer.Option(min=2, help="Of each pair; an even number.")] = 20,
    most: Annotated[int, typer.Option(min=2, help="Checkpoints that take part at most.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same games.")] = 1,
    plot: Annotated[
        Path, typer.Option(metavar="NAME", help="Where NAME.png and NAME.svg are written.")
    ] = Path("tournament"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Have the checkpoints of a run play each other: the curve of its strength."""
    from keisei.core.devices import pick_device
    from keisei.evaluation import round_robin
    from keisei.evaluation.ladder_plot import draw_curve

    with one_sentence_for_bad_input():
        entrants = round_robin.entrants_of(run, most=most, device=pick_device("auto"))
        result = round_robin.play_round_robin(
            entrants,
            games=games,
            seed=seed,
            on_match=lambda met: typer.echo(round_robin.match_line(met), err=True),
        )
        if as_json:
            typer.echo(json.dumps(round_robin.tournament_report(result), indent=1))
        else:
            typer.echo(round_robin.tournament_text(result))
        steps = [entrant.steps for entrant in entrants]
        _name_files(draw_curve(run.resolve().name, steps, result.ratings).save(plot))


def _name_files(paths: list[Path]) -> None:
    """Say on stderr, apart from the results, what was written."""
    typer.echo(f"Written: {', '.join(map(str, paths))}", err=True)


@app.command(epilog="Example: keisei usi --launcher keisei-engine")
def usi(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A run or checkpoint; default: the packaged model, else the newest run."
        ),
    ] = None,
    launcher: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write a file that shogi programs can start."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the conversation to this file.")
    ] = None,
) -> None:
    """Play in any shogi program: the USI protocol on standard input and output."""
    from keisei.play.model_choice import choose_model
    from keisei.play.usi_launcher import write_launcher
    from keisei.play.usi_process import speak_usi

    with one_sentence_for_bad_input():
        chosen = choose_model(model)
        if launcher is None:
            speak_usi(chosen, log)
        write_launcher(launcher, chosen)
        typer.echo(f"{launcher} starts {chosen}")


@app.command(epilog='Example: echo \'{"moves": ["7g7f"]}\' | keisei position')
def position() -> None:
    """The rules as an oracle: JSON lines in, JSON lines out.

    Each line is {"sfen": "…", "moves": ["7g7f", …]}, both optional.
    """
    from keisei.shogi.oracle import describe

    for line in sys.stdin.buffer:
        if line.strip():
            try:
                question = json.loads(line)
            except (ValueError, RecursionError):
                answer: dict[str, Any] = {"error": "the line is not JSON"}
            else:
                answer = describe(question)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


@app.command(epilog="Example: keisei perft --depth 5")
def perft(
    depth: Annotated[int, typer.Option(min=0, help="Length of the move sequences.")],
    sfen: Annotated[str | None, typer.Option(help="Position; default: the start.")] = None,
) -> None:
    """Count the sequences of legal moves of a given length."""
    from keisei.shogi.perft import perft as count
    from keisei.shogi.sfen import START_SFEN

    with one_sentence_for_bad_input():
        typer.echo(count(depth, sfen or START_SFEN))


@app.command(epilog="Example: keisei convert game.kif --to csa game.csa")
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file of games.")],
    to: Annotated[str, typer.Option(help="kif (Shift-JIS), kifu (UTF-8), csa, usi or sfen.")],
    target: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Default: standard output.")
    ] = None,
) -> None:
    """Turn game records of any format into any other."""
    from keisei.shogi.notation.conversion import known_format, read_games, write_games

    with one_sentence_for_bad_input():
        output = sys.stdout.buffer if target is None else target
        with warnings.catch_warnings(record=True) as notes:
            write_games(read_games(source), known_format(to), output)
        for note in notes:
            sys.stderr.write(f"keisei: {note.message}\n")


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
