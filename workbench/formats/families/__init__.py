"""Operations and their twins in TensorFlow, one family a file; loading the package fills the tables."""
from workbench.formats.families import (
    arithmetic,
    arrays,
    flow,
    gradients,
    list_readers,
    lists,
    lookups,
    networks,
    quantized,
    state,
    step_arrays,
    texts,
)

__all__ = ["arithmetic", "arrays", "flow", "gradients", "list_readers", "lists", "lookups", "networks", "quantized", "state",
           "step_arrays", "texts"]
