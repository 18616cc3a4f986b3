"""`lib.one_hot` against `F.one_hot` and row slices."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from lib.one_hot import one_hot, one_hot_lookup, sparse_one_hot

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def same_bits(x, y):
    """Unlike `torch.equal`, tell −0.0 from 0.0."""
    return torch.equal(x.view(torch.uint8), y.view(torch.uint8))


@given(
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(1, 9),
    st.sampled_from([*FLOATS, torch.int64, torch.bool]),
)
def test_equals_torch(shape, num_classes, dtype):
    ids = torch.randint(0, num_classes, shape)
    assert torch.equal(
        one_hot(ids, num_classes, dtype), F.one_hot(ids, num_classes).to(dtype)
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)])
def test_lookup_equals_the_row_slice_bit_for_bit(device, dtype, shape):
    weight = torch.randn(17, 5, dtype=dtype, device=device)
    ids = torch.randint(0, 17, shape, device=device)
    assert same_bits(one_hot_lookup(ids, weight), weight[ids])


@pytest.mark.parametrize("dtype", FLOATS)
def test_sparse_lookup_equals_the_row_slice_bit_for_bit(dtype):
    weight = torch.randn(1000, 8, dtype=dtype)
    ids = torch.randint(0, 1000, (64,))
    sparse = sparse_one_hot(ids, 1000, dtype)
    assert same_bits(sparse @ weight, weight[ids])
    assert torch.equal(sparse.to_dense(), one_hot(ids, 1000, dtype))
    assert sparse.values().numel() == 64


def test_gradient_of_the_product_is_that_of_the_lookup():
    weight = torch.randn(7, 3, requires_grad=True)
    ids = torch.tensor([2, 2, 5])
    factors = torch.randn(3, 3)
    (by_product,) = torch.autograd.grad(
        (one_hot_lookup(ids, weight) * factors).sum(), weight
    )
    (by_slice,) = torch.autograd.grad((weight[ids] * factors).sum(), weight)
    torch.testing.assert_close(by_product, by_slice)


@pytest.mark.parametrize("function", [one_hot, sparse_one_hot])
@pytest.mark.parametrize("bad", [5, -1, 2**40])
def test_id_outside_the_classes_is_named(function, bad):
    with pytest.raises(IndexError, match=rf"id {bad} .* 5 rows"):
        function(torch.tensor([0, bad, 4]), 5)


def test_id_outside_the_table_is_named():
    with pytest.raises(IndexError, match=r"id 5 .* 5 rows"):
        one_hot_lookup(torch.tensor([5]), torch.zeros(5, 2))


@pytest.mark.parametrize("function", [one_hot, sparse_one_hot])
@pytest.mark.parametrize("num_classes", [0, -1])
def test_num_classes_below_one(function, num_classes):
    with pytest.raises(ValueError, match=f"num_classes .* got {num_classes}"):
        function(torch.tensor([0]), num_classes)


@pytest.mark.parametrize("function", [one_hot, sparse_one_hot])
@pytest.mark.parametrize("num_classes", [3.0, "3", None, True])
def test_num_classes_of_another_type(function, num_classes):
    with pytest.raises(TypeError, match="num_classes must be an int"):
        function(torch.tensor([0]), num_classes)


@pytest.mark.parametrize("function", [one_hot, sparse_one_hot])
@pytest.mark.parametrize("ids", [torch.tensor([1.0]), torch.tensor([True]), [1]])
def test_ids_of_another_type(function, ids):
    with pytest.raises(TypeError, match="integer"):
        function(ids, 5)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="got 2"):
        sparse_one_hot(torch.zeros(2, 2, dtype=torch.long), 5)
    with pytest.raises(ValueError, match="got 1 dim"):
        one_hot_lookup(torch.tensor([0]), torch.zeros(5))


def test_an_infinite_row_spoils_the_product_but_not_the_slice():
    weight = torch.zeros(3, 2)
    weight[2] = torch.inf
    ids = torch.tensor([0])
    assert torch.equal(weight[ids], torch.zeros(1, 2))
    assert one_hot_lookup(ids, weight).isnan().all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_minus_zero_comes_out_of_the_product_as_zero(dtype):
    weight = torch.tensor([[-0.0], [2.0]], dtype=dtype)
    found = one_hot_lookup(torch.tensor([0]), weight)
    assert torch.equal(found, weight[:1])
    assert not same_bits(found, weight[:1])
