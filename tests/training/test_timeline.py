"""`Timeline` with real processes that write to one file, and real disks that are full."""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import defaultdict
from itertools import count
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.training.timeline import PAGE, Timeline
from tests.training.small_disk import call_on_a_small_disk

PROCESSES = multiprocessing.get_context("spawn")
Event = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def events(path: Path) -> list[Event]:
    """All events of a trace that was closed."""
    return json.loads(path.read_bytes())


def events_so_far(data: bytes) -> list[Event]:
    """All events of a trace that was not closed; each of its lines must be whole."""
    first, *lines = data.splitlines()
    assert first.strip() == b"["
    assert all(line.rstrip().endswith(b"},") for line in lines)
    assert len(data) % PAGE == 0
    return json.loads(data.rstrip().removesuffix(b",") + b"]")


def spans(events: list[Event]) -> dict[int, list[tuple[str, int, int]]]:
    """The name, start and end in ns of the spans of each process, in the order of their starts."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
            assert duration > 0
            found[event["pid"]].append((event["name"], start, start + duration))
    return {pid: sorted(of_process, key=lambda span: span[1]) for pid, of_process in found.items()}


def process_names(events: list[Event]) -> list[str]:
    return [event["args"]["name"] for event in events if event["name"] == "process_name"]


def write_spans(path: Path, number: int, pairs: int | None, start: Barrier) -> None:
    """Write so many pairs of an outer and an inner span, or go on until killed."""
    timeline = Timeline(path, f"worker {number}")
    start.wait()
    for _ in range(pairs) if pairs is not None else count():
        with timeline.span("outer"), timeline.span("inner"):
            pass
    timeline.close()


def test_processes_write_at_once_and_one_that_is_killed_spoils_nothing(path: Path) -> None:
    owner = Timeline(path, "main", owner=True)
    start = PROCESSES.Barrier(5)
    workers = [
        PROCESSES.Process(target=write_spans, args=(path, number, pairs, start))
        for number, pairs in enumerate([2500, 2500, 2500, None], start=1)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    while b"worker 4" not in path.read_bytes():
        time.sleep(0.001)
    workers[3].kill()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, -signal.SIGKILL]

    before_closing = events_so_far(path.read_bytes())
    owner.close()
    closed = events(path)
    assert closed[: len(before_closing)] == before_closing
    assert sorted(process_names(closed)) == ["main", "worker 1", "worker 2", "worker 3", "worker 4"]

    found = spans(closed)
    assert [len(found[worker.pid]) for worker in workers[:3]] == [5000] * 3
    assert len(found.get(workers[3].pid, [])) > 0
    for of_process in found.values():
        whole = of_process[: len(of_process) // 2 * 2]  # the outer span is written after the inner
        for outer, inner in zip(whole[::2], whole[1::2], strict=True):
            assert (outer[0], inner[0]) == ("outer", "inner")
            assert outer[1] <= inner[1] < inner[2] <= outer[2]
        assert all(one[2] <= next_[1] for one, next_ in zip(whole[::2], whole[2::2], strict=False))


def test_a_write_that_ended_at_any_page_leaves_whole_lines(path: Path) -> None:
    owner = Timeline(path, "main", owner=True)
    for number in range(1000):
        with owner.span(f"a name that is {'very ' * (number % 50)}long"):
            owner.counter("number", number)
    owner.close()
    data = path.read_bytes()
    assert len(data) > 50 * PAGE
    sizes = [len(events_so_far(data[:end])) for end in range(PAGE, len(data), PAGE)]
    assert sizes == sorted(set(sizes))


def test_a_span_is_written_when_what_it_encloses_fails(path: Path) -> None:
    timeline = Timeline(path, "main", owner=True)
    with pytest.raises(ValueError, match="seven"), timeline.span("update"):
        raise ValueError("seven")
    timeline.close()
    assert [name for name, _, _ in spans(events(path))[os.getpid()]] == ["update"]


def test_times_are_those_of_the_clock_that_all_processes_share(path: Path) -> None:
    timeline = Timeline(path, "main", owner=True)
    before = time.monotonic_ns()
    with timeline.span("sleep"):
        time.sleep(0.02)
    after = time.monotonic_ns()
    timeline.close()
    ((_, start, end),) = spans(events(path))[os.getpid()]
    assert before <= start < end <= after
    assert end - start >= 20_000_000


def test_marks_and_curves_are_events_of_their_process(path: Path) -> None:
    timeline = Timeline(path, "learner", owner=True)
    timeline.instant("new weights")
    for value in (3, 0.5, float("nan"), float("inf")):
        timeline.counter("lag", value)
    timeline.close()
    name, mark, first, second, closed = events(path)
    assert (name["ph"], name["args"], name["pid"]) == ("M", {"name": "learner"}, os.getpid())
    assert (mark["ph"], mark["name"], mark["s"]) == ("i", "new weights", "t")
    assert [(e["ph"], e["name"], e["args"]) for e in (first, second)] == [
        ("C", "lag", {"value": 3}),
        ("C", "lag", {"value": 0.5}),
    ]
    assert name["pid"] == mark["pid"] == first["pid"] == closed["pid"]
    assert mark["ts"] < first["ts"] < second["ts"] < closed["ts"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=300), max_size=30))
def test_any_names_come_back_as_far_as_a_line_holds_them(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = tmp_path_factory.mktemp("names") / "trace.json"
    timeline = Timeline(path, "main", owner=True)
    for name in names:
        timeline.instant(name)
    timeline.close()
    assert [event["name"] for event in events(path)[1:-1]] == [name[:200] for name in names]
    assert path.stat().st_size % PAGE == 0


def test_the_file_lags_by_no_more_than_a_second_or_64_kilobytes(path: Path) -> None:
    timeline = Timeline(path, "main", owner=True)
    timeline.instant("early")
    assert path.stat().st_size == PAGE  # only the opening bracket
    time.sleep(1)
    timeline.instant("late")
    assert [e["name"] for e in events_so_far(path.read_bytes())[1:]] == ["early", "late"]
    written = path.stat().st_size
    for _ in range(1000):
        timeline.instant("n" * 100)
    assert path.stat().st_size > written + 64 * 1024
    timeline.close()


def test_a_resumed_run_goes_on_in_the_same_file(path: Path) -> None:
    for sitting in ("first", "second", "third"):
        timeline = Timeline(path, sitting, owner=True)
        timeline.instant("work")
        timeline.close()
        timeline.close()  # as a caller's cleanup may
    assert process_names(events(path)) == ["first", "second", "third"]
    assert [event["name"] for event in events(path)] == ["process_name", "work", "closed"] * 3


@pytest.mark.parametrize("torn", [b"", b'{"ph":"i","na', b" " * (PAGE - 1)])
def test_a_run_that_was_killed_is_resumed_without_its_torn_page(path: Path, torn: bytes) -> None:
    owner, worker = Timeline(path, "main", owner=True), Timeline(path, "worker 1")
    worker.close()
    with path.open("ab") as file:
        file.write(torn)
    resumed = Timeline(path, "main again", owner=True)
    resumed.close()
    assert process_names(events(path)) == ["worker 1", "main again"]
    owner.close()


def test_a_file_that_holds_nothing_yet_is_begun_again(path: Path) -> None:
    path.write_bytes(b"[\n")
    Timeline(path, "main", owner=True).close()
    assert process_names(events(path)) == ["main"]


@pytest.mark.parametrize("owner", [True, False])
def test_a_full_disk_stops_the_tracing_but_not_the_traced(owner: bool) -> None:
    timeline = Timeline(Path("/dev/full"), "main", owner=owner)
    done = 0
    for _ in range(2000):
        with timeline.span("step"):
            done += 1
    timeline.instant("end")
    timeline.counter("done", done)
    timeline.close()
    assert done == 2000
    reason = "/dev/full cannot be written (No space left on device): tracing has stopped"
    assert timeline.failure == reason


def fill_the_disk(disk: Path) -> None:
    """Runs on a small filesystem: two timelines write until both have been refused."""
    path = disk / "trace.json"
    owner = Timeline(path, "main", owner=True)
    worker = Timeline(path, "worker 1")
    while owner.failure is None or worker.failure is None:
        for timeline in (owner, worker):
            with timeline.span("step"):
                pass
    owner.close()
    worker.close()
    assert os.statvfs(disk).f_bavail == 0  # the last write was cut short, not refused whole
    assert sorted(set(process_names(events_so_far(path.read_bytes())))) == ["main", "worker 1"]


def test_what_a_full_disk_took_is_whole(tmp_path: Path) -> None:
    call_on_a_small_disk(fill_the_disk, tmp_path)


def test_a_worker_does_not_make_the_file(path: Path) -> None:
    worker = Timeline(path, "worker 1")
    assert worker.failure is not None
    assert "No such file" in worker.failure
    with worker.span("step"):
        worker.close()
    assert not path.exists()


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    timeline = Timeline(None, "main", owner=True)
    with timeline.span("step"):
        timeline.instant("mark")
        timeline.counter("value", 1)
    timeline.close()
    assert timeline.failure is None
    assert list(tmp_path.iterdir()) == []


def test_a_thread_is_named_as_a_thread_and_leaves_its_process_its_name(path: Path) -> None:
    def learn() -> None:
        timeline = Timeline(path, "learner")
        with timeline.span("learn"):
            pass
        timeline.close()

    owner = Timeline(path, "main", owner=True)
    thread = threading.Thread(target=learn)
    thread.start()
    thread.join()
    owner.close()
    names = {e["name"]: (e["args"]["name"], e["tid"]) for e in events(path) if e["ph"] == "M"}
    (bar,) = [event for event in events(path) if event["ph"] == "X"]
    assert names == {
        "process_name": ("main", threading.get_native_id()),
        "thread_name": ("learner", bar["tid"]),
    }
