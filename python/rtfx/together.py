"""Calls of several threads: they take turns, and those that wait for the same work become one call."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable
from typing import Any

from rtfx import library
from rtfx.errors import InputError


class _Call:
    def __init__(self, key: Hashable, request: Any, owned: frozenset):
        self.key, self.request, self.owned = key, request, owned
        self.result: Any = None
        self.done = False


class Together:
    """The calls of several threads that share one model."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._waiting: list[_Call] = []
        self._list = threading.Lock()

    @property
    def turn(self) -> threading.RLock:
        """Held by the thread whose call is under way. A thread of the parent may hold it for ever after os.fork()."""
        library.require_own_process()
        return self._turn

    def call(self, key: Hashable, request: Any, work: Callable[[list], list], owned: frozenset = frozenset()) -> Any:
        """Returns this request's result of `work(requests)`, which takes a list and returns as many results. The
        thread whose turn it is works for all that wait with an equal key. `owned`: what a request changes; two that
        change the same thing do not go together.

        An exception among the results is raised for its own caller. Where `work` raises InputError for several
        requests, it must have done nothing, and each is tried alone."""
        mine = _Call(key, request, owned)
        with self._list:
            self._waiting.append(mine)
        try:
            with self.turn:
                if not mine.done:
                    self._serve(self._taken(mine), work)
        finally:
            with self._list:
                if mine in self._waiting:
                    self._waiting.remove(mine)
        if isinstance(mine.result, BaseException):
            raise mine.result
        return mine.result

    def _taken(self, mine: _Call) -> list[_Call]:
        """All that go together with a call, in the order of their arrival."""
        taken, owned = [mine], set(mine.owned)
        with self._list:
            self._waiting.remove(mine)
            for other in list(self._waiting):
                if other.key == mine.key and owned.isdisjoint(other.owned):
                    owned |= other.owned
                    taken.append(other)
                    self._waiting.remove(other)
        return taken

    def _serve(self, calls: list[_Call], work: Callable[[list], list]) -> None:
        try:
            results = work([call.request for call in calls])
        except InputError as error:
            if len(calls) > 1:
                self._serve_alone(calls, work)
                return
            results = [error]
        except Exception as error:  # each thread gets one of its own, to which it adds its traceback
            results = [error, *(copy.copy(error) for _ in calls[1:])]
        except BaseException:  # Ctrl-C is this thread's alone; the others work for themselves
            with self._list:
                self._waiting[:0] = calls[1:]
            raise
        for call, result in zip(calls, results, strict=True):
            call.result, call.done = result, True

    def _serve_alone(self, calls: list[_Call], work: Callable[[list], list]) -> None:
        """Tries each call alone; the first one is this thread's."""
        try:
            for call in calls:
                self._serve([call], work)
        except BaseException:  # as above: those that were not tried wait again
            with self._list:
                self._waiting[:0] = [call for call in calls[1:] if not call.done]
            raise
