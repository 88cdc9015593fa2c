"""The index: finds the right passage, survives any query, is shared between processes."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault
from maxkernel.knowledge import Library, open_library

QUESTIONS = {
    "kernel ran out of memory in memory space vmem": "guide/errors/ran-out-of-memory",
    "Unimplemented primitive in Pallas TPU lowering for tc: cumsum": "guide/errors/unimplemented",
    "how to write a cumulative sum": "guide/strategies/cumulative-sums",
    "double buffering with manual dma": "guide/manual-dma/double-buffering",
    "index map must not capture constants": "guide/errors/index-map-function-must-not-capture",
    "gather rows by data dependent index": "guide/scalar-prefetch",
    "attention online softmax": "guide/strategies/attention",
    "second TensorCore v5p parallel": "guide/generations/v5p",
    "PrefetchScalarGridSpec": "api/pltpu.PrefetchScalarGridSpec",
    "pltpu.TPUCompilerParams has no attribute": "guide/errors/module-has-no-attribute",
    "cannot statically prove that index in dimension 0 is a multiple of 8": "guide/errors/cannot",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    opened = open_library(Settings(cache_dir=str(tmp_path_factory.mktemp("cache"))))
    yield opened
    opened.close()


@pytest.mark.parametrize("query", QUESTIONS)
def test_the_right_passage_is_among_the_first_three(library: Library, query: str):
    ids = [hit.id for hit in library.search_docs(query, 3)]
    assert any(id.startswith(QUESTIONS[query]) for id in ids), ids


@given(query=st.text(max_size=200), k=st.integers(-1, 8))
def test_any_text_is_a_query(library: Library, query: str, k: int):
    assert len(library.search_docs(query, k)) <= max(k, 0)


def test_operators_of_the_query_language_mean_nothing(library: Library):
    assert library.search_docs('AND OR NOT NEAR( "vmem', 3)


def test_entries_are_read_whole(library: Library):
    text = library.read_doc("guide/errors/unsupported-dot-precision")
    assert text is not None and "HIGHEST" in text and text.startswith("# ")
    assert library.read_doc("guide/errors/none-such") is None
    assert len(library.ids()) > 400


def test_many_threads_read_at_once(library: Library):
    faults: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(50):
                assert library.search_docs("block shape", 5)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_two_processes_build_one_index(tmp_path: Path):
    code = (
        "import sys; from maxkernel.config import Settings;"
        "from maxkernel.knowledge import open_library;"
        f"print(len(open_library(Settings(cache_dir={str(tmp_path)!r})).ids()))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    counts = {process.communicate(timeout=60)[0].strip() for process in running}
    assert len(counts) == 1 and int(counts.pop()) > 400
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(EnvironmentFault, match="cannot write the documentation index"):
        open_library(Settings(cache_dir=str(blocker)))
