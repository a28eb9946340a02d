// Layer and RMS norms.
// SPDX-License-Identifier: Apache-2.0

/// A thread's 8 columns of rows that its block works on, one after the other: a row's values are on
/// their way while the one before it is worked on.
struct Columns {
  Index count;  ///< of a row
  Index first = 8 * static_cast<Index>(threadIdx.x);

  __device__ bool are_there() const { return first < count; }
  __device__ Eight of(const bf16* rows, Index row) const {
    return are_there() ? *reinterpret_cast<const Eight*>(rows + row * count + first) : Eight{};
  }
  /// Of a parameter, of any alignment.
  __device__ Eight of(const bf16* parameter) const {
    Eight all{};
    if (!are_there()) return all;
    for (int j = 0; j < 8; ++j) all.of[j] = parameter[first + j];
    return all;
  }
};

__device__ inline Pair sum(Pair a, Pair b) {
  return {a.first + b.first, a.second + b.second};
}

/// Every operation is written out: a result that is made again by another kernel has the same bits.
__device__ inline float normed(float x, float mean, float scale, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(__fadd_rn(x, -mean), scale), weight, bias);
}

/// y = h weight + bias with h = (x - mean) scale, row by row; mean and scale, which is
/// 1 / sqrt(variance + epsilon), are given as well. Without `means` it is an RMS norm: there is no
/// mean and no bias. A thread per 8 columns. `weight` and `bias` have any alignment.
extern "C" __global__ void __launch_bounds__(1024)
    row_norm(const bf16* x, const bf16* weight, const bf16* bias, bf16* y, float* means,
             float* scales, Index rows, Index columns, float epsilon) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight), biases = is_centred ? mine.of(bias) : Eight{};
  const float share = 1.0F / static_cast<float>(columns);
  int calls = 0;
  Eight next = mine.of(x, blockIdx.x);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here = next;
    if (row + gridDim.x < rows) next = mine.of(x, row + gridDim.x);
    float mean = 0;
    if (is_centred) {
      Pair total{0, 0};
      for (int j = 0; j < 8; ++j) total.first += wide(here.of[j]);
      mean = share * over_block(total, Pair{0, 0}, calls, sum).first;
    }
    Pair squares{0, 0};
    for (int j = 0; j < 8; ++j) {
      const float off = mine.are_there() ? wide(here.of[j]) - mean : 0;
      squares.first += off * off;
    }
    const float variance = share * over_block(squares, Pair{0, 0}, calls, sum).first;
    const float scale = 1.0F / sqrtf(variance + epsilon);
    if (threadIdx.x == 0) {
      if (is_centred) means[row] = mean;
      scales[row] = scale;
    }
    if (!mine.are_there()) continue;
    Eight result;
    for (int j = 0; j < 8; ++j)
      result.of[j] =
          narrow(normed(wide(here.of[j]), mean, scale, wide(weights.of[j]), wide(biases.of[j])));
    put(y + row * columns + mine.first, result);
  }
}

/// The backward of `row_norm`: with g = dy weight, dx = (g - mean(g) - h mean(g h)) scale, without
/// mean(g) for an RMS norm; `more` [rows, columns] is added to it unless it is null. dx may be
/// where dy is. With kAgain y becomes the result again. A thread per 8 columns. Each block gives
/// the sums over its rows of dy h, and where there are means of dy: row b of `parts` [gridDim.x,
/// columns, or twice as many].
template <bool kAgain>
__device__ void norm_backward(const bf16* dy, const bf16* x, const float* means,
                              const float* scales, const bf16* weight, const bf16* bias,
                              const bf16* more, bf16* dx, bf16* y, float* parts, Index rows,
                              Index columns) {
  const Columns mine{columns};
  const bool is_centred = means != nullptr;
  const Eight weights = mine.of(weight);
  const Eight biases = kAgain && is_centred ? mine.of(bias) : Eight{};
  const float share = 1.0F / static_cast<float>(columns);
  float of_weight[8] = {}, of_bias[8] = {};
  int calls = 0;
  Eight next_x = mine.of(x, blockIdx.x), next_dy = mine.of(dy, blockIdx.x);
  float next_mean = is_centred ? means[blockIdx.x] : 0, next_scale = scales[blockIdx.x];
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Eight here_x = next_x, here_dy = next_dy;
    const float mean = next_mean, scale = next_scale;
    const Eight here_more = more != nullptr ? mine.of(more, row) : Eight{};
    const Index next = row + gridDim.x;
    if (next < rows) {
      next_x = mine.of(x, next);
      next_dy = mine.of(dy, next);
      if (is_centred) next_mean = means[next];
      next_scale = scales[next];
    }
    const auto h = [&](int j) { return (wide(here_x.of[j]) - mean) * scale; };
    const auto g = [&](int j) { return wide(here_dy.of[j]) * wide(weights.of[j]); };
    Pair total{0, 0};
    for (int j = 0; j < 8; ++j) {  // where there is no column, dy and so every term is 0
      of_weight[j] += wide(here_dy.of[j]) * h(j);
      of_bias[j] += wide(here_dy.of[j]);
      total = sum(total, {g(j), g(j) * h(j)});
    }
    Pair all = over_block(total, Pair{0, 0}, calls, sum);
    if (!is_centred) all.first = 0;
    if (!mine.are_there()) continue;
    Eight result;
    for (int j = 0; j < 8; ++j)
      result.of[j] =
          narrow((g(j) - share * (all.first + h(j) * all.second)) * scale + wide(here_more.of[j]));
    put(dx + row * columns + mine.first, result);
    if (!kAgain) continue;
    for (int j = 0; j < 8; ++j)
      result.of[j] =
          narrow(normed(wide(here_x.of[j]), mean, scale, wide(weights.of[j]), wide(biases.of[j])));
    put(y + row * columns + mine.first, result);
  }
  if (!mine.are_there()) return;
  float* const part = parts + (is_centred ? 2 : 1) * blockIdx.x * columns + mine.first;
  for (int j = 0; j < 8; ++j) {
    part[j] = of_weight[j];
    if (is_centred) part[columns + j] = of_bias[j];
  }
}

extern "C" __global__ void __launch_bounds__(1024)
    row_norm_backward(const bf16* dy, const bf16* x, const float* means, const float* scales,
                      const bf16* weight, const bf16* more, bf16* dx, float* parts, Index rows,
                      Index columns) {
  norm_backward<false>(dy, x, means, scales, weight, nullptr, more, dx, nullptr, parts, rows,
                       columns);
}

extern "C" __global__ void __launch_bounds__(1024)
    row_norm_backward_again(const bf16* dy, const bf16* x, const float* means, const float* scales,
                            const bf16* weight, const bf16* bias, const bf16* more, bf16* dx,
                            bf16* y, float* parts, Index rows, Index columns) {
  norm_backward<true>(dy, x, means, scales, weight, bias, more, dx, y, parts, rows, columns);
}
