"""What TensorFlow calls the outputs of its operations: functions name them, other graphs count them."""
from __future__ import annotations

from typing import Any

from workbench import errors

__all__ = ["NAMED", "output_name", "output_place"]

# names of outputs: operations that have these; `*` is a list of outputs under one name.
_OUTPUTS = """
output: All Angle Any ArgMax ArgMin AsString AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BatchMatMul BatchMatMulV2 \\
    BatchMatMulV3 BatchToSpaceND BiasAdd BiasAddGrad Bitcast BroadcastTo CheckNumerics Cholesky Concat ConcatV2 Conj \\
    Const Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 \\
    Conv3DBackpropInputV2 CountUpTo CropAndResizeGradBoxes CropAndResizeGradImage DecodeBase64 DecodeCompressed DecodeRaw \\
    DepthToSpace DepthwiseConv2dNative Dequantize Diag DrawBoundingBoxes EditDistance Einsum EncodeBase64 Enter Exit \\
    ExpandDims FFT FFT2D FFT3D Fill Gather GatherNd GatherV2 HSVToRGB HostConst IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D \\
    Identity Imag L2Loss LRN LinSpace LoopCond LowerBound MatrixDeterminant MatrixDiag MatrixExponential MatrixInverse \\
    MatrixSetDiag MatrixSolve MatrixSolveLs MatrixTriangularSolve Max MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad \\
    MaxPoolGrad MaxPoolGradGrad Mean Min MirrorPad MirrorPadGrad Multinomial NextIteration OneHot Pack Pad PadV2 ParseTensor \\
    Placeholder PlaceholderV2 PlaceholderWithDefault PreventGradient Print Prod RFFT RFFT2D RFFT3D RGBToHSV RandomGamma \\
    RandomPoisson RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt Range Rank Real \\
    ReduceJoin RefEnter RefExit RefIdentity RefNextIteration RegexReplace Reshape ResizeBicubicGrad ResizeBilinearGrad \\
    ResizeNearestNeighborGrad ResourceCountUpTo ResourceGather ReverseSequence ReverseV2 Roll ScatterNd SegmentMax SegmentMin \\
    SegmentProd SegmentSum Select SelectV2 Shape Size Slice Snapshot SpaceToBatchND SpaceToDepth Squeeze StackPushV2 \\
    StopGradient StridedSlice StridedSliceGrad StringJoin StringStrip StringToHashBucket StringToHashBucketFast \\
    StringToHashBucketStrong StringToNumber Substr Sum Tile TruncatedNormal UnravelIndex UnsortedSegmentMax \\
    UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound TensorListConcatLists
y: Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Cast Ceil ComplexAbs Cos Cosh Digamma Erf Erfc Erfinv Exp \\
    Expm1 Floor Inv Invert InvertPermutation IsFinite IsInf IsNan Lgamma Log Log1p LogicalNot Ndtri Neg OnesLike Reciprocal \\
    Rint Round Rsqrt Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh Transpose ConjugateTranspose ZerosLike
z: Add AddV2 Atan2 Betainc BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual \\
    Igamma IgammaGradA Igammac InvGrad LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul NotEqual \\
    Polygamma Pow RealDiv ReciprocalGrad RightShift RsqrtGrad SigmoidGrad SqrtGrad SquaredDifference Sub TanhGrad TruncateDiv \\
    TruncateMod Zeta
handle: Barrier ConditionalAccumulator EmptyTensorList FIFOQueue FIFOQueueV2 GetSessionHandleV2 PaddingFIFOQueue \\
    PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 RandomShuffleQueue RandomShuffleQueueV2 SparseConditionalAccumulator \\
    StackV2 TensorArray TensorArrayV2 TensorListReserve
output_ref: Assign AssignAdd AssignSub ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdSub \\
    ScatterNdUpdate ScatterSub ScatterUpdate StridedSliceAssign
out: ApplyAdagrad ApplyAdam ApplyGradientDescent ApplyMomentum ApplyRMSProp Complex Cumprod Cumsum SparseApplyAdagrad \\
    SparseApplyMomentum SparseApplyRMSProp
reader_handle: FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 TFRecordReader \\
    TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2
flow_out: TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySplit TensorArraySplitV2 \\
    TensorArraySplitV3 TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3
size: BarrierIncompleteSize BarrierReadySize LookupTableSize LookupTableSizeV2 QueueSize QueueSizeV2 TensorArraySize \\
    TensorArraySizeV2 TensorArraySizeV3
output*: DecodeCSV IdentityN PyFunc PyFuncStateless ShapeN Split SplitV Unpack
value: GetSessionTensor ReadVariableOp TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayRead \\
    TensorArrayReadV2 TensorArrayReadV3
activations: Elu LeakyRelu Relu Relu6 Selu Softplus Softsign
backprops: EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad
components*: QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2
summary: AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary TensorSummaryV2
output output_min output_max: QuantizeDownAndShrinkRange QuantizeV2 QuantizedConcat QuantizedReshape Requantize
image: DecodeBmp DecodeGif DecodeJpeg DecodePng
resized_images: ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor
sampled_candidates true_expected_count sampled_expected_count: FixedUnigramCandidateSampler LearnedUnigramCandidateSampler \\
    LogUniformCandidateSampler UniformCandidateSampler
activations min_activations max_activations: QuantizedRelu QuantizedRelu6 QuantizedReluX
contents: EncodeJpeg EncodePng ReadFile
output min_output max_output: QuantizedAvgPool QuantizedConv2D QuantizedMaxPool
product: Cross MatMul SparseTensorDenseMatMul
value lengths: TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3
begin size bboxes: SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
diagonal: DiagPart MatrixDiagPart
grad_handle: TensorArrayGrad TensorArrayGradV2
indices values shape: SparseAccumulatorTakeGradient StringSplit
is_closed: QueueIsClosed QueueIsClosedV2
key value: ReaderRead ReaderReadV2
sparse_handle: AddSparseToTensorsMap
sparse_handles: AddManySparseToTensorsMap
keys values: ReaderReadUpTo ReaderReadUpToV2
loss backprop: SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
merged: DynamicStitch ParallelDynamicStitch
output value_index: Merge RefMerge
output_false output_true: RefSwitch Switch
precision: InTopK InTopKV2
records_produced: ReaderNumRecordsProduced ReaderNumRecordsProducedV2
ref: Variable VariableV2
selected_indices: NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
serialized_sparse: SerializeManySparse SerializeSparse
state: ReaderSerializeState ReaderSerializeStateV2
table_handle: HashTable HashTableV2
units_completed: ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2
values: LookupTableFind LookupTableFindV2 TensorListGather
values indices: TopK TopKV2
y batch_mean batch_variance reserve_space_1 reserve_space_2: FusedBatchNorm FusedBatchNormV2
average: AccumulatorTakeGradient
band: MatrixBandPart
binary_examples: DecodeJSONExample
bins: Bincount
crops: CropAndResize
decoded_indices decoded_values decoded_shape log_probability: CTCGreedyDecoder
decoded_indices* decoded_values* decoded_shape* log_probability: CTCBeamSearchDecoder
dense: SparseToDense
e v: SelfAdjointEigV2
elem: StackPopV2
filenames: MatchingFiles
grad_handle flow_out: TensorArrayGradV3
handle flow: TensorArrayV3
image_shape: ExtractJpegShape
index: Where
is_initialized: IsVariableInitialized VarIsInitializedOp
logsoftmax: LogSoftmax
loss gradient: CTCLoss
num_accumulated: AccumulatorNumAccumulated
offset*: ConcatOffset
out idx: ListDiff
out min_out max_out: QuantizedMatMul
output min_out max_out: QuantizedBiasAdd
output_indices output_shape: SparseReshape
output_indices output_values: SparseReorder
output_min output_max: RequantizationRange
outputs: FakeQuantWithMinMaxVars
outputs*: DynamicPartition
patches: ExtractImagePatches
q r: Qr
r0: BroadcastArgs
r0 r1: BroadcastGradientArgs
result_indices result_values result_shape: DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation
s u v: Svd
serialized: SerializeTensor
sign log_abs_determinant: LogMatrixDeterminant
softmax: Softmax
sparse_indices sparse_values sparse_shape: DeserializeManySparse TakeManySparseFromTensorsMap
sparse_indices* sparse_values* sparse_shapes* dense_values*: ParseExample
sum: AccumulateNV2 AddN
y idx: Unique
y idx count: UniqueWithCounts
y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3: FusedBatchNormV3
resource: VarHandleOp
output_handle: TensorListFromTensor TensorListPushBack TensorListResize TensorListScatter \\
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
tensor: TensorListStack
tensor lengths: TensorListConcat TensorListConcatV2
element_shape: TensorListElementShape
item: TensorListGetItem
length: TensorListLength
output_handle tensor: TensorListPopBack
""".replace("\\\n", "")


def _table() -> dict[str, list[str]]:
    rows = [line.partition(":") for line in _OUTPUTS.strip().splitlines()]
    return {kind: names.split() for names, _, kinds in rows for kind in kinds.split()}


NAMED = _table()
"""Operation -> the names of its outputs; `*` is behind that of a list."""


def output_name(node: Any, index: int) -> str:
    """How functions write output `index` of a node: its name, and its place in the list of outputs of that name.

    UnimplementedError for an operation whose outputs have unknown names.
    """
    names = NAMED.get(node.op)
    if names is None or (len(names) > 1 and any(name.endswith("*") for name in names)) or (
            index >= len(names) and not names[-1].endswith("*")):
        raise errors.UnimplementedError(f"as_graph_def: {node.name!r} ({node.op}) stands in a function, but what TensorFlow "
                                        f"calls its output {index} is not known; write it outside of functions")
    return f"{names[0][:-1]}:{index}" if names[0].endswith("*") else f"{names[index]}:0"


def output_place(kind: str, name: str) -> int | None:
    """The number of the first output of that name of an operation, None where it is not known."""
    names = [each.rstrip("*") for each in NAMED.get(kind, [name])]
    if name not in names or any(each.endswith("*") for each in NAMED.get(kind, [])[:names.index(name)]):
        return None if len(names) > 1 else 0
    return names.index(name)
