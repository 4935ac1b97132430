"""Products of groups of rows with a matrix of each group, against a loop over the groups."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers.integrations.moe", reason="transformers is not installed")

import stepwell  # noqa: E402

DEPTH, COLUMNS, GROUPS = 24, 40, 5


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def reference(rows, weights, ends):
    made, start = torch.zeros(len(rows), weights.shape[2]), 0
    for weight, end in zip(weights, ends.tolist(), strict=True):
        made[start:end] = rows[start:end].float() @ weight.float()
        start = max(start, end)
    return made


def groups(rows):
    """The ends of random groups, some of them empty."""
    counts = torch.randint(0, 2 * rows // GROUPS + 2, (GROUPS,)) * (torch.rand(GROUPS) > 0.3)
    return counts.cumsum(0).clamp(max=rows)


def product(rows, weights, ends):
    return torch.ops.transformers.grouped_mm_fallback(rows, weights, ends)


def transposed(rows, weights, ends):
    return torch.ops.transformers.grouped_mm_fallback(rows, weights.transpose(1, 2), ends)


def product_of_torch(rows, weights, ends):
    """PyTorch's own op, which takes only bfloat16 in graphs."""
    return torch.ops.aten._grouped_mm(rows, weights, ends)


def natively(function, *given):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        return torch.compile(function, backend="stepwell")(*given)


@pytest.mark.parametrize("count", [1, 17, 200])
@pytest.mark.parametrize("function", [product, transposed])
def test_groups_of_rows(function, count):
    for _ in range(2):
        ends, rows = groups(count).to(torch.int32), torch.randn(count, DEPTH)
        weights = torch.randn(GROUPS, DEPTH, COLUMNS)
        stored = weights if function is product else weights.transpose(1, 2).contiguous()
        made = natively(function, rows, stored, ends)
        torch.testing.assert_close(made, reference(rows, weights, ends), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [32, 70])
def test_constant_weights(columns):
    """They are packed once, each matrix for itself."""
    linear = torch.nn.Linear(DEPTH, GROUPS * columns, bias=False)

    def run(rows, ends):
        return transposed(rows, linear.weight.view(GROUPS, columns, DEPTH), ends)

    rows, ends = torch.randn(150, DEPTH), torch.tensor([40, 40, 100, 101, 150])
    with torch.no_grad():
        made = torch.compile(run, backend="stepwell", options={"freezing": True})(rows, ends)
        weights = linear.weight.view(GROUPS, columns, DEPTH).transpose(1, 2)
        torch.testing.assert_close(made, reference(rows, weights, ends), rtol=1e-4, atol=1e-4)


def test_short_floats():
    rows, weights = torch.randn(20, DEPTH).bfloat16(), torch.randn(GROUPS, DEPTH, COLUMNS).bfloat16()
    ends = torch.tensor([3, 3, 9, 15, 20], dtype=torch.int32)
    made = natively(product_of_torch, rows, weights, ends)
    torch.testing.assert_close(made, reference(rows, weights, ends).bfloat16(), rtol=2e-2, atol=2e-2)


def test_batches_without_groups():
    rows, weights = torch.randn(GROUPS, 7, DEPTH).bfloat16(), torch.randn(GROUPS, DEPTH, COLUMNS).bfloat16()
    made = natively(lambda rows, weights: torch.ops.aten._grouped_mm(rows, weights), rows, weights)
    torch.testing.assert_close(made, rows @ weights, rtol=2e-2, atol=2e-2)


def test_groups_of_the_summed_dimension_run_in_torch():
    left, right = torch.randn(8, 24).bfloat16(), torch.randn(24, 16).bfloat16()
    ends = torch.tensor([8, 24], dtype=torch.int32)
    with torch.no_grad(), pytest.warns(stepwell.FallbackWarning, match="groups of columns or of the summed dimension"):
        made = torch.compile(product_of_torch, backend="stepwell")(left, right, ends)
    torch.testing.assert_close(made, product_of_torch(left, right, ends), rtol=2e-2, atol=2e-2)


@pytest.mark.sweep
def test_any_number_of_rows():
    weights = torch.randn(GROUPS, COLUMNS, DEPTH)
    with torch.no_grad():
        run = torch.compile(transposed, backend="stepwell")
        for count in (7, 30, 111):
            rows, ends = torch.randn(count, DEPTH), torch.tensor([1, 5, 5, count - 1, count], dtype=torch.int32)
            torch._dynamo.mark_dynamic(rows, 0)
            wanted = reference(rows, weights.transpose(1, 2), ends)
            torch.testing.assert_close(run(rows, weights, ends), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.sweep
@pytest.mark.parametrize("family", ["Mixtral", "Qwen2Moe"])
def test_mixtures_of_experts(family):
    import transformers

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 96, "vocab_size": 128, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
    sizes |= {"num_local_experts": 4, "num_experts": 4, "shared_expert_intermediate_size": 48}
    model = getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**sizes)).eval()
    for length in (1, 12):
        tokens = torch.randint(0, 128, (2, length))
        with torch.no_grad():
            wanted = model(tokens).last_hidden_state
        made = natively(lambda tokens: model(tokens).last_hidden_state, tokens)
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
