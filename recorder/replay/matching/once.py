"""Attributes that are computed on first use, without a lock.

`functools.cached_property` of Python 3.11 has one, for all instances together: while one thread computes the value of a
large body, every other match would wait. Here two threads may compute the same thing, and get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A method as an attribute that keeps what it was at first."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)  # which is found before this from now on
        return value
