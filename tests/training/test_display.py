"""The live display as people meet it: on pseudo-terminals of several sizes."""

import io
import math
import re
import time
from dataclasses import replace

import pytest

from keisei.training.display import SECONDS_BETWEEN_PICTURES, LiveDisplay, make_display
from tests.training.display_samples import SNAPSHOT, TerminalText
from tests.training.pseudo_terminal import terminal

SHOW_THEN_WAIT = """
    display.message("a message that stays [really]")
    display.show(replace(snapshot, steps=0, evaluations=[]))
    print("a stray print")
    time.sleep(1.2 * SECONDS_BETWEEN_PICTURES)
    display.show(snapshot)
    sys.stdin.readline()
"""


def second_picture_is_whole(screen):
    """Whether it is there down to its last border, and the cursor waits below that."""
    above = screen.lines[screen.row - 1]
    return "25.0%" in screen.text and above.startswith("╰──") and screen.column == 0


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 24), (100, 30), (140, 40)])
def test_the_live_picture_fits_the_terminal(width, height):
    with terminal(width, height, SHOW_THEN_WAIT) as (process, read):
        screen = read(until=second_picture_is_whole)
        text = screen.text
        for part in (
            "shogi-[1]",
            "ETA 3:25:45",
            "update 1,234 · 12,500,000 of 50,000,000 steps · 41,234 steps/s",
            "trained 12:34 · games 31% · inference 42% · update 22% · other 5%",
            "10,000 games",
            "perpetual check",
            "greedy 60 % [±3]",
        ):
            assert part in text
        assert re.search(r"black wins +5,000 +50.0%", text)
        assert re.search(r"max moves +300", text)
        for name, figure in (("policy loss", "-0.0123"), ("KL", "0.0117"), ("cut share", "4.0%")):
            assert re.search(rf"{name} +{figure}", text)
        assert ("▁▂▃▅▆▇█" in text) == ((width, height) != (100, 24))  # no room for bars there
        assert ("black to move" in text) == (width >= 100)
        shows_workers = height >= 34
        assert ("worker 1 (given up): 0 plies" in text) == shows_workers
        assert text.count("╭") == text.count("╯") == (5 if width >= 100 else 4) + shows_workers
        assert not screen.cursor_shown
        screen.feed("^C")  # as a terminal echoes it, which must not shift the picture

        process.stdin.write("\n")
        process.stdin.flush()
        summary = read()
        assert process.wait(10) == 0
    assert summary.cursor_shown
    assert "stopped" in summary.text
    assert "update 1200" in summary.text
    assert "A game" not in summary.text
    everything = "\n".join([*summary.scrolled, *summary.lines])
    assert everything.count("a message that stays [really]") == 1
    assert everything.count("a stray print") == 1
    assert everything.count("╭─ shogi-[1]") == 1, "pictures before the last one were not erased"


def test_the_live_picture_is_cropped_on_a_tiny_terminal():
    with terminal(40, 10, SHOW_THEN_WAIT) as (_, read):
        screen = read(until=lambda screen: "25.0%" in screen.text and "black" in screen.text)
        assert "ETA 3:25:45" in screen.text


def test_pictures_are_drawn_at_most_twice_a_second():
    body = """
    for update in range(300):
        display.show(replace(snapshot, updates=update))
        time.sleep(0.004)
    """
    with terminal(80, 24, body) as (process, read):
        screen = read()
        assert process.wait(10) == 0
    assert "update 299" in screen.text  # the summary shows the last state
    stream = TerminalText()
    display = LiveDisplay(stream)
    start = time.monotonic()
    for _ in range(50):
        display.show(SNAPSHOT)
    display.close()
    display.close()
    pictures = stream.getvalue().count("Evaluation")
    assert pictures <= 2 + (time.monotonic() - start) / SECONDS_BETWEEN_PICTURES


def test_an_error_gives_the_terminal_back_and_keeps_its_traceback():
    body = """
    display.show(snapshot)
    raise RuntimeError("something broke")
    """
    with terminal(100, 40, body) as (process, read):
        screen = read()
        assert process.wait(10) == 1
    assert screen.cursor_shown
    assert "RuntimeError: something broke" in screen.text
    assert "stopped" in screen.text


@pytest.mark.parametrize("stream", [io.StringIO, TerminalText])
def test_figures_that_are_not_numbers_are_shown_as_such(stream):
    broken = replace(
        SNAPSHOT,
        steps=0,
        games=0,
        eta_seconds=None,
        figures={"policy_loss": math.nan, "kl": math.inf},
        history={"policy_loss": [math.nan, 1.0, math.inf, 2.0]},
    )
    output = stream()
    with make_display(output) as display:
        display.show(broken)
    text = output.getvalue()
    assert "nan" in text
    assert "inf" in text
    assert "0.0%" in text


def test_a_run_that_has_nothing_to_tell_yet_can_be_shown():
    empty = replace(
        SNAPSHOT, steps=0, games=0, reasons={}, figures={}, history={}, evaluations=[], shares={}
    )
    output = TerminalText()
    with make_display(output) as display:
        display.show(replace(empty, board=""))
    assert "none yet" in output.getvalue()
