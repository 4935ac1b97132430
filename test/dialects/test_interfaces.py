"""Interfaces: implementations are attached to classes, inherited, and imported at the first look-up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stepwell.dialects.core import Op
from stepwell.dialects.interfaces import INTERFACES, Interface


class Base(Op):
    """A base class."""

    OPERATION_NAME = "test_interfaces.base"


class Derived(Base):
    """A derived class."""

    OPERATION_NAME = "test_interfaces.derived"


@pytest.fixture
def weight():
    """An interface that exists during one test."""
    yield Interface[Callable[[], int]]("weight", "a number", rooms=())
    del INTERFACES["weight"]


def test_a_class_inherits_what_its_base_has_and_may_have_its_own(weight):
    assert weight.of(Derived) is None
    weight.attach(Base)(lambda: 1)
    assert weight.of(Derived)() == 1
    weight.attach(Derived)(lambda: 2)
    assert (weight.of(Base)(), weight.of(Derived)()) == (1, 2)


def test_two_implementations_are_an_error_that_names_both(weight):
    weight.attach(Base)(lambda: 1)
    with pytest.raises(
        ValueError, match=r"Base has two implementations of 'weight': \S*test_interfaces and \S*test_interf"
    ):
        weight.attach(Base)(lambda: 2)


def test_modules_of_rooms_are_imported_at_the_first_lookup():
    from stepwell.dialects.stepwell.movement import PadOp
    from stepwell.passes.kernel.prefixes import DEMAND

    rule = DEMAND.of(PadOp)
    assert rule is not None
    assert rule.__module__.endswith("passes.kernel.demand_rules")
