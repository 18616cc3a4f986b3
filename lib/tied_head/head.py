"""One table for both ends of a model: the output head that owns no weight."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from lib.checks import check_floating, number
from lib.device import outside_inference


class TiedLMHead(nn.Module):
    """Map hidden states `[..., d]` to logits `[..., V]` with an embedding's table.

    The head keeps the embedding *module* and asks it for `weight` in every call; it
    owns no table and draws no random numbers. So the tie survives whatever happens to
    the weight: `.to`, copying, pickling, loading (also with `assign=True`), the meta
    device, a new Parameter. A model's state has one key for the pair, the embedding's.
    If the model gets another embedding *module*, call `tie_weights`.

    A state may also hold a table under the head's own key. If it equals the
    embedding's, it is accepted; if the embedding's is missing, the embedding gets it.

    With FSDP2 leave the embedding in the root's group, or shard both as one group,
    `fully_shard([embedding, head])`: a head outside the group sees a sharded table.
    `nn.DataParallel` copies modules one by one and cannot see the tie; it is refused.

    Args:
        embedding: a module with `weight` `[V, d]`, such as `TokenEmbedding`.
        bias: add one learned number to each logit; it starts at zero.
        scale: factor on the hidden states (T5: d^-½ where the head is tied).

    Raises:
        TypeError: an embedding without a two-dimensional weight, a scale that is not a
            number, hidden states that are not floating point.
        ValueError: a scale that is not finite, hidden states of another width, and
            loading a state whose head differs from its embedding.
        RuntimeError: `nn.DataParallel`.

    Source:
        Press & Wolf 2017 and Inan et al. 2017 (one table); T5's scale as in
        transformers 5.24. Keeping the module and not the weight: torchtune 0.6,
        TiedLinear.

    Example:
        >>> from lib.token_embedding import TokenEmbedding
        >>> table = TokenEmbedding(5, 3)
        >>> head = TiedLMHead(table)
        >>> head(torch.ones(2, 3)).shape, list(head.parameters())
        (torch.Size([2, 5]), [])
    """

    def __init__(self, embedding: nn.Module, bias: bool = False, scale: float = 1.0):
        super().__init__()
        self.scale = number("scale", scale)
        self._hold(embedding)
        self.register_parameter("bias", None)
        if bias:
            weight = embedding.weight
            zeros = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
            self.bias = nn.Parameter(zeros)  # [V]

    def _hold(self, embedding: nn.Module) -> None:
        weight = getattr(embedding, "weight", None)
        is_table = isinstance(weight, Tensor) and weight.dim() == 2
        if not (isinstance(embedding, nn.Module) and is_table):
            raise TypeError(
                "needs an embedding with a weight [V, d], got "
                f"{type(embedding).__name__} with {getattr(weight, 'shape', None)}"
            )
        # In a tuple, torch does not take it for a part of the head.
        self._held, self._seen = (embedding,), None
        embedding.register_load_state_dict_pre_hook(self._embedding_loads)

    @property
    def embedding(self) -> nn.Module:
        """The module whose table this head uses."""
        return self._held[0]

    @property
    def weight(self) -> Tensor:
        """The embedding's table as it is now, `[V, d]`."""
        return self.embedding.weight

    @property
    def out_features(self) -> int:
        """Rows of the table, V."""
        return self.weight.shape[0]

    @property
    def in_features(self) -> int:
        """Width of the table, d."""
        return self.weight.shape[1]

    def reset_parameters(self) -> None:
        """Set the bias, if there is one, to zero."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute logits: `[..., d]` to `[..., V]`.

        Args:
            hidden: floating point `[..., d]`.
        """
        check_floating("hidden states", hidden)
        if hidden.shape[-1:] != self.weight.shape[1:]:
            raise ValueError(
                f"hidden states {tuple(hidden.shape)} do not fit a table "
                f"{tuple(self.weight.shape)}: both end in the width d"
            )
        if self.scale != 1.0:
            hidden = hidden * self.scale
        return F.linear(hidden, self.weight, self.bias)  # [..., V]

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are set."""
        bias = "" if self.bias is None else ", bias=True"
        scale = "" if self.scale == 1.0 else f", scale={self.scale:.4g}"
        return f"{self.in_features}, {self.out_features}{bias}{scale}"

    def _replicate_for_data_parallel(self):
        """Refuse: the replica would go on reading the original's table."""
        raise RuntimeError(
            "nn.DataParallel would leave a tied head with the table of the first "
            "device: use DistributedDataParallel or FSDP2"
        )

    # Loading. The embedding and the head are visited in the order in which the model
    # holds them, and each sees its own keys alone. `_seen` is what the first of the
    # two leaves for the second: the list of missing keys, which tells one load from
    # another, its own key, and the table that the state holds for the head.

    def _embedding_loads(
        self, embedding, state, prefix, metadata, strict, missing, unexpected, errors
    ):
        if embedding is not self.embedding:  # it was replaced by `tie_weights`
            return
        key, seen, self._seen = prefix + "weight", self._seen, None
        if seen is None or seen[0] is not missing or seen[2] is None:
            self._seen = missing, key, None
            return
        _, head_key, table = seen
        unexpected.remove(head_key)
        if key in state:
            _check_same(head_key, table, key, state[key])
        else:
            state[key] = table

    def _load_from_state_dict(
        self, state, prefix, metadata, strict, missing, unexpected, errors
    ):
        key = prefix + "weight"
        seen, self._seen = self._seen, None
        table = state.pop(key, None)
        rest = metadata, strict, missing, unexpected, errors
        super()._load_from_state_dict(state, prefix, *rest)
        if table is None:
            return
        if seen is None or seen[0] is not missing:
            unexpected.append(key)  # until the embedding is loaded
            self._seen = missing, key, table
            return
        its_key = seen[1]
        if its_key in missing:
            missing.remove(its_key)
            load = self.embedding._load_from_state_dict
            load({its_key: table}, its_key.removesuffix("weight"), *rest)
        else:
            _check_same(key, table, its_key, self.weight)


def _check_same(key: str, table: Tensor, its_key: str, weight: Tensor) -> None:
    """Refuse a state whose head differs from its embedding."""
    if table.shape != weight.shape:
        difference = f"shapes {tuple(table.shape)} and {tuple(weight.shape)}"
    elif table.is_meta or weight.is_meta:
        return
    else:
        theirs = table.to(weight)
        both_nan = theirs.isnan() & weight.isnan()
        unequal = ((theirs != weight) & ~both_nan).any(1)  # [V]
        if hasattr(unequal, "full_tensor"):  # split over processes
            unequal = unequal.full_tensor()
        if not unequal.any():
            return
        difference = f"{int(unequal.sum())} of {len(weight)} rows"
    raise ValueError(
        f"the model ties its head, but {key} and {its_key} differ in this state: "
        f"{difference}. To keep both, untie the model before loading"
    )


def tie_weights(embedding: nn.Module, head: nn.Module) -> nn.Module:
    """Make a head use an embedding's table; the head's own weight, if any, is dropped.

    A `TiedLMHead` is pointed at the embedding and stays tied. An `nn.Linear` is given
    the same Parameter, which is less durable: tie again after
    `load_state_dict(assign=True)` or `to_empty`, and note that a state has two keys.

    Args:
        embedding: a module with `weight` `[V, d]`.
        head: a `TiedLMHead`, or a module with a `weight` of that shape.

    Returns:
        The head, changed in place.

    Raises:
        ValueError: a head whose weight has another shape than the table, or an
            `nn.Linear` where either weight is parametrized.

    Example:
        >>> table, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        >>> is_tied(table, head), is_tied(table, tie_weights(table, head))
        (False, True)
    """
    if head.weight.shape != embedding.weight.shape:
        raise ValueError(
            f"the head's weight {tuple(head.weight.shape)} does not fit the table "
            f"{tuple(embedding.weight.shape)}"
        )
    if not isinstance(head, TiedLMHead):
        refuse_parametrized(embedding, head)
        head.weight = embedding.weight
    elif head.embedding is not embedding:
        head._hold(embedding)
    return head


def untie(embedding: nn.Module, head: nn.Module) -> nn.Linear:
    """Give a tied head a table of its own, with the same logits but for a rounding.

    Args:
        embedding: the module that the head is tied to.
        head: the tied head; it and the embedding stay as they are.

    Returns:
        A new `nn.Linear` whose weight is a copy of the table, times the head's scale
        (an untied T5 has none), and whose bias is a copy of the bias.

    Raises:
        ValueError: the head is not tied to this embedding, or is a
            `VocabParallelHead`, which has a way of its own.

    Example:
        >>> table = nn.Embedding(5, 3)
        >>> own = untie(table, TiedLMHead(table))
        >>> torch.equal(own.weight, table.weight), is_tied(table, own)
        (True, False)
    """
    if not is_tied(embedding, head):
        raise ValueError("the head is not tied to this embedding")
    if hasattr(head, "untied"):
        name = type(head).__name__
        raise ValueError(f"a {name} is untied by {name}.untied(a second table)")
    bias = head.bias
    rows, width = head.weight.shape
    linear = nn.Linear(width, rows, bias=bias is not None, device="meta")  # draws none
    with outside_inference():
        table = head.weight.detach() * getattr(head, "scale", 1.0)  # a copy, [V, d]
        linear.weight = nn.Parameter(table, requires_grad=head.weight.requires_grad)
        if bias is not None:
            linear.bias = nn.Parameter(bias.detach().clone(), bias.requires_grad)
    return linear.train(head.training)


def is_tied(embedding: nn.Module, head: nn.Module) -> bool:
    """Tell whether a head uses the table of an embedding: its module or its Parameter.

    A `TiedLMHead` that holds the module is tied whatever becomes of the weight, also
    where it is parametrized. Equal numbers do not make a tie, and neither do two
    Parameters over one memory: an optimiser takes them for two.

    Args:
        embedding: a module with a `weight`.
        head: another.

    Example:
        >>> table = nn.Embedding(5, 3)
        >>> is_tied(table, TiedLMHead(table))
        True
    """
    if isinstance(head, TiedLMHead) and head.embedding is embedding:
        return True
    return head.weight is embedding.weight


def refuse_parametrized(*modules: nn.Module) -> None:
    """Refuse parametrized weights: what is computed cannot be put in place."""
    for module in modules:
        if is_parametrized(module):
            raise ValueError(
                f"{type(module).__name__} has computed weights: call "
                "torch.nn.utils.parametrize.remove_parametrizations first"
            )


def count_parameters(module: nn.Module) -> int:
    """Count the numbers in a module's parameters, shared ones once.

    It also counts on the meta device, where nothing is allocated.

    Args:
        module: any module.

    Example:
        >>> table = nn.Embedding(10, 4)
        >>> count_parameters(nn.Sequential(table, TiedLMHead(table)))
        40
    """
    return sum(parameter.numel() for parameter in module.parameters())
