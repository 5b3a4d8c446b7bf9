"""What datasets without functions give, element by element: rows, files, order and number, batches."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state import tfrecord as records
from workbench.core.state.passing import Element, Failure, Found, Program, Run, failed

__all__ = ["CHECKS", "KINDS"]

Array = np.ndarray[Any, Any]


# sources

def _tensors(run: Run, sources: Sequence[Program]) -> Iterator[Found]:
    yield tuple(_element(run.value(source)) for source in sources)


def _slices(run: Run, sources: Sequence[Program]) -> Iterator[Found]:
    columns = [run.value(source) for source in sources]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise errors.InvalidArgumentError(f"from_tensor_slices: the tensors have {', '.join(map(str, sorted(lengths)))} "
                                          "rows; give each the same number")
    for row in zip(*columns):
        yield tuple(_element(part) for part in row)


def _partitions(run: Run, name: str) -> Iterator[Found]:
    yield from run.partitions(name)


def _check_range(run: Run, start: Any, stop: Any, step: Any) -> None:
    if not run.number(step):
        raise errors.InvalidArgumentError("Dataset.range: step must be a non-zero integer; it is 0")


def _range(run: Run, start: Any, stop: Any, step: Any) -> Iterator[Found]:
    _check_range(run, start, stop, step)
    for value in range(run.number(start), run.number(stop), run.number(step)):
        yield (np.asarray(value, np.int64),)


def _element(value: Any) -> Array:
    return np.array(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)


def _files(run: Run, source: Program, compression: Any = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(compression, str):
        compression = np.asarray(run.value(compression), object).item().decode()
    if compression and compression not in records.WINDOWS:
        raise errors.InvalidArgumentError(f"dataset: compression type {compression!r} is none of '', 'ZLIB' and 'GZIP'; use "
                                          "one of these")
    for raw in np.asarray(run.value(source), object).ravel():
        path = raw.decode("utf-8", "surrogateescape")
        try:
            file = open(path, "rb")      # noqa: SIM115
        except OSError as error:
            raise errors.NotFoundError(f"dataset: {path!r} cannot be read ({error.strerror}); check the path") from None
        with file:
            yield path, records.expanded(file, compression, path)


def _lines(run: Run, source: Program, compression: Any = "") -> Iterator[Found]:
    for _, file in _files(run, source, compression):
        for line in file:
            yield (_element(line.removesuffix(b"\n").removesuffix(b"\r")),)


def _records(run: Run, source: Program, compression: Any = "") -> Iterator[Found]:
    for path, file in _files(run, source, compression):
        for _, record in records.frames(file, path):
            yield (_element(record),)


def _fixed(run: Run, source: Program, size: int, header: int, footer: int) -> Iterator[Found]:
    for _, file in _files(run, source):
        end = file.seek(0, 2) - footer
        file.seek(header)
        while file.tell() + size <= end:
            yield (_element(file.read(size)),)


# order and number

def _room(run: Run, program: Program, buffer: Any, *seeds: Any) -> int:
    room = run.number(buffer)
    if room < 1:
        raise errors.InvalidArgumentError(f"shuffle: buffer_size is {room}; use 1 or more")
    return room


def _shuffle(run: Run, program: Program, buffer: Any, seed: int, seed2: Any, again: bool) -> Iterator[Found]:
    room = _room(run, program, buffer)
    seeds = seed, run.number(seed2)
    generator = run.generator(*seeds) if again else Run(()).generator(*seeds)
    held: list[Found] = []
    for element in run.elements(program):
        if len(held) < room:
            held.append(element)
            continue
        place = int(generator.integers(room))
        out, held[place] = held[place], element
        yield out
    for place in generator.permutation(len(held)).tolist():
        yield held[place]


def _repeat(run: Run, program: Program, count: Any) -> Iterator[Found]:
    epochs = run.number(count)
    for _ in itertools.count() if epochs < 0 else range(epochs):
        first = True
        for element in run.elements(program):
            first = False
            yield element
        if first:      # nothing to repeat for ever
            return


def _take(run: Run, program: Program, count: Any) -> Iterator[Found]:
    most = run.number(count)
    return itertools.islice(run.elements(program), None if most < 0 else most)


def _skip(run: Run, program: Program, count: Any) -> Iterator[Found]:
    least = run.number(count)
    return iter(()) if least < 0 else itertools.islice(run.elements(program), least, None)


def _shard(run: Run, program: Program, count: Any, index: Any) -> Iterator[Found]:
    return itertools.islice(run.elements(program), run.number(index), None, run.number(count))


def _zip(run: Run, programs: Sequence[Program]) -> Iterator[Found]:
    for parts in zip(*[run.elements(program) for program in programs]):
        yield failed(parts) or tuple(itertools.chain.from_iterable(parts))


def _concatenate(run: Run, programs: Sequence[Program]) -> Iterator[Found]:
    return itertools.chain.from_iterable(run.elements(program) for program in programs)


def _batch(run: Run, program: Program, size: Any, drop: bool) -> Iterator[Found]:
    for rows in _groups(run, program, size, drop):
        yield _together(rows, lambda rows: tuple(_stacked(column) for column in zip(*rows)))


def _size(run: Run, program: Program, size: Any, *more: Any) -> int:
    count = run.number(size)
    if count < 1:
        raise errors.InvalidArgumentError(f"batch: batch_size is {count}; use 1 or more")
    return count


def _groups(run: Run, program: Program, size: Any, drop: bool) -> Iterator[list[Found]]:
    count = _size(run, program, size)
    source = run.elements(program)
    while rows := list(itertools.islice(source, count)):
        if len(rows) < count and drop:
            return
        yield rows


def _together(rows: Sequence[Found], make: Callable[[Sequence[Element]], Element]) -> Found:
    broken = failed(rows)
    if broken is not None:
        return broken
    try:
        return make(rows)      # type: ignore[arg-type]
    except errors.Error as error:
        return Failure(error)


def _stacked(column: Sequence[Array]) -> Array:
    shapes = sorted({part.shape for part in column})
    if len(shapes) > 1:
        raise errors.InvalidArgumentError(f"batch: elements have shapes {list(shapes[0])} and {list(shapes[1])}; all of a "
                                          "batch must have one")
    return np.stack(column)


def _padded(run: Run, program: Program, size: Any, shapes: Sequence[Program], values: Sequence[Program],
            drop: bool) -> Iterator[Found]:
    wanted = [tuple(int(d) for d in run.value(shape)) for shape in shapes]
    fillers = [run.value(value) for value in values]
    for rows in _groups(run, program, size, drop):
        yield _together(rows, lambda rows: tuple(
            _filled(column, shape, filler) for column, shape, filler in zip(zip(*rows), wanted, fillers)))


def _filled(column: Sequence[Array], wanted: tuple[int, ...], filler: Array) -> Array:
    """The parts in the corners of one array, `filler` elsewhere; -1 is the longest of the batch."""
    if any(part.ndim != len(wanted) for part in column):
        found = next(part.shape for part in column if part.ndim != len(wanted))
        raise errors.InvalidArgumentError(f"padded_batch: an element has shape {list(found)} but padded_shapes "
                                          f"{list(wanted)}; give it a dimension for each of the element")
    longest = [max(part.shape[i] for part in column) for i in range(len(wanted))]
    shape = [most if given < 0 else given for given, most in zip(wanted, longest)]
    if any(most > size for most, size in zip(longest, shape)):
        raise errors.DataLossError(f"padded_batch: Attempted to pad to a smaller size than the input element: {longest} does "
                                   f"not fit into {shape}; raise padded_shapes")
    made = np.full([len(column), *shape], filler, column[0].dtype)
    for row, part in enumerate(column):
        corner: tuple[Any, ...] = (row, *map(slice, part.shape))
        made[corner] = part
    return made


def _unbatched(run: Run, program: Program) -> Iterator[Found]:
    for element in run.elements(program):
        if isinstance(element, Failure):
            yield element
            continue
        if len({len(part) for part in element}) > 1:
            yield Failure(errors.InvalidArgumentError(f"unbatch: the parts of an element have "
                                                      f"{', '.join(str(len(part)) for part in element)} rows; give each the "
                                                      "same number"))
            continue
        for row in zip(*element):
            yield tuple(_element(part) for part in row)


KINDS: dict[str, Callable[..., Iterator[Found]]] = {
    "tensors": _tensors, "slices": _slices, "partitions": _partitions, "range": _range, "lines": _lines, "records": _records,
    "fixed": _fixed, "shuffle": _shuffle, "repeat": _repeat, "take": _take, "skip": _skip, "shard": _shard,
    "zip": _zip, "concatenate": _concatenate, "batch": _batch, "padded": _padded, "unbatch": _unbatched}
CHECKS: dict[str, Callable[..., Any]] = {"range": _check_range, "shuffle": _room, "batch": _size, "padded": _size}
