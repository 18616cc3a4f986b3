"""The torch library of the book *Embeddings & Representations*.

One concept, one module: `lib.rope` is what the chapter on RoPE imports, and so on.
Nothing is re-exported here; import from the module that you need.
"""
