"""Families of ops: the results of one module, so that they are compiled together, compared with torch's."""

import numpy as np
import stepwell
import torch

PLAIN = stepwell.Options(cache=False)


class Family(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        return {name: function(*tensors) for name, function in self.functions.items()}


def check(functions, *tensors, rtol=1e-5, atol=1e-5):
    module = Family(functions)
    run = stepwell.compile(module, tensors, options=PLAIN)
    with np.errstate(all="ignore"):
        made, wanted = run(*tensors), module(*tensors)
    for name in functions:
        torch.testing.assert_close(
            made[name],
            wanted[name],
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def numbers(dtype, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-9, 10, shape, generator=generator).to(dtype)
