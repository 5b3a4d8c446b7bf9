"""Operations and their twins in TensorFlow, one family a file; loading the package fills the tables."""
from workbench.formats.families import (
    arithmetic,
    arrays,
    channels,
    decoding,
    flow,
    gradients,
    inputs,
    later,
    list_readers,
    listed_arrays,
    lists,
    lookups,
    mathematics,
    networks,
    pictures,
    quantized,
    sampling,
    state,
    step_arrays,
    texts,
    turns,
)

__all__ = ["arithmetic", "arrays", "channels", "decoding", "flow", "gradients", "inputs", "later", "list_readers",
           "listed_arrays", "lists", "lookups", "mathematics", "networks", "pictures", "quantized", "sampling", "state",
           "step_arrays", "texts", "turns"]
