"""Threads switch quickly as long as anybody wants it, and as before when nobody does."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from keisei.gridworld.agent_stacks import Job
from keisei.gridworld.parallel_threads import LessonThreads
from keisei.gridworld.quick_switching import QUICK_SWITCHING


def test_the_last_to_leave_restores_what_was_set():
    before = sys.getswitchinterval()
    later = ExitStack()
    with QUICK_SWITCHING:
        later.enter_context(QUICK_SWITCHING)
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() < before
    later.close()
    assert sys.getswitchinterval() == before


def test_lessons_that_begin_in_a_pause_keep_it_until_they_are_fetched():
    before = sys.getswitchinterval()
    threads = LessonThreads(2)
    jobs = [Job((number,), lambda: time.sleep(0.05) or {}) for number in range(2)]
    with QUICK_SWITCHING:
        threads.start(jobs)
    assert sys.getswitchinterval() < before
    threads.fetch(wait=True)
    assert sys.getswitchinterval() == before
    threads.close()
