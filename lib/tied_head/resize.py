"""More rows, or fewer, for an embedding table and its output head."""

from torch import nn

from lib.checks import check_size
from lib.device import outside_inference
from lib.tied_head.head import TiedLMHead, is_tied, refuse_parametrized
from lib.token_embedding import TokenEmbedding


def resize_token_embeddings(
    embedding: nn.Module,
    head: nn.Module,
    n: int,
    pad_to_multiple_of: int | None = None,
) -> tuple[nn.Module, nn.Module]:
    """Change the number of rows of a table and its head, in place.

    Rows that stay are kept bit for bit; new ones are drawn as `TokenEmbedding` draws
    its table, new entries of a bias are zero. A tied pair stays tied, an untied head
    is resized on its own. The weights are new Parameters: make the optimiser anew.

    Args:
        embedding: a module with `weight` `[V, d]`.
        head: a `TiedLMHead` or an `nn.Linear`.
        n: rows wanted.
        pad_to_multiple_of: round the rows up to a multiple of this.

    Returns:
        The embedding and the head. Both report the rows that they have, with the
        padding: `embedding.num_embeddings` and `head.out_features`.

    Raises:
        TypeError: n or the multiple is not an int.
        ValueError: n or the multiple is below 1, a weight is parametrized, or the head
            is tied to another embedding.
        IndexError: the padding row would be cut off.

    Example:
        >>> table, head = nn.Embedding(10, 4), nn.Linear(4, 10)
        >>> head.weight = table.weight
        >>> _ = resize_token_embeddings(table, head, 11, pad_to_multiple_of=8)
        >>> table.num_embeddings, head.out_features, head.weight is table.weight
        (16, 16, True)
    """
    n = check_size("n", n)
    if pad_to_multiple_of is not None:
        multiple = check_size("pad_to_multiple_of", pad_to_multiple_of)
        n = -(-n // multiple) * multiple
    refuse_parametrized(embedding, head)
    padding_idx = getattr(embedding, "padding_idx", None)
    if padding_idx is not None and padding_idx >= n:
        raise IndexError(f"padding_idx {padding_idx} is outside a table of {n} rows")
    std, tied = getattr(embedding, "std", 0.02), is_tied(embedding, head)
    if isinstance(head, TiedLMHead) and not tied:
        raise ValueError("the head is tied to another embedding")
    embedding.weight = _resized(embedding.weight, n, std)
    if not isinstance(embedding, TokenEmbedding):  # which reads it off its table
        embedding.num_embeddings = n
    if not tied:
        head.weight = _resized(head.weight, n, std)
    elif head.weight is not embedding.weight:  # an nn.Linear does not follow by itself
        head.weight = embedding.weight
    if getattr(head, "bias", None) is not None:
        head.bias = _resized(head.bias, n, 0.0)
    if isinstance(head, nn.Linear):
        head.out_features = n
    return embedding, head


def _resized(old: nn.Parameter, n: int, std: float) -> nn.Parameter:
    with outside_inference():
        new = old.new_empty(n, *old.shape[1:]).normal_(0, std)
        kept = min(n, len(old))
        new[:kept] = old.detach()[:kept]
        return nn.Parameter(new, requires_grad=old.requires_grad)
