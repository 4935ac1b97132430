"""One process of several that train an MLP or a module with batch norms and dropout: `rank.py KIND MODEL RANKS PORT`.

It writes its losses, and a digest of its state, to standard output.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

ROWS, STEPS = 16, 6


def processes(kind: str) -> Any:
    """The processes of MPI, or of torch.distributed with the backend gloo; None for this one alone."""
    if kind == "mpi":
        from mpi4py import MPI
        from stepwell.training import MpiGroup

        return MpiGroup(MPI.COMM_WORLD)
    if kind == "gloo":
        import torch.distributed
        from stepwell.compat.torch.process_group import TorchGroup

        # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where the others are.
        torch.distributed.init_process_group("gloo")
        return TorchGroup()
    return None


def trainer(model: str, group: Any) -> Any:
    """A trainer of the model, each process with other first weights: those of process 0 count."""
    import stepwell
    from stepwell.training import SGD, AdamW

    if model == "mlp":
        from models import mlp

        graph = mlp()
        if group is not None and group.rank:
            graph.graph.initializer[0].raw_data = bytes(len(graph.graph.initializer[0].raw_data))
        optimizer = AdamW(0.02)
        return stepwell.trainer(
            graph, loss="cross_entropy", optimizer=optimizer, clip_norm=1.0, accumulate=2, processes=group, threads=1
        )
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)
    )
    example = (torch.zeros(ROWS // group.size, 6),)
    return stepwell.trainer(
        layers.train(), example, loss="cross_entropy", optimizer=SGD(0.05), processes=group, threads=1
    )


def main(kind: str, model: str) -> None:
    """Trains on the share of this process of each batch."""
    group = processes(kind)
    rank, size = (0, 1) if group is None else (group.rank, group.size)
    made, random, losses = trainer(model, group), np.random.default_rng(0), []
    for _ in range(STEPS):
        x, labels = random.standard_normal((ROWS, 6), np.float32), random.integers(0, 4, ROWS)
        # Labels that do not count: processes have different numbers of others.
        labels[: ROWS // 3] = -100
        share = slice(rank * ROWS // size, (rank + 1) * ROWS // size)
        losses.append(made.step(x[share], labels[share]))
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for _, array in sorted(made.state.items())))
    weights = {name: array.tolist() for name, array in made.parameters.items()} if rank == 0 else {}
    outputs = hashlib.sha256(next(iter(made.outputs.values())).tobytes()).hexdigest()
    found = {"losses": losses, "state": digest.hexdigest(), "outputs": outputs, "weights": weights, "rank": rank}
    Path(f"{os.environ['STEPWELL_TEST_RESULT']}.{rank}").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
