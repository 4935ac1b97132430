"""Tests of the costs of the tiles of versions."""

import numpy as np
from stepwell.lowering.version_plans import TileCost


def test_the_first_tile_costs_more_than_each_of_the_others():
    rows = np.array([[1, 4], [1, 5], [1, 12]])
    assert TileCost((1, 4), each=10, first=7).cost(rows).tolist() == [17, 27, 37]
