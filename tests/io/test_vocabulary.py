"""Vocabularies and documents as numbers; small tables by the names of contrib.learn."""
from __future__ import annotations

import json
import re

import numpy as np
import pytest

from workbench import errors
from workbench.io import tables
from workbench.io.vocabulary import ByteProcessor, CategoricalVocabulary, VocabularyProcessor, tokenizer

TEXTS = ["a cat, a dog", "the dog's day", "a a b"]


def test_words_are_found():
    assert list(tokenizer(["I'm at TensorFlowTutorial-2, NASA!"])) == [["I'm", "at", "Tensor", "Flow", "Tutorial-2", "NASA"]]


def test_documents_become_rows_of_word_numbers():
    processor = VocabularyProcessor(4)
    found = np.array(list(processor.fit_transform(TEXTS)))
    assert found.dtype == np.int64 and found.tolist() == [[1, 2, 1, 3], [4, 5, 6, 0], [1, 1, 7, 0]]
    assert len(processor.vocabulary_) == 8
    assert [row.tolist() for row in processor.transform(["new cat a b dog"])] == [[0, 2, 1, 7]]
    assert list(processor.reverse([[1, 2, 0]])) == ["a cat <UNK>"]


def test_rare_words_are_unknown_and_frequent_ones_come_first():
    processor = VocabularyProcessor(3, min_frequency=1)
    assert [row.tolist() for row in processor.fit_transform([*TEXTS, "dog"])] == [[1, 0, 1], [0, 0, 0], [1, 1, 0], [2, 0, 0]]
    vocabulary = CategoricalVocabulary()
    for word, count in (("x", 3), ("y", 5), ("z", 9)):
        vocabulary.add(word, count)
    vocabulary.trim(2, max_frequency=9)
    vocabulary.freeze()
    assert [vocabulary.get(w) for w in "xyzw"] == [2, 1, 0, 0] and vocabulary.reverse(1) == "y"
    with pytest.raises(errors.InvalidArgumentError, match="there is no category 3; there are 3"):
        vocabulary.reverse(3)


def test_a_processor_is_saved_as_text_and_restored(tmp_path):
    processor = VocabularyProcessor(4, min_frequency=1)
    rows = [row.tolist() for row in processor.fit_transform(TEXTS)]
    processor.save(tmp_path / "vocabulary")
    assert json.loads((tmp_path / "vocabulary").read_text(encoding="utf-8"))["max_document_length"] == 4
    again = VocabularyProcessor.restore(tmp_path / "vocabulary")
    assert [row.tolist() for row in again.transform(TEXTS)] == rows


@pytest.mark.parametrize("content", ["no json", "{}", '{"format": "x"}'])
def test_other_files_are_refused(tmp_path, content: str):
    (tmp_path / "x").write_text(content, encoding="utf-8")
    with pytest.raises(errors.DataLossError, match=r"is not a saved vocabulary .*; pass what save"):
        VocabularyProcessor.restore(tmp_path / "x")
    with pytest.raises(errors.NotFoundError, match="does not exist; check the path"):
        VocabularyProcessor.restore(tmp_path / "y")


def test_documents_become_bytes():
    processor = ByteProcessor(4)
    found = np.array(list(processor.fit(TEXTS).fit_transform(["é", b"abcdef"])))
    assert found.dtype == np.uint8 and found.tolist() == [[195, 169, 0, 0], [97, 98, 99, 100]]
    assert list(processor.reverse(found)) == ["é", "abcd"]


def test_a_length_of_nothing_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="max_document_length is 0; use 1 or more"):
        VocabularyProcessor(0)


# tables

def test_iris_is_at_hand():
    iris = tables.load_dataset("iris")
    assert iris.data.shape == (150, 4) and iris.data.dtype == np.float64 and np.bincount(iris.target).tolist() == [50] * 3
    with pytest.raises(ValueError, match="load_dataset: there is no data set 'x'; there is boston, iris, mnist"):
        tables.load_dataset("x")


def test_houses_in_boston_are_read_from_a_file_that_one_has(tmp_path, monkeypatch):
    (tmp_path / "boston_house_prices.csv").write_text("2,2,CRIM,ZN,MEDV\n1,2,3.5\n4,5,6\n", encoding="utf-8")
    found = tables.load_boston(tmp_path / "boston_house_prices.csv")
    assert found.data.tolist() == [[1, 2], [4, 5]] and found.target.tolist() == [3.5, 6] and found.target.dtype == np.float64
    monkeypatch.setattr(tables.settings, "data", tmp_path)
    assert tables.load_dataset("boston").data.tolist() == found.data.tolist()
    monkeypatch.setattr(tables.settings, "data", tmp_path / "nowhere")
    with pytest.raises(errors.NotFoundError, match=r"nowhere/boston_house_prices\.csv' does not exist"):
        tables.load_boston()
    monkeypatch.setattr(tables.settings, "data", None)
    with pytest.raises(errors.NotFoundError, match="WORKBENCH_DATA is not set; give the path of boston_house"):
        tables.load_boston()


def test_csv_files_with_and_without_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("2,3,setosa,virginica\n1,2,3.5,0\n4,5,6,1\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("0,1,2\n1,4,5\n", encoding="utf-8")
    found = tables.load_csv_with_header(tmp_path / "a.csv", np.int64, np.float32)
    assert found.data.tolist() == [[1, 2, 3.5], [4, 5, 6]] and found.target.tolist() == [0, 1]
    assert tables.load_iris(tmp_path / "a.csv").data.dtype == np.float64
    found = tables.load_csv_without_header(tmp_path / "b.csv", np.int64, np.int64, target_column=0)
    assert found.data.tolist() == [[1, 2], [4, 5]] and found.target.tolist() == [0, 1]


@pytest.mark.parametrize(("content", "text"), [
    ("x,y\n1,2\n", "begins with 'x,y' but the numbers of rows and features are needed; use load_csv_without_header"),
    ("3,1\n1,0\n", "announces 3 rows of 1 features but has 1 rows; get the file again"),
    ("1,1\nx,0\n", "holds other data (could not convert string to float: 'x'); check the file and the dtypes")])
def test_wrong_tables_are_named(tmp_path, content: str, text: str):
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(errors.DataLossError, match=re.escape(text)):
        tables.load_csv_with_header(tmp_path / "a.csv", np.int64, np.float32)


def test_missing_and_ragged_tables_are_named(tmp_path):
    with pytest.raises(errors.NotFoundError, match="'/no/such' does not exist; check the path"):
        tables.load_csv_without_header("/no/such", np.int64, np.float32)
    (tmp_path / "a.csv").write_text("1,2\n3\n", encoding="utf-8")
    with pytest.raises(errors.DataLossError, match="has rows of 1, 2 fields; all must have the same number"):
        tables.load_csv_without_header(tmp_path / "a.csv", np.int64, np.float32)
