"""USER LEVEL: layers, cells, losses and initializers, written with public operations alone."""
from workbench.core import ops as _families  # noqa: F401  (registers the operations)
from workbench.core.graph.build import ops
from workbench.nn import zoo
from workbench.nn.composed import (
    batch_norm_with_global_normalization,
    conv1d,
    crelu,
    fused_batch_norm,
    log_poisson_loss,
    normalize_moments,
    sufficient_statistics,
    swish,
    weighted_cross_entropy_with_logits,
    weighted_moments,
    with_space_to_batch,
)
from workbench.nn.ctc import ctc_beam_search_decoder, ctc_greedy_decoder, ctc_loss
from workbench.nn.embedding import embedding_lookup
from workbench.nn.recurrent import rnn_cell
from workbench.nn.recurrent.rnn import bidirectional_dynamic_rnn, dynamic_rnn, static_bidirectional_rnn, static_rnn
from workbench.nn.recurrent.rnn_stacks import raw_rnn, static_state_saving_rnn
from workbench.nn.sampled import compute_accidental_hits, nce_loss, sampled_softmax_loss
from workbench.nn.sharded import sharded_softmax_cross_entropy
from workbench.nn.sparse import embedding_lookup_sparse

all_candidate_sampler = ops.all_candidate_sampler
atrous_conv2d = ops.atrous_conv2d
atrous_conv2d_transpose = ops.atrous_conv2d_transpose
avg_pool = ops.avg_pool
avg_pool3d = ops.avg_pool3d
batch_normalization = ops.batch_normalization
bias_add = ops.bias_add
conv2d = ops.conv2d
conv2d_backprop_filter = ops.conv2d_filter_gradient
conv2d_backprop_input = ops.conv2d_image_gradient
conv2d_transpose = ops.conv2d_transpose
conv3d = ops.conv3d
conv3d_backprop_filter_v2 = ops.conv3d_backprop_filter_v2
conv3d_transpose = ops.conv3d_transpose
convolution = ops.convolution
depthwise_conv2d = ops.depthwise_conv2d
depthwise_conv2d_native = ops.depthwise_conv2d_native
depthwise_conv2d_native_backprop_filter = ops.depthwise_filter_gradient
depthwise_conv2d_native_backprop_input = ops.depthwise_image_gradient
dilation2d = ops.dilation2d
dropout = ops.dropout
elu = ops.elu
erosion2d = ops.erosion2d
fixed_unigram_candidate_sampler = ops.fixed_unigram_candidate_sampler
fractional_avg_pool = ops.fractional_avg_pool
fractional_max_pool = ops.fractional_max_pool
in_top_k = ops.in_top_k
l2_loss = ops.l2_loss
l2_normalize = ops.l2_normalize
leaky_relu = ops.leaky_relu
learned_unigram_candidate_sampler = ops.learned_unigram_candidate_sampler
local_response_normalization = ops.lrn
log_sigmoid = ops.log_sigmoid
log_softmax = ops.log_softmax
log_uniform_candidate_sampler = ops.log_uniform_candidate_sampler
lrn = ops.lrn
max_pool = ops.max_pool
max_pool3d = ops.max_pool3d
max_pool_with_argmax = ops.max_pool_with_argmax
moments = ops.moments
pool = ops.pool
relu = ops.relu
relu6 = ops.relu6
relu_layer = ops.relu_layer
selu = ops.selu
separable_conv2d = ops.separable_conv2d
sigmoid = ops.sigmoid
sigmoid_cross_entropy_with_logits = ops.sigmoid_cross_entropy_with_logits
softmax = ops.softmax
softmax_cross_entropy_with_logits = ops.softmax_cross_entropy_with_logits
softmax_cross_entropy_with_logits_v2 = ops.softmax_cross_entropy_with_logits_v2
softplus = ops.softplus
softsign = ops.softsign
sparse_softmax_cross_entropy_with_logits = ops.sparse_softmax_cross_entropy_with_logits
tanh = ops.tanh
top_k = ops.top_k
uniform_candidate_sampler = ops.uniform_candidate_sampler
xw_plus_b = ops.xw_plus_b
zero_fraction = ops.zero_fraction

__all__ = [
    "all_candidate_sampler", "atrous_conv2d", "atrous_conv2d_transpose", "avg_pool", "avg_pool3d",
    "batch_norm_with_global_normalization", "batch_normalization", "bias_add", "bidirectional_dynamic_rnn",
    "compute_accidental_hits", "conv1d", "conv2d", "conv2d_backprop_filter", "conv2d_backprop_input",
    "conv2d_transpose", "conv3d", "conv3d_backprop_filter_v2", "conv3d_transpose", "convolution", "crelu",
    "ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_loss", "depthwise_conv2d", "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter", "depthwise_conv2d_native_backprop_input", "dilation2d", "dropout",
    "dynamic_rnn", "elu", "embedding_lookup", "embedding_lookup_sparse", "erosion2d", "fixed_unigram_candidate_sampler",
    "fractional_avg_pool", "fractional_max_pool", "fused_batch_norm", "in_top_k", "l2_loss", "l2_normalize",
    "leaky_relu", "learned_unigram_candidate_sampler", "local_response_normalization", "log_poisson_loss",
    "log_sigmoid", "log_softmax", "log_uniform_candidate_sampler", "lrn", "max_pool", "max_pool3d",
    "max_pool_with_argmax", "moments", "nce_loss", "normalize_moments", "pool", "raw_rnn", "relu", "relu6",
    "relu_layer", "rnn_cell", "sampled_softmax_loss", "selu", "separable_conv2d", "sharded_softmax_cross_entropy",
    "sigmoid", "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign", "sparse_softmax_cross_entropy_with_logits",
    "static_bidirectional_rnn", "static_rnn", "static_state_saving_rnn", "sufficient_statistics", "swish", "tanh", "top_k",
    "uniform_candidate_sampler", "weighted_cross_entropy_with_logits", "weighted_moments", "with_space_to_batch",
    "xw_plus_b", "zero_fraction", "zoo",
]
