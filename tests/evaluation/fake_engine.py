"""A USI engine that behaves as its first argument says; the second is a file it may write to.

It moves a gold to and fro, which is legal as long as nobody disturbs it.
"""

import os
import subprocess
import sys
import time
from pathlib import Path


def say(text):
    print(text, flush=True)


def shuffle(moves):
    """A move of the gold that is not the one made last."""
    there, back = (("4i4h", "4h4i"), ("6a6b", "6b6a"))[len(moves) % 2]
    return back if moves[-2:-1] == [there] else there


def answer(behaviour, file, moves):
    """Answer `go` as well or badly as told."""
    if behaviour == "crash" or (behaviour == "crash-once" and not file.exists()):
        if behaviour == "crash-once":
            file.touch()
        sys.stderr.write("cannot allocate the hash table\n")
        sys.exit(3)
    if behaviour == "hang":
        time.sleep(1000)
    if behaviour == "slow":
        time.sleep(0.03)
    while behaviour == "endless":
        say("info string still thinking")
    if behaviour == "noisy":
        sys.stderr.write("debug\n" * 50_000)  # more than a pipe holds
        say("info depth 1 score cp 10\n\nwhatever bestmove 4i4h\n\xff")
    spoken = {
        "illegal": "1i1a",
        "banana": "banana",
        "nothing": "",
        "resign": "resign",
        "win": "win",
    }
    say(f"bestmove {spoken.get(behaviour, shuffle(moves))} ponder 9a9b")


def greet(behaviour, file):
    """Answer `usi` as well or badly as told."""
    if behaviour == "dies":
        sys.exit("no weights")
    if behaviour == "mute":
        time.sleep(1000)
    if behaviour == "late":
        time.sleep(0.5)
    if behaviour == "family":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        file.write_text(str(child.pid))
    say("id name fake\noption name Skill Level type spin default 0 min 0 max 9\nusiok")


def main():
    behaviour = sys.argv[1]
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(os.devnull)
    moves = []
    for line in sys.stdin:
        words = line.split()
        if behaviour == "logs":
            with file.open("a") as log:
                log.write(line)
        if words[0] == "usi":
            greet(behaviour, file)
        elif words[0] == "isready":
            say("readyok")
        elif words[0] == "position":
            moves = words[3:]
        elif words[0] == "go":
            answer(behaviour, file, moves)


main()
