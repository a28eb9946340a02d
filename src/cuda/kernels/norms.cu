// Layer and RMS norms.
// SPDX-License-Identifier: Apache-2.0

/// As packed(), at any alignment.
__device__ inline Packed packed_one_by_one(const bf16* place) {
  Packed all;
  for (int i = 0; i < 4; ++i)
    all.of[i] = place[2 * i] | static_cast<unsigned>(place[2 * i + 1]) << 16;
  return all;
}

/// Makes the compiler compute again what it derived from x, instead of keeping it in registers.
__device__ inline void forget_what_was_made_of(Packed& x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x.of[0]), "+r"(x.of[1]), "+r"(x.of[2]), "+r"(x.of[3]));
#else
  (void)x;
#endif
}

/// A thread's 8 columns of the rows that its block processes one after the other: a row is loaded
/// while the one before it is processed.
struct Columns {
  Index count;  ///< columns of a row
  const Index first = 8 * static_cast<Index>(threadIdx.x);
  const bool are_there = first < count;
  const Index step = count * gridDim.x;            ///< from one row to the next
  const Index begin = count * blockIdx.x + first;  ///< offset of the thread's first value

  /// 0 where the row has no such columns.
  __device__ Packed of(const bf16* rows, Index place) const {
    return are_there ? packed(rows + place) : Packed{};
  }
  /// The same of a parameter, at any alignment.
  __device__ Packed of(const bf16* parameter) const {
    return are_there ? packed_one_by_one(parameter + first) : Packed{};
  }
};

/// Sums each of kCount values over the lanes of a warp, or over each group of 2 `half` lanes, all
/// of which get the result.
template <int kCount>
__device__ inline void over_lanes(float (&values)[kCount], int half = 16) {
  for (int distance = half; distance > 0; distance /= 2)
    for (int i = 0; i < kCount; ++i) values[i] += __shfl_xor_sync(0xffffffffU, values[i], distance);
}

/// Sums each of kCount values over all threads of the block, which all get the result. The block
/// has whole warps, at most 32.
class BlockSums {
 public:
  __device__ BlockSums() {
    const int warps = blockDim.x / 32;
    int group = 1;  // lanes that together read the results of all warps
    while (group < warps) group *= 2;
    half_ = group / 2;
    reads_ = lane_ & (group - 1);
    has_more_ = reads_ < warps;
  }

  template <int kCount>
  __device__ void over_block(float (&values)[kCount]) {
    __shared__ float of_warps[2][kCount][32];
    over_lanes(values);
    // Calls alternate between two buffers: a late warp has read one before it is overwritten.
    auto& place = of_warps[calls_++ & 1];
    if (lane_ == 0)
      for (int i = 0; i < kCount; ++i) place[i][threadIdx.x / 32] = values[i];
    __syncthreads();
    for (int i = 0; i < kCount; ++i) values[i] = has_more_ ? place[i][reads_] : 0;
    over_lanes(values, half_);
  }

 private:
  const int lane_ = threadIdx.x % 32;
  int half_, reads_, calls_ = 0;
  bool has_more_;
};

/// Every operation is an intrinsic: a result that another kernel computes again has the same bits.
__device__ inline float normed(float off, float scale, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(off, scale), weight, bias);
}

/// y = h weight + bias with h = (x - mean) scale, row by row; mean and scale, which is 1 /
/// sqrt(variance + epsilon), are stored as well. Without `means` it is an RMS norm: there is no
/// mean and no bias. A thread per 8 columns. `weight` and `bias` have any alignment.
extern "C" __global__ void __launch_bounds__(1024)
    row_norm(const bf16* x, const bf16* weight, const bf16* bias, bf16* y, float* means,
             float* scales, Index rows, Index columns, float epsilon) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Packed weights = mine.of(weight), biases = is_centred ? mine.of(bias) : Packed{};
  const float share = 1.0F / static_cast<float>(columns);
  BlockSums sums;
  Index at = mine.begin;
  Packed next = mine.of(x, at);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Packed here = next;
    if (row + gridDim.x < rows) next = mine.of(x, at + mine.step);
    float off[8], mean[1] = {}, squares[1] = {};
    for (int j = 0; j < 8; ++j) off[j] = wide(here, j);
    if (is_centred) {
      for (int j = 0; j < 8; ++j) mean[0] += off[j];
      sums.over_block(mean);
      mean[0] *= share;
      for (int j = 0; j < 8; ++j) off[j] = __fadd_rn(off[j], -mean[0]);
    }
    for (int j = 0; j < 8; ++j) squares[0] += off[j] * off[j];
    if (!mine.are_there) squares[0] = 0;
    sums.over_block(squares);
    const float scale = rsqrtf(share * squares[0] + epsilon);
    if (threadIdx.x == 0) {
      if (is_centred) means[row] = mean[0];
      scales[row] = scale;
    }
    for (int j = 0; j < 8; ++j) off[j] = normed(off[j], scale, wide(weights, j), wide(biases, j));
    if (mine.are_there) put(y + at, off);
    at += mine.step;
  }
}

/// `row_norm` of rows of at most 256 kEights values, a warp per row: each lane has kEights times 8
/// of them, and no warp waits for another one. Blocks of 4 warps.
template <int kEights>
__device__ void norm_by_warps(const bf16* x, const bf16* weight, const bf16* bias, bf16* y,
                              float* means, float* scales, Index rows, Index columns,
                              float epsilon) {
  __shared__ Packed weights[32 * kEights], biases[32 * kEights];
  const bool is_centred = means != nullptr;
  for (int i = threadIdx.x; 8 * i < columns; i += blockDim.x) {
    weights[i] = packed_one_by_one(weight + 8 * i);
    biases[i] = is_centred ? packed_one_by_one(bias + 8 * i) : Packed{};
  }
  __syncthreads();
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const auto is_there = [&](int k) { return 8 * (lane + 32 * k) < columns; };
  const float share = 1.0F / static_cast<float>(columns);
  const Index step = static_cast<Index>(gridDim.x) * warps;
  for (Index row = static_cast<Index>(blockIdx.x) * warps + threadIdx.x / 32; row < rows;
       row += step) {
    const Index at = row * columns + 8 * lane;
    float off[kEights][8], sum[1] = {}, squares[1] = {};
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      const Packed here = is_there(k) ? packed(x + at + 256 * k) : Packed{};
      for (int j = 0; j < 8; ++j) {
        off[k][j] = wide(here, j);
        sum[0] += off[k][j];
      }
    }
    float mean = 0;
    if (is_centred) {
      over_lanes(sum);
      mean = sum[0] * share;
    }
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      for (int j = 0; j < 8; ++j) {
        off[k][j] = __fadd_rn(off[k][j], -mean);
        if (is_there(k)) squares[0] += off[k][j] * off[k][j];
      }
    }
    over_lanes(squares);
    const float scale = rsqrtf(share * squares[0] + epsilon);
    if (lane == 0) {
      if (is_centred) means[row] = mean;
      scales[row] = scale;
    }
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      if (!is_there(k)) continue;
      const Packed of_weight = weights[lane + 32 * k], of_bias = biases[lane + 32 * k];
      for (int j = 0; j < 8; ++j)
        off[k][j] = normed(off[k][j], scale, wide(of_weight, j), wide(of_bias, j));
      put(y + at + 256 * k, off[k]);
    }
  }
}

#define NORM_BY_WARPS(EIGHTS)                                                                    \
  extern "C" __global__ void __launch_bounds__(128, 1)                                           \
      row_norm_##EIGHTS(const bf16* x, const bf16* weight, const bf16* bias, bf16* y,            \
                        float* means, float* scales, Index rows, Index columns, float epsilon) { \
    norm_by_warps<EIGHTS>(x, weight, bias, y, means, scales, rows, columns, epsilon);            \
  }
NORM_BY_WARPS(2)
NORM_BY_WARPS(3)
NORM_BY_WARPS(4)
NORM_BY_WARPS(5)
NORM_BY_WARPS(7)
NORM_BY_WARPS(8)
#undef NORM_BY_WARPS

/// The backward of `row_norm`: with g = dy weight, dx = (g - mean(g) - h mean(g h)) scale, without
/// mean(g) for an RMS norm; `more` [rows, columns] is added to it unless it is null. dx may be dy.
/// With kAgain y becomes the recomputed result. A thread per 8 columns. Block b writes its rows'
/// sums of dy h, and with `means` also of dy, to row b of `parts` [gridDim.x, columns, or twice as
/// many].
template <bool kAgain>
__device__ void norm_backward(const bf16* dy, const bf16* x, const float* means,
                              const float* scales, const bf16* weight, const bf16* bias,
                              const bf16* more, bf16* dx, bf16* y, float* parts, Index rows,
                              Index columns) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  Packed weights = mine.of(weight);
  const Packed biases = kAgain && is_centred ? mine.of(bias) : Packed{};
  const float share = 1.0F / static_cast<float>(columns);
  float of_weight[8] = {}, of_bias[8] = {};
  BlockSums over;
  Index at = mine.begin;
  Packed next_x = mine.of(x, at), next_dy = mine.of(dy, at);
  float next_mean = is_centred ? means[blockIdx.x] : 0, next_scale = scales[blockIdx.x];
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    Packed here_x = next_x, here_dy = next_dy;
    const float mean = next_mean, scale = next_scale;
    const Packed here_more = more != nullptr ? mine.of(more, at) : Packed{};
    const Index next = row + gridDim.x;
    if (next < rows) {
      next_x = mine.of(x, at + mine.step);
      next_dy = mine.of(dy, at + mine.step);
      if (is_centred) next_mean = means[next];
      next_scale = scales[next];
    }
    const auto off = [&](int j) { return __fadd_rn(wide(here_x, j), -mean); };
    const auto g = [&](int j) { return wide(here_dy, j) * wide(weights, j); };
    float sums[2] = {};            // of g and of g (x - mean)
    for (int j = 0; j < 8; ++j) {  // where there is no column, dy and so every term is 0
      of_weight[j] += wide(here_dy, j) * (off(j) * scale);
      of_bias[j] += wide(here_dy, j);
      sums[0] += g(j);
      sums[1] += g(j) * off(j);
    }
    over.over_block(sums);
    // Registers that hold no second copy of a row leave room for more blocks.
    for (Packed* const one : {&here_x, &here_dy, &weights}) forget_what_was_made_of(*one);
    const float constant = is_centred ? -share * scale * sums[0] : 0;
    const float slope = -share * scale * scale * scale * sums[1];
    if (mine.are_there) {
      float result[8];
      for (int j = 0; j < 8; ++j)
        result[j] = g(j) * scale + (off(j) * slope + constant) + wide(here_more, j);
      put(dx + at, result);
      if constexpr (kAgain) {
        for (int j = 0; j < 8; ++j)
          result[j] = normed(off(j), scale, wide(weights, j), wide(biases, j));
        put(y + at, result);
      }
    }
    at += mine.step;
  }
  if (!mine.are_there) return;
  float* const part = parts + (is_centred ? 2 : 1) * blockIdx.x * columns + mine.first;
  for (int j = 0; j < 8; ++j) {
    part[j] = of_weight[j];
    if (is_centred) part[columns + j] = of_bias[j];
  }
}

// Rows of up to 2048 values have a block of up to 256 threads, which may have more registers.
#define NORM_BACKWARD(NAME, THREADS, AGAIN)                                                      \
  extern "C" __global__ void __launch_bounds__(THREADS, 1)                                       \
      NAME(const bf16* dy, const bf16* x, const float* means, const float* scales,               \
           const bf16* weight, const bf16* bias, const bf16* more, bf16* dx, bf16* y,            \
           float* parts, Index rows, Index columns) {                                            \
    norm_backward<AGAIN>(dy, x, means, scales, weight, bias, more, dx, y, parts, rows, columns); \
  }
NORM_BACKWARD(row_norm_backward, 256, false)
NORM_BACKWARD(row_norm_backward_again, 256, true)
NORM_BACKWARD(wide_norm_backward, 1024, false)
NORM_BACKWARD(wide_norm_backward_again, 1024, true)
#undef NORM_BACKWARD
