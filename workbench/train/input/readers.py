"""Readers as objects of a program: records of files whose names wait in a queue (paper §4.5)."""
from __future__ import annotations

import os
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.train.input.examples import compression_of

__all__ = ["FixedLengthRecordReader", "IdentityReader", "ReaderBase", "RecordInput", "TFRecordReader", "TextLineReader",
           "WholeFileReader"]


class ReaderBase:
    """What all readers share. Keys say where a record comes from: "file:line", "file:number" or "file:offset"."""

    def __init__(self, kind: str, options: tuple[Any, ...], name: str) -> None:
        self.reader_ref: Tensor = ops.file_reader(kind=kind, options=options, name=name)

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(key, value) of the next record: string scalars; `queue` holds names of files, one is taken when needed.

        OutOfRangeError once the queue is closed and every file read; NotFoundError for a missing file, DataLossError
        for a damaged one.
        """
        return tuple(ops.reader_read(self.reader_ref, _handle(queue), name=name))

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(keys [n], values [n]) of `num_records` records, fewer only at the end of the input."""
        found = ops.reader_read_up_to(self.reader_ref, _handle(queue), num_records, name=name)
        return tuple(found)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Records given out so far: int64 scalar."""
        return ops.reader_num_records_produced(self.reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Files read to their end so far: int64 scalar."""
        return ops.reader_num_work_units_completed(self.reader_ref, name=name)

    def reset(self, name: str | None = None) -> Operation:
        """Forget the open file and the counts."""
        return ops.reader_reset(self.reader_ref, name=name)

    @property
    def supports_serialize(self) -> bool:
        """True: every reader can say where it is."""
        return True

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Where it is, for `restore_state`: string scalar."""
        return ops.reader_serialize_state(self.reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Go on where `serialize_state` was, also in another session. InvalidArgumentError for the state of another kind of
        reader, NotFoundError when the file is gone."""
        return ops.reader_restore_state(self.reader_ref, state, name=name)


def _handle(queue: Any) -> Tensor:
    return getattr(queue, "queue_ref", queue)


class TextLineReader(ReaderBase):
    """The lines of text files, without their ends; the first `skip_header_lines` of each file are left out."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__("line", (skip_header_lines or 0,), name or "TextLineReader")


class WholeFileReader(ReaderBase):
    """Whole files: the key is the name, the value the content."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__("whole", (), name or "WholeFileReader")


class IdentityReader(ReaderBase):
    """The names themselves, as key and as value; no file is opened."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__("name", (), name or "IdentityReader")


class FixedLengthRecordReader(ReaderBase):
    """Records of `record_bytes` each, between a header and a footer; the next begins `hop_bytes` on (0: right after).

    `encoding`: "ZLIB" or "GZIP" of files that are compressed as a whole."""

    def __init__(self, record_bytes: int, header_bytes: int | None = None, footer_bytes: int | None = None,
                 hop_bytes: int | None = None, name: str | None = None, encoding: str | None = None) -> None:
        options = (record_bytes, header_bytes or 0, footer_bytes or 0, hop_bytes or 0)
        if record_bytes <= 0 or min(options) < 0:
            raise errors.InvalidArgumentError(f"FixedLengthRecordReader: record, header, footer and hop bytes are "
                                              f"{options}; use a record of 1 or more and none below 0")
        compression = compression_of("FixedLengthRecordReader", encoding)
        super().__init__("fixed", (*options, compression), name or "FixedLengthRecordReader")


class TFRecordReader(ReaderBase):
    """The records of TFRecord files, which TFRecordOptions tell the compression of; checksums verified."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        super().__init__("framed", (compression_of("TFRecordReader", options),), name or "TFRecordReader")


class RecordInput:
    """Records of TFRecord files in random order, without a queue: each record once in a pass over all files.

    `file_pattern` may have wildcards; `buffer_size` records wait to be drawn, read from `parallelism` files by turns; each
    pass begins `shift_ratio` of the files further on. `batch_size` records make one batch, `batches` of them one step.
    Where it is in its files does not outlive the session. InvalidArgumentError for a size below 1.
    """

    def __init__(self, file_pattern: str, batch_size: int = 1, buffer_size: int = 1, parallelism: int = 1,
                 shift_ratio: float = 0, seed: int = 0, name: str | None = None, batches: int | None = None) -> None:
        if min(batch_size, buffer_size, parallelism, 1 if batches is None else batches) < 1:
            raise errors.InvalidArgumentError(
                f"RecordInput: batch_size, buffer_size, parallelism and batches are {batch_size}, {buffer_size}, {parallelism} "
                f"and {batches}; give 1 or more of each")
        self._batch_size, self._batches, self._name = batch_size, batches, name
        self._options = {"pattern": os.fsdecode(file_pattern), "capacity": buffer_size, "together": parallelism,
                         "shift": float(shift_ratio), "seed": seed}

    def get_yield_op(self) -> Any:
        """The records of a step: string [batch_size], or a list of `batches` lists of string scalars."""
        count = self._batch_size * (self._batches or 1)
        records = ops.record_input(count=count, name=self._name or "RecordInput", **self._options)
        if self._batches is None:
            return records
        apart = ops.unstack(records, num=count)
        return [apart[first::self._batches] for first in range(self._batches)]
