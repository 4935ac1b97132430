"""Complex numbers are computed as pairs of real ones, and Fourier transforms as products."""

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

NATIVE = stepwell.Options(cache=False, fallback="error")


class Family(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        return {name: function(*tensors) for name, function in self.functions.items()}


def check(functions, *tensors):
    module = Family(functions)
    run = stepwell.compile(module, tensors, options=NATIVE)
    made, wanted = run(*tensors), module(*tensors)
    for name in functions:
        torch.testing.assert_close(
            made[name], wanted[name], rtol=1e-4, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
        )
    return run


def test_arithmetic():
    torch.manual_seed(0)
    z, w = torch.randn(2, 3, 4, dtype=torch.complex64)
    check(
        {
            "sum": lambda z, w, x: z + 2 * w - x,
            "real and complex": lambda z, w, x: x * z + (1 - 2j),
            "quotient": lambda z, w, x: z / w + z / x + 1 / w,
            "powers": lambda z, w, x: z**2 + w.square(),
            "functions": lambda z, w, x: (z.exp(), z.sin(), w.cosh(), z.log(), w.sgn()),
            "magnitude and angle": lambda z, w, x: (z.abs(), w.angle(), x.angle()),
            "conjugate": lambda z, w, x: (z.conj() * w).imag + z.real,
            "comparison": lambda z, w, x: (z == w, z != z),
            "product": lambda z, w, x: z @ w.T + torch.bmm(z[None], w.mT[None]),
            "movement": lambda z, w, x: torch.cat([z.T.reshape(2, 6), w[:2].flip(1).repeat(1, 2)[:, :6]]),
            "chosen": lambda z, w, x: torch.where(x > 0, z, w).sum(0),
            "from parts": lambda z, w, x: (
                torch.complex(x, x + 1) + torch.polar(x, x) + torch.view_as_complex(torch.stack([x, x], -1))
            ),
            "types": lambda z, w, x: x.to(torch.complex64) + z.to(torch.complex128).to(torch.complex64),
        },
        z,
        w,
        torch.randn(3, 4),
    )


def test_transforms():
    torch.manual_seed(0)
    x = torch.randn(3, 6, 8)
    check(
        {
            "rfft": lambda x: torch.fft.rfft(x).abs(),
            "rfftn": lambda x: torch.fft.rfftn(x, dim=(0, 1), norm="ortho").abs(),
            "fft": lambda x: torch.view_as_real(torch.fft.fft(x, dim=1)),
            "there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=7), n=7),
            "two dimensions": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2, norm="forward"),
            "inverse": lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real,
            "hermitian": lambda x: torch.fft.hfft(torch.complex(x, x)),
            "convolution": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(x[0, 0], n=16), n=16),
        },
        x,
    )


def test_short_time_transforms():
    torch.manual_seed(0)
    window = torch.hann_window(16)

    def spectrum(x):
        return torch.stft(x, 16, 4, window=window, return_complex=True)

    check(
        {
            "power": lambda x: spectrum(x).abs().square(),
            "there and back": lambda x: torch.istft(spectrum(x), 16, 4, window=window, length=64),
        },
        torch.randn(2, 64),
    )


def test_an_artefact_of_a_spectrum(tmp_path):
    run = check({"power": lambda x: torch.fft.rfft(x).abs()}, torch.randn(2, 16))
    run.save(tmp_path / "m.stw")
    x = torch.randn(2, 16)
    (made,) = [stepwell.load(tmp_path / "m.stw")(x.numpy())]
    torch.testing.assert_close(torch.from_numpy(made), torch.fft.rfft(x).abs(), rtol=1e-4, atol=1e-4)


def test_complex_inputs_and_outputs_of_varying_size():
    module = Family({"z": lambda z, x: z * x + 1j, "x": lambda z, x: z.abs()})
    dims = [({0: torch.export.Dim("rows", min=2, max=9)},) * 2]
    run = stepwell.compile(
        module, (torch.randn(4, dtype=torch.complex64), torch.randn(4)), dynamic_shapes=dims, options=NATIVE
    )
    for rows in (2, 9):
        z, x = torch.randn(rows, dtype=torch.complex64), torch.randn(rows)
        torch.testing.assert_close(run(z.conj(), x), module(z.conj(), x))


def test_the_backend_of_torch_compile():
    weight = torch.nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def function(x, z):
        return torch.fft.irfft(torch.fft.rfft(x) * weight) + z.real, z * 2

    torch._dynamo.reset()
    run = torch.compile(function, backend="stepwell", options={"fallback": "error", "cache": False})
    x, z = torch.randn(3, 8), torch.randn(3, 8, dtype=torch.complex64)
    with torch.no_grad():
        torch.testing.assert_close(run(x, z), function(x, z))


def test_functions_without_code_run_in_torch():
    z = torch.randn(4, dtype=torch.complex64)
    module = Family({"z": lambda z: z.atan() * 2})
    run = stepwell.compile(module, (z,), options=stepwell.Options(cache=False, fallback="quiet"))
    torch.testing.assert_close(run(z), module(z))
    assert [item.op_type for item in run.fallbacks] == ["aten.atan.default"]
