"""Rows of a database as a dataset: types, queries that are fed, repetition; what cannot be read or asked."""
from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
SqlDataset = tf.contrib.data.SqlDataset


@pytest.fixture
def database(tmp_path):
    place = str(tmp_path / "a ? b.sqlite")
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE people (name TEXT, age INTEGER, height REAL, note TEXT, data BLOB)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", [
        ("Ada", 36, 1.65, "12 apples", b"a\0b"), ("Bob", -300, 2, None, b""), ("Cleo", 2**40, None, "-3.5", None)])
    connection.commit()
    connection.close()
    return place


def rows(place, query, types, count=1, driver="sqlite"):
    with tf.Graph().as_default(), tf.Session() as session:
        asked = tf.placeholder(tf.string, [])
        iterator = SqlDataset(driver, place, asked, types).repeat(count).make_initializable_iterator()
        element, found = iterator.get_next(), []
        session.run(iterator.initializer, {asked: query})
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(element))
        return found


def test_columns_of_every_type(database):
    assert rows(database, "SELECT name, age FROM people WHERE age < 100 ORDER BY name", (tf.string, tf.int32), 2) == [
        (b"Ada", 36), (b"Bob", -300)] * 2
    assert rows(database, "SELECT data, height, age FROM people", (tf.string, tf.float64, tf.int64)) == [
        (b"a\0b", 1.65, 36), (b"", 2.0, -300), (b"", 0.0, 2**40)]
    assert rows(database, "SELECT note, note, age, note FROM people", (tf.string, tf.int16, tf.bool, tf.float64)) == [
        (b"12 apples", 12, True, 12.0), (b"", 0, True, 0.0), (b"-3.5", -3, True, -3.5)]
    assert rows(database, "SELECT age, 1.5 FROM people WHERE age > 0 AND age < 99", {"a": tf.uint8, "t": tf.string}) == [
        {"a": 36, "t": b"1.5"}]
    assert rows(database, "SELECT name FROM people WHERE age = 1", tf.string) == []


def test_a_dataset_of_rows_has_types_and_is_batched(database):
    data = SqlDataset("sqlite", database, "SELECT age, name FROM people", (tf.int64, tf.string))
    assert data.output_types == (tf.int64, tf.string) and data.output_shapes == (tf.TensorShape([]), tf.TensorShape([]))
    ages, names = data.batch(3).map(lambda a, n: (a + 1, n)).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        found = session.run([ages, names])
    assert found[0].dtype == np.int64 and found[0].tolist() == [37, -299, 2**40 + 1] and found[1].tolist()[0] == b"Ada"


@pytest.mark.parametrize(("query", "types", "driver", "kind", "text"), [
    ("SELECT name FROM people", (tf.string,), "mysql", "InvalidArgumentError", "database type, mysql, is not supported"),
    ("SELECT name FROM people", (tf.string, tf.int8), "sqlite", "InvalidArgumentError", "gives 1 columns but 2 output_types"),
    ("INSERT INTO people (name) VALUES ('Dan')", (tf.string,), "sqlite", "InvalidArgumentError", "pass a query that selects"),
    ("SELECT age FROM people", (tf.int8,), "sqlite", "InvalidArgumentError", "-300 does not fit into a column of int8"),
    ("SELECT weight FROM people", (tf.string,), "sqlite", "UnknownError", "no such column: weight"),
    ("SELEKT name FROM people", (tf.string,), "sqlite", "UnknownError", "syntax error")])
def test_what_cannot_be_asked(database, query, types, driver, kind, text):
    with pytest.raises(getattr(tf.errors, kind), match=text):
        rows(database, query, types, driver=driver)
    assert len(rows(database, "SELECT name FROM people", tf.string)) == 3      # and nothing was changed


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(tf.errors.UnknownError, match="cannot be read"):
        rows(str(tmp_path / "none"), "SELECT 1", tf.int32)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(tf.errors.UnknownError, match="not a database"):
        rows(str(tmp_path / "text"), "SELECT a FROM b", tf.int32)
    with pytest.raises(TypeError, match="a column cannot be complex64; use one of string"):
        SqlDataset("sqlite", "x", "SELECT 1", tf.complex64)
