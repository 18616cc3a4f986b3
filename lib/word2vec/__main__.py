"""Train word vectors on a folder of texts: `python -m lib.word2vec --help`."""

from lib.word2vec.command import main

if __name__ == "__main__":
    raise SystemExit(main())
