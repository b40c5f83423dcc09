"""Calls of a filesystem that is far away, several at a time."""

import threading

import pytest

from dil import storage
from dil.storage import LocalFilesystem, first_missing
from dil.storage.side_by_side import call_each

WIDTH = 4


class FarFilesystem(LocalFilesystem):
    parallel_requests = WIDTH


def test_results_come_in_the_order_of_their_items_and_several_calls_are_under_way():
    together = threading.Barrier(WIDTH)

    def act(number):
        together.wait(30)
        return number * number

    numbers = range(5 * WIDTH)
    assert call_each(FarFilesystem(), act, numbers) == [number * number for number in numbers]


@pytest.mark.parametrize("filesystem", [LocalFilesystem(), FarFilesystem()])
def test_one_item_and_files_of_this_machine_need_no_thread(filesystem):
    here = threading.current_thread()
    items = range(20) if filesystem.parallel_requests == 1 else range(1)
    found = call_each(filesystem, lambda _: threading.current_thread(), items)
    assert set(found) == {here}
    assert call_each(filesystem, lambda _: None, []) == []


def test_a_failure_stops_what_has_not_begun_and_lets_the_others_end():
    together, threads, ended = threading.Barrier(WIDTH), {}, []

    def act(number):
        threads[number] = threading.current_thread()
        together.wait(30)
        if number in {1, 2}:
            raise OSError(number)
        for other in (1, 2):
            threads[other].join(30)
        ended.append(number)

    with pytest.raises(OSError, match="1"):
        call_each(FarFilesystem(), act, range(100))
    assert sorted(threads) == list(range(WIDTH))
    assert sorted(ended) == [0, 3]


def test_an_interruption_of_the_thread_that_waits_stops_the_rest(monkeypatch):
    begun, interrupted = [], threading.Event()
    join = threading.Thread.join

    def interrupt(thread, timeout=None):
        if timeout is None:
            while len(begun) < WIDTH:
                join(thread, 0.01)
            raise KeyboardInterrupt
        interrupted.set()
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupt)

    def act(number):
        begun.append(number)
        assert interrupted.wait(30)

    with pytest.raises(KeyboardInterrupt):
        call_each(FarFilesystem(), act, range(100))
    assert sorted(begun) == list(range(WIDTH))


def test_the_first_missing_of_many_files_is_found_by_calls_side_by_side(monkeypatch, tmp_path):
    together = threading.Barrier(WIDTH)

    class Far(FarFilesystem):
        def exists(self, path):
            together.wait(30)
            return super().exists(path)

    monkeypatch.setattr(storage, "LocalFilesystem", Far)
    files = [tmp_path / str(number) for number in range(WIDTH)]
    for file in files:
        file.touch()

    assert first_missing(file.as_uri() for file in files) is None
    files[1].unlink()
    files[2].unlink()
    assert first_missing(file.as_uri() for file in files) == str(files[1])
    assert first_missing([]) is None
