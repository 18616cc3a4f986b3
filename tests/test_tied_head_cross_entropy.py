"""`lib.tied_head`: the loss against full logits in float64 and against a slow loop."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from transformers import Gemma2Config, Gemma2ForCausalLM

from lib.tied_head import functions, tied_cross_entropy

SETTINGS = [("vocabulary", 3), ("vocabulary", 1000), ("tokens", 2), ("tokens", 1000)]
N, V, D = 7, 11, 5


def problem(device="cpu", dtype=torch.float64, n=N, v=V, d=D, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n, d, generator=generator, dtype=torch.float64)
    weight = torch.randn(v, d, generator=generator, dtype=torch.float64)
    bias = torch.randn(v, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, v, (n,), generator=generator).to(device)
    parts = [x.to(device, dtype).requires_grad_() for x in (hidden, weight, bias)]
    return *parts, targets


def plain(hidden, weight, targets, ignore_index=-100, bias=None, reduction="mean"):
    logits = F.linear(hidden, weight, bias)
    return F.cross_entropy(
        logits, targets, ignore_index=ignore_index, reduction=reduction
    )


def gradients(loss, inputs):
    return torch.autograd.grad(loss, inputs, allow_unused=True)


def slow_loss(hidden, weight, bias, target, z_loss=0.0, softcap=None):
    """One token's loss from Python floats."""
    logits = []
    for row, offset in zip(weight.tolist(), bias.tolist(), strict=True):
        z = sum(a * b for a, b in zip(hidden.tolist(), row, strict=True)) + offset
        logits.append(z if softcap is None else softcap * math.tanh(z / softcap))
    log_z = math.log(sum(math.exp(z) for z in logits))
    return log_z - logits[target] + z_loss * log_z**2


@pytest.mark.parametrize(("chunk_by", "chunk_size"), SETTINGS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("ignored", [(), (0, 3), (6,)])
def test_equals_full_logits(
    device, chunk_by, chunk_size, reduction, with_bias, ignored
):
    if device.type == "mps":
        pytest.skip("MPS has no float64")
    hidden, weight, bias, targets = problem(device)
    targets[list(ignored)] = -100
    inputs = (hidden, weight, bias) if with_bias else (hidden, weight)
    options = {"bias": bias if with_bias else None, "reduction": reduction}
    expected = plain(hidden, weight, targets, **options)
    found = tied_cross_entropy(
        hidden, weight, targets, chunk_by=chunk_by, chunk_size=chunk_size, **options
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, inputs, upstream)
    got = torch.autograd.grad(found, inputs, upstream)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@given(
    n=st.integers(0, 6),
    v=st.integers(1, 9),
    d=st.integers(1, 4),
    size=st.integers(1, 12),
    chunk_by=st.sampled_from(["vocabulary", "tokens"]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    ignore_index=st.integers(-3, 9),
)
def test_any_sizes(n, v, d, size, chunk_by, reduction, ignore_index):
    hidden, weight, _, targets = problem(n=n, v=v, d=d)
    expected = plain(hidden, weight, targets, ignore_index, reduction=reduction)
    found = tied_cross_entropy(
        hidden,
        weight,
        targets,
        ignore_index,
        reduction=reduction,
        chunk_by=chunk_by,
        chunk_size=size,
    )
    if reduction == "mean" and (targets == ignore_index).all():
        expected = torch.zeros_like(expected)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("chunk_by", "chunk_size"), SETTINGS)
@pytest.mark.parametrize(
    "options", [{}, {"z_loss": 0.1}, {"softcap": 1.5}, {"z_loss": 0.1, "softcap": 1.5}]
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_equals_a_slow_loop_and_its_gradient_a_numeric_one(
    chunk_by, chunk_size, options, reduction
):
    hidden, weight, bias, targets = problem()
    targets[2] = -1

    def loss(hidden, weight, bias, reduction=reduction):
        return tied_cross_entropy(
            hidden,
            weight,
            targets,
            -1,
            bias=bias,
            reduction=reduction,
            chunk_by=chunk_by,
            chunk_size=chunk_size,
            **options,
        )

    slow = [
        0.0 if target == -1 else slow_loss(hidden[i], weight, bias, target, **options)
        for i, target in enumerate(targets.tolist())
    ]
    reduced = {"none": slow, "sum": sum(slow), "mean": sum(slow) / (N - 1)}[reduction]
    expected = torch.tensor(reduced, dtype=torch.float64)
    torch.testing.assert_close(
        loss(hidden, weight, bias), expected, rtol=1e-12, atol=1e-12
    )
    assert torch.autograd.gradcheck(loss, (hidden, weight, bias))


def test_softcap_equals_gemma_2():
    config = Gemma2Config(
        vocab_size=23,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=8,
        final_logit_softcapping=0.05,
    )
    model = Gemma2ForCausalLM(config).eval()
    table = model.get_input_embeddings().weight
    assert model.lm_head.weight is table
    ids = torch.randint(0, 23, (2, 6))
    with torch.no_grad():
        logits = model(ids).logits
        hidden = model.model(ids).last_hidden_state
    expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    found = tied_cross_entropy(hidden[:, :-1], table, ids[:, 1:], softcap=0.05)
    torch.testing.assert_close(found, expected)
    uncapped = tied_cross_entropy(hidden[:, :-1], table, ids[:, 1:])
    assert abs(uncapped - found) > 1e-4


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_gradients_in_float32_are_within_a_millionth(device, chunk_by):
    hidden, weight, bias, targets = problem(device, torch.float32, n=64, v=5000, d=32)
    with torch.no_grad():
        weight *= (
            0.2  # logits as large as a model's; larger ones round more, in any way
        )
    inputs = hidden, weight, bias
    options = {"bias": bias, "chunk_by": chunk_by, "chunk_size": 50}
    found = gradients(tied_cross_entropy(hidden, weight, targets, **options), inputs)
    exact = tuple(x.detach().cpu().double().requires_grad_() for x in inputs)
    wanted = gradients(plain(*exact[:2], targets.cpu(), bias=exact[2]), exact)
    for ours, truth in zip(found, wanted, strict=True):
        error = (ours.cpu() - truth).abs().max() / truth.abs().max()
        assert error.item() <= 1e-6


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(device, chunk_by, dtype):
    # Many chunks: sums kept in the inputs' dtype would lose what each chunk adds.
    hidden, weight, bias, targets = problem(device, dtype, n=256, v=2048, d=16)
    inputs = hidden, weight, bias
    options = {"bias": bias, "chunk_by": chunk_by, "chunk_size": 4}
    loss = tied_cross_entropy(hidden, weight, targets, **options)
    assert loss.dtype == torch.float32
    found = gradients(loss, inputs)
    exact = tuple(x.detach().cpu().double().requires_grad_() for x in inputs)
    truth = plain(exact[0], exact[1], targets.cpu(), bias=exact[2])
    # Rounding each logit leaves an error that averages out over the tokens.
    assert abs(loss.item() - truth.item()) < torch.finfo(dtype).eps * truth.item() / 4
    for ours, right in zip(found, gradients(truth, exact), strict=True):
        assert ours.dtype == dtype
        error = (ours.cpu().double() - right).norm() / right.norm()
        assert error < torch.finfo(dtype).eps


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 2e-6), (torch.bfloat16, 0.02)]
)
def test_one_frequent_target(device, chunk_by, dtype, bound):
    """A row that many tokens pull on: summed in the table's bfloat16 it would stall."""
    hidden, weight, _, targets = problem(device, dtype, n=2048, v=64, d=8)
    targets.fill_(5)
    inputs = hidden, weight
    loss = tied_cross_entropy(*inputs, targets, chunk_by=chunk_by, chunk_size=16)
    exact = tuple(x.detach().cpu().double().requires_grad_() for x in inputs)
    truth = gradients(plain(*exact, targets.cpu()), exact)
    for ours, right in zip(gradients(loss, inputs), truth, strict=True):
        error = (ours.cpu() - right).abs().max() / right.abs().max()
        assert error.item() < bound


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_autocast_casts_as_a_linear_layer_does(device, chunk_by, reduction):
    hidden, weight, bias, targets = problem(device, torch.float32)
    inputs = hidden, weight, bias
    options = {"chunk_by": chunk_by, "chunk_size": 3, "reduction": reduction}
    with torch.autocast(device.type, torch.bfloat16):
        loss = tied_cross_entropy(hidden, weight, targets, bias=bias, **options)
    cast = tuple(x.bfloat16() for x in inputs)
    explicit = tied_cross_entropy(cast[0], cast[1], targets, bias=cast[2], **options)
    assert torch.equal(loss, explicit)
    assert loss.dtype == torch.float32
    found, wanted = (gradients(x.sum(), inputs) for x in (loss, explicit))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("n", [0, 3])
def test_no_target_counts(reduction, chunk_by, n):
    hidden, weight, bias, _ = problem(n=n)
    targets = torch.full((n,), -100)
    loss = tied_cross_entropy(
        hidden, weight, targets, bias=bias, reduction=reduction, chunk_by=chunk_by
    )
    assert loss.shape == ((n,) if reduction == "none" else ())
    assert loss.count_nonzero() == 0
    for gradient in gradients(loss.sum(), (hidden, weight, bias)):
        assert gradient.isfinite().all()
        assert gradient.count_nonzero() == 0


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_rows_masked_by_minus_infinity_take_no_part(chunk_by):
    hidden, weight, _, targets = problem()
    mask = torch.zeros(V + 4, dtype=torch.float64)
    mask[:4] = -torch.inf  # a whole first chunk
    padded = torch.cat([torch.randn(4, D, dtype=torch.float64), weight.detach()])
    padded.requires_grad_()
    options = {"bias": mask, "chunk_by": chunk_by, "chunk_size": 4}
    loss = tied_cross_entropy(hidden, padded, targets + 4, **options)
    expected = plain(hidden, weight, targets)
    torch.testing.assert_close(loss, expected)
    found = gradients(loss, (hidden, padded))
    wanted = gradients(expected, (hidden, weight))
    torch.testing.assert_close(found[0], wanted[0])
    torch.testing.assert_close(found[1][4:], wanted[1])
    assert found[1][:4].count_nonzero() == 0


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_large_logits_do_not_overflow(chunk_by, offset):
    hidden, weight, bias, targets = problem(dtype=torch.float32)
    inputs = hidden, weight, bias
    shifted = bias + offset
    loss = tied_cross_entropy(
        hidden, weight, targets, bias=shifted, chunk_by=chunk_by, chunk_size=2
    )
    torch.testing.assert_close(loss, plain(*inputs[:2], targets, bias=shifted))
    assert all(g.isfinite().all() for g in gradients(loss, inputs))


def test_a_leading_batch_axis_is_kept():
    hidden, weight, _, targets = problem(n=6)
    batch = hidden.view(2, 3, D), weight, targets.view(2, 3)
    losses = tied_cross_entropy(*batch, reduction="none")
    assert losses.shape == (2, 3)
    torch.testing.assert_close(
        losses.flatten(), plain(hidden, weight, targets, reduction="none")
    )
    one = tied_cross_entropy(hidden[0], weight, targets[0], reduction="none")
    assert one.shape == ()


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (0, 2)])
def test_only_the_gradients_asked_for(chunk_by, needed):
    *inputs, targets = problem()
    for place, x in enumerate(inputs):
        x.requires_grad_(place in needed)
    hidden, weight, bias = inputs
    options = {"bias": bias, "chunk_by": chunk_by, "chunk_size": 3}
    tied_cross_entropy(hidden, weight, targets, **options).backward()
    found = [x.grad for x in inputs]
    for x in inputs:
        x.grad = None
    plain(hidden, weight, targets, bias=bias).backward()
    for ours, x in zip(found, inputs, strict=True):
        assert (ours is None) == (x.grad is None)
        if ours is not None:
            torch.testing.assert_close(ours, x.grad)


def test_evaluation_forms_no_gradient(monkeypatch):
    hidden, weight, _, targets = problem()
    monkeypatch.setattr(functions, "softmax_gradient", lambda *_: pytest.fail("formed"))
    with torch.no_grad():
        loss = tied_cross_entropy(hidden, weight, targets, chunk_by="tokens")
    torch.testing.assert_close(loss, plain(hidden, weight, targets).detach())


def test_largest_tensor_is_a_chunk():
    """No temporary is as large as the logits: read from torch's own record."""
    hidden, weight, _, targets = problem(dtype=torch.float32, n=64, v=512, d=4)

    def largest(**options):
        sizes = []

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                if isinstance(result, torch.Tensor):
                    sizes.append(result.numel())
                return result

        with Watch():
            tied_cross_entropy(hidden, weight, targets, **options).backward()
        return max(sizes)

    assert largest(chunk_size=32) == weight.numel() == 64 * 32
    assert largest(chunk_by="tokens", chunk_size=4) == weight.numel() == 4 * 512
    assert largest(chunk_size=512) == 64 * 512


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_a_second_backward_pass_gives_the_same(chunk_by):
    hidden, weight, _, targets = problem()
    inputs = hidden, weight
    loss = 3 * tied_cross_entropy(*inputs, targets, chunk_by=chunk_by, chunk_size=2)
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    kept = [x.clone() for x in first]
    torch.testing.assert_close(list(gradients(loss, inputs)), kept)
    assert all(map(torch.equal, first, kept))
    torch.testing.assert_close(
        kept, list(gradients(3 * plain(*inputs, targets), inputs))
    )


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_a_second_derivative_is_refused(chunk_by):
    hidden, weight, _, targets = problem()
    loss = tied_cross_entropy(hidden, weight, targets, chunk_by=chunk_by)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(loss, hidden, create_graph=True)


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_a_tied_table_collects_both_gradients(chunk_by):
    _, weight, _, targets = problem()
    ids = torch.tensor([1, 1, 4, 9, 0, 2, 3])

    def gradient(loss):
        return torch.autograd.grad(loss(weight[ids], weight, targets), weight)[0]

    def ours(*args):
        return tied_cross_entropy(*args, chunk_by=chunk_by, chunk_size=2)

    torch.testing.assert_close(gradient(ours), gradient(plain))


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_torch_compile(chunk_by):
    hidden, weight, _, targets = problem(dtype=torch.float32)
    options = {"chunk_by": chunk_by, "chunk_size": 3}

    @torch.compile(backend="eager")
    def compiled(hidden, weight):
        return tied_cross_entropy(hidden * 1, weight, targets, **options)

    found = compiled(hidden, weight)
    torch.testing.assert_close(found, plain(hidden, weight, targets))
    torch.testing.assert_close(
        gradients(found, (hidden, weight)),
        gradients(plain(hidden, weight, targets), (hidden, weight)),
    )


# E1 of the corpus of faults, for targets: named here, not by an assert on the device.
@pytest.mark.parametrize("bad", [V, -1, -100, 2**40])
@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_target_outside_the_table_is_named(device, bad, place, chunk_by):
    hidden, weight, _, targets = problem(device, torch.float32)
    targets[place] = bad
    with pytest.raises(IndexError, match=rf"target {bad} .* {V} rows"):
        tied_cross_entropy(hidden, weight, targets, -7, chunk_by=chunk_by)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_targets_of_any_integer_dtype(dtype):
    hidden, weight, _, targets = problem()
    found = tied_cross_entropy(hidden, weight, targets.to(dtype))
    torch.testing.assert_close(found, plain(hidden, weight, targets))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_targets_of_another_dtype(dtype):
    hidden, weight, _, targets = problem()
    with pytest.raises(TypeError, match="targets must be an integer tensor"):
        tied_cross_entropy(hidden, weight, targets.to(dtype))


def test_dtypes_that_do_not_match():
    hidden, weight, bias, targets = problem(dtype=torch.float32)
    with pytest.raises(TypeError, match=r"floating point, got torch\.int64"):
        tied_cross_entropy(hidden.long(), weight, targets)
    with pytest.raises(TypeError, match=r"torch\.bfloat16, the table torch\.float32"):
        tied_cross_entropy(hidden.bfloat16(), weight, targets)
    with pytest.raises(TypeError, match=r"torch\.float32, the bias torch\.float64"):
        tied_cross_entropy(hidden, weight, targets, bias=bias.double())


@pytest.mark.parametrize(
    ("hidden", "weight", "targets", "numbers"),
    [
        ((4, 6), (9, 5), (4,), r"\(4, 6\).*\(9, 5\)"),
        ((4, 5), (5, 9), (4,), r"\(4, 5\).*\(5, 9\)"),
        ((5,), (5,), (), r"\(5,\).*\(5,\)"),
        ((4, 5), (9, 5), (3,), r"\(3,\).*\(4, 5\)"),
        ((4, 5), (9, 5), (4, 1), r"\(4, 1\).*\(4, 5\)"),
        ((2, 2, 5), (9, 5), (4,), r"\(4,\).*\(2, 2, 5\)"),
    ],
)
def test_shapes_that_do_not_match(hidden, weight, targets, numbers):
    with pytest.raises(ValueError, match=numbers):
        tied_cross_entropy(
            torch.zeros(hidden), torch.zeros(weight), torch.zeros(targets).long()
        )


@pytest.mark.parametrize("shape", [(10,), (1,), (11, 1), ()])
def test_a_bias_of_another_shape(shape):
    hidden, weight, _, targets = problem(dtype=torch.float32)
    with pytest.raises(ValueError, match="does not fit a table of 11 rows"):
        tied_cross_entropy(hidden, weight, targets, bias=torch.zeros(shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"chunk_size": -3, "chunk_by": "tokens"}, "at least 1, got -3"),
        ({"chunk_by": "rows"}, "'vocabulary', 'tokens'.*'rows'"),
        ({"reduction": "max"}, "'mean', 'sum', 'none'.*'max'"),
        ({"softcap": 0.0}, r"above 0, got 0\.0"),
        ({"softcap": math.nan}, "above 0, got nan"),
        ({"z_loss": -1e-4}, r"at least 0, got -0\.0001"),
    ],
)
def test_options_out_of_range(options, message):
    hidden, weight, _, targets = problem()
    with pytest.raises(ValueError, match=message):
        tied_cross_entropy(hidden, weight, targets, **options)


# Cases of others' faults, by their ids ----------------------------------------

BOTH = pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
ALL = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def weighted(loss):
    """One number from a loss of any reduction, in which no token is like another."""
    return (loss * torch.arange(1, loss.numel() + 1).view(loss.shape)).sum()


@BOTH
@ALL
def test_p4_gradients_under_torch_func_equal_full_logits(chunk_by, reduction):
    hidden, weight, bias, targets = problem()
    targets[1] = -100

    def ours(*tensors):
        options = {"chunk_by": chunk_by, "chunk_size": 3, "reduction": reduction}
        loss = tied_cross_entropy(*tensors[:2], targets, bias=tensors[2], **options)
        return weighted(loss)

    def full(*tensors):
        return weighted(
            plain(*tensors[:2], targets, bias=tensors[2], reduction=reduction)
        )

    inputs = hidden.detach(), weight.detach(), bias.detach()
    found = torch.func.grad(ours, argnums=(0, 1, 2))(*inputs)
    wanted = torch.func.grad(full, argnums=(0, 1, 2))(*inputs)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.func.grad(ours)(*inputs), wanted[0])
    value, pull_back = torch.func.vjp(ours, *inputs)
    torch.testing.assert_close(value, full(*inputs))
    torch.testing.assert_close(pull_back(torch.ones_like(value)), wanted)


@BOTH
@ALL
@pytest.mark.parametrize("order", ["gradient of each", "each gradient"])
def test_p4_one_loss_a_sample_by_vmap(chunk_by, reduction, order):
    _, weight, bias, _ = (x.detach() for x in problem())
    hidden = torch.randn(4, N, D, dtype=torch.float64)
    targets = torch.randint(0, V, (4, N))
    targets[2, 1] = -100
    options = {"chunk_by": chunk_by, "chunk_size": 3, "reduction": reduction}

    def ours(weight, hidden, targets):
        return weighted(
            tied_cross_entropy(hidden, weight, targets, bias=bias, **options)
        )

    def full(weight, hidden, targets):
        return weighted(plain(hidden, weight, targets, bias=bias, reduction=reduction))

    samples = {"in_dims": (None, 0, 0)}

    def transform(loss):
        if order == "each gradient":
            return torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), **samples)
        each = torch.func.vmap(loss, **samples)
        return torch.func.grad(lambda *inputs: each(*inputs).sum(), argnums=(0, 1))

    found, wanted = (transform(f)(weight, hidden, targets) for f in (ours, full))
    torch.testing.assert_close(found, wanted)


@BOTH
def test_p4_heads_by_vmap(chunk_by):
    """Several tables over the same hidden states, and a batch axis in the middle."""
    hidden, _, _, targets = problem()
    tables = torch.randn(V, 3, D, dtype=torch.float64)
    loss = torch.func.vmap(
        lambda table: tied_cross_entropy(hidden, table, targets, chunk_by=chunk_by),
        in_dims=1,
    )
    wanted = torch.stack([plain(hidden, tables[:, i], targets) for i in range(3)])
    torch.testing.assert_close(loss(tables), wanted)


@BOTH
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_p4_jvp_and_second_derivatives_are_refused_by_name(chunk_by):
    hidden, weight, _, targets = (x.detach() for x in problem())

    def loss(weight):
        return tied_cross_entropy(hidden, weight, targets, chunk_by=chunk_by)

    with pytest.raises(RuntimeError, match="tied_cross_entropy has no forward-mode"):
        torch.func.jvp(loss, (weight,), (weight,))
    with pytest.raises(RuntimeError, match="tied_cross_entropy has no second"):
        torch.func.grad(lambda w: torch.func.grad(loss)(w).sum())(weight)
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="tied_cross_entropy has no forward-mode"),
    ):
        loss(torch.autograd.forward_ad.make_dual(weight, weight))


@BOTH
def test_p4_a_wrong_target_is_named_under_vmap(chunk_by):
    hidden, weight, _, targets = problem()
    loss = torch.func.vmap(
        lambda h, y: tied_cross_entropy(h, weight, y, chunk_by=chunk_by)
    )
    with pytest.raises(IndexError, match=rf"target {V} .* {V} rows"):
        loss(hidden[:, None], torch.full_like(targets[:, None], V))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("twice", [False, True])
def test_p5_a_loss_scale_comes_before_rounding_to_float16(chunk_by, reduction, twice):
    generator = torch.Generator().manual_seed(0)
    n, v, d = 2**13, 512, 16
    hidden = 0.02 * torch.randn(n, d, generator=generator)
    weight = 0.02 * torch.randn(v, d, generator=generator)
    targets = torch.randint(0, v, (n,), generator=generator)
    scale = 65_536 if reduction == "mean" else 8

    def found(loss, dtype):
        inputs = [x.to(dtype).requires_grad_() for x in (hidden, weight)]
        value = loss(*inputs) * scale
        if twice:
            torch.autograd.grad(value, inputs, retain_graph=True)
        return [x.double() / scale for x in torch.autograd.grad(value, inputs)]

    def ours(*inputs):
        with torch.autocast("cpu", torch.float16):
            options = {"chunk_by": chunk_by, "reduction": reduction}
            return tied_cross_entropy(*inputs, targets, **options)

    exact = found(lambda *x: plain(*x, targets, reduction=reduction), torch.float64)
    for dtype in (torch.float32, torch.float16):
        for got, truth in zip(found(ours, dtype), exact, strict=True):
            assert (got == 0).double().mean() < 1e-3
            assert ((got - truth).norm() / truth.norm()).item() < 2e-3


@BOTH
@ALL
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("ignore_index", [-100, 300, 2**40])
def test_p10_small_integers_are_not_wrapped(chunk_by, reduction, dtype, ignore_index):
    hidden, weight, _, _ = problem(v=256, n=6)
    targets = torch.tensor([0, 5, 44, 100, 127, 3])
    if dtype == torch.uint8:
        targets[4] = 156  # -100 in eight bits
    options = {"chunk_by": chunk_by, "reduction": reduction}
    found = tied_cross_entropy(
        hidden, weight, targets.to(dtype), ignore_index, **options
    )
    wanted = plain(hidden, weight, targets, ignore_index, reduction=reduction)
    torch.testing.assert_close(found, wanted)


@BOTH
def test_p26_sizes_of_numpy(chunk_by):
    hidden, weight, _, targets = problem()
    options = {"chunk_by": chunk_by, "chunk_size": np.uint8(3)}
    loss = tied_cross_entropy(hidden, weight, targets, np.int64(-100), **options)
    torch.testing.assert_close(loss, plain(hidden, weight, targets))
    for name in ("chunk_size", "ignore_index"):
        with pytest.raises(TypeError, match=f"{name} must be an int, got bool True"):
            tied_cross_entropy(hidden, weight, targets, **{name: True})


@BOTH
def test_p27_the_default_dtype_has_no_say(chunk_by):
    hidden, weight, bias, targets = problem(dtype=torch.float32)
    options = {"bias": bias, "chunk_by": chunk_by, "chunk_size": 2, "z_loss": 0.1}

    def found():
        loss = tied_cross_entropy(hidden, weight, targets, **options)
        return loss, *gradients(loss, (hidden, weight, bias))

    wanted = found()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert all(map(torch.equal, found(), wanted))
    finally:
        torch.set_default_dtype(torch.float32)


@BOTH
@ALL
@pytest.mark.parametrize("strange", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("place", [0, 2, 6])
@pytest.mark.parametrize("options", [{}, {"z_loss": 0.1}, {"softcap": 2.0}])
def test_p28_an_ignored_row_has_no_effect(chunk_by, reduction, strange, place, options):
    hidden, weight, bias, targets = problem()
    targets[place] = -100
    options = {**options, "bias": bias, "chunk_by": chunk_by, "chunk_size": 3}

    def found(row):
        changed = hidden.detach().clone()
        changed[place] = row
        inputs = changed.requires_grad_(), weight, bias
        loss = tied_cross_entropy(*inputs[:2], targets, reduction=reduction, **options)
        first = torch.autograd.grad(weighted(loss), inputs, retain_graph=True)
        return loss, *first, *torch.autograd.grad(weighted(loss), inputs)

    for got, wanted in zip(found(strange), found(0.0), strict=True):
        assert torch.equal(got, wanted)
    assert found(strange)[1][place].count_nonzero() == 0


@BOTH
@ALL
def test_p28_equals_cross_entropy(chunk_by, reduction):
    hidden, weight, _, targets = problem()
    with torch.no_grad():
        hidden[2] = torch.inf
    targets[2] = -100
    options = {"reduction": reduction}
    found = tied_cross_entropy(hidden, weight, targets, chunk_by=chunk_by, **options)
    torch.testing.assert_close(found, plain(hidden, weight, targets, **options))


@BOTH
@ALL
@pytest.mark.parametrize("size", [1e20, -1e20, 3e30])
def test_p33_huge_logits_are_finite_where_cross_entropy_is(chunk_by, reduction, size):
    hidden, weight, bias, targets = problem(dtype=torch.float32)
    with torch.no_grad():
        hidden *= size
    inputs = hidden, weight, bias
    options = {"bias": bias, "reduction": reduction}
    found = tied_cross_entropy(hidden, weight, targets, chunk_by=chunk_by, **options)
    wanted = plain(hidden, weight, targets, **options)
    assert wanted.isfinite().all()
    torch.testing.assert_close(found, wanted)
    got = gradients(weighted(found), inputs)
    for ours, right in zip(got, gradients(weighted(wanted), inputs), strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_p2_plans_a_training_step_under_fake_tensors(chunk_by, dtype):
    with FakeTensorMode():
        hidden = torch.randn(3, 4, dtype=dtype, requires_grad=True)
        table = torch.randn(8, 4, dtype=dtype, requires_grad=True)
        goals = torch.tensor([1, 2, 1])
        tied_cross_entropy(hidden, table, goals, chunk_by=chunk_by).backward()
    assert hidden.grad.shape == (3, 4)
    assert table.grad.shape == (8, 4)


@pytest.mark.parametrize("chunk_by", ["vocabulary", "tokens"])
def test_p2_plans_a_training_step_on_the_meta_device(chunk_by):
    hidden = torch.randn(3, 4, device="meta", requires_grad=True)
    table = torch.randn(8, 4, device="meta", requires_grad=True)
    goals = torch.zeros(3, dtype=torch.long, device="meta")
    tied_cross_entropy(hidden, table, goals, chunk_by=chunk_by).backward()
    assert table.grad.shape == (8, 4)


def test_autocast_leaves_float64_as_a_linear_layer_does():
    hidden, table = torch.randn(3, 4).double(), torch.randn(8, 4).double()
    goals = torch.tensor([1, 2, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = tied_cross_entropy(hidden, table, goals)
        plain = F.cross_entropy(F.linear(hidden, table), goals)
    assert found.dtype == plain.dtype == torch.float64
    torch.testing.assert_close(found, plain)
