// Rotary positions, GELU and SwiGLU.
// SPDX-License-Identifier: Apache-2.0

/// Rotary positions (Su et al. 2021): in every head of x [rows, heads x 2 half] the values i and
/// i + half are turned by the angle of (row modulo tokens, i), whose cosines and sines are
/// [tokens, half]; by its opposite with a `direction` of -1, which is the backward. A thread per 8
/// pairs, of which there are `count` times 8; half is a multiple of 8.
extern "C" __global__ void __launch_bounds__(256)
    turn(const bf16* x, const float* cosines, const float* sines, bf16* y, Index count,
         Index tokens, int heads, int half, float direction) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const int of_head = half / 8;
  const Index head = mine / of_head, first = 8 * (mine % of_head);
  const Index place = head * 2 * half + first;
  const Index angle = head / heads % tokens * half + first;
  const Eight a = *reinterpret_cast<const Eight*>(x + place);
  const Eight b = *reinterpret_cast<const Eight*>(x + place + half);
  Four c[2], s[2];
  for (int k = 0; k < 2; ++k) {
    c[k] = *reinterpret_cast<const Four*>(cosines + angle + 4 * k);
    s[k] = *reinterpret_cast<const Four*>(sines + angle + 4 * k);
  }
  float turned_a[8], turned_b[8];
  for (int j = 0; j < 8; ++j) {
    const float cosine = c[j / 4].of[j % 4], sine = direction * s[j / 4].of[j % 4];
    turned_a[j] = wide(a.of[j]) * cosine - wide(b.of[j]) * sine;
    turned_b[j] = wide(b.of[j]) * cosine + wide(a.of[j]) * sine;
  }
  put(y + place, turned_a);
  put(y + place + half, turned_b);
}

/// gelu(x) = x share, with the distribution function of the normal distribution, or of the logistic
/// one that approximates it (Hendrycks and Gimpel 2016). Every operation is written out: a value
/// that another kernel computes again has the same bits.
template <bool kIsTanh>
__device__ float gelu_share(float x) {
  if constexpr (!kIsTanh) return __fmul_rn(0.5F, __fadd_rn(1.0F, erff(__fmul_rn(x, 0.70710678F))));
  const float slope = __fmaf_rn(0.071354816F, __fmul_rn(x, x), 1.5957691F);
  return __fdividef(1.0F, __fadd_rn(1.0F, __expf(-__fmul_rn(x, slope))));
}

/// The derivative of gelu at x, for share = gelu_share(x).
template <bool kIsTanh>
__device__ float gelu_slope(float x, float share) {
  if constexpr (!kIsTanh) return share + x * 0.39894228F * __expf(-0.5F * x * x);
  return share + x * share * (1.0F - share) * (1.5957691F + 3 * 0.071354816F * x * x);
}

template <bool kIsTanh>
__device__ void gelu_of_eight(const bf16* x, bf16* y) {
  const Eight from = *reinterpret_cast<const Eight*>(x);
  float to[8];
  for (int j = 0; j < 8; ++j) {
    const float value = wide(from.of[j]);
    to[j] = __fmul_rn(value, gelu_share<kIsTanh>(value));
  }
  put(y, to);
}

/// For `count` times 8 values, a thread per 8.
extern "C" __global__ void __launch_bounds__(256)
    gelu(const bf16* x, bf16* y, Index count, int is_tanh) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  is_tanh != 0 ? gelu_of_eight<true>(x + 8 * mine, y + 8 * mine)
               : gelu_of_eight<false>(x + 8 * mine, y + 8 * mine);
}

/// The backward of gelu for a lane's 8 columns of its warp's rows, and their sums.
template <bool kIsTanh>
__device__ void gelu_backward_of_rows(bf16* dy, const bf16* x, bf16* y, Index rows, Index columns,
                                      Index column, float (&sum)[8]) {
  constexpr int kAtOnce = 2;  // rows that are loaded before the first store
  const Index step = 8 * static_cast<Index>(gridDim.y), first = threadIdx.x / 32;
  for (Index row = 8 * static_cast<Index>(blockIdx.y) + first; row < rows; row += kAtOnce * step) {
    Eight of_y[kAtOnce], from[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index at = (row + k * step) * columns + column;
      if (row + k * step >= rows) continue;
      of_y[k] = *reinterpret_cast<const Eight*>(dy + at);
      from[k] = *reinterpret_cast<const Eight*>(x + at);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index at = (row + k * step) * columns + column;
      if (row + k * step >= rows) continue;
      float again[8], of_x[8];
      for (int j = 0; j < 8; ++j) {
        const float value = wide(from[k].of[j]), share = gelu_share<kIsTanh>(value);
        again[j] = __fmul_rn(value, share);
        of_x[j] = rounded(wide(of_y[k].of[j]) * gelu_slope<kIsTanh>(value, share));
        sum[j] += of_x[j];
      }
      put(dy + at, of_x);
      if (y != nullptr) put(y + at, again);
    }
  }
}

/// The gradient of x [rows, columns] in the place of dy, the result's gradient, with what
/// column_parts would give of it, and its distribution of rows over blocks and warps. y becomes the
/// recomputed result unless it is null.
extern "C" __global__ void __launch_bounds__(256, 4)
    gelu_backward(bf16* dy, const bf16* x, bf16* y, float* parts, Index rows, Index columns,
                  int is_tanh) {
  const Index column = 256 * static_cast<Index>(blockIdx.x) + 8 * (threadIdx.x % 32);
  float sum[8] = {};
  if (column < columns) {
    is_tanh != 0 ? gelu_backward_of_rows<true>(dy, x, y, rows, columns, column, sum)
                 : gelu_backward_of_rows<false>(dy, x, y, rows, columns, column, sum);
  }
  column_part(sum, parts, columns);
}

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

/// y = silu(gate) up (Shazeer 2020), for `count` times 8 values, a thread per 8.
extern "C" __global__ void __launch_bounds__(256)
    swiglu(const bf16* gate, const bf16* up, bf16* y, Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  float result[8];
  for (int j = 0; j < 8; ++j) result[j] = wide(g.of[j]) * sigmoid(wide(g.of[j])) * wide(u.of[j]);
  put(y + 8 * mine, result);
}

/// The backward of `swiglu`: with s = sigmoid(gate), the gradients dy up s (1 + gate (1 - s)) and
/// dy gate s.
extern "C" __global__ void __launch_bounds__(256)
    swiglu_backward(const bf16* dy, const bf16* gate, const bf16* up, bf16* of_gate, bf16* of_up,
                    Index count) {
  const Index mine = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (mine >= count) return;
  const Eight d = reinterpret_cast<const Eight*>(dy)[mine];
  const Eight g = reinterpret_cast<const Eight*>(gate)[mine];
  const Eight u = reinterpret_cast<const Eight*>(up)[mine];
  float for_gate[8], for_up[8];
  for (int j = 0; j < 8; ++j) {
    const float x = wide(g.of[j]), s = sigmoid(x), of_y = wide(d.of[j]);
    for_gate[j] = of_y * wide(u.of[j]) * s * (1.0F + x * (1.0F - s));
    for_up[j] = of_y * x * s;
  }
  put(of_gate + 8 * mine, for_gate);
  put(of_up + 8 * mine, for_up);
}
