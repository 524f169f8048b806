"""Worker processes to which something happens, at a place and a time that the test names.

All of these are for `worker_main`: they patch something in their own process, then work.
"""

import os
import signal
import struct
from collections.abc import Callable, Container
from dataclasses import dataclass
from multiprocessing.connection import Connection

from keisei.training.parallel.communication import Kind, Message
from keisei.training.parallel.rollout import Rollout
from keisei.training.parallel.self_play import SelfPlay
from keisei.training.parallel.worker_process import work

ALWAYS = range(1, 10_000)
"""Every epoch: the replacement fares no better."""


def kill():
    """Die as when the kernel is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    """Hang until somebody sends SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


def fail():
    """Meet an error, a different one in every process."""
    raise RuntimeError(f"broken on purpose in process {os.getpid()}")


@dataclass(frozen=True)
class Fault:
    """`what` happens before (or after) the `call`-th call of a method, in these epochs."""

    owner: type
    method: str
    what: Callable[[], None] = kill
    call: int = 1
    after: bool = False
    workers: Container[int] = (0,)
    epochs: Container[int] = (1,)
    work: Callable[..., None] = work

    def __call__(self, setup):
        if setup.number in self.workers and setup.epoch in self.epochs:
            self._install()
        self.work(setup)

    def __str__(self):
        when = "after" if self.after else "before"
        return f"{self.what.__name__} {when} {self.method} {self.call}"

    def _install(self):
        original = getattr(self.owner, self.method)
        calls = 0

        def faulty(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == self.call and not self.after:
                self.what()
            answer = original(*arguments, **options)
            if calls == self.call and self.after:
                self.what()
            return answer

        setattr(self.owner, self.method, faulty)


@dataclass(frozen=True)
class HalfAMessage:
    """`what` happens when half of the news of worker 0's second rollout is in its pipe."""

    what: Callable[[], None] = kill

    def __call__(self, setup):
        if (setup.number, setup.epoch) == (0, 1):
            self._install()
        work(setup)

    def __str__(self):
        return f"{self.what.__name__} within a message"

    def _install(self):
        send = Connection._send_bytes
        rollouts = 0

        def send_in_halves(pipe, data):
            nonlocal rollouts
            rollouts += data[0] == Kind.COMMITTED
            if (data[0], rollouts) != (Kind.COMMITTED, 2):
                return send(pipe, data)
            whole = struct.pack("!i", len(data)) + bytes(data)
            pipe._send(whole[: len(whole) // 2])
            self.what()
            return pipe._send(whole[len(whole) // 2 :])

        Connection._send_bytes = send_in_halves


def commit_what_is_not_whole(setup):
    """As worker 0, announce a first rollout without having finished it."""
    if (setup.number, setup.epoch) == (0, 1):
        Rollout.finish = lambda *_: None
    work(setup)


def commit_twice(setup):
    """As worker 0, announce the first rollout a second time."""
    link = type(setup.link)
    commit = link.commit

    def commit_again(self, order, payload):
        commit(self, order, payload)
        commit(self, order, payload)

    if (setup.number, setup.epoch) == (0, 1):
        link.commit = commit_again
    work(setup)


OLD_MESSAGES = (Kind.READY, Kind.ALIVE, Kind.COMMITTED, Kind.FAILED)


def speak_for_the_dead(setup):
    """As worker 0's second incarnation, first say what the dead one might have said."""
    if (setup.number, setup.epoch) == (0, 1):
        kill()
    if (setup.number, setup.epoch) == (0, 2):
        for kind in OLD_MESSAGES:
            setup.link.send(Message(kind, epoch=1, payload=b"of another life"))
    work(setup)


def work_for_nine_plies(setup):
    """Play nine plies of every game; then all incarnations of all workers fail at once."""
    plies = 9 if setup.epoch == 1 else 0
    Fault(SelfPlay, "_play_one_step", fail, call=plies + 1, workers=range(9), epochs=ALWAYS)(setup)
