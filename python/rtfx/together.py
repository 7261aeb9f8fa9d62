"""Lets calls of several threads take turns. Those that wait for the same work become one call."""

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
        """Returns the lock that the thread of the current call holds. After os.fork(), a thread of the parent may
        hold it for ever."""
        library.require_own_process()
        return self._turn

    def call(self, key: Hashable, request: Any, work: Callable[[list], list], owned: frozenset = frozenset()) -> Any:
        """Returns this request's result of `work(requests)`, which takes a list and returns as many results. The thread
        whose turn it is works for all that wait with an equal key. `owned` has the objects that a request changes. Two
        requests that change the same object are not joined.

        An exception among the results is raised for its own caller. If `work` raises InputError for several
        requests, it must have done nothing, and each request is tried alone."""
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
        """Returns all calls that are joined with a call, in the order of their arrival."""
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
        except Exception as error:  # each thread gets its own, to which it adds its traceback
            results = [error, *(copy.copy(error) for _ in calls[1:])]
        except BaseException:  # Ctrl-C affects this thread alone; the others work for themselves
            with self._list:
                self._waiting[:0] = calls[1:]
            raise
        for call, result in zip(calls, results, strict=True):
            call.result, call.done = result, True

    def _serve_alone(self, calls: list[_Call], work: Callable[[list], list]) -> None:
        """Tries each call alone. The first one is that of this thread."""
        try:
            for call in calls:
                self._serve([call], work)
        except BaseException:  # here too, those that were not tried wait again
            with self._list:
                self._waiting[:0] = [call for call in calls[1:] if not call.done]
            raise
