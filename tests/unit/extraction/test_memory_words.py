from dil.extraction.sizes import memory_words


def test_a_limit_is_named_where_there_is_one() -> None:
    assert (
        memory_words(1_000_000, "a worker")
        == "the 1,000,000 bytes of memory that a worker may take"
    )
    assert memory_words(0, "a worker") == memory_words(None, "a worker") == "there is"
